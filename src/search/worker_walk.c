/* SPDX-License-Identifier: Apache-2.0 */
/* worker_walk.c - see worker_walk.h: R-WK-1 to R-WK-10, R-MAP-2, R-MAP-3, R-MAP-5. */
#include "search/worker_walk.h"

#include <assert.h>

#include "core/dense/worker.h"
#include "search/slow.h"
#include "search/walk.h"
#include "util/rng.h"

enum { SHARDS = 3, SLOTS = 24, OPS_MAX = 4, OPS = 64, UNKNOWN = 0xffff };

/* Chunks count from the first of the walk on: what began before it has `before` of them behind it. */
struct op {
	struct worker_op op;
	uint64_t hash, count, cookie; /* its own, in widths of their own */
	int64_t first;
	uint64_t chunks, before, done;
};

/* As START and GRANT said, in widths of its own: core's could be too narrow. */
struct grant {
	uint32_t generation;
	uint16_t job, child;
};

struct slot {
	uint32_t seq, tag, chunk, op;
	uint16_t lanes, governing, scale;
	uint8_t flags;
	bool is_waiting, is_probed, is_resent;
};

struct stream {
	struct op ops[OPS];
	uint32_t count, head; /* submitted in this walk; all below head are complete */
	uint64_t submitted;   /* chunks */
	uint64_t begun;       /* of each pair, before the walk */
};

struct late {
	struct rng rng;
	uint32_t run, lanes;
	uint64_t hash, elements, cookie; /* of the operation that was drawn last */
	bool is_narrow;                  /* a struct of core's does not hold what it must */
	struct grant grant[SHARDS];
	struct worker worker; /* its pointers lead into this state */
	struct worker_shard shards[SHARDS];
	struct worker_slot slots[SHARDS * SLOTS];
	struct worker_op_state ops[MAP_STREAMS][OPS_MAX];
	struct stream stream[MAP_STREAMS];
	uint32_t started[SHARDS][MAP_STREAMS];
	struct slot slot[SHARDS][SLOTS];
};

static struct late *now; /* the walk that steps */

static uint32_t draw(uint32_t below)
{
	return rng_below(&now->rng, below);
}

/* A little below, or at, where a narrower or a signed number would end. */
static uint64_t near_bound(uint32_t below)
{
	static const uint32_t bits[] = { 0, 8, 15, 16, 31, 32, 32, 48 };
	uint64_t bound = 1ull << bits[draw(8)];
	uint32_t back = draw(below);

	return bound > back ? bound - back : 0;
}

/* ---- where chunks are ---- */

static uint32_t run_of(enum map_stream stream)
{
	return stream == MAP_BULK ? now->run : 1;
}

static uint32_t base_of(enum map_stream stream)
{
	return stream == MAP_BULK ? 4 : 0; /* SLOTS / 8 are fewer than express has at least */
}

static uint32_t pool_of(enum map_stream stream)
{
	return stream == MAP_BULK ? (SLOTS - 4) / now->run * now->run : 4;
}

/* The pair's chunk after `started` others of this walk. */
static uint32_t chunk_at(uint32_t shard, enum map_stream stream, uint32_t started)
{
	uint32_t run = run_of(stream);

	return (started / run * now->worker.map.shards + shard) * run + started % run;
}

static uint32_t slot_of(enum map_stream stream, uint32_t started)
{
	uint32_t pool = pool_of(stream);

	return base_of(stream) +
	       (uint32_t)((now->stream[stream].begun % pool + started % pool) % pool);
}

/* count: it has not been submitted. */
static uint32_t op_of(enum map_stream stream, uint32_t chunk)
{
	const struct stream *of = &now->stream[stream];
	uint32_t op = 0;

	while (op < of->count && of->ops[op].first + (int64_t)of->ops[op].chunks <= chunk)
		op++;
	return op;
}

static uint64_t index_of(const struct op *op, uint32_t chunk)
{
	return (uint64_t)((int64_t)chunk - op->first);
}

