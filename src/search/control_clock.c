/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_clock.c - time in control.h's model: seconds, for R-CT-43 and R-CT-44, the second before START, and whose
 * time is over. See control_expand.h.
 */
#include "search/control_expand.h"

static void grow(uint8_t *age, uint32_t most)
{
	if (*age < most)
		(*age)++;
}

static void job_grows_older(struct world *world)
{
	struct job *job = &world->state.job[world->at];
	const struct admission *admission = world_admission(world);

	for (uint32_t rank = 0; rank < CONTROL_RANKS && rank < admission->size; rank++) {
		if (!admission_member(world_admission(world), rank)->is_still)
			continue;
		grow(&job->still_age[rank], STILL);
		grow(&job->said_age[rank], SAID);
	}
	if (admission->query == ADMISSION_QUIET)
		return;
	grow(&job->asked_age, ASKED);
	grow(&job->page_age, STILL);
}

/* R-CT-55, each second; here the last of them. */
static void seat_stalls(struct world *world, uint32_t s)
{
	struct seat *seat = &world->state.seat[s];
	uint32_t oldest = 0;

	while (seat->done >> oldest & 1)
		oldest++;
	if (seat->status != ALIVE || seat->member.state != MEMBER_RUN || oldest >= seat->submitted)
		return;
	grow(&seat->still, STILL);
	world_member(world, s,
		     (struct member_event){ .type = MEMBER_STALLED,
					    .number = oldest,
					    .still_ms = seat->still * STILL_SPAN_MS });
}

static void seconds_pass(struct world *world)
{
	for (uint32_t job = 0; job < world->jobs; job++) {
		world_select(world, job);
		job_grows_older(world);
		if (world->state.aggregator[job_aggregator(world, job)] == UP)
			world_aggregator(world, (struct admission_event){ .type = ADMISSION_TICK });
	}
	for (uint32_t s = 0; s < world->seats; s++)
		if (seat_home(world, s) == s)
			seat_stalls(world, s);
}

/* No word is on its way, no packet either: both need less than a second. */
static bool is_calm(const struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];
	const struct world *world = expansion->world;

	if (seat->up[0].type || (seat->near == CLOSED && seat->far != CLOSED) ||
	    (seat->near == OPEN && seat->far != OPEN))
		return false;
	if (seat->status != ALIVE || seat_is_over(seat))
		return true;
	if (seat->member.state != MEMBER_RUN || seat->down[0].type)
		return false;
	for (uint32_t op = 0; op < seat->submitted; op++)
		if (world_may_add(world, s, op) ||
		    (seat->results & ~(uint32_t)seat->done) >> op_chunk(world, s, op) & 1)
			return false;
	return true;
}

void expand_seconds(struct expansion *expansion)
{
	const struct world *world = expansion->world;
	bool is_wanted = may(expansion, FAULT_SECOND);

	begin(expansion, 0);
	for (uint32_t s = 0; s < world->seats && is_wanted; s++)
		is_wanted = is_calm(expansion, s);
	for (uint32_t k = 0; k < world->config->shards && is_wanted; k++)
		is_wanted = !expansion->from->job[0].shard[k].commands[0].type &&
			    !expansion->from->job[0].shard[k].acks[0].type;
	if (!world->config->has_clock || (expansion->moves && !is_wanted))
		return;
	bfs_say(expansion->bfs, "2 s pass");
	seconds_pass(expansion->world);
	if (expansion->moves)
		finish_fault(expansion, FAULT_SECOND, 0, 0);
	else
		finish(expansion, MOVE_SECOND, 0, 0);
}

/* R-CT-15: nobody else has come for a while, whatever that is beside all else that happens. */
void expand_hold(struct expansion *expansion, uint32_t job)
{
	begin(expansion, 0);
	world_select(expansion->world, job);
	if (!is_up(expansion, job_aggregator(expansion->world, job)) ||
	    !world_hold_passes(expansion->world))
		return;
	bfs_say(expansion->bfs, "nobody else has come for 1 s");
	finish(expansion, MOVE_HOLD, job, 0);
}

/* ---- somebody's time is over ---- */

/* It gathers for a life: who goes never comes again, and nobody may wait for it. */
static bool is_hopeless(const struct expansion *expansion, uint32_t job)
{
	const struct world *world = expansion->world;

	for (uint32_t s = 0; s < world->seats && world->config->life; s++)
		if (expansion->from->seat[s].has_joined && expansion->from->seat[s].far == CLOSED)
			return true;
	return job;
}

/* Everybody who is wanted is there, and willing: why did they not begin? (Who waits for a rank of a gathering
 * hears at once, or takes it.) */
static bool is_complete(const struct expansion *expansion, uint32_t job)
{
	struct world *world = expansion->world;
	uint32_t size = world_admission(world)->size, ranks = 0;

	for (uint32_t s = 0; s < world->seats; s++) {
		const struct seat *seat = &expansion->from->seat[s];

		if (seat_job(world, s) == job && seat->status == ALIVE &&
		    seat->member.state == MEMBER_JOINING && seat->near == OPEN &&
		    seat->far == OPEN && !seat->is_vanished && world->process[s]->size == size)
			ranks |= 1u << world->process[s]->rank;
	}
	return ranks == (1u << size) - 1;
}

void expand_late(struct expansion *expansion, uint32_t job, bool is_last_resort)
{
	struct world *world = expansion->world;
	uint32_t state;

	begin(expansion, 0);
	world_select(world, job);
	state = world_admission(world)->state;
	if (!is_up(expansion, job_aggregator(world, job)) || state < ADMISSION_GATHER ||
	    state > ADMISSION_ENABLING)
		return;
	bfs_say(expansion->bfs, "the time to gather is over");
	if (is_last_resort && (state != ADMISSION_GATHER || is_complete(expansion, job) ||
			       world_admission(world)->waiters_count ||
			       expansion->from->is_terminating[job_aggregator(world, job)] ||
			       is_hopeless(expansion, job)))
		world_fail(world, "LIVENESS: only the time to gather ends it");
	uint64_t now_ns = world_gathering_passes(world);
	world_aggregator(world,
			 (struct admission_event){ .type = ADMISSION_TICK, .now_ns = now_ns });
	if (is_last_resort)
		finish(expansion, MOVE_LATE, job, 0);
	else
		finish_fault(expansion, FAULT_LATE, SEATS + job, 0);
}

void expand_member_late(struct expansion *expansion, uint32_t s, bool is_last_resort)
{
	const struct seat *seat = &expansion->from->seat[s];
	uint32_t state = seat->member.state;

	if (seat->status != ALIVE || (state != MEMBER_JOINING && state != MEMBER_READY))
		return;
	rank_begins(expansion, s, " will not wait any longer");
	if (is_last_resort && is_up(expansion, seat_aggregator(expansion->world, s)))
		world_fail(expansion->world, "LIVENESS: only a member's patience ends it");
	world_member_late(expansion->world, s);
	if (is_last_resort)
		finish(expansion, MOVE_MEMBER_LATE, s, 0);
	else
		finish_fault(expansion, FAULT_LATE, s, 0);
}
