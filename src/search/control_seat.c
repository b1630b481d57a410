/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_seat.c - processes with two seats in control.h's model, and jobs of a life: what src/lib makes of
 * several members, and src/server of several admissions. These rules are no part of the core: each function says
 * whose place it takes. See control_world.h.
 */
#include "search/control_world.h"

#include <string.h>

uint32_t seat_owner(const struct world *world, uint32_t s)
{
	return s % world->config->processes;
}

bool seat_is_second(const struct world *world, uint32_t s)
{
	return s >= world->config->processes;
}

static bool has_aggregators(const struct world *world)
{
	return world->config->second == SECOND_AGGREGATOR;
}

uint32_t seat_home(const struct world *world, uint32_t s)
{
	return has_aggregators(world) ? seat_owner(world, s) : s;
}

bool seat_is_beside(const struct world *world, uint32_t s, uint32_t other)
{
	return s != other && seat_home(world, s) == seat_home(world, other);
}

/* src/server, job_find: by name and life. */
uint32_t seat_job(const struct world *world, uint32_t s)
{
	uint8_t life = world->state.seat[seat_owner(world, s)].life;

	if (!seat_is_second(world, s))
		return 0;
	return life ? life : 1;
}

uint32_t job_aggregator(const struct world *world, uint32_t job)
{
	return job && has_aggregators(world);
}

uint32_t seat_aggregator(const struct world *world, uint32_t s)
{
	return seat_is_second(world, s) && has_aggregators(world);
}

bool seats_meet(const struct world *world, uint32_t s, uint32_t other)
{
	return seat_is_second(world, s) == seat_is_second(world, other) &&
	       world->state.seat[s].generation == world->state.seat[other].generation;
}

bool home_runs(const struct world *world, uint32_t s)
{
	for (uint32_t other = 0; other < world->seats; other++)
		if (seat_home(world, other) == s &&
		    world->state.seat[other].member.state != MEMBER_RUN)
			return false;
	return seat_home(world, s) == s;
}

/* ---- src/lib, membership.c and membership_do.c: R-CT-25 ---- */

static bool are_all_granted(const struct world *world, uint32_t s)
{
	for (uint32_t other = 0; other < world->seats; other++)
		if (seat_is_beside(world, s, other) && !world->state.seat[other].is_granted)
			return false;
	return true;
}

/* message_came, others_begin and all_granted: with the first's GRANT the others begin, and no machine gets its
 * GRANT before all are in. */
void seat_granted(struct world *world, uint32_t s, const struct control_message *message)
{
	struct seat *seat = &world->state.seat[s];
	struct member_event event = { .type = MEMBER_MESSAGE, .message = message };

	if (world->config->second != SECOND_NONE && !seat_is_second(world, s)) {
		seat->life = (uint8_t)message->grant.life;
		if (seat->life >= JOBS)
			world_fail(world, "MODEL: too many lives");
	}
	if (!has_aggregators(world)) {
		world_member(world, s, event);
		return;
	}
	seat->is_granted = 1;
	if (!seat_is_second(world, s))
		world_start(world, s + world->config->processes);
	if (!are_all_granted(world, s))
		return;
	for (uint32_t other = 0; other < world->seats; other++)
		if ((other == s || seat_is_beside(world, s, other)) &&
		    !seat_is_over(&world->state.seat[other]))
			world_member(world, other, event);
}

/* failed: the first that fails is the cause, here and, if they have not heard of it yet, at the others. */
void seat_failed(struct world *world, uint32_t s, enum control_cause cause, const char *text)
{
	for (uint32_t other = 0; other < world->seats; other++) {
		const struct seat *beside = &world->state.seat[other];

		if (seat_is_beside(world, s, other) && beside->status == ALIVE &&
		    !seat_is_over(beside))
			world_member(world, other,
				     (struct member_event){
					     .type = MEMBER_ERROR, .cause = cause, .text = text });
	}
}

/* ---- src/server, job.c and join.c: R-CT-21 ---- */

/* job_orphans: jobs that belong to the life that has just ended and do not run yet. */
void life_ended(struct world *world, uint8_t life, const char *text)
{
	uint32_t at = world->at;

	if (world->config->second != SECOND_COMMUNICATOR || at)
		return;
	world->state.ended_life = life;
	for (uint32_t job = 1; job < world->jobs; job++) {
		if (world->admission[job].life != life)
			continue;
		world_select(world, job);
		world_aggregator(world, (struct admission_event){ .type = ADMISSION_ORPHAN,
								  .text = text });
	}
	world_select(world, at);
}

/* peer_is_orphan: what its JOIN belongs to has ended badly. */
bool seat_is_orphan(const struct world *world, uint32_t s)
{
	uint8_t life = world->state.seat[seat_owner(world, s)].life;

	return world->config->second == SECOND_COMMUNICATOR && seat_is_second(world, s) && life &&
	       life == world->state.ended_life;
}

void seat_refuse_orphan(struct world *world, uint32_t s)
{
	struct seat *seat = &world->state.seat[s];

	if (seat->near == OPEN && !seat->is_vanished)
		notes_push(world, seat->down,
			   &(struct note){ .type = CONTROL_DENY,
					   .cause = CONTROL_REMOTE,
					   .rank = CONTROL_RANK_NONE });
	seat->far = SHUT;
	memset(seat->up, 0, sizeof(seat->up));
}
