/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who disagrees? A round asks all who have not left: QUERY, OPINFO from each, verdict. COMPARE rounds keep
 * one hash per number, so memory does not grow with the members; once a number differs, a DESCRIBE round
 * asks again from that number on and keeps the descriptions of that one. A difference cannot vanish in
 * between: operations that differ never complete. A round that has found nobody wrong ends with WAITING, or, if a deadline
 * is over, with TIMEOUT: never later than 1 s after QUERY, whoever does not answer. docs/protocol.md, R-CT-36 to R-CT-41,
 * R-CT-44 and R-CT-56.
 *
 * What ends the life is only said here: with the text that admission_blame began.
 */
#include "core/job/admission_turn.h"
#include "core/shared/rto.h"

static const uint64_t ms_ns = 1000000;
static const uint64_t answer_ns = 1000000000;

enum { GROUP_HOSTS_MAX = 2 };

static uint64_t op_hash(const struct control_op *op)
{
	struct map_descriptor descriptor = {
		.number = op->number,
		.kind = op->kind,
		.type = op->type,
		.op = op->op,
		.root = op->root,
		.count = op->count,
		.name = op->name,
	};

	return map_descriptor_hash(&descriptor) ^ (op->stream + 1ull) * 0x9e3779b97f4a7c15ull;
}

/* ---- a round ---- */

static void begin_page(struct turn *turn, struct admission_page page)
{
	turn->admission->page = page;
	memset(admission_seen(turn), 0, turn->config->ops_max * sizeof(struct admission_seen));
	memset(admission_groups(turn), 0, turn->config->groups_max * sizeof(struct control_op));
}

static void ask(struct turn *turn, enum admission_query query, uint64_t from)
{
	struct admission *admission = turn->admission;

	admission->query = (uint8_t)query;
	admission->round++;
	admission->page_ns = turn->event->now_ns;
	begin_page(turn, (struct admission_page){
				 .from = from, .end = UINT64_MAX, .differs = UINT64_MAX });
	ADMISSION_EACH(turn, member) {
		member->has_answered = 0;
		member->group = 0;
		if (member->presence != ADMISSION_READY)
			continue;
		struct admission_action *action =
			admission_send(turn, &member->peer, CONTROL_QUERY);
		action->number = admission->round;
		action->from = from;
	}
}

/* A round, if one is wanted and none is on its way. */
static void begin(struct turn *turn)
{
	struct admission *admission = turn->admission;

	if (admission->query != ADMISSION_QUIET ||
	    (!admission->mismatch && !admission->stall.is_there))
		return;
	/* R-CT-37: what was seen before a QUERY is in its answers; what comes later may not be. */
	if (admission->mismatch)
		admission->mismatch = 2;
	admission->is_about_expired = admission->expired.is_there;
	admission->about = admission->expired.is_there ? admission->expired : admission->stall;
	admission->stall = (struct admission_stall){ 0 };
	admission->expired = (struct admission_stall){ 0 };
	admission->asked_ns =
		turn->event->now_ns; /* of the first page: a deadline's verdict waits for no more */
	ask(turn, ADMISSION_COMPARE, 0);
}

/* No round, nothing of one. */
static void end(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission->query = ADMISSION_QUIET;
	admission->asked_ns = 0;
	admission->page_ns = 0;
	admission->is_about_expired = 0;
	admission->about = (struct admission_stall){ 0 };
	if (admission->mismatch == 2)
		admission->mismatch = 0;
	begin_page(turn, (struct admission_page){ 0 });
	ADMISSION_EACH(turn, member)
		member->about = ADMISSION_ABOUT_UNKNOWN;
}

void admission_query_forget(struct turn *turn)
{
	struct admission *admission = turn->admission;

	end(turn);
	admission->stall = (struct admission_stall){ 0 };
	admission->expired = (struct admission_stall){ 0 };
	admission->mismatch = 0;
	admission->mismatch_rank = 0;
	admission->mismatch_other = 0;
	admission->complete = 0;
	admission->complete_rank = 0;
}

/* ---- what starts one ---- */

void admission_query_mismatch(struct turn *turn)
{
	struct admission *admission = turn->admission;

	if (admission->state != ADMISSION_STARTED)
		return;
	if (!admission->mismatch) {
		admission->mismatch = 1;
		admission->mismatch_rank = turn->event->rank;
		admission->mismatch_other = turn->event->other;
	}
	begin(turn);
}

