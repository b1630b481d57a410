/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that wait: what a member says of them, and what it hears. */
#include "core/job/member_fixture.h"

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

/* ---- deadlines ---- */

static void expire(uint64_t number)
{
	step((struct member_event){ .type = MEMBER_EXPIRED, .number = number, .waited_ms = 3000 });
}

static void member__a_deadline_asks_for_a_verdict_at_once(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	t.now_ns += second_ns;
	expire(7);
	assert_done("STALL");
	assert_int_equal(t.message.stall.number, 7);
	assert_int_equal(t.message.stall.waited_ms, 3000);
	assert_int_equal(t.message.stall.is_expired, 1);
	assert_true(t.actions.wake_ns <= t.now_ns + second_ns); /* for a HEARTBEAT */
	t.now_ns += 3 * second_ns / 2; /* a HEARTBEAT goes; the next would be too late */
	event(MEMBER_TICK);
	assert_true(t.actions.wake_ns == t.now_ns + second_ns / 2);
}

static void member__without_a_verdict_for_2_s_a_deadline_fails_the_member(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	expire(7);
	wait_ms(1000, 100);
	expire(7); /* again: the 2 s go on */
	t.done[0] = 0;
	wait_ms(900, 100);
	assert_done("");
	wait_ms(100, 100);
	assert_done("ABORT close fail");
	assert_failed(
		CONTROL_TIMEOUT,
		"the deadline of operation 7 is over, and the aggregator at 10.0.0.1:7171 has "
		"not said in 2 s who is late");
	assert_int_equal(t.message.end.cause, CONTROL_TIMEOUT);
	assert_int_equal(t.message.end.rank, CONTROL_RANK_NONE);
}

static void hear_waiting(uint64_t number, uint16_t missing_count)
{
	memset(&t.message, 0, sizeof(t.message));
	t.message.waiting.number = number;
	t.message.waiting.missing_count = missing_count;
	hear(CONTROL_WAITING);
}

static void member__an_operation_that_has_ended_well_needs_no_verdict(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	expire(7);
	hear_waiting(7, 0);
	wait_ms(3000, 500);
	assert_state(MEMBER_RUN);
	expire(9); /* another */
	hear_waiting(7, 0);
	hear_waiting(9, 1);
	wait_ms(2000, 500);
	assert_state(MEMBER_FAILED);
}

/* The aggregator has compared something else meanwhile, and says nothing about 7. */
static void member__an_operation_that_is_complete_needs_no_verdict(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	expire(7);
	t.now_ns += second_ns;
	step((struct member_event){ .type = MEMBER_TICK, .is_done = true });
	wait_ms(3000, 500);
	assert_state(MEMBER_RUN);
	expire(9);
	t.now_ns += second_ns;
	step((struct member_event){ .type = MEMBER_TICK }); /* not complete */
	wait_ms(1000, 500);
	assert_state(MEMBER_FAILED);
}

static void member__each_deadline_has_2_s_for_its_verdict(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	expire(7);
	wait_ms(1500, 500);
	expire(9); /* the oldest by now, as it says each second */
	wait_ms(1500, 500);
	assert_state(MEMBER_RUN);
	wait_ms(500, 500);
	assert_state(MEMBER_FAILED);
}

static void member__the_aggregators_verdict_is_what_is_told(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	expire(7);
	hear_end(CONTROL_ABORT, CONTROL_TIMEOUT, "not called yet by rank 1");
	assert_failed(CONTROL_TIMEOUT, "not called yet by rank 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(member__a_deadline_asks_for_a_verdict_at_once, set_up),
		cmocka_unit_test_setup(
			member__without_a_verdict_for_2_s_a_deadline_fails_the_member, set_up),
		cmocka_unit_test_setup(member__an_operation_that_has_ended_well_needs_no_verdict,
				       set_up),
		cmocka_unit_test_setup(member__an_operation_that_is_complete_needs_no_verdict,
				       set_up),
		cmocka_unit_test_setup(member__each_deadline_has_2_s_for_its_verdict, set_up),
		cmocka_unit_test_setup(member__the_aggregators_verdict_is_what_is_told, set_up),
		cmocka_unit_test_setup(member__a_stall_says_for_how_long, set_up),
		cmocka_unit_test_setup(member__waiting_is_handed_up_and_changes_nothing, set_up),
		cmocka_unit_test_setup(member__waiting_before_run_is_an_internal_error, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
