/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crossed_test.c - [TIMES [SECONDS]]: ranks that wait for one another in several communicators are told so, each by
 * name; and those that only look like it are left alone. All cases of a kind run at once. SECONDS: for how long a rank
 * computes, 8 if not said; it must be longer than R-CT-47 takes, or the latter prove nothing.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "ranks.h"

enum {
	FOUND_S = 10,
	AGAIN_S = 3,   /* a warning would have come again by then */
	LIMIT_S = 40,  /* of a rank, beside what it computes */
	STOPPED_S = 8, /* whatever SECONDS: it must be less than the heartbeat time, 10 s */
};

static int times = 1;
static uint32_t long_s = 8; /* SECONDS */

/* ---- in a rank ---- */

/* Everybody's is another number, of both signs. */
static int32_t value_of(uint32_t rank)
{
	return (int32_t)(rank + 1) * (rank % 2 ? -1000 : 7);
}

static int sum_on(struct tally_comm *comm)
{
	int32_t value = value_of(tally_comm_rank(comm)), wanted = 0;
	int result = tally_allreduce(&value, &value, 1, TALLY_INT32, TALLY_SUM, comm);

	for (uint32_t rank = 0; rank < tally_comm_size(comm); rank++)
		wanted += value_of(rank);
	CHECK(result || value == wanted);
	return result;
}

static struct tally_comm *part_of(struct tally_comm *comm, bool is_in)
{
	struct tally_comm *part = NULL;

	CHECK(!tally_comm_split(comm, is_in ? 1 : -1, (int)tally_comm_rank(comm), NULL, &part));
	return part;
}

static void leave(struct tally_comm *comm)
{
	if (comm)
		ranks_leave(comm);
}

static void computes(double seconds)
{
	usleep((useconds_t)(seconds * 1e6));
}

/* What it must be told, in whichever of the two. */
static void tell(struct ranks *ranks, uint32_t rank, struct tally_comm *comm, int result)
{
	ranks_report(ranks, rank, comm, result);
}

/* ---- who waits for one another ---- */

static void opposite_order(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank), *part = part_of(all, true);
	struct tally_comm *first = rank % 2 ? all : part;

	tell(ranks, rank, first, sum_on(first));
}

static void own_names(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank), *other, *first;
	struct tally_options options = TALLY_OPTIONS_INIT;
	char job[80];

	snprintf(job, sizeof(job), "%s.other", ranks->job);
	options.aggregator = ranks->aggregator;
	CHECK(!tally_comm_init(&other, job, ranks->size, rank, &options));
	first = rank % 2 ? all : other;
	tell(ranks, rank, first, sum_on(first));
}

static void split_and_sum(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank), *part = part_of(all, true), *more;

	if (rank)
		tell(ranks, rank, part, sum_on(part));
	else
		tell(ranks, rank, all, tally_comm_split(all, 0, 0, NULL, &more));
}

static void leave_and_wait(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank), *part = part_of(all, true);
	struct tally_work *work;
	int32_t value = 1;

	if (rank) {
		tell(ranks, rank, part, sum_on(part));
		return;
	}
	CHECK(!tally_iallreduce(&value, &value, 1, TALLY_INT32, TALLY_SUM, all, NULL, &work));
	tell(ranks, rank, all, tally_comm_finalize(all));
}

/* A function that would go on when its operation is complete waits as a thread does. */
static void goes_on(struct tally_work *work, int result, void *arg)
{
	(void)work;
	(void)result;
	(void)arg;
}

static void function_and_wait(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank), *part = part_of(all, true);
	struct tally_work *work;
	int32_t value = 1;

	if (rank) {
		tell(ranks, rank, part, sum_on(part));
		return;
	}
	CHECK(!tally_iallreduce(&value, &value, 1, TALLY_INT32, TALLY_SUM, all, NULL, &work));
	CHECK(!tally_work_on_done(work, goes_on, NULL));
	tell(ranks, rank, all, tally_wait(&work, -1));
}

/* ---- who has a thread that will help, and says so ---- */

struct later {
	struct ranks *ranks;
	struct tally_comm *comm;
};

/* It has called nothing when its process is taken for stuck; and then it takes its time. */
static void *sum_later(void *arg)
{
	struct later *later = arg;
	double until_s = ranks_now_s() + 2 * FOUND_S;

	while (!ranks_warnings(later->ranks) && ranks_now_s() < until_s)
		usleep(1000);
	computes(AGAIN_S);
	CHECK(!sum_on(later->comm));
	return NULL;
}

