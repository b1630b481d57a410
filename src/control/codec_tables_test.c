/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of tables (R-CT-28 to R-CT-31) as JSON: claims. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/codec.h"

static struct codec codec;

static const uint8_t nonces[CONTROL_NONCES_MAX][WIRE_NONCE_BYTES] = { "worker 0", "worker 1",
								      "\xff the server" };

static struct control_message open_message(void)
{
	struct control_message message;

	memset(&message, 0,
	       sizeof(message)); /* what is not named, too: messages are compared as bytes */
	message.type = CONTROL_TABLE_OPEN;
	message.table_open = (struct control_table_open){
		.version_min = 1,
		.version_max = 3,
		.workers = 256,
		.window = 64,
		.dim = 63,
		.bytes = 8192,
		.is_stepped = 1,
		.ranks = 1 << 30,
		.pid = 4000000000,
		.pairs_max = INT64_MAX,
		.age_us = UINT32_MAX,
		.job = "ctr",
		.table = "emb/1",
		.host = "ps-0",
		.key = "secret",
	};
	return message;
}

static struct control_message grant_message(void)
{
	struct control_message message;

	memset(&message, 0, sizeof(message));
	message.type = CONTROL_TABLE_GRANT;
	message.table_grant = (struct control_table_grant){
		.ip = { 0xfd, [15] = 2 },
		.port = 7172,
		.version = 1,
		.index = 255,
		.nonces_count = 3,
		.heartbeat_ms = CONTROL_HEARTBEAT_MS_MAX,
		.instance = UINT64_MAX,
		.memory = 1ull << 40,
		.registers = 1024,
		.nonces = nonces,
	};
	return message;
}

static void there_and_back(const struct control_message *message, struct control_message *back)
{
	uint8_t *frame;
	size_t bytes;

	assert_int_equal(codec_encode(&codec, message, &frame, &bytes), 0);
	assert_int_equal(wire_get32(frame), bytes - CODEC_LENGTH_BYTES);
	assert_int_equal(codec_decode(&codec, frame + CODEC_LENGTH_BYTES,
				      bytes - CODEC_LENGTH_BYTES, back),
			 0);
	assert_int_equal(message->type, back->type);
	free(frame);
}

static void assert_refused(const char *json, const char *error)
{
	struct control_message message;

	assert_int_equal(codec_decode(&codec, (const uint8_t *)json, strlen(json), &message),
			 -EINVAL);
	assert_string_equal(codec.error, error);
}

static void assert_not_sent(const struct control_message *message, const char *error)
{
	uint8_t *frame;
	size_t bytes;

	assert_int_equal(codec_encode(&codec, message, &frame, &bytes), -EINVAL);
	assert_string_equal(codec.error, error);
}

static void codec__an_opening_survives_the_wire(void **state)
{
	struct control_message message = open_message(), back;

	(void)state;
	there_and_back(&message, &back);
	assert_memory_equal(&message.table_open, &back.table_open, sizeof(back.table_open));
}

static void codec__a_grant_of_each_size_survives_the_wire(void **state)
{
	static const uint16_t counts[] = { 2, 3, CONTROL_NONCES_MAX };

	(void)state;
	for (uint32_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		struct control_message message = grant_message(), back;

		message.table_grant.nonces_count = counts[i];
		there_and_back(&message, &back);
		assert_memory_equal(&message.table_grant, &back.table_grant,
				    offsetof(struct control_table_grant, nonces));
		assert_memory_equal(back.table_grant.nonces, nonces,
				    (size_t)counts[i] * WIRE_NONCE_BYTES);
	}
}

static void codec__a_beat_is_a_serial_or_all_that_there_is(void **state)
{
	static const char question[] = "{\"type\":\"TABLE_BEAT\",\"serial\":9}";
	struct control_message message, back;

	(void)state;
	memset(&message, 0, sizeof(message));
	message.type = CONTROL_TABLE_BEAT;
	message.table_beat = (struct control_table_beat){ .serial = UINT32_MAX,
							  .index = 255,
							  .instance = 0x8000000000000001,
							  .generation = UINT64_MAX,
							  .memory_used = 5,
							  .memory_max = 1ull << 33,
							  .parts = 1ull << 40 };
	there_and_back(&message, &back);
	assert_memory_equal(&message.table_beat, &back.table_beat, sizeof(back.table_beat));
	assert_int_equal(
		codec_decode(&codec, (const uint8_t *)question, sizeof(question) - 1, &back), 0);
	assert_int_equal(back.table_beat.serial, 9);
	assert_true(!back.table_beat.instance);
	message.type = CONTROL_TABLE_CLOSE;
	there_and_back(&message, &back);
}

