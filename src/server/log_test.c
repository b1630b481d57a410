/* SPDX-License-Identifier: Apache-2.0 */
/* log_test.c - what tallyd's lines say, word for word: of packets, of who is refused, of filters, of a job's sums.
 * The clock is the test's. */
#include "server/inside_fixture.h"

#include <time.h>

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	now->tv_sec = (time_t)(test.now_ns / second_ns);
	now->tv_nsec = (long)(test.now_ns % second_ns);
	return 0;
}

/* ---- packets ---- */

static void log__of_packets_each_reason_has_its_name_and_number(void **state)
{
	struct engine_stats stats = { .packets_in = 1234567890123, .hello_unknown = 16 };

	(void)state;
	for (uint32_t i = 0; i < WIRE_FAULT_COUNT; i++)
		stats.fault[i] = i;
	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++)
		stats.verdict[i] = 1 + i;
	server_say_stats(&test.server, 3, &stats);
	assert_int_equal(test.lines, 1);
	assert_line(
		0, SERVER_INFO, "", SERVER_RANK_NONE,
		"shard 3: 1234567890123 packets in; dropped: too short 1, version 2, type 3, "
		"lanes 4, length 5, flags 6, not for a switch 7, job 8, generation 9, child 10, "
		"slot 11, more lanes than agreed 12, address 13, stale 14, alarm 15, hello that "
		"binds nobody 16");
	stats = (struct engine_stats){ .verdict[SWITCH_DROP_STALE] = 2 };
	stats.fault[WIRE_OK] = stats.verdict[SWITCH_ABSORB] = stats.verdict[SWITCH_MISMATCH] = 9;
	server_say_stats(&test.server, 0, &stats);
	assert_line(1, SERVER_INFO, "", SERVER_RANK_NONE,
		    "shard 0: 0 packets in; dropped: stale 2");
}

static void log__of_packets_that_the_kernel_added_there_is_a_second_line(void **state)
{
	struct engine_stats stats = { .packets_in = 8 };

	(void)state;
	stats.hooked[SWITCH_MULTICAST] = 5;
	stats.hooked[SWITCH_REPLY] = 7;
	server_say_stats(&test.server, 1, &stats);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_INFO, "", SERVER_RANK_NONE, "shard 1: 8 packets in; dropped: none");
	stats.hooked[SWITCH_ABSORB] = 1;
	server_say_stats(&test.server, 1, &stats);
	assert_int_equal(test.lines, 3);
	assert_line(2, SERVER_INFO, "", SERVER_RANK_NONE,
		    "shard 1, kernel: 1 packets added, 5 completed a round, 7 answered");
}

static void log__of_tables_each_reason_has_its_name_and_number(void **state)
{
	struct engine_sparse_stats stats = { .packets_in = 1000,
					     .pairs = 2000,
					     .flips = 30,
					     .parts_first = 400,
					     .parts_again = 5,
					     .unknown_table = 61,
					     .wrong_address = 72,
					     .overtaken = 83 };

	(void)state;
	for (uint32_t i = 0; i < WIRE_FAULT_COUNT; i++)
		stats.fault[i] = i;
	for (uint32_t i = 0; i < SWITCH_SPARSE_VERDICT_COUNT; i++)
		stats.verdict[i] = 2 + i;
	server_say_table_stats(&test.server, 1, &stats);
	assert_int_equal(test.lines, 1);
	assert_line(
		0, SERVER_INFO, "", SERVER_RANK_NONE,
		"shard 1, tables: 1000 packets in, 2000 pairs added, 30 epochs, 405 parts of "
		"flushes, 5 of them again; dropped: too short 1, version 2, type 3, lanes 4, "
		"length 5, flags 6, not for a switch 7, generation 8, map 9, worker 10, shape 11, "
		"stale 12, no such table 61, address 72, hello that was overtaken 83");
}

