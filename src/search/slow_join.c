/* SPDX-License-Identifier: Apache-2.0 */
/* slow_join.c - see slow_admission.h: who comes, what is said, what shards have done. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "search/slow_step.h"

#define SECOND_NS UINT64_C(1000000000)

/* ---- JOIN ---- */

/* R-CT-11: who may be dead, and has what this one claims. */
struct slow_person *slow_holder_of(struct slow_admission *slow, const struct slow_person *claimant)
{
	uint32_t rank = claimant->rank;
	struct slow_person *holder;

	if (slow_is_running(slow))
		rank %= slow->size;
	else if (slow->state != ADMISSION_GATHER)
		return NULL;
	holder = slow_member(slow, rank);
	return holder && slow_is_in(holder) ? holder : NULL;
}

void slow_ping_both(struct slow_admission *slow, struct slow_person *claimant)
{
	struct slow_person *both[] = { slow_holder_of(slow, claimant), claimant };

	if (!both[0])
		return;
	slow->pings++;
	for (uint32_t i = 0; i < 2; i++) {
		both[i]->asked = slow->pings;
		both[i]->is_alive = false;
		slow_say(slow, both[i], CONTROL_PING)->number = slow->pings;
	}
}

static void deny(struct slow_admission *slow, struct slow_person *person)
{
	slow_log_text(slow, ADMISSION_LOG_LIMITED);
	slow_say_last(slow, person, CONTROL_DENY);
}

/* What the aggregator can never take. */
static bool is_impossible(struct slow_step *step, const struct slow_person *comer)
{
	struct slow_admission *slow = step->slow;

	if (slow->is_terminating) {
		slow_blame(slow, CONTROL_DENIED, CONTROL_RANK_NONE);
		slow_text(slow, "job \"%s\": the aggregator is shutting down", step->config->job);
		slow->is_ending = true;
		return true;
	}
	if (!comer->size || comer->size > step->config->members_max) {
		slow_blame(slow, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE);
		slow_text(slow, "job \"%s\" of %u ranks: this aggregator takes 1 to %u",
			  step->config->job, comer->size, step->config->members_max);
		return true;
	}
	if (comer->rank < comer->size && (uint64_t)comer->workers * comer->size <= 65535)
		return false;
	slow_blame_person(slow, comer->rank >= comer->size ? CONTROL_DENIED : CONTROL_NO_RESOURCE,
			  comer);
	slow->cause_rank = CONTROL_RANK_NONE;
	if (comer->rank >= comer->size)
		slow_text(slow, ": there is no such rank in a job of %u", comer->size);
	else
		slow_text(slow, " stands for %u workers, in a job of %u: at most %u",
			  comer->workers, comer->size, 65535 / comer->size);
	return true;
}

/* R-CT-10: as before, for 5 s, or for ever in a life. */
static bool is_refused_again(struct slow_step *step, const struct slow_person *comer)
{
	struct slow_admission *slow = step->slow;

	if (!slow->is_refusing)
		return false;
	if ((!step->config->life && step->event->now_ns >= slow->refused_ns + 5 * SECOND_NS) ||
	    (!slow->is_refusing_all && slow->refused >> comer->rank & 1)) {
		slow->is_refusing = false;
		return false;
	}
	slow_blame(slow, slow->refused_cause, slow->refused_rank);
	slow_text(slow, "%s", slow->refused_text);
	if (!step->config->life) {
		uint32_t age_s = (uint32_t)((step->event->now_ns - slow->refused_ns) / SECOND_NS);

		slow_text(slow, " (refused %u s ago; start again in %u s)", age_s, 5 - age_s);
	}
	slow_note_refused(slow, comer->rank);
	return true;
}

/* R-CT-10: whose launcher says that one host has all of them, and who is on which. */
static bool are_apart(const struct slow_person *a, const struct slow_person *b)
{
	if (!a->boot || !b->boot || a->boot == b->boot)
		return false;
	return a->local_size == a->size || b->local_size == b->size;
}

