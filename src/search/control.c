/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - see control.h. */
#include "search/control.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "search/control_expand.h"

static struct world the_world;
static uint8_t packed[sizeof(struct state)];

/* ---- the moves of a state ---- */

struct process *begin(struct expansion *expansion, uint32_t p)
{
	struct world *world = expansion->world;

	memcpy(&world->state, expansion->from, world_bytes(world));
	world->violation = NULL;
	world->blamed[0] = '\0';
	return &world->state.process[p];
}

void finish(struct expansion *expansion, uint32_t move, uint32_t a, uint32_t b)
{
	struct world *world = expansion->world;
	bool is_same = !memcmp(&world->state, expansion->from, world_bytes(world));

	if (bfs_is_telling(expansion->bfs) && world->blamed[0])
		bfs_say(expansion->bfs, ": \"%s\"", world->blamed);
	if (is_same && !world->violation) {
		bfs_forget(expansion->bfs);
		return;
	}
	move |= a << 16 | b << 8;
	expansion->moves += !(move & BFS_MAY);
	pack(world, &world->state, packed);
	bfs_emit(expansion->bfs, packed, move, world->violation);
}

bool may(const struct expansion *expansion, enum control_fault fault)
{
	return expansion->from->left[fault] > 0;
}

void finish_fault(struct expansion *expansion, enum control_fault fault, uint32_t a, uint32_t b)
{
	expansion->world->state.left[fault]--;
	finish(expansion, BFS_MAY | (MOVE_FAULT + fault), a, b);
}

bool is_up(const struct expansion *expansion)
{
	return expansion->from->aggregator == UP;
}

void say_who(const struct expansion *expansion, uint32_t p)
{
	const struct control_process *process = &expansion->world->config->process[p];

	if (bfs_is_telling(expansion->bfs))
		bfs_say(expansion->bfs, "rank %u%s", process->rank, process->after ? "'" : "");
}

static const char *note_name(const struct note *note)
{
	static const char *const names[CONTROL_TYPE_END] = {
		"",          "JOIN",   "GRANT", "DENY",     "READY", "START",
		"HEARTBEAT", "PING",   "PONG",  "PROGRESS", "STALL", "WAITING",
		"QUERY",     "OPINFO", "ABORT", "LEAVE",    "LEFT",
	};

	return names[note->type];
}

/* ---- what members do ---- */

/* It is silent when it has read all and would still send no HEARTBEAT. */
static void expand_connection(struct expansion *expansion, uint32_t p, uint32_t beats)
{
	const struct process *process = &expansion->from->process[p];
	bool is_open = process->near == OPEN && !process->down[0].type;
	struct world *world = expansion->world;

	if (process->near == OPEN && process->down[0].type) {
		begin(expansion, p);
		say_who(expansion, p);
		bfs_say(expansion->bfs, " reads %s", note_name(&process->down[0]));
		world_take(world, p);
		finish(expansion, MOVE_TAKE, p, 0);
	}
	if (is_open && process->far >= SHUT && !process->is_vanished) {
		begin(expansion, p);
		say_who(expansion, p);
		bfs_say(expansion->bfs, " reads the end of its connection");
		world_member(world, p, (struct member_event){ .type = MEMBER_CLOSED });
		finish(expansion, MOVE_END_OF_FILE, p, 0);
	}
	if (is_open && (process->is_vanished || expansion->from->aggregator == HALTED ||
			(process->far == OPEN && !process->up[0].type && !(beats >> p & 1)))) {
		begin(expansion, p);
		say_who(expansion, p);
		bfs_say(expansion->bfs, " has heard nothing for the heartbeat time");
		world_member_silence(world, p);
		finish(expansion, MOVE_SILENCE, p, 0);
	}
}

