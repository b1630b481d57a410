/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c - see walk.h. */
#include "search/walk.h"

#include <string.h>

static const struct walk *walk;

/* What bfs.h knows of a state: a walk's begin is its step 1, and 0 is before them all. */
struct place {
	uint32_t number, step;
};

static void all_begin(struct bfs *bfs)
{
	for (uint32_t number = 0; number < walk->walks; number++) {
		struct place first = { number, 1 };

		walk->begin(number);
		if (bfs_is_telling(bfs))
			bfs_say(bfs, "walk %u", number);
		bfs_emit(bfs, &first, number, NULL);
	}
}

static void walk_expand(const void *config, const void *state, struct bfs *bfs)
{
	struct place at = *(const struct place *)state;
	uint32_t step;
	const char *wrong;

	(void)config;
	if (!at.step) {
		all_begin(bfs);
		return;
	}
	step = walk->resume(at.number);
	if (step != at.step) { /* a trace is told */
		walk->begin(at.number);
		step = 1;
	}
	for (; step < at.step; step++)
		walk->go_on(NULL);
	if (walk->is_over())
		return;
	wrong = walk->go_on(bfs);
	at.step++;
	bfs_emit(bfs, &at, 0, wrong);
}

static void walk_begin(const void *config, void *state)
{
	(void)config;
	memset(state, 0, sizeof(struct place));
}

static const char *walk_check(const void *config, const void *state)
{
	(void)config;
	(void)state;
	return NULL;
}

void walk_model(struct bfs_model *model, const void *config, const struct walk *the)
{
	walk = the;
	*model = (struct bfs_model){ .state_bytes = sizeof(struct place),
				     .config = config,
				     .init = walk_begin,
				     .expand = walk_expand,
				     .check = walk_check };
}
