/* SPDX-License-Identifier: Apache-2.0 */
/* admission_walk.c - see admission_walk.h. */
#include "search/admission_walk.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/slow_admission.h"
#include "search/walk.h"
#include "util/rng.h"

#define MS_NS UINT64_C(1000000)
#define SECOND_NS (1000 * MS_NS)

enum { PLACES = 12, SHARDS = 2, QUEUE = 8, RANKS = 5, WAITERS = 4, OPS_MAX = 12 };
enum { ADMISSION_WORDS = 4096, ACTIONS = 3 * (RANKS + WAITERS + 1) + 4 };

/* What the processes of a walk are like. */
enum mood {
	MOOD_ORDERLY, /* they come, run and leave */
	MOOD_CROWD,   /* too many come, for ranks that are held */
	MOOD_ODD,     /* they differ, are unfit, say what does not fit */
	MOOD_CALLS,   /* their programs differ */
	MOOD_SLOW,    /* they wait, and are silent */
	MOODS
};

struct process {
	uint32_t connection; /* 0: none */
	bool is_told;        /* CLOSE: it may only close */
	uint64_t submitted, oldest;
	uint32_t program;
};

struct command {
	enum admission_command what;
	uint32_t generation;
};

struct state {
	struct rng rng;
	uint64_t now_ns;
	uint32_t walk, step, connections, generation, hosts;
	enum mood mood;
	struct admission_config config;
	struct process process[PLACES];
	struct command queue[SHARDS][QUEUE];
	uint32_t queued[SHARDS];
	struct slow_admission slow;
	uint64_t admission[ADMISSION_WORDS];
};

static struct state *walks, *now; /* where each walk is, and the one that steps */
static const struct admission_walk_config *config;

static uint32_t draw(uint32_t below)
{
	return rng_below(&now->rng, below);
}

static struct admission *shipped(void)
{
	return (struct admission *)(void *)now->admission;
}

static void begin(uint32_t walk)
{
	static char key[CONTROL_KEY_BYTES] = "a key";

	now = &walks[walk];
	memset(now, 0, sizeof(*now));
	rng_init(&now->rng, 1, walk);
	now->walk = walk;
	now->step = 1;
	now->mood = walk % MOODS;
	now->now_ns = 1000 * SECOND_NS;
	now->generation = UINT32_MAX - 100;
	now->config = (struct admission_config)ADMISSION_CONFIG_DEFAULT;
	now->config.job = "j";
	now->config.key = walk / MOODS % 3 ? NULL : key;
	now->config.life = walk / MOODS % 4 == 1;
	now->config.members_max = RANKS;
	now->config.waiters_max = WAITERS;
	now->config.ops_max = walk % 2 ? 3 : OPS_MAX;
	now->config.groups_max = walk % 7 ? 4 : 2;
	now->config.shards = SHARDS;
	now->config.lanes_max = 360;
	if (walk / MOODS % 5 == 2)
		now->config.heartbeat_ns = 2 * SECOND_NS;
	assert(admission_bytes(&now->config) <= sizeof(now->admission));
	assert(admission_actions_max(&now->config) <= ACTIONS);
	admission_init(shipped(), &now->config);
	slow_admission_init(&now->slow);
}

/* ---- a step ---- */

static struct process *whose(uint32_t connection)
{
	for (uint32_t i = 0; i < PLACES; i++)
		if (connection && now->process[i].connection == connection)
			return &now->process[i];
	return NULL;
}

static const char *take(const struct admission_action *action)
{
	struct process *process = whose(action->connection);

	if (action->type != ADMISSION_COMMAND) {
		if (!process || process->is_told)
			return "said to one that is not there any more";
		process->is_told = action->type == ADMISSION_CLOSE;
		return NULL;
	}
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		assert(now->queued[shard] < QUEUE);
		now->queue[shard][now->queued[shard]++] =
			(struct command){ action->command, action->generation };
	}
	now->generation += action->command == ADMISSION_JOB_ADD;
	return NULL;
}

