/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member_fuzz.c - a worker's side of control against an aggregator that says anything at any time, paths
 * that answer or do not, a user, and a clock. It must never trap, fail at most once and with a reason,
 * say nothing after its end, and not outlive the silence of an aggregator.
 */
#include "core/job/member.h"
#include "tests/fuzz/input.h"

enum { STEPS_MAX = 64, TICKS_MAX = 2000 };

static const uint64_t ms_ns = 1000000, second_ns = 1000000000;

static struct {
	struct control_join join;
	struct member_config config;
	struct member member;
	struct member_actions actions;
	struct control_message message, sent;
	uint64_t now_ns;
	bool is_connecting, is_open, is_over;
	uint32_t fails;
} test;

static void text_check(const char *text, size_t max)
{
	FUZZ_CHECK(strnlen(text, max) < max);
}

static void action_check(const struct member_action *action)
{
	FUZZ_CHECK(!test.is_over);
	switch ((enum member_action_type)action->type) {
	case MEMBER_DO_CONNECT:
		FUZZ_CHECK(!test.is_connecting && !test.is_open);
		test.is_connecting = true;
		break;
	case MEMBER_SEND:
		FUZZ_CHECK(test.is_open);
		member_message(&test.config, &test.actions, action, &test.sent);
		FUZZ_CHECK(test.sent.type == action->message);
		if (test.sent.type == CONTROL_ABORT)
			FUZZ_CHECK(test.sent.end.cause && test.sent.end.cause < CONTROL_CAUSE_END);
		break;
	case MEMBER_HELLO:
		FUZZ_CHECK(action->shard < test.member.shards);
		FUZZ_CHECK(action->lanes >= WIRE_HELLO_LANES && action->lanes <= WIRE_LANES_MAX);
		FUZZ_CHECK(action->serial);
		break;
	case MEMBER_OPINFO:
		FUZZ_CHECK(test.is_open);
		break;
	case MEMBER_START:
		FUZZ_CHECK(action->lanes && action->lanes % WIRE_LANES_STEP == 0);
		FUZZ_CHECK(action->lanes <= WIRE_LANES_MAX);
		break;
	case MEMBER_CLOSE:
		test.is_open = test.is_connecting = false;
		break;
	case MEMBER_IS_LEFT:
		break;
	case MEMBER_FAIL:
		FUZZ_CHECK(!test.fails++);
		FUZZ_CHECK(test.actions.cause != CONTROL_OK);
		FUZZ_CHECK(test.actions.cause < CONTROL_CAUSE_END);
		FUZZ_CHECK(test.actions.text[0]);
		break;
	}
}

static void step(struct member_event event)
{
	event.now_ns = test.now_ns;
	member_step(&test.member, &test.config, &event, &test.actions);
	FUZZ_CHECK(test.actions.count <= MEMBER_ACTIONS_MAX);
	FUZZ_CHECK(test.member.state < MEMBER_STATE_COUNT);
	for (uint32_t i = 0; i < test.actions.count; i++)
		action_check(&test.actions.list[i]);
	text_check(test.actions.text, sizeof(test.actions.text));
	test.is_over = test.member.state == MEMBER_FAILED || test.member.state == MEMBER_LEFT;
	if (test.is_over)
		test.is_open = false;
	else if (event.type == MEMBER_TICK)
		FUZZ_CHECK(test.actions.wake_ns > test.now_ns);
}

/* ---- events ---- */

static void grant_draw(struct fuzz_input *input, struct control_grant *grant)
{
	uint8_t how = fuzz_u8(input);

	memset(grant, 0, sizeof(*grant));
	grant->life = how;
	grant->workers = 1 + (how & 3);
	grant->size = how & 4 ? fuzz_u16(input) | 1 : test.join.size;
	grant->version = how & 8 ? 1 + fuzz_u8(input) % 3u : 1;
	grant->heartbeat_ms = how & 0x10 ? 100 + fuzz_u16(input) : 10000;
	grant->shards_count = how & 0x20 ? 1 + fuzz_u8(input) % MAP_SHARDS_MAX : 1 + (how >> 6);
	for (uint32_t i = 0; i < grant->shards_count; i++) {
		struct control_shard *shard = &grant->shards[i];

		*shard = (struct control_shard){ .port = (uint16_t)(7171 + i),
						 .generation = 1,
						 .slots = 64,
						 .window = 32,
						 .lanes = 360,
						 .run = 1,
						 .lane_ops = 1 };
		if (how & 4) {
			shard->slots = 1u + (uint32_t)fuzz_u16(input) % CONTROL_LATENCY_SLOTS_MAX;
			shard->run = 1 + fuzz_u8(input) % MAP_RUN_MAX;
			shard->lanes = (uint16_t)(4 + fuzz_u8(input) * 4);
		}
	}
}

