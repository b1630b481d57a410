/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who comes: to a gathering, to a rank that another holds, to a job that runs.
 */
#include "core/job/admission_fixture.h"

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
	assert_done("deny>12 close>12 deny>11 close>11 deny>10 close>10");
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
		    "rank 1 on host11 speaks protocol versions 4 to 4, this aggregator 3");
	join(13, 0, 2);
	prepare_join(12, 1, 2);
	t.message.join.version_max = CONTROL_VERSION + 1; /* 2 is among what it speaks */
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
	assert_string_equal(t.log, t.text);
	assert_int_equal(t.log_level, ADMISSION_LOG_LIMITED); /* anybody can cause it */
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
	assert_done("abort>12 close>12 abort>10 close>10");
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "job \"train\" of 8: ranks 1, 3-7 did not come in time");
	assert_string_equal(t.log, t.text);
	assert_int_equal(t.log_level, ADMISSION_LOG_WARN);
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
	wait_seconds(4);
	assert_done("");
	assert_true(t.actions.wake_ns == t.now_ns + second_ns);
	wait_seconds(1);
	assert_done("abort>12 close>12 abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "job \"train\" of 3: rank 0 on host10, rank 2 on host12 did not get ready in "
		    "time");
}

static void admission__who_is_not_ready_is_named_with_the_members_own_patience(void **state)
{
	(void)state;
	prepare_join(10, 0, 2);
	t.message.join.timeout_ms = 15000;
	say(10);
	wait_seconds(5);
	join(11, 1, 2);
	acknowledge(ADMISSION_JOB_ADD);
	say_ready(10, 360);
	for (uint32_t i = 0; i < 9; i++) {
		wait_seconds(1);
		say_type(10, CONTROL_HEARTBEAT);
		say_type(11, CONTROL_HEARTBEAT);
	}
	assert_state(ADMISSION_GRANTED);
	assert_true(t.actions.wake_ns <= t.now_ns + second_ns);
	assert_done("add grant>10 grant>11");
	wait_seconds(1);
	assert_done("abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "job \"train\" of 2: rank 1 on host11 did not get ready in time");
}

/* Of several aggregators another one may not answer: its members know. */
static void admission__where_nobody_is_ready_members_tell_first_what_they_wait_for(void **state)
{
	(void)state;
	prepare_join(10, 0, 1);
	t.message.join.timeout_ms = 4000;
	say(10);
	acknowledge(ADMISSION_JOB_ADD);
	assert_done("add grant>10");
	wait_seconds(4);
	assert_done("");
	wait_seconds(1);
	assert_done("abort>10 close>10 remove");
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "job \"train\" of 1: rank 0 on host10 did not get ready in time");
}

static void admission__shards_that_never_get_ready_end_the_life(void **state)
{
	(void)state;
	t.config.gather_ns = 5 * second_ns;
	bring_to(ADMISSION_GRANTED, 10, 2);
	wait_seconds(3);
	say_ready(10, 360);
	say_ready(11, 360);
	assert_done("set");
	wait_seconds(4); /* the shards have as long as the ranks had */
	assert_done("");
	assert_state(ADMISSION_ENABLING);
	wait_seconds(1);
	assert_done("abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "job \"train\" of 2: the aggregator's shards did not get ready in time");
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

static void admission__what_was_answered_about_the_last_holder_is_forgotten(void **state)
{
	(void)state;
	join(10, 0, 3);
	join(11, 1, 3);
	join(20, 0, 3);
	join(30, 0, 3);
	say_pong(30, t.serial);
	t.done[0] = 0;
	close_connection(10);
	assert_done("ping>20 ping>30"); /* 30 lives, that is known; whether 20 does is not */
	assert_int_equal(admission_member(t.admission, 0)->peer.connection, 20);
	assert_state(ADMISSION_GATHER);
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

static const char key[CONTROL_KEY_BYTES] = "open sesame";

static void join_from(uint64_t source, uint32_t connection, uint16_t rank)
{
	prepare_join(connection, rank, 2);
	if (t.config.key)
		strcpy(t.message.join.key, t.config.key);
	step((struct admission_event){ .type = ADMISSION_MESSAGE,
				       .connection = connection,
				       .message = &t.message,
				       .source = source });
}

static const char names_holder[] =
	"job \"train\": rank 0 is held by process 110 on host10, which is alive: the job runs, "
	"another of its name must wait";
static const char names_nobody[] =
	"job \"train\": rank 0 is held by a process of another address (the aggregator's log names "
	"it), which is alive: the job runs, another of its name must wait";

/* 10 and 11 have all ranks, and came from `source` and elsewhere; 20 claims rank 0. */
static void claim_from(uint64_t source)
{
	join_from(7, 10, 0);
	join_from(8, 11, 1);
	assert_state(ADMISSION_GRANTED);
	join_from(source, 20, 0);
	say_pong(10, t.serial);
	t.done[0] = 0;
	say_pong(20, t.serial);
	assert_done("deny>20 close>20");
}

/* It is in no gathering, and may be anybody; the log is the operator's. */
static void admission__who_claims_from_elsewhere_hears_no_host_of_a_running_job(void **state)
{
	(void)state;
	claim_from(9);
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE, names_nobody);
	assert_string_equal(t.log, names_holder);
}

static void admission__who_claims_from_the_same_address_hears_who_holds_its_rank(void **state)
{
	(void)state;
	claim_from(7);
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE, names_holder);
	assert_string_equal(t.log, names_holder);
}

