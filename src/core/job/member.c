/* SPDX-License-Identifier: Apache-2.0 */
/* member.c - see member.h: what the aggregator, the library and the clock say. */
#include "core/job/member_turn.h"

static const uint64_t ms_ns = 1000000;
static const uint64_t verdict_ns = 2000000000; /* for the aggregator to ask all and to judge */

/* ---- what the aggregator says ---- */

static void ended(struct turn *turn)
{
	const struct control_end *said = &turn->event->message->end;

	member_say(turn, "%s", said->text);
	member_fail(turn, said->cause == CONTROL_OK ? CONTROL_INTERNAL : said->cause, said->rank,
		    true);
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
	turn->actions->has_progress = true;
	member_say(turn, "%s", turn->event->message->progress.text);
}

static void message(struct turn *turn)
{
	uint32_t state = turn->member->state;
	bool is_running = state == MEMBER_RUN || state == MEMBER_LEAVING;
	enum control_type type = turn->event->message->type;

	turn->member->heard_ns = turn->member->spoke_ns = turn->event->now_ns;
	if (type == CONTROL_HEARTBEAT || type == CONTROL_PONG)
		return;
	if (member_begin_again(turn))
		return;
	if (type == CONTROL_DENY || type == CONTROL_ABORT)
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
	if (turn->member->state == MEMBER_CONNECT) {
		member_begin_refused(turn);
		return;
	}
	member_say(turn, "the aggregator at %s is lost: %s", turn->config->aggregator,
		   turn->event->text ? turn->event->text : "it closed the connection");
	member_fail(turn, CONTROL_REMOTE, CONTROL_RANK_NONE, true);
}

/* R-CT-9, R-CT-54 */
static void silent(struct turn *turn)
{
	const struct member *member = turn->member;
	bool is_answered = member->state > MEMBER_JOINING;
	bool is_heard = turn->event->now_ns - member->heard_ns < silence_ns(member->heartbeat_ns);

	member_say(turn, "the aggregator at %s has been silent for %llu ms%s",
		   turn->config->aggregator, (unsigned long long)(member->heartbeat_ns / ms_ns),
		   !is_answered ? ", although it takes connections: is it stopped?"
		   : is_heard   ? " over TCP, although it answers over UDP"
				: "");
	member_fail_here(turn, is_answered ? CONTROL_REMOTE : CONTROL_TIMEOUT);
}

static void own_failure(struct turn *turn, enum control_cause cause, const char *otherwise)
{
	member_say(turn, "%s", turn->event->text ? turn->event->text : otherwise);
	member_fail(turn, cause, turn->config->join->rank, false);
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
	member_say(
		turn,
		"the deadline of operation %llu is over, and the aggregator at %s has not said in "
		"%llu s who is late",
		(unsigned long long)turn->member->expired, turn->config->aggregator,
		(unsigned long long)(verdict_ns / (1000 * ms_ns)));
	member_fail_here(turn, CONTROL_TIMEOUT);
}

/* ---- time ---- */

static void tick(struct turn *turn)
{
	struct member *member = turn->member;
	uint64_t now_ns = turn->event->now_ns;
	bool has_overslept = now_ns - member->tick_ns >= member->heartbeat_ns / SILENCE_OVERSLEPT;

	member->tick_ns = now_ns;
	if (member->state == MEMBER_CONNECT) {
		member_begin_connect(turn);
	} else {
		if (has_overslept)
			member->heard_ns = member->spoke_ns = now_ns;
		if (silence_is(now_ns, member->heard_ns, member->spoke_ns,
			       silence_ns(member->heartbeat_ns))) {
			silent(turn);
			return;
		}
		if (now_ns - member->beat_ns >= silence_beat_ns(member->heartbeat_ns)) {
			member->beat_ns = now_ns;
			member_send(turn, CONTROL_HEARTBEAT);
		}
	}
	if (member_begin_is_late(turn))
		return;
	if (turn->event->is_done)
		member->is_expired = 0; /* it has ended well, and needs no verdict */
	if (member->is_expired && now_ns - member->expired_ns >= verdict_ns) {
		no_verdict(turn);
		return;
	}
	member_begin_hello(turn);
}

static uint64_t wake_at(const struct turn *turn)
{
	const struct member *member = turn->member;
	uint64_t wake_ns = member_begin_wake_ns(turn);

	if (member->state == MEMBER_FAILED || member->state == MEMBER_LEFT)
		return UINT64_MAX;
	if (member->state == MEMBER_CONNECT)
		return wake_ns;
	if (member->is_expired)
		wake_ns = rto_least(wake_ns, member->expired_ns + verdict_ns);
	return rto_least(wake_ns, member->beat_ns + silence_beat_ns(member->heartbeat_ns));
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
