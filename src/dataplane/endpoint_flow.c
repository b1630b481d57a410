/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_flow.c - the packets of an endpoint, but for HELLOs (endpoint_path.c). What a poll does, in this
 * order: take one burst; PROBEs that are due; copies that were asked for; continuations; first rounds while
 * the windows have room.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/dense/switch.h"
#include "dataplane/endpoint_state.h"
#include "simd/float_state.h"

enum {
	START_FRAMES = 8, /* messages of first rounds before the next look at what has arrived */
	PARTS = 4, /* of a window, at least: all but one are in flight while one is waited for */
	ROOM_RETRY_NS = 1000000, /* the link has no room, and may not be able to say when it has */
};

/* --- sending ------------------------------------------------------------------------------------ */

static void send_slot(struct endpoint *endpoint, uint32_t shard, uint32_t slot)
{
	bool is_copy = !endpoint->shards[shard].fresh[slot];

	endpoint->shards[shard].fresh[slot] = 0;
	if (is_copy)
		endpoint_buffer(endpoint, shard, slot)[1] |= WIRE_RESENT;
	endpoint_emit_slot(endpoint, shard, slot);
	pace_sent(&endpoint->pace, shard, slot, endpoint->now_ns, is_copy);
	if (is_copy)
		endpoint->stats.updates_resent++;
	else
		endpoint->stats.updates_out++;
}

static void queue_push(struct endpoint *endpoint, uint32_t shard, struct slot_queue *queue,
		       uint32_t slot)
{
	struct shard_state *state = &endpoint->shards[shard];

	if (state->queued[slot])
		return;
	state->queued[slot] = 1;
	queue->slots[(queue->head + queue->count++) % endpoint->slots] = slot;
}

static bool queue_pop(struct endpoint *endpoint, uint32_t shard, struct slot_queue *queue,
		      uint32_t *slot)
{
	if (!queue->count)
		return false;
	*slot = queue->slots[queue->head];
	queue->head = (queue->head + 1) % endpoint->slots;
	queue->count--;
	endpoint->shards[shard].queued[*slot] = 0;
	return true;
}

/* --- what the worker asks for ------------------------------------------------------------------- */

static const struct endpoint_op *op_of(const struct endpoint *endpoint, uint64_t index)
{
	return &endpoint->ops[index];
}

static const void *source_of(const struct endpoint *endpoint, const struct worker_chunk *chunk)
{
	return segments_read(op_of(endpoint, chunk->cookie), SEGMENTS_SOURCE, chunk->first,
			     chunk->elements, endpoint->scratch);
}

static uint32_t look(const struct endpoint *endpoint, const struct worker_actions *actions)
{
	const struct lanes *lanes;

	if (actions->look == WORKER_AHEAD_UNKNOWN)
		return WIRE_EXPONENT_UNKNOWN;
	if (actions->look == WORKER_AHEAD_ZERO)
		return 0;
	lanes = endpoint_numbers(endpoint, actions->ahead.cookie);
	return lanes->way->exponent(lanes, source_of(endpoint, &actions->ahead),
				    actions->ahead.elements);
}

/* R-WIRE-10, R-WK-9, R-WK-18. */
static uint16_t field_of(const struct endpoint *endpoint, const struct worker_actions *actions)
{
	uint32_t next = look(endpoint, actions);
	const struct lanes *lanes;

	if (wire_round_of(actions->header.flags) != WIRE_GUESS)
		return (uint16_t)next;
	lanes = endpoint_numbers(endpoint, actions->chunk.cookie);
	return wire_guess_field(lanes->way->exponent(lanes, source_of(endpoint, &actions->chunk),
						     actions->chunk.elements),
				next < WIRE_NEXT_UNKNOWN ? next : WIRE_NEXT_UNKNOWN);
}

