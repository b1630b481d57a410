/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - random walks as a model for bfs.h: where there are too many states to see them all, a state has one
 * next one, drawn at random, and there are many walks. What a step breaks, the step says.
 */
#ifndef SEARCH_WALK_H
#define SEARCH_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "search/bfs.h"

struct walk {
	uint32_t walks;
	/* Makes this walk the one that steps, at its beginning: the next step is 1. */
	void (*begin)(uint32_t number);
	/* Makes it the one that steps, where it is. The number of its next step. */
	uint32_t (*resume)(uint32_t number);
	/* Of the one that steps. */
	bool (*is_over)(void);
	const char *(*go_on)(struct bfs *bfs); /* bfs is NULL: nothing is told */
};

/* walk stays the caller's, until the next call. */
void walk_model(struct bfs_model *model, const void *config, const struct walk *walk);

#endif
