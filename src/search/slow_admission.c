/* SPDX-License-Identifier: Apache-2.0 */
/* slow_admission.c - see slow_admission.h. How it ends, and what time does. */
#include "search/slow_admission.h"

#include <assert.h>
#include <string.h>

#include "search/slow_step.h"

#define MS_NS UINT64_C(1000000)
#define SECOND_NS (1000 * MS_NS)

/* ---- people ---- */

bool slow_is_in(const struct slow_person *person)
{
	return person->place == SLOW_JOINED || person->place == SLOW_READY;
}

struct slow_person *slow_member(struct slow_admission *slow, uint32_t rank)
{
	for (uint32_t i = 0; i < slow->count; i++)
		if ((slow_is_in(&slow->people[i]) || slow->people[i].place == SLOW_LEFT) &&
		    slow->people[i].rank == rank)
			return &slow->people[i];
	return NULL;
}

struct slow_person *slow_whose(struct slow_admission *slow, uint32_t connection)
{
	for (uint32_t i = 0; i < slow->count; i++)
		if (connection && slow->people[i].connection == connection)
			return &slow->people[i];
	return NULL;
}

void slow_drop(struct slow_admission *slow, struct slow_person *person)
{
	size_t behind = (size_t)(&slow->people[slow->count] - person) - 1;

	memmove(person, person + 1, behind * sizeof(*person));
	slow->count--;
}

uint32_t slow_waiters(const struct slow_admission *slow)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < slow->count; i++)
		count += slow->people[i].place == SLOW_WAITS;
	return count;
}

bool slow_is_running(const struct slow_admission *slow)
{
	return slow->state == ADMISSION_GRANTED || slow->state == ADMISSION_ENABLING ||
	       slow->state == ADMISSION_STARTED;
}

/* ---- what is said ---- */

struct slow_said *slow_say(struct slow_admission *slow, const struct slow_person *person,
			   uint32_t what)
{
	assert(slow->says < SLOW_SAYS);
	slow->said[slow->says] =
		(struct slow_said){ .connection = person->connection, .what = what };
	return &slow->said[slow->says++];
}

void slow_say_last(struct slow_admission *slow, struct slow_person *person, uint32_t what)
{
	slow_say(slow, person, what);
	slow_say(slow, person, SLOW_CLOSE);
}

void slow_name(struct slow_admission *slow, const struct slow_person *person)
{
	slow->names.hosts |= 1ull << person->host % 64;
	slow->names.ranks |= 1ull << person->rank % 64;
}

void slow_blame(struct slow_admission *slow, enum control_cause cause, uint32_t rank)
{
	slow->cause = cause;
	slow->cause_rank = rank;
	slow->names = (struct slow_names){ 0 };
}

void slow_blame_person(struct slow_admission *slow, enum control_cause cause,
		       const struct slow_person *person)
{
	slow_blame(slow, cause, person->rank);
	slow_name(slow, person);
}

void slow_command(struct slow_admission *slow, enum admission_command what)
{
	assert(!slow->has_command);
	slow->has_command = true;
	slow->command = what;
	slow->command_generation = slow->generation;
	memset(slow->acked, 0, sizeof(slow->acked));
}

bool slow_have_all_acked(const struct slow_step *step)
{
	for (uint32_t shard = 0; shard < step->config->shards; shard++)
		if (!step->slow->acked[shard])
			return false;
	return true;
}

void slow_enter(struct slow_step *step, enum admission_state state)
{
	step->slow->state = state;
	step->slow->since_ns = step->event->now_ns;
}

/* ---- R-CT-36: who is unfit ---- */

void slow_forget_unfit(struct slow_admission *slow)
{
	slow->unfit = 0;
	slow->unfit_ns = 0;
	slow->unfit_cause = 0;
	memset(slow->unfit_source, 0, sizeof(slow->unfit_source));
}

/* Nobody is left who could complete it. */
bool slow_is_hopeless(struct slow_admission *slow)
{
	bool is_missing = false;

	for (uint32_t rank = 0; rank < slow->size; rank++) {
		if (slow_member(slow, rank))
			continue;
		is_missing = true;
		if (!(slow->unfit >> rank & 1))
			return false;
	}
	return is_missing;
}

/* ---- ends ---- */

