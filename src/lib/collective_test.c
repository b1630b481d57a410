/* SPDX-License-Identifier: Apache-2.0 */
/* collective_test.c - what reduce, broadcast, gather and their kin refuse, and which memory they take. What they bring:
 * tests/e2e/every_collective.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/comm.h"
#include "lib/seats_fixture.h"
#include "tally.h"

enum { COUNT = 6 };

static int32_t in[4 * COUNT], out[4 * COUNT];

static void refused(int result, int wanted, const char *words)
{
	if (result != wanted || !strstr(tally_get_last_error(NULL), words))
		fail_msg("%s: \"%s\" should say \"%s\"", tally_strerror(result),
			 tally_get_last_error(NULL), words);
}

static void collective__refuses_what_is_wrong_and_goes_on(void **state)
{
	struct seat seats[2] = { 0 };
	struct tally_comm *comm;
	struct tally_work *work;
	char *odd = (char *)in + 2;
	size_t vast = (size_t)1 << 46;

	(void)state;
	seats_open(seats, 2);
	comm = seats[1].comm;
	refused(tally_broadcast(in, out, COUNT, TALLY_INT32, 2, comm), TALLY_ERR_ARGUMENT,
		"tally_broadcast: root 2 is not a rank of this communicator, which has 2");
	refused(tally_reduce(in, out, COUNT, TALLY_INT32, TALLY_SUM, 7, comm), TALLY_ERR_ARGUMENT,
		"tally_reduce: root 7 is not a rank");
	refused(tally_reduce(in, out, COUNT, TALLY_FLOAT16, TALLY_BAND, 0, comm),
		TALLY_ERR_UNSUPPORTED,
		"tally_reduce: op band of float16: bits and truth values are for integers");
	refused(tally_allgather(in, out, COUNT, 15, comm), TALLY_ERR_ARGUMENT,
		"tally_allgather: dtype 15: no such type");
	refused(tally_allgather(in, out, COUNT, 11, comm), TALLY_ERR_UNSUPPORTED,
		"tally_allgather: dtype float8e5m2: not in this version");
	refused(tally_reduce_scatter(in, out, COUNT, TALLY_FLOAT64, TALLY_LXOR, comm),
		TALLY_ERR_UNSUPPORTED, "tally_reduce_scatter: op lxor of float64");
	refused(tally_allgather(NULL, out, COUNT, TALLY_INT32, comm), TALLY_ERR_ARGUMENT,
		"tally_allgather: send is NULL, count 6");
	refused(tally_allgather(in, NULL, COUNT, TALLY_INT32, comm), TALLY_ERR_ARGUMENT,
		"tally_allgather: recv is NULL, count 12");
	refused(tally_gather(NULL, NULL, COUNT, TALLY_INT32, 0, comm), TALLY_ERR_ARGUMENT,
		"tally_gather: send is NULL, count 6");
	refused(tally_gather(in, NULL, COUNT, TALLY_INT32, 1, comm), TALLY_ERR_ARGUMENT,
		"tally_gather: recv is NULL, count 12");
	refused(tally_scatter(NULL, out, COUNT, TALLY_INT32, 1, comm), TALLY_ERR_ARGUMENT,
		"tally_scatter: send is NULL, count 12");
	refused(tally_broadcast(odd, out, COUNT, TALLY_INT32, 1, comm), TALLY_ERR_ARGUMENT,
		"is not aligned to 4 bytes");
	refused(tally_alltoall(in, out, vast, TALLY_UINT8, comm), TALLY_ERR_ARGUMENT,
		"tally_alltoall: the count or displacement of rank 0 is above 2^45");
	refused(tally_alltoall(in, out, vast / 4, TALLY_UINT8, comm), TALLY_ERR_ARGUMENT,
		"tally_alltoall: the counts of all ranks are above 2^45 together");
	refused(tally_iallgather(in, out, COUNT, TALLY_INT32, comm, NULL, NULL), TALLY_ERR_ARGUMENT,
		"tally_iallgather: work is NULL");
	refused(tally_ialltoall(in, in, COUNT, TALLY_INT32, comm, NULL, &work), TALLY_ERR_ARGUMENT,
		"tally_ialltoall: a send buffer overlaps the recv buffer");
	refused(tally_broadcast(in, in + 1, COUNT, TALLY_INT32, 1, comm), TALLY_ERR_ARGUMENT,
		"tally_broadcast: a recv buffer overlaps the send buffer");
	refused(tally_reduce(in + 1, in, COUNT, TALLY_INT32, TALLY_SUM, 1, comm),
		TALLY_ERR_ARGUMENT, "tally_reduce: a recv buffer overlaps the send buffer");
	refused(tally_allgather(in + COUNT + 1, in, COUNT, TALLY_INT32, comm), TALLY_ERR_ARGUMENT,
		"tally_allgather: a recv buffer overlaps the send buffer");
	assert_int_equal(comm->next_number, 0);
	seats_do(seats, 2, seat_leave);
}

static int gather_of(const size_t *counts, const size_t *displs, size_t count, uint32_t flags,
		     struct tally_comm *comm)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *work;

	options.counts = counts;
	options.displs = displs;
	options.flags = flags;
	return tally_iallgather(in, out, count, TALLY_INT32, comm, &options, &work);
}

/* It would wrap round to just below recv. */
static void collective__of_one_rank_refuses_both_far_places(void **state)
{
	const size_t counts[] = { 4 }, far = ((size_t)1 << 62) - 1;
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct seat seat = { 0 };
	struct tally_work *work;

	(void)state;
	seats_open(&seat, 1);
	options.counts = counts;
	for (int side = 0; side < 2; side++) {
		const size_t displs[] = { side ? 0 : far, side ? far : 0 };

		options.displs = displs;
		refused(tally_ialltoall(in + 1, out + 1, 4, TALLY_INT32, seat.comm, &options,
					&work),
			TALLY_ERR_ARGUMENT, "the count or displacement of rank 0 is above 2^45");
	}
	assert_int_equal(seat.comm->next_number, 0);
	seats_do(&seat, 1, seat_leave);
}

