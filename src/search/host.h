/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - ranks that share memory as a model for bfs.h: the shipped core/host/wait.h, each access to the memory a move,
 * in every order. Ranks pass phases and wait for one another in each. A sleep is a futex's: it begins only if its bell
 * has not rung, and ends when it rings, or for no reason. There is no time-out: a bell that is not rung is a run that
 * comes to no end. At any time, where the row says so: a rank dies, and then another thread of each process ends what
 * it waits for; or a thread of rank 0 gives up for all.
 */
#ifndef SEARCH_HOST_H
#define SEARCH_HOST_H

#include "search/bfs.h"

enum { HOST_RANKS = 3 };

struct host_config {
	uint32_t ranks;  /* 2..HOST_RANKS */
	uint32_t phases; /* that each passes */
	uint32_t before; /* phases that have passed: their numbers wrap */
	bool has_death, has_abort;
	bool has_spurious; /* a sleep may end for no reason */
};

void host_model(struct bfs_model *model, const void *config);

#endif
