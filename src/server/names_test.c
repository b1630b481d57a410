/* SPDX-License-Identifier: Apache-2.0 */
/* names_test.c - names of jobs: which is whose, how long one that nobody is in is remembered, and when the loop
 * wakes up for them. */
#include "server/inside_fixture.h"

#include <errno.h>

enum { PLACES = 3, SOURCE = 5 };

static struct {
	int blocks;                   /* taken and not given back */
	uint32_t allocations, failed; /* the one of this number fails, from 1; 0: none */
} memory;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void __real_free(void *block);
void __wrap_free(void *block);

void *__wrap_calloc(size_t count, size_t bytes)
{
	if (++memory.allocations == memory.failed)
		return NULL;
	memory.blocks++;
	return __real_calloc(count, bytes);
}

void __wrap_free(void *block)
{
	memory.blocks -= block != NULL;
	__real_free(block);
}

static int setup(void **state)
{
	memset(&memory, 0, sizeof(memory));
	if (inside_setup(state))
		return -1;
	test.server.options.jobs_max = PLACES;
	test.jobs[PLACES] = test.beyond;
	test.server.options.shards = 4;
	test.server.options.heartbeat_ms = 3000;
	test.server.options.gather_ms = 7000;
	test.server.unite_ns = UINT64_MAX;
	return 0;
}

static int teardown(void **state)
{
	for (uint32_t i = 0; i < PLACES; i++)
		if (test.jobs[i])
			job_close(&test.server, test.jobs[i]);
	return inside_teardown(state);
}

static struct control_join join_of(const char *name, uint64_t life, uint64_t program)
{
	struct control_join join = { .life = life, .program = program, .size = 2 };

	snprintf(join.job, sizeof(join.job), "%s", name);
	return join;
}

static int try_open(const char *name, uint64_t life, uint64_t program, struct job **job)
{
	struct control_join join = join_of(name, life, program);

	return job_open(&test.server, &join, SOURCE, job);
}

static struct job *open_job(const char *name, uint64_t life, uint64_t program)
{
	struct job *job = NULL;

	assert_int_equal(try_open(name, life, program, &job), 0);
	return job;
}

static struct job *find(const char *name, uint64_t life, uint64_t program)
{
	struct control_join join = join_of(name, life, program);
	bool is_refused;

	return job_find(&test.server, &join, &is_refused);
}

static void names__a_new_one_is_as_the_server_is_configured(void **state)
{
	struct job *job;

	(void)state;
	job = open_job("a", 0, 0);
	assert_string_equal(job->name, "a");
	assert_int_equal(job->index, 0);
	assert_int_equal(job->source, SOURCE);
	assert_int_equal(job->config.shards, 4);
	assert_true(job->config.heartbeat_ns == 3 * second_ns);
	assert_true(job->config.gather_ns == 7 * second_ns);
	assert_ptr_equal(job->config.job, job->name);
	assert_null(job->config.key);
	assert_true(job->wake_ns == UINT64_MAX);
	strcpy(test.server.key, "k");
	job = open_job("b", 77, 9);
	assert_int_equal(job->index, 1);
	assert_int_equal(job->life, 77);
	assert_int_equal(job->config.life, 77);
	assert_int_equal(job->program, 0); /* a part of a job is its name's alone */
	assert_ptr_equal(job->config.key, test.server.key);
	assert_ptr_equal(test.jobs[1], job);
}

/* The job, its admission, and what that says: actions and members. */
static void names__without_memory_are_no_job_and_nothing_is_held(void **state)
{
	struct job *job = NULL;

	(void)state;
	for (uint32_t i = 1; i <= 4; i++) {
		memory.allocations = 0;
		memory.failed = i;
		assert_int_equal(try_open("a", 0, 0, &job), -ENOMEM);
		assert_null(job);
		assert_null(test.jobs[0]);
		assert_int_equal(memory.blocks, 0);
	}
	memory.allocations = 0;
	memory.failed = 5;
	job = open_job("a", 0, 0);
	assert_int_equal(memory.blocks, 4);
	job_close(&test.server, job);
	assert_int_equal(memory.blocks, 0);
	assert_null(test.jobs[0]);
}

static struct control_join join_of_program(uint64_t program, bool is_launched)
{
	struct control_join join = join_of("a", 0, program);

	join.is_launched = is_launched;
	return join;
}

