/* SPDX-License-Identifier: Apache-2.0 */
/* How a member's beginning may end: the time to gather is kept, whoever is late. */
#include "core/job/member_fixture.h"

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
	assert_int_equal(fails_after_ms(20000), 14000); /* the heartbeat time, and two beats */
	assert_failed(CONTROL_TIMEOUT,
		      "the aggregator at 10.0.0.1:7171 has been silent for 10000 ms, although it "
		      "takes connections: is it stopped?");
}

static void member__a_silent_aggregator_after_its_grant_is_lost(void **state)
{
	(void)state;
	bring_to(MEMBER_READY);
	assert_int_equal(fails_after_ms(20000), 14000);
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

static void member__finalizes_once(void **state)
{
	(void)state;
	bring_to(MEMBER_LEAVING);
	step((struct member_event){ .type = MEMBER_FINALIZE, .number = 10 });
	assert_done("");
	assert_state(MEMBER_LEAVING);
}

static void member__an_end_without_a_cause_is_an_internal_error(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	hear_end(CONTROL_ABORT, CONTROL_OK, "all is well");
	assert_failed(CONTROL_INTERNAL, "all is well");
}

static void member__an_error_without_words_is_one_too(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	step((struct member_event){ .type = MEMBER_ERROR, .cause = CONTROL_SYSTEM });
	assert_done("ABORT close fail");
	assert_failed(CONTROL_SYSTEM, "an error");
}

static void member__any_word_of_the_aggregator_ends_its_silence(void **state)
{
	static const enum control_type types[] = { CONTROL_HEARTBEAT, CONTROL_PONG, CONTROL_PING,
						   CONTROL_WAITING };

	for (uint32_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		set_up(state);
		bring_to(MEMBER_RUN);
		wait_ms(6000, 1000);
		hear_type(types[i]);
		assert_int_equal(fails_after_ms(20000), 14000);
		assert_string_equal(t.text, "the aggregator at 10.0.0.1:7171 has been silent for "
					    "10000 ms");
	}
}

static void hear_welcome(uint16_t shard)
{
	step((struct member_event){
		.type = MEMBER_WELCOME, .shard = shard, .lanes = WIRE_HELLO_LANES });
}

/* Its link was down; TCP, which has backed off, will be heard later. */
static void member__a_welcome_ends_its_silence_but_not_for_ever(void **state)
{
	static const enum member_state states[] = { MEMBER_READY, MEMBER_RUN, MEMBER_LEAVING };

	for (uint32_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		uint32_t ms = 0;

		set_up(state);
		bring_to(states[i]);
		wait_ms(13000, 1000);
		hear_welcome(0);
		assert_int_equal(fails_after_ms(20000), 14000);
		set_up(state);
		bring_to(states[i]);
		for (; t.member.state == states[i] && ms < 60000; ms += 1000) {
			hear_welcome(0);
			wait_ms(1000, 1000);
		}
		assert_int_equal(ms, 42000);
		assert_string_equal(t.text, "the aggregator at 10.0.0.1:7171 has been silent for "
					    "10000 ms over TCP, although it answers over UDP");
	}
}

static void member__a_welcome_of_no_shard_of_its_ends_no_silence(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	wait_ms(6000, 1000);
	hear_welcome(MAP_SHARDS_MAX - 1);
	assert_int_equal(fails_after_ms(20000), 8000);
}

/* In local mode: the one that it had joined has said its last. */
static void member__who_awaits_the_next_life_has_nobody_to_tell(void **state)
{
	(void)state;
	t.config.is_local = true;
	bring_to(MEMBER_JOINING);
	memset(&t.message, 0, sizeof(t.message));
	t.message.end.is_ending = 1;
	hear(CONTROL_DENY);
	assert_state(MEMBER_CONNECT);
	t.done[0] = 0;
	event(MEMBER_USER_ABORT);
	assert_done("close fail");
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
		cmocka_unit_test_setup(member__finalizes_once, set_up),
		cmocka_unit_test_setup(member__an_end_without_a_cause_is_an_internal_error, set_up),
		cmocka_unit_test_setup(member__an_error_without_words_is_one_too, set_up),
		cmocka_unit_test_setup(member__a_welcome_of_no_shard_of_its_ends_no_silence,
				       set_up),
		cmocka_unit_test_setup(member__a_welcome_ends_its_silence_but_not_for_ever, set_up),
		cmocka_unit_test_setup(member__any_word_of_the_aggregator_ends_its_silence, set_up),
		cmocka_unit_test_setup(member__who_awaits_the_next_life_has_nobody_to_tell, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
