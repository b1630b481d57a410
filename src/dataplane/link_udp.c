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

#include "dataplane/link_address.h"
#include "dataplane/polling.h"
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

	BUFFER_BYTES = 65536, /* holds any datagram */
	BUFFER_STRIDE =
		BUFFER_BYTES + 320,    /* else all heads fall into the same sets of the cache */
	FRAMES_MAX = LINK_RECV_FRAMES, /* of one call, without offload */
	FRAMES_OFFLOAD_MAX = 4,        /* with: 256 KiB, half of a second-level cache */
	MESSAGES_MAX = 128,            /* of one sendmmsg */

	ROOM_POLL_MS = 100,  /* one wait for room in the send buffer */
	ROOM_RETRY_MS = 1,   /* the kernel is out of memory, which no event ends */
	ROOM_WAIT_MS = 1000, /* without progress, then packets are dropped */

	POLLS = 50,
};

static const uint64_t ns_per_ms = 1000000;

struct udp {
	struct link link; /* first: what the caller holds */
	int socket, wake;
	bool is_v6, is_dual, has_segment, has_gro, keeps_via;
	uint32_t frames_max;
	struct polling polling;
	atomic_bool is_woken;
	bool is_drained; /* the last call was a recv that found nothing */
	uint8_t *buffers;

	/* What the last recvmmsg has written, and the first that no recv has handed out: a wait takes some, too. */
	uint32_t in_count, in_at;
	int in_error; /* met by a wait, for the next recv: the kernel may say it once */
	struct mmsghdr in[FRAMES_MAX];
	struct iovec in_bytes[FRAMES_MAX];
	union link_sockaddr in_peer[FRAMES_MAX];
	union link_control in_control[FRAMES_MAX];

	uint32_t out_count;
	struct mmsghdr out[MESSAGES_MAX];
	struct iovec out_bytes[MESSAGES_MAX];
	union link_sockaddr out_peer[MESSAGES_MAX];
	union link_control out_control[MESSAGES_MAX];
	uint32_t out_packets[MESSAGES_MAX];
	uint32_t out_frame[MESSAGES_MAX]; /* whose message it is, and from which byte on */
	uint32_t out_at[MESSAGES_MAX];

	uint64_t full_since_ns; /* of the first refusal after the last progress; 0: none */
	uint32_t resume_at;     /* bytes of the first frame that an offer has taken already */
	bool may_wait;          /* for room: this is not an offer */
	bool wants_room;        /* an offer was not taken for want of room in the send buffer */
};

static struct udp *udp_of(struct link *link)
{
	return (struct udp *)link;
}

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

/* ---- out ---- */

/* Waits until the kernel may take more, or leaves that to the caller of an offer; false if there has been
 * no progress for long. */
static bool wait_for_room(struct udp *udp, int error)
{
	struct pollfd writable = { .fd = udp->socket, .events = POLLOUT };
	uint64_t now = clock_ns();

	if (!udp->full_since_ns)
		udp->full_since_ns = now;
	if (now - udp->full_since_ns >= ROOM_WAIT_MS * ns_per_ms)
		return false;
	if (!udp->may_wait)
		udp->wants_room = error == EAGAIN;
	else if (error == EAGAIN)
		poll(&writable, 1, ROOM_POLL_MS);
	else
		poll(NULL, 0, ROOM_RETRY_MS);
	return true;
}

static bool is_full(int error)
{
	return error == EAGAIN || error == ENOBUFS || error == ENOMEM;
}

static void count_out(struct udp *udp, uint32_t packets, uint32_t bytes)
{
	udp->link.stats.packets_out += packets;
	udp->link.stats.bytes_out += bytes;
	udp->link.stats.calls_out++;
}

