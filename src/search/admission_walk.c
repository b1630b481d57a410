/* SPDX-License-Identifier: Apache-2.0 */
/* admission_walk.c - see admission_walk.h. */
#include "search/admission_walk.h"

#include <assert.h>
#include <string.h>

#include "core/dense/misfit.h"
#include "search/admission_said.h"
#include "search/walk.h"

struct admission_walk *admission_now;
static const struct walk_config *config;

static struct admission *shipped(void)
{
	return (struct admission *)(void *)admission_now->admission;
}

/* A little below where a narrower or a signed number would end. */
static uint64_t near_bound(void)
{
	static const uint32_t bits[] = { 8, 16, 31, 32, 32, 63 };

	return ((uint64_t)1 << bits[admission_draw(6)]) - 1 - admission_draw(6);
}

static void begin(void *own, uint32_t walk)
{
	static char key[CONTROL_KEY_BYTES] = "a key";

	admission_now = own;
	rng_init(&admission_now->rng, 1, walk);
	admission_now->walk = walk;
	admission_now->mood = walk % MOODS < MOOD_PLOT ? walk % MOODS : MOOD_PLOT;
	admission_now->now_ns = 1000 * SECOND_NS;
	admission_now->generation = UINT32_MAX - 100;
	admission_now->config = (struct admission_config)ADMISSION_CONFIG_DEFAULT;
	admission_now->config.job = "j";
	admission_now->config.key = walk / MOODS % 3 ? NULL : key;
	admission_now->config.life = walk / MOODS % 4 == 1;
	admission_now->config.members_max = RANKS;
	admission_now->config.waiters_max = WAITERS;
	admission_now->config.ops_max = walk % 2 ? 3 : OPS_MAX;
	admission_now->config.groups_max = walk / MOODS % 3 ? 4 : 2;
	admission_now->shards = walk % 50 == 7 ? 35 : walk % 50 == 8 ? SHARDS : 2;
	admission_now->config.shards = (uint16_t)admission_now->shards;
	admission_now->config.lanes_max = walk % 3 ? 360 : WIRE_LANES_MAX;
	admission_now->first = walk % 4 ? near_bound() : 0;
	admission_now->connections = (uint32_t)near_bound() % (UINT32_MAX - 5000);
	if (walk / MOODS % 5 == 2 || (admission_now->mood == MOOD_PLOT && walk / MOODS % 4))
		admission_now->config.heartbeat_ns = 2 * SECOND_NS;
	assert(admission_bytes(&admission_now->config) <= sizeof(admission_now->admission));
	assert(admission_actions_max(&admission_now->config) <= ACTIONS);
	memset(admission_now->admission, 0x5a, sizeof(admission_now->admission));
	admission_init(shipped(), &admission_now->config);
	slow_admission_init(&admission_now->slow);
	if (walk % 2) { /* much has been before */
		admission_now->slow.round = shipped()->round = (uint32_t)near_bound();
		admission_now->slow.pings = shipped()->ping = (uint32_t)near_bound() & INT32_MAX;
	}
}

/* ---- a step ---- */

static const char *take(const struct admission_action *action)
{
	struct process *process = admission_whose(action->connection);

	if (action->type != ADMISSION_COMMAND) {
		if (!process || process->is_told)
			return "said to one that is not there any more";
		process->is_told = action->type == ADMISSION_CLOSE;
		return NULL;
	}
	for (uint32_t shard = 0; shard < admission_now->shards; shard++) {
		assert(admission_now->queued[shard] < QUEUE);
		admission_now->queue[shard][admission_now->queued[shard]++] =
			(struct command){ action->command, action->generation };
	}
	admission_now->generation += action->command == ADMISSION_JOB_ADD;
	return NULL;
}

