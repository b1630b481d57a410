/* SPDX-License-Identifier: Apache-2.0 */
/* slow_round.c - see slow_admission.h: R-CT-36 to R-CT-41, R-CT-56, R-CT-43, R-CT-44. */
#include <string.h>

#include "core/dense/misfit.h"
#include "search/slow_step.h"

#define MS_NS UINT64_C(1000000)
#define SECOND_NS (1000 * MS_NS)

uint32_t slow_reached[SLOW_REACHED];

static uint64_t patience_ns(const struct slow_step *step)
{
	return slow_silence_ns(step) > 3 * SECOND_NS ? slow_silence_ns(step) : 3 * SECOND_NS;
}

static void ask(struct slow_step *step, enum admission_query query, uint64_t from)
{
	struct slow_admission *slow = step->slow;

	slow->query = query;
	slow->from = from;
	slow->round++;
	slow->answers = 0;
	slow->page_ns = step->event->now_ns;
	for (uint32_t i = 0; i < slow->count; i++) {
		struct slow_said *said;

		slow->people[i].has_answered = false;
		if (slow->people[i].place != SLOW_READY)
			continue;
		said = slow_say(slow, &slow->people[i], CONTROL_QUERY);
		said->number = slow->round;
		said->from = from;
	}
}

void slow_round_begin(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	if (slow->query != ADMISSION_QUIET ||
	    (slow->mismatch == SLOW_AGREED && !slow->wish.is_stalled))
		return;
	if (slow->mismatch == SLOW_WANTED)
		slow->mismatch = SLOW_COVERED;
	slow->about = slow->wish;
	slow->wish = (struct slow_wish){ 0 };
	slow->asked_ns = step->event->now_ns;
	ask(step, ADMISSION_COMPARE, 0);
}

static void end(struct slow_admission *slow)
{
	slow->query = ADMISSION_QUIET;
	slow->about = (struct slow_wish){ 0 };
	if (slow->mismatch == SLOW_COVERED)
		slow->mismatch = SLOW_AGREED;
	for (uint32_t i = 0; i < slow->count; i++)
		slow->people[i].about = SLOW_UNKNOWN;
}

void slow_round_forget(struct slow_admission *slow)
{
	end(slow);
	slow->mismatch = SLOW_AGREED;
	slow->wish = (struct slow_wish){ 0 };
	slow->complete = 0;
}

/* ---- R-CT-38: of all answers ---- */

/* The smallest number from `from` on that somebody lists; UINT64_MAX: none. */
static uint64_t next_listed(const struct slow_admission *slow, uint64_t from)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < slow->count; i++)
		for (uint32_t k = 0; k < slow->people[i].ops_count; k++)
			if (slow->people[i].has_answered && slow->people[i].ops[k].number >= from &&
			    slow->people[i].ops[k].number < next)
				next = slow->people[i].ops[k].number;
	return next;
}

/* Where somebody's list was cut, or more numbers than there is room for begin. */
static uint64_t comparable_end(const struct slow_step *step)
{
	const struct slow_admission *slow = step->slow;
	uint64_t page_end = UINT64_MAX, number = next_listed(slow, slow->from);

	for (uint32_t i = 0; i < step->config->ops_max && number != UINT64_MAX; i++)
		number = next_listed(slow, number + 1);
	page_end = number;
	for (uint32_t i = 0; i < slow->count; i++) {
		const struct slow_person *person = &slow->people[i];
		uint64_t cut;

		if (!person->has_answered || !person->has_more || !person->ops_count)
			continue;
		cut = person->ops[person->ops_count - 1].number + 1;
		if (cut > slow->from && cut < page_end)
			page_end = cut;
	}
	return page_end;
}

static uint64_t first_difference(const struct slow_admission *slow, uint64_t page_end)
{
	uint64_t number = next_listed(slow, slow->from);

	for (; number < page_end; number = next_listed(slow, number + 1))
		for (uint32_t a = 0; a < slow->count; a++)
			for (uint32_t b = 0; b < a; b++) {
				const struct control_op *one =
					slow_call_of(&slow->people[a], number);
				const struct control_op *other =
					slow_call_of(&slow->people[b], number);

				if (one && other && !slow_is_same_call(one, other))
					return number;
			}
	return UINT64_MAX;
}

/* ---- verdicts ---- */

