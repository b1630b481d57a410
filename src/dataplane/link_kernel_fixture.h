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
#include <sys/eventfd.h>
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

	uint32_t looks,
		readable_at; /* recvmmsg, and polls that do not wait; the one that finds something */
	short events;        /* of the last poll of any kind */
	uint32_t yields, sleeps;
	uint64_t yield_ns,
		slept_ns[NOTES_MAX]; /* a yield takes so long; what ppoll was asked for */
	uint64_t sleep_ns; /* of the next ppoll, if it is not to be the time it was asked for, */
	int woken_fd;      /* and what ends it */
	uint32_t wake_reads, wake_writes;

	int got; /* of recvmmsg: messages, or a negative errno; 0: none but at `readable_at` */
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
	assert_int_equal(count, 0);
	assert_int_equal(flags, EFD_NONBLOCK | EFD_CLOEXEC);
	kernel.fds += kernel.fails != EVENTFD;
	return answer(EVENTFD, WAKE_FD);
}

/* ---- out ---- */

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

/* The messages of `count` that are taken, or -1. */
static int answer_of(struct script *script, uint32_t count)
{
	struct says says = { .takes = count };

	if (script->always.error)
		says = script->always;
	else if (script->at < script->count)
		says = script->says[script->at++];
	errno = says.error;
	return says.error ? -1 : (int)(says.takes < count ? says.takes : count);
}

static void sent_note(const struct msghdr *message, bool is_single, int flags)
{
	struct sent *sent = &kernel.sent[kernel.sent_count++];
	struct msghdr copy = *message; /* CMSG_NXTHDR takes none that is const */
	struct link_address peer = { 0 };

	assert_true(kernel.sent_count < NOTES_MAX);
	assert_int_equal(message->msg_iovlen, 1);
	assert_true(message->msg_control || !message->msg_controllen);
	*sent = (struct sent){ .data = message->msg_iov->iov_base,
			       .bytes = (uint32_t)message->msg_iov->iov_len,
			       .name_bytes = message->msg_namelen,
			       .is_single = is_single,
			       .flags = flags };
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&copy); c; c = CMSG_NXTHDR(&copy, c)) {
		uint16_t segment;

		if (c->cmsg_level == SOL_UDP && c->cmsg_type == SEGMENT) {
			assert_int_equal(c->cmsg_len, CMSG_LEN(sizeof(segment)));
			memcpy(&segment, CMSG_DATA(c), sizeof(segment));
			sent->segment = segment;
		} else {
			link_via_get(c, &peer);
			assert_true(
				link_has_via(&peer)); /* there is nothing else beside a message */
		}
	}
	sent->via = peer.via[15];
}

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	int taken = answer_of(&kernel.many, count);

	assert_int_equal(fd, SOCKET_FD);
	kernel.offered[kernel.calls++] = count;
	assert_true(kernel.calls < NOTES_MAX);
	for (int i = 0; i < taken; i++) {
		sent_note(&messages[i].msg_hdr, false, flags);
		messages[i].msg_len = (uint32_t)messages[i].msg_hdr.msg_iov->iov_len;
	}
	return taken;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	assert_int_equal(fd, SOCKET_FD);
	if (answer_of(&kernel.one, 1) < 0)
		return -1;
	sent_note(message, true, flags);
	return (ssize_t)message->msg_iov->iov_len;
}

/* ---- waiting ---- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_sched_yield(void);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask);
ssize_t __wrap_read(int fd, void *at, size_t bytes);
ssize_t __wrap_write(int fd, const void *at, size_t bytes);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	now->tv_sec = (time_t)(kernel.now_ns / (1000 * ms));
	now->tv_nsec = (long)(kernel.now_ns % (1000 * ms));
	return 0;
}

int __wrap_sched_yield(void)
{
	kernel.yields++;
	kernel.now_ns += kernel.yield_ns;
	return 0;
}

static bool look(void)
{
	return ++kernel.looks == kernel.readable_at;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	kernel.now_ns += (uint64_t)timeout_ms * ms;
	if (!count) {
		assert_int_equal(timeout_ms, 1); /* no event ends it: soon again */
		kernel.pauses++;
		return 0;
	}
	assert_int_equal(count, 1);
	assert_int_equal(fds->fd, SOCKET_FD);
	if (timeout_ms) {
		assert_int_equal(timeout_ms, 100);
		assert_int_equal(fds->events, POLLOUT);
		kernel.room_polls++;
		return 0;
	}
	kernel.events = fds->events;
	return look();
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	uint64_t wait_ns = (uint64_t)timeout->tv_sec * 1000 * ms + (uint64_t)timeout->tv_nsec;
	int woken_fd = kernel.woken_fd;

	assert_null(mask);
	assert_int_equal(count, 2);
	assert_int_equal(fds[0].fd, SOCKET_FD);
	assert_int_equal(fds[1].fd, WAKE_FD);
	assert_int_equal(fds[1].events, POLLIN);
	assert_true(timeout->tv_nsec < (long)(1000 * ms));
	kernel.events = fds[0].events;
	kernel.slept_ns[kernel.sleeps++] = wait_ns;
	kernel.now_ns += kernel.sleep_ns ? kernel.sleep_ns : wait_ns;
	kernel.sleep_ns = 0;
	kernel.woken_fd = 0;
	for (int i = 0; i < 2; i++)
		fds[i].revents = fds[i].fd == woken_fd ? POLLIN : 0;
	return woken_fd != 0;
}

ssize_t __wrap_read(int fd, void *at, size_t bytes)
{
	assert_int_equal(fd, WAKE_FD);
	assert_int_equal(bytes, sizeof(uint64_t));
	memset(at, 0, bytes);
	kernel.wake_reads++;
	return (ssize_t)bytes;
}

ssize_t __wrap_write(int fd, const void *at, size_t bytes)
{
	uint64_t count;

	assert_int_equal(fd, WAKE_FD);
	assert_int_equal(bytes, sizeof(count));
	memcpy(&count, at, sizeof(count));
	assert_int_equal(count, 1);
	kernel.wake_writes++;
	return (ssize_t)bytes;
}

/* ---- in ---- */

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		    struct timespec *timeout);

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		    struct timespec *timeout)
{
	int got = look() ? 1 : kernel.got ? kernel.got : -EAGAIN;

	assert_int_equal(fd, SOCKET_FD);
	assert_int_equal(flags, MSG_DONTWAIT);
	assert_null(timeout);
	kernel.asked = count;
	kernel.control_bytes = (uint32_t)messages[count - 1].msg_hdr.msg_controllen;
	errno = got < 0 ? -got : 0;
	if (got < 0)
		return -1;
	if (kernel.receive)
		kernel.receive(messages, (uint32_t)got);
	return got;
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