static bool wants_alike(const struct slow_person *a, const struct slow_person *b)
{
	return a->size == b->size && a->list_hash == b->list_hash && a->mode == b->mode &&
	       a->latency_slots == b->latency_slots && a->latency_window == b->latency_window;
}

static bool is_alike(const struct slow_person *a, const struct slow_person *b)
{
	return wants_alike(a, b) && !are_apart(a, b);
}

/* The first of those who gather whom it is not alike; NULL: it is. */
static struct slow_person *other_than(struct slow_admission *slow, const struct slow_person *comer)
{
	for (uint32_t rank = 0; rank < slow->size; rank++) {
		struct slow_person *member = slow_member(slow, rank);

		if (member && !is_alike(member, comer))
			return member;
	}
	return NULL;
}

/* What it says of the first thing in which the other one says something else. */
static void says_what(struct slow_admission *slow, const struct slow_person *person,
		      const struct slow_person *other)
{
	slow_name(slow, person);
	if (person->size != other->size)
		slow_text(slow, " says size %u", person->size);
	else if (person->list_hash != other->list_hash && person->has_list)
		slow_text(slow, " was given the aggregators l%llu",
			  (unsigned long long)person->list_hash);
	else if (person->list_hash != other->list_hash)
		slow_text(slow, " was given a list of aggregators with hash %llu",
			  (unsigned long long)person->list_hash);
	else if (wants_alike(person, other) && person->local_size == person->size)
		slow_text(slow, " says that all %u ranks are on its host", person->size);
	else if (wants_alike(person, other))
		slow_text(slow, " is on another host");
	else if (person->mode == CONTROL_LATENCY)
		slow_text(slow, " wants latency mode with %u slots and a window of %u",
			  person->latency_slots, person->latency_window);
	else
		slow_text(slow, " wants dense mode");
}

static struct slow_person *keep(struct slow_admission *slow, const struct slow_person *comer,
				enum slow_place place)
{
	assert(slow->count < SLOW_PEOPLE);
	slow->people[slow->count] = *comer;
	slow->people[slow->count].place = place;
	slow->people[slow->count].asked = 0;
	slow->people[slow->count].is_alive = false;
	return &slow->people[slow->count++];
}

static void take_in(struct slow_step *step, const struct slow_person *comer)
{
	struct slow_admission *slow = step->slow;
	uint32_t in = 0;

	keep(slow, comer, SLOW_JOINED);
	slow_log_person(slow, comer, "has joined");
	for (uint32_t rank = 0; rank < slow->size; rank++)
		in += !!slow_member(slow, rank);
	if (in == slow->size) {
		slow_enter(step, ADMISSION_GRANTED);
		slow->life = step->event->random ? step->event->random : 1;
		slow->generation = step->event->generation;
		slow_command(slow, ADMISSION_JOB_ADD);
		slow_forget_claims(slow);
		slow_forget_unfit(slow);
		slow_log(slow, ADMISSION_LOG_INFO, "all %u ranks are here: generation %u",
			 slow->size, slow->generation);
	} else if (slow_is_hopeless(slow)) {
		slow_blame(slow, slow->unfit_cause, CONTROL_RANK_NONE);
		slow_text(slow, "%s", slow->unfit_text);
		slow_refuse_hopeless(step, NULL);
	}
}

static void wait_in_line(struct slow_step *step, struct slow_person *comer)
{
	if (slow_waiters(step->slow) == step->config->waiters_max) {
		slow_blame(step->slow, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE);
		slow_text(step->slow, "job \"%s\": %u processes wait for its name already",
			  step->config->job, step->config->waiters_max);
		deny(step->slow, comer);
		return;
	}
	slow_log_person(step->slow, comer, "waits: its rank or the job's name is in use");
	slow_ping_both(step->slow, keep(step->slow, comer, SLOW_WAITS));
}