static void collective__refuses_parts_that_do_not_fit(void **state)
{
	static const size_t counts[] = { 3, 5 }, displs[] = { 2, 0 },
			    far[] = { 0, (size_t)1 << 46 };
	static const size_t cells[] = { 2, 1, 0, 4 }, cells_far[] = { 0, 0, 0, (size_t)1 << 46 },
			    cells_meet[] = { 0, 0, 0, 0 }, counts_odd[] = { 3, 4 };
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct seat seats[2] = { 0 };
	struct tally_comm *comm;
	struct tally_work *work;

	(void)state;
	seats_open(seats, 2);
	comm = seats[1].comm;
	refused(gather_of(NULL, displs, COUNT, 0, comm), TALLY_ERR_ARGUMENT,
		"options->displs is set, and options->counts is not");
	refused(gather_of(counts, NULL, COUNT, 0, comm), TALLY_ERR_ARGUMENT,
		"count is 6, and options->counts has 5 for this rank, 1");
	refused(gather_of(counts, far, 5, 0, comm), TALLY_ERR_ARGUMENT,
		"the count or displacement of rank 1 is above 2^45");
	refused(gather_of(counts, displs, 5, 0, comm), TALLY_ERR_ARGUMENT,
		"a recv buffer overlaps the recv buffer"); /* 2, 3, 4 and 0 to 4 */
	refused(gather_of(counts, NULL, 5, TALLY_OP_HALF, comm), TALLY_ERR_UNSUPPORTED,
		"TALLY_OP_HALF is for sum and avg of float32");
	options.counts = cells;
	refused(tally_ialltoall(in, out, 3, TALLY_INT32, comm, &options, &work), TALLY_ERR_ARGUMENT,
		"count is 3, and options->counts has 4 for this rank, 1");
	options.displs = cells_far;
	refused(tally_ialltoall(in, out, 4, TALLY_INT32, comm, &options, &work), TALLY_ERR_ARGUMENT,
		"the count or displacement of rank 1 is above 2^45");
	options.displs = cells_meet;
	refused(tally_ialltoall(in, out, 4, TALLY_INT32, comm, &options, &work), TALLY_ERR_ARGUMENT,
		"a recv buffer overlaps the recv buffer");
	options.displs = NULL;
	options.counts = counts_odd;
	refused(tally_ireduce_scatter(in, out, 4, TALLY_INT32, TALLY_MINLOC, comm, &options, &work),
		TALLY_ERR_ARGUMENT, "op minloc: options->counts[0] is odd: elements come in pairs");
	options.counts = counts;
	refused(tally_ibroadcast(in, out, 5, TALLY_INT32, 0, comm, &options, &work),
		TALLY_ERR_ARGUMENT, "options->counts is set: it is for gather, allgather, scatter");
	options.counts = NULL;
	options.displs = displs;
	refused(tally_ibarrier(comm, &options, &work), TALLY_ERR_ARGUMENT,
		"options->displs is set: it is for gather, allgather, scatter");
	assert_int_equal(comm->next_number, 0);
	seats_do(seats, 2, seat_leave);
}

