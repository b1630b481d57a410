/* SPDX-License-Identifier: Apache-2.0 */
#include "core/admission_fixture.h"

/* ---- from JOIN to LEFT ---- */

static void admission__grants_when_all_are_there_and_all_shards_have_added(void **state)
{
	(void)state;
	join(10, 0, 3);
	join(11, 1, 3);
	assert_done("");
	assert_state(ADMISSION_GATHER);
	join(12, 2, 3);
	assert_done("add");
	assert_state(ADMISSION_GRANTED);
	step((struct admission_event){ .type = ADMISSION_SHARD,
				       .shard = 1,
				       .command = ADMISSION_JOB_ADD,
				       .job_generation = t.admission->generation });
	assert_done("");
	step((struct admission_event){ .type = ADMISSION_SHARD,
				       .shard = 0,
				       .command = ADMISSION_JOB_ADD,
				       .job_generation = t.admission->generation });
	assert_done("grant>10 grant>11 grant>12");
}

static void admission__grant_says_life_size_nonce_and_heartbeat(void **state)
{
	(void)state;
	struct control_message message;
	struct admission_action action = { .type = ADMISSION_SEND,
					   .message = CONTROL_GRANT,
					   .rank = 1 };

	bring_to(ADMISSION_GRANTED, 10, 2);
	admission_message(t.admission, &t.config, &t.actions, &action, &message);
	assert_true(message.grant.life == 0x1234567890abcdef);
	assert_int_equal(message.grant.size, 2);
	assert_int_equal(message.grant.workers, 2);
	assert_int_equal(message.grant.heartbeat_ms, 10000);
	assert_int_equal(message.grant.version, CONTROL_VERSION);
	for (size_t i = 0; i < WIRE_NONCE_BYTES; i++)
		assert_int_equal(message.grant.nonce[i], 11);
	assert_memory_equal(admission_nonce(t.admission, 1), message.grant.nonce, 16);
}

static void admission__starts_only_when_every_shard_has_enabled_the_job(void **state)
{
	(void)state;
	bring_to(ADMISSION_GRANTED, 10, 2);
	say_ready(10, 358);
	assert_done("");
	say_ready(11, 1000);
	assert_done("set");
	assert_state(ADMISSION_ENABLING);
	assert_int_equal(t.admission->lanes, 356);
	step((struct admission_event){ .type = ADMISSION_SHARD,
				       .shard = 0,
				       .command = ADMISSION_JOB_SET,
				       .job_generation = t.admission->generation });
	assert_done("");
	step((struct admission_event){ .type = ADMISSION_SHARD,
				       .shard = 1,
				       .command = ADMISSION_JOB_SET,
				       .job_generation = t.admission->generation });
	assert_done("start>10 start>11");
	assert_state(ADMISSION_STARTED);
}

static void admission__acknowledgements_of_an_older_generation_count_for_nothing(void **state)
{
	(void)state;
	bring_to(ADMISSION_ENABLING, 10, 2);
	for (uint16_t shard = 0; shard < 2; shard++)
		step((struct admission_event){ .type = ADMISSION_SHARD,
					       .shard = shard,
					       .command = ADMISSION_JOB_SET,
					       .job_generation = t.admission->generation - 1 });
	assert_done("");
	assert_state(ADMISSION_ENABLING);
}

static void admission__lanes_are_capped_by_the_daemon(void **state)
{
	(void)state;
	t.config.lanes_max = 8;
	bring_to(ADMISSION_STARTED, 10, 2);
	assert_int_equal(t.admission->lanes, 8);
}

static void admission__leave_is_answered_at_once(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	say_leave(10, 7);
	assert_done("left>10 close>10");
	assert_state(ADMISSION_STARTED);
	close_connection(10);
	assert_done("");
	assert_state(ADMISSION_STARTED);
}

static void admission__slots_are_given_back_only_when_all_have_left(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	say_leave(10, 7);
	assert_null(strstr(t.done, "remove"));
	t.done[0] = 0;
	say_leave(11, 7);
	assert_done("left>11 close>11 remove");
	assert_state(ADMISSION_DRAIN);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_NONE);
	assert_true(admission_is_idle(t.admission));
}

static void admission__every_life_has_its_own_generation_and_never_0(void **state)
{
	(void)state;
	uint32_t last = 0;

	for (uint32_t life = 0; life < 5; life++) {
		bring_to(ADMISSION_STARTED, 10 + 10 * life, 2);
		assert_int_not_equal(t.admission->generation, 0);
		assert_int_not_equal(t.admission->generation, last);
		last = t.admission->generation;
		say_leave(10 + 10 * life, 1);
		say_leave(11 + 10 * life, 1);
		acknowledge(ADMISSION_JOB_REMOVE);
		assert_state(ADMISSION_NONE);
	}
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
	assert_done("abort>10 close>10 abort>11 close>11 remove");
	assert_text(CONTROL_SYSTEM, 1, "job \"train\" of 2: rank 1 on node1: narrow");
}