/* R-CT-24: four command lines of a name gather apart. */
static void names__of_a_fifth_command_line_is_the_lasts_unless_one_is_launched(void **state)
{
	struct control_join join = join_of_program(55, false);
	bool is_refused = true;

	(void)state;
	test.server.options.jobs_max = 8;
	test.jobs[PLACES] = NULL;
	test.jobs[8] = test.beyond;
	for (uint32_t i = 0; i < 3; i++) {
		struct job *job = inside_job(1 + i, "a", ADMISSION_GATHER, 2);

		job->program = 100 + i;
		inside_member(job, 1, ADMISSION_JOINED, "h");
	}
	inside_job(4, "b", ADMISSION_GATHER, 2)->program = 103; /* none of these is of the name */
	inside_job(5, "a", ADMISSION_STARTED, 2)->program = 104;
	inside_job(6, "a", ADMISSION_GATHER, 2);
	assert_null(job_find(&test.server, &join, &is_refused));
	assert_false(is_refused);
	inside_job(7, "a", ADMISSION_GATHER, 2)->program = 105;
	assert_ptr_equal(job_find(&test.server, &join, &is_refused), &test.job[7]);
	assert_false(is_refused);
	join.is_launched = true;
	assert_null(job_find(&test.server, &join, &is_refused));
	assert_true(is_refused);
	join.program = 101; /* which is there */
	assert_ptr_equal(job_find(&test.server, &join, &is_refused), &test.job[2]);
	assert_false(is_refused);
	join = join_of_program(55, false);
	admission_member(test.job[2].admission, 0)->peer.is_launched = 1; /* who is not there */
	assert_ptr_equal(job_find(&test.server, &join, &is_refused), &test.job[7]);
	admission_member(test.job[2].admission, 1)->peer.is_launched = 1;
	assert_null(job_find(&test.server, &join, &is_refused));
	assert_true(is_refused);
	join.program = 0; /* the user's name, which is one job's */
	assert_ptr_equal(job_find(&test.server, &join, &is_refused), &test.job[6]);
	assert_false(is_refused);
	test.job[7].life = 9;
	join.program = 55;
	assert_null(job_find(&test.server, &join, &is_refused));
	assert_false(is_refused);
	for (uint32_t i = 1; i < 8; i++)
		test.jobs[i] = NULL; /* they are the fixture's */
}

static void names__are_one_job_for_each_life_and_program(void **state)
{
	struct job *jobs[PLACES] = { open_job("a", 0, 0), open_job("a", 77, 0),
				     open_job("a", 0, 9) };

	(void)state;
	assert_ptr_equal(find("a", 0, 0), jobs[0]);
	assert_ptr_equal(find("a", 77, 0), jobs[1]);
	assert_ptr_equal(find("a", 77, 9), jobs[1]);
	assert_ptr_equal(find("a", 0, 9), jobs[2]);
	assert_null(find("a", 78, 0));
	assert_null(find("b", 0, 0));
	assert_null(find("a", 0, 8));
	/* A program that has become part of another's job is where one of it is. */
	jobs[2]->admission->size = 2;
	inside_member(jobs[2], 1, ADMISSION_JOINED, "h")->peer.program = 8;
	assert_ptr_equal(find("a", 0, 8), jobs[2]);
	inside_member(jobs[2], 1, ADMISSION_ABSENT, "h");
	assert_null(find("a", 0, 8));
}

static void names__take_the_place_of_the_one_that_nobody_is_in_for_longest(void **state)
{
	struct job *jobs[PLACES] = { open_job("a", 0, 0), open_job("b", 0, 0),
				     open_job("c", 0, 0) };
	struct job *job = NULL;

	(void)state;
	assert_int_equal(try_open("d", 0, 0, &job), -ENOSPC);
	assert_null(job);
	jobs[0]->idle_ns = 30;
	jobs[1]->idle_ns = 20;
	jobs[2]->idle_ns = 25;
	test.peers[4] = (struct peer){ .conn = (struct conn *)(void *)test.peers, .job = 1 };
	test.peers[5] = (struct peer){ .conn = (struct conn *)(void *)test.peers, .job = 2 };
	job = open_job("d", 0, 0);
	assert_int_equal(job->index, 1);
	assert_null(find("b", 0, 0));
	assert_ptr_equal(find("c", 0, 0), jobs[2]);
	assert_int_equal(test.peers[4].job, NO_JOB); /* in its last words */
	assert_int_equal(test.peers[5].job, 2);
	job->idle_ns = 26;
	assert_int_equal(open_job("e", 0, 0)->index, 2);
}

