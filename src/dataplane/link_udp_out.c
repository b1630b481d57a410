/* SPDX-License-Identifier: Apache-2.0 */
/* link_udp_out.c - sending: a run of packets of one size is one message (UDP_SEGMENT), many messages one call. */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>

#include "dataplane/link_udp_state.h"
#include "util/clock.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum {
	ROOM_POLL_MS = 100,  /* one wait for room in the send buffer */
	ROOM_RETRY_MS = 1,   /* the kernel is out of memory, which no event ends */
	ROOM_WAIT_MS = 1000, /* without progress, then packets are dropped */
};

static const uint64_t ns_per_ms = 1000000;

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

int link_udp_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	struct udp *udp = udp_of(link);
	uint32_t taken;

	udp->may_wait = true;
	udp->full_since_ns = 0;
	udp->resume_at = 0;
	return push(udp, frames, count, &taken);
}

int link_udp_offer(struct link *link, const struct link_frame *frames, uint32_t count,
		   uint32_t *taken)
{
	struct udp *udp = udp_of(link);

	udp->may_wait = false;
	return push(udp, frames, count, taken);
}
