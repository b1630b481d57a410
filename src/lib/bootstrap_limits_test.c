/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap_limits_test.c - what is set, at its limits and beyond, and the words in which it is refused. */
#include "lib/bootstrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/bootstrap_read.h"

static char text[BOOTSTRAP_TEXT_MAX];
static struct bootstrap boot;

/* One variable: its name, and its value. */
static const char *variable[2];

static const char *env_get(const char *name, void *arg)
{
	(void)arg;
	return variable[0] && !strcmp(name, variable[0]) ? variable[1] : NULL;
}

/* Rank 2 of 3 of job j, started by arguments. */
static int finish(const char *name, const char *value, const struct tally_options *options)
{
	variable[0] = name;
	variable[1] = value;
	boot = (struct bootstrap){ .job = "j", .size = 3, .rank = 2, .source = "arguments" };
	strcpy(boot.aggregator, "of before");
	text[0] = '\0';
	return bootstrap_finish(&boot, options, env_get, NULL, text);
}

static void taken(const char *name, const char *value)
{
	if (finish(name, value, NULL))
		fail_msg("%s=%s: %s", name, value, text);
}

static void refused(const char *name, const char *value, const char *why)
{
	assert_int_equal(finish(name, value, NULL), TALLY_ERR_ARGUMENT);
	assert_string_equal(text, why);
}

static void digits__are_numbers_of_32_bits(void **state)
{
	static const char *const bad[] = {
		"", "4294967296", "42949672950", "429496729600", "-1", "1 ", " 1", "1/", "1:", "0x1"
	};
	uint32_t number = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(bootstrap_digits(bad[i], &number));
	assert_int_equal(number, 7);
	assert_true(bootstrap_digits("4294967295", &number));
	assert_int_equal(number, UINT32_MAX);
	assert_true(bootstrap_digits("0", &number));
	assert_int_equal(number, 0);
	assert_true(bootstrap_digits("0000000000000000000000000907", &number));
	assert_int_equal(number, 907);
}

static void times__are_from_a_second_to_a_day(void **state)
{
	struct tally_options options = TALLY_OPTIONS_INIT;

	(void)state;
	taken("TALLY_INIT_TIMEOUT_S", "86400");
	assert_int_equal(boot.init_timeout_s, 86400);
	taken("TALLY_INIT_TIMEOUT_S", "1");
	assert_int_equal(boot.init_timeout_s, 1);
	refused("TALLY_INIT_TIMEOUT_S", "86401",
		"TALLY_INIT_TIMEOUT_S=86401 is not in 1 to 86400 seconds");
	refused("TALLY_INIT_TIMEOUT_S", "0", "TALLY_INIT_TIMEOUT_S=0 is not in 1 to 86400 seconds");
	taken("TALLY_DEADLINE_S", "86400");
	assert_int_equal(boot.deadline_ms, 86400000);
	assert_int_equal(boot.init_timeout_s, BOOTSTRAP_TIMEOUT_S);
	taken("TALLY_DEADLINE_S", "1");
	assert_int_equal(boot.deadline_ms, 1000);
	refused("TALLY_DEADLINE_S", "0", "TALLY_DEADLINE_S=0 is not in 1 to 86400 seconds");
	taken("TALLY_WINDOW", "32768");
	assert_int_equal(boot.window_packets, 32768);
	refused("TALLY_WINDOW", "32769", "TALLY_WINDOW=32769 is not in 1 to 32768 packets");
	refused("TALLY_WINDOW", "0", "TALLY_WINDOW=0 is not in 1 to 32768 packets");
	taken(NULL, NULL);
	assert_int_equal(boot.window_packets, 0);
	options.window_packets = 7;
	assert_int_equal(finish("TALLY_WINDOW", "wrong", &options), TALLY_OK);
	assert_int_equal(boot.window_packets, 7);
	options.init_timeout_s = 86400;
	options.deadline_ms = 5;
	assert_int_equal(finish("TALLY_DEADLINE_S", "wrong", &options), TALLY_OK);
	assert_int_equal(boot.deadline_ms, 5);
	options.init_timeout_s++;
	assert_int_equal(finish(NULL, NULL, &options), TALLY_ERR_ARGUMENT);
	assert_string_equal(text, "options->init_timeout_s 86401 is above 86400");
}