static void expand_joining(struct expansion *expansion, uint32_t p)
{
	const struct process *process = &expansion->from->process[p];
	struct world *world = expansion->world;
	struct process *next;

	if (process->member.state == MEMBER_CONNECT && expansion->from->aggregator != DOWN) {
		next = begin(expansion, p);
		say_who(expansion, p);
		bfs_say(expansion->bfs, " connects: JOIN");
		next->near = next->far = OPEN;
		world_member(world, p, (struct member_event){ .type = MEMBER_CONNECTED });
		finish(expansion, MOVE_CONNECT, p, 0);
	} else if (process->member.state == MEMBER_CONNECT) {
		begin(expansion, p);
		say_who(expansion, p);
		bfs_say(expansion->bfs, " was refused for so long that it gives up");
		world_member(world, p,
			     (struct member_event){ .type = MEMBER_REFUSED,
						    .now_ns = world->member[p].connect_ns });
		finish(expansion, MOVE_GIVE_UP, p, 0);
	}
	for (uint32_t k = 0; k < world->config->shards && process->member.state == MEMBER_HELLOING;
	     k++) {
		const struct shard *shard = &expansion->from->shard[k];

		if (process->member.welcomed >> k & 1 || shard->generation != process->generation ||
		    shard->who[world->config->process[p].rank] != p + 1)
			continue;
		begin(expansion, p);
		say_who(expansion, p);
		bfs_say(expansion->bfs, " is welcomed by shard %u", k);
		world_member(world, p,
			     (struct member_event){ .type = MEMBER_WELCOME,
						    .shard = (uint16_t)k,
						    .lanes = WIRE_LANES_MAX });
		finish(expansion, MOVE_WELCOME, p, k);
	}
}

/* Has somebody of its life more to call than it? Then it leaves early. */
static bool is_early(const struct world *world, uint32_t p)
{
	for (uint32_t q = 0; q < world->config->processes; q++)
		if (world->state.process[q].generation == world->state.process[p].generation &&
		    strlen(process_program(world, q)) > strlen(process_program(world, p)))
			return true;
	return false;
}

static void expand_running(struct expansion *expansion, uint32_t p)
{
	const struct process *process = &expansion->from->process[p];
	struct world *world = expansion->world;
	uint32_t count = (uint32_t)strlen(process_program(world, p));
	struct process *next;

	if (process->submitted < count) {
		next = begin(expansion, p);
		say_who(expansion, p);
		bfs_say(expansion->bfs, " calls operation %u, %c", process->submitted,
			process_program(world, p)[process->submitted]);
		next->submitted++;
		world_changed(world);
		finish(expansion, MOVE_SUBMIT, p, 0);
	}
	for (uint32_t op = 0; op < process->submitted; op++) {
		if (process->done >> op & 1 || !(process->results >> op_chunk(world, p, op) & 1))
			continue;
		next = begin(expansion, p);
		say_who(expansion, p);
		bfs_say(expansion->bfs, " has the result of operation %u", op);
		next->done |= (uint8_t)(1u << op);
		world_changed(world);
		finish(expansion, MOVE_RESULT, p, op);
	}
	if (process->done == (1u << count) - 1) {
		next = begin(expansion, p);
		say_who(expansion, p);
		bfs_say(expansion->bfs, " finalizes: LEAVE");
		next->is_bad |= is_early(world, p);
		world_changed(world);
		world_member(world, p,
			     (struct member_event){ .type = MEMBER_FINALIZE, .number = count });
		finish(expansion, MOVE_FINALIZE, p, 0);
	}
}

static void expand_stall(struct expansion *expansion, uint32_t p, bool is_free)
{
	const struct process *process = &expansion->from->process[p];
	struct world *world = expansion->world;
	uint32_t oldest = 0;
	struct process *next;

	if (process->status != ALIVE || process->member.state != MEMBER_RUN || process->has_stalled)
		return;
	for (uint32_t i = 0; i < QUEUE; i++)
		if (process->up[i].type == CONTROL_STALL)
			return; /* it is read long before the next one is due */
	while (process->done >> oldest & 1)
		oldest++;
	if (oldest >= process->submitted)
		return;
	next = begin(expansion, p);
	say_who(expansion, p);
	bfs_say(expansion->bfs, " has waited for operation %u: STALL", oldest);
	next->has_stalled = 1;
	world_member(world, p, (struct member_event){ .type = MEMBER_STALLED, .number = oldest });
	if (is_free)
		finish_fault(expansion, FAULT_ASK, p, 0);
	else
		finish(expansion, MOVE_STALL, p, 0);
}

