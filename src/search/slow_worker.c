/* SPDX-License-Identifier: Apache-2.0 */
/* slow_worker.c - see slow.h: R-WK-1 to R-WK-11, R-WK-13 to R-WK-18 and R-MAP-3, R-MAP-5, R-MAP-6, R-MAP-8. */
#include "search/data_values.h"
#include "search/slow.h"

/* A chunk of a pair; op == ops_count: there is none, or it has not been submitted. */
struct chunk {
	uint32_t op, index, place; /* its number, and that of its elements */
};

/* R-MAP-5: how many elements fit a packet. */
static uint32_t full_of(uint32_t op)
{
	const struct map_shape *shape = &world.config->shape[op];
	uint32_t full = 0;

	if (!shape->lanes)
		return DATA_LANES;
	for (uint32_t lanes = shape->lanes; lanes <= DATA_LANES; lanes += shape->lanes)
		full += shape->elements;
	return full;
}

/* R-MAP-8: the parts' runs one of each in turn, until all are listed. */
static uint32_t place_of(const struct slow_event *event, const struct chunk *chunk)
{
	uint32_t run = event->stream == MAP_BULK && world.config->run ? world.config->run : 1;
	bool has_turns = world.config->part[chunk->op] || world.config->scattered >> chunk->op & 1;
	uint32_t parts = has_turns ? world.config->workers : 1;
	uint32_t runs = op_chunks(world.config, chunk->op) / run, group = chunk->index / run;
	uint32_t next[DATA_WORKERS] = { 0 };

	if (group >= runs)
		return chunk->index;
	for (uint32_t p = 1; p < parts; p++) /* the first ones have one more, if it is uneven */
		next[p] = next[p - 1] + runs / parts + (p - 1 < runs % parts);
	next[group % parts] += group / parts;
	return next[group % parts] * run + chunk->index % run;
}

static uint32_t elements_of(const struct chunk *chunk)
{
	uint32_t full = full_of(chunk->op);
	uint32_t left = world.config->ops[chunk->op].elements - chunk->place * full;

	return left < full ? left : full;
}

static uint32_t lanes_of(const struct chunk *chunk)
{
	const struct map_shape *shape = &world.config->shape[chunk->op];
	uint32_t lanes = elements_of(chunk);

	if (shape->lanes > 1)
		lanes *= shape->lanes;
	if (shape->elements > 1)
		lanes = lanes / shape->elements + (lanes % shape->elements != 0);
	return (lanes + 3) / 4 * 4;
}

/* R-WK-13: how many workers have elements of it; *is_silent: this one has none, and another has all. */
static uint32_t owners_of(const struct chunk *chunk, uint32_t worker, bool *is_silent)
{
	uint32_t part = world.config->part[chunk->op], owners = 0;
	uint32_t first = chunk->place * full_of(chunk->op);
	bool is_mine = false;

	for (uint32_t w = 0; w < world.config->workers; w++) {
		bool has = first < (w + 1) * part && first + elements_of(chunk) > w * part;

		owners += has;
		is_mine |= has && w == worker;
	}
	*is_silent = owners == 1 && !is_mine;
	return owners;
}

static bool wants_none(const struct chunk *chunk, uint32_t worker)
{
	uint32_t part = world.config->ops[chunk->op].elements / world.config->workers;

	if (world.config->scattered >> chunk->op & 1)
		return chunk->place * full_of(chunk->op) / part != worker;
	return world.config->unwanted[chunk->op] >> worker & 1;
}

/* R-WK-15: are its elements for this worker alone? */
static bool wants_alone(const struct chunk *chunk, uint32_t worker)
{
	uint32_t others = 0;

	for (uint32_t w = 0; w < world.config->workers; w++)
		others += w != worker && wants_none(chunk, w);
	return others && others == world.config->workers - 1 && !wants_none(chunk, worker);
}

static bool is_scaled(const struct chunk *chunk)
{
	return world.config->ops[chunk->op].is_scaled;
}

/* The stream's chunks go to the shards in turn, a run to each; the pair's k-th: */
static uint32_t counter_of(const struct slow_event *event, uint32_t k)
{
	uint32_t run = event->stream == MAP_BULK && world.config->run ? world.config->run : 1;
	uint32_t shards = world.config->shards ? world.config->shards : 1;

	for (uint32_t c = 0;; c++)
		if (c / run % shards == event->shard && k-- == 0)
			return c;
}

