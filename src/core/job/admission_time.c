/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time: silence, patience, and what is said now and then. docs/protocol.md, R-CT-9 and R-CT-13.
 */
#include "core/job/admission_turn.h"
#include "core/job/silence.h"

static const uint64_t ms_ns = 1000000;
static const uint64_t own_words_ns = 1000000000; /* a member's own end comes 0.5 s after its time */
static const uint64_t progress_ns = 10000000000; /* who is missing is said so often */

static void late(struct turn *turn)
{
	struct admission *admission = turn->admission;
	struct text_ranks missing = admission_ranks(turn, ADMISSION_IS(ABSENT));
	struct text_ranks unready = admission_ranks(turn, ADMISSION_IS(JOINED));
	struct text text = admission_blame(turn, CONTROL_TIMEOUT, CONTROL_RANK_NONE,
					   "job \"%s\" of %u: ", turn->config->job,
					   admission->size);

	if (admission->state == ADMISSION_GATHER) {
		admission_add_ranks(turn, &text, &missing);
		text_add(&text, " did not come in time");
		admission_unfit_add(turn, &text);
		admission_end_gathering(turn, CONTROL_ABORT);
		return;
	}
	if (admission->state == ADMISSION_GRANTED) {
		admission_add_ranks(turn, &text, &unready);
		text_add(&text, " did not get ready in time");
	} else { /* ENABLING */
		text_add(&text, "the aggregator's shards did not get ready in time");
	}
	admission_end_life(turn);
}

/* Its own time runs until START, ours twice: until all are here, and until all are ready. */
static uint64_t patience_end(const struct turn *turn, const struct admission_peer *peer)
{
	if (peer->timeout_ms)
		return peer->joined_ns + peer->timeout_ms * ms_ns;
	if (turn->admission->state == ADMISSION_GATHER)
		return peer->joined_ns + turn->config->gather_ns;
	return turn->admission->since_ns + turn->config->gather_ns;
}

static uint64_t least_patience_end(const struct turn *turn)
{
	uint64_t deadline = UINT64_MAX;

	ADMISSION_EACH(turn, member)
		if (admission_is_in(member))
			deadline = rto_least(deadline, patience_end(turn, &member->peer));
	return deadline;
}

/* All are ready, and the shards: START waits for a twin alone, and for that no longer than anybody's patience. */
static uint64_t start_ns(const struct turn *turn)
{
	uint64_t hold_ns = admission_twin_hold_ns(turn), deadline_ns = least_patience_end(turn);

	if (turn->admission->state != ADMISSION_ENABLING || !admission_has_all_shards(turn))
		return UINT64_MAX;
	return rto_least(hold_ns, deadline_ns);
}

/* R-CT-15: a shard that is not enabled yet would drop what the first to start sends. */
static void start(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission_enter(turn, ADMISSION_STARTED);
	ADMISSION_EACH(turn, member) {
		const struct admission_peer *peer = &member->peer;
		struct control_member *said = &turn->actions->members[peer->rank];

		*said = (struct control_member){ .rank = peer->rank, .pid = peer->pid };
		memcpy(said->host, peer->host, sizeof(said->host));
		admission_send(turn, peer, CONTROL_START)->lanes = admission->lanes;
	}
	admission_log(turn, ADMISSION_LOG_INFO, "%u ranks start with %u lanes", admission->size,
		      admission->lanes);
}

bool admission_time_start(struct turn *turn)
{
	if (turn->event->now_ns < start_ns(turn))
		return false;
	start(turn);
	return true;
}

static uint64_t gather_deadline(const struct turn *turn)
{
	const struct admission *admission = turn->admission;
	uint64_t deadline = least_patience_end(turn);
	bool is_any_ready = admission_has(turn, ADMISSION_IS(READY));

	if (admission->state != ADMISSION_GATHER && admission->state != ADMISSION_GRANTED &&
	    admission->state != ADMISSION_ENABLING)
		return UINT64_MAX;
	/* All wait for something else, such as another aggregator: they know better what, and tell us. */
	if (admission->state == ADMISSION_GRANTED && !is_any_ready)
		deadline += own_words_ns;
	return deadline;
}

static const char *cause_text(uint32_t cause)
{
	switch (cause) {
	case CONTROL_REMOTE:
		return "a member was lost";
	case CONTROL_MISMATCH:
		return "its ranks called different operations";
	case CONTROL_TIMEOUT:
		return "not all came in time";
	case CONTROL_DENIED:
	case CONTROL_VERSION_BAD:
	case CONTROL_NO_RESOURCE:
		return "it was denied";
	default:
		return "an error";
	}
}

