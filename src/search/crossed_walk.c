/* SPDX-License-Identifier: Apache-2.0 */
/* crossed_walk.c - see walks.h. */
#include "search/walks.h"

#include <string.h>

#include "search/crossed_world.h"
#include "search/record.h"

enum { TICKS = 10 }; /* of a step */

/* Says what is wrong; false: the world is over. */
static bool step(void)
{
	const char *wrong = NULL;
	bool is_over = false;

	for (uint32_t i = 0; i < TICKS && !is_over && !wrong; i++)
		is_over = world_step(&wrong) != WORLD_GOES_ON;
	if (is_over && !wrong && world->kind == WORLD_IN_ORDER)
		wrong = "somebody is blamed, and all calls are in order";
	record("until %llu", (unsigned long long)world->now_ms);
	if (wrong)
		record("wrong %s", wrong);
	return !is_over;
}

static void crossed_record(const void *config_at)
{
	static struct world the_world;
	const struct walk_config *config = config_at;

	world = &the_world;
	record("walk of worlds");
	for (uint32_t walk = 0; walk < config->walks && !record_is_over(); walk++) {
		memset(world, 0, sizeof(*world));
		world_begin(walk % 2 ? WORLD_ANYHOW : WORLD_IN_ORDER, walk);
		record("walk %u", walk);
		for (uint32_t i = 0; i < config->steps && step() && !record_is_over(); i++)
			continue;
	}
}

void crossed_walk_model(struct bfs_model *model, const void *config_at)
{
	*model = (struct bfs_model){ .config = config_at, .record = crossed_record };
}
