/* SPDX-License-Identifier: Apache-2.0 */
/* slow_time.c - see slow_admission.h: silence, patience, and what is said now and then. */
#include "search/slow_step.h"

#define MS_NS UINT64_C(1000000)
#define SECOND_NS (1000 * MS_NS)

static uint64_t missing_ranks(struct slow_admission *slow)
{
	uint64_t ranks = 0;

	for (uint32_t rank = 0; rank < slow->size; rank++)
		ranks |= slow_member(slow, rank) ? 0 : 1ull << rank;
	return ranks;
}

static void add_unfit(struct slow_admission *slow)
{
	if (slow->unfit_cause)
		slow_text(slow, "; denied meanwhile: %s", slow->unfit_text);
}

/* R-CT-13 */
static void late(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	uint64_t unready = 0;

	slow_blame(slow, CONTROL_TIMEOUT, CONTROL_RANK_NONE);
	slow_text(slow, "job \"%s\" of %u: ", step->config->job, slow->size);
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow->people[i].place == SLOW_JOINED)
			unready |= 1ull << slow->people[i].rank;
	if (slow->state == ADMISSION_GATHER) {
		slow_ranks(slow, missing_ranks(slow));
		slow_text(slow, " did not come in time");
		add_unfit(slow);
		slow_end_gathering(step, CONTROL_ABORT);
	} else if (slow->state == ADMISSION_GRANTED) {
		slow_ranks(slow, unready);
		slow_text(slow, " did not get ready in time");
		slow_end_life(step);
	} else if (slow->state == ADMISSION_ENABLING) {
		slow_text(slow, "the aggregator's shards did not get ready in time");
		slow_end_life(step);
	}
}

static uint64_t beat_ns(const struct slow_step *step)
{
	uint64_t fifth_ns = step->config->heartbeat_ns / 5;

	return fifth_ns < 2 * SECOND_NS ? fifth_ns : 2 * SECOND_NS;
}

uint64_t slow_silence_ns(const struct slow_step *step)
{
	return step->config->heartbeat_ns + 2 * beat_ns(step);
}

/* R-CT-9: who waits or has not said READY does not know a shorter time. */
static uint64_t limit_of(const struct slow_step *step, const struct slow_person *person)
{
	uint64_t limit_ns = slow_silence_ns(step);

	if ((person->place == SLOW_WAITS || person->place == SLOW_JOINED) &&
	    limit_ns < 10 * SECOND_NS)
		return 10 * SECOND_NS;
	return limit_ns;
}

bool slow_is_heard(const struct slow_step *step, const struct slow_person *person)
{
	return person->heard_ns + limit_of(step, person) > step->event->now_ns;
}

static bool is_silent(const struct slow_step *step, const struct slow_person *person)
{
	if (person->place == SLOW_LEFT)
		return false;
	return !slow_is_heard(step, person) ||
	       person->spoke_ns + 3 * limit_of(step, person) <= step->event->now_ns;
}

void slow_heard(struct slow_step *step)
{
	struct slow_person *person = slow_member(step->slow, step->event->rank);

	if (slow_is_running(step->slow) && person && slow_is_in(person))
		person->heard_ns = step->event->now_ns;
}

/* Members by rank, then who waits, by age. */
struct slow_person *slow_first_silent(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	if (slow->state == ADMISSION_DRAIN)
		return NULL;
	for (uint32_t rank = 0; rank < slow->size; rank++) {
		struct slow_person *person = slow_member(slow, rank);

		if (person && is_silent(step, person))
			return person;
	}
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow->people[i].place == SLOW_WAITS && is_silent(step, &slow->people[i]))
			return &slow->people[i];
	return NULL;
}

/* When somebody's patience is over; UINT64_MAX: never. */
static uint64_t late_ns(const struct slow_step *step)
{
	const struct slow_admission *slow = step->slow;
	uint64_t late_ns = UINT64_MAX;
	bool has_ready = false;

	if (slow->state == ADMISSION_NONE || slow->state > ADMISSION_ENABLING)
		return late_ns;
	for (uint32_t i = 0; i < slow->count; i++) {
		const struct slow_person *person = &slow->people[i];
		uint64_t its_ns = person->joined_ns + person->timeout_ms * MS_NS;

		if (!person->timeout_ms)
			its_ns = step->config->gather_ns + (slow->state == ADMISSION_GATHER
								    ? person->joined_ns
								    : slow->since_ns);
		if (slow_is_in(person) && its_ns < late_ns)
			late_ns = its_ns;
		has_ready |= person->place == SLOW_READY;
	}
	return late_ns + (slow->state == ADMISSION_GRANTED && !has_ready ? SECOND_NS : 0);
}

