/* SPDX-License-Identifier: Apache-2.0 */
/* tired_test.c - by which answers an aggregator is tired, and with which words (R-CT-33). What it answers is played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ps/internal.h"

enum { BEATS = 8, WHY_BYTES = 128 };

static struct {
	struct ps_server server;
	uint64_t beats, delay_ns;
	struct control_table_beat beat;
	char why[WHY_BYTES];
} test;

uint64_t __wrap_table_client_beats(const struct table_client *client);
uint64_t __wrap_table_client_delay_ns(const struct table_client *client);
const struct control_table_beat *__wrap_table_client_beat(const struct table_client *client);

uint64_t __wrap_table_client_beats(const struct table_client *client)
{
	assert_ptr_equal(client, &test);
	return test.beats;
}

uint64_t __wrap_table_client_delay_ns(const struct table_client *client)
{
	assert_ptr_equal(client, &test);
	return test.delay_ns;
}

const struct control_table_beat *__wrap_table_client_beat(const struct table_client *client)
{
	assert_ptr_equal(client, &test);
	return &test.beat;
}

static struct ps_hosted *hosted(void)
{
	return &test.server.hosted[0];
}

static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	hosted()->client = (struct table_client *)(void *)&test;
	return 0;
}

static bool look(void)
{
	return ps_tired_look(&test.server, hosted(), test.why, sizeof(test.why));
}

static bool answers(void)
{
	test.beats++;
	return look();
}

/* Whether the next so many answers make it so, the last of them first. */
static bool is_after(unsigned count)
{
	for (unsigned i = 1; i < count; i++)
		assert_false(answers());
	return answers();
}

static void tired__is_who_answers_late_eight_times(void **state)
{
	(void)state;
	test.server.options.tired_delay_ns = 2500000;
	test.delay_ns = 2499999;
	assert_false(is_after(2 * BEATS));
	test.delay_ns = 2500000;
	assert_true(is_after(BEATS));
	assert_string_equal(test.why, "its answers take 2.5 ms");
	assert_false(look()); /* no other answer has come */
	assert_true(answers());
	test.delay_ns = 0; /* one that is in time, and it begins anew */
	assert_false(answers());
	test.delay_ns = 2500000;
	assert_true(is_after(BEATS));
}

static void tired__is_nobody_where_no_bound_is_set(void **state)
{
	(void)state;
	test.delay_ns = 1ull << 40;
	test.beat = (struct control_table_beat){ .memory_used = 9, .memory_max = 9, .parts = 999 };
	assert_false(is_after(2 * BEATS));
}

static void tired__is_whose_memory_is_full(void **state)
{
	(void)state;
	test.server.options.tired_memory = 1;
	assert_false(is_after(2 * BEATS)); /* it does not say how much it has */
	test.server.options.tired_memory = 90;
	test.beat.memory_max = 1000;
	test.beat.memory_used = 899;
	assert_false(is_after(2 * BEATS));
	test.beat.memory_used = 900;
	assert_true(is_after(BEATS));
	assert_string_equal(test.why, "90 % of its memory is in use");
}

/* It says that it has sent so many more, and so many of these have come. */
static bool sends(uint64_t sent, uint64_t came)
{
	test.beat.parts += sent;
	hosted()->parts += came;
	return answers();
}

static void tired__is_whose_parts_do_not_come(void **state)
{
	(void)state;
	test.server.options.tired_loss = 25;
	for (unsigned i = 0; i < 2 * BEATS; i++)
		assert_false(sends(15, 0)); /* 240: too few to be a share of */
	sends(16, 0);
	assert_int_equal(hosted()->tired.over, 1); /* 256 */
	assert_string_equal(test.why, "100 % of what it sends does not come");
	sends(0, 192);
	assert_int_equal(hosted()->tired.over, 2); /* 64 of 256 */
	assert_string_equal(test.why, "25 % of what it sends does not come");
	sends(0, 1);
	assert_int_equal(hosted()->tired.over, 0); /* 24.6 % */
	sends(0, 63);
	assert_int_equal(hosted()->tired.over, 0);
	test.server.options.tired_loss = 1;
	sends(0, 10); /* more than it says that it sent: the answer is older */
	assert_int_equal(hosted()->tired.over, 0);
}

/* With 1024 all count half as much. */
static void tired__forgets_what_is_long_ago(void **state)
{
	(void)state;
	test.server.options.tired_loss = 30;
	sends(1023, 1000);
	assert_int_equal(hosted()->tired.sent, 1023);
	assert_int_equal(hosted()->tired.came, 1000);
	sends(1, 0);
	assert_int_equal(hosted()->tired.sent, 512);
	assert_int_equal(hosted()->tired.came, 500);
	sends(500, 0); /* half of the last ones */
	assert_int_equal(hosted()->tired.sent, 1012);
	assert_int_equal(hosted()->tired.over, 1);
	assert_string_equal(test.why, "50 % of what it sends does not come");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(tired__is_who_answers_late_eight_times),
		T(tired__is_nobody_where_no_bound_is_set),
		T(tired__is_whose_memory_is_full),
		T(tired__is_whose_parts_do_not_come),
		T(tired__forgets_what_is_long_ago),
#undef T
	};

	return cmocka_run_group_tests_name("ps-tired", tests, NULL, NULL);
}
