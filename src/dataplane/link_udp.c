/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_udp.c - packets over one UDP socket. What makes it fast is the number of packets per call: a run
 * of packets of one size goes out as one message (UDP_SEGMENT) and comes in as one (UDP_GRO).
 */
#include "dataplane/link_udp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dataplane/link_udp_state.h"
#include "util/clock.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	RECEIVE_BYTES = 8 << 20,
	SEND_BYTES = 512 << 10, /* less than a shaper's queue: a sender shall block, not lose */

	FRAMES_OFFLOAD_MAX = 4, /* with: 256 KiB, half of a second-level cache */
	POLLS = 50,
};

static uint64_t udp_now_ns(struct link *link)
{
	(void)link;
	return clock_ns();
}

/* ---- in ---- */

/* What the kernel says beside a message: the size of the packets that it has put together (0: it has
 * not), and which of our addresses they came to. */
static uint32_t control_read(struct msghdr *message, struct link_address *peer)
{
	uint32_t packet_bytes = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int bytes;

			memcpy(&bytes, CMSG_DATA(c), sizeof(bytes));
			packet_bytes = bytes > 0 ? (uint32_t)bytes : 0;
		} else {
			link_via_get(c, peer);
		}
	}
	return packet_bytes;
}

static void frame_fill(struct udp *udp, uint32_t idx, struct link_frame *frame)
{
	uint32_t bytes = udp->in[idx].msg_len, packet_bytes = 0;

	link_address_from_socket(&udp->in_peer[idx], &frame->peer);
	if (udp->has_gro || udp->keeps_via)
		packet_bytes = control_read(&udp->in[idx].msg_hdr, &frame->peer);
	if (!packet_bytes || packet_bytes > bytes)
		packet_bytes = bytes;
	frame->packet_bytes = packet_bytes;
	frame->count = packet_bytes ? (bytes + packet_bytes - 1) / packet_bytes : 1;
	frame->bytes = bytes;
	frame->data = udp->buffers + (size_t)idx * BUFFER_STRIDE;
	udp->link.stats.packets_in += frame->count;
	udp->link.stats.bytes_in += bytes;
}

/* Errors that say something of an earlier packet or of the moment, not of the socket. */
static bool is_passing(int error)
{
	switch (error) {
	case EAGAIN:
	case EINTR:
	case ENOMEM:
	case ENOBUFS:
	case ECONNREFUSED:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EMSGSIZE:
	case EHOSTDOWN:
	case ENETDOWN:
	case ENOPROTOOPT:
	case EPROTO:
	case EACCES:
	case EPERM:
		return true;
	default:
		return false;
	}
}

/* Takes up to `max` messages: how many, 0 if there are none, or a negative errno if the link is broken. */
static int in_take(struct udp *udp, uint32_t max)
{
	int got;

	for (uint32_t i = 0; i < udp->in_count; i++) {
		udp->in[i].msg_hdr.msg_namelen = sizeof(udp->in_peer[i]);
		udp->in[i].msg_hdr.msg_controllen =
			udp->has_gro || udp->keeps_via ? sizeof(udp->in_control[i]) : 0;
	}
	got = recvmmsg(udp->socket, udp->in, max, MSG_DONTWAIT, NULL);
	udp->is_drained = got < 0 && errno == EAGAIN;
	udp->in_at = udp->in_count = 0;
	if (got < 0)
		return is_passing(errno) ? 0 : -errno;
	udp->link.stats.calls_in++;
	udp->in_count = (uint32_t)got;
	return got;
}

