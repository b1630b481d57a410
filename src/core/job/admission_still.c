/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standstill: all have called an operation, they describe it alike, and a member gets no result of it or of
 * anything else. Nothing that control knows of explains that, so it ends with the name of who sent what no
 * sound member sends; not before a silence would have ended it. docs/protocol.md, R-CT-43.
 *
 * The clock is the aggregator's, one per member: it runs while STALLs of one number keep coming that tell
 * of no result, and begins anew with whatever may explain the wait: a result, another number, a STALL that
 * did not come, a rank that has not called it, a round that somebody was slow to answer, our own sleep.
 */
#include "core/dense/misfit.h"
#include "core/job/admission_turn.h"
#include "core/job/silence.h"

static const uint64_t ms_ns = 1000000;
static const uint64_t again_ns = 2500000000; /* STALL comes each second: two may be late */
static const uint64_t slow_ns = 1000000000;  /* a QUERY is answered at once */
static const uint64_t still_min_ns =
	3000000000; /* three STALLs, however short the heartbeat time */

uint64_t admission_still_limit_ns(const struct turn *turn)
{
	return rto_most(silence_ns(turn->config->heartbeat_ns), still_min_ns);
}

static void forget(struct admission_member *member)
{
	member->is_still = 0;
	member->still_number = 0;
	member->still_ns = 0;
	member->still_said_ns = 0;
}

void admission_still_stall(struct turn *turn, struct admission_member *member)
{
	uint64_t now_ns = turn->event->now_ns;
	uint64_t number = turn->event->message->stall.number;
	uint64_t still_ns = turn->event->message->stall.still_ms * ms_ns;

	if (turn->event->message->stall.is_expired)
		return; /* of any operation, not of the oldest */
	if (!member->is_still || member->still_number != number ||
	    now_ns - member->still_said_ns > again_ns) {
		member->is_still = 1;
		member->still_number = number;
		member->still_ns = now_ns;
	}
	if (now_ns - member->still_ns > still_ns) /* there was a result since */
		member->still_ns = now_ns - still_ns;
	member->still_said_ns = now_ns;
}

void admission_still_restart(struct turn *turn)
{
	ADMISSION_EACH(turn, member)
		forget(member);
}

/* As the answers of the round say: it is the oldest there, and everybody has called it. */
static bool is_unexplained(const struct turn *turn, const struct admission_member *member)
{
	ADMISSION_EACH(turn, other)
		if (other->submitted <= member->still_number)
			return false;
	return member->oldest == member->still_number;
}

/* Of those whom no clock's restart concerns, the one that waits for longest. */
static struct admission_member *find_still(struct turn *turn)
{
	uint64_t now_ns = turn->event->now_ns;
	struct admission_member *longest = NULL;

	ADMISSION_EACH(turn, member) {
		if (member->presence != ADMISSION_READY || !member->is_still)
			continue;
		if (!is_unexplained(turn, member) || now_ns - member->still_said_ns > again_ns)
			forget(member);
		else if (!longest || member->still_ns < longest->still_ns)
			longest = member;
	}
	return longest && now_ns - longest->still_ns >= admission_still_limit_ns(turn) ? longest
										       : NULL;
}

static void add_misfits(const struct turn *turn, struct text *text,
			const struct admission_member *member)
{
	/* clang-format off */
	static const char *const words[MISFIT_COUNT] = {
		[MISFIT_NONE]       = "?",
		[MISFIT_VERSION]    = "another version",
		[MISFIT_TYPE]       = "no packet for an aggregator",
		[MISFIT_LANES]      = "a number of lanes that there is not",
		[MISFIT_LENGTH]     = "another length than they say",
		[MISFIT_FLAGS]      = "flags that there are not",
		[MISFIT_SLOT]       = "a slot that there is not",
		[MISFIT_MORE_LANES] = "more lanes than agreed",
		[MISFIT_DIFFERS]    = "another tag, round or number of lanes than the others'",
		[MISFIT_AHEAD]      = "rounds ahead of the others",
		[MISFIT_OVERRUN]    = "rounds for which others had no result yet",
	};
	/* clang-format on */

	text_add(text, "rank %u on %s sent %u or more packets that do not fit (%s)",
		 admission_named(turn, member->peer.rank), member->peer.host, member->misfits,
		 words[member->misfit < MISFIT_COUNT ? member->misfit : MISFIT_NONE]);
}

static void blame(struct turn *turn, const struct admission_member *still)
{
	uint64_t number = still->still_number;
	struct text_ranks without = { { 0 } };
	uint32_t blamed = CONTROL_RANK_NONE, suspects = 0, waited_ms;

	waited_ms = (uint32_t)((turn->event->now_ns - still->still_ns) / ms_ns);
	ADMISSION_EACH(turn, member) {
		if (member->is_still && member->still_number == number)
			text_ranks_put(&without, member->peer.rank);
		if (member->misfits) {
			suspects++;
			blamed = member->peer.rank;
		}
	}
	struct text text =
		admission_blame(turn, CONTROL_TIMEOUT, suspects == 1 ? blamed : CONTROL_RANK_NONE,
				"operation %llu stands still: all ranks have called it, and ",
				(unsigned long long)number);
	admission_add_ranks(turn, &text, &without);
	text_add(&text, " had no result for %u.%u s; ", waited_ms / 1000, waited_ms % 1000 / 100);
	const char *before = "";
	ADMISSION_EACH(turn, member) {
		if (!member->misfits)
			continue;
		text_add(&text, "%s", before);
		add_misfits(turn, &text, member);
		before = ", ";
	}
	if (!suspects)
		text_add(&text, "the aggregator refused no packet of any rank: the network loses "
				"them, or a rank sends none");
}

bool admission_still_blame(struct turn *turn)
{
	struct admission_member *still;

	if (turn->event->now_ns - turn->admission->asked_ns > slow_ns) {
		admission_still_restart(turn);
		return false;
	}
	still = find_still(turn);
	if (still)
		blame(turn, still);
	return still;
}

void admission_still_misfit(struct turn *turn)
{
	const struct admission_event *event = turn->event;
	struct admission_member *member;

	if (turn->admission->state != ADMISSION_STARTED || event->rank >= turn->admission->size)
		return;
	member = admission_member_at(turn, event->rank);
	if (event->count < member->misfits)
		return; /* of another shard */
	member->misfits = event->count;
	member->misfit = event->misfit;
	struct text text = admission_log(turn, ADMISSION_LOG_LIMITED, "%s", "");
	add_misfits(turn, &text, member);
}
