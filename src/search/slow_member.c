/* SPDX-License-Identifier: Apache-2.0 */
/* slow_member.c - see slow_member.h. */
#include <string.h>

#include "search/slow.h"
#include "search/slow_member_want.h"

#define NEVER UINT64_MAX
#define MS_NS UINT64_C(1000000)
#define SECOND_NS (1000 * MS_NS)

struct turn {
	struct slow_member *slow;
	const struct member_config *config;
	const struct member_event *event;
	uint64_t now_ns;
};

/* ---- what is to be done ---- */

/* The end, of which slow_want has the text. */
static void end(struct turn *turn, enum control_cause cause, uint32_t rank, bool is_own)
{
	struct slow_member *slow = turn->slow;

	slow_want.cause = cause;
	slow_want.rank = rank;
	if (is_own && slow->is_open) {
		struct control_message *message = slow_must_send(CONTROL_ABORT);

		message->end.cause = (uint16_t)cause;
		message->end.rank = (uint16_t)rank;
		memcpy(message->end.text, slow_want.text, sizeof(slow_want.text));
	}
	slow_must(MEMBER_CLOSE);
	slow_must(MEMBER_FAIL);
	slow->cause = cause;
	slow->cause_rank = rank;
	slow->state = MEMBER_FAILED;
}

static void own_end(struct turn *turn, enum control_cause cause)
{
	end(turn, cause, CONTROL_RANK_NONE, true);
}

static bool is_due(const struct turn *turn, enum slow_alarm alarm)
{
	return turn->now_ns >= turn->slow->alarm[alarm];
}

static void never_again(struct slow_member *slow, enum slow_alarm alarm)
{
	slow->alarm[alarm] = NEVER;
}

static bool is_running(const struct slow_member *slow)
{
	return slow->state == MEMBER_RUN || slow->state == MEMBER_LEAVING;
}

/* ---- R-CT-9 ---- */

static uint64_t limit_of(const struct slow_member *slow)
{
	uint64_t fifth_ns = slow->heartbeat_ns / 5;

	return slow->heartbeat_ns + 2 * (fifth_ns < 2 * SECOND_NS ? fifth_ns : 2 * SECOND_NS);
}

uint64_t slow_member_silent_at(const struct slow_member *slow)
{
	uint64_t unheard_ns = slow->heard_ns + limit_of(slow);
	uint64_t unspoken_ns = slow->spoke_ns + 3 * limit_of(slow);

	return unheard_ns < unspoken_ns ? unheard_ns : unspoken_ns;
}

uint64_t slow_member_slept_at(const struct slow_member *slow)
{
	return slow->looked_ns + slow->heartbeat_ns / 4;
}

static void beat_next(struct slow_member *slow)
{
	uint64_t fifth_ns = slow->heartbeat_ns / 5;

	slow->alarm[SLOW_BEAT] = slow->beaten_ns + fifth_ns;
	if (fifth_ns > 2 * SECOND_NS)
		slow->alarm[SLOW_BEAT] = slow->beaten_ns + 2 * SECOND_NS;
}

static void is_silent(struct turn *turn)
{
	const struct slow_member *slow = turn->slow;
	unsigned long long ms = slow->heartbeat_ns / MS_NS;

	if (slow->state == MEMBER_JOINING) {
		slow_word("the aggregator at %s has been silent for %llu ms, although it takes "
			  "connections: is it stopped?",
			  turn->config->aggregator, ms);
		own_end(turn, CONTROL_TIMEOUT);
	} else {
		slow_word("the aggregator at %s has been silent for %llu ms%s",
			  turn->config->aggregator, ms,
			  turn->now_ns < slow->heard_ns + limit_of(slow)
				  ? " over TCP, although it answers over UDP"
				  : "");
		own_end(turn, CONTROL_REMOTE);
	}
}

/* ---- R-CT-51 ---- */

static void attempts_begin(struct turn *turn)
{
	turn->slow->state = MEMBER_CONNECT;
	turn->slow->connecting_ns = turn->now_ns;
	turn->slow->alarm[SLOW_UNREACHED] = turn->now_ns + turn->config->connect_ns + 5 * SECOND_NS;
}

