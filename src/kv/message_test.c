/* SPDX-License-Identifier: Apache-2.0 */
/* message_test.c - what is put is decoded as it was, and what cannot be is refused by name. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kv/message.h"

static struct kv_codec codec;
static uint8_t frame[KV_FRAME_BYTES + KV_BYTES_MAX + 4096];
static size_t frame_bytes;

static const uint64_t some_key[] = { 0, 1, 127, 128, 300, 1ull << 40, UINT64_MAX };
static float some_value[7 * 3];

static struct kv_message sent_and_got(const struct kv_message *message)
{
	struct kv_message got = { 0 };

	frame_bytes = kv_put(message, frame);
	assert_true(frame_bytes <= kv_bytes(message));
	assert_int_equal(kv_frame_bytes(frame, sizeof(frame)), frame_bytes);
	codec.fault[0] = 0;
	if (kv_decode(&codec, frame, frame_bytes, &got))
		fail_msg("refused: %s", codec.fault);
	assert_int_equal(got.type, message->type);
	return got;
}

static void refused(const char *because)
{
	struct kv_message got;

	assert_int_equal(kv_decode(&codec, frame, frame_bytes, &got), -EINVAL);
	if (!strstr(codec.fault, because))
		fail_msg("'%s' and not '%s'", codec.fault, because);
}

static struct kv_message batch(void)
{
	for (unsigned i = 0; i < 7 * 3; i++)
		some_value[i] = i % 2 ? (float)i * 0.25f : -(float)i;
	return (struct kv_message){ .type = KV_BATCH,
				    .table = 5,
				    .number = 77,
				    .dim = 3,
				    .count = 7,
				    .key = some_key,
				    .value = some_value };
}

static struct kv_message hello(void)
{
	return (struct kv_message){ .type = KV_HELLO,
				    .version = KV_VERSION,
				    .worker = 3,
				    .workers = 4,
				    .pid = 4711,
				    .incarnation = 0x123456789abcdef0,
				    .job = "ctr",
				    .secret = "",
				    .host = "node-7" };
}

static struct kv_message opened(void)
{
	struct kv_message message = { .type = KV_OPENED,
				      .name = "words.v2",
				      .table = 2,
				      .dim = 8,
				      .window = 3,
				      .bytes = 1472,
				      .ranks = 1000,
				      .map = 6,
				      .patience_us = 20000,
				      .scale = 65536.0f,
				      .is_known = true,
				      .must_report = true,
				      .generation = 9,
				      .epoch = 1ull << 50,
				      .number = 12,
				      .barrier = 1ull << 33,
				      .server = 3,
				      .servers = 5,
				      .is_used = true,
				      .text = "made as it is",
				      .row = { 9, 7, 8 } };

	memcpy(message.nonce, "0123456789abcdef", KV_NONCE_BYTES);
	memcpy(message.identity, "fedcba9876543210", KV_IDENTITY_BYTES);
	return message;
}

static void kv__hello_and_opened_come_as_they_were(void **state)
{
	struct kv_message message = hello(), got = sent_and_got(&message);

	(void)state;
	assert_int_equal(got.worker, 3);
	assert_int_equal(got.workers, 4);
	assert_int_equal(got.pid, 4711);
	assert_true(got.incarnation == message.incarnation);
	assert_string_equal(got.job, "ctr");
	assert_string_equal(got.secret, "");
	assert_string_equal(got.host, "node-7");

	message = opened();
	got = sent_and_got(&message);
	assert_string_equal(got.name, "words.v2");
	assert_int_equal(got.table, 2);
	assert_int_equal(got.dim, 8);
	assert_int_equal(got.window, 3);
	assert_int_equal(got.bytes, 1472);
	assert_int_equal(got.ranks, 1000);
	assert_int_equal(got.map, 6);
	assert_int_equal(got.patience_us, 20000);
	assert_true(got.scale == 65536.0f);
	assert_true(got.is_known);
	assert_true(got.must_report);
	assert_false(got.is_stepped);
	assert_true(got.generation == 9);
	assert_true(got.epoch == 1ull << 50);
	assert_true(got.number == 12);
	assert_true(got.barrier == 1ull << 33);
	assert_memory_equal(got.nonce, message.nonce, KV_NONCE_BYTES);
	assert_memory_equal(got.identity, message.identity, KV_IDENTITY_BYTES);
	assert_int_equal(got.server, 3);
	assert_int_equal(got.servers, 5);
	assert_true(got.is_used);
	assert_string_equal(got.text, "made as it is");
	assert_memory_equal(got.row, message.row, 3 * sizeof(uint64_t));
}

static void kv__batch_comes_as_it_was(void **state)
{
	struct kv_message message = batch(), got = sent_and_got(&message);

	(void)state;
	assert_int_equal(got.table, 5);
	assert_true(got.number == 77);
	assert_int_equal(got.count, 7);
	assert_memory_equal(got.key, some_key, sizeof(some_key));
	assert_memory_equal(got.value, some_value, sizeof(some_value));
}

static void kv__pull_and_pulled_come_as_they_were(void **state)
{
	struct kv_message message = batch(), got;

	(void)state;
	message.type = KV_PULL;
	message.generation = 4;
	message.epoch = 19;
	got = sent_and_got(&message);
	assert_true(got.generation == 4);
	assert_true(got.epoch == 19);
	assert_memory_equal(got.key, some_key, sizeof(some_key));
	message.type = KV_PULLED;
	some_value[4] = INFINITY; /* what a model has become is told as it is */
	got = sent_and_got(&message);
	assert_true(got.epoch == 19);
	assert_int_equal(got.count, 7);
	assert_memory_equal(got.value, some_value, sizeof(some_value));
}