static void warned(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all, *part;
	struct later later = { .ranks = ranks };
	pthread_t thread;

	CHECK(!setenv("TALLY_CROSSED", "warn", 1));
	all = ranks_join(ranks, rank);
	part = part_of(all, true);
	later.comm = rank % 2 ? part : all;
	CHECK(!pthread_create(&thread, NULL, sum_later, &later));
	CHECK(!sum_on(rank % 2 ? all : part));
	pthread_join(thread, NULL);
	leave(part);
	leave(all);
}

/* ---- who only looks like it ---- */

/* What rank 0 of a chain must be told: whom the one that it waits for waits for. */
static char next_link[256];
static atomic_bool has_next_link;

static void hear_link(int level, const char *line, void *arg)
{
	(void)level, (void)arg;
	if (strstr(line, " waits for rank 1 on ") && strstr(line, next_link))
		atomic_store(&has_next_link, true);
}

static void chain(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank);
	struct tally_comm *left = part_of(all, rank < 2), *right = part_of(all, rank > 0);

	/* Rank 1 is rank 0 of the other part, and 2 is 1. */
	snprintf(next_link, sizeof(next_link),
		 " rank 0 on %s waits in operation 0 for rank 1 on %s", ranks_host(), ranks_host());
	if (rank == 0)
		CHECK(!tally_set_log(TALLY_LOG_DEBUG, hear_link, NULL));
	if (rank == 2)
		computes(long_s);
	CHECK(rank == 0 || !sum_on(right));
	CHECK(rank == 2 || !sum_on(left));
	CHECK(rank || atomic_load(&has_next_link));
	leave(right);
	leave(left);
	leave(all);
}

struct thread {
	struct tally_comm *comm;
	double compute_s;
};

static void *sums(void *arg)
{
	struct thread *thread = arg;

	CHECK(!sum_on(thread->comm));
	computes(thread->compute_s);
	CHECK(!sum_on(thread->comm));
	return NULL;
}

static void two_threads(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank), *part = part_of(all, true);
	struct thread first = { all, rank ? long_s : 0 }, second = { part, rank ? 0 : long_s };
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, sums, &first));
	sums(&second);
	pthread_join(thread, NULL);
	leave(part);
	leave(all);
}

static void ring(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank), *of[RANKS_MAX];
	uint32_t left = (rank + ranks->size - 1) % ranks->size;

	for (uint32_t i = 0; i < ranks->size; i++)
		of[i] = part_of(all, rank == i || rank == (i + 1) % ranks->size);
	for (int i = 0; i < 20; i++) {
		if (i == 3 && rank == 1)
			computes(long_s);
		CHECK(!sum_on(of[rank % 2 ? rank : left]));
		CHECK(!sum_on(of[rank % 2 ? left : rank]));
	}
	for (uint32_t i = 0; i < ranks->size; i++)
		leave(of[i]);
	leave(all);
}

static void calls_then_waits(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank), *part = part_of(all, true);
	struct tally_work *work;
	int32_t value = 1;

	CHECK(!tally_iallreduce(&value, &value, 1, TALLY_INT32, TALLY_SUM, rank ? part : all, NULL,
				&work));
	if (rank)
		computes(long_s);
	if (rank) { /* the other's first call is complete now */
		int32_t mine = 2;

		CHECK(!tally_allreduce(&mine, &mine, 1, TALLY_INT32, TALLY_SUM, all));
		CHECK(mine == 3);
	} else {
		int32_t mine = 2;

		CHECK(!tally_allreduce(&mine, &mine, 1, TALLY_INT32, TALLY_SUM, part));
		CHECK(mine == 3);
	}
	CHECK(!tally_wait(&work, -1));
	CHECK(value == 3);
	leave(part);
	leave(all);
}

