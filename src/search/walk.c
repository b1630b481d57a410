/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c - see walk.h. */
#include "search/walk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct walk walk;
static uint8_t *memory; /* of walk 0, walk 1, ... */

/* What bfs.h knows of a state: a walk's begin is its step 1, and 0 is before them all. It expands each state of
 * a walk once, in order, and tells a trace from 0 on: so the walk's memory is always where its state is. */
struct place {
	uint32_t number, step;
};

static void *own_of(uint32_t number)
{
	return memory + number * walk.own_bytes;
}

static void all_begin(struct bfs *bfs)
{
	memset(memory, 0, walk.walks * walk.own_bytes);
	for (uint32_t number = 0; number < walk.walks; number++) {
		struct place first = { number, 1 };

		walk.begin(own_of(number), number);
		bfs_say(bfs, "walk %u", number);
		bfs_emit(bfs, &first, number, NULL);
	}
}

static void walk_expand(const void *config, const void *state, struct bfs *bfs)
{
	struct place at = *(const struct place *)state;
	void *own = own_of(at.number);
	const char *wrong;

	(void)config;
	if (!at.step) {
		all_begin(bfs);
		return;
	}
	if (at.step > walk.steps || (walk.is_over && walk.is_over(own)))
		return;
	at.step++;
	wrong = walk.step(own, bfs);
	bfs_emit(bfs, &at, 0, wrong);
}

static void walk_init(const void *config, void *state)
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

void walk_model(struct bfs_model *model, const struct walk *the)
{
	walk = *the;
	free(memory);
	memory = calloc(walk.walks + 1u, walk.own_bytes); /* + 1: there may be none */
	assert(memory);
	*model = (struct bfs_model){ .state_bytes = sizeof(struct place),
				     .init = walk_init,
				     .expand = walk_expand,
				     .check = walk_check };
}
