/* SPDX-License-Identifier: Apache-2.0 */
/* control_world.c - the machines of control.h's model; see control_world.h. */
#include "search/control_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t ms_ns = 1000000, s_ns = 1000000000;

static const char key[CONTROL_KEY_BYTES] = "sesame";
static const uint64_t span_ns = STILL_SPAN_MS * 1000000ull;
static const uint64_t long_ago_ns = 0 - 5000000000ull; /* 5 s before 0 */

enum { ACTIONS = 64, STEPS = 16 };

static void seat_begin(struct world *world, uint32_t s)
{
	uint32_t owner = seat_owner(world, s);
	const struct control_process *process = &world->config->process[owner];
	struct control_join *join = &world->join[s];

	*join = (struct control_join){ .version_min = CONTROL_VERSION,
				       .version_max = CONTROL_VERSION,
				       .size = process->size,
				       .rank = process->rank,
				       .workers = 1u + process->rank,
				       .pid = owner + 1,
				       .list_hash = process->list,
				       .mode = process->slots ? CONTROL_LATENCY : CONTROL_DENSE,
				       .latency_slots = process->slots,
				       .latency_window = process->window,
				       .life = world->config->life,
				       .is_launched = world->config->is_launched,
				       .program = world->config->is_launched,
				       .boot = 1,
				       .process = owner + 1,
				       .job = "j" };
	snprintf(join->host, HOST, "host%u", owner);
	strcpy(join->key, process->key ? "another" : key);
	world->process[s] = process;
	world->member[s] = (struct member_config)MEMBER_CONFIG_DEFAULT;
	world->member[s].aggregator = "agg:7171";
	world->member[s].join = join;
	world->member[s].is_local = world->config->is_local;
}

static void job_begin(struct world *world, uint32_t job)
{
	const struct control_config *config = world->config;
	struct admission_config *admission = &world->admission[job];
	uint16_t size_max = 1;

	for (uint32_t p = 0; p < config->processes; p++)
		size_max = config->process[p].size > size_max ? config->process[p].size : size_max;
	assert(size_max <= CONTROL_RANKS);
	*admission = (struct admission_config)ADMISSION_CONFIG_DEFAULT;
	admission->job = !job || config->second == SECOND_AGGREGATOR ? "j"
			 : config->second == SECOND_PAIR             ? "j/0-1"
								     : "j/0";
	admission->key = key;
	admission->life = job ? job : config->life;
	admission->members_max = size_max;
	admission->waiters_max = (uint16_t)config->processes;
	admission->ops_max = config->is_cut ? 1 : SEEN;
	admission->groups_max = GROUPS;
	admission->text_max = REFUSAL;
	admission->shards = (uint16_t)config->shards;
	admission->lanes_max = LANES;
}

void world_begin(struct world *world, const struct control_config *config)
{
	*world = (struct world){ .config = config, .jobs = 1, .aggregators = 1 };
	world->seats = config->processes;
	if (config->second != SECOND_NONE) {
		world->seats *= 2;
		world->jobs = JOBS;
		world->aggregators += config->second == SECOND_AGGREGATOR;
	}
	for (uint32_t s = 0; s < world->seats; s++)
		seat_begin(world, s);
	for (uint32_t job = 0; job < world->jobs; job++)
		job_begin(world, job);
	world->join[NOBODY].rank = CONTROL_RANK_NONE;
	world->silent = NOBODY;
	pack_begin(world);
}

/* ---- the aggregator ---- */

/* ---- clocks ---- */

/* For R-CT-43 and R-CT-44: what admission's clocks say is kept as ages, up to what makes a difference, so that there
 * are few states. */
static uint8_t age_of(uint64_t now_ns, uint64_t then_ns, uint32_t most)
{
	uint64_t age = (now_ns - then_ns) / span_ns;

	return (uint8_t)(age < most ? age : most);
}

static void clock_set(struct world *world, uint64_t now_ns)
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

static void clock_keep(struct world *world, uint64_t now_ns)
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

