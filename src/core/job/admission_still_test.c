/* SPDX-License-Identifier: Apache-2.0 */
/* Standstill: what nobody explains ends; what somebody explains does not. */
#include "core/dense/misfit.h"
#include "core/job/admission_fixture.h"

static const uint64_t ms_ns = 1000000;
static struct control_op stuck;

static int begin(void **state)
{
	set_up(state);
	stuck = allreduce(3, 6);
	bring_to(ADMISSION_STARTED, 10, 3);
	event(ADMISSION_TICK);
	return 0;
}

static void stall(uint32_t connection, uint64_t number, uint32_t still_ms)
{
	say_stall_of(connection, (struct control_stall){ .number = number,
							 .waited_ms = still_ms + 700,
							 .still_ms = still_ms });
}

/* Time passes, everybody is heard of. */
static void pass(uint64_t ms)
{
	t.now_ns += ms * ms_ns;
	for (uint32_t rank = 0; rank < 3 && t.admission->state == ADMISSION_STARTED; rank++)
		say_type(10 + rank, CONTROL_HEARTBEAT);
	event(ADMISSION_TICK);
}

static void answers(void)
{
	for (uint32_t rank = 0; rank < 3 && t.admission->state == ADMISSION_STARTED; rank++)
		say_opinfo(10 + rank, 4, &stuck, 1);
}

/* Each second, as a member says it that has had its last result still_ms ago. */
static void stalls(uint32_t seconds, uint32_t still_ms)
{
	for (uint32_t i = 0; i < seconds && t.admission->state == ADMISSION_STARTED; i++) {
		pass(1000);
		stall(10, 3, still_ms + i * 1000);
		answers();
	}
}

static void admission__what_stands_still_for_as_long_as_a_silence_ends(void **state)
{
	(void)state;
	stalls(14, 500);
	assert_state(ADMISSION_STARTED);
	stalls(1, 14500);
	assert_text(
		CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		"operation 3 stands still: all ranks have called it, and rank 0 on host10 had no "
		"result for 14.0 s; the aggregator refused no packet of any rank: the network "
		"loses them, or a rank sends none");
	assert_state(ADMISSION_DRAIN);
}

static void admission__who_sent_what_does_not_fit_is_named(void **state)
{
	(void)state;
	for (uint32_t count = 1; count <= 512; count *= 2)
		step((struct admission_event){ .type = ADMISSION_MISFIT,
					       .rank = 2,
					       .misfit = MISFIT_MORE_LANES,
					       .count = count });
	assert_string_equal(t.log,
			    "rank 2 on host12 sent 512 or more packets that do not fit (more "
			    "lanes than agreed)");
	assert_int_equal(t.log_level, ADMISSION_LOG_LIMITED); /* anybody can cause it */
	step((struct admission_event){
		.type = ADMISSION_MISFIT, .rank = 2, .misfit = MISFIT_SLOT, .count = 4 });
	stalls(15, 500);
	assert_text(
		CONTROL_TIMEOUT, 2,
		"operation 3 stands still: all ranks have called it, and rank 0 on host10 had no "
		"result for 14.0 s; rank 2 on host12 sent 512 or more packets that do not fit "
		"(more lanes than agreed)");
}

/* All stall, one of them on an older number: rounds are about either. */
static void admission__the_one_that_waits_for_longest_is_told_of(void **state)
{
	(void)state;
	struct control_op next = allreduce(4, 6);

	for (uint32_t i = 0; i < 16 && t.admission->state == ADMISSION_STARTED; i++) {
		pass(500);
		stall(11, 4, 500 + i * 1000);
		say_opinfo(10, 5, (struct control_op[]){ stuck, next }, 2);
		pass(500);
		say_opinfo(11, 5, &next, 1);
		say_opinfo(12, 5, &next, 1);
		stall(10, 3, 1000 + i * 1000);
		if (t.admission->query == ADMISSION_QUIET)
			continue;
		say_opinfo(10, 5, (struct control_op[]){ stuck, next }, 2);
		say_opinfo(11, 5, &next, 1);
		say_opinfo(12, 5, &next, 1);
	}
	assert_state(ADMISSION_DRAIN);
	assert_non_null(strstr(t.text, "stands still"));
}

static void admission__results_that_come_seldom_are_results(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		stalls(12, 500); /* and then one has come */
	assert_state(ADMISSION_STARTED);
}

static void admission__one_that_says_nothing_of_results_ends_nothing(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 60; i++) {
		pass(1000);
		stall(10, 3, 0);
		answers();
	}
	assert_state(ADMISSION_STARTED);
}

static void admission__another_number_is_another_standstill(void **state)
{
	(void)state;
	for (uint64_t number = 3; number < 10; number++) {
		stuck = allreduce(number, 6);
		for (uint32_t i = 0; i < 12; i++) {
			pass(1000);
			stall(10, number, i * 1000);
			for (uint32_t rank = 0; rank < 3; rank++)
				say_opinfo(10 + rank, number + 1, &stuck, 1);
		}
	}
	assert_state(ADMISSION_STARTED);
}

static void admission__a_rank_that_has_not_called_explains_it(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 60; i++) {
		pass(1000);
		stall(10, 3, i * 1000);
		say_opinfo(10, 4, &stuck, 1);
		say_opinfo(11, 3, NULL, 0);
		say_opinfo(12, 4, &stuck, 1);
	}
	assert_state(ADMISSION_STARTED);
	stalls(13, 60000); /* and has now: the time begins with that */
	assert_state(ADMISSION_STARTED);
	stalls(3, 73000);
	assert_state(ADMISSION_DRAIN);
}

