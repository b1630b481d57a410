/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that wait: what STALL starts, and how a round ends that has found nobody wrong. With WAITING,
 * or, if a deadline is over, with TIMEOUT: never later than 1 s after QUERY, whoever does not answer.
 * docs/protocol.md, R-CT-41 and R-CT-56.
 */
#include "core/job/admission_turn.h"

static const uint64_t answer_ns = 1000000000;

void admission_wait_stall(struct turn *turn, struct admission_member *member)
{
	struct admission *admission = turn->admission;
	uint64_t number = turn->event->message->stall.number;
	uint32_t waited_ms = turn->event->message->stall.waited_ms;

	admission_still_stall(turn, member);
	struct admission_stall stall = { .number = number, .waited_ms = waited_ms, .is_there = 1 };
	if (!admission->stall.is_there || number < admission->stall.number ||
	    (number == admission->stall.number && waited_ms > admission->stall.waited_ms))
		admission->stall = stall;
	if (turn->event->message->stall.is_expired && !admission->expired.is_there) {
		admission->expired = stall;
		admission->expired.rank = member->peer.rank;
	}
	/* The answers of the round that is on its way may be older than the deadline, or never come. */
	if (admission->expired.is_there && admission->query != ADMISSION_QUIET &&
	    !admission->is_about_expired) {
		if (admission->mismatch)
			admission->mismatch = 1;
		admission_query_end(turn);
	}
	admission_query_begin(turn);
}

void admission_wait_begin(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission->is_about_expired = admission->expired.is_there;
	admission->about = admission->expired.is_there ? admission->expired : admission->stall;
	admission->stall = (struct admission_stall){ 0 };
	admission->expired = (struct admission_stall){ 0 };
}

void admission_wait_end(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission->is_about_expired = 0;
	admission->about = (struct admission_stall){ 0 };
	for (uint32_t rank = 0; rank < admission->size; rank++)
		admission_member_at(turn, rank)->about = ADMISSION_ABOUT_UNKNOWN;
}

void admission_wait_forget(struct turn *turn)
{
	admission_wait_begin(turn);
	admission_wait_end(turn);
	turn->admission->complete = 0;
	turn->admission->complete_rank = 0;
	turn->admission->mismatch_rank = 0;
	turn->admission->mismatch_other = 0;
}

/* Of those who have answered: who has not called it? */
static struct text_ranks not_submitted(const struct turn *turn)
{
	struct text_ranks ranks = { { 0 } };

	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		const struct admission_member *member = admission_member_at(turn, rank);
		bool has_said = member->has_answered || member->presence == ADMISSION_LEFT;
		if (has_said && member->submitted <= turn->admission->about.number)
			text_ranks_put(&ranks, rank);
	}
	return ranks;
}

static struct text_ranks not_answered(const struct turn *turn)
{
	struct text_ranks ranks = { { 0 } };

	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		const struct admission_member *member = admission_member_at(turn, rank);
		if (member->presence == ADMISSION_READY && !member->has_answered)
			text_ranks_put(&ranks, rank);
	}
	return ranks;
}

/* Operations complete in any order: an older one may be outstanding, and this one not. */
void admission_wait_read(struct turn *turn, struct admission_member *member)
{
	const struct control_opinfo *info = &turn->event->message->opinfo;
	uint64_t about = turn->admission->about.number, listed_end = UINT64_MAX;
	bool is_listed = false;

	for (uint32_t i = 0; i < info->ops_count; i++)
		is_listed |= info->ops[i].number == about;
	if (info->has_more)
		listed_end = info->ops_count ? info->ops[info->ops_count - 1].number + 1
					     : turn->admission->page.from;
	if (is_listed || about >= info->submitted)
		member->about = ADMISSION_ABOUT_OUTSTANDING;
	else if (about < info->oldest ||
		 (about >= turn->admission->page.from && about < listed_end))
		member->about = ADMISSION_ABOUT_COMPLETE;
}

