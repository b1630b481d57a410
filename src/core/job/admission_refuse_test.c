/* SPDX-License-Identifier: Apache-2.0 */
/* Who is refused while a job gathers, and what all are told. */
#include "core/job/admission_fixture.h"

static void prepare_latency(uint32_t connection, uint16_t rank, uint32_t slots, uint32_t window)
{
	prepare_join(connection, rank, 2);
	t.message.join.mode = CONTROL_LATENCY;
	t.message.join.latency_slots = slots;
	t.message.join.latency_window = window;
}

static void admission__another_mode_is_denied_to_all(void **state)
{
	(void)state;
	join(10, 0, 2);
	prepare_latency(11, 1, 8, 4);
	say(11);
	assert_done("deny>11 close>11 deny>10 close>10");
	assert_text(
		CONTROL_DENIED, CONTROL_RANK_NONE,
		"job \"train\": rank 1 on host11 wants latency mode with 8 slots and a window of "
		"4, rank 0 on host10 wants dense mode");
	assert_state(ADMISSION_NONE);
}

static void admission__other_slots_or_another_window_are_denied_to_all(void **state)
{
	(void)state;
	for (uint32_t differs = 0; differs < 2; differs++) {
		uint32_t base = 10 + 10 * differs;

		prepare_latency(base, 0, 8, 4);
		say(base);
		prepare_latency(base + 1, 1, differs ? 8 : 16, differs ? 5 : 4);
		say(base + 1);
		assert_state(ADMISSION_NONE);
		assert_int_equal(t.cause, CONTROL_DENIED);
		assert_non_null(strstr(t.text, differs ? "8 slots and a window of 5"
						       : "16 slots and a window of 4"));
		assert_non_null(strstr(t.text, "8 slots and a window of 4"));
	}
}

static void admission__a_life_knows_the_mode_that_all_asked_for(void **state)
{
	(void)state;
	for (uint16_t rank = 0; rank < 2; rank++) {
		prepare_latency(10 + rank, rank, 65536, 32768);
		say(10 + rank);
	}
	assert_state(ADMISSION_GRANTED);
	assert_int_equal(t.admission->mode, CONTROL_LATENCY);
	assert_int_equal(t.admission->latency_slots, 65536);
	assert_int_equal(t.admission->latency_window, 32768);
	close_connection(10);
	close_connection(11);
	acknowledge(ADMISSION_JOB_REMOVE);
	join(20, 0, 2);
	assert_int_equal(t.admission->mode, CONTROL_DENSE);
	assert_int_equal(t.admission->latency_slots, 0);
}

static void admission__start_names_all_hosts_and_processes(void **state)
{
	(void)state;
	struct control_message message;

	bring_to(ADMISSION_ENABLING, 10, 3);
	acknowledge(ADMISSION_JOB_SET);
	assert_done("start>10 start>11 start>12");
	admission_message(t.admission, &t.config, &t.actions,
			  &(struct admission_action){
				  .type = ADMISSION_SEND, .message = CONTROL_START, .lanes = 360 },
			  &message);
	assert_int_equal(message.start.lanes, 360);
	assert_int_equal(message.start.members_count, 3);
	for (uint16_t rank = 0; rank < 3; rank++) {
		char host[CONTROL_HOST_BYTES];

		snprintf(host, sizeof(host), "host%u", 10u + rank);
		assert_int_equal(message.start.members[rank].rank, rank);
		assert_int_equal(message.start.members[rank].pid, 110 + rank);
		assert_string_equal(message.start.members[rank].host, host);
	}
}

/* ---- all are told ---- */

static void admission__two_living_claims_end_the_gathering_for_all(void **state)
{
	(void)state;
	join(10, 0, 3);
	join(11, 1, 3);
	join(20, 0, 3);
	assert_done("ping>10 ping>20");
	join(30, 1, 3); /* claims rank 1 */
	uint32_t serial = t.serial;
	t.done[0] = 0;
	say_pong(10, serial - 1);
	say_pong(20, serial - 1);
	assert_done("deny>20 close>20 deny>30 close>30 deny>11 close>11 deny>10 close>10");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": rank 0 is held by process 110 on host10, and process 120 on "
		    "host20 claims it too; both are alive");
	assert_state(ADMISSION_NONE);
}

static void admission__a_refusal_harms_no_running_job(void **state)
{
	(void)state;
	static const char key[CONTROL_KEY_BYTES] = "sesame";

	bring_to(ADMISSION_STARTED, 10, 2);
	prepare_join(20, 0, 2);
	t.message.join.version_min = t.message.join.version_max = 9;
	say(20);
	assert_done("deny>20 close>20");
	t.config.key = key;
	join(21, 1, 2);
	assert_done("deny>21 close>21");
	assert_state(ADMISSION_STARTED);
	assert_false(t.admission->refused.cause);
}

