/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/tables_world.h"

/* ---- a run ---- */

static void tables__a_seed_is_always_the_same_run(void **state)
{
	struct tables_report first, again, other;

	(void)state;
	tables_run(7, &first, NULL);
	tables_run(7, &again, NULL);
	tables_run(8, &other, NULL);
	assert_true(first.digest == again.digest);
	assert_true(first.virtual_ns == again.virtual_ns);
	assert_true(first.digest != other.digest);
}

static void tables__seeds_bring_all_that_may_strike(void **state)
{
	struct tables_report sum = { .is_failed = false }, report;

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		tables_run(seed, &report, NULL);
		if (report.is_failed)
			fail_msg("seed %llu: %s", (unsigned long long)seed, report.failure);
		sum.server_deaths += report.server_deaths;
		sum.silences += report.silences;
		sum.refused += report.refused;
		sum.runs_over += report.runs_over;
		sum.processes += report.processes;
		sum.pulls += report.pulls;
	}
	assert_true(sum.server_deaths > 50);
	assert_true(sum.silences > 20);
	assert_true(sum.refused > 10);
	assert_true(sum.runs_over > 10);
	assert_true(sum.processes > 900);
	assert_true(sum.pulls > 500);
}

/* ---- what is checked, by a world that was made by hand: two workers, and a process for each ---- */

static const struct tables_scenario scenario = { .workers = 2,
						 .servers = 1,
						 .steps = 2,
						 .heartbeat_ns = 1000 * MS,
						 .mode = WORKER_KV_BOUNDED };
static struct tables_world *world;
static struct tables_report report;

static int world_begin(void **state)
{
	(void)state;
	world = calloc(1, sizeof(*world));
	if (!world)
		return -1;
	report = (struct tables_report){ .is_failed = false };
	world->scenario = &scenario;
	world->report = &report;
	world->now_ns = 10000 * MS;
	world->processes = 2;
	for (uint32_t i = 0; i < 2; i++) {
		const struct tables_record joined = { .kind = TABLES_JOINED, .process = i };

		world->process[i].worker = i;
		world->latest[i] = i + 1;
		world->server[0].came[i].is_here = true;
		tables_book_take(world, &world->server[0].book, &joined);
	}
	return 0;
}

static int world_end(void **state)
{
	(void)state;
	free(world);
	return 0;
}

static void judge(enum tables_kind kind, uint64_t number, uint64_t value)
{
	const struct tables_record record = { .kind = kind, .number = number, .value = value };

	tables_record_judge(world, 0, &record);
	tables_book_take(world, &world->server[0].book, &record);
}

static void fails_with(const char *rule)
{
	assert_true(report.is_failed);
	if (strncmp(report.failure, rule, strlen(rule)) != 0)
		fail_msg("%s, and not %s", report.failure, rule);
}

static void check__a_batch_is_in_once(void **state)
{
	(void)state;
	world->process[0].part[0].made = 2;
	world->process[0].part[0].value[0] = 5;
	judge(TABLES_IN, 1, 5);
	assert_false(report.is_failed);
	judge(TABLES_IN, 1, 5);
	fails_with("R-KV-9: server 0 takes batch 1");
}

static void check__a_batch_is_what_was_made(void **state)
{
	(void)state;
	world->process[0].part[0].made = 1;
	judge(TABLES_IN, 1, 5);
	fails_with("R-KV-9: server 0 takes batch 1");
}

static void check__what_is_told_the_disk_has(void **state)
{
	(void)state;
	world->process[0].part[0].freed = 1;
	tables_freed_judge(world, 0, 0);
	fails_with("R-KV-9: process 0 was told");
}

static void check__a_barrier_waits_for_all(void **state)
{
	(void)state;
	tables_came_says(world, 0, 0, 1, true);
	judge(TABLES_PASSED, 1, 0);
	fails_with("R-KV-11: server 0 passes barrier 1");
}

