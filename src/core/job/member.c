/* SPDX-License-Identifier: Apache-2.0 */
/* member.c - see member.h: the way from CONNECT to RUN, and what the aggregator, the library and the
 * clock say. */
#include "core/job/member_turn.h"

static const uint64_t ms_ns = 1000000;
static const uint64_t hello_ns = 100000000;
enum {
	HELLOS_MAX = 100, /* rounds of HELLOs, 100 ms apart: 10 s, however long we slept between */
	HELLOS_ENOUGH = 20,      /* if short ones have an answer, or there is no more time */
	HELLOS_BEFORE_SHORT = 5, /* then short ones too: is it the path's MTU? */
};
static const uint64_t retry_min_ns =
	1000000; /* who is at the same program's next line is soon there */
static const uint64_t retry_max_ns = 250000000;
static const uint64_t backstop_ns = 5000000000; /* who connects knows best why it did not */
static const uint64_t grace_ns = 500000000;     /* the aggregator's text is better than ours */
static const uint64_t verdict_ns = 2000000000;  /* for the aggregator to ask all and to judge */

/* ---- CONNECT ---- */

/* R-CT-51: after as long again as attempts have gone on. */
static void retry(struct turn *turn)
{
	uint64_t gone_ns = turn->event->now_ns - turn->member->begun_ns;

	turn->member->retry_ns =
		turn->event->now_ns + rto_least(rto_most(gone_ns, retry_min_ns), retry_max_ns);
}

/* R-CT-51 */
static void member_begin_refused(struct turn *turn)
{
	struct member *member = turn->member;
	uint64_t now_ns = turn->event->now_ns;

	if (member->state != MEMBER_CONNECT)
		return;
	if (now_ns - member->since_ns < turn->config->connect_ns) {
		retry(turn);
		return;
	}
	member_say(turn, "no aggregator at %s: %s (tried for %llu s%s)", turn->config->aggregator,
		   turn->event->text ? turn->event->text : "no answer",
		   (unsigned long long)(turn->config->connect_ns / (1000 * ms_ns)),
		   member->is_again ? ", after an earlier one had ended" : "");
	member_fail_here(turn, CONTROL_SYSTEM);
}

static void member_begin_connect(struct turn *turn)
{
	struct member *member = turn->member;
	uint64_t now_ns = turn->event->now_ns;

	if (!member->is_begun) {
		member->is_begun = 1;
		member->begun_ns = now_ns;
		member->since_ns = now_ns;
		member->retry_ns = now_ns;
	}
	if (member->retry_ns == UINT64_MAX || now_ns < member->retry_ns)
		return;
	member->retry_ns = UINT64_MAX; /* until REFUSED */
	member_act(turn, MEMBER_DO_CONNECT);
}

/* R-CT-50: of the time to gather, what is left. */
static uint32_t patience_ms(const struct turn *turn)
{
	uint64_t gone_ns = turn->event->now_ns - turn->member->begun_ns;
	uint64_t left_ns = gone_ns < turn->config->gather_ns ? turn->config->gather_ns - gone_ns
							     : 0;

	return (uint32_t)rto_most(1, rto_least(left_ns / ms_ns, UINT32_MAX));
}

static void member_begin_connected(struct turn *turn)
{
	struct member *member = turn->member;

	if (member->state != MEMBER_CONNECT)
		return;
	member_send(turn, CONTROL_JOIN)->waited_ms = patience_ms(turn);
	member->is_joined = 1;
	member->heard_ns = member->spoke_ns = turn->event->now_ns;
	member->beat_ns = turn->event->now_ns;
	member_enter(turn, MEMBER_JOINING);
}

/* Of rank 0's last life, which this process was quicker to leave? */
static bool is_earlier(const struct turn *turn)
{
	return turn->config->is_local && turn->member->state == MEMBER_JOINING &&
	       turn->event->message->type == CONTROL_DENY && turn->event->message->end.is_ending;
}

