/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - whoever waits drives: see comm.h. */
#include <assert.h>
#include <sched.h>
#include <string.h>

#include "lib/carrier.h"
#include "lib/comm.h"
#include "lib/group.h"
#include "lib/paths.h"
#include "lib/present.h"

enum {
	DONE_BATCH = 64,
	/* A thread that leaves an operation on its way most likely comes back to drive it by itself. The background
	 * thread gives it so long if there is something left to send, else longer each time that it did come back. */
	PATIENCE_LEAST_US = 100,
	PATIENCE_MOST_US = 1600,
	ASK_MS = 50, /* between two questions to the program, whether a wait is to end */
};

/* An on_done function has forked, and this is the child. */
static bool has_forked(const struct tally_comm *comm)
{
	return comm_is_forked(comm);
}

/* The endpoint has given up: said here at once, and to the others by the background thread. */
static void endpoint_failed(struct tally_comm *comm)
{
	enum endpoint_fault fault = endpoint_fault(comm->endpoint);
	enum control_cause cause = fault == ENDPOINT_PROTOCOL_ERROR ? CONTROL_INTERNAL
								    : CONTROL_SYSTEM;

	if (fault == ENDPOINT_TOO_LARGE)
		paths_say_too_large(comm, comm->fault_text);
	else
		strcpy(comm->fault_text,
		       fault == ENDPOINT_LINK_ERROR
			       ? "the kernel refuses to send or receive on the UDP socket"
			       : "the aggregator answered a round that was not asked, or a rank "
				 "has not sent its part (a bug in tally)");
	comm->wants_error = true;
	comm->fault_cause = cause;
	comm_break(comm, result_of_cause(cause), comm->fault_text);
	wake_background();
}

/* What follows a poll of the endpoint. Whether there was anything to do. */
static bool settle(struct tally_comm *comm, bool is_busy)
{
	uint64_t cookies[DONE_BATCH];
	uint32_t count;

	do {
		count = carrier_done(comm, cookies, DONE_BATCH);
		for (uint32_t i = 0; i < count; i++) {
			struct tally_work *work = (struct tally_work *)(uintptr_t)cookies[i];

			work_complete(comm, work,
				      work->is_out_of_range ? TALLY_ERR_RANGE : TALLY_OK);
		}
	} while (count == DONE_BATCH);
	if (work_submit_waiting(comm))
		is_busy = true;
	if (carrier_fault(comm) != ENDPOINT_OK)
		endpoint_failed(comm);
	return is_busy;
}

bool progress_drive(struct tally_comm *comm)
{
	comm->is_left = false;
	return settle(comm, carrier_poll(comm));
}

/* Nobody else sees to it, or only at a time that was right before this thread has sent something. */
static bool is_neglected(const struct tally_comm *comm)
{
	return comm->outstanding.first && comm->endpoint &&
	       (!comm->is_watched || carrier_next(comm) < comm->watched_until_ns);
}

/* Is there more to do than to wait for what has been sent? */
static bool has_unsent(const struct tally_comm *comm)
{
	for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
		if (comm->waiting[stream].first)
			return true;
	return carrier_next(comm) <= clock_ns();
}

static uint64_t return_ns(const struct tally_comm *comm)
{
	bool is_least = comm->patience_us < PATIENCE_LEAST_US || has_unsent(comm);

	return comm->touched_ns + 1000ull * (is_least ? PATIENCE_LEAST_US : comm->patience_us);
}

static void remind(struct tally_comm *comm)
{
	uint64_t at_ns = return_ns(comm);

	if (!comm->look_ns || at_ns < comm->look_ns)
		comm->look_ns = at_ns;
	wake_background_at(comm->look_ns);
}

bool progress_is_left(struct tally_comm *comm, bool is_idle, uint64_t *until_ns)
{
	uint64_t now_ns = clock_ns();
	bool is_asked = comm->look_ns && now_ns >= comm->look_ns;
	bool is_left = is_idle && now_ns >= return_ns(comm);

	if (is_asked) {
		comm->look_ns = 0;
		comm->patience_us = is_left ? PATIENCE_LEAST_US : 2 * comm->patience_us;
		if (comm->patience_us < PATIENCE_LEAST_US)
			comm->patience_us = 2 * PATIENCE_LEAST_US;
		if (comm->patience_us > PATIENCE_MOST_US)
			comm->patience_us = PATIENCE_MOST_US;
	}
	*until_ns = UINT64_MAX;
	if (is_idle && !is_left)
		*until_ns = comm->look_ns = return_ns(comm);
	return is_left;
}

