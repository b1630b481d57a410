/* SPDX-License-Identifier: Apache-2.0 */
/* worker_walk.c - see walks.h. */
#include "search/walks.h"

#include <assert.h>
#include <string.h>

#include "core/dense/worker.h"
#include "search/record.h"
#include "search/slow.h"
#include "util/rng.h"

#define ACTION(name) RECORD_FIELD(struct worker_actions, name)
#define HEADER(name) RECORD_FIELD(struct wire, name)

enum {
	SHARDS = 3,
	SLOTS = 24,
	OPS_MAX = 4,
	PARTS_MAX = 5,
	REACH = 32,
	ROWS = 1,
	ROWS_SIZE = (ROWS + OPS_MAX) * SHARDS * SLOTS
};

/* clang-format off */
static const struct record_field action_fields[] = {
	ACTION(build), ACTION(store), ACTION(resend), ACTION(probe), ACTION(is_accepted), ACTION(is_held),
	ACTION(is_asked), ACTION(is_op_done), ACTION(is_protocol_error), ACTION(is_amended_later), ACTION(is_bare),
	ACTION(is_joined), ACTION(is_again), ACTION(joined_by), ACTION(slot), ACTION(lanes), ACTION(chunk.cookie), ACTION(chunk.first), ACTION(chunk.elements),
	ACTION(ahead.cookie), ACTION(ahead.first), ACTION(ahead.elements), ACTION(look),
	ACTION(stored.cookie), ACTION(stored.first), ACTION(stored.elements), ACTION(stored_round), ACTION(stored_lanes),
	ACTION(build_scale), ACTION(stored_scale), { 0 }
};
static const struct record_field header_fields[] = {
	HEADER(type), HEADER(flags), HEADER(job), HEADER(generation), HEADER(seq), HEADER(slot),
	HEADER(child), HEADER(exponent), HEADER(lanes), HEADER(tag), { 0 }
};
/* clang-format on */

static struct rng rng;
static uint32_t run, steps_left;
static struct worker worker;
static struct worker_shard shards[SHARDS];
static struct worker_slot slots[SHARDS * SLOTS];
static struct worker_op_state ops[MAP_STREAMS][OPS_MAX];
static struct past_op past[REACH];
static uint8_t exponents[MAP_STREAMS][ROWS_SIZE];
static struct worker_op called[MAP_STREAMS]; /* and not submitted, if it has a shape */
static uint64_t parts_ends[MAP_STREAMS][OPS_MAX + 1]
			  [PARTS_MAX]; /* of the last ones that have parts */
static uint32_t parts_drawn[MAP_STREAMS];
static uint64_t wanted[MAP_STREAMS][OPS_MAX + 1]
		      [3]; /* of the last ones: elements [0, 1) are wanted, by nobody else if 2 */
static uint32_t wanted_drawn[MAP_STREAMS];

static uint32_t draw(uint32_t below)
{
	return rng_below(&rng, below);
}

/* A little below, or at, where a narrower or a signed number would end. */
static uint64_t near_bound(uint32_t below)
{
	static const uint32_t bits[] = { 0, 8, 15, 16, 31, 32, 32, 48 };
	uint64_t bound = 1ull << bits[draw(8)];
	uint32_t back = draw(below);

	return bound > back ? bound - back : 0;
}

/* ---- what happens ---- */

/* One that fits a packet. */
static struct map_shape drawn_shape(void)
{
	static const struct map_shape shapes[] = { { 1, 1 }, { 2, 1 }, { 1, 2 },
						   { 1, 3 }, { 4, 1 }, { 1, 10 } };
	struct map_shape shape = shapes[draw(6)];

	return map_full(shape, worker.lanes) ? shape : shapes[0];
}

/* What it says then of all that might come next. */
static void record_look(void)
{
	uint64_t count = rng_log(&rng, 1, (uint64_t)1 << 60) - 1;
	struct map_shape shape = drawn_shape();

	record_also(" ; %llu %u %u %u %u %u", (unsigned long long)count, shape.elements,
		    shape.lanes, worker_stream_of(&worker, shape, count),
		    worker_has_room(&worker, MAP_EXPRESS), worker_has_room(&worker, MAP_BULK));
	for (uint32_t shard = 0; shard < worker.map.shards; shard++) {
		for (uint32_t stream = 0; stream < MAP_STREAMS; stream++) {
			uint32_t slot = 0;
			bool may = worker_may_start(&worker, shard, (enum map_stream)stream, &slot);

			record_also(" %u %u", may, may ? slot : 0);
		}
	}
}