/* R-CT-40 */
static bool has_left_early(struct slow_admission *slow)
{
	const struct slow_person *leaver = NULL, *caller = NULL;

	for (uint32_t rank = 0; rank < slow->size; rank++) {
		const struct slow_person *person = slow_member(slow, rank);

		if (!person)
			continue;
		if (person->place == SLOW_LEFT &&
		    (!leaver || person->submitted < leaver->submitted))
			leaver = person;
		if (person->place == SLOW_READY &&
		    (!caller || person->submitted > caller->submitted))
			caller = person;
	}
	if (!leaver || !caller || caller->submitted <= leaver->submitted)
		return false;
	slow_blame(slow, CONTROL_REMOTE, leaver->rank);
	slow_name(slow, leaver);
	slow_text(slow, " left after %llu operations; ", (unsigned long long)leaver->submitted);
	slow_name(slow, caller);
	slow_text(slow, " has called %llu", (unsigned long long)caller->submitted);
	slow_reached[SLOW_REACHED_LEAVER]++;
	return true;
}

/* R-CT-44 */
static bool has_forgotten(struct slow_admission *slow)
{
	for (uint32_t rank = 0; rank < slow->size; rank++) {
		const struct slow_person *person = slow_member(slow, rank), *other;

		if (person->place != SLOW_READY || person->submitted >= slow->complete)
			continue;
		slow_blame(slow, CONTROL_INTERNAL, CONTROL_RANK_NONE);
		slow_name(slow, person);
		slow_text(slow, " says that it has called %llu operations, ",
			  (unsigned long long)person->submitted);
		other = slow_member(slow, slow->complete_rank);
		slow_name(slow, other);
		slow_text(slow, " that %llu are complete: one of them is wrong",
			  (unsigned long long)slow->complete);
		slow_reached[SLOW_REACHED_FORGETFUL]++;
		return true;
	}
	return false;
}

static uint64_t second_largest_submitted(struct slow_admission *slow)
{
	uint64_t second = 0;

	for (uint32_t a = 0; a < slow->size; a++)
		for (uint32_t b = 0; b < a; b++) {
			uint64_t one = slow_member(slow, a)->submitted;
			uint64_t other = slow_member(slow, b)->submitted;
			uint64_t less = one < other ? one : other;

			if (less > second)
				second = less;
		}
	return second;
}

static uint64_t about_number(const struct slow_admission *slow)
{
	return slow->about.is_expired ? slow->about.expired : slow->about.stall;
}

static bool is_complete_everywhere(const struct slow_admission *slow)
{
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow->people[i].place == SLOW_READY && slow->people[i].about != SLOW_COMPLETE)
			return false;
	return true;
}

static bool is_somewhere_unknown(const struct slow_admission *slow)
{
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow->people[i].place == SLOW_READY && slow->people[i].about == SLOW_UNKNOWN)
			return true;
	return false;
}

static bool has_not_called(const struct slow_admission *slow, const struct slow_person *person)
{
	return (person->has_answered || person->place == SLOW_LEFT) &&
	       person->submitted <= about_number(slow);
}

static uint64_t not_called(struct slow_admission *slow)
{
	uint64_t ranks = 0;

	for (uint32_t rank = 0; rank < slow->size; rank++)
		if (has_not_called(slow, slow_member(slow, rank)))
			ranks |= 1ull << rank;
	return ranks;
}

static void say_waiting(struct slow_admission *slow)
{
	slow->waiting = (struct control_waiting){
		.number = about_number(slow),
		.waited_ms = slow->about.is_expired ? slow->about.expired_ms : slow->about.stall_ms,
	};
	for (uint32_t rank = 0; rank < slow->size; rank++) {
		const struct slow_person *person = slow_member(slow, rank);

		if (has_not_called(slow, person))
			slow->waiting.missing[slow->waiting.missing_count++] = (uint16_t)rank;
		if (person->place == SLOW_READY)
			slow_say(slow, person, CONTROL_WAITING);
	}
	slow->waiting.listed_count = slow->waiting.missing_count;
	slow->text[0] = 0;
	slow_text(slow, "operation %llu ", (unsigned long long)about_number(slow));
	if (not_called(slow)) {
		slow_text(slow, "waits for ");
		slow_ranks(slow, not_called(slow));
	} else {
		slow_text(slow, is_complete_everywhere(slow) ? "is complete on all ranks"
							     : "is under way on all ranks");
	}
	slow_text(slow, ", for ");
	slow_seconds(slow, slow->waiting.waited_ms);
	strcpy(slow->waiting.text, slow->text);
	slow->text[0] = 0;
	slow_log(slow, ADMISSION_LOG_DEBUG, "%s", slow->waiting.text);
	slow_reached[not_called(slow) ? SLOW_REACHED_WAITS_FOR : SLOW_REACHED_WAITS]++;
}

