/* SPDX-License-Identifier: Apache-2.0 */
/* conn_flow_test.c - bytes out and in through a connection whose kernel is played: it takes and gives what a test says,
 * fails when it says so, and memory has a size. */
#include <errno.h>
#include <malloc.h>
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

enum { FD = 1 << 20, TURNS_MAX = 8, SIZES_MAX = 32, IN_MAX = 2 << 20 };

static const uint64_t second_ns = 1000000000, now_ns = 1000 * 1000000000ull;

/* What a call does: bytes > 0: not more than so many; 0: none, and errno is an old one; -1: errno. */
struct turn {
	ssize_t bytes;
	int error;
};

static struct codec codec;
static struct control_message message;
static struct conn *conn;

static struct {
	struct turn sends[TURNS_MAX], recvs[TURNS_MAX]; /* bytes 0 and error 0: no more */
	uint32_t send_calls, recv_calls, shutdowns;
	bool is_stuck;    /* takes nothing */
	uint8_t *in, *at; /* what comes */
	size_t in_bytes;
	uint8_t out[CONN_OUT_BYTES_MAX + 4096];
	size_t out_bytes;
	size_t sizes[SIZES_MAX]; /* that memory was given */
	uint32_t sizes_count;
	bool has_no_memory;
} kernel;

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_shutdown(int fd, int how);
void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	(void)fd, (void)address, (void)bytes;
	assert_int_equal(flags, SOCK_NONBLOCK | SOCK_CLOEXEC);
	return FD;
}

/* The turn of this call, or one without a limit. */
static struct turn turn_take(const struct turn *turns, uint32_t call)
{
	if (call < TURNS_MAX && (turns[call].bytes || turns[call].error))
		return turns[call];
	return (struct turn){ PTRDIFF_MAX, 0 };
}

ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags)
{
	struct turn turn = turn_take(kernel.sends, kernel.send_calls++);

	assert_int_equal(fd, FD);
	assert_int_equal(flags, MSG_NOSIGNAL);
	assert_true(bytes > 0);
	if (kernel.is_stuck)
		turn = (struct turn){ -1, EAGAIN };
	errno = turn.error;
	if (turn.bytes <= 0)
		return turn.bytes;
	bytes = bytes < (size_t)turn.bytes ? bytes : (size_t)turn.bytes;
	assert_true(kernel.out_bytes + bytes <= sizeof(kernel.out));
	memcpy(kernel.out + kernel.out_bytes, from, bytes);
	kernel.out_bytes += bytes;
	return (ssize_t)bytes;
}

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags)
{
	struct turn turn = turn_take(kernel.recvs, kernel.recv_calls++);
	size_t left = kernel.in_bytes - (size_t)(kernel.at - kernel.in);

	assert_int_equal(fd, FD);
	assert_int_equal(flags, 0);
	assert_true(bytes > 0);
	if (turn.bytes > 0 && !left)
		turn = (struct turn){ -1, EAGAIN };
	errno = turn.error;
	if (turn.bytes <= 0)
		return turn.bytes;
	bytes = bytes < (size_t)turn.bytes ? bytes : (size_t)turn.bytes;
	bytes = bytes < left ? bytes : left;
	memcpy(to, kernel.at, bytes);
	kernel.at += bytes;
	return (ssize_t)bytes;
}

int __wrap_close(int fd)
{
	return fd == FD ? 0 : __real_close(fd);
}

int __wrap_shutdown(int fd, int how)
{
	assert_int_equal(fd, FD);
	assert_int_equal(how, SHUT_WR);
	kernel.shutdowns++;
	return 0;
}

/* New memory has something in it: no message may be made of that. */
void *__wrap_realloc(void *at, size_t bytes)
{
	size_t before = at ? malloc_usable_size(at) : 0;
	uint8_t *more;

	if (kernel.has_no_memory)
		return NULL;
	more = __real_realloc(at, bytes);
	assert_non_null(more);
	if (bytes > before)
		memset(more + before, 0xa5, bytes - before);
	assert_true(kernel.sizes_count < SIZES_MAX);
	kernel.sizes[kernel.sizes_count++] = bytes;
	return more;
}

