/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_fixture.h - for tests: an aggregator with a clock of its own. Included once in a program.
 *
 * Connections are numbered as the test likes: rank r of the first life is 10 + r, of the second 20 + r.
 * What a step does is compared as a line: "grant>10 close>11 add", everything in its order.
 */
#ifndef CORE_ADMISSION_FIXTURE_H
#define CORE_ADMISSION_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/job/admission.h"
#include "core/job/admission_shadow.h"

/* A test may leave some of this unused, but nothing of its own: that would be a test that does not run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

enum { GENERATION_FIRST = UINT32_MAX - 2, DONE_MAX = 4000 };
static const uint64_t second_ns = 1000000000;

static struct {
	struct admission_config config;
	struct admission *admission;
	struct admission_action *list;
	struct control_member members[CONTROL_MEMBERS_MAX];
	struct admission_actions actions;
	uint64_t now_ns;
	uint32_t generation;
	char done[DONE_MAX]; /* since the last assert_done */
	char text[CONTROL_TEXT_BYTES], log[CONTROL_TEXT_BYTES];
	uint32_t cause, cause_rank;
	enum admission_log log_level;
	uint32_t round, serial; /* of the last QUERY, PING */
	uint32_t steps;
	bool is_closing[256]; /* CLOSE was said: nothing else may be */
	uint64_t from;
	struct control_message message;
} t;

static int set_up(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.config = (struct admission_config)ADMISSION_CONFIG_DEFAULT;
	t.config.job = "train";
	t.config.shards = 2;
	t.config.members_max = 8;
	t.config.waiters_max = 3;
	t.config.ops_max = 8;
	t.admission = malloc(admission_bytes(&t.config));
	t.list = malloc(admission_actions_max(&t.config) * sizeof(*t.list));
	assert_non_null(t.admission);
	assert_non_null(t.list);
	admission_init(t.admission, &t.config);
	t.now_ns = 1000 * second_ns;
	t.generation = GENERATION_FIRST;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(t.admission);
	free(t.list);
	return 0;
}

static const char *message_name(uint32_t type)
{
	static const char *const names[] = { "nothing", "join",    "grant", "deny",   "ready",
					     "start",   "beat",    "ping",  "pong",   "progress",
					     "stall",   "waiting", "query", "opinfo", "abort",
					     "leave",   "left" };
	return names[type];
}

static void note(const char *what)
{
	size_t used = strlen(t.done);

	snprintf(t.done + used, sizeof(t.done) - used, "%s%s", used ? " " : "", what);
}

static void note_action(const struct admission_action *action)
{
	static const char *const commands[] = { "add", "set", "remove" };
	char what[64];

	if (action->type == ADMISSION_COMMAND) {
		note(commands[action->command]);
		if (action->command == ADMISSION_JOB_ADD)
			t.generation++;
		return;
	}
	if (action->connection < sizeof(t.is_closing)) {
		assert_false(t.is_closing[action->connection]);
		t.is_closing[action->connection] = action->type == ADMISSION_CLOSE;
	}
	if (action->type == ADMISSION_CLOSE) {
		snprintf(what, sizeof(what), "close>%u", action->connection);
		note(what);
		return;
	}
	if (action->message == CONTROL_HEARTBEAT)
		return;
	snprintf(what, sizeof(what), "%s>%u", message_name(action->message), action->connection);
	note(what);
	struct control_message message;
	admission_message(t.admission, &t.config, &t.actions, action, &message);
	assert_int_equal(message.type, action->message);
	if (message.type == CONTROL_GRANT) /* its own nonce: the fixture's are of the connection */
		assert_int_equal(message.grant.nonce[0], (uint8_t)action->connection);
	if (message.type == CONTROL_QUERY) {
		t.round = message.query.round;
		t.from = message.query.from;
	}
	if (message.type == CONTROL_PING)
		t.serial = message.ping.serial;
	if (message.type == CONTROL_ABORT || message.type == CONTROL_DENY) {
		assert_string_equal(message.end.text, t.actions.text);
		assert_int_not_equal(message.end.cause, CONTROL_OK);
		assert_true(message.end.text[0]);
	}
}

