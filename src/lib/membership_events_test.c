/* SPDX-License-Identifier: Apache-2.0 */
/* membership_events_test.c - what the machines are told: what has come, what was asked for, and the time. */
#include "lib/membership_fixture.h"

static void serve(uint64_t now_ns)
{
	test.steps_count = 0;
	membership_service(&test.comm, &test.codec, now_ns);
}

/* Seats without events of their own: nothing is due. */
static void all_in(enum member_state state)
{
	for (uint32_t i = 0; i < SEATS; i++)
		seat(i)->member.state = (uint8_t)state;
}

/* ---- connections ---- */

static void connection__tells_that_it_is_there_and_what_it_brings(void **state)
{
	(void)state;
	connect_seat(1);
	comes(1, CONN_CONNECTED, CONTROL_NOTHING);
	comes(1, CONN_MESSAGE, CONTROL_PROGRESS);
	comes(1, CONN_NONE, CONTROL_NOTHING);
	comes(1, CONN_MESSAGE, CONTROL_HEARTBEAT); /* of the next turn */
	serve(begin_ns);
	step_is(0, 1, MEMBER_CONNECTED);
	assert_true(test.steps[0].event.now_ns == begin_ns);
	assert_int_equal(test.steps[0].message, CONTROL_NOTHING);
	step_last_is(2, 1, MEMBER_MESSAGE);
	assert_int_equal(test.steps[1].message, CONTROL_PROGRESS);
	assert_true(test.steps[1].event.now_ns == begin_ns);
	serve(begin_ns + 1);
	step_last_is(1, 1, MEMBER_MESSAGE);
	assert_int_equal(test.steps[0].message, CONTROL_HEARTBEAT);
}

/* The others have their turn, too. */
static void connection__is_read_64_times_in_a_turn(void **state)
{
	(void)state;
	connect_seat(0);
	for (uint32_t i = 0; i < 66; i++)
		comes(0, CONN_MESSAGE, CONTROL_HEARTBEAT);
	serve(begin_ns);
	assert_int_equal(test.steps_count, 64);
	serve(begin_ns);
	assert_int_equal(test.steps_count, 2);
}

static void connection__that_ends_says_why_if_it_knows(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		connect_seat(i);
	seat(0)->member.state = MEMBER_RUN;
	seat(1)->member.state = MEMBER_CONNECT;
	seat(2)->member.state = MEMBER_LEAVING;
	comes(0, CONN_EOF, CONTROL_NOTHING);
	comes(0, CONN_MESSAGE, CONTROL_HEARTBEAT); /* nobody reads it any more */
	serve(begin_ns);
	step_last_is(1, 0, MEMBER_CLOSED);
	assert_null(test.steps[0].event.text);
	assert_null(seat(0)->conn);
	assert_int_equal(atomic_load(&seat(0)->fd), -1);
	assert_int_equal(test.closes, 1);
	assert_int_equal(test.seat[0].reads_taken, 1);
	test.conn_text = "Connection reset by peer";
	comes(1, CONN_ERROR, CONTROL_NOTHING);
	serve(begin_ns + 1);
	step_last_is(1, 1, MEMBER_REFUSED);
	assert_string_equal(test.steps[0].text, "Connection reset by peer");
	assert_true(test.steps[0].event.now_ns == begin_ns + 1);
	seat(2)->is_ending = true; /* its last words are over */
	comes(2, CONN_EOF, CONTROL_NOTHING);
	serve(begin_ns + 2);
	assert_int_equal(test.steps_count, 0);
	assert_null(seat(2)->conn);
	assert_int_equal(test.closes, 3);
}

