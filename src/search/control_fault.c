/* SPDX-License-Identifier: Apache-2.0 */
/* control_fault.c - what may go wrong in control.h's model, and free choice; see control_expand.h. */
#include "search/control_expand.h"

#include <string.h>

static void expand_start(struct expansion *expansion, uint32_t s)
{
	uint32_t after = expansion->world->config->process[s].after;

	if (expansion->from->seat[s].status != NEW)
		return;
	if (after) {
		const struct seat *before = &expansion->from->seat[after - 1];

		if (before->status != DEAD && !seat_is_over(before))
			return;
	}
	begin(expansion, s);
	say_who(expansion, s);
	bfs_say(expansion->bfs, " is started");
	world_start(expansion->world, s);
	finish(expansion, BFS_MAY | MOVE_START, s, 0);
}

/* Is killed, or its host is; what it has sent last may be lost. */
static void expand_kill(struct expansion *expansion, uint32_t s, enum control_fault fault)
{
	const struct seat *seat = &expansion->from->seat[s];

	for (uint32_t loses = 0; loses <= (seat->up[0].type != 0); loses++) {
		struct seat *next = begin(expansion, s);

		say_who(expansion, s);
		bfs_say(expansion->bfs, fault == FAULT_KILL ? " is killed" : "'s host loses power");
		if (loses) {
			bfs_say(expansion->bfs, ", what it sent last is lost");
			memset(next->up, 0, sizeof(next->up));
		}
		seat_wipe(next);
		next->status = DEAD;
		next->is_bad = 1;
		next->near = CLOSED;
		next->is_vanished |= fault == FAULT_CUT;
		finish_fault(expansion, fault, s, loses);
	}
}

static void expand_process_faults(struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];
	struct world *world = expansion->world;
	struct seat *next;

	if (seat->status == STOPPED) {
		next = begin(expansion, s);
		say_who(expansion, s);
		bfs_say(expansion->bfs, " continues");
		next->status = ALIVE;
		world_member_wakes(world, s);
		finish(expansion, BFS_MAY | MOVE_CONTINUE, s, 0);
	}
	if (seat->near != OPEN || seat_is_over(seat))
		return;
	if (may(expansion, FAULT_KILL))
		expand_kill(expansion, s, FAULT_KILL);
	if (may(expansion, FAULT_CUT))
		expand_kill(expansion, s, FAULT_CUT);
	if (seat->status != ALIVE)
		return;
	if (may(expansion, FAULT_STOP)) {
		next = begin(expansion, s);
		say_who(expansion, s);
		bfs_say(expansion->bfs, " is stopped");
		next->status = STOPPED;
		next->is_bad = 1;
		finish_fault(expansion, FAULT_STOP, s, 0);
	}
	if (may(expansion, FAULT_ABORT)) {
		begin(expansion, s);
		say_who(expansion, s);
		bfs_say(expansion->bfs, "'s user aborts");
		world_member(world, s, (struct member_event){ .type = MEMBER_USER_ABORT });
		finish_fault(expansion, FAULT_ABORT, s, 0);
	}
	if (may(expansion, FAULT_BLOCK) && seat->member.state == MEMBER_HELLOING) {
		begin(expansion, s);
		say_who(expansion, s);
		bfs_say(expansion->bfs, " gets no WELCOME");
		world_member(world, s, (struct member_event){ .type = MEMBER_LATE });
		finish_fault(expansion, FAULT_BLOCK, s, 0);
	}
	if (may(expansion, FAULT_LATE))
		expand_member_late(expansion, s, false);
}

/* The daemon is killed, or its host; what it has said last may be lost. */
static void expand_aggregator_ends(struct expansion *expansion, enum control_fault fault)
{
	struct world *world = expansion->world;

	for (uint32_t loses = 0; loses < 2; loses++) {
		begin(expansion, 0);
		bfs_say(expansion->bfs, "the aggregator%s%s",
			fault == FAULT_AGG_KILL ? " is killed" : "'s host loses power",
			loses ? ", what it said last is lost" : "");
		world->state.is_guilty = 1;
		world_aggregator_ends(world);
		for (uint32_t s = 0; s < world->config->processes; s++) {
			struct seat *seat = &world->state.seat[s];

			if (expansion->from->seat[s].far == OPEN && fault == FAULT_AGG_CUT)
				seat->is_vanished = 1;
			if (loses)
				memset(seat->down, 0, sizeof(seat->down));
		}
		finish_fault(expansion, fault, 0, loses);
	}
}

