/* SPDX-License-Identifier: Apache-2.0 */
/* comm.c - communicators: from init to destroy. */
#include "lib/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/background.h"
#include "lib/config.h"
#include "lib/local.h"
#include "lib/meeting.h"
#include "lib/membership.h"
#include "lib/operation.h"
#include "lib/present.h"

enum {
	LAST_WORDS_MS = 1000, /* who lives reads them in this time; nobody waits for the others */
	LAST_WORDS_INIT_MS = 250, /* ... when nothing had begun */
	AGAIN_PERCENT = 1,        /* of packets sent again: from here on it is a warning, */
	AGAIN_LEAST = 100,        /* but not of so few */
};

/* ---- init ---- */

static bool is_joined(struct tally_comm *comm, void *arg)
{
	(void)arg;
	return comm->state != COMM_JOINING || atomic_load(&comm->error);
}

static bool is_over(struct tally_comm *comm, void *arg)
{
	(void)arg;
	return comm->is_over;
}

static struct tally_comm *comm_new(const struct bootstrap *boot,
				   const struct tally_options *options)
{
	struct tally_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->boot = *boot;
	comm->who.rank = boot->rank;
	comm->who.size = boot->size;
	strcpy(comm->who.job, boot->job);
	report_host(comm->who.host);
	comm->epoch = present_epoch();
	atomic_init(&comm->deadline_ns, UINT64_MAX);
	strcpy(comm->key, boot->key);
	comm->poll_count = options->poll_count;
	comm->window_packets = boot->window_packets;
	comm->interrupted = options->interrupted;
	comm->interrupted_ctx = options->interrupted_ctx;
	comm->flags = options->flags;
	comm->latency_slots = options->latency_slots;
	comm->latency_window = options->latency_window;
	if (comm->latency_slots && !comm->latency_window) /* as far as goes without ACKs */
		comm->latency_window = comm->latency_slots > 1 ? comm->latency_slots / 2 : 1;
	pthread_mutex_init(&comm->lock, NULL);
	pthread_mutex_init(&comm->pairs_lock, NULL);
	clock_cond_init(&comm->changed);
	return comm;
}

static void works_free(struct tally_comm *comm, struct work_list *list)
{
	while (list->first) {
		struct tally_work *work = list->first;

		work_remove(list, work);
		if (work->done_fn && list != &comm->complete)
			present_calls(-1);
		work_drop(comm, work);
	}
}

/* The background thread does not know it any more. */
static void comm_free(struct tally_comm *comm)
{
	membership_close(comm);
	timeline_close(comm->timeline);
	endpoint_close(comm->endpoint);
	meeting_end(comm);
	if (comm->link)
		comm->link->ops->close(comm->link);
	works_free(comm, &comm->outstanding);
	works_free(comm, &comm->held);
	works_free(comm, &comm->calling);
	works_free(comm, &comm->complete);
	free(comm->members);
	while (comm->free_works) {
		struct tally_work *work = comm->free_works;

		comm->free_works = work->next;
		free(work);
	}
	pthread_cond_destroy(&comm->changed);
	pthread_mutex_destroy(&comm->lock);
	pthread_mutex_destroy(&comm->pairs_lock);
	free(comm);
}

/* Until the last words are said and read; a rank 0 in local mode stays for the others' as well. */
static void comm_end(struct tally_comm *comm, uint32_t ms)
{
	comm_lock(comm);
	progress_wait(comm, is_over, NULL, clock_ns() + ms * 1000000ull, false);
	comm_unlock(comm);
	background_remove(comm);
	local_close(comm, LAST_WORDS_MS);
}

static int join(struct tally_comm *comm, bool may_interrupt)
{
	int result = background_add(comm);

	if (result)
		return result;
	comm_lock(comm);
	if (progress_wait(comm, is_joined, NULL, UINT64_MAX, may_interrupt) ==
	    PROGRESS_INTERRUPTED) {
		comm->wants_abort = true;
		comm_break(comm, TALLY_INTERRUPTED, "tally_comm_init was interrupted");
		wake_background();
	}
	/* what breaks a job that has begun, be it another's first call, is told by this rank's own */
	if (comm->state == COMM_JOINING)
		result = atomic_load(&comm->error);
	if (result)
		report_again(result, comm->error_text);
	comm_unlock(comm);
	if (result)
		comm_end(comm, LAST_WORDS_INIT_MS);
	return result;
}