static void admission__a_shard_without_room_ends_the_job_by_name(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(11, 1, 2);
	t.done[0] = 0;
	step((struct admission_event){ .type = ADMISSION_SHARD,
				       .shard = 1,
				       .command = ADMISSION_JOB_ADD,
				       .has_failed = true,
				       .job_generation = t.admission->generation });
	assert_done("abort>10 close>10 abort>11 close>11 remove");
	assert_text(CONTROL_NO_RESOURCE, CONTROL_RANK_NONE,
		    "job \"train\" of 2: the aggregator has no room for it (shard 1)");
	/* the other shard's answer to JOB_ADD comes late */
	step((struct admission_event){ .type = ADMISSION_SHARD,
				       .shard = 0,
				       .command = ADMISSION_JOB_ADD,
				       .job_generation = t.admission->generation });
	assert_done("");
	close_connection(10);
	close_connection(11);
	assert_state(ADMISSION_DRAIN);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_NONE);
}

/* ---- gathering ---- */

static void admission__a_rank_that_goes_while_gathering_may_come_again(void **state)
{
	(void)state;
	join(10, 0, 2);
	close_connection(10);
	assert_state(ADMISSION_NONE);
	join(11, 1, 2);
	join(20, 0, 2);
	assert_done("add");
}

static void admission__another_size_is_denied_to_all_with_both_values(void **state)
{
	(void)state;
	join(10, 0, 3);
	join(11, 1, 3);
	join(12, 2, 4);
	assert_done("deny>12 close>12 deny>10 close>10 deny>11 close>11");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": rank 2 on host12 says size 4, rank 0 on host10 says size 3");
	assert_state(ADMISSION_NONE);
	close_connection(10); /* their ends come later, and mean nothing */
	close_connection(12);
	assert_done("");
}

static void admission__another_list_of_aggregators_is_denied_to_all(void **state)
{
	(void)state;
	join(10, 0, 2);
	prepare_join(11, 1, 2);
	t.message.join.list_hash = 78;
	strcpy(t.message.join.list, "10.0.0.1:7171,10.0.0.2:7171");
	say(11);
	assert_done("deny>11 close>11 deny>10 close>10");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": rank 1 on host11 was given the aggregators "
		    "10.0.0.1:7171,10.0.0.2:7171, "
		    "rank 0 on host10 was given a list of aggregators with hash 77");
}

static void admission__another_protocol_version_is_denied_by_name(void **state)
{
	(void)state;
	join(10, 0, 2);
	prepare_join(11, 1, 2);
	t.message.join.version_min = t.message.join.version_max = CONTROL_VERSION + 1;
	say(11);
	assert_done("deny>11 close>11 deny>10 close>10");
	assert_text(CONTROL_VERSION_BAD, CONTROL_RANK_NONE,
		    "rank 1 on host11 speaks protocol versions 2 to 2, this aggregator 1");
	join(13, 0, 2);
	prepare_join(12, 1, 2);
	t.message.join.version_max = CONTROL_VERSION + 1; /* 1 is among what it speaks */
	say(12);
	assert_done("add");
}

static void admission__a_job_too_large_for_the_daemon_is_denied(void **state)
{
	(void)state;
	join(10, 0, 9);
	assert_done("deny>10 close>10");
	assert_text(CONTROL_NO_RESOURCE, CONTROL_RANK_NONE,
		    "job \"train\" of 9 ranks: this aggregator takes 1 to 8");
	join(11, 2, 2);
	assert_done("deny>11 close>11");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "rank 2 on host11: there is no such rank in a job of 2");
	prepare_join(12, 1, 2);
	t.message.join.workers = 32768; /* two of these are more than GRANT can say */
	say(12);
	assert_done("deny>12 close>12");
	assert_text(CONTROL_NO_RESOURCE, CONTROL_RANK_NONE,
		    "rank 1 on host12 stands for 32768 workers, in a job of 2: at most 32767");
	assert_true(admission_is_idle(t.admission));
}

static void admission__gathering_timeout_names_the_missing(void **state)
{
	(void)state;
	t.config.gather_ns = 30 * second_ns;
	join(10, 0, 8);
	join(12, 2, 8);
	for (uint32_t i = 0; i < 29; i++) {
		wait_seconds(1);
		say_type(10, CONTROL_HEARTBEAT);
		say_type(12, CONTROL_HEARTBEAT);
	}
	assert_done("progress>10 progress>12 progress>10 progress>12");
	assert_string_equal(t.text, "job \"train\": waiting for ranks 1, 3-7 of 8");
	wait_seconds(1);
	assert_done("abort>10 close>10 abort>12 close>12");
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "job \"train\" of 8: ranks 1, 3-7 did not come in time");
	assert_state(ADMISSION_NONE);
}

static void admission__a_join_may_ask_for_less_patience(void **state)
{
	(void)state;
	prepare_join(10, 0, 2);
	t.message.join.timeout_ms = 2000;
	say(10);
	wait_seconds(1);
	assert_done("");
	assert_true(t.actions.wake_ns <= t.now_ns + second_ns);
	wait_seconds(1);
	assert_done("abort>10 close>10");
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "job \"train\" of 2: rank 1 did not come in time");
}

