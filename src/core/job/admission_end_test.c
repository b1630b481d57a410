/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a gathering or a life ends before its time: who is lost, who aborts, what the aggregator itself ends.
 */
#include "core/job/admission_fixture.h"

/* ---- members ---- */

/* R-CT-16 */
static void admission__a_killed_rank_is_named_to_all_others_at_once(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 3);
	close_connection(11);
	assert_done("abort>12 close>12 abort>10 close>10 remove");
	assert_text(CONTROL_REMOTE, 1,
		    "rank 1 on host11 died: process 111 has closed its connection without leaving");
	assert_state(ADMISSION_DRAIN);
}

static void admission__a_killed_rank_ends_a_granted_and_an_enabling_job_too(void **state)
{
	(void)state;
	bring_to(ADMISSION_GRANTED, 10, 2);
	close_connection(10);
	assert_done("abort>11 close>11 remove");
	close_connection(11);
	acknowledge(ADMISSION_JOB_REMOVE);
	bring_to(ADMISSION_ENABLING, 20, 2);
	close_connection(21);
	assert_done("abort>20 close>20 remove");
}

/* R-CT-17 */
static void admission__drain_ends_when_all_are_closed_and_all_shards_are_clean(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 3);
	close_connection(11);
	close_connection(10);
	assert_int_equal(admission_member(t.admission, 0)->presence, ADMISSION_GONE);
	assert_int_equal(admission_member(t.admission, 1)->presence, ADMISSION_GONE);
	assert_state(ADMISSION_DRAIN);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_DRAIN);
	close_connection(12);
	assert_state(ADMISSION_NONE);
}

static void admission__a_silent_rank_is_dead_after_the_heartbeat_time(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	for (uint32_t i = 0; i < 13; i++) { /* and two beats more */
		wait_seconds(1);
		say_type(10, CONTROL_HEARTBEAT);
	}
	assert_done("");
	wait_seconds(1);
	assert_done("abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_REMOTE, 1,
		    "rank 1 on host11 has been silent for more than 10000 ms (process 111)");
}

static void hear_udp(uint16_t rank)
{
	step((struct admission_event){ .type = ADMISSION_HEARD, .rank = rank });
}

/* A link was down; TCP, which has backed off, will be heard later. */
static void admission__hello_ends_a_silence_but_not_for_ever(void **state)
{
	uint32_t seconds = 0;

	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	while (t.admission->state == ADMISSION_STARTED && seconds < 60) {
		wait_seconds(1);
		seconds++;
		say_type(10, CONTROL_HEARTBEAT);
		if (seconds >= 10)
			hear_udp(1);
	}
	assert_int_equal(seconds, 42);
	assert_text(CONTROL_REMOTE, 1,
		    "rank 1 on host11 has been silent for more than 10000 ms over TCP, although it "
		    "is heard over UDP (process 111)");
}

static void admission__hello_of_nobody_ends_no_silence(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	for (uint32_t i = 0; i < 14; i++) {
		wait_seconds(1);
		say_type(10, CONTROL_HEARTBEAT);
		hear_udp(0);
		hear_udp(2);
		hear_udp(CONTROL_RANK_NONE);
	}
	assert_done("abort>11 close>11 abort>10 close>10 remove");
}

static void admission__who_is_found_silent_goes_alone_from_a_gathering(void **state)
{
	(void)state;
	join(10, 0, 3);
	join(11, 1, 3);
	event(ADMISSION_TICK);
	t.done[0] = 0;
	for (uint32_t i = 0; i < 14; i++) {
		t.now_ns += second_ns;
		say_type(10, CONTROL_HEARTBEAT);
		event(ADMISSION_TICK);
	}
	assert_true(strstr(t.done, "deny>11 close>11"));
	assert_text(CONTROL_REMOTE, 1,
		    "rank 1 on host11 has been silent for more than 10000 ms (process 111)");
	assert_state(ADMISSION_GATHER);
	assert_int_equal(admission_member(t.admission, 0)->presence, ADMISSION_JOINED);
}

static void admission__a_silent_rank_is_thrown_out_of_the_gathering(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(20, 0, 2); /* waits for 10, which has no power */
	event(ADMISSION_TICK);
	t.done[0] = 0;
	for (uint32_t i = 0; i < 14; i++) {
		t.now_ns += second_ns;
		say_type(20, CONTROL_HEARTBEAT);
		event(ADMISSION_TICK);
	}
	assert_true(strstr(t.done, "deny>10 close>10"));
	assert_int_equal(admission_member(t.admission, 0)->peer.connection, 20);
}