static void words__that_are_none_are_refused(void **state)
{
	(void)state;
	taken("TALLY_CROSSED", "end");
	assert_false(boot.is_crossed_warn);
	taken("TALLY_CROSSED", "warn");
	assert_true(boot.is_crossed_warn);
	refused("TALLY_CROSSED", "Warn", "TALLY_CROSSED=Warn is not end or warn");
	refused("TALLY_IFNAME", "eth,", "TALLY_IFNAME=eth,: a name between commas is empty");
	taken("TALLY_IFNAME", "eth,ib");
	assert_string_equal(boot.ifname, "eth,ib");
}

/* A file for each rank: its number in place of %r, or behind the name. */
static void timeline__has_the_rank_in_its_name(void **state)
{
	static const char *const names[][2] = { { "/t/%r.json", "/t/2.json" },
						{ "%r%r", "22" },
						{ "/t/all", "/t/all.2" },
						{ "/t/%d/xr%", "/t/%d/xr%.2" },
						{ "r", "r.2" } };
	char name[2 * BOOTSTRAP_TIMELINE_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		taken("TALLY_TIMELINE", names[i][0]);
		assert_string_equal(boot.timeline, names[i][1]);
	}
	memset(name, 'n', sizeof(name));
	for (size_t i = 0; i < 2; i++) { /* with its suffix it just fits, and then not */
		char why[256];

		name[BOOTSTRAP_TIMELINE_BYTES - 3 + i] = '\0';
		if (!i) {
			taken("TALLY_TIMELINE", name);
			assert_int_equal(strlen(boot.timeline), BOOTSTRAP_TIMELINE_BYTES - 1);
		} else {
			snprintf(why, sizeof(why), "TALLY_TIMELINE=%.80s...: at most %d bytes",
				 name, BOOTSTRAP_TIMELINE_BYTES - 1);
			refused("TALLY_TIMELINE", name, why);
		}
		name[BOOTSTRAP_TIMELINE_BYTES - 3 + i] = 'n';
	}
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(finish("TALLY_TIMELINE", name, NULL), TALLY_ERR_ARGUMENT);
}

static void aggregator__is_a_host_or_local_alone(void **state)
{
	static const char *const locals[] = { "LOCAL", "local:7", "a,local", "local,a",
					      "a,Local:9" };
	char long_name[300], why[256];

	(void)state;
	assert_int_equal(finish(NULL, NULL, NULL), TALLY_OK);
	assert_true(boot.is_local); /* arguments alone mean one host */
	assert_string_equal(boot.aggregator, "");
	taken("TALLY_AGGREGATOR", "local");
	assert_true(boot.is_local);
	assert_string_equal(boot.aggregator, "");
	taken("TALLY_AGGREGATOR", "localhost,locals:9,mylocal");
	assert_false(boot.is_local);
	assert_string_equal(boot.aggregator, "localhost,locals:9,mylocal");
	for (size_t i = 0; i < sizeof(locals) / sizeof(locals[0]); i++) {
		snprintf(why, sizeof(why),
			 "aggregator: \"local\" stands alone, in small letters, without a port or "
			 "others, not \"%s\"",
			 locals[i]);
		refused("TALLY_AGGREGATOR", locals[i], why);
	}
	memset(long_name, 'h', sizeof(long_name));
	long_name[255] = '\0';
	taken("TALLY_AGGREGATOR", long_name);
	long_name[255] = 'h';
	long_name[256] = '\0';
	snprintf(why, sizeof(why), "aggregator: not host:port, and not local: \"%.80s\"",
		 long_name);
	refused("TALLY_AGGREGATOR", long_name, why);
}