void slow_forget_claims(struct slow_admission *slow)
{
	for (uint32_t i = 0; i < slow->count; i++) {
		if (slow->people[i].place != SLOW_WAITS)
			continue;
		slow->people[i].asked = 0;
		slow->people[i].is_alive = false;
	}
}

/* Only who waits is kept. */
static void clear(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	uint32_t kept = 0;

	slow_enter(step, ADMISSION_NONE);
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow->people[i].place == SLOW_WAITS)
			slow->people[kept++] = slow->people[i];
	slow->count = kept;
	slow->size = 0;
	slow->generation = 0;
	slow->lanes = 0;
	slow_forget_unfit(slow);
	slow_forget_claims(slow);
}

static void remember_last(struct slow_admission *slow)
{
	slow->last_cause = slow->cause;
	slow->last_rank = slow->cause_rank;
}

void slow_clear_if_drained(struct slow_step *step)
{
	if (step->slow->state != ADMISSION_DRAIN || !slow_have_all_acked(step))
		return;
	for (uint32_t i = 0; i < step->slow->count; i++)
		if (step->slow->people[i].place == SLOW_TOLD)
			return;
	clear(step);
}

void slow_drain(struct slow_step *step)
{
	slow_enter(step, ADMISSION_DRAIN);
	slow_command(step->slow, ADMISSION_JOB_REMOVE);
	slow_round_forget(step->slow);
	slow_forget_claims(step->slow);
	slow_clear_if_drained(step);
}

void slow_end_life(struct slow_step *step)
{
	remember_last(step->slow);
	for (uint32_t i = 0; i < step->slow->count; i++) {
		struct slow_person *person = &step->slow->people[i];

		if (!slow_is_in(person))
			continue;
		slow_say_last(step->slow, person, CONTROL_ABORT);
		person->place = SLOW_TOLD;
	}
	slow_drain(step);
}

static void begin_refusal(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	slow->is_refusing = true;
	slow->refused_ns = step->event->now_ns;
	slow->refused = 0;
	slow->refused_cause = slow->cause;
	slow->refused_rank = slow->cause_rank;
	slow->refused_names = slow->names;
}

void slow_note_refused(struct slow_admission *slow, uint32_t rank)
{
	if (rank < 64)
		slow->refused |= 1ull << rank;
}

static void end_gathering(struct slow_step *step, enum control_type last)
{
	struct slow_admission *slow = step->slow;
	bool is_new = step->config->life && !slow->is_refusing;

	remember_last(slow);
	if (is_new)
		begin_refusal(step);
	for (uint32_t i = 0; i < slow->count; i++) {
		if (!slow_is_in(&slow->people[i]))
			continue;
		if (is_new)
			slow_note_refused(slow, slow->people[i].rank);
		slow_say_last(slow, &slow->people[i], last);
	}
	clear(step);
}

/* All who gather and who wait, and `comer`, who does neither. */
void slow_refuse_all(struct slow_step *step, struct slow_person *comer)
{
	struct slow_admission *slow = step->slow;

	begin_refusal(step);
	if (comer) {
		slow_note_refused(slow, comer->rank);
		slow_say_last(slow, comer, CONTROL_DENY);
	}
	for (uint32_t i = slow->count; i--;) {
		slow_note_refused(slow, slow->people[i].rank);
		if (slow->people[i].place != SLOW_WAITS)
			continue;
		slow_say_last(slow, &slow->people[i], CONTROL_DENY);
		slow_drop(slow, &slow->people[i]);
	}
	end_gathering(step, CONTROL_DENY);
}

/* R-CT-36: whoever was noted has heard it. */
void slow_refuse_hopeless(struct slow_step *step, struct slow_person *comer)
{
	uint64_t noted = step->slow->unfit;

	slow_refuse_all(step, comer);
	step->slow->refused |= noted;
}

/* R-CT-7, R-CT-35; slow->cause: as slow_blame said. */
static void gatherer_goes(struct slow_step *step, struct slow_person *person)
{
	struct slow_admission *slow = step->slow;

	slow_drop(slow, person);
	if (step->config->life) {
		slow_refuse_all(step, NULL);
		return;
	}
	slow_forget_claims(slow);
	if (slow->count == slow_waiters(slow))
		clear(step);
}

