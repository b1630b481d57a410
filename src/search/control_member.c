/* SPDX-License-Identifier: Apache-2.0 */
/* control_member.c - the processes of control.h's model; see control_world.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "search/control_world.h"

static const uint64_t ms_ns = 1000000, s_ns = 1000000000;

bool process_is_over(const struct process *process)
{
	return process->member.state == MEMBER_LEFT || process->member.state == MEMBER_FAILED;
}

/* Only the data plane may still see what it has sent. */
void process_wipe(struct process *process)
{
	memset(&process->member, 0, sizeof(process->member));
	memset(process->down, 0, sizeof(process->down));
	process->done = 0;
	process->results = 0;
	process->has_stalled = 0;
}

static void member_clocks(struct member *member, uint64_t now_ns)
{
	member->tick_ns = now_ns ? now_ns - ms_ns : 0;
	member->since_ns = now_ns;
	member->heard_ns = now_ns;
	member->beat_ns = now_ns;
	member->hello_ns = now_ns;
	member->expired_ns = member->is_expired ? now_ns : 0;
}

/* ---- what a member says of its end ---- */

static void check_blamed_rank(struct world *world, uint32_t p, uint32_t rank)
{
	const struct process *process = &world->state.process[p];

	for (uint32_t q = 0; q < world->config->processes; q++) {
		const struct process *other = &world->state.process[q];

		if (other->is_bad && world->config->process[q].rank == rank &&
		    (!process->generation || process->generation == other->generation))
			return;
	}
	world_fail(world, "PRECISION: a rank is named that did nothing");
}

/* Odd is whose calls nobody else of its life shares. */
static void check_odd_rank(struct world *world, uint32_t p, uint32_t rank)
{
	uint32_t count = 0;

	for (uint32_t q = 0; q < world->config->processes; q++)
		for (uint32_t other = 0; other < world->config->processes; other++)
			count += world->config->process[q].rank == rank && other != q &&
				 world->state.process[q].generation ==
					 world->state.process[p].generation &&
				 world->state.process[other].generation ==
					 world->state.process[p].generation &&
				 !strcmp(process_program(world, q), process_program(world, other));
	if (count)
		world_fail(world, "PRECISION: a rank is called odd that is not alone");
}

static void check_failure(struct world *world, uint32_t p, const struct member_event *event,
			  const struct member_actions *actions)
{
	bool is_told = event->type == MEMBER_MESSAGE && (event->message->type == CONTROL_ABORT ||
							 event->message->type == CONTROL_DENY);

	if (!(world->config->causes >> actions->cause & 1))
		world_fail(world, "PRECISION: nothing that happened explains this cause");
	if (actions->cause_rank != CONTROL_RANK_NONE && actions->cause == CONTROL_MISMATCH)
		check_odd_rank(world, p, actions->cause_rank);
	else if (actions->cause_rank != CONTROL_RANK_NONE && is_told)
		check_blamed_rank(world, p, actions->cause_rank);
	if (actions->cause == CONTROL_REMOTE && actions->cause_rank == CONTROL_RANK_NONE &&
	    !world->state.is_guilty)
		world_fail(world, "PRECISION: the aggregator is blamed, it did nothing");
	if (!is_told)
		world->state.process[p].is_bad = 1;
}

/* Two that run in one life agree in what they were asked to agree in. */
static void check_start(struct world *world, uint32_t p)
{
	const struct control_process *one = &world->config->process[p];

	for (uint32_t q = 0; q < world->config->processes; q++) {
		const struct control_process *other = &world->config->process[q];
		const struct process *process = &world->state.process[q];

		if (q == p || process->member.state != MEMBER_RUN ||
		    process->generation != world->state.process[p].generation)
			continue;
		if (one->size != other->size || one->list != other->list)
			world_fail(world,
				   "SAFETY: two run together that were told different things");
		if (one->rank == other->rank)
			world_fail(world, "SAFETY: two run as the same rank");
		if (process->member.lanes != world->state.process[p].member.lanes)
			world_fail(world, "SAFETY: two run with different lanes");
	}
}

/* ---- steps ---- */

static void member_send(struct world *world, uint32_t p, const struct note *note)
{
	struct process *process = &world->state.process[p];

	if (process->near == OPEN && process->far == OPEN && !process->is_vanished)
		notes_push(world, process->up, note);
}

static void member_says(struct world *world, uint32_t p, const struct member_actions *actions,
			const struct member_action *action)
{
	struct control_message message;
	struct note note;

	member_message(&world->member[p], actions, action, &message);
	note = note_of(&message);
	member_send(world, p, &note);
}

