/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - see worker.h. Rules R-WK-1 to R-WK-18 of docs/protocol.md. */
#include "core/dense/worker.h"

enum { TRIM_STRIDE = 32 };

static struct worker_slot *slot_at(const struct worker *worker, uint32_t shard, uint32_t slot)
{
	return &worker->slot[(uint64_t)shard * worker->slots + slot];
}

static enum map_stream stream_of_slot(const struct worker *worker, uint32_t slot)
{
	return slot < worker->map.base[MAP_BULK] ? MAP_EXPRESS : MAP_BULK;
}

static struct worker_op_state *op_at(const struct worker *worker, enum map_stream stream,
				     uint64_t op)
{
	return &worker->stream[stream].ops[op & (worker->ops_max - 1)];
}

/* The operation that the stream's chunk belongs to; the caller knows that it was submitted and is not
 * complete. */
static uint64_t op_find(const struct worker *worker, enum map_stream stream, uint64_t chunk)
{
	uint64_t low = worker->stream[stream].head;
	uint64_t high = worker->stream[stream].tail - 1;

	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;

		if (op_at(worker, stream, middle)->first <= chunk)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

void worker_init(struct worker *worker, const struct map *map, uint32_t slots, uint32_t lanes,
		 uint32_t ops_max, const struct worker_memory *memory)
{
	CORE_ASSERT(lanes && lanes <= WIRE_LANES_MAX && lanes % WIRE_LANES_STEP == 0);
	CORE_ASSERT(ops_max && !(ops_max & (ops_max - 1)));
	*worker = (struct worker){ .map = *map,
				   .lanes = lanes,
				   .slots = slots,
				   .ops_max = ops_max,
				   .shards = memory->shards,
				   .slot = memory->slot,
				   .past = { .ops = memory->past.ops,
					     .reach = memory->past.reach,
					     .rows = memory->past.rows } };
	for (uint32_t i = 0; i < MAP_STREAMS; i++) {
		enum map_stream stream = (enum map_stream)i;

		worker->stream[i] =
			(struct worker_stream){ .ops = memory->ops[i], .rows = memory->rows[i] };
		worker->past.turn[i] = map->shards * map->pool[i];
		CORE_ASSERT(!memory->past.ops ||
			    memory->rows[i].size >= worker_rows(map, stream, memory->past.rows, 1));
	}
	for (uint32_t shard = 0; shard < map->shards; shard++)
		worker->shards[shard] = (struct worker_shard){ 0 };
	for (uint64_t i = 0; i < (uint64_t)map->shards * slots; i++)
		worker->slot[i] = (struct worker_slot){ .governing = WIRE_EXPONENT_UNKNOWN };
}

uint64_t worker_rows(const struct map *map, enum map_stream stream, uint32_t rows, uint32_t open)
{
	return (uint64_t)(rows + open) * map->shards * map->pool[stream];
}

/* What operations on their way are guessed from stays until they are complete. */
static bool has_room_for_row(const struct worker *worker, enum map_stream which)
{
	const struct worker_stream *stream = &worker->stream[which];
	const struct past_place *oldest, *latest;

	if (!worker->past.ops || stream->head == stream->tail)
		return true;
	oldest = &op_at(worker, which, stream->head)->op.place;
	latest = &op_at(worker, which, stream->tail - 1)->op.place;
	return latest->row + latest->length - oldest->row + worker->past.turn[which] +
		       past_kept(&worker->past, which) <=
	       stream->rows.size;
}

bool worker_has_room(const struct worker *worker, enum map_stream stream)
{
	return worker->stream[stream].tail - worker->stream[stream].head < worker->ops_max &&
	       has_room_for_row(worker, stream);
}

void worker_place(struct worker *worker, struct worker_op *op)
{
	const struct past_call call = {
		.key = op->key,
		.chunks = map_chunks(op->count, map_full(op->shape, worker->lanes)),
		.stream = op->stream,
		.is_guessed = op->is_guessed,
	};

	CORE_ASSERT(!op->is_guessed || op->is_scaled);
	past_put(&worker->past, &call, &op->place);
}

enum map_stream worker_stream_of(const struct worker *worker, struct map_shape shape,
				 uint64_t count)
{
	uint64_t chunks = map_chunks(count, map_full(shape, worker->lanes));

	return chunks <= MAP_EXPRESS_CHUNKS ? MAP_EXPRESS : MAP_BULK;
}

/* R-WK-8: what a chunk's first round is, if it may start; of a GUESS, *guess. */
static enum past_guess first_round(const struct worker *worker, enum map_stream stream,
				   const struct worker_slot *slot, uint64_t chunk, uint16_t *guess)
{
	const struct worker_op_state *state;

	if (slot->governing != WIRE_EXPONENT_UNKNOWN)
		return PAST_UNKNOWN;
	state = op_at(worker, stream, op_find(worker, stream, chunk));
	return past_guess(&worker->stream[stream].rows, &state->op.place, chunk - state->first,
			  guess);
}

/* R-WK-7: the pair's next chunk and no other. R-WK-2: its slot waits for nothing. R-WK-18: nor does its guess. */
bool worker_may_start(const struct worker *worker, uint32_t shard, enum map_stream stream,
		      uint32_t *slot)
{
	uint64_t k = worker->shards[shard].next[stream];
	uint64_t chunk = map_chunk(&worker->map, stream, shard, k);
	const struct worker_slot *at;
	uint16_t guess;

	if (chunk >= worker->stream[stream].chunks)
		return false;
	*slot = worker->map.base[stream] + (uint32_t)(k % worker->map.pool[stream]);
	at = slot_at(worker, shard, *slot);
	return at->state == WORKER_IDLE &&
	       first_round(worker, stream, at, chunk, &guess) != PAST_WAITS;
}

/* R-MAP-4: its first chunk is behind the last one's last. */
static void submit(struct worker *worker, const struct worker_op *op)
{
	struct worker_stream *stream = &worker->stream[op->stream];
	struct worker_op_state *state = op_at(worker, op->stream, stream->tail);
	uint32_t full = map_full(op->shape, worker->lanes);

	CORE_ASSERT(worker_has_room(worker, op->stream));
	CORE_ASSERT(full);
	CORE_ASSERT(!op->ends ||
		    (op->parts && op->ends[op->parts - 1] == op->count && !op->is_scaled));
	*state = (struct worker_op_state){ .op = *op,
					   .first = stream->chunks,
					   .chunks = map_chunks(op->count, full),
					   .full = full };
	past_open(&stream->rows, &op->place);
	stream->chunks += state->chunks;
	stream->tail++;
}

/* The elements of the stream's chunk, for the caller to find. */
static struct worker_chunk chunk_of(const struct worker *worker,
				    const struct worker_op_state *state, uint64_t chunk)
{
	uint64_t index = chunk - state->first;

	if (state->op.parts > 1)
		index = map_turn(index, state->chunks, state->op.parts,
				 worker->map.run[state->op.stream]);
	return (struct worker_chunk){
		.cookie = state->op.cookie,
		.first = index * state->full,
		.elements = map_chunk_elements(state->op.count, state->full, index),
	};
}

/* R-WK-9: the exponent field is about the slot's next chunk; in an EXPONENT round about the chunk that
 * waits. */
static void look_ahead(const struct worker *worker, uint32_t shard, enum map_stream stream,
		       uint64_t k, struct worker_actions *actions)
{
	uint64_t chunk = map_chunk(&worker->map, stream, shard, k);
	const struct worker_op_state *state;

	if (chunk >= worker->stream[stream].chunks) {
		actions->look = WORKER_AHEAD_UNKNOWN;
		return;
	}
	state = op_at(worker, stream, op_find(worker, stream, chunk));
	if (!state->op.is_scaled) {
		actions->look = WORKER_AHEAD_ZERO;
		return;
	}
	actions->look = WORKER_AHEAD_SCAN;
	actions->ahead = chunk_of(worker, state, chunk);
}

/* The part that has the whole chunk; `parts`: there is none, its elements lie in several. */
static uint32_t part_of(const struct worker_op *op, const struct worker_chunk *chunk)
{
	uint32_t low = 0, high = op->parts - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (op->ends[middle] > chunk->first)
			high = middle;
		else
			low = middle + 1;
	}
	return op->ends[low] >= chunk->first + chunk->elements ? low : op->parts;
}

