/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures_death_test.c - ranks and aggregators that die, stop or leave: all others are told who, in time,
 * and a new job begins at once where the dead one was.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ranks.h"

enum { SIZE = 4, HEARTBEAT_MS = 1000 };

static const double limit_s = 2.0;

/* ---- the heartbeat is silent, the connection stands ---- */

static void stopped_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int result = TALLY_OK;

	CHECK(ranks_sum(comm, 1) == TALLY_OK);
	ranks_meet(ranks);
	if (rank == 2) {
		ranks->shared->event_s = ranks_now_s();
		raise(SIGSTOP);
	}
	for (uint32_t i = 0; !result; i++)
		result = ranks_sum(comm, 2 + i);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

/* The stopped one reads it, too, as soon as it may. */
static void stopped_rank__is_named_after_the_heartbeat_time(void **state)
{
	struct ranks ranks = { .size = SIZE, .heartbeat_ms = HEARTBEAT_MS, .body = stopped_body };
	const char *words[RANKS_WORDS_MAX] = { "rank 2 on ", ranks_host(),
					       "silent for more than 1000 ms" };

	(void)state;
	assert_true(ranks_start(&ranks));
	ranks.is_killed[2] = true; /* has no report yet */
	ranks_wait_reports(&ranks, 10);
	ranks.is_killed[2] = false;
	kill(ranks.pid[2], SIGCONT);
	assert_true(ranks_end(&ranks));
	ranks.is_killed[2] = true; /* whose report comes later than the limit */
	assert_true(
		ranks_have_reported(&ranks, TALLY_ERR_REMOTE, HEARTBEAT_MS / 1e3 + limit_s, words));
	assert_int_equal(ranks.shared->report[2].result, TALLY_ERR_REMOTE);
	assert_non_null(strstr(ranks.shared->report[2].text, "silent"));
	/* nobody was accused before the time was over */
	assert_true(ranks.shared->report[0].at_s - ranks.shared->event_s > 0.5);
}

/* ---- a rank ends without a word ---- */

static void exit_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int result = TALLY_OK;

	CHECK(ranks_sum(comm, 1) == TALLY_OK);
	ranks_meet(ranks);
	if (rank == 1) {
		ranks->shared->event_s = ranks_now_s();
		exit(0); /* neither finalize nor destroy */
	}
	for (uint32_t i = 0; !result; i++)
		result = ranks_sum(comm, 2 + i);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

static void exit__without_destroy_is_named_on_all_others(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = exit_body };
	const char *words[RANKS_WORDS_MAX] = { "rank 1 on ", ranks_host(),
					       "closed its connection without leaving" };

	(void)state;
	assert_true(ranks_run(&ranks));
	ranks.is_killed[1] = true; /* it has no report */
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, limit_s, words));
}

/* ---- what the dead one held is free ---- */

static void again_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	uint32_t index = rank > 2 ? rank - 1 : rank;
	struct tally_options options = TALLY_OPTIONS_INIT;
	int result = TALLY_OK;

	CHECK(ranks_sum(comm, 1) == TALLY_OK);
	ranks_meet(ranks);
	if (rank == 2) {
		ranks->shared->event_s = ranks_now_s();
		raise(SIGKILL);
	}
	for (uint32_t i = 0; !result; i++)
		result = ranks_sum(comm, 2 + i);
	CHECK(result == TALLY_ERR_REMOTE);
	tally_comm_destroy(comm);
	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 10;
	CHECK(tally_comm_init(&comm, ranks->job, SIZE - 1, index, &options) == TALLY_OK);
	ranks_report(ranks, rank, comm, ranks_sum(comm, 99));
	ranks_leave(comm);
}

/* One job and its slots are all that this aggregator has: nobody could join if they were not freed. */
static void killed_rank__leaves_name_and_slots_to_a_new_job_at_once(void **state)
{
	struct ranks ranks = { .size = SIZE,
			       .lanes_max = 360,
			       .jobs_max = 1,
			       .memory_total = 3 << 20,
			       .body = again_body };
	const char *words[RANKS_WORDS_MAX] = { NULL };

	(void)state;
	ranks.is_killed[2] = true;
	assert_true(ranks_run(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_OK, limit_s, words));
}

/* ---- a job of the same name begins while the dead life drains ---- */

