/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.c - see endpoint.h. What a poll does, in this order: take one burst; PROBEs that are due;
 * copies that were asked for; continuations; first rounds while the windows have room.
 */
#include "dataplane/endpoint.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	RECV_FRAMES = 32,
	SEND_FRAMES = 32, /* frames handed to the link in one call */
	START_FRAMES = 8, /* messages of first rounds before the next look at what has arrived */
	PROBES = 256,     /* in one batch */
	OPS_MAX_DEFAULT = 1024,
	WELCOMES = 64,
	BUFFER_ALIGN = 64,
};

/* A queue of slots that are to be sent; holds each slot at most once. */
struct slot_queue {
	uint32_t *slots;
	uint32_t head, count;
};

struct shard_state {
	struct endpoint_shard grant;
	uint8_t *buffers;         /* slots packets, back to back: a run of slots is one message */
	uint8_t *queued;          /* per slot: in one of the queues */
	uint8_t *fresh;           /* per slot: built, not sent yet */
	struct slot_queue needs;  /* copies that were asked for */
	struct slot_queue rounds; /* continuations */
	uint32_t serial;          /* of the last HELLO */
	uint64_t hello_ns;
};

struct endpoint {
	struct link *link;
	const struct quant_ops *quant;
	struct map map;
	struct worker worker;
	struct pace pace;
	struct shard_state *shards;
	struct endpoint_op *ops; /* worker's cookie is the index */
	uint32_t ops_count, ops_max;
	uint32_t *ops_free;
	uint32_t ops_free_count;
	uint32_t workers, slots, run, window, lanes, packet_bytes;
	uint32_t *done; /* ring of operations that nobody has fetched yet; ops_count of them fit */
	uint32_t done_head, done_count;
	struct endpoint_welcome welcomes[WELCOMES];
	uint32_t welcomes_count;
	enum endpoint_fault fault;
	uint64_t progress_ns, now_ns;
	struct endpoint_stats stats;
	struct link_frame out[SEND_FRAMES];
	uint32_t out_count;
	uint8_t *probe_bytes;  /* PROBES headers */
	uint8_t *header_bytes; /* packets of EXPONENT rounds: SEND_FRAMES * 64 headers */
	uint32_t header_used;
	uint8_t *hello_bytes;
	struct worker_op_state *op_states[MAP_STREAMS];
};

enum { HEADERS = SEND_FRAMES * LINK_FRAME_PACKETS_MAX };

static uint8_t *buffer_of(const struct endpoint *endpoint, uint32_t shard, uint32_t slot)
{
	return endpoint->shards[shard].buffers + (size_t)slot * endpoint->packet_bytes;
}

/* --- sending ------------------------------------------------------------------------------------ */

static void flush(struct endpoint *endpoint)
{
	int error;

	if (endpoint->out_count) {
		error = endpoint->link->ops->send(endpoint->link, endpoint->out,
						  endpoint->out_count);
		if (error < 0 && error != -EMSGSIZE)
			endpoint->fault = ENDPOINT_LINK_ERROR;
		for (uint32_t i = 0; i < endpoint->out_count; i++)
			endpoint->stats.bytes_out += endpoint->out[i].bytes;
	}
	endpoint->out_count = 0;
	endpoint->header_used = 0;
}

/* Appends a packet of `bytes` bytes at `data` to the last frame if it continues it, else opens one. A
 * frame's packets are of one size, but for a shorter last one. */
static void emit(struct endpoint *endpoint, uint32_t shard, uint8_t *data, uint32_t bytes)
{
	struct link_frame *frame;

	if (endpoint->out_count) {
		frame = &endpoint->out[endpoint->out_count - 1];
		if (frame->data + frame->bytes == data && bytes <= frame->packet_bytes &&
		    frame->bytes == frame->count * frame->packet_bytes &&
		    frame->count < endpoint->run && frame->bytes + bytes <= LINK_FRAME_BYTES_MAX &&
		    link_address_equal(&frame->peer, &endpoint->shards[shard].grant.address)) {
			frame->bytes += bytes;
			frame->count++;
			return;
		}
	}
	if (endpoint->out_count == SEND_FRAMES)
		flush(endpoint);
	endpoint->out[endpoint->out_count++] = (struct link_frame){
		.peer = endpoint->shards[shard].grant.address,
		.packet_bytes = bytes,
		.count = 1,
		.bytes = bytes,
		.data = data,
	};
}