static void admission__all_who_are_silent_go_at_once(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(20, 0, 2);
	join(21, 1, 2);
	event(ADMISSION_TICK);
	t.done[0] = 0;
	for (uint32_t i = 0; i < 14; i++) {
		t.now_ns += second_ns;
		say_type(10, CONTROL_HEARTBEAT);
		say_type(11, CONTROL_HEARTBEAT);
		event(ADMISSION_TICK);
	}
	assert_true(strstr(t.done, "deny>20 close>20 deny>21 close>21"));
	assert_int_equal(t.admission->waiters_count, 0);
	assert_state(ADMISSION_STARTED);
}

static void admission__heartbeats_go_five_times_in_a_heartbeat_time(void **state)
{
	uint32_t beats = 0;

	(void)state;
	t.config.heartbeat_ns = 5 * second_ns;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	for (uint32_t i = 0; i < 40; i++) {
		struct admission_event tick = { .type = ADMISSION_TICK };

		t.now_ns += second_ns / 10;
		tick.now_ns = t.now_ns;
		admission_step(t.admission, &t.config, &tick, &t.actions);
		assert_true(t.actions.wake_ns <= t.now_ns + second_ns);
		for (uint32_t k = 0; k < t.actions.count; k++)
			beats += t.list[k].message == CONTROL_HEARTBEAT;
	}
	assert_int_equal(beats, 8); /* two connections, every second */
}

static void admission__heartbeats_go_to_members_and_waiters(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(20, 0, 2);
	uint32_t beats = 0;
	for (uint32_t i = 0; i < 4; i++) {
		t.now_ns += second_ns;
		struct admission_event tick = { .type = ADMISSION_TICK, .now_ns = t.now_ns };
		admission_step(t.admission, &t.config, &tick, &t.actions);
		for (uint32_t k = 0; k < t.actions.count; k++)
			beats += t.list[k].message == CONTROL_HEARTBEAT;
	}
	assert_int_equal(beats, 6); /* three connections, every 2 s */
}

static void admission__a_daemon_that_overslept_blames_nobody(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	wait_seconds(1);
	t.now_ns += 60 * second_ns;
	event(ADMISSION_TICK);
	assert_done("");
	for (uint32_t i = 0; i < 13; i++)
		wait_seconds(1);
	assert_done("");
	assert_state(ADMISSION_STARTED);
	wait_seconds(1); /* now they really are */
	assert_true(strstr(t.done, "abort>10"));
}

static void admission__a_quarter_of_the_heartbeat_time_without_a_tick_is_sleep(void **state)
{
	uint64_t heard_ns;

	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	heard_ns = t.now_ns;
	t.now_ns += t.config.heartbeat_ns / 4 - 1;
	event(ADMISSION_TICK);
	assert_true(admission_member(t.admission, 1)->peer.heard_ns == heard_ns);
	t.now_ns += t.config.heartbeat_ns / 4;
	event(ADMISSION_TICK);
	assert_true(admission_member(t.admission, 1)->peer.heard_ns == t.now_ns);
}

static void admission__a_users_abort_is_told_to_all_with_its_text(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 3);
	say_abort(12, CONTROL_ABORTED, "loss is NaN");
	assert_done("close>12 abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_REMOTE, 2, "rank 2 on host12 aborted: loss is NaN");
}

static void admission__a_members_own_failure_is_told_to_all(void **state)
{
	(void)state;
	bring_to(ADMISSION_GRANTED, 10, 2);
	say_abort(10, CONTROL_SYSTEM, "UDP does not work");
	assert_done("close>10 abort>11 close>11 remove");
	assert_text(CONTROL_REMOTE, 0, "rank 0 on host10 failed: UDP does not work");
	close_connection(10);
	close_connection(11);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_NONE);
}

static void admission__who_aborts_while_gathering_only_frees_its_rank(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(11, 1, 3);
	t.done[0] = 0;
	join(10, 0, 2);
	say_abort(10, CONTROL_ABORTED, "");
	assert_done("close>10");
	assert_state(ADMISSION_NONE);
}

static void admission__leaving_before_the_start_ends_the_job(void **state)
{
	(void)state;
	bring_to(ADMISSION_GRANTED, 10, 2);
	say_leave(11, 0);
	assert_done("close>11 abort>10 close>10 remove");
	assert_text(CONTROL_REMOTE, 1, "rank 1 on host11 left before the job had started");
}

/* ---- the aggregator itself ---- */