static void connection__that_a_message_ends_is_not_read_on(void **state)
{
	struct control_message *last;

	(void)state;
	connect_seat(0);
	last = comes(0, CONN_MESSAGE, CONTROL_DENY);
	last->end.cause = CONTROL_DENIED;
	comes(0, CONN_MESSAGE, CONTROL_HEARTBEAT);
	test.connect_error = -ECONNREFUSED; /* the machine tries again: there is no connection */
	answer_do(0, (struct member_action){ .type = MEMBER_DO_CONNECT });
	serve(begin_ns);
	assert_int_equal(test.seat[0].reads_taken, 1);
	step_last_is(2, 0, MEMBER_REFUSED);
}

/* ---- GRANT ---- */

static struct control_message *grants(uint32_t i, uint16_t shards)
{
	struct control_message *message = comes(i, CONN_MESSAGE, CONTROL_GRANT);

	message->grant.life = 0x70 + i;
	message->grant.shards_count = shards;
	return message;
}

static void joining(void)
{
	for (uint32_t i = 0; i < SEATS; i++) {
		connect_seat(i);
		seat(i)->member.state = MEMBER_JOINING;
		seat(i)->is_begun = i == 0;
		seat(i)->shards_first = seat(i)->shards_count = 99;
		seat(i)->config.gather_ns = (i == 2 ? 4 : 10) * second_ns;
	}
}

/* R-CT-25: the others are asked with the primary's life, and in what is left of the time. */
static void grant__of_the_first_lets_the_others_begin(void **state)
{
	(void)state;
	joining();
	serve(begin_ns);
	assert_int_equal(test.steps_count, 0);
	grants(0, 3);
	serve(begin_ns + 4 * second_ns);
	assert_true(test.comm.life == 0x70);
	assert_true(seat(0)->is_granted);
	assert_true(seat(0)->config.gather_ns == 10 * second_ns);
	assert_true(seat(0)->join.life == 0);
	for (uint32_t i = 1; i < SEATS; i++) {
		assert_true(seat(i)->is_begun);
		assert_true(seat(i)->join.life == 0x70);
		assert_false(seat(i)->is_granted);
	}
	assert_true(seat(1)->config.gather_ns == 6 * second_ns);
	assert_true(seat(2)->config.gather_ns == 4 * second_ns); /* nothing is left: as it was */
	assert_int_equal(test.opens, 0);
	/* The GRANT is held; both others are told at once to begin. */
	assert_int_equal(test.steps_count, 2);
	step_is(0, 1, MEMBER_TICK);
	step_is(1, 2, MEMBER_TICK);
}

static void grant__of_all_opens_the_paths_and_is_told(void **state)
{
	(void)state;
	joining();
	serve(begin_ns);
	grants(0, 3);
	serve(begin_ns + 1);
	grants(2, 1)->grant.shards_count = 1;
	serve(begin_ns + 2);
	assert_true(test.comm.life == 0x70);
	assert_int_equal(test.opens, 0);
	assert_int_equal(test.steps_count, 0);
	grants(1, 2);
	serve(begin_ns + 3);
	assert_int_equal(test.opens, 1);
	assert_int_equal(test.steps_count, 3);
	for (uint32_t i = 0; i < SEATS; i++) {
		assert_ptr_equal(test.grants[i].conn, &test.conns[i]);
		assert_ptr_equal(test.grants[i].grant, &seat(i)->grant);
		step_is(i, i, MEMBER_MESSAGE);
		assert_int_equal(test.steps[i].message, CONTROL_GRANT);
		assert_int_equal(test.steps[i].event.lanes, 248);
		assert_true(test.steps[i].event.now_ns == begin_ns + 3);
		assert_true(seat(i)->grant.life == 0x70 + i);
		assert_true(seat(i)->config.is_v6);
	}
	assert_int_equal(seat(0)->shards_first, 0);
	assert_int_equal(seat(0)->shards_count, 3);
	assert_int_equal(seat(1)->shards_first, 3);
	assert_int_equal(seat(1)->shards_count, 2);
	assert_int_equal(seat(2)->shards_first, 5);
	assert_int_equal(seat(2)->shards_count, 1);
	grants(1, 2); /* a second one is the machine's to judge */
	serve(begin_ns + 4);
	step_last_is(1, 1, MEMBER_MESSAGE);
	assert_int_equal(test.opens, 1);
}

