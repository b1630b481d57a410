/* SPDX-License-Identifier: Apache-2.0 */
/* A member's way from CONNECT to RUN: its bounds, and what comes out of turn. */
#include "core/job/member_fixture.h"

static void member__join_says_how_long_it_can_wait(void **state)
{
	static const struct {
		uint64_t gather_ns, gone_ns;
		uint32_t timeout_ms;
	} rows[] = {
		{ 5000000000, 0, 5000 },
		{ 5000000000, 4998500000, 1 },
		{ 5000000000, 4999500000, 1 }, /* 0 would say "as long as you like" */
		{ 5000000000, 5000000000, 1 },
		{ 5000000000, 5000000001, 1 },
		{ (UINT32_MAX + 1ull) * 1000000, 0, UINT32_MAX },
		{ (UINT32_MAX + 1ull) * 1000000, 1000000, UINT32_MAX },
		{ (UINT32_MAX + 1ull) * 1000000, 2000000, UINT32_MAX - 1 },
	};

	for (uint32_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		set_up(state);
		t.config.gather_ns = rows[i].gather_ns;
		event(MEMBER_TICK);
		t.now_ns += rows[i].gone_ns;
		event(MEMBER_CONNECTED);
		assert_int_equal(t.message.join.timeout_ms, rows[i].timeout_ms);
	}
}

static void member__connects_once_at_a_time(void **state)
{
	(void)state;
	event(MEMBER_TICK);
	assert_done("connect");
	wait_ms(5000, 500); /* it is under way */
	assert_done("");
	event(MEMBER_CLOSED); /* so it was refused, late */
	wait_ms(250, 10);
	assert_done("connect");
}

static void member__attempts_last_for_the_time_to_connect_to_the_nanosecond(void **state)
{
	for (uint32_t early = 0; early < 2; early++) {
		set_up(state);
		event(MEMBER_TICK);
		t.now_ns += t.config.connect_ns - early;
		event(MEMBER_REFUSED);
		assert_state(early ? MEMBER_CONNECT : MEMBER_FAILED);
		assert_done(early ? "connect" : "connect close fail");
		if (!early)
			assert_failed(CONTROL_SYSTEM, "no aggregator at 10.0.0.1:7171: no answer "
						      "(tried for 30 s)");
	}
}

static void hear_grant_of(uint16_t shards, uint16_t lanes, uint16_t path_lanes)
{
	memset(&t.message, 0, sizeof(t.message));
	t.message.type = CONTROL_GRANT;
	t.message.grant.shards_count = shards;
	t.message.grant.heartbeat_ms = 10000;
	for (uint16_t i = 0; i < shards; i++) {
		t.message.grant.shards[i].port = (uint16_t)(7171 + i);
		t.message.grant.shards[i].lanes = i + 1 == shards ? lanes : 16368;
	}
	step((struct member_event){
		.type = MEMBER_MESSAGE, .message = &t.message, .lanes = path_lanes });
}

static void member__lanes_come_in_fours(void **state)
{
	for (uint16_t lanes = 8; lanes < 16; lanes++) {
		for (uint32_t of_path = 0; of_path < 2; of_path++) {
			set_up(state);
			bring_to(MEMBER_JOINING);
			hear_grant_of(2, of_path ? 16368 : lanes, of_path ? lanes : 360);
			assert_done(lanes < 12 ? "hello>0:8 hello>1:8" : "hello>0:12 hello>1:12");
			welcome(0, 12);
			welcome(1, 12);
			assert_int_equal(t.message.lanes.lanes, lanes / 4 * 4);
		}
	}
}

static void member__as_many_shards_as_there_can_be_are_all_awaited(void **state)
{
	static const uint16_t counts[] = { 1, 2, 63, MAP_SHARDS_MAX };

	for (uint32_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		set_up(state);
		bring_to(MEMBER_JOINING);
		hear_grant_of(counts[i], 360, 360);
		assert_int_equal(t.actions.count, counts[i]);
		for (uint16_t shard = 0; shard < counts[i]; shard++) {
			assert_state(MEMBER_HELLOING);
			welcome(shard, 360);
		}
		assert_state(MEMBER_READY);
	}
}

static void member__a_welcome_that_is_too_short_is_none(void **state)
{
	(void)state;
	bring_to(MEMBER_JOINING);
	hear_grant_of(1, 360, 360);
	welcome(0, 359);
	assert_state(MEMBER_HELLOING);
	welcome(1, 360); /* of one */
	assert_state(MEMBER_HELLOING);
	welcome(0, 360);
	assert_state(MEMBER_READY);
}

static void member__short_hellos_begin_after_half_a_second(void **state)
{
	(void)state;
	bring_to(MEMBER_JOINING);
	hear_grant_of(1, 360, 360);
	wait_ms(400, 100);
	assert_done("hello>0:360 hello>0:360 hello>0:360 hello>0:360 hello>0:360");
	wait_ms(100, 100);
	assert_done("hello>0:360 hello>0:8");
	set_up(state);
	bring_to(MEMBER_JOINING);
	hear_grant_of(1, 8, 360); /* none is shorter */
	t.done[0] = 0;
	wait_ms(500, 100);
	assert_done("hello>0:8 hello>0:8 hello>0:8 hello>0:8 hello>0:8");
}