static void admission__progress_tells_how_the_last_life_ended(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	close_connection(11);
	close_connection(10);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_NONE);
	join(20, 0, 2);
	for (uint32_t i = 0; i < 10; i++) {
		wait_seconds(1);
		say_type(20, CONTROL_HEARTBEAT);
	}
	assert_string_equal(t.text, "job \"train\": waiting for rank 1 of 2; the last one ended "
				    "with: a member was lost (rank 1)");
}

static void admission__granted_but_never_ready_is_named(void **state)
{
	(void)state;
	t.config.gather_ns = 5 * second_ns;
	bring_to(ADMISSION_GRANTED, 10, 3);
	say_ready(11, 360);
	wait_seconds(5);
	assert_done("abort>10 close>10 abort>11 close>11 abort>12 close>12 remove");
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "job \"train\" of 3: rank 0 on host10, rank 2 on host12 did not get ready in "
		    "time");
}

/* ---- a rank that is held ---- */

static void admission__who_claims_a_held_rank_waits_while_both_are_pinged(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(20, 0, 2);
	assert_done("ping>10 ping>20");
	assert_int_equal(t.admission->waiters_count, 1);
}

static void admission__a_freed_rank_goes_to_its_first_waiter(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(20, 0, 2);
	join(30, 0, 2);
	t.done[0] = 0;
	close_connection(10);
	/* 20 has the rank now; 30 claims it too */
	assert_done("ping>20 ping>30");
	assert_int_equal(admission_member(t.admission, 0)->peer.connection, 20);
	close_connection(30);
	join(21, 1, 2);
	assert_done("add");
}

static void admission__two_living_claims_are_both_denied_while_gathering(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(20, 0, 2);
	t.done[0] = 0;
	say_pong(10, t.serial);
	assert_done("");
	say_pong(20, t.serial);
	assert_done("deny>20 close>20 deny>10 close>10");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": rank 0 is held by process 110 on host10, and process 120 on "
		    "host20 claims it too; both are alive");
	assert_state(ADMISSION_NONE);
}

static void admission__a_living_holder_of_a_running_job_keeps_its_rank(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(20, 0, 2);
	assert_done("ping>10 ping>20");
	say_pong(20, t.serial);
	say_pong(10, t.serial);
	assert_done("deny>20 close>20");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": rank 0 is held by process 110 on host10, which is alive: the "
		    "job runs, another of its name must wait");
	assert_state(ADMISSION_STARTED);
}

static void admission__an_older_pong_or_a_heartbeat_proves_nothing(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(20, 0, 2);
	uint32_t first = t.serial;
	join(21, 1, 2);
	join(30, 0, 2);
	t.done[0] = 0;
	say_pong(30, t.serial);
	say_pong(10, first); /* the answer to the first claim's ping, overtaken by the third's */
	say_type(10, CONTROL_HEARTBEAT);
	assert_done("");
	assert_int_equal(t.admission->waiters_count, 3);
}

static void admission__who_restarts_after_a_crash_waits_for_the_end_and_is_admitted(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(20, 0, 2); /* before anybody knows that rank 0 died */
	assert_done("ping>10 ping>20");
	say_pong(20, t.serial);
	close_connection(10);
	assert_done("abort>11 close>11 remove");
	join(21, 1, 2);
	assert_done("");
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_DRAIN);
	assert_done("");
	close_connection(11);
	assert_done("add");
	assert_state(ADMISSION_GRANTED);
	assert_int_equal(admission_member(t.admission, 0)->peer.connection, 20);
	assert_int_equal(admission_member(t.admission, 1)->peer.connection, 21);
}

static void admission__a_join_waits_for_a_rank_that_has_left(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	say_leave(10, 3);
	t.done[0] = 0;
	join(20, 0, 2);
	assert_done("");
	say_leave(11, 3);
	assert_done("left>11 close>11 remove");
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_GATHER);
	join(21, 1, 2);
	assert_done("add");
}

static void admission__another_size_waits_for_the_running_job_too(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(23, 3, 4);
	assert_done("ping>11 ping>23"); /* rank 1 answers for a rank that this life does not have */
	close_connection(11);
	close_connection(10);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_GATHER);
	assert_int_equal(t.admission->size, 4);
}

static void admission__too_many_waiters_are_denied(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	for (uint32_t i = 0; i < 3; i++)
		join(20 + i, 0, 2);
	t.done[0] = 0;
	join(30, 0, 2);
	assert_done("deny>30 close>30");
	assert_text(CONTROL_NO_RESOURCE, CONTROL_RANK_NONE,
		    "job \"train\": 3 processes wait for its name already");
}

static void admission__waiters_that_disagree_are_all_told(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(20, 0, 2);
	join(23, 3, 4);
	join(31, 1, 2);
	close_connection(10);
	close_connection(11);
	t.done[0] = 0;
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_done("deny>23 close>23 deny>31 close>31 deny>20 close>20");
	assert_state(ADMISSION_NONE);
	join(40, 0, 2);
	join(41, 1, 2);
	assert_done("add");
}