/* R-WK-13: who has the chunk sends it, the others take it; of several parts, each adds what it has to the others'
 * zeros. The lane operation; *is_silent: this worker sends no lanes. */
static enum wire_op lane_op_of(const struct worker_op *op, const struct worker_chunk *chunk,
			       bool *is_silent)
{
	uint32_t part;

	*is_silent = false;
	if (!op->ends)
		return op->lane_op;
	part = part_of(op, chunk);
	*is_silent = part < op->parts && part != op->mine;
	return part < op->parts ? WIRE_TAKE : WIRE_ADD_SHORT;
}

static enum worker_wish wish_of(const struct worker_op *op, const struct worker_chunk *chunk)
{
	if (!op->wants || !chunk->elements)
		return WORKER_WANTS_SOME;
	return op->wants(op->caller, chunk->first, chunk->elements);
}

/* One of elements, at whatever exponent. */
static bool is_data_round(uint8_t flags)
{
	return wire_round_of(flags) == WIRE_DATA || wire_round_of(flags) == WIRE_GUESS;
}

/* R-WK-14: can this worker do without the lanes of the RESULT? Of a part it may have them itself. R-WK-15: can the
 * others do without its own? */
static void lanes_spare(struct worker_slot *slot, const struct worker_op *op,
			const struct worker_chunk *chunk, bool is_silent)
{
	enum worker_wish wish = wish_of(op, chunk);
	bool is_data = is_data_round(slot->flags);
	bool is_mine = is_data && op->ends && wire_op_of(slot->flags) == WIRE_TAKE && !is_silent;

	slot->is_bare = slot->lanes && (is_mine || wish == WORKER_WANTS_NONE);
	slot->is_kept = is_data && !is_silent && wish == WORKER_WANTS_ALONE;
}

