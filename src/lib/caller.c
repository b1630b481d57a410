/* SPDX-License-Identifier: Apache-2.0 */
/* caller.c - see caller.h. */
#include "lib/caller.h"

#include "util/thread.h"

static struct {
	pthread_mutex_t lock; /* taken after a communicator's */
	pthread_cond_t changed;
	pthread_t thread;
	struct tally_comm *first, **end; /* where something is due, by next_due */
	const struct tally_comm *called; /* the thread is in it */
	bool is_started, stop;
} caller = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.end = &caller.first,
};

/* The first in the queue. */
static struct tally_comm *take(void)
{
	struct tally_comm *comm = caller.first;

	caller.first = comm->next_due;
	if (!caller.first)
		caller.end = &caller.first;
	comm->is_due = false;
	caller.called = comm;
	return comm;
}

static void *caller_main(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&caller.lock);
	while (!caller.stop) {
		struct tally_comm *comm;

		if (!caller.first) {
			pthread_cond_wait(&caller.changed, &caller.lock);
			continue;
		}
		comm = take();
		pthread_mutex_unlock(&caller.lock);
		comm_lock(comm);
		progress_callbacks(comm);
		/* A function has forked, and returned in the child. */
		if (comm_is_forked(comm))
			pthread_exit(NULL);
		comm_unlock(comm);
		pthread_mutex_lock(&caller.lock);
		caller.called = NULL;
		pthread_cond_broadcast(&caller.changed);
	}
	pthread_mutex_unlock(&caller.lock);
	return NULL;
}

/* False: there is no thread. */
static bool queue(struct tally_comm *comm)
{
	bool is_there;

	pthread_mutex_lock(&caller.lock);
	caller.is_started = caller.is_started || !thread_create(&caller.thread, caller_main, NULL);
	is_there = caller.is_started;
	if (is_there && !comm->is_due) {
		comm->is_due = true;
		comm->next_due = NULL;
		*caller.end = comm;
		caller.end = &comm->next_due;
		pthread_cond_broadcast(&caller.changed);
	}
	pthread_mutex_unlock(&caller.lock);
	return is_there;
}

void caller_look(struct tally_comm *comm)
{
	if (comm->calling.first && !queue(comm))
		progress_callbacks(comm);
}

void caller_forget(struct tally_comm *comm)
{
	struct tally_comm **at = &caller.first;

	pthread_mutex_lock(&caller.lock);
	while (*at && *at != comm)
		at = &(*at)->next_due;
	if (*at) {
		*at = comm->next_due;
		if (!*at)
			caller.end = at;
	}
	comm->is_due = false;
	while (caller.called == comm)
		pthread_cond_wait(&caller.changed, &caller.lock);
	pthread_mutex_unlock(&caller.lock);
}

void caller_end(void)
{
	pthread_mutex_lock(&caller.lock);
	caller.stop = true;
	pthread_cond_broadcast(&caller.changed);
	pthread_mutex_unlock(&caller.lock);
	if (caller.is_started)
		pthread_join(caller.thread, NULL);
	caller.is_started = caller.stop = false;
}

void caller_fork_prepare(void)
{
	pthread_mutex_lock(&caller.lock);
}

void caller_fork_parent(void)
{
	pthread_mutex_unlock(&caller.lock);
}

void caller_fork_child(void)
{
	caller.first = NULL;
	caller.end = &caller.first;
	caller.called = NULL;
	caller.is_started = false;
	pthread_mutex_unlock(&caller.lock);
	pthread_cond_init(&caller.changed, NULL);
}
