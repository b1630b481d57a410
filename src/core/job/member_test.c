/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/member_fixture.h"
#include "tests/random.h"

/* ---- from CONNECT to LEFT ---- */

/* R-CT-49 */
static void member__goes_from_connect_to_left(void **state)
{
	(void)state;
	event(MEMBER_TICK);
	assert_done("connect");
	event(MEMBER_CONNECTED);
	assert_done("JOIN");
	assert_int_equal(t.message.join.rank, 3);
	hear_grant(2);
	assert_done("hello>0:360 hello>1:360");
	welcome(1, 360);
	assert_done("");
	welcome(0, 360);
	assert_done("READY");
	assert_int_equal(t.message.lanes.lanes, 360);
	hear_start(356);
	assert_done("start");
	assert_int_equal(t.actions.list[0].lanes, 356);
	step((struct member_event){ .type = MEMBER_FINALIZE, .number = 17 });
	assert_done("LEAVE");
	assert_int_equal(t.message.leave.submitted, 17);
	hear_type(CONTROL_LEFT);
	assert_done("close left");
	assert_state(MEMBER_LEFT);
	event(MEMBER_CLOSED);
	event(MEMBER_TICK);
	assert_done("");
	assert_true(t.actions.wake_ns == UINT64_MAX);
}

static void member__tries_again_until_the_aggregator_is_there(void **state)
{
	(void)state;
	static const uint32_t pauses_ms[] = { 1, 1, 2, 4, 8, 16, 32, 64, 128, 250, 250, 250 };

	event(MEMBER_TICK);
	for (uint32_t i = 0; i < sizeof(pauses_ms) / sizeof(*pauses_ms); i++) {
		step((struct member_event){ .type = MEMBER_REFUSED, .text = "Connection refused" });
		t.done[0] = 0;
		event(MEMBER_TICK);
		assert_done("");
		assert_true(t.actions.wake_ns == t.now_ns + pauses_ms[i] * ms_ns);
		wait_ms(pauses_ms[i], pauses_ms[i]);
		assert_done("connect");
	}
	event(MEMBER_CONNECTED);
	assert_state(MEMBER_JOINING);
}

static void member__absent_aggregator_is_named_in_bounded_time(void **state)
{
	(void)state;
	event(MEMBER_TICK);
	uint64_t start_ns = t.now_ns;
	while (t.member.state == MEMBER_CONNECT && t.now_ns < start_ns + 60 * second_ns) {
		step((struct member_event){ .type = MEMBER_REFUSED, .text = "Connection refused" });
		wait_ms(250, 250);
	}
	assert_true(t.now_ns <= start_ns + 31 * second_ns);
	assert_failed(CONTROL_SYSTEM,
		      "no aggregator at 10.0.0.1:7171: Connection refused (tried for 30 s)");
}

static void member__an_attempt_that_never_ends_is_named_too(void **state)
{
	(void)state;
	event(MEMBER_TICK);
	wait_ms(40000, 1000);
	assert_failed(CONTROL_SYSTEM, "no answer from an aggregator at 10.0.0.1:7171");
}

static void member__lanes_are_the_least_of_path_and_shards(void **state)
{
	(void)state;
	bring_to(MEMBER_JOINING);
	memset(&t.message, 0, sizeof(t.message));
	t.message.grant.shards_count = 1;
	t.message.grant.heartbeat_ms = 10000;
	t.message.grant.shards[0].lanes = 4;
	hear(CONTROL_GRANT);
	assert_done("hello>0:8"); /* a HELLO has room for its nonce */
	welcome(0, 8);
	assert_done("READY");
	assert_int_equal(t.message.lanes.lanes, 4);
}

static void member__a_path_too_narrow_for_a_packet_is_an_error(void **state)
{
	(void)state;
	bring_to(MEMBER_JOINING);
	t.message.grant.shards_count = 1;
	t.message.grant.shards[0].lanes = 360;
	t.message.grant.heartbeat_ms = 10000;
	t.message.type = CONTROL_GRANT;
	step((struct member_event){ .type = MEMBER_MESSAGE, .message = &t.message, .lanes = 3 });
	assert_done("ABORT close fail");
	assert_failed(CONTROL_SYSTEM,
		      "the path to the aggregator at 10.0.0.1:7171 is too narrow for one packet");
}