/* As long again as attempts have gone on, 1 to 250 ms. */
static void attempt_again(struct turn *turn)
{
	uint64_t so_far_ns = turn->now_ns - turn->slow->begun_ns;

	turn->slow->alarm[SLOW_ATTEMPT] = turn->now_ns + so_far_ns;
	if (so_far_ns > 250 * MS_NS)
		turn->slow->alarm[SLOW_ATTEMPT] = turn->now_ns + 250 * MS_NS;
	if (so_far_ns < MS_NS)
		turn->slow->alarm[SLOW_ATTEMPT] = turn->now_ns + MS_NS;
}

static void refused(struct turn *turn)
{
	const struct member_config *config = turn->config;
	const char *why = turn->event->text;

	if (turn->slow->state != MEMBER_CONNECT)
		return;
	if (turn->now_ns < turn->slow->connecting_ns + config->connect_ns) {
		attempt_again(turn);
		return;
	}
	slow_word("no aggregator at %s: %s (tried for %llu s%s)", config->aggregator,
		  why ? why : "no answer", (unsigned long long)(config->connect_ns / SECOND_NS),
		  turn->slow->is_again ? ", after an earlier one had ended" : "");
	own_end(turn, CONTROL_SYSTEM);
}

/* R-CT-50: JOIN says what is left, but for 0, which would say that there is no limit. */
static void connected(struct turn *turn)
{
	struct slow_member *slow = turn->slow;
	uint64_t until_ns = slow->begun_ns + turn->config->gather_ns, left_ms = 1;
	struct control_message *message;

	if (slow->state != MEMBER_CONNECT)
		return;
	if (until_ns >= turn->now_ns + MS_NS)
		left_ms = (until_ns - turn->now_ns) / MS_NS;
	message = slow_must_send(CONTROL_JOIN);
	memcpy(&message->join, turn->config->join, sizeof(message->join));
	message->join.timeout_ms = left_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)left_ms;
	never_again(slow, SLOW_ATTEMPT);
	never_again(slow, SLOW_UNREACHED);
	slow->is_open = true;
	slow->state = MEMBER_JOINING;
	slow->heard_ns = slow->spoke_ns = slow->beaten_ns = turn->now_ns;
	beat_next(slow);
}

/* ---- R-CT-52 ---- */

uint32_t slow_member_hello_lanes(const struct slow_member *slow)
{
	return slow->lanes > 8 ? slow->lanes : 8;
}

static void hello(struct slow_member *slow, uint32_t shard, uint32_t lanes)
{
	struct slow_deed *deed = slow_must(MEMBER_HELLO);

	slow->serial++;
	deed->shard = shard;
	deed->serial = slow->serial;
	deed->lanes = lanes;
}

static void hello_round(struct turn *turn)
{
	struct slow_member *slow = turn->slow;
	uint32_t full = slow_member_hello_lanes(slow);

	slow->rounds++;
	for (uint32_t shard = 0; shard < slow->shards; shard++) {
		if (slow->shard[shard].is_bound)
			continue;
		hello(slow, shard, full);
		if (slow->rounds >= 6 && full != 8)
			hello(slow, shard, 8);
	}
	slow->alarm[SLOW_HELLO] = turn->now_ns + 100 * MS_NS;
}

static void granted(struct turn *turn)
{
	const struct control_grant *grant = &turn->event->message->grant;
	struct slow_member *slow = turn->slow;

	slow->heartbeat_ns = grant->heartbeat_ms * MS_NS;
	beat_next(slow);
	slow->shards = grant->shards_count;
	slow->lanes = turn->event->lanes;
	for (uint32_t shard = 0; shard < slow->shards; shard++) {
		slow->shard[shard].port = grant->shards[shard].port;
		while (slow->lanes > grant->shards[shard].lanes)
			slow->lanes--;
	}
	while (slow->lanes & 3)
		slow->lanes--;
	if (!slow->lanes) {
		slow_word("the path to the aggregator at %s is too narrow for one packet",
			  turn->config->aggregator);
		own_end(turn, CONTROL_SYSTEM);
		return;
	}
	slow->state = MEMBER_HELLOING;
	hello_round(turn);
}