/* ---- the next 5 s ---- */

static void refuse_ranks_0_and_1_of_3(void)
{
	join(10, 0, 3);
	join(11, 1, 4);
	assert_done("deny>11 close>11 deny>10 close>10");
}

static void admission__who_comes_after_a_refusal_hears_it_at_once(void **state)
{
	(void)state;
	refuse_ranks_0_and_1_of_3();
	wait_seconds(4);
	join(12, 2, 3);
	assert_done("deny>12 close>12");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": rank 1 on host11 says size 4, rank 0 on host10 says size 3 "
		    "(refused 4 s ago; start again in 1 s)");
	assert_true(admission_is_idle(t.admission));
}

static void admission__after_5_s_a_refusal_is_forgotten(void **state)
{
	(void)state;
	refuse_ranks_0_and_1_of_3();
	wait_seconds(5);
	join(12, 2, 3);
	assert_done("");
	assert_state(ADMISSION_GATHER);
}

static void admission__a_refused_rank_begins_anew_and_ends_the_memory(void **state)
{
	(void)state;
	refuse_ranks_0_and_1_of_3();
	join(12, 2, 3); /* refused now, too */
	assert_done("deny>12 close>12");
	join(22, 2, 3);
	join(20, 0, 3);
	assert_done("");
	join(21, 1, 3);
	assert_done("add");
}

static void admission__a_sigterm_is_remembered_by_is_terminating_alone(void **state)
{
	(void)state;
	join(10, 0, 2);
	event(ADMISSION_TERMINATE);
	assert_false(t.admission->refused.cause);
}

/* ---- keys ---- */

static void prepare_key(uint32_t connection, uint16_t rank, const char *key)
{
	prepare_join(connection, rank, 2);
	snprintf(t.message.join.key, CONTROL_KEY_BYTES, "%s", key);
}

static void admission__a_wrong_key_is_denied_and_never_printed(void **state)
{
	(void)state;
	static const char key[CONTROL_KEY_BYTES] = "sesame";
	static const char *const wrong[] = { "sesam", "sesame2", "Sesame", "semase", "" };

	t.config.key = key;
	for (uint32_t i = 0; i < 5; i++) {
		prepare_key(10, 0, "sesame");
		say(10);
		assert_state(ADMISSION_GATHER);
		prepare_key(11, 1, wrong[i]);
		say(11);
		assert_done("deny>11 close>11 deny>10 close>10");
		assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
			    wrong[i][0] ? "job \"train\": rank 1 on host11 gave a key that is not "
					  "this aggregator's"
					: "job \"train\": rank 1 on host11 gave no key, and this "
					  "aggregator wants one");
		assert_null(strstr(t.log, "esam"));
		assert_state(ADMISSION_NONE);
	}
	prepare_key(10, 0, "sesame");
	say(10);
	prepare_key(11, 1, "sesame");
	say(11);
	assert_done("add");
}

/* ---- who is unfit ends nothing alone ---- */

static void admission__a_stranger_ends_no_gathering_that_others_can_complete(void **state)
{
	(void)state;
	static const char key[CONTROL_KEY_BYTES] = "sesame";

	t.config.key = key;
	prepare_key(20, 0, "guess"); /* before anybody has come */
	say(20);
	assert_done("deny>20 close>20");
	assert_false(t.admission->refused.cause);
	for (uint16_t rank = 0; rank < 4; rank++) {
		prepare_key(30 + rank, 2, rank == 1 ? "" : "guess");
		t.message.join.size = rank == 2 ? 9 : 4; /* nothing else that it says counts */
		say(30 + rank);
		t.done[0] = 0;
		prepare_key(10 + rank, rank, "sesame");
		t.message.join.size = 4;
		say(10 + rank);
		assert_done(rank == 3 ? "add" : "");
	}
	assert_state(ADMISSION_GRANTED);
}

static void admission__a_gathering_ends_when_only_the_unfit_are_not_in(void **state)
{
	(void)state;
	static const char key[CONTROL_KEY_BYTES] = "sesame";

	t.config.key = key;
	prepare_key(11, 1, "guess");
	say(11);
	assert_done("deny>11 close>11");
	prepare_key(12, 2, "sesame");
	t.message.join.size = 3;
	say(12);
	assert_done("");
	prepare_key(10, 0, "sesame");
	t.message.join.size = 3;
	say(10);
	assert_done("deny>12 close>12 deny>10 close>10");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": rank 1 on host11 gave a key that is not this aggregator's");
	for (uint16_t rank = 0; rank < 3; rank++) { /* all had heard of it: they begin anew */
		prepare_key(21 + rank, (uint16_t)((rank + 1) % 3), "sesame");
		t.message.join.size = 3;
		say(21 + rank);
		assert_done(rank == 2 ? "add" : "");
	}
}