static void stop_for(uint32_t ms)
{
	pid_t self = getpid();

	if (fork() == 0) {
		usleep(ms * 1000);
		for (int i = 0; i < 1000 && getppid() == self; i++) {
			kill(self, SIGCONT); /* it may not have stopped yet */
			usleep(10000);
		}
		_exit(0);
	}
	raise(SIGSTOP);
}

/* Ranks 0 and 1 are the old life, 2 and 3 the new one; rank 0 is slow to see that rank 1 was killed. */
static void restart_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 10;
	if (rank >= 2)
		ranks_meet(ranks); /* the old one has run */
	while (rank >= 2 && ranks->shared->event_s == 0.0)
		usleep(1000);
	if (rank >= 2)
		usleep(50000); /* rank 1 is dead, rank 0 still stopped */
	CHECK(tally_comm_init(&comm, ranks->job, 2, rank % 2, &options) == TALLY_OK);
	CHECK(ranks_sum(comm, 7 + rank / 2) == TALLY_OK);
	if (rank >= 2) {
		ranks_report(ranks, rank, comm, TALLY_OK);
		ranks_leave(comm);
		return;
	}
	ranks_meet(ranks);
	if (rank == 1) {
		usleep(50000);
		raise(SIGKILL);
	}
	stop_for(300);
	ranks_report(ranks, rank, comm, ranks_sum(comm, 10));
	tally_comm_destroy(comm);
}

static void restarted_job__waits_while_its_dead_life_drains_and_runs(void **state)
{
	struct ranks ranks = { .size = 4, .body = restart_body };
	const char *words[RANKS_WORDS_MAX] = { NULL };
	siginfo_t info;

	(void)state;
	ranks.is_killed[1] = true;
	assert_true(ranks_start(&ranks));
	/* All its threads have ended, and its connection with them. */
	assert_int_equal(waitid(P_PID, (id_t)ranks.pid[1], &info, WEXITED | WNOWAIT), 0);
	ranks.shared->event_s = ranks_now_s();
	assert_true(ranks_end(&ranks));
	assert_int_equal(ranks.shared->report[0].result, TALLY_ERR_REMOTE);
	assert_non_null(strstr(ranks.shared->report[0].text, "rank 1 on "));
	ranks.is_killed[0] = true; /* that was its report */
	assert_true(ranks_have_reported(&ranks, TALLY_OK, limit_s, words));
}

/* ---- the aggregator stops, and goes on ---- */

/* How long it stops: so long that the ranks notice, then until they have, too. They sum until they fail or, if they
 * are to notice nothing, until a while after it goes on. */
struct pause {
	uint32_t heartbeat_ms, stop_ms;
	bool is_noticed;
};

static bool is_pause_over(const struct ranks *ranks, const struct pause *pause)
{
	double since_s = ranks->shared->event_s;

	return !pause->is_noticed && since_s != 0.0 &&
	       ranks_now_s() > since_s + pause->stop_ms / 1e3 + 0.7;
}

static void pause_body(struct ranks *ranks, uint32_t rank)
{
	const struct pause *pause = ranks->arg;
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t go_on = 1;
	int result = ranks_sum(comm, 1);

	ranks_meet(ranks);
	for (uint32_t i = 0; !result && go_on; i++) {
		result = ranks_sum(comm, 2 + i);
		go_on = !is_pause_over(ranks, pause); /* all end together */
		if (!result)
			result = tally_allreduce(&go_on, &go_on, 1, TALLY_INT32, TALLY_SUM, comm);
	}
	ranks_report(ranks, rank, comm, result);
	if (!result)
		ranks_leave(comm);
	else
		tally_comm_destroy(comm);
	ranks_meet(ranks);
	ranks->shared->report[rank].value = 1; /* it has seen the end */
	while (ranks->shared->arrived != 3 * ranks->size)
		usleep(1000); /* until the aggregator goes on */
	comm = ranks_join(ranks, rank);
	CHECK(ranks_sum(comm, 3) == TALLY_OK);
	ranks_leave(comm);
}