/* As if it had just done all that it does from time to time, at `now_ns`. */
static void set_clocks(struct world *world, uint64_t now_ns)
{
	struct admission *admission = world_admission(world);

	admission->tick_ns = now_ns ? now_ns - ms_ns : 0;
	admission->since_ns = now_ns;
	admission->beat_ns = now_ns;
	admission->progress_ns = now_ns;
	if (admission->query != ADMISSION_QUIET)
		admission->page_ns = now_ns;
	for (uint32_t i = 0; i < world_peers_count(world); i++) {
		struct admission_peer *peer = world_peer(world, i);

		peer->heard_ns = peer->spoke_ns = peer->connection ? now_ns : 0;
		peer->joined_ns = peer->connection ? now_ns : 0;
	}
}

uint64_t world_heartbeat_passes(struct world *world, uint32_t silent)
{
	uint64_t now_ns = 2 * world->admission[world->at].heartbeat_ns;

	set_clocks(world, now_ns);
	world->silent = silent;
	for (uint32_t i = 0; i < world_peers_count(world); i++)
		if (world_peer(world, i)->connection == silent + 1)
			world_peer(world, i)->heard_ns = 0;
	return now_ns;
}

uint64_t world_gathering_passes(struct world *world)
{
	uint64_t now_ns = world->admission[world->at].gather_ns;

	set_clocks(world, now_ns);
	world_admission(world)->since_ns = 0;
	for (uint32_t i = 0; i < world_peers_count(world); i++)
		world_peer(world, i)->joined_ns = 0;
	return now_ns;
}

bool world_refusal_passes(struct world *world)
{
	struct admission *admission = world_admission(world);
	bool is_fresh = admission->refused.cause && admission->refused.since_ns != long_ago_ns;

	if (is_fresh)
		admission->refused.since_ns = long_ago_ns;
	return is_fresh;
}

bool world_verdict_is_due(struct world *world)
{
	const struct admission *admission = world_admission(world);
	bool is_due = admission->query != ADMISSION_QUIET && admission->is_about_expired;

	if (is_due) {
		set_clocks(world, s_ns);
		world_aggregator(world, (struct admission_event){ .type = ADMISSION_TICK,
								  .now_ns = s_ns });
	}
	return is_due;
}

bool world_hold_passes(struct world *world)
{
	const struct admission *admission = world_admission(world);
	uint64_t all = (1ull << world->admission[world->at].shards) - 1;
	bool is_held = admission->state == ADMISSION_ENABLING && admission->shards_acked == all;

	if (is_held) {
		set_clocks(world, s_ns);
		for (uint32_t i = 0; i < world_peers_count(world); i++)
			world_peer(world, i)->joined_ns = 0;
		world_aggregator(world, (struct admission_event){ .type = ADMISSION_TICK,
								  .now_ns = s_ns });
	}
	return is_held;
}

static bool is_on_its_way(const struct world *world, uint32_t type, uint32_t answer)
{
	for (uint32_t s = 0; s < world->seats; s++)
		for (uint32_t i = 0; i < QUEUE && seat_job(world, s) == world->at; i++)
			if (world->state.seat[s].down[i].type == type ||
			    world->state.seat[s].up[i].type == answer)
				return true;
	return false;
}

/* What nobody will ever look at again, or only a log, makes no different states. */
static void forget(struct world *world)
{
	struct admission *admission = world_admission(world);
	bool is_asked = is_on_its_way(world, CONTROL_PING, CONTROL_PONG);

	set_clocks(world, 0);
	admission->asked_ns = 0;
	admission->page_ns = 0;
	if (admission->refused.since_ns != long_ago_ns)
		admission->refused.since_ns = 0;
	admission->stall.waited_ms = 0;
	admission->expired.waited_ms = 0;
	admission->about.waited_ms = 0;
	admission->last_cause = 0;
	admission->last_rank = CONTROL_RANK_NONE;
	for (uint32_t i = 0; i < world_peers_count(world); i++)
		is_asked |= world_peer(world, i)->pulse == ADMISSION_ASKED;
	if (!is_asked) {
		admission->ping = 0;
		for (uint32_t i = 0; i < world_peers_count(world); i++)
			world_peer(world, i)->ping = 0;
	}
	for (uint32_t rank = 0;
	     rank < world->admission[world->at].members_max && !world->config->has_clock; rank++) {
		admission_member(admission, rank)->is_still = 0;
		admission_member(admission, rank)->still_number = 0;
	}
	if (admission->query != ADMISSION_QUIET)
		return;
	for (uint32_t rank = 0; rank < world->admission[world->at].members_max; rank++) {
		admission_member(admission, rank)->has_answered = 0;
		admission_member(admission, rank)->oldest = 0;
		admission_member(admission, rank)->about = 0;
		admission_member(admission, rank)->group = 0;
	}
	if (!is_on_its_way(world, CONTROL_QUERY, CONTROL_OPINFO))
		admission->round = 0;
}

