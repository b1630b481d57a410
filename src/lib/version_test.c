/* SPDX-License-Identifier: Apache-2.0 */
/* version_test.c - what can be asked without a communicator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tally.h"

static void strerror__every_result_has_its_text(void **state)
{
	static const struct {
		int result;
		const char *text;
	} results[] = {
		{ 0, "success" },
		{ TALLY_ERR_SYSTEM, "the system refused" },
		{ TALLY_ERR_INTERNAL, "a bug in tally" },
		{ TALLY_ERR_ARGUMENT, "invalid argument" },
		{ TALLY_ERR_USAGE, "not allowed now" },
		{ TALLY_ERR_REMOTE, "a peer or the aggregator is gone" },
		{ TALLY_IN_PROGRESS, "in progress" },
		{ TALLY_ERR_TIMEOUT, "no answer in time" },
		{ TALLY_ERR_MISMATCH, "the ranks called different operations" },
		{ TALLY_ERR_UNSUPPORTED, "not supported by this version" },
		{ TALLY_ERR_VERSION, "the aggregator speaks another protocol version" },
		{ TALLY_ERR_ABORTED, "aborted" },
		{ TALLY_ERR_NO_RESOURCE, "the aggregator has no room" },
		{ TALLY_ERR_NO_MEMORY, "out of memory" },
		{ TALLY_ERR_DENIED, "the aggregator refused" },
		{ TALLY_ERR_RANGE, "an element is too large for the sum" },
		{ TALLY_INTERRUPTED, "interrupted" },
	};
	int named = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		assert_string_equal(tally_strerror(results[i].result), results[i].text);
	for (int result = -1000; result < 1000; result++)
		named += tally_strerror(result) != tally_strerror(INT32_MAX);
	assert_int_equal(named, sizeof(results) / sizeof(results[0]));
	assert_string_equal(tally_strerror(INT32_MIN), "no such result");
}

static void version__is_said_as_a_number_and_as_a_text(void **state)
{
	(void)state;
	assert_int_equal(tally_get_version(), 100);
	assert_string_equal(tally_get_version_text(), "0.1.0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strerror__every_result_has_its_text),
		cmocka_unit_test(version__is_said_as_a_number_and_as_a_text),
	};

	return cmocka_run_group_tests_name("lib-version", tests, NULL, NULL);
}
