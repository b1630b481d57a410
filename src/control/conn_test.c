/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/conn.h"
#include "tests/skip.h"

static const uint64_t second_ns = 1000000000;
static struct codec codec;
static struct control_message message;

/* ---- a name with two addresses, and another user (linked with --wrap) ---- */

static uid_t other_user; /* 0: the kernel says whose socket it is */

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **found);
void __real_freeaddrinfo(struct addrinfo *found);
void __wrap_freeaddrinfo(struct addrinfo *found);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	int result = __real_getsockopt(fd, level, name, value, bytes);

	if (!result && level == SOL_SOCKET && name == SO_PEERCRED && other_user)
		((struct ucred *)value)->uid = other_user;
	return result;
}

static struct sockaddr_in two_addresses[2];
static struct addrinfo two_found[2];

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **found)
{
	if (!host || strcmp(host, "two.test"))
		return __real_getaddrinfo(host, port, hints, found);
	for (uint32_t i = 0; i < 2; i++) {
		two_addresses[i] = (struct sockaddr_in){ .sin_family = AF_INET,
							 .sin_addr.s_addr = htonl(0x7f000002u - i),
							 .sin_port = htons((uint16_t)atoi(port)) };
		two_found[i] = (struct addrinfo){ .ai_addr = (void *)&two_addresses[i],
						  .ai_addrlen = sizeof(two_addresses[i]),
						  .ai_next = i ? NULL : &two_found[1] };
	}
	*found = two_found;
	return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
	if (found != two_found)
		__real_freeaddrinfo(found);
}

static struct {
	int listen_fd;
	struct conn_address address;
	struct conn *client, *server;
	uint64_t now_ns; /* ours: time passes when a test says so */
} t;

static int set_up(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.now_ns = 1000 * second_ns;
	t.listen_fd = -1;
	other_user = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	conn_close(t.client);
	conn_close(t.server);
	if (t.listen_fd >= 0)
		close(t.listen_fd);
	return 0;
}

/* Until something happens, at most 5 s of real time. */
static enum conn_result await(struct conn *conn)
{
	for (uint32_t i = 0; i < 50; i++) {
		enum conn_result result = conn_read(conn, t.now_ns, &codec, &message);
		if (result != CONN_NONE)
			return result;
		struct pollfd poll_fd = { .fd = conn_fd(conn), .events = conn_events(conn) };
		poll(&poll_fd, 1, 100);
	}
	return CONN_NONE;
}

static void listen_on(const char *text)
{
	assert_int_equal(conn_resolve(text, 0, &t.address), 0);
	t.listen_fd = conn_listen(&t.address);
	assert_true(t.listen_fd >= 0);
}

static void connect_both(const char *text)
{
	listen_on(text);
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, 5 * second_ns), 0);
	assert_int_equal(await(t.client), CONN_CONNECTED);
	struct pollfd poll_fd = { .fd = t.listen_fd, .events = POLLIN };
	poll(&poll_fd, 1, 5000);
	assert_int_equal(conn_accept(&t.server, t.listen_fd), 0);
}

static void send_ping(struct conn *conn, uint32_t serial)
{
	struct control_message ping = { .type = CONTROL_PING, .ping = { serial } };

	assert_int_equal(conn_send(conn, &codec, &ping), 0);
}

static void send_abort(struct conn *conn, const char *text)
{
	struct control_message abort = { .type = CONTROL_ABORT };

	abort.end.cause = CONTROL_REMOTE;
	strcpy(abort.end.text, text);
	assert_int_equal(conn_send(conn, &codec, &abort), 0);
}

static void assert_ping(struct conn *conn, uint32_t serial)
{
	assert_int_equal(await(conn), CONN_MESSAGE);
	assert_int_equal(message.type, CONTROL_PING);
	assert_int_equal(message.ping.serial, serial);
}