static void grant__in_another_state_is_the_machines_to_judge(void **state)
{
	(void)state;
	joining();
	seat(0)->member.state = MEMBER_CONNECT;
	grants(0, 1);
	serve(begin_ns);
	step_last_is(1, 0, MEMBER_MESSAGE);
	assert_int_equal(test.steps[0].message, CONTROL_GRANT);
	assert_false(seat(0)->is_granted);
	assert_true(test.comm.life == 0);
}

static void grant__without_paths_is_an_error_everywhere(void **state)
{
	static const int results[] = { TALLY_ERR_NO_MEMORY, TALLY_ERR_UNSUPPORTED };
	static const enum control_cause causes[] = { CONTROL_NO_MEMORY, CONTROL_SYSTEM };

	(void)state;
	for (uint32_t k = 0; k < 2; k++) {
		joining();
		for (uint32_t i = 0; i < SEATS; i++) {
			seat(i)->is_begun = true;
			seat(i)->is_granted = i != 1;
		}
		test.open_result = results[k];
		grants(1, 2);
		serve(begin_ns);
		assert_int_equal(test.steps_count, 3);
		for (uint32_t i = 0; i < SEATS; i++) {
			step_is(i, i, MEMBER_ERROR);
			assert_int_equal(test.steps[i].event.cause, causes[k]);
			assert_string_equal(test.steps[i].text, "no paths");
		}
	}
}

/* It has joined only to say that it has failed. */
static void grant__of_a_rank_that_has_failed_is_answered_with_that(void **state)
{
	(void)state;
	joining();
	test.membership.seats_count = 1;
	strcpy(test.comm.boot.failure, "no such interface");
	grants(0, 1);
	serve(begin_ns);
	step_last_is(1, 0, MEMBER_ERROR);
	assert_int_equal(test.steps[0].event.cause, CONTROL_SYSTEM);
	assert_true(test.steps[0].event.now_ns == begin_ns);
	assert_string_equal(test.steps[0].text, "no such interface");
	assert_int_equal(test.opens, 0);
}

/* ---- WELCOME ---- */

static void welcome__goes_to_the_aggregator_whose_shard_it_is(void **state)
{
	static const uint32_t seats[] = { 0, 1, 1, 2 }, shards[] = { 0, 0, 1, 0 };

	(void)state;
	for (uint32_t shard = 0; shard < 5; shard++) /* nobody has the last */
		test.welcomes[shard] =
			(struct endpoint_welcome){ .shard = shard, .lanes = 60 + 4 * shard };
	test.welcomes_count = 5;
	serve(begin_ns); /* there is no endpoint */
	test.comm.endpoint = endpoint();
	test.comm.state = COMM_RUNNING;
	serve(begin_ns);
	assert_int_equal(test.steps_count, 0);
	test.comm.state = COMM_JOINING;
	serve(begin_ns + 5);
	assert_int_equal(test.steps_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		step_is(i, seats[i], MEMBER_WELCOME);
		assert_int_equal(test.steps[i].event.shard, shards[i]);
		assert_int_equal(test.steps[i].event.lanes, 60 + 4 * i);
		assert_true(test.steps[i].event.now_ns == begin_ns + 5);
	}
}

/* ---- requests ---- */