void slow_lose(struct slow_step *step, struct slow_person *person)
{
	if (step->slow->state == ADMISSION_GATHER) {
		gatherer_goes(step, person);
		return;
	}
	slow_drop(step->slow, person);
	slow_end_life(step);
}

static void closed(struct slow_step *step, struct slow_person *person)
{
	if (slow_is_in(person)) {
		slow_blame_person(step->slow, CONTROL_REMOTE, person);
		slow_lose(step, person);
		return;
	}
	slow_drop(step->slow, person);
	slow_clear_if_drained(step);
}

static void silent(struct slow_step *step, struct slow_person *person)
{
	bool is_gathering = step->slow->state == ADMISSION_GATHER;

	if (!slow_is_in(person) && person->place != SLOW_WAITS) {
		closed(step, person);
		return;
	}
	slow_blame_person(step->slow, CONTROL_REMOTE, person);
	slow_say_last(step->slow, person,
		      person->place == SLOW_WAITS || is_gathering ? CONTROL_DENY : CONTROL_ABORT);
	if (person->place == SLOW_WAITS)
		slow_drop(step->slow, person);
	else
		slow_lose(step, person);
}

/* R-CT-18 */
static void terminate(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	slow->is_terminating = true;
	slow_blame(slow, CONTROL_DENIED, CONTROL_RANK_NONE);
	slow->is_ending = true;
	for (uint32_t i = slow->count; i--;) {
		if (slow->people[i].place != SLOW_WAITS)
			continue;
		slow_say_last(slow, &slow->people[i], CONTROL_DENY);
		slow_drop(slow, &slow->people[i]);
	}
	if (slow->state == ADMISSION_GATHER)
		end_gathering(step, CONTROL_DENY);
}

/* R-CT-12 */
static void late(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	slow_blame(slow, CONTROL_TIMEOUT, CONTROL_RANK_NONE);
	for (uint32_t rank = 0; rank < slow->size; rank++) {
		const struct slow_person *person = slow_member(slow, rank);

		if (!person && slow->state == ADMISSION_GATHER)
			slow->names.ranks |= 1ull << rank;
		else if (person && person->place == SLOW_JOINED && slow->state == ADMISSION_GRANTED)
			slow_name(slow, person);
	}
	if (slow->state == ADMISSION_GATHER) {
		if (slow->unfit_cause) {
			slow->names.hosts |= slow->unfit_names.hosts;
			slow->names.ranks |= slow->unfit_names.ranks;
		}
		end_gathering(step, CONTROL_ABORT);
	} else if (slow->state == ADMISSION_GRANTED || slow->state == ADMISSION_ENABLING) {
		slow_end_life(step);
	}
}

/* ---- time ---- */

static uint64_t beat_ns(const struct slow_step *step)
{
	uint64_t fifth_ns = step->config->heartbeat_ns / 5;

	return fifth_ns < 2 * SECOND_NS ? fifth_ns : 2 * SECOND_NS;
}

/* R-CT-8: who waits or has not said READY does not know a shorter time. */
static bool is_silent(const struct slow_step *step, const struct slow_person *person)
{
	uint64_t limit_ns = step->config->heartbeat_ns;

	if (person->place != SLOW_READY && limit_ns < 10 * SECOND_NS)
		limit_ns = 10 * SECOND_NS;
	return person->place != SLOW_LEFT && step->event->now_ns - person->heard_ns >= limit_ns;
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

static bool is_late(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	uint64_t now_ns = step->event->now_ns;

	if (slow->state == ADMISSION_GRANTED || slow->state == ADMISSION_ENABLING)
		return now_ns - slow->since_ns >= step->config->gather_ns;
	for (uint32_t i = 0; i < slow->count && slow->state == ADMISSION_GATHER; i++) {
		const struct slow_person *person = &slow->people[i];
		uint64_t patience_ns = person->timeout_ms ? person->timeout_ms * MS_NS
							  : step->config->gather_ns;

		if (slow_is_in(person) && now_ns - person->joined_ns >= patience_ns)
			return true;
	}
	return false;
}

static void say_to_waiting(struct slow_admission *slow, uint32_t what, bool is_to_members)
{
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow->people[i].place == SLOW_WAITS ||
		    (is_to_members && slow_is_in(&slow->people[i])))
			slow_say(slow, &slow->people[i], what);
}

