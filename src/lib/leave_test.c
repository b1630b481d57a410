/* SPDX-License-Identifier: Apache-2.0 */
/* leave_test.c - a rank 0 that hosts the aggregator has left, and waits until the others have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/comm.h"
#include "lib/seats_fixture.h"
#include "tally.h"

enum { LIMIT_S = 30 };

static void *finalize_main(void *comm)
{
	return (void *)(intptr_t)tally_comm_finalize(comm);
}

/* From then on only the wait for the others holds it. */
static void left_await(struct tally_comm *comm)
{
	enum comm_state state;

	do {
		usleep(1000);
		comm_lock(comm);
		state = comm->state;
		comm_unlock(comm);
	} while (state != COMM_LEFT);
}

static void finalize__that_waits_for_the_others_is_ended_by_an_abort(void **state)
{
	struct seat seats[2] = { 0 };
	int32_t x = -3;
	pthread_t thread;
	void *result;

	(void)state;
	seats_open(seats, 2);
	assert_int_equal(pthread_create(&thread, NULL, finalize_main, seats[0].comm), 0);
	left_await(seats[0].comm);
	assert_int_equal(tally_comm_abort(seats[0].comm), TALLY_OK);
	pthread_join(thread, &result);
	assert_int_equal((intptr_t)result, TALLY_ERR_ABORTED);
	assert_non_null(strstr(tally_get_last_error(seats[0].comm), "tally_comm_abort was called"));
	assert_int_equal(tally_comm_get_async_error(seats[0].comm), TALLY_ERR_ABORTED);
	assert_int_equal(tally_comm_finalize(seats[0].comm), TALLY_ERR_ABORTED);
	assert_int_equal(tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, seats[1].comm),
			 TALLY_ERR_REMOTE);
	seats_do(seats, 2, seat_leave);
}

/* Nobody waits any more: there is nothing to end. */
static void finalize__that_is_over_is_not_aborted(void **state)
{
	struct seat seats[2] = { 0 };
	pthread_t thread;
	void *result;

	(void)state;
	seats_open(seats, 2);
	assert_int_equal(pthread_create(&thread, NULL, finalize_main, seats[0].comm), 0);
	assert_int_equal(tally_comm_finalize(seats[1].comm), TALLY_OK);
	pthread_join(thread, &result);
	assert_int_equal((intptr_t)result, TALLY_OK);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tally_comm_abort(seats[i].comm), TALLY_OK);
		assert_int_equal(tally_comm_get_async_error(seats[i].comm), TALLY_OK);
	}
	seats_do(seats, 2, seat_leave);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finalize__that_waits_for_the_others_is_ended_by_an_abort),
		cmocka_unit_test(finalize__that_is_over_is_not_aborted),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests_name("lib-leave", tests, NULL, NULL);
}
