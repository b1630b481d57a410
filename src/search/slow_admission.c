/* SPDX-License-Identifier: Apache-2.0 */
/* slow_admission.c - see slow_admission.h. How it ends. */
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

void slow_blame(struct slow_admission *slow, enum control_cause cause, uint32_t rank)
{
	slow->cause = cause;
	slow->cause_rank = rank;
	slow->text[0] = 0;
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

/* ---- R-CT-26: who is unfit ---- */

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
	slow_log_text(step->slow, ADMISSION_LOG_WARN);
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
	slow->is_refusing_all = false;
	slow->refused_ns = step->event->now_ns;
	slow->refused = 0;
	slow->refused_cause = slow->cause;
	slow->refused_rank = slow->cause_rank;
	strcpy(slow->refused_text, slow->text);
}

void slow_note_refused(struct slow_admission *slow, uint32_t rank)
{
	if (rank < 64)
		slow->refused |= 1ull << rank;
}

void slow_end_gathering(struct slow_step *step, enum control_type last)
{
	struct slow_admission *slow = step->slow;
	bool is_new = step->config->life && !slow->is_refusing;

	remember_last(slow);
	if (is_new)
		begin_refusal(step);
	slow_log_text(slow, ADMISSION_LOG_WARN);
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
	slow_end_gathering(step, CONTROL_DENY);
}

/* R-CT-23: of a gathering or a life, and for all who come. */
void slow_refuse_twins(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	if (slow->state == ADMISSION_GATHER) {
		slow_refuse_all(step, NULL);
	} else {
		begin_refusal(step);
		for (uint32_t i = slow->count; i--;) {
			if (slow->people[i].place != SLOW_WAITS)
				continue;
			slow_say_last(slow, &slow->people[i], CONTROL_DENY);
			slow_drop(slow, &slow->people[i]);
		}
		slow_end_life(step);
	}
	slow->is_refusing_all = true;
}

/* R-CT-24 */
static void yield(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	uint64_t ranks = 0;

	if (slow->state != ADMISSION_GATHER)
		return;
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow_is_in(&slow->people[i]))
			ranks |= 1ull << slow->people[i].rank;
	slow->text[0] = 0;
	slow_ranks(slow, ranks);
	slow_text(slow, ": another command line than other ranks of this name: one job with "
			"them, as they are complete together, and tally run has started one "
			"program for each rank");
	slow_log_text(slow, ADMISSION_LOG_WARN);
	slow->text[0] = 0;
	clear(step);
}

/* R-CT-26: whoever was noted has heard it. */
void slow_refuse_hopeless(struct slow_step *step, struct slow_person *comer)
{
	uint64_t noted = step->slow->unfit;

	slow_refuse_all(step, comer);
	step->slow->refused |= noted;
}

/* R-CT-8, R-CT-21; slow->cause: as slow_blame said. */
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
		if (step->slow->state == ADMISSION_GATHER) {
			slow_log_person(step->slow, person, "has gone");
			slow_text(step->slow,
				  " has gone (process %u) before job \"%s\" was complete",
				  person->pid, step->config->job);
		} else {
			slow_text(step->slow,
				  " died: process %u has closed its connection without leaving",
				  person->pid);
		}
		slow_lose(step, person);
		return;
	}
	slow_drop(step->slow, person);
	slow_clear_if_drained(step);
}

void slow_silent(struct slow_step *step, struct slow_person *person)
{
	bool is_gathering = step->slow->state == ADMISSION_GATHER;

	slow_blame_person(step->slow, CONTROL_REMOTE, person);
	slow_text(step->slow, " has been silent for more than %llu ms%s (process %u)",
		  (unsigned long long)(step->config->heartbeat_ns / MS_NS),
		  slow_is_heard(step, person) ? " over TCP, although it is heard over UDP" : "",
		  person->pid);
	slow_log_text(step->slow,
		      person->place == SLOW_WAITS ? ADMISSION_LOG_LIMITED : ADMISSION_LOG_WARN);
	slow_say_last(step->slow, person,
		      person->place == SLOW_WAITS || is_gathering ? CONTROL_DENY : CONTROL_ABORT);
	if (person->place == SLOW_WAITS)
		slow_drop(step->slow, person);
	else
		slow_lose(step, person);
}

