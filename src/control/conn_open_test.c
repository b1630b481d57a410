/* SPDX-License-Identifier: Apache-2.0 */
/* conn_open_test.c - how connections begin, of a kernel and a DNS that are played: what these are asked, what becomes of
 * their refusals, and that nothing is left of it. */
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
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/conn.h"
#include "util/memory_fixture.h"

/* A process that has closed its standard input gets this descriptor: it is one like others. */
enum { FD = 0, LISTEN_FD = 1 << 20, OPTIONS_MAX = 16, ME = 1000, NAMES_MAX = 12 };

static const uint64_t second_ns = 1000000000, now_ns = 1000 * 1000000000ull;

struct option {
	int level, name, value;
};

static struct codec codec;
static struct control_message message;

static struct {
	/* errno of the call; 0: it does not fail */
	int socket, bind, listen, connect, accept, getsockname, error_option, error, peer_option,
		poll, send;
	int family, type;
	uint32_t sockets, binds, closes;
	struct sockaddr_storage bound, own;
	socklen_t own_bytes;
	struct option options[OPTIONS_MAX];
	uint32_t options_count;
	uid_t peer;
	bool is_waiting; /* it has not connected yet */
	uint8_t in[64];
	size_t in_bytes;
} kernel;

int __wrap_socket(int family, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_listen(int fd, int backlog);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_close(int fd);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
uid_t __wrap_geteuid(void);

/* What succeeds leaves errno as it was. */
static int refused(int error)
{
	if (error)
		errno = error;
	return error ? -1 : 0;
}

int __wrap_socket(int family, int type, int protocol)
{
	kernel.sockets++;
	kernel.family = family;
	kernel.type = type;
	assert_int_equal(protocol, 0);
	return refused(kernel.socket) ? -1 : FD;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	assert_int_equal(fd, FD);
	assert_true(bytes <= sizeof(kernel.bound));
	memcpy(&kernel.bound, address, bytes);
	kernel.binds++;
	return refused(kernel.bind);
}

int __wrap_listen(int fd, int backlog)
{
	assert_int_equal(fd, FD);
	assert_int_equal(backlog, 1024);
	return refused(kernel.listen);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	(void)address, (void)bytes;
	assert_int_equal(fd, FD);
	return refused(kernel.connect);
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	(void)address, (void)bytes;
	assert_int_equal(fd, LISTEN_FD);
	assert_int_equal(flags, SOCK_NONBLOCK | SOCK_CLOEXEC);
	return refused(kernel.accept) ? -1 : FD;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
	assert_int_equal(fd, FD);
	assert_int_equal(*bytes, sizeof(struct sockaddr_storage)); /* room for all families */
	if (refused(kernel.getsockname))
		return -1;
	memcpy(address, &kernel.own, kernel.own_bytes);
	*bytes = kernel.own_bytes;
	return 0;
}

int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *bytes)
{
	return __wrap_getsockname(fd, address, bytes);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	assert_int_equal(fd, FD);
	assert_int_equal(level, SOL_SOCKET);
	if (name == SO_PEERCRED) {
		assert_int_equal(*bytes, sizeof(struct ucred));
		*(struct ucred *)value = (struct ucred){ .uid = kernel.peer };
		return refused(kernel.peer_option);
	}
	assert_int_equal(name, SO_ERROR);
	if (refused(kernel.error_option))
		return -1;
	memcpy(value, &kernel.error, sizeof(kernel.error));
	return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	struct option *option = &kernel.options[kernel.options_count++];

	assert_int_equal(fd, FD);
	assert_true(kernel.options_count <= OPTIONS_MAX);
	assert_true(bytes >= sizeof(option->value));
	*option = (struct option){ level, name, 0 };
	memcpy(&option->value, value, sizeof(option->value));
	return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	assert_int_equal(count, 1);
	assert_int_equal(fds->fd, FD);
	assert_int_equal(fds->events, POLLOUT);
	assert_int_equal(timeout_ms, 0); /* nothing of it blocks */
	if (kernel.poll)
		return refused(kernel.poll);
	return !kernel.is_waiting;
}

