/* SPDX-License-Identifier: Apache-2.0 */
/* How a member's beginning may end: the time to gather is kept, whoever is late. */
#include "core/member_fixture.h"

static uint64_t fails_after_ms(uint64_t limit_ms)
{
	uint64_t from_ns = t.now_ns;

	while (t.member.state != MEMBER_FAILED && t.now_ns - from_ns < limit_ms * ms_ns)
		wait_ms(10, 10);
	return (t.now_ns - from_ns) / ms_ns;
}

/* A stopped aggregator's kernel takes the connection; nobody reads JOIN. */
static void member__a_stopped_aggregator_costs_the_time_to_gather_and_no_more(void **state)
{
	(void)state;
	t.config.gather_ns = 5 * second_ns;
	t.config.connect_ns = 5 * second_ns;
	event(MEMBER_TICK);
	t.now_ns += 2 * second_ns; /* to connect */
	event(MEMBER_CONNECTED);
	assert_int_equal(t.message.join.timeout_ms, 3000);
	assert_int_equal(fails_after_ms(10000), 3500);
	assert_failed(CONTROL_TIMEOUT,
		      "the aggregator at 10.0.0.1:7171 did not grant the job within 5 s");
}

static void member__a_silent_aggregator_before_its_grant_is_a_timeout(void **state)
{
	(void)state;
	bring_to(MEMBER_JOINING);
	assert_int_equal(fails_after_ms(20000), 10000);
	assert_failed(CONTROL_TIMEOUT,
		      "the aggregator at 10.0.0.1:7171 has been silent for 10000 ms, although it "
		      "takes connections: is it stopped?");
}

static void member__a_silent_aggregator_after_its_grant_is_lost(void **state)
{
	(void)state;
	bring_to(MEMBER_READY);
	assert_int_equal(fails_after_ms(20000), 10000);
	assert_int_equal(t.cause, CONTROL_REMOTE);
}

static void member__nobody_who_connects_outlives_the_time_to_gather(void **state)
{
	(void)state;
	t.config.gather_ns = 2 * second_ns;
	t.config.connect_ns = 2 * second_ns;
	event(MEMBER_TICK);
	assert_int_equal(fails_after_ms(10000), 2500);
	assert_failed(CONTROL_SYSTEM, "no answer from an aggregator at 10.0.0.1:7171");
}

static void member__a_grant_in_the_last_moment_does_not_stretch_the_time(void **state)
{
	(void)state;
	t.config.gather_ns = 5 * second_ns;
	event(MEMBER_TICK);
	event(MEMBER_CONNECTED);
	for (uint32_t i = 0; i < 5; i++) {
		wait_ms(1000, 100);
		hear_type(CONTROL_HEARTBEAT);
	}
	hear_grant(1);
	assert_int_equal(fails_after_ms(5000), 500);
	assert_failed(CONTROL_TIMEOUT, "the job did not start within 5 s: the last rank has only "
				       "just come");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			member__a_stopped_aggregator_costs_the_time_to_gather_and_no_more, set_up),
		cmocka_unit_test_setup(member__a_silent_aggregator_before_its_grant_is_a_timeout,
				       set_up),
		cmocka_unit_test_setup(member__a_silent_aggregator_after_its_grant_is_lost, set_up),
		cmocka_unit_test_setup(member__nobody_who_connects_outlives_the_time_to_gather,
				       set_up),
		cmocka_unit_test_setup(member__a_grant_in_the_last_moment_does_not_stretch_the_time,
				       set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
