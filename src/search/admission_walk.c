/* SPDX-License-Identifier: Apache-2.0 */
/* admission_walk.c - see walks.h. */
#include "search/walks.h"

#include <assert.h>
#include <string.h>

#include "core/dense/misfit.h"
#include "search/admission_said.h"
#include "search/record.h"
#include "search/record_message.h"
#include "search/slow.h"

#define CONFIG(name) RECORD_FIELD(struct admission_config, name)
#define EVENT(name) RECORD_FIELD(struct admission_event, name)
#define PEER(name) RECORD_FIELD(struct admission_peer, name)
#define KEPT(name) RECORD_FIELD(struct admission, name)

/* clang-format off */
static const struct record_field config_fields[] = {
	CONFIG(life), CONFIG(members_max), CONFIG(waiters_max), CONFIG(ops_max), CONFIG(groups_max),
	CONFIG(shards), CONFIG(lanes_max), CONFIG(heartbeat_ns), CONFIG(gather_ns), { 0 }
};
static const struct record_field event_fields[] = {
	EVENT(type), EVENT(now_ns), EVENT(random), EVENT(generation), EVENT(connection), EVENT(source),
	EVENT(rank), EVENT(other), EVENT(misfit), EVENT(count), EVENT(shard), EVENT(command),
	EVENT(job_generation), EVENT(is_path), EVENT(cause), EVENT(has_failed), { 0 }
};
static const struct record_field peer_fields[] = {
	PEER(heard_ns), PEER(spoke_ns), PEER(joined_ns), PEER(list_hash), PEER(program), PEER(boot),
	PEER(process), PEER(source), PEER(connection), PEER(pid), PEER(workers), PEER(timeout_ms),
	PEER(latency_slots), PEER(latency_window), PEER(size), PEER(rank), PEER(mode),
	PEER(local_size), PEER(is_launched), PEER(host), PEER(list), { 0 }
};

/* What is 0 when something is over, so that states can be compared: a round, a life, all who were in, a refusal, who
 * was unfit. */
static const struct record_field kept[][9] = {
	{ KEPT(page), KEPT(about), KEPT(is_about_expired) },
	{ KEPT(mismatch), KEPT(stall), KEPT(expired), KEPT(complete), KEPT(complete_rank),
	  KEPT(mismatch_rank), KEPT(mismatch_other) },
	{ KEPT(life), KEPT(generation), KEPT(shards_acked), KEPT(size), KEPT(mode),
	  KEPT(latency_slots), KEPT(latency_window), KEPT(lanes) },
	{ KEPT(refused) },
	{ KEPT(unfit) },
};
/* clang-format on */
enum { KEPT_ROUND, KEPT_LIFE, KEPT_PEOPLE, KEPT_REFUSAL, KEPT_UNFIT, KEPT_GONE, KEPT_WAITERS };

static const struct walk_config *config;

/* A little below where a narrower or a signed number would end. */
static uint64_t near_bound(void)
{
	static const uint32_t bits[] = { 8, 16, 31, 32, 32, 63 };

	return ((uint64_t)1 << bits[admission_draw(6)]) - 1 - admission_draw(6);
}

static void begin(uint32_t walk)
{
	static const char key[CONTROL_KEY_BYTES] = "a key";
	struct admission_config *of = &admission_now.config;
	struct admission *shipped = admission_shipped();

	memset(&admission_now, 0, sizeof(admission_now));
	rng_init(&admission_now.rng, 1, walk);
	admission_now.walk = walk;
	admission_now.mood = walk % MOODS < MOOD_PLOT ? walk % MOODS : MOOD_PLOT;
	admission_now.now_ns = 1000 * SECOND_NS;
	admission_now.generation = UINT32_MAX - 100;
	*of = (struct admission_config)ADMISSION_CONFIG_DEFAULT;
	of->job = "j";
	of->key = walk / MOODS % 3 ? NULL : key;
	of->life = walk / MOODS % 4 == 1;
	of->members_max = RANKS;
	of->waiters_max = WAITERS;
	of->ops_max = walk % 2 ? 3 : OPS_MAX;
	of->groups_max = walk / MOODS % 2 ? 4 : 2;
	admission_now.shards = walk % 50 == 7 ? 35 : walk % 50 == 8 ? SHARDS : 2;
	of->shards = (uint16_t)admission_now.shards;
	of->lanes_max = walk % 3 ? 360 : WIRE_LANES_MAX;
	admission_now.first = walk % 4 ? near_bound() : 0;
	admission_now.connections = (uint32_t)near_bound() % (UINT32_MAX - 5000);
	if (walk / MOODS % 5 == 2 || (admission_now.mood == MOOD_PLOT && walk / MOODS % 4))
		of->heartbeat_ns = 2 * SECOND_NS;
	assert(admission_bytes(of) <= sizeof(admission_now.memory));
	assert(admission_actions_max(of) <= ACTIONS);
	memset(admission_now.memory, 0x5a, sizeof(admission_now.memory));
	admission_init(shipped, of);
	if (walk % 2) { /* much has been before */
		shipped->round = (uint32_t)near_bound();
		shipped->ping = (uint32_t)near_bound() & INT32_MAX;
	}
	record("admission");
	record_fields(of, config_fields);
	record_also(" %u %u", shipped->round, shipped->ping);
	record_text(of->job);
	record_text(of->key);
}

