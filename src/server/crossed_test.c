/* SPDX-License-Identifier: Apache-2.0 */
/* crossed_test.c - what tallyd says of looks that cannot take in all ranks (R-CT-46). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/internal.h"

enum { JOBS = 2, SIZE = CROSSED_RECORDS_MAX / JOBS, MORE_MAX = 2 };

static const uint64_t second_ns = 1000 * MS_NS;

static struct {
	struct server server;
	struct job job[JOBS];
	struct job *jobs[JOBS];
	struct crossed_view *views[JOBS];
	uint32_t rounds, warnings, other_lines;
	char line[512];
	uint64_t now_ns;
} test;

static void hear(void *arg, enum server_level level, const struct server_about *about,
		 const char *line)
{
	(void)arg, (void)about;
	test.warnings += level == SERVER_WARN;
	test.other_lines += level != SERVER_WARN;
	snprintf(test.line, sizeof(test.line), "%s", line);
}

static void begin(void)
{
	memset(&test, 0, sizeof(test));
	test.now_ns = 77 * second_ns;
	test.server.options.jobs_max = JOBS;
	test.server.options.heartbeat_ms = 10000;
	test.server.options.log = hear;
	test.server.jobs = test.jobs;
	test.server.crossed.views = test.views;
	for (uint32_t i = 0; i < JOBS; i++) {
		test.jobs[i] = &test.job[i];
		test.job[i].crossed = malloc(crossed_view_bytes(SIZE + MORE_MAX));
		assert_non_null(test.job[i].crossed);
	}
}

static void end(void)
{
	for (uint32_t i = 0; i < JOBS; i++)
		free(test.job[i].crossed);
}

/* For so many seconds the ranks of two jobs say each second what they wait for; in job 1 there are `more` besides. */
static void say_for(uint32_t seconds, uint16_t more)
{
	for (uint32_t i = 0; i < JOBS; i++)
		crossed_view_init(test.job[i].crossed, (uint16_t)(SIZE + i * more));
	for (uint32_t s = 0; s < seconds; s++) {
		test.rounds++;
		for (uint32_t i = 0; i < JOBS; i++) {
			struct crossed_view *view = test.job[i].crossed;

			for (uint16_t rank = 0; rank < view->size; rank++)
				crossed_ask(view, test.rounds, rank, test.now_ns);
			for (uint16_t rank = 0; rank < view->size; rank++) {
				/* They go on, so nobody is stuck. */
				const struct control_opinfo info = { .round = test.rounds,
								     .process = 1 + rank,
								     .entries = test.rounds,
								     .submitted = 5 + i,
								     .waits = 4,
								     .threads = 1,
								     .blocked = i };

				(void)crossed_answer(view, rank, &info, test.now_ns);
			}
		}
		test.server.crossed.has_news = true;
		crossed_tick(&test.server, test.now_ns);
		test.now_ns += second_ns;
	}
}

static void crossed__as_many_as_a_look_takes_in_are_looked_at_in_silence(void **state)
{
	(void)state;
	begin();
	say_for(12, 0);
	assert_int_equal(test.server.crossed.look.count, CROSSED_RECORDS_MAX);
	assert_int_equal(test.warnings + test.other_lines, 0);
	end();
}

static void crossed__one_rank_too_many_is_said_once_with_the_number(void **state)
{
	(void)state;
	begin();
	say_for(30, 1);
	assert_int_equal(test.warnings, 1);
	assert_int_equal(test.other_lines, 0);
	assert_non_null(strstr(test.line, "16385 ranks of all jobs"));
	assert_non_null(strstr(test.line, "takes in 16384 ranks"));
	end();
}

static void crossed__it_is_said_again_only_after_looks_were_able_again(void **state)
{
	(void)state;
	begin();
	say_for(5, 1);
	for (uint32_t i = 0; i < 20; i++) /* at the limit: now and then a look is able */
		say_for(1, i % 2);
	assert_int_equal(test.warnings, 1);
	say_for(12, 0);
	assert_int_equal(test.warnings, 1);
	say_for(5, 2);
	assert_int_equal(test.warnings, 2);
	assert_non_null(strstr(test.line, "16386 ranks of all jobs"));
	test.now_ns += 60 * second_ns; /* nobody waits, so there is no look */
	say_for(1, 2);
	assert_int_equal(test.warnings, 3);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crossed__as_many_as_a_look_takes_in_are_looked_at_in_silence),
		cmocka_unit_test(crossed__one_rank_too_many_is_said_once_with_the_number),
		cmocka_unit_test(crossed__it_is_said_again_only_after_looks_were_able_again),
	};

	return cmocka_run_group_tests_name("server-crossed", tests, NULL, NULL);
}