/* Room for one header that stays until the next flush. */
static uint8_t *header_room(struct endpoint *endpoint)
{
	if (endpoint->header_used == HEADERS || endpoint->out_count == SEND_FRAMES)
		flush(endpoint); /* here, not in emit: the room must outlive the next frame */
	return endpoint->header_bytes + (size_t)endpoint->header_used++ * WIRE_HEADER_BYTES;
}

/* The slot's packet goes out: a packet without lanes from a buffer where such packets lie side by side. */
static void send_slot(struct endpoint *endpoint, uint32_t shard, uint32_t slot)
{
	uint8_t *bytes = buffer_of(endpoint, shard, slot);
	bool is_copy = !endpoint->shards[shard].fresh[slot];
	struct wire header;

	endpoint->shards[shard].fresh[slot] = 0;
	if (is_copy)
		bytes[1] |= WIRE_RESENT;
	wire_get(bytes, &header);
	if (header.lanes) {
		emit(endpoint, shard, bytes, wire_bytes(header.lanes));
	} else {
		uint8_t *room = header_room(endpoint);

		memcpy(room, bytes, WIRE_HEADER_BYTES);
		emit(endpoint, shard, room, WIRE_HEADER_BYTES);
	}
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

static const uint8_t *source_of(const struct endpoint_op *op, const struct worker_chunk *chunk)
{
	return (const uint8_t *)op->source + chunk->first * sizeof(int32_t);
}

static uint32_t look(const struct endpoint *endpoint, const struct worker_actions *actions)
{
	const struct endpoint_op *op;

	if (actions->look == WORKER_AHEAD_UNKNOWN)
		return WIRE_EXPONENT_UNKNOWN;
	if (actions->look == WORKER_AHEAD_ZERO)
		return 0;
	op = op_of(endpoint, actions->ahead.cookie);
	return endpoint->quant->exponent_f32(
		(const float *)(const void *)source_of(op, &actions->ahead),
		actions->ahead.elements);
}

/* Fills the lanes of a DATA or DETAIL round; returns the sticky flags. */
static uint8_t fill(const struct endpoint *endpoint, const struct worker_actions *actions,
		    int32_t *lane)
{
	const struct endpoint_op *op = op_of(endpoint, actions->chunk.cookie);
	const void *source = source_of(op, &actions->chunk);
	uint32_t elements = actions->chunk.elements;
	bool is_detail = wire_round_of(actions->header.flags) == WIRE_DETAIL;
	struct quant_scale scale;

	memset(lane + elements, 0, (actions->header.lanes - elements) * sizeof(*lane));
	if (op->type == ENDPOINT_INT32) {
		if (!is_detail)
			return endpoint->quant->pack_i32(lane, source, elements,
							 quant_bound(endpoint->workers));
		quant_detail_pack_i32(lane, source, elements);
		return 0;
	}
	if (is_detail) {
		quant_detail_pack_f32(lane, source, elements);
		return 0;
	}
	quant_scale(&scale, endpoint->workers, actions->build_scale);
	return endpoint->quant->pack_f32(lane, source, elements, &scale);
}

static void build(struct endpoint *endpoint, uint32_t shard, const struct worker_actions *actions)
{
	uint8_t *bytes = buffer_of(endpoint, shard, actions->slot);
	struct wire header = actions->header;

	header.exponent = (uint16_t)look(endpoint, actions);
	if (header.lanes)
		header.flags |=
			fill(endpoint, actions, (int32_t *)(void *)(bytes + WIRE_HEADER_BYTES));
	wire_put(bytes, &header);
	endpoint->shards[shard].fresh[actions->slot] = 1;
	endpoint->stats.exponent_rounds += wire_round_of(header.flags) == WIRE_EXPONENT;
	endpoint->stats.detail_rounds += wire_round_of(header.flags) == WIRE_DETAIL;
}

static void store(struct endpoint *endpoint, const struct worker_actions *actions,
		  const int32_t *lane)
{
	const struct endpoint_op *op = op_of(endpoint, actions->stored.cookie);
	uint8_t *at = (uint8_t *)op->destination + actions->stored.first * sizeof(int32_t);
	uint32_t elements = actions->stored.elements;
	bool is_avg = op->is_avg;
	struct quant_scale scale;

	if (!elements)
		return;
	if (op->type == ENDPOINT_INT32 && actions->stored_round == WIRE_DETAIL) {
		endpoint->stats.saturated += quant_detail_amend_i32(
			(int32_t *)(void *)at, lane, elements, endpoint->workers, is_avg);
	} else if (op->type == ENDPOINT_INT32) {
		endpoint->quant->unpack_i32((int32_t *)(void *)at, lane, elements,
					    endpoint->workers,
					    is_avg && !actions->is_amended_later);
	} else if (actions->stored_round == WIRE_DETAIL) {
		quant_detail_amend_f32((float *)(void *)at, lane, elements);
	} else {
		quant_scale(&scale, endpoint->workers, actions->stored_scale);
		endpoint->quant->unpack_f32((float *)(void *)at, lane, elements, &scale, is_avg);
	}
}

static void op_finish(struct endpoint *endpoint, uint64_t index)
{
	uint32_t at = (endpoint->done_head + endpoint->done_count++) % endpoint->ops_count;

	endpoint->done[at] = (uint32_t)index;
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
	if (actions.build) {
		build(endpoint, shard, &actions);
		queue_push(endpoint, shard, &state->rounds, actions.slot);
	}
	if (actions.store)
		store(endpoint, &actions, lane);
	if (actions.is_op_done)
		op_finish(endpoint, actions.stored.cookie);
	if (actions.is_protocol_error)
		endpoint->fault = ENDPOINT_PROTOCOL_ERROR;
}

static void take_welcome(struct endpoint *endpoint, uint32_t shard, const struct wire *packet,
			 const uint8_t *body)
{
	struct shard_state *state = &endpoint->shards[shard];
	struct endpoint_welcome *welcome;

	if (packet->lanes < WIRE_HELLO_LANES || packet->child != state->grant.child)
		return;
	if (packet->seq == state->serial && state->hello_ns) {
		pace_sample(&endpoint->pace, shard, endpoint->now_ns - state->hello_ns);
		state->hello_ns = 0;
	}
	if (endpoint->welcomes_count == WELCOMES)
		return;
	welcome = &endpoint->welcomes[endpoint->welcomes_count++];
	*welcome = (struct endpoint_welcome){ .shard = shard,
					      .serial = packet->seq,
					      .lanes = packet->lanes };
	memcpy(welcome->seen.ip, body, sizeof(welcome->seen.ip));
	welcome->seen.port = wire_get16(body + sizeof(welcome->seen.ip));
}

static bool shard_find(const struct endpoint *endpoint, const struct link_address *from,
		       uint16_t job, uint32_t *shard)
{
	for (uint32_t i = 0; i < endpoint->map.shards; i++) {
		const struct endpoint_shard *grant = &endpoint->shards[i].grant;

		if (grant->job == job && link_address_equal(&grant->address, from)) {
			*shard = i;
			return true;
		}
	}
	return false;
}

static void take_packet(struct endpoint *endpoint, const struct link_address *from,
			const uint8_t *bytes, uint32_t length)
{
	const uint8_t *body = bytes + WIRE_HEADER_BYTES;
	struct wire packet;
	uint32_t shard;

	if (wire_check(bytes, length, &packet) != WIRE_OK ||
	    !shard_find(endpoint, from, packet.job, &shard)) {
		endpoint->stats.bad_in++;
		return;
	}
	pace_heard(&endpoint->pace, shard, endpoint->now_ns);
	switch (packet.type) {
	case WIRE_RESULT:
	case WIRE_HELD:
	case WIRE_NEED:
		if (endpoint->lanes)
			take_answer(endpoint, shard, &packet, (const int32_t *)(const void *)body);
		break;
	case WIRE_WELCOME:
		take_welcome(endpoint, shard, &packet, body);
		break;
	default:
		endpoint->stats.bad_in++;
	}
}

static bool receive(struct endpoint *endpoint)
{
	struct link_frame frames[RECV_FRAMES];
	int count = endpoint->link->ops->recv(endpoint->link, frames, RECV_FRAMES);

	if (count < 0) {
		endpoint->fault = ENDPOINT_LINK_ERROR;
		return false;
	}
	endpoint->now_ns = endpoint->link->ops->now_ns(endpoint->link);
	for (int i = 0; i < count; i++) {
		const struct link_frame *frame = &frames[i];

		endpoint->stats.bytes_in += frame->bytes;
		for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes) {
			uint32_t left = frame->bytes - at;

			take_packet(endpoint, &frame->peer, frame->data + at,
				    left < frame->packet_bytes ? left : frame->packet_bytes);
		}
	}
	return count > 0;
}

