/* SPDX-License-Identifier: Apache-2.0 */
/* stray_played_test.c - which packets of others are told of, when and in which words (R-CT-35): what has come is played. */
#include "lib/played_fixture.h"

static void came(enum endpoint_stray why, uint64_t count, uint8_t host)
{
	test.stats.stray_in[why] = count;
	test.stats.stray_from[why] = (struct link_address){ .port = 7171 };
	memcpy(test.stats.stray_from[why].ip, (uint8_t[]){ [10] = 0xff, 0xff, 192, 0, 2, host },
	       16);
}

static void look(uint64_t at_ns, const char *line)
{
	test.log_lines = 0;
	stray_look(&test.comm, at_ns);
	assert_int_equal(test.log_lines, line != NULL);
	if (!line)
		return;
	assert_int_equal(test.log_level, TALLY_LOG_WARN);
	assert_string_equal(strchr(test.log, ']') + 2, line);
}

static void stray__is_told_of_with_what_to_do(void **state)
{
	(void)state;
	test.comm.shards = 2;
	test.comm.slots = 10;
	look(begin_ns, NULL);
	came(ENDPOINT_STRAY_SHAPE, 1, 9);
	look(begin_ns + 250 * ms,
	     "1 packet dropped since it joined: 1 malformed, the last from 192.0.2.9:7171. Nothing "
	     "of them was taken: another program sends there, or of another version of tally: end "
	     "it");
	came(ENDPOINT_STRAY_ADDRESS, 3, 8);
	look(begin_ns + 20000 * ms,
	     "4 packets dropped since it joined: 3 of this job but from another address, the last "
	     "from 192.0.2.8:7171; 1 malformed, the last from 192.0.2.9:7171. Nothing of them was "
	     "taken: an aggregator of several addresses must answer from the one that it is "
	     "reached "
	     "at (tallyd --listen); if that is none of yours, it forges packets");
}

/* What an earlier life of this rank can have left: a result and an answer of each slot. */
static void stray__of_an_earlier_life_is_forgiven(void **state)
{
	(void)state;
	test.comm.shards = 2;
	test.comm.slots = 10;
	came(ENDPOINT_STRAY_GENERATION, 40, 7);
	look(begin_ns, NULL);
	came(ENDPOINT_STRAY_GENERATION, 41, 7);
	look(begin_ns + 250 * ms,
	     "41 packets dropped since it joined: 41 of another generation, the last from "
	     "192.0.2.7:7171. Nothing of them was taken: more than an earlier life of this rank "
	     "can "
	     "have left: another job's aggregator sends there, or somebody who guesses: find and "
	     "end "
	     "it");
}

static void stray__is_told_of_each_ten_seconds_if_there_are_more(void **state)
{
	(void)state;
	came(ENDPOINT_STRAY_SHAPE, 1, 9);
	stray_look(&test.comm, begin_ns);
	assert_int_equal(test.log_lines, 1);
	assert_int_equal(test.comm.strays.look_ns, begin_ns + 250 * ms);
	came(ENDPOINT_STRAY_SHAPE, 2, 9);
	look(begin_ns + 10000 * ms - 1, NULL);
	look(begin_ns + 10000 * ms, NULL); /* it looks each quarter of a second */
	stray_look(&test.comm, begin_ns + 10250 * ms - 1);
	assert_int_equal(test.log_lines, 1);
	look(begin_ns + 30000 * ms, NULL); /* no more have come */
	came(ENDPOINT_STRAY_SHAPE, 3, 9);
	look(begin_ns + 30250 * ms - 1, NULL);
	test.comm.endpoint = NULL;
	look(begin_ns + 30250 * ms, NULL);
	test.comm.endpoint = endpoint_of_ours();
	stray_look(&test.comm, begin_ns + 30500 * ms);
	assert_int_equal(test.log_lines, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(stray__is_told_of_with_what_to_do),
		TEST(stray__of_an_earlier_life_is_forgiven),
		TEST(stray__is_told_of_each_ten_seconds_if_there_are_more),
	};

	return cmocka_run_group_tests_name("lib-stray-played", tests, NULL, NULL);
}
