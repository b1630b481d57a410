/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member_fixture.h - for tests: a member with a clock of its own. Included once in a program.
 */
#ifndef CORE_MEMBER_FIXTURE_H
#define CORE_MEMBER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/job/member.h"

/* A test may leave some of this unused, but nothing of its own: that would be a test that does not run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

static const uint64_t second_ns = 1000000000, ms_ns = 1000000;

static struct {
	struct control_join join;
	struct member_config config;
	struct member member;
	struct member_actions actions;
	uint64_t now_ns;
	struct control_message message;
	char done[2000]; /* since the last assert_done */
	char text[CONTROL_TEXT_BYTES];
	uint32_t cause, fails;
} t;

static int set_up(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.join = (struct control_join){ .size = 4, .rank = 3 };
	t.config = (struct member_config)MEMBER_CONFIG_DEFAULT;
	t.config.aggregator = "10.0.0.1:7171";
	t.config.join = &t.join;
	t.now_ns = 1000 * second_ns;
	memset(&t.member, 0xff, sizeof(t.member)); /* whatever the memory held */
	member_init(&t.member, &t.config);
	return 0;
}

static void note_action(const struct member_action *action)
{
	/* clang-format off */
	static const char *const names[] = { "connect", "send", "hello", "opinfo", "start", "close",
					     "left", "fail" };
	static const char *const messages[CONTROL_TYPE_END] = {
		[CONTROL_JOIN] = "JOIN", [CONTROL_READY] = "READY", [CONTROL_HEARTBEAT] = "HEARTBEAT",
		[CONTROL_PONG] = "PONG", [CONTROL_STALL] = "STALL", [CONTROL_ABORT] = "ABORT",
		[CONTROL_LEAVE] = "LEAVE",
	};
	/* clang-format on */
	size_t used = strlen(t.done);

	t.fails += action->type == MEMBER_FAIL;
	char *at = t.done + used;
	size_t room = sizeof(t.done) - used;

	if (action->type == MEMBER_SEND && action->message == CONTROL_HEARTBEAT)
		return;
	if (action->type == MEMBER_SEND) {
		assert_non_null(messages[action->message]);
		snprintf(at, room, "%s ", messages[action->message]);
		member_message(&t.config, &t.actions, action, &t.message);
		assert_int_equal(t.message.type, action->message);
	} else if (action->type == MEMBER_HELLO) {
		snprintf(at, room, "hello>%u:%u ", action->shard, action->lanes);
		assert_true(action->serial);
	} else if (action->type == MEMBER_OPINFO) {
		snprintf(at, room, "opinfo(%u,%llu) ", action->serial,
			 (unsigned long long)action->number);
	} else {
		snprintf(at, room, "%s ", names[action->type]);
	}
}

/* What a TICK at that time would do; nothing of it is done. */
static void foresee(uint64_t now_ns, struct member_actions *actions)
{
	struct member_event tick = { .type = MEMBER_TICK, .now_ns = now_ns };
	struct member member = t.member;

	member_step(&member, &t.config, &tick, actions);
}

/* A TICK is wanted just when something is due: before it nothing is, but for a silence that each second's
 * TICK finds. */
static void assert_wakes_in_time(void)
{
	static struct member_actions actions;
	uint64_t wake_ns = t.actions.wake_ns;

	if (wake_ns == UINT64_MAX || !t.member.is_begun)
		return;
	foresee(wake_ns, &actions);
	assert_int_not_equal(actions.count, 0);
	if (wake_ns <= t.now_ns)
		return;
	foresee(wake_ns - 1, &actions);
	if (!strstr(actions.text, "silent for"))
		assert_int_equal(actions.count, 0);
}

/* Whom a failure that the event brings is blamed on. */
static uint32_t blamed_by(const struct member_event *event)
{
	if (event->type == MEMBER_USER_ABORT || event->type == MEMBER_ERROR ||
	    event->type == MEMBER_FINALIZE)
		return t.join.rank;
	if (event->type == MEMBER_MESSAGE &&
	    (event->message->type == CONTROL_ABORT || event->message->type == CONTROL_DENY))
		return event->message->end.rank;
	return CONTROL_RANK_NONE;
}