/* R-WK-16: lanes of which the last that is not 0 is anywhere. */
static void trims(uint32_t shard, const struct worker_actions *actions)
{
	static int32_t lane[WIRE_LANES_MAX];
	uint32_t lanes = actions->build ? actions->header.lanes : 0;
	uint32_t last = draw(2) ? lanes : draw(lanes + 1), trimmed = 0;

	if (last)
		lane[last - 1] = 1;
	if (actions->build)
		trimmed = worker_trim(&worker, shard, actions, lane);
	if (last)
		lane[last - 1] = 0;
	record_also(" ; %u %u", last, trimmed);
}

static void happens(const struct worker_event *event)
{
	struct worker_actions actions;

	worker_step(&worker, event, &actions);
	record_also(" ;");
	record_fields(&actions, action_fields);
	record_also(" ;");
	record_fields(&actions.header, header_fields);
	trims(event->shard, &actions);
	record_look();
}

/* Recorded as it was drawn: core's numbers could be too narrow. */
/* R-WK-13: its elements in parts, some of which may be empty. */
static void draw_parts(struct worker_op *op, enum map_stream stream)
{
	uint64_t *ends = parts_ends[stream][parts_drawn[stream]++ % (OPS_MAX + 1)], at = 0;

	op->lane_op = WIRE_TAKE;
	op->is_scaled = false;
	op->ends = ends;
	op->parts = 1 + draw(PARTS_MAX);
	op->mine = draw(op->parts + 1);
	for (uint32_t p = 0; p + 1 < op->parts; p++) {
		at += draw(4) ? rng_log(&rng, 1, op->count - at + 1) - 1 : 0;
		ends[p] = at;
	}
	ends[op->parts - 1] = op->count;
}

/* R-WK-14, R-WK-15 */
static enum worker_wish wants(const void *caller, uint64_t first, uint32_t elements)
{
	const uint64_t *range = caller;

	if (first >= range[1] || first + elements <= range[0])
		return WORKER_WANTS_NONE;
	return range[2] && first >= range[0] && first + elements <= range[1] ? WORKER_WANTS_ALONE
									     : WORKER_WANTS_SOME;
}

static void draw_wants(struct worker_op *op, enum map_stream stream)
{
	uint64_t *range = wanted[stream][wanted_drawn[stream]++ % (OPS_MAX + 1)];

	range[0] = draw(2) ? rng_log(&rng, 1, op->count + 1) - 1 : 0;
	range[1] = draw(2) ? rng_log(&rng, 1, op->count + 1) - 1 : op->count;
	range[2] = draw(2);
	op->wants = wants;
	op->caller = range;
	record_also(" ; %llu %llu %llu", (unsigned long long)range[0], (unsigned long long)range[1],
		    (unsigned long long)range[2]);
}

static void record_parts(const struct worker_op *op)
{
	record_also(" ; %u %u", op->mine, op->parts);
	for (uint32_t p = 0; op->ends && p < op->parts; p++)
		record_also(" %llu", (unsigned long long)op->ends[p]);
}

/* R-WK-17: one of a few that are alike; what is scaled may be guessed. */
static void draw_key(struct worker_op *op)
{
	const struct map_shape one = { 1, 1 };
	uint32_t chunks = draw(4) ? 1 : 3;

	op->shape = one;
	op->count = chunks * worker.lanes;
	op->key = (chunks * 2 + !draw(3)) * MAP_STREAMS + op->stream;
	op->is_scaled = true;
	op->is_guessed = true;
	op->lane_op = WIRE_ADD;
}