/* Only what a rank needs is looked at, and lent. */
static void collective__takes_no_memory_that_it_does_not_need(void **state)
{
	struct seat seats[2] = { 0 };
	struct tally_work *works[2][2];
	int32_t x[2] = { 5, -7 }, got = 0, parts[2] = { 0 };

	(void)state;
	seats_open(seats, 2);
	for (uint32_t r = 0; r < 2; r++) {
		struct tally_comm *comm = seats[r].comm;

		assert_int_equal(tally_ireduce(&x[r], r ? NULL : &got, 1, TALLY_INT32, TALLY_SUM, 0,
					       comm, NULL, &works[r][0]),
				 TALLY_OK);
		/* x[1] is being read, as it may be by two */
		assert_int_equal(tally_igather(&x[r], r ? parts : NULL, 1, TALLY_INT32, 1, comm,
					       NULL, &works[r][1]),
				 TALLY_OK);
	}
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tally_waitall(2, works[r], -1), TALLY_OK);
	assert_int_equal(got, -2);
	assert_true(parts[0] == 5 && parts[1] == -7);
	seats_do(seats, 2, seat_leave);
}

/* Of others they are one segment: rank 0 has none of what ranks 1 and 2 have. */
static void collective__brings_parts_that_lie_side_by_side(void **state)
{
	struct seat seats[3] = { 0 };
	struct tally_work *works[3];
	int32_t x[3][2] = { { 5, -7 }, { 11, 2 }, { -3, 13 } }, got[3][6] = { 0 };

	(void)state;
	seats_open(seats, 3);
	for (uint32_t r = 0; r < 3; r++)
		assert_int_equal(tally_iallgather(x[r], got[r], 2, TALLY_INT32, seats[r].comm, NULL,
						  &works[r]),
				 TALLY_OK);
	for (uint32_t r = 0; r < 3; r++)
		assert_int_equal(tally_waitall(1, &works[r], 20000), TALLY_OK);
	for (uint32_t r = 0; r < 3; r++)
		assert_memory_equal(got[r], x, sizeof(x));
	seats_do(seats, 3, seat_leave);
}

/* What lies behind its options is not looked at. */
static void reduce_not_to_be_called(const void *from, void *inout, size_t count, int dtype,
				    void *ctx)
{
	(void)from, (void)inout, (void)count, (void)dtype, (void)ctx;
	abort();
}