static void member__hello_goes_every_100_ms_to_who_has_not_answered(void **state)
{
	(void)state;
	bring_to(MEMBER_HELLOING);
	uint32_t serial = t.member.serial;
	wait_ms(90, 90);
	assert_done("");
	wait_ms(10, 10);
	assert_done("hello>0:360 hello>1:360");
	assert_int_equal(t.member.serial, serial + 2);
	welcome(0, 360);
	wait_ms(100, 100);
	assert_done("hello>1:360");
	assert_true(t.actions.wake_ns <= t.now_ns + 100 * ms_ns);
}

static void member__no_welcome_in_10_s_means_that_udp_does_not_work(void **state)
{
	(void)state;
	bring_to(MEMBER_HELLOING);
	welcome(0, 360);
	wait_ms(9900, 100);
	assert_state(MEMBER_HELLOING);
	t.done[0] = 0;
	wait_ms(100, 100);
	assert_true(strstr(t.done, "ABORT close fail"));
	assert_failed(CONTROL_SYSTEM, "TCP to 10.0.0.1:7171 works, UDP to its port 7172 does not "
				      "(firewall?)");
}

/* The last rank may have come in the last moment: then nothing is known of the path. */
static void member__when_the_time_to_start_is_over_20_hellos_are_enough(void **state)
{
	for (uint64_t gather_ms = 1400; gather_ms <= 1500; gather_ms += 100) { /* 0.5 s of grace */
		set_up(state);
		t.config.gather_ns = gather_ms * ms_ns;
		bring_to(MEMBER_HELLOING);
		while (t.member.state == MEMBER_HELLOING)
			wait_ms(50, 50);
		if (gather_ms < 1500)
			assert_failed(CONTROL_TIMEOUT, "the job did not start within 1 s: the last "
						       "rank has only just come");
		else
			assert_failed(CONTROL_SYSTEM, "TCP to 10.0.0.1:7171 works, UDP to its port "
						      "7171 does not (firewall?)");
	}
}

static void only_short_hellos_pass(bool is_v6)
{
	t.config.is_v6 = is_v6;
	bring_to(MEMBER_HELLOING);
	welcome(0, 360);
	wait_ms(600, 100);
	assert_non_null(strstr(t.done, "hello>1:360 hello>1:8"));
	welcome(1, 8);
	wait_ms(1300, 100);
	assert_state(MEMBER_HELLOING);
	wait_ms(100, 100);
}

static void member__only_short_hellos_pass_means_that_the_mtu_is_smaller(void **state)
{
	(void)state;
	only_short_hellos_pass(false);
	assert_failed(CONTROL_SYSTEM,
		      "path MTU is below 1492: UDP datagrams of 1464 bytes to the aggregator at "
		      "10.0.0.1:7171, port 7172, get no answer, short ones do: set the same "
		      "MTU all the way, or cap packets (tallyd --lanes)");
}

static void member__over_ipv6_the_mtu_that_is_named_has_its_longer_header(void **state)
{
	(void)state;
	only_short_hellos_pass(true);
	assert_failed(CONTROL_SYSTEM,
		      "path MTU is below 1512: UDP datagrams of 1464 bytes to the aggregator at "
		      "10.0.0.1:7171, port 7172, get no answer, short ones do: set the same "
		      "MTU all the way, or cap packets (tallyd --lanes)");
}

static void member__sleeping_while_helloing_costs_no_hello(void **state)
{
	(void)state;
	bring_to(MEMBER_HELLOING);
	wait_ms(500, 100);
	t.now_ns += 60 * second_ns;
	event(MEMBER_TICK);
	wait_ms(1000, 100);
	assert_state(MEMBER_HELLOING);
	welcome(0, 360);
	welcome(1, 360);
	assert_state(MEMBER_READY);
}

static void member__start_with_more_lanes_than_it_has_is_an_error(void **state)
{
	(void)state;
	bring_to(MEMBER_READY);
	hear_start(364);
	assert_done("ABORT close fail");
	assert_failed(CONTROL_INTERNAL,
		      "the aggregator at 10.0.0.1:7171 sent message 5 in state ready");
}

static void member__what_comes_too_late_changes_nothing(void **state)
{
	for (uint32_t i = MEMBER_JOINING; i <= MEMBER_LEAVING; i++) {
		struct member before;

		set_up(state);
		bring_to(i);
		before = t.member;
		step((struct member_event){ .type = MEMBER_REFUSED, .text = "Connection refused" });
		event(MEMBER_CONNECTED);
		welcome(2, 360); /* of two */
		assert_done("");
		assert_memory_equal(&t.member, &before, sizeof(before));
	}
}