static void progress(struct turn *turn)
{
	const struct admission *admission = turn->admission;
	struct text_ranks missing = admission_ranks(turn, ADMISSION_IS(ABSENT));
	struct text text;

	text_begin(&text, turn->actions->text, sizeof(turn->actions->text));
	text_add(&text, "job \"%s\": ", turn->config->job);
	if (admission->state == ADMISSION_GATHER) {
		text_add(&text, "waiting for ");
		admission_add_ranks(turn, &text, &missing);
		text_add(&text, " of %u", admission->size);
		admission_unfit_add(turn, &text);
	} else {
		text_add(&text, "waiting until a job of this name and %u ranks has ended",
			 admission->size);
	}
	if (admission->last_cause) {
		text_add(&text, "; the last one ended with: %s", cause_text(admission->last_cause));
		if (admission->last_rank != CONTROL_RANK_NONE)
			text_add(&text, " (rank %u)", admission->last_rank);
	}
	admission_log(turn, ADMISSION_LOG_INFO, "%s", turn->actions->text);
	if (admission->state == ADMISSION_GATHER)
		admission_send_all(turn, CONTROL_PROGRESS);
	admission_send_waiters(turn, CONTROL_PROGRESS);
}

static void beat(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission->beat_ns = turn->event->now_ns;
	if (admission->state != ADMISSION_DRAIN)
		admission_send_all(turn, CONTROL_HEARTBEAT);
	admission_send_waiters(turn, CONTROL_HEARTBEAT);
}

/* R-CT-9: while we slept nobody's words were read. */
static void restart_clocks(struct turn *turn)
{
	uint64_t now_ns = turn->event->now_ns;

	turn->admission->asked_ns = now_ns;
	turn->admission->page_ns = now_ns;
	admission_still_restart(turn);
	ADMISSION_EACH(turn, member)
		member->peer.heard_ns = member->peer.spoke_ns = now_ns;
	ADMISSION_EACH_WAITER(turn, waiter)
		waiter->heard_ns = waiter->spoke_ns = now_ns;
}

void admission_time_heard(struct turn *turn)
{
	const struct admission *admission = turn->admission;
	struct admission_member *member;

	if (!admission_is_running(admission) || turn->event->rank >= admission->size)
		return;
	member = admission_member_at(turn, turn->event->rank);
	if (admission_is_in(member))
		member->peer.heard_ns = turn->event->now_ns;
}

static bool is_silent(const struct turn *turn, const struct admission_peer *peer)
{
	return silence_is(turn->event->now_ns, peer->heard_ns, peer->spoke_ns,
			  admission_limit_ns(turn, peer));
}

/* One at a time: each has its own text. */
static uint32_t find_silent(const struct turn *turn)
{
	if (turn->admission->state == ADMISSION_DRAIN)
		return 0;
	ADMISSION_EACH(turn, member) {
		if (admission_is_in(member) && is_silent(turn, &member->peer))
			return member->peer.connection;
	}
	ADMISSION_EACH_WAITER(turn, waiter)
		if (is_silent(turn, waiter))
			return waiter->connection;
	return 0;
}

void admission_time_tick(struct turn *turn)
{
	struct admission *admission = turn->admission;
	uint64_t now_ns = turn->event->now_ns;

	if (now_ns - admission->tick_ns >= turn->config->heartbeat_ns / SILENCE_OVERSLEPT)
		restart_clocks(turn);
	admission->tick_ns = now_ns;
	if (now_ns - admission->beat_ns >= silence_beat_ns(turn->config->heartbeat_ns))
		beat(turn);
	if (admission_end_silent(turn, find_silent(turn)))
		return;
	if (admission_query_tick(turn)) {
		if (turn->actions->cause != CONTROL_OK)
			admission_end_life(turn);
		return;
	}
	if (admission_time_start(turn))
		return;
	if (now_ns >= gather_deadline(turn)) {
		late(turn);
		return;
	}
	bool is_waited = admission->state == ADMISSION_GATHER || admission->waiters_count;
	if (is_waited && now_ns - admission->progress_ns >= progress_ns) {
		admission->progress_ns = now_ns;
		progress(turn);
		return;
	}
	admission_join_promote(turn);
}

void admission_time_set_wake(struct turn *turn)
{
	const struct admission *admission = turn->admission;
	uint64_t beat_ns = admission->beat_ns + silence_beat_ns(turn->config->heartbeat_ns);
	uint64_t wake_ns = rto_least(gather_deadline(turn), start_ns(turn));

	wake_ns = rto_least(wake_ns, admission_query_wake_ns(turn));
	turn->actions->wake_ns = admission_is_idle(admission) ? wake_ns
							      : rto_least(wake_ns, beat_ns);
	turn->actions->again = admission_join_next_waiter(turn) ||
			       (turn->event->type == ADMISSION_TICK && find_silent(turn));
}