/* What these lanes do not say of their elements. */
static void rest_store(const struct lanes *lanes, float *rest, const int32_t *lane,
		       const float *source, uint32_t count, uint32_t scale)
{
	struct lanes own = *lanes;

	own.is_avg = false;
	own.way->unpack(&own, rest, lane, count, scale, false);
	for (uint32_t i = 0; i < count; i++)
		rest[i] = isfinite(source[i]) ? source[i] - rest[i] : 0;
}

/* Fills the lanes of a DATA, GUESS or DETAIL round; returns the sticky flags. */
static uint8_t fill(const struct endpoint *endpoint, const struct worker_actions *actions,
		    int32_t *lane)
{
	const struct lanes *lanes = endpoint_numbers(endpoint, actions->chunk.cookie);
	const void *source = source_of(endpoint, &actions->chunk);
	uint32_t elements = actions->chunk.elements, filled = map_lanes(lanes->shape, elements);
	float *rest = op_of(endpoint, actions->chunk.cookie)->rest;
	uint8_t flags;

	memset(lane + filled, 0, (actions->lanes - filled) * sizeof(*lane));
	if (wire_round_of(actions->header.flags) == WIRE_DETAIL) {
		lanes->way->detail(lanes, lane, source, elements);
		return 0;
	}
	flags = lanes->way->pack(lanes, lane, source, elements, actions->build_scale);
	if (rest)
		rest_store(lanes, rest + actions->chunk.first, lane, source, elements,
			   actions->build_scale);
	return flags;
}

static void build(struct endpoint *endpoint, uint32_t shard, const struct worker_actions *actions)
{
	uint8_t *bytes = endpoint_buffer(endpoint, shard, actions->slot);
	int32_t *lane = (int32_t *)(void *)(bytes + WIRE_HEADER_BYTES);
	const struct endpoint_op *op = op_of(endpoint, actions->chunk.cookie);
	struct wire header = actions->header;

	endpoint_op_begun(endpoint, op);
	header.exponent = field_of(endpoint, actions);
	if (actions->lanes)
		header.flags |= fill(endpoint, actions, lane);
	header.lanes = worker_trim(&endpoint->worker, shard, actions, lane);
	if (endpoint->shards[shard].grant.is_big_endian)
		endpoint_lanes_swap(lane, lane, actions->lanes);
	wire_put(bytes, &header);
	endpoint->shards[shard].fresh[actions->slot] = 1;
	endpoint->stats.exponent_rounds += wire_round_of(header.flags) == WIRE_EXPONENT;
	endpoint->stats.guess_rounds += wire_round_of(header.flags) == WIRE_GUESS;
	endpoint->stats.guesses_again += actions->is_again;
	endpoint->stats.detail_rounds += wire_round_of(header.flags) == WIRE_DETAIL;
}

/* R-WK-14: of a RESULT without lanes, those in the slot's buffer. R-WK-15: those that are kept there belong to it.
 * R-WK-16: what it lacks is 0. */
static const int32_t *stored_lanes(const struct endpoint *endpoint, uint32_t shard,
				   const struct worker_actions *actions, const struct wire *packet,
				   const int32_t *lane, int32_t *joined)
{
	const uint8_t *bytes = endpoint_buffer(endpoint, shard, actions->slot);
	const int32_t *own = (const int32_t *)(const void *)(bytes + WIRE_HEADER_BYTES);
	uint32_t lanes = packet->lanes, all = actions->stored_lanes;

	if (endpoint->shards[shard].grant.is_big_endian && (actions->is_bare || actions->is_joined))
		own = endpoint_lanes_swap(joined, own, all);
	if (actions->is_bare)
		return own;
	if (!actions->is_joined) {
		if (lanes == all)
			return lane;
		memset(joined + lanes, 0, (all - lanes) * sizeof(*joined));
		return memcpy(joined, lane, lanes * sizeof(*joined));
	}
	if (own != joined)
		switch_assign(joined, own, all, NULL);
	if (actions->joined_by == WIRE_MAX)
		switch_max(joined, lane, lanes, NULL);
	else
		switch_add(joined, lane, lanes, NULL);
	return joined;
}

