/* SPDX-License-Identifier: Apache-2.0 */
/* Every time of admission to the nanosecond: what is so a moment before, and what when it is over. */
#include "core/job/admission_fixture.h"

static struct control_op op;
static const uint32_t both[] = { 10, 11, 0 };

static int begin(void **state)
{
	set_up(state);
	op = allreduce(3, 6);
	return 0;
}

static void restart(void **state)
{
	tear_down(state);
	begin(state);
}

/* A job of two that runs, whatever was before. */
static void start_anew(void **state)
{
	restart(state);
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
}

/* A TICK each second, at least, up to the last nanosecond before `ns` have passed, and `late` later; those who are
 * named are heard of. */
static void pass(uint64_t ns, bool late, const uint32_t *heard)
{
	uint64_t end_ns = t.now_ns + ns - 1 + late;

	while (t.now_ns < end_ns) {
		t.now_ns += end_ns - t.now_ns < second_ns ? end_ns - t.now_ns : second_ns;
		for (const uint32_t *who = heard; who && *who; who++)
			say_type(*who, CONTROL_HEARTBEAT);
		event(ADMISSION_TICK);
	}
	t.done[0] = 0;
}

static void admission__a_refusal_is_remembered_for_5_s(void **state)
{
	for (uint32_t late = 0; late < 2; late++) {
		if (late)
			restart(state);
		join(10, 0, 3);
		join(11, 1, 4);
		pass(5 * second_ns, late, NULL);
		join(12, 2, 3);
		assert_done(late ? "" : "deny>12 close>12");
		assert_state(late ? ADMISSION_GATHER : ADMISSION_NONE);
	}
}

static void admission__an_unfit_rank_is_noted_for_5_s(void **state)
{
	for (uint32_t late = 0; late < 2; late++) {
		if (late)
			restart(state);
		prepare_join(11, 1, 2);
		t.message.join.version_min = t.message.join.version_max = CONTROL_VERSION + 1;
		say(11);
		pass(5 * second_ns, late, NULL);
		join(10, 0, 2);
		assert_done(late ? "" : "deny>10 close>10");
	}
}

static void admission__silence_is_the_heartbeat_time_while_it_runs(void **state)
{
	static const uint32_t heard[] = { 10, 0 };

	for (uint32_t late = 0; late < 2; late++) {
		if (late)
			restart(state);
		t.config.heartbeat_ns = 8 * second_ns;
		bring_to(ADMISSION_STARTED, 10, 2);
		event(ADMISSION_TICK);
		pass(8 * second_ns / 5 * 7, late, heard); /* and two beats, fifths of it */
		assert_state(late ? ADMISSION_DRAIN : ADMISSION_STARTED);
	}
}

static void admission__silence_is_10_s_at_least_before(void **state)
{
	static const uint32_t heard[] = { 10, 0 };

	for (uint32_t late = 0; late < 2; late++) {
		for (uint32_t waits = 0; waits < 2; waits++) {
			if (late || waits)
				restart(state);
			t.config.heartbeat_ns = 7 * second_ns;
			join(10, 0, 3);
			join(11, waits ? 0 : 1, 3); /* a rank that is held: it waits */
			event(ADMISSION_TICK);
			pass(10 * second_ns, late, heard);
			assert_int_equal(t.admission->waiters_count, waits && !late);
			assert_int_equal(admission_member(t.admission, 1)->presence ==
						 ADMISSION_JOINED,
					 !waits && !late);
		}
	}
}

static void admission__silence_is_the_heartbeat_time_before_if_that_is_longer(void **state)
{
	static const uint32_t heard[] = { 10, 0 };

	for (uint32_t late = 0; late < 2; late++) {
		if (late)
			restart(state);
		t.config.heartbeat_ns = 12 * second_ns;
		join(10, 0, 3);
		join(11, 1, 3);
		event(ADMISSION_TICK);
		pass((12 + 4) * second_ns, late, heard); /* and two beats of 2 s */
		assert_int_equal(admission_member(t.admission, 1)->presence,
				 late ? ADMISSION_ABSENT : ADMISSION_JOINED);
	}
}

static void admission__progress_is_told_every_10_s(void **state)
{
	static const uint32_t heard[] = { 10, 0 };

	for (uint32_t late = 0; late < 2; late++) {
		if (late)
			restart(state);
		join(10, 0, 3);
		t.log[0] = 0;
		for (uint32_t i = 0; i < 3; i++) {
			pass(10 * second_ns, late, heard);
			assert_int_equal(!!strstr(t.log, "waiting for"), late);
			if (!late)
				break;
			t.log[0] = 0;
		}
	}
}

static void say_still(uint32_t still_ms)
{
	say_stall_of(10, (struct control_stall){
				 .number = 3, .waited_ms = still_ms, .still_ms = still_ms });
}