/* Rank 0 looks again and again, then goes on elsewhere; `timeout_ms` 0: tally_test. */
static void looks(struct ranks *ranks, uint32_t rank, int timeout_ms)
{
	struct tally_comm *all = ranks_join(ranks, rank), *part = part_of(all, true);
	double until_s = ranks_now_s() + long_s;
	struct tally_work *work;
	int32_t value = rank ? 5 : -3;
	int done = 0;

	if (rank) {
		CHECK(!sum_on(part));
		CHECK(!tally_allreduce(&value, &value, 1, TALLY_INT32, TALLY_SUM, all));
	} else {
		CHECK(!tally_iallreduce(&value, &value, 1, TALLY_INT32, TALLY_SUM, all, NULL,
					&work));
		while (ranks_now_s() < until_s && !done) {
			if (timeout_ms)
				CHECK(tally_wait(&work, timeout_ms) == TALLY_IN_PROGRESS);
			else
				CHECK(!tally_test(&work, &done));
		}
		CHECK(!done);
		CHECK(!sum_on(part));
		CHECK(!tally_wait(&work, -1));
	}
	CHECK(value == 2);
	leave(part);
	leave(all);
}

static void tests(struct ranks *ranks, uint32_t rank)
{
	looks(ranks, rank, 0);
}

static void tries(struct ranks *ranks, uint32_t rank)
{
	looks(ranks, rank, 500);
}

/* A wait that the program ends itself, goes elsewhere, and comes back. */
static int is_tired(void *until)
{
	return *(double *)until > 0 && ranks_now_s() > *(double *)until;
}

static void ends_its_wait(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *one, *other;
	int32_t value = value_of(rank);
	double until = 0;
	char job[80];

	options.aggregator = ranks->aggregator;
	options.interrupted = is_tired;
	options.interrupted_ctx = &until;
	CHECK(!tally_comm_init(&one, ranks->job, ranks->size, rank, &options));
	snprintf(job, sizeof(job), "%s.other", ranks->job);
	CHECK(!tally_comm_init(&other, job, ranks->size, rank, &options));
	if (!rank) {
		until = ranks_now_s() + long_s;
		CHECK(tally_allreduce(&value, &value, 1, TALLY_INT32, TALLY_SUM, one) ==
		      TALLY_INTERRUPTED);
		until = 0;
		CHECK(!sum_on(other));
		CHECK(!tally_allreduce(&value, &value, 1, TALLY_INT32, TALLY_SUM, one));
		CHECK(value == value_of(0) + value_of(1));
	} else {
		CHECK(!sum_on(other) && !sum_on(one));
	}
	leave(other);
	leave(one);
}

static void stopped(struct ranks *ranks, uint32_t rank)
{
	pid_t self = getpid(), helper = rank == 1 ? fork() : 1;
	struct tally_comm *all, *part;

	if (!helper) {
		computes(STOPPED_S);
		kill(self, SIGCONT);
		_exit(0);
	}
	all = ranks_join(ranks, rank);
	part = part_of(all, true);
	if (rank == 1) {
		computes(1);
		raise(SIGSTOP);
		CHECK(waitpid(helper, NULL, 0) == helper);
		CHECK(!sum_on(part) && !sum_on(all));
	} else {
		CHECK(!sum_on(part) && !sum_on(all));
	}
	leave(part);
	leave(all);
}

/* Ranks 0 and 1 are one job, 2 and 3 another. */
static void two_jobs(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *all, *part;
	char job[80];

	snprintf(job, sizeof(job), "%s.%u", ranks->job, rank / 2);
	options.aggregator = ranks->aggregator;
	CHECK(!tally_comm_init(&all, job, 2, rank % 2, &options));
	part = part_of(all, true);
	if (rank % 2)
		computes(long_s - rank / 2);
	CHECK(!sum_on(part) && !sum_on(all));
	leave(part);
	leave(all);
}

static void split_while_busy(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *all = ranks_join(ranks, rank), *part = part_of(all, rank > 0), *more;

	if (rank == 1)
		computes(long_s);
	CHECK(!rank || !sum_on(part));
	more = part_of(all, true);
	CHECK(!sum_on(more));
	leave(more);
	leave(part);
	leave(all);
}

/* ---- the cases ---- */

struct crossing {
	const char *name;
	void (*body)(struct ranks *ranks, uint32_t rank);
	uint32_t size;
	bool is_local;
};

static const struct crossing found[] = {
	{ "opposite order, 2 ranks", opposite_order, 2, false },
	{ "opposite order, 3 ranks", opposite_order, 3, false },
	{ "opposite order, 8 ranks", opposite_order, 8, false },
	{ "opposite order, local mode", opposite_order, 2, true },
	{ "jobs of two names", own_names, 2, false },
	{ "split and sum", split_and_sum, 2, false },
	{ "leave and wait", leave_and_wait, 2, false },
	{ "function and wait", function_and_wait, 2, false },
};

