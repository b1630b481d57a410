/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crossed_walk.h - core/job/crossed.c as a model for bfs.h, on walks: a world of crossed_world.h each, of both kinds in
 * turn. What a look finds must be what a slow reading of the same views finds, and so in truth; what is so in truth
 * must be found in time.
 */
#ifndef SEARCH_CROSSED_WALK_H
#define SEARCH_CROSSED_WALK_H

#include "search/bfs.h"

/* config: a struct walk_config. */
void crossed_walk_model(struct bfs_model *model, const void *config);

#endif