static void check_both_ways(const char *text)
{
	struct conn_address local = { .bytes = 0 };
	socklen_t bytes = sizeof(local.socket);
	uint8_t ip[16], peer_ip[16];
	uint16_t port, peer_port;

	connect_both(text);
	for (uint32_t i = 0; i < 3; i++) {
		send_ping(t.client, i);
		send_ping(t.server, 100 + i);
	}
	for (uint32_t i = 0; i < 3; i++) {
		assert_ping(t.server, i);
		assert_ping(t.client, 100 + i);
	}
	assert_int_equal(conn_read(t.client, t.now_ns, &codec, &message), CONN_NONE);
	assert_int_equal(getsockname(conn_fd(t.client), (struct sockaddr *)&local.socket, &bytes),
			 0);
	conn_address_ip(&local, ip, &port);
	conn_peer(t.server, peer_ip, &peer_port);
	assert_memory_equal(ip, peer_ip, 16);
	assert_int_equal(port, peer_port);
	assert_int_equal(conn_events(t.client), POLLIN);
	assert_true(conn_deadline(t.client) == UINT64_MAX);
}

static void conn__talks_over_ipv4(void **state)
{
	(void)state;
	uint8_t ip[16];
	uint16_t port;

	check_both_ways("127.0.0.1:0");
	conn_peer(t.client, ip, &port);
	assert_memory_equal(ip, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01", 16);
	assert_int_not_equal(port, 0);
}

static void conn__talks_over_ipv6(void **state)
{
	(void)state;
	if (access("/proc/net/if_inet6", R_OK))
		SKIP("no IPv6 in this kernel");
	check_both_ways("[::1]:0");
}

static void conn__talks_over_an_abstract_unix_socket(void **state)
{
	(void)state;
	char name[64];

	snprintf(name, sizeof(name), "@tally/test/%d", (int)getpid());
	check_both_ways(name);
	assert_string_equal(t.address.text, name);
}

static void conn__nobody_there_is_an_error_with_a_text(void **state)
{
	(void)state;
	listen_on("127.0.0.1:0");
	close(t.listen_fd);
	t.listen_fd = -1;
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, second_ns), 0);
	assert_int_equal(await(t.client), CONN_ERROR);
	assert_string_equal(conn_text(t.client), "Connection refused");
	assert_int_equal(conn_read(t.client, t.now_ns, &codec, &message),
			 CONN_NONE); /* told once */
	assert_int_equal(conn_events(t.client), 0);
	assert_true(conn_deadline(t.client) == UINT64_MAX);
}

/* As by chance, where the port is one of those that the kernel gives to sockets. */
static void conn__a_socket_is_not_connected_to_itself(void **state)
{
	(void)state;
	listen_on("127.0.0.1:0");
	close(t.listen_fd);
	t.listen_fd = -1;
	t.address.from = t.address.socket;
	t.address.from_bytes = t.address.bytes;
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, second_ns), -ECONNREFUSED);
	t.client = NULL;
	t.listen_fd = conn_listen(&t.address); /* it is free */
	assert_true(t.listen_fd >= 0);
}

static void conn__a_name_of_nobody_on_this_host_is_an_error_at_once(void **state)
{
	(void)state;
	assert_int_equal(conn_resolve("@tally/nobody/here", 0, &t.address), 0);
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, second_ns), -ECONNREFUSED);
	t.client = NULL;
}

static void conn__another_users_local_socket_is_refused(void **state)
{
	(void)state;
	char name[64];

	snprintf(name, sizeof(name), "@tally/test/%d", (int)getpid());
	listen_on(name);
	other_user = geteuid() + 1;
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, second_ns), 0);
	assert_int_equal(await(t.client), CONN_ERROR);
	assert_string_equal(conn_text(t.client), "another user's process listens there");
	conn_close(t.client);
	other_user = 0;
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, second_ns), 0);
	assert_int_equal(await(t.client), CONN_CONNECTED);
}

