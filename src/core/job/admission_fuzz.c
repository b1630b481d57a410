/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_fuzz.c - an aggregator's job as strangers, members, shards and time treat it: any sequence of
 * connections, messages (whatever the codec lets through), ends, acknowledgements and ticks. It must never
 * trap, say only what can be said to whom it may, and, when all have gone, be idle.
 */
#include "core/job/admission.h"
#include "tests/fuzz/input.h"

enum {
	CONNECTIONS = 6, /* places; each new connection of a place has a new number */
	SHARDS = 2,
	QUEUE = 8, /* commands that a shard has not acknowledged */
	STEPS_MAX = 64,
	AGAIN_MAX = 64,
	IDLE_S = 700, /* gathering, heartbeats, last words: all are over by then */
};

static const uint64_t ms_ns = 1000000, second_ns = 1000000000;

enum life { NOBODY, OPEN, LAST_WORDS };

struct command {
	uint8_t what;
	uint32_t generation;
};

static struct {
	struct admission_config config;
	struct admission *admission;
	struct admission_actions actions;
	struct control_member members[CONTROL_MEMBERS_MAX];
	struct control_message message, sent;
	struct control_op ops[4];
	uint64_t now_ns;
	uint32_t generation, number; /* of connections */
	enum life life[CONNECTIONS];
	uint32_t connection[CONNECTIONS];
	bool has_joined[CONNECTIONS];
	struct command queue[SHARDS][QUEUE];
	uint32_t queued[SHARDS];
	uint32_t round, serial; /* of the last QUERY, PING */
} test;