static void store(struct endpoint *endpoint, const struct worker_actions *actions,
		  const int32_t *lane)
{
	const struct endpoint_op *op = op_of(endpoint, actions->stored.cookie);
	const struct lanes *lanes = endpoint_numbers(endpoint, actions->stored.cookie);
	uint64_t first = actions->stored.first;
	uint32_t elements = actions->stored.elements;
	void *at;

	if (!elements || segments_wish(op, first, elements) == WORKER_WANTS_NONE ||
	    segments_are_there(op, first, elements))
		return;
	at = segments_write(op, first, elements, endpoint->scratch);
	if (actions->stored_round == WIRE_DETAIL) { /* it amends what is there */
		(void)segments_read(op, SEGMENTS_DESTINATION, first, elements, endpoint->scratch);
		endpoint->stats.saturated += lanes->way->amend(lanes, at, lane, elements);
	} else {
		endpoint->stats.saturated += lanes->way->unpack(lanes, at, lane, elements,
								actions->stored_scale,
								actions->is_amended_later);
	}
	segments_written(op, first, elements, endpoint->scratch);
}

/* --- receiving ---------------------------------------------------------------------------------- */

static void take_answer(struct endpoint *endpoint, uint32_t shard, const struct wire *packet,
			const int32_t *lane)
{
	struct worker_event event = { .type = WORKER_PACKET, .shard = shard, .packet = packet };
	struct shard_state *state = &endpoint->shards[shard];
	struct worker_actions actions;
	uint64_t now_ns = endpoint->now_ns;
	uint32_t echo = packet->flags & WIRE_HINT ? 0 : packet->tag;
	int32_t joined[WIRE_LANES_MAX];

	worker_step(&endpoint->worker, &event, &actions);
	if (actions.is_held) {
		endpoint->stats.held_in++;
		pace_held(&endpoint->pace, shard, actions.slot, now_ns, echo);
	}
	if (actions.is_asked) {
		endpoint->stats.need_in++;
		pace_need(&endpoint->pace, shard, actions.slot, now_ns, echo);
	}
	if (actions.resend)
		queue_push(endpoint, shard, &state->needs, actions.slot);
	if (actions.is_accepted) {
		endpoint->stats.results_in++;
		endpoint->progress_ns = now_ns;
		pace_result(&endpoint->pace, shard, actions.slot, now_ns,
			    packet->child == state->grant.child);
	} else if (packet->type == WIRE_RESULT) {
		endpoint->stats.results_ignored++;
	}
	if (actions.store)
		lane = stored_lanes(endpoint, shard, &actions, packet, lane, joined);
	if (actions.build) {
		build(endpoint, shard, &actions);
		queue_push(endpoint, shard, &state->rounds, actions.slot);
	}
	if (actions.store)
		store(endpoint, &actions, lane);
	if (actions.is_op_done)
		endpoint_op_finish(endpoint, actions.stored.cookie);
	if (actions.is_protocol_error)
		endpoint->fault = ENDPOINT_PROTOCOL_ERROR;
}

/* In the order of R-SW-1: who knows the generation is our aggregator at another address, or has seen our packets; all
 * else may be late. */
static enum endpoint_stray stray_of(const struct endpoint *endpoint, const struct wire *packet)
{
	for (uint32_t i = 0; i < endpoint->map.shards; i++) {
		const struct endpoint_shard *grant = &endpoint->shards[i].grant;

		if (grant->job == packet->job && grant->generation == packet->generation)
			return ENDPOINT_STRAY_ADDRESS;
	}
	return ENDPOINT_STRAY_GENERATION;
}

static void stray_count(struct endpoint *endpoint, enum endpoint_stray why,
			const struct link_address *from)
{
	endpoint->stats.bad_in++;
	endpoint->stats.stray_in[why]++;
	endpoint->stats.stray_from[why] = *from;
}

