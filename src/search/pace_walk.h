/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace_walk.h - core/dense/pace.c, or pace_latency.c, as a model for bfs.h. Time makes too many states to see them
 * all: so a state has one next one, drawn at random, and there are many walks. After each step everything
 * that pace says must be what slow_pace.h says.
 */
#ifndef SEARCH_PACE_WALK_H
#define SEARCH_PACE_WALK_H

#include "search/bfs.h"

struct pace_walk_config {
	uint32_t shards, slots; /* slots: of a shard */
	uint32_t walks, steps;
	bool is_latency;
};

void pace_walk_model(struct bfs_model *model, const void *config);

#endif