static void text_check(const char *text, size_t max)
{
	size_t length = strnlen(text, max);

	FUZZ_CHECK(length < max);
	for (size_t i = 0; i < length; i++)
		FUZZ_CHECK((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

static uint32_t place_of(uint32_t connection)
{
	for (uint32_t i = 0; i < CONNECTIONS; i++)
		if (test.life[i] != NOBODY && test.connection[i] == connection)
			return i;
	return CONNECTIONS;
}

static void sent_check(const struct admission_action *action)
{
	uint32_t place = place_of(action->connection);

	FUZZ_CHECK(place < CONNECTIONS);
	FUZZ_CHECK(test.life[place] == OPEN);
	if (action->type == ADMISSION_CLOSE) {
		test.life[place] = LAST_WORDS;
		return;
	}
	admission_message(test.admission, &test.config, &test.actions, action, &test.sent);
	FUZZ_CHECK(test.sent.type == action->message);
	if (test.sent.type == CONTROL_QUERY)
		test.round = test.sent.query.round;
	if (test.sent.type == CONTROL_PING)
		test.serial = test.sent.ping.serial;
	if (test.sent.type == CONTROL_ABORT || test.sent.type == CONTROL_DENY) {
		FUZZ_CHECK(test.sent.end.cause != CONTROL_OK);
		FUZZ_CHECK(test.sent.end.cause < CONTROL_CAUSE_END);
		FUZZ_CHECK(test.sent.end.text[0]);
		text_check(test.sent.end.text, sizeof(test.sent.end.text));
	}
	if (test.sent.type == CONTROL_START)
		FUZZ_CHECK(test.sent.start.lanes && !(test.sent.start.lanes % 4) &&
			   test.sent.start.lanes <= test.config.lanes_max);
}

static void command_check(const struct admission_action *action)
{
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		/* One is acknowledged by all before the next comes; REMOVE may overtake. */
		FUZZ_CHECK(action->command == ADMISSION_JOB_REMOVE || !test.queued[shard]);
		FUZZ_CHECK(test.queued[shard] < QUEUE);
		test.queue[shard][test.queued[shard]++] =
			(struct command){ action->command, action->generation };
	}
	FUZZ_CHECK(action->generation);
	if (action->command == ADMISSION_JOB_ADD)
		test.generation++;
}

static void step_once(struct admission_event *event)
{
	static const uint8_t nonce[WIRE_NONCE_BYTES] = "a nonce";

	event->now_ns = test.now_ns;
	event->random = test.now_ns | 1;
	event->generation = test.generation;
	event->nonce = nonce;
	test.actions.list_max = admission_actions_max(&test.config);
	test.actions.members = test.members;
	admission_step(test.admission, &test.config, event, &test.actions);
	FUZZ_CHECK(test.actions.count <= test.actions.list_max);
	FUZZ_CHECK(test.admission->state < ADMISSION_STATE_COUNT);
	for (uint32_t i = 0; i < test.actions.count; i++) {
		if (test.actions.list[i].type == ADMISSION_COMMAND)
			command_check(&test.actions.list[i]);
		else
			sent_check(&test.actions.list[i]);
	}
	text_check(test.actions.text, sizeof(test.actions.text));
	text_check(test.actions.log, sizeof(test.actions.log));
}

static void step(struct admission_event event)
{
	uint32_t again = 0;

	step_once(&event);
	while (test.actions.again || test.actions.wake_ns <= test.now_ns) {
		FUZZ_CHECK(again++ < AGAIN_MAX);
		event = (struct admission_event){ .type = ADMISSION_TICK,
						  .rank = CONTROL_RANK_NONE };
		step_once(&event);
	}
}

/* ---- events ---- */

static void text_draw(struct fuzz_input *input, char *text, size_t max)
{
	uint8_t byte = fuzz_u8(input);
	size_t bytes = byte & 7u;

	memset(text, 0, max);
	bytes = fuzz_bytes(input, text, bytes < max ? bytes : max - 1);
	if (byte & 0x80 && bytes)
		memset(text, text[0] ? text[0] : 'x', max - 1);
	for (size_t i = 0; i < max - 1; i++) /* JSON strings hold no NUL */
		if (!text[i] && i < bytes)
			text[i] = '?';
}

static void join_draw(struct fuzz_input *input, struct control_join *join)
{
	uint8_t who = fuzz_u8(input), odd = fuzz_u8(input);

	*join = (struct control_join){
		.version_min = 1, .version_max = 1, .workers = 1, .host = "h", .job = "j", .pid = 1
	};
	join->size = 1 + (who & 3);
	join->rank = who >> 2 & 3;
	join->pid = who >> 4 & 1;
	if (who >> 5) { /* two hosts, four processes, under a launcher's name or not */
		join->is_launched = who >> 5 & 1;
		join->boot = who >> 6 & 1;
		join->process = who >> 4 & 3;
		join->local_size = who >> 7 ? join->size : 0;
	}
	if (odd & 1)
		join->version_min = join->version_max = 1 + fuzz_u8(input) % 3u;
	if (odd & 2)
		join->size = (uint16_t)(fuzz_u16(input) | 1);
	if (odd & 4)
		join->rank = fuzz_u16(input) & 0xfffe;
	if (odd & 8)
		join->list_hash = 1;
	if (odd & 0x10) {
		join->mode = CONTROL_LATENCY;
		join->latency_slots = fuzz_u8(input);
		join->latency_window = fuzz_u8(input);
	}
	if (odd & 0x20)
		join->timeout_ms = fuzz_u32(input);
	if (odd & 0x40)
		text_draw(input, join->host, sizeof(join->host));
	if (odd & 0x80) {
		join->kind = fuzz_u8(input) & 1;
		join->workers = fuzz_u16(input) | 1u;
		text_draw(input, join->key, sizeof(join->key));
	}
}

static void opinfo_draw(struct fuzz_input *input, struct control_opinfo *info)
{
	uint8_t how = fuzz_u8(input), what = fuzz_u8(input);
	uint64_t number = how >> 5;

	*info = (struct control_opinfo){ .round = test.round - (how >> 2 & 1),
					 .ops_count = how & 3,
					 .has_more = how >> 3 & 1,
					 .submitted = what & 7,
					 .oldest = what >> 3 & 7,
					 .ops = test.ops };
	if (how & 0x10) {
		info->submitted = fuzz_u64(input) & INT64_MAX;
		number = fuzz_u64(input) & INT64_MAX >> 8;
	}
	for (uint32_t i = 0; i < info->ops_count; i++, number += 1 + (what >> 6)) {
		memset(&test.ops[i], 0, sizeof(test.ops[i]));
		test.ops[i].number = number;
		test.ops[i].count = what >> 7;
		test.ops[i].kind = fuzz_u8(input) % 8;
		if (test.ops[i].kind == 7)
			text_draw(input, test.ops[i].name, sizeof(test.ops[i].name));
	}
}

static void message_draw(struct fuzz_input *input, uint32_t place)
{
	static const uint8_t types[] = { CONTROL_READY,  CONTROL_READY,  CONTROL_HEARTBEAT,
					 CONTROL_PONG,   CONTROL_PING,   CONTROL_STALL,
					 CONTROL_OPINFO, CONTROL_OPINFO, CONTROL_LEAVE,
					 CONTROL_ABORT,  CONTROL_GRANT,  CONTROL_START,
					 CONTROL_LEFT,   CONTROL_QUERY,  CONTROL_DENY,
					 CONTROL_JOIN };
	struct control_message *message = &test.message;
	uint8_t how = fuzz_u8(input);

	message->type = test.has_joined[place] ? types[how & 15] : CONTROL_JOIN;
	if (how >= 0xf0)
		message->type = types[fuzz_u8(input) & 15];
	test.has_joined[place] = true;
	switch (message->type) {
	case CONTROL_JOIN:
		join_draw(input, &message->join);
		break;
	case CONTROL_READY:
		message->lanes.lanes = (uint16_t)(4 + fuzz_u16(input) % (WIRE_LANES_MAX / 4) * 4);
		break;
	case CONTROL_PING:
	case CONTROL_PONG:
		message->ping.serial = test.serial - (how >> 4 & 1);
		break;
	case CONTROL_STALL:
		memset(&message->stall, 0, sizeof(message->stall));
		message->stall.number = how & 0x10 ? fuzz_u64(input) & INT64_MAX : how >> 6;
		message->stall.is_expired = how >> 5 & 1;
		message->stall.waited_ms = how & 0x20 ? fuzz_u32(input) : 600;
		break;
	case CONTROL_OPINFO:
		opinfo_draw(input, &message->opinfo);
		break;
	case CONTROL_LEAVE:
		message->leave.submitted = how >> 5;
		break;
	case CONTROL_ABORT:
	case CONTROL_DENY:
		message->end.cause = 1 + fuzz_u8(input) % (CONTROL_CAUSE_END - 1u);
		message->end.rank = fuzz_u16(input);
		text_draw(input, message->end.text, sizeof(message->end.text));
		break;
	default:
		break;
	}
}

static void connection_event(struct fuzz_input *input, uint8_t how)
{
	uint32_t place = (how & 7u) % CONNECTIONS;
	struct admission_event event = { .type = ADMISSION_MESSAGE,
					 .message = &test.message,
					 .rank = CONTROL_RANK_NONE };

	if (test.life[place] == NOBODY) {
		test.life[place] = OPEN;
		test.connection[place] = ++test.number;
		test.has_joined[place] = false;
	}
	event.connection = test.connection[place];
	if (test.life[place] == LAST_WORDS || (how & 0x18) == 0x18)
		event.type = ADMISSION_CLOSED;
	else
		message_draw(input, place);
	if (event.type == ADMISSION_CLOSED)
		test.life[place] = NOBODY; /* before the step: nothing can be sent there now */
	step(event);
}

static void shard_ack(uint16_t shard, uint8_t how)
{
	struct command *queue = test.queue[shard];
	struct admission_event event = { .type = ADMISSION_SHARD,
					 .shard = shard,
					 .rank = CONTROL_RANK_NONE };

	if (!test.queued[shard])
		return;
	event.command = queue[0].what;
	event.job_generation = queue[0].generation;
	event.has_failed = how & 0x20 && event.command != ADMISSION_JOB_REMOVE;
	event.text = how & 0x10 && event.has_failed ? "no room: held by\x1b somebody" : NULL;
	event.is_path = how & 0x40 && event.text;
	test.queued[shard]--;
	memmove(queue, queue + 1, test.queued[shard] * sizeof(*queue));
	step(event);
}

static void other_event(struct fuzz_input *input, uint8_t how)
{
	static const enum admission_event_type types[] = { ADMISSION_TICK,     ADMISSION_TICK,
							   ADMISSION_MISMATCH, ADMISSION_ALARM,
							   ADMISSION_HEARD,    ADMISSION_TERMINATE,
							   ADMISSION_KILL,     ADMISSION_SHARD };
	struct admission_event event = { .type = types[how & 7], .rank = CONTROL_RANK_NONE };
	uint8_t value = fuzz_u8(input);

	if (event.type == ADMISSION_SHARD) { /* of another time */
		event.shard = value & 1;
		event.command = (value >> 1) % 3;
		event.job_generation = test.generation + (value >> 3 & 3);
		event.has_failed = value >> 5 & 1 && event.command != ADMISSION_JOB_REMOVE;
	} else if (event.type == ADMISSION_TICK) {
		test.now_ns += how & 8 ? value * second_ns : value * ms_ns;
	} else {
		event.rank = value & 0x80 ? CONTROL_RANK_NONE : value;
	}
	step(event);
}

/* ---- a run ---- */

static void test_open(uint8_t how)
{
	test.config = (struct admission_config)ADMISSION_CONFIG_DEFAULT;
	test.config.job = "j";
	test.config.members_max = 4;
	test.config.waiters_max = 2;
	test.config.ops_max = how & 1 ? 1 : 6;
	test.config.groups_max = how & 2 ? 2 : 4;
	test.config.shards = SHARDS;
	test.config.lanes_max = 360;
	if (!test.admission) {
		struct admission_config largest = test.config;

		largest.ops_max = 6;
		largest.groups_max = 4;
		test.admission = malloc(admission_bytes(&largest));
		test.actions.list =
			malloc(admission_actions_max(&largest) * sizeof(*test.actions.list));
		FUZZ_CHECK(test.admission);
		FUZZ_CHECK(test.actions.list);
	}
	admission_init(test.admission, &test.config);
	test.now_ns = 1000 * second_ns;
	test.generation = UINT32_MAX - 1000;
	test.number = 0;
	test.round = test.serial = 0;
	memset(test.life, 0, sizeof(test.life));
	memset(test.queued, 0, sizeof(test.queued));
}

/* Everybody goes, shards do what they were told, time passes: then it is over. */
static void test_end(void)
{
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		struct admission_event event = { .type = ADMISSION_CLOSED,
						 .connection = test.connection[i],
						 .rank = CONTROL_RANK_NONE };

		if (test.life[i] == NOBODY)
			continue;
		test.life[i] = NOBODY;
		step(event);
	}
	for (uint32_t round = 0; round < 8; round++)
		for (uint16_t shard = 0; shard < SHARDS; shard++)
			while (test.queued[shard])
				shard_ack(shard, 0);
	for (uint32_t i = 0; i < 3; i++) {
		test.now_ns += IDLE_S * second_ns;
		step((struct admission_event){ .type = ADMISSION_TICK, .rank = CONTROL_RANK_NONE });
	}
	FUZZ_CHECK(admission_is_idle(test.admission));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	test_open(fuzz_u8(&input));
	for (uint32_t i = 0; i < STEPS_MAX && input.left; i++) {
		uint8_t how = fuzz_u8(&input);

		if (how < 0xc0)
			connection_event(&input, how);
		else if (how & 0x08 && how < 0xf0)
			shard_ack(how & 1, (uint8_t)(how << 1));
		else
			other_event(&input, how);
	}
	test_end();
	return 0;
}
