/* SPDX-License-Identifier: Apache-2.0 */
/* progress_test.c - who drives, and when. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/comm.h"
#include "lib/seats_fixture.h"
#include "tally.h"

enum { LIMIT_S = 60 };

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t probes_of(struct tally_comm *comm)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	assert_int_equal(tally_comm_get_stats(comm, &stats), TALLY_OK);
	return stats.probes;
}

/* Until another PROBE has gone out; how long that took. */
static double probe_wait(struct tally_comm *comm)
{
	uint64_t before = probes_of(comm);
	double start = now_s();

	while (probes_of(comm) == before && now_s() - start < 5)
		usleep(500);
	return now_s() - start;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The driver has gone, and left the rest to us, as we had seen nothing of an end: the second look, though, does. */
static bool is_driver_gone(struct tally_comm *comm, void *arg)
{
	int *looks = arg;

	if (!(*looks)++)
		return false;
	comm->is_driven = comm->is_left = false;
	comm->watched_until_ns = UINT64_MAX; /* the background thread means to sleep */
	return true;
}

/* Who drives wakes who sleeps, and goes. If that one does not stay either, somebody has to be told. */
static void handover__to_one_that_goes_as_well_is_handed_on(void **state)
{
	struct tally_work *work, *other;
	struct seat seats[2] = { 0 };
	enum progress_end end = PROGRESS_LATE;
	bool is_left, is_due;
	int32_t x = 7, y = -9;
	int looks;

	(void)state;
	seats_open(seats, 2);
	assert_int_equal(tally_iallreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, seats[0].comm, NULL,
					  &work),
			 TALLY_OK);
	comm_lock(seats[0].comm);
	seats[0].comm->is_driven = true; /* this test is the driver as well */
	while (end == PROGRESS_LATE) {   /* this thread has stood still, and has not even slept */
		looks = 0;
		end = progress_wait(seats[0].comm, is_driver_gone, &looks, clock_ns() + 10000000,
				    false);
	}
	is_left = seats[0].comm->is_left; /* to the background thread, */
	is_due = seats[0].comm->look_ns;  /* which will come */
	comm_unlock(seats[0].comm);
	assert_int_equal(tally_iallreduce(&y, &y, 1, TALLY_INT32, TALLY_SUM, seats[1].comm, NULL,
					  &other),
			 TALLY_OK);
	assert_int_equal(tally_wait(&other, -1), TALLY_OK);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	assert_int_equal(x, -2);
	assert_int_equal(y, -2);
	seats_do(seats, 2, seat_leave);
	assert_int_equal(end, PROGRESS_OVER);
	assert_true(is_left);
	assert_true(is_due);
}

static bool is_never(struct tally_comm *comm, void *arg)
{
	(void)comm;
	(void)arg;
	return false;
}

/* Another thread drives, so this one has nothing to do until its time is over. */
static void wait__with_a_limit_takes_no_processor(void **state)
{
	struct timespec before, after;
	struct seat seat = { 0 };
	enum progress_end end;
	int64_t took_ns;

	(void)state;
	seats_open(&seat, 1);
	comm_lock(seat.comm);
	seat.comm->is_driven = true;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	end = progress_wait(seat.comm, is_never, NULL, clock_ns() + 1000000000, false);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	seat.comm->is_driven = false;
	comm_unlock(seat.comm);
	took_ns = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
	assert_int_equal(end, PROGRESS_LATE);
	assert_true(took_ns < 20000000);
	tally_comm_destroy(seat.comm);
}

/* Nobody waits, the other rank is late, and asks are rare by now: a call that sends something new and
 * returns must not leave its lost packet to the next of those. */
