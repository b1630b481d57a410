/* SPDX-License-Identifier: Apache-2.0 */
/* stream_test.c - messages over a socket pair: whole, in order, however the bytes are cut. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

/* A kernel of the test's own: what recv and send return, if they are not the real ones. */
static struct {
	bool is_played, has_no_memory;
	int error;    /* of the next calls; 0: none */
	ssize_t most; /* bytes of each call; 0: as many as there is room for */
	unsigned calls;
	unsigned fails_after; /* so many calls, with this error, once; 0: never */
	int error_then;
} kernel;

static ssize_t play(size_t bytes)
{
	errno = kernel.error;
	if (kernel.fails_after && kernel.calls == kernel.fails_after)
		errno = kernel.error_then;
	kernel.calls++;
	if (errno)
		return -1;
	return kernel.most && (size_t)kernel.most < bytes ? kernel.most : (ssize_t)bytes;
}

ssize_t __real_recv(int fd, void *at, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *at, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *at, size_t bytes, int flags)
{
	assert_true(flags & MSG_DONTWAIT);
	if (!kernel.is_played)
		return __real_recv(fd, at, bytes, flags);
	memset(at, 0, bytes);
	return play(bytes);
}

ssize_t __real_send(int fd, const void *at, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *at, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *at, size_t bytes, int flags)
{
	assert_true((flags & MSG_DONTWAIT) && (flags & MSG_NOSIGNAL));
	return kernel.is_played ? play(bytes) : __real_send(fd, at, bytes, flags);
}

void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes)
{
	return kernel.has_no_memory ? NULL : __real_realloc(at, bytes);
}

static int begin(void **state)
{
	int fds[2];

	(void)state;
	memset(&kernel, 0, sizeof(kernel));
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

/* Of 64 MiB not one byte more. */
static void stream__holds_what_it_may_and_no_more(void **state)
{
	static uint8_t mebibyte[1 << 20];

	(void)state;
	for (unsigned i = 0; i < KV_STREAM_OUT_MAX >> 20; i++)
		assert_int_equal(kv_stream_put(&a, mebibyte, sizeof(mebibyte)), 0);
	assert_int_equal(kv_stream_put(&a, mebibyte, 1), -ENOBUFS);
	assert_int_equal(kv_stream_say(&a, &(struct kv_message){ .type = KV_LEAVE }), -ENOBUFS);
	kernel.is_played = true;
	kernel.most = 100000;
	assert_int_equal(kv_stream_flush(&a), 0);
	assert_int_equal(a.sent, KV_STREAM_OUT_MAX);
	assert_int_equal(kv_stream_put(&a, mebibyte, 1), 0);
}

static void stream__says_what_to_wait_for_and_counts(void **state)
{
	static uint8_t frame[100000];
	struct kv_message message = batch(3), got;
	size_t bytes = kv_put(&message, frame);

	(void)state;
	assert_int_equal(kv_stream_events(&a), POLLIN);
	assert_int_equal(kv_stream_say(&a, &message), 0);
	assert_int_equal(kv_stream_events(&a), POLLIN | POLLOUT);
	assert_int_equal(a.sent, 0);
	assert_int_equal(kv_stream_flush(&a), 0);
	assert_int_equal(kv_stream_events(&a), POLLIN);
	assert_int_equal(a.sent, bytes);
	assert_int_equal(b.received, 0);
	assert_int_equal(kv_stream_read(&b), 0);
	assert_int_equal(b.received, bytes);
	assert_int_equal(kv_stream_next(&b, &codec, &got), 1);
	assert_int_equal(kv_stream_say(&a, &message), 0);
	assert_int_equal(kv_stream_flush(&a), 0);
	assert_int_equal(kv_stream_read(&b), 0);
	assert_int_equal(a.sent, 2 * bytes);
	assert_int_equal(b.received, 2 * bytes);
}

/* Of a message that is half gone the other half waits. */
static void stream__sends_what_goes(void **state)
{
	static uint8_t frame[100000];
	struct kv_message message = batch(3);
	size_t bytes = kv_put(&message, frame);
	static const int waits[] = { EAGAIN, EINTR, ENOTCONN };

	(void)state;
	kernel.is_played = true;
	assert_int_equal(kv_stream_flush(&a), 0);
	assert_int_equal(kernel.calls, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(kv_stream_say(&a, &message), 0);
		kernel.error = waits[i];
		assert_int_equal(kv_stream_flush(&a), 0);
		assert_int_equal(kernel.calls, 1);
		assert_int_equal(kv_stream_events(&a), POLLIN | POLLOUT);
		assert_int_equal(a.sent, i * bytes);
		kernel.error = 0;
		kernel.most = 1000;
		assert_int_equal(kv_stream_flush(&a), 0);
		assert_int_equal(kernel.calls, 1 + (bytes + 999) / 1000);
		assert_int_equal(a.sent, (i + 1) * bytes);
		kernel.calls = 0;
	}
	assert_int_equal(kv_stream_say(&a, &message), 0);
	kernel.error = ECONNRESET;
	assert_int_equal(kv_stream_flush(&a), -ECONNRESET);
}

static void stream__reads_what_there_is(void **state)
{
	(void)state;
	kernel.is_played = true;
	for (unsigned i = 0; i < 2; i++) {
		kernel.error = i ? EINTR : EAGAIN;
		assert_int_equal(kv_stream_read(&a), 0);
		assert_int_equal(kernel.calls, i + 1);
	}
	kernel.error = EIO;
	assert_int_equal(kv_stream_read(&a), -EIO);
	assert_int_equal(a.received, 0);
	kernel.error = 0;
	kernel.calls = 0;
	kernel.most = 999; /* less than there is room for: there is no more */
	assert_int_equal(kv_stream_read(&a), 0);
	assert_int_equal(kernel.calls, 1);
	assert_int_equal(a.received, 999);
	kernel.most = 0; /* the longest frame is taken before more is read */
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(kv_stream_read(&a), 0);
	assert_int_equal(a.received, KV_FRAME_BYTES + KV_BYTES_MAX);
	assert_int_equal(a.in.room, a.received);
	assert_true(kernel.calls < 15);
}

/* Whoever has many of them serves the others, too. */
static void stream__of_a_fast_peer_takes_a_part(void **state)
{
	const struct kv_message message = { .type = KV_LEAVE };
	struct kv_message got;
	uint32_t said = 0, heard = 0;

	(void)state;
	for (int turn = 0; turn < 100; turn++) {
		uint64_t had = b.received;

		for (int i = 0; i < 20000; i++, said++)
			assert_int_equal(kv_stream_say(&a, &message), 0);
		assert_int_equal(kv_stream_flush(&a), 0);
		assert_int_equal(kv_stream_read(&b), 0);
		assert_true(b.received > had && b.received - had <= 64 << 10);
		while (kv_stream_next(&b, &codec, &got) > 0)
			heard++;
	}
	assert_true(b.in.room <= 64 << 10);
	while (!kv_stream_flush(&a) && heard < said) {
		assert_int_equal(kv_stream_read(&b), 0);
		while (kv_stream_next(&b, &codec, &got) > 0)
			heard++;
	}
	assert_int_equal(heard, said);
}

/* What the kernel tells in the middle of a turn, and tells once. */
static void stream__error_behind_what_came_is_told(void **state)
{
	(void)state;
	kernel.is_played = true;
	kernel.fails_after = 1;
	kernel.error_then = ETIMEDOUT;
	assert_int_equal(kv_stream_read(&a), 0);
	assert_int_equal(kernel.calls, 2);
	assert_true(a.received > 0);
	assert_int_equal(kv_stream_read(&a), -ETIMEDOUT);
	assert_int_equal(kernel.calls, 2);
}

static void stream__without_memory_loses_nothing(void **state)
{
	struct kv_message message = batch(3), got;

	(void)state;
	assert_int_equal(kv_stream_say(&a, &message), 0);
	assert_int_equal(kv_stream_flush(&a), 0);
	kernel.has_no_memory = true;
	assert_int_equal(kv_stream_read(&b), -ENOMEM);
	assert_int_equal(kv_stream_say(&b, &message), -ENOMEM);
	assert_int_equal(kv_stream_put(&b, (const uint8_t *)"x", 1), -ENOMEM);
	assert_int_equal(kv_stream_events(&b), POLLIN);
	kernel.has_no_memory = false;
	assert_int_equal(kv_stream_read(&b), 0);
	assert_int_equal(kv_stream_next(&b, &codec, &got), 1);
	assert_int_equal(got.number, 3);
}

/* An answer that somebody waits for is not kept back to be sent with the next. */
static void stream__over_tcp_does_not_wait_for_more(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 0;
	socklen_t bytes = sizeof(on);
	struct kv_stream stream;

	(void)state;
	assert_true(fd >= 0);
	kv_stream_open(&stream, fd);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &bytes), 0);
	assert_true(on != 0);
	kv_stream_close(&stream);
	assert_int_equal(stream.fd, -1);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(errno, EBADF);
}