static int udp_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	struct udp *udp = udp_of(link);
	uint32_t taken = 0;
	int got = udp->in_error;

	udp->in_error = 0;
	if (!got && udp->in_at == udp->in_count)
		got = in_take(udp, max < udp->frames_max ? max : udp->frames_max);
	if (got < 0)
		return got;
	while (udp->in_at < udp->in_count && taken < max) {
		uint32_t idx = udp->in_at++;

		if (!(udp->in[idx].msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
			frame_fill(udp, idx, &frames[taken++]);
	}
	return (int)taken;
}

/* ---- waiting ---- */

static bool wake_take(struct udp *udp)
{
	uint64_t count;

	if (!atomic_load(&udp->is_woken)) /* cheaper than an exchange, which is rarely needed */
		return false;
	atomic_exchange(&udp->is_woken, false);
	/* A wake that comes between these two lines is told by the eventfd alone: see udp_block. */
	if (read(udp->wake, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
	return true;
}

static void udp_wake(struct link *link)
{
	struct udp *udp = udp_of(link);
	uint64_t one = 1;

	if (atomic_exchange(&udp->is_woken, true))
		return; /* somebody else has, and nobody has seen it yet */
	if (write(udp->wake, &one, sizeof(one)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
}

static short events_of(const struct udp *udp)
{
	return udp->wants_room ? POLLIN | POLLOUT : POLLIN;
}

/* What has come is taken for the next recv: a recvmmsg that finds nothing costs half a poll, one that does saves it. */
static bool has_come(struct udp *udp)
{
	struct pollfd either = { .fd = udp->socket, .events = events_of(udp) };
	int got;

	if (udp->in_error || udp->in_at < udp->in_count)
		return true;
	if (udp->wants_room)
		return poll(&either, 1, 0) > 0;
	got = in_take(udp, udp->frames_max);
	udp->in_error = got < 0 ? got : 0;
	udp->is_drained = false;
	return got != 0;
}

static enum link_wait udp_block(struct udp *udp, uint64_t now_ns, uint64_t until_ns)
{
	struct pollfd fds[2] = { { .fd = udp->socket, .events = events_of(udp) },
				 { .fd = udp->wake, .events = POLLIN } };
	uint64_t wait_ns = until_ns - now_ns;
	struct timespec wait = clock_timespec(wait_ns);
	uint64_t count;

	if (ppoll(fds, 2, &wait, NULL) <= 0)
		return LINK_TIME;
	if (fds[1].revents) {
		atomic_store(&udp->is_woken, false);
		if (read(udp->wake, &count, sizeof(count)) < 0)
			assert(errno == EAGAIN || errno == EINTR);
		return LINK_WOKEN;
	}
	return LINK_READABLE;
}

static enum link_wait udp_wait(struct link *link, uint64_t until_ns)
{
	struct udp *udp = udp_of(link);
	bool is_drained = udp->is_drained && !udp->wants_room;
	uint64_t now = 0, start;
	enum link_wait why;

	polling_begin(&udp->polling);
	udp->is_drained = false;
	while (true) {
		if (wake_take(udp))
			return LINK_WOKEN;
		if (!is_drained && has_come(udp)) {
			if (udp->polling.last_ns) /* else it has not yielded, and needs no clock */
				polling_paid(&udp->polling, clock_ns());
			return LINK_READABLE;
		}
		is_drained = false;
		if (until_ns)
			now = clock_ns();
		if (now >= until_ns)
			return LINK_TIME;
		if (!polling_again(&udp->polling, now))
			break;
		sched_yield();
	}
	start = now;
	do { /* again after a signal, or when the sleep was too short */
		why = udp_block(udp, now, until_ns);
		now = clock_ns();
	} while (why == LINK_TIME && now < until_ns);
	polling_slept(&udp->polling, now - start, why != LINK_TIME);
	return why;
}

/* ---- opening ---- */

/* As large as the kernel allows: first as one who may exceed the limits, then within them. */
static void buffer_ask(int fd, int forced, int modest, int bytes)
{
	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)))
		(void)setsockopt(fd, SOL_SOCKET, modest, &bytes, sizeof(bytes));
}

static int socket_configure(struct udp *udp, const struct link_udp_options *options)
{
	/* Never in fragments (R-WIRE-1), and as long as the interface takes: ICMP that says of a path that it takes
	 * less can be anybody's. Whether it does is for the HELLOs to find out (R-PACE-10, R-CT-52). */
	int v4_never = IP_PMTUDISC_PROBE;
	int v6_never = IPV6_PMTUDISC_PROBE;
	int on = 1, fd = udp->socket;
	int v6_alone = !udp->is_dual, segment;
	socklen_t bytes = sizeof(segment);

	if (udp->is_v6) {
		if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_alone, sizeof(v6_alone)) ||
		    setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6_never, sizeof(v6_never)))
			return -errno;
	}
	if ((!udp->is_v6 || udp->is_dual) &&
	    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &v4_never, sizeof(v4_never)))
		return -errno;
	buffer_ask(fd, SO_RCVBUFFORCE, SO_RCVBUF,
		   options->receive_bytes ? options->receive_bytes : RECEIVE_BYTES);
	buffer_ask(fd, SO_SNDBUFFORCE, SO_SNDBUF,
		   options->send_bytes ? options->send_bytes : SEND_BYTES);
	if (!options->no_offload) {
		udp->has_segment = !getsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, &bytes);
		udp->has_gro = !setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
	}
	if (options->keeps_via && link_address_is_any(&options->local)) {
		if (setsockopt(fd, udp->is_v6 ? IPPROTO_IPV6 : IPPROTO_IP,
			       udp->is_v6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &on, sizeof(on)))
			return -errno;
		udp->keeps_via = true;
	}
	udp->frames_max = udp->has_gro ? FRAMES_OFFLOAD_MAX : FRAMES_MAX;
	return 0;
}

