/* SPDX-License-Identifier: Apache-2.0 */
/* caller_test.c - functions of the program that take long hold up nobody but one another. */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "lib/comm.h"
#include "lib/seats_fixture.h"
#include "util/thread.h"

static struct {
	struct seat seats[3];
	sem_t is_inside, may_return;
	atomic_uint calls;
	pthread_t thread;     /* of the last call */
	atomic_bool is_short; /* of threads */
} test;

int __wrap_thread_create(pthread_t *thread, void *(*main)(void *), void *arg);
int __real_thread_create(pthread_t *thread, void *(*main)(void *), void *arg);

int __wrap_thread_create(pthread_t *thread, void *(*main)(void *), void *arg)
{
	return atomic_load(&test.is_short) ? EAGAIN : __real_thread_create(thread, main, arg);
}

static void count_call(struct tally_work *work, int result, void *arg)
{
	(void)work;
	(void)arg;
	assert_int_equal(result, TALLY_OK);
	test.thread = pthread_self();
	atomic_fetch_add(&test.calls, 1);
}

static void take_long(struct tally_work *work, int result, void *arg)
{
	count_call(work, result, arg);
	sem_post(&test.is_inside);
	sem_wait(&test.may_return);
}

/* Nobody drives it here: is it complete all the same, in time? */
static bool is_complete(struct tally_work *work)
{
	for (uint32_t i = 0; i < 5000 && atomic_load(&work->state) != WORK_COMPLETE; i++)
		usleep(1000);
	return atomic_load(&work->state) == WORK_COMPLETE;
}

/* A barrier, of which rank 0's end is told. */
static void tell(const struct seat *seats, struct tally_work **works, tally_done_fn fn)
{
	assert_int_equal(tally_ibarrier(seats[0].comm, NULL, &works[0]), TALLY_OK);
	assert_int_equal(tally_work_on_done(works[0], fn, NULL), TALLY_OK);
	assert_int_equal(tally_ibarrier(seats[1].comm, NULL, &works[1]), TALLY_OK);
}

/* This one comes first: there is no thread yet. */
static void caller__without_a_thread_does_it_in_the_background(void **state)
{
	struct tally_work *works[2];

	(void)state;
	seats_open(test.seats, 2);
	atomic_store(&test.is_short, true);
	tell(test.seats, works, count_call);
	assert_true(is_complete(works[0]) && is_complete(works[1]));
	assert_int_equal(atomic_load(&test.calls), 1);
	assert_false(pthread_equal(test.thread, pthread_self()));
	assert_int_equal(tally_waitall(2, works, -1), TALLY_OK);
	atomic_store(&test.is_short, false);
	seats_do(test.seats, 2, seat_leave);
}

static void caller__that_takes_long_holds_up_no_operation(void **state)
{
	struct tally_work *works[2], *others[2];
	int32_t x[2] = { 5, -7 };

	(void)state;
	atomic_store(&test.calls, 0);
	seats_open(test.seats, 2);
	tell(test.seats, works, take_long);
	assert_true(is_complete(works[1]));
	sem_wait(&test.is_inside);
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tally_iallreduce(&x[r], &x[r], 1, TALLY_INT32, TALLY_SUM,
						  test.seats[r].comm, NULL, &others[r]),
				 TALLY_OK);
	assert_true(is_complete(others[0]) && is_complete(others[1]));
	assert_true(x[0] == -2 && x[1] == -2);
	assert_int_equal(atomic_load(&works[0]->state), WORK_CALLING);
	sem_post(&test.may_return);
	assert_int_equal(tally_waitall(2, works, -1), TALLY_OK);
	assert_int_equal(tally_waitall(2, others, -1), TALLY_OK);
	assert_int_equal(atomic_load(&test.calls), 1);
	seats_do(test.seats, 2, seat_leave);
}