static struct worker_chunk told(const struct op *op, uint32_t chunk)
{
	uint64_t first = index_of(op, chunk) * now->lanes, left = op->count - first;
	uint32_t elements = left < now->lanes ? (uint32_t)left : now->lanes;
	struct worker_chunk told = { .cookie = op->cookie, .first = first, .elements = elements };

	now->is_narrow |= told.cookie != op->cookie || told.first != first ||
			  told.elements != elements;
	return told;
}

/* ---- what should happen ---- */

static void build(uint32_t shard, enum map_stream stream, uint32_t index, enum wire_round round,
		  struct worker_actions *want)
{
	struct slot *slot = &now->slot[shard][index];
	const struct stream *of = &now->stream[stream];
	const struct op *op = &of->ops[slot->op];
	uint32_t ahead = slot->chunk, ahead_op, started = now->started[shard][stream];

	if (round !=
	    WIRE_EXPONENT) { /* the one after so many others that it is in this slot again */
		while (chunk_at(shard, stream, started) > slot->chunk)
			started--;
		ahead = chunk_at(shard, stream, started + pool_of(stream));
	}
	ahead_op = op_of(stream, ahead);
	want->build = true;
	want->chunk = told(op, slot->chunk);
	want->look = ahead_op == of->count             ? WORKER_AHEAD_UNKNOWN
		     : !of->ops[ahead_op].op.is_scaled ? WORKER_AHEAD_ZERO
						       : WORKER_AHEAD_SCAN;
	if (want->look == WORKER_AHEAD_SCAN)
		want->ahead = told(&of->ops[ahead_op], ahead);
	if (round == WIRE_DATA && op->op.is_scaled)
		slot->scale = slot->governing > 254 ? 254 : slot->governing;
	want->build_scale = slot->scale;
	now->is_narrow |= want->build_scale != slot->scale;
	slot->seq++;
	slot->is_waiting = true;
	slot->is_probed = slot->is_resent = false;
	slot->flags = (uint8_t)(round | (round == WIRE_DATA ? op->op.lane_op * 4u : 0));
	slot->lanes = (uint16_t)(round == WIRE_EXPONENT ? 0 : (want->chunk.elements + 3) / 4 * 4);
	slot->tag = map_tag(op->hash, index_of(op, slot->chunk));
	want->header = (struct wire){ .type = WIRE_UPDATE,
				      .flags = slot->flags,
				      .job = now->grant[shard].job,
				      .generation = now->grant[shard].generation,
				      .seq = slot->seq,
				      .slot = (uint16_t)index,
				      .child = now->grant[shard].child,
				      .lanes = slot->lanes,
				      .tag = slot->tag };
}

static void accepted(uint32_t shard, const struct wire *packet, struct worker_actions *want)
{
	struct slot *slot = &now->slot[shard][packet->slot];
	enum map_stream stream = packet->slot < 4 ? MAP_EXPRESS : MAP_BULK;
	struct stream *of = &now->stream[stream];
	struct op *op = &of->ops[slot->op];
	uint32_t round = slot->flags & 3, lane_op = slot->flags / 4;

	want->is_accepted = true;
	slot->governing = packet->exponent;
	if (round == WIRE_EXPONENT) {
		build(shard, stream, packet->slot, WIRE_DATA, want);
		return;
	}
	want->store = true;
	want->stored = told(op, slot->chunk);
	want->stored_round = (enum wire_round)round;
	want->stored_scale = slot->scale;
	now->is_narrow |= want->stored_scale != slot->scale;
	if (round == WIRE_DATA && lane_op < WIRE_MAX && packet->flags & WIRE_STICKY_MASK) {
		want->is_amended_later = true;
		build(shard, stream, packet->slot, WIRE_DETAIL, want);
		return;
	}
	slot->is_waiting = false;
	op->done++;
	want->is_op_done = op->done == op->chunks;
	while (of->head < of->count && of->ops[of->head].done == of->ops[of->head].chunks)
		of->head++;
}

