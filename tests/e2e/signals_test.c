/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals_test.c - signals at random moments, in whatever tally is doing then.
 *
 *     signals_test TALLYD [ROUNDS] [SEED]     so many times of each kind together (200)
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "ranks.h"
#include "util/rng.h"

enum { SIZE = 2, COUNT = 60000, LIMIT_S = 20, MOMENT_US_MAX = 6000 };

static uint32_t rounds = 200;
static uint64_t seed = 1;

/* ---- tally_comm_abort in a handler ---- */

enum kind {
	ONE_THREAD,  /* the one that is interrupted does everything */
	TWO_THREADS, /* another one asks and looks meanwhile */
	MANY_TIMES,  /* the signal comes again and again */
	BOTH_RANKS,
	KINDS
};

struct strike {
	enum kind kind;
	uint64_t seed;
};

static _Atomic(struct tally_comm *) struck;
static atomic_bool is_asking;

static void on_signal(int signal_number)
{
	struct tally_comm *comm = atomic_load(&struck);

	(void)signal_number;
	if (comm && tally_comm_abort(comm) != TALLY_OK)
		_exit(9);
}

static void timer_start(uint64_t at_us, bool is_repeated)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	const struct itimerspec at = { .it_value = { .tv_nsec = (long)(at_us + 1) * 1000 },
				       .it_interval = { .tv_nsec = is_repeated ? 200000 : 0 } };
	struct sigaction action = { .sa_handler = on_signal };
	timer_t timer;

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
	CHECK(!timer_settime(timer, 0, &at, NULL));
}

static void *questions_main(void *arg)
{
	struct tally_comm *comm = arg;
	struct tally_stats stats = TALLY_STATS_INIT;
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	while (!tally_comm_get_async_error(comm)) {
		CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
		CHECK(tally_comm_dump(comm, null_fd) == TALLY_OK);
		atomic_store(&is_asking, true);
	}
	close(null_fd);
	return NULL;
}

static int many(struct tally_comm *comm, int32_t *x)
{
	struct tally_work *works[8] = { NULL };
	int result = TALLY_OK, waited;

	for (int i = 0; i < 8 && !result; i++)
		result = tally_iallreduce(x + 100 * i, x + 100 * i, 100, TALLY_INT32, TALLY_SUM,
					  comm, NULL, &works[i]);
	waited = tally_waitall(8, works, -1);
	return result ? result : waited;
}

static int looks(struct tally_comm *comm, int32_t *x)
{
	struct tally_work *work;
	int done = 0,
	    result = tally_iallreduce(x, x, 5000, TALLY_INT32, TALLY_SUM, comm, NULL, &work);

	while (!result && !done)
		result = tally_test(&work, &done);
	return result;
}

/* The same on all ranks. */
static int operation(struct tally_comm *comm, uint32_t which, int32_t *x)
{
	switch (which) {
	case 0:
		return tally_barrier(comm);
	case 1:
		return tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm);
	case 2:
		return many(comm, x);
	case 3:
		return looks(comm, x);
	default:
		return tally_allreduce(x, x, 10, TALLY_INT32, TALLY_SUM, comm);
	}
}

static void strike_body(struct ranks *ranks, uint32_t rank)
{
	const struct strike *strike = ranks->arg;
	struct tally_comm *comm = ranks_join(ranks, rank);
	bool has_thread = strike->kind == TWO_THREADS && rank == 0;
	static int32_t x[COUNT];
	struct rng all, own;
	pthread_t thread;
	int result = TALLY_OK;

	rng_init(&all, strike->seed, 0);
	rng_init(&own, strike->seed, 1 + rank);
	ranks_meet(ranks);
	atomic_store(&struck, comm);
	if (has_thread) {
		CHECK(!pthread_create(&thread, NULL, questions_main, comm));
		/* The thread sanitizers of clang 14 and gcc 12 lose a signal in a thread's first calls. */
		while (!atomic_load(&is_asking))
			sched_yield();
	}
	if (rank == 0 || strike->kind == BOTH_RANKS)
		timer_start(rng_below(&own, MOMENT_US_MAX), strike->kind == MANY_TIMES);
	while (!result)
		result = operation(comm, rng_below(&all, 6), x);
	ranks_report(ranks, rank, comm, result);
	if (has_thread)
		pthread_join(thread, NULL);
	CHECK(tally_comm_get_async_error(comm) == result);
	atomic_store(&struck, NULL);
	tally_comm_destroy(comm);
}

static void round_check(const struct ranks *ranks, enum kind kind, uint32_t round)
{
	for (uint32_t rank = 0; rank < SIZE; rank++) {
		const struct ranks_report *report = &ranks->shared->report[rank];
		bool may_abort = rank == 0 || kind == BOTH_RANKS;
		bool is_good = may_abort && report->result == TALLY_ERR_ABORTED;

		if (rank == 1 || kind == BOTH_RANKS)
			is_good |= report->result == TALLY_ERR_REMOTE &&
				   strstr(report->text, "aborted");
		if (!is_good)
			fail_msg("round %u, kind %d, seed %llu, rank %u: %s: %s", round, (int)kind,
				 (unsigned long long)seed, rank, tally_strerror(report->result),
				 report->text);
	}
}

static void abort_in_a_handler__ends_the_job_whatever_it_interrupts(void **state)
{
	struct ranks host = { .size = 0 };
	uint16_t port = ranks_aggregator(&host, 0, &host.aggregator_pid);
	uint32_t done = 0;
	int status;

	(void)state;
	assert_int_not_equal(port, 0);
	for (; done < rounds; done++) {
		const struct strike strike = { (enum kind)(done % KINDS), seed + done };
		struct ranks ranks = { .size = SIZE,
				       .limit_s = LIMIT_S,
				       .is_local = strike.seed % 3 == 0,
				       .body = strike_body,
				       .arg = &strike };

		snprintf(ranks.aggregator, sizeof(ranks.aggregator), "127.0.0.1:%u", port);
		if (!ranks_run(&ranks))
			fail_msg("round %u, kind %d, seed %llu", done, (int)strike.kind,
				 (unsigned long long)seed);
		round_check(&ranks, strike.kind, done);
	}
	print_message("%u signals, 0 hung\n", done);
	kill(host.aggregator_pid, SIGTERM);
	waitpid(host.aggregator_pid, &status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(abort_in_a_handler__ends_the_job_whatever_it_interrupts),
	};

	if (ranks_lack_family())
		return 77;
	if (argc > 2)
		rounds = (uint32_t)strtoul(argv[2], NULL, 10);
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 10);
	tally_set_log(TALLY_LOG_ERROR, NULL, NULL);
	return cmocka_run_group_tests_name("e2e-signals", tests, NULL, NULL);
}