/* In the order in which they are due; nobody else is called meanwhile. */
static void caller__calls_one_after_the_other(void **state)
{
	struct tally_work *works[2], *next[2];
	pthread_t thread;

	(void)state;
	atomic_store(&test.calls, 0);
	seats_open(test.seats, 2);
	tell(test.seats, works, take_long);
	sem_wait(&test.is_inside);
	thread = test.thread;
	assert_int_equal(tally_ibarrier(test.seats[1].comm, NULL, &next[1]), TALLY_OK);
	assert_int_equal(tally_work_on_done(next[1], count_call, NULL), TALLY_OK);
	assert_int_equal(tally_ibarrier(test.seats[0].comm, NULL, &next[0]), TALLY_OK);
	assert_true(is_complete(next[0]));
	usleep(20000);
	assert_int_equal(atomic_load(&test.calls), 1);
	sem_post(&test.may_return);
	assert_true(is_complete(next[1]));
	assert_int_equal(atomic_load(&test.calls), 2);
	assert_true(pthread_equal(test.thread, thread));
	assert_int_equal(tally_waitall(2, works, -1), TALLY_OK);
	assert_int_equal(tally_waitall(2, next, -1), TALLY_OK);
	seats_do(test.seats, 2, seat_leave);
}

/* Its function is due: the thread, which is in another's, comes to it. */
static bool is_due(struct tally_comm *comm, const struct tally_work *work)
{
	bool is;

	for (uint32_t i = 0; i < 5000 && atomic_load(&work->state) != WORK_CALLING; i++)
		usleep(1000);
	comm_lock(comm);
	is = comm->is_due;
	comm_unlock(comm);
	return is;
}

static void caller__last_in_line_may_go(void **state)
{
	struct tally_work *works[2][3], *next[2];
	struct seat others[2];
	uint32_t last;

	(void)state;
	atomic_store(&test.calls, 0);
	seats_open(test.seats, 3);
	seats_open(others, 2);
	for (uint32_t i = 0; i < 2; i++) {
		for (uint32_t k = 0; k < 3; k++) {
			uint32_t r = (k + i) % 3; /* who tells nothing is last: none ends before */

			assert_int_equal(tally_ibarrier(test.seats[r].comm, NULL, &works[i][r]),
					 TALLY_OK);
			if (i == (r != 0))
				assert_int_equal(tally_work_on_done(works[i][r],
								    r ? count_call : take_long,
								    NULL),
						 TALLY_OK);
		}
		if (i == 0)
			sem_wait(&test.is_inside);
	}
	assert_true(is_due(test.seats[1].comm, works[1][1]));
	assert_true(is_due(test.seats[2].comm, works[1][2]));
	last = test.seats[1].comm->next_due ? 2 : 1;
	assert_int_equal(tally_comm_abort(test.seats[last].comm), TALLY_OK);
	seat_leave(&test.seats[last]);
	tell(others, next, count_call); /* behind whoever is last now */
	assert_true(is_due(others[0].comm, next[0]));
	sem_post(&test.may_return);
	assert_true(is_complete(works[1][3 - last]) && is_complete(next[0]));
	assert_int_equal(tally_waitall(2, next, -1), TALLY_OK);
	seats_do(others, 2, seat_leave);
	for (uint32_t r = 0; r < 3; r++) {
		if (r == last)
			continue;
		for (uint32_t i = 0; i < 2; i++)
			tally_work_free(&works[i][r]);
		seat_leave(&test.seats[r]);
	}
}

static atomic_bool is_destroyed;

static void *destroy(void *seat)
{
	seat_leave(seat);
	atomic_store(&is_destroyed, true);
	return NULL;
}

static void caller__is_waited_for_before_the_communicator_goes(void **state)
{
	struct tally_work *works[2];
	pthread_t thread;

	(void)state;
	seats_open(test.seats, 2);
	tell(test.seats, works, take_long);
	assert_true(is_complete(works[1]));
	sem_wait(&test.is_inside);
	assert_int_equal(tally_comm_abort(test.seats[0].comm), TALLY_OK);
	assert_int_equal(pthread_create(&thread, NULL, destroy, &test.seats[0]), 0);
	usleep(100000);
	assert_false(atomic_load(&is_destroyed));
	sem_post(&test.may_return);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(atomic_load(&is_destroyed));
	tally_work_free(&works[1]);
	seat_leave(&test.seats[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(caller__without_a_thread_does_it_in_the_background),
		cmocka_unit_test(caller__that_takes_long_holds_up_no_operation),
		cmocka_unit_test(caller__calls_one_after_the_other),
		cmocka_unit_test(caller__last_in_line_may_go),
		cmocka_unit_test(caller__is_waited_for_before_the_communicator_goes),
	};

	sem_init(&test.is_inside, 0, 0);
	sem_init(&test.may_return, 0, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
