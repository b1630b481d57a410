/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures_aggregators_test.c - one communicator over several aggregators: shards of all of them, and what
 * happens when one dies, is stopped, is absent, or was not named by somebody.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ranks.h"

enum { SIZE = 3, AGGREGATORS = 3, SHARDS = 2, COUNT = 100000, INIT_S = 4 };

static const double limit_s = 2.0;

/* What rank r has at i, and the sum of all: computed without tally. */
static int32_t value(uint32_t rank, uint32_t i)
{
	return (int32_t)(i * 7 + 1) * (rank % 2 ? -(int32_t)rank : (int32_t)rank + 2);
}

static int big_sum(struct tally_comm *comm)
{
	static int32_t mine[COUNT], sums[COUNT];
	uint32_t rank = tally_comm_rank(comm);
	int result;

	for (uint32_t i = 0; i < COUNT; i++)
		mine[i] = value(rank, i);
	result = tally_allreduce(mine, sums, COUNT, TALLY_INT32, TALLY_SUM, comm);
	if (result)
		return result;
	for (uint32_t i = 0; i < COUNT; i++) {
		int32_t sum = 0;

		for (uint32_t r = 0; r < SIZE; r++)
			sum += value(r, i);
		CHECK(sums[i] == sum);
	}
	return TALLY_OK;
}

/* ---- all shards carry chunks ---- */

static void all_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_stats stats = TALLY_STATS_INIT;

	for (uint32_t i = 0; i < 5; i++)
		CHECK(big_sum(comm) == TALLY_OK);
	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	CHECK(stats.shards == AGGREGATORS * SHARDS);
	ranks_leave(comm);
}

static void aggregators__share_the_chunks(void **state)
{
	struct ranks ranks = { .size = SIZE,
			       .aggregators = AGGREGATORS,
			       .shards = SHARDS,
			       .lanes_max = 64,
			       .body = all_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- one of them is killed ---- */

static void killed_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int result = TALLY_OK;
	double from_s;

	CHECK(big_sum(comm) == TALLY_OK);
	ranks_meet(ranks);
	while (!result)
		result = big_sum(comm);
	ranks_report(ranks, rank, comm, result);
	from_s = ranks_now_s();
	tally_comm_destroy(comm);
	CHECK(ranks_now_s() - from_s < 0.9); /* the others were told, and have hung up */
}

/* Whichever it is: the one cause, named with its address, on all ranks. */
static void killed(uint32_t which)
{
	struct ranks ranks = { .size = SIZE, .aggregators = AGGREGATORS, .body = killed_body };
	const char *words[RANKS_WORDS_MAX] = { NULL };
	char list[sizeof(ranks.aggregator)], *rest = list, *name = NULL;
	int status;

	assert_true(ranks_start(&ranks));
	strcpy(list, ranks.aggregator);
	for (uint32_t i = 0; i <= which; i++)
		name = strsep(&rest, ",");
	words[0] = name;
	words[1] = "is lost";
	assert_true(ranks_have_met(&ranks, 1));
	usleep(50000);
	ranks.shared->event_s = ranks_now_s();
	kill(ranks.aggregator_pids[which], SIGKILL);
	waitpid(ranks.aggregator_pids[which], &status, 0);
	assert_int_equal(ranks_aggregator(&ranks, 0, &ranks.aggregator_pids[which]) != 0, 1);
	assert_true(ranks_end(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, limit_s, words));
}

static void aggregators__one_killed_is_named_on_all_ranks(void **state)
{
	(void)state;
	killed(0);
	killed(2);
}

/* ---- a rank is killed ---- */

static void rank_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int result = TALLY_OK;

	CHECK(big_sum(comm) == TALLY_OK);
	ranks_meet(ranks);
	if (rank == 1) {
		ranks->shared->event_s = ranks_now_s();
		raise(SIGKILL);
	}
	while (!result)
		result = big_sum(comm);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

static void aggregators__a_killed_rank_is_the_cause_that_all_tell(void **state)
{
	struct ranks ranks = { .size = SIZE, .aggregators = AGGREGATORS, .body = rank_body };
	const char *words[RANKS_WORDS_MAX] = { "rank 1 on ", ranks_host(), "died" };

	(void)state;
	ranks.is_killed[1] = true;
	assert_true(ranks_run(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, limit_s, words));
}

/* ---- while the job begins ---- */

static void init_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = INIT_S;
	while (ranks->shared->event_s == 0.0)
		usleep(500); /* until one is stopped */
	ranks_report(ranks, rank, NULL, tally_comm_init(&comm, ranks->job, SIZE, rank, &options));
	CHECK(!comm);
}

static void stopped_one_is_named(uint32_t which)
{
	struct ranks ranks = { .size = SIZE, .aggregators = AGGREGATORS, .body = init_body };
	const char *words[RANKS_WORDS_MAX] = { NULL };
	char list[sizeof(ranks.aggregator)], *rest = list;

	assert_true(ranks_start(&ranks));
	kill(ranks.aggregator_pids[which], SIGSTOP);
	strcpy(list, ranks.aggregator);
	for (uint32_t i = 0; i <= which; i++)
		words[0] = strsep(&rest, ",");
	ranks.shared->event_s = ranks_now_s();
	ranks_wait_reports(&ranks, INIT_S + 5);
	kill(ranks.aggregator_pids[which], SIGCONT);
	assert_true(ranks_end(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_TIMEOUT, INIT_S + limit_s, words));
	assert_true(ranks.shared->report[0].at_s - ranks.shared->event_s > INIT_S - 1);
}

/* Its kernel takes connections, but nobody reads them: the time to begin is kept, and it is named, be it
 * the one that is asked first or one whose GRANT the others' wait for. */