static void collective__takes_options_of_an_older_header(void **state)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *works[2];
	struct seat seats[2] = { 0 };
	int32_t x[2] = { 5, -7 };

	(void)state;
	seats_open(seats, 2);
	options.size = offsetof(struct tally_op_options, counts);
	options.name = "older";
	options.counts = options.displs = (const size_t *)(uintptr_t)8;
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tally_ibroadcast(&x[r], &x[r], 1, TALLY_INT32, 1, seats[r].comm,
						  &options, &works[r]),
				 TALLY_OK);
	assert_string_equal(works[0]->op.name, "older");
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tally_waitall(1, &works[r], -1), TALLY_OK);
	assert_int_equal(x[0], -7);
	options.size++;
	refused(tally_ibroadcast(x, x, 1, TALLY_INT32, 1, seats[1].comm, &options, &works[1]),
		TALLY_ERR_ARGUMENT, "tally_ibroadcast: options->size is 33, not 80");
	options.size = offsetof(struct tally_op_options, reduce);
	options.counts = options.displs = NULL;
	options.reduce = reduce_not_to_be_called;
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tally_ibroadcast(&x[r], &x[r], 1, TALLY_INT32, 0, seats[r].comm,
						  &options, &works[r]),
				 TALLY_OK);
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tally_waitall(1, &works[r], -1), TALLY_OK);
	seats_do(seats, 2, seat_leave);
}

/* MPI lets operations on their way share what they only read. */
static void broadcast__only_reads_its_root_in_place(void **state)
{
	struct tally_work *works[2][3], *none;
	struct seat seats[2] = { 0 };
	int32_t x[2] = { 5, -7 }, got[3][2], sums[2][2];

	(void)state;
	seats_open(seats, 2);
	/* What is lent stays lent while the other rank has not called it. */
	assert_int_equal(tally_ibroadcast(NULL, got[0], 2, TALLY_INT32, 0, seats[1].comm, NULL,
					  &works[1][0]),
			 TALLY_OK);
	refused(tally_ibroadcast(NULL, got[0], 2, TALLY_INT32, 0, seats[1].comm, NULL, &none),
		TALLY_ERR_ARGUMENT, "recv overlaps the recv buffer");
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(tally_ibroadcast(x, x, 2, TALLY_INT32, 0, seats[0].comm, NULL,
						  &works[0][i]),
				 TALLY_OK);
	assert_int_equal(tally_iallreduce(x, sums[0], 2, TALLY_INT32, TALLY_MAX, seats[0].comm,
					  NULL, &works[0][2]),
			 TALLY_OK);
	refused(tally_iallreduce(sums[0], x + 1, 1, TALLY_INT32, TALLY_SUM, seats[0].comm, NULL,
				 &none),
		TALLY_ERR_ARGUMENT, "overlaps");
	refused(tally_ireduce(got[0], x, 2, TALLY_INT32, TALLY_SUM, 0, seats[0].comm, NULL, &none),
		TALLY_ERR_ARGUMENT, "recv overlaps the send buffer");
	got[2][0] = -9;
	got[2][1] = -8;
	assert_int_equal(tally_ibroadcast(NULL, got[1], 2, TALLY_INT32, 0, seats[1].comm, NULL,
					  &works[1][1]),
			 TALLY_OK);
	assert_int_equal(tally_iallreduce(got[2], sums[1], 2, TALLY_INT32, TALLY_MAX, seats[1].comm,
					  NULL, &works[1][2]),
			 TALLY_OK);
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tally_waitall(3, works[r], -1), TALLY_OK);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(got[i][0] == 5 && got[i][1] == -7 && sums[i][0] == 5 &&
			    sums[i][1] == -7);
	assert_null(seats[0].comm->lent_reads);
	assert_null(seats[0].comm->lent_writes);
	seats_do(seats, 2, seat_leave);
}

