/* SPDX-License-Identifier: Apache-2.0 */
/* work_test.c - operations from inside: those that wait for room, who waits for what, and what a timeline has of them. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/comm.h"
#include "lib/seats_fixture.h"

enum { LIMIT_S = 60 };

/* ---- more operations than the endpoint takes at once ---- */

enum { OPS = 3000, BULK_EVERY = 10 };

static int32_t small[2][OPS], large[2][OPS / BULK_EVERY];
static struct tally_work *works[2][OPS];

static int32_t value_of(uint32_t rank, uint32_t i)
{
	return rank ? -2 * (int32_t)i : (int32_t)i - 7;
}

static void start_all(struct seat *seat)
{
	for (uint32_t i = 0; i < OPS; i++) {
		struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
		int32_t *at = &small[seat->rank][i];

		if (i % BULK_EVERY == 0) {
			options.stream = TALLY_STREAM_BULK;
			at = &large[seat->rank][i / BULK_EVERY];
		}
		*at = value_of(seat->rank, i);
		assert_int_equal(tally_iallreduce(at, at, 1, TALLY_INT32, TALLY_SUM, seat->comm,
						  &options, &works[seat->rank][i]),
				 TALLY_OK);
	}
}

static uint32_t waiting_in(struct tally_comm *comm, uint32_t stream)
{
	const struct tally_work *last = NULL;
	uint32_t count = 0;

	comm_lock(comm);
	for (const struct tally_work *at = comm->waiting[stream].first; at; at = at->next_waiting) {
		assert_int_equal(atomic_load(&at->state), WORK_WAITING);
		assert_true(!last || last->op.number < at->op.number);
		last = at;
		count++;
	}
	assert_true(!count || last == comm->waiting[stream].last);
	comm_unlock(comm);
	return count;
}

static void work__waits_in_order_until_there_is_room(void **state)
{
	struct seat seats[2] = { 0 };

	(void)state;
	seats_open(seats, 2);
	start_all(&seats[0]);
	/* The other rank has not come: nothing is complete. So many places each stream has. */
	assert_int_equal(waiting_in(seats[0].comm, MAP_EXPRESS), OPS - OPS / BULK_EVERY - 1024);
	assert_int_equal(waiting_in(seats[0].comm, MAP_BULK), 0);
	start_all(&seats[1]);
	for (uint32_t rank = 0; rank < 2; rank++)
		assert_int_equal(tally_waitall(OPS, works[rank], -1), TALLY_OK);
	for (uint32_t i = 0; i < OPS; i++) {
		int32_t sum = value_of(0, i) + value_of(1, i);

		for (uint32_t rank = 0; rank < 2; rank++)
			assert_int_equal(
				i % BULK_EVERY ? small[rank][i] : large[rank][i / BULK_EVERY], sum);
	}
	seats_do(seats, 2, seat_leave);
}

/* What breaks breaks them all, those that the endpoint never saw as well. */
static void work__that_waits_for_room_ends_with_the_others(void **state)
{
	struct seat seats[2] = { 0 };

	(void)state;
	seats_open(seats, 2);
	start_all(&seats[0]);
	assert_true(waiting_in(seats[0].comm, MAP_EXPRESS) > 0);
	assert_int_equal(tally_comm_abort(seats[0].comm), TALLY_OK);
	for (uint32_t i = 0; i < OPS; i++)
		assert_int_equal(tally_wait(&works[0][i], -1), TALLY_ERR_ABORTED);
	assert_int_equal(waiting_in(seats[0].comm, MAP_EXPRESS), 0);
	assert_int_equal(waiting_in(seats[0].comm, MAP_BULK), 0);
	seats_do(seats, 2, seat_leave);
}

/* ---- who waits for what (R-CT-45) ---- */

static void done(struct tally_work *work, int result, void *arg)
{
	(void)work;
	(void)result;
	(void)arg;
}

static struct tally_work *awaited;

static void *wait_main(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)tally_wait(&awaited, -1);
}

static uint32_t blocked_in(struct tally_comm *comm, uint64_t *waits)
{
	uint32_t blocked;

	comm_lock(comm);
	blocked = work_blocked(comm, waits);
	comm_unlock(comm);
	return blocked;
}

