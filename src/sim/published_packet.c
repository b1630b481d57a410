/* SPDX-License-Identifier: Apache-2.0 */
/* published_packet.c - what the published rules do through: the network, a timer for each slot. */
#include "sim/published.h"

#include <string.h>

void published_send_from(struct run *run, uint32_t from, uint32_t to,
			 const struct published_packet *packet)
{
	uint32_t data[(WIRE_HEADER_BYTES + sizeof(packet->vector)) / sizeof(uint32_t)] = { 0 };
	struct wire head = { .type = packet->type,
			     .flags = packet->ver,
			     .seq = packet->off,
			     .slot = packet->idx,
			     .child = packet->wid,
			     .lanes = (uint16_t)packet->lanes,
			     .tag = (uint32_t)packet->vector[0] };
	struct link *link = net_link(run->net, from);
	struct link_frame frame = { .peer = net_address(run->net, to),
				    .packet_bytes = wire_bytes(packet->lanes),
				    .bytes = wire_bytes(packet->lanes),
				    .count = 1,
				    .data = (uint8_t *)data };

	wire_put(frame.data, &head);
	memcpy(frame.data + WIRE_HEADER_BYTES, packet->vector, packet->lanes * sizeof(int32_t));
	link->ops->send(link, &frame, 1);
}

bool published_next(struct run *run, uint32_t node, struct published_packet *packet)
{
	struct link *link = net_link(run->net, node);
	struct link_frame frame;
	struct wire head;

	if (link->ops->recv(link, &frame, 1) != 1)
		return false;
	wire_get(frame.data, &head);
	*packet = (struct published_packet){ .type = head.type,
					     .ver = head.flags & 1,
					     .idx = head.slot,
					     .wid = head.child,
					     .off = head.seq,
					     .lanes = head.lanes };
	memcpy(packet->vector, frame.data + WIRE_HEADER_BYTES, packet->lanes * sizeof(int32_t));
	return true;
}

void published_send(struct published_worker *worker, const struct published_packet *packet)
{
	published_send_from(worker->run, worker->w, wiring_node(&worker->run->wiring, 0), packet);
	worker->run->report->updates++;
}

void published_timer_start(struct published_worker *worker, const struct published_packet *packet)
{
	worker->timer[packet->idx].packet = *packet;
	worker->timer[packet->idx].due_ns = net_now(worker->run->net) + PUBLISHED_RTO_NS;
}

void published_timer_cancel(struct published_worker *worker, uint32_t idx)
{
	worker->timer[idx].due_ns = NET_NEVER;
}