/* R-CT-27 */
static bool member_begin_again(struct turn *turn)
{
	struct member *member = turn->member;

	if (!is_earlier(turn))
		return false;
	turn->actions->has_progress = true;
	member_say(turn, "%s: it is of an earlier life, the next one's is awaited",
		   turn->event->message->end.text);
	member_act(turn, MEMBER_CLOSE);
	member->is_joined = 0;
	member->is_again = 1;
	member_enter(turn, MEMBER_CONNECT);
	retry(turn);
	return true;
}

/* ---- HELLOING ---- */

static void hello(struct turn *turn, uint32_t shard, uint32_t lanes)
{
	struct member_action *action = member_act(turn, MEMBER_HELLO);

	action->shard = (uint16_t)shard;
	action->serial = ++turn->member->serial;
	action->lanes = (uint16_t)lanes;
}

/* A HELLO is as long as the longest packet: it proves the path's MTU both ways. */
static uint32_t hello_lanes(const struct member *member)
{
	return member->lanes < WIRE_HELLO_LANES ? WIRE_HELLO_LANES : member->lanes;
}

static void send_hellos(struct turn *turn)
{
	struct member *member = turn->member;

	member->hello_ns = turn->event->now_ns;
	for (uint32_t shard = 0; shard < member->shards; shard++) {
		if (member->welcomed >> shard & 1)
			continue;
		hello(turn, shard, hello_lanes(member));
		if (member->hellos >= HELLOS_BEFORE_SHORT && hello_lanes(member) > WIRE_HELLO_LANES)
			hello(turn, shard, WIRE_HELLO_LANES);
	}
	member->hellos++;
}

static void member_begin_granted(struct turn *turn)
{
	const struct control_grant *grant = &turn->event->message->grant;
	struct member *member = turn->member;

	member->shards = grant->shards_count;
	member->heartbeat_ns = grant->heartbeat_ms * ms_ns;
	member->lanes = turn->event->lanes;
	CORE_ASSERT(member->shards >= 1);
	CORE_ASSERT(member->shards <= MAP_SHARDS_MAX);
	for (uint32_t shard = 0; shard < member->shards; shard++) {
		member->port[shard] = grant->shards[shard].port;
		if (grant->shards[shard].lanes < member->lanes)
			member->lanes = grant->shards[shard].lanes;
	}
	member->lanes = (uint16_t)(member->lanes - member->lanes % WIRE_LANES_STEP);
	if (!member->lanes) {
		member_say(turn, "the path to the aggregator at %s is too narrow for one packet",
			   turn->config->aggregator);
		member_fail_here(turn, CONTROL_SYSTEM);
		return;
	}
	member_enter(turn, MEMBER_HELLOING);
	send_hellos(turn);
}

static uint32_t first_unwelcome(const struct member *member)
{
	uint32_t shard = 0;

	while (shard + 1 < member->shards && member->welcomed >> shard & 1)
		shard++;
	return shard;
}

static void member_begin_welcome(struct turn *turn)
{
	const struct member_event *event = turn->event;
	struct member *member = turn->member;
	uint32_t shards = member->shards;

	if (event->shard >= shards)
		return;
	member->heard_ns = event->now_ns;
	if (member->state != MEMBER_HELLOING)
		return; /* a late copy, or the answer to a later one */
	if (event->lanes < hello_lanes(member))
		member->welcomed_short |= 1ull << event->shard;
	else
		member->welcomed |= 1ull << event->shard;
	if (member->welcomed != (shards == 64 ? ~0ull : (1ull << shards) - 1))
		return;
	member_send(turn, CONTROL_READY)->lanes = member->lanes;
	member_enter(turn, MEMBER_READY);
}

