/* SPDX-License-Identifier: Apache-2.0 */
/* control_member.c - the processes of control.h's model; see control_world.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "search/control_world.h"

static const uint64_t ms_ns = 1000000, s_ns = 1000000000;

static void member_clocks(struct member *member, uint64_t now_ns)
{
	member->tick_ns = now_ns ? now_ns - ms_ns : 0;
	member->since_ns = now_ns;
	member->heard_ns = member->spoke_ns = now_ns;
	member->beat_ns = now_ns;
	member->hello_ns = now_ns;
	member->expired_ns = member->is_expired ? now_ns : 0;
}

/* ---- what a member says of its end ---- */

static void check_blamed_rank(struct world *world, uint32_t s, uint32_t rank)
{
	const struct seat *seat = &world->state.seat[s];

	for (uint32_t q = 0; q < world->seats; q++) {
		const struct seat *other = &world->state.seat[q];

		if (other->is_bad && world->process[q]->rank == rank &&
		    seat_is_second(world, q) == seat_is_second(world, s) &&
		    (!seat->generation || seat->generation == other->generation))
			return;
	}
	world_fail(world, "PRECISION: a rank is named that did nothing");
}

/* Both are in the life of `s`, and call the same. */
static bool seats_agree(const struct world *world, uint32_t s, uint32_t one, uint32_t other)
{
	return one != other && seats_meet(world, one, s) && seats_meet(world, other, s) &&
	       !strcmp(seat_program(world, one), seat_program(world, other));
}

/* Odd is whose calls nobody else of its life shares, when others share theirs. */
static void check_odd_rank(struct world *world, uint32_t s, uint32_t rank)
{
	uint32_t with = 0, without = 0;

	for (uint32_t q = 0; q < world->seats; q++) {
		for (uint32_t other = 0; other < world->seats; other++) {
			if (!seats_agree(world, s, q, other))
				continue;
			with += world->process[q]->rank == rank;
			without += world->process[q]->rank != rank &&
				   world->process[other]->rank != rank;
		}
	}
	if (with)
		world_fail(world, "PRECISION: a rank is called odd that is not alone");
	if (!without)
		world_fail(world, "PRECISION: a rank is called odd, and no two others are alike");
}

static void check_failure(struct world *world, uint32_t s, const struct member_event *event,
			  const struct member_actions *actions)
{
	bool is_told = event->type == MEMBER_MESSAGE && (event->message->type == CONTROL_ABORT ||
							 event->message->type == CONTROL_DENY);

	if (!(world->config->causes >> actions->cause & 1))
		world_fail(world, "PRECISION: nothing that happened explains this cause");
	if (actions->cause_rank != CONTROL_RANK_NONE && actions->cause == CONTROL_MISMATCH)
		check_odd_rank(world, s, actions->cause_rank);
	else if (actions->cause_rank != CONTROL_RANK_NONE && is_told)
		check_blamed_rank(world, s, actions->cause_rank);
	if (actions->cause == CONTROL_REMOTE && actions->cause_rank == CONTROL_RANK_NONE &&
	    !world->state.is_guilty[seat_aggregator(world, s)] &&
	    !(is_told && (seat_is_orphan(world, s) || seat_is_deserted(world, s))))
		world_fail(world, "PRECISION: the aggregator is blamed, it did nothing");
	for (uint32_t other = 0; other < world->seats && !is_told; other++)
		if (other == s || seat_is_beside(world, s, other))
			world->state.seat[other].is_bad = 1;
}

/* Two that run in one life agree in what they were asked to agree in. */
static void check_start(struct world *world, uint32_t s)
{
	const struct control_process *one = world->process[s];

	for (uint32_t q = 0; q < world->seats; q++) {
		const struct control_process *other = world->process[q];
		const struct seat *seat = &world->state.seat[q];

		if (q == s || seat->member.state != MEMBER_RUN || !seats_meet(world, q, s))
			continue;
		if (world->state.seat[seat_owner(world, q)].life !=
		    world->state.seat[seat_owner(world, s)].life)
			world_fail(world, "SAFETY: two run together that are of two lives");
		if (one->size != other->size || one->list != other->list ||
		    one->slots != other->slots || one->window != other->window)
			world_fail(world,
				   "SAFETY: two run together that were told different things");
		if (one->rank == other->rank)
			world_fail(world, "SAFETY: two run as the same rank");
		if (seat->member.lanes != world->state.seat[s].member.lanes)
			world_fail(world, "SAFETY: two run with different lanes");
	}
}