/* Of the job itself, and of a part that runs without it. */
static void names__know_which_lives_run(void **state)
{
	struct job *whole, *part;

	(void)state;
	whole = open_job("a", 0, 0);
	part = open_job("a/0-1", 9, 0);
	assert_false(life_is_running(&test.server, 9)); /* it gathers */
	whole->admission->life = 8;
	whole->admission->state = ADMISSION_STARTED;
	assert_true(life_is_running(&test.server, 8));
	assert_false(life_is_running(&test.server, 0)); /* which says nothing */
	part->admission->state = ADMISSION_GRANTED;
	assert_true(life_is_running(&test.server, 9));
	part->admission->state = ADMISSION_DRAIN;
	assert_false(life_is_running(&test.server, 9));
}

static void names__of_a_life_that_has_ended_badly_know_why(void **state)
{
	struct job *job;

	(void)state;
	open_job("a", 0, 0);
	job = open_job("b", 0, 0);
	assert_null(job_end_of_life(&test.server, 0));
	assert_null(job_end_of_life(&test.server, 8));
	job->ended_life = 8;
	strcpy(job->ended_text, "rank 1 died");
	assert_string_equal(job_end_of_life(&test.server, 8), "rank 1 died");
	assert_null(job_end_of_life(&test.server, 9));
	assert_null(job_end_of_life(&test.server, 0));
}

static void names__that_nobody_is_in_are_remembered_for_ten_minutes(void **state)
{
	struct job *job;

	(void)state;
	job = open_job("a", 0, 0);
	job->idle_ns = test.now_ns;
	jobs_tick(&test.server, test.now_ns + 600 * second_ns);
	assert_ptr_equal(find("a", 0, 0), job);
	jobs_tick(&test.server, test.now_ns + 600 * second_ns + 1);
	assert_null(find("a", 0, 0));
}

/* A step writes the real time there. */
static bool is_ticked(struct job *job, uint64_t now_ns)
{
	uint64_t ticked_ns = job->ticked_ns;

	job->idle_ns = 0;
	jobs_tick(&test.server, now_ns);
	if (job->ticked_ns == ticked_ns)
		return false;
	job->ticked_ns = ticked_ns;
	return true;
}

static void names__in_use_are_looked_at_each_second_or_when_they_say(void **state)
{
	struct job *job;

	(void)state;
	job = open_job("a", 0, 0);
	job->ticked_ns = 3;
	job->wake_ns = UINT64_MAX;
	assert_false(is_ticked(job, second_ns + 2));
	assert_true(is_ticked(job, second_ns + 3));
	job->wake_ns = second_ns / 2;
	assert_false(is_ticked(job, second_ns / 2 - 1));
	assert_true(is_ticked(job, second_ns / 2));
}

static void names__in_use_say_when_the_loop_wakes_up(void **state)
{
	struct job *job, *other;

	(void)state;
	assert_true(jobs_are_idle(&test.server));
	assert_true(jobs_wake_ns(&test.server) == UINT64_MAX);
	job = open_job("a", 0, 0);
	other = open_job("b", 0, 0);
	assert_false(jobs_are_idle(&test.server));
	job->ticked_ns = 5 * second_ns;
	other->ticked_ns = 5 * second_ns + 1;
	assert_true(jobs_wake_ns(&test.server) == 6 * second_ns);
	other->wake_ns = 6 * second_ns - 1;
	assert_true(jobs_wake_ns(&test.server) == 6 * second_ns - 1);
	test.server.unite_ns = second_ns;
	assert_true(jobs_wake_ns(&test.server) == second_ns);
	test.server.unite_ns = UINT64_MAX;
	other->idle_ns = 1;
	assert_true(jobs_wake_ns(&test.server) == 6 * second_ns);
	assert_false(jobs_are_idle(&test.server));
	job->idle_ns = 1;
	assert_true(jobs_wake_ns(&test.server) == UINT64_MAX);
	assert_true(jobs_are_idle(&test.server));
}

#define NAMES_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		NAMES_TEST(names__a_new_one_is_as_the_server_is_configured),
		NAMES_TEST(names__without_memory_are_no_job_and_nothing_is_held),
		NAMES_TEST(names__of_a_fifth_command_line_is_the_lasts_unless_one_is_launched),
		NAMES_TEST(names__are_one_job_for_each_life_and_program),
		NAMES_TEST(names__take_the_place_of_the_one_that_nobody_is_in_for_longest),
		NAMES_TEST(names__know_which_lives_run),
		NAMES_TEST(names__of_a_life_that_has_ended_badly_know_why),
		NAMES_TEST(names__that_nobody_is_in_are_remembered_for_ten_minutes),
		NAMES_TEST(names__in_use_are_looked_at_each_second_or_when_they_say),
		NAMES_TEST(names__in_use_say_when_the_loop_wakes_up),
	};

	return cmocka_run_group_tests_name("server-names", tests, NULL, NULL);
}
