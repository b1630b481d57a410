/* SPDX-License-Identifier: Apache-2.0 */
/* say_test.c - lines for the log, word for word: how many of strangers, and what is said of dropped packets. The
 * clock and what was counted are the test's. */
#include "ps/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LINES_MAX = 32, TABLES = 2 };

static struct {
	struct ps_server server;
	struct link link;
	uint64_t now_ns;
	uint32_t lines;
	enum ps_level level[LINES_MAX];
	char line[LINES_MAX][PS_LINE_BYTES];
	struct ps_about about[LINES_MAX];
	struct ps_table table[TABLES];
	struct home_sparse_stats stats[TABLES];
	struct engine_sparse_stats inside;
} test;

static void hear(void *arg, enum ps_level level, const struct ps_about *about, const char *line)
{
	assert_ptr_equal(arg, &test);
	assert_true(test.lines < LINES_MAX);
	assert_true(strlen(line) < PS_LINE_BYTES);
	test.level[test.lines] = level;
	test.about[test.lines] = *about;
	snprintf(test.line[test.lines++], PS_LINE_BYTES, "%s", line);
}

static uint64_t now(struct link *link)
{
	assert_ptr_equal(link, &test.link);
	return test.now_ns;
}

const struct home_sparse_stats *__wrap_home_sparse_stats(const struct home_sparse *home);
const struct engine_sparse_stats *__wrap_engine_sparse_stats(const struct engine_sparse *engine);

/* A home is the place of its table. */
const struct home_sparse_stats *__wrap_home_sparse_stats(const struct home_sparse *home)
{
	for (uint32_t i = 0; i < TABLES; i++)
		if ((const void *)home == (const void *)&test.table[i])
			return &test.stats[i];
	fail_msg("no such table");
	return NULL;
}

const struct engine_sparse_stats *__wrap_engine_sparse_stats(const struct engine_sparse *engine)
{
	assert_null(engine);
	return &test.inside;
}

static int setup(void **state)
{
	static const struct link_ops ops = { .now_ns = now };
	static const char *const names[TABLES] = { "emb", "wide" };

	(void)state;
	memset(&test, 0, sizeof(test));
	test.now_ns = 5000000001;
	test.link.ops = &ops;
	test.server.link = &test.link;
	test.server.options.log = hear;
	test.server.options.arg = &test;
	test.server.hosted_count = TABLES;
	for (uint32_t i = 0; i < TABLES; i++) {
		test.table[i].home = (struct home_sparse *)(void *)&test.table[i];
		test.server.hosted[i].table = &test.table[i];
		strcpy(test.server.hosted[i].options.table.name, names[i]);
	}
	return 0;
}

static void assert_line(uint32_t i, enum ps_level level, const char *text)
{
	assert_true(i < test.lines);
	assert_string_equal(test.line[i], text);
	assert_int_equal(test.level[i], level);
}

static void say__what_others_send_forges_no_line(void **state)
{
	char longest[PS_LINE_BYTES + 9];

	(void)state;
	ps_log(&test.server, PS_DEBUG, ps_about(NULL, NULL), "host %s, %u", "a\nb\033[2J", 7);
	assert_line(0, PS_DEBUG, "host a?b?[2J, 7");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	ps_log(&test.server, PS_ERROR, ps_about(NULL, NULL), "%s", longest);
	longest[PS_LINE_BYTES - 1] = 0;
	assert_line(1, PS_ERROR, longest);
}

static void assert_about(uint32_t i, const char *table, const char *job, int worker)
{
	const struct ps_about *about = &test.about[i];

	assert_int_equal(about->table != NULL, table != NULL);
	assert_int_equal(about->job != NULL, job != NULL);
	assert_string_equal(about->table ? about->table : "", table ? table : "");
	assert_string_equal(about->job ? about->job : "", job ? job : "");
	assert_int_equal(about->worker, worker);
}

static void say__line_has_whom_it_is_about(void **state)
{
	const struct ps_hosted *hosted = &test.server.hosted[0];
	struct ps_conn conn = { .is_welcome = true, .worker = 3, .job = "a.0" };

	(void)state;
	ps_log(&test.server, PS_INFO, ps_about(hosted, &conn), "%s has come", "worker 3");
	assert_line(0, PS_INFO, "table emb: worker 3 has come");
	assert_about(0, "emb", "a.0", 3);
	ps_log_stranger(&test.server, ps_about(NULL, &conn), "refused");
	assert_line(1, PS_WARN, "refused");
	assert_about(1, NULL, "a.0", 3);
	conn.is_welcome = false; /* what it says of itself is not known to be true */
	ps_log(&test.server, PS_INFO, ps_about(NULL, &conn), "refused");
	assert_about(2, NULL, NULL, -1);
	ps_log(&test.server, PS_INFO, ps_about(NULL, NULL), "none");
	assert_about(3, NULL, NULL, -1);
	conn = (struct ps_conn){ .is_welcome = true }; /* of no job, and rank 0 */
	ps_log(&test.server, PS_INFO, ps_about(NULL, &conn), "0");
	assert_about(4, NULL, NULL, 0);
}