static const char *event_happens(struct bfs *bfs, struct admission_event event)
{
	static struct control_member members[RANKS];
	static struct admission_action list[ACTIONS];
	static struct admission_actions actions;
	uint8_t nonce[WIRE_NONCE_BYTES] = { (uint8_t)walk_step(), (uint8_t)(walk_step() >> 8) };
	const char *wrong;

	memset(&actions, 0x5a, sizeof(actions)); /* as of any step before */
	memset(list, 0x5a, sizeof(list));
	memset(members, 0x5a, sizeof(members));
	actions.list = list;
	actions.list_max = ACTIONS;
	actions.members = members;
	event.now_ns = admission_now->now_ns;
	event.random = rng_next(&admission_now->rng);
	event.generation = admission_now->generation;
	event.nonce = nonce;
	admission_step(shipped(), &admission_now->config, &event, &actions);
	if (bfs_is_telling(bfs)) {
		bfs_say(bfs, "%llu ms: event %u",
			(unsigned long long)(admission_now->now_ns / MS_NS), event.type);
		if (event.connection)
			bfs_say(bfs, " %u", event.connection);
		if (event.message)
			bfs_say(bfs, " message %u", event.message->type);
		for (uint32_t i = 0; i < actions.count; i++)
			bfs_say(bfs, " %c%u>%u", "mxc"[list[i].type],
				list[i].type == ADMISSION_COMMAND ? list[i].command
								  : list[i].message,
				list[i].connection);
		bfs_say(bfs, " state %u %s", shipped()->state, actions.text);
	}
	wrong = slow_admission(&admission_now->slow, &admission_now->config, &event, shipped(),
			       &actions);
	for (uint32_t i = 0; i < actions.count && !wrong; i++)
		wrong = take(&list[i]);
	return wrong;
}

/* ---- what happens ---- */

static uint64_t draw_source(void)
{
	return admission_draw(3) *
	       (((uint64_t)1 << 32) + admission_draw(2)); /* some differ in few bits */
}

static const char *somebody_comes(struct bfs *bfs)
{
	struct control_message message = { .type = CONTROL_JOIN };
	struct admission_event event = { .type = ADMISSION_MESSAGE, .message = &message };
	uint32_t place = admission_draw(PLACES);

	for (uint32_t i = 0; i < PLACES && admission_now->mood == MOOD_PLOT; i++)
		place = admission_now->process[place].connection ? (place + 1) % PLACES : place;
	if (admission_now->process[place].connection)
		return NULL;
	message.join = admission_join();
	if (!admission_draw(50))
		message.type = CONTROL_READY;
	admission_now->process[place] =
		(struct process){ .connection = ++admission_now->connections,
				  .program = admission_draw(3) };
	event.connection = admission_now->connections;
	event.source = draw_source();
	return event_happens(bfs, event);
}

/* R-CT-24: as if another gathering had yielded it, a while after it had come there. */
static const char *somebody_is_adopted(struct bfs *bfs)
{
	struct control_join join = admission_join();
	struct admission_peer peer = {
		.heard_ns = admission_now->now_ns - admission_draw(2) * SECOND_NS,
		.spoke_ns = admission_now->now_ns - admission_draw(3) * SECOND_NS,
		.joined_ns = admission_now->now_ns - admission_draw(4) * SECOND_NS,
		.list_hash = join.list_hash,
		.boot = join.boot,
		.process = join.process,
		.source = draw_source(),
		.program = join.program,
		.connection = ++admission_now->connections,
		.pid = join.pid,
		.workers = join.workers,
		.timeout_ms = join.timeout_ms,
		.version_min = CONTROL_VERSION,
		.version_max = CONTROL_VERSION,
		.latency_slots = join.latency_slots,
		.latency_window = join.latency_window,
		.mode = join.mode,
		.size = join.size,
		.rank = join.rank,
		.local_size = join.local_size,
		.is_launched = join.is_launched,
		.nonce = { (uint8_t)walk_step() },
	};
	uint32_t place = admission_draw(PLACES);

	if (admission_now->process[place].connection)
		return NULL;
	admission_now->process[place] =
		(struct process){ .connection = peer.connection, .program = admission_draw(3) };
	memcpy(peer.host, join.host, sizeof(peer.host));
	memcpy(peer.list, join.list, sizeof(peer.list));
	return event_happens(bfs,
			     (struct admission_event){ .type = ADMISSION_ADOPT, .peer = &peer });
}

static const char *somebody_speaks(struct bfs *bfs)
{
	const struct slow_person *person = admission_somebody();
	struct control_message message;
	struct admission_event event = { .type = ADMISSION_MESSAGE, .message = &message };

	if (!person || !person->connection || admission_whose(person->connection)->is_told)
		return NULL;
	event.connection = person->connection;
	message = admission_said(person);
	return event_happens(bfs, event);
}