static void alltoall__has_as_many_elements_as_go_from_all_to_all(void **state)
{
	struct seat seats[2] = { 0 };
	struct tally_work *works[2];
	int32_t sent[2][4] = { { 1, -2, 3, -4 }, { 5, 6, -7, 8 } }, got[2][4];
	const int32_t wanted[2][4] = { { 1, -2, 5, 6 }, { 3, -4, -7, 8 } };

	(void)state;
	seats_open(seats, 2);
	for (uint32_t r = 0; r < 2; r++) {
		assert_int_equal(tally_ialltoall(sent[r], got[r], 2, TALLY_INT32, seats[r].comm,
						 NULL, &works[r]),
				 TALLY_OK);
		assert_int_equal(works[r]->op.count, 8);
	}
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tally_waitall(1, &works[r], -1), TALLY_OK);
	assert_memory_equal(got, wanted, sizeof(got));
	seats_do(seats, 2, seat_leave);
}

/* R-MAP-9: what rank r has for r + 1 comes first, what it has for itself last. */
static void alltoall__has_its_parts_in_the_order_of_receivers(void **state)
{
	static int32_t sent[3][6], got[3][6];
	const struct endpoint_segment wanted[] = {
		{ 0, 2, NULL, got[1] },
		{ 2, 4, NULL, NULL },
		{ 6, 2, sent[1] + 4, NULL },
		{ 8, 2, sent[1], NULL },
		{ 10, 2, sent[1] + 2, got[1] + 2 },
		{ 12, 2, NULL, NULL },
		{ 14, 2, NULL, got[1] + 4 },
		{ 16, 2, NULL, NULL },
	};
	struct seat seats[3] = { 0 };
	struct tally_work *works[3];

	(void)state;
	seats_open(seats, 3);
	for (uint32_t r = 0; r < 3; r++)
		for (uint32_t i = 0; i < 6; i++)
			sent[r][i] = (int32_t)(100 * r + i) - 150;
	for (uint32_t r = 0; r < 3; r++)
		assert_int_equal(tally_ialltoall(sent[r], got[r], 2, TALLY_INT32, seats[r].comm,
						 NULL, &works[r]),
				 TALLY_OK);
	assert_int_equal(works[1]->segments_count, 8);
	assert_memory_equal(works[1]->segments, wanted, sizeof(wanted));
	for (uint32_t r = 0; r < 3; r++)
		assert_int_equal(tally_waitall(1, &works[r], -1), TALLY_OK);
	for (uint32_t r = 0; r < 3; r++)
		for (uint32_t i = 0; i < 6; i++)
			assert_int_equal(got[r][i], sent[i / 2][2 * r + i % 2]);
	seats_do(seats, 3, seat_leave);
}

/* What each rank works out by itself, blocking and in a group: its memory goes back with the handle. */
static void gathered__sums_are_counted_and_their_memory_goes_back(void **state)
{
	struct tally_stats stats = TALLY_STATS_INIT;
	struct seat seats[2] = { 0 };
	struct tally_work *works[2][3];
	int64_t x[2][3] = { { 3, -5, 7 }, { -11, 13, 1 } };

	(void)state;
	seats_open(seats, 2);
	for (uint32_t r = 0; r < 2; r++) {
		tally_group_start();
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(tally_iallreduce(&x[r][i], &x[r][i], 1, TALLY_INT64,
							  i == 2 ? TALLY_MIN : TALLY_PROD,
							  seats[r].comm, NULL, &works[r][i]),
					 TALLY_OK);
		assert_int_equal(tally_group_end(), TALLY_OK);
	}
	for (uint32_t r = 0; r < 2; r++) {
		assert_int_equal(tally_waitall(3, works[r], -1), TALLY_OK);
		assert_true(x[r][0] == -33 && x[r][1] == -65 && x[r][2] == 1);
		assert_int_equal(tally_comm_get_stats(seats[r].comm, &stats), TALLY_OK);
		assert_int_equal(stats.gathered, 2); /* the products are one operation */
		for (const struct tally_work *work = seats[r].comm->free_works; work;
		     work = work->next)
			assert_null(work->fold);
	}
	seats_do(seats, 2, seat_leave);
}