/* Jobs of one name and two lives have two hosts. */
static void local_job_fill(struct tally_comm *comm, const struct tally_comm *parent)
{
	if (parent)
		strcpy(comm->local_job, parent->local_job);
	else if (comm->boot.life)
		snprintf(comm->local_job, sizeof(comm->local_job), "%016llx/%s",
			 (unsigned long long)comm->boot.life, comm->boot.job);
	else
		strcpy(comm->local_job, comm->boot.job);
}

static atomic_bool is_warned; /* once in a process */

/* All but the joining. */
static int prepare(struct tally_comm **out, const struct bootstrap *boot,
		   const struct tally_options *options, const struct tally_comm *parent,
		   bool is_pair)
{
	struct tally_comm *comm = *out = comm_new(boot, options);
	int result = TALLY_OK;

	if (!comm)
		return report_error(NULL, TALLY_ERR_NO_MEMORY, "tally_comm_init: out of memory");
	if (boot->warning[0] && !atomic_exchange(&is_warned, true))
		report_log(&comm->who, TALLY_LOG_WARN, "%s", boot->warning);
	comm->pair_of = is_pair ? &parent->who : NULL;
	comm->timeline = timeline_open(&comm->who, boot->timeline, &comm->timeline_comm);
	local_job_fill(comm, parent);
	comm->join_life = parent ? parent->life : boot->life;
	if (parent && !is_pair) /* a pair does not outlive its parent */
		local_share(comm, parent);
	else if (!parent && boot->is_local && boot->rank == 0)
		result = local_open(comm);
	return result ? result : membership_open(comm);
}

static int opened(struct tally_comm *comm, int result, struct tally_comm **out)
{
	if (!result) {
		*out = comm;
	} else if (comm) {
		local_close(comm, 0);
		comm_free(comm);
	}
	return result;
}

int comm_open(struct tally_comm **out, const struct bootstrap *boot,
	      const struct tally_options *options, const struct tally_comm *parent)
{
	struct tally_comm *comm;
	int result = prepare(&comm, boot, options, parent, false);

	if (!result)
		result = join(comm, !parent);
	if (!result)
		meeting_hold(comm);
	return opened(comm, result, out);
}

int comm_open_pair(struct tally_comm **out, const struct bootstrap *boot,
		   const struct tally_options *options, const struct tally_comm *parent)
{
	struct tally_comm *comm;
	int result = prepare(&comm, boot, options, parent, true);

	if (!result) {
		comm->enter_held = operation_enter_held;
		result = background_add(comm);
	}
	return opened(comm, result, out);
}

/* The struct of 0.1.0, whose callers are served for ever. What follows its flags is padding. */
struct options_0_1_0 {
	size_t size;
	const char *aggregator;
	uint32_t local_size, init_timeout_s, window_packets, poll_count, flags;
};
_Static_assert(offsetof(struct options_0_1_0, flags) == offsetof(struct tally_options, flags),
	       "new fields go to the end");
static const size_t options_before_interrupted = offsetof(struct tally_options, interrupted);

static int options_take(struct tally_options *mine, const struct tally_options *theirs,
			const char *call)
{
	const size_t first_bytes = offsetof(struct tally_options, flags) + sizeof(theirs->flags);

	*mine = (struct tally_options)TALLY_OPTIONS_INIT;
	if (!theirs)
		return TALLY_OK;
	if (theirs->size != sizeof(*mine) && theirs->size != options_before_interrupted &&
	    theirs->size != sizeof(struct options_0_1_0))
		return report_error(
			NULL, TALLY_ERR_ARGUMENT,
			"%s: options->size is %zu, not %zu: set it with TALLY_OPTIONS_INIT", call,
			theirs->size, sizeof(*mine));
	memcpy(mine, theirs,
	       theirs->size == sizeof(struct options_0_1_0) ? first_bytes : theirs->size);
	mine->size = sizeof(*mine);
	if (mine->flags & ~(uint32_t)REQUEST_FORMS)
		return report_error(NULL, TALLY_ERR_UNSUPPORTED,
				    "%s: options->flags 0x%x: this version has TALLY_HALF, "
				    "TALLY_EXACT and TALLY_STRICT",
				    call, mine->flags);
	if (!request_has_one_form(mine->flags))
		return report_error(NULL, TALLY_ERR_ARGUMENT,
				    "%s: options->flags has more than one of TALLY_HALF, "
				    "TALLY_EXACT and TALLY_STRICT: choose one",
				    call);
	if (mine->flags && mine->latency_slots)
		return report_error(NULL, TALLY_ERR_ARGUMENT,
				    "%s: options->flags 0x%x is for floats, and latency mode has "
				    "int32",
				    call, mine->flags);
	if (mine->latency_slots > CONTROL_LATENCY_SLOTS_MAX)
		return report_error(NULL, TALLY_ERR_ARGUMENT,
				    "%s: options->latency_slots is %u: 65536 are the most", call,
				    mine->latency_slots);
	if (mine->latency_window && !mine->latency_slots)
		return report_error(
			NULL, TALLY_ERR_ARGUMENT,
			"%s: options->latency_window is %u without latency_slots, which "
			"choose latency mode",
			call, mine->latency_window);
	if (mine->latency_window > mine->latency_slots)
		return report_error(
			NULL, TALLY_ERR_ARGUMENT,
			"%s: options->latency_window is %u, more than latency_slots, %u", call,
			mine->latency_window, mine->latency_slots);
	return TALLY_OK;
}

