/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/run.h"

/* The first seed from `seed` on whose run is short. */
static void small_draw(struct scenario *scenario, uint64_t seed, enum scenario_kind kind)
{
	uint64_t chunks;

	do {
		scenario_draw(scenario, seed++, kind);
		chunks = 0;
		for (uint32_t i = 0; i < scenario->ops; i++)
			chunks += map_chunks(scenario->op[i].count, scenario->lanes);
	} while (chunks * scenario->workers > 800);
}

static void run__same_seed_sends_the_same_packets(void **state)
{
	struct scenario scenario;
	struct run_report first, second;

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		small_draw(&scenario, seed * 100, SCENARIO_ANY);
		run_scenario(&scenario, &first, NULL);
		run_scenario(&scenario, &second, NULL);
		assert_int_equal(first.packets, second.packets);
		assert_int_equal(first.digest, second.digest);
		assert_int_equal(first.virtual_ns, second.virtual_ns);
	}
}

static void run__every_kind_of_scenario_ends_without_violation(void **state)
{
	struct scenario scenario;
	struct run_report report;

	(void)state;
	for (uint32_t kind = 0; kind < SCENARIO_COUNT; kind++)
		for (uint64_t seed = 1; seed <= 2; seed++) {
			small_draw(&scenario, seed * 1000, (enum scenario_kind)kind);
			run_scenario(&scenario, &report, stdout);
			assert_false(report.is_failed);
			assert_true(report.packets > 0);
		}
}

static void run__without_loss_nothing_is_sent_twice(void **state)
{
	struct scenario scenario;
	struct run_report report;

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		small_draw(&scenario, seed * 77, SCENARIO_clean);
		run_scenario(&scenario, &report, stdout);
		assert_false(report.is_failed);
		assert_int_equal(report.lost, 0);
		assert_int_equal(report.resent, 0);
	}
}

static void run__disagreement_is_seen(void **state)
{
	struct scenario scenario;
	struct run_report report;
	uint64_t mismatches = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		small_draw(&scenario, seed * 31, SCENARIO_disagree);
		run_scenario(&scenario, &report, stdout);
		assert_false(report.is_failed);
		mismatches += report.mismatches > 0;
	}
	assert_true(mismatches >=
		    3); /* the others stalled: such ranks may be in different streams */
}

static void sum_up(struct run_report *sum, enum scenario_kind kind, uint32_t seeds)
{
	struct scenario scenario;
	struct run_report report;

	*sum = (struct run_report){ 0 };
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		scenario_draw_short(&scenario, seed, kind, 1500);
		run_scenario(&scenario, &report, stdout);
		assert_false(report.is_failed);
		run_report_add(sum, &report);
	}
}

static void run__crashes_end_in_another_life_or_in_an_error(void **state)
{
	struct run_report sum;

	(void)state;
	sum_up(&sum, SCENARIO_crash, 40);
	assert_true(sum.lives >= 50);
	assert_in_range(sum.errors, 3, 30);
	sum_up(&sum, SCENARIO_stopped, 5);
	assert_int_equal(sum.lives, 5); /* who only stands still is not dead */
	assert_int_equal(sum.errors, 0);
}

static void run__short_queues_lose_packets_and_nothing_else(void **state)
{
	struct run_report sum;

	(void)state;
	sum_up(&sum, SCENARIO_incast, 8);
	assert_true(sum.lost * 50 > sum.packets); /* 2 % */
}

static void run__jobs_share_switches_and_all_finish(void **state)
{
	struct scenario scenario, other;
	struct run_report report;

	(void)state;
	small_draw(&scenario, 1, SCENARIO_jobs);
	run_scenario(&scenario, &report, stdout);
	assert_false(report.is_failed);
	assert_in_range(scenario.jobs, 2, SIM_JOBS_MAX);
	uint64_t ops = scenario.ops;
	for (uint32_t job = 1; job < scenario.jobs; job++) {
		scenario_draw_job(&other, &scenario, job);
		ops += other.ops;
	}
	assert_int_equal(report.operations, ops);
}

static void scenario__deep_trees_have_three_levels(void **state)
{
	struct scenario scenario;

	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		scenario_draw(&scenario, seed, SCENARIO_deep);
		for (uint32_t w = 0; w < scenario.workers; w++) {
			const struct scenario_shard *shard = &scenario.shard[0];
			uint32_t levels = 1;
			for (uint32_t e = shard->engine_of[w]; e; e = shard->parent[e])
				levels++;
			assert_int_equal(levels, 3);
		}
	}
}

/* What a seed draws is part of what it reproduces: seeds.txt is worth nothing if that changes unseen. */
static void scenario__draws_trees_wraps_and_every_size_in_their_shares(void **state)
{
	uint32_t trees = 0, wraps = 0, shards[SIM_SHARDS_MAX + 1] = { 0 }, lanes[361] = { 0 };
	uint32_t workers[SIM_WORKERS_MAX + 1] = { 0 }, gathers[LANES_TYPES] = { 0 }, scatters = 0;
	struct scenario scenario;

	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		scenario_draw(&scenario, seed, SCENARIO_ANY);
		assert_in_range(scenario.run, 1, 40);
		trees += scenario.shard[0].engines > 1;
		wraps += scenario.seq_first > UINT32_MAX - 100;
		shards[scenario.shards]++;
		lanes[scenario.lanes]++;
		workers[scenario.workers]++;
		for (uint32_t i = 0; i < scenario.ops; i++) {
			gathers[scenario.op[i].type] += scenario.op[i].op == LANES_COPY;
			scatters += scenario.op[i].op != LANES_COPY && scenario.op[i].parts;
		}
	}
	assert_in_range(trees, 800, 1200);
	assert_in_range(wraps, 800, 1200);
	for (uint32_t i = 1; i <= SIM_SHARDS_MAX; i++)
		assert_true(shards[i] > 400);
	for (uint32_t i = 1; i <= SIM_WORKERS_MAX; i++)
		assert_true(workers[i] > 150);
	for (uint32_t i = 0; i < LANES_TYPES; i++)
		assert_true(gathers[i] > 50);
	assert_true(scatters > 1000);
	assert_true(lanes[4] > 300 && lanes[8] > 300 && lanes[64] > 300 && lanes[360] > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run__same_seed_sends_the_same_packets),
		cmocka_unit_test(run__every_kind_of_scenario_ends_without_violation),
		cmocka_unit_test(run__without_loss_nothing_is_sent_twice),
		cmocka_unit_test(run__disagreement_is_seen),
		cmocka_unit_test(run__crashes_end_in_another_life_or_in_an_error),
		cmocka_unit_test(run__short_queues_lose_packets_and_nothing_else),
		cmocka_unit_test(run__jobs_share_switches_and_all_finish),
		cmocka_unit_test(scenario__deep_trees_have_three_levels),
		cmocka_unit_test(scenario__draws_trees_wraps_and_every_size_in_their_shares),
	};

	return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