static bool is_known(struct world *world, uint32_t s)
{
	for (uint32_t i = 0; i < world_peers_count(world); i++)
		if (world_peer(world, i)->connection == s + 1)
			return true;
	return false;
}

static void check_command(struct world *world, enum admission_command command)
{
	struct admission *admission = world_admission(world);

	if (command != ADMISSION_JOB_REMOVE && world_is_owed(world))
		world_fail(world, "SAFETY: a command before every shard has done the last");
	for (uint32_t s = 0; s < world->seats && command == ADMISSION_JOB_ADD; s++) {
		const struct seat *seat = &world->state.seat[s];

		if (seat_job(world, s) != world->at)
			continue;
		if (seat->is_held)
			world_fail(world, "SAFETY: a life begins, one of the last is still there");
		if (seat->far == OPEN && seat->has_joined && !is_known(world, s))
			world_fail(world, "SAFETY: a life begins and somebody is forgotten");
	}
	if (command == ADMISSION_JOB_REMOVE && admission->state == ADMISSION_STARTED)
		world_fail(world, "SAFETY: slots are released before all have left");
}

static void command_push(struct world *world, const struct admission_action *action)
{
	struct job_command command = { .type = (uint8_t)(1 + action->command),
				       .generation = (uint8_t)action->generation };
	struct admission *admission = world_admission(world);

	check_command(world, action->command);
	for (uint32_t rank = 0; rank < admission->size && action->command == ADMISSION_JOB_ADD;
	     rank++) {
		command.who[rank] = admission_nonce(admission, rank)[0];
		world->state.seat[command.who[rank] - 1].generation = action->generation;
	}
	if (action->command == ADMISSION_JOB_ADD) {
		world->state.generation[job_aggregator(world, world->at)]++;
		if (!world->at)
			world->state.lives++;
	}
	for (uint32_t k = 0; k < world->config->shards; k++) {
		struct job_command *commands = world->state.job[world->at].shard[k].commands;
		uint32_t count = 0;

		while (count < COMMANDS && commands[count].type)
			count++;
		if (count == COMMANDS)
			world_fail(world, "MODEL: a shard's queue is too short");
		else
			commands[count] = command;
	}
}

static void aggregator_send(struct world *world, uint32_t s,
			    const struct admission_actions *actions,
			    const struct admission_action *action)
{
	struct seat *seat = &world->state.seat[s];
	struct control_message message;
	struct note note;

	if (seat->far != OPEN)
		world_fail(world, "SAFETY: a word after the last one");
	admission_message(world_admission(world), &world->admission[world->at], actions, action,
			  &message);
	world_check_message(world, s, &message);
	if (message.type == CONTROL_WAITING && !seat->member.is_expired)
		return; /* a line for a log */
	note = note_of(&message);
	/* Who is silent is out; a gathering holds nobody. */
	if (message.type == CONTROL_ABORT && world_admission(world)->state == ADMISSION_DRAIN)
		seat->is_held = is_known(world, s);
	for (uint32_t k = 0; k < world->config->shards && message.type == CONTROL_START; k++)
		if (world->state.job[world->at].shard[k].generation !=
			    world_admission(world)->generation ||
		    !world->state.job[world->at].shard[k].is_enabled)
			world_fail(world, "SAFETY: START before every shard is enabled");
	if (seat->near == OPEN && !seat->is_vanished)
		notes_push(world, seat->down, &note);
}

static void aggregator_close(struct world *world, uint32_t s)
{
	struct seat *seat = &world->state.seat[s];

	if (seat->far != OPEN)
		world_fail(world, "SAFETY: a connection is closed twice");
	seat->far = SHUT;
	memset(seat->up, 0, sizeof(seat->up)); /* read and thrown away */
}

static void aggregator_act(struct world *world, const struct admission_actions *actions)
{
	for (uint32_t i = 0; i < actions->count; i++) {
		const struct admission_action *action = &actions->list[i];

		switch ((enum admission_action_type)action->type) {
		case ADMISSION_SEND:
			if (action->connection)
				aggregator_send(world, action->connection - 1, actions, action);
			else
				world_fail(world, "SAFETY: a word to nobody");
			break;
		case ADMISSION_CLOSE:
			aggregator_close(world, action->connection - 1);
			break;
		case ADMISSION_COMMAND:
			command_push(world, action);
			break;
		}
	}
}

