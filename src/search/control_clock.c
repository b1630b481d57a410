/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_clock.c - seconds in control.h's model, for R-CT-43 and R-CT-44: what admission's clocks say is kept
 * as ages, up to what makes a difference, so that there are few states; and the second before START. See
 * control_world.h.
 */
#include "search/control_expand.h"

#include <string.h>

enum {
	SAID = 2,  /* ages: a STALL this old is too old, */
	ASKED = 1, /* and a round this old too slow */
};
static const uint64_t span_ns = STILL_SPAN_MS * 1000000ull;

static uint8_t age_of(uint64_t now_ns, uint64_t then_ns, uint32_t most)
{
	uint64_t age = (now_ns - then_ns) / span_ns;

	return (uint8_t)(age < most ? age : most);
}

void clock_set(struct world *world, uint64_t now_ns)
{
	const struct job *job = &world->state.job[world->at];
	struct admission *admission = world_admission(world);

	for (uint32_t rank = 0; rank < CONTROL_RANKS && rank < admission->size; rank++) {
		struct admission_member *member = admission_member(admission, rank);

		if (!member->is_still)
			continue;
		member->still_ns = now_ns - job->still_age[rank] * span_ns;
		member->still_said_ns = now_ns - job->said_age[rank] * span_ns;
	}
	if (admission->query == ADMISSION_QUIET)
		return;
	admission->asked_ns = now_ns - job->asked_age * span_ns;
	admission->page_ns = now_ns - job->page_age * span_ns;
}

void clock_keep(struct world *world, uint64_t now_ns)
{
	struct job *job = &world->state.job[world->at];
	struct admission *admission = world_admission(world);

	memset(job->still_age, 0, sizeof(job->still_age));
	memset(job->said_age, 0, sizeof(job->said_age));
	job->asked_age = job->page_age = 0;
	for (uint32_t rank = 0; rank < CONTROL_RANKS && rank < admission->size; rank++) {
		struct admission_member *member = admission_member(admission, rank);

		if (member->is_still) {
			job->still_age[rank] = age_of(now_ns, member->still_ns, STILL);
			job->said_age[rank] = age_of(now_ns, member->still_said_ns, SAID);
		}
		member->still_ns = 0;
		member->still_said_ns = 0;
	}
	if (admission->query == ADMISSION_QUIET)
		return;
	job->asked_age = age_of(now_ns, admission->asked_ns, ASKED);
	job->page_age = age_of(now_ns, admission->page_ns, STILL);
}

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
