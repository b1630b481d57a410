/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_test.c - sums over real sockets of this machine, against sums made without tally. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ranks.h"
#include "util/rng.h"

static const size_t counts[] = { 0, 1, 359, 360, 361, 65536, 1000000 };
enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };

/* ---- the inputs: different on every rank and at every place, of both signs ---- */

static uint32_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (uint32_t)(x >> 32);
}

static int32_t input_i32(uint32_t rank, size_t i, uint32_t seed)
{
	return (int32_t)mix((uint64_t)seed << 48 ^ (uint64_t)rank << 40 ^ i) / RANKS_MAX;
}

/* Magnitudes of 2^-20 to 2^20, near one another inside a packet. */
static float input_f32(uint32_t rank, size_t i, uint32_t seed)
{
	double unit =
		(double)(int32_t)mix((uint64_t)seed << 48 ^ (uint64_t)rank << 40 ^ i) * 0x1p-31;

	return (float)ldexp(unit, (int)(i / 5000 % 41) - 20);
}

/* ---- what should come out ---- */

static void check_i32(const int32_t *got, size_t count, uint32_t size, uint32_t seed, int op)
{
	for (size_t i = 0; i < count; i++) {
		int64_t sum = 0;

		for (uint32_t rank = 0; rank < size; rank++)
			sum += input_i32(rank, i, seed);
		if (op == TALLY_AVG)
			sum /= (int64_t)size;
		if (got[i] != sum) {
			fprintf(stderr, "element %zu of %zu: %d, not %lld\n", i, count, got[i],
				(long long)sum);
			_exit(1);
		}
	}
}

/* R-NUM-2: |error| <= N * 2^-s + half an ulp of the result, s from the largest exponent of the packet, or a guess that is
 * up to 3 above (R-WK-18). */
static double bound_of(size_t first, size_t end, uint32_t size, uint32_t seed)
{
	double largest = 0;
	int exponent, workers_bits = 0;

	for (size_t i = first; i < end; i++) {
		for (uint32_t rank = 0; rank < size; rank++)
			largest = fmax(largest, fabs((double)input_f32(rank, i, seed)));
	}
	if (largest == 0)
		return 0;
	frexp(largest, &exponent); /* largest < 2^exponent: E - 126 */
	while (1u << workers_bits < size)
		workers_bits++;
	return size * ldexp(1, exponent + 3 - (31 - workers_bits));
}

static void check_f32(const float *got, size_t count, uint32_t size, uint32_t seed, int op,
		      uint32_t lanes)
{
	double bound = 0;

	for (size_t i = 0; i < count; i++) {
		double sum = 0, share = op == TALLY_AVG ? size : 1;

		if (i % lanes == 0)
			bound = bound_of(i, i + lanes < count ? i + lanes : count, size, seed);
		for (uint32_t rank = 0; rank < size; rank++)
			sum += (double)input_f32(rank, i, seed);
		sum /= share;
		if (!(fabs((double)got[i] - sum) <= bound / share + fabs(sum) * 0x1p-24)) {
			fprintf(stderr, "element %zu of %zu: %.9g, not %.9g (within %.3g)\n", i,
				count, (double)got[i], sum, bound / share);
			_exit(1);
		}
	}
}

/* ---- the ranks ---- */

struct buffers {
	int32_t *in, *out;
	float *fin, *fout;
};

static struct buffers buffers_make(size_t count)
{
	struct buffers b = { calloc(count + 1, 4), calloc(count + 1, 4), calloc(count + 1, 4),
			     calloc(count + 1, 4) };

	CHECK(b.in && b.out && b.fin && b.fout);
	return b;
}

static void buffers_free(struct buffers *b)
{
	free(b->in);
	free(b->out);
	free(b->fin);
	free(b->fout);
}