static void paused(const struct pause *pause, double within_s)
{
	int result = pause->is_noticed ? TALLY_ERR_REMOTE : TALLY_OK;
	struct ranks ranks = {
		.size = SIZE, .heartbeat_ms = pause->heartbeat_ms, .body = pause_body, .arg = pause
	};
	const char *words[RANKS_WORDS_MAX] = { NULL };

	assert_true(ranks_start(&ranks));
	assert_true(ranks_have_met(&ranks, 1));
	usleep(50000);
	kill(ranks.aggregator_pid, SIGSTOP);
	ranks.shared->event_s = ranks_now_s();
	usleep(pause->stop_ms * 1000);
	if (pause->is_noticed)
		ranks_wait_reports(&ranks, 10);
	kill(ranks.aggregator_pid, SIGCONT);
	assert_true(ranks_have_met(&ranks, 2));
	__atomic_store_n(&ranks.shared->arrived, 3 * SIZE, __ATOMIC_SEQ_CST);
	if (pause->is_noticed) {
		words[0] = ranks.aggregator;
		words[1] = "silent for";
	}
	assert_true(ranks_end(&ranks));
	assert_true(ranks_have_reported(&ranks, result, within_s, words));
}

/* Shorter than the heartbeat time: nobody notices but by the clock. */
static void aggregator__stopped_for_less_than_the_heartbeat_time_harms_nobody(void **state)
{
	const struct pause pause = { 6000, 3000, false };

	(void)state;
	paused(&pause, 9);
}

/* Twice the heartbeat time (20 s of 10 s), or more: all are told, and when it goes on it serves the next job. */
static void aggregator__stopped_for_twice_the_heartbeat_time_is_named_and_serves_again(void **state)
{
	const struct pause pause = { 1000, 2000, true };

	(void)state;
	paused(&pause, 1 + limit_s);
}

/* ---- the aggregator is killed, and another one begins on its port ---- */

static void reborn_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int result = TALLY_OK;

	ranks_meet(ranks);
	for (uint32_t i = 0; !result; i++)
		result = ranks_sum(comm, i);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
	ranks_meet(ranks);
	comm = ranks_join(ranks, rank); /* tries until it is there */
	for (uint32_t i = 0; i < 20; i++)
		CHECK(ranks_sum(comm, 50 + i) == TALLY_OK);
	ranks_leave(comm);
}

static void aggregator__restarted_is_named_and_takes_the_job_again(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = reborn_body };
	const char *words[RANKS_WORDS_MAX] = { ranks.aggregator, "lost" };
	uint16_t port;
	int status;

	(void)state;
	assert_true(ranks_start(&ranks));
	assert_true(ranks_have_met(&ranks, 1));
	usleep(50000);
	ranks.shared->event_s = ranks_now_s();
	kill(ranks.aggregator_pid, SIGKILL);
	waitpid(ranks.aggregator_pid, &status, 0);
	port = (uint16_t)atoi(strrchr(ranks.aggregator, ':') + 1);
	assert_int_equal(ranks_aggregator(&ranks, port, &ranks.aggregator_pids[0]), port);
	assert_true(ranks_end(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, limit_s, words));
}

/* ---- rank 0 hosts, and ends first ---- */

static void host_ends_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int result = ranks_sum(comm, 1);

	CHECK(result == TALLY_OK);
	ranks_meet(ranks);
	if (rank == 0) {
		ranks->shared->event_s = ranks_now_s();
		exit(0);
	}
	for (uint32_t i = 0; !result; i++)
		result = ranks_sum(comm, 2 + i);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

static void local_mode__a_host_that_ends_first_is_named(void **state)
{
	struct ranks ranks = { .size = 3, .is_local = true, .body = host_ends_body };
	const char *words[RANKS_WORDS_MAX] = { "rank 0 on ", ranks_host() };

	(void)state;
	assert_true(ranks_run(&ranks));
	ranks.is_killed[0] = true; /* it has no report */
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, limit_s, words));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped_rank__is_named_after_the_heartbeat_time),
		cmocka_unit_test(exit__without_destroy_is_named_on_all_others),
		cmocka_unit_test(killed_rank__leaves_name_and_slots_to_a_new_job_at_once),
		cmocka_unit_test(restarted_job__waits_while_its_dead_life_drains_and_runs),
		cmocka_unit_test(aggregator__stopped_for_less_than_the_heartbeat_time_harms_nobody),
		cmocka_unit_test(
			aggregator__stopped_for_twice_the_heartbeat_time_is_named_and_serves_again),
		cmocka_unit_test(aggregator__restarted_is_named_and_takes_the_job_again),
		cmocka_unit_test(local_mode__a_host_that_ends_first_is_named),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-failures-death", tests, NULL, NULL);
}
