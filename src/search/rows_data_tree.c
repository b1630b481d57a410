/* SPDX-License-Identifier: Apache-2.0 */
/* rows_data_tree.c - data.h's rows: dense mode, trees of switches. */
#include "search/rows.h"

#include "search/data.h"

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

static const struct data_config data_tree_lives = {
	.workers = 2,
	.tree = { .nodes = 3, .worker = { 1, 2 } },
	.pool = 1,
	.generations = 2,
	.has_reboots = true,
	.ops_count = 1,
	.ops = { { 8, false } },
};

static const struct data_config data_tree_shards = {
	.workers = 2,
	.tree = { .nodes = 3, .worker = { 1, 2 } },
	.pool = 1,
	.shards = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, false }, { 3, false } },
};

static const struct data_config data_tree_bits = {
	.workers = 2,
	.tree = { .nodes = 3, .worker = { 1, 2 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 48, false } },
	.seq_bits = 2,
	.packet_life = 1,
};

static const struct data_config data_tree_bits_old = {
	.workers = 2,
	.tree = { .nodes = 3, .worker = { 1, 2 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 48, false } },
	.seq_bits = 2,
	.packet_life = 2,
};

static const struct data_config data_tree_lives_rounds = {
	.workers = 2,
	.tree = { .nodes = 3, .worker = { 1, 2 } },
	.pool = 1,
	.generations = 2,
	.has_reboots = true,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, false } },
};

static const struct data_config data_tree_2_1_lives = {
	.workers = 3,
	.tree = { .nodes = 3, .worker = { 1, 1, 2 } },
	.pool = 1,
	.generations = 2,
	.has_reboots = true,
	.ops_count = 1,
	.ops = { { 8, false } },
	.is_lean = true,
};

static const struct data_config data_tree_slots = {
	.workers = 3,
	.tree = { .nodes = 3, .worker = { 1, 1, 2 } },
	.pool = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 16, false }, { 3, false } },
	.is_lean = true,
};

static const struct data_config data_tree_2_1_bits = {
	.workers = 3,
	.tree = { .nodes = 3, .worker = { 1, 1, 2 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 80, false } },
	.seq_bits = 3,
	.packet_life = 5,
};

static const struct data_config data_tree_2_2_rounds = {
	.workers = 4,
	.tree = { .nodes = 3, .worker = { 1, 1, 2, 2 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 16, true }, { 3, true } },
	.sticky = { 0, 0, 0x2 },
	.is_lean = true,
};

static const struct data_config data_tree_3_1_rounds = {
	.workers = 4,
	.tree = { .nodes = 3, .worker = { 1, 1, 1, 2 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 16, true }, { 3, true } },
	.sticky = { 0, 0, 0x2 },
	.is_lean = true,
};

static const struct data_config data_tree_mixed_rounds = {
	.workers = 3,
	.tree = { .nodes = 2, .worker = { 0, 1, 1 } },
	.pool = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 24, false }, { 3, false } },
};

static const struct data_config data_tree_fifo_two = {
	.workers = 2,
	.tree = { .nodes = 2, .worker = { 0, 1 } },
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 11, false } },
	.is_fifo = true,
};

static const struct search_row rows[] = {
	{ "data: tree 1+1, 3 chunks, EXPONENT and DETAIL rounds, set", data_model, &data_tree_1_1,
	  0 },
	{ "data: tree 2+1, 2 chunks, EXPONENT and DETAIL rounds, set", data_model, &data_tree_2_1,
	  0 },
	{ "data: tree 2+2, 2 chunks, set", data_model, &data_tree_2_2, 0 },
	{ "data: tree 3+1, 2 chunks, set", data_model, &data_tree_3_1, 0 },
	{ "data: a root of a worker and a node of 2, 2 chunks, set", data_model, &data_tree_mixed,
	  0 },
	{ "data: three levels, n=2, 2 chunks, EXPONENT rounds, set", data_model, &data_tree_deep,
	  0 },
	{ "data: n=1 below a node below the root, 2 chunks, fifo", data_model, &data_tree_fifo, 0 },
	{ "data: tree 1+1, 1 chunk, a restart, switches that forget, set", data_model,
	  &data_tree_lives, 0 },
	{ "data: tree 1+1, 2 chunks on 2 shards, set", data_model, &data_tree_shards, 0 },
	{ "data: tree 1+1, 2-bit seq, packets live 1 round, 6 chunks, set", data_model,
	  &data_tree_bits, 0 },
	{ "data: tree 1+1, 2-bit seq, packets live 2 rounds, 6 chunks, set", data_model,
	  &data_tree_bits_old, SEARCH_CAUGHT },
	{ "data: tree 1+1, 2 chunks, EXPONENT rounds, a restart, switches that forget, set",
	  data_model, &data_tree_lives_rounds, SEARCH_LONG },
	{ "data: tree 2+1, 1 chunk, a restart, switches that forget, lean set", data_model,
	  &data_tree_2_1_lives, SEARCH_LONG },
	{ "data: tree 2+1, 3 chunks in 2 slots, lean set", data_model, &data_tree_slots,
	  SEARCH_LONG },
	{ "data: tree 2+1, 3-bit seq, packets live 5 rounds, 10 chunks, set", data_model,
	  &data_tree_2_1_bits, SEARCH_LONG },
	{ "data: tree 2+2, 3 chunks, EXPONENT and DETAIL rounds, lean set", data_model,
	  &data_tree_2_2_rounds, SEARCH_LONG },
	{ "data: tree 3+1, 3 chunks, EXPONENT and DETAIL rounds, lean set", data_model,
	  &data_tree_3_1_rounds, SEARCH_LONG },
	{ "data: a root of a worker and a node of 2, 4 chunks in 2 slots, set", data_model,
	  &data_tree_mixed_rounds, SEARCH_LONG },
	{ "data: a root of a worker and a node of 1, 2 chunks, fifo", data_model,
	  &data_tree_fifo_two, SEARCH_LONG },
};
const struct search_rows search_rows_data_tree = { rows, sizeof(rows) / sizeof(rows[0]) };