int comm_init_check(struct tally_comm **comm, struct tally_options *mine,
		    const struct tally_options *theirs, const char *call)
{
	int result;

	if (!comm)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "%s: comm is NULL", call);
	result = operation_may_wait(NULL, call);
	return result ? result : options_take(mine, theirs, call);
}

int tally_comm_init(struct tally_comm **comm, const char *job, uint32_t size, uint32_t rank,
		    const struct tally_options *options)
{
	struct bootstrap boot = { .size = size, .rank = rank, .source = "arguments" };
	char text[BOOTSTRAP_TEXT_MAX];
	struct tally_options mine;
	int result = comm_init_check(comm, &mine, options, "tally_comm_init");

	if (result)
		return result;
	if (!job || strlen(job) > BOOTSTRAP_JOB_MAX)
		return report_error(NULL, TALLY_ERR_ARGUMENT,
				    "tally_comm_init: job: a name has 1 to %d bytes",
				    BOOTSTRAP_JOB_MAX);
	strcpy(boot.job, job);
	result = config_bootstrap(&boot, &mine, false, text);
	if (result)
		return report_error(NULL, result, "tally_comm_init: %s", text);
	return comm_open(comm, &boot, &mine, NULL);
}

int tally_comm_init_env(struct tally_comm **comm, const struct tally_options *options)
{
	struct bootstrap boot;
	char text[BOOTSTRAP_TEXT_MAX];
	struct tally_options mine;
	int result = comm_init_check(comm, &mine, options, "tally_comm_init_env");

	if (result)
		return result;
	result = config_bootstrap(&boot, &mine, true, text);
	if (result)
		return report_error(NULL, result, "tally_comm_init_env: %s", text);
	return comm_open(comm, &boot, &mine, NULL);
}

/* ---- the end ---- */

static bool is_idle(struct tally_comm *comm, void *arg)
{
	(void)arg;
	return atomic_load(&comm->error) || (!comm->outstanding.first && !comm->held.first &&
					     !comm->calling.first && !comm->folding.first);
}

static bool has_left(struct tally_comm *comm, void *arg)
{
	(void)arg;
	return atomic_load(&comm->error) || (comm->state == COMM_LEFT && comm->is_over);
}

static int wait_check(struct tally_comm *comm, const char *call)
{
	int result = comm_check(comm, call);

	return result ? result : operation_may_wait(comm, call);
}

/* Lock held. PROGRESS_INTERRUPTED before LEAVE was said: as if it had not been called; after: to be called again. */
static enum progress_end leave_wait(struct tally_comm *comm, bool may_interrupt)
{
	enum progress_end end;

	if (!comm->is_finalize_interrupted) {
		comm->state = COMM_LEAVING; /* nothing new may start */
		end = progress_wait(comm, is_idle, NULL, UINT64_MAX, may_interrupt);
		if (end == PROGRESS_INTERRUPTED)
			comm->state = COMM_RUNNING;
		if (end != PROGRESS_OVER || atomic_load(&comm->error))
			return end;
		comm->wants_leave = true;
		wake_background();
	}
	end = progress_wait(comm, has_left, NULL, UINT64_MAX, may_interrupt);
	comm->is_finalize_interrupted = end == PROGRESS_INTERRUPTED;
	return end;
}

