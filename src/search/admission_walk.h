/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_walk.h - core/job/admission.c as a model for bfs.h, on walks: jobs of one name
 * after one another, of 1 to 7 ranks. Whoever comes, speaks, goes or sleeps is drawn at random, at any time;
 * all that happens and all that is done is recorded, for tests/interop/replay_admission.py.
 */
#ifndef SEARCH_ADMISSION_WALK_H
#define SEARCH_ADMISSION_WALK_H

#include "search/bfs.h"

/* config: a struct walk_config. */
void admission_walk_model(struct bfs_model *model, const void *config);

#endif