/* --- what goes out ------------------------------------------------------------------------------ */

/* PROBEs of one shard, batched: short packets, many to a message. */
static bool send_probes(struct endpoint *endpoint)
{
	struct pace_probe probes[PROBES];
	struct worker_actions actions;
	uint32_t count;
	bool any = false;

	do {
		count = pace_poll(&endpoint->pace, endpoint->now_ns, probes, PROBES);
		for (uint32_t i = 0; i < count; i++) {
			struct worker_event event = { .type = WORKER_PROBE,
						      .shard = probes[i].shard,
						      .slot = probes[i].slot,
						      .attempt = probes[i].attempt };
			uint8_t *at = endpoint->probe_bytes + (size_t)i * WIRE_HEADER_BYTES;

			worker_step(&endpoint->worker, &event, &actions);
			wire_put(at, &actions.header);
			emit(endpoint, probes[i].shard, at, WIRE_HEADER_BYTES);
		}
		endpoint->stats.probes_out += count;
		any |= count > 0;
		flush(endpoint); /* the next batch uses the same bytes */
	} while (count == PROBES);
	return any;
}

static bool send_queues(struct endpoint *endpoint)
{
	bool any = false;
	uint32_t slot;

	for (uint32_t shard = 0; shard < endpoint->map.shards; shard++) {
		struct shard_state *state = &endpoint->shards[shard];

		while (queue_pop(endpoint, shard, &state->needs, &slot)) {
			/* The result may have come since. */
			if (endpoint->worker.slot[(size_t)shard * endpoint->slots + slot].state ==
			    WORKER_OUTSTANDING)
				send_slot(endpoint, shard, slot);
			any = true;
		}
		while (queue_pop(endpoint, shard, &state->rounds, &slot)) {
			send_slot(endpoint, shard, slot);
			any = true;
		}
	}
	return any;
}