static const char *somebody_goes(struct bfs *bfs, bool is_any)
{
	struct admission_event event = { .type = ADMISSION_CLOSED };
	struct process *process = &admission_now->process[admission_draw(PLACES)];

	for (uint32_t i = 0; i < PLACES && !is_any; i++)
		if (admission_now->process[i].is_told && admission_draw(3))
			process = &admission_now->process[i];
	if (!process->connection || (!process->is_told && !is_any))
		return NULL;
	event.connection = process->connection;
	*process = (struct process){ 0 };
	return event_happens(bfs, event);
}

static const char *shard_has_done(struct bfs *bfs)
{
	uint16_t shard = (uint16_t)admission_draw(admission_now->shards);
	struct command *queue;
	struct admission_event event = { .type = ADMISSION_SHARD };

	for (uint32_t i = 0; i < admission_now->shards && !admission_now->queued[shard]; i++)
		shard = (uint16_t)((shard + 1u) % admission_now->shards);
	queue = admission_now->queue[shard];
	event.shard = shard;

	if (!admission_now->queued[shard])
		return NULL;
	event.command = queue[0].what;
	event.job_generation = queue[0].generation;
	event.has_failed = !admission_draw(admission_now->shards > 2 ? 1000 : 25);
	event.is_path = event.has_failed && admission_draw(2);
	event.text = event.is_path || admission_draw(2) ? "how" : NULL;
	event.rank = (uint16_t)admission_draw(3);
	memmove(queue, queue + 1, --admission_now->queued[shard] * sizeof(*queue));
	return event_happens(bfs, event);
}

static const char *time_passes(struct bfs *bfs)
{
	static const uint64_t span_ms[] = { 0,    1,    100,  400,  400,  900,
					    1000, 1000, 1000, 2000, 2499, 2500 };
	static const uint64_t long_ms[] = { 5000, 7500, 9999, 10000, 300000 };

	if (admission_draw(20))
		admission_now->now_ns +=
			span_ms[admission_draw(sizeof(span_ms) / sizeof(span_ms[0]))] * MS_NS;
	else
		admission_now->now_ns +=
			long_ms[admission_draw(sizeof(long_ms) / sizeof(long_ms[0]))] * MS_NS;
	return event_happens(bfs, (struct admission_event){ .type = ADMISSION_TICK });
}

static const char *something_rare(struct bfs *bfs)
{
	static const enum admission_event_type types[] = {
		ADMISSION_MISMATCH, ADMISSION_MISMATCH, ADMISSION_MISMATCH, ADMISSION_MISMATCH,
		ADMISSION_MISMATCH, ADMISSION_MISFIT,   ADMISSION_MISFIT,   ADMISSION_ALARM,
		ADMISSION_BROKEN,   ADMISSION_ORPHAN,   ADMISSION_YIELD,    ADMISSION_HEARD,
	};
	struct admission_event event = { .type = types[admission_draw(12)], .text = "why" };

	event.rank = (uint16_t)(admission_draw(4) ? admission_draw(RANKS) : CONTROL_RANK_NONE);
	event.other = (uint16_t)(admission_draw(4) ? admission_draw(RANKS) : CONTROL_RANK_NONE);
	event.count = (1 + admission_draw(4)) << admission_draw(18);
	event.misfit = (uint8_t)admission_draw(MISFIT_COUNT + 2);
	if (event.type == ADMISSION_BROKEN && admission_draw(2))
		event.text = NULL;
	if (event.type == ADMISSION_BROKEN && admission_draw(2))
		event.cause = CONTROL_MISMATCH;
	if (walk_steps_left() < 60 && !admission_draw(10))
		event.type = admission_draw(2) ? ADMISSION_TERMINATE : ADMISSION_KILL;
	return event_happens(bfs, event);
}

/* ---- a plot ---- */

/* All outstanding numbers are about plot_number. */
static void plot_of_process(struct process *process, uint32_t kind)
{
	uint64_t number = admission_now->plot_number;

	process->oldest = number - (admission_draw(4) ? 0 : admission_draw((uint32_t)number));
	process->submitted = number + admission_draw(4) + !!admission_draw(8);
	if (admission_now->plot == PLOT_STILL)
		process->submitted = number + 1;
	if (admission_now->plot != PLOT_DEADLINE)
		return;
	if (kind < 3) { /* complete, and much has been called since */
		process->oldest = number + 1;
		process->submitted = number + 2 + admission_draw(4);
	} else if (kind < 6) { /* one is ahead of all others */
		process->oldest = number - 2;
		process->submitted = admission_draw(3) ? number - 2 : number + 2;
	} else if (admission_draw(2)) {
		process->oldest = number + admission_draw(2);
	}
	if (process->submitted < process->oldest)
		process->submitted = process->oldest;
}