/* Sends the packets of message `idx` one by one; 0, or the errno of the last one that was refused. */
static int send_singly(struct udp *udp, uint32_t idx, uint32_t packet_bytes)
{
	const struct iovec *all = &udp->out_bytes[idx];
	struct msghdr message = udp->out[idx].msg_hdr;
	int refused = 0;

	/* Without UDP_SEGMENT, which comes first; what follows it stays. */
	message.msg_control = udp->out_control[idx].bytes + CMSG_SPACE(sizeof(uint16_t));
	message.msg_controllen -= CMSG_SPACE(sizeof(uint16_t));

	for (size_t at = 0; at < all->iov_len; at += packet_bytes) {
		size_t left = all->iov_len - at;
		size_t bytes = left < packet_bytes ? left : packet_bytes;
		uint8_t *data = (uint8_t *)all->iov_base + at;
		struct iovec one = { .iov_base = data, .iov_len = bytes };
		ssize_t sent;

		message.msg_iov = &one;
		do {
			sent = sendmsg(udp->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		} while (sent < 0 &&
			 (errno == EINTR || (is_full(errno) && wait_for_room(udp, errno))));
		if (sent < 0) {
			refused = errno;
			udp->link.stats.send_errors++;
		} else {
			udp->full_since_ns = 0;
			count_out(udp, 1, (uint32_t)bytes);
		}
	}
	return refused;
}

/* The kernel has refused message `idx`, for now or for good. True: try it again. False: it is dealt
 * with, and *result says -EMSGSIZE if it was too large for the path. */
static bool try_again(struct udp *udp, uint32_t idx, int error, int *result)
{
	if (error == EINTR || (is_full(error) && wait_for_room(udp, error)))
		return true;
	if ((error == EIO || error == EINVAL) && udp->out_packets[idx] > 1) {
		/* A device that cannot add checksums (EIO), or a packet larger than the path takes, which
		 * some kernels call EINVAL: one by one it shows. */
		uint16_t segment;

		memcpy(&segment, CMSG_DATA(&udp->out_control[idx].header), sizeof(segment));
		udp->may_wait = true; /* once and for all: this device gets no such message again */
		error = send_singly(udp, idx, segment);
		if (!error && udp->has_segment) {
			udp->has_segment = false;
			udp->link.stats.fallbacks++;
		}
	} else {
		udp->link.stats.send_errors += udp->out_packets[idx];
	}
	if (error == EMSGSIZE) {
		link_address_from_socket(&udp->out_peer[idx], &udp->link.too_large);
		*result = -EMSGSIZE;
	}
	return false;
}

/* Hands the kernel what has been collected; *done of these messages are dealt with: all of them, but for
 * an offer. 0 or -EMSGSIZE. */
static int out_flush(struct udp *udp, uint32_t *done)
{
	bool may_wait = udp->may_wait;
	int result = 0;

	*done = 0;
	while (*done < udp->out_count) {
		int sent = sendmmsg(udp->socket, udp->out + *done, udp->out_count - *done,
				    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent <= 0) {
			int error = errno;

			if (!try_again(udp, *done, error, &result))
				++*done;
			else if (!may_wait && is_full(error))
				break;
			udp->may_wait = may_wait;
			continue;
		}
		udp->full_since_ns = 0;
		udp->link.stats.calls_out++;
		for (uint32_t end = *done + (uint32_t)sent; *done < end; ++*done) {
			udp->link.stats.packets_out += udp->out_packets[*done];
			udp->link.stats.bytes_out += udp->out[*done].msg_len;
		}
	}
	return result;
}

/* What the kernel is told beside message `idx`: to cut it into packets, and from which of our addresses
 * it shall leave. */
static void control_write(struct udp *udp, uint32_t idx, uint32_t count, uint32_t packet_bytes,
			  const struct link_address *peer)
{
	uint8_t *at = (uint8_t *)udp->out_control[idx].bytes;
	struct msghdr *message = &udp->out[idx].msg_hdr;
	size_t bytes = 0;

	if (count > 1) {
		uint16_t segment = (uint16_t)packet_bytes;
		struct cmsghdr *header = &udp->out_control[idx].header;

		header->cmsg_level = SOL_UDP;
		header->cmsg_type = UDP_SEGMENT;
		header->cmsg_len = CMSG_LEN(sizeof(segment));
		memcpy(CMSG_DATA(header), &segment, sizeof(segment));
		bytes = CMSG_SPACE(sizeof(segment));
	}
	if (udp->keeps_via && link_has_via(peer))
		bytes +=
			link_via_put((struct cmsghdr *)(void *)(at + bytes), udp->is_v6, peer->via);
	message->msg_control = bytes ? at : NULL;
	message->msg_controllen = bytes;
}

/* Collects one message of a frame: what is left of it from byte `at`, or one packet. */
static void out_add(struct udp *udp, const union link_sockaddr *peer, socklen_t peer_bytes,
		    const struct link_frame *frame, uint32_t at)
{
	uint32_t idx = udp->out_count++;
	uint32_t step = udp->has_segment ? frame->bytes : frame->packet_bytes;
	uint32_t left = frame->bytes - at;

	udp->out_peer[idx] = *peer;
	udp->out_bytes[idx] = (struct iovec){ .iov_base = frame->data + at,
					      .iov_len = left < step ? left : step };
	udp->out_packets[idx] = udp->has_segment ? frame->count : 1;
	udp->out_at[idx] = at;
	udp->out[idx].msg_hdr.msg_namelen = peer_bytes;
	control_write(udp, idx, udp->out_packets[idx], frame->packet_bytes, &frame->peer);
}

static void frame_assert(const struct link_frame *frame)
{
	assert(frame->count > 0);
	assert(frame->count <= LINK_FRAME_PACKETS_MAX);
	assert(frame->bytes <= LINK_FRAME_BYTES_MAX);
	assert(frame->bytes > (frame->count - 1) * frame->packet_bytes);
	assert(frame->bytes <= frame->count * frame->packet_bytes);
}

/* Sends what has been collected. True if all of it is dealt with; else where to go on: *frame. */
static bool out_send(struct udp *udp, int *result, uint32_t *frame)
{
	uint32_t done;
	int error = out_flush(udp, &done);
	bool is_all = done == udp->out_count;

	if (error)
		*result = error;
	if (!is_all) {
		*frame = udp->out_frame[done];
		udp->resume_at = udp->out_at[done];
	}
	udp->out_count = 0;
	return is_all;
}

/* Sends frames; *taken are dealt with. */
static int push(struct udp *udp, const struct link_frame *frames, uint32_t count, uint32_t *taken)
{
	uint32_t begin = udp->resume_at;
	int result = 0;

	udp->resume_at = 0;
	udp->wants_room = false;
	if (count)
		udp->is_drained = false; /* a send may take long, and its answer be there */
	for (uint32_t i = 0; i < count; i++, begin = 0) {
		const struct link_frame *frame = &frames[i];
		uint32_t step = udp->has_segment ? frame->bytes : frame->packet_bytes;
		union link_sockaddr peer;
		socklen_t peer_bytes;

		frame_assert(frame);
		peer_bytes = udp->is_dual ? link_address_to_dual(&frame->peer, &peer)
					  : link_address_to_socket(&frame->peer, udp->is_v6, &peer);
		if (!peer_bytes) {
			udp->link.stats.send_errors += frame->count;
			continue;
		}
		for (uint32_t at = begin; at < frame->bytes; at += step) {
			udp->out_frame[udp->out_count] = i;
			out_add(udp, &peer, peer_bytes, frame, at);
			if (udp->out_count == MESSAGES_MAX && !out_send(udp, &result, taken))
				return result;
		}
	}
	if (out_send(udp, &result, taken))
		*taken = count;
	return result;
}

static int udp_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	struct udp *udp = udp_of(link);
	uint32_t taken;

	udp->may_wait = true;
	udp->full_since_ns = 0;
	udp->resume_at = 0;
	return push(udp, frames, count, &taken);
}

static int udp_offer(struct link *link, const struct link_frame *frames, uint32_t count,
		     uint32_t *taken)
{
	struct udp *udp = udp_of(link);

	udp->may_wait = false;
	return push(udp, frames, count, taken);
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
	.send = udp_send,
	.offer = udp_offer,
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