static void check__a_barrier_that_all_have_come_to_is_passed(void **state)
{
	(void)state;
	tables_came_says(world, 0, 0, 1, true);
	tables_turn_judge(world, 0);
	assert_false(report.is_failed);
	tables_came_says(world, 0, 1, 1, true);
	tables_turn_judge(world, 0);
	fails_with("R-KV-11: server 0 does not pass barrier 1");
}

static void check__the_dead_do_not_count_for_who_comes_in_another_s_place(void **state)
{
	(void)state;
	tables_came_says(world, 0, 1, 1, true);
	tables_came_lost(world, 0, 1);
	tables_came_joins(world, 0, 0);
	tables_came_says(world, 0, 0, 1, true);
	judge(TABLES_PASSED, 1, 0);
	fails_with("R-KV-11: server 0 passes barrier 1");
}

static void check__nobody_leaves_who_has_not_said_so(void **state)
{
	(void)state;
	judge(TABLES_HAS_LEFT, 0, 0);
	fails_with("R-KV-13");
}

/* 4 heartbeats and 2 seconds. */
static void check__who_has_gone_is_named_in_time(void **state)
{
	(void)state;
	tables_came_says(world, 0, 0, 1, true);
	tables_came_ends(world, 0, 1);
	world->now_ns += 6000 * MS;
	tables_turn_judge(world, 0);
	assert_false(report.is_failed);
	world->now_ns++;
	tables_gone_judge(world, 0, 0, 1);
	assert_false(report.is_failed);
	tables_turn_judge(world, 0);
	fails_with("R-KV-17: server 0 does not tell worker 0");
}

static void check__who_has_gone_is_not_named_too_early(void **state)
{
	(void)state;
	tables_came_says(world, 0, 0, 1, true);
	tables_came_ends(world, 0, 1);
	world->now_ns += 6000 * MS;
	tables_gone_judge(world, 0, 0, 1);
	fails_with("R-KV-17: server 0 tells worker 0");
}

static void check__who_waits_for_a_full_disk_is_told(void **state)
{
	(void)state;
	world->server[0].its[0] = 1;
	tables_came_says(world, 0, 0, 1, true);
	world->server[0].full_ns = world->now_ns + 1;
	tables_turn_judge(world, 0);
	fails_with("R-KV-11: the disk of server 0 is full");
}

static void check__who_leaves_and_has_no_place_has_left(void **state)
{
	(void)state;
	world->latest[0] = 2;
	tables_fault_judge(world, 0, 0, WORKER_KV_REFUSED, WORKER_KV_REFUSED_SUPERSEDED);
	assert_false(report.is_failed);
	world->process[0].left_ns = world->now_ns;
	tables_fault_judge(world, 0, 0, WORKER_KV_REFUSED, WORKER_KV_REFUSED_SUPERSEDED);
	fails_with("process 0: fault");
}

static void check__a_step_goes_on_when_all_have_come(void **state)
{
	(void)state;
	world->process[0].asked = world->process[0].first = 1;
	world->process[1].asked = world->process[1].first = 1;
	world->process[0].steps = 1;
	tables_gate_judge(world, 0);
	assert_false(report.is_failed);
	world->process[1].asked = 0;
	tables_gate_judge(world, 0);
	fails_with("R-KV-15: process 0 goes on");
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, world_begin, world_end)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables__a_seed_is_always_the_same_run),
		cmocka_unit_test(tables__seeds_bring_all_that_may_strike),
		T(check__a_batch_is_in_once),
		T(check__a_batch_is_what_was_made),
		T(check__what_is_told_the_disk_has),
		T(check__a_barrier_waits_for_all),
		T(check__a_barrier_that_all_have_come_to_is_passed),
		T(check__the_dead_do_not_count_for_who_comes_in_another_s_place),
		T(check__nobody_leaves_who_has_not_said_so),
		T(check__who_has_gone_is_named_in_time),
		T(check__who_has_gone_is_not_named_too_early),
		T(check__who_waits_for_a_full_disk_is_told),
		T(check__who_leaves_and_has_no_place_has_left),
		T(check__a_step_goes_on_when_all_have_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