/* One event, and nothing that it asks for. */
static void step_once(struct admission_event event)
{
	struct admission_actions lent = { .waiting =
						  t.actions.waiting }; /* the last that was said */
	uint8_t nonce[WIRE_NONCE_BYTES];
	struct shadow shadow;
	bool is_shadowed = shadow_is_worth_it(t.steps++);

	memset(nonce, (int)event.connection, sizeof(nonce));
	event.now_ns = t.now_ns;
	event.random = 0x1234567890abcdef;
	event.generation = t.generation ? t.generation : ++t.generation;
	event.nonce = nonce;
	if (event.connection < sizeof(t.is_closing) &&
	    (event.type == ADMISSION_CLOSED ||
	     (event.type == ADMISSION_MESSAGE && event.message->type == CONTROL_JOIN)))
		t.is_closing[event.connection] = false; /* the number is of another one */
	memset(&t.actions, 1, sizeof(t.actions));       /* a step says all of it */
	t.actions.waiting = lent.waiting;
	t.actions.list = t.list;
	t.actions.list_max = admission_actions_max(&t.config);
	t.actions.members = t.members;
	lent = t.actions;
	if (is_shadowed)
		shadow_open(&shadow, &t.config, t.admission);
	admission_step(t.admission, &t.config, &event, &t.actions);
	if (is_shadowed) {
		shadow_assert(&shadow, &event, &lent, t.admission, &t.actions);
		if (!t.actions.again && event.type == ADMISSION_TICK)
			shadow_assert_wake(&shadow, t.admission, &t.actions, t.now_ns);
		shadow_close(&shadow);
	}
	for (uint32_t i = 0; i < t.actions.count; i++)
		note_action(&t.list[i]);
	if (t.actions.text[0]) {
		strcpy(t.text, t.actions.text);
		t.cause = t.actions.cause;
		t.cause_rank = t.actions.cause_rank;
	} else {
		assert_int_equal(t.actions.cause, CONTROL_OK);
	}
	if (t.actions.cause == CONTROL_OK)
		assert_int_equal(t.actions.cause_rank, CONTROL_RANK_NONE);
	assert_int_equal(t.actions.log_level == ADMISSION_LOG_NONE, !t.actions.log[0]);
	if (t.actions.log_level) {
		strcpy(t.log, t.actions.log);
		t.log_level = t.actions.log_level;
	}
}

/* One event, and the ticks that it asks for. After a TICK nothing is due any more, unless that has let one in from the
 * line whose own time is over. */
static void step(struct admission_event event)
{
	uint32_t again = 0;

	do {
		step_once(event);
		event = (struct admission_event){ .type = ADMISSION_TICK };
		assert_true(again++ < 100);
	} while (t.actions.again || (again > 1 && t.actions.wake_ns <= t.now_ns));
	if (admission_is_idle(t.admission))
		assert_true(t.actions.wake_ns == UINT64_MAX);
}

static void say(uint32_t connection)
{
	step((struct admission_event){
		.type = ADMISSION_MESSAGE, .connection = connection, .message = &t.message });
}

static void prepare(enum control_type type)
{
	memset(&t.message, 0, sizeof(t.message));
	t.message.type = type;
}

static void say_type(uint32_t connection, enum control_type type)
{
	prepare(type);
	say(connection);
}

static void prepare_join(uint32_t connection, uint16_t rank, uint16_t size)
{
	prepare(CONTROL_JOIN);
	t.message.join = (struct control_join){
		.version_min = CONTROL_VERSION,
		.version_max = CONTROL_VERSION,
		.size = size,
		.rank = rank,
		.workers = 1,
		.pid = 100 + connection,
		.list_hash = 77,
	};
	strcpy(t.message.join.job, "train");
	snprintf(t.message.join.host, CONTROL_HOST_BYTES, "host%u", connection);
}

static void join(uint32_t connection, uint16_t rank, uint16_t size)
{
	prepare_join(connection, rank, size);
	say(connection);
}

