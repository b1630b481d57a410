/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How it ends: a gathering or a life that somebody was lost to, or that the aggregator itself ends.
 * docs/protocol.md, R-CT-16, R-CT-17 and R-CT-19.
 */
#include "core/job/admission_turn.h"

static const uint64_t ms_ns = 1000000;

/* ---- a life, a gathering ---- */

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

void admission_end_free_rank(struct turn *turn, struct admission_member *member)
{
	memset(member, 0, sizeof(*member));
	admission_forget_pulses(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (admission_member_at(turn, rank)->presence != ADMISSION_ABSENT)
			return;
	}
	admission_end_reset(turn);
}

static void remember(struct turn *turn)
{
	turn->admission->last_cause = (uint8_t)turn->actions->cause;
	turn->admission->last_rank = turn->actions->cause_rank;
}

void admission_end_check_drained(struct turn *turn)
{
	if (turn->admission->state != ADMISSION_DRAIN || !admission_has_all_shards(turn))
		return;
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (admission_is_in(admission_member_at(turn, rank)))
			return;
	}
	admission_end_reset(turn);
}

void admission_end_drain(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission_enter(turn, ADMISSION_DRAIN);
	admission_tell_shards(turn, ADMISSION_JOB_REMOVE);
	admission_query_end(turn);
	admission->mismatch = 0;
	admission_wait_forget(turn);
	admission_forget_pulses(turn);
	admission_end_check_drained(turn);
}

/* Those who have not left stay in their places until their connections are closed, so that nobody of the
 * next life meets them. */
void admission_end_life(struct turn *turn)
{
	remember(turn);
	admission_log_blame(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		struct admission_member *member = admission_member_at(turn, rank);
		if (!admission_is_in(member))
			continue;
		admission_send(turn, &member->peer, CONTROL_ABORT);
		admission_close(turn, &member->peer);
	}
	admission_end_drain(turn);
}

/* A gathering ends before any shard knows of it: everybody hears why and is forgotten. */
void admission_end_gathering(struct turn *turn, enum control_type last)
{
	remember(turn);
	admission_refuse_late_comers(turn);
	admission_log_blame(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		struct admission_member *member = admission_member_at(turn, rank);
		if (admission_is_in(member))
			admission_send_last(turn, &member->peer, last);
	}
	admission_end_reset(turn);
}

/* A member of a granted life is lost, with the text that admission_blame began. */
void admission_end_lose(struct turn *turn, struct admission_member *member)
{
	member->presence = ADMISSION_GONE;
	member->peer.connection = 0;
	admission_end_life(turn);
}

/* ---- closed and silent ---- */

static void member_closed(struct turn *turn, struct admission_member *member)
{
	if (turn->admission->state == ADMISSION_GATHER) {
		admission_log_peer(turn, &member->peer, "has gone");
		admission_refuse_gatherer_goes(turn, member);
	} else if (admission_is_running(turn->admission) && admission_is_in(member)) {
		admission_blame(turn, CONTROL_REMOTE, member->peer.rank,
				"rank %u on %s died: process %u has closed its connection without "
				"leaving",
				member->peer.rank, member->peer.host, member->peer.pid);
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
		admission_join_drop_waiter(turn, waiter);
}

static void blame_silence(struct turn *turn, const struct admission_peer *peer)
{
	bool is_heard = admission_time_is_heard(turn, peer);

	admission_blame(turn, CONTROL_REMOTE, peer->rank,
			"rank %u on %s has been silent for more than %llu ms%s (process %u)",
			peer->rank, peer->host,
			(unsigned long long)(turn->config->heartbeat_ns / ms_ns),
			is_heard ? " over TCP, although it is heard over UDP" : "", peer->pid);
}

/* It may only be stopped: then it reads later why the others are gone. */
static void member_silent(struct turn *turn, struct admission_member *member)
{
	blame_silence(turn, &member->peer);
	if (turn->admission->state == ADMISSION_GATHER) {
		admission_log_blame(turn);
		admission_send_last(turn, &member->peer, CONTROL_DENY);
		admission_refuse_gatherer_goes(turn, member);
	} else {
		admission_send_last(turn, &member->peer, CONTROL_ABORT);
		admission_end_lose(turn, member);
	}
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
		admission_join_drop_waiter(turn, waiter);
		admission_join_refuse(turn, &peer);
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
	for (uint32_t i = 0; i < admission->waiters_count; i++)
		admission_send_last(turn, &admission_waiters(turn)[i], CONTROL_DENY);
	memset(admission_waiters(turn), 0,
	       admission->waiters_count * sizeof(struct admission_peer));
	admission->waiters_count = 0;
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