static int set_up(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	kernel.in = kernel.at = malloc(IN_MAX);
	assert_non_null(kernel.in);
	assert_int_equal(conn_accept(&conn, 7), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	conn_close(conn);
	free(kernel.in);
	return 0;
}

/* As if the test began. */
static void begin_anew(void)
{
	tear_down(NULL);
	set_up(NULL);
}

static enum conn_result read_one(void)
{
	return conn_read(conn, now_ns, &codec, &message);
}

static void assert_ends(enum conn_result result, const char *text)
{
	assert_int_equal(read_one(), result);
	assert_string_equal(conn_text(conn), text);
	assert_int_equal(conn_events(conn), 0);
	assert_true(conn_deadline(conn) == UINT64_MAX);
	assert_int_equal(read_one(), CONN_NONE);
	assert_int_equal(conn_send(conn, &codec, &(struct control_message){ .type = CONTROL_LEFT }),
			 -EPIPE);
}

/* ---- what is said ---- */

static const struct control_message *progress(size_t text_bytes)
{
	static struct control_message said;

	memset(&said, 0, sizeof(said));
	said.type = CONTROL_PROGRESS;
	for (size_t i = 0; i < text_bytes; i++)
		said.progress.text[i] = (char)('a' + i % 26);
	return &said;
}

static size_t frame_of(const struct control_message *said, uint8_t frame[4096])
{
	uint8_t *made;
	size_t bytes;

	assert_int_equal(codec_encode(&codec, said, &made, &bytes), 0);
	assert_true(bytes <= 4096);
	memcpy(frame, made, bytes);
	free(made);
	return bytes;
}

static size_t say(size_t text_bytes)
{
	uint8_t frame[4096];

	assert_int_equal(conn_send(conn, &codec, progress(text_bytes)), 0);
	return frame_of(progress(text_bytes), frame);
}

static void assert_said(size_t text_bytes)
{
	uint8_t frame[4096];
	size_t bytes = frame_of(progress(text_bytes), frame);

	assert_int_equal(kernel.out_bytes, bytes);
	assert_memory_equal(kernel.out, frame, bytes);
}

static void conn__goes_on_where_the_kernel_stopped(void **state)
{
	static const struct turn turns[] = { { -1, EINTR }, { 3, 0 },       { -1, EINTR },
					     { 5, 0 },      { -1, EAGAIN }, { -1, EAGAIN } };

	(void)state;
	memcpy(kernel.sends, turns, sizeof(turns));
	say(40);
	assert_int_equal(kernel.send_calls, 5);
	assert_int_equal(kernel.out_bytes, 8);
	assert_int_equal(conn_events(conn), POLLIN | POLLOUT);
	assert_int_equal(read_one(), CONN_NONE);
	assert_int_equal(kernel.out_bytes, 8);
	assert_int_equal(kernel.recv_calls, 1); /* it reads all the same */
	assert_int_equal(conn_events(conn), POLLIN | POLLOUT);
	assert_int_equal(read_one(), CONN_NONE);
	assert_said(40);
	assert_int_equal(conn_events(conn), POLLIN);
	assert_true(conn_deadline(conn) == UINT64_MAX);
}

/* Only of a call that fails errno says something. */
static void conn__a_send_of_nothing_is_no_failure(void **state)
{
	static const int errors[] = { EAGAIN, EINTR, EPIPE, ECONNRESET, EIO };

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		kernel.sends[0] = (struct turn){ 2, errors[i] };
		kernel.sends[1] = (struct turn){ 0, errors[i] };
		say(20);
		assert_said(20);
		assert_int_equal(conn_events(conn), POLLIN);
		begin_anew();
	}
}

