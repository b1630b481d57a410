/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace_walk.h - core/dense/pace.c, or pace_latency.c, on random walks: time makes too many states to see them all.
 * What happens, and what pace says after each step, is recorded (record.h).
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
