/* SPDX-License-Identifier: Apache-2.0 */
/* rows_sparse.c - sparse.h's rows. */
#include "search/rows.h"

#include "search/sparse.h"

/* clang-format off */
static const struct sparse_config sparse_one = {
	.workers = 1, .window = 1, .pushes = 3, .kept = 3, .epochs = 3, .generations = 3,
	.rows = 1,
};
static const struct sparse_config sparse_one_wide = {
	.workers = 1, .window = 2, .pushes = 4, .kept = 4, .epochs = 3, .generations = 2,
	.rows = 1,
};
static const struct sparse_config sparse_one_bound = {
	.workers = 1, .window = 2, .pushes = 4, .kept = 2, .epochs = 2, .generations = 2,
	.rows = 1,
};
static const struct sparse_config sparse_one_death = {
	.workers = 1, .window = 2, .pushes = 3, .kept = 3, .epochs = 2, .generations = 2, .deaths = 1,
	.rows = 1,
};
static const struct sparse_config sparse_two = {
	.workers = 2, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 2,
	.rows = 2,
};
static const struct sparse_config sparse_one_wide3 = {
	.workers = 1, .window = 2, .pushes = 4, .kept = 4, .epochs = 3, .generations = 3,
	.rows = 1,
};
static const struct sparse_config sparse_two_rows = {
	.workers = 2, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 2,
	.rows = 1,
};
static const struct sparse_config sparse_two_wide = {
	.workers = 2, .window = 2, .pushes = 2, .kept = 2, .epochs = 2, .generations = 2,
	.rows = 2,
};
static const struct sparse_config sparse_two_three = {
	.workers = 2, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 3,
	.rows = 2,
};
static const struct sparse_config sparse_one_deaths = {
	.workers = 1, .window = 2, .pushes = 4, .kept = 4, .epochs = 3, .generations = 3, .deaths = 2,
	.rows = 1,
};
static const struct sparse_config sparse_two_death = {
	.workers = 2, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 2, .deaths = 1,
	.rows = 2,
};
static const struct sparse_config sparse_two_long = {
	.workers = 2, .window = 1, .pushes = 3, .kept = 3, .epochs = 2, .generations = 2, .rows = 2,
};
static const struct sparse_config sparse_two_wide_long = {
	.workers = 2, .window = 2, .pushes = 3, .kept = 3, .epochs = 2, .generations = 2, .rows = 2,
};
static const struct sparse_config sparse_two_four = {
	.workers = 2, .window = 1, .pushes = 4, .kept = 4, .epochs = 2, .generations = 2, .rows = 2,
};
static const struct sparse_config sparse_fat = {
	.workers = 1, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 2, .rows = 1,
	.is_fat = true,
};
static const struct sparse_config sparse_fat_wide = {
	.workers = 1, .window = 2, .pushes = 2, .kept = 2, .epochs = 1, .generations = 2, .rows = 1,
	.is_fat = true,
};
static const struct sparse_config sparse_fat_two = {
	.workers = 2, .window = 1, .pushes = 1, .kept = 1, .epochs = 1, .generations = 2, .rows = 2,
	.is_fat = true,
};
static const struct sparse_config sparse_fat_three = {
	.workers = 1, .window = 1, .pushes = 2, .kept = 2, .epochs = 1, .generations = 3, .rows = 1,
	.is_fat = true,
};
static const struct sparse_config sparse_fat_long = {
	.workers = 1, .window = 1, .pushes = 3, .kept = 3, .epochs = 2, .generations = 2, .rows = 1,
	.is_fat = true,
};
static const struct sparse_config sparse_lives = {
	.workers = 1, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 2, .lives = 2,
	.rows = 1,
};
static const struct sparse_config sparse_lives_wide = {
	.workers = 1, .window = 2, .pushes = 3, .kept = 3, .epochs = 2, .generations = 2, .lives = 2,
	.deaths = 1, .rows = 1,
};
static const struct sparse_config sparse_lives_two = {
	.workers = 2, .window = 1, .pushes = 1, .kept = 1, .epochs = 2, .generations = 2, .lives = 2,
	.rows = 2,
};
static const struct sparse_config sparse_cold = {
	.workers = 1, .window = 1, .pushes = 1, .kept = 1, .epochs = 1, .generations = 2, .lives = 2,
	.deaths = 1, .batches = 2, .rows = 1,
};
static const struct sparse_config sparse_reset = {
	.workers = 1, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 2, .resets = 1,
	.rows = 1,
};
static const struct sparse_config sparse_steps = {
	.workers = 2, .window = 1, .pushes = 2, .kept = 1, .epochs = 2, .generations = 2, .step = 1,
	.rows = 2,
};
static const struct sparse_config sparse_steps_wide = {
	.workers = 1, .window = 2, .pushes = 4, .kept = 2, .epochs = 2, .generations = 2, .step = 2,
	.rows = 1,
};
static const struct sparse_config sparse_steps_fat = {
	.workers = 1, .window = 1, .pushes = 2, .kept = 1, .epochs = 2, .generations = 2, .step = 1,
	.rows = 1, .is_fat = true,
};
static const struct sparse_config sparse_steps_three = {
	.workers = 2, .window = 2, .pushes = 2, .kept = 2, .epochs = 2, .generations = 3, .step = 2,
	.deaths = 1, .rows = 2,
};
static const struct sparse_config sparse_map = {
	.workers = 1, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 2, .rows = 1,
	.is_remapped = true,
};
static const struct sparse_config sparse_map_long = {
	.workers = 1, .window = 2, .pushes = 3, .kept = 3, .epochs = 2, .generations = 3, .deaths = 1,
	.rows = 1, .is_remapped = true,
};
static const struct sparse_config sparse_one_four = {
	.workers = 1, .window = 1, .pushes = 4, .kept = 4, .epochs = 3, .generations = 3, .rows = 1,
};
static const struct sparse_config sparse_one_alone = {
	.workers = 1, .window = 2, .pushes = 4, .kept = 4, .epochs = 3, .generations = 1, .rows = 1,
};
static const struct sparse_config sparse_two_alone = {
	.workers = 2, .window = 2, .pushes = 2, .kept = 2, .epochs = 2, .generations = 1, .rows = 2,
};
static const struct sparse_config sparse_two_wide3 = {
	.workers = 2, .window = 2, .pushes = 2, .kept = 2, .epochs = 2, .generations = 3, .rows = 2,
};
static const struct sparse_config sparse_two_long3 = {
	.workers = 2, .window = 1, .pushes = 3, .kept = 3, .epochs = 2, .generations = 3, .rows = 2,
};
static const struct sparse_config sparse_two_four3 = {
	.workers = 2, .window = 1, .pushes = 4, .kept = 4, .epochs = 2, .generations = 3, .rows = 2,
};
static const struct sparse_config sparse_two_wide_long3 = {
	.workers = 2, .window = 2, .pushes = 3, .kept = 3, .epochs = 2, .generations = 3, .rows = 2,
};
static const struct sparse_config sparse_two_wide_four = {
	.workers = 2, .window = 2, .pushes = 4, .kept = 4, .epochs = 2, .generations = 2, .rows = 2,
};
static const struct sparse_config sparse_two_wide_four3 = {
	.workers = 2, .window = 2, .pushes = 4, .kept = 4, .epochs = 2, .generations = 3, .rows = 2,
};
static const struct sparse_config sparse_fat_two_long = {
	.workers = 2, .window = 1, .pushes = 2, .kept = 2, .epochs = 1, .generations = 2, .rows = 2,
	.is_fat = true,
};
static const struct sparse_config sparse_lives_long = {
	.workers = 2, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 3, .lives = 2,
	.rows = 2,
};
static const struct sparse_config sparse_cold_long = {
	.workers = 1, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 3, .lives = 2,
	.deaths = 1, .batches = 2, .rows = 1,
};
static const struct sparse_config sparse_strange_one = {
	.workers = 1, .window = 1, .pushes = 2, .kept = 2, .epochs = 2, .generations = 3, .rows = 1,
	.is_told = true, .has_stranger = true,
};
static const struct sparse_config sparse_strange_two = {
	.workers = 2, .window = 1, .pushes = 1, .kept = 1, .epochs = 1, .generations = 2, .rows = 1,
	.is_told = true, .has_stranger = true,
};
static const struct sparse_config sparse_strange_death = {
	.workers = 1, .window = 2, .pushes = 2, .kept = 2, .epochs = 1, .generations = 2, .deaths = 1,
	.rows = 1, .is_told = true, .has_stranger = true,
};
static const struct sparse_config sparse_strange_map = {
	.workers = 1, .window = 1, .pushes = 1, .kept = 1, .epochs = 1, .generations = 3, .rows = 1,
	.is_told = true, .has_stranger = true, .is_remapped = true,
};
static const struct sparse_config sparse_strange_steps = {
	.workers = 1, .window = 1, .pushes = 2, .kept = 1, .epochs = 2, .generations = 2, .step = 1,
	.rows = 1, .is_told = true, .has_stranger = true,
};
/* clang-format on */