static void say_from(uint64_t source, uint32_t connection)
{
	step((struct admission_event){ .type = ADMISSION_MESSAGE,
				       .connection = connection,
				       .message = &t.message,
				       .source = source });
}

/* One address stands for one rank, whatever it says; from as many as are missing it can be true. */
static void admission__a_stranger_at_one_address_makes_one_rank_hopeless(void **state)
{
	(void)state;
	static const char key[CONTROL_KEY_BYTES] = "sesame";
	enum { MINE = 77, ITS = 99 };

	t.config.key = key;
	prepare_key(10, 0, "sesame");
	t.message.join.size = 4;
	say_from(MINE, 10);
	for (uint32_t i = 0; i < 40; i++) {
		prepare_key(100 + i, (uint16_t)(i % 4), "guess");
		say_from(ITS, 100 + i);
		assert_state(ADMISSION_GATHER);
	}
	prepare_key(200, 1, "guess");
	say_from(ITS + 1, 200);
	assert_state(ADMISSION_GATHER);
	prepare_key(201, 2, "");
	say_from(ITS + 2, 201);
	assert_state(ADMISSION_NONE);
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE,
		    "job \"train\": rank 2 on host201 gave no key, and this aggregator wants one");
}

static void admission__who_was_denied_is_told_while_others_wait(void **state)
{
	(void)state;
	static const char key[CONTROL_KEY_BYTES] = "sesame";

	t.config.key = key;
	t.config.gather_ns = 15 * second_ns;
	prepare_key(10, 0, "sesame");
	t.message.join.size = 3;
	say_from(77, 10);
	for (uint16_t rank = 1; rank < 3; rank++) {
		prepare_key(20 + rank, rank, "guess");
		say_from(78, 20 + rank);
	}
	for (uint32_t i = 0; i < 15 && t.admission->state == ADMISSION_GATHER; i++) {
		say_type(10, CONTROL_HEARTBEAT);
		wait_seconds(1);
		if (i == 10)
			assert_string_equal(
				t.text,
				"job \"train\": waiting for rank 1, rank 2 of 3; denied "
				"meanwhile: job \"train\": rank 2 on host22 gave a key that "
				"is not this aggregator's");
	}
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "job \"train\" of 3: rank 1, rank 2 did not come in time; denied meanwhile: "
		    "job \"train\": rank 2 on host22 gave a key that is not this aggregator's");
}

static void admission__the_unfit_of_5_s_ago_are_forgotten(void **state)
{
	(void)state;
	static const char key[CONTROL_KEY_BYTES] = "sesame";

	t.config.key = key;
	prepare_key(11, 1, "guess");
	say(11);
	wait_seconds(5);
	t.done[0] = 0;
	prepare_key(10, 0, "sesame");
	say(10);
	assert_done("");
	assert_state(ADMISSION_GATHER);
}

static void admission__a_process_of_another_version_ends_nothing_alone(void **state)
{
	(void)state;
	join(10, 0, 3);
	prepare_join(11, 1, 3);
	t.message.join.version_min = t.message.join.version_max = CONTROL_VERSION + 1;
	say(11);
	assert_done("deny>11 close>11");
	assert_state(ADMISSION_GATHER);
	join(12, 2, 3);
	assert_done("deny>12 close>12 deny>10 close>10");
	assert_int_equal(t.cause, CONTROL_VERSION_BAD);
}

static void admission__without_a_key_of_its_own_any_key_will_do(void **state)
{
	(void)state;
	prepare_key(10, 0, "sesame");
	say(10);
	join(11, 1, 2);
	assert_done("add");
}

static void admission__a_stranger_hears_nothing_of_an_earlier_refusal(void **state)
{
	(void)state;
	static const char key[CONTROL_KEY_BYTES] = "sesame";

	t.config.key = key;
	for (uint16_t rank = 0; rank < 2; rank++) {
		prepare_key(10 + rank, rank, "sesame");
		t.message.join.size = (uint16_t)(3 + rank);
		say(10 + rank);
	}
	t.done[0] = 0;
	prepare_key(12, 2, "guess");
	t.message.join.size = 3;
	say(12);
	assert_done("deny>12 close>12");
	assert_null(strstr(t.text, "host10"));
}