static void welcome(struct turn *turn)
{
	struct slow_member *slow = turn->slow;
	uint32_t shard = turn->event->shard;

	if (shard >= slow->shards)
		return;
	slow->heard_ns = turn->now_ns;
	if (slow->state != MEMBER_HELLOING)
		return;
	if (turn->event->lanes >= slow_member_hello_lanes(slow))
		slow->shard[shard].is_bound = true;
	else
		slow->shard[shard].has_answered_short = true;
	for (shard = 0; shard < slow->shards; shard++)
		if (!slow->shard[shard].is_bound)
			return;
	slow_must_send(CONTROL_READY)->lanes.lanes = (uint16_t)slow->lanes;
	slow->state = MEMBER_READY;
	never_again(slow, SLOW_HELLO);
}

static uint32_t first_unbound(const struct slow_member *slow)
{
	uint32_t shard = 0;

	while (slow->shard[shard].is_bound)
		shard++;
	return shard;
}

/* A shard has not answered: the first of them is told. */
static void not_welcome(struct turn *turn)
{
	struct slow_member *slow = turn->slow;
	uint32_t shard = first_unbound(slow), bytes = 24 + 4 * slow_member_hello_lanes(slow);

	if (slow->shard[shard].has_answered_short)
		slow_word(
			"path MTU is below %u: UDP datagrams of %u bytes to the aggregator at %s, "
			"port "
			"%u, get no answer, short ones do: set the same MTU all the way, or cap "
			"packets "
			"(tallyd --lanes)",
			bytes + (turn->config->is_v6 ? 48 : 28), bytes, turn->config->aggregator,
			slow->shard[shard].port);
	else
		slow_word("TCP to %s works, UDP to its port %u does not (firewall?)",
			  turn->config->aggregator, slow->shard[shard].port);
	own_end(turn, CONTROL_SYSTEM);
}

/* ---- R-CT-50 ---- */

static void is_late(struct turn *turn)
{
	const char *aggregator = turn->config->aggregator;
	unsigned long long whole_s = turn->config->gather_ns / SECOND_NS;

	if (whole_s * SECOND_NS != turn->config->gather_ns)
		whole_s++;
	switch (turn->slow->state) {
	case MEMBER_CONNECT:
		slow_word("no answer from an aggregator at %s", aggregator);
		own_end(turn, CONTROL_SYSTEM);
		break;
	case MEMBER_JOINING:
		slow_word("the aggregator at %s did not grant the job within %llu s", aggregator,
			  whole_s);
		own_end(turn, CONTROL_TIMEOUT);
		break;
	case MEMBER_HELLOING:
		not_welcome(turn);
		break;
	case MEMBER_READY:
		slow_word("the aggregator at %s did not start the job within %llu s", aggregator,
			  whole_s);
		own_end(turn, CONTROL_TIMEOUT);
		break;
	default:
		break;
	}
}

static void time_is_over(struct turn *turn)
{
	if (turn->slow->state != MEMBER_HELLOING || turn->slow->rounds >= 20) {
		is_late(turn);
		return;
	}
	slow_word("the job did not start within %llu s: the last rank has only just come",
		  (unsigned long long)(turn->config->gather_ns / SECOND_NS));
	own_end(turn, CONTROL_TIMEOUT);
}

/* ---- messages ---- */

static void does_not_fit(struct turn *turn)
{
	slow_word("the aggregator at %s sent message %u in state %s", turn->config->aggregator,
		  (unsigned)turn->event->message->type, slow_member_state_name(turn->slow->state));
	own_end(turn, CONTROL_INTERNAL);
}

static void told_the_end(struct turn *turn)
{
	const struct control_end *told = &turn->event->message->end;

	slow_word("%s", told->text);
	end(turn, told->cause ? told->cause : CONTROL_INTERNAL, told->rank, false);
}

/* R-CT-27 */
static void denied(struct turn *turn)
{
	struct slow_member *slow = turn->slow;
	const struct control_end *told = &turn->event->message->end;

	if (!turn->config->is_local || !told->is_ending || slow->state != MEMBER_JOINING) {
		told_the_end(turn);
		return;
	}
	slow_word("%s: it is of an earlier life, the next one's is awaited", told->text);
	slow_want.has_progress = true;
	slow_must(MEMBER_CLOSE);
	slow->is_open = false;
	slow->is_again = true;
	never_again(slow, SLOW_BEAT);
	attempts_begin(turn);
	attempt_again(turn);
}

