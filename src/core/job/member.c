/* SPDX-License-Identifier: Apache-2.0 */
/* member.c - see member.h and member_turn.h. */
#include "core/job/member_turn.h"
#include "core/job/silence.h"

/* No tick for 1/4 of the heartbeat time: it is our clock that cannot be trusted. */
enum { OVERSLEPT = 4 };

static const uint64_t verdict_ns = 2000000000; /* for the aggregator to ask all and to judge */

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

/* ---- actions ---- */

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

void member_blame(struct turn *turn, struct text *text, enum control_cause cause, uint32_t rank)
{
	turn->actions->cause = (uint16_t)cause;
	turn->actions->cause_rank = (uint16_t)rank;
	text_begin(text, turn->actions->text, sizeof(turn->actions->text));
}

/* R-CT-53: the aggregator hears of it, unless it comes from there. */
void member_fail(struct turn *turn, bool is_told)
{
	if (turn->member->is_joined && !is_told)
		member_send(turn, CONTROL_ABORT);
	member_act(turn, MEMBER_CLOSE);
	member_act(turn, MEMBER_FAIL);
	turn->member->cause = (uint8_t)turn->actions->cause;
	turn->member->cause_rank = turn->actions->cause_rank;
	member_enter(turn, MEMBER_FAILED);
}

/* ---- what the aggregator says ---- */

void member_unexpected(struct turn *turn)
{
	struct text text;

	member_blame(turn, &text, CONTROL_INTERNAL, CONTROL_RANK_NONE);
	text_add(&text, "the aggregator at %s sent message %u in state %s",
		 turn->config->aggregator, (unsigned)turn->event->message->type,
		 member_state_name(turn->member->state));
	member_fail(turn, false);
}

static void ended(struct turn *turn)
{
	const struct control_end *said = &turn->event->message->end;
	struct text text;

	member_blame(turn, &text, said->cause == CONTROL_OK ? CONTROL_INTERNAL : said->cause,
		     said->rank);
	text_add(&text, "%s", said->text);
	member_fail(turn, true);
}

static void left(struct turn *turn)
{
	member_act(turn, MEMBER_CLOSE);
	member_act(turn, MEMBER_IS_LEFT);
	member_enter(turn, MEMBER_LEFT);
}

/* R-CT-57 */
static void queried(struct turn *turn)
{
	struct member_action *action = member_act(turn, MEMBER_OPINFO);

	action->serial = turn->event->message->query.round;
	action->number = turn->event->message->query.from;
}

/* The operation whose deadline was over has been called by all: if the aggregator ends nothing, it has ended
 * well in the meantime. */
static void waited(struct turn *turn)
{
	const struct control_waiting *waiting = &turn->event->message->waiting;

	turn->actions->has_waiting = true;
	if (waiting->number == turn->member->expired && !waiting->missing_count)
		turn->member->is_expired = 0;
}

static void said_progress(struct turn *turn)
{
	struct text text;

	turn->actions->has_progress = true;
	text_begin(&text, turn->actions->text, sizeof(turn->actions->text));
	text_add(&text, "%s", turn->event->message->progress.text);
}

static void message(struct turn *turn)
{
	uint32_t state = turn->member->state;
	bool is_running = state == MEMBER_RUN || state == MEMBER_LEAVING;
	enum control_type type = turn->event->message->type;

	turn->member->heard_ns = turn->member->spoke_ns = turn->event->now_ns;
	if (type == CONTROL_HEARTBEAT || type == CONTROL_PONG)
		return;
	if (member_begin_is_earlier(turn))
		member_begin_again(turn);
	else if (type == CONTROL_DENY || type == CONTROL_ABORT)
		ended(turn);
	else if (type == CONTROL_PING)
		member_send(turn, CONTROL_PONG)->serial = turn->event->message->ping.serial;
	else if (type == CONTROL_PROGRESS)
		said_progress(turn);
	else if (type == CONTROL_GRANT && state == MEMBER_JOINING)
		member_begin_granted(turn);
	else if (type == CONTROL_START && state == MEMBER_READY)
		member_begin_started(turn);
	else if (type == CONTROL_QUERY && is_running)
		queried(turn);
	else if (type == CONTROL_WAITING && is_running)
		waited(turn);
	else if (type == CONTROL_LEFT && state == MEMBER_LEAVING)
		left(turn);
	else
		member_unexpected(turn);
}