static void packet_comes(uint32_t shard, const struct wire *packet, struct worker_actions *want)
{
	struct slot *slot;

	if (packet->slot >= SLOTS || packet->job != now->grant[shard].job ||
	    packet->generation != now->grant[shard].generation)
		return;
	slot = &now->slot[shard][packet->slot];
	if (!slot->is_waiting || packet->seq != slot->seq)
		return;
	want->slot = packet->slot;
	if (packet->type == WIRE_HELD) {
		want->is_held = true;
	} else if (packet->type == WIRE_NEED) {
		want->is_asked = true;
		want->resend = slot->is_probed || (packet->flags & WIRE_HINT && !slot->is_resent);
		slot->is_resent |= want->resend;
		slot->is_probed &= !want->resend;
	} else if (packet->type == WIRE_RESULT) {
		want->is_protocol_error =
			packet->lanes != slot->lanes || packet->tag != slot->tag ||
			(packet->flags & 0x1f) != slot->flags ||
			((slot->flags & 3) == WIRE_EXPONENT && packet->exponent == UNKNOWN);
		if (!want->is_protocol_error)
			accepted(shard, packet, want);
	}
}

/* ---- what happens ---- */

static const char *step_is(const struct worker_event *event, const struct worker_actions *want)
{
	struct worker_actions got;

	worker_step(&now->worker, event, &got);
	if ((got.build || got.resend || got.probe || got.is_accepted) && got.slot != want->slot)
		return "R-WK-7: another slot than the pair's next one";
	if (now->is_narrow)
		return "R-MAP-3: a number is wider than its place";
	return slow_worker_differs(&got, want);
}

static void op_submitted(struct stream *of, const struct worker_op *op, uint64_t before,
			 uint64_t more)
{
	assert(of->count < OPS);
	of->ops[of->count++] = (struct op){ .op = *op,
					    .hash = now->hash,
					    .count = now->elements,
					    .cookie = now->cookie,
					    .first = (int64_t)of->submitted - (int64_t)before,
					    .chunks = before + more,
					    .before = before,
					    .done = before };
	of->submitted += more;
}

static struct worker_op drawn_op(enum map_stream stream, uint64_t chunks)
{
	now->hash = rng_next(&now->rng);
	now->cookie = rng_next(&now->rng);
	now->elements = chunks ? chunks * now->lanes - draw(now->lanes) : 0;
	return (struct worker_op){ .hash = now->hash,
				   .count = now->elements,
				   .cookie = now->cookie,
				   .stream = stream,
				   .lane_op = (enum wire_op)(draw(2) ? 0 : draw(WIRE_OP_END)),
				   .is_scaled = draw(2) };
}

static bool has_room(enum map_stream stream)
{
	return now->stream[stream].count - now->stream[stream].head < OPS_MAX;
}

static const char *submit(void)
{
	enum map_stream stream = (enum map_stream)draw(MAP_STREAMS);
	bool is_huge = walk_steps_left() < 40 && !draw(8); /* nothing completes behind it */
	uint64_t chunks = is_huge ? near_bound(4) + 1 : draw(4 * now->run + 2);
	struct worker_op op = drawn_op(stream, chunks);
	struct worker_actions want = { 0 };

	if (!has_room(stream) || now->stream[stream].count == OPS)
		return NULL;
	op_submitted(&now->stream[stream], &op, 0, chunks ? chunks : 1);
	return step_is(&(struct worker_event){ .type = WORKER_SUBMIT, .op = &op }, &want);
}

static bool may_start(uint32_t shard, enum map_stream stream)
{
	uint32_t started = now->started[shard][stream];

	return chunk_at(shard, stream, started) < now->stream[stream].submitted &&
	       !now->slot[shard][slot_of(stream, started)].is_waiting;
}

static const char *start(uint32_t shard, enum map_stream stream)
{
	uint32_t started = now->started[shard][stream], index = slot_of(stream, started);
	struct slot *slot = &now->slot[shard][index];
	struct worker_actions want = { .slot = index };
	bool is_agreed;

	if (!may_start(shard, stream))
		return NULL;
	slot->chunk = chunk_at(shard, stream, started);
	slot->op = op_of(stream, slot->chunk);
	is_agreed = !now->stream[stream].ops[slot->op].op.is_scaled || slot->governing != UNKNOWN;
	build(shard, stream, index, is_agreed ? WIRE_DATA : WIRE_EXPONENT, &want);
	now->started[shard][stream]++;
	return step_is(
		&(struct worker_event){ .type = WORKER_START, .shard = shard, .stream = stream },
		&want);
}