int __wrap_close(int fd)
{
	assert_int_equal(fd, FD);
	kernel.closes++;
	return 0;
}

ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags)
{
	(void)from, (void)bytes, (void)flags;
	assert_int_equal(fd, FD);
	errno = kernel.send ? kernel.send : EAGAIN;
	return -1;
}

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags)
{
	size_t left = kernel.in_bytes;

	(void)flags;
	assert_int_equal(fd, FD);
	assert_true(bytes >= left);
	memcpy(to, kernel.in, left);
	kernel.in_bytes = 0;
	errno = EAGAIN;
	return left ? (ssize_t)left : -1;
}

uid_t __wrap_geteuid(void)
{
	return ME;
}

static int set_up(void **state)
{
	static const struct sockaddr_in own = { .sin_family = AF_INET };

	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	memcpy(&kernel.own, &own, sizeof(own));
	kernel.own_bytes = sizeof(own);
	return 0;
}

static void assert_option(int level, int name, int value)
{
	for (uint32_t i = 0; i < kernel.options_count; i++) {
		const struct option *option = &kernel.options[i];

		if (option->level == level && option->name == name) {
			assert_int_equal(option->value, value);
			return;
		}
	}
	fail_msg("option %d of %d is not set", name, level);
}

static struct conn_address address_of(const char *text)
{
	struct conn_address address;

	memset(&address, 0, sizeof(address));
	if (text[0] == '@') {
		assert_int_equal(conn_resolve(text, 0, &address), 0);
	} else if (strchr(text, ':')) {
		struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
					    .sin6_addr = IN6ADDR_LOOPBACK_INIT };

		memcpy(&address.socket, &in6, sizeof(in6));
		address.bytes = sizeof(in6);
	} else {
		struct sockaddr_in in = { .sin_family = AF_INET,
					  .sin_port = htons(7171),
					  .sin_addr.s_addr = htonl(0x0a000001) };

		memcpy(&address.socket, &in, sizeof(in));
		address.bytes = sizeof(in);
	}
	return address;
}

/* ---- listening ---- */

static void conn__listens_without_blocking_and_again_at_once(void **state)
{
	static const struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = 0x1234 };
	struct conn_address address = address_of("10.0.0.1");

	(void)state;
	memcpy(&kernel.own, &own, sizeof(own));
	assert_int_equal(conn_listen(&address), FD);
	assert_int_equal(kernel.family, AF_INET);
	assert_int_equal(kernel.type, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_int_equal(kernel.options_count, 1);
	assert_option(SOL_SOCKET, SO_REUSEADDR, 1);
	assert_int_equal(kernel.closes, 0);
	assert_int_equal(address.bytes, sizeof(own));
	assert_memory_equal(&address.socket, &own, sizeof(own)); /* the port that it got */
}

static void conn__listens_to_both_families_and_to_none(void **state)
{
	struct conn_address address = address_of("::1");

	(void)state;
	assert_int_equal(conn_listen(&address), FD);
	assert_int_equal(kernel.options_count, 2);
	assert_option(SOL_SOCKET, SO_REUSEADDR, 1);
	assert_option(IPPROTO_IPV6, IPV6_V6ONLY, 0);
	set_up(state);
	address = address_of("@name");
	assert_int_equal(conn_listen(&address), FD);
	assert_int_equal(kernel.family, AF_UNIX);
	assert_int_equal(address.socket.ss_family, AF_UNIX); /* it has the name that it asked for */
}

static void conn__does_not_listen_where_the_kernel_refuses(void **state)
{
	struct conn_address address = address_of("10.0.0.1"), before = address;

	(void)state;
	kernel.socket = EMFILE;
	assert_int_equal(conn_listen(&address), -EMFILE);
	assert_int_equal(kernel.closes, 0);
	set_up(state);
	kernel.bind = EADDRINUSE;
	assert_int_equal(conn_listen(&address), -EADDRINUSE);
	assert_int_equal(kernel.closes, 1);
	set_up(state);
	kernel.listen = EOPNOTSUPP;
	assert_int_equal(conn_listen(&address), -EOPNOTSUPP);
	assert_int_equal(kernel.closes, 1);
	assert_memory_equal(&address, &before, sizeof(address));
}

/* ---- connecting ---- */

