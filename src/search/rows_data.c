/* SPDX-License-Identifier: Apache-2.0 */
/* rows_data.c - data.h's rows: dense mode. */
#include "search/rows.h"

#include "search/data.h"

static const struct data_config data_rounds = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 3,
	.ops = { { 16, true }, { 8, false }, { 3, true } },
	.sticky = { 0x2, 0x8 },
};

static const struct data_config data_wrap = {
	.workers = 2,
	.pool = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 24, false }, { 3, false } },
	.first_seq = 0xfffffffe,
};

static const struct data_config data_slots = {
	.workers = 2,
	.pool = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 16, true }, { 11, true } },
	.sticky = { 0x1, 0 },
};

static const struct data_config data_three = {
	.workers = 3,
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, true } },
	.sticky = { 0, 0, 0x2 },
};

static const struct data_config data_restart = {
	.workers = 2,
	.pool = 1,
	.generations = 2,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, false } },
};

static const struct data_config data_fifo = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, false } },
	.sticky = { 0x1, 0 },
	.is_fifo = true,
	.first_seq = 0xfffffffe,
};

static const struct data_config data_tree_2_1 = {
	.workers = 3,
	.tree = { .nodes = 3, .worker = { 1, 1, 2 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, false } },
	.sticky = { 0, 0, 0x1 },
};

static const struct data_config data_tree_1_1 = {
	.workers = 2,
	.tree = { .nodes = 3, .worker = { 1, 2 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 3,
	.ops = { { 8, false }, { 3, true }, { 8, true } },
	.sticky = { 0x2, 0 },
};

static const struct data_config data_tree_2_2 = {
	.workers = 4,
	.tree = { .nodes = 3, .worker = { 1, 1, 2, 2 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, false }, { 3, false } },
};

static const struct data_config data_tree_3_1 = {
	.workers = 4,
	.tree = { .nodes = 3, .worker = { 1, 1, 1, 2 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, false }, { 3, false } },
};

static const struct data_config data_tree_mixed = {
	.workers = 3,
	.tree = { .nodes = 2, .worker = { 0, 1, 1 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, false } },
};

static const struct data_config data_tree_deep = {
	.workers = 2,
	.tree = { .nodes = 4, .parent = { 0, 0, 1, 0 }, .worker = { 2, 3 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, false } },
};

static const struct data_config data_tree_fifo = {
	.workers = 1,
	.tree = { .nodes = 2, .worker = { 1 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, false } },
	.is_fifo = true,
};

static const struct search_row rows[] = {
	{ "data: n=2, 4 chunks, a partial last one, EXPONENT and DETAIL rounds, set", data_model,
	  &data_rounds, false },
	{ "data: n=2, 4 chunks in 2 slots, a partial last one, near the wrap, set", data_model,
	  &data_wrap, false },
	{ "data: n=2, 4 chunks in 2 slots, EXPONENT and DETAIL rounds, set", data_model,
	  &data_slots, false },
	{ "data: n=3, 2 chunks, EXPONENT and DETAIL rounds, set", data_model, &data_three, false },
	{ "data: n=2, 2 chunks, a restart, set", data_model, &data_restart, false },
	{ "data: n=2, 2 chunks, EXPONENT and DETAIL rounds, PROBE and NEED, fifo", data_model,
	  &data_fifo, false },
	{ "data: tree 1+1, 3 chunks, EXPONENT and DETAIL rounds, set", data_model, &data_tree_1_1,
	  false },
	{ "data: tree 2+1, 2 chunks, EXPONENT and DETAIL rounds, set", data_model, &data_tree_2_1,
	  false },
	{ "data: tree 2+2, 2 chunks, set", data_model, &data_tree_2_2, false },
	{ "data: tree 3+1, 2 chunks, set", data_model, &data_tree_3_1, false },
	{ "data: a root of a worker and a node of 2, 2 chunks, set", data_model, &data_tree_mixed,
	  false },
	{ "data: three levels, n=2, 2 chunks, set", data_model, &data_tree_deep, false },
	{ "data: n=1 below a node below the root, 2 chunks, fifo", data_model, &data_tree_fifo,
	  false },
};
const struct search_rows search_rows_data = { rows, sizeof(rows) / sizeof(rows[0]) };