static const char *event_happens(struct bfs *bfs, struct admission_event event)
{
	static struct control_member members[RANKS];
	static struct admission_action list[ACTIONS];
	struct admission_actions actions = { .list = list,
					     .list_max = ACTIONS,
					     .members = members };
	uint8_t nonce[WIRE_NONCE_BYTES] = { (uint8_t)now->step, (uint8_t)(now->step >> 8) };
	const char *wrong;

	event.now_ns = now->now_ns;
	event.random = rng_next(&now->rng);
	event.generation = now->generation;
	event.nonce = nonce;
	admission_step(shipped(), &now->config, &event, &actions);
	if (bfs && bfs_is_telling(bfs)) {
		bfs_say(bfs, "%llu ms: event %u", (unsigned long long)(now->now_ns / MS_NS),
			event.type);
		if (event.connection)
			bfs_say(bfs, " %u", event.connection);
		if (event.message)
			bfs_say(bfs, " message %u", event.message->type);
		for (uint32_t i = 0; i < actions.count; i++)
			bfs_say(bfs, " %c%u>%u", "mxc"[list[i].type],
				list[i].type == ADMISSION_COMMAND ? list[i].command
								  : list[i].message,
				list[i].connection);
		bfs_say(bfs, " %s %s", admission_state_name(shipped()->state), actions.text);
	}
	wrong = slow_admission(&now->slow, &now->config, &event, shipped(), &actions);
	for (uint32_t i = 0; i < actions.count && !wrong; i++)
		wrong = take(&list[i]);
	return wrong;
}

/* ---- what is said ---- */

static const struct slow_person *random_person(void)
{
	return now->slow.count ? &now->slow.people[draw(now->slow.count)] : NULL;
}

static bool is_absent(uint32_t rank)
{
	for (uint32_t i = 0; i < now->slow.count; i++)
		if (now->slow.people[i].rank == rank && now->slow.people[i].place != SLOW_WAITS)
			return false;
	return true;
}

static struct control_join drawn_join(void)
{
	bool is_crowd = now->mood == MOOD_CROWD;
	struct control_join join = { .version_min = 1, .version_max = 1, .workers = 1, .job = "j" };
	uint32_t odd = now->mood == MOOD_ODD ? draw(12) : draw(200);

	join.size =
		(uint16_t)(now->slow.size ? now->slow.size : 1 + (now->walk / 3 + draw(2)) % RANKS);
	join.rank = (uint16_t)draw(join.size);
	for (uint32_t i = 0; i < join.size && !is_crowd && !is_absent(join.rank); i++)
		join.rank = (uint16_t)((join.rank + 1u) % join.size);
	join.pid = 100 + now->connections;
	snprintf(join.host, sizeof(join.host), "<%u>", ++now->hosts % 64);
	if (now->config.key && odd != 10)
		strcpy(join.key, "a key");
	if (now->mood == MOOD_SLOW && !draw(3))
		join.timeout_ms = 1000 + draw(20000);
	if (odd == 0)
		join.size = (uint16_t)draw(RANKS + 3);
	else if (odd == 1)
		join.rank = (uint16_t)draw(70);
	else if (odd == 2)
		join.list_hash = 1;
	else if (odd == 3)
		join.mode = CONTROL_LATENCY;
	else if (odd == 4)
		join.version_min = join.version_max = 2;
	else if (odd == 5)
		join.workers = 1 + draw(40000);
	else if (odd == 6)
		join.latency_slots = 1;
	else if (odd == 7)
		join.latency_window = 1;
	return join;
}

/* What number `number` is in this program: in MOOD_CALLS some numbers are called otherwise, and who has
 * one program calls the same. */
static struct control_op op_of(uint32_t program, uint64_t number)
{
	struct control_op op = { .number = number, .count = 1 + number };
	struct rng rng;

	rng_init(&rng, program + 4 * now->walk, number);
	if (now->mood != MOOD_CALLS || !program || rng_below(&rng, 5))
		return op;
	switch (rng_below(&rng, 7)) {
	case 0:
		op.kind = 1;
		break;
	case 1:
		op.type = 1;
		break;
	case 2:
		op.op = 1;
		break;
	case 3:
		op.root = 1;
		break;
	case 4:
		op.stream = 1;
		break;
	case 5:
		op.name[0] = 'x';
		break;
	default:
		op.count++;
		break;
	}
	return op;
}

/* What a process has called, and completed, goes on a little each time it is asked. */
static struct control_opinfo drawn_opinfo(struct process *process)
{
	static struct control_op ops[SLOW_OPS];
	struct control_opinfo info = { .round = now->slow.round, .ops = ops };
	uint64_t number = now->slow.from;
	bool is_calls = now->mood == MOOD_CALLS;

	if (!draw(3))
		process->submitted += draw(4);
	if (!draw(is_calls ? 20 : 4) && process->oldest < process->submitted)
		process->oldest += 1 + draw((uint32_t)(process->submitted - process->oldest));
	if (!draw(is_calls ? 100 : 25))
		process->submitted = draw((uint32_t)process->submitted + 1);
	if (process->oldest > process->submitted)
		process->oldest = process->submitted;
	info.submitted = process->submitted;
	info.oldest = process->oldest;
	if (number < process->oldest)
		number = process->oldest;
	for (; number < process->submitted; number++) {
		if (number > process->oldest && !draw(is_calls ? 40 : 6))
			continue;
		if (info.ops_count == SLOW_OPS || (info.ops_count && !draw(is_calls ? 40 : 6))) {
			info.has_more = 1;
			break;
		}
		ops[info.ops_count++] = op_of(process->program, number);
	}
	if (!draw(10))
		info.round--;
	return info;
}