static void background__looks_after_what_was_sent_since_it_fell_asleep(void **state)
{
	enum { ROUNDS = 9, OPS = ROUNDS + 1 };
	struct tally_work *works[OPS] = { NULL };
	struct tally_work *others[OPS] = { NULL };
	struct seat seats[2] = { 0 };
	double took[ROUNDS];
	int32_t x[OPS] = { 0 }, y[OPS] = { 0 };

	(void)state;
	seats_open(seats, 2);
	assert_int_equal(tally_iallreduce(x, x, 1, TALLY_INT32, TALLY_SUM, seats[0].comm, NULL,
					  &works[0]),
			 TALLY_OK);
	sleep(2);
	for (int i = 1; i < OPS; i++) {
		probe_wait(seats[0].comm); /* it has just asked, and sleeps again */
		usleep(1000);
		assert_int_equal(tally_iallreduce(x + i, x + i, 1, TALLY_INT32, TALLY_SUM,
						  seats[0].comm, NULL, &works[i]),
				 TALLY_OK);
		took[i - 1] = probe_wait(seats[0].comm);
	}
	qsort(took, ROUNDS, sizeof(*took), by_size);
	printf("the first PROBE came after %.1f ms, the median\n", took[ROUNDS / 2] * 1e3);
	assert_true(took[ROUNDS / 2] < 0.1); /* the next of those is 250 ms away */
	for (int i = 0; i < OPS; i++)
		assert_int_equal(tally_iallreduce(y + i, y + i, 1, TALLY_INT32, TALLY_SUM,
						  seats[1].comm, NULL, &others[i]),
				 TALLY_OK);
	assert_int_equal(tally_waitall(OPS, works, -1), TALLY_OK);
	assert_int_equal(tally_waitall(OPS, others, -1), TALLY_OK);
	seats_do(seats, 2, seat_leave);
}

/* Nobody waits, but the program is back with something small before the background thread's turn, and
 * again: the tensor behind which it comes goes out all the same. */
static void background__begins_bulk_while_a_program_goes_on_submitting(void **state)
{
	enum { OPS = 20000, LARGE = 2000000 };
	static int32_t large[2][LARGE], small[2][OPS];
	static struct tally_work *works[2][OPS + 1];
	struct tally_stats stats = TALLY_STATS_INIT;
	struct seat seats[2] = { 0 };
	int last = 0;

	(void)state;
	seats_open(seats, 2);
	assert_int_equal(tally_iallreduce(large[0], large[0], LARGE, TALLY_INT32, TALLY_SUM,
					  seats[0].comm, NULL, &works[0][0]),
			 TALLY_OK);
	while (!stats.chunks_bulk && last < OPS) {
		double start = now_s();

		small[0][last] = last;
		last++;
		assert_int_equal(tally_iallreduce(&small[0][last - 1], &small[0][last - 1], 1,
						  TALLY_INT32, TALLY_SUM, seats[0].comm, NULL,
						  &works[0][last]),
				 TALLY_OK);
		assert_int_equal(tally_comm_get_stats(seats[0].comm, &stats), TALLY_OK);
		while (now_s() - start < 30e-6)
			;
	}
	printf("begun after %d further submits\n", last);
	assert_true(stats.chunks_bulk > 0);
	assert_int_equal(tally_iallreduce(large[1], large[1], LARGE, TALLY_INT32, TALLY_SUM,
					  seats[1].comm, NULL, &works[1][0]),
			 TALLY_OK);
	for (int i = 0; i < last; i++) {
		small[1][i] = -3;
		assert_int_equal(tally_iallreduce(&small[1][i], &small[1][i], 1, TALLY_INT32,
						  TALLY_SUM, seats[1].comm, NULL, &works[1][i + 1]),
				 TALLY_OK);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(tally_waitall((size_t)last + 1, works[i], -1), TALLY_OK);
	for (int i = 0; i < last; i++)
		assert_int_equal(small[0][i], i - 3);
	seats_do(seats, 2, seat_leave);
}

/* ---- fork ---- */

static struct {
	pthread_t user;
	bool is_child, was_user;
	pid_t child;
} forking;

static void done_forks(struct tally_work *work, int result, void *arg)
{
	(void)work;
	(void)result;
	(void)arg;
	forking.was_user = pthread_equal(pthread_self(), forking.user);
	forking.child = fork();
	forking.is_child = forking.child == 0;
	if (forking.is_child)
		alarm(20);
}

/* In the child the call that drove returns, and says whose handle it is; the parent knows nothing of it. */
static void fork__inside_an_on_done_function(void **state)
{
	struct seat seat = { 0 };
	int status = 0, result, rounds = 0;

	(void)state;
	seats_open(&seat, 1);
	forking.user = pthread_self();
	forking.was_user = false;
	fflush(NULL);
	while (!forking.was_user && rounds++ < 50) {
		struct tally_work *work;
		int32_t x = 7;

		assert_int_equal(tally_iallreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, seat.comm,
						  NULL, &work),
				 TALLY_OK);
		assert_int_equal(tally_work_on_done(work, done_forks, NULL), TALLY_OK);
		result = tally_wait(&work, -1);
		if (forking.is_child)
			_exit(result == TALLY_ERR_USAGE &&
					      tally_barrier(seat.comm) == TALLY_ERR_USAGE
				      ? 42
				      : 43);
		assert_int_equal(result, TALLY_OK);
		assert_int_equal(x, 7);
		assert_int_equal(waitpid(forking.child, &status, 0), forking.child);
		assert_true(WIFEXITED(status));
		/* On the background thread there is nowhere to return to: it ends, and the child with it. */
		assert_int_equal(WEXITSTATUS(status), forking.was_user ? 42 : 0);
	}
	assert_true(forking.was_user);
	assert_int_equal(tally_barrier(seat.comm), TALLY_OK);
	tally_comm_destroy(seat.comm);
}

