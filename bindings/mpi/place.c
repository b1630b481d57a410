/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c - a communicator's tally: an attribute of the communicator, which MPI takes away when it is freed.
 *
 * The first collective that may wait greets: the ranks tell each other what they are set to, and rank 0's settings count
 * for all. So a call's size decides alike on all of them. The tally communicator is made by the first call that is to be
 * tally's, if all ranks can; else none has one, for good.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bindings/mpi/shim.h"

enum {
	VERSION = 0x74616c02, /* of the greeting */
	PATIENCE_S = 10,      /* until a line about ranks that do not greet */
};

/* What a rank tells the others. */
struct greeting {
	uint32_t version;
	uint32_t is_all, is_exact, is_required, is_ordered, can_start;
	uint32_t is_without; /* it has found no aggregator before */
	uint64_t min_bytes;
	uint64_t host;
};

/* bench/mpi_sizes.sh: below it MPI is faster with 2 hosts; with 4 tally is, by 35 us a call at most: not worth a job at the
 * aggregator for each communicator that makes small calls alone. */
static const uint64_t min_bytes_default = 4096;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool is_begun;
static bool can_start;
static int keyval = MPI_KEYVAL_INVALID;
static struct place *places; /* all that have a tally communicator */
static atomic_bool is_without;
static atomic_uint leaving; /* threads that leave tally communicators */

/* ---- leaving ---- */

static void leave(struct tally_comm *tally)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	if (!tally_comm_get_stats(tally, &stats) && stats.saturated && !tally_comm_rank(tally))
		report_say("%llu elements of sums of integers have left their type: tally's "
			   "saturate, where MPI's wrap",
			   (unsigned long long)stats.saturated);
	if (!tally_comm_get_async_error(tally) && tally_comm_finalize(tally))
		report_say("leaving a communicator: %s", tally_get_last_error(tally));
	tally_comm_destroy(tally);
}

static void *leave_main(void *arg)
{
	poke_never_here();
	leave(arg);
	atomic_fetch_sub(&leaving, 1);
	return NULL;
}

/* In a thread of its own: a rank that hosts the aggregator waits for the others to leave, and the caller is in a function
 * of MPI's, which may hold a lock. */
static void leave_aside(struct tally_comm *tally)
{
	pthread_attr_t detached;
	sigset_t all, before;
	pthread_t thread;
	int error;

	atomic_fetch_add(&leaving, 1);
	sigfillset(&all);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &detached, leave_main, tally);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&detached);
	if (error) {
		leave(tally);
		atomic_fetch_sub(&leaving, 1);
	}
}

static void unlink_place(struct place *place)
{
	pthread_mutex_lock(&lock);
	for (struct place **at = &places; *at; at = &(*at)->next)
		if (*at == place) {
			*at = place->next;
			break;
		}
	pthread_mutex_unlock(&lock);
}

void place_give_up(struct place *place)
{
	if (!tally_comm_get_async_error(place->tally))
		tally_comm_abort(place->tally);
}

void place_get(struct place *place)
{
	atomic_fetch_add(&place->users, 1);
}

void place_put(struct place *place)
{
	if (atomic_fetch_sub(&place->users, 1) > 1)
		return;
	unlink_place(place);
	if (place->tally)
		leave_aside(place->tally);
	free(place);
}

static int on_free(MPI_Comm comm, int key, void *value, void *state)
{
	struct place *place = value;

	(void)comm;
	(void)key;
	(void)state;
	if (!place)
		return MPI_SUCCESS;
	place->comm = MPI_COMM_NULL;
	place_put(place);
	return MPI_SUCCESS;
}

/* The communicators that the program has not freed. Those first that wait for nobody, on every rank: two ranks that each
 * host one would wait for each other. */
static void leave_all(void)
{
	for (int hosts = 0; hosts < 2; hosts++)
		for (struct place *place = places; place; place = place->next)
			if (place->tally && (place->rank == 0) == (hosts == 1)) {
				leave(place->tally);
				place->tally = NULL;
				place->never = WHY_ARGUMENT; /* after MPI_Finalize */
			}
	while (atomic_load(&leaving)) {
		poke_meanwhile(NULL);
		usleep(200);
	}
}

/* MPI_COMM_SELF's attributes go first in MPI_Finalize, when MPI still works. */
static int on_finalize(MPI_Comm comm, int key, void *value, void *state)
{
	int rank, size;

	(void)comm;
	(void)key;
	(void)value;
	(void)state;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	PMPI_Comm_size(MPI_COMM_WORLD, &size);
	leave_all();
	if (settings()->report == 2 || (settings()->report == 1 && rank == 0))
		report_print(rank, size);
	poke_end();
	return MPI_SUCCESS;
}

/* ---- greeting ---- */

static void begin(void)
{
	int end_key;

	load_check();
	if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &keyval, NULL) ||
	    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &end_key, NULL) ||
	    PMPI_Comm_set_attr(MPI_COMM_SELF, end_key, &keyval) || !poke_begin())
		return;
	PMPI_Comm_free_keyval(&end_key);
	can_start = poke_can_ask();
	is_begun = true;
}

bool place_begin(void)
{
	int is_there = 0, is_over = 0;

	if (is_begun)
		return true;
	/* Sessions alone have no MPI_COMM_SELF. */
	if (PMPI_Initialized(&is_there) || !is_there || PMPI_Finalized(&is_over) || is_over)
		return false;
	pthread_once(&once, begin);
	return is_begun;
}

static uint64_t hash(const char *text)
{
	uint64_t value = 0xcbf29ce484222325;

	while (*text)
		value = (value ^ (unsigned char)*text++) * 0x100000001b3;
	return value;
}