void admission_query_stall(struct turn *turn, struct admission_member *member)
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
		end(turn);
	}
	begin(turn);
}

/* ---- COMPARE ---- */

/* Keeps the smallest numbers; what does not fit ends the page before it. */
static void keep(struct turn *turn, uint64_t number, uint64_t hash)
{
	struct admission *admission = turn->admission;
	struct admission_seen *seen = admission_seen(turn);
	uint32_t count = admission->page.seen_count;
	uint32_t at = 0;

	for (uint32_t end = count; at < end;) {
		uint32_t middle = at + (end - at) / 2;
		if (seen[middle].number < number)
			at = middle + 1;
		else
			end = middle;
	}
	if (at < count && seen[at].number == number) {
		if (seen[at].hash != hash && number < admission->page.differs)
			admission->page.differs = number;
		return;
	}
	if (count == turn->config->ops_max) {
		uint64_t out = at == count ? number : seen[--count].number;
		if (out < admission->page.end)
			admission->page.end = out;
		if (out == number)
			return;
	}
	memmove(seen + at + 1, seen + at, (count - at) * sizeof(*seen));
	seen[at] = (struct admission_seen){ .number = number, .hash = hash };
	admission->page.seen_count = (uint16_t)(count + 1);
}

/* R-CT-38. What was cut ends the page, too. */
static void compare(struct turn *turn, const struct control_opinfo *info)
{
	struct admission *admission = turn->admission;

	for (uint32_t i = 0; i < info->ops_count; i++) {
		const struct control_op *op = &info->ops[i];
		if (op->number >= admission->page.from && op->number < admission->page.end)
			keep(turn, op->number, op_hash(op));
	}
	if (info->has_more && info->ops_count) {
		uint64_t end = info->ops[info->ops_count - 1].number + 1;
		if (end > admission->page.from && end < admission->page.end)
			admission->page.end = end;
	}
}

/* ---- DESCRIBE ---- */

static void describe(struct turn *turn, struct admission_member *member,
		     const struct control_opinfo *info)
{
	struct admission *admission = turn->admission;
	struct control_op *groups = admission_groups(turn);

	for (uint32_t i = 0; i < info->ops_count; i++) {
		const struct control_op *op = &info->ops[i];
		uint32_t group = 0;

		if (op->number != admission->page.from)
			continue;
		while (group < admission->page.groups_count &&
		       op_hash(&groups[group]) != op_hash(op))
			group++;
		if (group == turn->config->groups_max) {
			group--; /* more kinds of calls than a text can show */
			admission->page.has_more_groups = 1;
		} else if (group == admission->page.groups_count) {
			groups[group] = *op;
			admission->page.groups_count++;
		}
		member->group = (uint8_t)(group + 1);
	}
}

static struct text_ranks group_ranks(const struct turn *turn, uint32_t group)
{
	struct text_ranks ranks = { { 0 } };

	ADMISSION_EACH(turn, member)
		if (member->group == group)
			text_ranks_put(&ranks, member->peer.rank);
	return ranks;
}

static void add_group(const struct turn *turn, struct text *text, uint32_t group)
{
	struct text_ranks ranks = group_ranks(turn, group + 1);

	if (text_ranks_count(&ranks) > GROUP_HOSTS_MAX)
		text_add_ranks(text, &ranks);
	else
		admission_add_ranks(turn, text, &ranks);
	text_add(text, text_ranks_count(&ranks) == 1 ? " calls " : " call ");
	admission_add_op(text, &admission_groups(turn)[group]);
	if (group + 1u == turn->config->groups_max && turn->admission->page.has_more_groups)
		text_add(text, " or others");
}

/* The only largest group; groups_count if there is none. */
static uint32_t majority(const struct turn *turn)
{
	uint32_t best = 0, best_count = 0, none = turn->admission->page.groups_count;

	for (uint32_t group = 0; group < turn->admission->page.groups_count; group++) {
		struct text_ranks ranks = group_ranks(turn, group + 1);
		uint32_t count = text_ranks_count(&ranks);
		if (count == best_count)
			best = none;
		if (count > best_count) {
			best = group;
			best_count = count;
		}
	}
	return best;
}

