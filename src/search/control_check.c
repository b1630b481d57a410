/* SPDX-License-Identifier: Apache-2.0 */
/* control_check.c - what an aggregator's messages and verdicts say, in control.h's model; see control_world.h. */
#include "search/control_world.h"

void world_check_drained(struct world *world)
{
	if (world_is_owed(world))
		world_fail(world, "SAFETY: a life ends before every shard has removed it");
	for (uint32_t s = 0; s < world->seats; s++)
		if (seat_job(world, s) == world->at && world->state.seat[s].is_held)
			world_fail(world, "SAFETY: a life ends, one of it is still there");
}

/* A member that ends it by itself knows best why. */
void world_check_cause(struct world *world, const struct admission_event *event,
		       const struct admission_actions *actions)
{
	uint32_t cause;

	if (event->type != ADMISSION_MESSAGE || event->message->type != CONTROL_ABORT)
		return;
	cause = event->message->end.cause;
	if (cause != CONTROL_TIMEOUT && cause != CONTROL_MISMATCH)
		cause = CONTROL_REMOTE;
	if (actions->cause != cause)
		world_fail(world, "PRECISION: another cause than its member's");
}

static uint32_t seat_of_rank(struct world *world, uint32_t rank)
{
	return admission_nonce(world_admission(world), rank)[0] - 1u;
}

static void check_grant(struct world *world, uint32_t s, const struct control_grant *grant)
{
	struct admission *admission = world_admission(world);
	uint32_t workers = 0;

	for (uint32_t rank = 0; rank < admission->size; rank++)
		workers += world->join[seat_of_rank(world, rank)].workers;
	if (grant->nonce[0] != s + 1)
		world_fail(world, "SAFETY: a GRANT has another rank's nonce");
	if (grant->size != world->join[s].size || grant->workers != workers)
		world_fail(world, "SAFETY: a GRANT says another size, or number of workers");
}

static void check_start(struct world *world, const struct control_start *start)
{
	struct admission *admission = world_admission(world);
	uint32_t lanes = LANES;

	if (start->members_count != admission->size)
		world_fail(world, "SAFETY: a START lists more or fewer than take part");
	for (uint32_t rank = 0; rank < admission->size; rank++) {
		uint32_t s = seat_of_rank(world, rank);
		uint32_t most = seat_lanes(world, s);

		lanes = most < lanes ? most : lanes;
		if (start->members[rank].rank != rank ||
		    start->members[rank].pid != world->join[s].pid)
			world_fail(world, "SAFETY: a START lists another process");
	}
	if (start->lanes != lanes)
		world_fail(world, "SAFETY: not the most lanes that all paths carry");
}

/* Whom nobody misses has called it; who is missing may have, since it answered. */
static void check_waiting(struct world *world, const struct control_waiting *waiting)
{
	struct admission *admission = world_admission(world);

	for (uint32_t rank = 0; rank < admission->size; rank++) {
		uint32_t q = seat_of_rank(world, rank);
		const struct seat *seat = &world->state.seat[seat_home(world, q)];
		bool is_missing = false;

		for (uint32_t i = 0; i < waiting->listed_count; i++)
			is_missing |= waiting->missing[i] == rank;
		if (!is_missing && seat->status == ALIVE && !seat_is_over(seat) &&
		    seat->submitted <= waiting->number)
			world_fail(world, "PRECISION: not WAITING for one that has not called");
	}
}

/* Before a step (is_over: after it) that takes a message. */
void world_check_heard(struct world *world, const struct admission_event *event, bool is_over)
{
	if (event->type != ADMISSION_MESSAGE || world->config->has_clock)
		return;
	for (uint32_t i = 0; i < world_peers_count(world); i++) {
		struct admission_peer *peer = world_peer(world, i);

		if (peer->connection != event->connection)
			continue;
		if (!is_over)
			peer->heard_ns = event->now_ns + 1;
		else if (peer->heard_ns != event->now_ns)
			world_fail(world, "R-CT-9: a member's word is no sign of life");
	}
}

/* WAITING answers a deadline only if the operation has ended on all: no other verdict will come. */
void world_check_waiting(struct world *world, const struct admission *was,
			 const struct admission_actions *actions)
{
	bool is_said = false;

	for (uint32_t i = 0; i < actions->count; i++)
		is_said |= actions->list[i].type == ADMISSION_SEND &&
			   actions->list[i].message == CONTROL_WAITING;
	for (uint32_t rank = 0; is_said && was->is_about_expired && rank < was->size; rank++) {
		const struct seat *seat = &world->state.seat[seat_home(
			world, admission_nonce(world_admission(world), rank)[0] - 1u)];

		if (seat->status != DEAD && !seat_is_over(seat) &&
		    !(seat->done >> was->about.number & 1))
			world_fail(world, "PRECISION: a deadline is called met, and is not");
	}
}

void world_check_message(struct world *world, uint32_t s, const struct control_message *message)
{
	if (message->type == CONTROL_GRANT)
		check_grant(world, s, &message->grant);
	else if (message->type == CONTROL_START)
		check_start(world, &message->start);
	else if (message->type == CONTROL_WAITING)
		check_waiting(world, &message->waiting);
}
