/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wiring.h - who is whose child, and where each sits on the net: workers are nodes 0..n-1, the engines
 * of all shards follow, each shard's root first.
 */
#ifndef SIM_WIRING_H
#define SIM_WIRING_H

#include "sim/scenario.h"

enum {
	WIRING_ENGINES_MAX = SIM_SHARDS_MAX * SIM_ENGINES_MAX,
	WIRING_NODES_MAX = SIM_WORKERS_MAX + WIRING_ENGINES_MAX,
};

struct wiring_engine {
	uint32_t shard;
	uint32_t parent;       /* engine; WIRING_ENGINES_MAX: a root */
	uint32_t parent_child; /* its index there */
	uint32_t root;         /* engine */
	uint32_t workers;      /* below it: a bit each */
	uint32_t children;
	struct {
		bool is_worker;
		uint32_t number; /* worker or engine */
	} child[SIM_WORKERS_MAX + SIM_ENGINES_MAX];
};

struct wiring {
	uint32_t workers, shards, engines;
	struct wiring_engine engine[WIRING_ENGINES_MAX];
	uint32_t root[SIM_SHARDS_MAX];                       /* engine */
	uint32_t engine_of[SIM_SHARDS_MAX][SIM_WORKERS_MAX]; /* where a worker is a child */
	uint32_t child_of[SIM_SHARDS_MAX][SIM_WORKERS_MAX];  /* its index there */
};

void wiring_init(struct wiring *wiring, const struct scenario *scenario);

static inline uint32_t wiring_node(const struct wiring *wiring, uint32_t engine)
{
	return wiring->workers + engine;
}

static inline bool wiring_is_worker(const struct wiring *wiring, uint32_t node)
{
	return node < wiring->workers;
}

/* Of a node that is no worker. */
static inline uint32_t wiring_engine(const struct wiring *wiring, uint32_t node)
{
	return node - wiring->workers;
}

/* "w3", or "s0" for shard 0's root and "s0.2" for its second node. */
void wiring_name(const struct wiring *wiring, uint32_t node, char name[16]);

#endif
