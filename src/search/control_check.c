/* SPDX-License-Identifier: Apache-2.0 */
/* control_check.c - what an aggregator's messages and verdicts say, in control.h's model; see control_world.h. */
#include "search/control_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void world_check_drained(struct world *world)
{
	if (world_is_owed(world))
		world_fail(world, "SAFETY: a life ends before every shard has removed it");
	for (uint32_t s = 0; s < world->seats; s++)
		if (seat_job(world, s) == world->at && world->state.seat[s].is_held)
			world_fail(world, "SAFETY: a life ends, one of it is still there");
}

/* A member that ends it by itself knows best why. */
static void check_cause(struct world *world, const struct admission_event *event,
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

/* "rank 3" in a text, from *at on; -1: no more. */
static int text_rank(const char **at)
{
	const char *found = strstr(*at, "rank ");

	if (!found)
		return -1;
	*at = found + 5;
	return atoi(*at);
}

static void check_mismatch(struct world *world, const char *text)
{
	const struct admission *admission = world_admission(world);
	uint32_t number = (uint32_t)atoi(text + strlen("operation "));
	char first = 0;

	for (uint32_t s = 0; s < world->seats; s++) {
		const char *program = seat_program(world, s);

		if (seat_job(world, s) != world->at ||
		    world->state.seat[s].generation != admission->generation ||
		    number >= strlen(program))
			continue;
		if (first && first != program[number])
			return;
		first = program[number];
	}
	world_fail(world, "PRECISION: a MISMATCH of calls that agree");
}

/* Who ends its own connection has said why; DENIED is whom another keeps out that can be alive. */
static void check_circumstances(struct world *world, const struct admission_event *event,
				const struct admission_actions *actions)
{
	const char *holder = strstr(actions->text, "is held by process ");
	const struct seat *closed = &world->state.seat[event->connection - 1];

	if (event->type == ADMISSION_CLOSED && closed->status == ALIVE &&
	    closed->member.state == MEMBER_FAILED)
		world_fail(world, "PRECISION: last words were not heard");
	if (holder && world->config->is_launched && admission_is_running(world_admission(world)))
		world_fail(world, "SAFETY: two programs claim one rank, and one goes on");
	for (uint32_t i = 0; holder && i < actions->count; i++) {
		const struct admission_action *action = &actions->list[i];

		if (action->type == ADMISSION_SEND && action->message == CONTROL_DENY &&
		    world->config->process[action->connection - 1].after ==
			    atoi(holder + strlen("is held by process ")))
			world_fail(world, "PRECISION: kept out by one that has ended before");
	}
}

/* Who had called it before its deadline was over is not who was missing then. */
static void check_deadline(struct world *world, const char *text)
{
	const char *at = strstr(text, "not called yet by ");
	const char *end = at ? strchr(at, ';') : NULL;
	int rank;

	while (at && (rank = text_rank(&at)) >= 0 && (!end || at < end))
		for (uint32_t s = 0; s < world->seats; s++)
			if (world->join[s].rank == rank && world->state.called >> s & 1 &&
			    seat_job(world, s) == world->at)
				world_fail(world, "PRECISION: missed, and had called in time");
}

/* Packets get lost, and who is stopped may go on: only the first is one. */
static void check_standstill(struct world *world, const char *text)
{
	bool is_one = !strstr(text, " stands still: ");

	for (uint32_t s = 0; s < world->seats; s++)
		is_one |= seat_job(world, s) == world->at && world->state.seat[s].is_mute;
	if (!is_one)
		world_fail(world, "PRECISION: a standstill, and everything may go on");
}

/* Whom a text is about is whom its cause names; who is said to be missing is. */
void world_check_text(struct world *world, const struct admission_event *event,
		      const struct admission *before, const struct admission_actions *actions)
{
	/* Of a standstill the end says who is suspected. */
	const char *still = strstr(actions->text, " stands still: ");
	const char *at = still ? strchr(still, ';') : actions->text;
	bool is_about_one =
		event->type == ADMISSION_CLOSED ||
		(event->type == ADMISSION_MESSAGE && event->message->type == CONTROL_ABORT);
	int rank;

	snprintf(world->blamed, sizeof(world->blamed), "%s", actions->text);
	if (actions->cause_rank != CONTROL_RANK_NONE && text_rank(&at) != actions->cause_rank)
		world_fail(world, "PRECISION: a text names another rank than its cause");
	if (is_about_one && actions->cause_rank != world->join[event->connection - 1].rank)
		world_fail(world, "PRECISION: one fails, another is named");
	if (event->type == ADMISSION_TICK && actions->cause == CONTROL_REMOTE &&
	    !strstr(actions->text, " is heard, but") &&
	    actions->cause_rank != world->join[world->silent].rank)
		world_fail(world, "PRECISION: one is silent, another is named");
	if (event->connection)
		check_circumstances(world, event, actions);
	check_cause(world, event, actions);
	check_standstill(world, actions->text);
	if (actions->cause == CONTROL_MISMATCH)
		check_mismatch(world, actions->text);
	check_deadline(world, actions->text);
	for (at = actions->text; event->type == ADMISSION_TICK &&
				 before->state < ADMISSION_STARTED &&
				 actions->cause == CONTROL_TIMEOUT && (rank = text_rank(&at)) >= 0;)
		if (admission_member((struct admission *)(uintptr_t)before, (uint32_t)rank)
			    ->presence > ADMISSION_JOINED)
			world_fail(world, "PRECISION: somebody is missed who is there");
}

void world_check_deserted(struct world *world, uint32_t rank)
{
	for (uint32_t p = 0; p < world->config->processes; p++)
		if (world->process[p]->rank == rank && world->state.seat[p].life == world->at &&
		    process_has_deserted(world, p))
			return;
	world_fail(world, "SAFETY: a pair is ended for a rank that waits in it, or may come");
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
