/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - see control.h. */
#include "search/control.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "search/control_expand.h"

static struct world the_world;
static struct state the_from; /* what is expanded, or asked about */

/* ---- the moves of a state ---- */

static bool is_host_up(const struct expansion *expansion, uint32_t s)
{
	return is_up(expansion, seat_aggregator(expansion->world, s));
}

static bool is_job_up(const struct expansion *expansion, uint32_t job)
{
	return is_up(expansion, job_aggregator(expansion->world, job));
}

static const char *note_name(const struct note *note)
{
	static const char *const names[CONTROL_TYPE_END] = {
		"",           "JOIN",      "GRANT",      "DENY",        "READY",
		"START",      "HEARTBEAT", "PING",       "PONG",        "PROGRESS",
		"STALL",      "WAITING",   "QUERY",      "OPINFO",      "ABORT",
		"LEAVE",      "LEFT",      "TABLE_OPEN", "TABLE_GRANT", "TABLE_BEAT",
		"TABLE_CLOSE"
	};

	return names[note->type];
}

/* ---- what members do ---- */

/* It is silent when it has read all and would still send no HEARTBEAT. */
static void expand_connection(struct expansion *expansion, uint32_t s, uint32_t beats)
{
	const struct seat *seat = &expansion->from->seat[s];
	bool is_open = seat->near == OPEN && !seat->down[0].type;
	struct world *world = expansion->world;

	if (seat->near == OPEN && seat->down[0].type) {
		rank_begins(expansion, s, " reads ");
		bfs_say(expansion->bfs, "%s", note_name(&seat->down[0]));
		world_take(world, s);
		finish(expansion, MOVE_TAKE, s, 0);
	}
	if (is_open && seat->far >= SHUT && !seat->is_vanished) {
		rank_begins(expansion, s, " reads the end of its connection");
		world_member(world, s, (struct member_event){ .type = MEMBER_CLOSED });
		finish(expansion, MOVE_END_OF_FILE, s, 0);
	}
	if (is_open && (seat->is_vanished ||
			expansion->from->aggregator[seat_aggregator(world, s)] == HALTED ||
			(seat->far == OPEN && !seat->up[0].type && !(beats >> s & 1)))) {
		rank_begins(expansion, s, " has heard nothing for the heartbeat time");
		world_member_silence(world, s);
		finish(expansion, MOVE_SILENCE, s, 0);
	}
}

static void expand_joining(struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];
	struct world *world = expansion->world;
	struct seat *next;

	begin(expansion, s); /* seat_job asks the world */
	if (seat->member.state == MEMBER_CONNECT &&
	    expansion->from->aggregator[seat_aggregator(world, s)] != DOWN) {
		next = rank_begins(expansion, s, " connects: JOIN");
		next->near = next->far = OPEN;
		world_member(world, s, (struct member_event){ .type = MEMBER_CONNECTED });
		finish(expansion, MOVE_CONNECT, s, 0);
	} else if (seat->member.state == MEMBER_CONNECT) {
		rank_begins(expansion, s, " was refused for so long that it gives up");
		world_member(world, s,
			     (struct member_event){ .type = MEMBER_REFUSED,
						    .now_ns = world->member[s].connect_ns });
		finish(expansion, MOVE_GIVE_UP, s, 0);
	}
	for (uint32_t k = 0; k < world->config->shards && seat->member.state == MEMBER_HELLOING;
	     k++) {
		const struct shard *shard = &expansion->from->job[seat_job(world, s)].shard[k];

		if (seat->member.welcomed >> k & 1 || shard->generation != seat->generation ||
		    shard->who[world->process[s]->rank] != s + 1)
			continue;
		rank_begins(expansion, s, " is welcomed by ");
		bfs_say(expansion->bfs, "shard %u", k);
		world_member(world, s,
			     (struct member_event){ .type = MEMBER_WELCOME,
						    .shard = (uint16_t)k,
						    .lanes = WIRE_LANES_MAX });
		finish(expansion, MOVE_WELCOME, s, k);
	}
}

/* Has somebody of its life more to call than it? Then it leaves early. */
static bool is_early(const struct world *world, uint32_t s)
{
	for (uint32_t q = 0; q < world->seats; q++)
		if (seats_meet(world, q, s) &&
		    strlen(seat_program(world, q)) > strlen(seat_program(world, s)))
			return true;
	return false;
}