static void admission__a_shard_without_room_ends_the_job_by_name(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(11, 1, 2);
	t.done[0] = 0;
	step(refusal_of(1, ADMISSION_JOB_ADD));
	assert_done("abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_NO_RESOURCE, CONTROL_RANK_NONE,
		    "job \"train\" of 2: the aggregator has no room for it (shard 1)");
	/* the other shard's answer to JOB_ADD comes late */
	step(answer_of(0, ADMISSION_JOB_ADD));
	assert_done("");
	close_connection(10);
	close_connection(11);
	assert_state(ADMISSION_DRAIN);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_NONE);
}

static void admission__a_path_that_takes_no_packet_ends_the_job_with_its_rank(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(11, 1, 2);
	t.done[0] = 0;
	step((struct admission_event){ .type = ADMISSION_SHARD,
				       .command = ADMISSION_JOB_ADD,
				       .has_failed = true,
				       .is_path = true,
				       .rank = 1,
				       .text = "rank 1 on node1: narrow",
				       .job_generation = t.admission->generation });
	assert_done("abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_SYSTEM, 1, "job \"train\" of 2: rank 1 on node1: narrow");
}

static void admission__a_broken_data_path_ends_the_life_by_name(void **state)
{
	(void)state;
	join(10, 0, 2);
	t.done[0] = 0;
	step((struct admission_event){
		.type = ADMISSION_BROKEN, .rank = CONTROL_RANK_NONE, .text = "no more" });
	assert_done(""); /* who gathers has no path yet */
	close_connection(10);
	bring_to(ADMISSION_STARTED, 20, 2);
	step((struct admission_event){
		.type = ADMISSION_BROKEN, .rank = 1, .text = "the path is narrow" });
	assert_done("abort>21 close>21 abort>20 close>20 remove");
	assert_text(CONTROL_SYSTEM, 1, "job \"train\": the path is narrow");
}

static void admission__sigterm_denies_gatherings_waiters_and_newcomers(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(20, 0, 2);
	t.done[0] = 0;
	event(ADMISSION_TERMINATE);
	assert_done("deny>20 close>20 deny>10 close>10");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": the aggregator is shutting down");
	assert_true(admission_is_idle(t.admission));
	join(30, 0, 2);
	assert_done("deny>30 close>30");
}

static void admission__sigterm_lets_a_running_job_end(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TERMINATE);
	assert_done("");
	say_leave(10, 1);
	say_leave(11, 1);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_true(admission_is_idle(t.admission));
}

static void admission__sigterms_limit_aborts_a_running_job(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TERMINATE);
	event(ADMISSION_KILL);
	assert_done("abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_REMOTE, CONTROL_RANK_NONE,
		    "job \"train\": the aggregator is shutting down, the time to end is over");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(admission__a_killed_rank_is_named_to_all_others_at_once),
		TEST(admission__a_killed_rank_ends_a_granted_and_an_enabling_job_too),
		TEST(admission__drain_ends_when_all_are_closed_and_all_shards_are_clean),
		TEST(admission__a_silent_rank_is_dead_after_the_heartbeat_time),
		TEST(admission__hello_ends_a_silence_but_not_for_ever),
		TEST(admission__hello_of_nobody_ends_no_silence),
		TEST(admission__who_is_found_silent_goes_alone_from_a_gathering),
		TEST(admission__a_silent_rank_is_thrown_out_of_the_gathering),
		TEST(admission__all_who_are_silent_go_at_once),
		TEST(admission__heartbeats_go_five_times_in_a_heartbeat_time),
		TEST(admission__heartbeats_go_to_members_and_waiters),
		TEST(admission__a_daemon_that_overslept_blames_nobody),
		TEST(admission__a_quarter_of_the_heartbeat_time_without_a_tick_is_sleep),
		TEST(admission__a_users_abort_is_told_to_all_with_its_text),
		TEST(admission__a_members_own_failure_is_told_to_all),
		TEST(admission__who_aborts_while_gathering_only_frees_its_rank),
		TEST(admission__leaving_before_the_start_ends_the_job),
		TEST(admission__a_shard_without_room_ends_the_job_by_name),
		TEST(admission__a_path_that_takes_no_packet_ends_the_job_with_its_rank),
		TEST(admission__a_broken_data_path_ends_the_life_by_name),
		TEST(admission__sigterm_denies_gatherings_waiters_and_newcomers),
		TEST(admission__sigterm_lets_a_running_job_end),
		TEST(admission__sigterms_limit_aborts_a_running_job),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