static void request__goes_to_all_that_are_not_over(void **state)
{
	static const enum member_event_type order[] = { MEMBER_ERROR, MEMBER_USER_ABORT,
							MEMBER_FINALIZE };

	(void)state;
	all_in(MEMBER_RUN);
	seat(1)->member.state = MEMBER_FAILED;
	test.comm.wants_abort = test.comm.wants_leave = test.comm.wants_error = true;
	test.comm.next_number = 71;
	test.comm.fault_cause = CONTROL_NO_RESOURCE;
	strcpy(test.comm.fault_text, "the path is too short");
	serve(begin_ns);
	assert_int_equal(test.steps_count, 6);
	for (uint32_t i = 0; i < 6; i++) {
		step_is(i, i % 2 * 2, order[i / 2]);
		assert_true(test.steps[i].event.now_ns == begin_ns);
	}
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(test.steps[i].event.cause, CONTROL_NO_RESOURCE);
		assert_string_equal(test.steps[i].text, "the path is too short");
		assert_string_equal(test.steps[2 + i].text, "");
		assert_int_equal(test.steps[4 + i].event.number, 71);
	}
	assert_false(test.comm.wants_abort || test.comm.wants_leave || test.comm.wants_error);
	serve(begin_ns); /* once */
	assert_int_equal(test.steps_count, 0);
}

static void request__comes_alone(void **state)
{
	(void)state;
	test.membership.seats_count = 1;
	test.comm.wants_abort = true;
	serve(begin_ns);
	step_last_is(1, 0, MEMBER_USER_ABORT);
	test.comm.wants_leave = true;
	serve(begin_ns);
	step_last_is(1, 0, MEMBER_FINALIZE);
	test.comm.wants_error = true;
	serve(begin_ns);
	step_last_is(1, 0, MEMBER_ERROR);
}

/* ---- the time ---- */

static void tick__is_due_each_second_and_when_the_machine_wants_it(void **state)
{
	(void)state;
	seat(0)->tick_ns = begin_ns;
	seat(1)->actions.wake_ns = begin_ns;
	seat(2)->is_begun = false;
	seat(2)->tick_ns = 0;
	serve(begin_ns - 1);
	assert_int_equal(test.steps_count, 0);
	answer(1)->wake_ns = begin_ns + 7;
	serve(begin_ns);
	assert_int_equal(test.steps_count, 2);
	step_is(0, 0, MEMBER_TICK);
	step_is(1, 1, MEMBER_TICK);
	assert_true(test.steps[0].event.now_ns == begin_ns);
	assert_true(seat(0)->tick_ns == begin_ns + second_ns);
	assert_true(seat(1)->tick_ns == begin_ns + 7);
}

/* A GRANT that is held waits for those that have not granted: if the time is over, it is theirs. */
static void tick__comes_first_to_those_that_have_not_granted(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SEATS; i++) {
		seat(i)->tick_ns = begin_ns;
		seat(i)->is_granted = i != 2;
	}
	serve(begin_ns);
	assert_int_equal(test.steps_count, 3);
	step_is(0, 2, MEMBER_TICK);
	step_is(1, 0, MEMBER_TICK);
	step_is(2, 1, MEMBER_TICK);
}

static void tick__says_whether_the_late_operation_is_done(void **state)
{
	static struct tally_work works[2];

	(void)state;
	memset(works, 0, sizeof(works));
	for (uint32_t i = 0; i < 2; i++) {
		works[i].op.number = 30 + i;
		work_append(&test.comm.outstanding, &works[i]);
	}
	for (uint32_t i = 0; i < SEATS; i++) {
		seat(i)->tick_ns = begin_ns;
		seat(i)->member.expired = 29 + i;
	}
	serve(begin_ns);
	assert_true(test.steps[0].event.is_done);
	assert_false(test.steps[1].event.is_done);
	assert_false(test.steps[2].event.is_done);
}

static void late__is_looked_for_from_ready_on(void **state)
{
	(void)state;
	test.membership.look_ns = begin_ns;
	for (uint8_t its = 0; its < MEMBER_STATE_COUNT; its++) {
		bool is_bound = its == MEMBER_READY || its == MEMBER_RUN || its == MEMBER_LEAVING;

		seat(0)->member.state = its;
		test.late_looks = 0;
		serve(begin_ns - 1);
		assert_int_equal(test.late_looks, 0);
		serve(begin_ns);
		assert_int_equal(test.late_looks, is_bound);
		test.comm.is_over = false;
		seat(0)->actions.wake_ns = begin_ns + 9;
		assert_true(membership_deadline(&test.comm) ==
			    (is_bound ? begin_ns : begin_ns + 9));
	}
	assert_int_equal(test.expires, 0);
	atomic_store(&test.comm.deadline_ns, begin_ns);
	serve(begin_ns - 1);
	assert_int_equal(test.expires, 0);
	serve(begin_ns);
	assert_int_equal(test.expires, 1);
}

