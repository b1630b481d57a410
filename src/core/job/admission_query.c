/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who disagrees? A round asks all who have not left: QUERY, OPINFO from each, verdict. COMPARE rounds keep
 * one hash per number, so memory does not grow with the members; once a number differs, a DESCRIBE round
 * asks again from that number on and keeps the descriptions of that one. A difference cannot vanish in
 * between: operations that differ never complete. docs/protocol.md, R-CT-36 to R-CT-41.
 */
#include "core/job/admission_turn.h"

enum { GROUP_HOSTS_MAX = 2 };

static const char *const kind_names[CONTROL_OP_KIND_END] = {
	"allreduce", "barrier", "reduce", "broadcast", "allgather", "reduce_scatter",
};
static const char *const type_names[] = {
	"int8",   "uint8",   "int32",   "uint32",  "int64",
	"uint64", "float16", "float32", "float64", "bfloat16",
};
static const char *const op_names[] = { "sum", "prod", "max", "min", "avg" };
enum {
	TYPES = sizeof(type_names) / sizeof(*type_names),
	OPS = sizeof(op_names) / sizeof(*op_names)
};

static void add_op(struct text *text, const struct control_op *op)
{
	text_add(text, "%s", op->kind < CONTROL_OP_KIND_END ? kind_names[op->kind] : "operation");
	if (op->kind != CONTROL_OP_BARRIER)
		text_add(text, " of %llu %s", (unsigned long long)op->count,
			 op->type < TYPES ? type_names[op->type] : "elements");
	if (op->kind == CONTROL_OP_ALLREDUCE || op->kind == CONTROL_OP_REDUCE ||
	    op->kind == CONTROL_OP_REDUCE_SCATTER)
		text_add(text, ", %s", op->op < OPS ? op_names[op->op] : "?");
	if (op->kind == CONTROL_OP_ALLREDUCE && op->root)
		text_add(text, " in several buffers (list %u)", op->root);
	if (op->kind == CONTROL_OP_BROADCAST || op->kind == CONTROL_OP_REDUCE)
		text_add(text, ", root %u", op->root);
	if (op->name[0])
		text_add(text, " \"%s\"", op->name);
	text_add(text, op->stream == MAP_EXPRESS ? " (express)" : " (bulk)");
}

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
	for (uint32_t rank = 0; rank < admission->size; rank++) {
		struct admission_member *member = admission_member(admission, rank);
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
	admission_query_begin(turn);
}

void admission_query_begin(struct turn *turn)
{
	struct admission *admission = turn->admission;

	if (admission->query != ADMISSION_QUIET ||
	    (!admission->mismatch && !admission->stall.is_there))
		return;
	/* R-CT-37: what was seen before a QUERY is in its answers; what comes later may not be. */
	if (admission->mismatch)
		admission->mismatch = 2;
	admission_wait_begin(turn);
	admission->asked_ns =
		turn->event->now_ns; /* of the first page: a deadline's verdict waits for no more */
	ask(turn, ADMISSION_COMPARE, 0);
}