static void message_draw(struct fuzz_input *input)
{
	static const uint8_t types[] = { CONTROL_GRANT,     CONTROL_START, CONTROL_GRANT,
					 CONTROL_START,     CONTROL_PING,  CONTROL_PONG,
					 CONTROL_HEARTBEAT, CONTROL_QUERY, CONTROL_PROGRESS,
					 CONTROL_WAITING,   CONTROL_LEFT,  CONTROL_DENY,
					 CONTROL_ABORT,     CONTROL_JOIN,  CONTROL_OPINFO,
					 CONTROL_LEAVE };
	static struct control_member members[2];
	struct control_message *message = &test.message;
	uint8_t how = fuzz_u8(input);

	message->type = types[how & 15];
	switch (message->type) {
	case CONTROL_GRANT:
		grant_draw(input, &message->grant);
		break;
	case CONTROL_START:
		message->start = (struct control_start){
			.lanes = (uint16_t)(4 + fuzz_u16(input) % (WIRE_LANES_MAX / 4) * 4),
			.members_count = how >> 4 & 1,
			.members = members,
		};
		break;
	case CONTROL_PING:
	case CONTROL_PONG:
		message->ping.serial = how;
		break;
	case CONTROL_QUERY:
		message->query.round = how >> 4;
		message->query.from = fuzz_u64(input) & INT64_MAX;
		break;
	case CONTROL_PROGRESS:
		memset(message->progress.text, how >> 4 ? 'x' : 0, CONTROL_TEXT_BYTES - 1);
		message->progress.text[CONTROL_TEXT_BYTES - 1] = 0;
		break;
	case CONTROL_WAITING:
		memset(&message->waiting, 0, sizeof(message->waiting));
		message->waiting.number = how >> 4;
		break;
	case CONTROL_DENY:
	case CONTROL_ABORT:
		memset(&message->end, 0, sizeof(message->end));
		message->end.cause = 1 + (how >> 4) % (CONTROL_CAUSE_END - 1u);
		message->end.rank = fuzz_u16(input);
		message->end.is_ending = how >> 6 & 1;
		memset(message->end.text, how & 0x80 ? '\x1b' : 'x', how);
		break;
	default:
		break;
	}
}

static void user_event(struct fuzz_input *input, uint8_t how)
{
	static const enum member_event_type types[] = { MEMBER_STALLED,  MEMBER_EXPIRED,
							MEMBER_FINALIZE, MEMBER_USER_ABORT,
							MEMBER_ERROR,    MEMBER_WELCOME,
							MEMBER_WELCOME,  MEMBER_WELCOME };
	struct member_event event = { .type = types[how >> 2 & 7], .number = how >> 5 };
	uint8_t value = fuzz_u8(input);

	if (event.type == MEMBER_FINALIZE && test.member.state != MEMBER_RUN)
		return;
	if (event.type == MEMBER_WELCOME && !test.member.shards)
		return;
	event.text = how & 0x20 ? "what the user says\n" : NULL;
	event.cause = 1 + value % (CONTROL_CAUSE_END - 1u);
	event.waited_ms = value;
	if (test.member.shards)
		event.shard = (uint16_t)(value % test.member.shards);
	event.lanes = how & 0x20 ? test.member.lanes : WIRE_HELLO_LANES;
	if (event.type == MEMBER_ERROR && !event.text)
		event.text = "an error";
	step(event);
}

static void wire_event(struct fuzz_input *input, uint8_t how)
{
	struct member_event event = { .type = MEMBER_MESSAGE, .text = "why" };

	if (test.is_connecting) {
		test.is_connecting = false;
		test.is_open = !(how & 0x1c);
		event.type = test.is_open ? MEMBER_CONNECTED : MEMBER_REFUSED;
	} else if (!test.is_open) {
		return;
	} else if ((how & 0x3c) == 0x3c) {
		test.is_open = false;
		event.type = MEMBER_CLOSED;
		event.text = how & 0x40 ? NULL : "reset";
	} else {
		message_draw(input);
		event.message = &test.message;
		event.lanes = 360;
	}
	step(event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	test.join = (struct control_join){ .size = 4, .rank = 3 };
	test.config = (struct member_config)MEMBER_CONFIG_DEFAULT;
	test.config.aggregator = "10.0.0.1:7171";
	test.config.join = &test.join;
	test.config.is_local = bytes & 1;
	test.now_ns = 1000 * second_ns;
	test.is_connecting = test.is_open = test.is_over = false;
	test.fails = 0;
	member_init(&test.member, &test.config);
	step((struct member_event){ .type = MEMBER_TICK });
	for (uint32_t i = 0; i < STEPS_MAX && input.left && !test.is_over; i++) {
		uint8_t how = fuzz_u8(&input);

		if ((how & 3) == 3) {
			uint64_t value = fuzz_u8(&input);

			test.now_ns += how & 0x80 ? value * second_ns : value * ms_ns;
			step((struct member_event){ .type = MEMBER_TICK });
		} else if ((how & 3) == 2) {
			user_event(&input, how);
		} else {
			wire_event(&input, how);
		}
	}
	for (uint32_t i = 0; i < TICKS_MAX && !test.is_over; i++) {
		test.now_ns = test.actions.wake_ns > test.now_ns ? test.actions.wake_ns
								 : test.now_ns + ms_ns;
		if (test.is_connecting) {
			test.is_connecting = false;
			step((struct member_event){ .type = MEMBER_REFUSED, .text = "refused" });
		}
		step((struct member_event){ .type = MEMBER_TICK });
	}
	FUZZ_CHECK(test.is_over);
	return 0;
}