static void one_i32(struct tally_comm *comm, struct buffers *b, size_t count, uint32_t seed, int op,
		    bool is_in_place)
{
	uint32_t rank = tally_comm_rank(comm), size = tally_comm_size(comm);
	int32_t *in = is_in_place ? b->out : b->in;

	for (size_t i = 0; i < count; i++)
		in[i] = input_i32(rank, i, seed);
	CHECK(tally_allreduce(in, b->out, count, TALLY_INT32, op, comm) == TALLY_OK);
	check_i32(b->out, count, size, seed, op);
}

static void one_f32(struct tally_comm *comm, struct buffers *b, size_t count, uint32_t seed, int op,
		    bool is_in_place)
{
	uint32_t rank = tally_comm_rank(comm), size = tally_comm_size(comm);
	struct tally_stats stats = TALLY_STATS_INIT;
	float *in = is_in_place ? b->fout : b->fin;

	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	for (size_t i = 0; i < count; i++)
		in[i] = input_f32(rank, i, seed);
	CHECK(tally_allreduce(in, b->fout, count, TALLY_FLOAT32, op, comm) == TALLY_OK);
	check_f32(b->fout, count, size, seed, op, stats.lanes);
}

static void sums_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct buffers b = buffers_make(counts[COUNTS - 1]);
	uint32_t seed = 1;

	for (size_t i = 0; i < COUNTS; i++) {
		one_i32(comm, &b, counts[i], seed++, TALLY_SUM, i % 2);
		one_f32(comm, &b, counts[i], seed++, TALLY_SUM, i % 2 == 0);
		CHECK(tally_barrier(comm) == TALLY_OK);
		one_i32(comm, &b, counts[i], seed++, TALLY_AVG, i % 2 == 0);
		one_f32(comm, &b, counts[i], seed++, TALLY_AVG, i % 2);
	}
	buffers_free(&b);
	ranks_leave(comm);
}

static void sums_are_right(struct ranks ranks)
{
	ranks.body = sums_body;
	assert_true(ranks_run(&ranks));
}

static void sums__four_ranks_at_an_aggregator(void **state)
{
	(void)state;
	sums_are_right((struct ranks){ .size = 4 });
}

static void sums__four_ranks_in_local_mode(void **state)
{
	(void)state;
	sums_are_right((struct ranks){ .size = 4, .is_local = true });
}

static void sums__one_rank(void **state)
{
	(void)state;
	sums_are_right((struct ranks){ .size = 1, .is_local = true });
}

static void sums__two_shards_of_360_lanes(void **state)
{
	(void)state;
	sums_are_right((struct ranks){ .size = 3, .shards = 2, .lanes_max = 360 });
}

static void sums__over_ipv6(void **state)
{
	(void)state;
	sums_are_right((struct ranks){ .size = 2, .is_v6 = true });
}

/* ---- Inf, NaN, saturation ---- */