/* R-CT-39: a rank is called odd only when all have submitted: those who are still to come may be with it. */
static void blame_mismatch(struct turn *turn)
{
	struct admission *admission = turn->admission;
	struct text_ranks missing = group_ranks(turn, 0);
	struct text_ranks odd = { { 0 } };
	bool is_open = text_ranks_count(&missing) || admission->page.has_more_groups;
	uint32_t most = is_open ? admission->page.groups_count : majority(turn);
	uint32_t blamed = CONTROL_RANK_NONE;
	struct text text;

	ADMISSION_EACH(turn, member) {
		if (most == admission->page.groups_count || member->group == most + 1)
			continue;
		text_ranks_put(&odd, member->peer.rank);
		blamed = member->peer.rank;
	}
	if (text_ranks_count(&odd) != 1)
		blamed = CONTROL_RANK_NONE;
	text = admission_blame(turn, CONTROL_MISMATCH, blamed, "operation %llu differs: ",
			       (unsigned long long)admission->page.from);
	const char *before = "";
	for (uint32_t group = 0; group < admission->page.groups_count; group++) {
		if (group == most)
			continue;
		text_add(&text, "%s", before);
		add_group(turn, &text, group);
		before = "; ";
	}
	if (most < admission->page.groups_count) {
		text_add(&text, "; the others: ");
		add_group(turn, &text, most);
	}
	if (text_ranks_count(&missing)) {
		text_add(&text, "; not called yet by ");
		admission_add_ranks(turn, &text, &missing);
	}
}

/* ---- the operation that the round is about ---- */

/* Of those who have answered: who has not called it? */
static struct text_ranks not_submitted(const struct turn *turn)
{
	struct text_ranks ranks = { { 0 } };

	ADMISSION_EACH(turn, member) {
		bool has_said = member->has_answered || member->presence == ADMISSION_LEFT;
		if (has_said && member->submitted <= turn->admission->about.number)
			text_ranks_put(&ranks, member->peer.rank);
	}
	return ranks;
}

static struct text_ranks not_answered(const struct turn *turn)
{
	struct text_ranks ranks = { { 0 } };

	ADMISSION_EACH(turn, member) {
		if (member->presence == ADMISSION_READY && !member->has_answered)
			text_ranks_put(&ranks, member->peer.rank);
	}
	return ranks;
}

/* Operations complete in any order: an older one may be outstanding, and this one not. */
static void read_about(struct turn *turn, struct admission_member *member)
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

static bool is_about_unknown(const struct turn *turn)
{
	ADMISSION_EACH(turn, member) {
		if (member->presence == ADMISSION_READY && member->about == ADMISSION_ABOUT_UNKNOWN)
			return turn->admission->is_about_expired &&
			       turn->admission->page.from != turn->admission->about.number;
	}
	return false;
}

static bool is_about_over(const struct turn *turn)
{
	ADMISSION_EACH(turn, member) {
		if (member->presence == ADMISSION_READY &&
		    member->about != ADMISSION_ABOUT_COMPLETE)
			return false;
	}
	return true;
}

static void tell(struct turn *turn)
{
	const struct admission *admission = turn->admission;
	struct control_waiting *waiting = &turn->actions->waiting;
	struct text_ranks missing = not_submitted(turn);
	struct text text;

	memset(waiting, 0, sizeof(*waiting));
	waiting->number = admission->about.number;
	waiting->waited_ms = admission->about.waited_ms;
	waiting->missing_count = (uint16_t)text_ranks_count(&missing);
	ADMISSION_EACH(turn, member) {
		uint16_t rank = member->peer.rank;

		if (text_ranks_has(&missing, rank) && waiting->listed_count < CONTROL_MISSING_MAX)
			waiting->missing[waiting->listed_count++] = rank;
		if (member->presence == ADMISSION_READY)
			admission_send(turn, &member->peer, CONTROL_WAITING);
	}
	text_begin(&text, waiting->text, sizeof(waiting->text));
	text_add(&text, "operation %llu ", (unsigned long long)admission->about.number);
	if (waiting->missing_count) {
		text_add(&text, "waits for ");
		admission_add_ranks(turn, &text, &missing);
	} else if (is_about_over(turn)) {
		text_add(&text, "is complete on all ranks");
	} else {
		text_add(&text, "is under way on all ranks");
	}
	text_add(&text, ", for %u.%u s", admission->about.waited_ms / 1000,
		 admission->about.waited_ms % 1000 / 100);
	admission_log(turn, ADMISSION_LOG_DEBUG, "%s", waiting->text);
}

