/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - random walks as a model for bfs.h: where there are too many states to see them all, a state has one
 * next one, drawn at random, and there are many walks. What a step breaks, the step says.
 */
#ifndef SEARCH_WALK_H
#define SEARCH_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "search/bfs.h"

/* What most rows of walks say. */
struct walk_config {
	uint32_t walks, steps;
};

/* own: all that one walk knows. It never moves, so it may point into itself; before begin it is all zeros. */
struct walk {
	uint32_t walks, steps;
	size_t own_bytes;
	void (*begin)(void *own, uint32_t number);
	const char *(*step)(void *own, struct bfs *bfs);
	bool (*is_over)(const void *own); /* before `steps` steps; NULL: never */
};

/* walk is copied. One model at a time: the next call ends its walks. */
void walk_model(struct bfs_model *model, const struct walk *walk);

#endif