static enum control_type drawn_type(const struct slow_person *person)
{
	static const enum control_type types[] = {
		CONTROL_READY, CONTROL_LEAVE, CONTROL_ABORT,     CONTROL_STALL, CONTROL_OPINFO,
		CONTROL_PONG,  CONTROL_PING,  CONTROL_HEARTBEAT, CONTROL_GRANT
	};
	bool is_slow = now->mood == MOOD_SLOW || now->mood == MOOD_CALLS;

	if (!draw(now->mood == MOOD_ODD ? 4 : now->mood == MOOD_CALLS ? 100 : 25))
		return types[draw(sizeof(types) / sizeof(types[0]))];
	if (person->asked && !person->is_alive && draw(2))
		return CONTROL_PONG;
	if (person->place == SLOW_JOINED && now->slow.state == ADMISSION_GRANTED)
		return CONTROL_READY;
	if (now->slow.state != ADMISSION_STARTED || person->place != SLOW_READY)
		return draw(8) ? CONTROL_HEARTBEAT : CONTROL_PING;
	if (now->slow.query != ADMISSION_QUIET && !person->has_answered && draw(5))
		return CONTROL_OPINFO;
	return draw(is_slow ? 40 : 4) ? CONTROL_STALL : CONTROL_LEAVE;
}

static struct control_message drawn_message(const struct slow_person *person)
{
	struct process *process = whose(person->connection);
	struct control_message message = { .type = drawn_type(person) };

	switch (message.type) {
	case CONTROL_READY:
		message.lanes.lanes = (uint16_t)(4 + draw(100) * 4);
		break;
	case CONTROL_ABORT:
		message.end.cause = (uint16_t)(1 + draw(CONTROL_CAUSE_END - 1));
		message.end.rank = (uint16_t)draw(4);
		strcpy(message.end.text, "why");
		break;
	case CONTROL_LEAVE:
		message.leave.submitted = process->submitted;
		break;
	case CONTROL_STALL:
		message.stall.number = draw(3) ? process->oldest : draw(6);
		message.stall.waited_ms = 500 + draw(20000);
		message.stall.still_ms = draw(4) ? UINT32_MAX : draw(10000);
		message.stall.is_expired = !draw(now->mood == MOOD_SLOW ? 4 : 8);
		if (message.stall.is_expired && draw(2)) /* of one that is complete there by now */
			message.stall.number = draw((uint32_t)process->oldest + 1);
		break;
	case CONTROL_OPINFO:
		message.opinfo = drawn_opinfo(process);
		break;
	case CONTROL_PING:
	case CONTROL_PONG:
		message.ping.serial = person->asked - !draw(8);
		break;
	default:
		break;
	}
	return message;
}

/* ---- what happens ---- */

static const char *somebody_comes(struct bfs *bfs)
{
	struct control_message message = { .type = CONTROL_JOIN };
	struct admission_event event = { .type = ADMISSION_MESSAGE, .message = &message };
	uint32_t place = draw(PLACES);

	if (now->process[place].connection)
		return NULL;
	message.join = drawn_join();
	if (!draw(50))
		message.type = CONTROL_READY;
	now->process[place] =
		(struct process){ .connection = ++now->connections, .program = draw(3) };
	event.connection = now->connections;
	event.source = draw(3);
	return event_happens(bfs, event);
}

static const char *somebody_speaks(struct bfs *bfs)
{
	const struct slow_person *person = random_person();
	struct control_message message;
	struct admission_event event = { .type = ADMISSION_MESSAGE, .message = &message };

	if (!person || !person->connection || whose(person->connection)->is_told)
		return NULL;
	event.connection = person->connection;
	message = drawn_message(person);
	return event_happens(bfs, event);
}

static const char *somebody_goes(struct bfs *bfs, bool is_any)
{
	struct admission_event event = { .type = ADMISSION_CLOSED };
	struct process *process = &now->process[draw(PLACES)];

	for (uint32_t i = 0; i < PLACES && !is_any; i++)
		if (now->process[i].is_told && draw(3))
			process = &now->process[i];
	if (!process->connection || (!process->is_told && !is_any))
		return NULL;
	event.connection = process->connection;
	if (!process->is_told && draw(2))
		event.type = ADMISSION_SILENT;
	else
		*process = (struct process){ 0 };
	return event_happens(bfs, event);
}