/* The oldest's deadline is over; who has called it by now is not missing. */
static void expand_expire(struct expansion *expansion, uint32_t p)
{
	const struct process *process = &expansion->from->process[p];
	struct world *world = expansion->world;
	uint32_t oldest = 0;

	while (process->done >> oldest & 1)
		oldest++;
	if (oldest >= process->submitted || process->member.is_expired)
		return;
	begin(expansion, p);
	say_who(expansion, p);
	bfs_say(expansion->bfs, "'s deadline for operation %u is over", oldest);
	for (uint32_t q = 0; q < world->config->processes; q++)
		if (expansion->from->process[q].generation == process->generation &&
		    expansion->from->process[q].submitted > oldest)
			world->state.called |= (uint8_t)(1u << q);
	world_member(world, p, (struct member_event){ .type = MEMBER_EXPIRED, .number = oldest });
	finish_fault(expansion, FAULT_EXPIRE, p, 0);
}

static void expand_verdict(struct expansion *expansion)
{
	begin(expansion, 0);
	if (!is_up(expansion) || !world_verdict_is_due(expansion->world))
		return;
	bfs_say(expansion->bfs, "not all have answered for 1 s");
	finish(expansion, MOVE_VERDICT | (expansion->moves ? BFS_MAY : 0), 0, 0);
}

static void expand_no_verdict(struct expansion *expansion, uint32_t p)
{
	const struct process *process = &expansion->from->process[p];

	if (process->status != ALIVE || !process->member.is_expired ||
	    process->member.state != MEMBER_RUN)
		return;
	begin(expansion, p);
	say_who(expansion, p);
	bfs_say(expansion->bfs, " hears no verdict");
	if (!expansion->moves && is_up(expansion) && !process->is_vanished)
		world_fail(expansion->world, "LIVENESS: a deadline without a verdict");
	world_member_no_verdict(expansion->world, p);
	finish(expansion, MOVE_NO_VERDICT | (expansion->moves ? BFS_MAY : 0), p, 0);
}

/* It gathers for a life of which a rank has gone: that one never comes again. */
static bool is_hopeless(const struct expansion *expansion)
{
	const struct control_config *config = expansion->world->config;

	for (uint32_t p = 0; p < config->processes && config->life; p++)
		if (expansion->from->process[p].has_joined &&
		    expansion->from->process[p].far == CLOSED)
			return true;
	return false;
}

static void expand_member(struct expansion *expansion, uint32_t p, uint32_t beats)
{
	const struct process *process = &expansion->from->process[p];

	if (process->status != ALIVE || process_is_over(process))
		return;
	expand_connection(expansion, p, beats);
	expand_joining(expansion, p);
	if (process->member.state != MEMBER_RUN)
		return;
	expand_running(expansion, p);
	if (may(expansion, FAULT_ASK))
		expand_stall(expansion, p, true);
	if (may(expansion, FAULT_EXPIRE))
		expand_expire(expansion, p);
}

/* ---- what the aggregator and its shards do ---- */

/* It would not send a HEARTBEAT: judged when all that has come was read. */
static bool is_mute(const struct expansion *expansion, uint32_t p)
{
	const struct process *process = &expansion->from->process[p];

	if (process->far != OPEN || process->up[0].type || !process->has_joined)
		return false;
	if (process->is_vanished || process->status == STOPPED)
		return true;
	return process->near == OPEN && !world_member_beats(expansion->world, p);
}

static void expand_peer(struct expansion *expansion, uint32_t p)
{
	const struct process *process = &expansion->from->process[p];
	struct world *world = expansion->world;
	bool is_end = process->near == CLOSED && !process->is_vanished && !process->up[0].type;
	/* Last words, or JOIN, are waited for for some seconds. */
	bool is_endless =
		(process->far == SHUT || (!process->has_joined && !process->up[0].type)) &&
		(process->is_vanished || process->status == STOPPED);

	if (process->far == OPEN && process->up[0].type) {
		begin(expansion, p);
		bfs_say(expansion->bfs, "the aggregator reads %s of ", note_name(&process->up[0]));
		say_who(expansion, p);
		world_read(world, p);
		finish(expansion, MOVE_READ, p, 0);
	}
	if ((process->far == OPEN || process->far == SHUT) && (is_end || is_endless)) {
		begin(expansion, p);
		bfs_say(expansion->bfs, "the aggregator %s ",
			is_endless ? "has waited long enough for the end of" : "reads the end of");
		say_who(expansion, p);
		world_closed(world, p);
		finish(expansion, MOVE_CLOSED, p, 0);
	}
	begin(expansion, p);
	if (is_mute(expansion, p)) {
		bfs_say(expansion->bfs,
			"the aggregator has heard nothing for the heartbeat time of ");
		say_who(expansion, p);
		uint64_t now_ns = world_heartbeat_passes(world, p);
		world_aggregator(world, (struct admission_event){ .type = ADMISSION_TICK,
								  .now_ns = now_ns });
		finish(expansion, MOVE_SILENT, p, 0);
	}
}