static void member__sleep_of_a_quarter_of_the_heartbeat_time_is_no_silence(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	event(MEMBER_TICK);
	for (uint32_t i = 0; i < 8; i++) {
		t.now_ns += 5 * second_ns / 2;
		event(MEMBER_TICK);
	}
	assert_state(MEMBER_RUN);
	for (uint32_t i = 0; i < 6; i++) {
		t.now_ns += 5 * second_ns / 2 - 1;
		event(MEMBER_TICK);
	}
	assert_state(MEMBER_FAILED);
}

/* ---- while it runs ---- */

/* R-CT-57 */
static void member__query_asks_for_opinfo(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	memset(&t.message, 0, sizeof(t.message));
	t.message.query.round = 5;
	t.message.query.from = 1ull << 40;
	hear(CONTROL_QUERY);
	assert_done("opinfo(5,1099511627776)");
	step((struct member_event){ .type = MEMBER_FINALIZE, .number = 9 });
	t.done[0] = 0;
	memset(&t.message, 0, sizeof(t.message));
	t.message.query.round = 5;
	t.message.query.from = 1ull << 40;
	hear(CONTROL_QUERY); /* until LEFT */
	assert_done("opinfo(5,1099511627776)");
}

static void member__start_may_say_as_few_lanes_as_there_can_be(void **state)
{
	(void)state;
	bring_to(MEMBER_READY);
	hear_start(WIRE_LANES_STEP);
	assert_done("start");
	assert_int_equal(t.member.lanes, WIRE_LANES_STEP);
	for (uint16_t lanes = 0; lanes < 2 * WIRE_LANES_STEP; lanes++) {
		set_up(state);
		bring_to(MEMBER_READY);
		hear_start(lanes);
		assert_state(lanes == WIRE_LANES_STEP ? MEMBER_RUN : MEMBER_FAILED);
	}
}

static void member__stall_is_passed_on_while_it_runs(void **state)
{
	(void)state;
	bring_to(MEMBER_READY);
	step((struct member_event){ .type = MEMBER_STALLED, .number = 3 });
	assert_done("");
	hear_start(360);
	t.done[0] = 0;
	step((struct member_event){ .type = MEMBER_STALLED, .number = 3 });
	assert_done("STALL");
	assert_int_equal(t.message.stall.number, 3);
}

static void member__ping_is_answered_with_its_serial_in_every_state(void **state)
{
	(void)state;
	for (uint32_t i = MEMBER_JOINING; i <= MEMBER_LEAVING; i++) {
		set_up(state);
		bring_to(i);
		memset(&t.message, 0, sizeof(t.message));
		t.message.ping.serial = 42;
		hear(CONTROL_PING);
		assert_done("PONG");
		assert_int_equal(t.message.ping.serial, 42);
	}
}

static void member__progress_is_a_line_of_log(void **state)
{
	(void)state;
	bring_to(MEMBER_JOINING);
	memset(&t.message, 0, sizeof(t.message));
	strcpy(t.message.progress.text, "waiting for rank 1 of 4");
	hear(CONTROL_PROGRESS);
	assert_true(t.actions.has_progress);
	assert_string_equal(t.actions.text, "waiting for rank 1 of 4");
	assert_state(MEMBER_JOINING);
}

static void member__heartbeats_go_five_times_in_a_heartbeat_time(void **state)
{
	(void)state;
	uint32_t beats = 0;

	bring_to(MEMBER_RUN);
	for (uint32_t i = 0; i < 100; i++) {
		t.now_ns += 100 * ms_ns;
		hear_type(CONTROL_HEARTBEAT);
		event(MEMBER_TICK);
		for (uint32_t k = 0; k < t.actions.count; k++)
			beats += t.actions.list[k].message == CONTROL_HEARTBEAT;
	}
	assert_int_equal(beats, 5);
}

static void member__a_shorter_heartbeat_time_has_as_many_heartbeats(void **state)
{
	uint32_t beats = 0;

	(void)state;
	bring_to(MEMBER_JOINING);
	t.message.grant.heartbeat_ms = 1000;
	t.message.grant.shards_count = 1;
	t.message.grant.shards[0].lanes = 16368;
	hear(CONTROL_GRANT);
	welcome(0, 360);
	hear_start(360);
	for (uint32_t i = 0; i < 100; i++) {
		t.now_ns += 10 * ms_ns;
		hear_type(CONTROL_HEARTBEAT);
		event(MEMBER_TICK);
		assert_true(t.actions.wake_ns <= t.now_ns + 200 * ms_ns);
		for (uint32_t k = 0; k < t.actions.count; k++)
			beats += t.actions.list[k].message == CONTROL_HEARTBEAT;
	}
	assert_int_equal(beats, 5);
}