/* Lock held. */
static int leave(struct tally_comm *comm, bool may_interrupt)
{
	enum progress_end end = leave_wait(comm, may_interrupt);
	int error;

	if (end == PROGRESS_INTERRUPTED)
		return TALLY_INTERRUPTED;
	if (comm_is_forked(comm))
		return comm_check(comm, "tally_comm_finalize");
	error = atomic_load(&comm->error);
	return error ? report_again(error, comm->error_text) : TALLY_OK;
}

void comm_say_end(struct tally_comm *comm)
{
	struct tally_stats stats = TALLY_STATS_INIT;
	char shared[48] = "";
	uint64_t all;
	bool is_much;

	if (comm->pair_of ||
	    tally_comm_get_stats(comm, &stats)) /* a pair's are its parent's, too */
		return;
	all = stats.packets_out + stats.packets_resent;
	/* In latency mode a packet goes again while another rank computes: that says nothing of the network. */
	is_much = !comm->latency_slots && stats.packets_resent >= AGAIN_LEAST &&
		  stats.packets_resent * 100 >= all * AGAIN_PERCENT;
	if (stats.shared)
		snprintf(shared, sizeof(shared), ", %llu of them in shared memory",
			 (unsigned long long)stats.shared);
	report_log(&comm->who, is_much ? TALLY_LOG_WARN : TALLY_LOG_INFO,
		   "left after %llu operations%s: %llu packets out, %llu of them (%.2f %%) sent "
		   "again%s",
		   (unsigned long long)stats.operations, shared, (unsigned long long)all,
		   (unsigned long long)stats.packets_resent,
		   all ? 100 * (double)stats.packets_resent / (double)all : 0,
		   is_much ? ", for they had been lost: tally doctor says how many are" : "");
}

/* All pairs, also the one that another thread opens just now: nothing new begins in them. False: it may. */
static void closing_set(struct tally_comm *comm, bool is_closing)
{
	pthread_mutex_lock(&comm->pairs_lock);
	comm_lock(comm);
	comm->is_closing = is_closing;
	comm_unlock(comm);
	pthread_mutex_unlock(&comm->pairs_lock);
}

/* It has nothing to leave: it never became whole, and nobody waits for it. Lock held. */
static void pair_drop(struct tally_comm *pair)
{
	pair->state = COMM_LEFT;
	pair->wants_error = true;
	pair->fault_cause = CONTROL_REMOTE;
	snprintf(pair->fault_text, sizeof(pair->fault_text), "it has finalized");
	wake_background();
}

/* A pair's operations end, or its other rank does not come until then. What broke it is an end, too. */
static enum progress_end pair_wait(struct tally_comm *pair, uint64_t until_ns, bool may_interrupt)
{
	enum progress_end end = PROGRESS_OVER;

	comm_lock(pair);
	if (pair->state == COMM_JOINING)
		end = progress_wait(pair, is_idle, NULL, until_ns, may_interrupt);
	if (end == PROGRESS_FORKED)
		return end;
	if (pair->state == COMM_JOINING && !atomic_load(&pair->error)) {
		if (end == PROGRESS_LATE &&
		    pair->held.first) /* else a function of the user's runs */
			comm_break_alone(pair);
		else if (end == PROGRESS_OVER)
			pair_drop(pair);
	}
	comm_unlock(pair);
	return end;
}

static int finalize(struct tally_comm *comm, bool may_interrupt);

static int pair_finalize(struct tally_comm *pair, uint64_t until_ns, bool may_interrupt)
{
	bool is_left;

	switch (pair_wait(pair, until_ns, may_interrupt)) {
	case PROGRESS_INTERRUPTED:
		return TALLY_INTERRUPTED;
	case PROGRESS_FORKED:
		return comm_check(pair, "tally_comm_finalize");
	case PROGRESS_OVER:
	case PROGRESS_LATE:
		break;
	}
	comm_lock(pair);
	is_left = pair->state == COMM_LEFT && !pair->is_finalize_interrupted;
	comm_unlock(pair);
	return is_left ? TALLY_OK : finalize(pair, may_interrupt);
}

