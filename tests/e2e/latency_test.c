/* SPDX-License-Identifier: Apache-2.0 */
/* latency_test.c - latency mode over sockets: exact sums whatever the slots, in the order of the calls; and what it
 * refuses or ends with. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ranks.h"

enum { SIZE = 4, COUNT = 8, OPERATIONS = 300, AHEAD = 24, ODD = 2 };

static const double limit_s = 2.0;

struct latency_case {
	uint32_t slots, window;
};

/* Joins in latency mode. */
static int join(struct ranks *ranks, uint32_t rank, uint32_t slots, uint32_t window,
		struct tally_comm **comm)
{
	struct tally_options options = TALLY_OPTIONS_INIT;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 20;
	options.latency_slots = slots;
	options.latency_window = window;
	return tally_comm_init(comm, ranks->job, ranks->size, rank, &options);
}

/* Of both signs, another one for every rank, operation and place; sums of 4 fit. */
static int32_t element(uint32_t rank, uint32_t operation, uint32_t i)
{
	int32_t x = (int32_t)((operation * 7919 + i * 104729 + rank * 15485863) % 1000003);

	return (rank + i) % 2 ? -x : x + 500;
}

static int64_t sum_of(uint32_t operation, uint32_t i)
{
	int64_t sum = 0;

	for (uint32_t rank = 0; rank < SIZE; rank++)
		sum += element(rank, operation, i);
	return sum;
}

static void fill(uint32_t rank, uint32_t operation, uint32_t count, int32_t *x)
{
	for (uint32_t i = 0; i < count; i++)
		x[i] = element(rank, operation, i);
}

static bool is_right(uint32_t operation, uint32_t count, int op, const int32_t *x)
{
	for (uint32_t i = 0; i < count; i++) {
		int64_t sum = sum_of(operation, i);

		if (x[i] != (op == TALLY_AVG ? sum / SIZE : sum))
			return false;
	}
	return true;
}

/* ---- sums ---- */

/* Looks from the last to the first: what comes before one that is complete is complete, too. How many
 * of them have just been found so. */
static uint32_t look_back(struct tally_work **works)
{
	uint32_t found = 0;
	bool is_past = false;

	for (uint32_t k = AHEAD; k-- > 0;) {
		bool is_new = works[k] != NULL;
		int result = tally_wait(&works[k], 0);

		CHECK(result == TALLY_OK || (result == TALLY_IN_PROGRESS && !is_past));
		is_past |= result == TALLY_OK;
		found += is_new && result == TALLY_OK;
	}
	return found;
}

/* Several on their way at once. */
static void ahead_check(struct tally_comm *comm, uint32_t rank)
{
	static int32_t x[AHEAD][COUNT], y[AHEAD][COUNT];
	struct tally_work *works[AHEAD];

	for (uint32_t k = 0; k < AHEAD; k++) {
		fill(rank, k, COUNT, x[k]);
		CHECK(tally_iallreduce(x[k], y[k], COUNT, TALLY_INT32, TALLY_SUM, comm, NULL,
				       &works[k]) == TALLY_OK);
	}
	for (uint32_t left = AHEAD; left;)
		left -= look_back(works);
	for (uint32_t k = 0; k < AHEAD; k++)
		CHECK(is_right(k, COUNT, TALLY_SUM, y[k]));
}

static void sums_body(struct ranks *ranks, uint32_t rank)
{
	const struct latency_case *the = ranks->arg;
	struct tally_stats stats = TALLY_STATS_INIT;
	struct tally_comm *comm;
	int32_t x[COUNT];

	CHECK(join(ranks, rank, the->slots, the->window, &comm) == TALLY_OK);
	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	CHECK(stats.slots == the->slots);
	CHECK(stats.shards == 1);
	for (uint32_t k = 0; k < OPERATIONS; k++) {
		uint32_t count = k % 7 ? COUNT : k % (COUNT + 1);
		int op = k % 3 ? TALLY_SUM : TALLY_AVG;

		fill(rank, k, count, x);
		CHECK(tally_allreduce(x, x, count, TALLY_INT32, op, comm) == TALLY_OK);
		CHECK(is_right(k, count, op, x));
	}
	CHECK(tally_barrier(comm) == TALLY_OK);
	ahead_check(comm, rank);
	ranks_leave(comm);
}