/* R-WK-1: the slot's next round, composed once; R-WIRE-9: with the next seq, whatever operation it is of. */
static void build(struct worker *worker, uint32_t shard, uint32_t index, enum wire_round round,
		  struct worker_actions *actions)
{
	struct worker_slot *slot = slot_at(worker, shard, index);
	enum map_stream stream = stream_of_slot(worker, index);
	const struct worker_op_state *state = op_at(worker, stream, slot->op);
	uint64_t chunk = map_chunk(&worker->map, stream, shard, slot->k);
	uint32_t lane_op = WIRE_ADD, step = WIRE_LANES_STEP, lanes;
	bool is_silent = false;

	actions->build = true;
	actions->slot = index;
	actions->chunk = chunk_of(worker, state, chunk);
	look_ahead(worker, shard, stream,
		   round == WIRE_EXPONENT ? slot->k : slot->k + worker->map.pool[stream], actions);
	if (round == WIRE_DATA && state->op.is_scaled)
		slot->scale = slot->governing;
	actions->build_scale = slot->scale;

	if (round == WIRE_DATA)
		lane_op = lane_op_of(&state->op, &actions->chunk, &is_silent);
	slot->seq++;
	slot->state = WORKER_OUTSTANDING;
	slot->is_probed = 0;
	slot->is_resent = 0;
	slot->flags = (uint8_t)((uint32_t)round | lane_op << WIRE_OP_SHIFT);
	slot->tag = map_tag(state->op.hash, chunk - state->first);
	if (round == WIRE_GUESS) /* R-WK-18 */
		slot->tag ^= slot->scale;
	lanes = round == WIRE_EXPONENT ? 0 : map_lanes(state->op.shape, actions->chunk.elements);
	slot->lanes = (uint16_t)((lanes + step - 1) / step * step);
	slot->sent = slot->lanes;
	lanes_spare(slot, &state->op, &actions->chunk, is_silent);
	actions->lanes = is_silent ? 0 : slot->lanes;
	actions->header = (struct wire){ .type = WIRE_UPDATE,
					 .flags = slot->flags | (slot->is_bare ? WIRE_BARE : 0),
					 .job = worker->shards[shard].job,
					 .generation = worker->shards[shard].generation,
					 .seq = slot->seq,
					 .slot = (uint16_t)index,
					 .child = worker->shards[shard].child,
					 .lanes = slot->is_kept ? 0 : actions->lanes,
					 .tag = slot->tag };
}

/* R-WK-8: before a scaled chunk without an agreed exponent all workers do one EXPONENT round, or guess. Accepted
 * results decide, so all decide alike. */
static void start(struct worker *worker, uint32_t shard, enum map_stream stream,
		  struct worker_actions *actions)
{
	struct worker_slot *slot;
	uint64_t chunk;
	uint32_t index;
	uint16_t guess;

