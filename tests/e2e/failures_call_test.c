/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures_call_test.c - ranks whose calls do not fit: ties, ranks that never call, communicators that end
 * with work outstanding, forked children.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ranks.h"

static const double limit_s = 2.0;

/* ---- a tie: nobody is odd ---- */

static void tie_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	static int32_t x[500];
	int result;

	CHECK(tally_barrier(comm) == TALLY_OK);
	ranks_meet(ranks);
	ranks->shared->event_s = ranks_now_s();
	result = tally_allreduce(x, x, rank % 2 ? 300 : 400, TALLY_INT32, TALLY_SUM, comm);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

static void mismatch__a_tie_names_both_groups(void **state)
{
	struct ranks four = { .size = 4, .body = tie_body };
	struct ranks two = { .size = 2, .body = tie_body };

	(void)state;
	assert_true(ranks_run(&four));
	assert_true(ranks_have_reported(
		&four, TALLY_ERR_MISMATCH, limit_s,
		(const char *[RANKS_WORDS_MAX]){ "rank 0 on ", "rank 1 on ", "rank 2 on ",
						 "rank 3 on ", "300 int32", "400 int32" }));
	assert_true(ranks_run(&two));
	assert_true(
		ranks_have_reported(&two, TALLY_ERR_MISMATCH, limit_s,
				    (const char *[RANKS_WORDS_MAX]){ "rank 0 on ", "rank 1 on ",
								     "300 int32", "400 int32" }));
}

/* ---- a communicator ends with work outstanding ---- */

enum { WORKS = 50, LATE_MS = 3000 }; /* later than anybody waits for last words */

/* Rank 1 is late; rank 0 destroys without waiting: destroy finalizes, so the work is done all the same. */
static void destroy_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	static int32_t x[WORKS][1000];
	struct tally_work *work;

	if (rank == 1)
		usleep(LATE_MS * 1000);
	for (int i = 0; i < WORKS; i++) {
		for (int k = 0; k < 1000; k++)
			x[i][k] = (i - 20) * (int32_t)(rank + 1);
		CHECK(tally_iallreduce(x[i], x[i], 1000, TALLY_INT32, TALLY_SUM, comm, NULL,
				       &work) == TALLY_OK);
	}
	tally_comm_destroy(comm);
	for (int i = 0; i < WORKS; i++)
		for (int k = 0; k < 1000; k++)
			CHECK(x[i][k] == (i - 20) * 6);
	ranks_report(ranks, rank, NULL, TALLY_OK);
}

static void destroy__with_work_outstanding_waits_for_it(void **state)
{
	struct ranks ranks = { .size = 3, .body = destroy_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* After an abort it waits for nobody. */
static void abort_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	static int32_t x[1000];
	struct tally_work *work;
	double from_s;

	ranks_meet(ranks); /* or an abort meets somebody in init */
	ranks->shared->event_s = ranks_now_s();
	if (rank == 0) {
		CHECK(tally_iallreduce(x, x, 1000, TALLY_INT32, TALLY_SUM, comm, NULL, &work) ==
		      TALLY_OK);
		from_s = ranks_now_s();
		CHECK(tally_comm_abort(comm) == TALLY_OK);
		CHECK(tally_wait(&work, -1) == TALLY_ERR_ABORTED);
		tally_comm_destroy(comm);
		CHECK(ranks_now_s() - from_s < 2);
		return;
	}
	while (rank == 1 && !ranks->shared->report[2].has_come)
		usleep(1000); /* so that it cannot be complete before rank 2 hears of it */
	ranks_report(ranks, rank, comm, tally_allreduce(x, x, 1000, TALLY_INT32, TALLY_SUM, comm));
	tally_comm_destroy(comm);
}

static void abort__with_work_outstanding_waits_for_nobody(void **state)
{
	struct ranks ranks = { .size = 3, .body = abort_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	ranks.is_killed[0] = true; /* it has no report */
	assert_true(
		ranks_have_reported(&ranks, TALLY_ERR_REMOTE, limit_s,
				    (const char *[RANKS_WORDS_MAX]){ "rank 0 on ", "aborted" }));
}

/* ---- fork ---- */

static void child_main(struct tally_comm *comm, struct tally_work *work)
{
	int32_t x[4] = { 0 };
	int done;

	if (tally_allreduce(x, x, 4, TALLY_INT32, TALLY_SUM, comm) != TALLY_ERR_USAGE)
		_exit(1);
	if (tally_barrier(comm) != TALLY_ERR_USAGE || tally_comm_finalize(comm) != TALLY_ERR_USAGE)
		_exit(2);
	if (tally_test(&work, &done) != TALLY_ERR_USAGE || tally_wait(&work, 10) != TALLY_ERR_USAGE)
		_exit(3);
	if (tally_comm_abort(comm) != TALLY_ERR_USAGE)
		_exit(4);
	if (!strstr(tally_get_last_error(NULL), "forked child"))
		_exit(5);
	tally_comm_destroy(comm); /* nothing of the parent's ends by it */
	exit(0);
}

static void fork_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	static int32_t x[200000];
	struct tally_work *work;
	int status;
	pid_t pid;

	for (int32_t i = 0; i < 200000; i++)
		x[i] = (i - 1000) * (int32_t)(rank + 1);
	CHECK(tally_iallreduce(x, x, 200000, TALLY_INT32, TALLY_SUM, comm, NULL, &work) ==
	      TALLY_OK);
	fflush(NULL);
	pid = fork(); /* in the middle of it */
	if (pid == 0)
		child_main(comm, work);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	for (int32_t i = 0; i < 200000; i++)
		CHECK(x[i] == (i - 1000) * 6);
	CHECK(ranks_sum(comm, 2) == TALLY_OK);
	ranks_leave(comm);
	ranks_report(ranks, rank, NULL, TALLY_OK);
}

static void fork__the_childs_handles_are_of_no_use_and_the_parent_goes_on(void **state)
{
	struct ranks ranks = { .size = 3, .body = fork_body };
	struct ranks local = { .size = 3, .is_local = true, .body = fork_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	assert_true(ranks_run(&local));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mismatch__a_tie_names_both_groups),
		cmocka_unit_test(destroy__with_work_outstanding_waits_for_it),
		cmocka_unit_test(abort__with_work_outstanding_waits_for_nobody),
		cmocka_unit_test(fork__the_childs_handles_are_of_no_use_and_the_parent_goes_on),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-failures-call", tests, NULL, NULL);
}