/* One that waits, if there is one. */
static uint32_t drawn_slot(uint32_t shard)
{
	uint32_t at = draw(SLOTS);

	for (uint32_t i = 0; i < SLOTS; i++)
		if (now->slot[shard][(at + i) % SLOTS].is_waiting)
			return (at + i) % SLOTS;
	return at;
}

/* What nearly fits differs in one bit of one field. */
static void spoil(struct wire *packet)
{
	switch (draw(7)) {
	case 0:
		packet->generation ^= 1u << draw(32);
		break;
	case 1:
		packet->job ^= (uint16_t)(1u << draw(16));
		break;
	case 2:
		packet->seq ^= 1u << draw(32);
		break;
	case 3:
		packet->lanes ^= (uint16_t)(4u << draw(12));
		break;
	case 4:
		packet->tag ^= 1u << draw(32);
		break;
	case 5:
		packet->flags ^= (uint8_t)(1u << draw(5));
		break;
	default:
		packet->slot ^= (uint16_t)(1u << draw(16));
		break;
	}
}

static uint16_t drawn_exponent(void)
{
	return (uint16_t)(draw(4) ? draw(256) : draw(2) ? draw(65536) : UNKNOWN);
}

static const char *packet(uint32_t shard)
{
	uint32_t index = drawn_slot(shard), kind = draw(10);
	const struct slot *slot = &now->slot[shard][index];
	struct worker_actions want = { 0 };
	struct wire wire = { .type = (uint8_t)(kind < 7    ? WIRE_RESULT
					       : kind == 7 ? WIRE_HELD
					       : kind == 8 ? WIRE_NEED
							   : 1 + draw(9)),
			     .job = now->grant[shard].job,
			     .generation = now->grant[shard].generation,
			     .seq = slot->seq,
			     .slot = (uint16_t)index,
			     .child = (uint16_t)draw(65536) };

	if (wire.type == WIRE_RESULT) {
		wire.flags = (uint8_t)(slot->flags | (draw(6) ? 0 : draw(8) * 0x20u));
		wire.lanes = slot->lanes;
		wire.tag = slot->tag;
		wire.exponent = drawn_exponent();
	} else if (wire.type == WIRE_NEED && draw(2)) {
		wire.flags = WIRE_HINT;
	}
	if (!draw(4))
		spoil(&wire);
	packet_comes(shard, &wire, &want);
	return step_is(
		&(struct worker_event){ .type = WORKER_PACKET, .shard = shard, .packet = &wire },
		&want);
}

static const char *probe(uint32_t shard)
{
	uint32_t index = drawn_slot(shard), attempt = rng_u32(&now->rng) | 1;
	struct slot *slot = &now->slot[shard][index];
	struct worker_actions want = { .slot = index, .probe = true };

	if (!slot->is_waiting)
		return NULL;
	slot->is_probed = true;
	want.header = (struct wire){ .type = WIRE_PROBE,
				     .job = now->grant[shard].job,
				     .generation = now->grant[shard].generation,
				     .seq = slot->seq,
				     .slot = (uint16_t)index,
				     .child = now->grant[shard].child,
				     .tag = attempt };
	return step_is(
		&(struct worker_event){
			.type = WORKER_PROBE, .shard = shard, .slot = index, .attempt = attempt },
		&want);
}

