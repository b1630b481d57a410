/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How it ends: a gathering or a life that somebody was lost to, or that the aggregator itself ends; and a gathering of
 * which no job can come: everybody hears why, at once, those who are here and those who come a little later.
 * docs/protocol.md, R-CT-10, R-CT-16, R-CT-17, R-CT-19 and R-CT-21.
 *
 * Invariant: whoever waits in a gathering waits for somebody who can still come. So a refusal ends the gathering with
 * all that are in it and wait for it, and is remembered: for 5 s, or in a job that belongs to a life (config.life)
 * until the name is forgotten. There a rank that goes cannot come again: no other process has its life. A rank that
 * had been refused itself knows: with it a new gathering begins.
 */
#include "core/job/admission_turn.h"

static const uint64_t ms_ns = 1000000;
static const uint64_t second_ns = 1000000000;
static const uint64_t refusal_ns = 5000000000;

/* ---- a life ---- */

/* Nobody is in; those who wait stay, and so does what the log remembers of the last life. */
void admission_end_reset(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission_enter(turn, ADMISSION_NONE);
	memset(admission_member_at(turn, 0), 0,
	       turn->config->members_max * sizeof(struct admission_member));
	admission->life = 0;
	admission->generation = 0;
	admission->shards_acked = 0;
	admission->size = 0;
	admission->mode = CONTROL_DENSE;
	admission->latency_slots = 0;
	admission->latency_window = 0;
	admission->lanes = 0;
	admission_unfit_forget(turn);
	admission_forget_pulses(turn);
}

static void remember(struct turn *turn)
{
	turn->admission->last_cause = (uint8_t)turn->actions->cause;
	turn->admission->last_rank = turn->actions->cause_rank;
}

void admission_end_check_drained(struct turn *turn)
{
	if (turn->admission->state == ADMISSION_DRAIN && admission_has_all_shards(turn) &&
	    !admission_has(turn, ADMISSION_IS(JOINED) | ADMISSION_IS(READY)))
		admission_end_reset(turn);
}

void admission_end_drain(struct turn *turn)
{
	admission_enter(turn, ADMISSION_DRAIN);
	admission_tell_shards(turn, ADMISSION_JOB_REMOVE);
	admission_query_forget(turn);
	admission_forget_pulses(turn);
	admission_end_check_drained(turn);
}

/* Those who have not left stay in their places until their connections are closed, so that nobody of the
 * next life meets them. Rank 0 hears of it last: in local mode the aggregator is in its process, which may exit
 * as soon as it hears. */
void admission_end_life(struct turn *turn)
{
	remember(turn);
	admission_log_blame(turn);
	for (uint32_t rank = turn->admission->size; rank-- > 0;) {
		struct admission_member *member = admission_member_at(turn, rank);

		if (!admission_is_in(member))
			continue;
		admission_send(turn, &member->peer, CONTROL_ABORT);
		admission_close(turn, &member->peer);
	}
	admission_end_drain(turn);
}

/* ---- a gathering ---- */

static void refusal_forget(struct turn *turn)
{
	turn->admission->refused = (struct admission_note){ 0 };
	memset(admission_refusal(turn), 0, turn->config->text_max);
}

/* Why, with the text that admission_blame began; nobody is among the refused yet. */
static void refusal_begin(struct turn *turn)
{
	turn->admission->refused = (struct admission_note){
		.since_ns = turn->event->now_ns,
		.rank = turn->actions->cause_rank,
		.cause = (uint8_t)turn->actions->cause,
	};
	text_copy(admission_refusal(turn), turn->config->text_max, turn->actions->text);
}

static void refuse_late_comers(struct turn *turn)
{
	if (!turn->config->life || turn->admission->refused.cause)
		return;
	refusal_begin(turn);
	turn->admission->refused.ranks = admission_ranks(turn, ~ADMISSION_IS(ABSENT));
}