static void kv__map_switch_and_the_small_ones_come_as_they_were(void **state)
{
	static const uint64_t by_rank[] = { 900, 3, UINT64_MAX, 0 };
	struct kv_message message = { .type = KV_MAP,
				      .table = 1,
				      .map = 2,
				      .ranks = 10,
				      .first = 6,
				      .count = 4,
				      .key = by_rank };
	struct kv_message got = sent_and_got(&message);

	(void)state;
	assert_memory_equal(got.key, by_rank, sizeof(by_rank));
	assert_int_equal(got.first, 6);
	assert_int_equal(got.ranks, 10);
	message = (struct kv_message){ .type = KV_SWITCH,
				       .table = 1,
				       .index = 40,
				       .port = 7171,
				       .map = 2,
				       .generation = 3,
				       .ip = { 1, 2, 3 },
				       .nonce = { 9 },
				       .registers = 1024,
				       .packing = KV_DEAL };
	got = sent_and_got(&message);
	assert_int_equal(got.registers, 1024);
	assert_int_equal(got.packing, KV_DEAL);
	assert_int_equal(got.index, 40);
	assert_int_equal(got.port, 7171);
	assert_true(got.generation == 3);
	assert_memory_equal(got.ip, message.ip, 16);
	assert_memory_equal(got.nonce, message.nonce, 16);
	message = (struct kv_message){
		.type = KV_ERROR,
		.about = KV_BATCH,
		.refusal = KV_REFUSED_DISK,
		.table = 1,
		.worker = KV_NOBODY,
		.number = 5,
		.text = "no space left on device",
	};
	got = sent_and_got(&message);
	assert_int_equal(got.about, KV_BATCH);
	assert_int_equal(got.refusal, KV_REFUSED_DISK);
	assert_string_equal(got.text, "no space left on device");
	message = (struct kv_message){ .type = KV_BARRIER, .table = 1, .number = 8, .epoch = 3 };
	got = sent_and_got(&message);
	assert_true(got.number == 8);
	assert_true(got.epoch == 3);
	message = (struct kv_message){ .type = KV_DONE, .table = 1, .number = 8, .epoch = 30 };
	assert_true(sent_and_got(&message).epoch == 30);
	message = (struct kv_message){
		.type = KV_WELCOME, .version = 1, .port = 9, .heartbeat_ms = 500
	};
	assert_int_equal(sent_and_got(&message).heartbeat_ms, 500);
	message.type = KV_LEAVE;
	sent_and_got(&message);
	message.type = KV_ALIVE;
	sent_and_got(&message);
}

static void kv__open_says_whose_server_it_is_for(void **state)
{
	struct kv_message message = {
		.type = KV_OPEN,
		.name = "w",
		.dim = 64,
		.mode = KV_BOUNDED,
		.staleness = 5,
		.server = 0,
		.servers = 64,
	};
	struct kv_message got = sent_and_got(&message);

	(void)state;
	assert_int_equal(got.dim, 64);
	assert_int_equal(got.mode, KV_BOUNDED);
	assert_int_equal(got.staleness, 5);
	assert_int_equal(got.servers, 64);
	message.server = 63;
	message.is_used = true;
	message.identity[15] = 1;
	message.own[7] = 9;
	message.program = 1ull << 63 | 5;
	got = sent_and_got(&message);
	assert_int_equal(got.server, 63);
	assert_true(got.is_used);
	assert_memory_equal(got.identity, message.identity, KV_IDENTITY_BYTES);
	assert_memory_equal(got.own, message.own, KV_IDENTITY_BYTES);
	assert_true(got.program == message.program);
	frame[frame_bytes - 25] = 0;
	refused("OPEN: identity is missing");
	frame[frame_bytes - 25] = 1;
	frame[frame_bytes - 43] = 63; /* servers */
	refused("OPEN: server is out of range");
	frame[frame_bytes - 43] = 65;
	refused("OPEN: servers is out of range");
}