static struct worker_op drawn_op(const char *what, enum map_stream stream, uint64_t chunks,
				 bool may_repeat)
{
	const struct map_shape one = { 1, 1 };
	uint64_t hash = rng_next(&rng), cookie = rng_next(&rng);
	struct worker_op op = { .hash = hash,
				.key = 100 + draw(3),
				.cookie = cookie,
				.shape = drawn_shape(),
				.stream = stream,
				.lane_op = (enum wire_op)(draw(2) ? 0 : draw(WIRE_OP_END)),
				.is_scaled = draw(2) };
	uint32_t full;

	if (chunks > UINT64_MAX / map_full(op.shape, worker.lanes))
		op.shape = one; /* or no count says so many */
	full = map_full(op.shape, worker.lanes);
	op.count = chunks ? chunks * full - draw(full) : 0;
	if (!draw(4))
		draw_parts(&op, stream);
	else if (!draw(4))
		op.parts = draw(PARTS_MAX + 1); /* of a sum: they take turns */
	else if (may_repeat && draw(2))
		draw_key(&op);
	record("%s %u %llu %llu %llu %u %u %llu %u %u %u", what, stream, (unsigned long long)hash,
	       (unsigned long long)op.count, (unsigned long long)cookie, op.lane_op, op.is_scaled,
	       (unsigned long long)op.key, op.is_guessed, op.shape.elements, op.shape.lanes);
	record_parts(&op);
	if (draw(4))
		record_also(" ;");
	else
		draw_wants(&op, stream);
	return op;
}

/* R-WK-17: calls have one order; a stream in which one waits does not hold up the other. */
static void call(enum map_stream stream)
{
	bool is_huge = steps_left < 40 && !draw(8); /* nothing completes behind it */
	uint64_t chunks = is_huge ? near_bound(4) + 1 : draw(4 * run + 2);

	called[stream] = drawn_op("call", stream, chunks, !is_huge);
	worker_place(&worker, &called[stream]);
}

static void submit(void)
{
	enum map_stream stream = (enum map_stream)draw(MAP_STREAMS);
	struct worker_op op;

	if (!called[stream].shape.lanes)
		call(stream);
	if (!worker_has_room(&worker, stream) || !draw(4))
		return;
	op = called[stream];
	called[stream] = (struct worker_op){ 0 };
	record("submit %u", stream);
	happens(&(struct worker_event){ .type = WORKER_SUBMIT, .op = &op });
}

static void start(uint32_t shard)
{
	enum map_stream stream = (enum map_stream)draw(MAP_STREAMS);
	uint32_t slot;

	if (!worker_may_start(&worker, shard, stream, &slot))
		return;
	record("start %u %u", shard, stream);
	happens(&(struct worker_event){ .type = WORKER_START, .shard = shard, .stream = stream });
}

/* One that waits, if there is one. */
static uint32_t drawn_slot(uint32_t shard)
{
	uint32_t at = draw(SLOTS);

	for (uint32_t i = 0; i < SLOTS; i++)
		if (slots[shard * SLOTS + (at + i) % SLOTS].state == WORKER_OUTSTANDING)
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
	return (uint16_t)(draw(4) ? draw(256) : draw(2) ? draw(65536) : WIRE_EXPONENT_UNKNOWN);
}

/* Of a GUESS: such that it fits, or nearly. */
static uint16_t drawn_answer(const struct worker_slot *slot)
{
	uint32_t own = draw(4) ? slot->scale + 2u - draw(7) : draw(256);

	if (wire_round_of(slot->flags) != WIRE_GUESS)
		return drawn_exponent();
	return wire_guess_field(own & 0xff, draw(2) ? WIRE_NEXT_UNKNOWN : draw(256));
}

static void packet(uint32_t shard)
{
	uint32_t index = drawn_slot(shard), kind = draw(10);
	const struct worker_slot *slot = &slots[shard * SLOTS + index];
	struct wire wire = { .type = (uint8_t)(kind < 7    ? WIRE_RESULT
					       : kind == 7 ? WIRE_HELD
					       : kind == 8 ? WIRE_NEED
							   : 1 + draw(9)),
			     .job = shards[shard].job,
			     .generation = shards[shard].generation,
			     .seq = slot->seq,
			     .slot = (uint16_t)index,
			     .child = (uint16_t)draw(65536) };

	if (wire.type == WIRE_RESULT) {
		wire.flags = (uint8_t)(slot->flags | (draw(6) ? 0 : draw(8) * 0x20u));
		wire.lanes = draw(slot->is_bare ? 2 : 12) ? slot->lanes : 0;
		if (slot->sent < slot->lanes && wire.lanes && draw(2))
			wire.lanes = (uint16_t)(slot->sent / 4 +
						draw((slot->lanes - slot->sent) / 4u + 1)) *
				     4;
		wire.tag = slot->tag;
		wire.exponent = drawn_answer(slot);
	} else if (wire.type == WIRE_NEED && draw(2)) {
		wire.flags = WIRE_HINT;
	}
	if (!draw(4))
		spoil(&wire);
	record("comes %u ;", shard);
	record_fields(&wire, header_fields);
	happens(&(struct worker_event){ .type = WORKER_PACKET, .shard = shard, .packet = &wire });
}