static void assert_connects_not(const struct conn_address *address, int error, uint32_t closes)
{
	struct conn *conn = NULL;

	assert_int_equal(conn_connect(&conn, address, now_ns, second_ns), error);
	assert_null(conn);
	assert_int_equal(kernel.closes, closes);
	set_up(NULL);
}

static void conn__does_not_connect_where_the_kernel_refuses(void **state)
{
	struct conn_address address = address_of("10.0.0.1");

	(void)state;
	kernel.socket = ENFILE;
	assert_connects_not(&address, -ENFILE, 0);
	kernel.connect = ENETUNREACH;
	assert_connects_not(&address, -ENETUNREACH, 1);
	memory_count(1);
	assert_connects_not(&address, -ENOMEM, 1);
	memory.is_counting = false;
	address.from = address.socket;
	address.from_bytes = address.bytes;
	kernel.bind = EADDRNOTAVAIL;
	assert_connects_not(&address, -EADDRNOTAVAIL, 1);
}

static struct conn *connect_to(const struct conn_address *address)
{
	struct conn *conn = NULL;

	assert_int_equal(conn_connect(&conn, address, now_ns, second_ns), 0);
	assert_int_equal(conn_fd(conn), FD);
	assert_int_equal(conn_events(conn), POLLOUT);
	assert_true(conn_deadline(conn) == now_ns + second_ns);
	return conn;
}

static void conn__connects_at_once_or_later(void **state)
{
	struct conn_address address = address_of("10.0.0.1");
	struct conn *conn;

	(void)state;
	kernel.getsockname = ENOBUFS; /* who it is itself, it need not know */
	kernel.connect = EINPROGRESS;
	kernel.is_waiting = true;
	conn = connect_to(&address);
	assert_int_equal(kernel.type, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_int_equal(kernel.binds, 0);
	assert_option(IPPROTO_TCP, TCP_NODELAY, 1);
	assert_option(IPPROTO_TCP, TCP_USER_TIMEOUT, 20000);
	assert_int_equal(conn_read(conn, now_ns + second_ns - 1, &codec, &message), CONN_NONE);
	kernel.poll = EINTR; /* a signal says nothing of it */
	assert_int_equal(conn_read(conn, now_ns + second_ns - 1, &codec, &message), CONN_NONE);
	kernel.poll = 0;
	kernel.is_waiting = false;
	assert_int_equal(conn_read(conn, now_ns + second_ns, &codec, &message), CONN_CONNECTED);
	assert_true(conn_deadline(conn) == UINT64_MAX);
	conn_close(conn);
	assert_int_equal(kernel.closes, 1);
}

static void assert_fails(struct conn *conn, const char *text)
{
	assert_int_equal(conn_read(conn, now_ns, &codec, &message), CONN_ERROR);
	assert_string_equal(conn_text(conn), text);
	conn_close(conn);
}

static void conn__says_why_it_did_not_connect(void **state)
{
	struct conn_address address = address_of("10.0.0.1");
	struct conn *conn;

	(void)state;
	kernel.error = EHOSTUNREACH;
	assert_fails(connect_to(&address), "No route to host");
	set_up(state);
	kernel.error_option = ENOBUFS; /* not even that is known */
	assert_fails(connect_to(&address), "No buffer space available");
	set_up(state);
	conn = connect_to(&address);
	assert_int_equal(conn_send(conn, &codec, &(struct control_message){ .type = CONTROL_LEFT }),
			 0);
	kernel.send = EIO; /* of what was said before it stood */
	assert_fails(conn, "Input/output error");
}

/* What a kernel says that is asked before would be its end. */
static void conn__sends_nothing_before_it_stands(void **state)
{
	struct conn_address address = address_of("10.0.0.1");
	struct conn *conn;

	(void)state;
	kernel.connect = EINPROGRESS;
	kernel.is_waiting = true;
	kernel.send = ENOTCONN;
	conn = connect_to(&address);
	assert_int_equal(conn_send(conn, &codec, &(struct control_message){ .type = CONTROL_LEFT }),
			 0);
	assert_int_equal(conn_read(conn, now_ns, &codec, &message), CONN_NONE);
	kernel.is_waiting = false;
	kernel.send = 0;
	assert_int_equal(conn_read(conn, now_ns, &codec, &message), CONN_CONNECTED);
	conn_close(conn);
}

/* Of our user, or root. */
static void conn__speaks_to_no_other_users_socket(void **state)
{
	static const uid_t others[] = { ME - 1, ME + 1, 1, UINT32_MAX };
	struct conn_address address = address_of("@name");

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		kernel.own.ss_family = AF_UNIX;
		kernel.peer = others[i];
		assert_fails(connect_to(&address), "another user's process listens there");
	}
	kernel.peer = ME;
	kernel.peer_option = EOPNOTSUPP; /* nobody knows whose it is */
	assert_fails(connect_to(&address), "another user's process listens there");
	kernel.peer_option = 0;
	for (int is_root = 0; is_root < 2; is_root++) {
		struct conn *conn = connect_to(&address);

		kernel.peer = is_root ? 0 : ME;
		assert_int_equal(conn_read(conn, now_ns, &codec, &message), CONN_CONNECTED);
		conn_close(conn);
	}
}

