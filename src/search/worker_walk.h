/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_walk.h - core/dense/worker.c on walks that begin late: after so many chunks, operations and rounds that a
 * counter is just below 2^8, 2^15, 2^16, 2^31, 2^32 or 2^48. Both streams, 1 to 3 shards. What it does is recorded
 * (record.h), and tests/interop/replay_worker.py reads the rules again.
 */
#ifndef SEARCH_WORKER_WALK_H
#define SEARCH_WORKER_WALK_H

#include "search/bfs.h"

/* config: a struct walk_config. */
void worker_walk_model(struct bfs_model *model, const void *config);

#endif