/* Rank 0's function runs in the background, while the thread that waits for it drives. */
static struct {
	struct seat seats[2];
	struct tally_work *user[2], *barrier[2];
	pthread_t waits;
	atomic_bool is_behind;
} apart;

static bool is_driver_waiting(bool has_outstanding)
{
	struct tally_comm *comm = apart.seats[0].comm;
	bool is_so;

	comm_lock(comm);
	is_so = comm->is_waiting && !!comm->outstanding.first == has_outstanding;
	comm_unlock(comm);
	return is_so;
}

static void reduce_behind(const void *before, void *inout, size_t count, int dtype, void *ctx)
{
	(void)before;
	(void)inout;
	(void)count;
	(void)dtype;
	if (!ctx || pthread_equal(pthread_self(), apart.waits))
		return;
	while (!is_driver_waiting(true))
		usleep(100);
	assert_int_equal(tally_ibarrier(apart.seats[1].comm, NULL, &apart.barrier[1]), TALLY_OK);
	while (!is_driver_waiting(false)) /* no timer of a packet will wake it */
		usleep(100);
	atomic_store(&apart.is_behind, true);
}

static bool is_worked_out_or_begun(void)
{
	struct tally_comm *comm = apart.seats[0].comm;
	bool is_so;

	comm_lock(comm);
	is_so = comm->folding.first || work_is_over(comm, apart.user[0]);
	comm_unlock(comm);
	return is_so;
}

static void reduce_in_the_background(void)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	static int32_t x[2];
	uint64_t begin_ns;

	options.reduce = reduce_behind;
	apart.barrier[1] = NULL;
	for (uint32_t r = 0; r < 2; r++) {
		options.reduce_ctx = r ? NULL : &apart;
		assert_int_equal(tally_iallreduce(&x[r], &x[r], 1, TALLY_INT32, TALLY_USER,
						  apart.seats[r].comm, &options, &apart.user[r]),
				 TALLY_OK);
	}
	assert_int_equal(tally_ibarrier(apart.seats[0].comm, NULL, &apart.barrier[0]), TALLY_OK);
	while (!is_worked_out_or_begun())
		usleep(100);
	begin_ns = clock_ns();
	assert_int_equal(tally_wait(&apart.user[0], 10000), TALLY_OK);
	assert_true(clock_ns() - begin_ns < 5000000000); /* it has not slept to the end */
	if (!apart.barrier[1])
		assert_int_equal(tally_ibarrier(apart.seats[1].comm, NULL, &apart.barrier[1]),
				 TALLY_OK);
	assert_int_equal(tally_waitall(1, &apart.user[1], -1), TALLY_OK);
	assert_int_equal(tally_waitall(2, apart.barrier, -1), TALLY_OK);
}

static void user__function_in_the_background_wakes_the_driver(void **state)
{
	(void)state;
	seats_open(apart.seats, 2);
	apart.waits = pthread_self();
	for (uint32_t i = 0; i < 200 && !atomic_load(&apart.is_behind); i++)
		reduce_in_the_background();
	assert_true(atomic_load(&apart.is_behind));
	seats_do(apart.seats, 2, seat_leave);
}

/* Asks what needs the lock, and what would wait. */
static void reduce_and_ask(const void *before, void *inout, size_t count, int dtype, void *ctx)
{
	struct tally_stats stats = TALLY_STATS_INIT;
	struct tally_comm *comm = ctx;
	const int32_t *from = before;
	int32_t *to = inout;

	assert_int_equal(dtype, TALLY_INT32);
	assert_int_equal(tally_comm_get_stats(comm, &stats), TALLY_OK);
	refused(tally_barrier(comm), TALLY_ERR_USAGE, "inside an on_done or reduce function");
	for (size_t i = 0; i < count; i++)
		to[i] = 3 * from[i] - to[i];
}