	CORE_ASSERT(worker_may_start(worker, shard, stream, &index));
	slot = slot_at(worker, shard, index);
	slot->k = worker->shards[shard].next[stream]++;
	chunk = map_chunk(&worker->map, stream, shard, slot->k);
	slot->op = op_find(worker, stream, chunk);
	if (first_round(worker, stream, slot, chunk, &guess) == PAST_KNOWN) {
		slot->scale = guess;
		build(worker, shard, index, WIRE_GUESS, actions);
		return;
	}
	if (op_at(worker, stream, slot->op)->op.is_scaled &&
	    slot->governing == WIRE_EXPONENT_UNKNOWN)
		build(worker, shard, index, WIRE_EXPONENT, actions);
	else
		build(worker, shard, index, WIRE_DATA, actions);
}

static void chunk_done(struct worker *worker, enum map_stream which, struct worker_slot *slot,
		       struct worker_actions *actions)
{
	struct worker_stream *stream = &worker->stream[which];
	struct worker_op_state *state = op_at(worker, which, slot->op);

	slot->state = WORKER_IDLE;
	actions->is_op_done = ++state->done == state->chunks;
	while (stream->head < stream->tail) {
		state = op_at(worker, which, stream->head);
		if (state->done < state->chunks)
			break;
		stream->head++;
	}
}

/* R-WK-3: is this RESULT the answer to what was sent last in its slot? */
static bool is_answer(const struct worker_slot *slot, const struct wire *packet)
{
	return slot->state == WORKER_OUTSTANDING && slot->seq == packet->seq;
}

/* R-WK-6, R-WK-16. Of a part that is bare and kept, nobody else has sent any. */
static bool has_its_lanes(const struct worker_slot *slot, const struct wire *packet)
{
	if (!packet->lanes)
		return slot->is_bare || !slot->lanes;
	if (slot->is_bare && slot->is_kept)
		return false;
	return packet->lanes >= slot->sent && packet->lanes <= slot->lanes;
}

/* R-WK-18: all are told the exponent of the chunk, and judge alike. False: the chunk is done again, at that. */
static bool guess_fits(struct worker_slot *slot, const struct wire *packet)
{
	uint16_t own = wire_guess_own(packet->exponent), next = wire_guess_next(packet->exponent);

	slot->governing = next == WIRE_NEXT_UNKNOWN ? WIRE_EXPONENT_UNKNOWN : next;
	if (past_fits(slot->scale, own))
		return true;
	slot->governing = own; /* of the DATA round to come */
	return false;
}

/* What the chunk's exponent was: what later operations guess from. */
static void note(struct worker *worker, enum map_stream which, const struct worker_slot *slot,
		 uint64_t chunk, const struct wire *packet)
{
	struct worker_stream *stream = &worker->stream[which];
	const struct worker_op_state *state = op_at(worker, which, slot->op);
	bool is_guess = wire_round_of(slot->flags) == WIRE_GUESS;

	if (is_data_round(slot->flags))
		past_note(&stream->rows, &state->op.place, chunk - state->first,
			  is_guess ? wire_guess_own(packet->exponent) : slot->scale);
}

/* R-WK-6: nothing of another round is stored. R-WK-2: the next one is built only then. */
static void accept(struct worker *worker, uint32_t shard, const struct wire *packet,
		   struct worker_actions *actions)
{
	struct worker_slot *slot = slot_at(worker, shard, packet->slot);
	enum map_stream stream = stream_of_slot(worker, packet->slot);
	const struct worker_op_state *state = op_at(worker, stream, slot->op);
	enum wire_round round = (enum wire_round)wire_round_of(slot->flags);
	uint64_t chunk = map_chunk(&worker->map, stream, shard, slot->k);
	uint32_t lane_op = wire_op_of(slot->flags);
	bool is_sum = lane_op == WIRE_ADD || lane_op == WIRE_ADD_SHORT;

	if (!has_its_lanes(slot, packet) || packet->tag != slot->tag ||
	    (packet->flags & WIRE_KIND_MASK) != slot->flags ||
	    (round == WIRE_EXPONENT && packet->exponent == WIRE_EXPONENT_UNKNOWN)) {
		actions->is_protocol_error = true;
		return;
	}
	actions->is_accepted = true;
	slot->governing =
		packet->exponent; /* R-WK-8: what all were told, not what is known here by now */
	actions->is_again = round == WIRE_GUESS && !guess_fits(slot, packet);
	if (round == WIRE_EXPONENT || actions->is_again) {
		build(worker, shard, packet->slot, WIRE_DATA, actions);
		return;
	}
	note(worker, stream, slot, chunk, packet);
	actions->store = true;
	actions->stored_round = round;
	actions->stored_scale = slot->scale;
	actions->stored_lanes = slot->lanes;
	actions->is_bare = slot->lanes && !packet->lanes;
	actions->is_joined = slot->is_kept && !actions->is_bare;
	actions->joined_by = (enum wire_op)lane_op;
	actions->stored = chunk_of(worker, state, chunk);
	if (is_data_round(slot->flags) && is_sum &&
	    packet->flags & WIRE_STICKY_MASK) { /* R-WK-10 */
		actions->is_amended_later = true;
		build(worker, shard, packet->slot, WIRE_DETAIL, actions);
		return;
	}
	chunk_done(worker, stream, slot, actions);
}