static struct {
	atomic_bool is_called, is_over;
	pid_t child;
} late;

static void done_forks_late(struct tally_work *work, int result, void *arg)
{
	(void)work;
	(void)result;
	(void)arg;
	atomic_store(&late.is_called, true);
	usleep(300000); /* until the other communicator's end waits for this thread */
	late.child = fork();
	if (!late.child)
		_exit(42);
	atomic_store(&late.is_over, true);
}

static void fork__inside_an_on_done_function_while_another_communicator_ends(void **state)
{
	struct seat seat = { 0 }, other = { 0 };
	struct tally_work *work;
	int32_t x = -7;
	int status = 0;

	(void)state;
	seats_open(&seat, 1);
	seats_open(&other, 1);
	assert_int_equal(tally_comm_finalize(other.comm), TALLY_OK);
	fflush(NULL);
	assert_int_equal(tally_iallreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, seat.comm, NULL,
					  &work),
			 TALLY_OK);
	assert_int_equal(tally_work_on_done(work, done_forks_late, NULL), TALLY_OK);
	while (!atomic_load(&late.is_called)) /* nobody but the background thread drives */
		usleep(1000);
	tally_comm_destroy(other.comm);
	while (!atomic_load(&late.is_over))
		usleep(1000);
	assert_int_equal(waitpid(late.child, &status, 0), late.child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	assert_int_equal(x, -7);
	tally_comm_destroy(seat.comm);
}

/* Asks in the background thread's place, as if the program had been away for so long; nobody else may use it. */
static bool is_left(struct tally_comm *comm, bool is_idle, uint64_t away_us, uint64_t *until_ns)
{
	uint64_t now_ns = clock_ns();
	bool result;

	comm_lock(comm);
	comm->touched_ns = now_ns - 1000 * away_us;
	comm->look_ns = now_ns; /* it is due */
	result = progress_is_left(comm, is_idle, until_ns);
	comm_unlock(comm);
	return result;
}

static void background__is_patient_with_a_program_that_comes_back(void **state)
{
	const uint64_t long_us =
		10000000; /* shorter than any machine is up: the clock begins at 0 */
	uint64_t until_ns;
	struct seat seat = { 0 };

	(void)state;
	seats_open(&seat, 1);
	assert_int_equal(tally_barrier(seat.comm), TALLY_OK); /* nothing is on its way any more */
	assert_true(is_left(seat.comm, true, long_us, &until_ns));
	assert_int_equal(seat.comm->patience_us, 100);
	for (uint32_t patience_us = 200; patience_us <= 1600; patience_us *= 2) {
		assert_false(is_left(seat.comm, false, 0,
				     &until_ns)); /* it drives, or waits for nothing */
		assert_int_equal(seat.comm->patience_us, patience_us);
		assert_int_equal(until_ns, UINT64_MAX);
	}
	assert_false(is_left(seat.comm, false, long_us, &until_ns));
	assert_int_equal(seat.comm->patience_us, 1600);
	assert_int_equal(seat.comm->look_ns, 0);
	/* As if it were to come back in the future: later is soon enough to look again. */
	assert_false(is_left(seat.comm, true, (uint64_t) - (int64_t)long_us, &until_ns));
	assert_int_equal(until_ns, seat.comm->touched_ns + 1600 * 1000);
	assert_int_equal(seat.comm->look_ns, until_ns);
	/* It has not come back: the next one is looked after at once. */
	assert_true(is_left(seat.comm, true, long_us, &until_ns));
	assert_int_equal(seat.comm->patience_us, 100);
	tally_comm_destroy(seat.comm);
}