/* ---- accepting ---- */

static void conn__accepts_or_says_whether_to_try_again(void **state)
{
	static const int errors[][2] = {
		{ EAGAIN, EAGAIN }, { ECONNABORTED, EAGAIN }, { EINTR, EAGAIN },
		{ EMFILE, EMFILE }, { EBADF, EBADF },
	};
	struct conn *conn = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		kernel.accept = errors[i][0];
		assert_int_equal(conn_accept(&conn, LISTEN_FD), -errors[i][1]);
		assert_null(conn);
	}
	assert_int_equal(kernel.closes, 0);
	kernel.accept = 0;
	memory_count(1);
	assert_int_equal(conn_accept(&conn, LISTEN_FD), -ENOMEM);
	memory.is_counting = false;
	assert_null(conn);
	assert_int_equal(kernel.closes, 1);
	errno = EAGAIN; /* an old one */
	assert_int_equal(conn_accept(&conn, LISTEN_FD), 0);
	assert_int_equal(conn_events(conn), POLLIN);
	conn_close(conn);
}

static void conn__gives_all_back_when_it_is_closed(void **state)
{
	static const char said[] = "\0\0\0\x14{\"type\":\"HEARTBEAT\"";
	struct conn *conn;

	(void)state;
	memory_count(0);
	assert_int_equal(conn_accept(&conn, LISTEN_FD), 0);
	assert_int_equal(conn_send(conn, &codec, &(struct control_message){ .type = CONTROL_LEFT }),
			 0);
	memcpy(kernel.in, said, sizeof(said) - 1);
	kernel.in_bytes = sizeof(said) - 1;
	assert_int_equal(conn_read(conn, now_ns, &codec, &message), CONN_NONE);
	assert_int_equal(conn_events(conn), POLLIN | POLLOUT); /* something is kept of both */
	assert_int_equal(memory.held, 3);
	conn_close(conn);
	memory.is_counting = false;
	assert_int_equal(memory.held, 0);
	assert_int_equal(kernel.closes, 1);
	conn_close(NULL);
	assert_int_equal(kernel.closes, 1);
}

/* ---- names ---- */

static struct {
	int error;
	uint32_t count, asked, given_back;
	char host[256], port[16];
	struct sockaddr_storage addresses[NAMES_MAX];
	struct addrinfo found[NAMES_MAX];
} names;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **found);
void __wrap_freeaddrinfo(struct addrinfo *found);

/* By turns 10.0.0.NUMBER and 2001:db8::NUMBER. */
static void name_make(uint32_t number, uint16_t port)
{
	struct addrinfo *made = &names.found[number];
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(0x0a000000u + number) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(port),
				    .sin6_addr.s6_addr = { 0x20, 0x01, 0x0d,
							   0xb8, [15] = (uint8_t)number } };

	if (number % 2)
		memcpy(&names.addresses[number], &in6, sizeof(in6));
	else
		memcpy(&names.addresses[number], &in, sizeof(in));
	*made = (struct addrinfo){ .ai_addr = (struct sockaddr *)&names.addresses[number],
				   .ai_addrlen = number % 2 ? sizeof(in6) : sizeof(in),
				   .ai_next = number + 1 < names.count ? made + 1 : NULL };
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **found)
{
	assert_int_equal(hints->ai_socktype, SOCK_STREAM);
	assert_int_equal(hints->ai_flags, AI_NUMERICSERV);
	snprintf(names.host, sizeof(names.host), "%s", host);
	snprintf(names.port, sizeof(names.port), "%s", port);
	names.asked++;
	if (names.error)
		return names.error;
	for (uint32_t i = 0; i < names.count; i++)
		name_make(i, (uint16_t)strtoul(port, NULL, 10));
	*found = names.found;
	return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
	assert_ptr_equal(found, names.found);
	names.given_back++;
}