static const char *look(void)
{
	uint64_t count = rng_log(&now->rng, 1, (uint64_t)1 << 60) - 1;
	uint32_t slot;

	if ((worker_stream_of(&now->worker, count) == MAP_EXPRESS) !=
	    (count <= (uint64_t)now->lanes * 64))
		return "R-MAP-2: another stream for an operation of so many elements";
	for (uint32_t i = 0; i < MAP_STREAMS; i++) {
		enum map_stream stream = (enum map_stream)i;

		if (worker_has_room(&now->worker, stream) != has_room(stream))
			return "R-WK-11: an operation is kept for too long, or not long enough";
		for (uint32_t shard = 0; shard < now->worker.map.shards; shard++) {
			bool may = worker_may_start(&now->worker, shard, stream, &slot);

			if (may != may_start(shard, stream))
				return "R-WK-7: a chunk may start before its turn, or never";
			if (may && slot != slot_of(stream, now->started[shard][stream]))
				return "R-MAP-3: a chunk has another slot";
		}
	}
	return NULL;
}

static const char *step(void *own, struct bfs *bfs)
{
	uint32_t shard, what;
	const char *wrong = NULL;

	now = own;
	bfs_say(bfs, "step %u", walk_step());
	shard = draw(now->worker.map.shards);
	what = draw(20);
	if (what < 2)
		wrong = submit();
	else if (what < 9)
		wrong = start(shard, (enum map_stream)draw(MAP_STREAMS));
	else if (what < 18)
		wrong = packet(shard);
	else
		wrong = probe(shard);
	return wrong ? wrong : look();
}

/* ---- the model ---- */

/* As after so many chunks and operations, the last of which is on its way. */
static void begin_late(enum map_stream which)
{
	struct worker *worker = &now->worker;
	struct worker_stream *stream = &worker->stream[which];
	struct stream *of = &now->stream[which];
	uint64_t unit = (uint64_t)worker->map.shards * run_of(which), before, op;
	uint64_t groups = near_bound(3 * run_of(which)) / (draw(2) ? unit : run_of(which));
	uint64_t chunks = groups * unit, more = 1 + draw(6);
	struct worker_op under_way;

	before = draw(2) ? chunks : near_bound(3);
	before = before < chunks ? before : chunks;
	op = near_bound(3);
	under_way = drawn_op(which, before + more);
	op_submitted(of, &under_way, before, more);
	of->begun = groups * run_of(which);
	stream->head = op;
	stream->tail = op + 1;
	stream->chunks = chunks + more;
	stream->ops[op % OPS_MAX] = (struct worker_op_state){
		.op = under_way, .first = chunks - before, .chunks = before + more, .done = before
	};
	for (uint32_t shard = 0; shard < worker->map.shards; shard++)
		worker->shards[shard].next[which] = of->begun;
}

static void begin(void *own, uint32_t number)
{
	static const uint32_t lanes[] = { 4, 8, 360, WIRE_LANES_MAX };
	struct worker_memory memory;
	struct map map;

	now = own;
	rng_init(&now->rng, 1, number);
	now->run = 1 + draw(4);
	now->lanes = lanes[draw(4)];
	memory = (struct worker_memory){ now->shards, now->slots, { now->ops[0], now->ops[1] } };
	if (!map_init(&map, 1 + number % SHARDS, SLOTS, now->run))
		assert(0);
	worker_init(&now->worker, &map, SLOTS, now->lanes, OPS_MAX, &memory);
	for (uint32_t shard = 0; shard < map.shards; shard++) {
		now->grant[shard] = (struct grant){ .generation = rng_u32(&now->rng),
						    .job = (uint16_t)draw(65536),
						    .child = (uint16_t)draw(65536) };
		now->shards[shard].generation = now->grant[shard].generation;
		now->shards[shard].job = now->grant[shard].job;
		now->shards[shard].child = now->grant[shard].child;
		for (uint32_t i = 0; i < SLOTS; i++) {
			uint32_t seq = (uint32_t)near_bound(3);

			now->slots[shard * SLOTS + i].seq = seq;
			now->slot[shard][i] = (struct slot){ .seq = seq, .governing = UNKNOWN };
		}
	}
	begin_late(MAP_EXPRESS);
	begin_late(MAP_BULK);
}

void worker_walk_model(struct bfs_model *model, const void *config_at)
{
	const struct walk_config *config = config_at;

	walk_model(model, &(struct walk){ .walks = slow_is_asked() ? config->walks : 0,
					  .steps = config->steps,
					  .own_bytes = sizeof(struct late),
					  .begin = begin,
					  .step = step });
}
