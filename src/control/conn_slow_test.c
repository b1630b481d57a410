/* SPDX-License-Identifier: Apache-2.0 */
/* conn_slow_test.c - to a peer that reads slowly the kernel, which is played here, takes a part of what is sent. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/conn.h"
#include "util/rng.h"

enum { MESSAGES = 3000, ROOM_BYTES = 500, PATIENCE_MS = 10000 };

static size_t room = SIZE_MAX; /* bytes that the kernel still takes */

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	ssize_t sent;

	if (!room) {
		errno = EAGAIN;
		return -1;
	}
	sent = __real_send(fd, data, bytes < room ? bytes : room, flags);
	if (sent > 0 && room != SIZE_MAX)
		room -= (size_t)sent;
	return sent;
}

static struct codec codec;
static struct control_message message;

static enum conn_result await(struct conn *conn)
{
	struct pollfd wait = { .fd = conn_fd(conn), .events = conn_events(conn) };
	enum conn_result result = conn_read(conn, 0, &codec, &message);

	if (result != CONN_NONE)
		return result;
	poll(&wait, 1, PATIENCE_MS);
	return conn_read(conn, 0, &codec, &message);
}

static void connect_both(struct conn **out, struct conn **in)
{
	struct conn_address address;
	struct pollfd wait = { .events = POLLIN };

	assert_int_equal(conn_resolve("127.0.0.1:0", 0, &address), 0);
	wait.fd = conn_listen(&address);
	assert_true(wait.fd >= 0);
	assert_int_equal(conn_connect(out, &address, 0, UINT64_MAX), 0);
	assert_int_equal(await(*out), CONN_CONNECTED);
	assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
	assert_int_equal(conn_accept(in, wait.fd), 0);
	close(wait.fd);
}

/* Its number, and as many letters as it has room for, or fewer. */
static void text_make(struct rng *lengths, uint32_t number, char text[CONTROL_TEXT_BYTES])
{
	size_t bytes = 10 + rng_below(lengths, CONTROL_TEXT_BYTES - 10);

	memset(text, 'a' + (int)(number % 26), bytes);
	text[bytes] = 0;
	memcpy(text, "0000000000", 10);
	for (size_t at = 10; number; number /= 10)
		text[--at] = (char)('0' + number % 10);
}

static void expect(struct conn *in, struct conn *out, struct rng *lengths, uint32_t number)
{
	enum conn_result result = CONN_NONE;
	char text[CONTROL_TEXT_BYTES];

	text_make(lengths, number, text);
	for (int looks = 0; looks < 10 && result == CONN_NONE; looks++) {
		assert_int_equal(conn_read(out, 0, &codec, &message), CONN_NONE); /* sends */
		result = await(in);
	}
	if (result != CONN_MESSAGE)
		fail_msg("message %u did not come: %s", number, conn_text(in));
	assert_int_equal(message.type, CONTROL_ABORT);
	assert_string_equal(message.end.text, text);
}

/* What is kept grows and shrinks while parts of it go out. */
static void conn__all_that_is_said_to_a_slow_reader_arrives_in_order(void **state)
{
	struct control_message said = { .type = CONTROL_ABORT, .end = { .cause = CONTROL_REMOTE } };
	const char *text = getenv("TALLY_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20261124;
	struct rng rooms, sent_lengths, read_lengths;
	struct conn *out = NULL, *in = NULL;
	uint32_t kept = 0;

	(void)state;
	printf("seed %llu (TALLY_TEST_SEED)\n", (unsigned long long)seed);
	rng_init(&rooms, seed, 0);
	rng_init(&sent_lengths, seed, 1);
	rng_init(&read_lengths, seed, 1);
	connect_both(&out, &in);
	for (uint32_t number = 0; number < MESSAGES; number++) {
		room = rng_below(&rooms, ROOM_BYTES);
		text_make(&sent_lengths, number, said.end.text);
		assert_int_equal(conn_send(out, &codec, &said), 0);
		kept += conn_events(out) != POLLIN;
		if (number % 50 == 49) { /* before the kernel's own buffer is full */
			room = SIZE_MAX;
			for (uint32_t next = number - 49; next <= number; next++)
				expect(in, out, &read_lengths, next);
		}
	}
	assert_true(kept > MESSAGES / 4);
	conn_close(out);
	conn_close(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conn__all_that_is_said_to_a_slow_reader_arrives_in_order),
	};

	return cmocka_run_group_tests_name("control-conn_slow", tests, NULL, NULL);
}