/* R-CT-19 */
static void terminate(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	slow->is_terminating = true;
	slow_blame(slow, CONTROL_DENIED, CONTROL_RANK_NONE);
	slow_text(slow, "job \"%s\": the aggregator is shutting down", step->config->job);
	slow->is_ending = true;
	for (uint32_t i = slow->count; i--;) {
		if (slow->people[i].place != SLOW_WAITS)
			continue;
		slow_say_last(slow, &slow->people[i], CONTROL_DENY);
		slow_drop(slow, &slow->people[i]);
	}
	if (slow->state == ADMISSION_GATHER)
		slow_end_gathering(step, CONTROL_DENY);
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
	    step->event->count >= person->misfits)
		slow_round_misfit(step, person);
}

static void kill_all(struct slow_step *step)
{
	if (!slow_is_running(step->slow)) {
		terminate(step);
		return;
	}
	step->slow->is_terminating = true;
	slow_blame(step->slow, CONTROL_REMOTE, CONTROL_RANK_NONE);
	slow_text(step->slow,
		  "job \"%s\": the aggregator is shutting down, the time to end is over",
		  step->config->job);
	slow_end_life(step);
}

static void alarm(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	const struct slow_person *person = slow_member(slow, step->event->rank);

	if (slow->state != ADMISSION_STARTED)
		return;
	slow->text[0] = 0;
	if (person)
		slow_name(slow, person);
	else
		slow_text(slow, "somebody");
	slow_text(slow, " sent a packet that a sound worker never sends: dropped");
	slow_log_text(slow, ADMISSION_LOG_LIMITED);
}

static void broken(struct slow_step *step)
{
	const char *how = step->event->text;

	if (!slow_is_running(step->slow))
		return;
	slow_blame(step->slow, step->event->cause ? step->event->cause : CONTROL_SYSTEM,
		   step->event->rank);
	slow_text(step->slow, "job \"%s\": %s", step->config->job,
		  how ? how : "the data path is broken");
	slow_end_life(step);
}

static void orphan(struct slow_step *step)
{
	if (step->slow->state != ADMISSION_GATHER)
		return;
	slow_blame(step->slow, CONTROL_REMOTE, CONTROL_RANK_NONE);
	slow_text(step->slow, "job \"%s\": the job that it is a part of has ended: %s",
		  step->config->job, step->event->text);
	slow_refuse_all(step, NULL);
}

static void somebody_closed(struct slow_step *step)
{
	struct slow_person *person = slow_whose(step->slow, step->event->connection);

	if (!person)
		return;
	if (person->place == SLOW_WAITS)
		slow_drop(step->slow, person);
	else
		closed(step, person);
}

void slow_dispatch(struct slow_step *step)
{
	switch (step->event->type) {
	case ADMISSION_MESSAGE:
		slow_message(step);
		break;
	case ADMISSION_CLOSED:
		somebody_closed(step);
		break;
	case ADMISSION_HEARD:
		slow_heard(step);
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
		slow_tick(step);
		break;
	case ADMISSION_TERMINATE:
		terminate(step);
		break;
	case ADMISSION_KILL:
		kill_all(step);
		break;
	case ADMISSION_BROKEN:
		broken(step);
		break;
	case ADMISSION_ORPHAN:
		orphan(step);
		break;
	case ADMISSION_YIELD:
		yield(step);
		break;
	case ADMISSION_ADOPT:
		slow_adopt(step);
		break;
	case ADMISSION_ALARM:
		alarm(step);
		break;
	}
}
