/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse.h - sparse mode as a model for bfs.h: the shipped switch_sparse.h, worker_sparse.c and
 * server_sparse.c around one table. What may happen at any time: a worker sends its next push; a packet
 * arrives; a switch flips; the server fences, writes a record to its disk, dies and reads its log. Every packet
 * ever sent may arrive any number of times, in any order, or never; so sending again is no move of its own, and
 * a switch that is dead is one that nothing arrives at. A switch that was fenced lives on, and sums.
 */
#ifndef SEARCH_SPARSE_H
#define SEARCH_SPARSE_H

#include "search/bfs.h"

enum {
	SPARSE_WORKERS = 2,
	SPARSE_PLACES = 4,      /* of all workers */
	SPARSE_PUSHES = 5,      /* of a worker; of all 8 */
	SPARSE_EPOCHS = 7,      /* some of them are left for the drain, and bits of a byte */
	SPARSE_GENERATIONS = 5, /* one of them is left for the drain */
	SPARSE_PENDING = 2,     /* records that are not on the disk */
};

struct sparse_config {
	uint32_t workers;     /* 1..SPARSE_WORKERS */
	uint32_t window;      /* W; workers * W at most SPARSE_PLACES */
	uint32_t pushes;      /* of each worker */
	uint32_t kept;        /* B, at least W */
	uint32_t epochs;      /* flips of a switch end an epoch up to this */
	uint32_t generations; /* fences: one less */
	uint32_t deaths;      /* of the server */
	uint32_t rows;        /* of a CUT: less than workers makes several */
};

void sparse_model(struct bfs_model *model, const void *config);

#endif
