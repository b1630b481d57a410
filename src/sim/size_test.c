/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/size.h"

static struct size_options small(void)
{
	return (struct size_options){ .children = { 8 },
				      .levels = 1,
				      .link_bps = 10000000000,
				      .uplink_bps = 10000000000,
				      .delay_ns = 1000,
				      .poll_ns = 5000,
				      .queue_bytes = 1 << 20,
				      .message_bytes = 1 << 20,
				      .slots = 704,
				      .window = 154,
				      .lanes = 360,
				      .run = 44,
				      .seed = 1 };
}

static struct size_report run(const struct size_options *options)
{
	struct size_report report;

	size_run(options, &report, NULL);
	assert_string_equal(report.failure, "");
	return report;
}

static void size__flat_network_is_as_fast_as_its_cables(void **state)
{
	struct size_options options = small();
	struct size_report report = run(&options);

	(void)state;
	assert_int_equal(report.chunks, ((1 << 18) + 359) / 360);
	/* A packet is 24 + 1,440 bytes and 46 around it. */
	assert_int_equal(report.ideal_ns, report.chunks * 1510 * 8 / 10);
	assert_in_range(report.tat_ns, report.ideal_ns, report.ideal_ns * 103 / 100);
	assert_int_equal(report.updates, 8 * report.chunks);
	assert_int_equal(report.resent, 0);
	assert_int_equal(report.lost, 0);
	options.link_bps = options.uplink_bps = 1000000000;
	struct size_report slow = run(&options);
	assert_in_range(slow.tat_ns, 97 * report.tat_ns / 10, 106 * report.tat_ns / 10);
}

/* Whoever asks again too early fills the queue with answers: 38 times the line's time, when the back-off ended at
 * 10 ms. */
static void size__slow_cables_behind_long_queues_carry_most_of_what_they_can(void **state)
{
	struct size_options options = small();

	(void)state;
	options.children[0] = 4;
	options.link_bps = options.uplink_bps = 4000000;
	options.queue_bytes = 8 << 20;
	options.message_bytes = 4 << 20;
	struct size_report report = run(&options);
	assert_int_equal(report.lost, 0);
	assert_in_range(report.tat_ns, report.ideal_ns, report.ideal_ns * 5 / 4);
}

static struct size_options four_on_slow_links(uint64_t message_bytes)
{
	struct size_options options = small();

	options.children[0] = 4;
	options.link_bps = options.uplink_bps = 250000000;
	options.delay_ns = 20000;
	options.poll_ns = 50000;
	options.message_bytes = message_bytes;
	return options;
}

/* R-PACE-3: workers drift apart with every loss. If the time of a slot ran on while results come, each loss would cost several
 * times as much (RESULT_TIME in docs/ablations.md). */
static void size__loss_costs_little_where_workers_drift_apart(void **state)
{
	struct size_options options = four_on_slow_links(40 << 20);

	(void)state;
	options.seed = 3;
	struct size_report clean = run(&options);
	assert_int_equal(clean.probes, 0);
	assert_in_range(clean.tat_ns, clean.ideal_ns, clean.ideal_ns * 1005 / 1000);
	options.loss = 0.001;
	struct size_report lossy = run(&options);
	assert_true(lossy.lost > 0);
	assert_in_range(lossy.tat_ns, clean.tat_ns, clean.tat_ns * 1006 / 1000);
	options.loss = 0.01;
	lossy = run(&options);
	assert_in_range(lossy.tat_ns, clean.tat_ns, clean.tat_ns * 1025 / 1000);
	/* Of 100 chunks 4 UPDATEs and 4 RESULTs are lost; all four workers ask for each of those UPDATEs. */
	assert_in_range(lossy.probes * 100 / lossy.chunks, 20, 30);
}

/* R-PACE-3, R-PACE-11: three wait for one that has no processor for 20 ms in every 100, and ask for hardly anything. More
 * packets than without pauses would be answers of full size: 1 % of them is at most 1 % of the bytes. */
static void size__a_straggler_costs_its_time_and_no_bytes(void **state)
{
	struct size_options options = four_on_slow_links(20 << 20);

	(void)state;
	struct size_report clean = run(&options);
	options.pause_ns = 20000000;
	struct size_report late = run(&options);
	assert_in_range(late.packets, clean.packets, clean.packets * 101 / 100);
	assert_in_range(late.tat_ns, clean.tat_ns * 11 / 10, clean.tat_ns * 125 / 100);
}

static void size__tree_costs_round_trips_and_no_bandwidth(void **state)
{
	struct size_options options = small();
	struct size_report flat = run(&options);

	(void)state;
	options.children[1] = options.children[0];
	options.children[2] = 2;
	options.levels = 3;
	struct size_report tree = run(&options);
	assert_int_equal(tree.workers, 128);
	assert_int_equal(tree.switches, 1 + 8 + 64);
	assert_in_range(tree.tat_ns, flat.tat_ns, flat.tat_ns * 105 / 100);
}

static void size__aggregator_with_one_cable_is_a_parameter_server(void **state)
{
	struct size_options options = small();

	(void)state;
	options.hub_bps = options.link_bps;
	options.window = 16; /* else its queue runs over */
	struct size_report report = run(&options);
	assert_in_range(report.tat_ns, 8 * report.ideal_ns, 9 * report.ideal_ns);
}