static void conn__a_send_that_fails_ends_it(void **state)
{
	(void)state;
	kernel.sends[0] = (struct turn){ -1, EIO };
	say(20); /* it is conn_read that tells */
	assert_true(conn_deadline(conn) == 0);
	assert_string_equal(conn_text(conn), "Input/output error");
	assert_ends(CONN_ERROR, "Input/output error");
	begin_anew();
	kernel.sends[0] = (struct turn){ 4, 0 };
	kernel.sends[1] = (struct turn){ -1, EAGAIN };
	kernel.sends[2] = (struct turn){ -1, ENETDOWN };
	say(20);
	assert_int_equal(kernel.send_calls, 2);
	assert_ends(CONN_ERROR, "Network is down");
	assert_int_equal(kernel.recv_calls, 0);
}

static void comes(const void *bytes, size_t count)
{
	assert_true(kernel.in_bytes + count <= IN_MAX);
	memcpy(kernel.in + kernel.in_bytes, bytes, count);
	kernel.in_bytes += count;
}

static void ping_comes(uint32_t serial)
{
	uint8_t frame[4096];
	size_t bytes = frame_of(
		&(struct control_message){ .type = CONTROL_PING, .ping = { serial } }, frame);

	comes(frame, bytes);
}

static void assert_ping(uint32_t serial)
{
	assert_int_equal(read_one(), CONN_MESSAGE);
	assert_int_equal(message.type, CONTROL_PING);
	assert_int_equal(message.ping.serial, serial);
}

static void conn__what_the_peer_said_before_it_went_is_read(void **state)
{
	static const int errors[] = { EPIPE, ECONNRESET };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (uint32_t call = 0; call < 4; call++)
			kernel.sends[call] = (struct turn){ -1, errors[i] };
		ping_comes(5);
		ping_comes(6);
		kernel.recvs[1] = (struct turn){ -1, ECONNRESET };
		say(20);
		assert_ping(5);
		assert_ping(6);
		assert_ends(CONN_ERROR, "Connection reset by peer");
		begin_anew();
	}
}

