/* SPDX-License-Identifier: Apache-2.0 */
/* crossed_walk.c - see crossed_walk.h. */
#include "search/crossed_walk.h"

#include "search/crossed_world.h"
#include "search/walk.h"

enum { TICKS = 10 }; /* of a step */

struct own {
	struct world world;
	bool is_over;
};

static void begin(void *at, uint32_t number)
{
	struct own *own = at;

	world = &own->world;
	world_begin(number % 2 ? WORLD_ANYHOW : WORLD_IN_ORDER, number);
}

static const char *step(void *at, struct bfs *bfs)
{
	struct own *own = at;
	const char *wrong = NULL;

	world = &own->world;
	for (uint32_t i = 0; i < TICKS && !own->is_over && !wrong; i++)
		own->is_over = world_step(&wrong) != WORLD_GOES_ON;
	if (own->is_over && !wrong && world->kind == WORLD_IN_ORDER)
		wrong = "somebody is blamed, and all calls are in order";
	bfs_say(bfs, "%llu ms", (unsigned long long)world->now_ms);
	return wrong;
}

static bool is_over(const void *own)
{
	return ((const struct own *)own)->is_over;
}

void crossed_walk_model(struct bfs_model *model, const void *config_at)
{
	const struct walk_config *config = config_at;

	walk_model(model, &(struct walk){ .walks = config->walks,
					  .steps = config->steps,
					  .own_bytes = sizeof(struct own),
					  .begin = begin,
					  .step = step,
					  .is_over = is_over });
}