/* At every aggregator. */
static bool has_result(const struct expansion *expansion, uint32_t s, uint32_t op)
{
	const struct world *world = expansion->world;

	for (uint32_t other = 0; other < world->seats; other++)
		if (seat_home(world, other) == s &&
		    !(expansion->from->seat[other].results >> op_chunk(world, s, op) & 1))
			return false;
	return true;
}

static void expand_finalize(struct expansion *expansion, uint32_t s, uint32_t count)
{
	struct world *world = expansion->world;

	rank_begins(expansion, s, " finalizes: LEAVE");
	bool is_bad = is_early(world, s);
	world_changed(world, s);
	for (uint32_t other = 0; other < world->seats; other++) {
		if (seat_home(world, other) != s)
			continue;
		world->state.seat[other].is_bad |= is_bad;
		world_member(world, other,
			     (struct member_event){ .type = MEMBER_FINALIZE, .number = count });
	}
	finish(expansion, MOVE_FINALIZE, s, 0);
}

/* R-CT-58: a rank leaves its pairs before. */
static bool is_held_by_pair(const struct expansion *expansion, uint32_t s)
{
	const struct world *world = expansion->world;
	const struct seat *second = &expansion->from->seat[s + world->config->processes];

	return world->config->second == SECOND_PAIR && !seat_is_second(world, s) &&
	       second->status == ALIVE && !seat_is_over(second);
}

/* Of the communicator whose home it is. */
static void expand_running(struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];
	struct world *world = expansion->world;
	uint32_t count = (uint32_t)strlen(seat_program(world, s));
	struct seat *next;

	if (seat->submitted < count) {
		next = rank_begins(expansion, s, " calls operation ");
		bfs_say(expansion->bfs, "%u, %c", seat->submitted,
			seat_program(world, s)[seat->submitted]);
		next->still = seat->done == (1u << seat->submitted) - 1 ? 0 : seat->still;
		next->submitted++;
		world_changed(world, s);
		finish(expansion, MOVE_SUBMIT, s, 0);
	}
	for (uint32_t op = 0; op < seat->submitted; op++) {
		if (seat->done >> op & 1 || !has_result(expansion, s, op))
			continue;
		next = rank_begins(expansion, s, " has the result of ");
		bfs_say(expansion->bfs, "operation %u", op);
		next->done |= (uint8_t)(1u << op);
		next->still = 0;
		world_changed(world, s);
		finish(expansion, MOVE_RESULT, s, op);
	}
	if (seat->done == (1u << count) - 1 && !is_held_by_pair(expansion, s))
		expand_finalize(expansion, s, count);
}

/* Its process makes a second communicator of the first, before anything else, and waits for that; or a pair, or none. */
static void expand_split(struct expansion *expansion, uint32_t s)
{
	bool may_call = expansion->world->config->second == SECOND_PAIR;

	if (expansion->from->seat[s].status != NEW)
		return;
	rank_begins(expansion, s, " is wanted");
	world_start(expansion->world, s);
	finish(expansion, MOVE_SPLIT | (may_call ? BFS_MAY : 0), s, 0);
}

static bool is_splitting(const struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];

	return seat->status == NEW || (seat->member.state < MEMBER_RUN && !seat_is_over(seat));
}

static void expand_stall(struct expansion *expansion, uint32_t s, bool is_free)
{
	const struct seat *seat = &expansion->from->seat[s];
	struct world *world = expansion->world;
	uint32_t oldest = 0;
	struct seat *next;

	if (seat->status != ALIVE || seat->member.state != MEMBER_RUN || seat->has_stalled ||
	    seat_home(world, s) != s || world->config->has_clock)
		return;
	for (uint32_t i = 0; i < QUEUE; i++)
		if (seat->up[i].type == CONTROL_STALL)
			return; /* it is read long before the next one is due */
	while (seat->done >> oldest & 1)
		oldest++;
	if (oldest >= seat->submitted)
		return;
	next = rank_begins(expansion, s, " has waited for ");
	bfs_say(expansion->bfs, "operation %u: STALL", oldest);
	next->has_stalled = 1;
	world_member(world, s, (struct member_event){ .type = MEMBER_STALLED, .number = oldest });
	if (is_free)
		finish_fault(expansion, FAULT_ASK, s, 0);
	else
		finish(expansion, MOVE_STALL, s, 0);
}

