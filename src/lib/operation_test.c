/* SPDX-License-Identifier: Apache-2.0 */
/* operation_test.c - operations on their way, for the other rank has not called them: until when, what is lent, and
 * what they are called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/job/control.h"
#include "lib/comm.h"
#include "lib/fold.h"
#include "lib/operation.h"
#include "lib/present.h"
#include "lib/seats_fixture.h"
#include "tally.h"

enum { LIMIT_S = 60 };

static const uint64_t ns_per_ms = 1000000;

/* ---- deadlines: hours, for none is to pass ---- */

enum { SOON_MS = 1800000, LATER_MS = 3600000, LAST_MS = 7200000 };

static uint32_t deadline_ms(const struct tally_work *work)
{
	return (uint32_t)((work->deadline_ns - work->submitted_ns) / ns_per_ms);
}

static struct tally_work *start(struct tally_comm *comm, int32_t *x, uint32_t ms)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *work;

	options.deadline_ms = ms;
	assert_int_equal(tally_iallreduce(x, x, 1, TALLY_INT32, TALLY_SUM, comm,
					  ms ? &options : NULL, &work),
			 TALLY_OK);
	return work;
}

static void finish(struct seat *seats, struct tally_work **works, struct tally_work **others,
		   size_t count)
{
	assert_int_equal(tally_waitall(count, works, -1), TALLY_OK);
	assert_int_equal(tally_waitall(count, others, -1), TALLY_OK);
	seats_do(seats, 2, seat_leave);
}