static void blocked__are_threads_and_functions_and_the_least_number_counts(void **state)
{
	struct seat seats[2] = { 0 };
	struct tally_work *mine[4], *its[4];
	struct tally_comm *comm;
	int32_t x[2] = { 3, 4 }, y[2] = { -1, -2 };
	uint64_t waits = 99;
	pthread_t thread;
	void *result;

	(void)state;
	seats_open(seats, 2);
	comm = seats[0].comm;
	assert_int_equal(blocked_in(comm, &waits), 0);
	assert_int_equal(waits, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tally_ibarrier(comm, NULL, &mine[i]), TALLY_OK);
	assert_int_equal(tally_group_start(), TALLY_OK); /* #2, of two calls */
	for (int i = 2; i < 4; i++)
		assert_int_equal(tally_iallreduce(&x[i - 2], &x[i - 2], 1, TALLY_INT32, TALLY_SUM,
						  comm, NULL, &mine[i]),
				 TALLY_OK);
	assert_int_equal(tally_group_end(), TALLY_OK);
	assert_int_equal(blocked_in(comm, &waits), 0);
	assert_int_equal(tally_work_on_done(mine[3], done, NULL), TALLY_OK);
	assert_int_equal(blocked_in(comm, &waits), 1);
	assert_int_equal(waits, 2);
	awaited = mine[1];
	assert_int_equal(pthread_create(&thread, NULL, wait_main, NULL), 0);
	while (blocked_in(comm, &waits) < 2)
		usleep(1000);
	assert_int_equal(waits, 1);
	assert_int_equal(tally_wait(&mine[0], 10), TALLY_IN_PROGRESS); /* for so long is no wait */
	assert_int_equal(tally_work_on_done(mine[0], done, NULL), TALLY_OK);
	assert_int_equal(blocked_in(comm, &waits), 3);
	assert_int_equal(waits, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tally_ibarrier(seats[1].comm, NULL, &its[i]), TALLY_OK);
	assert_int_equal(tally_group_start(), TALLY_OK);
	for (int i = 2; i < 4; i++)
		assert_int_equal(tally_iallreduce(&y[i - 2], &y[i - 2], 1, TALLY_INT32, TALLY_SUM,
						  seats[1].comm, NULL, &its[i]),
				 TALLY_OK);
	assert_int_equal(tally_group_end(), TALLY_OK);
	pthread_join(thread, &result);
	assert_int_equal((intptr_t)result, TALLY_OK);
	mine[1] = NULL;
	assert_int_equal(tally_waitall(4, mine, -1), TALLY_OK);
	assert_int_equal(tally_waitall(4, its, -1), TALLY_OK);
	assert_true(x[0] == 2 && x[1] == 2);
	assert_int_equal(blocked_in(comm, &waits), 0);
	seats_do(seats, 2, seat_leave);
}

/* ---- a timeline ---- */

static void timeline__has_an_operation_of_a_communicator(void **state)
{
	char path[] = "/tmp/tally-work-XXXXXX", file[BOOTSTRAP_TIMELINE_BYTES];
	int fd = mkstemp(path);
	static const char *const phases[] = { "M", "M", "M", "b", "n", "e" };
	struct seat seat = { 0 };
	int32_t x[5] = { 1, 2, 3, 4, 5 };
	int64_t last = 0;
	json_t *events;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	setenv("TALLY_TIMELINE", path, 1);
	seats_open(&seat, 1);
	unsetenv("TALLY_TIMELINE");
	assert_non_null(seat.comm->timeline);
	strcpy(file, seat.comm->boot.timeline); /* with its rank behind it, or not */
	assert_int_equal(tally_allreduce(x, x, 5, TALLY_INT32, TALLY_SUM, seat.comm), TALLY_OK);
	tally_comm_destroy(seat.comm);
	events = json_load_file(file, 0, NULL);
	unlink(file);
	unlink(path);
	assert_non_null(events);
	assert_int_equal(json_array_size(events), 6);
	for (size_t i = 0; i < 6; i++) {
		const json_t *event = json_array_get(events, i);

		assert_string_equal(json_string_value(json_object_get(event, "ph")), phases[i]);
		if (i < 3)
			continue;
		assert_true(json_integer_value(json_object_get(event, "ts")) >= last);
		last = json_integer_value(json_object_get(event, "ts"));
	}
	assert_string_equal(json_string_value(json_object_get(json_array_get(events, 3), "name")),
			    "allreduce of 5 int32, sum");
	json_decref(events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work__waits_in_order_until_there_is_room),
		cmocka_unit_test(work__that_waits_for_room_ends_with_the_others),
		cmocka_unit_test(blocked__are_threads_and_functions_and_the_least_number_counts),
		cmocka_unit_test(timeline__has_an_operation_of_a_communicator),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests_name("lib-work", tests, NULL, NULL);
}