/* A rank that was stopped answers when it goes on, and then its packets go on, too. */
static void admission__a_slow_answer_explains_it(void **state)
{
	(void)state;
	stalls(5, 500);
	pass(1000);
	stall(10, 3, 5500);
	say_opinfo(10, 4, &stuck, 1);
	for (uint32_t i = 0; i < 12; i++) {
		pass(1000);
		stall(10, 3, 6500 + i * 1000);
	}
	answers();
	assert_state(ADMISSION_STARTED);
	stalls(13, 18500);
	assert_state(ADMISSION_STARTED);
	stalls(3, 31500);
	assert_state(ADMISSION_DRAIN);
}

static void admission__a_daemon_that_overslept_begins_to_wait_anew(void **state)
{
	(void)state;
	stalls(13, 500);
	pass(20000);
	stall(10, 3, 33500);
	answers();
	assert_state(ADMISSION_STARTED);
	stalls(12, 34500);
	assert_state(ADMISSION_STARTED);
}

static void admission__a_deadline_that_is_earlier_is_the_cause(void **state)
{
	(void)state;
	stalls(4, 500);
	say_stall_of(10, (struct control_stall){ .number = 3, .is_expired = 1 });
	answers();
	assert_non_null(strstr(t.text, "the deadline of operation 3 is over"));
}

static void admission__a_short_heartbeat_time_gives_3_s(void **state)
{
	(void)state;
	t.config.heartbeat_ns = second_ns;
	for (uint32_t i = 0; i < 30; i++) {
		if (i % 10 == 0) {
			stall(10, 3, 500 + i * 100);
			answers();
		}
		pass(100);
	}
	assert_state(ADMISSION_STARTED);
	stall(10, 3, 3500);
	answers();
	assert_state(ADMISSION_DRAIN);
}

/* ---- those who do not say what they have called ---- */

static void admission__who_heartbeats_and_never_answers_is_named(void **state)
{
	(void)state;
	stall(10, 3, 500);
	say_opinfo(10, 4, &stuck, 1);
	say_opinfo(12, 4, &stuck, 1);
	for (uint32_t i = 0; i < 13; i++)
		pass(1000);
	assert_state(ADMISSION_STARTED);
	pass(1000);
	assert_text(CONTROL_REMOTE, 1,
		    "rank 1 on host11 is heard, but has not said for 14000 ms what it has called");
}

/* Who waits hears of the progress in the same second: that must not take the verdict's place. */
static void admission__a_verdict_is_not_lost_to_a_line_of_progress(void **state)
{
	(void)state;
	join(20, 0, 4);
	event(ADMISSION_TICK);
	stall(10, 3, 500);
	say_opinfo(10, 4, &stuck, 1);
	say_opinfo(12, 4, &stuck, 1);
	for (uint32_t i = 0; i < 14; i++) {
		say_type(20, CONTROL_HEARTBEAT);
		pass(1000);
	}
	assert_text(CONTROL_REMOTE, 1,
		    "rank 1 on host11 is heard, but has not said for 14000 ms what it has called");
	assert_state(ADMISSION_DRAIN);
}

static void admission__who_forgets_what_is_complete_is_named(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		stall(10, 3, 500);
		say_opinfo(10, 4, (struct control_op[]){ allreduce(1, 6), stuck }, 2);
		say_opinfo(11, 4, &stuck, 1);
		say_opinfo(12, i ? 2 : 3, NULL, 0); /* 3 were complete at rank 1 before */
		assert_state(i ? ADMISSION_DRAIN : ADMISSION_STARTED);
	}
	assert_text(
		CONTROL_INTERNAL, CONTROL_RANK_NONE,
		"rank 2 on host12 says that it has called 2 operations, rank 1 on host11 that 3 "
		"are complete: one of them is wrong");
}

/* Answers of one round are not of one moment. */
static void admission__who_answered_before_the_others_went_on_is_not(void **state)
{
	(void)state;
	stall(10, 3, 500);
	say_opinfo(12, 3, NULL, 0);
	say_opinfo(11, 9, NULL, 0);
	say_opinfo(10, 9, NULL, 0);
	assert_state(ADMISSION_STARTED);
}

static void admission__between_whom_packets_differ_is_told(void **state)
{
	(void)state;
	step((struct admission_event){ .type = ADMISSION_MISMATCH, .rank = 1, .other = 2 });
	answers();
	assert_text(
		CONTROL_INTERNAL, CONTROL_RANK_NONE,
		"packets of rank 1 on host11 and of rank 2 on host12 differ although their calls "
		"agree: an internal error (job \"train\", generation 4294967293)");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			admission__what_stands_still_for_as_long_as_a_silence_ends, begin,
			tear_down),
		cmocka_unit_test_setup_teardown(admission__who_sent_what_does_not_fit_is_named,
						begin, tear_down),
		TEST(admission__the_one_that_waits_for_longest_is_told_of),
		TEST(admission__results_that_come_seldom_are_results),
		TEST(admission__one_that_says_nothing_of_results_ends_nothing),
		TEST(admission__another_number_is_another_standstill),
		TEST(admission__a_rank_that_has_not_called_explains_it),
		TEST(admission__a_slow_answer_explains_it),
		TEST(admission__a_daemon_that_overslept_begins_to_wait_anew),
		TEST(admission__a_deadline_that_is_earlier_is_the_cause),
		TEST(admission__a_short_heartbeat_time_gives_3_s),
		TEST(admission__who_heartbeats_and_never_answers_is_named),
		TEST(admission__a_verdict_is_not_lost_to_a_line_of_progress),
		TEST(admission__who_forgets_what_is_complete_is_named),
		TEST(admission__who_answered_before_the_others_went_on_is_not),
		TEST(admission__between_whom_packets_differ_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