bool admission_wait_is_unknown(const struct turn *turn)
{
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		const struct admission_member *member = admission_member_at(turn, rank);
		if (member->presence == ADMISSION_READY && member->about == ADMISSION_ABOUT_UNKNOWN)
			return turn->admission->is_about_expired &&
			       turn->admission->page.from != turn->admission->about.number;
	}
	return false;
}

bool admission_wait_is_over(const struct turn *turn)
{
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		const struct admission_member *member = admission_member_at(turn, rank);
		if (member->presence == ADMISSION_READY &&
		    member->about != ADMISSION_ABOUT_COMPLETE)
			return false;
	}
	return true;
}

void admission_wait_tell(struct turn *turn)
{
	const struct admission *admission = turn->admission;
	struct control_waiting *waiting = &turn->actions->waiting;
	struct text_ranks missing = not_submitted(turn);
	struct text text;

	memset(waiting, 0, sizeof(*waiting));
	waiting->number = admission->about.number;
	waiting->waited_ms = admission->about.waited_ms;
	waiting->missing_count = (uint16_t)text_ranks_count(&missing);
	for (uint32_t rank = 0; rank < admission->size; rank++) {
		if (text_ranks_has(&missing, rank) && waiting->listed_count < CONTROL_MISSING_MAX)
			waiting->missing[waiting->listed_count++] = (uint16_t)rank;
		if (admission_member_at(turn, rank)->presence == ADMISSION_READY)
			admission_send(turn, &admission_member_at(turn, rank)->peer,
				       CONTROL_WAITING);
	}
	text_begin(&text, waiting->text, sizeof(waiting->text));
	text_add(&text, "operation %llu ", (unsigned long long)admission->about.number);
	if (waiting->missing_count) {
		text_add(&text, "waits for ");
		admission_add_ranks(turn, &text, &missing);
	} else if (admission_wait_is_over(turn)) {
		text_add(&text, "is complete on all ranks");
	} else {
		text_add(&text, "is under way on all ranks");
	}
	text_add(&text, ", for %u.%u s", admission->about.waited_ms / 1000,
		 admission->about.waited_ms % 1000 / 100);
	admission_log(turn, ADMISSION_LOG_DEBUG, "%s", waiting->text);
}

void admission_wait_blame(struct turn *turn)
{
	const struct admission *admission = turn->admission;
	struct text_ranks missing = not_submitted(turn), silent = not_answered(turn);
	struct text text;

	text = admission_blame(
		turn, CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		"the deadline of operation %llu is over, %u.%u s after rank %u on %s "
		"called it: ",
		(unsigned long long)admission->about.number, admission->about.waited_ms / 1000,
		admission->about.waited_ms % 1000 / 100, admission->about.rank,
		admission_host(turn, admission->about.rank));
	if (text_ranks_count(&missing)) {
		text_add(&text, "not called yet by ");
		admission_add_ranks(turn, &text, &missing);
	}
	if (text_ranks_count(&silent)) {
		text_add(&text,
			 text_ranks_count(&missing) ? "; no answer from " : "no answer from ");
		admission_add_ranks(turn, &text, &silent);
	}
	if (!text_ranks_count(&missing) && !text_ranks_count(&silent))
		text_add(&text, "all ranks have called it, the network or one of them is slow");
}

uint64_t admission_wait_verdict_ns(const struct admission *admission)
{
	return admission->query != ADMISSION_QUIET && admission->is_about_expired
		       ? admission->asked_ns + answer_ns
		       : UINT64_MAX;
}

bool admission_wait_tick(struct turn *turn)
{
	if (turn->event->now_ns < admission_wait_verdict_ns(turn->admission))
		return false;
	if (admission_wait_is_over(
		    turn)) { /* as the pages so far say: the rest of them is about others */
		admission_wait_tell(turn);
		admission_query_end(turn);
		admission_query_begin(turn);
		return true;
	}
	admission_wait_blame(turn);
	admission_end_life(turn);
	return true;
}