void admission_end_gathering(struct turn *turn, enum control_type last)
{
	remember(turn);
	refuse_late_comers(turn);
	admission_log_blame(turn);
	for (uint32_t rank = turn->admission->size; rank-- > 0;) {
		struct admission_member *member = admission_member_at(turn, rank);

		if (admission_is_in(member))
			admission_send_last(turn, &member->peer, last);
	}
	admission_end_reset(turn);
}

void admission_end_refused(struct turn *turn, struct admission_peer *peer)
{
	struct admission *admission = turn->admission;

	refusal_begin(turn);
	admission->refused.ranks =
		admission_ranks(turn, ADMISSION_IS(JOINED) | ADMISSION_IS(READY));
	if (peer) {
		text_ranks_put(&admission->refused.ranks, peer->rank);
		admission_send_last(turn, peer, CONTROL_DENY);
	}
	ADMISSION_EACH_WAITER(turn, waiter)
		text_ranks_put(&admission->refused.ranks, waiter->rank);
	admission_refuse_waiters(turn);
	admission_end_gathering(turn, CONTROL_DENY);
}

/* Nobody can say whose sums these are. Who comes a little later is one of them: it hears the same, also as a
 * rank that has heard it. */
void admission_end_twins(struct turn *turn)
{
	struct admission *admission = turn->admission;

	if (admission->state == ADMISSION_GATHER) {
		admission_end_refused(turn, NULL);
	} else {
		refusal_begin(turn);
		admission_refuse_waiters(turn);
		admission_end_life(turn);
	}
	admission->refused.is_all = 1;
}

bool admission_end_refuse_again(struct turn *turn, struct admission_peer *peer)
{
	struct admission *admission = turn->admission;

	if (!admission->refused.cause)
		return false;
	bool is_over = !turn->config->life &&
		       turn->event->now_ns - admission->refused.since_ns >= refusal_ns;
	if (is_over ||
	    (!admission->refused.is_all && text_ranks_has(&admission->refused.ranks, peer->rank))) {
		refusal_forget(turn);
		return false;
	}
	struct text text = admission_blame(turn, admission->refused.cause, admission->refused.rank,
					   "%s", admission_refusal(turn));
	if (!turn->config->life) {
		uint64_t age_s = (turn->event->now_ns - admission->refused.since_ns) / second_ns;

		text_add(&text, " (refused %llu s ago; start again in %llu s)",
			 (unsigned long long)age_s,
			 (unsigned long long)(refusal_ns / second_ns - age_s));
	}
	text_ranks_put(&turn->admission->refused.ranks, peer->rank);
	admission_refuse(turn, peer);
	return true;
}

/* ---- who is lost ---- */

void admission_end_lose(struct turn *turn, struct admission_member *member)
{
	const struct admission_config *config = turn->config;

	if (turn->admission->state != ADMISSION_GATHER) {
		member->presence = ADMISSION_GONE;
		member->peer.connection = 0;
		admission_end_life(turn);
		return;
	}
	if (config->life && turn->actions->cause == CONTROL_OK)
		admission_blame(turn, CONTROL_REMOTE, member->peer.rank,
				"rank %u on %s has gone (process %u) before job \"%s\" was "
				"complete",
				admission_named(turn, member->peer.rank), member->peer.host,
				member->peer.pid, config->job);
	memset(member, 0, sizeof(*member));
	if (config->life) {
		admission_end_refused(turn, NULL);
		return;
	}
	admission_forget_pulses(turn);
	if (!admission_has(turn, ~ADMISSION_IS(ABSENT)))
		admission_end_reset(turn);
}

static void member_closed(struct turn *turn, struct admission_member *member)
{
	if (turn->admission->state == ADMISSION_GATHER) {
		admission_log_peer(turn, &member->peer, "has gone");
		admission_end_lose(turn, member);
	} else if (admission_is_running(turn->admission) && admission_is_in(member)) {
		admission_blame(turn, CONTROL_REMOTE, member->peer.rank,
				"rank %u on %s died: process %u has closed its connection without "
				"leaving",
				admission_named(turn, member->peer.rank), member->peer.host,
				member->peer.pid);
		admission_end_lose(turn, member);
	} else {
		if (admission_is_in(member))
			member->presence = ADMISSION_GONE;
		member->peer.connection = 0;
		admission_end_check_drained(turn);
	}
}

