/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/wiring.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static uint32_t child_add(struct wiring *wiring, uint32_t engine, bool is_worker, uint32_t number)
{
	struct wiring_engine *at = &wiring->engine[engine];

	at->child[at->children].is_worker = is_worker;
	at->child[at->children].number = number;
	return at->children++;
}

static void shard_init(struct wiring *wiring, const struct scenario *scenario, uint32_t shard)
{
	const struct scenario_shard *config = &scenario->shard[shard];
	uint32_t first = wiring->engines;

	wiring->root[shard] = first;
	wiring->engines += config->engines;
	for (uint32_t e = 0; e < config->engines; e++) {
		struct wiring_engine *engine = &wiring->engine[first + e];

		engine->shard = shard;
		engine->root = first;
		engine->parent = WIRING_ENGINES_MAX;
		if (e == 0)
			continue;
		engine->parent = first + config->parent[e];
		engine->parent_child = child_add(wiring, engine->parent, false, first + e);
	}
	for (uint32_t w = 0; w < scenario->workers; w++) {
		uint32_t engine = first + config->engine_of[w];

		wiring->engine_of[shard][w] = engine;
		wiring->child_of[shard][w] = child_add(wiring, engine, true, w);
		for (; engine != WIRING_ENGINES_MAX; engine = wiring->engine[engine].parent)
			wiring->engine[engine].workers |= 1u << w;
	}
	for (uint32_t e = first; e < wiring->engines; e++)
		assert(wiring->engine[e].children >= 1);
}

void wiring_init(struct wiring *wiring, const struct scenario *scenario)
{
	memset(wiring, 0, sizeof(*wiring));
	wiring->workers = scenario->workers;
	wiring->shards = scenario->shards;
	for (uint32_t shard = 0; shard < scenario->shards; shard++)
		shard_init(wiring, scenario, shard);
}

void wiring_name(const struct wiring *wiring, uint32_t node, char name[16])
{
	if (wiring_is_worker(wiring, node)) {
		snprintf(name, 16, "w%u", node);
		return;
	}
	uint32_t engine = wiring_engine(wiring, node);
	if (engine >= wiring->engines) {
		snprintf(name, 16, "?");
		return;
	}
	uint32_t shard = wiring->engine[engine].shard;
	if (engine == wiring->root[shard])
		snprintf(name, 16, "s%u", shard);
	else
		snprintf(name, 16, "s%u.%u", shard, engine - wiring->root[shard]);
}