static void step(struct member_event event)
{
	uint32_t fails = t.fails, blamed = blamed_by(&event);

	event.now_ns = t.now_ns;
	memset(&t.actions, 1, sizeof(t.actions)); /* a step says all of it */
	member_step(&t.member, &t.config, &event, &t.actions);
	for (uint32_t i = 0; i < t.actions.count; i++)
		note_action(&t.actions.list[i]);
	if (event.type != MEMBER_MESSAGE) {
		assert_false(t.actions.has_progress);
		assert_false(t.actions.has_waiting);
	}
	if (!t.actions.text[0])
		assert_int_equal(t.actions.cause, CONTROL_OK);
	if (event.type == MEMBER_TICK)
		assert_true(t.actions.wake_ns > t.now_ns); /* nothing is due any more */
	assert_wakes_in_time();
	assert_int_equal(t.actions.cause_rank, t.fails > fails ? blamed : CONTROL_RANK_NONE);
	if (t.fails > fails)
		assert_int_equal(t.member.cause_rank, blamed);
	if (t.actions.text[0]) {
		strcpy(t.text, t.actions.text);
		t.cause = t.actions.cause;
	}
}

static void event(enum member_event_type type)
{
	step((struct member_event){ .type = type });
}

static void hear(enum control_type type)
{
	t.message.type = type;
	step((struct member_event){ .type = MEMBER_MESSAGE, .message = &t.message, .lanes = 360 });
}

static void hear_type(enum control_type type)
{
	memset(&t.message, 0, sizeof(t.message));
	hear(type);
}

static void hear_grant(uint16_t shards)
{
	memset(&t.message, 0, sizeof(t.message));
	t.message.grant.shards_count = shards;
	t.message.grant.heartbeat_ms = 10000;
	for (uint16_t i = 0; i < shards; i++) {
		t.message.grant.shards[i].port = (uint16_t)(7171 + i);
		t.message.grant.shards[i].lanes = 16368;
	}
	hear(CONTROL_GRANT);
}

static void hear_start(uint16_t lanes)
{
	memset(&t.message, 0, sizeof(t.message));
	t.message.start.lanes = lanes;
	hear(CONTROL_START);
}

static void hear_end(enum control_type type, enum control_cause cause, const char *text)
{
	memset(&t.message, 0, sizeof(t.message));
	t.message.end.cause = (uint16_t)cause;
	t.message.end.rank = 2;
	strcpy(t.message.end.text, text);
	hear(type);
}

static void welcome(uint16_t shard, uint16_t lanes)
{
	step((struct member_event){ .type = MEMBER_WELCOME, .shard = shard, .lanes = lanes });
}

static void wait_ms(uint64_t ms, uint64_t tick_ms)
{
	for (uint64_t end_ns = t.now_ns + ms * ms_ns; t.now_ns < end_ns;) {
		t.now_ns += tick_ms * ms_ns;
		event(MEMBER_TICK);
	}
}

static void assert_done(const char *expected)
{
	char done[sizeof(t.done)];

	strcpy(done, t.done);
	t.done[0] = 0;
	if (done[0])
		done[strlen(done) - 1] = 0;
	assert_string_equal(done, expected);
}

static void assert_state(enum member_state state)
{
	assert_string_equal(member_state_name(t.member.state), member_state_name(state));
}

static void assert_failed(enum control_cause cause, const char *text)
{
	assert_state(MEMBER_FAILED);
	assert_string_equal(t.text, text);
	assert_int_equal(t.cause, cause);
	assert_int_equal(t.member.cause, cause);
	assert_true(t.actions.wake_ns == UINT64_MAX);
}

static void bring_to(enum member_state state)
{
	event(MEMBER_TICK);
	if (state >= MEMBER_JOINING)
		event(MEMBER_CONNECTED);
	if (state >= MEMBER_HELLOING)
		hear_grant(2);
	if (state >= MEMBER_READY) {
		welcome(0, 360);
		welcome(1, 360);
	}
	if (state >= MEMBER_RUN)
		hear_start(360);
	if (state >= MEMBER_LEAVING)
		step((struct member_event){ .type = MEMBER_FINALIZE, .number = 9 });
	t.done[0] = 0;
	assert_state(state);
}

#pragma GCC diagnostic pop

#endif
