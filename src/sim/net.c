/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packet's way: its sender's line out (first in, first out: computed when it is sent, from the time at
 * which the line is free again), propagation, jitter and reordering, then an event: it arrives at its
 * receiver's line in. Is that line free, it is there at once, else another event tells when.
 */
#include "core/shared/wire.h"
#include "sim/net_state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- packets --- */

static struct packet *packet_at(const struct net *net, uint32_t index)
{
	return (struct packet *)(void *)(net->slabs[index / SLAB_PACKETS] +
					 index % SLAB_PACKETS * net->stride);
}

static void slab_add(struct net *net)
{
	uint32_t count = net->slabs_count + 1;

	net->slabs = need(realloc(net->slabs, count * sizeof(*net->slabs)));
	net->slabs[net->slabs_count] = need(malloc(SLAB_PACKETS * net->stride));
	for (uint32_t i = SLAB_PACKETS; i-- > 0;) {
		uint32_t index = net->slabs_count * SLAB_PACKETS + i;
		struct packet *packet =
			(struct packet *)(void *)(net->slabs[net->slabs_count] + i * net->stride);
		packet->next = net->unused;
		net->unused = index;
	}
	net->slabs_count = count;
}

static uint32_t packet_new(struct net *net)
{
	if (net->unused == NOTHING)
		slab_add(net);
	uint32_t index = net->unused;

	net->unused = packet_at(net, index)->next;
	return index;
}

static void packet_free(struct net *net, uint32_t index)
{
	packet_at(net, index)->next = net->unused;
	net->unused = index;
}

static void watch(struct net *net, enum net_fate fate, uint32_t from, uint32_t to,
		  const uint8_t *data, uint32_t bytes)
{
	net->stats.fate[fate]++;
	if (net->watch)
		net->watch(net->context, &(struct net_sight){ .now_ns = net->now_ns,
							      .fate = fate,
							      .from = from,
							      .to = to,
							      .bytes = bytes,
							      .data = data });
}

/* --- the way --- */

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* On the wire, where one lane may stand for several. */
static uint32_t wire_length(const struct net *net, uint32_t bytes)
{
	uint32_t lanes = bytes > WIRE_HEADER_BYTES ? bytes - WIRE_HEADER_BYTES : 0;

	return bytes + lanes * (net->lane_weight - 1) + NET_OVERHEAD_BYTES;
}

/* A packet enters the line now: when it has its turn. NET_NEVER: the queue is full. */
static uint64_t line_enter(struct line *line, uint64_t now, uint32_t length)
{
	if (line->is_down && now < line->pause_ns)
		return NET_NEVER;
	uint64_t enter = later(now, line->pause_ns);
	uint64_t begin = later(enter, line->free_ns);

	if (begin - enter > line->queue_ns)
		return NET_NEVER;
	line->free_ns = begin + (uint64_t)length * line->line.ps_per_byte / 1000;
	return begin;
}

static struct node *node_find(const struct net *net, const struct link_address *address)
{
	uint32_t number = (uint32_t)address->ip[13] << 16 | (uint32_t)address->ip[14] << 8 |
			  address->ip[15];

	if (number >= net->nodes_count)
		return NULL;
	struct node *node = net->node[number];

	return link_address_equal(&node->link.local, address) ? node : NULL;
}

static void packet_launch(struct net *net, const struct node *from, const struct node *to,
			  const uint8_t *data, uint32_t bytes, uint64_t at)
{
	uint32_t index = packet_new(net);
	struct packet *packet = packet_at(net, index);

	packet->bytes = (uint16_t)bytes;
	packet->from = from->number;
	packet->to = to->number;
	packet->from_port = from->link.local.port;
	packet->has_waited = false;
	packet->life = to->life;
	memcpy(packet->data, data, bytes);
	agenda_push(&net->agenda, at, (uint32_t)WHAT_PACKET << WHAT_SHIFT | index);
}

static bool is_hit(uint64_t draw, uint32_t which, uint32_t threshold)
{
	return (draw >> which * FATE_BITS & ((1u << FATE_BITS) - 1)) < threshold;
}