static void conn__tells_what_is_no_name_from_no_answer(void **state)
{
	static const int errors[][2] = { { EAI_AGAIN, -EAGAIN },
					 { EAI_NONAME, -ENOENT },
					 { EAI_FAIL, -ENOENT },
					 { EAI_MEMORY, -ENOENT } };
	struct conn_address address;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		memset(&names, 0, sizeof(names));
		names.error = errors[i][0];
		assert_int_equal(conn_resolve("host.test", 7171, &address), errors[i][1]);
		assert_string_equal(address.text, "host.test:7171");
		assert_string_equal(names.host, "host.test");
		assert_string_equal(names.port, "7171");
		assert_int_equal(names.given_back, 0);
	}
}

/* 128 bytes with the NUL. */
static void conn__asks_for_no_name_that_is_longer_than_its_room(void **state)
{
	char text[160];
	struct conn_address address;

	(void)state;
	for (uint32_t bytes = CONN_ADDRESS_BYTES - 1; bytes <= CONN_ADDRESS_BYTES; bytes++) {
		memset(&names, 0, sizeof(names));
		names.count = 1;
		memset(text, 'h', bytes);
		strcpy(text + bytes, ":80");
		assert_int_equal(conn_resolve(text, 1, &address),
				 bytes < CONN_ADDRESS_BYTES ? 0 : -EINVAL);
		assert_int_equal(names.asked, bytes < CONN_ADDRESS_BYTES);
		assert_int_equal(names.given_back, names.asked);
	}
}

static void conn__keeps_eight_addresses_of_a_name_and_goes_round(void **state)
{
	static const uint8_t nothing[sizeof(struct sockaddr_storage)];

	(void)state;
	for (uint32_t count = 1; count <= NAMES_MAX; count++) {
		uint32_t kept = count < CONN_ADDRESSES_MAX ? count : CONN_ADDRESSES_MAX;
		struct conn_address address;

		memset(&names, 0, sizeof(names));
		names.count = count;
		assert_int_equal(conn_resolve("many.test:80", 1, &address), 0);
		assert_int_equal(names.given_back, 1);
		assert_int_equal(address.others_count, kept - 1);
		assert_memory_equal(&address.from, nothing, sizeof(nothing));
		for (uint32_t turn = 0; turn < 2 * kept + 1; turn++) {
			const struct addrinfo *found = &names.found[turn % kept];

			assert_int_equal(address.bytes, found->ai_addrlen);
			assert_memory_equal(&address.socket, found->ai_addr, found->ai_addrlen);
			conn_address_next(&address);
		}
		assert_int_equal(address.others_count, kept - 1);
		assert_memory_equal(&address.from, nothing, sizeof(nothing));
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	static const struct CMUnitTest tests[] = {
		TEST(conn__listens_without_blocking_and_again_at_once),
		TEST(conn__listens_to_both_families_and_to_none),
		TEST(conn__does_not_listen_where_the_kernel_refuses),
		TEST(conn__does_not_connect_where_the_kernel_refuses),
		TEST(conn__connects_at_once_or_later),
		TEST(conn__says_why_it_did_not_connect),
		TEST(conn__sends_nothing_before_it_stands),
		TEST(conn__speaks_to_no_other_users_socket),
		TEST(conn__accepts_or_says_whether_to_try_again),
		TEST(conn__gives_all_back_when_it_is_closed),
		TEST(conn__tells_what_is_no_name_from_no_answer),
		TEST(conn__asks_for_no_name_that_is_longer_than_its_room),
		TEST(conn__keeps_eight_addresses_of_a_name_and_goes_round),
	};

	return cmocka_run_group_tests_name("control-conn_open", tests, NULL, NULL);
}
