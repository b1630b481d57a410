/* SPDX-License-Identifier: Apache-2.0 */
/* version_test.c - what can be asked without a communicator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tally.h"

/* As tally.h has them. */
static const int results[] = {
	TALLY_OK,
	TALLY_ERR_SYSTEM,
	TALLY_ERR_INTERNAL,
	TALLY_ERR_ARGUMENT,
	TALLY_ERR_USAGE,
	TALLY_ERR_REMOTE,
	TALLY_IN_PROGRESS,
	TALLY_ERR_TIMEOUT,
	TALLY_ERR_MISMATCH,
	TALLY_ERR_UNSUPPORTED,
	TALLY_ERR_VERSION,
	TALLY_ERR_ABORTED,
	TALLY_ERR_NO_RESOURCE,
	TALLY_ERR_NO_MEMORY,
	TALLY_ERR_DENIED,
	TALLY_ERR_RANGE,
	TALLY_INTERRUPTED,
};
enum { RESULTS = sizeof(results) / sizeof(results[0]) };

static void strerror__each_result_has_a_text_of_its_own(void **state)
{
	int named = 0;

	(void)state;
	for (int i = 0; i < RESULTS; i++) {
		assert_string_not_equal(tally_strerror(results[i]), "no such result");
		for (int k = 0; k < i; k++)
			assert_string_not_equal(tally_strerror(results[i]),
						tally_strerror(results[k]));
	}
	for (int result = -1000; result < 1000; result++)
		named += strcmp(tally_strerror(result), "no such result") != 0;
	assert_int_equal(named, RESULTS);
	assert_string_equal(tally_strerror(INT32_MIN), "no such result");
	assert_string_equal(tally_strerror(TALLY_ERR_NO_MEMORY), "out of memory");
}

static void version__is_one_as_a_number_and_as_a_text(void **state)
{
	int number = tally_get_version();
	char text[32];

	(void)state;
	assert_int_equal(number, 100);
	snprintf(text, sizeof(text), "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
	assert_string_equal(tally_get_version_text(), text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strerror__each_result_has_a_text_of_its_own),
		cmocka_unit_test(version__is_one_as_a_number_and_as_a_text),
	};

	return cmocka_run_group_tests_name("lib-version", tests, NULL, NULL);
}