/* R-CT-21; src/server, job_orphans: jobs that belong to the life that has just ended and do not run yet. */
static void life_ended(struct world *world, uint8_t life, const char *text)
{
	uint32_t at = world->at;

	if (!has_parts(world) || at)
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

/* As the server does it: steps again at once while there is more to do. */
void world_aggregator(struct world *world, struct admission_event event)
{
	static struct admission_action list[ACTIONS];
	static struct control_member members[CONTROL_RANKS];
	static struct admission_actions actions = { .list = list,
						    .list_max = ACTIONS,
						    .members = members };
	static uint64_t before[STATE_WORDS];
	const struct admission *was = (const struct admission *)(void *)before;
	char text[CONTROL_TEXT_BYTES] = "";
	uint32_t steps = 0;
	uint64_t life = 0;

	do {
		size_t bytes = admission_bytes(&world->admission[world->at]);

		assert(bytes <= sizeof(before));
		memcpy(before, world_admission(world), bytes);
		event.generation = world->state.generation[job_aggregator(world, world->at)];
		event.random = world->at ? 1 : world->state.lives + 1u;
		if (world->config->has_clock && !event.now_ns) {
			event.now_ns = STILL * STILL_SPAN_MS * 1000000ull;
			set_clocks(world, event.now_ns);
		}
		if (world->config->has_clock)
			clock_set(world, event.now_ns);
		world_check_heard(world, &event, false);
		admission_step(world_admission(world), &world->admission[world->at], &event,
			       &actions);
		world_check_heard(world, &event, true);
		if (actions.cause != CONTROL_OK)
			world_check_text(world, &event, was, &actions);
		if (world->config->has_clock)
			clock_keep(world, event.now_ns);
		world_check_waiting(world, was, &actions);
		if (was->state == ADMISSION_DRAIN &&
		    world_admission(world)->state == ADMISSION_NONE)
			world_check_drained(world);
		aggregator_act(world, &actions);
		if (admission_is_running(was) && actions.cause != CONTROL_OK &&
		    !admission_is_running(world_admission(world))) {
			life = was->life;
			snprintf(text, sizeof(text), "%s", actions.text);
		}
		event = (struct admission_event){ .type = ADMISSION_TICK, .now_ns = event.now_ns };
		if (actions.again && ++steps == STEPS)
			world_fail(world, "LIVENESS: there is always more to do");
	} while (actions.again && steps < STEPS);
	forget(world);
	if (life)
		life_ended(world, (uint8_t)life, text);
}

static void check_leave(struct world *world, uint32_t from)
{
	const struct note *down = world->state.seat[from].down;
	uint32_t count = notes_count(down);

	if (world->state.seat[from].near == OPEN && !world->state.seat[from].is_vanished &&
	    (!count || down[count - 1].type != CONTROL_LEFT))
		world_fail(world, "LEAVE is not answered by LEFT at once");
}

static void seat_refuse_orphan(struct world *world, uint32_t s)
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

/* R-CT-59; src/server, job_deserts: the job that steps has read a LEAVE or a JOIN. */
static void pairs_desert(struct world *world, uint32_t type)
{
	const struct admission *first = (const void *)world->state.job[0].admission;
	uint32_t at = world->at;

	for (uint32_t job = 1; job < world->jobs; job++) {
		struct admission_event event;

		world_select(world, job);
		if ((type != CONTROL_LEAVE && job != at) ||
		    !admission_is_deserted(world_admission(world), &world->admission[job], first,
					   &event))
			continue;
		world_check_deserted(world, event.other);
		world_aggregator(world, event);
	}
	world_select(world, at);
}

void world_read(struct world *world, uint32_t from)
{
	struct control_op ops[CONTROL_OPS];
	struct control_message message;
	uint8_t nonce[WIRE_NONCE_BYTES] = { (uint8_t)(from + 1) };
	struct note note = notes_pop(world->state.seat[from].up);
	bool was_started;

	world_select(world, seat_job(world, from));
	was_started = world_admission(world)->state == ADMISSION_STARTED;
	world->state.seat[from].has_joined = 1;
	if (note.type == CONTROL_JOIN && seat_is_orphan(world, from)) {
		seat_refuse_orphan(world, from);
		return;
	}
	message_of(world, from, &note, ops, &message);
	world_aggregator(world, (struct admission_event){ .type = ADMISSION_MESSAGE,
							  .connection = from + 1,
							  .message = &message,
							  .nonce = nonce });
	if (note.type == CONTROL_LEAVE && was_started)
		check_leave(world, from);
	if (note.type == CONTROL_LEAVE || note.type == CONTROL_JOIN)
		pairs_desert(world, note.type);
}

void world_closed(struct world *world, uint32_t from)
{
	world->state.seat[from].far = CLOSED;
	world->state.seat[from].is_held = 0;
	memset(world->state.seat[from].up, 0, sizeof(world->state.seat[from].up));
	world_select(world, seat_job(world, from));
	world_aggregator(world, (struct admission_event){ .type = ADMISSION_CLOSED,
							  .connection = from + 1 });
}

void world_ack(struct world *world, uint32_t shard)
{
	struct job_ack *acks = world->state.job[world->at].shard[shard].acks;
	struct job_ack head = acks[0];
	struct admission_event event = { .type = ADMISSION_MISMATCH, .rank = head.rank };

	memmove(acks, acks + 1, (ACKS - 1) * sizeof(*acks));
	memset(acks + ACKS - 1, 0, sizeof(*acks));
	if (head.type == ACK_MISFIT)
		event = (struct admission_event){
			.type = ADMISSION_MISFIT, .rank = head.rank, .misfit = 1, .count = 1
		};
	else if (head.type != ACK_MISMATCH)
		event = (struct admission_event){
			.type = ADMISSION_SHARD,
			.shard = (uint16_t)shard,
			.command = (enum admission_command)(head.type - ACK_OF),
			.job_generation = head.generation,
			.has_failed = head.has_failed,
		};
	world_aggregator(world, event);
}

static uint32_t job_beats(struct world *world)
{
	static struct admission_action list[ACTIONS];
	static struct control_member members[CONTROL_RANKS];
	static struct admission_actions actions = { .list = list,
						    .list_max = ACTIONS,
						    .members = members };
	static uint64_t kept[STATE_WORDS];
	struct admission *admission = world_admission(world);
	size_t bytes = admission_bytes(&world->admission[world->at]);
	uint32_t beats = 0;

	memcpy(kept, admission, bytes);
	set_clocks(world, 2 * s_ns);
	admission->beat_ns = 0;
	admission_step(admission, &world->admission[world->at],
		       &(struct admission_event){
			       .type = ADMISSION_TICK, .now_ns = 2 * s_ns, .generation = 200 },
		       &actions);
	for (uint32_t i = 0; i < actions.count; i++)
		if (list[i].type == ADMISSION_SEND && list[i].message == CONTROL_HEARTBEAT)
			beats |= 1u << (list[i].connection - 1);
	memcpy(admission, kept, bytes);
	return beats;
}

uint32_t world_beats(struct world *world)
{
	uint32_t beats = 0;

	for (uint32_t job = 0; job < world->jobs; job++) {
		world_select(world, job);
		if (!admission_is_idle(world_admission(world)))
			beats |= job_beats(world);
	}
	return beats;
}

/* The process is gone, with all that it knew. */
void world_aggregator_ends(struct world *world, uint32_t aggregator)
{
	struct state *state = &world->state;

	state->aggregator[aggregator] = DOWN;
	state->is_terminating[aggregator] = 0;
	if (!aggregator)
		state->ended_life = 0;
	for (uint32_t job = 0; job < world->jobs; job++) {
		if (job_aggregator(world, job) != aggregator)
			continue;
		world_select(world, job);
		memset(state->job[job].shard, 0, sizeof(state->job[job].shard));
		admission_init(world_admission(world), &world->admission[job]);
		forget(world);
	}
	for (uint32_t s = 0; s < world->seats; s++) {
		struct seat *seat = &state->seat[s];

		if (seat_aggregator(world, s) != aggregator)
			continue;
		memset(seat->up, 0, sizeof(seat->up));
		seat->is_held = 0;
		seat->has_stalled = 0;
		if (seat->far != ABSENT)
			seat->far = CLOSED;
	}
}
