/* SPDX-License-Identifier: Apache-2.0 */
/* local_test.c - the aggregator in rank 0's process: under which name, with what, for how long. It is played. */
#include "lib/local.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/server.h"

static struct {
	struct tally_comm comm, part;
	int open_error, start_error;
	bool is_short;
	uint32_t waits_left; /* server_wait returns false so often */
	uint32_t asked_left; /* and the program wants to go on so often */
	struct server_options options;
	char name[LOCAL_NAME_BYTES];
	uint32_t error_left; /* the communicator is broken after so many waits; 0: never */
	uint32_t opens, starts, closes, drains, stops, waits, asks, forgets;
	uint32_t timeout_ms; /* of the last wait */
	uint32_t level, lines;
	char line[512];
} test;

static struct server *aggregator(void)
{
	return (struct server *)(void *)&test.options; /* any place will do */
}

int __wrap_server_open(struct server **server, const struct server_options *options);
int __wrap_server_start(struct server *server);
void __wrap_server_drain(struct server *server);
bool __wrap_server_wait(struct server *server, uint32_t timeout_ms);
void __wrap_server_stop(struct server *server);
void __wrap_server_close(struct server *server);
void __wrap_server_forget(const struct server *server);
bool __wrap_progress_is_interrupted(struct tally_comm *comm);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_calloc(size_t count, size_t bytes);

int __wrap_server_open(struct server **server, const struct server_options *options)
{
	test.opens++;
	test.options = *options;
	snprintf(test.name, sizeof(test.name), "%s", options->local_name);
	if (!test.open_error)
		*server = aggregator();
	return test.open_error;
}

int __wrap_server_start(struct server *server)
{
	assert_ptr_equal(server, aggregator());
	test.starts++;
	return test.start_error;
}

void __wrap_server_drain(struct server *server)
{
	assert_ptr_equal(server, aggregator());
	test.drains++;
}

bool __wrap_server_wait(struct server *server, uint32_t timeout_ms)
{
	assert_ptr_equal(server, aggregator());
	test.waits++;
	test.timeout_ms = timeout_ms;
	if (test.error_left && !--test.error_left)
		atomic_store(&test.comm.error, TALLY_ERR_ABORTED);
	return !test.waits_left || !test.waits_left--;
}

void __wrap_server_stop(struct server *server)
{
	assert_ptr_equal(server, aggregator());
	test.stops++;
}

void __wrap_server_close(struct server *server)
{
	assert_ptr_equal(server, aggregator());
	test.closes++;
}

void __wrap_server_forget(const struct server *server)
{
	assert_ptr_equal(server, aggregator());
	test.forgets++;
}

bool __wrap_progress_is_interrupted(struct tally_comm *comm)
{
	assert_ptr_equal(comm, &test.comm);
	test.asks++;
	return !test.asked_left || !--test.asked_left;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return test.is_short ? NULL : __real_calloc(count, bytes);
}

static void hear(int level, const char *line, void *arg)
{
	(void)arg;
	test.level = (uint32_t)level;
	test.lines++;
	snprintf(test.line, sizeof(test.line), "%s", line);
}

static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	test.comm.who = (struct report_who){ .job = "rings", .host = "h1", .size = 3 };
	strcpy(test.comm.local_job, "rings");
	test.comm.boot.init_timeout_s = 17;
	strcpy(test.comm.key, "sesame");
	return tally_set_log(TALLY_LOG_DEBUG, hear, NULL);
}

static int teardown(void **state)
{
	(void)state;
	return tally_set_log(0, NULL, NULL);
}

static void open_one(void)
{
	assert_int_equal(local_open(&test.comm), TALLY_OK);
	assert_non_null(test.comm.local);
}

static void refused(int result, const char *words)
{
	assert_int_equal(local_open(&test.comm), result);
	if (!strstr(tally_get_last_error(NULL), words))
		fail_msg("no \"%s\" in: %s", words, tally_get_last_error(NULL));
	assert_null(test.comm.local);
}

static void name__has_the_user_and_the_job_or_its_hash(void **state)
{
	char job[201], other[LOCAL_NAME_BYTES], name[LOCAL_NAME_BYTES], wanted[LOCAL_NAME_BYTES];
	size_t head = (size_t)snprintf(wanted, sizeof(wanted), "tally/%u/", (unsigned)getuid());

	(void)state;
	local_name("rings", name);
	strcpy(wanted + head, "rings");
	assert_string_equal(name, wanted);
	memset(job, 'j', sizeof(job));
	job[LOCAL_NAME_BYTES - 1 - head] = 0; /* the longest that fits */
	local_name(job, name);
	assert_int_equal(strlen(name), LOCAL_NAME_BYTES - 1);
	assert_string_equal(name + head, job);
	job[LOCAL_NAME_BYTES - 1 - head] = 'j';
	job[200] = 0;
	local_name(job, name);
	assert_memory_equal(name, wanted, head);
	assert_memory_equal(name + head, job, 60);
	assert_int_equal(name[head + 60], '~');
	assert_int_equal(strlen(name), head + 60 + 1 + 16);
	job[199] = 'k';
	local_name(job, other);
	assert_memory_equal(name, other, head + 61);
	assert_string_not_equal(name, other);
}