/* destroy waits for it. */
static void over__is_when_all_connections_are_closed_for_good(void **state)
{
	(void)state;
	all_in(MEMBER_LEFT);
	seat(2)->member.state = MEMBER_RUN;
	connect_seat(1);
	serve(begin_ns);
	assert_false(test.comm.is_over);
	seat(2)->member.state = MEMBER_FAILED;
	serve(begin_ns);
	assert_false(test.comm.is_over);
	assert_int_equal(test.notifies, 0);
	seat(1)->conn = NULL;
	seat(1)->is_begun = false; /* it will be asked yet */
	serve(begin_ns);
	assert_false(test.comm.is_over);
	test.membership.has_failed = true;
	serve(begin_ns);
	assert_true(test.comm.is_over);
	assert_int_equal(test.notifies, 1);
	serve(begin_ns);
	assert_int_equal(test.notifies, 1);
	assert_true(membership_deadline(&test.comm) == UINT64_MAX);
}

static void poll__is_for_connections_and_until_what_is_due_first(void **state)
{
	struct pollfd polls[SEATS + 1];

	(void)state;
	assert_int_equal(membership_poll(&test.comm, polls), 0);
	assert_true(membership_deadline(&test.comm) == UINT64_MAX);
	connect_seat(0);
	connect_seat(2);
	assert_int_equal(membership_poll(&test.comm, polls), 2);
	assert_int_equal(polls[0].fd, FD_BASE);
	assert_int_equal(polls[0].events, 1);
	assert_int_equal(polls[1].fd, FD_BASE + 2);
	assert_int_equal(polls[1].events, 3);
	assert_true(membership_deadline(&test.comm) == begin_ns + 48 * second_ns);
	seat(1)->tick_ns = begin_ns + 40 * second_ns;
	assert_true(membership_deadline(&test.comm) == begin_ns + 40 * second_ns);
	seat(1)->actions.wake_ns = begin_ns + 30 * second_ns;
	assert_true(membership_deadline(&test.comm) == begin_ns + 30 * second_ns);
	seat(1)->is_begun = false;
	assert_true(membership_deadline(&test.comm) == begin_ns + 48 * second_ns);
	atomic_store(&test.comm.deadline_ns, begin_ns + 5);
	assert_true(membership_deadline(&test.comm) == begin_ns + 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
		T(connection__tells_that_it_is_there_and_what_it_brings),
		T(connection__is_read_64_times_in_a_turn),
		T(connection__that_ends_says_why_if_it_knows),
		T(connection__that_a_message_ends_is_not_read_on),
		T(grant__of_the_first_lets_the_others_begin),
		T(grant__of_all_opens_the_paths_and_is_told),
		T(grant__in_another_state_is_the_machines_to_judge),
		T(grant__without_paths_is_an_error_everywhere),
		T(grant__of_a_rank_that_has_failed_is_answered_with_that),
		T(welcome__goes_to_the_aggregator_whose_shard_it_is),
		T(request__goes_to_all_that_are_not_over),
		T(request__comes_alone),
		T(tick__is_due_each_second_and_when_the_machine_wants_it),
		T(tick__comes_first_to_those_that_have_not_granted),
		T(tick__says_whether_the_late_operation_is_done),
		T(late__is_looked_for_from_ready_on),
		T(over__is_when_all_connections_are_closed_for_good),
		T(poll__is_for_connections_and_until_what_is_due_first),
#undef T
	};

	return cmocka_run_group_tests_name("lib-membership-events", tests, NULL, NULL);
}