static void conn__keeps_twice_as_much_when_it_must(void **state)
{
	size_t bytes = 0;

	(void)state;
	kernel.is_stuck = true;
	for (uint32_t i = 0; i < 30; i++)
		bytes += say(400);
	assert_int_equal(kernel.sizes_count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(kernel.sizes[i], (size_t)4096 << i);
	kernel.is_stuck = false;
	assert_int_equal(read_one(), CONN_NONE);
	assert_int_equal(kernel.out_bytes, bytes);
	kernel.sizes_count = 0;
	kernel.is_stuck = true;
	for (uint32_t i = 0; i < 30; i++)
		say(400);
	assert_int_equal(kernel.sizes_count, 0); /* there is room for them */
}

/* Says so much that CONN_OUT_BYTES_MAX - room bytes wait. */
static void fill(size_t room)
{
	size_t left = CONN_OUT_BYTES_MAX - room, whole = CONTROL_TEXT_BYTES - 1, least, most;
	uint8_t frame[4096];

	kernel.is_stuck = true;
	least = frame_of(progress(0), frame);
	most = least + whole;
	while (left >= 2 * most)
		left -= say(whole);
	left -= say(left / 2 - least);
	left -= say(left - least);
	assert_int_equal(left, 0);
}

static void conn__four_megabytes_may_wait_and_no_byte_more(void **state)
{
	uint8_t frame[4096];
	size_t bytes = frame_of(progress(100), frame);

	(void)state;
	fill(bytes);
	say(100);
	assert_int_equal(conn_send(conn, &codec, progress(0)), -ENOBUFS);
	kernel.is_stuck = false;
	kernel.send_calls = 0;
	kernel.sends[0] = (struct turn){ (ssize_t)bytes, 0 };
	kernel.sends[1] = (struct turn){ -1, EAGAIN };
	assert_int_equal(read_one(), CONN_NONE); /* which makes room for one */
	kernel.is_stuck = true;
	say(100);
	assert_int_equal(conn_send(conn, &codec, progress(0)), -ENOBUFS);
	kernel.is_stuck = false;
	assert_int_equal(read_one(), CONN_NONE);
	assert_int_equal(kernel.out_bytes, CONN_OUT_BYTES_MAX + bytes);
	assert_memory_equal(kernel.out + CONN_OUT_BYTES_MAX, frame, bytes);
	begin_anew();
	fill(bytes - 1);
	assert_int_equal(conn_send(conn, &codec, progress(100)), -ENOBUFS);
	say(99);
}

static void conn__no_memory_to_say_something_is_no_end(void **state)
{
	(void)state;
	kernel.has_no_memory = true;
	assert_int_equal(conn_send(conn, &codec, progress(10)), -ENOMEM);
	kernel.has_no_memory = false;
	say(20);
	assert_said(20);
}

/* ---- last words ---- */

static void conn__last_words_are_over_when_they_are_sent(void **state)
{
	(void)state;
	kernel.is_stuck = true;
	say(20);
	conn_last_words(conn, now_ns);
	assert_int_equal(conn_events(conn), POLLIN | POLLOUT);
	assert_true(conn_deadline(conn) == now_ns + 5 * second_ns);
	assert_int_equal(read_one(), CONN_NONE);
	assert_int_equal(kernel.shutdowns, 0);
	kernel.is_stuck = false;
	assert_int_equal(read_one(), CONN_NONE);
	assert_said(20);
	assert_int_equal(kernel.shutdowns, 1);
	assert_int_equal(conn_events(conn), POLLIN);
	assert_int_equal(read_one(), CONN_NONE);
	assert_int_equal(kernel.shutdowns, 1);
	kernel.recvs[kernel.recv_calls] = (struct turn){ 0, EINTR };
	assert_ends(CONN_EOF, "closed");
}

static void conn__nobody_cares_how_last_words_ended(void **state)
{
	(void)state;
	kernel.is_stuck = true;
	say(20);
	conn_last_words(conn, now_ns);
	kernel.is_stuck = false;
	kernel.sends[kernel.send_calls] = (struct turn){ -1, EIO };
	assert_ends(CONN_EOF, "Input/output error");
	for (int error = 0; error < 2; error++) {
		begin_anew();
		say(20);
		conn_last_words(conn, now_ns);
		kernel.recvs[0] = error ? (struct turn){ -1, ECONNRESET }
					: (struct turn){ 0, EAGAIN };
		assert_ends(CONN_EOF, "closed");
		assert_int_equal(kernel.recv_calls, 1);
	}
}

static void conn__what_comes_after_last_words_is_thrown_away_in_pieces(void **state)
{
	static uint8_t waste[40 * 4096];

	(void)state;
	comes(waste, sizeof(waste));
	conn_last_words(conn, now_ns);
	assert_int_equal(read_one(), CONN_NONE);
	assert_int_equal(kernel.recv_calls, 16);
	assert_int_equal(kernel.at - kernel.in, 16 * 4096);
	begin_anew();
	comes(waste, 3);
	for (uint32_t call = 0; call < 6; call++)
		kernel.recvs[call] = call % 2 ? (struct turn){ -1, EINTR } : (struct turn){ 1, 0 };
	conn_last_words(conn, now_ns);
	assert_int_equal(read_one(), CONN_NONE);
	assert_int_equal(kernel.recv_calls, 7); /* the last says that there is no more */
	assert_int_equal(kernel.at - kernel.in, 3);
}

/* ---- what comes ---- */

/* A PING of so many bytes of JSON, blanks at its end. */
static void long_ping_comes(size_t json_bytes)
{
	static const char ping[] = "{\"type\":\"PING\",\"serial\":77}";
	uint8_t length[4];

	wire_put32(length, (uint32_t)json_bytes);
	comes(length, 4);
	comes(ping, sizeof(ping) - 1);
	assert_true(kernel.in_bytes + json_bytes <= IN_MAX);
	memset(kernel.in + kernel.in_bytes, ' ', json_bytes - (sizeof(ping) - 1));
	kernel.in_bytes += json_bytes - (sizeof(ping) - 1);
}

static void conn__room_for_a_message_grows_as_it_comes(void **state)
{
	(void)state;
	for (uint32_t is_first = 0; is_first < 2; is_first++) {
		if (!is_first)
			ping_comes(3);
		long_ping_comes(CODEC_JSON_BYTES_MAX);
		ping_comes(4);
		if (!is_first)
			assert_ping(3);
		assert_ping(77);
		assert_ping(4);
		assert_int_equal(kernel.sizes_count, 10);
		for (uint32_t i = 0; i < 9; i++)
			assert_int_equal(kernel.sizes[i], (size_t)4096 << i);
		assert_int_equal(kernel.sizes[9], CODEC_JSON_BYTES_MAX + 4);
		begin_anew();
	}
}

static void conn__no_memory_to_hear_something_is_an_end(void **state)
{
	(void)state;
	ping_comes(1);
	kernel.has_no_memory = true;
	assert_ends(CONN_ERROR, "Cannot allocate memory");
	assert_int_equal(kernel.recv_calls, 0);
}

static void conn__a_message_beyond_a_megabyte_is_an_end(void **state)
{
	(void)state;
	long_ping_comes(CODEC_JSON_BYTES_MAX + 1);
	assert_ends(CONN_ERROR, "the peer does not speak tally: it began with "
				"\"\\x00\\x10\\x00\\x01{\\x22type\\x22:\\x22PING\\x22,\\x22seri\"");
	begin_anew();
	ping_comes(1);
	long_ping_comes(CODEC_JSON_BYTES_MAX + 1);
	assert_ping(1);
	assert_ends(CONN_ERROR, "the peer said nonsense: a message is too long");
}

static void conn__a_recv_that_fails_ends_it_unless_it_was_interrupted(void **state)
{
	(void)state;
	ping_comes(8);
	kernel.recvs[0] = (struct turn){ -1, EINTR };
	kernel.recvs[1] = (struct turn){ 6, 0 };
	kernel.recvs[2] = (struct turn){ -1, EINTR };
	assert_ping(8);
	assert_int_equal(kernel.recv_calls, 4);
	kernel.recvs[4] = (struct turn){ -1, ETIMEDOUT };
	assert_ends(CONN_ERROR, "Connection timed out");
	begin_anew();
	kernel.recvs[0] = (struct turn){ 0, EAGAIN }; /* an old one */
	assert_ends(CONN_EOF, "the peer closed the connection");
}

static void conn__a_stranger_is_known_by_its_fifth_byte(void **state)
{
	(void)state;
	comes("\0\0\0\x05", 4);
	assert_int_equal(read_one(), CONN_NONE); /* it may become a message */
	comes("n", 1);
	assert_ends(CONN_ERROR,
		    "the peer does not speak tally: it began with \"\\x00\\x00\\x00\\x05n\"");
	begin_anew();
	comes("\x7f ~}\x1f\x80", 6);
	assert_ends(CONN_ERROR,
		    "the peer does not speak tally: it began with \"\\x7f ~}\\x1f\\x80\"");
	assert_int_equal(conn_answer_nonsense(conn, &codec, progress(3), now_ns), -EPIPE);
	begin_anew();
	ping_comes(1);
	comes("\0\0\0\x01n", 5); /* after a message it is none */
	assert_ping(1);
	assert_int_equal(read_one(), CONN_ERROR);
	assert_memory_equal(conn_text(conn), "the peer said nonsense: not JSON: ", 34);
}

static void conn__a_message_of_no_bytes_is_nonsense_at_once(void **state)
{
	(void)state;
	comes("\0\0\0\0", 4);
	assert_int_equal(read_one(), CONN_ERROR);
	assert_memory_equal(conn_text(conn), "the peer said nonsense: not JSON: ", 34);
}

/* ---- nonsense is answered ---- */

static void assert_answered(void)
{
	enum { LATER_S = 7 };
	const uint64_t later_ns = now_ns + LATER_S * second_ns;

	assert_int_equal(conn_answer_nonsense(conn, &codec, progress(33), later_ns), 0);
	assert_said(33);
	assert_int_equal(kernel.shutdowns, 1);
	assert_int_equal(conn_events(conn), POLLIN);
	assert_true(conn_deadline(conn) == later_ns + 5 * second_ns);
	assert_int_equal(conn_answer_nonsense(conn, &codec, progress(33), later_ns), -EPIPE);
	assert_int_equal(read_one(), CONN_NONE); /* no message may come of the rest */
	assert_true(kernel.at == kernel.in + kernel.in_bytes);
	kernel.recvs[kernel.recv_calls] = (struct turn){ 0, EIO };
	assert_int_equal(read_one(), CONN_EOF);
	assert_int_equal(read_one(), CONN_NONE);
	assert_int_equal(conn_answer_nonsense(conn, &codec, progress(33), later_ns), -EPIPE);
	assert_said(33);
}

static void conn__a_first_message_has_the_size_that_is_allowed(void **state)
{
	(void)state;
	conn_limit(conn, 50);
	long_ping_comes(50);
	assert_ping(77);
	long_ping_comes(51);
	ping_comes(2);
	assert_int_equal(conn_answer_nonsense(conn, &codec, progress(33), now_ns), -EPIPE);
	assert_int_equal(read_one(), CONN_ERROR);
	assert_string_equal(conn_text(conn), "a first message of 51 bytes, not up to 50");
	assert_answered();
	begin_anew();
	conn_limit(conn, 50);
	ping_comes(1);
	assert_ping(1);
	conn_limit(conn, CODEC_JSON_BYTES_MAX);
	long_ping_comes(51);
	assert_ping(77);
}

static void conn__what_cannot_be_read_is_answered(void **state)
{
	(void)state;
	comes("\0\0\0\x0f{\"type\":\"PONG\"}", 19);
	ping_comes(2);
	assert_int_equal(read_one(), CONN_ERROR);
	assert_string_equal(conn_text(conn), "the peer said nonsense: PONG: no key \"serial\"");
	assert_answered();
	begin_anew(); /* another end has no answer */
	kernel.recvs[0] = (struct turn){ -1, ECONNRESET };
	assert_ends(CONN_ERROR, "Connection reset by peer");
	assert_int_equal(conn_answer_nonsense(conn, &codec, progress(33), now_ns), -EPIPE);
	assert_int_equal(kernel.out_bytes, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	static const struct CMUnitTest tests[] = {
		TEST(conn__goes_on_where_the_kernel_stopped),
		TEST(conn__a_send_of_nothing_is_no_failure),
		TEST(conn__a_send_that_fails_ends_it),
		TEST(conn__what_the_peer_said_before_it_went_is_read),
		TEST(conn__keeps_twice_as_much_when_it_must),
		TEST(conn__four_megabytes_may_wait_and_no_byte_more),
		TEST(conn__no_memory_to_say_something_is_no_end),
		TEST(conn__last_words_are_over_when_they_are_sent),
		TEST(conn__nobody_cares_how_last_words_ended),
		TEST(conn__what_comes_after_last_words_is_thrown_away_in_pieces),
		TEST(conn__room_for_a_message_grows_as_it_comes),
		TEST(conn__no_memory_to_hear_something_is_an_end),
		TEST(conn__a_message_beyond_a_megabyte_is_an_end),
		TEST(conn__a_recv_that_fails_ends_it_unless_it_was_interrupted),
		TEST(conn__a_stranger_is_known_by_its_fifth_byte),
		TEST(conn__a_message_of_no_bytes_is_nonsense_at_once),
		TEST(conn__a_first_message_has_the_size_that_is_allowed),
		TEST(conn__what_cannot_be_read_is_answered),
	};

	return cmocka_run_group_tests_name("control-conn_flow", tests, NULL, NULL);
}