static void admission__who_has_the_key_hears_who_holds_its_rank(void **state)
{
	(void)state;
	t.config.key = key;
	claim_from(9);
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE, names_holder);
}

/* Both hear one text. */
static void admission__of_two_that_claim_at_once_one_from_elsewhere_is_enough(void **state)
{
	(void)state;
	join_from(7, 10, 0);
	join_from(8, 11, 1);
	join_from(9, 20, 0);
	say_pong(20, t.serial);
	join_from(7, 30, 0);
	say_pong(30, t.serial);
	t.done[0] = 0;
	say_pong(10, t.serial);
	assert_done("deny>20 close>20 deny>30 close>30");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE, names_nobody);
}

/* Whoever gathers may be a rank of it on another host, and must know which two disagree. */
static void admission__claims_of_a_gathering_are_named_wherever_they_come_from(void **state)
{
	(void)state;
	join_from(7, 10, 0);
	join_from(9, 20, 0);
	say_pong(10, t.serial);
	say_pong(20, t.serial);
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": rank 0 is held by process 110 on host10, and process 120 on "
		    "host20 claims it too; both are alive");
}

static void admission__all_who_claim_the_rank_of_one_that_lives_are_denied(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(20, 0, 2);
	say_pong(20, t.serial);
	join(30, 0, 2);
	say_pong(30, t.serial);
	t.done[0] = 0;
	say_pong(10, t.serial);
	assert_done("deny>20 close>20 deny>30 close>30");
	assert_int_equal(t.admission->waiters_count, 0);
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(admission__a_rank_that_goes_while_gathering_may_come_again),
		TEST(admission__another_size_is_denied_to_all_with_both_values),
		TEST(admission__another_list_of_aggregators_is_denied_to_all),
		TEST(admission__another_protocol_version_is_denied_by_name),
		TEST(admission__a_job_too_large_for_the_daemon_is_denied),
		TEST(admission__gathering_timeout_names_the_missing),
		TEST(admission__a_join_may_ask_for_less_patience),
		TEST(admission__progress_tells_how_the_last_life_ended),
		TEST(admission__granted_but_never_ready_is_named),
		TEST(admission__who_is_not_ready_is_named_with_the_members_own_patience),
		TEST(admission__where_nobody_is_ready_members_tell_first_what_they_wait_for),
		TEST(admission__shards_that_never_get_ready_end_the_life),
		TEST(admission__who_claims_a_held_rank_waits_while_both_are_pinged),
		TEST(admission__a_freed_rank_goes_to_its_first_waiter),
		TEST(admission__what_was_answered_about_the_last_holder_is_forgotten),
		TEST(admission__two_living_claims_are_both_denied_while_gathering),
		TEST(admission__a_living_holder_of_a_running_job_keeps_its_rank),
		TEST(admission__who_claims_from_elsewhere_hears_no_host_of_a_running_job),
		TEST(admission__who_claims_from_the_same_address_hears_who_holds_its_rank),
		TEST(admission__who_has_the_key_hears_who_holds_its_rank),
		TEST(admission__of_two_that_claim_at_once_one_from_elsewhere_is_enough),
		TEST(admission__claims_of_a_gathering_are_named_wherever_they_come_from),
		TEST(admission__all_who_claim_the_rank_of_one_that_lives_are_denied),
		TEST(admission__an_older_pong_or_a_heartbeat_proves_nothing),
		TEST(admission__who_restarts_after_a_crash_waits_for_the_end_and_is_admitted),
		TEST(admission__a_join_waits_for_a_rank_that_has_left),
		TEST(admission__another_size_waits_for_the_running_job_too),
		TEST(admission__too_many_waiters_are_denied),
		TEST(admission__waiters_that_disagree_are_all_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
