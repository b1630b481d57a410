/* SPDX-License-Identifier: Apache-2.0 */
/* control_fault.c - what may go wrong in control.h's model, and free choice; see control_expand.h. */
#include "search/control_expand.h"

#include <string.h>

/* Killed, or with all of its seats at their ends. */
static bool has_ended(const struct expansion *expansion, uint32_t p)
{
	const struct world *world = expansion->world;

	for (uint32_t s = p; s < world->seats; s += world->config->processes) {
		const struct seat *seat = &expansion->from->seat[s];

		if (seat->status != DEAD && !seat_is_over(seat) && (s == p || seat->status != NEW))
			return false;
	}
	return true;
}

static void expand_start(struct expansion *expansion, uint32_t p)
{
	uint32_t after = expansion->world->config->process[p].after;

	if (expansion->from->seat[p].status != NEW || (after && !has_ended(expansion, after - 1)))
		return;
	rank_begins(expansion, p, " is started");
	world_start(expansion->world, p);
	finish(expansion, BFS_MAY | MOVE_START, p, 0);
}

static bool is_of(const struct expansion *expansion, uint32_t s, uint32_t p)
{
	return seat_owner(expansion->world, s) == p;
}

/* Is killed, or its host is; what it has sent last, bit s of `loses`: by seat s, may be lost. */
static void expand_kill(struct expansion *expansion, uint32_t p, enum control_fault fault)
{
	struct world *world = expansion->world;
	uint32_t may_lose = 0;

	for (uint32_t s = 0; s < world->seats; s++)
		may_lose |=
			(uint32_t)(is_of(expansion, s, p) && expansion->from->seat[s].up[0].type)
			<< s;
	/* All subsets of those that have sent something. */
	for (uint32_t loses = may_lose;; loses = (loses - 1) & may_lose) {
		rank_begins(expansion, p,
			    fault == FAULT_KILL ? " is killed" : "'s host loses power");
		if (loses)
			bfs_say(expansion->bfs, ", what it sent last is lost");
		for (uint32_t s = p; s < world->seats; s += world->config->processes) {
			struct seat *seat = &world->state.seat[s];

			if (loses >> s & 1)
				memset(seat->up, 0, sizeof(seat->up));
			seat_wipe(seat);
			seat->done = 0;
			seat->status = DEAD;
			seat->is_bad = 1;
			if (seat->near == OPEN)
				seat->near = CLOSED;
			seat->is_vanished |= fault == FAULT_CUT && seat->near != ABSENT;
		}
		finish_fault(expansion, fault, p, loses);
		if (!loses)
			return;
	}
}

/* Nothing of what it sends does any more what it should. */
static void expand_misfits(struct expansion *expansion, uint32_t s)
{
	struct world *world = expansion->world;
	struct seat *next;

	if (may(expansion, FAULT_MUTE)) {
		next = begin(expansion, s);
		bfs_say(expansion->bfs, "the network loses all packets of ");
		say_who(expansion, s);
		next->is_mute = 1;
		finish_fault(expansion, FAULT_MUTE, s, 0);
	}
	if (may(expansion, FAULT_MISFIT)) {
		next = rank_begins(expansion, s, " sends what no sound member sends");
		next->is_mute = next->is_bad = 1;
		world_select(world, seat_job(world, s));
		world_ack_push(world, 0,
			       (struct job_ack){ .type = ACK_MISFIT,
						 .rank = world->process[s]->rank });
		finish_fault(expansion, FAULT_MISFIT, s, 0);
	}
	if (may(expansion, FAULT_DUMB)) {
		next = rank_begins(expansion, s, " answers no QUERY any more");
		next->is_dumb = next->is_bad = 1;
		finish_fault(expansion, FAULT_DUMB, s, 0);
	}
}

