/* SPDX-License-Identifier: Apache-2.0 */
/* background.c - see background.h. */
#include "lib/background.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/shared/rto.h"
#include "dataplane/link_udp.h"
#include "lib/caller.h"
#include "lib/carrier.h"
#include "lib/local.h"
#include "lib/membership.h"
#include "lib/present.h"
#include "util/thread.h"

enum {
	BURSTS = 64, /* of one communicator before the next one's turn */
	POLLS_EACH = MEMBERSHIP_AGGREGATORS_MAX + 1, /* control connections and UDP socket */
	/* Memory has no descriptor: who drives it looks again, soon if it has just got on, then less often. */
	WATCH_US = 50,
	WATCH_US_MAX = 1000,
};

static struct {
	pthread_mutex_t life; /* one at a time starts or ends the thread; taken before `lock` */
	unsigned users;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct tally_comm *comms; /* all that the thread serves */
	struct pollfd *polls;     /* room for all of them, for the thread to take; NULL: it has */
	bool stop;
	bool has_fork_handler;
} background = {
	.life = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
};

/* ---- fork ---- */

/* A fork must not find the locks held by a thread that the child does not have. */
static void fork_prepare(void)
{
	pthread_mutex_lock(&background.life);
	pthread_mutex_lock(&background.lock);
	caller_fork_prepare();
	timeline_fork_prepare();
	report_fork_prepare();
}

static void fork_parent(void)
{
	report_fork_done();
	timeline_fork_parent();
	caller_fork_parent();
	pthread_mutex_unlock(&background.lock);
	pthread_mutex_unlock(&background.life);
}

/* The child has the handles' memory, but neither the thread nor a right to the connections: if it kept
 * them open, nobody would notice the parent's death. */
static void fork_child(void)
{
	report_fork_done();
	timeline_fork_child();
	caller_fork_child();
	present_forked();
	for (struct tally_comm *comm = background.comms; comm; comm = comm->next_comm) {
		membership_forget(comm);
		local_forget(comm);
		if (comm->link)
			close(link_udp_fd(comm->link));
	}
	wake_close();
	background.comms = NULL;
	background.users = 0;
	background.stop = false;
	pthread_mutex_unlock(&background.lock);
	pthread_mutex_unlock(&background.life);
	pthread_cond_init(&background.changed, NULL);
}

/* ---- the thread ---- */

static bool wants_driving(const struct tally_comm *comm)
{
	return comm->endpoint && !comm->is_driven && !atomic_load(&comm->error) &&
	       (comm->outstanding.first || comm->state == COMM_JOINING || comm->is_knocking);
}

/* When to look at shared memory again. */
static uint64_t watch_ns(struct tally_comm *comm, bool has_come)
{
	comm->watch_us = has_come || !comm->watch_us ? WATCH_US : 2 * comm->watch_us;
	if (comm->watch_us > WATCH_US_MAX)
		comm->watch_us = WATCH_US_MAX;
	return clock_ns() + 1000ull * comm->watch_us;
}

/* Drives it, if nobody else does. When to do so again if nothing comes. */
static uint64_t drive(struct tally_comm *comm)
{
	uint64_t until_ns = UINT64_MAX;
	bool is_busy = true, has_come = false, is_idle;

	comm_lock(comm);
	comm->is_watched = false;
	is_idle = wants_driving(comm);
	if (!progress_is_left(comm, is_idle, &until_ns) && is_idle) {
		comm_unlock(comm);
		return until_ns;
	}
	for (uint32_t i = 0; i < BURSTS && is_busy && wants_driving(comm); i++) {
		is_busy = progress_drive(comm);
		has_come |= is_busy;
		if (atomic_load(&comm->contenders))
			break;
	}
	caller_look(comm);
	if (comm_is_forked(comm)) /* an on_done function has forked, and returned in the child */
		pthread_exit(NULL);
	if (wants_driving(comm)) {
		comm->is_watched = true;
		comm->watched_events = comm->host ? 0 : link_udp_events(comm->link);
		until_ns = is_busy      ? 0
			   : comm->host ? watch_ns(comm, has_come)
					: endpoint_next(comm->endpoint);
		if (has_come && comm->state == COMM_JOINING)
			until_ns = 0; /* a WELCOME, which core/member waits for */
		comm->watched_until_ns = until_ns;
	}
	comm_unlock(comm);
	return until_ns;
}

/* Takes out what was given back, and what is there to wait with. The list of those that stay. */
static struct tally_comm *comms_take(struct pollfd **polls, bool *stop)
{
	struct tally_comm **at = &background.comms, *first;

