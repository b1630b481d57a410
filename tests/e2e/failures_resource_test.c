/* SPDX-License-Identifier: Apache-2.0 */
/* failures_resource_test.c - what runs out ends in a named error, or in less of it; never in a crash. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ranks.h"

static const double limit_s = 2.0;

/* ---- the aggregator's jobs and slots: who holds them? ---- */

/* Ranks 0 and 1 are a job "holder"; rank 2 comes later and is to be told so. Then they leave, and it may. */
static void crowd_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 10;
	if (rank < 2) {
		CHECK(tally_comm_init(&comm, "holder", 2, rank, &options) == TALLY_OK);
		CHECK(ranks_sum(comm, 1) == TALLY_OK);
		ranks_meet(ranks);
		ranks_meet(ranks);
		CHECK(ranks_sum(comm, 2) == TALLY_OK); /* unharmed */
		ranks_leave(comm);
		ranks_meet(ranks);
		return;
	}
	ranks_meet(ranks);
	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, rank, NULL, tally_comm_init(&comm, "newcomer", 1, 0, &options));
	ranks_meet(ranks);
	ranks_meet(ranks);
	CHECK(tally_comm_init(&comm, "newcomer", 1, 0, &options) == TALLY_OK);
	CHECK(ranks_sum(comm, 3) == TALLY_OK);
	ranks_leave(comm);
}

static void crowded(struct ranks ranks, const char *why)
{
	const char *words[RANKS_WORDS_MAX] = { why, "\"holder\" (running, 2 of 2 ranks on ",
					       ranks_host(), " slots)" };

	ranks.size = 3;
	ranks.lanes_max = 360;
	ranks.body = crowd_body;
	assert_true(ranks_run(&ranks));
	ranks.is_killed[0] = ranks.is_killed[1] = true; /* they have no report */
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_NO_RESOURCE, limit_s, words));
}

static void jobs__exhausted_names_who_holds_them(void **state)
{
	(void)state;
	crowded((struct ranks){ .jobs_max = 1 }, "--jobs-max 1");
}

/* 704 slots of 360 lanes, twice, are 2 MiB: one job has room, two have not. */
static void slots__exhausted_names_who_holds_them(void **state)
{
	(void)state;
	crowded((struct ranks){ .memory_total = 3 << 20 }, "memory for slots");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs__exhausted_names_who_holds_them),
		cmocka_unit_test(slots__exhausted_names_who_holds_them),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-failures-resource", tests, NULL, NULL);
}