static void log__of_tables_without_a_packet_there_is_no_line(void **state)
{
	struct engine_sparse_stats stats = { .flips = 3, .recirculated = 4 };

	(void)state;
	test.server.options.registers = 16;
	server_say_table_stats(&test.server, 0, &stats);
	assert_int_equal(test.lines, 0);
	stats.packets_in = 1;
	stats.recirculations = 7;
	stats.passes_again = 6;
	stats.verdict[SWITCH_SPARSE_ADDED] = 5;
	server_say_table_stats(&test.server, 0, &stats);
	assert_int_equal(test.lines, 2);
	assert_line(
		0, SERVER_INFO, "", SERVER_RANK_NONE,
		"shard 0, tables: 1 packets in, 0 pairs added, 3 epochs, 0 parts of flushes, 0 of "
		"them again; dropped: none");
	assert_line(
		1, SERVER_INFO, "", SERVER_RANK_NONE,
		"shard 0, tables: a chip of 16 registers had recirculated 4 of 5 pushes, 7 times; "
		"if all registers take a pair each time, 6 times");
}

static void log__a_report_is_of_the_shard_that_has_answered(void **state)
{
	(void)state;
	test.server.is_reporting[0] = test.server.is_reporting[1] = true;
	test.server.shard_reports[0].stats.packets_in = 4;
	test.server.shard_reports[1].stats.packets_in = 5;
	test.server.shard_reports[1].tables.packets_in = 6;
	server_say_report(&test.server, 1);
	assert_true(test.server.is_reporting[0]);
	assert_false(test.server.is_reporting[1]);
	assert_int_equal(test.lines, 2);
	assert_string_equal(test.line[0].text, "shard 1: 5 packets in; dropped: none");
	assert_non_null(strstr(test.line[1].text, "shard 1, tables: 6 packets in, "));
}

/* ---- so many a second ---- */

static void log__strangers_have_ten_lines_a_second_and_the_rest_is_counted(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 13; i++) {
		test.now_ns += second_ns / 14;
		if (i % 2)
			server_say_stranger_job(&test.server, "odd", i, "line %u", i);
		else
			server_say_stranger(&test.server, "line %u", i);
	}
	assert_int_equal(test.lines, 10);
	assert_line(8, SERVER_WARN, "", SERVER_RANK_NONE, "line 8");
	assert_line(9, SERVER_WARN, "odd", 9, "line 9");
	test.now_ns += second_ns;
	for (uint32_t i = 0; i < 10; i++)
		server_say_stranger(&test.server, "again %u", i);
	assert_int_equal(test.lines, 21);
	assert_line(10, SERVER_WARN, "", SERVER_RANK_NONE, "3 more lines like these were left out");
	assert_line(20, SERVER_WARN, "", SERVER_RANK_NONE, "again 9");
	test.now_ns += second_ns; /* ten were all that there were */
	server_say_stranger(&test.server, "last");
	assert_int_equal(test.lines, 22);
	assert_line(21, SERVER_WARN, "", SERVER_RANK_NONE, "last");
}

static void log__what_a_peer_sends_forges_no_line(void **state)
{
	(void)state;
	server_say(&test.server, SERVER_ERROR, "from %s", "a\nb\033[2Jc");
	assert_line(0, SERVER_ERROR, "", SERVER_RANK_NONE, "from a?b?[2Jc");
	test.server.options.log = NULL;
	server_say(&test.server, SERVER_ERROR, "nobody hears");
	assert_int_equal(test.lines, 1);
}

/* ---- who is refused ---- */

static struct engine_event refused(enum engine_refusal why, uint16_t job, uint16_t child,
				   uint32_t count)
{
	return (struct engine_event){
		.type = ENGINE_REFUSED,
		.job = job,
		.child = child,
		.count = count,
		.refusal = why,
		.address = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9 }, .port = 4000 }
	};
}

static void say_refused(uint32_t shard, struct engine_event notice)
{
	test.now_ns += second_ns;
	server_say_refused(&test.server, shard, &notice);
}