static struct chunk chunk_at(const struct worker_state *state, const struct slow_event *event,
			     uint32_t k)
{
	uint32_t c = counter_of(event, k);
	struct chunk chunk = { .op = 0 };

	for (; chunk.op < state->submitted; chunk.op++) {
		uint32_t elements = world.config->ops[chunk.op].elements;
		uint32_t full = full_of(chunk.op);
		uint32_t chunks = elements ? (elements + full - 1) / full : 1;
		bool is_express = world.config->express >> chunk.op & 1;

		if (is_express != (event->stream == MAP_EXPRESS))
			continue;
		chunk.index = c;
		if (c < chunks) {
			chunk.place = place_of(event, &chunk);
			return chunk;
		}
		c -= chunks;
	}
	chunk.op = world.config->ops_count;
	return chunk;
}

static uint32_t tag_of(const struct chunk *chunk)
{
	uint64_t x = op_make(world.config, 0, chunk->op).hash + chunk->index;

	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 32);
}

static struct worker_chunk told(const struct chunk *chunk)
{
	return (struct worker_chunk){ .cookie = chunk->op,
				      .first = (uint64_t)chunk->place * full_of(chunk->op),
				      .elements = elements_of(chunk) };
}

static bool is_alike(uint32_t a, uint32_t b)
{
	return world.config->keys[a] == world.config->keys[b] &&
	       (world.config->express >> a & 1) == (world.config->express >> b & 1);
}

/* R-WK-17: so many chunks until a slot's turn comes again. */
static uint32_t turn_of(uint32_t op)
{
	uint32_t shards = world.config->shards ? world.config->shards : 1;

	return shards * (world.config->express >> op & 1 ? (uint32_t)MAP_EXPRESS_SLOTS_MIN
							 : world.config->pool);
}

/* Are they two of equal operations in a row, with fewer chunks from one to the other than a turn? */
static bool is_near(uint32_t from, uint32_t op)
{
	uint32_t between = 0, chunks;

	for (uint32_t i = from; i < op; i++) {
		chunks = op_chunks(world.config, i);
		between += chunks < turn_of(op) ? chunks : turn_of(op);
		if (!is_alike(i, op))
			return false;
	}
	return between < turn_of(op);
}

static bool may_repeat(uint32_t from, uint32_t op)
{
	return from < op && is_alike(from, op) && (!world.config->keys[op] || !is_near(from, op));
}

static uint32_t match_of(uint32_t a, uint32_t b)
{
	uint32_t length = 0;

	while (a && b && is_alike(--a, --b))
		length++;
	return length;
}

/* R-WK-17; everything is in reach. */
static uint32_t repeats(uint32_t op)
{
	const uint32_t none = world.config->ops_count;
	uint32_t best = none;

	if (op && repeats(op - 1) != none && may_repeat(repeats(op - 1) + 1, op))
		return repeats(op - 1) + 1;
	for (uint32_t other = 0; other < op; other++)
		if (may_repeat(other, op) &&
		    (best == none || match_of(other, op) >= match_of(best, op)))
			best = other;
	return best;
}

/* R-WK-18: a chunk's first round. False: it may not start. */
static bool first_round(const struct worker_state *state, const struct chunk *chunk,
			uint16_t governing, enum wire_round *round, uint16_t *scale)
{
	uint32_t none = world.config->ops_count, from, agreed = 0;

	*scale = governing;
	*round = !is_scaled(chunk) || governing != 0xffff ? WIRE_DATA : WIRE_EXPONENT;
	if (*round == WIRE_DATA || !world.config->keys[chunk->op] ||
	    chunk->index >= turn_of(chunk->op))
		return true;
	from = repeats(chunk->op);
	for (uint32_t i = 0; i < 2 && from != none; i++, from = repeats(from)) {
		uint32_t number = op_first_chunk(world.config, from) + chunk->index;

		*round = WIRE_GUESS;
		if (!state->stored[number])
			return false;
		if (exponent_max(world.config, number) > agreed)
			agreed = exponent_max(world.config, number);
	}
	*scale = *round == WIRE_GUESS ? (uint16_t)(agreed ? agreed + 1 : 0) : governing;
	return true;
}