static uint32_t steps_left(void)
{
	return config->steps - admission_now.step;
}

/* ---- an event ---- */

static void record_event(const struct admission_event *event)
{
	record("event");
	record_fields(event, event_fields);
	record_text(event->text);
	record_bytes(event->peer ? event->peer->nonce : event->nonce, WIRE_NONCE_BYTES);
	if (event->message)
		record_message(event->message);
	if (event->peer) {
		record_also(" ;");
		record_fields(event->peer, peer_fields);
	}
}

static void record_action(const struct admission_actions *actions,
			  const struct admission_action *action)
{
	static struct control_message message;
	struct process *process = admission_whose(action->connection);

	if (action->type == ADMISSION_COMMAND) {
		record("command %u %u %u", action->command, action->generation, action->lanes);
		for (uint32_t shard = 0; shard < admission_now.shards; shard++) {
			assert(admission_now.queued[shard] < COMMANDS);
			admission_now.queue[shard][admission_now.queued[shard]++] =
				(struct command){ action->command, action->generation };
		}
		admission_now.generation += action->command == ADMISSION_JOB_ADD;
		return;
	}
	if (!process || process->is_told)
		record("wrong: said to one that is not there any more");
	if (action->type == ADMISSION_CLOSE) {
		record("close %u", action->connection);
		if (process)
			process->is_told = true;
		return;
	}
	memset(&message, 0x5a, sizeof(message));
	admission_message(admission_shipped(), &admission_now.config, actions, action, &message);
	record("send %u", action->connection);
	record_message(&message);
}

static bool is_zero(const void *from, const void *to)
{
	for (const char *at = from; at < (const char *)to; at++)
		if (*at)
			return false;
	return true;
}

static uint32_t bit_of(uint32_t what, const void *from, const void *to)
{
	return is_zero(from, to) ? 0 : 1u << what;
}

/* Bits, of what is not 0: also of the memory behind the struct, see admission.h. */
static uint32_t kept_bits(struct admission *shipped)
{
	const struct admission_config *of = &admission_now.config;
	const struct admission_member *members = admission_member(shipped, 0);
	const struct admission_peer *waiters = admission_waiters_of(shipped);
	const char *groups = (const char *)(waiters + of->waiters_max);
	const char *refusal = groups + of->groups_max * sizeof(struct control_op) +
			      of->ops_max * sizeof(struct admission_seen);
	const char *unfit = refusal + of->text_max;
	const char *end = unfit + of->text_max + of->members_max * sizeof(uint64_t);
	uint32_t bits = bit_of(KEPT_ROUND, groups, refusal) |
			bit_of(KEPT_PEOPLE, members, waiters) |
			bit_of(KEPT_REFUSAL, refusal, unfit) | bit_of(KEPT_UNFIT, unfit, end) |
			bit_of(KEPT_WAITERS, waiters + shipped->waiters_count, groups);

	for (uint32_t what = 0; what <= KEPT_UNFIT; what++)
		for (const struct record_field *field = kept[what]; field->bytes; field++)
			if (!is_zero((char *)shipped + field->at,
				     (char *)shipped + field->at + field->bytes))
				bits |= 1u << what;
	for (uint32_t rank = 0; rank < shipped->size; rank++)
		if (members[rank].presence >= ADMISSION_LEFT && members[rank].peer.connection)
			bits |= 1u << KEPT_GONE;
	return bits;
}