static void blame_deadline(struct turn *turn)
{
	const struct admission *admission = turn->admission;
	struct text_ranks missing = not_submitted(turn), silent = not_answered(turn);
	bool are_missing = text_ranks_count(&missing), are_silent = text_ranks_count(&silent);
	struct text text = admission_blame(
		turn, CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		"the deadline of operation %llu is over, %u.%u s after rank %u on %s "
		"called it: ",
		(unsigned long long)admission->about.number, admission->about.waited_ms / 1000,
		admission->about.waited_ms % 1000 / 100,
		admission_named(turn, admission->about.rank),
		admission_host(turn, admission->about.rank));

	if (are_missing)
		text_add(&text, "not called yet by ");
	admission_add_ranks(turn, &text, &missing);
	if (are_silent)
		text_add(&text, "%sno answer from ", are_missing ? "; " : "");
	admission_add_ranks(turn, &text, &silent);
	if (!are_missing && !are_silent)
		text_add(&text, "all ranks have called it, the network or one of them is slow");
}

/* ---- verdicts ---- */

/* R-CT-40: somebody left after so few operations that another one can never complete. */
static bool blame_leaver(struct turn *turn)
{
	const struct admission_member *leaver = NULL, *waiter = NULL;

	ADMISSION_EACH(turn, member) {
		if (member->presence == ADMISSION_LEFT &&
		    (!leaver || member->submitted < leaver->submitted))
			leaver = member;
		else if (member->presence == ADMISSION_READY &&
			 (!waiter || member->submitted > waiter->submitted))
			waiter = member;
	}
	if (!leaver || !waiter || waiter->submitted <= leaver->submitted)
		return false;
	admission_blame(turn, CONTROL_REMOTE, leaver->peer.rank,
			"rank %u on %s left after %llu operations; rank %u on %s has called %llu",
			admission_named(turn, leaver->peer.rank), leaver->peer.host,
			(unsigned long long)leaver->submitted,
			admission_named(turn, waiter->peer.rank), waiter->peer.host,
			(unsigned long long)waiter->submitted);
	return true;
}

/* R-CT-44: what is complete anywhere has been called everywhere, and was so before this round's QUERY. */
static bool blame_forgetful(struct turn *turn)
{
	struct admission *admission = turn->admission;

	ADMISSION_EACH(turn, member) {
		if (member->presence != ADMISSION_READY || member->submitted >= admission->complete)
			continue;
		admission_blame(turn, CONTROL_INTERNAL, CONTROL_RANK_NONE,
				"rank %u on %s says that it has called %llu operations, rank %u on "
				"%s that %llu are complete: one of them is wrong",
				admission_named(turn, member->peer.rank), member->peer.host,
				(unsigned long long)member->submitted,
				admission_named(turn, admission->complete_rank),
				admission_host(turn, admission->complete_rank),
				(unsigned long long)admission->complete);
		return true;
	}
	return false;
}

static void remember_complete(struct turn *turn)
{
	struct admission *admission = turn->admission;

	ADMISSION_EACH(turn, member) {
		if (member->presence == ADMISSION_READY && member->oldest > admission->complete) {
			admission->complete = member->oldest;
			admission->complete_rank = member->peer.rank;
		}
	}
}

/* A switch saw a difference that no member knows of: somebody's code is wrong. */
static void blame_nobody(struct turn *turn)
{
	uint32_t rank = turn->admission->mismatch_rank, other = turn->admission->mismatch_other;
	struct text text =
		admission_blame(turn, CONTROL_INTERNAL, CONTROL_RANK_NONE, "packets of ");

	if (rank < turn->admission->size && other < turn->admission->size)
		text_add(&text, "rank %u on %s and of rank %u on %s", admission_named(turn, rank),
			 admission_host(turn, rank), admission_named(turn, other),
			 admission_host(turn, other));
	else
		text_add(&text, "two ranks");
	text_add(&text,
		 " differ although their calls agree: "
		 "an internal error (job \"%s\", generation %u)",
		 turn->config->job, turn->admission->generation);
}

/* R-CT-39: of sound members those who differ list the operation still. */
static void blame_change(struct turn *turn)
{
	admission_blame(turn, CONTROL_INTERNAL, CONTROL_RANK_NONE,
			"the ranks' calls of operation %llu differed when they were asked, and do "
			"not any more: an internal error (job \"%s\", generation %u)",
			(unsigned long long)turn->admission->page.from, turn->config->job,
			turn->admission->generation);
}