static void member_act(struct world *world, uint32_t p, const struct member_event *event,
		       const struct member_actions *actions)
{
	struct process *process = &world->state.process[p];

	for (uint32_t i = 0; i < actions->count; i++) {
		const struct member_action *action = &actions->list[i];

		switch ((enum member_action_type)action->type) {
		case MEMBER_DO_CONNECT:
		case MEMBER_HELLO:
			break; /* how these end is free choice */
		case MEMBER_SEND:
			member_says(world, p, actions, action);
			break;
		case MEMBER_OPINFO:
			member_send(world, p,
				    &(struct note){ .type = CONTROL_OPINFO,
						    .cause = process->done,
						    .rank = process->submitted,
						    .number = action->serial,
						    .from = (uint32_t)action->number });
			break;
		case MEMBER_START:
			check_start(world, p);
			break;
		case MEMBER_CLOSE: /* what still comes is read and thrown away */
			process->near = process->near == OPEN ? CLOSED : process->near;
			memset(process->down, 0, sizeof(process->down));
			break;
		case MEMBER_IS_LEFT:
			break;
		case MEMBER_FAIL:
			check_failure(world, p, event, actions);
			break;
		}
	}
}

void world_member(struct world *world, uint32_t p, struct member_event event)
{
	static struct member_actions actions;
	struct process *process = &world->state.process[p];

	if (event.type == MEMBER_MESSAGE && event.message->type == CONTROL_GRANT)
		event.lanes = (uint16_t)(LANES - 4 * world->config->process[p].rank);
	member_step(&process->member, &world->member[p], &event, &actions);
	member_act(world, p, &event, &actions);
	member_clocks(&process->member, 0);
	if (actions.count && process_is_over(process)) {
		uint8_t state = process->member.state;

		process_wipe(process);
		process->submitted =
			0; /* late packets of a member that is over can do nothing new */
		process->member.state = state;
		snprintf(world->blamed, sizeof(world->blamed), "%s", actions.text);
	}
}

void world_take(struct world *world, uint32_t p)
{
	struct note note = notes_pop(world->state.process[p].down);
	struct control_message message;

	message_of(world, p, &note, NULL, &message);
	world_member(world, p,
		     (struct member_event){ .type = MEMBER_MESSAGE, .message = &message });
}

void world_start(struct world *world, uint32_t p)
{
	struct process *process = &world->state.process[p];

	process->status = ALIVE;
	member_init(&process->member, &world->member[p]);
	world_member(world, p, (struct member_event){ .type = MEMBER_TICK });
	assert(process->member.state == MEMBER_CONNECT);
}

/* ---- time ---- */

void world_member_silence(struct world *world, uint32_t p)
{
	struct member *member = &world->state.process[p].member;
	uint64_t now_ns = member->heartbeat_ns;

	member_clocks(member, now_ns);
	member->heard_ns = 0;
	world_member(world, p, (struct member_event){ .type = MEMBER_TICK, .now_ns = now_ns });
}

void world_member_wakes(struct world *world, uint32_t p)
{
	struct member *member = &world->state.process[p].member;
	uint64_t now_ns = 10 * member->heartbeat_ns;
	uint8_t state = member->state;

	if (state == MEMBER_CONNECT || process_is_over(&world->state.process[p]))
		return;
	member_clocks(member, now_ns);
	member->tick_ns = 0;
	member->heard_ns = 0;
	world_member(world, p, (struct member_event){ .type = MEMBER_TICK, .now_ns = now_ns });
	if (member->state != state)
		world_fail(world, "PRECISION: who has slept blames somebody");
}

void world_member_late(struct world *world, uint32_t p)
{
	struct member *member = &world->state.process[p].member;
	uint64_t now_ns = world->member[p].gather_ns + 5 * s_ns;

	member_clocks(member, now_ns);
	member->since_ns = 0;
	world_member(world, p, (struct member_event){ .type = MEMBER_TICK, .now_ns = now_ns });
}

void world_member_no_verdict(struct world *world, uint32_t p)
{
	struct member *member = &world->state.process[p].member;

	member_clocks(member, 2 * s_ns);
	member->expired_ns = 0;
	world_member(world, p, (struct member_event){ .type = MEMBER_TICK, .now_ns = 2 * s_ns });
}

bool world_member_beats(const struct world *world, uint32_t p)
{
	static struct member_actions actions;
	struct member copy = world->state.process[p].member;

	member_clocks(&copy, 2 * s_ns);
	copy.beat_ns = 0;
	member_step(&copy, &world->member[p],
		    &(struct member_event){ .type = MEMBER_TICK, .now_ns = 2 * s_ns }, &actions);
	for (uint32_t i = 0; i < actions.count; i++)
		if (actions.list[i].type == MEMBER_SEND &&
		    actions.list[i].message == CONTROL_HEARTBEAT)
			return true;
	return false;
}
