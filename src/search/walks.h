/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walks.h - random walks: where there are too many states to see them all, a state has one next one, drawn at random,
 * and there are many walks. What happens in them, and what the shipped code says to it, is recorded (record.h), and
 * tests/interop/replay.py reads the rules again. A walk is found again by its number.
 */
#ifndef SEARCH_WALKS_H
#define SEARCH_WALKS_H

#include "search/bfs.h"

/* What most rows of walks say. */
struct walk_config {
	uint32_t walks, steps;
};

struct pace_walk_config {
	uint32_t shards, slots; /* slots: of a shard */
	uint32_t walks, steps;
	bool is_latency;
	bool is_following; /* R-WIN: windows of bulk pairs, until one is set */
};

/* core/job/admission.c: jobs of one name after one another, of 1 to 7 ranks. Whoever comes, speaks, goes or sleeps is
 * drawn at random, at any time. */
void admission_walk_model(struct bfs_model *model, const void *config);

/* core/job/crossed.c: a world of crossed_world.h each, of both kinds in turn. What a look finds must be what a slow
 * reading of the same views finds, and so in truth; what is so in truth must be found in time. */
void crossed_walk_model(struct bfs_model *model, const void *config);

/* core/job/member*.c: members one after another, each with times, texts and an aggregator of its own. What is said,
 * answered, called and asked is drawn at random, whether it fits or not, and the clock often goes right up to a bound. */
void member_walk_model(struct bfs_model *model, const void *config);

/* What core works out of its arguments alone: quant.c, map.c, hash.h, text.h and the shape of packets (wire.h). A seed
 * draws what the functions are called with, often at their bounds. config: how many, a uint32_t. */
void numbers_model(struct bfs_model *model, const void *config);

/* core/shared/lanes_float.c, quant_exact.h, wide.c, ieee.c: sums of floats that are exact, of 1 to 64 ranks. config: how many, a
 * uint32_t. */
void exact_model(struct bfs_model *model, const void *config);

/* core/dense/pace.c, or pace_latency.c. config: a struct pace_walk_config. */
void pace_walk_model(struct bfs_model *model, const void *config);

/* core/dense/worker.c, on walks that begin late: after so many chunks, operations and rounds that a counter is just
 * below 2^8, 2^15, 2^16, 2^31, 2^32 or 2^48. Both streams, 1 to 3 shards. */
void worker_walk_model(struct bfs_model *model, const void *config);

#endif