/* A peer that is slow is no peer that reads nothing: what it has read is not kept for it. */
static void stream__who_reads_has_room_again(void **state)
{
	static uint8_t piece[1 << 16], taken[1 << 16];
	uint64_t room = 0;

	(void)state;
	while (!kv_stream_put(&a, piece, sizeof(piece)))
		room++;
	assert_int_equal(room, KV_STREAM_OUT_MAX / sizeof(piece));
	for (unsigned turns = 0; a.sent < 20 * sizeof(piece) && turns < 10000; turns++) {
		assert_int_equal(kv_stream_flush(&a), 0);
		assert_true(read(b.fd, taken, sizeof(taken)) > 0);
	}
	assert_true(a.sent >= 20 * sizeof(piece));
	room = a.sent / sizeof(piece);
	for (uint64_t i = 0; i < room; i++)
		assert_int_equal(kv_stream_put(&a, piece, sizeof(piece)), 0);
	assert_int_equal(kv_stream_put(&a, piece, sizeof(piece)), -ENOBUFS);
	assert_true(a.out.room <= 2 * (size_t)KV_STREAM_OUT_MAX);
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
		cmocka_unit_test_setup_teardown(stream__holds_what_it_may_and_no_more, begin, end),
		cmocka_unit_test_setup_teardown(stream__says_what_to_wait_for_and_counts, begin,
						end),
		cmocka_unit_test_setup_teardown(stream__sends_what_goes, begin, end),
		cmocka_unit_test_setup_teardown(stream__reads_what_there_is, begin, end),
		cmocka_unit_test_setup_teardown(stream__of_a_fast_peer_takes_a_part, begin, end),
		cmocka_unit_test_setup_teardown(stream__error_behind_what_came_is_told, begin, end),
		cmocka_unit_test_setup_teardown(stream__without_memory_loses_nothing, begin, end),
		cmocka_unit_test_setup_teardown(stream__over_tcp_does_not_wait_for_more, begin,
						end),
		cmocka_unit_test_setup_teardown(stream__who_reads_has_room_again, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