static void assert_open_refused(const char *rest, const char *error)
{
	char json[1024];

	snprintf(json, sizeof(json),
		 "{\"type\":\"TABLE_OPEN\",\"version_min\":1,\"version_max\":1,\"job\":\"j\","
		 "\"host\":\"h\",%s}",
		 rest);
	assert_refused(json, error);
}

static void codec__what_is_wrong_with_an_opening_is_named(void **state)
{
	struct control_message message = open_message();

	(void)state;
	assert_open_refused("\"ranks\":1", "TABLE_OPEN: no key \"table\"");
	assert_open_refused("\"table\":\"\"",
			    "TABLE_OPEN: key \"table\" has 0 bytes, not 1 to 255");
	assert_open_refused("\"table\":\"t\",\"ranks\":0",
			    "TABLE_OPEN: key \"ranks\" is not a number from 1 to 1073741824");
	assert_open_refused("\"table\":\"t\",\"ranks\":1,\"workers\":257",
			    "TABLE_OPEN: key \"workers\" is not a number from 1 to 256");
	assert_open_refused("\"table\":\"t\",\"ranks\":1,\"workers\":1,\"window\":65",
			    "TABLE_OPEN: key \"window\" is not a number from 1 to 64");
	assert_open_refused("\"table\":\"t\",\"ranks\":1,\"workers\":1,\"window\":1,\"dim\":0",
			    "TABLE_OPEN: key \"dim\" is not a number from 1 to 64");
	assert_open_refused(
		"\"table\":\"t\",\"ranks\":1,\"workers\":1,\"window\":1,\"dim\":1,\"bytes\":8193",
		"TABLE_OPEN: key \"bytes\" is not a number from 1 to 8192");
	message.table_open.dim = 65;
	assert_not_sent(&message, "TABLE_OPEN: key \"dim\" is 65, not 1 to 64");
}

static const char grant_start[] = "{\"type\":\"TABLE_GRANT\",\"version\":1,\"port\":1,\"index\":0,"
				  "\"heartbeat_ms\":100,\"instance\":\"000000000000000%c\"%s}";

static void assert_grant_refused(char digit, const char *rest, const char *error)
{
	char json[1024];

	snprintf(json, sizeof(json), grant_start, digit, rest);
	assert_refused(json, error);
}

static void codec__what_is_wrong_with_a_grant_is_named(void **state)
{
	static const char one[] = "\"000102030405060708090a0b0c0d0e0f\"";
	struct control_message message = grant_message();
	char rest[256];

	(void)state;
	assert_grant_refused('1', "", "TABLE_GRANT: no key \"nonces\"");
	assert_grant_refused('1', ",\"nonces\":{}", "TABLE_GRANT: key \"nonces\" is not an array");
	snprintf(rest, sizeof(rest), ",\"nonces\":[%s]", one);
	assert_grant_refused('1', rest, "TABLE_GRANT: key \"nonces\" has 1 elements, not 2 to 257");
	snprintf(rest, sizeof(rest), ",\"nonces\":[%s,5]", one);
	assert_grant_refused('1', rest, "TABLE_GRANT: key \"nonces\" is not a string");
	snprintf(rest, sizeof(rest), ",\"nonces\":[%s,\"00\"]", one);
	assert_grant_refused('1', rest, "TABLE_GRANT: key \"nonces\" is not 32 hexadecimal digits");
	snprintf(rest, sizeof(rest), ",\"nonces\":[%s,%s]", one, one);
	assert_grant_refused('0', rest, "TABLE_GRANT: key \"instance\" is 0");
	message.table_grant.nonces_count = 1;
	assert_not_sent(&message, "TABLE_GRANT: key \"nonces\" has 1 elements");
	message = grant_message();
	message.table_grant.instance = 0;
	assert_not_sent(&message, "TABLE_GRANT: key \"instance\" is 0");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(codec__an_opening_survives_the_wire),
		cmocka_unit_test(codec__a_grant_of_each_size_survives_the_wire),
		cmocka_unit_test(codec__a_beat_is_a_serial_or_all_that_there_is),
		cmocka_unit_test(codec__what_is_wrong_with_an_opening_is_named),
		cmocka_unit_test(codec__what_is_wrong_with_a_grant_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