static void deadline__of_an_operation_goes_before_the_communicators(void **state)
{
	static const uint32_t asked_ms[] = { 0, SOON_MS, LAST_MS };
	static const uint32_t expected_ms[] = { LATER_MS, SOON_MS, LAST_MS };
	struct seat seats[2] = { { .deadline_ms = LATER_MS } };
	struct tally_work *works[2][3];
	int32_t x[2][3] = { { 5, 6, 7 }, { -15, -16, -17 } };

	(void)state;
	seats_open(seats, 2);
	for (int i = 0; i < 3; i++) {
		works[0][i] = start(seats[0].comm, &x[0][i], asked_ms[i]);
		assert_int_equal(deadline_ms(works[0][i]), expected_ms[i]);
		assert_int_equal(atomic_load(&seats[0].comm->deadline_ns),
				 works[0][i ? 1 : 0]->deadline_ns); /* what is due first */
	}
	for (int i = 0; i < 3; i++) {
		works[1][i] = start(seats[1].comm, &x[1][i], 0);
		assert_int_equal(works[1][i]->deadline_ns, 0);
	}
	finish(seats, works[0], works[1], 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(x[0][i], -10);
}

/* Whichever member's that is; the communicator's counts for those that have none of their own. */
static void deadline__of_a_group_is_its_earliest(void **state)
{
	static const struct {
		uint32_t asked_ms[3], expected_ms;
	} groups[] = {
		{ { LATER_MS - 1, SOON_MS, LATER_MS - 2 }, SOON_MS },
		{ { SOON_MS, LATER_MS - 1, LAST_MS }, SOON_MS },
		{ { LAST_MS, LATER_MS - 1, SOON_MS }, SOON_MS },
		{ { LAST_MS, 0, LAST_MS }, LATER_MS },
		{ { 0, 0, 0 }, LATER_MS },
	};
	enum { GROUPS = sizeof(groups) / sizeof(groups[0]), ALL = 3 * GROUPS };
	struct seat seats[2] = { { .deadline_ms = LATER_MS } };
	struct tally_work *works[2][ALL];
	int32_t x[2][ALL];

	(void)state;
	seats_open(seats, 2);
	for (int rank = 0; rank < 2; rank++) {
		for (int i = 0; i < ALL; i++) {
			x[rank][i] = rank ? -30 * i : i;
			if (i % 3 == 0)
				assert_int_equal(tally_group_start(), TALLY_OK);
			works[rank][i] = start(seats[rank].comm, &x[rank][i],
					       rank ? 0 : groups[i / 3].asked_ms[i % 3]);
			if (i % 3 == 2)
				assert_int_equal(tally_group_end(), TALLY_OK);
			if (i % 3 == 2 && rank == 0)
				assert_int_equal(deadline_ms(seats[0].comm->outstanding.last),
						 groups[i / 3].expected_ms);
		}
	}
	finish(seats, works[0], works[1], ALL);
	for (int i = 0; i < ALL; i++)
		assert_int_equal(x[0][i], -29 * i);
}

/* ---- buffers that are lent ---- */

enum { LENT = 8, BUFFER = 24 }; /* the elements LENT to 2 * LENT - 1 of each buffer are */

/* An operation of rank 0 while #0 reads source[LENT..] and writes destination[LENT..], and #1 writes both[LENT..]. */
struct neighbour {
	enum { READS_SOURCE, WRITES_SOURCE, READS_DESTINATION, WRITES_BOTH } how;
	int first, count;
	const char *refused; /* NULL: it may start */
};

static const struct neighbour neighbours[] = {
	{ WRITES_SOURCE, 7, 2, "recv overlaps the send buffer of operation #0" },
	{ WRITES_SOURCE, 8, 1, "recv overlaps the send buffer of operation #0" },
	{ WRITES_SOURCE, 15, 1, "recv overlaps the send buffer of operation #0" },
	{ WRITES_SOURCE, 15, 2, "recv overlaps the send buffer of operation #0" },
	{ READS_DESTINATION, 7, 2, "send overlaps the recv buffer of operation #0" },
	{ READS_DESTINATION, 8, 1, "send overlaps the recv buffer of operation #0" },
	{ READS_DESTINATION, 15, 1, "send overlaps the recv buffer of operation #0" },
	{ READS_DESTINATION, 15, 2, "send overlaps the recv buffer of operation #0" },
	{ WRITES_BOTH, 7, 2, "recv overlaps the recv buffer of operation #1" },
	{ WRITES_BOTH, 8, 1, "recv overlaps the recv buffer of operation #1" },
	{ WRITES_BOTH, 15, 1, "recv overlaps the recv buffer of operation #1" },
	{ WRITES_BOTH, 15, 2, "recv overlaps the recv buffer of operation #1" },
	{ WRITES_SOURCE, 7, 1, NULL },
	{ WRITES_SOURCE, 16, 1, NULL },
	{ READS_DESTINATION, 7, 1, NULL },
	{ READS_DESTINATION, 16, 1, NULL },
	{ WRITES_BOTH, 7, 1, NULL },
	{ WRITES_BOTH, 16, 1, NULL },
	{ READS_SOURCE, 8, 8, NULL }, /* two that only read */
};

enum { NEIGHBOURS = sizeof(neighbours) / sizeof(neighbours[0]) };

static int32_t source[BUFFER], destination[BUFFER], both[BUFFER], spare[NEIGHBOURS][BUFFER];

/* What it does not say lies in a buffer of its own. */
static int neighbour_start(struct tally_comm *comm, uint32_t idx, struct tally_work **work)
{
	int32_t *const of[] = { source, source, destination, both };
	const struct neighbour *its = &neighbours[idx];
	int32_t *said = of[its->how] + its->first;
	bool is_read = its->how == READS_SOURCE || its->how == READS_DESTINATION;

	return tally_iallreduce(is_read ? said : spare[idx], is_read ? spare[idx] : said,
				(size_t)its->count, TALLY_INT32, TALLY_SUM, comm, NULL, work);
}

static void lent__buffers_of_two_operations_may_touch_but_not_overlap(void **state)
{
	struct tally_work *works[2][NEIGHBOURS + 2];
	static int32_t other[NEIGHBOURS + 2][BUFFER];
	struct seat seats[2] = { 0 };
	size_t count = 2, counts[NEIGHBOURS + 2] = { LENT, LENT };

	(void)state;
	seats_open(seats, 2);
	for (int i = 0; i < BUFFER; i++) {
		source[i] = both[i] = 100 + i;
		other[0][i] = other[1][i] = -7 * i;
	}
	assert_int_equal(tally_iallreduce(source + LENT, destination + LENT, LENT, TALLY_INT32,
					  TALLY_SUM, seats[0].comm, NULL, &works[0][0]),
			 TALLY_OK);
	assert_int_equal(tally_iallreduce(both + LENT, both + LENT, LENT, TALLY_INT32, TALLY_SUM,
					  seats[0].comm, NULL, &works[0][1]),
			 TALLY_OK);
	for (uint32_t i = 0; i < NEIGHBOURS; i++) {
		int result = neighbour_start(seats[0].comm, i, &works[0][count]);

		if (!result != !neighbours[i].refused ||
		    (result && (result != TALLY_ERR_ARGUMENT ||
				!strstr(tally_get_last_error(NULL), neighbours[i].refused))))
			fail_msg("neighbour %u: %s: \"%s\"", i, tally_strerror(result),
				 tally_get_last_error(NULL));
		if (!result)
			counts[count++] = (size_t)neighbours[i].count;
	}
	for (size_t i = 0; i < count; i++)
		assert_int_equal(tally_iallreduce(other[i], other[i], counts[i], TALLY_INT32,
						  TALLY_SUM, seats[1].comm, NULL, &works[1][i]),
				 TALLY_OK);
	finish(seats, works[0], works[1], count);
	for (int i = 0; i < LENT; i++)
		assert_true(destination[LENT + i] == 100 + LENT - 6 * i &&
			    both[LENT + i] == destination[LENT + i]);
}

/* What is complete has given its buffers back. */
static void lent__buffers_are_free_when_the_operation_is_complete(void **state)
{
	struct seat seat = { 0 };
	int32_t x[3] = { 4, -5, 6 };

	(void)state;
	seats_open(&seat, 1);
	for (int i = 0; i < 3; i++) {
		struct tally_work *work = start(seat.comm, x, 0);

		assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	}
	assert_int_equal(tally_allreduce(x, x, 3, TALLY_INT32, TALLY_SUM, seat.comm), TALLY_OK);
	assert_int_equal(x[1], -5);
	seats_do(&seat, 1, seat_leave);
}

/* ---- blocking calls that the program interrupts ---- */

enum { COUNT = 3 };

static int interrupted_at_once(void *ctx)
{
	(void)ctx;
	return 1;
}

static void interrupt(struct tally_comm *comm, bool is_on)
{
	comm_lock(comm);
	comm->interrupted = is_on ? interrupted_at_once : NULL;
	comm_unlock(comm);
}

static void refused_as_another(int result, const char *operation)
{
	char words[160];

	snprintf(words, sizeof(words),
		 "this thread's operation #%s, was interrupted and is still on its way: call that "
		 "again, with the same arguments",
		 operation);
	if (result != TALLY_ERR_USAGE || !strstr(tally_get_last_error(NULL), words))
		fail_msg("%s: \"%s\" should say \"%s\"", tally_strerror(result),
			 tally_get_last_error(NULL), words);
}

/* The other rank comes, and the background thread completes it here. */
static void come_and_complete(struct seat *seats, int32_t *x, size_t count)
{
	bool is_complete = false;

	assert_int_equal(tally_allreduce(x, x, count, TALLY_INT32, TALLY_SUM, seats[1].comm),
			 TALLY_OK);
	while (!is_complete) {
		usleep(1000);
		comm_lock(seats[0].comm);
		is_complete = !seats[0].comm->outstanding.first;
		comm_unlock(seats[0].comm);
	}
}

static void interrupted__call_goes_on_with_the_same_arguments_and_no_others(void **state)
{
	int32_t x[COUNT + 1] = { 1, -2, 3, 4 }, y[COUNT + 1] = { 0 }, z[COUNT] = { 10, 20, -30 };
	struct seat seats[2] = { 0 };
	struct tally_comm *comm;

	(void)state;
	seats_open(seats, 2);
	comm = seats[0].comm;
	interrupt(comm, true);
	for (int turn = 0; turn < 3; turn++) {
		static const char first[] = "0, allreduce of 3 int32, sum";

		if (turn == 2) { /* complete or not */
			come_and_complete(seats, z, COUNT);
			interrupt(comm, false);
		} else {
			assert_int_equal(tally_allreduce(x, y, COUNT, TALLY_INT32, TALLY_SUM, comm),
					 TALLY_INTERRUPTED);
		}
		assert_int_equal(comm->interrupted_count, 1);
		refused_as_another(tally_allreduce(x, y, COUNT - 1, TALLY_INT32, TALLY_SUM, comm),
				   first);
		refused_as_another(tally_allreduce(x, y, 0, TALLY_INT32, TALLY_SUM, comm), first);
		refused_as_another(tally_allreduce(x, y, COUNT, TALLY_FLOAT32, TALLY_SUM, comm),
				   first);
		refused_as_another(tally_allreduce(x, y, COUNT, TALLY_INT32, TALLY_AVG, comm),
				   first);
		refused_as_another(tally_allreduce(x + 1, y, COUNT, TALLY_INT32, TALLY_SUM, comm),
				   first);
		refused_as_another(tally_allreduce(x, y + 1, COUNT, TALLY_INT32, TALLY_SUM, comm),
				   first);
		refused_as_another(tally_barrier(comm), first);
	}
	assert_int_equal(tally_allreduce(x, y, COUNT, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_int_equal(comm->interrupted_count, 0);
	assert_true(y[0] == 11 && y[1] == 18 && y[2] == -27 && y[3] == 0);
	assert_int_equal(comm->next_number, 1);
	seats_do(seats, 2, seat_leave);
}

static void interrupted__nothing_and_barriers_are_calls_too(void **state)
{
	int32_t x[COUNT] = { 1, -2, 3 };
	struct seat seats[2] = { 0 };
	struct tally_comm *comm;
	struct tally_work *work;

	(void)state;
	seats_open(seats, 2);
	comm = seats[0].comm;
	interrupt(comm, true);
	assert_int_equal(tally_barrier(comm), TALLY_INTERRUPTED);
	refused_as_another(tally_allreduce(x, x, 0, TALLY_INT32, TALLY_SUM, comm), "0, barrier");
	assert_int_equal(tally_barrier(comm), TALLY_INTERRUPTED);
	interrupt(comm, false);
	assert_int_equal(tally_ibarrier(seats[1].comm, NULL, &work), TALLY_OK);
	assert_int_equal(tally_barrier(comm), TALLY_OK);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	interrupt(comm, true);
	assert_int_equal(tally_allreduce(x, x, 0, TALLY_INT32, TALLY_SUM, comm), TALLY_INTERRUPTED);
	refused_as_another(tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm),
			   "1, allreduce of 0 int32, sum");
	refused_as_another(tally_barrier(comm), "1, allreduce of 0 int32, sum");
	interrupt(comm, false);
	assert_int_equal(tally_iallreduce(x, x, 0, TALLY_INT32, TALLY_SUM, seats[1].comm, NULL,
					  &work),
			 TALLY_OK);
	assert_int_equal(tally_allreduce(x, x, 0, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	assert_int_equal(comm->interrupted_count, 0);
	assert_int_equal(comm->next_number, 2);
	seats_do(seats, 2, seat_leave);
}

/* ---- ... and that are worked out meanwhile, by the background thread ---- */

static struct hold {
	atomic_bool has_begun, may_end;
} hold;

static void reduce_add(const void *in, void *inout, size_t count, int dtype, void *ctx)
{
	const int32_t *a = in;
	int32_t *sum = inout;

	(void)dtype;
	for (size_t i = 0; i < count; i++)
		sum[i] += a[i];
	if (!ctx)
		return;
	atomic_store(&hold.has_begun, true);
	while (!atomic_load(&hold.may_end))
		usleep(1000);
}

/* The other rank's, from its call to its end. */
static void come(struct tally_comm *comm, int32_t *x, int op)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *work;

	options.reduce = op == TALLY_USER ? reduce_add : NULL;
	assert_int_equal(tally_iallreduce(x, x, COUNT, TALLY_INT32, op, comm, &options, &work),
			 TALLY_OK);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
}

static void wait_for_hold(void)
{
	while (!atomic_load(&hold.has_begun))
		usleep(1000);
}

static void interrupted__call_goes_on_while_it_is_worked_out(void **state)
{
	int32_t x[COUNT] = { 1, -2, 3 }, y[COUNT] = { 0 }, z[COUNT] = { 10, 20, -30 };
	static const char first[] = "0, allreduce of 3 int32, prod";
	struct seat seats[2] = { 0 };
	struct tally_comm *comm;

	(void)state;
	hold = (struct hold){ 0 };
	seats_open(seats, 2);
	comm = seats[0].comm;
	interrupt(comm, true);
	assert_int_equal(tally_allreduce(x, y, COUNT, TALLY_INT32, TALLY_PROD, comm),
			 TALLY_INTERRUPTED);
	comm_lock(comm); /* only so does it take as long as this test likes */
	comm->outstanding.first->fold->op =
		(struct fold_op){ TALLY_INT32, TALLY_USER, reduce_add, &hold };
	comm_unlock(comm);
	come(seats[1].comm, z, TALLY_PROD);
	wait_for_hold();
	assert_null(comm->outstanding.first);
	refused_as_another(tally_barrier(comm), first);
	assert_int_equal(tally_allreduce(x, y, COUNT, TALLY_INT32, TALLY_PROD, comm),
			 TALLY_INTERRUPTED);
	interrupt(comm, false);
	atomic_store(&hold.may_end, true);
	assert_int_equal(tally_allreduce(x, y, COUNT, TALLY_INT32, TALLY_PROD, comm), TALLY_OK);
	assert_true(y[0] == 11 && y[1] == 18 && y[2] == -27);
	assert_int_equal(comm->next_number, 1);
	seats_do(seats, 2, seat_leave);
}

static void interrupted__call_goes_on_behind_another_that_is_worked_out(void **state)
{
	int32_t x[COUNT] = { 1, -2, 3 }, y[2][COUNT] = { { 0 } };
	int32_t z[2][COUNT] = { { 10, 20, -30 }, { 10, 20, -30 } };
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct seat seats[2] = { 0 };
	struct tally_comm *comm;
	struct tally_work *work;

	(void)state;
	hold = (struct hold){ 0 };
	seats_open(seats, 2);
	comm = seats[0].comm;
	options.reduce = reduce_add;
	options.reduce_ctx = &hold;
	assert_int_equal(tally_iallreduce(x, y[0], COUNT, TALLY_INT32, TALLY_USER, comm, &options,
					  &work),
			 TALLY_OK);
	come(seats[1].comm, z[0], TALLY_USER);
	wait_for_hold();
	interrupt(comm, true);
	assert_int_equal(tally_allreduce(x, y[1], COUNT, TALLY_INT32, TALLY_PROD, comm),
			 TALLY_INTERRUPTED);
	interrupt(comm, false);
	come(seats[1].comm, z[1], TALLY_PROD);
	for (bool is_there = false; !is_there;) {
		comm_lock(comm);
		progress_drive(comm);
		is_there = comm->calling.first;
		comm_unlock(comm);
	}
	refused_as_another(tally_barrier(comm), "1, allreduce of 3 int32, prod");
	assert_int_equal(tally_allreduce(x, y[1], COUNT, TALLY_INT32, TALLY_PROD, comm), TALLY_OK);
	assert_true(y[1][0] == 10 && y[1][1] == -40 && y[1][2] == -90);
	atomic_store(&hold.may_end, true);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	assert_true(y[0][0] == 11 && y[0][1] == 18 && y[0][2] == -27);
	assert_int_equal(comm->next_number, 2);
	seats_do(seats, 2, seat_leave);
}

static int32_t others[2] = { 5, -6 };

static void *other_thread_main(void *arg)
{
	return (void *)(intptr_t)tally_allreduce(others, others, 2, TALLY_INT32, TALLY_SUM, arg);
}

/* Another thread has operations of its own. */
static void interrupted__call_is_one_threads(void **state)
{
	int32_t x[COUNT] = { 1, -2, 3 }, y[2][COUNT] = { { 1, 1, 1 }, { 7, -8, 0 } };
	struct tally_work *works[2];
	struct seat seats[2] = { 0 };
	struct tally_comm *comm;
	pthread_t other;
	void *result;

	(void)state;
	seats_open(seats, 2);
	comm = seats[0].comm;
	interrupt(comm, true);
	assert_int_equal(tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm),
			 TALLY_INTERRUPTED);
	interrupt(comm, false);
	assert_int_equal(pthread_create(&other, NULL, other_thread_main, comm), 0);
	assert_int_equal(tally_iallreduce(y[0], y[0], COUNT, TALLY_INT32, TALLY_SUM, seats[1].comm,
					  NULL, &works[0]),
			 TALLY_OK);
	assert_int_equal(tally_iallreduce(y[1], y[1], 2, TALLY_INT32, TALLY_SUM, seats[1].comm,
					  NULL, &works[1]),
			 TALLY_OK);
	pthread_join(other, &result);
	assert_int_equal((intptr_t)result, TALLY_OK);
	assert_true(others[0] == 12 && others[1] == -14);
	assert_int_equal(tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_true(x[0] == 2 && x[1] == -1 && x[2] == 4);
	assert_int_equal(tally_waitall(2, works, -1), TALLY_OK);
	seats_do(seats, 2, seat_leave);
}

/* ---- names: bytes of the program's, and part of what is said ---- */

static void name__is_said_in_one_line_of_whole_characters(void **state)
{
	/* The second ends with the first byte of a character. */
	static const char *const names[][2] = {
		{ "loss\n12:00 tally error \"\xff\x1b[2J", "\"loss?12:00 tally error \"??[2J\"" },
		{ "12345678901234567890123456789012345678901234567890123456789012\xc3",
		  "\"12345678901234567890123456789012345678901234567890123456789012?\"" },
		{ "gr\xc3\xb6\xc3\x9f"
		  "e",
		  "\"gr\xc3\xb6\xc3\x9f"
		  "e\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
		struct seat seats[2] = { 0 };
		struct tally_work *work;
		const char *said;
		int32_t x = -7;

		seats_open(seats, 2);
		options.name = names[i][0];
		assert_int_equal(tally_iallreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, seats[0].comm,
						  &options, &work),
				 TALLY_OK);
		assert_int_equal(tally_comm_abort(seats[0].comm), TALLY_OK);
		assert_int_equal(tally_wait(&work, -1), TALLY_ERR_ABORTED);
		said = tally_get_last_error(seats[0].comm);
		assert_null(strpbrk(said, "\n\x1b"));
		if (!strstr(said, names[i][1]))
			fail_msg("no %s in: %s", names[i][1], said);
		seats_do(seats, 2, seat_leave);
	}
}

/* ---- who may wait ---- */

static void *asker_main(void *arg)
{
	struct control_opinfo before = { 0 }, after = { 0 };

	present_say(&before);
	if (operation_may_wait(NULL, "tally_wait") != TALLY_OK)
		return NULL;
	present_say(&after);
	return after.threads == before.threads + 1 ? arg : NULL;
}

/* R-CT-45: if it could still call something, it is not sure that all wait for one another. */
static void may_wait__counts_the_thread_that_asks(void **state)
{
	void *was_counted = NULL;
	pthread_t asker;

	(void)state;
	assert_int_equal(pthread_create(&asker, NULL, asker_main, &was_counted), 0);
	assert_int_equal(pthread_join(asker, &was_counted), 0);
	assert_non_null(was_counted);
}

/* ---- what each rank works out by itself ---- */

/* Of numbers, an infinity, and a NaN that has a sign and a payload: to the bit. */
static void gathered__products_of_floats_are_floats(void **state)
{
	static const struct {
		int dtype;
		uint32_t a[3], b[3], wanted[3];
	} cases[] = {
		{ TALLY_FLOAT16,
		  { 0x3e00, 0x7c00, 0xfe01 },
		  { 0xc000, 0xbc00, 0x3c00 },
		  { 0xc200, 0xfc00, 0x7e00 } },
		{ TALLY_BFLOAT16,
		  { 0x3fc0, 0x7f80, 0xffc1 },
		  { 0xc000, 0xbf80, 0x3f80 },
		  { 0xc040, 0xff80, 0x7fc0 } },
		{ TALLY_FLOAT32,
		  { 0x3fc00000, 0x7f800000, 0xffc00001 },
		  { 0xc0000000, 0xbf800000, 0x3f800000 },
		  { 0xc0400000, 0xff800000, 0x7fc00000 } },
	};
	struct seat seats[2] = { 0 };

	(void)state;
	seats_open(seats, 2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t bytes = cases[i].dtype == TALLY_FLOAT32 ? 4 : 2;
		struct tally_work *works[2];
		uint32_t x[2][3];

		for (uint32_t r = 0; r < 2; r++) {
			for (size_t k = 0; k < 3; k++)
				memcpy((uint8_t *)x[r] + k * bytes,
				       r ? &cases[i].b[k] : &cases[i].a[k], bytes);
			assert_int_equal(tally_iallreduce(x[r], x[r], 3, cases[i].dtype, TALLY_PROD,
							  seats[r].comm, NULL, &works[r]),
					 TALLY_OK);
		}
		for (uint32_t r = 0; r < 2; r++) {
			assert_int_equal(tally_wait(&works[r], -1), TALLY_OK);
			for (size_t k = 0; k < 3; k++)
				assert_memory_equal((uint8_t *)x[r] + k * bytes,
						    &cases[i].wanted[k], bytes);
		}
	}
	seats_do(seats, 2, seat_leave);
}

/* ---- what a packet has no room for ---- */

static void lanes__too_few_for_an_element_are_said(void **state)
{
	struct seat seats[1] = { 0 };
	double x = -3.5;
	uint32_t lanes;

	(void)state;
	seats_open(seats, 1);
	lanes = seats[0].comm->lanes;
	seats[0].comm->lanes = 1;
	assert_int_equal(tally_allreduce(&x, &x, 1, TALLY_FLOAT64, TALLY_SUM, seats[0].comm),
			 TALLY_ERR_UNSUPPORTED);
	assert_non_null(
		strstr(tally_get_last_error(NULL),
		       "dtype float64: with 1 ranks an element takes more than the 1 lanes"));
	seats[0].comm->lanes = lanes;
	assert_int_equal(tally_allreduce(&x, &x, 1, TALLY_FLOAT64, TALLY_SUM, seats[0].comm),
			 TALLY_OK);
	assert_true(x == -3.5);
	seats_do(seats, 1, seat_leave);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deadline__of_an_operation_goes_before_the_communicators),
		cmocka_unit_test(deadline__of_a_group_is_its_earliest),
		cmocka_unit_test(lent__buffers_of_two_operations_may_touch_but_not_overlap),
		cmocka_unit_test(lent__buffers_are_free_when_the_operation_is_complete),
		cmocka_unit_test(interrupted__call_goes_on_with_the_same_arguments_and_no_others),
		cmocka_unit_test(interrupted__nothing_and_barriers_are_calls_too),
		cmocka_unit_test(interrupted__call_goes_on_while_it_is_worked_out),
		cmocka_unit_test(interrupted__call_goes_on_behind_another_that_is_worked_out),
		cmocka_unit_test(interrupted__call_is_one_threads),
		cmocka_unit_test(name__is_said_in_one_line_of_whole_characters),
		cmocka_unit_test(lanes__too_few_for_an_element_are_said),
		cmocka_unit_test(may_wait__counts_the_thread_that_asks),
		cmocka_unit_test(gathered__products_of_floats_are_floats),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests_name("lib-operation", tests, NULL, NULL);
}
