/* SPDX-License-Identifier: Apache-2.0 */
/* slow_differ.c - see slow_admission.h: programs that differ, R-CT-39 and R-CT-41. */
#include <string.h>

#include "search/slow_step.h"

bool slow_is_same_call(const struct control_op *a, const struct control_op *b)
{
	return a->kind == b->kind && a->type == b->type && a->op == b->op && a->count == b->count &&
	       a->root == b->root && a->stream == b->stream && !strcmp(a->name, b->name);
}

/* What `person` calls this number; NULL: it has not said. */
const struct control_op *slow_call_of(const struct slow_person *person, uint64_t number)
{
	for (uint32_t i = 0; i < person->ops_count && person->has_answered; i++)
		if (person->ops[i].number == number)
			return &person->ops[i];
	return NULL;
}

/* R-CT-41: a switch saw what no member knows of. */
void slow_blame_nobody(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	uint32_t a = slow->mismatch_rank, b = slow->mismatch_other;

	slow_reached[SLOW_REACHED_NOBODY]++;
	slow_blame(slow, CONTROL_INTERNAL, CONTROL_RANK_NONE);
	slow_text(slow, "packets of ");
	if (a < slow->size && b < slow->size) {
		slow_name(slow, slow_member(slow, a));
		slow_text(slow, " and of ");
		slow_name(slow, slow_member(slow, b));
	} else {
		slow_text(slow, "two ranks");
	}
	slow_text(slow,
		  " differ although their calls agree: an internal error (job \"%s\", "
		  "generation %u)",
		  step->config->job, slow->generation);
}

static void blame_change(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	slow_reached[SLOW_REACHED_CHANGE]++;
	slow_blame(slow, CONTROL_INTERNAL, CONTROL_RANK_NONE);
	slow_text(slow,
		  "the ranks' calls of operation %llu differed when they were asked, and do not "
		  "any more: an internal error (job \"%s\", generation %u)",
		  (unsigned long long)slow->from, step->config->job, slow->generation);
}

/* What was called as this number, in the order of the answers, and by whom. */
struct kinds {
	const struct control_op *call[SLOW_PEOPLE];
	uint64_t ranks[SLOW_PEOPLE], missing;
	uint32_t count;
	bool has_more; /* the last one stands for others too */
};

static void kinds_find(const struct slow_step *step, struct kinds *kinds)
{
	struct slow_admission *slow = step->slow;

	*kinds = (struct kinds){ .missing = (1ull << slow->size) - 1 };
	for (uint32_t answer = 1; answer <= slow->answers; answer++)
		for (uint32_t rank = 0; rank < slow->size; rank++) {
			const struct slow_person *person = slow_member(slow, rank);
			const struct control_op *call = slow_call_of(person, slow->from);
			uint32_t kind = 0;

			if (!call || person->answer != answer)
				continue;
			while (kind < kinds->count && !slow_is_same_call(call, kinds->call[kind]))
				kind++;
			kinds->missing &= ~(1ull << rank);
			if (kind == step->config->groups_max) {
				kinds->has_more = true;
				kind--;
			} else if (kind == kinds->count) {
				kinds->call[kinds->count++] = call;
			}
			kinds->ranks[kind] |= 1ull << rank;
		}
}

static void say_kind(struct slow_step *step, const struct kinds *kinds, uint32_t kind)
{
	struct slow_admission *slow = step->slow;
	uint32_t ranks = (uint32_t)__builtin_popcountll(kinds->ranks[kind]);

	if (ranks > 2)
		slow_runs(slow, kinds->ranks[kind]);
	else
		slow_ranks(slow, kinds->ranks[kind]);
	slow_text(slow, ranks == 1 ? " calls " : " call ");
	slow_call(slow, kinds->call[kind]);
	if (kinds->has_more && kind == kinds->count - 1)
		slow_text(slow, " or others");
}

/* R-CT-39: the others are the only most, if all have called it. */
static void say_difference(struct slow_step *step, const struct kinds *kinds)
{
	struct slow_admission *slow = step->slow;
	uint32_t others = kinds->count;
	const char *before = "";

	for (uint32_t a = 0; a < kinds->count && !kinds->missing && !kinds->has_more; a++) {
		bool is_most = true;

		for (uint32_t b = 0; b < kinds->count; b++)
			is_most &= a == b || __builtin_popcountll(kinds->ranks[b]) <
						     __builtin_popcountll(kinds->ranks[a]);
		if (is_most)
			others = a;
	}
	slow_text(slow, "operation %llu differs: ", (unsigned long long)slow->from);
	for (uint32_t kind = 0; kind < kinds->count; kind++) {
		if (kind == others)
			continue;
		slow_text(slow, "%s", before);
		say_kind(step, kinds, kind);
		before = "; ";
	}
	if (others < kinds->count) {
		slow_text(slow, "; the others: ");
		say_kind(step, kinds, others);
	}
	if (kinds->missing) {
		slow_text(slow, "; not called yet by ");
		slow_ranks(slow, kinds->missing);
	}
	slow_reached[kinds->has_more          ? SLOW_REACHED_MORE_KINDS
		     : kinds->missing         ? SLOW_REACHED_NOT_CALLED
		     : others == kinds->count ? SLOW_REACHED_TIE
					      : SLOW_REACHED_OTHERS]++;
}

/* R-CT-39: one is odd if all have called it, and all others alike. */
void slow_judge_description(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	const struct control_op *calls[SLOW_PEOPLE] = { 0 };
	uint32_t odd = CONTROL_RANK_NONE, alike[SLOW_PEOPLE] = { 0 };
	struct kinds kinds;
	bool have_all = true;

	kinds_find(step, &kinds);

	for (uint32_t rank = 0; rank < slow->size; rank++) {
		calls[rank] = slow_call_of(slow_member(slow, rank), slow->from);
		have_all &= !!calls[rank];
	}
	if (kinds.count < 2) { /* somebody describes it otherwise now */
		if (slow->mismatch == SLOW_COVERED)
			slow_blame_nobody(step);
		else
			blame_change(step);
		return;
	}
	for (uint32_t rank = 0; rank < slow->size && have_all; rank++)
		for (uint32_t other = 0; other < slow->size; other++)
			alike[rank] += slow_is_same_call(calls[rank], calls[other]);
	for (uint32_t rank = 0; rank < slow->size && have_all; rank++)
		if (slow->size > 2 && alike[(rank + 1) % slow->size] == slow->size - 1 &&
		    alike[rank] == 1)
			odd = rank;
	slow_blame(slow, CONTROL_MISMATCH, kinds.has_more ? CONTROL_RANK_NONE : odd);
	slow_reached[SLOW_REACHED_ODD] += slow->cause_rank != CONTROL_RANK_NONE;
	say_difference(step, &kinds);
}