static void say_ready(uint32_t connection, uint16_t lanes)
{
	prepare(CONTROL_READY);
	t.message.lanes.lanes = lanes;
	say(connection);
}

static void say_pong(uint32_t connection, uint32_t serial)
{
	prepare(CONTROL_PONG);
	t.message.ping.serial = serial;
	say(connection);
}

static void say_leave(uint32_t connection, uint64_t submitted)
{
	prepare(CONTROL_LEAVE);
	t.message.leave.submitted = submitted;
	say(connection);
}

static void say_abort(uint32_t connection, enum control_cause cause, const char *text)
{
	prepare(CONTROL_ABORT);
	t.message.end.cause = (uint16_t)cause;
	strcpy(t.message.end.text, text);
	say(connection);
}

static void say_stall_of(uint32_t connection, struct control_stall stall)
{
	prepare(CONTROL_STALL);
	t.message.stall = stall;
	say(connection);
}

static void say_stall(uint32_t connection, uint64_t number)
{
	say_stall_of(connection, (struct control_stall){ .number = number });
}

static void say_opinfo(uint32_t connection, uint64_t submitted, const struct control_op *ops,
		       uint32_t count)
{
	prepare(CONTROL_OPINFO);
	t.message.opinfo = (struct control_opinfo){
		.round = t.round,
		.ops_count = (uint16_t)count,
		.submitted = submitted,
		.oldest = count ? ops[0].number : submitted,
		.ops = ops,
	};
	say(connection);
}

static struct control_op allreduce(uint64_t number, uint64_t count)
{
	return (struct control_op){ .number = number, .count = count, .type = 2 };
}

static void close_connection(uint32_t connection)
{
	step((struct admission_event){ .type = ADMISSION_CLOSED, .connection = connection });
}

/* A shard's answer to a command. */
static struct admission_event answer_of(uint16_t shard, enum admission_command command)
{
	return (struct admission_event){ .type = ADMISSION_SHARD,
					 .shard = shard,
					 .command = command,
					 .job_generation = t.admission->generation };
}

static struct admission_event refusal_of(uint16_t shard, enum admission_command command)
{
	struct admission_event answer = answer_of(shard, command);

	answer.has_failed = true;
	return answer;
}

static void acknowledge(enum admission_command command)
{
	for (uint16_t shard = 0; shard < t.config.shards; shard++)
		step(answer_of(shard, command));
}

static void event(enum admission_event_type type)
{
	step((struct admission_event){ .type = type, .rank = CONTROL_RANK_NONE });
}

static void wait_seconds(uint32_t seconds)
{
	for (uint32_t i = 0; i < seconds; i++) {
		t.now_ns += second_ns;
		event(ADMISSION_TICK);
	}
}

static void assert_done(const char *expected)
{
	char done[DONE_MAX];

	strcpy(done, t.done);
	t.done[0] = 0;
	assert_string_equal(done, expected);
}

static void assert_state(enum admission_state state)
{
	assert_int_equal(t.admission->state, state);
}

static void assert_text(enum control_cause cause, uint32_t rank, const char *text)
{
	assert_string_equal(t.text, text);
	assert_int_equal(t.cause, cause);
	assert_int_equal(t.cause_rank, rank);
}

/* `size` ranks on connections base, base + 1, ... up to the state. */
static void bring_to(enum admission_state state, uint32_t base, uint16_t size)
{
	for (uint16_t rank = 0; rank < size; rank++)
		join(base + rank, rank, size);
	if (state == ADMISSION_GRANTED) {
		acknowledge(ADMISSION_JOB_ADD);
		t.done[0] = 0;
		return;
	}
	acknowledge(ADMISSION_JOB_ADD);
	for (uint16_t rank = 0; rank < size; rank++)
		say_ready(base + rank, 360);
	if (state == ADMISSION_STARTED)
		acknowledge(ADMISSION_JOB_SET);
	t.done[0] = 0;
	assert_state(state);
}

#pragma GCC diagnostic pop

#endif