/* ---- failures ---- */

static void member__abort_and_deny_carry_cause_and_text(void **state)
{
	(void)state;
	for (uint32_t i = MEMBER_JOINING; i <= MEMBER_LEAVING; i++) {
		set_up(state);
		bring_to(i);
		hear_end(CONTROL_ABORT, CONTROL_REMOTE, "rank 2 on c died");
		assert_done("close fail"); /* who is told does not tell */
		assert_failed(CONTROL_REMOTE, "rank 2 on c died");
		assert_int_equal(t.member.cause_rank, 2);
	}
	set_up(state);
	bring_to(MEMBER_JOINING);
	hear_end(CONTROL_DENY, CONTROL_DENIED, "rank 2 is held");
	assert_done("close fail");
	assert_failed(CONTROL_DENIED, "rank 2 is held");
}

static void hear_ending(void)
{
	memset(&t.message, 0, sizeof(t.message));
	t.message.end.cause = CONTROL_DENIED;
	t.message.end.rank = CONTROL_RANK_NONE;
	t.message.end.is_ending = 1;
	strcpy(t.message.end.text, "job \"a\": the aggregator is shutting down");
	hear(CONTROL_DENY);
}

static void member__an_aggregator_that_is_ending_is_final(void **state)
{
	(void)state;
	bring_to(MEMBER_JOINING);
	hear_ending();
	assert_done("close fail");
	assert_failed(CONTROL_DENIED, "job \"a\": the aggregator is shutting down");
}

static void member__in_local_mode_the_next_life_s_aggregator_is_awaited(void **state)
{
	(void)state;
	t.config.is_local = true;
	bring_to(MEMBER_JOINING);
	wait_ms(5000, 100); /* whom rank 0's last life still runs with */
	hear_type(CONTROL_HEARTBEAT);
	t.done[0] = 0;
	hear_ending();
	assert_done("close");
	assert_state(MEMBER_CONNECT);
	assert_true(t.actions.has_progress);
	assert_string_equal(t.text,
			    "job \"a\": the aggregator is shutting down: it is of an earlier "
			    "life, the next one's is awaited");
	assert_true(t.actions.wake_ns == t.now_ns + 250 * ms_ns);
	wait_ms(250, 250);
	assert_done("connect");
	event(MEMBER_CONNECTED);
	assert_done("JOIN");
	hear_grant(2);
	assert_state(MEMBER_HELLOING);
	hear_ending(); /* who has granted does not say so */
	assert_failed(CONTROL_DENIED, "job \"a\": the aggregator is shutting down");
}

static void member__in_local_mode_the_wait_for_the_next_life_has_an_end(void **state)
{
	uint64_t start_ns;

	(void)state;
	t.config.is_local = true;
	bring_to(MEMBER_JOINING);
	hear_ending();
	for (start_ns = t.now_ns;
	     t.member.state == MEMBER_CONNECT && t.now_ns < start_ns + 60 * second_ns;) {
		wait_ms(250, 250);
		step((struct member_event){ .type = MEMBER_REFUSED, .text = "Connection refused" });
	}
	assert_in_range(t.now_ns, start_ns + 30 * second_ns, start_ns + 31 * second_ns);
	assert_failed(CONTROL_SYSTEM, "no aggregator at 10.0.0.1:7171: Connection refused (tried "
				      "for 30 s, after an earlier one had ended)");

	set_up(state); /* nor does one that is always ending keep us */
	t.config.is_local = true;
	bring_to(MEMBER_JOINING);
	for (start_ns = t.now_ns; t.member.state != MEMBER_FAILED;) {
		hear_ending();
		wait_ms(250, 250);
		if (t.member.state == MEMBER_CONNECT)
			event(MEMBER_CONNECTED);
		assert_true(t.now_ns < start_ns + 302 * second_ns);
	}
}

/* R-CT-54 */
static void member__lost_aggregator_is_named(void **state)
{
	(void)state;
	for (uint32_t i = MEMBER_JOINING; i <= MEMBER_LEAVING; i++) {
		set_up(state);
		bring_to(i);
		event(MEMBER_CLOSED);
		assert_done("close fail");
		assert_failed(CONTROL_REMOTE, "the aggregator at 10.0.0.1:7171 is lost: it closed "
					      "the connection");
	}
	set_up(state);
	bring_to(MEMBER_RUN);
	step((struct member_event){ .type = MEMBER_CLOSED, .text = "Connection reset by peer" });
	assert_failed(CONTROL_REMOTE,
		      "the aggregator at 10.0.0.1:7171 is lost: Connection reset by peer");
}

