/* SPDX-License-Identifier: Apache-2.0 */
/* What one step does, and what it leaves to the next: a step has one cause, one text and one line of log. */
#include "core/job/admission_fixture.h"

static void admission__a_ping_is_answered_with_its_serial(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(20, 0, 2); /* waits */
	for (uint32_t connection = 10; connection <= 20; connection += 5) {
		uint32_t who = connection == 15 ? 11 : connection;
		struct control_message message;

		prepare(CONTROL_PING);
		t.message.ping.serial = 4000 + who;
		say(who);
		assert_int_equal(t.actions.count, 1);
		assert_int_equal(t.list[0].connection, who);
		admission_message(t.admission, &t.config, &t.actions, &t.list[0], &message);
		assert_int_equal(message.type, CONTROL_PONG);
		assert_int_equal(message.ping.serial, 4000 + who);
	}
}

static void admission__nothing_is_said_to_who_is_being_closed(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 3);
	close_connection(11);
	assert_done("abort>12 close>12 abort>10 close>10 remove");
	for (uint32_t i = 0; i < 20; i++) {
		wait_seconds(1);
		assert_int_equal(t.actions.count, 0);
	}
	assert_state(ADMISSION_DRAIN);
}

static void admission__a_shard_that_cannot_remove_has_removed(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	say_leave(10, 0);
	say_leave(11, 0);
	assert_state(ADMISSION_DRAIN);
	t.done[0] = 0;
	for (uint16_t shard = 0; shard < t.config.shards; shard++)
		step(refusal_of(shard, ADMISSION_JOB_REMOVE));
	assert_done("");
	assert_state(ADMISSION_NONE);
}

static void admission__two_claims_are_pinged_in_the_step_of_the_second(void **state)
{
	(void)state;
	join(10, 0, 2);
	prepare_join(20, 0, 2);
	t.done[0] = 0;
	step_once((struct admission_event){
		.type = ADMISSION_MESSAGE, .connection = 20, .message = &t.message });
	assert_done("ping>10 ping>20");
	assert_false(t.actions.again);
}

static void admission__a_gathering_that_is_late_ends_before_others_move(void **state)
{
	(void)state;
	t.config.gather_ns = 5 * second_ns;
	join(10, 0, 2);
	join(20, 0, 2); /* waits for its rank */
	t.done[0] = 0;
	wait_seconds(4);
	t.now_ns += second_ns;
	step_once((struct admission_event){ .type = ADMISSION_TICK });
	assert_done("abort>10 close>10");
	assert_int_equal(t.actions.log_level, ADMISSION_LOG_WARN);
	assert_string_equal(t.actions.log, t.text);
	assert_int_equal(t.admission->waiters_count, 1);
	assert_true(t.actions.again);
	step_once((struct admission_event){ .type = ADMISSION_TICK });
	assert_int_equal(t.admission->waiters_count, 0);
	assert_state(ADMISSION_GATHER);
}

static void admission__progress_is_told_before_others_move(void **state)
{
	(void)state;
	join(10, 0, 3);
	join(11, 1, 3);
	join(20, 0, 3); /* waits for its rank */
	for (uint32_t i = 0; i < 9; i++) {
		wait_seconds(1);
		say_type(10, CONTROL_HEARTBEAT);
		say_type(11, CONTROL_HEARTBEAT);
		say_type(20, CONTROL_HEARTBEAT);
	}
	t.done[0] = 0;
	t.now_ns += second_ns;
	step_once((struct admission_event){ .type = ADMISSION_CLOSED, .connection = 10 });
	assert_true(t.actions.again);
	step_once((struct admission_event){ .type = ADMISSION_TICK });
	assert_done("progress>11 progress>20");
	assert_string_equal(t.log, t.text);
	assert_string_equal(t.text, "job \"train\": waiting for rank 0, rank 2 of 3");
	assert_int_equal(t.admission->waiters_count, 1);
	assert_true(t.actions.again);
	step_once((struct admission_event){ .type = ADMISSION_TICK });
	assert_int_equal(t.admission->waiters_count, 0);
	assert_done("");
}

/* Numbers that come before many others push all of these back. */
static void admission__numbers_are_kept_in_their_order(void **state)
{
	static const uint64_t orders[][6] = { { 5, 6, 7, 8, 1, 2 },
					      { 8, 7, 6, 5, 2, 1 },
					      { 2, 8, 1, 7, 5, 6 } };
	static const uint64_t sorted[] = { 1, 2, 5, 6, 7, 8 };

	for (uint32_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
		struct turn turn = { .config = &t.config };
		struct control_op ops[6];

		for (uint32_t k = 0; k < 6; k++)
			ops[k] = allreduce(orders[i][k], 5);
		if (i) {
			tear_down(state);
			set_up(state);
		}
		turn.admission = t.admission;
		bring_to(ADMISSION_STARTED, 10, 3);
		say_stall(10, 1);
		say_opinfo(10, 9, ops, 4);
		say_opinfo(11, 9, ops + 4, 2);
		assert_int_equal(t.admission->page.seen_count, 6);
		for (uint32_t k = 0; k < 6; k++)
			assert_int_equal(admission_seen(&turn)[k].number, sorted[k]);
		t.done[0] = 0;
		for (uint32_t k = 0; k < 6; k++)
			ops[k] = allreduce(sorted[k], sorted[k] == 7 ? 6 : 5);
		say_opinfo(12, 9, ops, 6);
		assert_done("query>10 query>11 query>12");
		assert_int_equal(t.from, 7); /* who calls 7 what? */
	}
}

static void admission__who_was_heard_while_gathering_is_no_silent_member(void **state)
{
	(void)state;
	t.config.heartbeat_ns = second_ns;
	join(10, 0, 2);
	for (uint32_t i = 0; i < 16; i++) { /* its next HEARTBEAT comes after 2 s */
		t.now_ns += second_ns / 10;
		event(ADMISSION_TICK);
	}
	t.done[0] = 0;
	join(11, 1, 2);
	acknowledge(ADMISSION_JOB_ADD);
	t.now_ns += second_ns / 100;
	event(ADMISSION_TICK);
	assert_done("add grant>10 grant>11");
	assert_state(ADMISSION_GRANTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(admission__a_ping_is_answered_with_its_serial),
		TEST(admission__nothing_is_said_to_who_is_being_closed),
		TEST(admission__a_shard_that_cannot_remove_has_removed),
		TEST(admission__two_claims_are_pinged_in_the_step_of_the_second),
		TEST(admission__a_gathering_that_is_late_ends_before_others_move),
		TEST(admission__progress_is_told_before_others_move),
		TEST(admission__numbers_are_kept_in_their_order),
		TEST(admission__who_was_heard_while_gathering_is_no_silent_member),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