/* Of all who may be silent; UINT64_MAX: there is nobody. */
static uint64_t heard_first(struct admission *shipped)
{
	const struct admission_peer *waiters = admission_waiters_of(shipped);
	uint64_t first_ns = UINT64_MAX;

	for (uint32_t i = 0; i < RANKS + WAITERS; i++) {
		const struct admission_peer *peer = i < RANKS ? &admission_member(shipped, i)->peer
							      : &waiters[i - RANKS];

		if (peer->connection && peer->heard_ns < first_ns)
			first_ns = peer->heard_ns;
		if (peer->connection && peer->spoke_ns < first_ns)
			first_ns = peer->spoke_ns;
	}
	return first_ns;
}

static void event_happens(struct admission_event event)
{
	static struct control_member members[RANKS];
	static struct admission_action list[ACTIONS];
	static struct admission_actions actions;
	uint8_t nonce[WIRE_NONCE_BYTES] = { (uint8_t)admission_now.step,
					    (uint8_t)(admission_now.step >> 8) };
	struct admission *shipped = admission_shipped();

	memset(&actions, 0x5a, sizeof(actions)); /* as of any step before */
	memset(list, 0x5a, sizeof(list));
	memset(members, 0x5a, sizeof(members));
	actions.list = list;
	actions.list_max = ACTIONS;
	actions.members = members;
	event.now_ns = admission_now.now_ns;
	event.random = rng_next(&admission_now.rng);
	event.generation = admission_now.generation;
	event.nonce = nonce;
	record_event(&event);
	admission_step(shipped, &admission_now.config, &event, &actions);
	for (uint32_t i = 0; i < actions.count; i++)
		record_action(&actions, &list[i]);
	record("state %u %u %u %u %llu %u %u %u %u %u %u", event.type == ADMISSION_TICK,
	       shipped->state, shipped->waiters_count, actions.again,
	       (unsigned long long)actions.wake_ns, actions.log_level, shipped->query,
	       shipped->mismatch, shipped->last_cause, shipped->last_rank, kept_bits(shipped));
	record_also(" %llu", (unsigned long long)heard_first(shipped));
	record_text(actions.log);
}

/* ---- what happens ---- */

static uint64_t draw_source(void)
{
	return admission_draw(3) *
	       (((uint64_t)1 << 32) + admission_draw(2)); /* some differ in few bits */
}

static void somebody_comes(void)
{
	struct control_message message = { .type = CONTROL_JOIN };
	struct admission_event event = { .type = ADMISSION_MESSAGE, .message = &message };
	uint32_t place = admission_draw(PLACES);

	for (uint32_t i = 0; i < PLACES && admission_now.mood == MOOD_PLOT; i++)
		place = admission_now.process[place].connection ? (place + 1) % PLACES : place;
	if (admission_now.process[place].connection)
		return;
	message.join = admission_join();
	if (!admission_draw(50))
		message.type = CONTROL_READY;
	admission_now.process[place] = (struct process){ .connection = ++admission_now.connections,
							 .program = admission_draw(3) };
	event.connection = admission_now.connections;
	event.source = draw_source();
	event_happens(event);
}

/* R-CT-24: as if another gathering had yielded it, a while after it had come there. */
static void somebody_is_adopted(void)
{
	struct control_join join = admission_join();
	struct admission_peer peer = {
		.heard_ns = admission_now.now_ns - admission_draw(2) * SECOND_NS,
		.spoke_ns = admission_now.now_ns - admission_draw(3) * SECOND_NS,
		.joined_ns = admission_now.now_ns - admission_draw(4) * SECOND_NS,
		.list_hash = join.list_hash,
		.boot = join.boot,
		.process = join.process,
		.source = draw_source(),
		.program = join.program,
		.connection = ++admission_now.connections,
		.pid = join.pid,
		.workers = join.workers,
		.timeout_ms = join.timeout_ms,
		.latency_slots = join.latency_slots,
		.latency_window = join.latency_window,
		.mode = join.mode,
		.size = join.size,
		.rank = join.rank,
		.local_size = join.local_size,
		.is_launched = join.is_launched,
		.nonce = { (uint8_t)admission_now.step },
	};
	uint32_t place = admission_draw(PLACES);

	if (admission_now.process[place].connection)
		return;
	admission_now.process[place] =
		(struct process){ .connection = peer.connection, .program = admission_draw(3) };
	memcpy(peer.host, join.host, sizeof(peer.host));
	memcpy(peer.list, join.list, sizeof(peer.list));
	event_happens((struct admission_event){ .type = ADMISSION_ADOPT, .peer = &peer });
}

static bool is_pinged(const struct person *person)
{
	return person->peer->pulse == ADMISSION_ASKED;
}