static void user__function_holds_no_lock_and_may_not_wait(void **state)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct seat seats[2] = { 0 };
	struct tally_work *works[2];
	int32_t x[2][2] = { { 5, -7 }, { 11, 2 } };

	(void)state;
	seats_open(seats, 2);
	options.reduce = reduce_and_ask;
	refused(tally_iallreduce(x[0], x[0], 2, TALLY_INT32, TALLY_SUM, seats[0].comm, &options,
				 &works[0]),
		TALLY_ERR_ARGUMENT, "options->reduce is set: it is for op TALLY_USER");
	for (uint32_t r = 0; r < 2; r++) {
		options.reduce_ctx = seats[r].comm;
		assert_int_equal(tally_iallreduce(x[r], x[r], 2, TALLY_INT32, TALLY_USER,
						  seats[r].comm, &options, &works[r]),
				 TALLY_OK);
	}
	for (uint32_t r = 0; r < 2; r++) {
		assert_int_equal(tally_waitall(1, &works[r], -1), TALLY_OK);
		assert_true(x[r][0] == 3 * 5 - 11 && x[r][1] == 3 * -7 - 2);
	}
	seats_do(seats, 2, seat_leave);
}

/* It is lent as buffers are: to one operation at a time. */
static void residual__is_lent_to_its_operation(void **state)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	float x[2][4] = { { 1, -2, 3, 4 }, { 5, 6, -7, 8 } }, y[4], residual[4];
	struct seat seats[2] = { 0 };
	struct tally_work *works[2], *work;

	(void)state;
	seats_open(seats, 2);
	options.residual = residual;
	assert_int_equal(tally_iallreduce(x[0], x[0], 4, TALLY_FLOAT32, TALLY_SUM, seats[0].comm,
					  &options, &works[0]),
			 TALLY_OK);
	refused(tally_iallreduce(y, y, 4, TALLY_FLOAT32, TALLY_SUM, seats[0].comm, &options, &work),
		TALLY_ERR_ARGUMENT,
		"tally_iallreduce: residual overlaps the residual buffer of operation #0");
	refused(tally_iallreduce(y, residual + 3, 1, TALLY_FLOAT32, TALLY_SUM, seats[0].comm, NULL,
				 &work),
		TALLY_ERR_ARGUMENT, "recv overlaps the residual buffer of operation #0");
	options.residual = x[0] + 3;
	refused(tally_iallreduce(y, y, 1, TALLY_FLOAT32, TALLY_SUM, seats[0].comm, &options, &work),
		TALLY_ERR_ARGUMENT, "residual overlaps the recv buffer of operation #0");
	assert_int_equal(tally_iallreduce(x[1], x[1], 4, TALLY_FLOAT32, TALLY_SUM, seats[1].comm,
					  NULL, &works[1]),
			 TALLY_OK);
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(tally_wait(&works[r], -1), TALLY_OK);
	assert_true(x[0][2] == -4 && residual[0] == 0);
	assert_null(seats[0].comm->lent_writes);
	seats_do(seats, 2, seat_leave);
}

static atomic_bool slow_has_begun, slow_has_ended;

static void reduce_slowly(const void *before, void *inout, size_t count, int dtype, void *ctx)
{
	(void)before, (void)inout, (void)count, (void)dtype;
	if (!ctx)
		return;
	atomic_store(&slow_has_begun, true);
	usleep(50000);
	atomic_store(&slow_has_ended, true);
}

static void *wait_thread(void *work)
{
	assert_int_equal(tally_wait((struct tally_work **)work, -1), TALLY_OK);
	return NULL;
}

static void *seat_finalize(void *arg)
{
	struct seat *seat = arg;

	assert_int_equal(tally_comm_finalize(seat->comm), TALLY_OK);
	return NULL;
}

