/* SPDX-License-Identifier: Apache-2.0 */
/* conn_test.c - one worker's connection: frames in and out, what waits for the disk, and its last words. How far
 * the disk is is the test's. */
#include "ps/conn.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { NOW = 77 };

static const struct ps_table *const table = (const struct ps_table *)(const void *)&table;
static uint64_t position, durable;

uint64_t __wrap_ps_table_position(const struct ps_table *which);
bool __wrap_ps_table_is_durable(const struct ps_table *which, uint64_t at);

uint64_t __wrap_ps_table_position(const struct ps_table *which)
{
	assert_ptr_equal(which, table);
	return position;
}

bool __wrap_ps_table_is_durable(const struct ps_table *which, uint64_t at)
{
	assert_ptr_equal(which, table);
	return at <= durable;
}

static struct ps_conn *conn;
static int other;

static int setup(void **state)
{
	int fds[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -1;
	other = fds[0];
	conn = ps_conn_open(fds[1], NOW);
	position = durable = 0;
	return conn ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	if (conn)
		ps_conn_close(conn);
	close(other);
	return 0;
}

static void put(const void *at, size_t bytes)
{
	assert_int_equal(send(other, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL), bytes);
}

static struct kv_message barrier(uint64_t number)
{
	return (struct kv_message){ .type = KV_BARRIER, .number = number };
}

/* BARRIERs with these numbers have come, and nothing else. */
static void assert_heard(uint64_t first, uint64_t count)
{
	uint8_t want[1024], got[sizeof(want)];
	size_t bytes = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct kv_message message = barrier(first + i);

		bytes += kv_put(&message, want + bytes);
	}
	assert_int_equal(recv(other, got, sizeof(got), MSG_DONTWAIT), count ? (ssize_t)bytes : -1);
	if (count)
		assert_memory_equal(got, want, bytes);
}

static void conn__begins_as_a_stranger(void **state)
{
	(void)state;
	assert_int_equal(conn->since_ns, NOW);
	assert_int_equal(conn->heard_ns, NOW);
	assert_int_equal(conn->said_ns, NOW);
	assert_int_equal(conn->stream.bytes_max, 8192);
	assert_string_equal(conn->who, "somebody who has not said HELLO");
	assert_false(ps_conn_wants_to_write(conn));
	assert_false(ps_conn_is_full(conn));
}

/* ---- in ---- */

static void conn__gives_frames_as_they_are_whole(void **state)
{
	static const uint8_t two[] = { 2, 0, 0, 0, 'a', 'b', 1, 0, 0, 0, 'c' };

	(void)state;
	assert_int_equal(kv_stream_read(&conn->stream), 0); /* nothing has come */
	assert_int_equal(kv_stream_frame(&conn->stream), 0);
	put(two, 5);
	assert_int_equal(kv_stream_read(&conn->stream), 0);
	assert_int_equal(kv_stream_frame(&conn->stream), 0);
	put(two + 5, 6);
	assert_int_equal(kv_stream_read(&conn->stream), 0);
	assert_int_equal(buffer_bytes(&conn->stream.in), 11);
	assert_int_equal(kv_stream_frame(&conn->stream), 6);
	buffer_take(&conn->stream.in, 6);
	assert_int_equal(buffer_bytes(&conn->stream.in), 5);
	assert_int_equal(kv_stream_frame(&conn->stream), 5);
	assert_memory_equal(buffer_first(&conn->stream.in), two + 6, 5);
	buffer_take(&conn->stream.in, 5);
	assert_int_equal(kv_stream_frame(&conn->stream), 0);
	shutdown(other, SHUT_WR);
	assert_int_equal(kv_stream_read(&conn->stream), -ECONNRESET);
}

static void read_all(void)
{
	size_t before;

	do {
		before = buffer_bytes(&conn->stream.in);
		assert_int_equal(kv_stream_read(&conn->stream), 0);
	} while (buffer_bytes(&conn->stream.in) > before);
}

static void conn__takes_no_more_than_a_frame_may_have(void **state)
{
	static uint8_t bytes[9000];

	(void)state;
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i % 251);
	sparse_body_put32(bytes, 8192);
	put(bytes, sizeof(bytes));
	read_all();
	assert_int_equal(buffer_bytes(&conn->stream.in), 8196);
	assert_int_equal(kv_stream_frame(&conn->stream), 8196);
	assert_memory_equal(conn->stream.in.bytes, bytes, 8196);
	shutdown(other, SHUT_WR);
	assert_int_equal(kv_stream_read(&conn->stream), 0); /* the end comes after what is there */
	buffer_take(&conn->stream.in, 8196);
	assert_int_equal(kv_stream_read(&conn->stream), 0);
	assert_int_equal(buffer_bytes(&conn->stream.in), 9000 - 8196);
	assert_memory_equal(conn->stream.in.bytes, bytes + 8196, 9000 - 8196);
	assert_int_equal(kv_stream_read(&conn->stream), -ECONNRESET);
}