static struct greeting greeting_mine(void)
{
	const struct settings *here = settings();
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	return (struct greeting){ .version = VERSION,
				  .is_all = here->is_all,
				  .is_exact = here->is_exact,
				  .is_required = here->is_required,
				  .is_ordered = here->is_ordered,
				  .can_start = can_start,
				  .is_without = atomic_load(&is_without),
				  .min_bytes = here->min_bytes,
				  .host = hash(host) };
}

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* A rank without this library does not come: then this line is all that a user sees. */
static int gather_greetings(const struct greeting *mine, struct greeting *all, MPI_Comm comm)
{
	time_t from_s = now_s();
	int is_complete = 0;
	bool is_said = false;
	MPI_Request request;
	int code = PMPI_Iallgather(mine, sizeof(*mine), MPI_BYTE, all, sizeof(*all), MPI_BYTE, comm,
				   &request);

	while (!code && !is_complete) {
		code = PMPI_Test(&request, &is_complete, MPI_STATUS_IGNORE);
		if (!is_said && !is_complete && now_s() - from_s >= PATIENCE_S) {
			report_say("waiting for %d s for all ranks of a communicator in its first "
				   "collective: do all of them preload this library?",
				   PATIENCE_S);
			is_said = true;
		}
		if (!is_complete)
			sched_yield();
	}
	return code;
}

static void settle(struct place *place, const struct greeting *all)
{
	bool is_one_host = true;

	place->is_all = all[0].is_all;
	place->is_exact = all[0].is_exact;
	place->is_required = all[0].is_required;
	place->is_ordered = all[0].is_ordered;
	place->can_start = true;
	for (int i = 0; i < place->size; i++) {
		if (all[i].version != VERSION)
			place->never = WHY_SHIM;
		else if (all[i].is_without && !place->never)
			place->never = WHY_AGGREGATOR;
		place->can_start = place->can_start && all[i].can_start;
		is_one_host = is_one_host && all[i].host == all[0].host;
	}
	place->min_bytes = all[0].min_bytes;
	if (place->min_bytes != UINT64_MAX)
		return;
	/* With an aggregator it would be MPI's, too: that there is none is no error (TALLY_MPI_REQUIRE). */
	if (is_one_host && place->never != WHY_SHIM)
		place->never = WHY_HOST;
	place->min_bytes = min_bytes_default;
}

/* The others would wait for this rank's greeting. */
static _Noreturn void no_memory(MPI_Comm comm)
{
	report_say("no memory to begin with a communicator: the job ends");
	PMPI_Abort(comm, EXIT_FAILURE);
	abort();
}

static int greet(struct place *place)
{
	const struct greeting mine = greeting_mine();
	struct greeting *all = calloc((size_t)place->size, sizeof(*all));
	int code;

	if (!all)
		no_memory(place->comm);
	code = gather_greetings(&mine, all, place->comm);
	if (!code)
		settle(place, all);
	free(all);
	return code;
}

/* NULL: MPI's own call says what is wrong. */
static struct place *place_make(MPI_Comm comm)
{
	struct place *place = calloc(1, sizeof(*place));
	int is_inter = 0;

	if (!place)
		no_memory(comm);
	place->comm = comm;
	atomic_init(&place->users, 1);
	if (PMPI_Comm_test_inter(comm, &is_inter) || PMPI_Comm_rank(comm, &place->rank) ||
	    PMPI_Comm_size(comm, &place->size))
		goto free_place;
	if (is_inter || place->size == 1)
		place->never = is_inter ? WHY_INTER : WHY_ALONE;
	else if (greet(place))
		goto free_place;
	if (PMPI_Comm_set_attr(comm, keyval, place))
		goto free_place;
	return place;
free_place:
	free(place);
	return NULL;
}

struct place *place_of(MPI_Comm comm, bool may_greet)
{
	void *value;
	int has_one;

	if (!place_begin() || PMPI_Comm_get_attr(comm, keyval, &value, &has_one))
		return NULL;
	if (has_one)
		return value;
	return may_greet ? place_make(comm) : NULL;
}

/* ---- joining ---- */

static int gather(const void *send, void *recv, size_t bytes, void *ctx)
{
	struct place *place = ctx;

	return PMPI_Allgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, place->comm);
}

int place_join(struct place *place, enum kind kind)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *tally = NULL;
	int failed, first, result, code;

	options.flags = place->is_exact ? TALLY_EXACT : 0;
	options.interrupted = poke_meanwhile;
	result = tally_comm_init_oob(&tally, (uint32_t)place->size, (uint32_t)place->rank, gather,
				     place, &options);
	failed = result ? place->rank : place->size;
	code = PMPI_Allreduce(&failed, &first, 1, MPI_INT, MPI_MIN, place->comm);
	if (!code && first == place->size) {
		place->tally = tally;
		pthread_mutex_lock(&lock);
		place->next = places;
		places = place;
		pthread_mutex_unlock(&lock);
		return MPI_SUCCESS;
	}
	if (result == TALLY_ERR_SYSTEM || result == TALLY_ERR_ARGUMENT)
		atomic_store(&is_without, true); /* later communicators would try it in vain */
	place->never = WHY_AGGREGATOR;
	if (!code && place->is_required)
		code = report_code(kind, result ? result : TALLY_ERR_REMOTE, NULL);
	else if (!code && first == place->rank)
		report_say("a communicator of %d ranks stays with MPI: rank %d: %s "
			   "(TALLY_MPI_REQUIRE=1 makes this an error)",
			   place->size, first, tally_get_last_error(NULL));
	if (tally) {
		tally_comm_abort(tally);
		tally_comm_destroy(tally);
	}
	return code;
}