/* ---- failures ---- */

/* R-CT-54 */
static void closed(struct turn *turn)
{
	struct text text;

	if (turn->member->state == MEMBER_CONNECT) {
		member_begin_refused(turn);
		return;
	}
	member_blame(turn, &text, CONTROL_REMOTE, CONTROL_RANK_NONE);
	text_add(&text, "the aggregator at %s is lost: %s", turn->config->aggregator,
		 turn->event->text ? turn->event->text : "it closed the connection");
	member_fail(turn, true);
}

static bool is_heard(const struct turn *turn)
{
	return turn->event->now_ns - turn->member->heard_ns <
	       silence_ns(turn->member->heartbeat_ns);
}

static void silent(struct turn *turn)
{
	bool is_answered = turn->member->state > MEMBER_JOINING;
	struct text text;

	member_blame(turn, &text, is_answered ? CONTROL_REMOTE : CONTROL_TIMEOUT,
		     CONTROL_RANK_NONE);
	text_add(&text, "the aggregator at %s has been silent for %llu ms%s",
		 turn->config->aggregator, (unsigned long long)(turn->member->heartbeat_ns / ms_ns),
		 !is_answered     ? ", although it takes connections: is it stopped?"
		 : is_heard(turn) ? " over TCP, although it answers over UDP"
				  : "");
	member_fail(turn, false);
}

static void own_failure(struct turn *turn, enum control_cause cause, const char *otherwise)
{
	struct text text;

	member_blame(turn, &text, cause, turn->config->join->rank);
	text_add(&text, "%s", turn->event->text ? turn->event->text : otherwise);
	member_fail(turn, false);
}

/* ---- the library's side ---- */

static void finalize(struct turn *turn)
{
	if (turn->member->state == MEMBER_LEAVING)
		return;
	if (turn->member->state != MEMBER_RUN) {
		own_failure(turn, CONTROL_ABORTED, "finalized before the job had started");
		return;
	}
	member_send(turn, CONTROL_LEAVE)->number = turn->event->number;
	member_enter(turn, MEMBER_LEAVING);
}

static void stalled(struct turn *turn)
{
	uint32_t state = turn->member->state;
	struct member_action *action;

	if (state != MEMBER_RUN && state != MEMBER_LEAVING)
		return;
	action = member_send(turn, CONTROL_STALL);
	action->number = turn->event->number;
	action->waited_ms = turn->event->waited_ms;
	action->still_ms = turn->event->still_ms;
	action->serial = turn->event->type == MEMBER_EXPIRED;
	if (turn->event->type != MEMBER_EXPIRED ||
	    (turn->member->is_expired && turn->member->expired == turn->event->number))
		return;
	turn->member->is_expired = 1;
	turn->member->expired = turn->event->number;
	turn->member->expired_ns = turn->event->now_ns;
}

/* R-CT-56: the aggregator's verdict names who is late; without one this is all that can be said. */
static void no_verdict(struct turn *turn)
{
	struct text text;

	member_blame(turn, &text, CONTROL_TIMEOUT, CONTROL_RANK_NONE);
	text_add(&text,
		 "the deadline of operation %llu is over, and the aggregator at %s has not said in "
		 "%llu s who is late",
		 (unsigned long long)turn->member->expired, turn->config->aggregator,
		 (unsigned long long)(verdict_ns / (1000 * ms_ns)));
	member_fail(turn, false);
}

/* ---- time ---- */