/* Whose packet it is: of a shard of ours, and of this life. Nothing else is even heard. */
static bool shard_find(const struct endpoint *endpoint, const struct link_address *from,
		       const struct wire *packet, uint32_t *shard)
{
	for (uint32_t i = 0; i < endpoint->map.shards; i++) {
		const struct endpoint_shard *grant = &endpoint->shards[i].grant;

		if (grant->job == packet->job && link_address_equal(&grant->address, from) &&
		    grant->generation == packet->generation) {
			*shard = i;
			return true;
		}
	}
	return false;
}

static void take_reply(struct endpoint *endpoint, uint32_t shard, const struct wire *packet,
		       const int32_t *lane)
{
	if (endpoint->lanes && endpoint->latency)
		endpoint_latency_take(endpoint, packet, lane);
	else if (endpoint->lanes && packet->type != WIRE_CONFIRM)
		take_answer(endpoint, shard, packet, lane);
}

/* By itself: only who has such a shard needs the stack for it. */
__attribute__((noinline)) static void take_swapped(struct endpoint *endpoint, uint32_t shard,
						   const struct wire *packet, const int32_t *lane)
{
	int32_t swapped[WIRE_LANES_MAX];

	take_reply(endpoint, shard, packet, endpoint_lanes_swap(swapped, lane, packet->lanes));
}

static void take_packet(struct endpoint *endpoint, const struct link_address *from,
			const uint8_t *bytes, uint32_t length)
{
	const uint8_t *body = bytes + WIRE_HEADER_BYTES;
	const int32_t *lane = (const int32_t *)(const void *)body;
	struct wire packet;
	uint32_t shard;

	if (wire_check(bytes, length, &packet) != WIRE_OK) {
		stray_count(endpoint, ENDPOINT_STRAY_SHAPE, from);
		return;
	}
	if (!shard_find(endpoint, from, &packet, &shard)) {
		stray_count(endpoint, stray_of(endpoint, &packet), from);
		return;
	}
	pace_heard(endpoint->pace_used, shard, endpoint->now_ns);
	if (packet.type == WIRE_RESULT && packet.lanes >= endpoint->lanes)
		endpoint_path_moved(endpoint, shard);
	switch (packet.type) {
	case WIRE_RESULT:
	case WIRE_HELD:
	case WIRE_NEED:
	case WIRE_CONFIRM:
		if (endpoint->shards[shard].grant.is_big_endian)
			take_swapped(endpoint, shard, &packet, lane);
		else
			take_reply(endpoint, shard, &packet, lane);
		break;
	case WIRE_WELCOME:
		endpoint_path_welcome(endpoint, shard, &packet, body);
		break;
	default:
		stray_count(endpoint, ENDPOINT_STRAY_SHAPE, from);
	}
}

static bool receive(struct endpoint *endpoint)
{
	struct link_frame frames[LINK_RECV_FRAMES];
	int count = endpoint->link->ops->recv(endpoint->link, frames, LINK_RECV_FRAMES);

	if (count < 0) {
		endpoint->fault = ENDPOINT_LINK_ERROR;
		return false;
	}
	endpoint->now_ns = endpoint->link->ops->now_ns(endpoint->link);
	for (int i = 0; i < count; i++) {
		const struct link_frame *frame = &frames[i];

		endpoint->stats.bytes_in += frame->bytes;
		for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes)
			take_packet(endpoint, &frame->peer, frame->data + at,
				    link_packet_bytes(frame, at));
	}
	return count > 0;
}

/* --- what goes out ------------------------------------------------------------------------------ */

