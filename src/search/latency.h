/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.h - latency mode as a model for bfs.h: the shipped switch_latency.h, or p4/chip_latency.h, and worker_latency.c
 * around one switch, pace replaced by free choice. What may happen at any time: a worker sends its next
 * operation; a packet arrives; a restart begins or reaches somebody. Every packet ever sent may arrive any
 * number of times, in any order, or never; so sending again is no move of its own.
 */
#ifndef SEARCH_LATENCY_H
#define SEARCH_LATENCY_H

#include "search/bfs.h"

enum {
	LATENCY_WORKERS = 3,
	LATENCY_SLOTS = 4,
	LATENCY_OPS = 8,
	LATENCY_LIVES = 2,
};

struct latency_config {
	uint32_t workers;     /* 1..LATENCY_WORKERS */
	uint32_t slots;       /* S, 1..LATENCY_SLOTS */
	uint32_t window;      /* P, 1..S; the form follows */
	uint32_t ops;         /* 1..LATENCY_OPS */
	uint32_t generations; /* lives, 1..LATENCY_LIVES: 1 is no restart */
	uint32_t ring;        /* operations that a worker keeps, P..LATENCY_OPS; 0: all */
	bool is_chip;         /* p4/chip_latency.h in the place of the switch: R-CHIP-11 */
	uint64_t first; /* the number of the first operation, a multiple of S; with one life only */
};

void latency_model(struct bfs_model *model, const void *config);

#endif