static void started(struct turn *turn)
{
	struct slow_member *slow = turn->slow;
	uint32_t lanes = turn->event->message->start.lanes;

	if (lanes == 0 || lanes & 3 || lanes > slow->lanes) {
		does_not_fit(turn);
		return;
	}
	slow->lanes = lanes;
	slow->state = MEMBER_RUN;
	never_again(slow, SLOW_OVER);
	slow_must(MEMBER_START)->lanes = lanes;
}

/* All have called it, and no ABORT has come: it has ended well. */
static void waiting(struct turn *turn)
{
	const struct control_waiting *told = &turn->event->message->waiting;

	slow_want.has_waiting = true;
	if (told->number == turn->slow->over_number && told->missing_count == 0)
		never_again(turn->slow, SLOW_VERDICT);
}

static void left(struct turn *turn)
{
	slow_must(MEMBER_CLOSE);
	slow_must(MEMBER_IS_LEFT);
	turn->slow->state = MEMBER_LEFT;
}

static void query(const struct turn *turn)
{
	struct slow_deed *deed = slow_must(MEMBER_OPINFO);

	deed->serial = turn->event->message->query.round;
	deed->number = turn->event->message->query.from;
}

static void message(struct turn *turn)
{
	struct slow_member *slow = turn->slow;
	const struct control_message *told = turn->event->message;
	void (*fits)(struct turn * turn) = does_not_fit;

	slow->heard_ns = slow->spoke_ns = turn->now_ns;
	switch (told->type) {
	case CONTROL_HEARTBEAT:
	case CONTROL_PONG:
		return;
	case CONTROL_PING:
		slow_must_send(CONTROL_PONG)->ping.serial = told->ping.serial;
		return;
	case CONTROL_PROGRESS:
		slow_word("%s", told->progress.text);
		slow_want.has_progress = true;
		return;
	case CONTROL_QUERY:
		if (!is_running(slow))
			break;
		query(turn);
		return;
	case CONTROL_DENY:
		fits = denied;
		break;
	case CONTROL_ABORT:
		fits = told_the_end;
		break;
	case CONTROL_GRANT:
		fits = slow->state == MEMBER_JOINING ? granted : fits;
		break;
	case CONTROL_START:
		fits = slow->state == MEMBER_READY ? started : fits;
		break;
	case CONTROL_WAITING:
		fits = is_running(slow) ? waiting : fits;
		break;
	case CONTROL_LEFT:
		fits = slow->state == MEMBER_LEAVING ? left : fits;
		break;
	default:
		break;
	}
	fits(turn);
}

/* ---- what happens here ---- */

static void closed(struct turn *turn)
{
	if (turn->slow->state == MEMBER_CONNECT) {
		refused(turn);
		return;
	}
	slow_word("the aggregator at %s is lost: %s", turn->config->aggregator,
		  turn->event->text ? turn->event->text : "it closed the connection");
	end(turn, CONTROL_REMOTE, CONTROL_RANK_NONE, false);
}

static void fails_here(struct turn *turn, enum control_cause cause, const char *otherwise)
{
	slow_word("%s", turn->event->text ? turn->event->text : otherwise);
	end(turn, cause, turn->config->join->rank, true);
}

static void finalize(struct turn *turn)
{
	if (turn->slow->state < MEMBER_RUN) {
		fails_here(turn, CONTROL_ABORTED, "finalized before the job had started");
	} else if (turn->slow->state == MEMBER_RUN) {
		slow_must_send(CONTROL_LEAVE)->leave.submitted = turn->event->number;
		turn->slow->state = MEMBER_LEAVING;
	}
}

/* R-CT-55, R-CT-56 */
static void stall(struct turn *turn)
{
	struct slow_member *slow = turn->slow;
	const struct member_event *event = turn->event;
	bool is_over = event->type == MEMBER_EXPIRED;
	bool is_known = slow->alarm[SLOW_VERDICT] != NEVER && slow->over_number == event->number;
	struct control_message *message;

	if (!is_running(slow))
		return;
	message = slow_must_send(CONTROL_STALL);
	message->stall.number = event->number;
	message->stall.waited_ms = event->waited_ms;
	message->stall.still_ms = event->still_ms;
	message->stall.is_expired = is_over;
	if (!is_over || is_known)
		return;
	slow->over_number = event->number;
	slow->alarm[SLOW_VERDICT] = turn->now_ns + 2 * SECOND_NS;
}

/* ---- the clock ---- */

