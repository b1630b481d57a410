/* SPDX-License-Identifier: Apache-2.0 */
/* message_bounds_test.c - the least and the most that each number of a message may be, and what is just beyond. */
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
static uint64_t key[KV_KEYS_MAX + 1];
static float value[KV_VALUES_MAX + SPARSE_DIM_MAX];

/* A message of a type in which any of its numbers may be the least or the most that it may be. */
static struct kv_message sound(enum kv_type type)
{
	return (struct kv_message){ .type = type,
				    .refusal = KV_REFUSED_BUSY,
				    .version = 1,
				    .workers = SWITCH_CHILDREN_MAX,
				    .port = 1,
				    .dim = 1,
				    .window = 2,
				    .mode = KV_BOUNDED,
				    .servers = KV_SERVERS_MAX,
				    .heartbeat_ms = 1,
				    .ranks = UINT32_MAX,
				    .map = 1,
				    .scale = 1,
				    .incarnation = 1,
				    .generation = 1,
				    .number = 1,
				    .identity = { 1 },
				    .job = "j",
				    .name = "n",
				    .text = "t",
				    .key = key,
				    .value = value };
}

/* A number, and how many bytes it has in a frame. */
struct bound {
	enum kv_type type;
	const char *name;
	size_t at;
	unsigned size, wire;
	uint64_t least, most;
};

static void number_set(struct kv_message *message, const struct bound *bound, uint64_t number)
{
	uint8_t *at = (uint8_t *)message + bound->at;
	uint16_t two = (uint16_t)number;
	uint32_t four = (uint32_t)number;

	assert_true(bound->size == 2 || bound->size == 4 || bound->size == 8);
	memcpy(at,
	       bound->size == 2   ? (void *)&two
	       : bound->size == 4 ? (void *)&four
				  : (void *)&number,
	       bound->size);
}

static void taken(const struct bound *bound, uint64_t number)
{
	struct kv_message message = sound(bound->type), got = { .type = KV_NOTHING };

	number_set(&message, bound, number);
	if (kv_decode(&codec, frame, kv_put(&message, frame), &got))
		fail_msg("%s of %llu: %s", bound->name, (unsigned long long)number, codec.fault);
	assert_int_equal(got.type, bound->type);
	assert_memory_equal((uint8_t *)&got + bound->at, (uint8_t *)&message + bound->at,
			    bound->size);
}

/* Where the number is in the frame of `message`: kv_put itself writes none that is beyond. */
static size_t place_of(struct kv_message message, const struct bound *bound)
{
	static uint8_t other[sizeof(frame)];
	size_t at = KV_FRAME_BYTES, bytes;

	number_set(&message, bound, bound->least + 1);
	bytes = kv_put(&message, other);
	number_set(&message, bound, bound->least);
	kv_put(&message, frame);
	while (at < bytes && frame[at] == other[at])
		at++;
	assert_true(at < bytes);
	return at;
}

static void refused_in(struct kv_message message, const struct bound *bound, uint64_t number)
{
	size_t at = place_of(message, bound);
	struct kv_message got;
	char words[64];

	snprintf(words, sizeof(words), ": %s is out of range", bound->name);
	for (unsigned i = 0; i < bound->wire; i++)
		frame[at + i] = (uint8_t)(number >> 8 * i);
	assert_int_equal(kv_decode(&codec, frame, kv_frame_bytes(frame, sizeof(frame)), &got),
			 -EINVAL);
	if (!strstr(codec.fault, words))
		fail_msg("%s of %llu: %s", bound->name, (unsigned long long)number, codec.fault);
}

static void refused(const struct bound *bound, uint64_t number)
{
	refused_in(sound(bound->type), bound, number);
}

#define NUMBER(type, field, wire, least, most)                                        \
	{                                                                             \
		type, #field, offsetof(struct kv_message, field),                     \
			sizeof(((struct kv_message *)NULL)->field), wire, least, most \
	}