static void plot_begins(void)
{
	uint32_t kind = admission_draw(8);

	admission_now->plot_generation = admission_now->slow.generation;
	admission_now->plot = admission_draw(PLOTS);
	admission_now->plot_number = 2 + admission_draw(4);
	admission_now->plot_kinds = 1 + admission_draw(admission_draw(2) ? 2 : 8);
	admission_now->plot_mute = admission_draw(6) ? CONTROL_RANK_NONE : 0;
	for (uint32_t i = 0; i < PLACES; i++) {
		struct process *process = &admission_now->process[i];

		process->program = admission_draw(admission_now->plot_kinds + 1);
		plot_of_process(process, kind);
	}
}

static const struct slow_person *somebody_asked(void)
{
	uint32_t at = admission_draw(SLOW_PEOPLE);

	for (uint32_t i = 0; i < SLOW_PEOPLE; i++) {
		const struct slow_person *person =
			&admission_now->slow.people[(at + i) % SLOW_PEOPLE];

		if ((at + i) % SLOW_PEOPLE < admission_now->slow.count &&
		    person->place == SLOW_READY && !person->has_answered &&
		    person->rank != admission_now->plot_mute)
			return person;
	}
	return NULL;
}

static const char *plot_says(struct bfs *bfs, const struct slow_person *person,
			     enum control_type type)
{
	struct control_message message = { .type = type };
	struct admission_event event = { .type = ADMISSION_MESSAGE, .message = &message };
	struct process *process = admission_whose(person->connection);

	event.connection = person->connection;
	if (type == CONTROL_OPINFO) {
		if (admission_now->plot == PLOT_CHANGE &&
		    admission_now->slow.query == ADMISSION_DESCRIBE && admission_draw(8)) {
			process->program = 0;
			if (!admission_draw(4)) /* or it has not called it at all */
				process->submitted = process->oldest;
		}
		message.opinfo = admission_opinfo(process);
	} else if (type == CONTROL_LEAVE) {
		message.leave.submitted = admission_now->first + process->submitted;
	} else {
		message.stall.number =
			admission_now->first + (admission_now->plot == PLOT_STILL
							? process->oldest
							: admission_now->plot_number);
		message.stall.waited_ms = rng_u32(&admission_now->rng) >> admission_draw(20);
		message.stall.still_ms = admission_draw(20) ? UINT32_MAX : admission_draw(3000);
		message.stall.is_expired =
			(admission_now->plot == PLOT_DEADLINE && !admission_draw(3)) ||
			(admission_now->plot <= PLOT_CHANGE && !admission_draw(15));
		if (admission_now->plot == PLOT_STILL && !admission_draw(12)) {
			message.stall.number = admission_now->first; /* complete everywhere */
			message.stall.is_expired = true;
		}
	}
	return event_happens(bfs, event);
}

static const char *plot_misfit(struct bfs *bfs)
{
	struct admission_event event = { .type = ADMISSION_MISFIT };
	uint32_t kind = admission_now->plot_generation %
			3; /* how many send what does not fit: 0, 1, more */

	event.rank = (uint16_t)(kind == 2 ? admission_draw(admission_now->slow.size) : 0);
	event.count = (1 + admission_draw(4)) << admission_draw(18);
	event.misfit = (uint8_t)admission_draw(MISFIT_COUNT + 2);
	return kind ? event_happens(bfs, event) : NULL;
}