static void aggregators__a_stopped_one_is_named_when_the_time_is_over(void **state)
{
	(void)state;
	for (uint32_t which = 0; which < AGGREGATORS; which++)
		stopped_one_is_named(which);
}

static void silent_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int result;

	CHECK(big_sum(comm) == TALLY_OK);
	ranks_meet(ranks);
	do
		result = big_sum(comm);
	while (!result);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

/* Nothing comes from it, by UDP or TCP: that is no firewall, however regularly the others are heard by TCP; and no
 * network that loses packets, though they see that all ranks wait. */
static void aggregators__a_stopped_one_is_named_for_its_silence(void **state)
{
	struct ranks ranks = {
		.size = SIZE, .aggregators = AGGREGATORS, .heartbeat_ms = 5000, .body = silent_body
	};
	const char *words[RANKS_WORDS_MAX] = { NULL, "silent for" };
	char list[sizeof(ranks.aggregator)], *rest = list, *name, *last = NULL;
	uint32_t which = 0; /* the last in the order of R-CT-25: all look at the first one first */

	(void)state;
	assert_true(ranks_start(&ranks));
	strcpy(list, ranks.aggregator);
	for (uint32_t i = 0; (name = strsep(&rest, ",")); i++) {
		if (last && strcmp(name, last) < 0)
			continue;
		last = name;
		which = i;
	}
	assert_true(ranks_have_met(&ranks, 1));
	usleep(50000);
	ranks.shared->event_s = ranks_now_s();
	kill(ranks.aggregator_pids[which], SIGSTOP);
	ranks_wait_reports(&ranks, 25);
	kill(ranks.aggregator_pids[which], SIGCONT);
	assert_true(ranks_end(&ranks));
	words[0] = last;
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, 7 + limit_s, words));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The aggregators in the order of R-CT-25: the ports are the kernel's choice. */
static void list_sorted(const struct ranks *ranks, char list[sizeof(ranks->aggregator)])
{
	char copy[sizeof(ranks->aggregator)], *rest = copy, *one[AGGREGATORS];

	strcpy(copy, ranks->aggregator);
	for (uint32_t i = 0; i < AGGREGATORS; i++)
		one[i] = strsep(&rest, ",");
	qsort(one, AGGREGATORS, sizeof(one[0]), by_text);
	snprintf(list, sizeof(ranks->aggregator), "%s,%s,%s", one[0], one[1], one[2]);
}

static void order_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;
	char list[sizeof(ranks->aggregator)];

	list_sorted(ranks, list);
	if (rank == 1) /* the first two alone */
		*strrchr(list, ',') = '\0';
	options.aggregator = list;
	ranks_meet(ranks);
	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, rank, NULL, tally_comm_init(&comm, ranks->job, SIZE, rank, &options));
	CHECK(!comm);
}

static void aggregators__another_list_on_one_rank_is_refused_on_all(void **state)
{
	struct ranks ranks = { .size = SIZE, .aggregators = AGGREGATORS, .body = order_body };
	const char *words[RANKS_WORDS_MAX] = { "rank 1 on ", ranks_host(),
					       "was given the aggregators" };

	(void)state;
	assert_true(ranks_run(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_DENIED, limit_s, words));
}

/* Every rank names them in another order: the first comes last, `rank` times. */
static void turned_body(struct ranks *ranks, uint32_t rank)
{
	char turned[sizeof(ranks->aggregator)];

	for (uint32_t i = 0; i < rank; i++) {
		const char *comma = strchr(ranks->aggregator, ',');

		snprintf(turned, sizeof(turned), "%s,%.*s", comma + 1,
			 (int)(comma - ranks->aggregator), ranks->aggregator);
		strcpy(ranks->aggregator, turned);
	}
	all_body(ranks, rank);
}

static void aggregators__may_be_named_in_any_order(void **state)
{
	struct ranks ranks = { .size = SIZE,
			       .aggregators = AGGREGATORS,
			       .shards = SHARDS,
			       .lanes_max = 64,
			       .body = turned_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void apart_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;
	char list[sizeof(ranks->aggregator)];

	list_sorted(ranks, list);
	options.aggregator = rank ? strchr(list, ',') + 1 : list;
	options.init_timeout_s = INIT_S;
	ranks_meet(ranks);
	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, rank, NULL, tally_comm_init(&comm, ranks->job, SIZE, rank, &options));
	CHECK(!comm);
	CHECK(strstr(ranks->shared->report[rank].text, options.aggregator));
}

/* Each gathers at the first of its list, and nobody sees both: every rank tells where it waited. */
static void aggregators__of_which_ranks_wait_at_others_are_named_by_every_rank(void **state)
{
	struct ranks ranks = { .size = SIZE, .aggregators = AGGREGATORS, .body = apart_body };
	const char *words[RANKS_WORDS_MAX] = { "did not come in time",
					       "this rank waited at the aggregator " };

	(void)state;
	assert_true(ranks_run(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_TIMEOUT, INIT_S + limit_s, words));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aggregators__share_the_chunks),
		cmocka_unit_test(aggregators__one_killed_is_named_on_all_ranks),
		cmocka_unit_test(aggregators__a_killed_rank_is_the_cause_that_all_tell),
		cmocka_unit_test(aggregators__a_stopped_one_is_named_when_the_time_is_over),
		cmocka_unit_test(aggregators__a_stopped_one_is_named_for_its_silence),
		cmocka_unit_test(aggregators__another_list_on_one_rank_is_refused_on_all),
		cmocka_unit_test(aggregators__may_be_named_in_any_order),
		cmocka_unit_test(
			aggregators__of_which_ranks_wait_at_others_are_named_by_every_rank),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