/* clang-format off */
static const struct bound bounds[] = {
	NUMBER(KV_HELLO, version, 2, 1, UINT16_MAX),
	NUMBER(KV_HELLO, workers, 2, 1, SWITCH_CHILDREN_MAX),
	NUMBER(KV_HELLO, worker, 2, 0, SWITCH_CHILDREN_MAX - 1),
	NUMBER(KV_HELLO, pid, 4, 0, UINT32_MAX),
	NUMBER(KV_HELLO, incarnation, 8, 1, UINT64_MAX),
	NUMBER(KV_WELCOME, version, 2, 1, UINT16_MAX),
	NUMBER(KV_WELCOME, port, 2, 1, UINT16_MAX),
	NUMBER(KV_WELCOME, heartbeat_ms, 4, 1, UINT32_MAX),
	NUMBER(KV_OPEN, dim, 2, 1, SPARSE_DIM_MAX),
	NUMBER(KV_OPEN, mode, 1, KV_ASYNC, KV_SYNC),
	NUMBER(KV_OPEN, staleness, 4, 0, KV_STALENESS_MAX),
	NUMBER(KV_OPEN, server, 2, 0, KV_SERVERS_MAX - 1),
	NUMBER(KV_OPEN, servers, 2, 1, KV_SERVERS_MAX),
	NUMBER(KV_OPEN, program, 8, 0, UINT64_MAX),
	NUMBER(KV_OPENED, table, 2, 0, KV_NO_TABLE - 1),
	NUMBER(KV_OPENED, dim, 2, 1, SPARSE_DIM_MAX),
	NUMBER(KV_OPENED, window, 2, 1, SPARSE_WINDOW_MAX),
	NUMBER(KV_OPENED, bytes, 2, 0, SPARSE_BYTES_MAX),
	NUMBER(KV_OPENED, ranks, 4, 0, UINT32_MAX),
	NUMBER(KV_OPENED, map, 4, 0, UINT32_MAX),
	NUMBER(KV_OPENED, patience_us, 4, 0, UINT32_MAX),
	NUMBER(KV_OPENED, values, 1, SPARSE_FIXED, SPARSE_LNS),
	NUMBER(KV_OPENED, generation, 8, 0, UINT64_MAX),
	NUMBER(KV_OPENED, epoch, 8, 0, UINT64_MAX),
	NUMBER(KV_OPENED, number, 8, 1, UINT64_MAX),
	NUMBER(KV_OPENED, barrier, 8, 0, UINT64_MAX - 1),
	NUMBER(KV_OPENED, server, 2, 0, KV_SERVERS_MAX - 1),
	NUMBER(KV_OPENED, servers, 2, 1, KV_SERVERS_MAX),
	NUMBER(KV_REPORT, table, 2, 0, KV_NO_TABLE - 1),
	NUMBER(KV_REPORT, window, 2, 1, SPARSE_WINDOW_MAX),
	NUMBER(KV_REPORT, number, 8, 0, UINT64_MAX - 1),
	NUMBER(KV_MAP, table, 2, 0, KV_NO_TABLE - 1),
	NUMBER(KV_MAP, map, 4, 1, UINT32_MAX),
	NUMBER(KV_MAP, ranks, 4, 1, UINT32_MAX),
	NUMBER(KV_MAP, first, 4, 0, UINT32_MAX),
	NUMBER(KV_SWITCH, table, 2, 0, KV_NO_TABLE - 1),
	NUMBER(KV_SWITCH, index, 2, 0, UINT16_MAX),
	NUMBER(KV_SWITCH, port, 2, 1, UINT16_MAX),
	NUMBER(KV_SWITCH, map, 4, 1, UINT32_MAX),
	NUMBER(KV_SWITCH, generation, 8, 1, UINT64_MAX),
	NUMBER(KV_SWITCH, packing, 1, KV_FILL, KV_DEAL),
	NUMBER(KV_BATCH, table, 2, 0, KV_NO_TABLE - 1),
	NUMBER(KV_BATCH, number, 8, 1, UINT64_MAX),
	NUMBER(KV_BATCH, dim, 2, 1, SPARSE_DIM_MAX),
	NUMBER(KV_PULL, table, 2, 0, KV_NO_TABLE - 1),
	NUMBER(KV_PULL, number, 8, 1, UINT64_MAX),
	NUMBER(KV_PULL, generation, 8, 0, UINT64_MAX),
	NUMBER(KV_PULL, epoch, 8, 0, UINT64_MAX),
	NUMBER(KV_PULLED, dim, 2, 1, SPARSE_DIM_MAX),
	NUMBER(KV_PULLED, generation, 8, 0, UINT64_MAX),
	NUMBER(KV_DONE, table, 2, 0, KV_NO_TABLE - 1),
	NUMBER(KV_DONE, number, 8, 1, UINT64_MAX - 1),
	NUMBER(KV_BARRIER, number, 8, 1, UINT64_MAX - 1),
	NUMBER(KV_BARRIER, generation, 8, 0, UINT64_MAX),
	NUMBER(KV_BARRIER, epoch, 8, 0, UINT64_MAX),
	NUMBER(KV_ERROR, about, 1, KV_NOTHING, KV_TYPE_END - 1),
	NUMBER(KV_ERROR, refusal, 2, 1, UINT16_MAX),
	NUMBER(KV_ERROR, table, 2, 0, KV_NO_TABLE),
	NUMBER(KV_ERROR, worker, 2, 0, KV_NOBODY),
	NUMBER(KV_ERROR, number, 8, 0, UINT64_MAX),
};
/* clang-format on */

static void numbers__have_a_least_and_a_most(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		const struct bound *bound = &bounds[i];
		uint64_t wire_most = UINT64_MAX >> (64 - 8 * bound->wire);

		taken(bound, bound->least);
		taken(bound, bound->most);
		if (bound->least)
			refused(bound, bound->least - 1);
		if (bound->most < wire_most)
			refused(bound, bound->most + 1);
	}
}