static void say__table_is_named_once(void **state)
{
	const struct ps_hosted *hosted = &test.server.hosted[1];
	char longest[2 * PS_LINE_BYTES];

	(void)state;
	ps_log(&test.server, PS_ERROR, ps_about(hosted, NULL), "table wide: no checkpoint");
	assert_line(0, PS_ERROR, "table wide: no checkpoint");
	ps_log(&test.server, PS_ERROR, ps_about(hosted, NULL), "table wid: no checkpoint");
	assert_line(1, PS_ERROR, "table wide: table wid: no checkpoint");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	ps_log(&test.server, PS_ERROR, ps_about(hosted, NULL), "%s", longest);
	memcpy(longest, "table wide: ", 12);
	longest[PS_LINE_BYTES - 1] = 0;
	assert_line(2, PS_ERROR, longest);
	assert_about(2, "wide", NULL, -1);
}

static void say__strangers_have_ten_lines_a_second_and_the_rest_is_counted(void **state)
{
	char line[32];

	(void)state;
	for (uint32_t i = 0; i < 12; i++) {
		test.now_ns += 1000000000 / 12 - 1;
		ps_log_stranger(&test.server, ps_about(NULL, NULL), "stranger %u", i);
	}
	assert_int_equal(test.lines, 10);
	for (uint32_t i = 0; i < 10; i++) {
		snprintf(line, sizeof(line), "stranger %u", i);
		assert_line(i, PS_WARN, line);
	}
	test.now_ns = 6000000000;
	for (uint32_t i = 0; i < 10; i++)
		ps_log_stranger(&test.server, ps_about(NULL, NULL), "again %u", i);
	assert_int_equal(test.lines, 21);
	assert_line(10, PS_WARN, "2 more lines like these were left out");
	assert_line(11, PS_WARN, "again 0");
	assert_line(20, PS_WARN, "again 9");
	test.now_ns = 7000000000; /* ten were all that there were */
	ps_log_stranger(&test.server, ps_about(NULL, NULL), "last");
	assert_int_equal(test.lines, 22);
	assert_line(21, PS_WARN, "last");
	test.now_ns += 999999999;
	ps_log(&test.server, PS_INFO, ps_about(NULL, NULL), "one of its own");
	for (uint32_t i = 0; i < 10; i++)
		ps_log_stranger(&test.server, ps_about(NULL, NULL), "more");
	assert_int_equal(test.lines, 32); /* nine of them */
}

static void dropped__is_said_as_it_doubles(void **state)
{
	static const uint64_t sums[] = { 0, 1, 1, 2, 3, 4, 7, 8, 100 };
	static const uint32_t lines[] = { 0, 1, 1, 2, 2, 3, 3, 4, 5 };

	(void)state;
	for (uint32_t i = 0; i < 9; i++) {
		test.stats[1].strangers = sums[i];
		ps_dropped_turn(&test.server);
		assert_int_equal(test.lines, lines[i]);
	}
	assert_line(0, PS_INFO,
		    "table wide: dropped since the start: 1 packets from another address, 0 of "
		    "another generation, 0 with another nonce or an old serial");
	assert_line(4, PS_WARN,
		    "table wide: dropped since the start: 100 packets from another address, 0 of "
		    "another generation, 0 with another nonce or an old serial");
	test.stats[0].generation = 3; /* each table, and the switches, for itself */
	test.inside.wrong_nonce = test.inside.overtaken = 1;
	ps_dropped_turn(&test.server);
	assert_int_equal(test.lines, 7);
	assert_line(5, PS_INFO,
		    "the switches inside: dropped since the start: 0 packets from another address, "
		    "0 of another generation, 2 with another nonce or an old serial");
	assert_line(6, PS_INFO,
		    "table emb: dropped since the start: 0 packets from another address, 3 of "
		    "another generation, 0 with another nonce or an old serial");
	test.server.hosted[0].nonces_wrong = 2; /* with the others 5: not twice as many */
	ps_dropped_turn(&test.server);
	assert_int_equal(test.lines, 7);
	test.server.hosted[0].nonces_wrong = 3;
	ps_dropped_turn(&test.server);
	assert_int_equal(test.lines, 8);
}

static void dropped__is_reported_however_little_it_is(void **state)
{
	(void)state;
	test.inside.wrong_address = 11;
	test.inside.verdict[SWITCH_SPARSE_DROP_GENERATION] = 22;
	test.inside.verdict[SWITCH_SPARSE_DROP_STALE] = 500;
	test.inside.wrong_nonce = 20;
	test.inside.overtaken = 10; /* 63 */
	test.stats[0] = (struct home_sparse_stats){ .strangers = 7, .generation = 20 };
	test.server.hosted[0].addresses_wrong = 3;
	test.server.hosted[0].nonces_wrong = 34; /* 64 */
	ps_dropped_report(&test.server);
	assert_int_equal(test.lines, 3);
	assert_line(
		0, PS_INFO,
		"the switches inside: dropped since the start: 11 packets from another address, "
		"22 of another generation, 30 with another nonce or an old serial");
	assert_line(1, PS_WARN,
		    "table emb: dropped since the start: 10 packets from another address, 20 of "
		    "another generation, 34 with another nonce or an old serial");
	assert_line(2, PS_INFO,
		    "table wide: dropped since the start: 0 packets from another address, 0 of "
		    "another generation, 0 with another nonce or an old serial");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(say__what_others_send_forges_no_line, setup),
		cmocka_unit_test_setup(say__line_has_whom_it_is_about, setup),
		cmocka_unit_test_setup(say__table_is_named_once, setup),
		cmocka_unit_test_setup(
			say__strangers_have_ten_lines_a_second_and_the_rest_is_counted, setup),
		cmocka_unit_test_setup(dropped__is_said_as_it_doubles, setup),
		cmocka_unit_test_setup(dropped__is_reported_however_little_it_is, setup),
	};

	return cmocka_run_group_tests_name("ps-say", tests, NULL, NULL);
}
