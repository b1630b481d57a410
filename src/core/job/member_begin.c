/* SPDX-License-Identifier: Apache-2.0 */
/* member_begin.c - see member_turn.h: the way from CONNECT to RUN, over HELLOs to all shards. */
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

/* ---- CONNECT ---- */

/* R-CT-51: after as long again as attempts have gone on. */
static void retry(struct turn *turn)
{
	uint64_t gone_ns = turn->event->now_ns - turn->member->begun_ns;

	turn->member->retry_ns =
		turn->event->now_ns + rto_least(rto_most(gone_ns, retry_min_ns), retry_max_ns);
}

/* R-CT-51 */
void member_begin_refused(struct turn *turn)
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

void member_begin_connect(struct turn *turn)
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

void member_begin_connected(struct turn *turn)
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
bool member_begin_again(struct turn *turn)
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

void member_begin_granted(struct turn *turn)
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

void member_begin_welcome(struct turn *turn)
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

void member_begin_started(struct turn *turn)
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

bool member_begin_is_late(struct turn *turn)
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

void member_begin_hello(struct turn *turn)
{
	if (turn->member->state != MEMBER_HELLOING ||
	    turn->event->now_ns - turn->member->hello_ns < hello_ns)
		return;
	if (turn->member->hellos >= hellos_max(turn->member))
		fail_path(turn);
	else
		send_hellos(turn);
}

uint64_t member_begin_wake_ns(const struct turn *turn)
{
	const struct member *member = turn->member;

	if (member->state == MEMBER_CONNECT)
		return rto_least(member->retry_ns, late_at(turn));
	if (member->state == MEMBER_HELLOING)
		return rto_least(member->hello_ns + hello_ns, late_at(turn));
	return late_at(turn);
}