/* ---- lost members ---- */

static void admission__a_killed_rank_is_named_to_all_others_at_once(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 3);
	close_connection(11);
	assert_done("abort>10 close>10 abort>12 close>12 remove");
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

static void admission__drain_ends_when_all_are_closed_and_all_shards_are_clean(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 3);
	close_connection(11);
	close_connection(10);
	assert_state(ADMISSION_DRAIN);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_DRAIN);
	step((struct admission_event){ .type = ADMISSION_SILENT, .connection = 12 });
	assert_state(ADMISSION_NONE);
}

static void admission__a_silent_rank_is_dead_after_the_heartbeat_time(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	for (uint32_t i = 0; i < 9; i++) {
		wait_seconds(1);
		say_type(10, CONTROL_HEARTBEAT);
	}
	assert_done("");
	wait_seconds(1);
	assert_done("abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_REMOTE, 1,
		    "rank 1 on host11 has been silent for more than 10000 ms (process 111)");
}

static void admission__a_silent_rank_is_thrown_out_of_the_gathering(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(20, 0, 2); /* waits for 10, which has no power */
	event(ADMISSION_TICK);
	t.done[0] = 0;
	for (uint32_t i = 0; i < 10; i++) {
		t.now_ns += second_ns;
		say_type(20, CONTROL_HEARTBEAT);
		event(ADMISSION_TICK);
	}
	assert_true(strstr(t.done, "deny>10 close>10"));
	assert_int_equal(admission_member(t.admission, 0)->peer.connection, 20);
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
	for (uint32_t i = 0; i < 9; i++)
		wait_seconds(1);
	assert_done("");
	assert_state(ADMISSION_STARTED);
	wait_seconds(1); /* now they really are */
	assert_true(strstr(t.done, "abort>10"));
}

static void admission__a_users_abort_is_told_to_all_with_its_text(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 3);
	say_abort(12, CONTROL_ABORTED, "loss is NaN");
	assert_done("close>12 abort>10 close>10 abort>11 close>11 remove");
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

/* ---- who disagrees ---- */

static void admission__stall_asks_all_and_waits_if_all_agree(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(4, 5) };

	bring_to(ADMISSION_STARTED, 10, 3);
	say_stall(10, 4);
	assert_done("query>10 query>11 query>12");
	say_opinfo(10, 5, ops, 1);
	say_opinfo(11, 5, ops, 1);
	say_opinfo(12, 4, NULL, 0);
	assert_done("waiting>10 waiting>11 waiting>12");
	assert_state(ADMISSION_STARTED);
	assert_string_equal(t.log, "operation 4 waits for rank 2 on host12, for 0.0 s");
}

static void admission__mismatch_names_the_odd_rank_and_both_calls(void **state)
{
	(void)state;
	struct control_op common[] = { allreduce(4, 6) }, other[] = { allreduce(4, 5) };

	bring_to(ADMISSION_STARTED, 10, 3);
	say_stall(10, 4);
	for (uint32_t pass = 0; pass < 2; pass++) {
		assert_done("query>10 query>11 query>12");
		assert_int_equal(t.from, pass ? 4 : 0);
		say_opinfo(10, 5, common, 1);
		say_opinfo(11, 5, other, 1);
		say_opinfo(12, 5, common, 1);
	}
	assert_done("abort>10 close>10 abort>11 close>11 abort>12 close>12 remove");
	assert_text(CONTROL_MISMATCH, 1,
		    "operation 4 differs: rank 1 on host11 calls allreduce of 5 int32, sum "
		    "(express); the others: rank 0 on host10, rank 2 on host12 call allreduce of 6 "
		    "int32, sum (express)");
}

