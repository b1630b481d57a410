/* SPDX-License-Identifier: Apache-2.0 */
/* rows_data.c - data.h's rows: dense mode, one switch. */
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
	.has_windows = true,
};

static const struct data_config data_slots = {
	.workers = 2,
	.pool = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 16, true }, { 11, true } },
	.sticky = { 0x1, 0 },
	.has_windows = true,
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

static const struct data_config data_alone = {
	.workers = 1,
	.pool = 2,
	.generations = 1,
	.ops_count = 3,
	.ops = { { 16, true }, { 8, false }, { 3, true } },
	.sticky = { 0x5 },
	.has_windows = true,
};

static const struct data_config data_four = {
	.workers = 4,
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, true } },
};

static const struct data_config data_lives = {
	.workers = 2,
	.pool = 1,
	.generations = 3,
	.has_reboots = true,
	.ops_count = 1,
	.ops = { { 11, false } },
};

static const struct data_config data_streams = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 3,
	.ops = { { 8, true }, { 16, false }, { 8, false } },
	.express = 0x5,
	.has_windows = true,
};

static const struct data_config data_shards = {
	.workers = 2,
	.pool = 1,
	.shards = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 24, false }, { 3, false } },
	.has_windows = true,
};

static const struct data_config data_bits_2 = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 48, false } },
	.seq_bits = 2,
	.packet_life = 1,
};

static const struct data_config data_bits_2_old = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 48, false } },
	.seq_bits = 2,
	.packet_life = 2,
};

static const struct data_config data_bits_3 = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 88, false } },
	.seq_bits = 3,
	.packet_life = 5,
};

static const struct data_config data_bits_3_old = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 88, false } },
	.seq_bits = 3,
	.packet_life = 6,
};

static const struct data_config data_bits_4 = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 144, false } },
	.seq_bits = 4,
	.packet_life = 13,
};

static const struct data_config data_bits_4_old = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 1,
	.ops = { { 144, false } },
	.seq_bits = 4,
	.packet_life = 14,
};

static const struct data_config data_three_slots = {
	.workers = 3,
	.pool = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 24, false }, { 3, false } },
	.has_windows = true,
};

static const struct data_config data_three_exponents = {
	.workers = 3,
	.pool = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, true } },
	.sticky = { 0, 0x2 },
	.is_lean = true,
};

static const struct data_config data_four_rounds = {
	.workers = 4,
	.pool = 1,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 16, true }, { 3, true } },
	.sticky = { 0, 0, 0, 0x2 },
};

static const struct data_config data_four_slots = {
	.workers = 4,
	.pool = 2,
	.generations = 1,
	.ops_count = 2,
	.ops = { { 8, false }, { 3, false } },
	.is_lean = true,
};

static const struct data_config data_lives_rounds = {
	.workers = 2,
	.pool = 1,
	.generations = 3,
	.has_reboots = true,
	.ops_count = 2,
	.ops = { { 8, true }, { 3, true } },
};

static const struct data_config data_three_lives = {
	.workers = 3,
	.pool = 1,
	.generations = 3,
	.has_reboots = true,
	.ops_count = 1,
	.ops = { { 11, false } },
};

/* Operations without elements: their packets say of the next chunk what all others do. */
static const struct data_config data_empty = {
	.workers = 2,
	.pool = 1,
	.generations = 1,
	.ops_count = 4,
	.ops = { { 0, false }, { 8, true }, { 0, true }, { 3, true } },
};

static const struct data_config data_empty_slots = {
	.workers = 2,
	.pool = 2,
	.generations = 1,
	.ops_count = 3,
	.ops = { { 0, true }, { 0, false }, { 8, true } },
	.express = 0x1,
};

/* More operations than a worker keeps, in both streams. */
static const struct data_config data_ring = {
	.workers = 2,
	.pool = 1,
	.ring = 1,
	.generations = 1,
	.ops_count = 4,
	.ops = { { 8, false }, { 3, false }, { 8, true }, { 11, false } },
	.express = 0x2,
};

static const struct data_config data_ring_slots = {
	.workers = 1,
	.pool = 2,
	.ring = 2,
	.generations = 1,
	.ops_count = 4,
	.ops = { { 16, true }, { 3, false }, { 0, false }, { 27, true } },
	.sticky = { 0x2 },
};

/* Chunks that stay together. */
static const struct data_config data_runs = {
	.workers = 1,
	.pool = 2,
	.shards = 2,
	.run = 2,
	.generations = 1,
	.ops_count = 3,
	.ops = { { 40, false }, { 8, false }, { 11, false } },
};