/* PROBEs are short: many go into a message. */
static bool send_probes(struct endpoint *endpoint)
{
	struct pace_probe probes[ENDPOINT_SEND_FRAMES];
	struct worker_actions actions;
	uint32_t room, count = 0;
	bool any = false;

	do {
		room = endpoint_header_rooms(endpoint);
		if (!room)
			break;
		count = pace_poll(&endpoint->pace, endpoint->now_ns, probes, room);
		for (uint32_t i = 0; i < count; i++) {
			struct worker_event event = { .type = WORKER_PROBE,
						      .shard = probes[i].shard,
						      .slot = probes[i].slot,
						      .attempt = probes[i].attempt };
			uint8_t *at = endpoint_header_room(endpoint);

			worker_step(&endpoint->worker, &event, &actions);
			wire_put(at, &actions.header);
			endpoint_emit(endpoint, probes[i].shard, at, WIRE_HEADER_BYTES);
		}
		endpoint->stats.probes_out += count;
		any |= count > 0;
	} while (count == room);
	return any;
}

static bool send_queues(struct endpoint *endpoint)
{
	bool any = false;
	uint32_t slot;

	for (uint32_t shard = 0; shard < endpoint->map.shards; shard++) {
		struct shard_state *state = &endpoint->shards[shard];

		while (endpoint_has_room(endpoint) &&
		       queue_pop(endpoint, shard, &state->needs, &slot)) {
			/* The result may have come since. R-WK-5: a copy that was asked for never waits
			 * for the window. */
			if (endpoint->worker.slot[(size_t)shard * endpoint->slots + slot].state ==
			    WORKER_OUTSTANDING)
				send_slot(endpoint, shard, slot);
			any = true;
		}
		while (endpoint_has_room(endpoint) &&
		       queue_pop(endpoint, shard, &state->rounds, &slot)) {
			send_slot(endpoint, shard, slot);
			any = true;
		}
	}
	return any;
}

/* The chunks of the next message of first rounds, as far as they have been submitted. A part of a run: the same on all
 * ranks whose windows are about the same, so that the switch answers all of it at once, and a message stays one. */
static uint32_t part_left(const struct endpoint *endpoint, uint32_t shard)
{
	const struct worker *worker = &endpoint->worker;
	uint32_t run = endpoint->map.run[MAP_BULK], part = run;
	uint64_t k = worker->shards[shard].next[MAP_BULK];
	uint64_t left =
		worker->stream[MAP_BULK].chunks - map_chunk(&endpoint->map, MAP_BULK, shard, k);
	uint32_t at = (uint32_t)(k % run), end;

	while (part > 1 && part > endpoint->pace.shards[shard].window[MAP_BULK] / PARTS)
		part /= 2;
	end = (at / part + 1) * part;
	end = (end < run ? end : run) - at;
	return left < end ? (uint32_t)left : end;
}

/* May the pair's next chunk start? Bulk waits for room for a whole message, so that results that come in pieces do not
 * make messages of pieces, for good. What is in flight meanwhile keeps the path busy. */
static bool may_start_pair(const struct endpoint *endpoint, uint32_t shard, enum map_stream stream,
			   uint32_t *slot)
{
	const struct pace_shard *pace = &endpoint->pace.shards[shard];

	if (!pace_has_room(&endpoint->pace, shard, stream) ||
	    !worker_may_start(&endpoint->worker, shard, stream, slot))
		return false;
	return stream == MAP_EXPRESS || !pace->in_flight[stream] ||
	       pace->window[stream] - pace->in_flight[stream] >= part_left(endpoint, shard);
}

/* First rounds of one pair, in order, at most `max`. */
static uint32_t start_pair(struct endpoint *endpoint, uint32_t shard, enum map_stream stream,
			   uint32_t max)
{
	struct worker_event event = { .type = WORKER_START, .shard = shard, .stream = stream };
	struct worker_actions actions;
	uint32_t count = 0, slot;

	while (count < max && endpoint_has_room(endpoint) &&
	       may_start_pair(endpoint, shard, stream, &slot)) {
		worker_step(&endpoint->worker, &event, &actions);
		build(endpoint, shard, &actions);
		send_slot(endpoint, shard, actions.slot);
		count++;
	}
	if (stream == MAP_EXPRESS)
		endpoint->stats.chunks_express += count;
	else
		endpoint->stats.chunks_bulk += count;
	return count;
}