static void probe(uint32_t shard)
{
	uint32_t index = drawn_slot(shard), attempt = rng_u32(&rng) | 1;

	if (slots[shard * SLOTS + index].state != WORKER_OUTSTANDING)
		return;
	record("probe %u %u %u", shard, index, attempt);
	happens(&(struct worker_event){
		.type = WORKER_PROBE, .shard = shard, .slot = index, .attempt = attempt });
}

static void step(void)
{
	uint32_t shard = draw(worker.map.shards), what = draw(20);

	if (what < 2)
		submit();
	else if (what < 9)
		start(shard);
	else if (what < 18)
		packet(shard);
	else
		probe(shard);
}

/* ---- the model ---- */

/* As after so many chunks and operations, the last of which is on its way. */
static void begin_late(enum map_stream which)
{
	struct worker_stream *stream = &worker.stream[which];
	uint32_t stays = which == MAP_BULK ? run : 1; /* so many chunks stay together */
	uint64_t unit = (uint64_t)worker.map.shards * stays, before, op;
	uint64_t groups = near_bound(3 * stays) / (draw(2) ? unit : stays);
	uint64_t chunks = groups * unit, more = 1 + draw(6);
	struct worker_op under_way;

	before = draw(2) ? chunks : near_bound(3);
	before = before < chunks ? before : chunks;
	op = near_bound(3);
	under_way = drawn_op("late", which, before + more, false);
	record_also(" ; %llu %llu %llu", (unsigned long long)(chunks - before),
		    (unsigned long long)before, (unsigned long long)(groups * stays));
	stream->head = op;
	stream->tail = op + 1;
	stream->chunks = chunks + more;
	stream->ops[op % OPS_MAX] = (struct worker_op_state){
		.op = under_way,
		.first = chunks - before,
		.chunks = before + more,
		.done = before,
		.full = map_full(under_way.shape, worker.lanes),
	};
	for (uint32_t shard = 0; shard < worker.map.shards; shard++)
		worker.shards[shard].next[which] = groups * stays;
}

static void begin(uint32_t number)
{
	static const uint32_t lanes[] = { 4, 8, 360, WIRE_LANES_MAX };
	struct worker_memory memory = { .shards = shards,
					.slot = slots,
					.ops = { ops[0], ops[1] },
					.past = { .ops = past, .reach = REACH, .rows = ROWS } };
	uint32_t most;
	struct map map;

	for (uint32_t i = 0; i < MAP_STREAMS; i++)
		memory.rows[i] = (struct past_rows){ exponents[i], ROWS_SIZE };
	rng_init(&rng, 1, number);
	memset(called, 0, sizeof(called));
	run = 1 + draw(4);
	most = lanes[draw(4)];
	if (!map_init(&map, 1 + number % SHARDS, SLOTS, run))
		assert(0);
	worker_init(&worker, &map, SLOTS, most, OPS_MAX, &memory);
	record("worker %u %u %u", SLOTS, run, most);
	for (uint32_t shard = 0; shard < map.shards; shard++) {
		uint32_t generation = rng_u32(&rng), job = draw(65536), child = draw(65536);

		record_also(" ; %u %u %u", generation, job, child);
		shards[shard].generation = generation;
		shards[shard].job = (uint16_t)job;
		shards[shard].child = (uint16_t)child;
		for (uint32_t i = 0; i < SLOTS; i++) {
			uint32_t seq = (uint32_t)near_bound(3);

			record_also(" %u", seq);
			slots[shard * SLOTS + i].seq = seq;
		}
	}
	begin_late(MAP_EXPRESS);
	begin_late(MAP_BULK);
}

static void worker_record(const void *config_at)
{
	const struct walk_config *config = config_at;
	uint32_t walks = slow_is_asked() ? config->walks : 0;

	record("walk of a worker");
	for (uint32_t walk = 0; walk < walks && !record_is_over(); walk++) {
		record("walk %u", walk);
		begin(walk);
		for (steps_left = config->steps; steps_left-- && !record_is_over();)
			step();
	}
}

void worker_walk_model(struct bfs_model *model, const void *config_at)
{
	*model = (struct bfs_model){ .config = config_at, .record = worker_record };
}