static const struct search_row rows[] = {
	{ "sparse: n=1, W=1, 3 pushes, 3 generations", sparse_model, &sparse_one, 0 },
	{ "sparse: n=1, W=2, 4 pushes, 2 generations", sparse_model, &sparse_one_wide, 0 },
	{ "sparse: n=1, W=2, 4 pushes, 2 kept, 2 generations", sparse_model, &sparse_one_bound, 0 },
	{ "sparse: n=1, W=2, 4 pushes, no fence", sparse_model, &sparse_one_alone, 0 },
	{ "sparse: n=1, W=2, 3 pushes, 2 generations, a restart", sparse_model, &sparse_one_death,
	  0 },
	{ "sparse: n=2, W=1, 2 pushes, 2 generations", sparse_model, &sparse_two, 0 },
	{ "sparse: n=2, W=2, 2 pushes, no fence", sparse_model, &sparse_two_alone, 0 },
	{ "sparse: n=1, W=1, 2 pushes, nothing is ever over", sparse_model, &sparse_fat, 0 },
	{ "sparse: n=1, W=2, 2 pushes, nothing is ever over", sparse_model, &sparse_fat_wide, 0 },
	{ "sparse: n=2, W=1, 1 push, nothing is ever over", sparse_model, &sparse_fat_two, 0 },
	{ "sparse: n=1, W=1, 2 pushes, two lives", sparse_model, &sparse_lives, 0 },
	{ "sparse: n=1, W=2, 3 pushes, two lives, a restart", sparse_model, &sparse_lives_wide, 0 },
	{ "sparse: n=2, W=1, 1 push, two lives", sparse_model, &sparse_lives_two, 0 },
	{ "sparse: n=1, 2 batches, two lives, a restart", sparse_model, &sparse_cold, 0 },
	{ "sparse: n=1, W=1, 2 pushes, a switch is started again", sparse_model, &sparse_reset, 0 },
	{ "sparse: n=2, W=1, 2 steps of 1 push", sparse_model, &sparse_steps, 0 },
	{ "sparse: n=1, W=2, 2 steps of 2 pushes", sparse_model, &sparse_steps_wide, 0 },
	{ "sparse: n=1, W=1, 2 steps of 1 push, nothing is ever over", sparse_model,
	  &sparse_steps_fat, 0 },
	{ "sparse: n=2, W=2, 1 step of 2 pushes, 3 generations, a restart", sparse_model,
	  &sparse_steps_three, 0 },
	{ "sparse: n=1, W=1, 2 pushes, another map", sparse_model, &sparse_map, 0 },
	{ "sparse: n=1, W=1, 2 pushes, 3 generations, a stranger", sparse_model,
	  &sparse_strange_one, 0 },
	{ "sparse: n=2, W=1, 1 push, a stranger", sparse_model, &sparse_strange_two, 0 },
	{ "sparse: n=1, W=2, 2 pushes, a restart, a stranger", sparse_model, &sparse_strange_death,
	  0 },
	{ "sparse: n=1, W=1, 1 push, another map, a stranger", sparse_model, &sparse_strange_map,
	  0 },
	{ "sparse: n=1, W=1, 2 steps of 1 push, a stranger", sparse_model, &sparse_strange_steps,
	  0 },
	{ "sparse: n=1, W=1, 4 pushes, 3 generations", sparse_model, &sparse_one_four, 0 },
	{ "sparse: n=1, W=2, 4 pushes, 3 generations", sparse_model, &sparse_one_wide3, 0 },
	{ "sparse: n=2, W=1, 2 pushes, 2 generations, rows apart", sparse_model, &sparse_two_rows,
	  0 },
	{ "sparse: n=2, W=2, 2 pushes, 2 generations", sparse_model, &sparse_two_wide, 0 },
	{ "sparse: n=2, W=1, 2 pushes, 3 generations", sparse_model, &sparse_two_three, 0 },
	{ "sparse: n=1, W=2, 4 pushes, 3 generations, two restarts", sparse_model,
	  &sparse_one_deaths, SEARCH_LONG },
	{ "sparse: n=2, W=1, 2 pushes, 2 generations, a restart", sparse_model, &sparse_two_death,
	  0 },
	{ "sparse: n=2, W=1, 3 pushes, 2 generations", sparse_model, &sparse_two_long, 0 },
	{ "sparse: n=2, W=1, 4 pushes, 2 generations", sparse_model, &sparse_two_four,
	  SEARCH_LONG },
	{ "sparse: n=2, W=2, 3 pushes, 2 generations", sparse_model, &sparse_two_wide_long,
	  SEARCH_LONG },
	{ "sparse: n=2, W=2, 2 pushes, 3 generations", sparse_model, &sparse_two_wide3,
	  SEARCH_LONG },
	{ "sparse: n=2, W=1, 3 pushes, 3 generations", sparse_model, &sparse_two_long3,
	  SEARCH_LONG },
	{ "sparse: n=2, W=1, 4 pushes, 3 generations", sparse_model, &sparse_two_four3,
	  SEARCH_LONG },
	{ "sparse: n=2, W=2, 3 pushes, 3 generations", sparse_model, &sparse_two_wide_long3,
	  SEARCH_LONG },
	{ "sparse: n=2, W=2, 4 pushes, 2 generations", sparse_model, &sparse_two_wide_four,
	  SEARCH_LONG },
	{ "sparse: n=2, W=2, 4 pushes, 3 generations", sparse_model, &sparse_two_wide_four3,
	  SEARCH_LONG },
	{ "sparse: n=1, W=1, 2 pushes, 3 generations, nothing is ever over", sparse_model,
	  &sparse_fat_three, SEARCH_LONG },
	{ "sparse: n=1, W=1, 3 pushes, nothing is ever over", sparse_model, &sparse_fat_long,
	  SEARCH_LONG },
	{ "sparse: n=2, W=1, 2 pushes, nothing is ever over", sparse_model, &sparse_fat_two_long,
	  SEARCH_LONG },
	{ "sparse: n=2, W=1, 2 pushes, 3 generations, two lives", sparse_model, &sparse_lives_long,
	  SEARCH_LONG },
	{ "sparse: n=1, 2 pushes, 2 batches, 3 generations, two lives, a restart", sparse_model,
	  &sparse_cold_long, SEARCH_LONG },
	{ "sparse: n=1, W=2, 3 pushes, 3 generations, another map, a restart", sparse_model,
	  &sparse_map_long, SEARCH_LONG },
};
const struct search_rows search_rows_sparse = { rows, sizeof(rows) / sizeof(rows[0]) };
