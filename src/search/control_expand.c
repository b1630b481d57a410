/* SPDX-License-Identifier: Apache-2.0 */
/* control_expand.c - how a move is made and told, in control.h's model; see control_expand.h. */
#include "search/control_expand.h"

#include <string.h>

static uint8_t packed[sizeof(struct state)];

struct seat *begin(struct expansion *expansion, uint32_t s)
{
	struct world *world = expansion->world;

	unpack(world, expansion->packed, &world->state);
	world->violation = NULL;
	world->blamed[0] = '\0';
	return &world->state.seat[s];
}

void finish(struct expansion *expansion, uint32_t move, uint32_t a, uint32_t b)
{
	struct world *world = expansion->world;
	bool is_same;

	pack(world, &world->state, packed);
	is_same = !memcmp(packed, expansion->packed, world->packed_bytes);
	if (bfs_is_telling(expansion->bfs) && world->blamed[0])
		bfs_say(expansion->bfs, ": \"%s\"", world->blamed);
	if (is_same && !world->violation) {
		bfs_forget(expansion->bfs);
		return;
	}
	move |= a << 16 | b << 8;
	expansion->moves += !(move & BFS_MAY);
	bfs_emit(expansion->bfs, packed, move, world->violation);
}

bool may(const struct expansion *expansion, enum control_fault fault)
{
	return expansion->from->left[fault] > 0;
}

void finish_fault(struct expansion *expansion, enum control_fault fault, uint32_t a, uint32_t b)
{
	expansion->world->state.left[fault]--;
	finish(expansion, BFS_MAY | (MOVE_FAULT + fault), a, b);
}

bool is_up(const struct expansion *expansion, uint32_t aggregator)
{
	return expansion->from->aggregator[aggregator] == UP;
}

void say_who(const struct expansion *expansion, uint32_t s)
{
	const struct world *world = expansion->world;

	if (!bfs_is_telling(expansion->bfs))
		return;
	bfs_say(expansion->bfs, "rank %u%s", world->process[s]->rank,
		world->process[s]->after ? "'" : "");
	if (seat_is_second(world, s))
		bfs_say(expansion->bfs, world->config->second == SECOND_AGGREGATOR
						? " at the second aggregator"
						: " in its second communicator");
}

void say_aggregator(const struct expansion *expansion, uint32_t aggregator)
{
	bfs_say(expansion->bfs, "the %saggregator", aggregator ? "second " : "");
}

struct seat *rank_begins(struct expansion *expansion, uint32_t s, const char *does)
{
	say_who(expansion, s);
	bfs_say(expansion->bfs, "%s", does);
	return begin(expansion, s);
}

void aggregator_begins(struct expansion *expansion, uint32_t aggregator, const char *does)
{
	say_aggregator(expansion, aggregator);
	bfs_say(expansion->bfs, "%s", does);
	begin(expansion, 0);
}