static void finalize__waits_for_what_another_thread_works_out(void **state)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct seat seats[2] = { 0 };
	struct tally_work *works[2];
	int32_t x[2] = { 5, -7 };
	pthread_t thread;

	(void)state;
	seats_open(seats, 2);
	options.reduce = reduce_slowly;
	for (uint32_t r = 0; r < 2; r++) {
		options.reduce_ctx = r ? NULL : &x;
		assert_int_equal(tally_iallreduce(&x[r], &x[r], 1, TALLY_INT32, TALLY_USER,
						  seats[r].comm, &options, &works[r]),
				 TALLY_OK);
	}
	assert_int_equal(pthread_create(&thread, NULL, wait_thread, &works[0]), 0);
	assert_int_equal(tally_wait(&works[1], -1), TALLY_OK);
	while (!atomic_load(&slow_has_begun))
		usleep(1000);
	seats_do(seats, 2, seat_finalize);
	assert_true(atomic_load(&slow_has_ended));
	assert_int_equal(pthread_join(thread, NULL), 0);
	seats_do(seats, 2, seat_leave);
}

static int interrupted_at_once(void *ctx)
{
	(void)ctx;
	return 1;
}

static void collective__that_was_interrupted_is_called_again_as_it_was(void **state)
{
	struct seat seats[2] = { 0 };
	int32_t x[2] = { 1, 2 }, y[2] = { 0 };
	struct tally_comm *comm;
	struct tally_work *work;

	(void)state;
	seats_open(seats, 2);
	comm = seats[0].comm;
	comm->interrupted = interrupted_at_once;
	assert_int_equal(tally_broadcast(NULL, y, 2, TALLY_INT32, 1, comm), TALLY_INTERRUPTED);
	refused(tally_broadcast(NULL, y, 2, TALLY_INT32, 0, comm), TALLY_ERR_ARGUMENT,
		"send is NULL");
	refused(tally_broadcast(x, y, 2, TALLY_INT32, 1, comm), TALLY_ERR_USAGE,
		"operation #0, broadcast of 2 int32, was interrupted");
	refused(tally_broadcast(x, y, 2, TALLY_INT32, 0, comm), TALLY_ERR_USAGE, "was interrupted");
	refused(tally_reduce(NULL, y, 2, TALLY_INT32, TALLY_SUM, 1, comm), TALLY_ERR_ARGUMENT,
		"send is NULL");
	assert_int_equal(tally_ibroadcast(x, x, 2, TALLY_INT32, 1, seats[1].comm, NULL, &work),
			 TALLY_OK);
	comm_lock(comm);
	comm->interrupted = NULL;
	comm_unlock(comm);
	assert_int_equal(tally_broadcast(NULL, y, 2, TALLY_INT32, 1, comm), TALLY_OK);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	assert_memory_equal(x, y, sizeof(x));
	seats_do(seats, 2, seat_leave);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collective__refuses_what_is_wrong_and_goes_on),
		cmocka_unit_test(collective__of_one_rank_refuses_both_far_places),
		cmocka_unit_test(collective__refuses_parts_that_do_not_fit),
		cmocka_unit_test(collective__takes_no_memory_that_it_does_not_need),
		cmocka_unit_test(collective__brings_parts_that_lie_side_by_side),
		cmocka_unit_test(collective__takes_options_of_an_older_header),
		cmocka_unit_test(broadcast__only_reads_its_root_in_place),
		cmocka_unit_test(alltoall__has_as_many_elements_as_go_from_all_to_all),
		cmocka_unit_test(alltoall__has_its_parts_in_the_order_of_receivers),
		cmocka_unit_test(gathered__sums_are_counted_and_their_memory_goes_back),
		cmocka_unit_test(user__function_in_the_background_wakes_the_driver),
		cmocka_unit_test(user__function_holds_no_lock_and_may_not_wait),
		cmocka_unit_test(residual__is_lent_to_its_operation),
		cmocka_unit_test(finalize__waits_for_what_another_thread_works_out),
		cmocka_unit_test(collective__that_was_interrupted_is_called_again_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
