/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lives_test.c - torchrun's elastic agents, played: two, with two ranks each. A worker of the first fails; that agent says
 * restart 1 to its next workers, the other 0, for to it others' failures are a change of members. The next life must
 * meet all the same, though it has the name of the last, at once.
 *
 *     lives_test TALLYD [ROUNDS] [SEED]     (20)
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ranks.h"
#include "util/rng.h"

enum { AGENTS = 2, LOCAL = 2, WORLD = AGENTS * LOCAL, SUMS = 20, NOTICE_US_MAX = 200000 };

static const double limit_s = 5.0;

static uint32_t rounds = 20;
static uint64_t seed = 1;

/* How the second worker of the first agent ends its first life. */
enum end { BY_EXIT, BY_SIGNAL, BEFORE_IT_JOINS, IN_SUMS, ENDS };

struct failure {
	enum end end;
	bool is_swapped;  /* the agents' places, in the second life */
	bool stays;       /* a worker that was told an error stays until it is killed */
	uint32_t sums;    /* of the first life before */
	uint32_t late_us; /* the second agent notices */
};

static void variable(const char *name, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	setenv(name, text, 1);
}

static void worker_environment(const struct ranks *ranks, uint32_t rank, uint32_t restart)
{
	variable("RANK", rank);
	variable("WORLD_SIZE", WORLD);
	variable("LOCAL_RANK", rank % LOCAL);
	variable("LOCAL_WORLD_SIZE", LOCAL);
	variable("TORCHELASTIC_RESTART_COUNT", restart);
	variable("TALLY_INIT_TIMEOUT_S", 10);
	setenv("TORCHELASTIC_RUN_ID", "100", 1);
	setenv("MASTER_ADDR", "node1", 1);
	setenv("MASTER_PORT", "29500", 1);
	setenv("TALLY_AGGREGATOR", ranks->aggregator, 1);
}

static void fail_as(enum end end)
{
	if (end == BY_SIGNAL)
		raise(SIGKILL);
	_exit(1);
}

/* Until somebody fails. */
static void first_life(const struct ranks *ranks, uint32_t rank)
{
	const struct failure *failure = ranks->arg;
	struct tally_comm *comm;
	bool fails = rank == 1;
	int result = TALLY_OK;

	if (fails && failure->end == BEFORE_IT_JOINS)
		fail_as(failure->end);
	CHECK(tally_comm_init_env(&comm, NULL) == TALLY_OK);
	for (uint32_t i = 0; !result; i++) {
		if (fails && i == failure->sums && failure->end != IN_SUMS)
			fail_as(failure->end);
		if (fails && i == failure->sums) {
			struct tally_work *work;
			static int32_t x[100000];

			(void)tally_iallreduce(x, x, 100000, TALLY_INT32, TALLY_SUM, comm, NULL,
					       &work);
			fail_as(BY_SIGNAL);
		}
		result = ranks_sum(comm, i);
	}
	while (failure->stays)
		pause();
	_exit(1); /* Python's traceback */
}

static void second_life(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm;

	CHECK(tally_comm_init_env(&comm, NULL) == TALLY_OK);
	CHECK(tally_comm_size(comm) == WORLD && tally_comm_rank(comm) == rank);
	for (uint32_t i = 0; i < SUMS; i++)
		CHECK(ranks_sum(comm, 1000 + i) == TALLY_OK);
	ranks_report(ranks, rank, comm, TALLY_OK);
	ranks_leave(comm);
	_exit(0);
}

static pid_t worker_start(struct ranks *ranks, uint32_t life, uint32_t rank, uint32_t restart)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	worker_environment(ranks, rank, restart);
	if (life == 0)
		first_life(ranks, rank);
	second_life(ranks, rank);
	_exit(2);
}

static void agent_body(struct ranks *ranks, uint32_t agent)
{
	const struct failure *failure = ranks->arg;
	uint32_t place = failure->is_swapped ? AGENTS - 1 - agent : agent;
	pid_t pid[LOCAL];
	int status;

	for (uint32_t i = 0; i < LOCAL; i++)
		pid[i] = worker_start(ranks, 0, agent * LOCAL + i, 0);
	if (agent == 0) {
		CHECK(waitpid(pid[1], &status, 0) == pid[1]);
		pid[1] = 0;
		ranks->shared->event_s = ranks_now_s();
	} else {
		while (ranks->shared->event_s == 0)
			usleep(1000);
		usleep(failure->late_us);
	}
	for (uint32_t i = 0; i < LOCAL; i++) {
		if (!pid[i])
			continue;
		kill(pid[i], SIGKILL);
		CHECK(waitpid(pid[i], &status, 0) == pid[i]);
	}
	ranks_meet(ranks); /* an agent comes to the rendezvous when its workers have ended */
	ranks->shared->event_s = ranks_now_s();
	for (uint32_t i = 0; i < LOCAL; i++)
		pid[i] = worker_start(ranks, 1, place * LOCAL + i, agent == 0);
	for (uint32_t i = 0; i < LOCAL; i++) {
		CHECK(waitpid(pid[i], &status, 0) == pid[i]);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

static struct failure failure_make(uint32_t round)
{
	struct rng rng;

	rng_init(&rng, seed, round);
	return (struct failure){ .end = (enum end)(round % ENDS),
				 .is_swapped = rng_below(&rng, 2),
				 .stays = rng_below(&rng, 2),
				 .sums = rng_below(&rng, 30),
				 .late_us = rng_below(&rng, NOTICE_US_MAX) };
}

static bool has_met(const struct ranks *ranks)
{
	for (uint32_t rank = 0; rank < WORLD; rank++)
		if (!ranks->shared->report[rank].has_come ||
		    ranks->shared->report[rank].at_s - ranks->shared->event_s >
			    limit_s + ranks->shared->still_s)
			return false;
	return true;
}

static void second_life__meets_though_restart_counts_differ(void **state)
{
	struct ranks host = { .size = 0 };
	uint16_t port = ranks_aggregator(&host, 0, &host.aggregator_pid);
	int status;

	(void)state;
	assert_int_not_equal(port, 0);
	for (uint32_t round = 0; round < rounds; round++) {
		const struct failure failure = failure_make(round);
		struct ranks ranks = { .size = AGENTS, .body = agent_body, .arg = &failure };

		snprintf(ranks.aggregator, sizeof(ranks.aggregator), "127.0.0.1:%u", port);
		if (!ranks_run(&ranks) || !has_met(&ranks))
			fail_msg("round %u of seed %llu: end %d, swapped %d, stays %d", round,
				 (unsigned long long)seed, (int)failure.end, failure.is_swapped,
				 failure.stays);
	}
	kill(host.aggregator_pid, SIGTERM);
	waitpid(host.aggregator_pid, &status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(second_life__meets_though_restart_counts_differ),
	};

	if (argc > 2)
		rounds = (uint32_t)strtoul(argv[2], NULL, 10);
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 10);
	return cmocka_run_group_tests_name("e2e-lives", tests, NULL, NULL);
}