/* 127.0.0.2 refuses, 127.0.0.1 does not. */
static void conn__addresses_of_a_name_take_turns(void **state)
{
	(void)state;
	struct conn_address address;
	char text[64];
	uint8_t ip[16];
	uint16_t port;

	listen_on("127.0.0.1:0");
	conn_address_ip(&t.address, ip, &port);
	snprintf(text, sizeof(text), "two.test:%u", port);
	assert_int_equal(conn_resolve(text, 1, &address), 0);
	assert_string_equal(address.text, text);
	for (uint32_t turn = 0; turn < 4; turn++) {
		conn_address_ip(&address, ip, &port);
		assert_int_equal(ip[15], turn % 2 ? 1 : 2);
		assert_int_equal(conn_connect(&t.client, &address, t.now_ns, second_ns), 0);
		assert_int_equal(await(t.client), turn % 2 ? CONN_CONNECTED : CONN_ERROR);
		conn_close(t.client);
		t.client = NULL;
		conn_address_next(&address);
	}
}

static void conn__connecting_ends_when_its_time_is_over(void **state)
{
	(void)state;
	/* a full backlog answers nobody */
	listen_on("127.0.0.1:0");
	assert_int_equal(listen(t.listen_fd, 0), 0);
	struct conn *crowd[4] = { NULL };
	bool is_stuck = false;
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(conn_connect(&crowd[i], &t.address, t.now_ns, second_ns), 0);
		struct pollfd poll_fd = { .fd = conn_fd(crowd[i]), .events = POLLOUT };
		if (poll(&poll_fd, 1, 50))
			continue;
		is_stuck = true;
		assert_int_equal(conn_read(crowd[i], t.now_ns, &codec, &message), CONN_NONE);
		assert_true(conn_deadline(crowd[i]) == t.now_ns + second_ns);
		assert_int_equal(conn_read(crowd[i], t.now_ns + second_ns, &codec, &message),
				 CONN_ERROR);
		assert_string_equal(conn_text(crowd[i]), "Connection timed out");
	}
	for (uint32_t i = 0; i < 4; i++)
		conn_close(crowd[i]);
	assert_true(is_stuck);
}

static void conn__what_is_said_before_the_connection_stands_is_sent(void **state)
{
	(void)state;
	listen_on("127.0.0.1:0");
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, second_ns), 0);
	send_ping(t.client, 7);
	assert_int_equal(await(t.client), CONN_CONNECTED);
	assert_int_equal(conn_accept(&t.server, t.listen_fd), 0);
	assert_ping(t.server, 7);
}

static void conn__leaves_from_the_address_that_it_is_given(void **state)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct pollfd poll_fd = { .events = POLLIN };
	uint8_t ip[16];
	uint16_t port;

	(void)state;
	listen_on("127.0.0.1:0");
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 6);
	memcpy(&t.address.from, &from, sizeof(from));
	t.address.from_bytes = sizeof(from);
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, 5 * second_ns), 0);
	assert_int_equal(await(t.client), CONN_CONNECTED);
	poll_fd.fd = t.listen_fd;
	poll(&poll_fd, 1, 5000);
	assert_int_equal(conn_accept(&t.server, t.listen_fd), 0);
	conn_peer(t.server, ip, &port);
	assert_memory_equal(ip, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x07", 16);
}

static void conn__nobody_waiting_is_not_an_error(void **state)
{
	(void)state;
	listen_on("127.0.0.1:0");
	assert_int_equal(conn_accept(&t.server, t.listen_fd), -EAGAIN);
	assert_int_equal(conn_accept(&t.server, -1), -EBADF); /* that is one */
	t.server = NULL;
}