/* R-CT-38: from the second largest `submitted` on no two members have an operation to compare: one that says "more"
 * for ever asks for nothing. */
static bool has_next_page(const struct turn *turn)
{
	uint64_t most = 0, second = 0;

	ADMISSION_EACH(turn, member) {
		if (member->submitted > most) {
			second = most;
			most = member->submitted;
		} else if (member->submitted > second) {
			second = member->submitted;
		}
	}
	return turn->admission->page.end < second;
}

/* All have answered: R-CT-41, if nobody is wrong. */
static bool judge(struct turn *turn)
{
	struct admission *admission = turn->admission;

	if (admission->query == ADMISSION_DESCRIBE) {
		if (admission->page.groups_count > 1)
			blame_mismatch(turn);
		else if (admission->mismatch == 2)
			blame_nobody(turn);
		else
			blame_change(turn);
		return true;
	}
	if (admission->page.differs < admission->page.end) {
		ask(turn, ADMISSION_DESCRIBE, admission->page.differs);
	} else if (blame_leaver(turn) || blame_forgetful(turn)) {
		return true;
	} else if (has_next_page(turn)) {
		ask(turn, ADMISSION_COMPARE, admission->page.end);
	} else if (admission->mismatch == 2) {
		blame_nobody(turn);
		return true;
	} else if (is_about_unknown(turn)) {
		ask(turn, ADMISSION_COMPARE, admission->about.number);
	} else if (admission->is_about_expired && !is_about_over(turn)) {
		blame_deadline(turn);
		return true;
	} else if (admission_still_blame(turn)) {
		return true;
	} else {
		if (admission->about.is_there)
			tell(turn);
		remember_complete(turn);
		end(turn);
		begin(turn);
	}
	return false;
}

static bool judge_when_all_answered(struct turn *turn)
{
	struct text_ranks silent = not_answered(turn);

	return !text_ranks_count(&silent) && judge(turn);
}

bool admission_query_opinfo(struct turn *turn, struct admission_member *member)
{
	struct admission *admission = turn->admission;
	const struct control_opinfo *info = &turn->event->message->opinfo;

	if (admission->query == ADMISSION_QUIET || member->has_answered ||
	    info->round != admission->round)
		return false; /* of an older round: it may miss what the verdict is about */
	member->has_answered = 1;
	member->submitted = info->submitted;
	member->oldest = info->oldest;
	if (admission->query == ADMISSION_COMPARE) {
		compare(turn, info);
		read_about(turn, member);
	} else
		describe(turn, member, info);
	return judge_when_all_answered(turn);
}

bool admission_query_left(struct turn *turn)
{
	return blame_leaver(turn) ||
	       (turn->admission->query != ADMISSION_QUIET && judge_when_all_answered(turn));
}

/* ---- whoever does not answer ---- */

static uint64_t verdict_ns(const struct admission *admission)
{
	return admission->is_about_expired ? admission->asked_ns + answer_ns : UINT64_MAX;
}

uint64_t admission_query_wake_ns(const struct turn *turn)
{
	const struct admission *admission = turn->admission;
	uint64_t unheard_ns = admission->page_ns + admission_still_limit_ns(turn);

	if (admission->query == ADMISSION_QUIET)
		return UINT64_MAX;
	return rto_least(verdict_ns(admission), unheard_ns);
}

/* R-CT-44: who is heard, and says nothing of what it has called. */
static bool blame_unheard(struct turn *turn)
{
	ADMISSION_EACH(turn, member) {
		if (member->presence != ADMISSION_READY || member->has_answered)
			continue;
		admission_blame(turn, CONTROL_REMOTE, member->peer.rank,
				"rank %u on %s is heard, but has not said for %llu ms what it has "
				"called",
				admission_named(turn, member->peer.rank), member->peer.host,
				(unsigned long long)(admission_still_limit_ns(turn) / ms_ns));
		return true;
	}
	return false;
}

bool admission_query_tick(struct turn *turn)
{
	if (turn->event->now_ns < admission_query_wake_ns(turn))
		return false;
	if (turn->event->now_ns < verdict_ns(turn->admission))
		return blame_unheard(turn);
	if (!is_about_over(turn)) {
		blame_deadline(turn);
	} else { /* as the pages so far say: the rest of them is about others */
		tell(turn);
		end(turn);
		begin(turn);
	}
	return true;
}
