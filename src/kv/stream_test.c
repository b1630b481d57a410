/* SPDX-License-Identifier: Apache-2.0 */
/* stream_test.c - messages over a socket pair: whole, in order, however the bytes are cut. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "kv/stream.h"

enum { KEYS = 2000, MANY = 60 };

static struct kv_codec codec;
static struct kv_stream a, b;
static uint64_t key[KEYS];
static float value[KEYS];

static int begin(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	kv_stream_open(&a, fds[0]);
	kv_stream_open(&b, fds[1]);
	for (uint32_t i = 0; i < KEYS; i++) {
		key[i] = (i + 1) * 1000003ull;
		value[i] = i % 2 ? (float)i : -(float)i;
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	kv_stream_close(&a);
	kv_stream_close(&b);
	kv_stream_close(&b);
	return 0;
}

static struct kv_message batch(uint64_t number)
{
	return (struct kv_message){ .type = KV_BATCH,
				    .number = number,
				    .dim = 1,
				    .count = KEYS,
				    .key = key,
				    .value = value };
}

/* More than the kernel's buffers hold goes through, as long as the other side reads. */
static void stream__many_messages_come_whole_and_in_order(void **state)
{
	struct kv_message got;
	uint64_t next = 1;

	(void)state;
	for (uint64_t number = 1; number <= MANY; number++) {
		struct kv_message message = batch(number);

		assert_int_equal(kv_stream_say(&a, &message), 0);
	}
	for (unsigned turns = 0; next <= MANY && turns < 10000; turns++) {
		assert_int_equal(kv_stream_flush(&a), 0);
		assert_int_equal(kv_stream_read(&b), 0);
		while (kv_stream_next(&b, &codec, &got) > 0) {
			assert_int_equal(got.type, KV_BATCH);
			assert_true(got.number == next);
			assert_memory_equal(got.key, key, sizeof(key));
			assert_memory_equal(got.value, value, sizeof(value));
			next++;
		}
	}
	assert_true(next == MANY + 1);
}

static void stream__message_comes_byte_by_byte(void **state)
{
	static uint8_t frame[100000];
	struct kv_message message = batch(9), got;
	size_t bytes = kv_put(&message, frame);

	(void)state;
	message.count = 20;
	bytes = kv_put(&message, frame);
	for (size_t i = 0; i < bytes; i++) {
		assert_int_equal(kv_stream_next(&b, &codec, &got), 0);
		assert_int_equal(write(a.fd, frame + i, 1), 1);
		assert_int_equal(kv_stream_read(&b), 0);
	}
	assert_int_equal(kv_stream_next(&b, &codec, &got), 1);
	assert_int_equal(got.count, 20);
	assert_int_equal(kv_stream_next(&b, &codec, &got), 0);
}

static void stream__what_came_before_the_end_is_given(void **state)
{
	struct kv_message message = { .type = KV_LEAVE }, got;

	(void)state;
	assert_int_equal(kv_stream_say(&a, &message), 0);
	assert_int_equal(kv_stream_flush(&a), 0);
	kv_stream_close(&a);
	assert_int_equal(kv_stream_read(&b), 0);
	assert_int_equal(kv_stream_next(&b, &codec, &got), 1);
	assert_int_equal(got.type, KV_LEAVE);
	assert_int_equal(kv_stream_read(&b), -ECONNRESET);
	assert_int_equal(kv_stream_say(&b, &message), 0);
	assert_int_equal(kv_stream_flush(&b), -EPIPE); /* and no signal */
}

static void stream__frame_too_long_is_refused(void **state)
{
	struct kv_message got;

	(void)state;
	assert_int_equal(write(a.fd, "\xff\xff\xff\xff", 4), 4);
	assert_int_equal(kv_stream_read(&b), 0);
	assert_int_equal(kv_stream_next(&b, &codec, &got), -EINVAL);
	assert_string_equal(codec.fault, "message: length is out of range");
}

static void stream__who_does_not_read_is_given_up(void **state)
{
	static uint8_t mebibyte[1 << 20];
	int error = 0;

	(void)state;
	for (unsigned i = 0; i < 100 && !error; i++) {
		error = kv_stream_put(&a, mebibyte, sizeof(mebibyte));
		assert_int_equal(kv_stream_flush(&a), 0);
	}
	assert_int_equal(error, -ENOBUFS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stream__many_messages_come_whole_and_in_order,
						begin, end),
		cmocka_unit_test_setup_teardown(stream__message_comes_byte_by_byte, begin, end),
		cmocka_unit_test_setup_teardown(stream__what_came_before_the_end_is_given, begin,
						end),
		cmocka_unit_test_setup_teardown(stream__frame_too_long_is_refused, begin, end),
		cmocka_unit_test_setup_teardown(stream__who_does_not_read_is_given_up, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
