/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse.h - sparse mode as a model for bfs.h: the shipped switch_sparse.h, worker_sparse.c and
 * server_sparse.c around one table. What may happen at any time: a worker sends its next push, or a batch of cold
 * pairs; a packet arrives; a switch flips; the server fences, writes a record to its disk, dies and reads its log; a
 * worker dies and joins again; a switch's process is started again. Every packet ever sent may arrive any number of
 * times, in any order, or never; so sending again is no move of its own, and a switch that is dead is one that
 * nothing arrives at. A switch that was fenced lives on, and sums.
 */
#ifndef SEARCH_SPARSE_H
#define SEARCH_SPARSE_H

#include "search/bfs.h"

enum {
	SPARSE_WORKERS = 2,
	SPARSE_PLACES = 4,      /* of all workers */
	SPARSE_PUSHES = 8,      /* of a worker, in all its lives; of all 16 */
	SPARSE_EPOCHS = 7,      /* some of them are left for the drain, and bits of a byte */
	SPARSE_GENERATIONS = 5, /* two of them are left for the drain */
	SPARSE_PENDING = 2,     /* records that are not on the disk */
	SPARSE_LIVES = 2,       /* of a worker */
};

struct sparse_config {
	uint32_t workers;     /* 1..SPARSE_WORKERS */
	uint32_t window;      /* W; workers * W at most SPARSE_PLACES */
	uint32_t pushes;      /* of each life of a worker */
	uint32_t kept;        /* B, at least W; 0: as many as pushes */
	uint32_t epochs;      /* flips of a switch end an epoch up to this */
	uint32_t generations; /* fences, and lives of workers but the first: one less */
	uint32_t deaths;      /* of the server */
	uint32_t lives;       /* of each worker: 0 is 1 */
	uint32_t batches;     /* of cold pairs, of each life of a worker */
	uint32_t resets;      /* a switch's process is started again */
	uint32_t step;        /* pushes of a step of a stepped table; 0: it is none */
	uint32_t rows;        /* of a CUT: less than workers makes several; 0: as many */
	bool is_remapped;     /* from the second generation on rank 1 is cold */
	bool is_fat;          /* what the rules say can do nothing more arrives all the same */
	bool is_told; /* SWITCH comes by itself, later than RESUME or before it; else with it */
	bool has_stranger; /* whoever has guessed all but a generation's random bits says what he likes */
	bool is_named; /* of two workers it matters which is which */
};

void sparse_model(struct bfs_model *model, const void *config);

#endif