static const struct crossing innocent[] = {
	{ "chain", chain, 3, false },
	{ "chain, local mode", chain, 3, true },
	{ "two threads", two_threads, 2, false },
	{ "ring", ring, 4, false },
	{ "called, then waited for", calls_then_waits, 2, false },
	{ "tests", tests, 2, false },
	{ "tries", tries, 2, false },
	{ "ends its wait itself", ends_its_wait, 2, false },
	{ "stopped", stopped, 3, false },
	{ "two jobs", two_jobs, 4, false },
	{ "split while a part is busy", split_while_busy, 3, false },
};

static const struct crossing helped[] = {
	{ "a thread that will help", warned, 2, false },
};

enum { CASES_MAX = 16 };

enum outcome { OUTCOME_FOUND, OUTCOME_WARNED, OUTCOME_NONE };

static const char *const words[RANKS_WORDS_MAX] = { "its ranks wait for one another", "rank 0 on ",
						    "rank 1 on ", " waits in operation " };

/* Nothing moves until AGAIN_S after the first one. */
static bool has_warned_once(const struct ranks *ranks)
{
	const char *warning = ranks->shared->warning;
	bool is_good = ranks_warnings(ranks) == 1 && strstr(warning, "TALLY_CROSSED=warn: ") &&
		       strstr(warning, ranks->job);

	for (int i = 0; i < RANKS_WORDS_MAX && words[i]; i++)
		is_good &= strstr(warning, words[i]) != NULL;
	if (!is_good)
		fprintf(stderr, "%u warnings, the last: %s\n", ranks_warnings(ranks), warning);
	return is_good;
}

static bool run_one(const struct crossing *crossing, enum outcome outcome)
{
	struct ranks ranks = { .size = crossing->size,
			       .is_local = crossing->is_local,
			       .limit_s = LIMIT_S + long_s,
			       .body = crossing->body };
	bool is_good = ranks_start(&ranks);

	if (is_good && outcome == OUTCOME_FOUND) {
		ranks.shared->event_s = ranks_now_s();
		ranks_wait_reports(&ranks, 3 * FOUND_S);
		is_good = ranks_have_reported(&ranks, TALLY_ERR_MISMATCH, FOUND_S, words);
	}
	is_good &= ranks_end(&ranks);
	if (outcome == OUTCOME_WARNED)
		is_good &= has_warned_once(&ranks);
	if (!is_good)
		fprintf(stderr, "%s: failed\n", crossing->name);
	return is_good;
}

static void run_all(const struct crossing *crossings, size_t count, enum outcome outcome)
{
	pid_t pid[CASES_MAX];
	int failed = 0;

	for (int time = 0; time < times; time++) {
		for (size_t i = 0; i < count; i++) {
			fflush(NULL);
			pid[i] = fork();
			if (!pid[i])
				_exit(!run_one(&crossings[i], outcome));
		}
		for (size_t i = 0; i < count; i++) {
			int status;

			assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
			failed += status != 0;
		}
	}
	printf("%zu cases, %d times each: %d failed\n", count, times, failed);
	assert_int_equal(failed, 0);
}

static void crossed__ranks_that_wait_for_one_another_are_named(void **state)
{
	(void)state;
	run_all(found, sizeof(found) / sizeof(found[0]), OUTCOME_FOUND);
}

static void crossed__a_job_that_wants_a_warning_has_one_and_goes_on(void **state)
{
	(void)state;
	run_all(helped, sizeof(helped) / sizeof(helped[0]), OUTCOME_WARNED);
}

static void crossed__ranks_that_only_wait_are_left_alone(void **state)
{
	(void)state;
	run_all(innocent, sizeof(innocent) / sizeof(innocent[0]), OUTCOME_NONE);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests_all[] = {
		cmocka_unit_test(crossed__ranks_that_wait_for_one_another_are_named),
		cmocka_unit_test(crossed__a_job_that_wants_a_warning_has_one_and_goes_on),
		cmocka_unit_test(crossed__ranks_that_only_wait_are_left_alone),
	};

	if (ranks_lack_family())
		return 77;
	if (argc > 1)
		times = atoi(argv[1]);
	if (argc > 2)
		long_s = (uint32_t)atoi(argv[2]);
	return cmocka_run_group_tests(tests_all, NULL, NULL);
}
