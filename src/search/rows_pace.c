/* SPDX-License-Identifier: Apache-2.0 */
/* rows_pace.c - the rows of walks.h. */
#include "search/rows.h"
#include "search/walks.h"

/* clang-format off */
#define PACE(name, how, ...) \
	{ "pace: " name, pace_walk_model, &(const struct pace_walk_config){ __VA_ARGS__ }, how }
#define WALK(of, name, how, ...) \
	{ #of ": " name, of##_walk_model, &(const struct walk_config){ __VA_ARGS__ }, how }

static const struct search_row rows[] = {
	PACE("1 shard, 6 slots, 100 walks", 0, .shards = 1, .slots = 6, .walks = 100, .steps = 600),
	PACE("2 shards, 44 slots, 64 walks", 0, .shards = 2, .slots = 44, .walks = 64, .steps = 1200),
	PACE("windows that follow, 1 shard, 44 slots, 100 walks", 0,
		.shards = 1, .slots = 44, .walks = 100, .steps = 900, .is_following = true),
	PACE("windows that follow, 2 shards, 104 slots, 32 walks", 0,
		.shards = 2, .slots = 104, .walks = 32, .steps = 1500, .is_following = true),
	PACE("1 shard, 208 slots, 16 walks", 0, .shards = 1, .slots = 208, .walks = 16, .steps = 1500),
	PACE("latency mode, 80 slots, 32 walks", 0,
		.shards = 1, .slots = 80, .walks = 32, .steps = 800, .is_latency = true),
	PACE("2 shards, 44 slots, 2000 walks", SEARCH_LONG,
		.shards = 2, .slots = 44, .walks = 2000, .steps = 1200),
	PACE("windows that follow, 2 shards, 44 slots, 1000 walks", SEARCH_LONG,
		.shards = 2, .slots = 44, .walks = 1000, .steps = 1200, .is_following = true),
	WALK(admission, "360 walks of 450 steps", 0, .walks = 360, .steps = 450),
	WALK(admission, "6000 walks of 1000 steps", SEARCH_LONG, .walks = 6000, .steps = 1000),
	WALK(worker, "after 2^32 chunks, 400 walks", 0, .walks = 400, .steps = 500),
	WALK(member, "200 walks of 1000 steps", 0, .walks = 200, .steps = 1000),
	WALK(member, "4000 walks of 1000 steps", SEARCH_LONG, .walks = 4000, .steps = 1000),
	WALK(crossed, "300 worlds of 40 s", 0, .walks = 300, .steps = 400),
	WALK(crossed, "20000 worlds of 40 s", SEARCH_LONG, .walks = 20000, .steps = 400),
	{ "numbers: 5000 draws", numbers_model, &(const uint32_t){ 5000 }, 0 },
	{ "numbers: 1000000 draws", numbers_model, &(const uint32_t){ 1000000 }, SEARCH_LONG },
	{ "exact: 10000 sums", exact_model, &(const uint32_t){ 10000 }, 0 },
	{ "exact: 1000000 sums", exact_model, &(const uint32_t){ 1000000 }, SEARCH_LONG },
};
/* clang-format on */
const struct search_rows search_rows_pace = { rows, sizeof(rows) / sizeof(rows[0]) };
