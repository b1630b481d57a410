/* SPDX-License-Identifier: Apache-2.0 */
/* worker_fixture.h - a worker of one shard, for tests of its steps. */
#ifndef CORE_WORKER_FIXTURE_H
#define CORE_WORKER_FIXTURE_H

#include "core/dense/worker.h"

enum { SLOTS = 8, LANES = 8, OPS = 8, BULK = 4, GENERATION = 9, JOB = 3, CHILD = 1 };
enum { PAST = 8, ROWS = 8, ROW = 4 }; /* a row is as long as there are slots: of each stream 4 */

struct fixture {
	struct worker worker;
	struct worker_shard shard;
	struct worker_slot slots[SLOTS];
	struct worker_op_state ops[MAP_STREAMS][OPS];
	struct past_op past[PAST];
	uint8_t exponents[MAP_STREAMS][(ROWS + OPS) * ROW];
	struct worker_actions actions;
};

/* Sequence numbers start at `before` + 1. */
static inline struct fixture *fixture_new(uint32_t before)
{
	static struct fixture f;
	struct worker_memory memory = { .shards = &f.shard,
					.slot = f.slots,
					.ops = { f.ops[0], f.ops[1] },
					.past = { .ops = f.past, .reach = PAST, .rows = ROWS } };
	struct map map;

	memset(&f, 0, sizeof(f));
	for (uint32_t i = 0; i < MAP_STREAMS; i++)
		memory.rows[i] = (struct past_rows){ f.exponents[i], sizeof(f.exponents[i]) };
	assert_true(map_init(&map, 1, SLOTS, 1));
	worker_init(&f.worker, &map, SLOTS, LANES, OPS, &memory);
	f.shard.generation = GENERATION;
	f.shard.job = JOB;
	f.shard.child = CHILD;
	for (uint32_t i = 0; i < SLOTS; i++)
		f.slots[i].seq = before;
	return &f;
}

/* Its exponents are guessed if it has a key. */
static inline void submit_key(struct fixture *f, uint64_t count, uint64_t key, bool is_scaled,
			      uint64_t cookie)
{
	struct worker_op op = { .hash = 1000 + cookie,
				.count = count,
				.cookie = cookie,
				.shape = { 1, 1 },
				.stream = MAP_EXPRESS,
				.is_scaled = is_scaled,
				.key = key,
				.is_guessed = key && is_scaled };
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };

	worker_place(&f->worker, &op);
	worker_step(&f->worker, &event, &f->actions);
}

static inline void submit(struct fixture *f, uint64_t count, bool is_scaled, uint64_t cookie)
{
	submit_key(f, count, 0, is_scaled, cookie);
}

static inline struct wire start(struct fixture *f)
{
	struct worker_event event = { .type = WORKER_START, .stream = MAP_EXPRESS };

	worker_step(&f->worker, &event, &f->actions);
	assert_true(f->actions.build);
	return f->actions.header;
}

/* Submits an operation; says what begins then. */
static inline struct wire begin(struct fixture *f, uint64_t count, bool is_scaled, uint64_t cookie)
{
	submit(f, count, is_scaled, cookie);
	return start(f);
}

static inline void probe(struct fixture *f, uint32_t slot)
{
	struct worker_event event = { .type = WORKER_PROBE, .slot = slot, .attempt = 5 };

	worker_step(&f->worker, &event, &f->actions);
}

static inline void deliver(struct fixture *f, struct wire packet)
{
	struct worker_event event = { .type = WORKER_PACKET, .packet = &packet };

	worker_step(&f->worker, &event, &f->actions);
}

/* The RESULT that answers an UPDATE. */
static inline struct wire result_of(struct wire update, uint16_t exponent)
{
	update.type = WIRE_RESULT;
	update.exponent = exponent;
	return update;
}

static inline struct wire say(struct wire update, enum wire_type type, uint8_t flags)
{
	return (struct wire){ .type = (uint8_t)type,
			      .flags = flags,
			      .job = update.job,
			      .generation = update.generation,
			      .seq = update.seq,
			      .slot = update.slot,
			      .child = update.child };
}

#endif