/* What happens to a communicator. */
static void expand_seat_faults(struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];
	struct world *world = expansion->world;

	if (seat->near != OPEN || seat->status != ALIVE || seat_is_over(seat))
		return;
	if (may(expansion, FAULT_ABORT) && seat_home(world, s) == s) {
		rank_begins(expansion, s, "'s user aborts");
		for (uint32_t other = 0; other < world->seats; other++)
			if (seat_home(world, other) == s &&
			    world->state.seat[other].status == ALIVE &&
			    !seat_is_over(&world->state.seat[other]))
				world_member(world, other,
					     (struct member_event){ .type = MEMBER_USER_ABORT });
		finish_fault(expansion, FAULT_ABORT, s, 0);
	}
	if (may(expansion, FAULT_BLOCK) && seat->member.state == MEMBER_HELLOING) {
		rank_begins(expansion, s, " gets no WELCOME");
		world_member_unwelcome(world, s);
		finish_fault(expansion, FAULT_BLOCK, s, 0);
	}
	if (may(expansion, FAULT_LATE))
		expand_member_late(expansion, s, false);
	if (may(expansion, FAULT_UNHEARD) && seat->member.state == MEMBER_HELLOING) {
		rank_begins(expansion, s, " is not heard: HELLO again");
		world_member_unheard(world, s);
		finish_fault(expansion, FAULT_UNHEARD, s, 0);
	}
	if (seat->member.state == MEMBER_RUN && seat_home(world, s) == s && !seat->is_mute)
		expand_misfits(expansion, s);
}

static bool is_taking_part(const struct expansion *expansion, uint32_t p)
{
	const struct world *world = expansion->world;

	for (uint32_t s = p; s < world->seats; s += world->config->processes)
		if (expansion->from->seat[s].near == OPEN &&
		    !seat_is_over(&expansion->from->seat[s]))
			return true;
	return false;
}

static void expand_process_faults(struct expansion *expansion, uint32_t p)
{
	const struct seat *first = &expansion->from->seat[p];
	struct world *world = expansion->world;

	if (first->status == STOPPED) {
		rank_begins(expansion, p, " continues");
		for (uint32_t s = p; s < world->seats; s += world->config->processes) {
			if (world->state.seat[s].status != STOPPED)
				continue;
			world->state.seat[s].status = ALIVE;
			world_member_wakes(world, s);
		}
		finish(expansion, BFS_MAY | MOVE_CONTINUE, p, 0);
	}
	if (!is_taking_part(expansion, p))
		return;
	if (may(expansion, FAULT_KILL))
		expand_kill(expansion, p, FAULT_KILL);
	if (may(expansion, FAULT_CUT))
		expand_kill(expansion, p, FAULT_CUT);
	if (may(expansion, FAULT_STOP) && first->status == ALIVE) {
		rank_begins(expansion, p, " is stopped");
		for (uint32_t s = p; s < world->seats; s += world->config->processes) {
			if (world->state.seat[s].status == ALIVE)
				world->state.seat[s].status = STOPPED;
			world->state.seat[s].is_bad = 1;
		}
		finish_fault(expansion, FAULT_STOP, p, 0);
	}
}

/* The daemon is killed, or its host; what it has said last may be lost. */
static void expand_aggregator_ends(struct expansion *expansion, uint32_t aggregator,
				   enum control_fault fault)
{
	struct world *world = expansion->world;

	for (uint32_t loses = 0; loses < 2; loses++) {
		aggregator_begins(expansion, aggregator,
				  fault == FAULT_AGG_KILL ? " is killed" : "'s host loses power");
		if (loses)
			bfs_say(expansion->bfs, ", what it said last is lost");
		world->state.is_guilty[aggregator] = 1;
		world_aggregator_ends(world, aggregator);
		for (uint32_t s = 0; s < world->seats; s++) {
			struct seat *seat = &world->state.seat[s];

			if (seat_aggregator(world, s) != aggregator)
				continue;
			if (expansion->from->seat[s].far == OPEN && fault == FAULT_AGG_CUT)
				seat->is_vanished = 1;
			if (loses)
				memset(seat->down, 0, sizeof(seat->down));
		}
		finish_fault(expansion, fault, aggregator, loses);
	}
}

static void signal_to(struct expansion *expansion, uint32_t aggregator,
		      enum admission_event_type type)
{
	struct world *world = expansion->world;

	world->state.is_terminating[aggregator] = 1;
	for (uint32_t job = 0; job < world->jobs; job++) {
		if (job_aggregator(world, job) != aggregator)
			continue;
		world_select(world, job);
		world_aggregator(world, (struct admission_event){ .type = type });
	}
}