/* R-WIRE-8: a HELLO with the last serial is a copy, wherever it comes from: it binds nobody. */
static void check_hello(struct world *world, uint32_t s, const struct member_action *action)
{
	struct seat *seat = &world->state.seat[s];

	if (action->serial <= seat->hello)
		world_fail(world, "R-WIRE-8: a HELLO that its shard must take for a copy");
	if (action->shard >= world->config->shards || action->lanes < WIRE_HELLO_LANES)
		world_fail(world, "R-CT-52: a HELLO for nobody, or one that proves no path");
	seat->hello = (uint8_t)action->serial;
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
static void seat_granted(struct world *world, uint32_t s, const struct control_message *message)
{
	struct seat *seat = &world->state.seat[s];
	struct member_event event = { .type = MEMBER_MESSAGE, .message = message };

	if (world->config->second != SECOND_NONE && !seat_is_second(world, s)) {
		seat->life = (uint8_t)message->grant.life;
		if (seat->life >= JOBS)
			world_fail(world, "MODEL: too many lives");
	}
	if (world->config->second != SECOND_AGGREGATOR) {
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
static void seat_failed(struct world *world, uint32_t s, enum control_cause cause, const char *text)
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

/* ---- steps ---- */

static void member_send(struct world *world, uint32_t s, const struct note *note)
{
	struct seat *seat = &world->state.seat[s];

	if (seat->near == OPEN && seat->far == OPEN && !seat->is_vanished)
		notes_push(world, seat->up, note);
}

static void member_says(struct world *world, uint32_t s, const struct member_actions *actions,
			const struct member_action *action)
{
	struct control_message message;
	struct note note;

	if (action->message == CONTROL_READY &&
	    world->state.seat[s].welcomes != (1u << world->config->shards) - 1)
		world_fail(world, "SAFETY: READY, and not all shards have said WELCOME");
	member_message(&world->member[s], actions, action, &message);
	note = note_of(&message);
	member_send(world, s, &note);
}

static void member_act(struct world *world, uint32_t s, const struct member_event *event,
		       const struct member_actions *actions)
{
	const struct seat *home = &world->state.seat[seat_home(world, s)];
	struct seat *seat = &world->state.seat[s];

	for (uint32_t i = 0; i < actions->count; i++) {
		const struct member_action *action = &actions->list[i];

		switch ((enum member_action_type)action->type) {
		case MEMBER_DO_CONNECT:
			break; /* how it ends is free choice, as with HELLO */
		case MEMBER_HELLO:
			check_hello(world, s, action);
			break;
		case MEMBER_SEND:
			member_says(world, s, actions, action);
			break;
		case MEMBER_OPINFO:
			if (seat->is_dumb)
				break;
			member_send(world, s,
				    &(struct note){ .type = CONTROL_OPINFO,
						    .cause = home->done,
						    .rank = home->submitted,
						    .number = action->serial,
						    .from = (uint32_t)action->number });
			break;
		case MEMBER_START:
			check_start(world, s);
			break;
		case MEMBER_CLOSE: /* what still comes is read and thrown away */
			seat->near = seat->near == OPEN ? CLOSED : seat->near;
			memset(seat->down, 0, sizeof(seat->down));
			break;
		case MEMBER_IS_LEFT:
			break;
		case MEMBER_FAIL:
			check_failure(world, s, event, actions);
			break;
		}
	}
}

/* Late packets of a communicator that is over can do nothing new. */
static void home_wipe(struct world *world, uint32_t home)
{
	struct seat *seat = &world->state.seat[home];

	for (uint32_t s = 0; s < world->seats; s++)
		if (seat_home(world, s) == home && world->state.seat[s].status == ALIVE &&
		    !seat_is_over(&world->state.seat[s]))
			return;
	seat->submitted = 0;
	seat->done = 0;
}

void world_member(struct world *world, uint32_t s, struct member_event event)
{
	static struct member_actions actions;
	struct seat *seat = &world->state.seat[s];
	char text[CONTROL_TEXT_BYTES];

	if (event.type == MEMBER_MESSAGE && event.message->type == CONTROL_GRANT)
		event.lanes = seat_lanes(world, s);
	if (event.type == MEMBER_WELCOME && event.lanes == WIRE_LANES_MAX)
		seat->welcomes |= (uint8_t)(1u << event.shard);
	if (event.type == MEMBER_MESSAGE)
		seat->member.heard_ns = event.now_ns + 1;
	member_step(&seat->member, &world->member[s], &event, &actions);
	if (event.type == MEMBER_MESSAGE && seat->member.heard_ns != event.now_ns)
		world_fail(world, "R-CT-9: a word of the aggregator is no sign of life");
	member_act(world, s, &event, &actions);
	member_clocks(&seat->member, 0);
	if (!actions.count || !seat_is_over(seat))
		return;
	uint8_t state = seat->member.state, cause = seat->member.cause;
	snprintf(text, sizeof(text), "%s", actions.text);
	snprintf(world->blamed, sizeof(world->blamed), "%s", text);
	seat_wipe(seat);
	seat->member.state = state;
	home_wipe(world, seat_home(world, s));
	if (state == MEMBER_FAILED)
		seat_failed(world, s, (enum control_cause)cause, text);
}

void world_take(struct world *world, uint32_t s)
{
	struct seat *seat = &world->state.seat[s];
	struct note note = notes_pop(seat->down);
	struct control_message message;

	message_of(world, s, &note, NULL, &message);
	if (note.type == CONTROL_GRANT && seat->member.state == MEMBER_JOINING && !seat->is_granted)
		seat_granted(world, s, &message);
	else
		world_member(world, s,
			     (struct member_event){ .type = MEMBER_MESSAGE, .message = &message });
}

void world_start(struct world *world, uint32_t s)
{
	struct seat *seat = &world->state.seat[s];

	seat->status = ALIVE;
	member_init(&seat->member, &world->member[s]);
	world_member(world, s, (struct member_event){ .type = MEMBER_TICK });
	assert(seat->member.state == MEMBER_CONNECT);
}

/* ---- time ---- */

void world_member_silence(struct world *world, uint32_t s)
{
	struct member *member = &world->state.seat[s].member;
	uint64_t now_ns = 2 * member->heartbeat_ns;

	member_clocks(member, now_ns);
	member->heard_ns = 0;
	world_member(world, s, (struct member_event){ .type = MEMBER_TICK, .now_ns = now_ns });
}

void world_member_wakes(struct world *world, uint32_t s)
{
	struct member *member = &world->state.seat[s].member;
	uint64_t now_ns = 10 * member->heartbeat_ns;
	uint8_t state = member->state;

	if (state == MEMBER_CONNECT || seat_is_over(&world->state.seat[s]))
		return;
	member_clocks(member, now_ns);
	member->tick_ns = 0;
	member->heard_ns = 0;
	world_member(world, s, (struct member_event){ .type = MEMBER_TICK, .now_ns = now_ns });
	if (member->state != state)
		world_fail(world, "PRECISION: who has slept blames somebody");
}

void world_member_late(struct world *world, uint32_t s)
{
	struct member *member = &world->state.seat[s].member;
	uint64_t now_ns = world->member[s].gather_ns + 5 * s_ns;

	member_clocks(member, now_ns);
	member->since_ns = 0;
	world_member(world, s, (struct member_event){ .type = MEMBER_TICK, .now_ns = now_ns });
}

void world_member_unheard(struct world *world, uint32_t s)
{
	static struct member_actions actions;
	const struct seat *seat = &world->state.seat[s];
	struct member_event event = { .type = MEMBER_TICK, .now_ns = s_ns };
	struct member copy = seat->member;

	member_clocks(&copy, s_ns);
	copy.hello_ns = s_ns - 100 * ms_ns;
	member_step(&copy, &world->member[s], &event, &actions);
	for (uint32_t shard = 0; shard < world->config->shards; shard++) {
		bool is_said = false;

		for (uint32_t i = 0; i < actions.count; i++)
			is_said |= actions.list[i].type == MEMBER_HELLO &&
				   actions.list[i].shard == shard;
		if (is_said == (seat->member.welcomed >> shard & 1))
			world_fail(world, "R-CT-52: HELLO is not said where it is due, or is "
					  "where it is not");
	}
	member_clocks(&world->state.seat[s].member, s_ns);
	world->state.seat[s].member.hello_ns = s_ns - 100 * ms_ns;
	world_member(world, s, event);
}

void world_member_unwelcome(struct world *world, uint32_t s)
{
	struct member *member = &world->state.seat[s].member;

	member_clocks(member, s_ns);
	member->hello_ns = s_ns - 100 * ms_ns;
	member->hellos = UINT8_MAX;
	world_member(world, s, (struct member_event){ .type = MEMBER_TICK, .now_ns = s_ns });
}

void world_member_no_verdict(struct world *world, uint32_t s)
{
	struct member *member = &world->state.seat[s].member;

	member_clocks(member, 2 * s_ns);
	member->expired_ns = 0;
	world_member(world, s, (struct member_event){ .type = MEMBER_TICK, .now_ns = 2 * s_ns });
}

bool world_member_beats(const struct world *world, uint32_t s)
{
	static struct member_actions actions;
	struct member copy = world->state.seat[s].member;
	uint64_t beat_ns = copy.heartbeat_ns / 5 < 2 * s_ns ? copy.heartbeat_ns / 5 : 2 * s_ns;

	member_clocks(&copy, beat_ns); /* R-CT-9 */
	copy.beat_ns = 0;
	member_step(&copy, &world->member[s],
		    &(struct member_event){ .type = MEMBER_TICK, .now_ns = beat_ns }, &actions);
	for (uint32_t i = 0; i < actions.count; i++)
		if (actions.list[i].type == MEMBER_SEND &&
		    actions.list[i].message == CONTROL_HEARTBEAT)
			return true;
	return false;
}