static void staleness__is_of_bounded_tables_alone(void **state)
{
	struct kv_message message = sound(KV_OPEN), got;

	(void)state;
	for (int mode = KV_ASYNC; mode < KV_MODE_END; mode++) {
		message.mode = (enum kv_mode)mode;
		message.staleness = 1;
		assert_int_equal(kv_decode(&codec, frame, kv_put(&message, frame), &got),
				 mode == KV_BOUNDED ? 0 : -EINVAL);
	}
}

static void scale__is_a_number_above_zero(void **state)
{
	static const float bad[] = { 0, -0.0f, -1, INFINITY, -INFINITY, NAN };
	static const float good[] = { 1e-45f, 3.4e38f };
	const struct bound scale = { KV_OPENED, "scale", offsetof(struct kv_message, scale), 4, 4,
				     1,         0 };
	struct kv_message message = sound(KV_OPENED), got;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint32_t bits;

		memcpy(&bits, &bad[i], sizeof(bits));
		refused(&scale, bits);
	}
	for (size_t i = 0; i < 2; i++) {
		message.scale = good[i];
		assert_int_equal(kv_decode(&codec, frame, kv_put(&message, frame), &got), 0);
		assert_true(got.scale == good[i]);
	}
}

/* So many keys, and values of them all. */
static void count_is(enum kv_type type, uint16_t dim, uint32_t most)
{
	struct kv_message message = sound(type), got = { .type = KV_NOTHING };

	message.dim = dim;
	message.count = most;
	if (kv_decode(&codec, frame, kv_put(&message, frame), &got))
		fail_msg("%u keys of %u: %s", most, dim, codec.fault);
	assert_int_equal(got.count, most);
	message.count = most + 1;
	assert_int_equal(kv_decode(&codec, frame, kv_put(&message, frame), &got), -EINVAL);
	assert_non_null(strstr(codec.fault, "count is out of range"));
}

static void counts__are_as_many_as_a_frame_has_room_for(void **state)
{
	(void)state;
	for (uint64_t i = 0; i <= KV_KEYS_MAX; i++)
		key[i] = 3 * i;
	count_is(KV_PULL, 1, KV_KEYS_MAX);
	count_is(KV_MAP, 1, KV_KEYS_MAX);
	count_is(KV_BATCH, 1, KV_KEYS_MAX);
	count_is(KV_BATCH, 8, KV_KEYS_MAX);
	count_is(KV_BATCH, 9, KV_VALUES_MAX / 9);
	count_is(KV_PULLED, 64, KV_VALUES_MAX / 64);
}

static void workers_and_servers__are_of_as_many_as_there_are(void **state)
{
	static const struct bound worker = NUMBER(KV_HELLO, worker, 2, 0, 4),
				  server = NUMBER(KV_OPENED, server, 2, 0, 2);
	struct kv_message message = sound(KV_HELLO), got;

	(void)state;
	message.workers = 5;
	message.worker = 4;
	assert_int_equal(kv_decode(&codec, frame, kv_put(&message, frame), &got), 0);
	refused_in(message, &worker, 5);
	message = sound(KV_OPENED);
	message.servers = 3;
	message.server = 2;
	assert_int_equal(kv_decode(&codec, frame, kv_put(&message, frame), &got), 0);
	refused_in(message, &server, 3);
}

/* Whatever stood where they are written. */
static void texts__end_where_the_frame_says(void **state)
{
	struct kv_message hello = sound(KV_HELLO), opened = sound(KV_OPENED),
			  error = sound(KV_ERROR), got;

	(void)state;
	memset(&got, 'x', sizeof(got));
	assert_int_equal(kv_decode(&codec, frame, kv_put(&hello, frame), &got), 0);
	assert_string_equal(got.job, "j");
	assert_string_equal(got.secret, "");
	assert_string_equal(got.host, "");
	memset(&got, 'x', sizeof(got));
	assert_int_equal(kv_decode(&codec, frame, kv_put(&opened, frame), &got), 0);
	assert_string_equal(got.name, "n");
	memset(&got, 'x', sizeof(got));
	assert_int_equal(kv_decode(&codec, frame, kv_put(&error, frame), &got), 0);
	assert_string_equal(got.text, "t");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers__have_a_least_and_a_most),
		cmocka_unit_test(staleness__is_of_bounded_tables_alone),
		cmocka_unit_test(scale__is_a_number_above_zero),
		cmocka_unit_test(counts__are_as_many_as_a_frame_has_room_for),
		cmocka_unit_test(workers_and_servers__are_of_as_many_as_there_are),
		cmocka_unit_test(texts__end_where_the_frame_says),
	};

	return cmocka_run_group_tests_name("kv-message-bounds", tests, NULL, NULL);
}