/* R-CT-56 */
static void blame_deadline(struct slow_admission *slow)
{
	uint64_t missing = not_called(slow), silent = 0;

	for (uint32_t i = 0; i < slow->count; i++)
		if (slow->people[i].place == SLOW_READY && !slow->people[i].has_answered)
			silent |= 1ull << slow->people[i].rank;
	slow_blame(slow, CONTROL_TIMEOUT, CONTROL_RANK_NONE);
	slow_text(slow, "the deadline of operation %llu is over, ",
		  (unsigned long long)about_number(slow));
	slow_seconds(slow, slow->about.expired_ms);
	slow_text(slow, " after ");
	slow_name(slow, slow_member(slow, slow->about.expired_rank));
	slow_text(slow, " called it: ");
	if (missing)
		slow_text(slow, "not called yet by ");
	slow_ranks(slow, missing);
	if (silent) {
		slow_text(slow, "%sno answer from ", missing ? "; " : "");
		slow_ranks(slow, silent);
	}
	if (!missing && !silent)
		slow_text(slow, "all ranks have called it, the network or one of them is slow");
	slow_reached[missing && silent ? SLOW_REACHED_DEADLINE_BOTH
		     : missing         ? SLOW_REACHED_DEADLINE_MISSING
		     : silent          ? SLOW_REACHED_DEADLINE_SILENT
				       : SLOW_REACHED_DEADLINE]++;
}

/* ---- R-CT-43 ---- */

static void forget_still(struct slow_person *person)
{
	person->is_still = false;
}

void slow_round_slept(struct slow_step *step)
{
	step->slow->asked_ns = step->event->now_ns;
	step->slow->page_ns = step->event->now_ns;
	for (uint32_t i = 0; i < step->slow->count; i++)
		forget_still(&step->slow->people[i]);
}

static bool is_unexplained(struct slow_step *step, const struct slow_person *person)
{
	for (uint32_t rank = 0; rank < step->slow->size; rank++)
		if (slow_member(step->slow, rank)->submitted <= person->still_number)
			return false;
	return person->oldest == person->still_number &&
	       step->event->now_ns - person->still_said_ns <= 2500 * MS_NS;
}

static void say_misfits(struct slow_admission *slow, const struct slow_person *person)
{
	static const char *const words[MISFIT_COUNT] = {
		"?",
		"another version",
		"no packet for an aggregator",
		"a number of lanes that there is not",
		"another length than they say",
		"flags that there are not",
		"a slot that there is not",
		"more lanes than agreed",
		"another tag, round or number of lanes than the others'",
		"rounds ahead of the others",
		"rounds for which others had no result yet",
	};

	slow_name(slow, person);
	slow_text(slow, " sent %u or more packets that do not fit (%s)", person->misfits,
		  words[person->misfit < MISFIT_COUNT ? person->misfit : 0]);
}

void slow_round_misfit(struct slow_step *step, struct slow_person *person)
{
	struct slow_admission *slow = step->slow;

	person->misfits = step->event->count;
	person->misfit = step->event->misfit;
	slow->text[0] = 0;
	say_misfits(slow, person);
	slow_log_text(slow, ADMISSION_LOG_LIMITED);
}