/* Between a switch and what hangs on it there is one cable, the child's; so a switch can have many. */
static struct line *line_out(struct node *from, const struct node *to)
{
	return to->up == from->number ? &from->hub_out : &from->out;
}

static struct line *line_in(const struct node *from, struct node *to)
{
	return from->up == to->number ? &to->hub_in : &to->in;
}

static bool is_cut(const struct net *net, const struct node *from, const struct node *to)
{
	return net->cut == NET_CUT ? from->side != to->side
				   : net->cut == NET_CUT_ONE_WAY && from->side > to->side;
}

static enum net_fate packet_send(struct net *net, struct node *from, struct node *to,
				 const uint8_t *data, uint32_t bytes)
{
	const struct net_weather *weather = &net->weather;
	struct line *out = line_out(from, to);
	const struct line *in = line_in(from, to);
	uint64_t draw = rng_next(&net->fate);
	bool is_fair = net->sent < net->fault_first || net->sent > net->fault_last;

	net->sent++;
	if (line_enter(out, net->now_ns, wire_length(net, bytes)) == NET_NEVER)
		return NET_FULL;
	if (is_cut(net, from, to))
		return NET_LOST;
	if (!is_fair && is_hit(draw, 0, net->loss + out->loss + in->loss))
		return NET_LOST;
	uint64_t at = out->free_ns + out->line.delay_ns + in->line.delay_ns;
	if (weather->jitter_ns)
		at += rng_below(&net->fate, weather->jitter_ns + 1);

	uint64_t first = at;
	bool is_in_order = from->number < 64 && weather->in_order >> from->number & 1;
	if (!is_fair && is_hit(draw, 1, net->reorder) && !is_in_order)
		at += rng_below(&net->fate, weather->reorder_ns + 1);
	packet_launch(net, from, to, data, bytes, at);
	if (is_fair || !is_hit(draw, 2, net->duplicate))
		return NET_SENT;
	packet_launch(net, from, to, data, bytes,
		      first + rng_below(&net->fate, weather->reorder_ns + 1));
	return NET_DOUBLED;
}

/* --- a node --- */

static void node_due(struct net *net, struct node *node, uint64_t at)
{
	if (at >= node->due_ns)
		return;
	node->due_ns = at;
	agenda_push(&net->agenda, at, (uint32_t)WHAT_POLL << WHAT_SHIFT | node->number);
}

static void packet_drop(struct net *net, uint32_t index, enum net_fate fate)
{
	const struct packet *packet = packet_at(net, index);

	watch(net, fate, packet->from, packet->to, packet->data, packet->bytes);
	packet_free(net, index);
}

static void node_arrival(struct net *net, uint32_t index)
{
	struct packet *packet = packet_at(net, index);
	struct node *node = net->node[packet->to];

	if (packet->life != node->life) {
		packet_drop(net, index, NET_DROPPED);
		return;
	}
	if (!packet->has_waited) {
		uint64_t at = line_enter(line_in(net->node[packet->from], node), net->now_ns,
					 wire_length(net, packet->bytes));
		if (at == NET_NEVER) {
			packet_drop(net, index, NET_DROPPED);
			return;
		}
		if (at > net->now_ns) {
			packet->has_waited = true;
			agenda_push(&net->agenda, at, (uint32_t)WHAT_PACKET << WHAT_SHIFT | index);
			return;
		}
	}
	if (node->inbox_used + packet->bytes > node->inbox_bytes) {
		packet_drop(net, index, NET_REFUSED);
		return;
	}
	node->inbox_used += packet->bytes;
	packet->next = NOTHING;
	if (node->inbox_head == NOTHING) {
		node->inbox_head = index;
		uint32_t wait = node->poll_ns ? rng_below(&net->host, node->poll_ns + 1) : 0;
		node_due(net, node, net->now_ns + wait);
	} else {
		packet_at(net, node->inbox_tail)->next = index;
	}
	node->inbox_tail = index;
}

static bool node_poll(struct net *net, struct node *node, uint64_t at)
{
	if (node->due_ns != at)
		return false; /* another poll came before it */
	node->due_ns = NET_NEVER;
	if (node->pause_ns > at) {
		node_due(net, node, node->pause_ns);
		return false;
	}
	return true;
}