static void say_answers(void)
{
	for (uint32_t rank = 0; rank < 2 && t.admission->state == ADMISSION_STARTED; rank++)
		say_opinfo(10 + rank, 4, &op, 1);
}

/* STALLs with the pauses given, until `limit_ns` have passed since the first, and the answers to each. */
static void stand_still(uint64_t pause_ns, uint64_t limit_ns)
{
	uint64_t start_ns = t.now_ns;

	say_still(60000);
	say_answers();
	while (t.now_ns - start_ns < limit_ns && t.admission->state == ADMISSION_STARTED) {
		uint64_t left_ns = start_ns + limit_ns - t.now_ns;

		pass(left_ns < pause_ns ? left_ns : pause_ns, true, both);
		say_still(60000);
		say_answers();
	}
}

static void admission__a_standstill_ends_when_a_silence_would(void **state)
{
	for (uint32_t late = 0; late < 2; late++) {
		for (uint32_t is_short = 0; is_short < 2; is_short++) {
			uint64_t limit_ns = (is_short ? 3 : 14) * second_ns; /* never less */

			if (late || is_short)
				restart(state);
			bring_to(ADMISSION_STARTED, 10, 2);
			t.config.heartbeat_ns = (is_short ? 1 : 10) * second_ns;
			event(ADMISSION_TICK);
			stand_still(second_ns / 5, limit_ns - 1 + late);
			assert_state(late ? ADMISSION_DRAIN : ADMISSION_STARTED);
		}
	}
}

static void admission__a_stall_that_is_not_said_for_2_5_s_begins_anew(void **state)
{
	for (uint32_t late = 0; late < 2; late++) {
		start_anew(state);
		stand_still(5 * second_ns / 2 + late, 15 * second_ns);
		assert_state(late ? ADMISSION_STARTED : ADMISSION_DRAIN);
	}
}

/* What came meanwhile explains the wait, and its clock begins anew. */
static void admission__an_answer_after_1_s_is_slow(void **state)
{
	for (uint32_t late = 0; late < 2; late++) {
		start_anew(state);
		stand_still(second_ns, 5 * second_ns);
		say_still(60000);
		pass(second_ns + late, true, both);
		say_answers();
		assert_int_equal(admission_member(t.admission, 0)->is_still, !late);
	}
}

static void admission__who_does_not_answer_has_as_long_as_a_silent_one(void **state)
{
	for (uint32_t late = 0; late < 2; late++) {
		start_anew(state);
		say_stall(10, 3);
		say_opinfo(10, 4, &op, 1);
		pass(14 * second_ns, late, both);
		assert_state(late ? ADMISSION_DRAIN : ADMISSION_STARTED);
		if (late)
			assert_text(CONTROL_REMOTE, 1,
				    "rank 1 on host11 is heard, but has not said for 14000 ms what "
				    "it has called");
	}
}

static void admission__a_verdict_comes_1_s_after_its_deadline(void **state)
{
	for (uint32_t late = 0; late < 2; late++) {
		start_anew(state);
		say_stall_of(10, (struct control_stall){ .number = 3, .is_expired = 1 });
		pass(second_ns, late, NULL);
		assert_state(late ? ADMISSION_DRAIN : ADMISSION_STARTED);
	}
}

static void admission__granted_and_enabling_have_the_time_to_gather_each(void **state)
{
	for (uint32_t late = 0; late < 2; late++) {
		for (uint32_t i = ADMISSION_GRANTED; i <= ADMISSION_ENABLING; i++) {
			if (late || i > ADMISSION_GRANTED)
				restart(state);
			t.config.gather_ns = 15 * second_ns;
			bring_to(i, 10, 2);
			/* nobody is READY while GRANTED: members tell first */
			pass((i == ADMISSION_GRANTED ? 16 : 15) * second_ns, late, both);
			assert_state(late ? ADMISSION_DRAIN : i);
		}
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(admission__a_refusal_is_remembered_for_5_s),
		TEST(admission__an_unfit_rank_is_noted_for_5_s),
		TEST(admission__silence_is_the_heartbeat_time_while_it_runs),
		TEST(admission__silence_is_10_s_at_least_before),
		TEST(admission__silence_is_the_heartbeat_time_before_if_that_is_longer),
		TEST(admission__progress_is_told_every_10_s),
		TEST(admission__a_standstill_ends_when_a_silence_would),
		TEST(admission__a_stall_that_is_not_said_for_2_5_s_begins_anew),
		TEST(admission__an_answer_after_1_s_is_slow),
		TEST(admission__who_does_not_answer_has_as_long_as_a_silent_one),
		TEST(admission__a_verdict_comes_1_s_after_its_deadline),
		TEST(admission__granted_and_enabling_have_the_time_to_gather_each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