static const struct data_config data_streams_shards = {
	.workers = 2,
	.pool = 1,
	.shards = 2,
	.generations = 1,
	.ops_count = 3,
	.ops = { { 8, false }, { 24, false }, { 8, false } },
	.express = 0x5,
	.has_windows = true,
};

static const struct search_row rows[] = {
	{ "data: n=2, 4 chunks, a partial last one, EXPONENT and DETAIL rounds, set", data_model,
	  &data_rounds, 0 },
	{ "data: n=2, 4 chunks in 2 slots, a partial last one, near the wrap, set", data_model,
	  &data_wrap, 0 },
	{ "data: n=2, 4 chunks in 2 slots, EXPONENT and DETAIL rounds, set", data_model,
	  &data_slots, 0 },
	{ "data: n=3, 2 chunks, EXPONENT and DETAIL rounds, set", data_model, &data_three, 0 },
	{ "data: n=2, 2 chunks, a restart, set", data_model, &data_restart, 0 },
	{ "data: n=2, 2 chunks, EXPONENT and DETAIL rounds, PROBE and NEED, fifo", data_model,
	  &data_fifo, 0 },
	{ "data: n=1, 4 chunks in 2 slots, EXPONENT and DETAIL rounds, set", data_model,
	  &data_alone, 0 },
	{ "data: n=4, 2 chunks, EXPONENT rounds, set", data_model, &data_four, 0 },
	{ "data: n=2, 2 chunks, two restarts, switches that forget, set", data_model, &data_lives,
	  0 },
	{ "data: n=2, operations without elements among others, set", data_model, &data_empty, 0 },
	{ "data: n=2, operations without elements in 2 slots and express, set", data_model,
	  &data_empty_slots, 0 },
	{ "data: n=2, more operations than are kept, express and bulk, set", data_model, &data_ring,
	  0 },
	{ "data: n=1, more operations than are kept, in 2 slots, set", data_model, &data_ring_slots,
	  0 },
	{ "data: n=1, runs of 2 chunks on 2 shards, set", data_model, &data_runs, 0 },
	{ "data: n=2, express and bulk, 2 chunks each, set", data_model, &data_streams, 0 },
	{ "data: n=2, 4 chunks on 2 shards, set", data_model, &data_shards, 0 },
	{ "data: n=2, 2-bit seq, packets live 1 round, 6 chunks, set", data_model, &data_bits_2,
	  0 },
	{ "data: n=2, 2-bit seq, packets live 2 rounds, 6 chunks, set", data_model,
	  &data_bits_2_old, SEARCH_CAUGHT },
	{ "data: n=2, 3-bit seq, packets live 5 rounds, 11 chunks, set", data_model, &data_bits_3,
	  0 },
	{ "data: n=2, 3-bit seq, packets live 6 rounds, 11 chunks, set", data_model,
	  &data_bits_3_old, SEARCH_CAUGHT },
	{ "data: n=2, 4-bit seq, packets live 13 rounds, 18 chunks, set", data_model, &data_bits_4,
	  SEARCH_LONG },
	{ "data: n=2, 4-bit seq, packets live 14 rounds, 18 chunks, set", data_model,
	  &data_bits_4_old, SEARCH_LONG | SEARCH_CAUGHT },
	{ "data: n=3, 4 chunks in 2 slots, set", data_model, &data_three_slots, SEARCH_LONG },
	{ "data: n=3, 2 chunks in 2 slots, EXPONENT and DETAIL rounds, lean set", data_model,
	  &data_three_exponents, SEARCH_LONG },
	{ "data: n=4, 3 chunks, EXPONENT and DETAIL rounds, set", data_model, &data_four_rounds,
	  SEARCH_LONG },
	{ "data: n=4, 2 chunks in 2 slots, lean set", data_model, &data_four_slots, SEARCH_LONG },
	{ "data: n=2, 2 chunks, EXPONENT rounds, two restarts, switches that forget, set",
	  data_model, &data_lives_rounds, SEARCH_LONG },
	{ "data: n=3, 2 chunks, two restarts, switches that forget, set", data_model,
	  &data_three_lives, SEARCH_LONG },
	{ "data: n=2, express and bulk on 2 shards, 2 and 3 chunks, set", data_model,
	  &data_streams_shards, SEARCH_LONG },
};
const struct search_rows search_rows_data = { rows, sizeof(rows) / sizeof(rows[0]) };
