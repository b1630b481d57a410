/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packet's way: its sender's line out (first in, first out: computed when it is sent, from the time at
 * which the line is free again), propagation, jitter and reordering, then an event: it arrives at its
 * receiver's line in. Is that line free, it is there at once, else another event tells when.
 */
#include "sim/net.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SLAB_PACKETS = 1024,
	NOTHING = UINT32_MAX,
	INBOX_FRAMES_BYTES = 256 * 1024, /* what one recv lends; more waits for the next */
	FATE_BITS = 20,
	/* What an event is: its two top bits; the others are a packet, a node or a cookie. */
	WHAT_PACKET = 0,
	WHAT_POLL = 1,
	WHAT_TIMER = 2,
	WHAT_SHIFT = 30,
};

struct packet {
	uint32_t next; /* in a list of free packets, or in an inbox */
	uint16_t bytes;
	uint16_t from_port;
	uint8_t from, to;
	bool has_waited; /* in the line in */
	uint8_t reserved;
	uint8_t data[];
};
_Static_assert(sizeof(struct packet) % 4 == 0, "data are 4-byte aligned");
_Static_assert(NET_NODES_MAX <= UINT8_MAX, "a node is a byte");

struct line {
	struct net_line line;
	uint64_t free_ns;  /* when the last packet that entered has left */
	uint64_t queue_ns; /* how long that may be from now */
	uint64_t pause_ns; /* nothing leaves before */
	bool is_down;      /* and nothing enters before */
	uint32_t loss;     /* in 2^-FATE_BITS, the weather's included */
};

struct node {
	struct link link;
	struct net *net;
	struct line out, in;
	uint32_t poll_ns, gro;
	uint32_t inbox_bytes, inbox_used;
	uint32_t inbox_head, inbox_tail;
	uint64_t due_ns;   /* the poll that is in the heap and counts; NET_NEVER */
	uint64_t pause_ns; /* it is not polled before */
	bool is_woken;
	uint8_t *frames;
};

struct entry {
	uint64_t at;
	uint32_t order; /* of entering, among equals */
	uint32_t what;
};

struct net {
	uint64_t now_ns;
	struct rng fate, host;
	uint32_t packet_bytes_max;
	struct net_weather weather;
	uint32_t loss, duplicate, reorder; /* in 2^-FATE_BITS */
	struct net_stats stats;
	void (*watch)(void *context, const struct net_sight *sight);
	void *context;

	struct entry *heap;
	uint32_t heap_count, heap_max, order;

	uint8_t **slabs;
	uint32_t slabs_count;
	size_t stride;
	uint32_t unused; /* list of free packets */

	uint32_t nodes_count;
	struct node *node[NET_NODES_MAX];
};

/* Out of memory ends a simulation: nothing in it could go on as the seed says. */
static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

/* --- the heap of events: four children a node, half the depth of two --- */

static bool is_before(const struct entry *a, const struct entry *b)
{
	return a->at < b->at || (a->at == b->at && (int32_t)(a->order - b->order) < 0);
}

static void heap_push(struct net *net, uint64_t at, uint32_t what)
{
	if (net->heap_count == net->heap_max) {
		net->heap_max = net->heap_max ? 2 * net->heap_max : 1024;
		net->heap = need(realloc(net->heap, net->heap_max * sizeof(*net->heap)));
	}
	struct entry entry = { .at = at, .order = net->order++, .what = what };
	uint32_t i = net->heap_count++;

	while (i && is_before(&entry, &net->heap[(i - 1) / 4])) {
		net->heap[i] = net->heap[(i - 1) / 4];
		i = (i - 1) / 4;
	}
	net->heap[i] = entry;
}

static struct entry heap_pop(struct net *net)
{
	struct entry *heap = net->heap;
	struct entry top = heap[0];
	struct entry last = heap[--net->heap_count];
	uint32_t count = net->heap_count;
	uint32_t i = 0;

	for (uint32_t child = 1; child < count; child = 4 * i + 1) {
		uint32_t least = child;
		for (uint32_t other = child + 1; other < child + 4 && other < count; other++)
			if (is_before(&heap[other], &heap[least]))
				least = other;
		if (!is_before(&heap[least], &last))
			break;
		heap[i] = heap[least];
		i = least;
	}
	heap[i] = last;
	return top;
}

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