struct net_event net_step(struct net *net)
{
	while (net->agenda.count) {
		struct agenda_entry entry = agenda_pop(&net->agenda);
		uint32_t number = entry.what & ((1u << WHAT_SHIFT) - 1);

		net->now_ns = entry.at;
		net->stats.events++;
		switch (entry.what >> WHAT_SHIFT) {
		case WHAT_PACKET:
			node_arrival(net, number);
			break;
		case WHAT_POLL:
			if (node_poll(net, net->node[number], entry.at))
				return (struct net_event){ .type = NET_POLL, .node = number };
			break;
		default:
			return (struct net_event){ .type = NET_TIMER, .cookie = number };
		}
	}
	return (struct net_event){ .type = NET_IDLE };
}

/* --- the link --- */

struct link_address net_address(const struct net *net, uint32_t node)
{
	return net->node[node]->link.local;
}

static bool may_join(struct net *net, const struct node *node, const struct link_frame *frame,
		     const struct packet *packet, const struct packet *previous)
{
	if (frame->count == LINK_FRAME_PACKETS_MAX || packet->from != previous->from ||
	    packet->from_port != previous->from_port)
		return false;
	if (previous->bytes != frame->packet_bytes || packet->bytes > frame->packet_bytes ||
	    frame->bytes + packet->bytes > LINK_FRAME_BYTES_MAX)
		return false;
	return rng_chance(&net->host, node->gro);
}

/* Takes the first of the inbox out into the lent memory. */
static struct packet *inbox_take(struct net *net, struct node *node, uint8_t *into)
{
	uint32_t index = node->inbox_head;
	struct packet *packet = packet_at(net, index);

	memcpy(into, packet->data, packet->bytes);
	node->inbox_head = packet->next;
	node->inbox_used -= packet->bytes;
	node->link.stats.packets_in++;
	node->link.stats.bytes_in += packet->bytes;
	watch(net, NET_TAKEN, packet->from, packet->to, into, packet->bytes);
	packet_free(net, index); /* its bytes stay until the next packet_new */
	return packet;
}

static int sim_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	struct node *node = (struct node *)link;
	struct net *net = node->net;
	struct packet *previous = NULL;
	uint32_t count = 0;
	uint32_t used = 0;

	while (node->inbox_head != NOTHING) {
		struct packet *packet = packet_at(net, node->inbox_head);
		struct link_frame *frame = count ? &frames[count - 1] : NULL;

		if (used + packet->bytes > INBOX_FRAMES_BYTES)
			break;
		if (!frame || !may_join(net, node, frame, packet, previous)) {
			if (count == max)
				break;
			used = (used + 3) & ~3u;
			frame = &frames[count++];
			*frame = (struct link_frame){
				.peer = net_address(net, packet->from),
				.packet_bytes = packet->bytes,
				.data = net->frames + used,
			};
			frame->peer.port = packet->from_port;
		}
		previous = inbox_take(net, node, net->frames + used);
		frame->count++;
		frame->bytes += previous->bytes;
		used += previous->bytes;
	}
	node->link.stats.calls_in += count;
	return (int)count;
}

static void frame_send(struct net *net, struct node *node, const struct link_frame *frame)
{
	struct node *to = node_find(net, &frame->peer);

	assert(frame->count >= 1);
	assert(frame->count <= LINK_FRAME_PACKETS_MAX);
	assert(frame->bytes <= LINK_FRAME_BYTES_MAX);
	assert(frame->bytes > (frame->count - 1) * frame->packet_bytes);
	assert(frame->bytes <= frame->count * frame->packet_bytes);
	for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes) {
		const uint8_t *data = frame->data + at;
		uint32_t bytes = link_packet_bytes(frame, at);
		enum net_fate fate = to ? packet_send(net, node, to, data, bytes) : NET_NOBODY;

		watch(net, fate, node->number, to ? to->number : NET_NODES_MAX, data, bytes);
		node->link.stats.packets_out++;
		node->link.stats.bytes_out += bytes;
	}
}

