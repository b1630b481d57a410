/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_kernel_fixture.h - for tests: a kernel under link_udp.c that says what the test wants, notes what it was asked
 * for, and whose clock goes on with waits alone. Linked with the --wrap of link_kernel_links. Included once in a
 * program.
 */
#ifndef DATAPLANE_LINK_KERNEL_FIXTURE_H
#define DATAPLANE_LINK_KERNEL_FIXTURE_H

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include <cmocka.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"

/* Not every test needs all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

enum { SOCKET_FD = 1001, WAKE_FD, NOTES_MAX = 256, SEGMENT = 103, GRO = 104, GOT_BYTES = 123456 };

static const uint64_t ms = 1000000;

enum call { NO_CALL, CALLOC, MMAP, SOCKET, SETSOCKOPT, GETSOCKOPT, BIND, GETSOCKNAME, EVENTFD };

/* One answer of sendmmsg or sendmsg: an error, or so many messages are taken. */
struct says {
	int error;
	uint32_t takes;
};

struct script {
	struct says says[NOTES_MAX]; /* behind the last, all is taken */
	uint32_t count, at;
	struct says always; /* instead of all this */
};

struct sent {
	const uint8_t *data;
	uint32_t bytes, name_bytes, segment; /* 0: not to be cut */
	uint8_t via;                         /* the last byte of our address; 0: any */
	bool is_single;                      /* sendmsg's */
	int flags;
};

struct kernel {
	uint64_t now_ns;

	enum call fails; /* SETSOCKOPT and GETSOCKOPT: of the option `failing` alone */
	int error, failing;
	int family, type;
	struct {
		int level, name, value;
	} options[NOTES_MAX];
	uint32_t options_count;
	uint32_t fds, blocks; /* taken and not given back */
	size_t mapped_bytes;  /* likewise */

	struct script many, one; /* sendmmsg, sendmsg */
	struct sent sent[NOTES_MAX];
	uint32_t sent_count, offered[NOTES_MAX], calls; /* messages of each call of sendmmsg */

	uint32_t room_polls, pauses; /* waits for POLLOUT, and for nothing */

	uint32_t looks, readable_at; /* polls that do not wait; the one that finds something */
	short events;                /* of the last of any */
	uint32_t yields, sleeps;
	uint64_t yield_ns,
		slept_ns[NOTES_MAX]; /* a yield takes so long; what ppoll was asked for */
	uint64_t sleep_ns; /* of the next ppoll, if it is not to be the time it was asked for, */
	int woken_fd;      /* and what ends it */
	uint32_t wake_reads, wake_writes;

	int got; /* of recvmmsg: messages, or a negative errno */
	uint32_t asked, control_bytes;
	void (*receive)(struct mmsghdr *messages, uint32_t count);
};

static struct kernel kernel;

static int answer(enum call call, int otherwise)
{
	if (kernel.fails != call)
		return otherwise;
	errno = kernel.error;
	return -1;
}

/* ---- opening ---- */

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void __real_free(void *block);
void __wrap_free(void *block);
void *__real_mmap64(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_socket(int family, int type, int protocol);
int __wrap_close(int fd);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_eventfd(unsigned count, int flags);

void *__wrap_calloc(size_t count, size_t bytes)
{
	if (kernel.fails == CALLOC)
		return NULL;
	kernel.blocks++;
	return __real_calloc(count, bytes);
}

void __wrap_free(void *block)
{
	kernel.blocks--;
	__real_free(block);
}

void *__wrap_mmap64(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
	if (flags & MAP_FIXED) /* not a link's: it leaves the place to the kernel */
		return __real_mmap64(at, bytes, access, flags, fd, offset);
	if (kernel.fails == MMAP)
		return (void *)-1;
	kernel.mapped_bytes += bytes;
	return __real_calloc(1, bytes);
}

int __wrap_munmap(void *at, size_t bytes)
{
	kernel.mapped_bytes -= bytes;
	__real_free(at);
	return 0;
}

int __wrap_socket(int family, int type, int protocol)
{
	(void)protocol;
	kernel.family = family;
	kernel.type = type;
	kernel.fds += kernel.fails != SOCKET;
	return answer(SOCKET, SOCKET_FD);
}

int __wrap_close(int fd)
{
	assert_true(fd == SOCKET_FD || fd == WAKE_FD);
	kernel.fds--;
	return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	assert_int_equal(fd, SOCKET_FD);
	assert_int_equal(bytes, sizeof(int));
	kernel.options[kernel.options_count].level = level;
	kernel.options[kernel.options_count].name = name;
	memcpy(&kernel.options[kernel.options_count++].value, value, sizeof(int));
	return name == kernel.failing ? answer(SETSOCKOPT, 0) : 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	int got = level == SOL_SOCKET && name == SO_RCVBUF ? GOT_BYTES : 0;

	assert_int_equal(fd, SOCKET_FD);
	assert_int_equal(*bytes, sizeof(got));
	memcpy(value, &got, sizeof(got));
	return name == kernel.failing ? answer(GETSOCKOPT, 0) : 0;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	assert_int_equal(fd, SOCKET_FD);
	assert_int_equal(address->sa_family, kernel.family);
	assert_int_equal(bytes, kernel.family == AF_INET ? sizeof(struct sockaddr_in)
							 : sizeof(struct sockaddr_in6));
	return answer(BIND, 0);
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
	union link_sockaddr is = { 0 };

	assert_int_equal(fd, SOCKET_FD);
	assert_int_equal(*bytes, sizeof(is));
	is.any.sa_family = (sa_family_t)kernel.family;
	is.v4.sin_port = htons(7171); /* where IPv6 has it, too */
	memcpy(address, &is, sizeof(is));
	return answer(GETSOCKNAME, 0);
}

int __wrap_eventfd(unsigned count, int flags)
{
	(void)count, (void)flags;
	kernel.fds += kernel.fails != EVENTFD;
	return answer(EVENTFD, WAKE_FD);
}

/* ---- what the tests begin with ---- */

static struct link_address address_of(const char *text, uint16_t port)
{
	struct link_address address = { 0 };
	bool is_v6;

	assert_int_equal(link_address_parse(text, port, &address, &is_v6), 0);
	return address;
}

static struct link *open_with(const struct link_udp_options *options)
{
	struct link *link = NULL;

	kernel = (struct kernel){ .now_ns = 5000 * ms };
	assert_int_equal(link_udp_open(&link, options), 0);
	assert_non_null(link);
	return link;
}

/* With offloads, of IPv4. */
static struct link *open_plain(void)
{
	struct link_udp_options options = { .poll_count = UINT32_MAX };

	return open_with(&options);
}

static void close_link(struct link *link)
{
	link->ops->close(link);
	assert_int_equal(kernel.fds, 0);
	assert_int_equal(kernel.blocks, 0);
	assert_int_equal(kernel.mapped_bytes, 0);
}

#endif