static void member__the_first_shard_that_has_not_answered_is_named(void **state)
{
	static const char *const texts[] = {
		"TCP to 10.0.0.1:7171 works, UDP to its port 7171 does not (firewall?)",
		"TCP to 10.0.0.1:7171 works, UDP to its port 7172 does not (firewall?)",
		"TCP to 10.0.0.1:7171 works, UDP to its port 7173 does not (firewall?)",
	};

	for (uint16_t welcomes = 0; welcomes < 3; welcomes++) {
		set_up(state);
		bring_to(MEMBER_JOINING);
		hear_grant_of(3, 360, 360);
		for (uint16_t shard = 0; shard < welcomes; shard++)
			welcome(shard, 360);
		if (!welcomes)
			welcome(2, 360);
		wait_ms(10000, 100);
		assert_failed(CONTROL_SYSTEM, texts[welcomes]);
	}
}

static void member__late_is_said_of_a_beginning_alone(void **state)
{
	for (uint32_t i = MEMBER_CONNECT; i <= MEMBER_LEAVING; i++) {
		set_up(state);
		t.config.gather_ns = 2 * second_ns + 1; /* begun seconds count */
		bring_to(i);
		wait_ms(3000, 100);
		if (i >= MEMBER_RUN) {
			assert_done("");
			assert_state(i);
			continue;
		}
		if (i != MEMBER_HELLOING)
			assert_done(i == MEMBER_CONNECT ? "close fail" : "ABORT close fail");
		assert_failed(
			i == MEMBER_CONNECT || i == MEMBER_HELLOING ? CONTROL_SYSTEM
								    : CONTROL_TIMEOUT,
			i == MEMBER_CONNECT   ? "no answer from an aggregator at 10.0.0.1:7171"
			: i == MEMBER_JOINING ? "the aggregator at 10.0.0.1:7171 did not grant the "
						"job within 3 s"
			: i == MEMBER_READY   ? "the aggregator at 10.0.0.1:7171 did not start the "
						"job within 3 s"
					      : "TCP to 10.0.0.1:7171 works, UDP to its port 7171 "
						"does not (firewall?)");
	}
}

static void member__silence_is_said_of_who_has_joined_alone(void **state)
{
	for (uint32_t i = MEMBER_CONNECT; i <= MEMBER_LEAVING; i++) {
		set_up(state);
		bring_to(i);
		wait_ms(14000, 1000);
		assert_state(i == MEMBER_CONNECT ? MEMBER_CONNECT : MEMBER_FAILED);
		if (i != MEMBER_HELLOING)
			assert_done(i == MEMBER_CONNECT ? "" : "ABORT close fail");
		if (i != MEMBER_CONNECT)
			assert_int_equal(t.cause,
					 i == MEMBER_JOINING ? CONTROL_TIMEOUT : CONTROL_REMOTE);
	}
}

static void member__every_message_has_its_state(void **state)
{
	for (uint32_t i = MEMBER_JOINING; i <= MEMBER_LEAVING; i++) {
		static const enum control_type types[] = { CONTROL_GRANT, CONTROL_START,
							   CONTROL_QUERY, CONTROL_WAITING,
							   CONTROL_LEFT };

		for (uint32_t k = 0; k < sizeof(types) / sizeof(*types); k++) {
			bool is_run = i == MEMBER_RUN || i == MEMBER_LEAVING;
			bool fits = types[k] == CONTROL_GRANT   ? i == MEMBER_JOINING
				    : types[k] == CONTROL_START ? i == MEMBER_READY
				    : types[k] == CONTROL_LEFT  ? i == MEMBER_LEAVING
								: is_run;

			set_up(state);
			bring_to(i);
			if (types[k] == CONTROL_GRANT)
				hear_grant(2);
			else if (types[k] == CONTROL_START)
				hear_start(360);
			else
				hear_type(types[k]);
			assert_int_equal(t.member.state != MEMBER_FAILED, fits);
			if (!fits)
				assert_int_equal(t.cause, CONTROL_INTERNAL);
		}
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	const struct CMUnitTest tests[] = {
		TEST(member__join_says_how_long_it_can_wait),
		TEST(member__connects_once_at_a_time),
		TEST(member__attempts_last_for_the_time_to_connect_to_the_nanosecond),
		TEST(member__lanes_come_in_fours),
		TEST(member__as_many_shards_as_there_can_be_are_all_awaited),
		TEST(member__a_welcome_that_is_too_short_is_none),
		TEST(member__short_hellos_begin_after_half_a_second),
		TEST(member__the_first_shard_that_has_not_answered_is_named),
		TEST(member__late_is_said_of_a_beginning_alone),
		TEST(member__silence_is_said_of_who_has_joined_alone),
		TEST(member__every_message_has_its_state),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