static void aggregator__has_what_its_rank_was_given(void **state)
{
	static const uint8_t loopback[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };
	char wanted[LOCAL_NAME_BYTES];

	(void)state;
	open_one();
	assert_int_equal(test.opens, 1);
	assert_int_equal(test.starts, 1);
	assert_memory_equal(test.options.listen.ip, loopback, 16);
	assert_int_equal(test.options.listen.port, 0);
	local_name("rings", wanted);
	assert_string_equal(test.name, wanted);
	assert_int_equal(test.options.jobs_max, 64);
	assert_int_equal(test.options.gather_ms, 17000);
	assert_string_equal(test.options.key, "sesame");
	local_close(&test.comm, 7);
	assert_null(test.comm.local);
	assert_int_equal(test.drains, 1);
	assert_int_equal(test.waits, 1);
	assert_int_equal(test.timeout_ms, 7);
	assert_int_equal(test.closes, 1);
	local_close(&test.comm, 7); /* there is none any more */
	assert_int_equal(test.closes, 1);
}

/* Every rank says itself how the job goes. */
static void aggregator__has_its_errors_alone_heard(void **state)
{
	static const enum server_level levels[] = { SERVER_ERROR, SERVER_WARN, SERVER_INFO,
						    SERVER_DEBUG };
	struct server_about about = { 0 };

	(void)state;
	open_one();
	test.comm.who.rank = 9; /* the log has a name of its own: the communicator may go first */
	for (uint32_t i = 0; i < 4; i++) {
		test.options.log(test.options.log_arg, levels[i], &about, "rank 2 is late");
		assert_int_equal(test.lines, 1 + i);
		assert_int_equal(test.level, i ? TALLY_LOG_DEBUG : TALLY_LOG_ERROR);
		assert_non_null(
			strstr(test.line, "[job rings rank 0 host h1] aggregator: rank 2 is late"));
	}
	local_close(&test.comm, 0);
}

/* They are not ended, and so nothing else is said anywhere. */
static void aggregator__has_it_heard_that_ranks_wait_for_one_another(void **state)
{
	static const char *const line = "job rings: " SERVER_CROSSED_TEXT "its ranks wait";
	struct server_about about = { .job = "rings", .rank = SERVER_RANK_NONE };

	(void)state;
	open_one();
	test.options.log(test.options.log_arg, SERVER_WARN, &about, line);
	assert_int_equal(test.lines, 1);
	assert_int_equal(test.level, TALLY_LOG_WARN);
	assert_non_null(strstr(test.line, "aggregator: job rings: TALLY_CROSSED=warn: its ranks"));
	test.options.log(test.options.log_arg, SERVER_DEBUG, &about, line);
	assert_int_equal(test.lines, 2);
	assert_int_equal(test.level, TALLY_LOG_DEBUG);
	test.options.log(test.options.log_arg, SERVER_WARN, &about,
			 "job VALLY_CROSSED=warn: rank 2 is late"); /* its name is nearly that */
	assert_int_equal(test.lines, 3);
	assert_int_equal(test.level, TALLY_LOG_DEBUG);
	local_close(&test.comm, 0);
}

static void aggregator__that_cannot_begin_is_an_error(void **state)
{
	char name[LOCAL_NAME_BYTES], words[256];

	(void)state;
	test.is_short = true;
	assert_int_equal(local_open(&test.comm), TALLY_ERR_NO_MEMORY);
	test.is_short = false;
	assert_string_equal(tally_get_last_error(NULL), "local mode: out of memory");
	assert_int_equal(test.opens, 0);
	test.open_error = -EMFILE;
	refused(TALLY_ERR_SYSTEM, "local mode: no aggregator in this process: Too many open files");
	assert_int_equal(test.starts + test.closes, 0);
	test.open_error = -EADDRINUSE;
	local_name("rings", name);
	snprintf(words, sizeof(words),
		 "a rank 0 of job rings runs on this host already (socket @%s)", name);
	refused(TALLY_ERR_SYSTEM, words);
	assert_null(strstr(tally_get_last_error(NULL), "TALLY_JOB"));
	test.comm.boot.is_launched = true;
	strcat(words, "; the name is the launcher's: if it has started two programs, give each "
		      "its TALLY_JOB");
	refused(TALLY_ERR_SYSTEM, words);
	test.open_error = 0;
	test.start_error = -EAGAIN;
	refused(TALLY_ERR_SYSTEM, "no aggregator in this process: Resource temporarily");
	assert_int_equal(test.closes, 1);
}