/* This thread stops driving. */
static void hand_over(struct tally_comm *comm)
{
	if (comm->sleepers) {
		pthread_cond_broadcast(&comm->changed);
	} else if (is_neglected(comm)) {
		/* Of many submits in a row the first counts: the background thread's turn comes. */
		if (!comm->is_left)
			comm->touched_ns = clock_ns();
		comm->is_left = true;
		remind(comm);
	}
	if (comm->calling.first)
		wake_background();
}

void progress_submitted(struct tally_comm *comm)
{
	if (comm->is_driven) {
		if (comm->is_waiting)
			carrier_wake(comm);
		return;
	}
	if (comm->endpoint && comm->state != COMM_JOINING && !atomic_load(&comm->error)) {
		carrier_begin(comm); /* no more than that: a submit does not wait */
		settle(comm, false);
	}
	progress_callbacks(comm);
	if (!comm->is_driven && !has_forked(comm))
		hand_over(comm);
}

void progress_gathered(struct tally_comm *comm)
{
	if (comm->is_driven || !comm->endpoint)
		progress_submitted(comm);
	else if (comm->sleepers)
		pthread_cond_broadcast(&comm->changed);
	else
		remind(comm); /* it does not know that there is something to send */
}

void progress_call(struct tally_work *work, tally_done_fn fn, int result, void *arg)
{
	unsigned group = group_suspend();

	present_inside(1);
	fn(work, result, arg);
	present_inside(-1);
	group_resume(group);
}

bool progress_look(struct tally_comm *comm)
{
	bool is_busy = progress_drive(comm);

	if (!comm->is_driven && !comm->sleepers && is_neglected(comm))
		remind(comm);
	return is_busy;
}

/* A user's function has forked, and this is the child: its copy of the lock may be another thread's, and
 * nothing else of the communicator is worth looking at. */
static void lock_renew(struct tally_comm *comm)
{
	pthread_mutex_init(&comm->lock, NULL);
	pthread_mutex_lock(&comm->lock);
}

/* Lock held, but not meanwhile: it may take long, and TALLY_USER is a function of the program's. */
static void fold(struct tally_comm *comm, struct tally_work *work)
{
	unsigned group = group_suspend();

	work_append(&comm->folding, work);
	comm_unlock(comm);
	present_inside(1);
	fold_run(work->fold, work->segments, work->segments_count);
	present_inside(-1);
	group_resume(group);
	if (has_forked(comm)) {
		lock_renew(comm);
		return;
	}
	comm_lock(comm);
	work_remove(&comm->folding, work);
	work_folded(comm, work);
}

void progress_callbacks(struct tally_comm *comm)
{
	if (present_is_calling())
		return; /* the outer loop goes on when this function returns to it */
	while (comm->calling.first) {
		struct tally_work *work = comm->calling.first;

		work_remove(&comm->calling, work);
		if (work->fold && work->result == TALLY_OK) {
			fold(comm, work);
			if (has_forked(comm))
				return;
			continue;
		}
		comm_unlock(comm);
		progress_call(work, work->done_fn, work->result, work->done_arg);
		if (has_forked(comm)) {
			lock_renew(comm);
			return;
		}
		comm_lock(comm);
		present_calls(-1);
		work_rest(comm, work);
		wake_waiters(comm);
	}
}

/* Lets others have the lock between two bursts: an unfair mutex would keep them out. */
static void let_in(struct tally_comm *comm)
{
	if (!atomic_load_explicit(&comm->contenders, memory_order_relaxed))
		return;
	comm_unlock(comm);
	sched_yield();
	comm_lock(comm);
}

/* A wait, and what may end it. */
struct waiter {
	progress_over_fn is_over;
	void *arg;
	uint64_t until_ns;
	uint64_t ask_ns; /* when to ask the program; UINT64_MAX: never */
	bool is_interrupted;
};

bool progress_is_interrupted(struct tally_comm *comm)
{
	unsigned group = group_suspend();
	bool is_interrupted;

	present_inside(1);
	is_interrupted = comm->interrupted(comm->interrupted_ctx) != 0;
	present_inside(-1);
	group_resume(group);
	return is_interrupted;
}

/* Lock held, but not while the program is asked. False: it has not been asked. */
static bool ask(struct tally_comm *comm, struct waiter *waiter)
{
	if (waiter->ask_ns == UINT64_MAX || clock_ns() < waiter->ask_ns)
		return false;
	comm_unlock(comm);
	waiter->is_interrupted = progress_is_interrupted(comm);
	waiter->ask_ns = clock_ns() + ASK_MS * 1000000ull;
	if (has_forked(comm))
		lock_renew(comm);
	else
		comm_lock(comm);
	return true;
}

