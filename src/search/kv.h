/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.h - the workers of a parameter server's table: core/kv/server_kv.h in every order of what they do and of what happens
 * to them, beside a second reading of R-KV-11 and R-KV-17 (core/kv/server_kv_model.h).
 */
#ifndef SEARCH_KV_H
#define SEARCH_KV_H

#include "search/bfs.h"

struct kv_config {
	uint16_t workers;
	uint16_t lives;    /* incarnations of the first worker, */
	uint16_t others;   /* and of each of the others */
	uint16_t barriers; /* the highest number */
	uint16_t ticks;    /* of 4 s */
	bool is_sync;
	bool has_losses;  /* connections are over a while before that is known */
	bool has_trouble; /* the disk may be in trouble for a moment */
};

void kv_model(struct bfs_model *model, const void *config);

#endif