/* Drained, and nobody is owed a word: those that nobody has read of are cut off. */
static void expand_exit(struct expansion *expansion)
{
	begin(expansion, 0);
	if (!expansion->from->is_terminating ||
	    !admission_is_idle(world_admission(expansion->world)))
		return;
	for (uint32_t p = 0; p < expansion->world->config->processes; p++) {
		const struct process *process = &expansion->from->process[p];

		if (process->far == SHUT ||
		    (process->far == OPEN && process->up[0].type != CONTROL_JOIN))
			return;
	}
	bfs_say(expansion->bfs, "the aggregator is drained and exits");
	expansion->world->state.is_guilty = 1;
	world_aggregator_ends(expansion->world);
	finish(expansion, MOVE_EXIT, 0, 0);
}

static void expand_shard(struct expansion *expansion, uint32_t k)
{
	static const char *const commands[] = { "", "job_add", "job_set", "job_remove" };
	const struct shard *shard = &expansion->from->shard[k];
	struct world *world = expansion->world;

	if (shard->acks[0].type && is_up(expansion)) {
		begin(expansion, 0);
		bfs_say(expansion->bfs, "the aggregator hears %s of shard %u",
			shard->acks[0].type == ACK_MISMATCH
				? "of a MISMATCH"
				: commands[shard->acks[0].type - ACK_OF + 1],
			k);
		world_ack(world, k);
		finish(expansion, MOVE_ACK, 0, k);
	}
	if (shard->commands[0].type && is_up(expansion)) {
		begin(expansion, 0);
		bfs_say(expansion->bfs, "shard %u does %s", k, commands[shard->commands[0].type]);
		world_command(world, k, false);
		finish(expansion, MOVE_COMMAND, 0, k);
	}
	if (may(expansion, FAULT_REFUSE) && is_up(expansion) &&
	    shard->commands[0].type == 1 + ADMISSION_JOB_ADD) {
		begin(expansion, 0);
		bfs_say(expansion->bfs, "shard %u has no room", k);
		world_command(world, k, true);
		finish_fault(expansion, FAULT_REFUSE, 0, k);
	}
}

static void expand_updates(struct expansion *expansion, uint32_t p)
{
	const struct process *process = &expansion->from->process[p];
	struct world *world = expansion->world;

	for (uint32_t op = 0; op < process->submitted; op++) {
		begin(expansion, p);
		if (!is_up(expansion) || !world_may_add(world, p, op))
			continue;
		bfs_say(expansion->bfs, "a shard takes operation %u of ", op);
		say_who(expansion, p);
		world_add(world, p, op);
		finish(expansion, MOVE_ADD | (process->status == ALIVE ? 0 : BFS_MAY), p, op);
	}
}

/* ---- where nothing else can happen, somebody's time is over ---- */

/* Everybody who is wanted is there, and willing: why did they not begin? */
static bool is_complete(const struct expansion *expansion)
{
	const struct control_config *config = expansion->world->config;
	uint32_t size = world_admission(expansion->world)->size, ranks = 0;

	for (uint32_t p = 0; p < config->processes; p++) {
		const struct process *process = &expansion->from->process[p];

		if (process->status == ALIVE && process->member.state == MEMBER_JOINING &&
		    process->near == OPEN && process->far == OPEN && !process->is_vanished &&
		    config->process[p].size == size)
			ranks |= 1u << config->process[p].rank;
	}
	return ranks == (1u << size) - 1;
}