static const char *shard_has_done(struct bfs *bfs)
{
	uint16_t shard = (uint16_t)draw(SHARDS);
	struct command *queue = now->queue[shard];
	struct admission_event event = { .type = ADMISSION_SHARD, .shard = shard, .text = "how" };

	if (!now->queued[shard])
		return NULL;
	event.command = queue[0].what;
	event.job_generation = queue[0].generation;
	event.has_failed = event.command != ADMISSION_JOB_REMOVE && !draw(25);
	event.is_path = event.has_failed && draw(2);
	event.rank = (uint16_t)draw(3);
	memmove(queue, queue + 1, --now->queued[shard] * sizeof(*queue));
	return event_happens(bfs, event);
}

static const char *time_passes(struct bfs *bfs)
{
	static const uint64_t span_ms[] = { 0,    1,    100,  400,  400,  900,
					    1000, 1000, 1000, 2000, 2499, 2500 };
	static const uint64_t long_ms[] = { 5000, 7500, 9999, 10000, 300000 };

	if (draw(20))
		now->now_ns += span_ms[draw(sizeof(span_ms) / sizeof(span_ms[0]))] * MS_NS;
	else
		now->now_ns += long_ms[draw(sizeof(long_ms) / sizeof(long_ms[0]))] * MS_NS;
	return event_happens(bfs, (struct admission_event){ .type = ADMISSION_TICK });
}

static const char *something_rare(struct bfs *bfs)
{
	static const enum admission_event_type types[] = {
		ADMISSION_MISMATCH, ADMISSION_MISMATCH, ADMISSION_MISMATCH, ADMISSION_MISMATCH,
		ADMISSION_MISMATCH, ADMISSION_MISFIT,   ADMISSION_MISFIT,   ADMISSION_ALARM,
		ADMISSION_LATE,     ADMISSION_BROKEN,   ADMISSION_ORPHAN,
	};
	struct admission_event event = { .type = types[draw(11)], .text = "why" };

	event.rank = (uint16_t)(draw(4) ? draw(RANKS) : CONTROL_RANK_NONE);
	event.other = (uint16_t)(draw(4) ? draw(RANKS) : CONTROL_RANK_NONE);
	event.count = 1 + draw(4);
	event.misfit = (uint8_t)(1 + draw(3));
	if (now->step + 60 > config->steps && !draw(10))
		event.type = draw(2) ? ADMISSION_TERMINATE : ADMISSION_KILL;
	return event_happens(bfs, event);
}

static const char *step(struct bfs *bfs)
{
	bool is_orderly = now->mood == MOOD_ORDERLY || now->mood == MOOD_CALLS;
	bool is_ending = now->step + 60 > config->steps;
	uint32_t what = draw(100);

	if (!draw(2))
		now->now_ns += draw(300) * MS_NS;
	if (now->slow.state == ADMISSION_DRAIN && draw(2))
		return draw(3) ? somebody_goes(bfs, false) : shard_has_done(bfs);
	if ((now->slow.state == ADMISSION_GRANTED || now->slow.state == ADMISSION_ENABLING) &&
	    !draw(3))
		return draw(2) ? shard_has_done(bfs) : somebody_speaks(bfs);
	if (what < 14 && is_orderly && now->slow.state > ADMISSION_GATHER && draw(6))
		return somebody_speaks(bfs);
	if (what < (now->mood == MOOD_CROWD ? 25 : 14))
		return somebody_comes(bfs);
	if (what < 30)
		return shard_has_done(bfs);
	if (what < (now->mood == MOOD_SLOW ? 50 : now->mood == MOOD_CALLS ? 77 : 70))
		return somebody_speaks(bfs);
	if (what < 80 || (now->mood == MOOD_SLOW && what < 95))
		return time_passes(bfs);
	if (what < 95)
		return somebody_goes(bfs, false);
	if (what < 98)
		return draw(2) ? somebody_goes(bfs, true) : NULL;
	return is_ending || draw(2) ? something_rare(bfs) : NULL;
}

/* ---- the model ---- */

static const char *go_on(struct bfs *bfs)
{
	const char *wrong = step(bfs);

	now->step++;
	return wrong;
}

static uint32_t resume(uint32_t number)
{
	now = &walks[number];
	return now->step;
}

static bool is_over(void)
{
	return now->step > config->steps;
}

void admission_walk_model(struct bfs_model *model, const void *config_at)
{
	static struct walk walk = {
		.begin = begin, .resume = resume, .is_over = is_over, .go_on = go_on
	};

	config = config_at;
	free(walks);
	walks = calloc(config->walks, sizeof(*walks));
	assert(walks);
	walk.walks = slow_admission_is_asked() ? config->walks : 0;
	walk_model(model, config_at, &walk);
}