static void latency__sums_are_exact_with_any_number_of_slots(void **state)
{
	static const struct latency_case cases[] = { { 1, 0 }, { 2, 0 },   { 16, 0 }, { 65536, 0 },
						     { 2, 2 }, { 16, 16 }, { 15, 8 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ranks ranks = { .size = SIZE, .body = sums_body, .arg = &cases[i] };

		printf("slots %u, window %u\n", cases[i].slots, cases[i].window);
		assert_true(ranks_run(&ranks));
	}
}

static void latency__works_in_local_mode_and_beside_shards(void **state)
{
	static const struct latency_case the = { 16, 0 };
	struct ranks local = { .size = SIZE, .is_local = true, .body = sums_body, .arg = &the };
	struct ranks shards = { .size = SIZE, .shards = 2, .body = sums_body, .arg = &the };

	(void)state;
	assert_true(ranks_run(&local));
	assert_true(ranks_run(&shards));
}

/* ---- what it refuses, and what it says instead of a sum ---- */

static void range_body(struct ranks *ranks, uint32_t rank)
{
	static const int32_t bound = INT32_MAX / SIZE;
	struct tally_comm *comm;
	int32_t x[COUNT], y[COUNT];

	CHECK(join(ranks, rank, 4, 0, &comm) == TALLY_OK);
	for (uint32_t k = 0; k < 8; k++) {
		for (uint32_t i = 0; i < COUNT; i++) {
			x[i] = rank % 2 ? -bound : bound;
			y[i] = 77;
		}
		if (rank == k % SIZE && k >= 4) /* one element of one rank is one too large */
			x[k % COUNT] += k % 2 ? -1 : 1;
		int result = tally_allreduce(x, y, COUNT, TALLY_INT32, TALLY_SUM, comm);
		CHECK(result == (k >= 4 ? TALLY_ERR_RANGE : TALLY_OK));
		CHECK(y[0] == (k >= 4 ? 77 : 0));
		CHECK(k < 4 || strstr(tally_get_last_error(comm), "536870911"));
		CHECK(tally_comm_get_async_error(comm) == TALLY_OK);
	}
	fill(rank, 1, COUNT, x);
	CHECK(tally_allreduce(x, y, COUNT, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	CHECK(is_right(1, COUNT, TALLY_SUM, y));
	ranks_leave(comm);
}

static void latency__element_too_large_is_said_on_all_ranks_and_ends_nothing(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = range_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void refuse_body(struct ranks *ranks, uint32_t rank)
{
	static int32_t x[4000];
	struct tally_comm *comm;

	alarm(30); /* what is not refused here would wait for ever */
	CHECK(join(ranks, rank, 0, 1, &comm) == TALLY_ERR_ARGUMENT);
	CHECK(join(ranks, rank, 65537, 1, &comm) == TALLY_ERR_ARGUMENT);
	CHECK(join(ranks, rank, 8, 9, &comm) == TALLY_ERR_ARGUMENT);
	CHECK(join(ranks, rank, 8, 0, &comm) == TALLY_OK);
	CHECK(tally_allreduce(x, x, 8, TALLY_FLOAT32, TALLY_SUM, comm) == TALLY_ERR_UNSUPPORTED);
	CHECK(tally_allreduce(x, x, 361, TALLY_INT32, TALLY_SUM, comm) == TALLY_ERR_UNSUPPORTED);
	CHECK(strstr(tally_get_last_error(NULL), "360 elements"));
	fill(rank, 3, 360, x);
	CHECK(tally_allreduce(x, x, 360, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	CHECK(is_right(3, 360, TALLY_SUM, x));
	ranks_leave(comm);
}

static void latency__what_does_not_fit_is_refused_and_ends_nothing(void **state)
{
	struct ranks ranks = { .size = SIZE, .lanes_max = 360, .body = refuse_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* Five calls, of which the first two fit one packet of 8. */
static void group_check(struct tally_comm *comm, uint32_t rank)
{
	static const uint32_t counts[] = { 5, 3, 4, 8, 1 };
	struct tally_stats before = TALLY_STATS_INIT, after = TALLY_STATS_INIT;
	struct tally_work *works[5];
	int32_t x[5][COUNT];

	CHECK(tally_comm_get_stats(comm, &before) == TALLY_OK);
	CHECK(tally_group_start() == TALLY_OK);
	for (uint32_t k = 0; k < 5; k++) {
		fill(rank, k, counts[k], x[k]);
		CHECK(tally_iallreduce(x[k], x[k], counts[k], TALLY_INT32, TALLY_SUM, comm, NULL,
				       &works[k]) == TALLY_OK);
	}
	CHECK(tally_group_end() == TALLY_OK);
	for (uint32_t k = 0; k < 5; k++) {
		CHECK(tally_wait(&works[k], -1) == TALLY_OK);
		CHECK(is_right(k, counts[k], TALLY_SUM, x[k]));
	}
	CHECK(tally_comm_get_stats(comm, &after) == TALLY_OK);
	CHECK(after.operations - before.operations == 4);
}

/* Colors and keys of 4 ranks are 16 elements: two packets. */
static void parts_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm, *part;
	float x = rank == 3 ? -2.5f : (float)rank;

	CHECK(join(ranks, rank, 4, 0, &comm) == TALLY_OK);
	group_check(comm, rank);
	CHECK(tally_comm_split(comm, rank % 2 ? 70001 : 3, -(int)rank, NULL, &part) == TALLY_OK);
	CHECK(tally_comm_size(part) == 2);
	CHECK(tally_comm_rank(part) == (rank < 2));
	CHECK(tally_allreduce(&x, &x, 1, TALLY_FLOAT32, TALLY_SUM, part) == TALLY_OK);
	CHECK(x == (rank % 2 ? -1.5f : 2.0f)); /* 1 - 2.5; 0 + 2: the part is dense */
	CHECK(tally_comm_finalize(part) == TALLY_OK);
	tally_comm_destroy(part);
	ranks_leave(comm);
}

static void latency__groups_and_splits_take_as_many_packets_as_they_need(void **state)
{
	struct ranks ranks = { .size = SIZE, .lanes_max = 8, .body = parts_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- what leaves together ---- */

static uint64_t packets_out(struct tally_comm *comm)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	return stats.packets_out;
}

static void more_start(struct tally_comm *comm, uint32_t rank, uint32_t k, bool is_more, int32_t *x,
		       struct tally_work **work)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;

	options.flags = is_more ? TALLY_OP_MORE : 0;
	fill(rank, k, COUNT, x);
	CHECK(tally_iallreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm, &options, work) ==
	      TALLY_OK);
}

/* Eight that say that more follows, and one that does not. True if the eight waited for the ninth, which they need
 * not: the background thread may have had its turn. */
static bool more_round(struct tally_comm *comm, uint32_t rank)
{
	enum { MORE = 8 };
	int32_t x[MORE + 1][COUNT];
	struct tally_work *works[MORE + 1];
	uint64_t before = packets_out(comm), gathered;

	for (uint32_t k = 0; k < MORE; k++)
		more_start(comm, rank, k, true, x[k], &works[k]);
	gathered = packets_out(comm) - before;
	more_start(comm, rank, MORE, false, x[MORE], &works[MORE]);
	CHECK(packets_out(comm) - before == MORE + 1);
	CHECK(tally_waitall(MORE + 1, works, -1) == TALLY_OK);
	for (uint32_t k = 0; k <= MORE; k++)
		CHECK(is_right(k, COUNT, TALLY_SUM, x[k]));
	return !gathered;
}

static void on_more_done(struct tally_work *work, int result, void *arg)
{
	(void)work;
	atomic_store((atomic_int *)arg, result == TALLY_OK ? 1 : -1);
}

static bool all_have(struct tally_comm *comm, bool mine)
{
	int32_t count = mine;

	CHECK(tally_allreduce(&count, &count, 1, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	return count == SIZE;
}

static void more_body(struct ranks *ranks, uint32_t rank)
{
	enum { ROUNDS = 200, ROUNDS_MOST = 5000 }; /* on a busy machine it may take many */
	struct tally_work *work;
	struct tally_comm *comm;
	uint32_t together = 0;
	atomic_int done = 0;
	int32_t x[COUNT];

	CHECK(join(ranks, rank, 32, 0, &comm) == TALLY_OK);
	for (int round = 0;
	     round < ROUNDS || (round < ROUNDS_MOST && !all_have(comm, together > 0)); round++)
		together += more_round(comm, rank);
	CHECK(together);
	/* Nothing follows, and nobody waits or looks. */
	more_start(comm, rank, 9, true, x, &work);
	CHECK(tally_work_on_done(work, on_more_done, &done) == TALLY_OK);
	while (!atomic_load(&done))
		usleep(1000);
	CHECK(atomic_load(&done) == 1);
	CHECK(is_right(9, COUNT, TALLY_SUM, x));
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	CHECK(tally_comm_finalize(comm) == TALLY_OK);
	tally_comm_destroy(comm);
}

static void latency__more_leaves_with_what_follows_or_by_itself(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = more_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void differ_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = NULL;

	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, rank, NULL, join(ranks, rank, rank == ODD ? 32 : 16, 0, &comm));
}

static void latency__ranks_that_ask_for_other_slots_are_denied(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = differ_body };
	static const char *const words[RANKS_WORDS_MAX] = { "32 slots", "16 slots" };

	(void)state;
	assert_true(ranks_run(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_DENIED, limit_s + 5, words));
}

/* ---- what ends it ---- */

static void mismatch_body(struct ranks *ranks, uint32_t rank)
{
	const struct latency_case *the = ranks->arg;
	struct tally_comm *comm;
	int32_t x[2 * COUNT] = { 0 };
	int result;

	CHECK(join(ranks, rank, the->slots, the->window, &comm) == TALLY_OK);
	CHECK(tally_barrier(comm) == TALLY_OK);
	ranks_meet(ranks);
	ranks->shared->event_s = ranks_now_s();
	result = tally_allreduce(x, x, rank == ODD ? COUNT + 1 : COUNT, TALLY_INT32, TALLY_SUM,
				 comm);
	ranks_report(ranks, rank, comm, result);
	CHECK(tally_comm_get_async_error(comm) == result);
	tally_comm_destroy(comm);
}

static void latency__another_count_is_named_on_all_ranks(void **state)
{
	static const char *const words[RANKS_WORDS_MAX] = { "rank 2", "8 int32", "9 int32" };
	static const struct latency_case cases[] = { { 16, 0 }, { 1, 1 } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct ranks ranks = { .size = SIZE, .body = mismatch_body, .arg = &cases[i] };

		assert_true(ranks_run(&ranks));
		assert_true(ranks_have_reported(&ranks, TALLY_ERR_MISMATCH, limit_s, words));
	}
}

static void kill_body(struct ranks *ranks, uint32_t rank)
{
	const struct latency_case *the = ranks->arg;
	struct tally_comm *comm;
	int32_t x[COUNT] = { 0 };
	int result = TALLY_OK;

	CHECK(join(ranks, rank, the->slots, the->window, &comm) == TALLY_OK);
	CHECK(tally_barrier(comm) == TALLY_OK);
	ranks_meet(ranks);
	for (uint32_t k = 0; !result; k++) {
		if (rank == ODD && k == 50) {
			ranks->shared->event_s = ranks_now_s();
			raise(SIGKILL);
		}
		result = tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm);
	}
	ranks_report(ranks, rank, comm, result);
	CHECK(tally_comm_finalize(comm) == result);
	tally_comm_destroy(comm);
}

static void latency__killed_rank_is_named_on_all_others(void **state)
{
	static const struct latency_case cases[] = { { 16, 0 }, { 4, 4 } };
	const char *const words[RANKS_WORDS_MAX] = { "rank 2", ranks_host() };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct ranks ranks = { .size = SIZE, .body = kill_body, .arg = &cases[i] };

		ranks.is_killed[ODD] = true;
		assert_true(ranks_run(&ranks));
		assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, limit_s, words));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(latency__sums_are_exact_with_any_number_of_slots),
		cmocka_unit_test(latency__works_in_local_mode_and_beside_shards),
		cmocka_unit_test(latency__element_too_large_is_said_on_all_ranks_and_ends_nothing),
		cmocka_unit_test(latency__what_does_not_fit_is_refused_and_ends_nothing),
		cmocka_unit_test(latency__more_leaves_with_what_follows_or_by_itself),
		cmocka_unit_test(latency__groups_and_splits_take_as_many_packets_as_they_need),
		cmocka_unit_test(latency__ranks_that_ask_for_other_slots_are_denied),
		cmocka_unit_test(latency__another_count_is_named_on_all_ranks),
		cmocka_unit_test(latency__killed_rank_is_named_on_all_others),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("latency", tests, NULL, NULL);
}