/* A packet enters the line now: when it has its turn. NET_NEVER: the queue is full. */
static uint64_t line_enter(struct line *line, uint64_t now, uint32_t bytes)
{
	if (line->is_down && now < line->pause_ns)
		return NET_NEVER;
	uint64_t enter = later(now, line->pause_ns);
	uint64_t begin = later(enter, line->free_ns);

	if (begin - enter > line->queue_ns)
		return NET_NEVER;
	line->free_ns =
		begin + (uint64_t)(bytes + NET_OVERHEAD_BYTES) * line->line.ps_per_byte / 1000;
	return begin;
}

static struct node *node_find(const struct net *net, const struct link_address *address)
{
	if (address->ip[15] >= net->nodes_count)
		return NULL;
	struct node *node = net->node[address->ip[15]];

	return link_address_equal(&node->link.local, address) ? node : NULL;
}

static void packet_launch(struct net *net, const struct node *from, const struct node *to,
			  const uint8_t *data, uint32_t bytes, uint64_t at)
{
	uint32_t index = packet_new(net);
	struct packet *packet = packet_at(net, index);

	packet->bytes = (uint16_t)bytes;
	packet->from = from->link.local.ip[15];
	packet->to = to->link.local.ip[15];
	packet->from_port = from->link.local.port;
	packet->has_waited = false;
	memcpy(packet->data, data, bytes);
	heap_push(net, at, (uint32_t)WHAT_PACKET << WHAT_SHIFT | index);
}

static bool is_hit(uint64_t draw, uint32_t which, uint32_t threshold)
{
	return (draw >> which * FATE_BITS & ((1u << FATE_BITS) - 1)) < threshold;
}