static void kv__report_comes_as_it_was(void **state)
{
	struct kv_message message = {
		.type = KV_REPORT, .table = 1, .window = 2, .number = 1ull << 40, .row = { 4, 7 }
	};
	struct kv_message got = sent_and_got(&message);

	(void)state;
	assert_int_equal(got.table, 1);
	assert_int_equal(got.window, 2);
	assert_true(got.number == 1ull << 40);
	assert_true(got.row[0] == 4 && got.row[1] == 7);
}

static void kv__neighbouring_keys_take_one_byte_each(void **state)
{
	static uint64_t key[1000];
	struct kv_message message = { .type = KV_PULL, .number = 1, .count = 1000, .key = key };
	size_t none;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		key[i] = 5 + 3 * i;
	message.count = 0;
	none = kv_put(&message, frame);
	message.count = 1000;
	assert_int_equal(kv_put(&message, frame), none + 1000);
}

static void kv__longest_messages_fit(void **state)
{
	static uint64_t key[KV_KEYS_MAX];
	static float value[KV_VALUES_MAX];
	struct kv_message message = batch();

	(void)state;
	for (uint32_t i = 0; i < KV_KEYS_MAX; i++)
		key[i] = (i + 1) * 0xfffffffffull;
	message.key = key;
	message.value = value;
	message.dim = 8;
	message.count = kv_keys_max(8);
	assert_int_equal(message.count, 16384);
	sent_and_got(&message);
	message.dim = 64;
	message.count = kv_keys_max(64);
	assert_int_equal(message.count, 2048);
	sent_and_got(&message);
	assert_true(frame_bytes <= KV_FRAME_BYTES + KV_BYTES_MAX);
}

/* From outside, with all the bytes that it claims: its keys would find room, its values would not. */
static void refused_with_one_more(const struct kv_message *message, size_t at_count,
				  const char *because)
{
	frame_bytes = kv_put(message, frame);
	sparse_body_put32(frame + KV_FRAME_BYTES + at_count, message->count + 1);
	frame_bytes += KV_KEY_BYTES_MAX + 4u * message->dim;
	sparse_body_put32(frame, (uint32_t)frame_bytes - KV_FRAME_BYTES);
	refused(because);
}

static void kv__more_values_than_there_is_room_for_are_refused(void **state)
{
	static uint64_t key[KV_KEYS_MAX];
	static float value[KV_VALUES_MAX];
	struct kv_message message = batch();

	(void)state;
	for (uint32_t i = 0; i < KV_KEYS_MAX; i++)
		key[i] = i;
	message.key = key;
	message.value = value;
	for (uint16_t dim = 9; dim <= SPARSE_DIM_MAX; dim++) {
		message.dim = dim;
		message.count = kv_keys_max(dim);
		message.type = KV_BATCH;
		refused_with_one_more(&message, 1 + 2 + 8 + 2, "BATCH: count is out of range");
		message.type = KV_PULLED;
		refused_with_one_more(&message, 1 + 2 + 8 + 8 + 8 + 2,
				      "PULLED: count is out of range");
	}
}

static void kv__unsorted_and_repeated_keys_are_refused(void **state)
{
	uint64_t key[] = { 7, 5 };
	struct kv_message message = { .type = KV_PULL, .number = 1, .count = 2, .key = key };

	(void)state;
	frame_bytes = kv_put(&message, frame);
	refused("PULL: keys are not ascending");
	key[0] = 5;
	frame_bytes = kv_put(&message, frame);
	refused("PULL: keys are not ascending");
}

static void kv__key_has_one_form(void **state)
{
	uint64_t key[] = { 5 };
	struct kv_message message = { .type = KV_PULL, .number = 1, .count = 1, .key = key };

	(void)state;
	frame_bytes = kv_put(&message, frame);
	frame[frame_bytes - 1] |= 0x80; /* 5, and a zero in front */
	frame[frame_bytes++] = 0;
	sparse_body_put32(frame, (uint32_t)frame_bytes - KV_FRAME_BYTES);
	refused("keys are not coded");
	key[0] = UINT64_MAX;
	frame_bytes = kv_put(&message, frame);
	frame[frame_bytes - 1] = 2; /* more than 64 bits */
	refused("keys are not coded");
}

static void kv__nan_and_infinity_in_a_batch_are_refused(void **state)
{
	struct kv_message message = batch();

	(void)state;
	some_value[20] = NAN;
	frame_bytes = kv_put(&message, frame);
	refused("BATCH: values are not all finite");
	some_value[20] = -INFINITY;
	frame_bytes = kv_put(&message, frame);
	refused("BATCH: values are not all finite");
}