static void somebody_speaks(void)
{
	/* Or claims of ranks would seldom be settled. */
	bool is_pinged_first = admission_now.mood == MOOD_CROWD && admission_draw(2);
	struct person person = admission_somebody(is_pinged_first ? is_pinged : NULL);
	struct control_message message;
	struct admission_event event = { .type = ADMISSION_MESSAGE, .message = &message };

	if (!person.process || person.process->is_told)
		return;
	event.connection = person.process->connection;
	/* HELLOs alone say that some are alive, once it runs. */
	if (admission_now.mood == MOOD_SLOW && event.connection % 3 == 0 &&
	    admission_shipped()->state == ADMISSION_STARTED && admission_draw(10))
		return;
	message = admission_said(&person);
	event_happens(event);
}

static void somebody_goes(bool is_any)
{
	struct admission_event event = { .type = ADMISSION_CLOSED };
	struct process *process = &admission_now.process[admission_draw(PLACES)];

	for (uint32_t i = 0; i < PLACES && !is_any; i++)
		if (admission_now.process[i].is_told && admission_draw(3))
			process = &admission_now.process[i];
	if (!process->connection || (!process->is_told && !is_any))
		return;
	event.connection = process->connection;
	*process = (struct process){ 0 };
	event_happens(event);
}

static void shard_has_done(void)
{
	uint16_t shard = (uint16_t)admission_draw(admission_now.shards);
	struct command *queue;
	struct admission_event event = { .type = ADMISSION_SHARD };

	for (uint32_t i = 0; i < admission_now.shards && !admission_now.queued[shard]; i++)
		shard = (uint16_t)((shard + 1u) % admission_now.shards);
	queue = admission_now.queue[shard];
	event.shard = shard;

	if (!admission_now.queued[shard])
		return;
	event.command = queue[0].what;
	event.job_generation = queue[0].generation;
	event.has_failed = !admission_draw(admission_now.shards > 2 ? 1000 : 25);
	event.is_path = event.has_failed && admission_draw(2);
	event.text = event.is_path || admission_draw(2) ? "how" : NULL;
	event.rank = (uint16_t)admission_draw(3);
	memmove(queue, queue + 1, --admission_now.queued[shard] * sizeof(*queue));
	event_happens(event);
}

static void hellos_come(void)
{
	uint32_t size = admission_shipped()->size;

	for (uint32_t rank = 0; rank <= size; rank++)
		if (admission_draw(4))
			event_happens((struct admission_event){ .type = ADMISSION_HEARD,
								.rank = (uint16_t)rank });
}

static void time_passes(void)
{
	static const uint32_t span_ms[] = { 0,    1,    100,  400,  400,  900,
					    1000, 1000, 1000, 2000, 2499, 2500 };
	static const uint32_t long_ms[] = { 5000, 7500, 9999, 10000, 300000 };
	/* In longer ones the aggregator has slept, and nobody was silent. */
	uint32_t awake_ms = (uint32_t)(admission_now.config.heartbeat_ns / 4 / MS_NS);
	bool is_slow = admission_now.mood == MOOD_SLOW;
	uint32_t passed_ms = long_ms[admission_draw(5)];

	if (admission_draw(is_slow ? 100 : 20))
		passed_ms = is_slow ? admission_draw(awake_ms * 3 / 4)
				    : span_ms[admission_draw(12)];
	admission_now.now_ns += passed_ms * MS_NS;
	if (is_slow && !admission_draw(3))
		hellos_come();
	event_happens((struct admission_event){ .type = ADMISSION_TICK });
}

static void something_rare(void)
{
	static const enum admission_event_type types[] = {
		ADMISSION_MISMATCH, ADMISSION_MISMATCH, ADMISSION_MISMATCH, ADMISSION_ALARM,
		ADMISSION_ALARM,    ADMISSION_ALARM,    ADMISSION_MISFIT,   ADMISSION_MISFIT,
		ADMISSION_BROKEN,   ADMISSION_ORPHAN,   ADMISSION_YIELD,    ADMISSION_HEARD,
		ADMISSION_DESERTED,
	};
	struct admission_event event = { .type = types[admission_draw(13)], .text = "why" };
	uint32_t ranks = admission_shipped()->size + 2u; /* and some that are none */

	event.rank = (uint16_t)(admission_draw(4) ? admission_draw(ranks) : CONTROL_RANK_NONE);
	event.other = (uint16_t)(admission_draw(4) ? admission_draw(ranks) : CONTROL_RANK_NONE);
	event.count = (1 + admission_draw(4)) << admission_draw(18);
	event.misfit = (uint8_t)admission_draw(MISFIT_COUNT + 2);
	if (event.type == ADMISSION_BROKEN && admission_draw(2))
		event.text = NULL;
	if (event.type == ADMISSION_BROKEN && admission_draw(2))
		event.cause = CONTROL_MISMATCH;
	if (steps_left() < 60 && !admission_draw(10))
		event.type = admission_draw(2) ? ADMISSION_TERMINATE : ADMISSION_KILL;
	event_happens(event);
}