static void admission__a_tie_names_both_groups_and_nobody_as_odd(void **state)
{
	(void)state;
	struct control_op one[] = { allreduce(0, 0) }, two[] = { allreduce(0, 5) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(11, 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		say_opinfo(10, 1, one, 1);
		say_opinfo(11, 1, two, 1);
	}
	assert_text(CONTROL_MISMATCH, CONTROL_RANK_NONE,
		    "operation 0 differs: rank 0 on host10 calls allreduce of 0 int32, sum "
		    "(express); rank 1 on host11 calls allreduce of 5 int32, sum (express)");
}

static void admission__different_streams_are_a_mismatch(void **state)
{
	(void)state;
	struct control_op one[] = { allreduce(9, 64) }, two[] = { allreduce(9, 64) };

	two[0].stream = MAP_BULK;
	two[0].type = 7;
	two[0].op = 4;
	strcpy(two[0].name, "grad");
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(11, 9);
	for (uint32_t pass = 0; pass < 2; pass++) {
		say_opinfo(10, 10, one, 1);
		say_opinfo(11, 10, two, 1);
	}
	assert_text(
		CONTROL_MISMATCH, CONTROL_RANK_NONE,
		"operation 9 differs: rank 0 on host10 calls allreduce of 64 int32, sum (express); "
		"rank 1 on host11 calls allreduce of 64 float32, avg \"grad\" (bulk)");
}

static void admission__every_kind_of_call_has_its_words(void **state)
{
	(void)state;
	struct control_op calls[CONTROL_OP_KIND_END];

	for (uint32_t kind = 0; kind < CONTROL_OP_KIND_END; kind++) {
		calls[kind] = allreduce(0, 3);
		calls[kind].kind = kind;
		calls[kind].root = 1;
	}
	t.config.groups_max = CONTROL_OP_KIND_END; /* set_up lent memory for fewer */
	free(t.admission);
	t.admission = malloc(admission_bytes(&t.config));
	assert_non_null(t.admission);
	admission_init(t.admission, &t.config);
	bring_to(ADMISSION_STARTED, 10, CONTROL_OP_KIND_END);
	say_stall(10, 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t kind = 0; kind < CONTROL_OP_KIND_END; kind++)
			say_opinfo(10 + kind, 1, &calls[kind], 1);
	}
	assert_int_equal(t.cause, CONTROL_MISMATCH);
	assert_non_null(strstr(t.text, "host10 calls allreduce of 3 int32, sum in several buffers "
				       "(list 1) (express); "));
	assert_non_null(strstr(t.text, "host11 calls barrier (express); "));
	assert_non_null(strstr(t.text, "host12 calls reduce of 3 int32, sum, root 1 (express); "));
	assert_non_null(strstr(t.text, "host13 calls broadcast of 3 int32, root 1 (express); "));
	assert_non_null(strstr(t.text, "host14 calls allgather of 3 int32 (express); "));
	assert_non_null(strstr(t.text, "host15 calls reduce_scatter of 3 int32, sum (express)"));
}

static void admission__more_kinds_of_calls_than_it_can_keep_are_one_group(void **state)
{
	(void)state;
	struct control_op calls[6];

	bring_to(ADMISSION_STARTED, 10, 6);
	for (uint32_t i = 0; i < 6; i++)
		calls[i] = allreduce(0, i);
	say_stall(10, 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < 6; i++)
			say_opinfo(10 + i, 1, &calls[i], 1);
	}
	assert_int_equal(t.cause, CONTROL_MISMATCH);
	assert_non_null(strstr(t.text, "rank 1 on host11 calls allreduce of 1 int32, sum"));
	assert_non_null(strstr(t.text, "ranks 3-5 call allreduce of 3 int32, sum (express) or"));
}

static void admission__nobody_is_odd_while_somebody_has_not_submitted(void **state)
{
	(void)state;
	struct control_op one[] = { allreduce(0, 6) }, two[] = { allreduce(0, 5) };

	bring_to(ADMISSION_STARTED, 10, 4);
	say_stall(10, 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		say_opinfo(10, 1, one, 1);
		say_opinfo(11, 1, one, 1);
		say_opinfo(12, 1, two, 1);
		say_opinfo(13, 0, NULL, 0);
	}
	assert_text(CONTROL_MISMATCH, CONTROL_RANK_NONE,
		    "operation 0 differs: rank 0 on host10, rank 1 on host11 call allreduce of 6 "
		    "int32, sum (express); rank 2 on host12 calls allreduce of 5 int32, sum "
		    "(express); not called yet by rank 3 on host13");
}

static void admission__the_first_difference_is_the_verdict(void **state)
{
	(void)state;
	struct control_op one[] = { allreduce(3, 6), allreduce(4, 7), allreduce(6, 1) };
	struct control_op two[] = { allreduce(4, 8), allreduce(6, 2) }; /* 3 is complete there */

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 3);
	say_opinfo(10, 7, one, 3);
	say_opinfo(11, 7, two, 2);
	assert_int_equal(t.from, 4);
	say_opinfo(10, 7, one + 1, 2);
	say_opinfo(11, 7, two, 2);
	assert_text(CONTROL_MISMATCH, CONTROL_RANK_NONE,
		    "operation 4 differs: rank 0 on host10 calls allreduce of 7 int32, sum "
		    "(express); rank 1 on host11 calls allreduce of 8 int32, sum (express)");
}

static void admission__more_operations_than_one_answer_holds_are_compared(void **state)
{
	(void)state;
	struct control_op one[16], two[16];

	for (uint32_t i = 0; i < 16; i++) {
		one[i] = allreduce(i, 100);
		two[i] = allreduce(i, i == 13 ? 99 : 100);
	}
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 0);
	for (uint32_t round = 0; round < 10 && t.admission->state == ADMISSION_STARTED; round++) {
		for (uint32_t i = 0; i < 2; i++) { /* at most 5 in an answer */
			const struct control_op *all = i ? two : one;
			uint32_t from = (uint32_t)t.from;
			uint32_t count = 16 - from < 5 ? 16 - from : 5;
			memset(&t.message, 0, sizeof(t.message));
			t.message.type = CONTROL_OPINFO;
			t.message.opinfo = (struct control_opinfo){
				.round = t.round,
				.ops_count = (uint16_t)count,
				.has_more = from + count < 16,
				.submitted = 16,
				.ops = all + from,
			};
			say(10 + i);
			if (t.from != from)
				break;
		}
	}
	assert_int_equal(t.cause, CONTROL_MISMATCH);
	assert_non_null(strstr(t.text, "operation 13 differs"));
}