static void connect_tick(struct turn *turn)
{
	struct slow_member *slow = turn->slow;

	if (!slow->has_begun) {
		slow->has_begun = true;
		slow->begun_ns = turn->now_ns;
		slow->alarm[SLOW_OVER] = turn->now_ns + turn->config->gather_ns + 500 * MS_NS;
		slow->alarm[SLOW_ATTEMPT] = turn->now_ns;
		attempts_begin(turn);
	}
	if (is_due(turn, SLOW_ATTEMPT)) {
		never_again(slow, SLOW_ATTEMPT); /* one at a time */
		slow_must(MEMBER_DO_CONNECT);
	}
	if (is_due(turn, SLOW_UNREACHED) || is_due(turn, SLOW_OVER))
		is_late(turn);
}

static void connection_tick(struct turn *turn, bool has_slept)
{
	struct slow_member *slow = turn->slow;

	if (has_slept)
		slow->heard_ns = slow->spoke_ns = turn->now_ns;
	if (turn->now_ns >= slow_member_silent_at(slow)) {
		is_silent(turn);
		return;
	}
	if (is_due(turn, SLOW_BEAT)) {
		slow_must_send(CONTROL_HEARTBEAT);
		slow->beaten_ns = turn->now_ns;
		beat_next(slow);
	}
	if (is_due(turn, SLOW_OVER)) {
		time_is_over(turn);
		return;
	}
	if (turn->event->is_done)
		never_again(slow, SLOW_VERDICT);
	if (is_due(turn, SLOW_VERDICT)) {
		slow_word(
			"the deadline of operation %llu is over, and the aggregator at %s has not "
			"said "
			"in 2 s who is late",
			(unsigned long long)slow->over_number, turn->config->aggregator);
		own_end(turn, CONTROL_TIMEOUT);
		return;
	}
	if (!is_due(turn, SLOW_HELLO))
		return;
	if (slow->rounds == 100 ||
	    (slow->rounds >= 20 && slow->shard[first_unbound(slow)].has_answered_short))
		not_welcome(turn);
	else
		hello_round(turn);
}

static void tick(struct turn *turn)
{
	bool has_slept = turn->now_ns >= slow_member_slept_at(turn->slow);

	turn->slow->looked_ns = turn->now_ns;
	if (turn->slow->state == MEMBER_CONNECT)
		connect_tick(turn);
	else
		connection_tick(turn, has_slept);
}

static void dispatch(struct turn *turn)
{
	switch (turn->event->type) {
	case MEMBER_CONNECTED:
		connected(turn);
		break;
	case MEMBER_REFUSED:
		refused(turn);
		break;
	case MEMBER_MESSAGE:
		message(turn);
		break;
	case MEMBER_CLOSED:
		closed(turn);
		break;
	case MEMBER_WELCOME:
		welcome(turn);
		break;
	case MEMBER_STALLED:
	case MEMBER_EXPIRED:
		stall(turn);
		break;
	case MEMBER_FINALIZE:
		finalize(turn);
		break;
	case MEMBER_USER_ABORT:
		fails_here(turn, CONTROL_ABORTED, "the user aborted");
		break;
	case MEMBER_ERROR:
		fails_here(turn, turn->event->cause, "an error");
		break;
	case MEMBER_TICK:
		tick(turn);
		break;
	}
}

bool slow_member_is_asked(void)
{
	return slow_is_asked();
}

void slow_member_init(struct slow_member *slow, const struct member_config *config)
{
	memset(slow, 0, sizeof(*slow));
	slow->heartbeat_ns = config->heartbeat_ns;
	slow->cause_rank = CONTROL_RANK_NONE;
	for (uint32_t i = 0; i < SLOW_ALARMS; i++)
		slow->alarm[i] = NEVER;
}

const char *slow_member_step(struct slow_member *slow, const struct member_config *config,
			     const struct member_event *event, const struct member *member,
			     const struct member_actions *actions)
{
	struct turn turn = { slow, config, event, event->now_ns };

	slow_want_nothing();
	if (slow->state != MEMBER_FAILED && slow->state != MEMBER_LEFT)
		dispatch(&turn);
	if (slow->state == MEMBER_FAILED || slow->state == MEMBER_LEFT)
		for (uint32_t i = 0; i < SLOW_ALARMS; i++)
			slow->alarm[i] = NEVER;
	return slow_member_look(slow, config, member, actions);
}