static void progress(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	slow->progress_ns = step->event->now_ns;
	slow->names = (struct slow_names){ 0 };
	if (slow->state == ADMISSION_GATHER && slow->unfit_cause)
		slow->names = slow->unfit_names;
	for (uint32_t rank = 0; rank < slow->size && slow->state == ADMISSION_GATHER; rank++)
		if (!slow_member(slow, rank))
			slow->names.ranks |= 1ull << rank;
	if (slow->last_cause != CONTROL_OK && slow->last_rank != CONTROL_RANK_NONE)
		slow->names.ranks |= 1ull << slow->last_rank % 64;
	say_to_waiting(slow, CONTROL_PROGRESS, slow->state == ADMISSION_GATHER);
}

/* R-CT-11: the first who can do anything but wait. */
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
static void tick(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	uint64_t now_ns = step->event->now_ns;
	struct slow_person *person;

	if (now_ns - slow->tick_ns >= step->config->heartbeat_ns / 4) {
		for (uint32_t i = 0; i < slow->count; i++)
			slow->people[i].heard_ns = now_ns;
		slow_round_slept(step);
	}
	slow->tick_ns = now_ns;
	if (now_ns - slow->beat_ns >= beat_ns(step)) {
		slow->beat_ns = now_ns;
		say_to_waiting(slow, CONTROL_HEARTBEAT, slow->state != ADMISSION_DRAIN);
	}
	person = slow_first_silent(step);
	if (person) {
		silent(step, person);
	} else if (slow_round_tick(step)) {
		return;
	} else if (is_late(step)) {
		late(step);
	} else if ((slow->state == ADMISSION_GATHER || slow_waiters(slow)) &&
		   now_ns - slow->progress_ns >= 10 * SECOND_NS) {
		progress(step);
	} else {
		next_moves(step);
	}
}

/* ---- a step ---- */

static void mismatch(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	if (slow->state != ADMISSION_STARTED)
		return;
	if (slow->mismatch == SLOW_AGREED) {
		slow->mismatch = SLOW_WANTED;
		slow->mismatch_rank = step->event->rank;
		slow->mismatch_other = step->event->other;
	}
	slow_round_begin(step);
}

static void misfit(struct slow_step *step)
{
	struct slow_person *person = slow_member(step->slow, step->event->rank);

	if (step->slow->state == ADMISSION_STARTED && person &&
	    step->event->count > person->misfits)
		person->misfits = step->event->count;
}

static void kill_all(struct slow_step *step)
{
	if (!slow_is_running(step->slow)) {
		terminate(step);
		return;
	}
	step->slow->is_terminating = true;
	slow_blame(step->slow, CONTROL_REMOTE, CONTROL_RANK_NONE);
	slow_end_life(step);
}

static void connection_event(struct slow_step *step)
{
	struct slow_person *person = slow_whose(step->slow, step->event->connection);

	if (!person)
		return;
	if (step->event->type == ADMISSION_SILENT)
		silent(step, person);
	else if (person->place == SLOW_WAITS)
		slow_drop(step->slow, person);
	else
		closed(step, person);
}

void slow_dispatch(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	switch (step->event->type) {
	case ADMISSION_MESSAGE:
		slow_message(step);
		break;
	case ADMISSION_CLOSED:
	case ADMISSION_SILENT:
		connection_event(step);
		break;
	case ADMISSION_LATE:
		late(step);
		break;
	case ADMISSION_SHARD:
		slow_shard(step);
		break;
	case ADMISSION_MISMATCH:
		mismatch(step);
		break;
	case ADMISSION_MISFIT:
		misfit(step);
		break;
	case ADMISSION_TICK:
		tick(step);
		break;
	case ADMISSION_TERMINATE:
		terminate(step);
		break;
	case ADMISSION_KILL:
		kill_all(step);
		break;
	case ADMISSION_BROKEN:
		if (!slow_is_running(slow))
			break;
		slow_blame(slow, CONTROL_SYSTEM, step->event->rank);
		slow_end_life(step);
		break;
	case ADMISSION_ORPHAN:
		if (slow->state != ADMISSION_GATHER)
			break;
		slow_blame(slow, CONTROL_REMOTE, CONTROL_RANK_NONE);
		slow_refuse_all(step, NULL);
		break;
	case ADMISSION_ALARM:
		break;
	}
}