static void fail_path(struct turn *turn)
{
	const struct member *member = turn->member;
	uint32_t shard = first_unwelcome(member);
	uint32_t bytes = wire_bytes(hello_lanes(member));

	if (member->welcomed_short >> shard & 1)
		member_say(turn,
			   "path MTU is below %u: UDP datagrams of %u bytes to the aggregator at "
			   "%s, port "
			   "%u, get no answer, short ones do: set the same MTU all the way, or cap "
			   "packets (tallyd --lanes)",
			   bytes + wire_overhead(turn->config->is_v6), bytes,
			   turn->config->aggregator, member->port[shard]);
	else
		member_say(turn, "TCP to %s works, UDP to its port %u does not (firewall?)",
			   turn->config->aggregator, member->port[shard]);
	member_fail_here(turn, CONTROL_SYSTEM);
}

/* ---- START, or too late for it ---- */

static void member_begin_started(struct turn *turn)
{
	uint32_t lanes = turn->event->message->start.lanes;
	struct member *member = turn->member;

	if (lanes > member->lanes || lanes < WIRE_LANES_STEP || lanes % WIRE_LANES_STEP) {
		member_unexpected(turn);
		return;
	}
	member->lanes = (uint16_t)lanes;
	member_act(turn, MEMBER_START)->lanes = member->lanes;
	member_enter(turn, MEMBER_RUN);
}

static void too_late(struct turn *turn)
{
	const struct member *member = turn->member;
	const char *aggregator = turn->config->aggregator;
	uint64_t second_ns = 1000 * ms_ns, gather_ns = turn->config->gather_ns;

	if (member->state == MEMBER_CONNECT) {
		member_say(turn, "no answer from an aggregator at %s", aggregator);
		member_fail_here(turn, CONTROL_SYSTEM);
		return;
	}
	if (member->state == MEMBER_HELLOING && member->hellos >= HELLOS_ENOUGH) {
		fail_path(turn);
		return;
	}
	if (member->state == MEMBER_HELLOING) /* they may still go out */
		member_say(turn,
			   "the job did not start within %llu s: the last rank has only just come",
			   (unsigned long long)(gather_ns / second_ns));
	else
		member_say(turn, "the aggregator at %s did not %s within %llu s", aggregator,
			   member->state == MEMBER_READY ? "start the job" : "grant the job",
			   (unsigned long long)((gather_ns + second_ns - 1) / second_ns));
	member_fail_here(turn, CONTROL_TIMEOUT);
}

/* When the state that the member is in has lasted too long; UINT64_MAX: never. */
static uint64_t late_at(const struct turn *turn)
{
	const struct member *member = turn->member;
	uint64_t limit_ns = member->begun_ns + turn->config->gather_ns + grace_ns;
	uint64_t connect_ns = member->since_ns + turn->config->connect_ns + backstop_ns;

	if (member->state == MEMBER_CONNECT)
		return rto_least(connect_ns, limit_ns);
	return member->state < MEMBER_RUN ? limit_ns : UINT64_MAX;
}

static bool member_begin_is_late(struct turn *turn)
{
	if (turn->event->now_ns < late_at(turn))
		return false;
	too_late(turn);
	return true;
}

/* On an overloaded host a shard's thread may get no processor for seconds. One that answers short ones has it. */
static uint32_t hellos_max(const struct member *member)
{
	bool is_short = member->welcomed_short >> first_unwelcome(member) & 1;

	return is_short ? HELLOS_ENOUGH : HELLOS_MAX;
}

static void member_begin_hello(struct turn *turn)
{
	if (turn->member->state != MEMBER_HELLOING ||
	    turn->event->now_ns - turn->member->hello_ns < hello_ns)
		return;
	if (turn->member->hellos >= hellos_max(turn->member))
		fail_path(turn);
	else
		send_hellos(turn);
}

static uint64_t member_begin_wake_ns(const struct turn *turn)
{
	const struct member *member = turn->member;

	if (member->state == MEMBER_CONNECT)
		return rto_least(member->retry_ns, late_at(turn));
	if (member->state == MEMBER_HELLOING)
		return rto_least(member->hello_ns + hello_ns, late_at(turn));
	return late_at(turn);
}

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