static void member__silent_aggregator_is_named_after_the_heartbeat_time(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	event(MEMBER_TICK);
	wait_ms(13000, 1000); /* the heartbeat time, and two beats */
	assert_state(MEMBER_RUN);
	wait_ms(1000, 1000);
	assert_done("ABORT close fail");
	assert_failed(CONTROL_REMOTE,
		      "the aggregator at 10.0.0.1:7171 has been silent for 10000 ms");
}

static void member__that_overslept_blames_nobody(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	event(MEMBER_TICK);
	t.now_ns += 3600 * second_ns;
	event(MEMBER_TICK);
	assert_state(MEMBER_RUN);
	wait_ms(13000, 1000);
	assert_state(MEMBER_RUN);
	wait_ms(1000, 1000);
	assert_state(MEMBER_FAILED);
}

static void member__no_grant_and_no_start_end_in_time(void **state)
{
	(void)state;
	t.config.gather_ns = 20 * second_ns;
	bring_to(MEMBER_JOINING);
	for (uint32_t i = 0; i < 26 && t.member.state == MEMBER_JOINING; i++) {
		hear_type(CONTROL_HEARTBEAT);
		wait_ms(1000, 1000);
	}
	assert_failed(CONTROL_TIMEOUT,
		      "the aggregator at 10.0.0.1:7171 did not grant the job within 20 s");
	set_up(state);
	t.config.gather_ns = 20 * second_ns;
	bring_to(MEMBER_READY);
	for (uint32_t i = 0; i < 26 && t.member.state == MEMBER_READY; i++) {
		hear_type(CONTROL_HEARTBEAT);
		wait_ms(1000, 1000);
	}
	assert_failed(CONTROL_TIMEOUT,
		      "the aggregator at 10.0.0.1:7171 did not start the job within 20 s");
}

static void member__user_abort_tells_the_others_first(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	step((struct member_event){ .type = MEMBER_USER_ABORT, .text = "loss is NaN" });
	assert_done("ABORT close fail");
	assert_int_equal(t.message.end.cause, CONTROL_ABORTED);
	assert_int_equal(t.message.end.rank, 3);
	assert_string_equal(t.message.end.text, "loss is NaN");
	assert_failed(CONTROL_ABORTED, "loss is NaN");
	event(MEMBER_USER_ABORT);
	hear_end(CONTROL_ABORT, CONTROL_REMOTE, "another cause");
	assert_done(""); /* the first cause stays */
	assert_int_equal(t.member.cause, CONTROL_ABORTED);
}

static void member__user_abort_before_the_connection_is_silent(void **state)
{
	(void)state;
	bring_to(MEMBER_CONNECT);
	event(MEMBER_USER_ABORT);
	assert_done("close fail");
	assert_failed(CONTROL_ABORTED, "the user aborted");
}

static void member__own_error_is_told_with_its_cause(void **state)
{
	(void)state;
	bring_to(MEMBER_HELLOING);
	step((struct member_event){
		.type = MEMBER_ERROR, .cause = CONTROL_NO_MEMORY, .text = "out of memory" });
	assert_done("ABORT close fail");
	assert_int_equal(t.message.end.cause, CONTROL_NO_MEMORY);
	assert_failed(CONTROL_NO_MEMORY, "out of memory");
}

static void member__finalize_before_the_start_is_an_abort(void **state)
{
	(void)state;
	bring_to(MEMBER_READY);
	event(MEMBER_FINALIZE);
	assert_done("ABORT close fail");
	assert_failed(CONTROL_ABORTED, "finalized before the job had started");
}

static void member__whatever_comes_out_of_turn_is_an_internal_error(void **state)
{
	(void)state;
	bring_to(MEMBER_RUN);
	hear_type(CONTROL_LEFT);
	assert_done("ABORT close fail");
	assert_failed(CONTROL_INTERNAL,
		      "the aggregator at 10.0.0.1:7171 sent message 16 in state run");
	set_up(state);
	bring_to(MEMBER_JOINING);
	hear_start(360);
	assert_state(MEMBER_FAILED);
}