static void special_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_stats stats = TALLY_STATS_INIT;
	float f[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	int32_t x[4] = { INT32_MAX, INT32_MIN, rank ? INT32_MAX : -INT32_MAX, (int32_t)rank };

	if (rank == 0) {
		f[1] = INFINITY;
		f[2] = -INFINITY;
		f[3] = NAN;
		f[4] = INFINITY;
	} else if (rank == 1) {
		f[4] = -INFINITY;
	}
	CHECK(tally_allreduce(f, f, 8, TALLY_FLOAT32, TALLY_SUM, comm) == TALLY_OK);
	CHECK(f[0] == 2 && f[5] == 2);
	CHECK(isinf(f[1]) && f[1] > 0);
	CHECK(isinf(f[2]) && f[2] < 0);
	CHECK(isnan(f[3]) && isnan(f[4]));
	CHECK(tally_allreduce(x, x, 4, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	CHECK(x[0] == INT32_MAX && x[1] == INT32_MIN && x[2] == 0 && x[3] == 1);
	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	CHECK(stats.saturated == 2);
	CHECK(stats.detail_rounds == 2);
	ranks_leave(comm);
}

static void sums__inf_and_nan_come_back_and_int32_saturates(void **state)
{
	struct ranks ranks = { .size = 2, .body = special_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- non-blocking ---- */

enum { INFLIGHT = 40, INFLIGHT_COUNT = 3000 };

static void count_done(struct tally_work *work, int result, void *arg)
{
	(void)work;
	if (!result)
		__atomic_fetch_add((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void inflight_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t *x = calloc((size_t)INFLIGHT * INFLIGHT_COUNT, 4);
	struct tally_work *works[INFLIGHT];
	int done = 0;

	CHECK(x);
	for (uint32_t k = 0; k < INFLIGHT; k++) {
		int32_t *at = x + (size_t)k * INFLIGHT_COUNT;

		for (size_t i = 0; i < INFLIGHT_COUNT; i++)
			at[i] = input_i32(rank, i, k);
		CHECK(tally_iallreduce(at, at, k % 5 ? INFLIGHT_COUNT : k, TALLY_INT32, TALLY_SUM,
				       comm, NULL, &works[k]) == TALLY_OK);
		CHECK(tally_work_on_done(works[k], count_done, &done) == TALLY_OK);
	}
	CHECK(tally_waitall(INFLIGHT, works, -1) == TALLY_OK);
	CHECK(done == INFLIGHT);
	for (uint32_t k = 0; k < INFLIGHT; k++) {
		CHECK(!works[k]);
		check_i32(x + (size_t)k * INFLIGHT_COUNT, k % 5 ? INFLIGHT_COUNT : k, ranks->size,
			  k, TALLY_SUM);
	}
	free(x);
	ranks_leave(comm);
}

static void nonblocking__forty_at_once(void **state)
{
	struct ranks ranks = { .size = 3, .body = inflight_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void background_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t *x = calloc(100000, 4);
	struct tally_work *work;
	int done = 0, is_complete = 0;

	CHECK(x);
	CHECK(tally_iallreduce(x, x, 100000, TALLY_INT32, TALLY_SUM, comm, NULL, &work) ==
	      TALLY_OK);
	CHECK(tally_work_on_done(work, count_done, &done) == TALLY_OK);
	for (int i = 0; i < 4000 && !__atomic_load_n(&done, __ATOMIC_SEQ_CST); i++)
		usleep(1000); /* no call of ours drives */
	CHECK(done == 1);
	while (!is_complete)
		CHECK(tally_test(&work, &is_complete) == TALLY_OK);
	CHECK(!work);
	free(x);
	ranks_leave(comm);
}

static void nonblocking__completes_while_nobody_waits(void **state)
{
	struct ranks ranks = { .size = 2, .body = background_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* An operation that starts the next one when it is done. */
struct chain {
	struct tally_comm *comm;
	int32_t x[4];
	int left, done;
};

static void chain_next(struct tally_work *work, int result, void *arg)
{
	struct chain *chain = arg;
	struct tally_work *next;

	CHECK(result == TALLY_OK);
	if (work) {
		if (chain->left == 0)
			CHECK(tally_wait(&work, -1) == TALLY_ERR_USAGE);
		tally_work_free(&work);
	}
	if (chain->left-- == 0) {
		__atomic_store_n(&chain->done, 1, __ATOMIC_SEQ_CST);
		return;
	}
	CHECK(tally_iallreduce(chain->x, chain->x, 4, TALLY_INT32, TALLY_AVG, chain->comm, NULL,
			       &next) == TALLY_OK);
	CHECK(tally_work_on_done(next, chain_next, chain) == TALLY_OK);
}

static void chain_body(struct ranks *ranks, uint32_t rank)
{
	struct chain chain = { .comm = ranks_join(ranks, rank), .x = { 1, 2, 3, 4 }, .left = 50 };

	chain_next(NULL, TALLY_OK, &chain);
	for (int i = 0; i < 4000 && !__atomic_load_n(&chain.done, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	CHECK(chain.done);
	CHECK(chain.x[0] == 1 && chain.x[3] == 4);
	ranks_leave(chain.comm);
}

static void nonblocking__on_done_may_start_the_next(void **state)
{
	struct ranks ranks = { .size = 2, .body = chain_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* More than the endpoint's rings hold. */
static void flood_body(struct ranks *ranks, uint32_t rank)
{
	enum { FLOOD = 3000 };
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work **works = calloc(FLOOD, sizeof(*works));
	int32_t *x = calloc(FLOOD, 4);

	CHECK(works && x);
	for (int i = 0; i < FLOOD; i++) {
		x[i] = i;
		CHECK(tally_iallreduce(x + i, x + i, 1, TALLY_INT32, TALLY_SUM, comm, NULL,
				       works + i) == TALLY_OK);
	}
	CHECK(tally_waitall(FLOOD, works, -1) == TALLY_OK);
	for (int i = 0; i < FLOOD; i++)
		CHECK(x[i] == i * (int)ranks->size);
	free(works);
	free(x);
	ranks_leave(comm);
}

static void nonblocking__three_thousand_at_once(void **state)
{
	struct ranks ranks = { .size = 2, .body = flood_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* Operations of random sizes, types and streams, some on their way at once, completed in all ways. */
enum { RANDOM_OPS = 200, RANDOM_FLIGHT = 8, RANDOM_COUNT_MAX = 300000 };

struct flight {
	struct tally_work *work;
	int32_t *x;
	size_t count;
	uint32_t seed;
	int dtype;
};

static void flight_fill(struct flight *flight, uint32_t rank, uint32_t seed, struct rng *rng)
{
	flight->count = (size_t)rng_log(rng, 1, RANDOM_COUNT_MAX);
	flight->dtype = rng_below(rng, 2) ? TALLY_INT32 : TALLY_FLOAT32;
	flight->seed = seed;
	for (size_t i = 0; i < flight->count; i++) {
		if (flight->dtype == TALLY_INT32)
			flight->x[i] = input_i32(rank, i, seed);
		else
			((float *)flight->x)[i] = input_f32(rank, i, seed);
	}
}

static void flight_land(struct flight *flight, uint32_t size, uint32_t lanes, struct rng *own)
{
	int done = 0;

	if (!flight->work)
		return;
	switch (rng_below(own, 3)) { /* every rank as it likes */
	case 0:
		CHECK(tally_wait(&flight->work, -1) == TALLY_OK);
		break;
	case 1:
		while (!done)
			CHECK(tally_test(&flight->work, &done) == TALLY_OK);
		break;
	default:
		while (tally_wait(&flight->work, 1) == TALLY_IN_PROGRESS)
			;
	}
	CHECK(!flight->work);
	if (flight->dtype == TALLY_INT32)
		check_i32(flight->x, flight->count, size, flight->seed, TALLY_SUM);
	else
		check_f32((float *)flight->x, flight->count, size, flight->seed, TALLY_SUM, lanes);
}

static void random_body(struct ranks *ranks, uint32_t rank)
{
	uint64_t seed = *(const uint64_t *)ranks->arg;
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_stats stats = TALLY_STATS_INIT;
	struct flight flights[RANDOM_FLIGHT] = { 0 };
	struct rng all, own;

	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	rng_init(&all, seed, 0);
	rng_init(&own, seed, 1 + rank);
	for (int f = 0; f < RANDOM_FLIGHT; f++) {
		flights[f].x = calloc(RANDOM_COUNT_MAX, 4);
		CHECK(flights[f].x);
	}
	for (uint32_t i = 0; i < RANDOM_OPS; i++) {
		struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
		struct flight *flight = &flights[rng_below(&all, RANDOM_FLIGHT)];

		flight_land(flight, ranks->size, stats.lanes, &own);
		flight_fill(flight, rank, i, &all);
		options.stream = (int)rng_below(&all, 3);
		CHECK(tally_iallreduce(flight->x, flight->x, flight->count, flight->dtype,
				       TALLY_SUM, comm, &options, &flight->work) == TALLY_OK);
		if (rng_below(&own, 20) == 0)
			usleep(rng_below(&own, 3000)); /* a rank that is late */
	}
	for (int f = 0; f < RANDOM_FLIGHT; f++) {
		flight_land(&flights[f], ranks->size, stats.lanes, &own);
		free(flights[f].x);
	}
	ranks_leave(comm);
}

static void nonblocking__random_sizes_streams_and_waits(void **state)
{
	const char *given = getenv("SEED");
	uint64_t seed = (uint64_t)getpid();
	struct ranks ranks = { .size = 4, .lanes_max = 360, .body = random_body, .arg = &seed };

	(void)state;
	if (given)
		seed = strtoull(given, NULL, 0);
	printf("SEED=%llu\n", (unsigned long long)seed);
	assert_true(ranks_run(&ranks));
}

/* ---- threads ---- */

enum { THREADS = 4, THREAD_ROUNDS = 100 };

struct thread_arg {
	struct tally_comm *comm;
	struct tally_work *work;
};

static void *wait_main(void *arg)
{
	struct thread_arg *thread = arg;

	CHECK(tally_wait(&thread->work, -1) == TALLY_OK);
	return NULL;
}

/* The calls enter in one order; the waiting is done by others, all at once. */
static void threads_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	static int32_t x[THREADS][5000];

	for (int round = 0; round < THREAD_ROUNDS; round++) {
		struct thread_arg args[THREADS];
		pthread_t threads[THREADS];

		for (int t = 0; t < THREADS; t++) {
			for (size_t i = 0; i < 5000; i++)
				x[t][i] = t + (int)rank;
			args[t].comm = comm;
			CHECK(tally_iallreduce(x[t], x[t], t % 2 ? 5000 : 10, TALLY_INT32,
					       TALLY_SUM, comm, NULL, &args[t].work) == TALLY_OK);
			CHECK(!pthread_create(&threads[t], NULL, wait_main, &args[t]));
		}
		for (int t = 0; t < THREADS; t++) {
			pthread_join(threads[t], NULL);
			CHECK(x[t][0] == 2 * t + 1);
			CHECK(x[t][t % 2 ? 4999 : 9] == 2 * t + 1);
		}
	}
	ranks_leave(comm);
}

static void threads__four_wait_at_once(void **state)
{
	struct ranks ranks = { .size = 2, .body = threads_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* Two communicators of one process, used by two threads. */
static void *sums_main(void *arg)
{
	struct tally_comm *comm = arg;
	int32_t x[100];

	for (int round = 0; round < THREAD_ROUNDS; round++) {
		for (int i = 0; i < 100; i++)
			x[i] = round + i;
		CHECK(tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
		CHECK(x[99] == 2 * (round + 99));
	}
	return NULL;
}

static void two_comms_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comms[2];
	pthread_t thread;

	comms[0] = ranks_join(ranks, rank);
	strcat(ranks->job, "-b");
	comms[1] = ranks_join(ranks, rank);
	CHECK(!pthread_create(&thread, NULL, sums_main, comms[1]));
	sums_main(comms[0]);
	pthread_join(thread, NULL);
	ranks_leave(comms[1]);
	ranks_leave(comms[0]);
}

static void threads__two_communicators_at_once(void **state)
{
	struct ranks ranks = { .size = 2, .body = two_comms_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums__one_rank),
		cmocka_unit_test(sums__four_ranks_at_an_aggregator),
		cmocka_unit_test(sums__four_ranks_in_local_mode),
		cmocka_unit_test(sums__two_shards_of_360_lanes),
		cmocka_unit_test(sums__over_ipv6),
		cmocka_unit_test(sums__inf_and_nan_come_back_and_int32_saturates),
		cmocka_unit_test(nonblocking__forty_at_once),
		cmocka_unit_test(nonblocking__completes_while_nobody_waits),
		cmocka_unit_test(nonblocking__on_done_may_start_the_next),
		cmocka_unit_test(nonblocking__three_thousand_at_once),
		cmocka_unit_test(nonblocking__random_sizes_streams_and_waits),
		cmocka_unit_test(threads__four_wait_at_once),
		cmocka_unit_test(threads__two_communicators_at_once),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-allreduce", tests, NULL, NULL);
}