void admission_query_end(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission->query = ADMISSION_QUIET;
	admission->asked_ns = 0;
	admission->page_ns = 0;
	admission_wait_end(turn);
	if (admission->mismatch == 2)
		admission->mismatch = 0;
	begin_page(turn, (struct admission_page){ 0 });
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

	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (admission_member(turn->admission, rank)->group == group)
			text_ranks_put(&ranks, rank);
	}
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
	add_op(text, &admission_groups(turn)[group]);
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

	for (uint32_t rank = 0; rank < admission->size && most < admission->page.groups_count;
	     rank++) {
		if (admission_member(admission, rank)->group == most + 1)
			continue;
		text_ranks_put(&odd, rank);
		blamed = rank;
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

/* ---- verdicts ---- */

/* R-CT-40: somebody left after so few operations that another one can never complete. */
static bool blame_leaver(struct turn *turn)
{
	struct admission *admission = turn->admission;
	uint32_t leaver = CONTROL_RANK_NONE, waiter = CONTROL_RANK_NONE;
	uint64_t fewest = UINT64_MAX, most = 0;

	for (uint32_t rank = 0; rank < admission->size; rank++) {
		const struct admission_member *member = admission_member(admission, rank);
		if (member->presence == ADMISSION_LEFT && member->submitted < fewest) {
			fewest = member->submitted;
			leaver = rank;
		} else if (member->presence == ADMISSION_READY && member->submitted > most) {
			most = member->submitted;
			waiter = rank;
		}
	}
	if (leaver == CONTROL_RANK_NONE || most <= fewest)
		return false;
	admission_blame(turn, CONTROL_REMOTE, leaver,
			"rank %u on %s left after %llu operations; rank %u on %s has called %llu",
			leaver, admission_host(turn, leaver), (unsigned long long)fewest, waiter,
			admission_host(turn, waiter), (unsigned long long)most);
	return true;
}

/* R-CT-44: what is complete anywhere has been called everywhere, and was so before this round's QUERY. */
static bool blame_forgetful(struct turn *turn)
{
	struct admission *admission = turn->admission;

	for (uint32_t rank = 0; rank < admission->size; rank++) {
		const struct admission_member *member = admission_member(admission, rank);
		if (member->presence != ADMISSION_READY || member->submitted >= admission->complete)
			continue;
		admission_blame(turn, CONTROL_INTERNAL, CONTROL_RANK_NONE,
				"rank %u on %s says that it has called %llu operations, rank %u on "
				"%s that %llu are complete: one of them is wrong",
				rank, member->peer.host, (unsigned long long)member->submitted,
				admission->complete_rank,
				admission_host(turn, admission->complete_rank),
				(unsigned long long)admission->complete);
		return true;
	}
	return false;
}

static void remember_complete(struct turn *turn)
{
	struct admission *admission = turn->admission;

	for (uint32_t rank = 0; rank < admission->size; rank++) {
		const struct admission_member *member = admission_member(admission, rank);
		if (member->presence == ADMISSION_READY && member->oldest > admission->complete) {
			admission->complete = member->oldest;
			admission->complete_rank = (uint16_t)rank;
		}
	}
}

/* A switch saw a difference that no member knows of: somebody's code is wrong. */
static void blame_nobody(struct turn *turn)
{
	uint32_t rank = turn->admission->mismatch_rank, other = turn->admission->mismatch_other;
	struct text text;

	text = admission_blame(turn, CONTROL_INTERNAL, CONTROL_RANK_NONE, "packets of ");
	if (rank < turn->admission->size && other < turn->admission->size)
		text_add(&text, "rank %u on %s and of rank %u on %s", rank,
			 admission_host(turn, rank), other, admission_host(turn, other));
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

	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		uint64_t submitted = admission_member(turn->admission, rank)->submitted;

		if (submitted > most) {
			second = most;
			most = submitted;
		} else if (submitted > second) {
			second = submitted;
		}
	}
	return turn->admission->page.end < second;
}

static void judge(struct turn *turn)
{
	struct admission *admission = turn->admission;

	if (admission->query == ADMISSION_DESCRIBE) {
		if (admission->page.groups_count > 1)
			blame_mismatch(turn);
		else if (admission->mismatch == 2)
			blame_nobody(turn);
		else
			blame_change(turn);
		admission_end_life(turn);
		return;
	}
	if (admission->page.differs < admission->page.end) {
		ask(turn, ADMISSION_DESCRIBE, admission->page.differs);
	} else if (blame_leaver(turn) || blame_forgetful(turn)) {
		admission_end_life(turn);
	} else if (has_next_page(turn)) {
		ask(turn, ADMISSION_COMPARE, admission->page.end);
	} else if (admission->mismatch == 2) {
		blame_nobody(turn);
		admission_end_life(turn);
	} else if (admission_wait_is_unknown(turn)) {
		ask(turn, ADMISSION_COMPARE, admission->about.number);
	} else if (admission->is_about_expired && !admission_wait_is_over(turn)) {
		admission_wait_blame(turn);
		admission_end_life(turn);
	} else if (!admission_still_judge(turn)) {
		if (admission->about.is_there)
			admission_wait_tell(turn);
		remember_complete(turn);
		admission_query_end(turn);
		admission_query_begin(turn);
	}
}

static void judge_when_all_answered(struct turn *turn)
{
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		const struct admission_member *member = admission_member(turn->admission, rank);
		if (member->presence == ADMISSION_READY && !member->has_answered)
			return;
	}
	judge(turn);
}

void admission_query_opinfo(struct turn *turn, struct admission_member *member)
{
	struct admission *admission = turn->admission;
	const struct control_opinfo *info = &turn->event->message->opinfo;

	if (admission->query == ADMISSION_QUIET || member->has_answered ||
	    info->round != admission->round)
		return; /* of an older round: it may miss what the verdict is about */
	member->has_answered = 1;
	member->submitted = info->submitted;
	member->oldest = info->oldest;
	if (admission->query == ADMISSION_COMPARE) {
		compare(turn, info);
		admission_wait_read(turn, member);
	} else
		describe(turn, member, info);
	judge_when_all_answered(turn);
}

void admission_query_left(struct turn *turn)
{
	if (blame_leaver(turn))
		admission_end_life(turn);
	else if (turn->admission->query != ADMISSION_QUIET)
		judge_when_all_answered(turn);
}