static void build(const struct worker_state *state, const struct slow_event *event,
		  const struct slot_state *was, uint32_t k, enum wire_round round,
		  uint16_t governing, struct worker_actions *want)
{
	uint32_t pool = event->stream == MAP_BULK ? world.config->pool : MAP_EXPRESS_SLOTS_MIN;
	struct chunk chunk = chunk_at(state, event, k), ahead = chunk;
	uint32_t lanes = lanes_of(&chunk);

	uint32_t flags = round, owners;
	bool is_silent;

	if (round != WIRE_EXPONENT)
		ahead = chunk_at(state, event, k + pool);
	owners = owners_of(&chunk, event->worker, &is_silent);
	if (round == WIRE_DATA && world.config->shorts >> chunk.op & 1)
		flags |= 1 << 2;
	if (round == WIRE_DATA && owners)
		flags |= (uint32_t)(owners == 1 ? WIRE_TAKE : WIRE_ADD_SHORT) << WIRE_OP_SHIFT;
	if (round != WIRE_EXPONENT && elements_of(&chunk) &&
	    ((round == WIRE_DATA && owners == 1 && !is_silent) ||
	     wants_none(&chunk, event->worker)))
		flags |= 0x10;
	if (round == WIRE_EXPONENT || is_silent)
		lanes = 0;
	want->lanes = (uint16_t)lanes;
	if ((round == WIRE_DATA || round == WIRE_GUESS) && wants_alone(&chunk, event->worker))
		lanes = 0;
	want->build = true;
	want->chunk = told(&chunk);
	want->build_scale = was->scale;
	if ((round == WIRE_DATA || round == WIRE_GUESS) && is_scaled(&chunk)) /* R-WK-8 */
		want->build_scale = governing;
	if (ahead.op < world.config->ops_count && is_scaled(&ahead)) {
		want->look = WORKER_AHEAD_SCAN;
		want->ahead = told(&ahead);
	} else {
		want->look = ahead.op < world.config->ops_count ? WORKER_AHEAD_ZERO
								: WORKER_AHEAD_UNKNOWN;
	}
	want->header =
		(struct wire){ .type = WIRE_UPDATE,
			       .flags = (uint8_t)flags,
			       .job = (uint16_t)world.parent[event->worker],
			       .generation = GENERATION + state->life,
			       .seq = was->seq + 1,
			       .slot = (uint16_t)event->slot,
			       .child = (uint16_t)world.child[event->worker],
			       .lanes = (uint16_t)lanes,
			       .tag = tag_of(&chunk) ^ (round == WIRE_GUESS ? governing : 0u) };
}

static bool fits(const struct worker_state *state, const struct slow_event *event,
		 const struct slot_state *was)
{
	return event->wire->generation == GENERATION + state->life &&
	       event->wire->job == world.parent[event->worker] && event->wire->seq == was->seq &&
	       was->state == WORKER_OUTSTANDING;
}

static void result(const struct worker_state *state, const struct slow_event *event,
		   const struct slot_state *was, struct worker_actions *want)
{
	struct chunk chunk = chunk_at(state, event, was->k);
	enum wire_round round = (enum wire_round)(was->flags & 3);
	const struct wire *wire = event->wire;

	want->is_bare = was->is_bare && !wire->lanes;
	if (was->is_bare && was->is_kept && wire->lanes)
		want->is_protocol_error = true;
	if (was->flags == 1 << 2 && wire->lanes) /* R-WK-16 */
		want->is_protocol_error |= wire->lanes < was->sent || wire->lanes > was->lanes;
	else if (wire->lanes != was->lanes && !want->is_bare)
		want->is_protocol_error = true;
	if (want->is_protocol_error || wire->tag != was->tag || (wire->flags & 0xf) != was->flags ||
	    (round == WIRE_EXPONENT && wire->exponent == 0xffff)) {
		want->is_protocol_error = true;
		want->is_bare = false;
		return;
	}
	want->is_accepted = true;
	if (round == WIRE_EXPONENT) {
		build(state, event, was, was->k, WIRE_DATA, wire->exponent, want);
		return;
	}
	if (round == WIRE_GUESS) {
		uint32_t own = wire->exponent / 256;

		if (own && (own > was->scale || own + 4 < was->scale)) {
			want->is_again = true;
			want->is_bare = false;
			build(state, event, was, was->k, WIRE_DATA, (uint16_t)own, want);
			return;
		}
	}
	want->store = true;
	want->is_joined = was->is_kept && wire->lanes;
	want->joined_by = (enum wire_op)(was->flags >> 2);
	want->stored_round = round;
	want->stored_scale = was->scale;
	want->stored = told(&chunk);
	want->stored_lanes = was->lanes;
	if ((round == WIRE_DATA || round == WIRE_GUESS) && wire->flags & 0x60 &&
	    was->flags >> 2 < WIRE_MAX) {
		want->is_amended_later = true;
		build(state, event, was, was->k, WIRE_DETAIL, wire->exponent, want);
		return;
	}
	want->is_op_done = state->done[chunk.op] + 1u == op_chunks(world.config, chunk.op);
}

