/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From JOIN to LEFT, and whatever comes in between.
 */
#include "core/job/admission_fixture.h"
#include "tests/random.h"

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
	step(answer_of(1, ADMISSION_JOB_ADD));
	assert_done("");
	step(answer_of(0, ADMISSION_JOB_ADD));
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
	step(answer_of(0, ADMISSION_JOB_SET));
	assert_done("");
	step(answer_of(1, ADMISSION_JOB_SET));
	assert_done("start>10 start>11");
	assert_state(ADMISSION_STARTED);
}

/* R-CT-17 */
static void admission__acknowledgements_of_an_older_generation_count_for_nothing(void **state)
{
	(void)state;
	bring_to(ADMISSION_ENABLING, 10, 2);
	for (uint16_t shard = 0; shard < 2; shard++) {
		struct admission_event answer = answer_of(shard, ADMISSION_JOB_SET);

		answer.job_generation--;
		step(answer);
	}
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

/* R-CT-18 */
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

/* R-CT-18 */
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

/* R-CT-14 */
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

/* ---- whatever comes ---- */

/* R-CT-42 */
static void admission__an_alarm_is_logged_and_ends_nothing(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	step((struct admission_event){ .type = ADMISSION_ALARM, .rank = 1 });
	assert_int_equal(t.actions.count, 0);
	assert_done("");
	assert_string_equal(t.log, "rank 1 on host11 sent a packet that a sound worker never "
				   "sends: dropped");
	assert_state(ADMISSION_STARTED);
}

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

static bool has_odd_rank;

static void random_message(uint32_t connection)
{
	struct control_op ops[4];
	uint32_t type = CONTROL_JOIN + random_below(CONTROL_TYPE_END - CONTROL_JOIN);
	const struct admission_member *member = admission_member(t.admission, random_below(2));

	if (type == CONTROL_JOIN || (!t.admission->query && !random_below(3))) {
		prepare_join(connection, (uint16_t)random_below(random_below(8) ? 2 : 3),
			     (uint16_t)(2 + (random_below(16) == 0)));
		if (t.admission->state <= ADMISSION_GATHER && !random_below(8))
			t.message.join.timeout_ms = 1000; /* not all come by then */
		say(connection);
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
	prepare(type);
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
			else if (what < 91)
				wait_seconds(14); /* all are silent */
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

int main(int argc, char **argv)
{
	seed_take(argc, argv);
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
		TEST(admission__an_alarm_is_logged_and_ends_nothing),
		TEST(admission__strangers_and_strange_messages_change_nothing),
		TEST(admission__any_sequence_of_events_ends_clean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