static int socket_bind(struct udp *udp, const struct link_udp_options *options)
{
	union link_sockaddr local;
	socklen_t bytes = link_address_to_socket(&options->local, udp->is_v6, &local);

	if (!bytes)
		return -EAFNOSUPPORT;
	if (bind(udp->socket, &local.any, bytes))
		return -errno;
	bytes = sizeof(local);
	if (getsockname(udp->socket, &local.any, &bytes))
		return -errno;
	link_address_from_socket(&local, &udp->link.local);
	return 0;
}

static void messages_init(struct udp *udp)
{
	udp->in_at = udp->in_count = FRAMES_MAX; /* none is as recvmmsg wants it */
	for (uint32_t i = 0; i < FRAMES_MAX; i++) {
		udp->in_bytes[i] =
			(struct iovec){ .iov_base = udp->buffers + (size_t)i * BUFFER_STRIDE,
					.iov_len = BUFFER_BYTES };
		udp->in[i].msg_hdr = (struct msghdr){ .msg_name = &udp->in_peer[i],
						      .msg_iov = &udp->in_bytes[i],
						      .msg_iovlen = 1,
						      .msg_control = &udp->in_control[i] };
	}
	for (uint32_t i = 0; i < MESSAGES_MAX; i++)
		udp->out[i].msg_hdr = (struct msghdr){ .msg_name = &udp->out_peer[i],
						       .msg_iov = &udp->out_bytes[i],
						       .msg_iovlen = 1 };
}

static void udp_close(struct link *link)
{
	struct udp *udp = udp_of(link);

	close(udp->socket);
	close(udp->wake);
	munmap(udp->buffers, (size_t)FRAMES_MAX * BUFFER_STRIDE);
	free(udp);
}

static const struct link_ops udp_ops = {
	.recv = udp_recv,
	.send = link_udp_send,
	.offer = link_udp_offer,
	.wait = udp_wait,
	.wake = udp_wake,
	.now_ns = udp_now_ns,
	.close = udp_close,
};

int link_udp_open(struct link **link, const struct link_udp_options *options)
{
	struct udp *udp = calloc(1, sizeof(*udp));
	socklen_t bytes = sizeof(uint32_t);
	int result = -ENOMEM;

	if (!udp)
		return result;
	udp->link.ops = &udp_ops;
	udp->is_v6 = options->is_v6;
	udp->is_dual = options->is_v6 && link_address_is_any(&options->local);
	polling_init(&udp->polling, options->poll_count == UINT32_MAX ? 0
				    : options->poll_count             ? options->poll_count
								      : POLLS);
	udp->buffers = mmap(NULL, (size_t)FRAMES_MAX * BUFFER_STRIDE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (udp->buffers == MAP_FAILED)
		goto free_udp;
	messages_init(udp);

	udp->socket = socket(udp->is_v6 ? AF_INET6 : AF_INET,
			     SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (udp->socket < 0) {
		result = -errno;
		goto unmap;
	}
	result = socket_configure(udp, options);
	if (!result)
		result = socket_bind(udp, options);
	if (result)
		goto close_socket;
	udp->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (udp->wake < 0) {
		result = -errno;
		goto close_socket;
	}
	if (options->receive_got)
		(void)getsockopt(udp->socket, SOL_SOCKET, SO_RCVBUF, options->receive_got, &bytes);
	*link = &udp->link;
	return 0;

close_socket:
	close(udp->socket);
unmap:
	munmap(udp->buffers, (size_t)FRAMES_MAX * BUFFER_STRIDE);
free_udp:
	free(udp);
	return result;
}

int link_udp_fd(const struct link *link)
{
	return ((const struct udp *)link)->socket;
}

short link_udp_events(const struct link *link)
{
	return events_of((const struct udp *)link);
}