/* What was sent leaves at once, and a peer that acknowledges nothing for 20 s is gone. */
static void conn__kernel_is_told_to_be_quick_and_to_end(void **state)
{
	unsigned value = 0;
	socklen_t bytes = sizeof(value);

	(void)state;
	listen_on("127.0.0.1:0");
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, 5 * second_ns), 0);
	assert_int_equal(await(t.client), CONN_CONNECTED);
	for (int i = 0; i < 500 && conn_accept(&t.server, t.listen_fd); i++)
		poll(NULL, 0, 5);
	for (int i = 0; i < 2; i++) {
		int fd = conn_fd(i ? t.client : t.server);

		assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
		assert_true(value != 0);
		assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &bytes), 0);
		assert_int_equal(value, 20000);
	}
}

static void conn__a_message_may_come_byte_by_byte(void **state)
{
	(void)state;
	struct control_message ping = { .type = CONTROL_PING, .ping = { 42 } };
	uint8_t *frame;
	size_t bytes;

	connect_both("127.0.0.1:0");
	assert_int_equal(codec_encode(&codec, &ping, &frame, &bytes), 0);
	for (size_t i = 0; i < bytes; i++) {
		assert_int_equal(conn_read(t.server, t.now_ns, &codec, &message), CONN_NONE);
		assert_int_equal(send(conn_fd(t.client), frame + i, 1, 0), 1);
	}
	free(frame);
	assert_ping(t.server, 42);
}

static void conn__the_largest_message_arrives(void **state)
{
	(void)state;
	struct control_op *ops = calloc(CONTROL_OPS_MAX, sizeof(*ops));
	struct control_message opinfo = { .type = CONTROL_OPINFO };

	assert_non_null(ops);
	for (uint32_t i = 0; i < CONTROL_OPS_MAX; i++) {
		ops[i].number = i;
		memset(ops[i].name, 1, CONTROL_OP_NAME_BYTES - 1);
	}
	opinfo.opinfo.ops = ops;
	opinfo.opinfo.ops_count = CONTROL_OPS_MAX;
	connect_both("127.0.0.1:0");
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(conn_send(t.client, &codec, &opinfo), 0);
	for (uint32_t i = 0; i < 3;) {
		enum conn_result result = conn_read(t.server, t.now_ns, &codec, &message);
		conn_read(t.client, t.now_ns, &codec, &message);
		if (result == CONN_NONE)
			continue;
		assert_int_equal(result, CONN_MESSAGE);
		assert_int_equal(message.opinfo.ops_count, CONTROL_OPS_MAX);
		assert_int_equal(message.opinfo.ops[511].number, 511);
		i++;
	}
	free(ops);
}

static void conn__end_of_file_comes_after_all_that_was_said(void **state)
{
	(void)state;
	connect_both("127.0.0.1:0");
	send_ping(t.client, 1);
	send_ping(t.client, 2);
	conn_close(t.client);
	t.client = NULL;
	assert_ping(t.server, 1);
	assert_ping(t.server, 2);
	assert_int_equal(await(t.server), CONN_EOF);
	assert_string_equal(conn_text(t.server), "the peer closed the connection");
	assert_int_equal(conn_send(t.server, &codec, &message), -EPIPE);
}

static void conn__end_of_file_in_a_message_is_an_error(void **state)
{
	(void)state;
	connect_both("127.0.0.1:0");
	assert_int_equal(send(conn_fd(t.client), "\0\0\0\x08{\"ty", 8, 0), 8);
	conn_close(t.client);
	t.client = NULL;
	assert_int_equal(await(t.server), CONN_ERROR);
	assert_string_equal(conn_text(t.server), "the peer closed the connection in a message");
}

static void conn__nonsense_ends_the_connection_with_a_text(void **state)
{
	(void)state;
	connect_both("127.0.0.1:0");
	assert_int_equal(send(conn_fd(t.client), "\0\0\0\x0f{\"type\":\"PING\"}", 19, 0), 19);
	assert_int_equal(await(t.server), CONN_ERROR);
	assert_string_equal(conn_text(t.server), "the peer said nonsense: PING: no key \"serial\"");
}

