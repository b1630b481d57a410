/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_sparse_fixture.h - for tests: a server of sparse mode with a small table, and flushes for it. Included once in
 * a program.
 */
#ifndef CORE_SERVER_SPARSE_FIXTURE_H
#define CORE_SERVER_SPARSE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/server_sparse.h"

enum { RANKS = 3, WORKERS = 2, MAP = 9, INSTANCE = 77, PARTS_MAX = 8 };

/* Two CUTs of a row each, three FLUSHes of a rank each. */
static const struct sparse_table table = { .ranks = RANKS,
					   .index = 4,
					   .workers = WORKERS,
					   .window = 1,
					   .dim = 2,
					   .bytes = 60 };
static struct server_sparse server;
static struct server_sparse_actions actions;
static uint64_t cut[WORKERS], staged[WORKERS], tag[RANKS];
static int64_t sum[RANKS * 2];
static uint8_t has_part[PARTS_MAX];
static struct server_sparse_worker workers[WORKERS];
static const struct server_sparse_memory memory = { cut, staged, sum, tag, has_part, workers };

/* With so many fences before it and its own. */
static inline uint64_t generation_of(uint64_t fences)
{
	return fences ? fences << SPARSE_RANDOM_BITS | (0xfeed0000 + 77 * fences) : 0;
}

static inline void step(enum server_sparse_event_type type, uint16_t worker, uint64_t incarnation,
			uint64_t number)
{
	struct server_sparse_event event = { .type = type,
					     .worker = worker,
					     .map = MAP,
					     .random = generation_of(
						     1 + sparse_fences(server.generation)),
					     .incarnation = incarnation,
					     .number = number };

	server_sparse_step(&server, &event, &actions);
}

static inline void settle(void)
{
	step(SERVER_SPARSE_DURABLE, 0, 0, server.recorded);
}

/* Of what give_part gives. */
static uint16_t part_flags;
static uint32_t part_ranks[RANKS], parts; /* of FLUSHes, CUTs included */

static int begin(void **state)
{
	(void)state;
	assert_int_equal(sparse_flush_parts_max(&table), 5);
	part_flags = 0;
	part_ranks[0] = 2;
	part_ranks[1] = 0;
	parts = 4;
	server_sparse_init(&server, &table, MAP, &memory);
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	step(SERVER_SPARSE_INSTANCE, 0, 0, INSTANCE);
	settle();
	return 0;
}

/* Part 0 or 1: the row; else a rank, and each other of these is a short part. */
static inline void give_part(uint64_t generation, uint64_t epoch, uint32_t part, int64_t number)
{
	uint8_t at[60];
	struct sparse packet = { .kind = SPARSE_FLUSH,
				 .table = table.index,
				 .generation = generation_of(generation),
				 .number = epoch,
				 .part = part,
				 .parts = parts,
				 .width = 2,
				 .flags = part_flags };
	struct server_sparse_event event = { .type = SERVER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };

	if (part < 2) {
		packet.kind = SPARSE_CUT;
		packet.worker = (uint16_t)part;
		packet.count = packet.width = 1;
		sparse_body_put64(at + SPARSE_HEADER_BYTES, (uint64_t)number);
	} else {
		packet.count = 1;
		sparse_body_put32(at + SPARSE_HEADER_BYTES, part_ranks[part - 2]);
		if (part % 2 && number == (int32_t)number) {
			packet.kind = SPARSE_FLUSH_SHORT;
			sparse_body_put32(at + SPARSE_HEADER_BYTES + 4, (uint32_t)number);
			sparse_body_put32(at + SPARSE_HEADER_BYTES + 8, (uint32_t)-number);
		} else {
			sparse_body_put64(at + SPARSE_HEADER_BYTES + 4, (uint64_t)number);
			sparse_body_put64(at + SPARSE_HEADER_BYTES + 12, (uint64_t)-number);
		}
	}
	sparse_put(at, &packet);
	assert_int_equal(sparse_check(at, sparse_bytes(&packet), &packet), WIRE_OK);
	server_sparse_step(&server, &event, &actions);
}

/* All parts of an epoch: rows `row`, sums `number` of ranks 0 and 2. */
static inline void give_all(uint64_t generation, uint64_t epoch, uint64_t row, int64_t number)
{
	for (uint32_t part = 0; part < parts; part++)
		give_part(generation, epoch, part, part < 2 ? (int64_t)row : number);
}

#endif
