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
/* clang-format on */

static const struct search_row rows[] = {
	{ "sparse: n=1, W=1, 3 pushes, 3 generations", sparse_model, &sparse_one, 0 },
	{ "sparse: n=1, W=2, 4 pushes, 2 generations", sparse_model, &sparse_one_wide, 0 },
	{ "sparse: n=1, W=2, 4 pushes, 2 kept, 2 generations", sparse_model, &sparse_one_bound, 0 },
	{ "sparse: n=1, W=2, 3 pushes, 2 generations, a restart", sparse_model, &sparse_one_death,
	  0 },
	{ "sparse: n=2, W=1, 2 pushes, 2 generations", sparse_model, &sparse_two, 0 },
	{ "sparse: n=1, W=2, 4 pushes, 3 generations", sparse_model, &sparse_one_wide3,
	  SEARCH_LONG },
	{ "sparse: n=2, W=1, 2 pushes, 2 generations, rows apart", sparse_model, &sparse_two_rows,
	  SEARCH_LONG },
	{ "sparse: n=2, W=2, 2 pushes, 2 generations", sparse_model, &sparse_two_wide,
	  SEARCH_LONG },
	{ "sparse: n=2, W=1, 2 pushes, 3 generations", sparse_model, &sparse_two_three,
	  SEARCH_LONG },
	{ "sparse: n=1, W=2, 4 pushes, 3 generations, two restarts", sparse_model,
	  &sparse_one_deaths, SEARCH_LONG },
	{ "sparse: n=2, W=1, 2 pushes, 2 generations, a restart", sparse_model, &sparse_two_death,
	  SEARCH_LONG },
	{ "sparse: n=2, W=1, 3 pushes, 2 generations", sparse_model, &sparse_two_long,
	  SEARCH_LONG },
	{ "sparse: n=2, W=1, 4 pushes, 2 generations", sparse_model, &sparse_two_four,
	  SEARCH_LONG },
	{ "sparse: n=2, W=2, 3 pushes, 2 generations", sparse_model, &sparse_two_wide_long,
	  SEARCH_LONG },
};
const struct search_rows search_rows_sparse = { rows, sizeof(rows) / sizeof(rows[0]) };