static void kv__fields_out_of_range_are_refused_by_name(void **state)
{
	struct kv_message message = hello();

	(void)state;
	frame_bytes = kv_put(&message, frame);
	frame[KV_FRAME_BYTES + 1 + 4] = 4; /* worker 4 of 4 */
	refused("HELLO: worker is out of range");
	frame_bytes = kv_put(&message, frame);
	memset(frame + KV_FRAME_BYTES + 1 + 10, 0, 8);
	refused("HELLO: incarnation is out of range");
	message = opened();
	frame_bytes = kv_put(&message, frame);
	frame[KV_FRAME_BYTES + 1 + 2] = '/';
	refused("OPENED: name has other characters");
	frame_bytes = kv_put(&message, frame);
	frame[KV_FRAME_BYTES + 1 + 2] = 0;
	refused("OPENED: name has a zero");
	message = (struct kv_message){ .type = KV_REPORT, .window = 2, .number = 3 };
	frame_bytes = kv_put(&message, frame);
	frame[KV_FRAME_BYTES + 1 + 2] = SPARSE_WINDOW_MAX + 1;
	refused("REPORT: window is out of range");
	frame_bytes = kv_put(&message, frame);
	memset(frame + KV_FRAME_BYTES + 1 + 4, 0xff, 8);
	refused("REPORT: number is out of range");
	frame_bytes = kv_put(&message, frame) - 1;
	sparse_body_put32(frame, (uint32_t)frame_bytes - KV_FRAME_BYTES);
	refused("REPORT: row is missing");
	message = batch();
	frame_bytes = kv_put(&message, frame);
	frame[KV_FRAME_BYTES + 1 + 10] = 65;
	refused("BATCH: dim is out of range");
	message = (struct kv_message){
		.type = KV_MAP, .map = 1, .ranks = 2, .first = 1, .count = 1, .key = some_key
	};
	frame_bytes = kv_put(&message, frame);
	frame[KV_FRAME_BYTES + 1 + 10] = 2;
	refused("MAP: count is more than there are ranks");
}

static void kv__every_cut_and_every_longer_frame_is_refused(void **state)
{
	struct kv_message message = batch(), got;
	size_t whole = kv_put(&message, frame);

	(void)state;
	for (size_t bytes = KV_FRAME_BYTES + 1; bytes < whole; bytes++) {
		sparse_body_put32(frame, (uint32_t)(bytes - KV_FRAME_BYTES));
		assert_int_equal(kv_decode(&codec, frame, bytes, &got), -EINVAL);
	}
	frame_bytes = whole + 1;
	sparse_body_put32(frame, (uint32_t)(frame_bytes - KV_FRAME_BYTES));
	refused("BATCH: length is more");
}

static void kv__frame_is_whole_or_not_or_never(void **state)
{
	struct kv_message message = batch();
	size_t whole = kv_put(&message, frame);

	(void)state;
	for (size_t have = 0; have < whole; have++)
		assert_int_equal(kv_frame_bytes(frame, have), 0);
	assert_int_equal(kv_frame_bytes(frame, whole + 100), whole);
	sparse_body_put32(frame, KV_BYTES_MAX + 1);
	assert_true(kv_frame_bytes(frame, whole) == SIZE_MAX);
	sparse_body_put32(frame, 0);
	assert_true(kv_frame_bytes(frame, whole) == SIZE_MAX);
	sparse_body_put32(frame, 1);
	frame_bytes = 5;
	frame[4] = KV_TYPE_END;
	refused("message: type");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__hello_and_opened_come_as_they_were),
		cmocka_unit_test(kv__batch_comes_as_it_was),
		cmocka_unit_test(kv__pull_and_pulled_come_as_they_were),
		cmocka_unit_test(kv__map_switch_and_the_small_ones_come_as_they_were),
		cmocka_unit_test(kv__open_says_whose_server_it_is_for),
		cmocka_unit_test(kv__report_comes_as_it_was),
		cmocka_unit_test(kv__neighbouring_keys_take_one_byte_each),
		cmocka_unit_test(kv__longest_messages_fit),
		cmocka_unit_test(kv__more_values_than_there_is_room_for_are_refused),
		cmocka_unit_test(kv__unsorted_and_repeated_keys_are_refused),
		cmocka_unit_test(kv__key_has_one_form),
		cmocka_unit_test(kv__nan_and_infinity_in_a_batch_are_refused),
		cmocka_unit_test(kv__fields_out_of_range_are_refused_by_name),
		cmocka_unit_test(kv__every_cut_and_every_longer_frame_is_refused),
		cmocka_unit_test(kv__frame_is_whole_or_not_or_never),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