static bool is_wanted(const struct endpoint *endpoint)
{
	return endpoint->contenders &&
	       atomic_load_explicit(endpoint->contenders, memory_order_relaxed);
}

static bool send_starts(struct endpoint *endpoint)
{
	uint32_t count = 0;
	bool any;

	for (uint32_t shard = 0; shard < endpoint->map.shards; shard++)
		count += start_pair(endpoint, shard, MAP_EXPRESS, UINT32_MAX);
	any = count > 0;
	/* A message each time: the aggregator adds it up while the next one is made. */
	for (uint32_t i = 0; i < START_FRAMES; i++) {
		count = 0;
		for (uint32_t shard = 0; shard < endpoint->map.shards; shard++)
			count += start_pair(endpoint, shard, MAP_BULK, endpoint->run);
		if (!count)
			break;
		any = true;
		if (!endpoint_flush(endpoint))
			break; /* what the link has not taken stays as it is */
		if (is_wanted(endpoint))
			break;
	}
	return any;
}

/* endpoint_begin has left some. */
static bool may_start(const struct endpoint *endpoint)
{
	uint32_t slot;

	for (uint32_t shard = 0; shard < endpoint->map.shards; shard++)
		for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
			if (may_start_pair(endpoint, shard, (enum map_stream)stream, &slot))
				return true;
	return false;
}

/* False: there is none, for what waits to be sent must stay as it is. */
static bool has_turn(struct endpoint *endpoint)
{
	if (!endpoint->out_count || endpoint_flush(endpoint))
		return true;
	endpoint->now_ns = endpoint->link->ops->now_ns(endpoint->link);
	return false;
}

static bool poll_once(struct endpoint *endpoint)
{
	bool any;

	if (!has_turn(endpoint))
		return false;
	any = receive(endpoint);
	if (!endpoint->lanes || endpoint->fault != ENDPOINT_OK)
		return any;
	/* First: at the end of a burst of PROBEs a short queue would drop it. */
	endpoint_path_hellos(endpoint);
	if (endpoint->latency) {
		any |= endpoint_latency_send(endpoint);
	} else {
		any |= send_probes(endpoint);
		any |= send_queues(endpoint);
		any |= send_starts(endpoint);
	}
	endpoint_flush(endpoint);
	endpoint->link->load = endpoint_load(endpoint);
	return any;
}

bool endpoint_poll(struct endpoint *endpoint)
{
	uint64_t float_state = float_state_begin();
	bool any = poll_once(endpoint);

	float_state_end(float_state);
	return any;
}

void endpoint_begin(struct endpoint *endpoint)
{
	uint64_t float_state;

	if (!endpoint->lanes || endpoint->fault != ENDPOINT_OK || !has_turn(endpoint))
		return;
	float_state = float_state_begin();
	endpoint->now_ns = endpoint->link->ops->now_ns(endpoint->link);
	if (endpoint->latency)
		endpoint_latency_begin(endpoint);
	else
		for (uint32_t shard = 0; shard < endpoint->map.shards; shard++)
			start_pair(endpoint, shard, MAP_EXPRESS, endpoint->run);
	endpoint_flush(endpoint);
	float_state_end(float_state);
}

uint64_t endpoint_next(const struct endpoint *endpoint)
{
	if (!endpoint->lanes || endpoint->fault != ENDPOINT_OK)
		return PACE_NEVER;
	if (endpoint->out_count)
		return endpoint->now_ns + ROOM_RETRY_NS;
	if (endpoint->latency)
		return endpoint_latency_next(endpoint);
	if (may_start(endpoint))
		return endpoint->now_ns;
	return pace_next(&endpoint->pace, endpoint->now_ns);
}
