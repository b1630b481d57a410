/* SPDX-License-Identifier: Apache-2.0 */
/* member_turn.c - what all parts of member use: states, a step's actions and its text, and how it fails. */
#include "core/job/member_turn.h"

#define TO(state) (1u << (state))

/* clang-format off */
static const uint32_t may_enter[MEMBER_STATE_COUNT] = {
	[MEMBER_CONNECT]  = TO(MEMBER_JOINING)  | TO(MEMBER_FAILED),
	[MEMBER_JOINING]  = TO(MEMBER_HELLOING) | TO(MEMBER_CONNECT) | TO(MEMBER_FAILED),
	[MEMBER_HELLOING] = TO(MEMBER_READY)    | TO(MEMBER_FAILED),
	[MEMBER_READY]    = TO(MEMBER_RUN)      | TO(MEMBER_FAILED),
	[MEMBER_RUN]      = TO(MEMBER_LEAVING)  | TO(MEMBER_FAILED),
	[MEMBER_LEAVING]  = TO(MEMBER_LEFT)     | TO(MEMBER_FAILED),
	[MEMBER_LEFT]     = 0, /* final: another communicator is another member */
	[MEMBER_FAILED]   = 0,
};
static const char *const state_names[MEMBER_STATE_COUNT] = {
	"connect", "joining", "helloing", "ready", "run", "leaving", "left", "failed",
};
/* clang-format on */

const char *member_state_name(uint32_t state)
{
	return state < MEMBER_STATE_COUNT ? state_names[state] : "?";
}

void member_init(struct member *member, const struct member_config *config)
{
	memset(member, 0, sizeof(*member));
	member->heartbeat_ns = config->heartbeat_ns;
	member->cause_rank = CONTROL_RANK_NONE;
}

void member_enter(struct turn *turn, enum member_state next)
{
	CORE_ASSERT(may_enter[turn->member->state] & TO(next));
	turn->member->state = (uint8_t)next;
	turn->member->since_ns = turn->event->now_ns;
}

struct member_action *member_act(struct turn *turn, enum member_action_type type)
{
	struct member_actions *actions = turn->actions;

	CORE_ASSERT(actions->count < MEMBER_ACTIONS_MAX);
	struct member_action *action = &actions->list[actions->count++];
	*action = (struct member_action){ .type = (uint8_t)type };
	return action;
}

struct member_action *member_send(struct turn *turn, enum control_type message)
{
	struct member_action *action = member_act(turn, MEMBER_SEND);

	action->message = (uint8_t)message;
	return action;
}

void member_say(struct turn *turn, const char *format, ...)
{
	__builtin_va_list args;
	struct text text;

	text_begin(&text, turn->actions->text, sizeof(turn->actions->text));
	__builtin_va_start(args, format);
	text_add_args(&text, format, args);
	__builtin_va_end(args);
}

void member_fail(struct turn *turn, enum control_cause cause, uint32_t rank, bool is_told)
{
	if (turn->member->is_joined && !is_told)
		member_send(turn, CONTROL_ABORT);
	member_act(turn, MEMBER_CLOSE);
	member_act(turn, MEMBER_FAIL);
	turn->member->cause = (uint8_t)cause;
	turn->member->cause_rank = (uint16_t)rank;
	turn->actions->cause = turn->member->cause;
	turn->actions->cause_rank = turn->member->cause_rank;
	member_enter(turn, MEMBER_FAILED);
}

void member_fail_here(struct turn *turn, enum control_cause cause)
{
	member_fail(turn, cause, CONTROL_RANK_NONE, false);
}

/* R-CT-5 */
void member_unexpected(struct turn *turn)
{
	member_say(turn, "the aggregator at %s sent message %u in state %s",
		   turn->config->aggregator, (unsigned)turn->event->message->type,
		   member_state_name(turn->member->state));
	member_fail_here(turn, CONTROL_INTERNAL);
}

void member_message(const struct member_config *config, const struct member_actions *actions,
		    const struct member_action *action, struct control_message *message_out)
{
	memset(message_out, 0, sizeof(*message_out));
	message_out->type = action->message;
	switch (message_out->type) {
	case CONTROL_JOIN:
		message_out->join = *config->join;
		message_out->join.timeout_ms = action->waited_ms;
		break;
	case CONTROL_READY:
		message_out->lanes.lanes = action->lanes;
		break;
	case CONTROL_PONG:
		message_out->ping.serial = action->serial;
		break;
	case CONTROL_STALL:
		message_out->stall.number = action->number;
		message_out->stall.waited_ms = action->waited_ms;
		message_out->stall.still_ms = action->still_ms;
		message_out->stall.is_expired = action->serial != 0;
		break;
	case CONTROL_ABORT:
		message_out->end.cause = actions->cause;
		message_out->end.rank = actions->cause_rank;
		text_copy(message_out->end.text, sizeof(message_out->end.text), actions->text);
		break;
	case CONTROL_LEAVE:
		message_out->leave.submitted = action->number;
		break;
	default:
		break;
	}
}