static const char *plot_step(struct bfs *bfs)
{
	const struct slow_person *person = somebody_asked();
	bool is_asking = admission_now->slow.query != ADMISSION_QUIET,
	     is_slow = admission_now->plot == PLOT_DEADLINE;
	uint32_t what = admission_draw(20);

	admission_now->now_ns += admission_draw(is_asking && !is_slow ? 40 : 250) * MS_NS;
	if (is_asking && person && what < (is_slow ? 8 : 15))
		return plot_says(bfs, person, CONTROL_OPINFO);
	if (what > 16)
		return event_happens(bfs, (struct admission_event){ .type = ADMISSION_TICK });
	person = admission_somebody();
	if (person->place != SLOW_READY)
		return NULL;
	if (admission_now->plot <= PLOT_CHANGE ? what < 6 : is_slow && !admission_draw(12))
		return event_happens(
			bfs, (struct admission_event){
				     .type = ADMISSION_MISMATCH,
				     .rank = (uint16_t)admission_draw(admission_now->slow.size),
				     .other = (uint16_t)admission_draw(admission_now->slow.size) });
	if (admission_now->plot == PLOT_STILL && what < 2)
		return plot_misfit(bfs);
	if (admission_now->plot == PLOT_LEAVE && what < 3)
		return plot_says(bfs, person, CONTROL_LEAVE);
	return plot_says(bfs, person, CONTROL_STALL);
}

/* ---- a step ---- */

static const char *step(struct bfs *bfs)
{
	bool is_orderly = admission_now->mood == MOOD_ORDERLY || admission_now->mood == MOOD_CALLS;
	bool is_ending = walk_steps_left() < 60;
	uint32_t what = admission_draw(100);

	if (admission_now->mood == MOOD_PLOT && admission_now->slow.state == ADMISSION_STARTED &&
	    admission_draw(100)) {
		if (admission_now->plot_generation != admission_now->slow.generation)
			plot_begins();
		return plot_step(bfs);
	}
	if (!admission_draw(2))
		admission_now->now_ns += admission_draw(300) * MS_NS;
	if (admission_now->mood == MOOD_PLOT && admission_now->slow.state < ADMISSION_GRANTED &&
	    admission_draw(4))
		return somebody_comes(bfs);
	if (admission_now->slow.state == ADMISSION_DRAIN &&
	    admission_draw(admission_now->mood == MOOD_PLOT ? 10 : 2))
		return admission_draw(3) ? somebody_goes(bfs, false) : shard_has_done(bfs);
	if ((admission_now->slow.state == ADMISSION_GRANTED ||
	     admission_now->slow.state == ADMISSION_ENABLING) &&
	    (admission_now->mood == MOOD_PLOT || admission_now->shards > 2 ? admission_draw(10)
									   : !admission_draw(3)))
		return admission_draw(2) ? shard_has_done(bfs) : somebody_speaks(bfs);
	if (what < 14 && is_orderly && admission_now->slow.state > ADMISSION_GATHER &&
	    admission_draw(6))
		return somebody_speaks(bfs);
	if (what < (admission_now->mood == MOOD_CROWD ? 25 : 14))
		return admission_draw(20) ? somebody_comes(bfs) : somebody_is_adopted(bfs);
	if (what < 30)
		return shard_has_done(bfs);
	if (what < (admission_now->mood == MOOD_SLOW    ? 50
		    : admission_now->mood == MOOD_CALLS ? 77
							: 70))
		return somebody_speaks(bfs);
	if (what < 80 || (admission_now->mood == MOOD_SLOW && what < 95))
		return time_passes(bfs);
	if (what < 95)
		return somebody_goes(bfs, false);
	if (what < 98)
		return admission_draw(2) ? somebody_goes(bfs, true) : NULL;
	return is_ending || admission_draw(2) ? something_rare(bfs) : NULL;
}

/* ---- the model ---- */

static const char *go_on(void *own, struct bfs *bfs)
{
	const char *wrong;

	admission_now = own;
	wrong = step(bfs);
	if (!walk_steps_left() && admission_now->walk + 1 == config->walks)
		for (uint32_t i = 0; i < SLOW_REACHED && !wrong; i++)
			if (slow_reached[i] < config->walks / 200)
				wrong = "the walks hardly ever reach one of the ends of a round";
	return wrong;
}

void admission_walk_model(struct bfs_model *model, const void *config_at)
{
	config = config_at;
	memset(slow_reached, 0, sizeof(slow_reached));
	walk_model(model, &(struct walk){ .walks = slow_admission_is_asked() ? config->walks : 0,
					  .steps = config->steps,
					  .own_bytes = sizeof(struct admission_walk),
					  .begin = begin,
					  .step = go_on });
}
