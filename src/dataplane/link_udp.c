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
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
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
	.recv = link_udp_recv,
	.send = link_udp_send,
	.offer = link_udp_offer,
	.wait = link_udp_wait,
	.wake = link_udp_wake,
	.now_ns = udp_now_ns,
	.close = udp_close,
};

int link_udp_open(struct link **link, const struct link_udp_options *options)
{
	struct udp *udp = calloc(1, sizeof(*udp));
	socklen_t bytes = sizeof(uint32_t);
	int result = -ENOMEM;
	uint32_t polls;

	if (!udp)
		return result;
	udp->link.ops = &udp_ops;
	udp->is_v6 = options->is_v6;
	udp->is_dual = options->is_v6 && link_address_is_any(&options->local);
	polls = options->poll_count == UINT32_MAX ? 0
		: options->poll_count             ? options->poll_count
						  : POLLS;
	polling_init(&udp->polling[LINK_LITTLE], polls, POLLING_LONG);
	polling_init(&udp->polling[LINK_MUCH], polls, POLLING_SHORT);
	polling_init(&udp->polling[LINK_GUESS], polls, POLLING_NEVER);
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