void slow_admit(struct slow_step *step, struct slow_person comer)
{
	struct slow_admission *slow = step->slow;
	const struct slow_person *other;

	if (is_impossible(step, &comer) ||
	    (slow->state == ADMISSION_NONE && is_refused_again(step, &comer))) {
		deny(slow, &comer);
		return;
	}
	if (slow->state == ADMISSION_NONE) {
		slow_enter(step, ADMISSION_GATHER);
		if (step->event->now_ns - slow->unfit_ns >= 5 * SECOND_NS)
			slow_forget_unfit(slow);
		slow->size = comer.size;
		slow->progress_ns = step->event->now_ns;
	}
	if (slow->state != ADMISSION_GATHER) {
		wait_in_line(step, &comer);
		return;
	}
	other = other_than(slow, &comer);
	if (other) {
		slow_blame(slow, CONTROL_DENIED, CONTROL_RANK_NONE);
		slow_text(slow, "job \"%s\": ", step->config->job);
		says_what(slow, &comer, other);
		slow_text(slow, ", ");
		says_what(slow, other, &comer);
		if (wants_alike(&comer, other))
			slow_text(slow, ": if these are two jobs, give each its TALLY_JOB");
		slow_refuse_all(step, &comer);
	} else if (slow_member(slow, comer.rank)) {
		wait_in_line(step, &comer);
	} else {
		take_in(step, &comer);
	}
}

/* Another key, another version: it hears nothing of the others. */
static void unfit_comes(struct slow_step *step, struct slow_person *comer, enum control_cause cause)
{
	const struct control_join *said = &step->event->message->join;
	struct slow_admission *slow = step->slow;

	slow_blame(slow, cause, CONTROL_RANK_NONE);
	if (cause == CONTROL_DENIED)
		slow_text(slow, "job \"%s\": ", step->config->job);
	slow_name(slow, comer);
	if (cause == CONTROL_DENIED)
		slow_text(slow, said->key[0] ? " gave a key that is not this aggregator's"
					     : " gave no key, and this aggregator wants one");
	else
		slow_text(slow, " speaks protocol versions %u to %u, this aggregator %u",
			  said->version_min, said->version_max, CONTROL_VERSION);
	if (slow->state != ADMISSION_NONE && slow->state != ADMISSION_GATHER) {
		deny(slow, comer);
		return;
	}
	for (uint32_t rank = 0; rank < SLOW_RANKS; rank++)
		if (step->event->source && slow->unfit_source[rank] == step->event->source)
			slow->unfit &= ~(1ull << rank);
	if (comer->rank < step->config->members_max) {
		slow->unfit |= 1ull << comer->rank;
		slow->unfit_source[comer->rank] = step->event->source;
	}
	slow->unfit_ns = step->event->now_ns;
	slow->unfit_cause = cause;
	strcpy(slow->unfit_text, slow->text);
	if (slow->state == ADMISSION_GATHER && slow_is_hopeless(slow))
		slow_refuse_hopeless(step, comer);
	else
		deny(slow, comer);
}

static void join(struct slow_step *step)
{
	const struct control_join *said = &step->event->message->join;
	struct slow_admission *slow = step->slow;
	struct slow_person comer = {
		.heard_ns = step->event->now_ns,
		.spoke_ns = step->event->now_ns,
		.joined_ns = step->event->now_ns,
		.connection = step->event->connection,
		.host = (uint32_t)atoi(said->host + 1),
		.rank = said->rank,
		.size = said->size,
		.pid = said->pid,
		.workers = said->workers,
		.timeout_ms = said->timeout_ms,
		.mode = said->mode,
		.latency_slots = said->latency_slots,
		.latency_window = said->latency_window,
		.list_hash = said->list_hash,
		.has_list = said->list[0],
		.boot = said->boot,
		.process = said->process,
		.source = step->event->source,
		.program = said->program,
		.local_size = said->local_size,
		.is_launched = said->is_launched,
	};

	memcpy(comer.nonce, step->event->nonce, sizeof(comer.nonce));
	if (step->config->key && strcmp(step->config->key, said->key) != 0) {
		unfit_comes(step, &comer, CONTROL_DENIED);
	} else if (said->version_min > CONTROL_VERSION || said->version_max < CONTROL_VERSION) {
		unfit_comes(step, &comer, CONTROL_VERSION_BAD);
	} else {
		if (slow->unfit && comer.rank < 64) {
			slow->unfit &= ~(1ull << comer.rank);
			if (!slow->unfit)
				slow_forget_unfit(slow);
		}
		slow_admit(step, comer);
	}
}