static void admission__lists_that_hardly_overlap_are_compared_from_the_smallest(void **state)
{
	(void)state;
	struct control_op late[8], early[8]; /* ops_max is 8: the table cannot hold both */

	for (uint32_t i = 0; i < 8; i++) {
		late[i] = allreduce(8 + i, 1);
		early[i] = allreduce(1 + i, 1);
	}
	early[7].count = 2; /* number 8, which only the second page compares */
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 0);
	say_opinfo(10, 16, late, 8);
	say_opinfo(11, 16, early, 8);
	assert_state(ADMISSION_STARTED);
	say_opinfo(10, 16, late, 8);
	say_opinfo(11, 16, early + 7, 1);
	if (t.admission->state == ADMISSION_STARTED) {
		say_opinfo(10, 16, late, 8);
		say_opinfo(11, 16, early + 7, 1);
	}
	assert_int_equal(t.cause, CONTROL_MISMATCH);
	assert_non_null(strstr(t.text, "operation 8 differs"));
}

static void admission__a_switchs_mismatch_starts_a_round(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_MISMATCH);
	assert_done("query>10 query>11");
	event(ADMISSION_MISMATCH); /* one is on its way */
	assert_done("");
}

static void admission__a_mismatch_without_a_difference_is_an_internal_error(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(0, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_MISMATCH);
	say_opinfo(10, 1, ops, 1);
	say_opinfo(11, 1, ops, 1);
	assert_int_equal(t.cause, CONTROL_INTERNAL);
	assert_non_null(strstr(t.text, "packets of two ranks differ although their calls agree"));
	assert_state(ADMISSION_DRAIN);
}

static void admission__a_mismatch_after_the_query_needs_a_round_of_its_own(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(0, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 0);
	say_opinfo(10, 1, ops, 1);
	event(ADMISSION_MISMATCH); /* 10 submitted what it is about after its answer */
	t.done[0] = 0;
	say_opinfo(11, 1, ops, 1);
	assert_done("waiting>10 waiting>11 query>10 query>11");
	assert_state(ADMISSION_STARTED);
}

static void admission__answers_of_an_older_round_are_ignored(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(0, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 0);
	say_opinfo(10, 1, ops, 1);
	say_opinfo(11, 1, ops, 1);
	say_stall(10, 0);
	t.done[0] = 0;
	t.round--;
	say_opinfo(10, 1, ops, 1);
	say_opinfo(11, 1, ops, 1);
	assert_int_equal(admission_member(t.admission, 0)->has_answered, 0);
	assert_int_equal(admission_member(t.admission, 1)->has_answered, 0);
}

static void admission__who_left_too_early_is_named_when_it_is_missed(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_leave(10, 3);
	t.done[0] = 0;
	say_stall(11, 3);
	assert_done("query>11");
	say_opinfo(11, 4, ops, 1);
	assert_done("abort>11 close>11 remove");
	assert_text(CONTROL_REMOTE, 0,
		    "rank 0 on host10 left after 3 operations; rank 1 on host11 has called 4");
}

static void admission__who_leaves_during_a_round_has_answered_it(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 3);
	say_stall(11, 3);
	say_opinfo(11, 4, ops, 1);
	say_opinfo(12, 4, ops, 1);
	t.done[0] = 0;
	say_leave(10, 3);
	assert_done("left>10 close>10 abort>11 close>11 abort>12 close>12 remove");
	assert_int_equal(t.cause_rank, 0);
}

static void admission__an_expired_deadline_names_who_is_missing(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	memset(&t.message, 0, sizeof(t.message));
	t.message.type = CONTROL_STALL;
	t.message.stall.number = 3;
	t.message.stall.is_expired = 1;
	say(10);
	say_opinfo(10, 4, ops, 1);
	say_opinfo(11, 3, NULL, 0);
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "the deadline of operation 3 is over, 0.0 s after rank 0 on host10 called it: "
		    "not called yet by rank 1 on host11");
}

static void admission__an_alarm_is_logged_and_ends_nothing(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	step((struct admission_event){ .type = ADMISSION_ALARM, .rank = 1 });
	assert_done("");
	assert_string_equal(t.log, "rank 1 on host11 sent a packet that a sound worker never "
				   "sends: dropped");
	assert_state(ADMISSION_STARTED);
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
	assert_done("abort>20 close>20 abort>21 close>21 remove");
	assert_text(CONTROL_SYSTEM, 1, "job \"train\": the path is narrow");
}

