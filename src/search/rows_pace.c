/* SPDX-License-Identifier: Apache-2.0 */
/* rows_pace.c - the rows of pace_walk.h, admission_walk.h, crossed_walk.h, member_walk.h, worker_walk.h and numbers.h. */
#include "search/admission_walk.h"
#include "search/crossed_walk.h"
#include "search/member_walk.h"
#include "search/numbers.h"
#include "search/pace_walk.h"
#include "search/rows.h"
#include "search/walk.h"
#include "search/worker_walk.h"

/* clang-format off */
static const struct pace_walk_config pace_one = {
	.shards = 1, .slots = 6, .walks = 100, .steps = 600,
};
static const struct pace_walk_config pace_shards = {
	.shards = 2, .slots = 44, .walks = 64, .steps = 1200,
};
static const struct pace_walk_config pace_many = {
	.shards = 1, .slots = 208, .walks = 16, .steps = 1500,
};
static const struct pace_walk_config pace_latency_mode = {
	.shards = 1, .slots = 80, .walks = 32, .steps = 800, .is_latency = true,
};
static const struct pace_walk_config pace_more = {
	.shards = 2, .slots = 44, .walks = 2000, .steps = 1200,
};
static const struct walk_config admission = { .walks = 360, .steps = 450 };
static const struct walk_config admission_more = { .walks = 6000, .steps = 1000 };
static const struct walk_config late = { .walks = 600, .steps = 500 };
static const struct walk_config member = { .walks = 200, .steps = 1000 };
static const struct walk_config member_more = { .walks = 4000, .steps = 1000 };
static const struct walk_config crossed = { .walks = 300, .steps = 400 };
static const struct walk_config crossed_more = { .walks = 20000, .steps = 400 };
static const uint32_t numbers = 5000, numbers_more = 1000000;
/* clang-format on */

static const struct search_row rows[] = {
	{ "pace: 1 shard, 6 slots, 100 walks", pace_walk_model, &pace_one, 0 },
	{ "pace: 2 shards, 44 slots, 64 walks", pace_walk_model, &pace_shards, 0 },
	{ "pace: 1 shard, 208 slots, 16 walks", pace_walk_model, &pace_many, 0 },
	{ "pace: latency mode, 80 slots, 32 walks", pace_walk_model, &pace_latency_mode, 0 },
	{ "pace: 2 shards, 44 slots, 2000 walks", pace_walk_model, &pace_more, SEARCH_LONG },
	{ "admission: 360 walks of 450 steps", admission_walk_model, &admission, 0 },
	{ "admission: 6000 walks of 1000 steps", admission_walk_model, &admission_more,
	  SEARCH_LONG },
	{ "worker: after 2^32 chunks, 600 walks", worker_walk_model, &late, 0 },
	{ "member: 200 walks of 1000 steps", member_walk_model, &member, 0 },
	{ "member: 4000 walks of 1000 steps", member_walk_model, &member_more, SEARCH_LONG },
	{ "crossed: 300 worlds of 40 s", crossed_walk_model, &crossed, 0 },
	{ "crossed: 20000 worlds of 40 s", crossed_walk_model, &crossed_more, SEARCH_LONG },
	{ "numbers: 5000 draws", numbers_model, &numbers, 0 },
	{ "numbers: 1000000 draws", numbers_model, &numbers_more, SEARCH_LONG },
};
const struct search_rows search_rows_pace = { rows, sizeof(rows) / sizeof(rows[0]) };