void admission_end_closed(struct turn *turn)
{
	struct admission_member *member = admission_find_member(turn, turn->event->connection);
	struct admission_peer *waiter = admission_find_waiter(turn, turn->event->connection);

	if (member)
		member_closed(turn, member);
	else if (waiter)
		admission_drop_waiter(turn, waiter);
}

static void blame_silence(struct turn *turn, const struct admission_peer *peer)
{
	bool is_heard = admission_is_heard(turn, peer);

	admission_blame(turn, CONTROL_REMOTE, peer->rank,
			"rank %u on %s has been silent for more than %llu ms%s (process %u)",
			admission_named(turn, peer->rank), peer->host,
			(unsigned long long)(turn->config->heartbeat_ns / ms_ns),
			is_heard ? " over TCP, although it is heard over UDP" : "", peer->pid);
}

/* It may only be stopped: then it reads later why the others are gone. */
static void member_silent(struct turn *turn, struct admission_member *member)
{
	bool is_gathering = turn->admission->state == ADMISSION_GATHER;

	blame_silence(turn, &member->peer);
	if (is_gathering)
		admission_log_blame(turn);
	admission_send_last(turn, &member->peer, is_gathering ? CONTROL_DENY : CONTROL_ABORT);
	admission_end_lose(turn, member);
}

bool admission_end_silent(struct turn *turn, uint32_t connection)
{
	struct admission_member *member = admission_find_member(turn, connection);
	struct admission_peer *waiter = admission_find_waiter(turn, connection);

	if (member) {
		member_silent(turn, member);
	} else if (waiter) {
		blame_silence(turn, waiter);
		struct admission_peer peer = *waiter;
		admission_drop_waiter(turn, waiter);
		admission_refuse(turn, &peer);
	}
	return member || waiter;
}

/* ---- the aggregator's own end ---- */

void admission_end_blame(struct turn *turn)
{
	turn->actions->is_ending = true;
	admission_blame(turn, CONTROL_DENIED, CONTROL_RANK_NONE,
			"job \"%s\": the aggregator is shutting down", turn->config->job);
}

void admission_end_terminate(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission->is_terminating = 1;
	admission_end_blame(turn);
	admission_refuse_waiters(turn);
	if (admission->state == ADMISSION_GATHER)
		admission_end_gathering(turn, CONTROL_DENY);
}

void admission_end_kill(struct turn *turn)
{
	if (!admission_is_running(turn->admission)) {
		admission_end_terminate(turn);
		return;
	}
	turn->admission->is_terminating = 1; /* who waits is denied when its turn comes */
	admission_blame(turn, CONTROL_REMOTE, CONTROL_RANK_NONE,
			"job \"%s\": the aggregator is shutting down, the time to end is over",
			turn->config->job);
	admission_end_life(turn);
}

void admission_end_orphans(struct turn *turn)
{
	if (turn->admission->state != ADMISSION_GATHER)
		return;
	admission_blame(turn, CONTROL_REMOTE, CONTROL_RANK_NONE,
			"job \"%s\": the job that it is a part of has ended: %s", turn->config->job,
			turn->event->text);
	admission_end_refused(turn, NULL);
}

/* Nothing will come of it any more: who waits for a result would wait for ever. */
void admission_end_broken(struct turn *turn)
{
	const struct admission_event *event = turn->event;

	if (!admission_is_running(turn->admission))
		return;
	admission_blame(turn, event->cause == CONTROL_OK ? CONTROL_SYSTEM : event->cause,
			event->rank, "job \"%s\": %s", turn->config->job,
			event->text ? event->text : "the data path is broken");
	admission_end_life(turn);
}
