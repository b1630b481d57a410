/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that cannot form: everybody hears why, at once, those who are here and those who come a little
 * later. docs/protocol.md, R-CT-10 and R-CT-21.
 *
 * Invariant: whoever waits in a gathering waits for somebody who can still come. So a refusal ends the
 * gathering with all that are in it and wait for it, and is remembered: for 5 s, or in a job that belongs
 * to a life (config.life) until the name is forgotten. There a rank that goes cannot come again: no other
 * process has its life. A rank that had
 * been refused itself knows: with it a new gathering begins.
 */
#include "core/job/admission_turn.h"

static const uint64_t second_ns = 1000000000;
static const uint64_t refusal_ns = 5000000000;

static void forget(struct turn *turn)
{
	turn->admission->refused = (struct admission_note){ 0 };
	memset(admission_refusal(turn), 0, turn->config->text_max);
}

/* Why, with the text that admission_blame began; nobody is among the refused yet. */
static void begin(struct turn *turn)
{
	turn->admission->refused = (struct admission_note){
		.since_ns = turn->event->now_ns,
		.rank = turn->actions->cause_rank,
		.cause = (uint8_t)turn->actions->cause,
	};
	text_copy(admission_refusal(turn), turn->config->text_max, turn->actions->text);
}

static void remember(struct turn *turn, uint32_t rank)
{
	text_ranks_put(&turn->admission->refused.ranks, rank);
}

void admission_refuse_late_comers(struct turn *turn)
{
	if (!turn->config->life || turn->admission->refused.cause)
		return;
	begin(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (admission_member_at(turn, rank)->presence != ADMISSION_ABSENT)
			remember(turn, rank);
	}
}

void admission_refuse_gatherer_goes(struct turn *turn, struct admission_member *member)
{
	if (!turn->config->life) {
		admission_end_free_rank(turn, member);
		return;
	}
	if (turn->actions->cause == CONTROL_OK)
		admission_blame(turn, CONTROL_REMOTE, member->peer.rank,
				"rank %u on %s has gone (process %u) before job \"%s\" was "
				"complete",
				member->peer.rank, member->peer.host, member->peer.pid,
				turn->config->job);
	memset(member, 0, sizeof(*member));
	admission_refuse_all(turn, NULL);
}

void admission_refuse_orphans(struct turn *turn)
{
	if (turn->admission->state != ADMISSION_GATHER)
		return;
	admission_blame(turn, CONTROL_REMOTE, CONTROL_RANK_NONE,
			"job \"%s\": the job that it is a part of has ended: %s", turn->config->job,
			turn->event->text);
	admission_refuse_all(turn, NULL);
}

void admission_refuse_all(struct turn *turn, struct admission_peer *peer)
{
	struct admission *admission = turn->admission;
	struct admission_peer *waiters = admission_waiters(turn);

	begin(turn);
	if (peer)
		remember(turn, peer->rank);
	for (uint32_t rank = 0; rank < admission->size; rank++) {
		if (admission_is_in(admission_member_at(turn, rank)))
			remember(turn, rank);
	}
	if (peer)
		admission_send_last(turn, peer, CONTROL_DENY);
	for (uint32_t i = 0; i < admission->waiters_count; i++) {
		remember(turn, waiters[i].rank);
		admission_send_last(turn, &waiters[i], CONTROL_DENY);
	}
	memset(waiters, 0, admission->waiters_count * sizeof(*waiters));
	admission->waiters_count = 0;
	admission_end_gathering(turn, CONTROL_DENY);
}

/* Nobody can say whose sums these are. Who comes a little later is one of them: it hears the same, also as a
 * rank that has heard it. */
void admission_refuse_twins(struct turn *turn)
{
	struct admission *admission = turn->admission;
	struct admission_peer *waiters = admission_waiters(turn);

	if (admission->state == ADMISSION_GATHER) {
		admission_refuse_all(turn, NULL);
	} else {
		begin(turn);
		for (uint32_t i = 0; i < admission->waiters_count; i++)
			admission_send_last(turn, &waiters[i], CONTROL_DENY);
		memset(waiters, 0, admission->waiters_count * sizeof(*waiters));
		admission->waiters_count = 0;
		admission_end_life(turn);
	}
	admission->refused.is_all = 1;
}

bool admission_refuse_again(struct turn *turn, struct admission_peer *peer)
{
	struct admission *admission = turn->admission;
	struct text text;

	if (!admission->refused.cause)
		return false;
	bool is_over = !turn->config->life &&
		       turn->event->now_ns - admission->refused.since_ns >= refusal_ns;
	if (is_over ||
	    (!admission->refused.is_all && text_ranks_has(&admission->refused.ranks, peer->rank))) {
		forget(turn);
		return false;
	}
	text = admission_blame(turn, admission->refused.cause, admission->refused.rank, "%s",
			       admission_refusal(turn));
	if (!turn->config->life) {
		uint64_t age_s = (turn->event->now_ns - admission->refused.since_ns) / second_ns;

		text_add(&text, " (refused %llu s ago; start again in %llu s)",
			 (unsigned long long)age_s,
			 (unsigned long long)(refusal_ns / second_ns - age_s));
	}
	remember(turn, peer->rank);
	admission_join_refuse(turn, peer);
	return true;
}