/* R-WK-5: the same bytes again, if a PROBE asked for this, or unasked (HINT) if they went out once. */
static void need(struct worker_slot *slot, const struct wire *packet,
		 struct worker_actions *actions)
{
	bool is_hint = packet->flags & WIRE_HINT;

	actions->is_asked = true;
	if (!slot->is_probed && (!is_hint || slot->is_resent))
		return;
	slot->is_probed = 0;
	slot->is_resent = 1;
	actions->resend = true;
}

static void take(struct worker *worker, uint32_t shard, const struct wire *packet,
		 struct worker_actions *actions)
{
	struct worker_slot *slot;

	if (packet->generation != worker->shards[shard].generation)
		return;
	if (packet->slot >= worker->slots || packet->job != worker->shards[shard].job)
		return;
	slot = slot_at(worker, shard, packet->slot);
	if (!is_answer(slot, packet))
		return;
	actions->slot = packet->slot;
	if (packet->type == WIRE_RESULT)
		accept(worker, shard, packet, actions);
	else if (packet->type == WIRE_HELD)
		actions->is_held = true; /* R-WK-4: the timer is never cancelled altogether */
	else if (packet->type == WIRE_NEED)
		need(slot, packet, actions);
}

/* R-WIRE-10: the tag is the number of the attempt. */
static void probe(struct worker *worker, uint32_t shard, uint32_t index, uint32_t attempt,
		  struct worker_actions *actions)
{
	struct worker_slot *slot = slot_at(worker, shard, index);

	CORE_ASSERT(slot->state == WORKER_OUTSTANDING);
	CORE_ASSERT(attempt);
	slot->is_probed = 1;
	actions->probe = true;
	actions->slot = index;
	actions->header = (struct wire){ .type = WIRE_PROBE,
					 .flags = slot->is_bare ? WIRE_BARE : 0,
					 .job = worker->shards[shard].job,
					 .generation = worker->shards[shard].generation,
					 .seq = slot->seq,
					 .slot = (uint16_t)index,
					 .child = worker->shards[shard].child,
					 .tag = attempt };
}

void worker_step(struct worker *worker, const struct worker_event *event,
		 struct worker_actions *actions)
{
	*actions = (struct worker_actions){ 0 };
	CORE_ASSERT(event->shard < worker->map.shards);
	switch (event->type) {
	case WORKER_SUBMIT:
		submit(worker, event->op);
		break;
	case WORKER_START:
		start(worker, event->shard, event->stream, actions);
		break;
	case WORKER_PACKET:
		take(worker, event->shard, event->packet, actions);
		break;
	case WORKER_PROBE:
		probe(worker, event->shard, event->slot, event->attempt, actions);
		break;
	}
}

static bool is_zero(const int32_t *lane, uint32_t count)
{
	int32_t any = 0;

	for (uint32_t i = 0; i < count; i++)
		any |= lane[i];
	return !any;
}

uint16_t worker_trim(struct worker *worker, uint32_t shard, const struct worker_actions *actions,
		     const int32_t *lane)
{
	struct worker_slot *slot = slot_at(worker, shard, actions->slot);
	uint16_t lanes = actions->header.lanes;

	if (wire_op_of(slot->flags) != WIRE_ADD_SHORT)
		return lanes;
	while (lanes > TRIM_STRIDE && is_zero(lane + lanes - TRIM_STRIDE, TRIM_STRIDE))
		lanes -= TRIM_STRIDE; /* in vectors */
	while (lanes > WIRE_LANES_STEP && is_zero(lane + lanes - WIRE_LANES_STEP, WIRE_LANES_STEP))
		lanes -= WIRE_LANES_STEP;
	slot->sent = lanes;
	return lanes;
}