/* The oldest's deadline is over; who has called it by now is not missing. */
static void expand_expire(struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];
	struct world *world = expansion->world;
	uint32_t oldest = 0;

	while (seat->done >> oldest & 1)
		oldest++;
	if (oldest >= seat->submitted || seat->member.is_expired)
		return;
	rank_begins(expansion, s, "'s deadline for ");
	bfs_say(expansion->bfs, "operation %u is over", oldest);
	for (uint32_t q = 0; q < world->seats; q++)
		if (seats_meet(world, q, s) && expansion->from->seat[q].submitted > oldest)
			world->state.called |= (uint8_t)(1u << q);
	world_member(world, s, (struct member_event){ .type = MEMBER_EXPIRED, .number = oldest });
	finish_fault(expansion, FAULT_EXPIRE, s, 0);
}

static void expand_verdict(struct expansion *expansion, uint32_t job)
{
	begin(expansion, 0);
	world_select(expansion->world, job);
	if (!is_job_up(expansion, job) || !world_verdict_is_due(expansion->world))
		return;
	bfs_say(expansion->bfs, "not all have answered for 1 s");
	finish(expansion, MOVE_VERDICT | (expansion->moves ? BFS_MAY : 0), job, 0);
}

static void expand_no_verdict(struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];

	if (seat->status != ALIVE || !seat->member.is_expired || seat->member.state != MEMBER_RUN)
		return;
	rank_begins(expansion, s, " hears no verdict");
	if (!expansion->moves && is_host_up(expansion, s) && !seat->is_vanished)
		world_fail(expansion->world, "LIVENESS: a deadline without a verdict");
	world_member_no_verdict(expansion->world, s);
	finish(expansion, MOVE_NO_VERDICT | (expansion->moves ? BFS_MAY : 0), s, 0);
}

static void expand_member(struct expansion *expansion, uint32_t s, uint32_t beats)
{
	const struct seat *seat = &expansion->from->seat[s];
	struct world *world = expansion->world;
	uint32_t second = s + world->config->processes;

	if (seat->status != ALIVE || seat_is_over(seat))
		return;
	expand_connection(expansion, s, beats);
	expand_joining(expansion, s);
	begin(expansion, s);
	if (!home_runs(world, s))
		return;
	if (has_parts(world) && !seat_is_second(world, s)) {
		expand_split(expansion, second);
		if (world->config->second == SECOND_COMMUNICATOR && is_splitting(expansion, second))
			return;
	}
	expand_running(expansion, s);
	if (may(expansion, FAULT_ASK))
		expand_stall(expansion, s, true);
	if (may(expansion, FAULT_EXPIRE))
		expand_expire(expansion, s);
}

/* ---- what the aggregator and its shards do ---- */

/* It would not send a HEARTBEAT: judged when all that has come was read. */
static bool is_mute(const struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];

	if (seat->far != OPEN || seat->up[0].type || !seat->has_joined)
		return false;
	if (seat->is_vanished || seat->status == STOPPED)
		return true;
	return seat->near == OPEN && !world_member_beats(expansion->world, s);
}