/* ---- SIGTERM ---- */

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
	assert_done("abort>10 close>10 abort>11 close>11 remove");
	assert_text(CONTROL_REMOTE, CONTROL_RANK_NONE,
		    "job \"train\": the aggregator is shutting down, the time to end is over");
}

/* ---- whatever comes ---- */

static void admission__strangers_and_strange_messages_change_nothing(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	size_t bytes = admission_bytes(&t.config);
	struct admission *before = malloc(bytes);

	assert_non_null(before);
	memcpy(before, t.admission, bytes);
	for (uint32_t type = CONTROL_GRANT; type < CONTROL_TYPE_END; type++)
		say_type(99, type);
	say_type(10, CONTROL_START);
	say_type(10, CONTROL_GRANT);
	say_type(10, CONTROL_LEFT);
	say_ready(11, 4);
	close_connection(99);
	step((struct admission_event){ .type = ADMISSION_SHARD, .shard = 7 });
	assert_memory_equal(before, t.admission, bytes);
	free(before);
}

static uint64_t seed, random_state;

static uint32_t random_below(uint32_t end)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (uint32_t)((random_state * 0x2545f4914f6cdd1d) >> 33) % end;
}

static bool has_odd_rank;

static void random_message(uint32_t connection)
{
	struct control_op ops[4];
	uint32_t type = CONTROL_JOIN + random_below(CONTROL_TYPE_END - CONTROL_JOIN);
	const struct admission_member *member = admission_member(t.admission, random_below(2));

	if (type == CONTROL_JOIN || (!t.admission->query && !random_below(3))) {
		join(connection, (uint16_t)random_below(random_below(8) ? 2 : 3),
		     (uint16_t)(2 + (random_below(16) == 0)));
		return;
	}
	if ((type == CONTROL_ABORT || type == CONTROL_LEAVE) && random_below(8))
		type = CONTROL_STALL; /* or hardly anybody would get far */
	if (t.admission->state == ADMISSION_GRANTED && random_below(2))
		type = CONTROL_READY;
	if (t.admission->query && random_below(8)) {
		type = CONTROL_OPINFO;
		connection = member->peer.connection ? member->peer.connection : connection;
	}
	memset(&t.message, 0, sizeof(t.message));
	t.message.type = type;
	if (type == CONTROL_READY)
		t.message.lanes.lanes = (uint16_t)(4 + random_below(400));
	if (type == CONTROL_PONG)
		t.message.ping.serial = t.serial - random_below(2);
	if (type == CONTROL_LEAVE)
		t.message.leave.submitted = random_below(4);
	if (type == CONTROL_STALL)
		t.message.stall.number = random_below(4);
	if (type == CONTROL_OPINFO) {
		uint32_t count = random_below(5), shift = random_below(8) ? 0 : random_below(3);
		for (uint32_t i = 0; i < count; i++)
			ops[i] = allreduce(i + shift, has_odd_rank && member->peer.rank == 1);
		t.message.opinfo = (struct control_opinfo){
			.round = t.round - (random_below(8) == 0),
			.ops_count = (uint16_t)count,
			.has_more = random_below(8) == 0,
			.submitted = random_below(5),
			.ops = ops,
		};
	}
	say(connection);
}

/* Whatever is said, closed and acknowledged in whatever order: no assert, no more actions than there is
 * room for, and when all connections are closed and all shards have answered, nothing is left. */
static void admission__any_sequence_of_events_ends_clean(void **state)
{
	(void)state;
	uint32_t visits[ADMISSION_STATE_COUNT] = { 0 }, causes[CONTROL_CAUSE_END] = { 0 };

	random_state = seed | 1;
	for (uint32_t run = 0; run < 500; run++) {
		has_odd_rank = run % 2;
		for (uint32_t i = 0; i < 200; i++) {
			uint32_t what = random_below(100);
			uint32_t connection = 10 + random_below(6);
			if (t.admission->query && random_below(4))
				what = 0;
			if (what < 60)
				random_message(connection);
			else if (what < 62)
				close_connection(connection);
			else if (what < 90)
				acknowledge((enum admission_command)random_below(3));
			else if (what < 92)
				step((struct admission_event){ .type = ADMISSION_SILENT,
							       .connection = connection });
			else if (what < 93)
				event(ADMISSION_LATE);
			else if (what < 95)
				event(ADMISSION_MISMATCH);
			else
				wait_seconds(1 + random_below(3));
			t.done[0] = 0;
			visits[t.admission->state]++;
			causes[t.admission->last_cause]++;
		}
		for (uint32_t connection = 10; connection < 16; connection++)
			close_connection(connection);
		acknowledge(ADMISSION_JOB_REMOVE);
		assert_true(admission_is_idle(t.admission));
	}
	for (uint32_t i = 0; i < ADMISSION_STATE_COUNT; i++)
		assert_true(visits[i] > 100);
	assert_true(causes[CONTROL_MISMATCH]);
	assert_true(causes[CONTROL_INTERNAL]);
	assert_true(causes[CONTROL_REMOTE]);
	assert_true(causes[CONTROL_TIMEOUT]);
	assert_true(causes[CONTROL_DENIED]);
}