static bool is_same_chunk(const struct worker_chunk *a, const struct worker_chunk *b)
{
	return a->cookie == b->cookie && a->first == b->first && a->elements == b->elements;
}

static const char *differs(const struct worker_actions *got, const struct worker_actions *want)
{
	if (got->is_accepted != want->is_accepted || got->is_again != want->is_again ||
	    got->is_protocol_error != want->is_protocol_error)
		return "R-WK-3, R-WK-6: what should be accepted is not, or what should not";
	if (got->is_held != want->is_held || got->is_asked != want->is_asked ||
	    got->resend != want->resend)
		return "R-WK-4, R-WK-5: a HELD or NEED is taken for what it is not";
	if (got->build != want->build || got->probe != want->probe ||
	    !slow_is_same(&got->header, &want->header))
		return "R-WK-1: a round or a PROBE is not the one that is due";
	if (got->build && got->lanes != want->lanes)
		return "R-WK-15: a worker makes other lanes than those that it sends or keeps";
	if (got->build && (!is_same_chunk(&got->chunk, &want->chunk) || got->look != want->look ||
			   !is_same_chunk(&got->ahead, &want->ahead)))
		return "R-WK-9: a round looks at other elements than its chunk's and the next "
		       "one's";
	if (got->build && got->header.flags != WIRE_EXPONENT &&
	    got->build_scale != want->build_scale)
		return "R-WK-8: a chunk is scaled by another exponent than the agreed one";
	if (got->store != want->store || got->is_amended_later != want->is_amended_later ||
	    got->is_op_done != want->is_op_done || got->is_bare != want->is_bare ||
	    got->is_joined != want->is_joined || got->joined_by != want->joined_by ||
	    got->stored_round != want->stored_round || got->stored_lanes != want->stored_lanes ||
	    !is_same_chunk(&got->stored, &want->stored) || got->stored_scale != want->stored_scale)
		return "R-WK-10: what is stored is not what the round was of";
	return NULL;
}

const char *slow_worker(const struct worker_state *state, const struct slow_event *event,
			const struct worker_actions *actions)
{
	struct worker_actions want = { .slot = event->slot };
	const struct slot_state *was = &state->slot[event->cell];
	uint16_t governing = was->governing;

	if (event->move == DO_START) {
		uint32_t k = state->next[event->shard][event->stream];
		struct chunk chunk = chunk_at(state, event, k);
		enum wire_round round;
		uint16_t scale;

		if (!first_round(state, &chunk, governing, &round, &scale))
			return "R-WK-18: a chunk starts before all know what it is guessed from";
		build(state, event, was, k, round, scale, &want);
	} else if (event->move == DO_PROBE) {
		want.probe = true;
		want.header = (struct wire){ .type = WIRE_PROBE,
					     .flags = was->is_bare ? 0x10 : 0,
					     .job = (uint16_t)world.parent[event->worker],
					     .generation = GENERATION + state->life,
					     .seq = was->seq,
					     .slot = (uint16_t)event->slot,
					     .child = (uint16_t)world.child[event->worker],
					     .tag = ATTEMPT };
	} else if (event->move == DO_PACKET && fits(state, event, was)) {
		want.is_held = event->wire->type == WIRE_HELD;
		want.is_asked = event->wire->type == WIRE_NEED;
		want.resend = want.is_asked &&
			      (was->is_probed || (event->wire->flags & 0x80 && !event->is_resent));
		if (event->wire->type == WIRE_RESULT)
			result(state, event, was, &want);
	}
	if ((actions->build || actions->resend || actions->probe || actions->is_accepted) &&
	    actions->slot != want.slot)
		return "R-WK-7: another slot than the pair's next one";
	return differs(actions, &want);
}