static void conn__longer_frame_than_a_stranger_s_is_nonsense(void **state)
{
	uint8_t length[4];

	(void)state;
	sparse_body_put32(length, 8193);
	put(length, 3);
	assert_int_equal(kv_stream_read(&conn->stream), 0);
	assert_int_equal(kv_stream_frame(&conn->stream), 0);
	put(length + 3, 1);
	assert_int_equal(kv_stream_read(&conn->stream), 0);
	assert_true(kv_stream_frame(&conn->stream) == SIZE_MAX);
	conn->stream.bytes_max = KV_BYTES_MAX; /* it is none any more */
	assert_int_equal(kv_stream_frame(&conn->stream), 0);
	sparse_body_put32(conn->stream.in.bytes, KV_BYTES_MAX + 1);
	assert_true(kv_stream_frame(&conn->stream) == SIZE_MAX);
}

/* ---- out ---- */

static void conn__says_at_once_and_holds_until_the_disk_has_it(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 32; i++) { /* as many as there is room for */
		struct kv_message message = barrier(100 + i);

		position = 10 * (i + 1);
		ps_conn_hold(conn, table, &message);
	}
	ps_conn_say(conn, &(struct kv_message){ .type = KV_BARRIER, .number = 1 });
	assert_true(ps_conn_wants_to_write(conn));
	assert_true(ps_conn_write(conn, 500));
	assert_heard(1, 1);
	assert_int_equal(conn->said_ns, 500);
	assert_false(ps_conn_wants_to_write(conn));
	durable = 9;
	assert_true(ps_conn_write(conn, 600));
	assert_heard(0, 0);
	assert_int_equal(conn->said_ns, 500); /* nothing was said */
	durable = 30;
	assert_true(ps_conn_write(conn, 700));
	assert_heard(100, 3);
	assert_int_equal(conn->said_ns, 700);
	assert_int_equal(conn->gate_count, 29);
	durable = 39;
	assert_true(ps_conn_write(conn, 800));
	assert_heard(0, 0);
	durable = 160;
	assert_true(ps_conn_write(conn, 900));
	assert_heard(103, 13);
	durable = 320;
	assert_true(ps_conn_write(conn, 1000));
	assert_heard(116, 16);
	assert_int_equal(conn->gate_count, 0);
	assert_int_equal(conn->held.end, 0);
	assert_int_equal(conn->held.at, 0);
	assert_int_equal(conn->stream.out.end, 0);
	assert_int_equal(conn->stream.out.at, 0);
}

static void conn__that_has_16_MiB_to_say_is_full(void **state)
{
	static uint8_t block[1 << 20];

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(buffer_put(&conn->stream.out, block, sizeof(block)), 0);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(buffer_put(&conn->held, block, sizeof(block)), 0);
	assert_false(ps_conn_is_full(conn));
	assert_int_equal(buffer_put(&conn->held, block, 1), 0);
	assert_true(ps_conn_is_full(conn));
	conn->stream.out.at = 1;
	assert_false(ps_conn_is_full(conn));
	conn->stream.out.at = 0;
	conn->held.at = 1;
	assert_false(ps_conn_is_full(conn));
	conn->held.at = 0;
	conn->held.end = 0;
	/* Who does not read gets what there is room for, and the rest when it does. */
	assert_true(ps_conn_write(conn, 1));
	assert_true(ps_conn_wants_to_write(conn));
	for (size_t left = 8 * sizeof(block); left;) {
		ssize_t got = recv(other, block, sizeof(block), MSG_DONTWAIT);

		assert_true(got > 0);
		left -= (size_t)got;
		assert_true(ps_conn_write(conn, 2));
		assert_int_equal(buffer_bytes(&conn->stream.out) > 0, ps_conn_wants_to_write(conn));
	}
	assert_false(ps_conn_wants_to_write(conn));
	assert_int_equal(conn->stream.out.end, 0);
}

static void conn__whose_other_side_is_gone_is_told_by_a_write(void **state)
{
	struct kv_message message = barrier(4);

	(void)state;
	shutdown(other, SHUT_RDWR);
	assert_true(ps_conn_write(conn, 1)); /* there was nothing to say */
	ps_conn_say(conn, &message);
	assert_false(ps_conn_write(conn, 2));
	assert_int_equal(conn->said_ns, NOW);
}

/* What was unread would reset the connection, and the other side not hear why it ends. */
static void conn__that_ends_has_its_last_words_heard(void **state)
{
	static uint8_t block[60000];
	struct kv_message message = barrier(9);
	uint8_t byte;

	(void)state;
	put(block, sizeof(block));
	ps_conn_say(conn, &message);
	assert_true(ps_conn_write(conn, 1));
	conn->is_ending = true;
	ps_conn_close(conn);
	conn = NULL;
	assert_heard(9, 1);
	assert_int_equal(recv(other, &byte, 1, MSG_DONTWAIT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(conn__##name, setup, teardown)
		T(begins_as_a_stranger),
		T(gives_frames_as_they_are_whole),
		T(takes_no_more_than_a_frame_may_have),
		T(longer_frame_than_a_stranger_s_is_nonsense),
		T(says_at_once_and_holds_until_the_disk_has_it),
		T(that_has_16_MiB_to_say_is_full),
		T(whose_other_side_is_gone_is_told_by_a_write),
		T(that_ends_has_its_last_words_heard),
#undef T
	};

	return cmocka_run_group_tests_name("ps-conn", tests, NULL, NULL);
}
