/* SPDX-License-Identifier: Apache-2.0 */
/* worker_kv_fixture.h - for tests: one worker's table, whose servers and clock are the test. Included once in a program. */
#ifndef CORE_WORKER_KV_FIXTURE_H
#define CORE_WORKER_KV_FIXTURE_H

#include "core/kv/worker_kv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SERVERS = 3, DIM = 2, WINDOW = 4, NUMBER = 6 };
static const uint64_t ms_ns = 1000000, s_ns = 1000000000;
static const uint64_t GENERATION = 3ull << SPARSE_RANDOM_BITS | 1;

static struct worker_kv *kv;
static struct worker_kv_actions actions;
static uint64_t now_ns;
static uint8_t identity[16] = { 7 }, own[SERVERS][16] = { { 1 }, { 2 }, { 3 } };

/* What a server says to the first OPEN of all: no hot keys, no batches, no barriers. */
static inline struct worker_kv_message opened_of(uint32_t idx)
{
	return (struct worker_kv_message){
		.type = WORKER_KV_SAYS_OPENED,
		.table = NUMBER,
		.number = 1,
		.generation = GENERATION,
		.epoch = 1,
		.identity = identity,
		.own = own[idx],
		.shape = { .workers = 3, .window = WINDOW, .dim = DIM, .bytes = 1400 },
		.map = 0,
		.scale = 1,
		.server = (uint16_t)idx,
		.servers = kv->config.servers,
		.is_named = true,
		.is_stepped = kv->config.mode == WORKER_KV_SYNC,
		.is_made_as_first = true,
		.is_made_as_before = true,
		.is_known = kv->server[idx].was_open,
	};
}

static inline struct worker_kv_message hot_of(uint32_t idx, uint32_t map)
{
	struct worker_kv_message message = opened_of(idx);

	message.shape.ranks = 100;
	message.map = map;
	return message;
}

static inline uint32_t hear(uint32_t idx, struct worker_kv_message message)
{
	worker_kv_message(kv, idx, now_ns, &message, &actions);
	return actions.todo;
}

static inline uint32_t hear_of(uint32_t idx, enum worker_kv_type type, uint64_t number)
{
	return hear(idx,
		    (struct worker_kv_message){ .type = type, .table = NUMBER, .number = number });
}

static inline uint32_t wait(uint32_t idx, uint64_t ns)
{
	now_ns += ns;
	worker_kv_time(kv, idx, now_ns, &actions);
	return actions.todo;
}

static inline void state_is(uint32_t idx, enum worker_kv_state state)
{
	assert_int_equal(kv->server[idx].state, state);
}

static inline void begin(uint16_t servers, enum worker_kv_mode mode, uint32_t staleness)
{
	const struct worker_kv_config config = { .deadline_ns = 60 * s_ns,
						 .kept_packets = 8,
						 .staleness = staleness,
						 .servers = servers,
						 .dim = DIM,
						 .mode = mode };

	free(kv);
	kv = malloc(worker_kv_bytes(servers));
	assert_non_null(kv);
	now_ns = 1000 * s_ns;
	worker_kv_init(kv, &config, now_ns);
}

/* To OPENING, from IDLE. */
static inline void greet(uint32_t idx)
{
	uint64_t due_ns = worker_kv_wake_ns(kv, idx);
	uint8_t list[16];

	assert_int_equal(wait(idx, due_ns > now_ns ? due_ns - now_ns : 0), WORKER_KV_ATTEMPT);
	worker_kv_connected(&kv->server[idx]);
	worker_kv_said(&kv->server[idx], now_ns);
	assert_int_equal(hear(idx, (struct worker_kv_message){ .type = WORKER_KV_SAYS_WELCOME,
							       .version = 4,
							       .heartbeat_ms = 1000 }),
			 WORKER_KV_TAKE | WORKER_KV_SAY_OPEN);
	(void)worker_kv_open(kv, idx, list);
	state_is(idx, WORKER_KV_OPENING);
}

static inline void up(uint32_t idx)
{
	greet(idx);
	assert_true(hear(idx, opened_of(idx)) & WORKER_KV_AGAIN);
	state_is(idx, WORKER_KV_OPEN);
}

static inline void lose(uint32_t idx)
{
	worker_kv_lost(kv, idx, now_ns, WORKER_KV_ENDED, &actions);
	state_is(idx, WORKER_KV_IDLE);
}

static inline void fails(uint32_t idx, struct worker_kv_message message, enum worker_kv_fault fault)
{
	assert_int_equal(hear(idx, message), WORKER_KV_FAIL);
	assert_int_equal(actions.fault, fault);
	state_is(idx, WORKER_KV_BROKEN);
}

static inline uint32_t part(uint32_t map, uint32_t first, uint32_t count)
{
	return hear(0, (struct worker_kv_message){ .type = WORKER_KV_SAYS_MAP,
						   .table = NUMBER,
						   .map = map,
						   .shape = { .ranks = 100 },
						   .first = first,
						   .count = count });
}

static inline void map_is_whole(uint32_t map)
{
	assert_int_equal(part(map, 0, 100), WORKER_KV_NEW_MAP | WORKER_KV_TAKE);
	worker_kv_mapped(kv->server, map, &actions);
}

#endif