static void expand_peer(struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];
	struct world *world = expansion->world;
	bool is_end = seat->near == CLOSED && !seat->is_vanished && !seat->up[0].type;
	/* Last words, or JOIN, are waited for for some seconds. */
	bool is_endless = (seat->far == SHUT || (!seat->has_joined && !seat->up[0].type)) &&
			  (seat->is_vanished || seat->status == STOPPED);

	if (seat->far == OPEN && seat->up[0].type) {
		aggregator_begins(expansion, seat_aggregator(world, s), " reads ");
		bfs_say(expansion->bfs, "%s of ", note_name(&seat->up[0]));
		say_who(expansion, s);
		world_read(world, s);
		finish(expansion, MOVE_READ, s, 0);
	}
	if ((seat->far == OPEN || seat->far == SHUT) && (is_end || is_endless)) {
		aggregator_begins(expansion, seat_aggregator(world, s),
				  is_endless ? " has waited long enough for the end of "
					     : " reads the end of ");
		say_who(expansion, s);
		world_closed(world, s);
		finish(expansion, MOVE_CLOSED, s, 0);
	}
	begin(expansion, s);
	if (is_mute(expansion, s)) {
		say_aggregator(expansion, seat_aggregator(world, s));
		bfs_say(expansion->bfs, " has heard nothing for the heartbeat time of ");
		say_who(expansion, s);
		world_select(world, seat_job(world, s));
		uint64_t now_ns = world_heartbeat_passes(world, s);
		world_aggregator(world, (struct admission_event){ .type = ADMISSION_TICK,
								  .now_ns = now_ns });
		finish(expansion, MOVE_SILENT, s, 0);
	}
}

/* Drained, and nobody is owed a word: those that nobody has read of are cut off. */
static bool are_idle(struct world *world, uint32_t aggregator)
{
	for (uint32_t job = 0; job < world->jobs; job++) {
		world_select(world, job);
		if (job_aggregator(world, job) == aggregator &&
		    !admission_is_idle(world_admission(world)))
			return false;
	}
	return true;
}

/* Drained, and nobody is owed a word: those that nobody has read of are cut off. */
static void expand_exit(struct expansion *expansion, uint32_t aggregator)
{
	struct world *world = expansion->world;

	begin(expansion, 0);
	if (!is_up(expansion, aggregator) || !expansion->from->is_terminating[aggregator] ||
	    !are_idle(world, aggregator))
		return;
	for (uint32_t s = 0; s < world->seats; s++) {
		const struct seat *seat = &expansion->from->seat[s];

		if (seat_aggregator(world, s) == aggregator &&
		    (seat->far == SHUT || (seat->far == OPEN && seat->up[0].type != CONTROL_JOIN)))
			return;
	}
	say_aggregator(expansion, aggregator);
	bfs_say(expansion->bfs, " is drained and exits");
	world->state.is_guilty[aggregator] = 1;
	world_aggregator_ends(world, aggregator);
	finish(expansion, MOVE_EXIT, aggregator, 0);
}

static void expand_shard(struct expansion *expansion, uint32_t job, uint32_t k)
{
	static const char *const commands[] = { "", "job_add", "job_set", "job_remove" };
	static const char *const acks[] = {
		"",        "of a MISMATCH", "of packets that do not fit",
		"job_add", "job_set",       "job_remove",
	};
	const struct shard *shard = &expansion->from->job[job].shard[k];
	struct world *world = expansion->world;

	if (shard->acks[0].type && is_job_up(expansion, job)) {
		begin(expansion, 0);
		world_select(world, job);
		say_aggregator(expansion, job_aggregator(world, job));
		bfs_say(expansion->bfs, " hears %s of shard %u", acks[shard->acks[0].type], k);
		world_ack(world, k);
		finish(expansion, MOVE_ACK, job, k);
	}
	if (shard->commands[0].type && is_job_up(expansion, job)) {
		begin(expansion, 0);
		world_select(world, job);
		bfs_say(expansion->bfs, "shard %u does %s", k, commands[shard->commands[0].type]);
		world_command(world, k, false);
		finish(expansion, MOVE_COMMAND, job, k);
	}
	if (may(expansion, FAULT_REFUSE) && is_job_up(expansion, job) &&
	    shard->commands[0].type == 1 + ADMISSION_JOB_ADD) {
		begin(expansion, 0);
		world_select(world, job);
		bfs_say(expansion->bfs, "shard %u has no room", k);
		world_command(world, k, true);
		finish_fault(expansion, FAULT_REFUSE, job, k);
	}
}

static void expand_updates(struct expansion *expansion, uint32_t s)
{
	const struct seat *seat = &expansion->from->seat[s];
	struct world *world = expansion->world;

	uint32_t submitted = expansion->from->seat[seat_home(world, s)].submitted;

	for (uint32_t op = 0; op < submitted; op++) {
		begin(expansion, s);
		if (!is_host_up(expansion, s) || !world_may_add(world, s, op))
			continue;
		bfs_say(expansion->bfs, "a shard takes operation %u of ", op);
		say_who(expansion, s);
		world_add(world, s, op);
		finish(expansion, MOVE_ADD | (seat->status == ALIVE ? 0 : BFS_MAY), s, op);
	}
}