static void log__of_whom_packets_were_dropped_is_said_with_where_they_came_from(void **state)
{
	(void)state;
	inside_job(1, "second", ADMISSION_STARTED, 2);
	say_refused(2, refused(ENGINE_REFUSED_ADDRESS, 1, 3, 1));
	assert_line(0, SERVER_WARN, "second", 3,
		    "shard 2: 1 packet dropped, the last from 10.0.0.9:4000 as rank 3 of job "
		    "second: the address is not that rank's (has it changed?)");
	say_refused(2, refused(ENGINE_REFUSED_GENERATION, 0, 4, 2));
	assert_line(1, SERVER_WARN, "", 4,
		    "shard 2: 2 packets dropped, the last from 10.0.0.9:4000 as rank 4 of job "
		    "(none): the generation is not the job's (of an earlier job?)");
	say_refused(2, refused(ENGINE_REFUSED_NONCE, JOBS, 5, 7));
	assert_line(2, SERVER_WARN, "", 5,
		    "shard 2: 7 packets dropped, the last from 10.0.0.9:4000 as rank 5 of job "
		    "(none): a HELLO without the nonce of that rank, or an old one");
	say_refused(2, refused(ENGINE_REFUSED_TABLE_ADDRESS, 1, 6, 7));
	assert_line(3, SERVER_WARN, "", 6,
		    "shard 2: 7 packets dropped, the last from 10.0.0.9:4000 as rank 6 of job "
		    "(none): the address is not that worker's (has it changed?)");
	assert_int_equal(test.lines, 4);
}

static void log__a_hello_may_be_a_ranks_or_a_workers_and_no_other_packet_is(void **state)
{
	struct table table = { .shard = 1, .open.table = "emb" };

	(void)state;
	inside_job(1, "second", ADMISSION_STARTED, 2);
	test.server.tables[1] = &table;
	say_refused(1, refused(ENGINE_REFUSED_NONCE, 1, 3, 4));
	assert_line(
		0, SERVER_WARN, "second", 3,
		"shard 1: 4 packets dropped, the last from 10.0.0.9:4000 as rank 3 of job second "
		"or worker 3 of table emb: a HELLO without the nonce of that rank, or an old one");
	say_refused(0, refused(ENGINE_REFUSED_NONCE, 1, 3, 4)); /* of another shard */
	assert_line(1, SERVER_WARN, "second", 3,
		    "shard 0: 4 packets dropped, the last from 10.0.0.9:4000 as rank 3 of job "
		    "second: a HELLO without the nonce of that rank, or an old one");
	say_refused(1, refused(ENGINE_REFUSED_TABLE_GENERATION, 1, 8, 4));
	assert_line(2, SERVER_WARN, "", 8,
		    "shard 1: 4 packets dropped, the last from 10.0.0.9:4000 as worker 8 of table "
		    "emb: the generation is not the table's (of before a fence?)");
	say_refused(1, refused(ENGINE_REFUSED_ADDRESS, 1, 3, 4));
	assert_null(strstr(test.line[3].text, "emb"));
	test.jobs[1] = NULL;
	say_refused(1, refused(ENGINE_REFUSED_NONCE, 1, 2, 4));
	assert_non_null(strstr(test.line[4].text, " as worker 2 of table emb: a HELLO"));
}

static void log__of_the_refused_there_are_ten_lines_a_second_besides_the_strangers(void **state)
{
	struct engine_event notice = refused(ENGINE_REFUSED_ADDRESS, 0, 3, 1);

	(void)state;
	for (uint32_t i = 0; i < 11; i++) {
		server_say_refused(&test.server, 0, &notice);
		server_say_stranger(&test.server, "stranger");
	}
	assert_int_equal(test.lines, 20);
}

/* ---- filters ---- */

static void log__of_a_filter_is_said_whether_it_is_back(void **state)
{
	struct hook_news news = { .device = "eth7", .error = -2 };

	(void)state;
	server_say_hook(&test.server, 1, &news);
	assert_line(
		0, SERVER_WARN, "", SERVER_RANK_NONE,
		"shard 1: the filter at eth7 is gone and cannot be put back, so the threads add "
		"what comes there: No such file or directory");
	news.error = 0;
	server_say_hook(&test.server, 1, &news);
	assert_line(1, SERVER_WARN, "", SERVER_RANK_NONE,
		    "shard 1: the filter at eth7 was gone, and is back: meanwhile the threads have "
		    "added what came there");
}

/* ---- a job's sums ---- */

static void totals_of(uint64_t updates, uint64_t again, uint64_t results)
{
	struct engine_job_stats stats = { .updates = updates, .again = again, .results = results };

	test.job[0].config.shards = 1;
	totals_begin(&test.job[0]);
	test.now_ns += 3 * second_ns / 2;
	totals_end(&test.server, &test.job[0], &stats);
}

