/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member_walk.h - core/job/member.c on walks: members one after another, each with times, texts and an aggregator of
 * its own. What is said, answered, called and asked is drawn at random, whether it fits or not, and the clock often
 * goes right up to a bound. What happens, and all that the member does, is recorded (record.h).
 */
#ifndef SEARCH_MEMBER_WALK_H
#define SEARCH_MEMBER_WALK_H

#include "search/bfs.h"

/* config: a struct walk_config. */
void member_walk_model(struct bfs_model *model, const void *config);

#endif