static void seed_take(const char *given)
{
	const char *text = given ? given : getenv("TALLY_TEST_SEED");

	seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
	printf("seed %llu\n", (unsigned long long)seed);
}

int main(int argc, char **argv)
{
	seed_take(argc > 1 ? argv[1] : NULL);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(admission__grants_when_all_are_there_and_all_shards_have_added),
		TEST(admission__grant_says_life_size_nonce_and_heartbeat),
		TEST(admission__starts_only_when_every_shard_has_enabled_the_job),
		TEST(admission__acknowledgements_of_an_older_generation_count_for_nothing),
		TEST(admission__lanes_are_capped_by_the_daemon),
		TEST(admission__leave_is_answered_at_once),
		TEST(admission__slots_are_given_back_only_when_all_have_left),
		TEST(admission__every_life_has_its_own_generation_and_never_0),
		TEST(admission__a_shard_without_room_ends_the_job_by_name),
		TEST(admission__a_path_that_takes_no_packet_ends_the_job_with_its_rank),
		TEST(admission__a_rank_that_goes_while_gathering_may_come_again),
		TEST(admission__another_size_is_denied_to_all_with_both_values),
		TEST(admission__another_list_of_aggregators_is_denied_to_all),
		TEST(admission__another_protocol_version_is_denied_by_name),
		TEST(admission__a_job_too_large_for_the_daemon_is_denied),
		TEST(admission__gathering_timeout_names_the_missing),
		TEST(admission__a_join_may_ask_for_less_patience),
		TEST(admission__progress_tells_how_the_last_life_ended),
		TEST(admission__granted_but_never_ready_is_named),
		TEST(admission__who_claims_a_held_rank_waits_while_both_are_pinged),
		TEST(admission__a_freed_rank_goes_to_its_first_waiter),
		TEST(admission__two_living_claims_are_both_denied_while_gathering),
		TEST(admission__a_living_holder_of_a_running_job_keeps_its_rank),
		TEST(admission__an_older_pong_or_a_heartbeat_proves_nothing),
		TEST(admission__who_restarts_after_a_crash_waits_for_the_end_and_is_admitted),
		TEST(admission__a_join_waits_for_a_rank_that_has_left),
		TEST(admission__another_size_waits_for_the_running_job_too),
		TEST(admission__too_many_waiters_are_denied),
		TEST(admission__waiters_that_disagree_are_all_told),
		TEST(admission__a_killed_rank_is_named_to_all_others_at_once),
		TEST(admission__a_killed_rank_ends_a_granted_and_an_enabling_job_too),
		TEST(admission__drain_ends_when_all_are_closed_and_all_shards_are_clean),
		TEST(admission__a_silent_rank_is_dead_after_the_heartbeat_time),
		TEST(admission__a_silent_rank_is_thrown_out_of_the_gathering),
		TEST(admission__heartbeats_go_to_members_and_waiters),
		TEST(admission__a_daemon_that_overslept_blames_nobody),
		TEST(admission__a_users_abort_is_told_to_all_with_its_text),
		TEST(admission__a_members_own_failure_is_told_to_all),
		TEST(admission__who_aborts_while_gathering_only_frees_its_rank),
		TEST(admission__leaving_before_the_start_ends_the_job),
		TEST(admission__stall_asks_all_and_waits_if_all_agree),
		TEST(admission__mismatch_names_the_odd_rank_and_both_calls),
		TEST(admission__a_tie_names_both_groups_and_nobody_as_odd),
		TEST(admission__different_streams_are_a_mismatch),
		TEST(admission__every_kind_of_call_has_its_words),
		TEST(admission__more_kinds_of_calls_than_it_can_keep_are_one_group),
		TEST(admission__nobody_is_odd_while_somebody_has_not_submitted),
		TEST(admission__the_first_difference_is_the_verdict),
		TEST(admission__more_operations_than_one_answer_holds_are_compared),
		TEST(admission__lists_that_hardly_overlap_are_compared_from_the_smallest),
		TEST(admission__a_switchs_mismatch_starts_a_round),
		TEST(admission__a_mismatch_without_a_difference_is_an_internal_error),
		TEST(admission__a_mismatch_after_the_query_needs_a_round_of_its_own),
		TEST(admission__answers_of_an_older_round_are_ignored),
		TEST(admission__who_left_too_early_is_named_when_it_is_missed),
		TEST(admission__who_leaves_during_a_round_has_answered_it),
		TEST(admission__an_expired_deadline_names_who_is_missing),
		TEST(admission__an_alarm_is_logged_and_ends_nothing),
		TEST(admission__a_broken_data_path_ends_the_life_by_name),
		TEST(admission__sigterm_denies_gatherings_waiters_and_newcomers),
		TEST(admission__sigterm_lets_a_running_job_end),
		TEST(admission__sigterms_limit_aborts_a_running_job),
		TEST(admission__strangers_and_strange_messages_change_nothing),
		TEST(admission__any_sequence_of_events_ends_clean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