/* R-CT-9 */
static bool is_silent(const struct turn *turn)
{
	const struct member *member = turn->member;
	uint64_t unsaid_ns = turn->event->now_ns - member->spoke_ns;

	return !is_heard(turn) || unsaid_ns >= SILENCE_UDP_ALONE * silence_ns(member->heartbeat_ns);
}

static void tick(struct turn *turn)
{
	struct member *member = turn->member;
	uint64_t now_ns = turn->event->now_ns;
	bool has_overslept = now_ns - member->tick_ns >= member->heartbeat_ns / OVERSLEPT;

	member->tick_ns = now_ns;
	if (member->state == MEMBER_CONNECT) {
		member_begin_tick(turn);
	} else {
		if (has_overslept)
			member->heard_ns = member->spoke_ns = now_ns;
		if (is_silent(turn)) {
			silent(turn);
			return;
		}
		if (now_ns - member->beat_ns >= silence_beat_ns(member->heartbeat_ns)) {
			member->beat_ns = now_ns;
			member_send(turn, CONTROL_HEARTBEAT);
		}
	}
	if (now_ns >= member_begin_late_at(turn)) {
		member_begin_too_late(turn);
		return;
	}
	if (turn->event->is_done)
		member->is_expired = 0; /* it has ended well, and needs no verdict */
	if (member->is_expired && now_ns - member->expired_ns >= verdict_ns) {
		no_verdict(turn);
		return;
	}
	if (member->state == MEMBER_HELLOING)
		member_begin_tick_hello(turn);
}

static uint64_t wake_at(const struct turn *turn)
{
	const struct member *member = turn->member;
	uint64_t wake_ns = member_begin_late_at(turn);

	if (member->state == MEMBER_FAILED || member->state == MEMBER_LEFT)
		return UINT64_MAX;
	if (member->state == MEMBER_CONNECT)
		return member->retry_ns < wake_ns ? member->retry_ns : wake_ns;
	if (member->beat_ns + silence_beat_ns(member->heartbeat_ns) < wake_ns)
		wake_ns = member->beat_ns + silence_beat_ns(member->heartbeat_ns);
	if (member->is_expired && member->expired_ns + verdict_ns < wake_ns)
		wake_ns = member->expired_ns + verdict_ns;
	if (member->state == MEMBER_HELLOING && member->hello_ns + hello_ns < wake_ns)
		wake_ns = member->hello_ns + hello_ns;
	return wake_ns;
}

/* ---- the machine ---- */

static void dispatch(struct turn *turn)
{
	switch (turn->event->type) {
	case MEMBER_CONNECTED:
		member_begin_connected(turn);
		break;
	case MEMBER_REFUSED:
		member_begin_refused(turn);
		break;
	case MEMBER_MESSAGE:
		message(turn);
		break;
	case MEMBER_CLOSED:
		closed(turn);
		break;
	case MEMBER_WELCOME:
		member_begin_welcome(turn);
		break;
	case MEMBER_STALLED:
	case MEMBER_EXPIRED:
		stalled(turn);
		break;
	case MEMBER_FINALIZE:
		finalize(turn);
		break;
	case MEMBER_USER_ABORT:
		own_failure(turn, CONTROL_ABORTED, "the user aborted");
		break;
	case MEMBER_ERROR:
		own_failure(turn, turn->event->cause, "an error");
		break;
	case MEMBER_TICK:
		tick(turn);
		break;
	}
}

void member_step(struct member *member, const struct member_config *config,
		 const struct member_event *event, struct member_actions *actions)
{
	struct turn turn = { member, config, event, actions };

	actions->count = 0;
	actions->cause = CONTROL_OK;
	actions->cause_rank = CONTROL_RANK_NONE;
	actions->has_progress = false;
	actions->has_waiting = false;
	actions->text[0] = 0;
	if (member->state != MEMBER_FAILED && member->state != MEMBER_LEFT)
		dispatch(&turn);
	actions->wake_ns = wake_at(&turn);
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