void slow_adopt(struct slow_step *step)
{
	const struct admission_peer *peer = step->event->peer;
	struct slow_person comer = {
		.heard_ns = peer->heard_ns,
		.spoke_ns = peer->spoke_ns,
		.joined_ns = peer->joined_ns,
		.connection = peer->connection,
		.host = (uint32_t)atoi(peer->host + 1),
		.rank = peer->rank,
		.size = peer->size,
		.pid = peer->pid,
		.workers = peer->workers,
		.timeout_ms = peer->timeout_ms,
		.mode = peer->mode,
		.latency_slots = peer->latency_slots,
		.latency_window = peer->latency_window,
		.list_hash = peer->list_hash,
		.has_list = peer->list[0],
		.boot = peer->boot,
		.process = peer->process,
		.source = peer->source,
		.program = peer->program,
		.local_size = peer->local_size,
		.is_launched = peer->is_launched,
	};

	memcpy(comer.nonce, peer->nonce, sizeof(comer.nonce));
	slow_admit(step, comer);
}

/* ---- messages ---- */

/* R-CT-24: several programs have come to be one job. */
static bool is_of_several(const struct slow_admission *slow)
{
	for (uint32_t i = 0; i < slow->count; i++)
		for (uint32_t k = 0; k < i; k++)
			if (slow->people[i].place != SLOW_WAITS &&
			    slow->people[k].place != SLOW_WAITS && slow->people[i].program &&
			    slow->people[k].program &&
			    slow->people[i].program != slow->people[k].program)
				return true;
	return false;
}

/* R-CT-23 */
static bool are_twins(const struct slow_step *step, const struct slow_person *holder,
		      const struct slow_person *claimant)
{
	const struct slow_admission *slow = step->slow;

	if (step->config->life || (!holder->is_launched && !claimant->is_launched))
		return false;
	if (holder->process == claimant->process && holder->process)
		return false;
	if (slow->state == ADMISSION_STARTED &&
	    claimant->joined_ns > slow->since_ns + 2 * SECOND_NS && !is_of_several(slow))
		return false;
	return !are_apart(holder, claimant);
}

/* R-CT-34: do all that wait for a rank of this job come from where its holder does? Else one text would tell them all. */
static bool are_from_there(const struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	if (step->config->key)
		return true;
	for (uint32_t i = 0; i < slow->count; i++) {
		const struct slow_person *person = &slow->people[i], *holder = NULL;

		if (person->place == SLOW_WAITS)
			holder = slow_holder_of(slow, person);
		if (holder && holder->source != person->source)
			return false;
	}
	return true;
}

