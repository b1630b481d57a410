/* SPDX-License-Identifier: Apache-2.0 */
/* message_bytes_test.c - each message, byte by byte: another program may have written it. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kv/message.h"

/* What R-KV-2, R-KV-3 and R-KV-4 make of all_fields(): hexadecimal digits, and texts as they are. */
static const char *const golden[KV_TYPE_END] = {
	[KV_HELLO] = "01 0302 0400 0300 14131211 3837363534333231 0300'job' 0300'key' 0400'host'",
	[KV_WELCOME] = "02 0302 0605 18171615",
	[KV_OPEN] =
		"03 0400'name' 0100 01 0c0b0a00 0200 0500 01 'it is this table' 'and these others'"
		"a8a7a6a5a4a3a2a1",
	[KV_OPENED] = "04 0400'name' 0201 0100 0200 c005 201f1e1d 24232221 1c1b1a19 0000003f 01 01"
		      "00 01 4847464544434241 5857565554535251 6867666564636261 7877767574737271"
		      "'a nonce is a few' 0200 0500 01 'it is this table' 'and these others'"
		      "0400'text' 8887868584838281 9897969594939291",
	[KV_MAP] = "05 0201 24232221 201f1e1d 04030201 02000000 0500000000000000 3101000000000000",
	[KV_SWITCH] = "06 0201 0807 0605 24232221 4847464544434241 'an IPv6 address.'"
		      "'a nonce is a few' 0901 02",
	[KV_BATCH] = "07 0201 6867666564636261 0100 02000000 05 ac02 0000c03f 000000c0",
	[KV_DONE] = "08 0201 6867666564636261 4847464544434241 5857565554535251",
	[KV_PULL] = "09 0201 6867666564636261 4847464544434241 5857565554535251 02000000 05 ac02",
	[KV_PULLED] = "0a 0201 6867666564636261 4847464544434241 5857565554535251 0100 02000000"
		      "0000c03f 000000c0",
	[KV_BARRIER] = "0b 0201 6867666564636261 4847464544434241 5857565554535251",
	[KV_LEAVE] = "0c",
	[KV_ERROR] = "0d 07 0b00 0201 0300 6867666564636261 0400'text'",
	[KV_ALIVE] = "0e",
	[KV_REPORT] = "0f 0201 0200 6867666564636261 8887868584838281 9897969594939291",
};

static struct kv_message all_fields(enum kv_type type)
{
	static const uint64_t key[] = { 5, 305 };
	static const float value[] = { 1.5f, -2 };
	struct kv_message message = { .type = type,
				      .about = KV_BATCH,
				      .refusal = KV_REFUSED_GONE,
				      .table = 0x0102,
				      .version = 0x0203,
				      .worker = 3,
				      .workers = 4,
				      .port = 0x0506,
				      .index = 0x0708,
				      .registers = 0x0109,
				      .packing = KV_DEAL,
				      .dim = 1,
				      .window = 2,
				      .bytes = 0x05c0,
				      .values = SPARSE_LNS,
				      .is_stepped = true,
				      .mode = KV_BOUNDED,
				      .staleness = 0x0a0b0c,
				      .must_report = true,
				      .server = 2,
				      .servers = 5,
				      .is_used = true,
				      .pid = 0x11121314,
				      .heartbeat_ms = 0x15161718,
				      .patience_us = 0x191a1b1c,
				      .ranks = 0x1d1e1f20,
				      .map = 0x21222324,
				      .first = 0x01020304,
				      .scale = 0.5f,
				      .incarnation = 0x3132333435363738,
				      .program = 0xa1a2a3a4a5a6a7a8,
				      .generation = 0x4142434445464748,
				      .epoch = 0x5152535455565758,
				      .number = 0x6162636465666768,
				      .barrier = 0x7172737475767778,
				      .row = { 0x8182838485868788, 0x9192939495969798 },
				      .job = "job",
				      .secret = "key",
				      .host = "host",
				      .name = "name",
				      .text = "text",
				      .count = 2,
				      .key = key,
				      .value = value };

	memcpy(message.nonce, "a nonce is a few", KV_NONCE_BYTES);
	memcpy(message.identity, "it is this table", KV_IDENTITY_BYTES);
	memcpy(message.own, "and these others", KV_IDENTITY_BYTES);
	memcpy(message.ip, "an IPv6 address.", sizeof(message.ip));
	return message;
}

/* How many bytes `text` stands for; those are at `at`. */
static size_t bytes_of(const char *text, uint8_t *at)
{
	size_t count = 0;
	unsigned byte;

	while (*text) {
		if (*text == '\'') {
			for (text++; *text != '\''; text++)
				at[count++] = (uint8_t)*text;
			text++;
		} else if (isspace((unsigned char)*text)) {
			text++;
		} else {
			assert_int_equal(sscanf(text, "%2x", &byte), 1);
			at[count++] = (uint8_t)byte;
			text += 2;
		}
	}
	return count;
}

/* R-KV-1: and a length before it. */
static void kv__messages_are_as_the_protocol_has_them(void **state)
{
	static struct kv_codec codec;
	uint8_t want[1024], frame[4096];

	(void)state;
	for (uint32_t type = KV_HELLO; type < KV_TYPE_END; type++) {
		struct kv_message message = all_fields((enum kv_type)type), got = { 0 };
		size_t bytes = bytes_of(golden[type], want), frame_bytes = kv_put(&message, frame);

		if (frame_bytes != 4 + bytes || memcmp(frame + 4, want, bytes) != 0)
			fail_msg("%s has other bytes", kv_type_name((enum kv_type)type));
		assert_int_equal(frame[0] | frame[1] << 8 | frame[2] << 16 | frame[3] << 24, bytes);
		assert_int_equal(kv_decode(&codec, frame, frame_bytes, &got), 0);
	}
}

/* All that a message may have at most has room. */
static void kv__the_longest_texts_have_room(void **state)
{
	uint8_t frame[4096];

	(void)state;
	for (uint32_t type = KV_HELLO; type < KV_TYPE_END; type++) {
		struct kv_message message = all_fields((enum kv_type)type);

		memset(message.job, 'a', sizeof(message.job) - 1);
		memset(message.secret, 'a', sizeof(message.secret) - 1);
		memset(message.host, 'a', sizeof(message.host) - 1);
		memset(message.name, 'a', sizeof(message.name) - 1);
		memset(message.text, 'a', sizeof(message.text) - 1);
		message.window = SPARSE_WINDOW_MAX;
		assert_true(kv_put(&message, frame) <= kv_bytes(&message));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__messages_are_as_the_protocol_has_them),
		cmocka_unit_test(kv__the_longest_texts_have_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
