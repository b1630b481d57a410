/* SPDX-License-Identifier: Apache-2.0 */
/* link_udp_in.c - receiving: packets that the kernel has put together (UDP_GRO) are one frame. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>

#include "dataplane/link_udp_state.h"
#include "util/clock.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

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
	/* Who sends from this host is on its way with more: the processor alone limits it. */
	udp->has_much |= bytes >= MUCH_BYTES && !link_address_is_loopback(&frame->peer);
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

int link_udp_take(struct udp *udp, uint32_t max)
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

int link_udp_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	struct udp *udp = udp_of(link);
	uint32_t taken = 0;
	int got = udp->in_error;

	udp->in_error = 0;
	if (!got && udp->in_at == udp->in_count)
		got = link_udp_take(udp, max < udp->frames_max ? max : udp->frames_max);
	if (got < 0)
		return got;
	while (udp->in_at < udp->in_count && taken < max) {
		uint32_t idx = udp->in_at++;

		if (!(udp->in[idx].msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
			frame_fill(udp, idx, &frames[taken++]);
	}
	return (int)taken;
}
