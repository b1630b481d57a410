/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending.c - operations in flight as requests of MPI: generalized requests, which MPI_Wait, MPI_Testsome and all their
 * kin know, in every language. Somebody has to look at tally and to say that a request is complete. A thread of ours
 * would need MPI_THREAD_MULTIPLE, which makes all of MPI slower; calls of our own in front of MPI_Wait and its kin would
 * be needed once more for Fortran. Instead MPI itself asks us while it waits or tests: MPICH by the function that
 * MPIX_Grequest_start takes, Open MPI by opal_progress_register, with which its own parts do the same. It is looked up
 * when it is needed. Where neither is there, non-blocking calls stay with MPI.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bindings/mpi/shim.h"

struct pending {
	struct pending *next, **at; /* of those in flight */
	struct tally_work *work;
	struct plan *plan;
	bool is_owned;
	atomic_bool is_over;
	int code;
	MPI_Request request;
};

/* Nobody needs the plan any longer. Not in forget(), where MPICH 4.0 holds a lock that freeing a type wants. */
static void let_go(struct pending *pending)
{
	if (!pending->is_owned)
		return;
	plan_free(pending->plan);
	free(pending->plan);
	pending->plan = NULL;
}

/* Is it over? Then its result is there, and what it has brought is in its place. */
static bool look(struct pending *pending)
{
	const struct plan *plan = pending->plan;
	int done = 0, result = tally_test(&pending->work, &done);

	if (!result && !done)
		return false;
	if (!result)
		result = plan_end(pending->plan);
	pending->code = result ? report_code(plan->kind, result, plan->place->tally) : MPI_SUCCESS;
	let_go(pending);
	return true;
}

static int query(void *state, MPI_Status *status)
{
	const struct pending *pending = state;

	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	status->MPI_SOURCE = MPI_UNDEFINED;
	status->MPI_TAG = MPI_UNDEFINED;
	status->MPI_ERROR = pending->code;
	return pending->code;
}

static int forget(void *state)
{
	free(state);
	return MPI_SUCCESS;
}

/* MPI does not allow it for collectives. */
static int cancel(void *state, int is_complete)
{
	(void)state;
	(void)is_complete;
	return MPI_SUCCESS;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *first;
static atomic_uint in_flight;

/* What is complete may be gone before Grequest_complete returns. */
int pending_look(void)
{
	int events = 0;

	if (!atomic_load_explicit(&in_flight, memory_order_relaxed) || pthread_mutex_trylock(&lock))
		return 0;
	for (struct pending *pending = first, *next; pending; pending = next) {
		next = pending->next;
		if (!look(pending))
			continue;
		*pending->at = next;
		if (next)
			next->at = pending->at;
		atomic_fetch_sub(&in_flight, 1);
		atomic_store(&pending->is_over, true);
		PMPI_Grequest_complete(pending->request);
		events++;
	}
	pthread_mutex_unlock(&lock);
	return events;
}

#ifdef OPEN_MPI

static bool is_asked;

/* poke_can_ask: it is there. */
static void ask_us(void)
{
	int (*add)(int (*)(void)) = NULL;

	*(void **)&add = dlsym(RTLD_DEFAULT, "opal_progress_register");
	is_asked = add && !add(pending_look);
}

static int request_make(struct pending *pending)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, ask_us);
	return is_asked ? PMPI_Grequest_start(query, forget, cancel, pending, &pending->request)
			: MPI_ERR_INTERN;
}

#else

/* MPI does nothing else while it asks, but what else is on its way has to get on. */
static int ask(void *state, MPI_Status *status)
{
	(void)state;
	(void)status;
	if (!pending_look())
		poke();
	return MPI_SUCCESS;
}

/* Where all that MPI waits for is ours; it knows no time-out. */
static int wait_for(int count, void **states, double timeout, MPI_Status *status)
{
	(void)timeout;
	for (int i = 0; i < count; i++) {
		struct pending *pending = states[i];

		while (!atomic_load(&pending->is_over))
			ask(states[i], status);
	}
	return MPI_SUCCESS;
}

static int request_make(struct pending *pending)
{
	return PMPIX_Grequest_start(query, forget, cancel, ask, wait_for, pending,
				    &pending->request);
}

#endif

static int hand_to_mpi(struct pending *pending, MPI_Request *request)
{
	int code = request_make(pending);

	if (code)
		return code;
	*request = pending->request; /* from here on it may be over, and pending gone */
	pthread_mutex_lock(&lock);
	pending->next = first;
	pending->at = &first;
	if (first)
		first->at = &pending->next;
	first = pending;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&in_flight, 1);
	return MPI_SUCCESS;
}

int pending_start(struct plan *plan, bool is_owned, MPI_Request *request)
{
	struct pending *pending = calloc(1, sizeof(*pending));
	int result;

	if (!pending)
		return report_fault(TALLY_ERR_NO_MEMORY, "no memory for a request");
	pending->plan = plan;
	pending->is_owned = is_owned;
	result = plan_start(plan, &pending->work);
	if (!result && hand_to_mpi(pending, request)) {
		poke_wait(&pending->work);
		result = report_fault(TALLY_ERR_INTERNAL, "MPI makes no request");
	}
	if (result)
		free(pending);
	return result;
}