static void blame_standstill(struct slow_step *step, uint64_t number, uint64_t since_ns)
{
	struct slow_admission *slow = step->slow;
	uint64_t without = 0, suspects = 0;
	const char *before = "";

	for (uint32_t rank = 0; rank < slow->size; rank++) {
		const struct slow_person *person = slow_member(slow, rank);

		if (person->is_still && person->still_number == number)
			without |= 1ull << rank;
		if (person->misfits)
			suspects |= 1ull << rank;
	}
	slow_blame(slow, CONTROL_TIMEOUT,
		   __builtin_popcountll(suspects) == 1 ? (uint32_t)__builtin_ctzll(suspects)
						       : CONTROL_RANK_NONE);
	slow_text(slow, "operation %llu stands still: all ranks have called it, and ",
		  (unsigned long long)number);
	slow_ranks(slow, without);
	slow_text(slow, " had no result for ");
	slow_seconds(slow, (step->event->now_ns - since_ns) / MS_NS);
	slow_text(slow, "; ");
	for (uint32_t rank = 0; rank < slow->size; rank++) {
		if (!(suspects >> rank & 1))
			continue;
		slow_text(slow, "%s", before);
		say_misfits(slow, slow_member(slow, rank));
		before = ", ";
	}
	if (!suspects)
		slow_text(slow, "the aggregator refused no packet of any rank: the network loses "
				"them, or a rank sends none");
	slow_reached[!suspects                             ? SLOW_REACHED_STILL
		     : __builtin_popcountll(suspects) == 1 ? SLOW_REACHED_STILL_ONE
							   : SLOW_REACHED_STILL_MORE]++;
}

static bool is_standstill(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	struct slow_person *longest = NULL;

	if (step->event->now_ns - slow->asked_ns > SECOND_NS) {
		for (uint32_t i = 0; i < slow->count; i++)
			forget_still(&slow->people[i]);
		return false;
	}
	for (uint32_t rank = 0; rank < slow->size; rank++) {
		struct slow_person *person = slow_member(slow, rank);

		if (person->place != SLOW_READY || !person->is_still)
			continue;
		if (!is_unexplained(step, person))
			forget_still(person);
		else if (!longest || person->still_ns < longest->still_ns)
			longest = person;
	}
	if (!longest || step->event->now_ns - longest->still_ns < patience_ns(step))
		return false;
	blame_standstill(step, longest->still_number, longest->still_ns);
	return true;
}

/* ---- the round ---- */

static void go_on(struct slow_step *step)
{
	end(step->slow);
	slow_round_begin(step);
}

static void nobody_is_wrong(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	if (slow->about.is_stalled)
		say_waiting(slow);
	for (uint32_t rank = 0; rank < slow->size; rank++) {
		const struct slow_person *person = slow_member(slow, rank);

		if (person->place != SLOW_READY || person->oldest <= slow->complete)
			continue;
		slow->complete = person->oldest;
		slow->complete_rank = rank;
	}
	go_on(step);
}

static void judge(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	uint64_t page_end, differs;

	if (slow->query == ADMISSION_DESCRIBE) {
		slow_judge_description(step);
		slow_end_life(step);
		return;
	}
	page_end = comparable_end(step);
	differs = first_difference(slow, page_end);
	if (differs != UINT64_MAX) {
		ask(step, ADMISSION_DESCRIBE, differs);
	} else if (has_left_early(slow) || has_forgotten(slow)) {
		slow_end_life(step);
	} else if (page_end < second_largest_submitted(slow)) {
		ask(step, ADMISSION_COMPARE, page_end);
		slow_reached[SLOW_REACHED_PAGE]++;
	} else if (slow->mismatch == SLOW_COVERED) {
		slow_blame_nobody(step);
		slow_end_life(step);
	} else if (slow->about.is_expired && is_somewhere_unknown(slow) &&
		   slow->from != about_number(slow)) {
		ask(step, ADMISSION_COMPARE, about_number(slow));
		slow_reached[SLOW_REACHED_PAGE_ABOUT]++;
	} else if (slow->about.is_expired && !is_complete_everywhere(slow)) {
		blame_deadline(slow);
		slow_end_life(step);
	} else if (is_standstill(step)) {
		slow_end_life(step);
	} else {
		nobody_is_wrong(step);
	}
}

static void judge_if_all_answered(struct slow_step *step)
{
	for (uint32_t i = 0; i < step->slow->count; i++)
		if (step->slow->people[i].place == SLOW_READY &&
		    !step->slow->people[i].has_answered)
			return;
	judge(step);
}

void slow_round_left(struct slow_step *step)
{
	if (has_left_early(step->slow))
		slow_end_life(step);
	else if (step->slow->query != ADMISSION_QUIET)
		judge_if_all_answered(step);
}

/* Complete is what was called and is not listed, where the list is whole. */
static void read_about(const struct slow_admission *slow, struct slow_person *person)
{
	uint64_t about = about_number(slow), known_end = UINT64_MAX;

	if (slow_call_of(person, about) || person->submitted <= about) {
		person->about = SLOW_OUTSTANDING;
		return;
	}
	if (person->has_more)
		known_end = person->ops_count ? person->ops[person->ops_count - 1].number + 1
					      : slow->from;
	if (person->oldest > about || (slow->from <= about && about < known_end))
		person->about = SLOW_COMPLETE;
}