/* Whoever has given the wrong port sees what answers there. */
static void conn__what_speaks_no_tally_is_shown(void **state)
{
	static const struct {
		const char *said, *shown;
		size_t bytes;
	} strangers[] = {
		{ "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		  "HTTP/1.1 400 Bad Request", 47 },
		{ "SSH", "SSH", 3 },
		{ "\x15\x03\x01\x00\x02\x02\x16", "\\x15\\x03\\x01\\x00\\x02\\x02\\x16", 7 },
		{ "\0\0\0\x04null", "\\x00\\x00\\x00\\x04null", 8 },
		{ "\"\\\xff?", "\\x22\\x5c\\xff?", 4 },
	};
	char text[160];

	(void)state;
	for (size_t i = 0; i < sizeof(strangers) / sizeof(*strangers); i++) {
		connect_both("127.0.0.1:0");
		assert_int_equal(send(conn_fd(t.client), strangers[i].said, strangers[i].bytes, 0),
				 strangers[i].bytes);
		shutdown(conn_fd(t.client), SHUT_WR);
		assert_int_equal(await(t.server), CONN_ERROR);
		snprintf(text, sizeof(text), "the peer does not speak tally: it began with \"%s\"",
			 strangers[i].shown);
		assert_string_equal(conn_text(t.server), text);
		tear_down(state);
		set_up(state);
	}
}

static void conn__what_is_too_long_after_a_message_is_nonsense(void **state)
{
	(void)state;
	connect_both("127.0.0.1:0");
	message = (struct control_message){ .type = CONTROL_HEARTBEAT };
	assert_int_equal(conn_send(t.client, &codec, &message), 0);
	assert_int_equal(await(t.server), CONN_MESSAGE);
	assert_int_equal(send(conn_fd(t.client), "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
	assert_int_equal(await(t.server), CONN_ERROR);
	assert_string_equal(conn_text(t.server), "the peer said nonsense: a message is too long");
}

/* A close with unread input resets the connection, and the reset eats what was said last. */
static void conn__last_words_arrive_although_much_was_unread(void **state)
{
	(void)state;
	connect_both("127.0.0.1:0");
	for (uint32_t i = 0; i < 2000; i++)
		send_ping(t.client, i);
	send_abort(t.server, "rank 1 on b died");
	conn_last_words(t.server, t.now_ns);
	for (uint32_t i = 0; i < 100; i++)
		send_ping(t.client, i);
	assert_int_equal(conn_read(t.server, t.now_ns, &codec, &message), CONN_NONE);
	assert_int_equal(await(t.client), CONN_MESSAGE);
	assert_int_equal(message.type, CONTROL_ABORT);
	assert_string_equal(message.end.text, "rank 1 on b died");
	assert_int_equal(await(t.client), CONN_EOF);
	conn_close(t.client);
	t.client = NULL;
	assert_int_equal(await(t.server), CONN_EOF);
}

static void conn__last_words_wait_5_s_for_a_peer_that_does_not_close(void **state)
{
	(void)state;
	connect_both("127.0.0.1:0");
	send_abort(t.server, "x");
	conn_last_words(t.server, t.now_ns);
	assert_int_equal(conn_send(t.server, &codec, &message), -EPIPE);
	assert_true(conn_deadline(t.server) == t.now_ns + 5 * second_ns);
	t.now_ns += 5 * second_ns - 1;
	assert_int_equal(conn_read(t.server, t.now_ns, &codec, &message), CONN_NONE);
	t.now_ns++;
	assert_int_equal(conn_read(t.server, t.now_ns, &codec, &message), CONN_EOF);
}

static void conn__last_words_of_both_sides_end_at_once(void **state)
{
	(void)state;
	connect_both("127.0.0.1:0");
	send_abort(t.server, "x");
	conn_last_words(t.server, t.now_ns);
	send_abort(t.client, "y");
	conn_last_words(t.client, t.now_ns);
	assert_int_equal(await(t.server), CONN_EOF);
	assert_int_equal(await(t.client), CONN_EOF);
}

static void conn__last_words_before_the_connection_stands_end_it(void **state)
{
	(void)state;
	listen_on("127.0.0.1:0");
	assert_int_equal(conn_connect(&t.client, &t.address, t.now_ns, second_ns), 0);
	conn_last_words(t.client, t.now_ns);
	assert_true(conn_deadline(t.client) == 0);
	assert_int_equal(conn_read(t.client, t.now_ns, &codec, &message), CONN_EOF);
}

static void conn__what_a_reset_peer_said_is_still_read(void **state)
{
	(void)state;
	connect_both("127.0.0.1:0");
	send_abort(t.server, "the text");
	send_ping(t.client, 1); /* unread at the server: its close resets */
	usleep(20000);
	conn_close(t.server);
	t.server = NULL;
	usleep(20000);
	struct control_message ping = { .type = CONTROL_PING };
	conn_send(t.client, &codec,
		  &ping); /* EPIPE or ECONNRESET: the end is conn_read's to tell */
	assert_int_equal(await(t.client), CONN_MESSAGE);
	assert_int_equal(message.type, CONTROL_ABORT);
	assert_string_equal(message.end.text, "the text");
	enum conn_result result = await(t.client);
	assert_true(result == CONN_ERROR || result == CONN_EOF);
}

static void conn__a_peer_that_reads_nothing_is_given_up(void **state)
{
	(void)state;
	struct control_message progress = { .type = CONTROL_PROGRESS };
	int error = 0;

	memset(progress.progress.text, 'x', CONTROL_TEXT_BYTES - 1);
	connect_both("127.0.0.1:0");
	for (uint32_t i = 0; i < 100000 && !error; i++)
		error = conn_send(t.client, &codec, &progress);
	assert_int_equal(error, -ENOBUFS);
	assert_int_equal(conn_events(t.client), POLLIN | POLLOUT);
}

static void conn__messages_that_cannot_be_encoded_are_refused(void **state)
{
	(void)state;
	struct control_message grant = { .type = CONTROL_GRANT };

	connect_both("127.0.0.1:0");
	assert_int_equal(conn_send(t.client, &codec, &grant), -EINVAL);
	assert_true(codec.error[0]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(conn__talks_over_ipv4),
		TEST(conn__talks_over_ipv6),
		TEST(conn__talks_over_an_abstract_unix_socket),
		TEST(conn__nobody_there_is_an_error_with_a_text),
		TEST(conn__a_socket_is_not_connected_to_itself),
		TEST(conn__a_name_of_nobody_on_this_host_is_an_error_at_once),
		TEST(conn__another_users_local_socket_is_refused),
		TEST(conn__addresses_of_a_name_take_turns),
		TEST(conn__connecting_ends_when_its_time_is_over),
		TEST(conn__what_is_said_before_the_connection_stands_is_sent),
		TEST(conn__leaves_from_the_address_that_it_is_given),
		TEST(conn__nobody_waiting_is_not_an_error),
		TEST(conn__kernel_is_told_to_be_quick_and_to_end),
		TEST(conn__a_message_may_come_byte_by_byte),
		TEST(conn__the_largest_message_arrives),
		TEST(conn__end_of_file_comes_after_all_that_was_said),
		TEST(conn__end_of_file_in_a_message_is_an_error),
		TEST(conn__nonsense_ends_the_connection_with_a_text),
		TEST(conn__what_speaks_no_tally_is_shown),
		TEST(conn__what_is_too_long_after_a_message_is_nonsense),
		TEST(conn__last_words_arrive_although_much_was_unread),
		TEST(conn__last_words_wait_5_s_for_a_peer_that_does_not_close),
		TEST(conn__last_words_of_both_sides_end_at_once),
		TEST(conn__last_words_before_the_connection_stands_end_it),
		TEST(conn__what_a_reset_peer_said_is_still_read),
		TEST(conn__a_peer_that_reads_nothing_is_given_up),
		TEST(conn__messages_that_cannot_be_encoded_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