static uint64_t wake_ns(const struct waiter *waiter)
{
	return waiter->until_ns < waiter->ask_ns ? waiter->until_ns : waiter->ask_ns;
}

static void driver_wait(struct tally_comm *comm, uint64_t until_ns)
{
	uint64_t next = carrier_next(comm);

	comm->is_waiting = true;
	comm_unlock(comm);
	carrier_wait(comm, next < until_ns ? next : until_ns);
	comm_lock(comm);
	comm->is_waiting = false;
}

/* The caller has just become the driver. */
static void drive_until(struct tally_comm *comm, struct waiter *waiter)
{
	/* What was just submitted goes out before a look for answers: there can be none yet. */
	carrier_begin(comm);
	while (!atomic_load(&comm->error)) {
		bool is_busy = progress_drive(comm);

		if (comm->calling.first) {
			progress_callbacks(comm);
			is_busy = true; /* they may have started something */
		}
		if (has_forked(comm) || waiter->is_over(comm, waiter->arg) ||
		    atomic_load(&comm->error))
			break;
		if (waiter->until_ns != UINT64_MAX && clock_ns() >= waiter->until_ns)
			break;
		if (ask(comm, waiter)) {
			if (waiter->is_interrupted || has_forked(comm))
				break;
			continue; /* what happened meanwhile? */
		}
		if (is_busy)
			let_in(comm);
		else
			driver_wait(comm, wake_ns(waiter));
	}
}

static void sleep_until(struct tally_comm *comm, uint64_t until_ns)
{
	comm->sleepers++;
	if (until_ns == UINT64_MAX) {
		pthread_cond_wait(&comm->changed, &comm->lock);
	} else {
		struct timespec until = clock_timespec(until_ns);

		pthread_cond_timedwait(&comm->changed, &comm->lock, &until);
	}
	comm->sleepers--;
}

static enum progress_end wait_for(struct tally_comm *comm, progress_over_fn is_over, void *arg,
				  uint64_t until_ns, bool may_interrupt)
{
	struct waiter waiter = { is_over, arg, until_ns, UINT64_MAX, false };
	bool has_slept = false, is_in_time = true;

	assert(!present_is_calling());
	if (may_interrupt && comm->interrupted)
		waiter.ask_ns = clock_ns() + ASK_MS * 1000000ull;
	while (is_in_time && !has_forked(comm) && !is_over(comm, arg) && !waiter.is_interrupted) {
		if (until_ns != UINT64_MAX && clock_ns() >= until_ns) {
			is_in_time = false;
		} else if (comm->calling.first) {
			progress_callbacks(comm);
		} else if (ask(comm, &waiter)) {
			continue; /* what happened meanwhile? */
		} else if (comm->is_driven || !comm->outstanding.first) {
			sleep_until(comm, wake_ns(&waiter));
			has_slept = true;
		} else {
			comm->is_driven = true;
			drive_until(comm, &waiter);
			comm->is_driven = false;
			if (!has_forked(comm))
				hand_over(comm);
			has_slept = false;
		}
	}
	if (has_forked(comm))
		return PROGRESS_FORKED;
	if (has_slept && !comm->is_driven) /* the driver relied on us to follow, and we shall not */
		hand_over(comm);
	if (waiter.is_interrupted && !is_over(comm, arg))
		return PROGRESS_INTERRUPTED;
	return is_in_time ? PROGRESS_OVER : PROGRESS_LATE;
}

static void blocked_link(struct tally_comm *comm, struct blocked *blocked)
{
	blocked->prev = NULL;
	blocked->next = comm->blocked;
	if (blocked->next)
		blocked->next->prev = blocked;
	comm->blocked = blocked;
	present_moved();
}

static void blocked_unlink(struct tally_comm *comm, const struct blocked *blocked)
{
	if (blocked->next)
		blocked->next->prev = blocked->prev;
	if (blocked->prev)
		blocked->prev->next = blocked->next;
	else
		comm->blocked = blocked->next;
	present_moved();
}

enum progress_end progress_wait(struct tally_comm *comm, progress_over_fn is_over, void *arg,
				uint64_t until_ns, bool may_interrupt)
{
	struct blocked blocked = { .is_over = is_over, .arg = arg };
	enum progress_end end;

	/* R-CT-45: what the program may end at any time is no wait for as long as it takes. */
	if (until_ns != UINT64_MAX || is_over(comm, arg) || (may_interrupt && comm->interrupted))
		return wait_for(comm, is_over, arg, until_ns, may_interrupt);
	blocked_link(comm, &blocked);
	end = wait_for(comm, is_over, arg, until_ns, may_interrupt);
	blocked_unlink(comm, &blocked);
	return end;
}