	pthread_mutex_lock(&background.lock);
	while (*at) {
		struct tally_comm *comm = *at;

		if (!comm->is_removed) {
			at = &comm->next_comm;
			continue;
		}
		*at = comm->next_comm;
		comm->is_removed = false; /* this is what background_remove waits for */
		pthread_cond_broadcast(&background.changed);
	}
	if (background.polls) {
		free(*polls);
		*polls = background.polls;
		background.polls = NULL;
	}
	first = background.comms;
	*stop = background.stop;
	pthread_mutex_unlock(&background.lock);
	return first;
}

/* Serves everything once, fills in what to wait for; returns until when. */
static uint64_t serve(struct tally_comm *first, struct codec *codec, struct pollfd *polls,
		      nfds_t *polls_count)
{
	uint64_t until_ns = UINT64_MAX;

	timeline_service(clock_ns());
	*polls_count = WAKE_POLLS;
	for (struct tally_comm *comm = first; comm; comm = comm->next_comm) {
		membership_service(comm, codec, clock_ns());
		until_ns = rto_least(until_ns, drive(comm));
		until_ns = rto_least(until_ns, membership_deadline(comm));
		*polls_count += membership_poll(comm, &polls[*polls_count]);
		if (comm->is_watched && comm->watched_events)
			polls[(*polls_count)++] = (struct pollfd){ .fd = link_udp_fd(comm->link),
								   .events = comm->watched_events };
	}
	return until_ns;
}

static void block(struct pollfd *polls, nfds_t count, uint64_t until_ns)
{
	uint64_t now_ns = clock_ns();
	uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec left = clock_timespec(left_ns);

	if (ppoll(polls, count, until_ns == UINT64_MAX ? NULL : &left, NULL) > 0)
		wake_take(polls);
}

static void *background_main(void *arg)
{
	struct codec *codec = arg;
	struct pollfd *polls = NULL;
	bool stop;

	for (;;) {
		struct tally_comm *first = comms_take(&polls, &stop);
		uint64_t until_ns;
		nfds_t count;

		if (stop)
			break;
		wake_poll(polls);
		until_ns = serve(first, codec, polls, &count);
		block(polls, count, until_ns);
	}
	free(polls);
	free(codec);
	return NULL;
}

/* ---- start and end ---- */

/* `life` is held. */
static int thread_start(const struct tally_comm *comm)
{
	struct codec *codec = malloc(sizeof(*codec));
	int error = codec ? 0 : ENOMEM;

	if (!error && !background.has_fork_handler) {
		error = pthread_atfork(fork_prepare, fork_parent, fork_child);
		background.has_fork_handler = !error;
	}
	if (!error)
		error = wake_open();
	if (!error) {
		background.stop = false;
		error = thread_create(&background.thread, background_main, codec);
	}
	if (!error)
		return TALLY_OK;
	wake_close();
	free(codec);
	return report_error(&comm->who, TALLY_ERR_SYSTEM,
			    "tally_comm_init: no background thread: %s", strerror(error));
}

/* `life` is held: nobody else adds or removes. */
static int polls_add(const struct tally_comm *comm)
{
	size_t count = WAKE_POLLS + POLLS_EACH * (background.users + 1u);
	struct pollfd *polls = malloc(count * sizeof(*polls)), *unused;

	if (!polls)
		return report_error(&comm->who, TALLY_ERR_NO_MEMORY,
				    "tally_comm_init: out of memory");
	pthread_mutex_lock(&background.lock);
	unused = background.polls;
	background.polls = polls;
	pthread_mutex_unlock(&background.lock);
	free(unused);
	return TALLY_OK;
}

int background_add(struct tally_comm *comm)
{
	int result;

	pthread_mutex_lock(&background.life);
	result = polls_add(comm);
	if (!result && !background.users)
		result = thread_start(comm);
	if (!result) {
		background.users++;
		pthread_mutex_lock(&background.lock);
		comm->next_comm = background.comms;
		background.comms = comm;
		pthread_mutex_unlock(&background.lock);
		wake_background();
	}
	pthread_mutex_unlock(&background.life);
	return result;
}

/* A thread may be in an on_done function that forks, which needs `life`: it is not waited for with that. */
void background_remove(struct tally_comm *comm)
{
	pthread_mutex_lock(&background.lock);
	comm->is_removed = true;
	wake_background();
	while (comm->is_removed)
		pthread_cond_wait(&background.changed, &background.lock);
	pthread_mutex_unlock(&background.lock);
	caller_forget(comm);

	pthread_mutex_lock(&background.life);
	if (--background.users == 0) { /* no communicator, no on_done function */
		pthread_mutex_lock(&background.lock);
		background.stop = true;
		pthread_mutex_unlock(&background.lock);
		wake_background();
		pthread_join(background.thread, NULL);
		caller_end();
		wake_close();
	}
	pthread_mutex_unlock(&background.life);
}