static void expand_signals(struct expansion *expansion)
{
	struct world *world = expansion->world;

	if (may(expansion, FAULT_TERM)) {
		begin(expansion, 0);
		bfs_say(expansion->bfs, "SIGTERM to the aggregator");
		world->state.is_terminating = 1;
		world_aggregator(world, (struct admission_event){ .type = ADMISSION_TERMINATE });
		finish_fault(expansion, FAULT_TERM, 0, 0);
	}
	if (may(expansion, FAULT_LIMIT)) {
		begin(expansion, 0);
		bfs_say(expansion->bfs, "the aggregator is told to end at once");
		world->state.is_terminating = 1;
		world->state.is_guilty = 1;
		world_aggregator(world, (struct admission_event){ .type = ADMISSION_KILL });
		finish_fault(expansion, FAULT_LIMIT, 0, 0);
	}
	if (may(expansion, FAULT_AGG_STOP)) {
		begin(expansion, 0);
		bfs_say(expansion->bfs, "the aggregator is stopped");
		world->state.aggregator = HALTED;
		world->state.is_guilty = 1;
		finish_fault(expansion, FAULT_AGG_STOP, 0, 0);
	}
}

static void expand_aggregator_wakes(struct expansion *expansion)
{
	struct world *world = expansion->world;
	uint64_t now_ns = 10 * world->admission.heartbeat_ns;

	begin(expansion, 0);
	bfs_say(expansion->bfs, "the aggregator continues");
	world->state.aggregator = UP;
	world_admission(world)->progress_ns = now_ns;
	world_admission(world)->beat_ns = now_ns;
	world_aggregator(world,
			 (struct admission_event){ .type = ADMISSION_TICK, .now_ns = now_ns });
	if (world->blamed[0])
		world_fail(world, "PRECISION: the aggregator has slept and blames somebody");
	finish(expansion, BFS_MAY | MOVE_CONTINUE, CONTROL_PROCESSES, 0);
}

/* What was refused is forgotten. */
static void expand_forget(struct expansion *expansion)
{
	begin(expansion, 0);
	if (!world_refusal_passes(expansion->world))
		return;
	bfs_say(expansion->bfs, "5 s have passed since the refusal");
	finish(expansion, BFS_MAY | MOVE_FORGET, 0, 0);
}

static void expand_aggregator_faults(struct expansion *expansion)
{
	if (expansion->from->aggregator == HALTED) {
		expand_aggregator_wakes(expansion);
	} else if (expansion->from->aggregator == UP) {
		expand_signals(expansion);
		expand_forget(expansion);
		if (may(expansion, FAULT_LATE))
			expand_late(expansion, false);
	}
	if (expansion->from->aggregator != DOWN && may(expansion, FAULT_AGG_KILL))
		expand_aggregator_ends(expansion, FAULT_AGG_KILL);
	if (expansion->from->aggregator != DOWN && may(expansion, FAULT_AGG_CUT))
		expand_aggregator_ends(expansion, FAULT_AGG_CUT);
	if (expansion->from->aggregator == DOWN && may(expansion, FAULT_AGG_START)) {
		begin(expansion, 0);
		bfs_say(expansion->bfs, "the aggregator is started again");
		expansion->world->state.aggregator = UP;
		finish_fault(expansion, FAULT_AGG_START, 0, 0);
	}
}

void expand_faults(struct expansion *expansion)
{
	for (uint32_t s = 0; s < expansion->world->config->processes; s++) {
		expand_start(expansion, s);
		expand_process_faults(expansion, s);
	}
	expand_aggregator_faults(expansion);
}