/* R-CT-11: who waits, in turn, has it answered the last PING, as its rank's holder has? */
static void judge_claims(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;
	bool is_named = are_from_there(step);

	for (uint32_t i = 0; i < slow->count;) {
		struct slow_person *claimant = &slow->people[i];
		struct slow_person *holder =
			claimant->place == SLOW_WAITS ? slow_holder_of(slow, claimant) : NULL;

		if (!holder || !holder->is_alive || !claimant->is_alive) {
			i++;
			continue;
		}
		slow_blame(slow, CONTROL_DENIED, CONTROL_RANK_NONE);
		bool is_twin = are_twins(step, holder, claimant);
		if (slow->state == ADMISSION_GATHER || is_twin)
			slow_text(slow,
				  "job \"%s\": rank %u is held by process %u on <%u>, and process "
				  "%u on <%u> claims it too; both are alive",
				  step->config->job, holder->rank, holder->pid, holder->host,
				  claimant->pid, claimant->host);
		if (is_twin) {
			slow_text(slow,
				  "; the name is the launcher's, and there are two %s: give each "
				  "its TALLY_JOB",
				  holder->boot == claimant->boot ? "programs of one launch"
								 : "jobs of one name");
			slow_refuse_twins(step);
			return;
		}
		if (slow->state == ADMISSION_GATHER) {
			slow_refuse_all(step, NULL);
			return;
		}
		slow_log(slow, ADMISSION_LOG_LIMITED,
			 "job \"%s\": rank %u is held by process %u on <%u>, which is alive: the "
			 "job "
			 "runs, another of its name must wait",
			 step->config->job, holder->rank, holder->pid, holder->host);
		if (is_named)
			slow_text(slow, "%s", slow->log);
		else
			slow_text(slow,
				  "job \"%s\": rank %u is held by a process of another address "
				  "(the aggregator's log names it), which is alive: the job runs, "
				  "another of its name must wait",
				  step->config->job, holder->rank);
		slow_say_last(slow, claimant, CONTROL_DENY);
		slow_drop(slow, claimant);
	}
}

static void pong(struct slow_step *step, struct slow_person *person)
{
	if (!person->asked || person->is_alive ||
	    person->asked != step->event->message->ping.serial)
		return;
	person->is_alive = true;
	judge_claims(step);
}

static void ready(struct slow_step *step, struct slow_person *person)
{
	struct slow_admission *slow = step->slow;
	uint32_t lanes = step->config->lanes_max;

	if (slow->state != ADMISSION_GRANTED || person->place != SLOW_JOINED ||
	    !slow_have_all_acked(step))
		return;
	person->place = SLOW_READY;
	person->lanes = step->event->message->lanes.lanes;
	for (uint32_t i = 0; i < slow->count; i++) {
		if (slow->people[i].place == SLOW_JOINED)
			return;
		if (slow->people[i].place == SLOW_READY && slow->people[i].lanes < lanes)
			lanes = slow->people[i].lanes;
	}
	slow->lanes = lanes / 4 * 4;
	slow_enter(step, ADMISSION_ENABLING);
	slow_command(slow, ADMISSION_JOB_SET);
}

static void leave(struct slow_step *step, struct slow_person *person)
{
	struct slow_admission *slow = step->slow;

	if (slow->state != ADMISSION_STARTED) {
		slow_blame_person(slow, CONTROL_REMOTE, person);
		slow_text(slow, " left before the job had started");
		slow_say(slow, person, SLOW_CLOSE);
		slow_lose(step, person);
		return;
	}
	slow_log_person(slow, person, "has left");
	person->place = SLOW_LEFT;
	person->submitted = step->event->message->leave.submitted;
	slow_say_last(slow, person, CONTROL_LEFT);
	person->connection = 0;
	for (uint32_t i = 0; i < slow->count; i++) {
		if (!slow_is_in(&slow->people[i]))
			continue;
		slow_round_left(step);
		return;
	}
	slow->last_cause = CONTROL_OK;
	slow->last_rank = CONTROL_RANK_NONE;
	slow_drain(step);
}

