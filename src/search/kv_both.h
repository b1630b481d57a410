/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_both.h - both sides of a table of keys over TCP as a model for bfs.h: core/kv/worker_kv.h, one for each process of a
 * worker, against core/kv/server_kv.h and server_sparse.h. Connections break on either side, with what is under way; a
 * process is killed, and another one is its worker, maybe beside it; the server is killed, and has what its disk has. Time is
 * nobody's: what a timer does may happen at any moment.
 */
#ifndef SEARCH_KV_BOTH_H
#define SEARCH_KV_BOTH_H

#include "search/bfs.h"

struct kv_both_config {
	uint8_t processes; /* 1: worker 0; 2: and worker 1; 3: and another one that is worker 0 */
	uint8_t steps;     /* of each: batches, and a barrier */
	uint8_t batches;
	uint8_t kills;   /* of processes, */
	uint8_t losses;  /* of connections, */
	uint8_t crashes; /* of the server */
	bool is_sync;
};

void kv_both_model(struct bfs_model *model, const void *config);

#endif
