/* SPDX-License-Identifier: Apache-2.0 */
/* liar.c - see liar.h. */
#include "liar.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "dataplane/link_address.h"
#include "lib/comm.h"

int __real_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message);
int __wrap_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message);

enum { DEAF_NS = 500000000 };

static const struct lie *lie;
static const struct link_ops *true_ops;
static struct link_ops lying_ops;
static struct link *link_of_liar;
static struct link_address peer; /* tallyd's shard, as the endpoint addresses it */
static uint8_t nonce[WIRE_NONCE_BYTES];
static uint32_t packets;
static struct conn *conn_of_liar;
static struct codec *codec_of_liar;

/* ---- data ---- */

void liar_send_raw(const uint8_t *bytes, uint32_t count)
{
	static _Alignas(8) uint8_t copy[WIRE_HEADER_BYTES + LIAR_LANES_SENT * WIRE_LANE_BYTES];
	struct link_frame frame = {
		.peer = peer, .packet_bytes = count, .count = 1, .bytes = count, .data = copy
	};

	assert(count <= sizeof(copy));
	memcpy(copy, bytes, count);
	(void)true_ops->send(link_of_liar, &frame, 1);
}

static uint32_t compose(const struct wire *packet, const int32_t *lane, uint8_t *bytes)
{
	wire_put(bytes, packet);
	memcpy(bytes + WIRE_HEADER_BYTES, lane, packet->lanes * sizeof(*lane));
	return wire_bytes(packet->lanes);
}

void liar_send(const struct wire *packet, const int32_t *lane)
{
	static uint8_t bytes[WIRE_HEADER_BYTES + LIAR_LANES_SENT * WIRE_LANE_BYTES];

	liar_send_raw(bytes, compose(packet, lane, bytes));
}

void liar_send_elsewhere(const struct wire *packet, const int32_t *lane)
{
	static uint8_t bytes[WIRE_HEADER_BYTES + LIAR_LANES_SENT * WIRE_LANE_BYTES];
	static int fd = -1;
	uint32_t count = compose(packet, lane, bytes);
	union link_sockaddr to;
	socklen_t to_bytes = link_address_to_socket(&peer, !link_address_is_v4(&peer), &to);

	if (fd < 0)
		fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert(sendto(fd, bytes, count, 0, &to.any, to_bytes) == (int)count);
}

const uint8_t *liar_nonce(void)
{
	return nonce;
}

static void packet_twist(const uint8_t *at, uint32_t bytes)
{
	static int32_t lane[LIAR_LANES_SENT];
	struct wire packet;

	if (wire_check(at, bytes, &packet) || packet.lanes > LIAR_LANES_SENT) {
		liar_send_raw(at, bytes);
		return;
	}
	memset(lane, 0, sizeof(lane));
	memcpy(lane, at + WIRE_HEADER_BYTES, packet.lanes * sizeof(*lane));
	if (packet.type == WIRE_UPDATE)
		packets++;
	lie->packet(&packet, lane, packets);
}

static int lying_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	(void)link;
	for (uint32_t i = 0; i < count; i++) {
		const struct link_frame *frame = &frames[i];

		peer = frame->peer;
		for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes)
			packet_twist(frame->data + at, link_packet_bytes(frame, at));
	}
	return 0;
}

/* ---- control ---- */

void liar_say(const struct control_message *message)
{
	(void)__real_conn_send(conn_of_liar, codec_of_liar, message);
}

void liar_say_raw(const void *bytes, size_t count)
{
	(void)!send(conn_fd(conn_of_liar), bytes, count, MSG_NOSIGNAL);
}

/* Not through the connection, which is another thread's. */
void liar_say_now(const struct control_message *message)
{
	static struct codec codec;
	uint8_t *frame;
	size_t bytes;

	if (codec_encode(&codec, message, &frame, &bytes))
		return;
	(void)!send(conn_fd(conn_of_liar), frame, bytes, MSG_NOSIGNAL);
	free(frame);
}

int __wrap_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message)
{
	conn_of_liar = conn;
	codec_of_liar = codec;
	if (!lie || !lie->control)
		return __real_conn_send(conn, codec, message);
	lie->control(message);
	return 0;
}

void liar_begin(const struct lie *of_this_kind, struct tally_comm *comm)
{
	lie = of_this_kind;
	if (comm && lie->started)
		lie->started();
	if (!comm || !lie->packet)
		return;
	comm_lock(comm);
	link_of_liar = comm->link;
	true_ops = comm->link->ops;
	lying_ops = *true_ops;
	lying_ops.send = lying_send;
	lying_ops.offer = NULL;
	comm->link->ops = &lying_ops;
	comm_unlock(comm);
}

/* ---- an honest rank that misses a result ---- */

static int deaf_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	static uint64_t since_ns;
	int count = true_ops->recv(link, frames, max);
	struct wire packet;

	for (int i = 0; i < count; i++) {
		for (uint32_t at = 0; at < frames[i].bytes; at += frames[i].packet_bytes) {
			uint32_t bytes = link_packet_bytes(&frames[i], at);

			if (wire_check(frames[i].data + at, bytes, &packet) ||
			    packet.type != WIRE_RESULT || packet.slot != DEAF_SLOT ||
			    packet.seq != 1)
				continue;
			if (!since_ns)
				since_ns = link->ops->now_ns(link);
			if (link->ops->now_ns(link) - since_ns < DEAF_NS)
				frames[i].data[at] = 0; /* no version of ours: dropped */
		}
	}
	return count;
}

void liar_deafen(struct tally_comm *comm)
{
	comm_lock(comm);
	true_ops = comm->link->ops;
	lying_ops = *true_ops;
	lying_ops.recv = deaf_recv;
	comm->link->ops = &lying_ops;
	comm_unlock(comm);
}
