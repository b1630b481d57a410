/* SPDX-License-Identifier: Apache-2.0 */
/* failures_resource_test.c - what runs out ends in a named error, or in less of it; never in a crash. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ranks.h"
#include "tests/skip.h"

static const double limit_s = 2.0;

/* ---- the aggregator's jobs and slots: who holds them? ---- */

/* The holders have left; that the aggregator has taken their job out of its shards may come after. */
static int newcomer_init(struct tally_comm **comm, const struct tally_options *options)
{
	double until_s = ranks_now_s() + 5 * limit_s;
	int result;

	do {
		result = tally_comm_init(comm, "newcomer", 1, 0, options);
	} while (result == TALLY_ERR_NO_RESOURCE && ranks_now_s() < until_s);
	return result;
}

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
	CHECK(newcomer_init(&comm, &options) == TALLY_OK);
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

/* ---- logs that cannot be written ---- */

enum log { LOG_FULL, LOG_CLOSED, LOG_NO_READER, LOGS };

static void log_spoil(enum log log)
{
	int fds[2];

	signal(SIGPIPE, SIG_DFL);
	switch (log) {
	case LOG_FULL:
		dup2(open("/dev/full", O_WRONLY), STDERR_FILENO);
		break;
	case LOG_CLOSED:
		close(STDIN_FILENO);
		close(STDERR_FILENO); /* the next descriptor gets its number */
		break;
	case LOG_NO_READER:
		(void)!pipe(fds);
		close(fds[0]);
		dup2(fds[1], STDERR_FILENO);
		close(fds[1]);
		break;
	case LOGS:
		break;
	}
}

static void log_body(struct ranks *ranks, uint32_t rank)
{
	const enum log *log = ranks->arg;
	struct tally_comm *comm;

	setenv("TALLY_LOG", "debug", 1);
	if (log)
		log_spoil(*log);
	comm = ranks_join(ranks, rank);
	for (uint32_t i = 0; i < 20; i++)
		CHECK(ranks_sum(comm, i) == TALLY_OK);
	CHECK(tally_allreduce(NULL, NULL, 5, TALLY_INT32, TALLY_SUM, comm) == TALLY_ERR_ARGUMENT);
	CHECK(ranks_sum(comm, 99) == TALLY_OK);
	ranks_leave(comm);
}

/* In local mode rank 0's log is the aggregator's, too. */
static void log__on_a_full_disk_closed_or_without_a_reader_harms_no_rank(void **state)
{
	(void)state;
	for (enum log log = LOG_FULL; log < LOGS; log++) {
		struct ranks at_daemon = { .size = 3, .body = log_body, .arg = &log };
		struct ranks local = { .size = 3, .is_local = true, .body = log_body, .arg = &log };

		assert_true(ranks_run(&at_daemon));
		assert_true(ranks_run(&local));
	}
}

static const char *tallyd;

static void tallyd_main(enum log log, const char *address)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	log_spoil(log);
	execl(tallyd, tallyd, "--listen", address, "--log-level", "debug", (char *)NULL);
	_exit(127);
}

static void log__on_a_full_disk_closed_or_without_a_reader_harms_no_daemon(void **state)
{
	(void)state;
	if (!tallyd)
		SKIP("no tallyd is given");
	for (enum log log = LOG_FULL; log < LOGS; log++) {
		struct ranks ranks = { .size = 3, .body = log_body };
		int status = 0;
		pid_t pid;

		snprintf(ranks.aggregator, sizeof(ranks.aggregator), "%s:%d", ranks_loopback(),
			 30000 + getpid() % 500 * LOGS + (int)log);
		fflush(NULL);
		pid = fork();
		if (pid == 0)
			tallyd_main(log, ranks.aggregator);
		assert_true(ranks_run(&ranks)); /* they try until it is there */
		kill(pid, SIGTERM);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

/* ---- a receive buffer that holds less than the window ---- */

enum {
	SLOTS = 24576,
	SHARDS = 2
}; /* more than any receive buffer holds packets: 16 MiB, as root */

static struct {
	uint32_t warned, said, window; /* the last one told */
	char line[RANKS_TEXT_MAX];
} shrunk;

static void shrunk_hear(int level, const char *line, void *arg)
{
	const char *at = strstr(line, "hold a window of ");

	(void)arg;
	if (!at)
		return;
	shrunk.said++;
	shrunk.warned += level == TALLY_LOG_WARN;
	shrunk.window = (uint32_t)atoi(at + strlen("hold a window of "));
	snprintf(shrunk.line, sizeof(shrunk.line), "%s", line);
}

/* A life of a communicator that wants this window; what has been said in it is left in `shrunk`. */
static void shrunk_life(const struct ranks *ranks, uint32_t rank, uint32_t window)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_stats stats = TALLY_STATS_INIT;
	struct tally_comm *comm;

	memset(&shrunk, 0, sizeof(shrunk));
	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 10;
	options.window_packets = window;
	CHECK(tally_comm_init(&comm, ranks->job, ranks->size, rank, &options) == TALLY_OK);
	for (uint32_t i = 0; i < 20; i++)
		CHECK(ranks_sum(comm, i) == TALLY_OK);
	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	CHECK(stats.window == (shrunk.said ? shrunk.window : window));
	ranks_leave(comm);
}

static void shrunk_body(struct ranks *ranks, uint32_t rank)
{
	uint32_t most;

	CHECK(tally_set_log(TALLY_LOG_INFO, shrunk_hear, NULL) == TALLY_OK);
	for (int i = 0; i < 2; i++) {
		shrunk_life(ranks, rank, SLOTS / 2);
		CHECK(shrunk.said == 1);
		CHECK(shrunk.warned == 1);
		CHECK(strstr(shrunk.line, "raise net.core.rmem_max"));
	}
	most = shrunk.window;
	CHECK(most < SLOTS / 2);
	shrunk_life(ranks, rank, most);
	CHECK(shrunk.said == 0);
	shrunk_life(ranks, rank, most + 1); /* both shards together still have as many */
	CHECK(shrunk.said == 1);
	CHECK(shrunk.warned == 0);
	CHECK(shrunk.window == most);
}

static void window__that_the_receive_buffer_does_not_hold_is_shrunk_and_said_once(void **state)
{
	struct ranks ranks = {
		.size = 2, .lanes_max = 64, .slots = SLOTS, .shards = SHARDS, .body = shrunk_body
	};

	(void)state;
	assert_true(ranks_run(&ranks));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs__exhausted_names_who_holds_them),
		cmocka_unit_test(slots__exhausted_names_who_holds_them),
		cmocka_unit_test(log__on_a_full_disk_closed_or_without_a_reader_harms_no_rank),
		cmocka_unit_test(log__on_a_full_disk_closed_or_without_a_reader_harms_no_daemon),
		cmocka_unit_test(
			window__that_the_receive_buffer_does_not_hold_is_shrunk_and_said_once),
	};

	tallyd = argc > 1 ? argv[1] : NULL;
	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-failures-resource", tests, NULL, NULL);
}
