/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data.h - the data plane as a model for bfs.h: the shipped switch and worker around one switch, pace
 * replaced by free choice. What may happen at any time: a worker submits its next operation, starts its
 * next chunk, asks by PROBE; a packet arrives; a restart begins or reaches somebody.
 *
 * Networks: `set`: every packet ever sent may arrive any number of times, in any order, or never. FIFO:
 * one queue from and to each worker, which may lose and double its head.
 */
#ifndef SEARCH_DATA_H
#define SEARCH_DATA_H

#include "search/bfs.h"

enum { DATA_WORKERS = 3, DATA_POOL = 2, DATA_OPS = 4, DATA_CHUNKS = 8 };

struct data_op {
	uint32_t elements;
	bool is_scaled;
};

struct data_config {
	uint32_t workers;     /* 1..DATA_WORKERS */
	uint32_t pool;        /* slots, 1..DATA_POOL */
	uint32_t generations; /* lives: 1 is no restart */
	uint32_t ops_count;
	struct data_op ops[DATA_OPS];
	uint32_t sticky[DATA_WORKERS]; /* bit c: this worker's DATA of chunk c sets NONFINITE */
	bool is_fifo;
	uint32_t first_seq; /* seqs start after this one (and slots' phases at it): near the wrap */
};

/* The elements that a packet of the model carries. */
enum { DATA_LANES = 8 };

void data_model(struct bfs_model *model, const void *config);

#endif