static void size__loss_and_short_queues_cost_time_and_copies(void **state)
{
	struct size_options options = small();
	struct size_report clean = run(&options);

	(void)state;
	options.loss = 0.01;
	struct size_report lossy = run(&options);
	assert_true(lossy.tat_ns > clean.tat_ns);
	assert_in_range(lossy.resent * 1000 / lossy.updates, 8, 60);
	assert_in_range(lossy.lost * 1000 / lossy.packets, 7, 13);
	options.loss = 0;
	options.hub_bps = options.link_bps;
	options.queue_bytes = 16 * 1510;
	struct size_report queue = run(&options);
	assert_true(queue.lost > 0);
	assert_true(queue.resent > 0);
}

/* The most that waits at a hub in the second half of a run. */
static uint64_t late_queue(const struct size_report *report)
{
	uint64_t most = 0;

	for (uint32_t i = report->looks / 2; i < report->looks; i++) {
		if (report->look[i].in_bytes > most)
			most = report->look[i].in_bytes;
		if (report->look[i].out_bytes > most)
			most = report->look[i].out_bytes;
	}
	return most;
}

/* R-WIN-3: below a core of a quarter of what the workers' cables carry. 2 ms of it are 6.25 MB. Who yields falls behind the
 * others by what it gives up, once: 5.4 ms. Their results pause meanwhile, and R-PACE-11 sees that nothing is lost. */
static void size__windows_that_follow_keep_the_queue_of_a_core_short(void **state)
{
	struct size_options options = small();

	(void)state;
	options.children[0] = 100;
	options.link_bps = options.uplink_bps = 1000000000;
	options.hub_bps = 25000000000;
	options.queue_bytes = 64 << 20;
	options.message_bytes = 12 << 20;
	struct size_report follows = run(&options);
	assert_int_equal(follows.probes, 0);
	options.is_fixed = true;
	struct size_report fixed = run(&options);
	assert_true(late_queue(&follows) < 10000000);
	assert_true(late_queue(&fixed) > 15000000);
	assert_true(follows.tat_ns < fixed.tat_ns * 102 / 100);
}

static void size__few_slots_leave_the_cable_idle(void **state)
{
	struct size_options options = small();
	struct size_report many = run(&options);

	(void)state;
	options.slots = 16;
	options.window = 3;
	options.run = 1;
	struct size_report few = run(&options);
	assert_true(few.tat_ns > 2 * many.tat_ns);
	assert_int_equal(few.switch_bytes, many.switch_bytes * 16 / 704);
}

/* The words are read as a command line, in memory of its own: reading takes lists apart. */
static void read_words(struct size_request *request, int status, const char *words)
{
	char text[300] = "tally sim ";
	char *argv[12], *rest = text;
	int argc = 0;

	strncat(text, words, sizeof(text) - strlen(text) - 1);
	text[5] = '-'; /* one word */
	for (char *word; (word = strsep(&rest, " ")) != NULL;)
		argv[argc++] = word;
	argv[argc] = NULL;
	assert_int_equal(size_read(argc, argv, request), status);
}

static void size__options_are_read_with_their_units(void **state)
{
	static struct size_request request;

	(void)state;
	read_words(&request, 0,
		   "--topology=32x32 --link=25gbit --loss=0.1% --slots=64,128,256 --message=2M "
		   "--delay=3us");
	assert_int_equal(size_workers(&request.option[2]), 1024);
	assert_int_equal(size_switches(&request.option[2]), 33);
	assert_int_equal(request.option[2].link_bps, 25000000000);
	assert_int_equal(request.option[2].uplink_bps, 25000000000);
	assert_int_equal(request.option[2].message_bytes, 2 << 20);
	assert_int_equal(request.option[2].delay_ns, 3000);
	assert_true(request.option[2].loss > 0.00099 && request.option[2].loss < 0.00101);
	assert_int_equal(request.points, 3);
	assert_string_equal(request.swept, "slots");
	assert_int_equal(request.option[0].slots, 64);
	assert_int_equal(request.option[1].window, (128 - 16) / 4);
	assert_int_equal(request.option[2].slots, 256);
}

static void size__wrong_options_are_refused(void **state)
{
	static const char *const wrong[] = {
		"--topology=0",
		"--topology=8x",
		"--topology=300",
		"--topology=8x-2",
		"--topology=x8",
		"--topology=250x250",
		"--topology=8 --link=10",
		"--topology=8 --loss=2",
		"--topology=8 --lanes=7",
		"--topology=8 --slots=1",
		"--topology=8 --message=1.5",
		"--topology=8 --delay=1s",
		"--topology=8 --seed=x",
		"--topology=8 --slots=64,,8",
		"--topology=8 --plot=a.svg",
		"--topology=8 --plot=a.jpeg --slots=64,128",
		"--topology=8 --topology=16",
		"--topology=8 --slots=64,128 --loss=0,0.1",
		"--topology=8 --slots=64 --slots=64",
		"--topology=8 file",
	};
	static struct size_request request;

	(void)state;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		read_words(&request, 2, wrong[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size__flat_network_is_as_fast_as_its_cables),
		cmocka_unit_test(size__slow_cables_behind_long_queues_carry_most_of_what_they_can),
		cmocka_unit_test(size__loss_costs_little_where_workers_drift_apart),
		cmocka_unit_test(size__a_straggler_costs_its_time_and_no_bytes),
		cmocka_unit_test(size__tree_costs_round_trips_and_no_bandwidth),
		cmocka_unit_test(size__aggregator_with_one_cable_is_a_parameter_server),
		cmocka_unit_test(size__loss_and_short_queues_cost_time_and_copies),
		cmocka_unit_test(size__windows_that_follow_keep_the_queue_of_a_core_short),
		cmocka_unit_test(size__few_slots_leave_the_cable_idle),
		cmocka_unit_test(size__options_are_read_with_their_units),
		cmocka_unit_test(size__wrong_options_are_refused),
	};

	return cmocka_run_group_tests_name("size", tests, NULL, NULL);
}