static void member_says(struct slow_step *step, struct slow_person *person)
{
	const struct control_message *message = step->event->message;
	struct slow_admission *slow = step->slow;
	enum control_cause cause;

	if (message->type == CONTROL_READY) {
		ready(step, person);
	} else if (message->type == CONTROL_LEAVE) {
		leave(step, person);
	} else if (message->type == CONTROL_ABORT) {
		cause = message->end.cause;
		if (cause != CONTROL_MISMATCH && cause != CONTROL_TIMEOUT)
			cause = CONTROL_REMOTE;
		slow_blame_person(slow, cause, person);
		slow_text(slow, message->end.cause == CONTROL_ABORTED ? " aborted" : " failed");
		slow_text(slow, message->end.text[0] ? ": %s" : "%s", message->end.text);
		slow_log_text(slow, ADMISSION_LOG_WARN);
		slow_say(slow, person, SLOW_CLOSE);
		slow_lose(step, person);
	} else if (message->type == CONTROL_STALL && slow->state == ADMISSION_STARTED) {
		slow_round_stall(step, person);
	} else if (message->type == CONTROL_OPINFO && slow->state == ADMISSION_STARTED) {
		slow_round_opinfo(step, person);
	}
}

void slow_message(struct slow_step *step)
{
	struct slow_person *person = slow_whose(step->slow, step->event->connection);
	enum control_type type = step->event->message->type;

	if (!person) {
		if (type == CONTROL_JOIN)
			join(step);
		return;
	}
	person->heard_ns = person->spoke_ns = step->event->now_ns;
	if (person->place == SLOW_TOLD)
		return;
	if (type == CONTROL_PING) {
		slow_say(step->slow, person, CONTROL_PONG)->number =
			step->event->message->ping.serial;
	} else if (type == CONTROL_PONG) {
		pong(step, person);
	} else if (slow_is_in(person)) {
		member_says(step, person);
	} else if (type == CONTROL_ABORT || type == CONTROL_LEAVE) {
		slow_say(step->slow, person, SLOW_CLOSE);
		slow_drop(step->slow, person);
	}
}

/* ---- shards ---- */

/* R-CT-15: if its time has come */
bool slow_start(struct slow_step *step)
{
	struct slow_admission *slow = step->slow;

	if (step->event->now_ns < slow_start_ns(step))
		return false;
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow_is_in(&slow->people[i]))
			slow_say(slow, &slow->people[i], CONTROL_START);
	slow_enter(step, ADMISSION_STARTED);
	slow_log(slow, ADMISSION_LOG_INFO, "%u ranks start with %u lanes", slow->size, slow->lanes);
	return true;
}

void slow_shard(struct slow_step *step)
{
	const struct admission_event *event = step->event;
	struct slow_admission *slow = step->slow;
	bool is_awaited =
		(slow->state == ADMISSION_GRANTED && event->command == ADMISSION_JOB_ADD) ||
		(slow->state == ADMISSION_ENABLING && event->command == ADMISSION_JOB_SET) ||
		(slow->state == ADMISSION_DRAIN && event->command == ADMISSION_JOB_REMOVE);

	if (!is_awaited || event->job_generation != slow->generation ||
	    event->shard >= step->config->shards)
		return;
	if (event->has_failed && slow->state != ADMISSION_DRAIN) {
		if (event->is_path)
			slow_blame(slow, CONTROL_SYSTEM, event->rank);
		else
			slow_blame(slow, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE);
		slow_text(slow, "job \"%s\" of %u: ", step->config->job, slow->size);
		if (!event->is_path)
			slow_text(slow, "the aggregator has no room for it (shard %u)%s",
				  event->shard, event->text ? ": " : "");
		slow_text(slow, "%s", event->text ? event->text : "");
		slow_end_life(step);
		return;
	}
	if (slow->acked[event->shard])
		return;
	slow->acked[event->shard] = true;
	if (!slow_have_all_acked(step))
		return;
	if (slow->state == ADMISSION_DRAIN) {
		slow_clear_if_drained(step);
		return;
	}
	if (slow->state == ADMISSION_ENABLING) {
		slow_start(step);
		return;
	}
	for (uint32_t i = 0; i < slow->count; i++)
		if (slow_is_in(&slow->people[i]))
			slow_say(slow, &slow->people[i], CONTROL_GRANT);
}