static enum net_fate packet_send(struct net *net, struct node *from, struct node *to,
				 const uint8_t *data, uint32_t bytes)
{
	const struct net_weather *weather = &net->weather;
	uint64_t draw = rng_next(&net->fate);

	if (line_enter(&from->out, net->now_ns, bytes) == NET_NEVER)
		return NET_FULL;
	if (is_hit(draw, 0, net->loss + from->out.loss + to->in.loss))
		return NET_LOST;
	uint64_t at = from->out.free_ns + from->out.line.delay_ns + to->in.line.delay_ns;
	if (weather->jitter_ns)
		at += rng_below(&net->fate, weather->jitter_ns + 1);

	uint64_t first = at;
	if (is_hit(draw, 1, net->reorder) && !(weather->in_order >> from->link.local.ip[15] & 1))
		at += rng_below(&net->fate, weather->reorder_ns + 1);
	packet_launch(net, from, to, data, bytes, at);
	if (!is_hit(draw, 2, net->duplicate))
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
	heap_push(net, at, (uint32_t)WHAT_POLL << WHAT_SHIFT | node->link.local.ip[15]);
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

	if (!packet->has_waited) {
		uint64_t at = line_enter(&node->in, net->now_ns, packet->bytes);
		if (at == NET_NEVER) {
			packet_drop(net, index, NET_DROPPED);
			return;
		}
		if (at > net->now_ns) {
			packet->has_waited = true;
			heap_push(net, at, (uint32_t)WHAT_PACKET << WHAT_SHIFT | index);
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
	while (net->heap_count) {
		struct entry entry = heap_pop(net);
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
				.data = node->frames + used,
			};
			frame->peer.port = packet->from_port;
		}
		previous = inbox_take(net, node, node->frames + used);
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
	uint32_t left = frame->bytes;

	assert(frame->count >= 1);
	assert(frame->count <= LINK_FRAME_PACKETS_MAX);
	assert(frame->bytes <= LINK_FRAME_BYTES_MAX);
	assert(frame->bytes > (frame->count - 1) * frame->packet_bytes);
	assert(frame->bytes <= frame->count * frame->packet_bytes);
	for (const uint8_t *data = frame->data; left;) {
		uint32_t bytes = left < frame->packet_bytes ? left : frame->packet_bytes;
		enum net_fate fate = to ? packet_send(net, node, to, data, bytes) : NET_NOBODY;

		watch(net, fate, node->link.local.ip[15],
		      to ? to->link.local.ip[15] : NET_NODES_MAX, data, bytes);
		node->link.stats.packets_out++;
		node->link.stats.bytes_out += bytes;
		data += bytes;
		left -= bytes;
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
		if (!net->heap_count || net->heap[0].at > until_ns) {
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
	return ((struct node *)link)->net->now_ns;
}

static void sim_close(struct link *link)
{
	(void)link; /* net_close gives it back */
}

static const struct link_ops sim_ops = {
	.recv = sim_recv,
	.send = sim_send,
	.wait = sim_wait,
	.wake = sim_wake,
	.now_ns = sim_now,
	.close = sim_close,
};

/* --- what a simulation sets up --- */

static uint32_t threshold(uint32_t parts)
{
	return (uint32_t)(((uint64_t)parts << FATE_BITS) / 1000000);
}

static void line_init(struct line *line, const struct net_line *config)
{
	*line = (struct line){
		.line = *config,
		.queue_ns = (uint64_t)config->queue_bytes * config->ps_per_byte / 1000,
		.loss = threshold(config->loss),
	};
}

void net_weather(struct net *net, const struct net_weather *weather)
{
	net->weather = *weather;
	net->loss = threshold(weather->loss);
	net->duplicate = threshold(weather->duplicate);
	net->reorder = threshold(weather->reorder);
}

struct net *net_open(const struct net_options *options)
{
	struct net *net = calloc(1, sizeof(*net));

	if (!net)
		return NULL;
	rng_init(&net->fate, options->seed, 1);
	rng_init(&net->host, options->seed, 2);
	net->packet_bytes_max = options->packet_bytes_max;
	assert(net->packet_bytes_max <= UINT16_MAX);
	net->stride = (sizeof(struct packet) + net->packet_bytes_max + 15) & ~(size_t)15;
	net->unused = NOTHING;
	net->now_ns = 1000000; /* never 0, which means "not yet" to some */
	net_weather(net, &options->weather);
	return net;
}

void net_close(struct net *net)
{
	if (!net)
		return;
	for (uint32_t i = 0; i < net->nodes_count; i++) {
		free(net->node[i]->frames);
		free(net->node[i]);
	}
	for (uint32_t i = 0; i < net->slabs_count; i++)
		free(net->slabs[i]);
	free(net->slabs);
	free(net->heap);
	free(net);
}

uint32_t net_node_add(struct net *net, const struct net_host *host)
{
	uint32_t number = net->nodes_count++;
	struct node *node = need(calloc(1, sizeof(*node)));

	assert(number < NET_NODES_MAX);
	node->link.ops = &sim_ops;
	node->link.local = (struct link_address){
		.ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)number },
		.port = NET_PORT,
	};
	node->net = net;
	line_init(&node->out, &host->out);
	line_init(&node->in, &host->in);
	node->poll_ns = host->poll_ns;
	node->gro = host->gro;
	node->inbox_bytes = host->inbox_bytes;
	node->inbox_head = node->inbox_tail = NOTHING;
	node->due_ns = NET_NEVER;
	node->frames = need(malloc(INBOX_FRAMES_BYTES));
	net->node[number] = node;
	return number;
}

struct link *net_link(struct net *net, uint32_t node)
{
	return &net->node[node]->link;
}

struct link_address net_address(const struct net *net, uint32_t node)
{
	return net->node[node]->link.local;
}

void net_readdress(struct net *net, uint32_t node, uint16_t port)
{
	net->node[node]->link.local.port = port;
}

void net_watch(struct net *net, void (*watcher)(void *context, const struct net_sight *sight),
	       void *context)
{
	net->watch = watcher;
	net->context = context;
}

uint64_t net_now(const struct net *net)
{
	return net->now_ns;
}

void net_poll_at(struct net *net, uint32_t node, uint64_t when_ns)
{
	if (when_ns != NET_NEVER)
		node_due(net, net->node[node], later(when_ns, net->now_ns));
}

void net_timer(struct net *net, uint64_t when_ns, uint32_t cookie)
{
	heap_push(net, later(when_ns, net->now_ns), (uint32_t)WHAT_TIMER << WHAT_SHIFT | cookie);
}

void net_pause_node(struct net *net, uint32_t node, uint64_t until_ns)
{
	net->node[node]->pause_ns = until_ns;
}

void net_pause_lines(struct net *net, uint32_t node, uint64_t until_ns, bool is_down)
{
	struct line *lines[] = { &net->node[node]->out, &net->node[node]->in };

	for (uint32_t i = 0; i < 2; i++) {
		lines[i]->pause_ns = until_ns;
		lines[i]->is_down = is_down;
	}
}

const struct net_stats *net_stats(const struct net *net)
{
	return &net->stats;
}
