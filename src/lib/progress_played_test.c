/* SPDX-License-Identifier: Apache-2.0 */
/* progress_played_test.c - who drives and when, to the nanosecond: clock, endpoint and other threads are played. */
#include "lib/played_fixture.h"

/* ---- a burst ---- */

static void drive__completes_all_that_the_endpoint_has_done(void **state)
{
	struct tally_work *works[130];

	(void)state;
	for (uint32_t i = 0; i < 130; i++)
		is_done(works[i] = outstanding(i));
	works[129]->is_out_of_range = true;
	test.comm.is_left = true;
	assert_false(progress_drive(&test.comm));
	assert_false(test.comm.is_left);
	assert_int_equal(test.polls, 1);
	assert_int_equal(test.comm.completed, 130);
	assert_int_equal(test.comm.last_complete, 130);
	assert_null(test.comm.outstanding.first);
	assert_int_equal(works[0]->result, TALLY_OK);
	assert_int_equal(works[128]->result, TALLY_OK);
	assert_int_equal(works[129]->result, TALLY_ERR_RANGE);
	assert_int_equal(atomic_load(&test.comm.error), TALLY_OK);
}

static void drive__goes_on_while_there_is_something_to_do(void **state)
{
	struct tally_work *work = outstanding(0);

	(void)state;
	test.busy = 1;
	assert_true(progress_drive(&test.comm));
	assert_false(progress_drive(&test.comm));
	test.room = 0;
	work_submit(&test.comm, work); /* it waits for room */
	assert_false(progress_drive(&test.comm));
	assert_int_equal(test.ops_count, 0);
	test.room = 1;
	assert_true(progress_drive(&test.comm));
	assert_int_equal(test.ops_count, 1);
	assert_false(progress_drive(&test.comm));
}

/* The others are told by the background thread. */
static void drive__that_fails_breaks_it_and_says_why(void **state)
{
	static const struct {
		enum endpoint_fault fault;
		enum control_cause cause;
		int result;
		const char *text;
	} cases[] = {
		{ ENDPOINT_LINK_ERROR, CONTROL_SYSTEM, TALLY_ERR_SYSTEM,
		  "the kernel refuses to send or receive on the UDP socket" },
		{ ENDPOINT_PROTOCOL_ERROR, CONTROL_INTERNAL, TALLY_ERR_INTERNAL,
		  "the aggregator answered a round that was not asked (a bug in tally)" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tally_work *work;
		char whole[512];

		setup(state);
		work = outstanding(7);
		test.fault = cases[i].fault;
		assert_false(progress_drive(&test.comm));
		assert_int_equal(atomic_load(&test.comm.error), cases[i].result);
		assert_int_equal(work->result, cases[i].result);
		assert_true(test.comm.wants_error);
		assert_int_equal(test.comm.fault_cause, cases[i].cause);
		assert_string_equal(test.comm.fault_text, cases[i].text);
		assert_int_equal(test.kicks, 1);
		snprintf(whole, sizeof(whole),
			 "%s (rank 1 of 4 on here, job played; waiting for operation #7, barrier; "
			 "last complete operation: none)",
			 cases[i].text);
		assert_string_equal(test.comm.error_text, whole);
		if (i + 1 < sizeof(cases) / sizeof(cases[0]))
			teardown(state);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(drive__completes_all_that_the_endpoint_has_done),
		TEST(drive__goes_on_while_there_is_something_to_do),
		TEST(drive__that_fails_breaks_it_and_says_why),
	};

	return cmocka_run_group_tests_name("lib-progress-played", tests, NULL, NULL);
}