void slow_round_opinfo(struct slow_step *step, struct slow_person *person)
{
	const struct control_opinfo *info = &step->event->message->opinfo;

	if (step->slow->query == ADMISSION_QUIET || info->round != step->slow->round ||
	    person->has_answered)
		return;
	person->has_answered = true;
	person->answer = ++step->slow->answers;
	person->submitted = info->submitted;
	person->oldest = info->oldest;
	person->has_more = info->has_more;
	person->ops_count = info->ops_count;
	memcpy(person->ops, info->ops, info->ops_count * sizeof(*info->ops));
	if (step->slow->query == ADMISSION_COMPARE)
		read_about(step->slow, person);
	judge_if_all_answered(step);
}

static void note_still(struct slow_step *step, struct slow_person *person)
{
	const uint64_t now_ns = step->event->now_ns;
	const uint64_t number = step->event->message->stall.number;
	const uint64_t told_ns = step->event->message->stall.still_ms * MS_NS;

	if (!person->is_still || person->still_number != number ||
	    now_ns - person->still_said_ns > 2500 * MS_NS) {
		person->is_still = true;
		person->still_number = number;
		person->still_ns = now_ns;
	}
	if (now_ns - person->still_ns > told_ns)
		person->still_ns = now_ns - told_ns;
	person->still_said_ns = now_ns;
}

void slow_round_stall(struct slow_step *step, struct slow_person *person)
{
	struct slow_admission *slow = step->slow;
	struct slow_wish *wish = &slow->wish;
	uint64_t number = step->event->message->stall.number;
	uint32_t waited_ms = step->event->message->stall.waited_ms;
	bool is_expired = step->event->message->stall.is_expired;

	if (!is_expired)
		note_still(step, person);
	if (is_expired && !wish->is_expired) {
		wish->is_expired = true;
		wish->expired = number;
		wish->expired_ms = waited_ms;
		wish->expired_rank = person->rank;
	}
	if (!wish->is_stalled || number < wish->stall) {
		wish->stall = number;
		wish->stall_ms = 0;
	}
	wish->is_stalled = true;
	if (number == wish->stall && waited_ms > wish->stall_ms)
		wish->stall_ms = waited_ms;
	/* R-CT-56: a deadline does not wait for a round that is about something else. */
	if (wish->is_expired && slow->query != ADMISSION_QUIET && !slow->about.is_expired) {
		if (slow->mismatch != SLOW_AGREED)
			slow->mismatch = SLOW_WANTED;
		end(slow);
	}
	slow_round_begin(step);
}

bool slow_round_tick(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	if (slow->query == ADMISSION_QUIET)
		return false;
	if (slow->about.is_expired && step->event->now_ns >= slow->asked_ns + SECOND_NS) {
		if (is_complete_everywhere(slow)) {
			say_waiting(slow);
			go_on(step);
			slow_reached[SLOW_REACHED_COMPLETE_MEANWHILE]++;
		} else {
			blame_deadline(slow);
			slow_end_life(step);
		}
		return true;
	}
	if (step->event->now_ns < slow->page_ns + patience_ns(step))
		return false;
	for (uint32_t rank = 0; rank < slow->size; rank++) {
		const struct slow_person *person = slow_member(slow, rank);

		if (person->place != SLOW_READY || person->has_answered)
			continue;
		slow_blame(slow, CONTROL_REMOTE, rank);
		slow_name(slow, person);
		slow_text(slow, " is heard, but has not said for %llu ms what it has called",
			  (unsigned long long)(patience_ns(step) / MS_NS));
		slow_end_life(step);
		slow_reached[SLOW_REACHED_UNANSWERED]++;
		return true;
	}
	return false;
}

uint64_t slow_round_wake_ns(const struct slow_step *step)
{
	const struct slow_admission *slow = step->slow;
	uint64_t wake_ns = slow->page_ns + patience_ns(step);

	if (slow->query == ADMISSION_QUIET)
		return UINT64_MAX;
	if (slow->about.is_expired && slow->asked_ns + SECOND_NS < wake_ns)
		wake_ns = slow->asked_ns + SECOND_NS;
	return wake_ns;
}