static int sim_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	struct node *node = (struct node *)link;

	for (uint32_t i = 0; i < count; i++) {
		const struct link_frame *frame = &frames[i];
		uint32_t bytes = frame->count > 1 ? frame->packet_bytes : frame->bytes;
		if (bytes > node->net->packet_bytes_max) {
			link->too_large = frame->peer;
			return -EMSGSIZE;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		frame_send(node->net, node, &frames[i]);
	node->link.stats.calls_out += count;
	return 0;
}

/* What a clock shows after `since` true nanoseconds, if it runs `ppm` faster. */
static uint64_t clock_turn(uint64_t since, int32_t ppm)
{
	int64_t millions = (int64_t)(since / 1000000);
	int64_t rest = (int64_t)(since % 1000000);

	return since + (uint64_t)(millions * ppm + rest * ppm / 1000000);
}

/* For whoever drives one link alone: the clock runs on until something has come for it. What is due
 * elsewhere is lost. */
static enum link_wait sim_wait(struct link *link, uint64_t until_ns)
{
	struct node *node = (struct node *)link;
	struct net *net = node->net;

	for (;;) {
		if (__atomic_exchange_n(&node->is_woken, false, __ATOMIC_SEQ_CST))
			return LINK_WOKEN;
		if (node->inbox_head != NOTHING)
			return LINK_READABLE;
		if (!net->agenda.count || agenda_next(&net->agenda) > until_ns) {
			if (until_ns != NET_NEVER)
				net->now_ns = later(net->now_ns, until_ns);
			return LINK_TIME;
		}
		net_step(net);
	}
}

static void sim_wake(struct link *link)
{
	__atomic_store_n(&((struct node *)link)->is_woken, true, __ATOMIC_SEQ_CST);
}

static uint64_t sim_now(struct link *link)
{
	const struct node *node = (struct node *)link;
	uint64_t since = node->net->now_ns - node->clock_from_ns;

	return node->clock_ns + clock_turn(since, node->clock_ppm);
}

static void sim_close(struct link *link)
{
	(void)link; /* net_close gives it back */
}

const struct link_ops net_link_ops = {
	.recv = sim_recv,
	.send = sim_send,
	.wait = sim_wait,
	.wake = sim_wake,
	.now_ns = sim_now,
	.close = sim_close,
};

/* --- time, and who comes later --- */

void net_poll_at(struct net *net, uint32_t node, uint64_t when_ns)
{
	if (when_ns != NET_NEVER)
		node_due(net, net->node[node], later(when_ns, net->now_ns));
}

void net_clock(struct net *net, uint32_t number, int32_t ppm, uint64_t ahead_ns)
{
	struct node *node = net->node[number];

	node->clock_ns = sim_now(&node->link) + ahead_ns;
	node->clock_from_ns = net->now_ns;
	node->clock_ppm = ppm;
}

/* The turn of a clock, backwards: never too early. */
void net_poll_at_clock(struct net *net, uint32_t number, uint64_t clock_ns)
{
	const struct node *node = net->node[number];
	uint64_t left = clock_ns > node->clock_ns ? clock_ns - node->clock_ns : 0;

	if (clock_ns == NET_NEVER)
		return;
	uint64_t rate = (uint64_t)(1000000 + node->clock_ppm);
	uint64_t when = node->clock_from_ns + left / rate * 1000000 +
			(left % rate * 1000000 + rate - 1) / rate;
	net_poll_at(net, number, when > net->now_ns ? when : net->now_ns + 1);
}

void net_timer(struct net *net, uint64_t when_ns, uint32_t cookie)
{
	agenda_push(&net->agenda, later(when_ns, net->now_ns),
		    (uint32_t)WHAT_TIMER << WHAT_SHIFT | cookie);
}

void net_reborn(struct net *net, uint32_t number)
{
	struct node *node = net->node[number];

	while (node->inbox_head != NOTHING) {
		uint32_t index = node->inbox_head;

		node->inbox_head = packet_at(net, index)->next;
		packet_free(net, index);
	}
	node->inbox_used = 0;
	node->life++;
	node->link.local.port++;
}