static void key__is_printable_and_not_too_long(void **state)
{
	char key[CONTROL_KEY_BYTES + 1], why[128];
	struct tally_options options = TALLY_OPTIONS_INIT;

	(void)state;
	memset(key, '~', sizeof(key));
	key[0] = ' ';
	key[CONTROL_KEY_BYTES - 1] = '\0';
	taken("TALLY_KEY", key);
	assert_string_equal(boot.key, key);
	key[CONTROL_KEY_BYTES - 1] = '~';
	key[CONTROL_KEY_BYTES] = '\0';
	snprintf(why, sizeof(why), "TALLY_KEY has %d bytes, at most %d", CONTROL_KEY_BYTES,
		 CONTROL_KEY_BYTES - 1);
	refused("TALLY_KEY", key, why);
	refused("TALLY_KEY", "ab\x7f", "TALLY_KEY: byte 2 is not printable ASCII");
	refused("TALLY_KEY", "\x1f", "TALLY_KEY: byte 0 is not printable ASCII");
	options.key = "\t";
	assert_int_equal(finish("TALLY_KEY", "fine", &options), TALLY_ERR_ARGUMENT);
	assert_string_equal(text, "options->key: byte 0 is not printable ASCII");
}

static int finish_job(const char *job, uint32_t size, uint32_t rank, uint32_t local_size)
{
	struct tally_options options = TALLY_OPTIONS_INIT;

	variable[0] = NULL;
	boot = (struct bootstrap){ .size = size, .rank = rank, .source = "arguments" };
	strcpy(boot.job, job);
	options.local_size = local_size;
	options.aggregator = "a";
	text[0] = '\0';
	return bootstrap_finish(&boot, &options, env_get, NULL, text);
}

static void job__has_a_name_and_ranks_below_its_size(void **state)
{
	(void)state;
	assert_int_equal(finish_job("", 1, 0, 0), TALLY_ERR_ARGUMENT);
	assert_string_equal(text, "job: the name is empty");
	assert_int_equal(finish_job("!~", BOOTSTRAP_SIZE_MAX, BOOTSTRAP_SIZE_MAX - 1, 0), TALLY_OK);
	assert_int_equal(finish_job("a b", 1, 0, 0), TALLY_ERR_ARGUMENT);
	assert_string_equal(text,
			    "job: a name has printable ASCII characters and no blanks; byte 1 "
			    "is 0x20");
	assert_int_equal(finish_job("ab\x7f", 1, 0, 0), TALLY_ERR_ARGUMENT);
	assert_string_equal(text,
			    "job: a name has printable ASCII characters and no blanks; byte 2 "
			    "is 0x7f");
	assert_int_equal(finish_job("j", 0, 0, 0), TALLY_ERR_ARGUMENT);
	assert_int_equal(finish_job("j", BOOTSTRAP_SIZE_MAX + 1, 0, 0), TALLY_ERR_ARGUMENT);
	assert_int_equal(finish_job("j", 3, 3, 0), TALLY_ERR_ARGUMENT);
	assert_string_equal(text, "rank 3 is not below size 3");
	assert_int_equal(finish_job("j", 3, 2, 3), TALLY_OK);
	assert_int_equal(boot.local_size, 3);
	assert_int_equal(finish_job("j", 3, 2, 4), TALLY_ERR_ARGUMENT);
	assert_string_equal(text, "options->local_size 4 is above size 3");
}

static void warnings__are_said_one_behind_the_other(void **state)
{
	struct bootstrap warned = { .size = 1 };

	(void)state;
	bootstrap_warn(&warned, "one %d", 1);
	assert_string_equal(warned.warning, "one 1");
	bootstrap_warn(&warned, "two");
	assert_string_equal(warned.warning, "one 1; two");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digits__are_numbers_of_32_bits),
		cmocka_unit_test(times__are_from_a_second_to_a_day),
		cmocka_unit_test(words__that_are_none_are_refused),
		cmocka_unit_test(timeline__has_the_rank_in_its_name),
		cmocka_unit_test(aggregator__is_a_host_or_local_alone),
		cmocka_unit_test(key__is_printable_and_not_too_long),
		cmocka_unit_test(job__has_a_name_and_ranks_below_its_size),
		cmocka_unit_test(warnings__are_said_one_behind_the_other),
	};

	return cmocka_run_group_tests_name("lib-bootstrap-limits", tests, NULL, NULL);
}