static void expand_signals(struct expansion *expansion, uint32_t aggregator)
{
	struct world *world = expansion->world;

	if (may(expansion, FAULT_TERM)) {
		begin(expansion, 0);
		bfs_say(expansion->bfs, "SIGTERM to ");
		say_aggregator(expansion, aggregator);
		signal_to(expansion, aggregator, ADMISSION_TERMINATE);
		finish_fault(expansion, FAULT_TERM, aggregator, 0);
	}
	if (may(expansion, FAULT_LIMIT)) {
		aggregator_begins(expansion, aggregator, " is told to end at once");
		world->state.is_guilty[aggregator] = 1;
		signal_to(expansion, aggregator, ADMISSION_KILL);
		finish_fault(expansion, FAULT_LIMIT, aggregator, 0);
	}
	if (may(expansion, FAULT_AGG_STOP)) {
		aggregator_begins(expansion, aggregator, " is stopped");
		world->state.aggregator[aggregator] = HALTED;
		world->state.is_guilty[aggregator] = 1;
		finish_fault(expansion, FAULT_AGG_STOP, aggregator, 0);
	}
}

static void expand_aggregator_wakes(struct expansion *expansion, uint32_t aggregator)
{
	struct world *world = expansion->world;
	uint64_t now_ns = 10 * world->admission[0].heartbeat_ns;

	aggregator_begins(expansion, aggregator, " continues");
	world->state.aggregator[aggregator] = UP;
	for (uint32_t job = 0; job < world->jobs; job++) {
		if (job_aggregator(world, job) != aggregator)
			continue;
		world_select(world, job);
		world_admission(world)->progress_ns = now_ns;
		world_admission(world)->beat_ns = now_ns;
		world_aggregator(world, (struct admission_event){ .type = ADMISSION_TICK,
								  .now_ns = now_ns });
		if (world->blamed[0])
			world_fail(world,
				   "PRECISION: the aggregator has slept and blames somebody");
	}
	finish(expansion, BFS_MAY | MOVE_CONTINUE, SEATS + aggregator, 0);
}

/* What was refused is forgotten. */
static void expand_forget(struct expansion *expansion, uint32_t job)
{
	begin(expansion, 0);
	world_select(expansion->world, job);
	if (!world_refusal_passes(expansion->world))
		return;
	bfs_say(expansion->bfs, "5 s have passed since the refusal");
	finish(expansion, BFS_MAY | MOVE_FORGET, job, 0);
}

static void expand_aggregator_faults(struct expansion *expansion, uint32_t aggregator)
{
	struct world *world = expansion->world;
	uint8_t status = expansion->from->aggregator[aggregator];

	if (status == HALTED)
		expand_aggregator_wakes(expansion, aggregator);
	if (status == UP)
		expand_signals(expansion, aggregator);
	for (uint32_t job = 0; job < world->jobs && status == UP; job++) {
		if (job_aggregator(world, job) != aggregator)
			continue;
		expand_forget(expansion, job);
		if (may(expansion, FAULT_LATE))
			expand_late(expansion, job, false);
	}
	if (status != DOWN && may(expansion, FAULT_AGG_KILL))
		expand_aggregator_ends(expansion, aggregator, FAULT_AGG_KILL);
	if (status != DOWN && may(expansion, FAULT_AGG_CUT))
		expand_aggregator_ends(expansion, aggregator, FAULT_AGG_CUT);
	if (status == DOWN && may(expansion, FAULT_AGG_START)) {
		aggregator_begins(expansion, aggregator, " is started again");
		world->state.aggregator[aggregator] = UP;
		finish_fault(expansion, FAULT_AGG_START, aggregator, 0);
	}
}

void expand_faults(struct expansion *expansion)
{
	for (uint32_t p = 0; p < expansion->world->config->processes; p++) {
		expand_start(expansion, p);
		expand_process_faults(expansion, p);
	}
	for (uint32_t s = 0; s < expansion->world->seats; s++)
		expand_seat_faults(expansion, s);
	for (uint32_t a = 0; a < expansion->world->aggregators; a++)
		expand_aggregator_faults(expansion, a);
}