/* ---- inside of an on_done function ---- */

static struct {
	struct tally_comm *comm;
	int results[3];
	char text[256];
	atomic_bool is_over;
} inside;

static void done_waits(struct tally_work *work, int result, void *arg)
{
	int32_t x = 1;

	(void)work;
	(void)result;
	(void)arg;
	inside.results[0] = tally_barrier(inside.comm);
	snprintf(inside.text, sizeof(inside.text), "%s", tally_get_last_error(NULL));
	inside.results[1] = tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, inside.comm);
	inside.results[2] = tally_comm_finalize(inside.comm);
	atomic_store(&inside.is_over, true);
}

/* Whichever thread runs it: it must not wait for what that thread is to bring about. */
static void done__functions_must_not_wait(void **state)
{
	struct tally_work *work;
	struct seat seat = { 0 };

	(void)state;
	seats_open(&seat, 1);
	inside.comm = seat.comm;
	assert_int_equal(tally_ibarrier(seat.comm, NULL, &work), TALLY_OK);
	assert_int_equal(tally_work_on_done(work, done_waits, NULL), TALLY_OK);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	assert_true(atomic_load(&inside.is_over));
	for (int i = 0; i < 3; i++)
		assert_int_equal(inside.results[i], TALLY_ERR_USAGE);
	assert_non_null(strstr(inside.text, "tally_barrier inside an on_done or reduce function"));
	assert_int_equal(tally_barrier(seat.comm), TALLY_OK); /* it may, again */
	tally_comm_destroy(seat.comm);
}

/* ---- an endpoint that gives up ---- */

static atomic_int fault; /* of all endpoints; ENDPOINT_OK: as they say */

enum endpoint_fault __real_endpoint_fault(const struct endpoint *endpoint);
enum endpoint_fault __wrap_endpoint_fault(const struct endpoint *endpoint);

enum endpoint_fault __wrap_endpoint_fault(const struct endpoint *endpoint)
{
	int its = atomic_load(&fault);

	return its == ENDPOINT_OK ? __real_endpoint_fault(endpoint) : (enum endpoint_fault)its;
}

static void endpoint__that_gives_up_is_named_by_what_has_happened(void **state)
{
	static const struct {
		enum endpoint_fault fault;
		int result;
		const char *words;
	} faults[] = {
		{ ENDPOINT_LINK_ERROR, TALLY_ERR_SYSTEM,
		  "the kernel refuses to send or receive on the UDP socket" },
		{ ENDPOINT_PROTOCOL_ERROR, TALLY_ERR_INTERNAL,
		  "the aggregator answered a round that was not asked, or a rank has not sent its "
		  "part (a bug in tally)" },
		{ ENDPOINT_TOO_LARGE, TALLY_ERR_SYSTEM,
		  " have become too large for the path: its MTU was " },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct seat seats[2] = { 0 };
		int32_t x = 4;

		seats_open(seats, 2);
		atomic_store(&fault, (int)faults[i].fault);
		/* The other rank does not call: there is no sum that could come first. */
		assert_int_equal(tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, seats[0].comm),
				 faults[i].result);
		atomic_store(&fault, ENDPOINT_OK);
		if (!strstr(tally_get_last_error(seats[0].comm), faults[i].words))
			fail_msg("no \"%s\" in: %s", faults[i].words,
				 tally_get_last_error(seats[0].comm));
		seats_do(seats, 2, seat_leave);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handover__to_one_that_goes_as_well_is_handed_on),
		cmocka_unit_test(wait__with_a_limit_takes_no_processor),
		cmocka_unit_test(fork__inside_an_on_done_function),
		cmocka_unit_test(fork__inside_an_on_done_function_while_another_communicator_ends),
		cmocka_unit_test(done__functions_must_not_wait),
		cmocka_unit_test(endpoint__that_gives_up_is_named_by_what_has_happened),
		cmocka_unit_test(background__looks_after_what_was_sent_since_it_fell_asleep),
		cmocka_unit_test(background__is_patient_with_a_program_that_comes_back),
		cmocka_unit_test(background__begins_bulk_while_a_program_goes_on_submitting),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests_name("lib-progress", tests, NULL, NULL);
}