/* R-CT-15, R-CT-23: a second after the last of those who have a launcher's name has come, but while all are patient. */
uint64_t slow_start_ns(const struct slow_step *step)
{
	const struct slow_admission *slow = step->slow;
	uint64_t start_ns = 0, patient_ns = late_ns(step);

	if (slow->state != ADMISSION_ENABLING || !slow_have_all_acked(step))
		return UINT64_MAX;
	for (uint32_t i = 0; i < slow->count; i++) {
		const struct slow_person *person = &slow->people[i];

		if (!slow_is_in(person) || !person->is_launched || step->config->life ||
		    slow->size < 2)
			continue;
		for (uint32_t k = 0; k < slow->count; k++)
			if (slow_is_in(&slow->people[k]) &&
			    slow->people[k].joined_ns + SECOND_NS > start_ns)
				start_ns = slow->people[k].joined_ns + SECOND_NS;
	}
	return start_ns < patient_ns ? start_ns : patient_ns;
}

uint64_t slow_wake_ns(const struct slow_step *step)
{
	const struct slow_admission *slow = step->slow;
	uint64_t round_ns = slow_round_wake_ns(step), wake_ns = late_ns(step);

	if (round_ns < wake_ns)
		wake_ns = round_ns;
	if (slow_start_ns(step) < wake_ns)
		wake_ns = slow_start_ns(step);
	if (slow->state != ADMISSION_NONE || slow_waiters(slow))
		wake_ns = slow->beat_ns + beat_ns(step) < wake_ns ? slow->beat_ns + beat_ns(step)
								  : wake_ns;
	return wake_ns;
}

static void say_to_waiting(struct slow_admission *slow, uint32_t what, bool is_to_members)
{
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow->people[i].place == SLOW_WAITS ||
		    (is_to_members && slow_is_in(&slow->people[i])))
			slow_say(slow, &slow->people[i], what);
}

static const char *how_it_ended(uint32_t cause)
{
	if (cause == CONTROL_DENIED || cause == CONTROL_VERSION_BAD || cause == CONTROL_NO_RESOURCE)
		return "it was denied";
	if (cause == CONTROL_MISMATCH)
		return "its ranks called different operations";
	if (cause == CONTROL_TIMEOUT)
		return "not all came in time";
	return cause == CONTROL_REMOTE ? "a member was lost" : "an error";
}

static void progress(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	slow->progress_ns = step->event->now_ns;
	slow->text[0] = 0;
	slow_text(slow, "job \"%s\": ", step->config->job);
	if (slow->state == ADMISSION_GATHER) {
		slow_text(slow, "waiting for ");
		slow_ranks(slow, missing_ranks(slow));
		slow_text(slow, " of %u", slow->size);
		add_unfit(slow);
	} else {
		slow_text(slow, "waiting until a job of this name and %u ranks has ended",
			  slow->size);
	}
	if (slow->last_cause != CONTROL_OK)
		slow_text(slow, "; the last one ended with: %s", how_it_ended(slow->last_cause));
	if (slow->last_cause != CONTROL_OK && slow->last_rank != CONTROL_RANK_NONE)
		slow_text(slow, " (rank %u)", slow->last_rank);
	slow_log_text(slow, ADMISSION_LOG_INFO);
	say_to_waiting(slow, CONTROL_PROGRESS, slow->state == ADMISSION_GATHER);
}

/* R-CT-12: the first who can do anything but wait. */
struct slow_person *slow_next_to_move(struct slow_admission *slow)
{
	for (uint32_t i = 0; i < slow->count; i++) {
		struct slow_person *waiter = &slow->people[i];

		if (waiter->place != SLOW_WAITS)
			continue;
		if (slow->state == ADMISSION_NONE ||
		    (slow->state == ADMISSION_GATHER &&
		     (waiter->size != slow->size || !slow_member(slow, waiter->rank))) ||
		    (!waiter->asked && slow_holder_of(slow, waiter)))
			return waiter;
	}
	return NULL;
}

static void next_moves(struct slow_step *step)
{
	struct slow_person *waiter = slow_next_to_move(step->slow), comer;
	bool is_apart;

	if (!waiter)
		return;
	is_apart = step->slow->state == ADMISSION_GATHER && waiter->size != step->slow->size;
	if (slow_holder_of(step->slow, waiter) && !is_apart) {
		slow_ping_both(step->slow, waiter);
		return;
	}
	comer = *waiter;
	slow_drop(step->slow, waiter);
	slow_admit(step, comer);
}

/* One thing at a time: each has its own text. */
void slow_tick(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	uint64_t now_ns = step->event->now_ns;
	struct slow_person *person;

	if (now_ns - slow->tick_ns >= step->config->heartbeat_ns / 4) {
		for (uint32_t i = 0; i < slow->count; i++)
			slow->people[i].heard_ns = slow->people[i].spoke_ns = now_ns;
		slow_round_slept(step);
	}
	slow->tick_ns = now_ns;
	if (now_ns - slow->beat_ns >= beat_ns(step)) {
		slow->beat_ns = now_ns;
		say_to_waiting(slow, CONTROL_HEARTBEAT, slow->state != ADMISSION_DRAIN);
	}
	person = slow_first_silent(step);
	if (person) {
		slow_silent(step, person);
	} else if (slow_round_tick(step) || slow_start(step)) {
		return;
	} else if (now_ns >= late_ns(step)) {
		late(step);
	} else if ((slow->state == ADMISSION_GATHER || slow_waiters(slow)) &&
		   now_ns - slow->progress_ns >= 10 * SECOND_NS) {
		progress(step);
	} else {
		next_moves(step);
	}
}
