/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that wait: what a member says of them, and what it hears. */
#include "core/member_fixture.h"

static void member__a_stall_says_for_how_long(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	step((struct member_event){ .type = MEMBER_STALLED, .number = 7, .waited_ms = 1500 });
	assert_done("STALL");
	assert_int_equal(t.message.stall.number, 7);
	assert_int_equal(t.message.stall.waited_ms, 1500);
	assert_int_equal(t.message.stall.is_expired, 0);
}

static void member__waiting_is_handed_up_and_changes_nothing(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	hear_type(CONTROL_WAITING);
	assert_done("");
	assert_true(t.actions.has_waiting);
	event(MEMBER_TICK);
	assert_false(t.actions.has_waiting);
	assert_state(MEMBER_RUN);
}

static void member__waiting_before_run_is_an_internal_error(void **state)
{
	(void)state;
	bring_to(MEMBER_READY);
	hear_type(CONTROL_WAITING);
	assert_false(t.actions.has_waiting);
	assert_state(MEMBER_FAILED);
	assert_int_equal(t.cause, CONTROL_INTERNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(member__a_stall_says_for_how_long, set_up),
		cmocka_unit_test_setup(member__waiting_is_handed_up_and_changes_nothing, set_up),
		cmocka_unit_test_setup(member__waiting_before_run_is_an_internal_error, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