void expand_late(struct expansion *expansion, bool is_last_resort)
{
	struct world *world = expansion->world;
	uint32_t state;

	begin(expansion, 0);
	state = world_admission(world)->state;
	if (!is_up(expansion) || state < ADMISSION_GATHER || state > ADMISSION_ENABLING)
		return;
	bfs_say(expansion->bfs, "the time to gather is over");
	if (is_last_resort && (state != ADMISSION_GATHER || is_complete(expansion) ||
			       expansion->from->is_terminating || is_hopeless(expansion)))
		world_fail(world, "LIVENESS: only the time to gather ends it");
	uint64_t now_ns = world_gathering_passes(world);
	world_aggregator(world,
			 (struct admission_event){ .type = ADMISSION_TICK, .now_ns = now_ns });
	if (is_last_resort)
		finish(expansion, MOVE_LATE, 0, 0);
	else
		finish_fault(expansion, FAULT_LATE, CONTROL_PROCESSES, 0);
}

void expand_member_late(struct expansion *expansion, uint32_t p, bool is_last_resort)
{
	const struct process *process = &expansion->from->process[p];
	uint32_t state = process->member.state;

	if (process->status != ALIVE || (state != MEMBER_JOINING && state != MEMBER_READY))
		return;
	begin(expansion, p);
	say_who(expansion, p);
	bfs_say(expansion->bfs, " will not wait any longer");
	if (is_last_resort && is_up(expansion))
		world_fail(expansion->world, "LIVENESS: only a member's patience ends it");
	world_member_late(expansion->world, p);
	if (is_last_resort)
		finish(expansion, MOVE_MEMBER_LATE, p, 0);
	else
		finish_fault(expansion, FAULT_LATE, p, 0);
}

/* ---- the model ---- */

static void control_expand(const void *config_at, const void *state_at, struct bfs *bfs)
{
	const struct control_config *config = config_at;
	static struct state from;
	struct expansion expansion = { .world = &the_world, .from = &from, .bfs = bfs };
	uint32_t beats;

	unpack(&the_world, state_at, &from);
	begin(&expansion, 0);
	beats = world_beats(&the_world);
	for (uint32_t p = 0; p < config->processes; p++) {
		expand_member(&expansion, p, beats);
		expand_updates(&expansion, p);
		if (is_up(&expansion))
			expand_peer(&expansion, p);
	}
	for (uint32_t k = 0; k < config->shards; k++)
		expand_shard(&expansion, k);
	if (is_up(&expansion))
		expand_exit(&expansion);
	for (uint32_t p = 0; p < config->processes && !expansion.moves; p++)
		expand_stall(&expansion, p, false);
	expand_verdict(&expansion);
	for (uint32_t p = 0; p < config->processes; p++)
		expand_no_verdict(&expansion, p);
	if (!expansion.moves)
		expand_late(&expansion, true);
	for (uint32_t p = 0; p < config->processes && !expansion.moves; p++)
		expand_member_late(&expansion, p, true);
	expand_faults(&expansion);
}

static bool control_is_end(const void *config_at, const void *state_at)
{
	const struct control_config *config = config_at;
	static struct state at;
	const struct state *state = &at;

	unpack(&the_world, state_at, &at);
	for (uint32_t p = 0; p < config->processes; p++) {
		const struct process *process = &state->process[p];

		if (process->status == ALIVE && !process_is_over(process))
			return false;
		if (state->aggregator == UP && (process->far == OPEN || process->far == SHUT))
			return false;
	}
	if (state->aggregator != UP)
		return true;
	for (uint32_t k = 0; k < config->shards; k++)
		if (state->shard[k].generation || state->shard[k].commands[0].type ||
		    state->shard[k].acks[0].type)
			return false;
	return admission_is_idle((const struct admission *)(const void *)state->admission);
}

static const char *control_check(const void *config, const void *state)
{
	(void)config;
	(void)state;
	return NULL; /* what a step breaks, it says */
}

static void control_init(const void *config_at, void *state_at)
{
	const struct control_config *config = config_at;
	struct world *world = &the_world;

	memset(&world->state, 0, sizeof(world->state));
	world->state.generation = 1;
	memcpy(world->state.left, config->may, sizeof(world->state.left));
	admission_init(world_admission(world), &world->admission);
	pack(world, &world->state, state_at);
}

void control_model(struct bfs_model *model, const void *config)
{
	world_begin(&the_world, config);
	*model = (struct bfs_model){ .state_bytes = the_world.packed_bytes,
				     .config = config,
				     .init = control_init,
				     .expand = control_expand,
				     .check = control_check,
				     .is_end = control_is_end };
}