/* All of them, whatever becomes of one: *error is the first one's. True: go on. */
static bool pairs_finalize(struct tally_comm *comm, bool may_interrupt, int *error)
{
	uint64_t until_ns = clock_ns() + comm->boot.init_timeout_s * 1000000000ull;
	int result = TALLY_OK;

	closing_set(comm, true);
	for (struct tally_comm *pair = comm->pairs; pair; pair = pair->next_pair) {
		result = pair_finalize(pair, until_ns, may_interrupt);
		if (comm_is_forked(comm) || result == TALLY_INTERRUPTED)
			break;
		*error = *error ? *error : result;
	}
	if (comm_is_forked(comm)) {
		*error = result;
		return false;
	}
	if (result != TALLY_INTERRUPTED)
		return true;
	closing_set(comm, false);
	*error = TALLY_INTERRUPTED;
	return false;
}

static int leave_alone(struct tally_comm *comm, bool may_interrupt)
{
	int result;

	comm_lock(comm);
	result = atomic_load(&comm->error);
	if (result)
		report_again(result, comm->error_text);
	else if (comm->state != COMM_RUNNING && !comm->is_finalize_interrupted)
		result = report_error(&comm->who, TALLY_ERR_USAGE, "tally_comm_finalize: twice");
	else
		result = leave(comm, may_interrupt);
	comm_unlock(comm);
	if (result)
		return result;
	if (!local_wait(comm, may_interrupt)) {
		comm_lock(comm);
		comm->is_finalize_interrupted = true;
		comm_unlock(comm);
		return TALLY_INTERRUPTED;
	}
	local_close(comm, UINT32_MAX);
	result = comm_error(comm);
	if (result)
		return report_again(result, comm->error_text);
	comm_say_end(comm);
	return TALLY_OK;
}

static int finalize(struct tally_comm *comm, bool may_interrupt)
{
	int result = wait_check(comm, "tally_comm_finalize"), of_pairs = TALLY_OK;

	if (result)
		return result;
	if (!pairs_finalize(comm, may_interrupt, &of_pairs))
		return of_pairs;
	result = leave_alone(comm, may_interrupt);
	if (result == TALLY_INTERRUPTED)
		closing_set(comm, false);
	return result ? result : of_pairs;
}

int tally_comm_finalize(struct tally_comm *comm)
{
	return finalize(comm, true);
}

/* Nothing here but what a signal handler may do: no lock, no text. The background thread is woken, takes the
 * lock when it is free, and does it. */
int tally_comm_abort(struct tally_comm *comm)
{
	int before = errno;

	if (!comm)
		return TALLY_ERR_ARGUMENT;
	if (comm_is_forked(comm))
		return TALLY_ERR_USAGE;
	atomic_store(&comm->is_abort_asked, true);
	wake_background();
	errno = before;
	return TALLY_OK;
}

/* Those that have not ended yet do so side by side. */
static void pairs_close(struct tally_comm *comm)
{
	for (struct tally_comm *pair = comm->pairs; pair; pair = pair->next_pair) {
		comm_lock(pair);
		pair->wants_abort = pair->state != COMM_LEFT && !atomic_load(&pair->error);
		comm_unlock(pair);
	}
	wake_background();
	while (comm->pairs) {
		struct tally_comm *pair = comm->pairs;

		comm->pairs = pair->next_pair;
		comm_end(pair, LAST_WORDS_MS);
		comm_free(pair);
	}
}

static uint32_t gathered_in(struct tally_comm *comm)
{
	uint32_t gathered;

	comm_lock(comm);
	gathered = comm->gathered;
	comm_unlock(comm);
	for (struct tally_comm *pair = comm->pairs; pair; pair = pair->next_pair)
		gathered += gathered_in(pair);
	return gathered;
}

void tally_comm_destroy(struct tally_comm *comm)
{
	uint32_t gathered;
	bool is_sound;

	if (!comm || wait_check(comm, "tally_comm_destroy"))
		return;
	gathered = gathered_in(comm);
	comm_lock(comm);
	is_sound = comm->state == COMM_RUNNING && !atomic_load(&comm->error);
	comm_unlock(comm);
	if (gathered) {
		report_error(
			&comm->who, TALLY_ERR_USAGE,
			"tally_comm_destroy: another thread's group has gathered %u operations "
			"and is not at its tally_group_end: nothing is freed",
			gathered);
		return;
	}
	if (is_sound)
		(void)finalize(comm, false);
	if (comm_is_forked(comm))
		return;
	pairs_close(comm);
	comm_end(comm, LAST_WORDS_MS);
	comm_free(comm);
}