/* ---- a plot ---- */

/* All outstanding numbers are about plot_number. */
static void plot_of_process(struct process *process, uint32_t kind)
{
	uint64_t number = admission_now.plot_number;

	process->oldest = number - (admission_draw(4) ? 0 : admission_draw((uint32_t)number));
	process->submitted = number + admission_draw(4) + !!admission_draw(8);
	if (admission_now.plot == PLOT_STILL)
		process->submitted = number + 1;
	if (admission_now.plot != PLOT_DEADLINE)
		return;
	if (kind < 4) { /* complete, and much has been called since */
		process->oldest = number + 1;
		process->submitted = number + 2 + admission_draw(8);
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

	admission_now.plot_generation = admission_shipped()->generation;
	admission_now.plot = admission_draw(PLOTS);
	admission_now.plot_number = 2 + admission_draw(4);
	admission_now.plot_kinds = 1 + admission_draw(admission_draw(2) ? 2 : 8);
	admission_now.plot_mute = admission_draw(6) ? CONTROL_RANK_NONE : 0;
	for (uint32_t i = 0; i < PLACES; i++) {
		struct process *process = &admission_now.process[i];

		process->program = admission_draw(admission_now.plot_kinds + 1);
		plot_of_process(process, kind);
	}
}

static bool is_asked(const struct person *person)
{
	return admission_is_ready(person) && !person->member->has_answered &&
	       person->peer->rank != admission_now.plot_mute;
}

static void plot_stall(const struct process *process, struct control_message *message)
{
	uint64_t first = admission_now.first;

	message->stall.number =
		first +
		(admission_now.plot == PLOT_STILL ? process->oldest : admission_now.plot_number);
	message->stall.waited_ms = rng_u32(&admission_now.rng) >> admission_draw(20);
	message->stall.still_ms = admission_draw(20) ? UINT32_MAX : admission_draw(3000);
	message->stall.is_expired = (admission_now.plot == PLOT_DEADLINE && !admission_draw(3)) ||
				    (admission_now.plot <= PLOT_CHANGE && !admission_draw(15));
	if (admission_now.plot == PLOT_STILL && !admission_draw(12)) {
		message->stall.number = first; /* complete everywhere */
		message->stall.is_expired = true;
	}
}

static void plot_says(const struct person *person, enum control_type type)
{
	struct control_message message = { .type = type };
	struct admission_event event = { .type = ADMISSION_MESSAGE, .message = &message };
	struct process *process = person->process;

	event.connection = process->connection;
	if (type == CONTROL_OPINFO) {
		if (admission_now.plot == PLOT_CHANGE &&
		    admission_shipped()->query == ADMISSION_DESCRIBE && admission_draw(8)) {
			process->program = 0;
			if (!admission_draw(4)) /* or it has not called it at all */
				process->submitted = process->oldest;
		}
		message.opinfo = admission_opinfo(process);
	} else if (type == CONTROL_LEAVE) {
		message.leave.submitted = admission_now.first + process->submitted;
	} else {
		plot_stall(process, &message);
	}
	event_happens(event);
}

static void plot_mismatch(void)
{
	uint32_t ranks = admission_shipped()->size + 1u; /* and one that is none */

	event_happens((struct admission_event){ .type = ADMISSION_MISMATCH,
						.rank = (uint16_t)admission_draw(ranks),
						.other = (uint16_t)admission_draw(ranks) });
}

static void plot_misfit(void)
{
	struct admission_event event = { .type = ADMISSION_MISFIT };
	/* How many send what does not fit: 0, 1, more. */
	uint32_t kind = admission_now.plot_generation % 3;

	event.rank = (uint16_t)(kind == 2 ? admission_draw(admission_shipped()->size) : 0);
	event.count = (1 + admission_draw(4)) << admission_draw(18);
	event.misfit = (uint8_t)admission_draw(MISFIT_COUNT + 2);
	if (kind)
		event_happens(event);
}

static void plot_step(void)
{
	enum plot plot = admission_now.plot;
	bool is_asking = admission_shipped()->query != ADMISSION_QUIET,
	     is_slow = plot == PLOT_DEADLINE;
	struct person asked = admission_somebody(is_asked), person = admission_somebody(NULL);
	uint32_t what = admission_draw(20);

	bool is_mute = is_asking && admission_now.plot_mute != CONTROL_RANK_NONE;

	admission_now.now_ns += admission_draw(is_mute                 ? 100
					       : is_asking && !is_slow ? 40
								       : 250) *
				MS_NS;
	if (is_asking && asked.process && what < (is_slow ? 10 : 15))
		plot_says(&asked, CONTROL_OPINFO);
	else if (what > (is_mute ? 10 : 16))
		event_happens((struct admission_event){ .type = ADMISSION_TICK });
	else if (!admission_is_ready(&person))
		return;
	else if (plot <= PLOT_CHANGE
			 ? what < 6
			 : is_slow && !admission_draw(admission_now.plot_generation % 2 ? 12 : 2))
		plot_mismatch();
	else if (plot == PLOT_STILL && what < 2)
		plot_misfit();
	else
		plot_says(&person, plot == PLOT_LEAVE && what < 3 ? CONTROL_LEAVE : CONTROL_STALL);
}

/* ---- a step ---- */

/* What this state waits for; false: nothing in particular, or not now. */
static bool goes_on(void)
{
	enum admission_state state = admission_shipped()->state;
	bool is_plot = admission_now.mood == MOOD_PLOT;

	if (is_plot && state < ADMISSION_GRANTED && admission_draw(4)) {
		somebody_comes();
		return true;
	}
	if (state == ADMISSION_DRAIN && admission_draw(is_plot ? 10 : 2)) {
		admission_draw(3) ? somebody_goes(false) : shard_has_done();
		return true;
	}
	if ((state == ADMISSION_GRANTED || state == ADMISSION_ENABLING) &&
	    (is_plot || admission_now.shards > 2 ? admission_draw(10) : !admission_draw(3))) {
		admission_draw(2) ? shard_has_done() : somebody_speaks();
		return true;
	}
	return false;
}

static void anything_happens(uint32_t what)
{
	enum mood mood = admission_now.mood;
	bool is_orderly = mood == MOOD_ORDERLY || mood == MOOD_CALLS;
	uint32_t speaks = mood == MOOD_SLOW ? 50 : mood == MOOD_CALLS ? 77 : 70;

	if (what < 14 && is_orderly && admission_shipped()->state > ADMISSION_GATHER &&
	    admission_draw(6))
		somebody_speaks();
	else if (what < (mood == MOOD_CROWD ? 25 : 14))
		admission_draw(20) ? somebody_comes() : somebody_is_adopted();
	else if (what < 30)
		shard_has_done();
	else if (what < speaks)
		somebody_speaks();
	else if (what < 80 || (mood == MOOD_SLOW && what < 95))
		time_passes();
	else if (what < 95)
		somebody_goes(false);
	else if (what < 98 && admission_draw(2))
		somebody_goes(true);
	else if (what >= 98 && (steps_left() < 60 || admission_draw(2)))
		something_rare();
}

static void step(void)
{
	const struct admission *shipped = admission_shipped();
	uint32_t what = admission_draw(100);

	if (admission_now.mood == MOOD_PLOT && shipped->state == ADMISSION_STARTED &&
	    admission_draw(100)) {
		if (admission_now.plot_generation != shipped->generation)
			plot_begins();
		plot_step();
		return;
	}
	if (!admission_draw(2))
		admission_now.now_ns +=
			admission_draw(admission_now.mood == MOOD_SLOW ? 50 : 300) * MS_NS;
	if (!goes_on())
		anything_happens(what);
}

/* ---- the model ---- */

static void admission_record(const void *config_at)
{
	uint32_t walks;

	config = config_at;
	walks = slow_is_asked() ? config->walks : 0;
	record("walk of an admission");
	for (uint32_t walk = 0; walk < walks && !record_is_over(); walk++) {
		record("walk %u", walk);
		begin(walk);
		while (admission_now.step++ < config->steps && !record_is_over())
			step();
	}
	if (walks && !record_is_over())
		record("reached %u", walks / 200);
}

void admission_walk_model(struct bfs_model *model, const void *config_at)
{
	*model = (struct bfs_model){ .config = config_at, .record = admission_record };
}