/* A part that was split off uses its parent's, and the last one ends it. */
static void aggregator__ends_with_its_last_communicator(void **state)
{
	struct tally_comm other = { 0 };

	(void)state;
	local_share(&test.part, &other); /* of a parent that hosts none */
	assert_null(test.part.local);
	open_one();
	local_share(&test.part, &test.comm);
	assert_ptr_equal(test.part.local, test.comm.local);
	local_close(&test.comm, 3);
	assert_null(test.comm.local);
	assert_int_equal(test.drains + test.waits + test.closes, 0);
	local_close(&test.part, 4);
	assert_int_equal(test.closes, 1);
	assert_int_equal(test.timeout_ms, 4);
}

/* local_stop, of another thread, looks at it. */
static void close__forgets_the_aggregator_under_the_lock(void **state)
{
	pthread_mutexattr_t recursive;

	(void)state;
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&test.comm.lock, &recursive);
	open_one();
	comm_lock(&test.comm);
	local_close(&test.comm, 1);
	assert_int_equal(pthread_mutex_unlock(&test.comm.lock), 0); /* it is held as before */
	pthread_mutex_destroy(&test.comm.lock);
}

static int never(void *ctx)
{
	(void)ctx;
	return 0;
}

static void wait__asks_the_program_whether_to_go_on(void **state)
{
	(void)state;
	assert_true(local_wait(&test.comm, true)); /* there is no aggregator */
	open_one();
	test.comm.interrupted = never;
	local_share(&test.part, &test.comm);
	assert_true(local_wait(&test.part,
			       true)); /* it is not the last, and the other is from now on */
	assert_null(test.part.local);
	assert_int_equal(test.waits + test.drains, 0);
	test.waits_left = 5;
	test.asked_left = 3;
	assert_false(local_wait(&test.comm, true));
	assert_int_equal(test.waits, 3);
	assert_int_equal(test.asks, 3);
	assert_int_equal(test.timeout_ms, 50);
	assert_int_equal(test.drains, 1);
	assert_int_equal(test.closes, 0);
	assert_non_null(test.comm.local); /* nothing has changed */
	test.asked_left = 9;
	assert_true(local_wait(&test.comm, true));
	assert_int_equal(test.waits, 6);
	assert_int_equal(test.asks, 5);
	local_close(&test.comm, 1);
	assert_int_equal(test.closes, 1);
}

/* Nobody is asked who does not want to be, but what breaks the communicator ends the wait. */
static void wait__ends_when_the_communicator_is_broken(void **state)
{
	(void)state;
	open_one();
	for (int may_interrupt = 0; may_interrupt < 2; may_interrupt++) {
		test.comm.interrupted = may_interrupt ? NULL : never;
		atomic_store(&test.comm.error, TALLY_OK);
		test.waits = 0;
		test.waits_left = 9;
		test.error_left = 4;
		assert_true(local_wait(&test.comm, may_interrupt));
		assert_int_equal(test.waits, 4);
		assert_int_equal(test.timeout_ms, 50);
	}
	assert_int_equal(test.asks, 0);
	local_close(&test.comm, 1);
}

static void stop__is_the_last_communicators(void **state)
{
	(void)state;
	assert_false(local_stop(&test.comm)); /* there is no aggregator */
	open_one();
	local_share(&test.part, &test.comm);
	assert_false(local_stop(&test.comm));
	local_close(&test.part, 1);
	assert_int_equal(test.stops, 0);
	assert_true(local_stop(&test.comm));
	assert_int_equal(test.stops, 1);
	local_close(&test.comm, 1);
	assert_int_equal(test.closes, 1);
}

static void forget__is_once_in_a_child(void **state)
{
	(void)state;
	local_forget(&test.comm);
	assert_int_equal(test.forgets, 0);
	open_one();
	local_share(&test.part, &test.comm);
	local_forget(&test.comm);
	local_forget(&test.part);
	assert_int_equal(test.forgets, 1);
	local_close(&test.part, 1);
	local_close(&test.comm, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
		T(name__has_the_user_and_the_job_or_its_hash),
		T(aggregator__has_what_its_rank_was_given),
		T(aggregator__has_its_errors_alone_heard),
		T(aggregator__has_it_heard_that_ranks_wait_for_one_another),
		T(aggregator__that_cannot_begin_is_an_error),
		T(aggregator__ends_with_its_last_communicator),
		T(close__forgets_the_aggregator_under_the_lock),
		T(wait__asks_the_program_whether_to_go_on),
		T(wait__ends_when_the_communicator_is_broken),
		T(stop__is_the_last_communicators),
		T(forget__is_once_in_a_child),
#undef T
	};

	return cmocka_run_group_tests_name("lib-local", tests, NULL, NULL);
}