static void random_event(void)
{
	uint32_t type = 1 + random_below(CONTROL_TYPE_END - 1);

	if (type == CONTROL_GRANT)
		hear_grant((uint16_t)(1 + random_below(MAP_SHARDS_MAX)));
	else if (type == CONTROL_START)
		hear_start((uint16_t)(4 * random_below(100)));
	else if (type == CONTROL_DENY || type == CONTROL_ABORT)
		hear_end(type, random_below(CONTROL_CAUSE_END), "x");
	else if (type != CONTROL_OPINFO)
		hear_type(type);
}

/* No assert, no more actions than there is room for, one FAIL at most, and a FAIL always has a cause. */
static void member__any_sequence_of_events_ends_in_one_cause(void **state)
{
	uint32_t visits[MEMBER_STATE_COUNT] = { 0 };

	for (uint32_t run = 0; run < 3000; run++) {
		set_up(state);
		bring_to(random_below(MEMBER_LEFT));
		for (uint32_t i = 0; i < 30; i++) {
			if (random_below(4) == 0)
				random_event();
			else if (random_below(2))
				wait_ms(100 * random_below(30), 100);
			else
				step((struct member_event){
					.type = random_below(MEMBER_TICK + 1) == MEMBER_MESSAGE
							? MEMBER_TICK
						: random_below(2) ? MEMBER_WELCOME
								  : MEMBER_STALLED,
					.shard = (uint16_t)random_below(70),
					.lanes = (uint16_t)random_below(400),
					.number = random_below(9) });
			visits[t.member.state]++;
			assert_int_equal(t.fails, t.member.state == MEMBER_FAILED);
			assert_int_equal(t.member.state == MEMBER_FAILED,
					 t.member.cause != CONTROL_OK);
			t.done[0] = 0;
		}
	}
	for (uint32_t i = MEMBER_JOINING; i < MEMBER_STATE_COUNT; i++)
		assert_true(visits[i] > 10);
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	const struct CMUnitTest tests[] = {
		TEST(member__goes_from_connect_to_left),
		TEST(member__tries_again_until_the_aggregator_is_there),
		TEST(member__absent_aggregator_is_named_in_bounded_time),
		TEST(member__an_attempt_that_never_ends_is_named_too),
		TEST(member__lanes_are_the_least_of_path_and_shards),
		TEST(member__a_path_too_narrow_for_a_packet_is_an_error),
		TEST(member__hello_goes_every_100_ms_to_who_has_not_answered),
		TEST(member__no_welcome_in_10_s_means_that_udp_does_not_work),
		TEST(member__when_the_time_to_start_is_over_20_hellos_are_enough),
		TEST(member__only_short_hellos_pass_means_that_the_mtu_is_smaller),
		TEST(member__over_ipv6_the_mtu_that_is_named_has_its_longer_header),
		TEST(member__sleeping_while_helloing_costs_no_hello),
		TEST(member__start_with_more_lanes_than_it_has_is_an_error),
		TEST(member__what_comes_too_late_changes_nothing),
		TEST(member__sleep_of_a_quarter_of_the_heartbeat_time_is_no_silence),
		TEST(member__query_asks_for_opinfo),
		TEST(member__start_may_say_as_few_lanes_as_there_can_be),
		TEST(member__stall_is_passed_on_while_it_runs),
		TEST(member__ping_is_answered_with_its_serial_in_every_state),
		TEST(member__progress_is_a_line_of_log),
		TEST(member__heartbeats_go_five_times_in_a_heartbeat_time),
		TEST(member__a_shorter_heartbeat_time_has_as_many_heartbeats),
		TEST(member__abort_and_deny_carry_cause_and_text),
		TEST(member__an_aggregator_that_is_ending_is_final),
		TEST(member__in_local_mode_the_next_life_s_aggregator_is_awaited),
		TEST(member__in_local_mode_the_wait_for_the_next_life_has_an_end),
		TEST(member__lost_aggregator_is_named),
		TEST(member__silent_aggregator_is_named_after_the_heartbeat_time),
		TEST(member__that_overslept_blames_nobody),
		TEST(member__no_grant_and_no_start_end_in_time),
		TEST(member__user_abort_tells_the_others_first),
		TEST(member__user_abort_before_the_connection_is_silent),
		TEST(member__own_error_is_told_with_its_cause),
		TEST(member__finalize_before_the_start_is_an_abort),
		TEST(member__whatever_comes_out_of_turn_is_an_internal_error),
		TEST(member__any_sequence_of_events_ends_in_one_cause),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