/* First rounds of one pair, in order, at most `max`. */
static uint32_t start_pair(struct endpoint *endpoint, uint32_t shard, enum map_stream stream,
			   uint32_t max)
{
	struct worker_event event = { .type = WORKER_START, .shard = shard, .stream = stream };
	struct worker_actions actions;
	uint32_t count = 0, slot;

	while (count < max && pace_has_room(&endpoint->pace, shard, stream) &&
	       worker_may_start(&endpoint->worker, shard, stream, &slot)) {
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

static bool send_starts(struct endpoint *endpoint)
{
	bool any = false;

	for (uint32_t shard = 0; shard < endpoint->map.shards; shard++) {
		any |= start_pair(endpoint, shard, MAP_EXPRESS, UINT32_MAX) > 0;
		any |= start_pair(endpoint, shard, MAP_BULK, START_FRAMES * endpoint->run) > 0;
	}
	return any;
}

static void say_hello(struct endpoint *endpoint)
{
	for (uint32_t shard = 0; shard < endpoint->map.shards; shard++)
		if (pace_hello_due(&endpoint->pace, shard, endpoint->now_ns))
			endpoint_hello(endpoint, shard, endpoint->shards[shard].serial + 1,
				       WIRE_HELLO_LANES);
}

bool endpoint_poll(struct endpoint *endpoint)
{
	bool any = receive(endpoint);

	if (!endpoint->lanes || endpoint->fault != ENDPOINT_OK)
		return any;
	any |= send_probes(endpoint);
	any |= send_queues(endpoint);
	any |= send_starts(endpoint);
	say_hello(endpoint);
	flush(endpoint);
	return any;
}

uint64_t endpoint_next(const struct endpoint *endpoint)
{
	if (!endpoint->lanes || endpoint->fault != ENDPOINT_OK)
		return PACE_NEVER;
	return pace_next(&endpoint->pace, endpoint->now_ns);
}

void endpoint_hello(struct endpoint *endpoint, uint32_t shard, uint32_t serial, uint32_t lanes)
{
	struct shard_state *state = &endpoint->shards[shard];
	struct wire header = { .type = WIRE_HELLO,
			       .job = state->grant.job,
			       .generation = state->grant.generation,
			       .seq = serial,
			       .child = state->grant.child,
			       .lanes = (uint16_t)lanes };

	assert(lanes >= WIRE_HELLO_LANES && lanes <= WIRE_LANES_MAX);
	flush(endpoint);
	memset(endpoint->hello_bytes, 0, wire_bytes(lanes));
	wire_put(endpoint->hello_bytes, &header);
	memcpy(endpoint->hello_bytes + WIRE_HEADER_BYTES, state->grant.nonce, WIRE_NONCE_BYTES);
	state->serial = serial;
	state->hello_ns = endpoint->link->ops->now_ns(endpoint->link);
	emit(endpoint, shard, endpoint->hello_bytes, wire_bytes(lanes));
	flush(endpoint);
}

/* --- the caller's side -------------------------------------------------------------------------- */

uint32_t endpoint_welcomes(struct endpoint *endpoint, struct endpoint_welcome *welcomes,
			   uint32_t max)
{
	uint32_t count = endpoint->welcomes_count < max ? endpoint->welcomes_count : max;

	memcpy(welcomes, endpoint->welcomes, count * sizeof(*welcomes));
	endpoint->welcomes_count -= count;
	memmove(endpoint->welcomes, endpoint->welcomes + count,
		endpoint->welcomes_count * sizeof(*welcomes));
	return count;
}

int endpoint_submit(struct endpoint *endpoint, const struct endpoint_op *op)
{
	struct worker_op worker_op = { .hash = map_descriptor_hash(&op->descriptor),
				       .count = op->count,
				       .lane_op = WIRE_ADD,
				       .is_scaled = op->type == ENDPOINT_FLOAT32 && op->count };
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &worker_op };
	struct worker_actions actions;
	uint32_t index;

	if (!endpoint->lanes)
		return -EINVAL;
	worker_op.stream = op->stream < 0 ? worker_stream_of(&endpoint->worker, op->count)
					  : (enum map_stream)op->stream;
	if (!worker_has_room(&endpoint->worker, worker_op.stream) || endpoint->ops_free_count == 0)
		return -EAGAIN;
	index = endpoint->ops_free[--endpoint->ops_free_count];
	endpoint->ops[index] = *op;
	worker_op.cookie = index;
	worker_step(&endpoint->worker, &event, &actions);
	return 0;
}

uint32_t endpoint_done(struct endpoint *endpoint, uint64_t *cookies, uint32_t max)
{
	uint32_t count = 0;

	while (count < max && endpoint->done_count) {
		uint32_t index = endpoint->done[endpoint->done_head];

		cookies[count++] = endpoint->ops[index].cookie;
		endpoint->ops_free[endpoint->ops_free_count++] = index;
		endpoint->done_head = (endpoint->done_head + 1) % endpoint->ops_count;
		endpoint->done_count--;
	}
	return count;
}

enum endpoint_fault endpoint_fault(const struct endpoint *endpoint)
{
	return endpoint->fault;
}

uint64_t endpoint_progress_ns(const struct endpoint *endpoint)
{
	return endpoint->progress_ns;
}

void endpoint_stats(const struct endpoint *endpoint, struct endpoint_stats *stats)
{
	*stats = endpoint->stats;
	stats->srtt_ns = endpoint->pace.shards[0].srtt_ns;
	stats->window = endpoint->pace.shards[0].window[MAP_BULK];
}

void endpoint_window(struct endpoint *endpoint, uint32_t shard, enum map_stream stream,
		     uint32_t window)
{
	pace_window(&endpoint->pace, shard, stream, window);
}

void endpoint_rounds_begin(struct endpoint *endpoint, uint32_t seq)
{
	for (size_t i = 0; i < (size_t)endpoint->map.shards * endpoint->slots; i++)
		endpoint->worker.slot[i].seq = seq;
}

const struct worker *endpoint_worker(const struct endpoint *endpoint)
{
	return &endpoint->worker;
}

/* --- open, start, close ------------------------------------------------------------------------- */

/* Everything whose size does not depend on the lanes. */
static bool allocate(struct endpoint *endpoint)
{
	size_t shards = endpoint->map.shards;
	size_t slots = shards * endpoint->slots;

	endpoint->shards = calloc(shards, sizeof(*endpoint->shards));
	endpoint->worker.shards = calloc(shards, sizeof(*endpoint->worker.shards));
	endpoint->worker.slot = calloc(slots, sizeof(*endpoint->worker.slot));
	endpoint->pace.shards = calloc(shards, sizeof(*endpoint->pace.shards));
	endpoint->pace.slot = calloc(slots, sizeof(*endpoint->pace.slot));
	endpoint->ops = calloc(endpoint->ops_count, sizeof(*endpoint->ops));
	endpoint->ops_free = calloc(endpoint->ops_count, sizeof(*endpoint->ops_free));
	endpoint->done = calloc(endpoint->ops_count, sizeof(*endpoint->done));
	endpoint->probe_bytes = calloc(PROBES, WIRE_HEADER_BYTES);
	endpoint->header_bytes = calloc(HEADERS, WIRE_HEADER_BYTES);
	endpoint->hello_bytes = calloc(1, wire_bytes(WIRE_LANES_MAX));
	for (uint32_t i = 0; i < MAP_STREAMS; i++) {
		endpoint->op_states[i] = calloc(endpoint->ops_max, sizeof(*endpoint->op_states[i]));
		if (!endpoint->op_states[i])
			return false;
	}
	return endpoint->shards && endpoint->worker.shards && endpoint->worker.slot &&
	       endpoint->pace.shards && endpoint->pace.slot && endpoint->ops &&
	       endpoint->ops_free && endpoint->done && endpoint->probe_bytes &&
	       endpoint->header_bytes && endpoint->hello_bytes;
}

struct endpoint *endpoint_open(const struct endpoint_options *options)
{
	struct endpoint *endpoint;
	struct map map;

	if (!map_init(&map, options->shards_count, options->slots, options->run) ||
	    !options->window || !options->workers || options->workers > UINT16_MAX)
		return NULL;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return NULL;
	endpoint->link = options->link;
	endpoint->quant = options->quant;
	endpoint->map = map;
	endpoint->workers = options->workers;
	endpoint->slots = options->slots;
	endpoint->run = options->run;
	endpoint->window = options->window;
	endpoint->ops_max = options->ops_max ? options->ops_max : OPS_MAX_DEFAULT;
	endpoint->ops_count = MAP_STREAMS * endpoint->ops_max;
	if (!allocate(endpoint)) {
		endpoint_close(endpoint);
		return NULL;
	}
	for (uint32_t i = 0; i < map.shards; i++)
		endpoint->shards[i].grant = options->shards[i];
	for (uint32_t i = 0; i < endpoint->ops_count; i++)
		endpoint->ops_free[endpoint->ops_free_count++] = endpoint->ops_count - 1 - i;
	pace_init(&endpoint->pace, &map, endpoint->slots, endpoint->window, endpoint->pace.shards,
		  endpoint->pace.slot);
	return endpoint;
}

static bool allocate_shard(const struct endpoint *endpoint, struct shard_state *state)
{
	size_t bytes = (size_t)endpoint->slots * endpoint->packet_bytes;

	if (posix_memalign((void **)&state->buffers, BUFFER_ALIGN, bytes))
		return false;
	state->queued = calloc(endpoint->slots, 1);
	state->fresh = calloc(endpoint->slots, 1);
	state->needs.slots = calloc(endpoint->slots, sizeof(uint32_t));
	state->rounds.slots = calloc(endpoint->slots, sizeof(uint32_t));
	return state->queued && state->fresh && state->needs.slots && state->rounds.slots;
}

int endpoint_start(struct endpoint *endpoint, uint32_t lanes)
{
	struct worker_memory memory = { .shards = endpoint->worker.shards,
					.slot = endpoint->worker.slot,
					.ops = { endpoint->op_states[MAP_EXPRESS],
						 endpoint->op_states[MAP_BULK] } };

	if (endpoint->lanes || !lanes || lanes > WIRE_LANES_MAX || lanes % WIRE_LANES_STEP)
		return -EINVAL;
	endpoint->packet_bytes = wire_bytes(lanes);
	for (uint32_t i = 0; i < endpoint->map.shards; i++)
		if (!allocate_shard(endpoint, &endpoint->shards[i]))
			return -ENOMEM;
	worker_init(&endpoint->worker, &endpoint->map, endpoint->slots, lanes, endpoint->ops_max,
		    &memory);
	for (uint32_t i = 0; i < endpoint->map.shards; i++) {
		const struct endpoint_shard *grant = &endpoint->shards[i].grant;

		endpoint->worker.shards[i].generation = grant->generation;
		endpoint->worker.shards[i].job = grant->job;
		endpoint->worker.shards[i].child = grant->child;
	}
	endpoint->lanes = lanes;
	endpoint->now_ns = endpoint->link->ops->now_ns(endpoint->link);
	endpoint->progress_ns = endpoint->now_ns;
	return 0;
}

void endpoint_close(struct endpoint *endpoint)
{
	if (!endpoint)
		return;
	for (uint32_t i = 0; endpoint->shards && i < endpoint->map.shards; i++) {
		free(endpoint->shards[i].buffers);
		free(endpoint->shards[i].queued);
		free(endpoint->shards[i].fresh);
		free(endpoint->shards[i].needs.slots);
		free(endpoint->shards[i].rounds.slots);
	}
	for (uint32_t i = 0; i < MAP_STREAMS; i++)
		free(endpoint->op_states[i]);
	free(endpoint->shards);
	free(endpoint->worker.shards);
	free(endpoint->worker.slot);
	free(endpoint->pace.shards);
	free(endpoint->pace.slot);
	free(endpoint->ops);
	free(endpoint->ops_free);
	free(endpoint->done);
	free(endpoint->probe_bytes);
	free(endpoint->header_bytes);
	free(endpoint->hello_bytes);
	free(endpoint);
}
