/* SPDX-License-Identifier: Apache-2.0 */
/* control_seat.c - whose a seat is, and what is of the job that steps, in control.h's model; see control_world.h. */
#include "search/control_world.h"

#include <string.h>

void world_fail(struct world *world, const char *violation)
{
	if (!world->violation)
		world->violation = violation;
}

void world_select(struct world *world, uint32_t job)
{
	world->at = job;
}

/* ---- seats: src/lib has several members, src/server several admissions; no rule of core's says how ---- */

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

bool has_parts(const struct world *world)
{
	return world->config->second == SECOND_COMMUNICATOR || world->config->second == SECOND_PAIR;
}

/* src/server, peer_is_orphan */
bool seat_is_orphan(const struct world *world, uint32_t s)
{
	uint8_t life = world->state.seat[seat_owner(world, s)].life;

	return has_parts(world) && seat_is_second(world, s) && life &&
	       life == world->state.ended_life;
}

/* It calls nothing more, and is not in the pair any more, or never was. */
bool process_has_deserted(const struct world *world, uint32_t p)
{
	const struct seat *first = &world->state.seat[p];
	const struct seat *second = first + world->config->processes;

	return (first->member.state >= MEMBER_LEAVING || first->status == DEAD) &&
	       (second->status == NEW || second->status == DEAD || seat_is_over(second));
}

bool seat_is_deserted(const struct world *world, uint32_t s)
{
	for (uint32_t p = 0; p < world->config->processes; p++)
		if (p != seat_owner(world, s) && seats_meet(world, p, seat_owner(world, s)) &&
		    process_has_deserted(world, p))
			return world->config->second == SECOND_PAIR && seat_is_second(world, s);
	return false;
}

bool seat_is_over(const struct seat *seat)
{
	return seat->member.state == MEMBER_LEFT || seat->member.state == MEMBER_FAILED;
}

uint16_t seat_lanes(const struct world *world, uint32_t s)
{
	return (uint16_t)(LANES - 4 * world->process[s]->rank);
}

/* Only the data plane may still see what it has sent. */
void seat_wipe(struct seat *seat)
{
	memset(&seat->member, 0, sizeof(seat->member));
	memset(seat->down, 0, sizeof(seat->down));
	seat->still = 0;
	seat->results = 0;
	seat->has_stalled = 0;
	seat->hello = 0;
	seat->welcomes = 0;
}

/* ---- the job that world_select has named ---- */

struct admission *world_admission(struct world *world)
{
	return (struct admission *)(void *)world->state.job[world->at].admission;
}

struct admission_peer *world_peer(struct world *world, uint32_t i)
{
	struct admission *admission = world_admission(world);

	if (i < world->admission[world->at].members_max)
		return &admission_member(admission, i)->peer;
	/* The waiters follow the members. */
	return (struct admission_peer *)(void *)admission_member(
		       admission, world->admission[world->at].members_max) +
	       (i - world->admission[world->at].members_max);
}

uint32_t world_peers_count(const struct world *world)
{
	return (uint32_t)world->admission[world->at].members_max +
	       world->admission[world->at].waiters_max;
}

struct control_op *world_group(struct world *world, uint32_t i)
{
	return (struct control_op *)(void *)world_peer(world, world_peers_count(world)) + i;
}