static void totals__are_said_when_the_last_shard_has_told(void **state)
{
	struct engine_job_stats stats = { .updates = 1000, .again = 3, .results = 400 };

	(void)state;
	inside_job(0, "first", ADMISSION_GATHER, 2);
	test.job[0].config.shards = 3;
	totals_begin(&test.job[0]);
	test.now_ns += 20 * second_ns;
	totals_end(&test.server, &test.job[0], &stats);
	totals_end(&test.server, &test.job[0], &stats);
	assert_int_equal(test.lines, 0);
	stats = (struct engine_job_stats){ .updates = 2000, .again = 2, .results = 100 };
	totals_end(&test.server, &test.job[0], &stats);
	assert_int_equal(test.lines, 1);
	assert_line(
		0, SERVER_INFO, "first", SERVER_RANK_NONE,
		"job first: over after 20.0 s: 4000 packets in, 900 sums out; 8 packets (0.20 %) "
		"came again");
	totals_end(&test.server, &test.job[0], &stats); /* there is nothing to tell any more */
	assert_int_equal(test.lines, 1);
	totals_of(0, 0, 0); /* no packet came */
	assert_int_equal(test.lines, 1);
	stats = (struct engine_job_stats){ .updates = 10, .results = 5, .hooked = 9 };
	test.job[0].config.shards = 2;
	totals_begin(&test.job[0]);
	totals_end(&test.server, &test.job[0], &stats);
	totals_end(&test.server, &test.job[0], &stats);
	assert_line(1, SERVER_INFO, "first", SERVER_RANK_NONE,
		    "job first: over after 0.0 s: 20 packets in (18 served by the kernel), 10 sums "
		    "out; 0 packets (0.00 %) came again");
	test.lines = 1;
	totals_of(50, 0, 25); /* of the second life alone */
	assert_line(1, SERVER_INFO, "first", SERVER_RANK_NONE,
		    "job first: over after 1.5 s: 50 packets in, 25 sums out; 0 packets (0.00 %) "
		    "came again");
}

static void totals__of_one_in_a_hundred_and_ten_at_least_that_came_again_warn(void **state)
{
	(void)state;
	inside_job(0, "first", ADMISSION_GATHER, 2);
	totals_of(1000, 10, 500);
	assert_line(
		0, SERVER_WARN, "first", SERVER_RANK_NONE,
		"job first: over after 1.5 s: 1000 packets in, 500 sums out; 10 packets (1.00 %) "
		"came again, for they had been lost: tally doctor on its hosts says how many are");
	totals_of(1001, 10, 500); /* less than 1 % */
	totals_of(100, 9, 50);    /* few */
	/* In latency mode packets come again while another rank computes. */
	test.job[0].admission->latency_slots = 8;
	totals_of(1000, 500, 500);
	test.job[0].admission->latency_slots = 0;
	for (uint32_t i = 1; i < 4; i++) {
		assert_int_equal(test.line[i].level, SERVER_INFO);
		assert_null(strstr(test.line[i].text, "doctor"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		INSIDE_TEST(log__of_packets_each_reason_has_its_name_and_number),
		INSIDE_TEST(log__of_packets_that_the_kernel_added_there_is_a_second_line),
		INSIDE_TEST(log__of_tables_each_reason_has_its_name_and_number),
		INSIDE_TEST(log__of_tables_without_a_packet_there_is_no_line),
		INSIDE_TEST(log__a_report_is_of_the_shard_that_has_answered),
		INSIDE_TEST(log__strangers_have_ten_lines_a_second_and_the_rest_is_counted),
		INSIDE_TEST(log__what_a_peer_sends_forges_no_line),
		INSIDE_TEST(log__of_whom_packets_were_dropped_is_said_with_where_they_came_from),
		INSIDE_TEST(log__a_hello_may_be_a_ranks_or_a_workers_and_no_other_packet_is),
		INSIDE_TEST(log__of_the_refused_there_are_ten_lines_a_second_besides_the_strangers),
		INSIDE_TEST(log__of_a_filter_is_said_whether_it_is_back),
		INSIDE_TEST(totals__are_said_when_the_last_shard_has_told),
		INSIDE_TEST(totals__of_one_in_a_hundred_and_ten_at_least_that_came_again_warn),
	};

	return cmocka_run_group_tests_name("server-log", tests, NULL, NULL);
}