/* ---- jobs of a life ---- */

static void admission__in_a_job_of_a_life_nobody_waits_for_one_that_has_gone(void **state)
{
	(void)state;
	t.config.life = 99;
	join(10, 0, 3);
	join(11, 1, 3);
	close_connection(11);
	assert_done("deny>10 close>10");
	assert_text(CONTROL_REMOTE, 1,
		    "rank 1 on host11 has gone (process 111) before job \"train\" was complete");
	wait_seconds(60);
	join(12, 2, 3); /* the last one comes when it comes */
	assert_done("deny>12 close>12");
	assert_int_equal(t.cause, CONTROL_REMOTE);
	assert_int_equal(t.cause_rank, 1);
}

static void admission__in_a_job_of_a_life_the_only_one_that_goes_is_remembered(void **state)
{
	(void)state;
	t.config.life = 99;
	join(10, 0, 2);
	close_connection(10);
	assert_done("");
	join(11, 1, 2);
	assert_done("deny>11 close>11");
	assert_int_equal(t.cause_rank, 0);
}

static void admission__in_a_job_of_a_life_time_over_is_told_to_late_comers(void **state)
{
	(void)state;
	t.config.life = 99;
	t.config.gather_ns = 20 * second_ns;
	join(10, 0, 2);
	for (uint32_t i = 0; i < 25; i++) {
		wait_seconds(1);
		if (t.admission->state == ADMISSION_GATHER)
			say_type(10, CONTROL_HEARTBEAT);
	}
	t.done[0] = 0;
	assert_state(ADMISSION_NONE);
	join(11, 1, 2);
	assert_done("deny>11 close>11");
	assert_int_equal(t.cause, CONTROL_TIMEOUT);
}

static void admission__an_ended_life_ends_what_gathers_for_it(void **state)
{
	(void)state;
	t.config.life = 99;
	join(10, 0, 2);
	step((struct admission_event){ .type = ADMISSION_ORPHAN, .text = "rank 5 on hostx died" });
	assert_done("deny>10 close>10");
	assert_text(CONTROL_REMOTE, CONTROL_RANK_NONE,
		    "job \"train\": the job that it is a part of has ended: rank 5 on hostx died");
	bring_to(ADMISSION_STARTED, 20, 2);
}

static void admission__an_ended_life_harms_no_running_job(void **state)
{
	(void)state;
	t.config.life = 99;
	bring_to(ADMISSION_STARTED, 10, 2);
	step((struct admission_event){ .type = ADMISSION_ORPHAN, .text = "it died" });
	assert_done("");
	assert_state(ADMISSION_STARTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(admission__two_living_claims_end_the_gathering_for_all),
		TEST(admission__a_refusal_harms_no_running_job),
		TEST(admission__who_comes_after_a_refusal_hears_it_at_once),
		TEST(admission__after_5_s_a_refusal_is_forgotten),
		TEST(admission__a_refused_rank_begins_anew_and_ends_the_memory),
		TEST(admission__a_sigterm_is_remembered_by_is_terminating_alone),
		TEST(admission__a_wrong_key_is_denied_and_never_printed),
		TEST(admission__a_stranger_ends_no_gathering_that_others_can_complete),
		TEST(admission__a_gathering_ends_when_only_the_unfit_are_not_in),
		cmocka_unit_test_setup_teardown(
			admission__a_stranger_at_one_address_makes_one_rank_hopeless, set_up,
			tear_down),
		TEST(admission__who_was_denied_is_told_while_others_wait),
		TEST(admission__the_unfit_of_5_s_ago_are_forgotten),
		TEST(admission__a_process_of_another_version_ends_nothing_alone),
		TEST(admission__without_a_key_of_its_own_any_key_will_do),
		TEST(admission__a_stranger_hears_nothing_of_an_earlier_refusal),
		TEST(admission__in_a_job_of_a_life_nobody_waits_for_one_that_has_gone),
		TEST(admission__in_a_job_of_a_life_the_only_one_that_goes_is_remembered),
		TEST(admission__in_a_job_of_a_life_time_over_is_told_to_late_comers),
		TEST(admission__an_ended_life_ends_what_gathers_for_it),
		TEST(admission__an_ended_life_harms_no_running_job),
		cmocka_unit_test_setup_teardown(admission__another_mode_is_denied_to_all, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			admission__other_slots_or_another_window_are_denied_to_all, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(admission__a_life_knows_the_mode_that_all_asked_for,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(admission__start_names_all_hosts_and_processes,
						set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