/* ---- where nothing else can happen, somebody's time is over ---- */

/* ---- the model ---- */

/* Nothing else can happen: somebody's time is over. */
static void expand_last_resorts(struct expansion *expansion)
{
	const struct world *world = expansion->world;

	for (uint32_t s = 0; s < world->seats && !expansion->moves; s++)
		expand_stall(expansion, s, false);
	for (uint32_t job = 0; job < world->jobs; job++)
		expand_verdict(expansion, job);
	for (uint32_t s = 0; s < world->seats; s++)
		expand_no_verdict(expansion, s);
	for (uint32_t job = 0; job < world->jobs && !expansion->moves; job++)
		expand_late(expansion, job, true);
	for (uint32_t s = 0; s < world->seats && !expansion->moves; s++)
		expand_member_late(expansion, s, true);
}

static void control_expand(const void *config, const void *state_at, struct bfs *bfs)
{
	struct expansion expansion = {
		.world = &the_world, .from = &the_from, .packed = state_at, .bfs = bfs
	};
	uint32_t beats;

	(void)config;
	unpack(&the_world, state_at, &the_from);
	begin(&expansion, 0);
	beats = world_beats(&the_world);
	for (uint32_t s = 0; s < the_world.seats; s++) {
		expand_member(&expansion, s, beats);
		expand_updates(&expansion, s);
		if (is_host_up(&expansion, s))
			expand_peer(&expansion, s);
	}
	for (uint32_t job = 0; job < the_world.jobs; job++) {
		for (uint32_t k = 0; k < the_world.config->shards; k++)
			expand_shard(&expansion, job, k);
		expand_hold(&expansion, job);
	}
	for (uint32_t a = 0; a < the_world.aggregators; a++)
		expand_exit(&expansion, a);
	expand_seconds(&expansion);
	expand_last_resorts(&expansion);
	expand_faults(&expansion);
}

static bool job_is_end(const struct job *job)
{
	for (uint32_t k = 0; k < CONTROL_SHARDS; k++)
		if (job->shard[k].generation || job->shard[k].commands[0].type ||
		    job->shard[k].acks[0].type)
			return false;
	return admission_is_idle((const struct admission *)(const void *)job->admission);
}

static bool control_is_end(const void *config, const void *state_at)
{
	const struct state *state = &the_from;

	(void)config;
	unpack(&the_world, state_at, &the_from);
	for (uint32_t s = 0; s < the_world.seats; s++) {
		const struct seat *seat = &state->seat[s];
		bool is_host_up = state->aggregator[seat_aggregator(&the_world, s)] == UP;

		if (seat->status == ALIVE && !seat_is_over(seat))
			return false;
		if (is_host_up && (seat->far == OPEN || seat->far == SHUT))
			return false;
	}
	for (uint32_t job = 0; job < the_world.jobs; job++)
		if (state->aggregator[job_aggregator(&the_world, job)] == UP &&
		    !job_is_end(&state->job[job]))
			return false;
	return true;
}

static const char *control_check(const void *config, const void *state)
{
	(void)config;
	(void)state;
	return NULL; /* what a step breaks, it says */
}

static void control_init(const void *config, void *state_at)
{
	struct world *world = &the_world;

	(void)config;
	memset(&world->state, 0, sizeof(world->state));
	memset(world->state.generation, 1, sizeof(world->state.generation));
	memcpy(world->state.left, world->config->may, sizeof(world->config->may));
	for (uint32_t job = 0; job < world->jobs; job++) {
		world_select(world, job);
		admission_init(world_admission(world), &world->admission[job]);
	}
	pack(world, &world->state, state_at);
}

void control_model(struct bfs_model *model, const void *config)
{
	memset(&the_from, 0, sizeof(the_from));
	world_begin(&the_world, config);
	*model = (struct bfs_model){ .state_bytes = the_world.packed_bytes,
				     .config = config,
				     .init = control_init,
				     .expand = control_expand,
				     .check = control_check,
				     .is_end = control_is_end };
}
