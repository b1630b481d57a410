/* SPDX-License-Identifier: Apache-2.0 */
/* server_kv_step_test.c - who waits for whom, what is passed and answered, whom they wait for in vain: R-KV-11, R-KV-13,
 * R-KV-15, R-KV-17. */
#include "core/kv/server_kv_fixture.h"

/* ---- barriers: R-KV-11 ---- */

static void barrier__is_passed_when_all_have_come(void **state)
{
	(void)state;
	come(1, 5);
	come(0, 6);
	assert_did("");
	test.worker[1].waits_ns = 7;
	come(2, 5);
	assert_did("pass0:0:0:5 answer1:0:0:5 answer2:0:0:5"); /* worker 0 waits for 6 */
	assert_int_equal(test.kv.barrier, 5);
	assert_false(test.worker[1].is_waiting || test.worker[2].is_waiting);
	assert_true(test.worker[0].is_waiting);
	assert_true(test.worker[1].waits_ns == 0);
	come(2, 5); /* said again: it is answered at once */
	come(2, 3); /* and an older one */
	assert_did("answer2:0:0:5 answer2:0:0:3");
}

static void barrier__out_of_reach_is_refused(void **state)
{
	struct server_kv_event event = event_of(SERVER_KV_BARRIER, 1);

	(void)state;
	assert_int_equal(come(0, 4 + REACH), SERVER_KV_YES);
	assert_true(test.worker[0].barrier == 4 + REACH);
	assert_int_equal(come(1, 5 + REACH), SERVER_KV_FAR);
	assert_int_equal(test.worker[1].barrier, 4);
	assert_false(test.worker[1].is_waiting);
	event.number = 5;
	event.disk = SERVER_KV_TROUBLED;
	assert_int_equal(step(event), SERVER_KV_NO_DISK);
	assert_false(test.worker[1].is_waiting);
	assert_did("");
	event.number = 4; /* it was passed, and waits for the disk */
	assert_int_equal(step(event), SERVER_KV_YES);
	assert_did("answer1:0:0:4");
}

/* R-KV-15: all that are passed are answered, one at a time, while it waits for more. */
static void barrier__of_a_bounded_worker_is_answered_as_it_is_passed(void **state)
{
	(void)state;
	test.worker[0].mode = SERVER_KV_BOUNDED;
	come(0, 7);
	assert_did("answer0:0:0:4"); /* the last that was passed */
	test.worker[0].waits_ns = 9;
	test.worker[1].barrier = test.worker[2].barrier = 5;
	come(1, 5);
	assert_did("pass0:0:0:5 answer0:0:0:5 answer1:0:0:5");
	assert_true(test.worker[0].is_waiting);
	assert_true(test.worker[0].waits_ns == 0); /* for the next one: since now */
	come(1, 5);
	assert_did("answer1:0:0:5"); /* it is told once */
	come(2, 6);
	test.worker[2].waits_ns = 11;
	come(2, 7); /* it has waited since before */
	assert_true(test.worker[2].waits_ns == 11);
	test.worker[2].is_waiting = false;
	come(2, 7);
	assert_true(test.worker[2].waits_ns == 0);
	assert_did("");
}

/* R-KV-13 */
static void barrier__who_has_left_is_not_waited_for(void **state)
{
	(void)state;
	come(0, 5);
	come(1, 5);
	assert_true(server_kv_awaits(&test.kv, 0, 2));
	assert_false(server_kv_awaits(&test.kv, 0, 1));
	leave(2, 0);
	assert_false(server_kv_awaits(&test.kv, 0, 2));
	assert_did("leave2:0:0:0 pass0:0:0:5 answer0:0:0:5 answer1:0:0:5");
	leave(2, 0); /* said again */
	assert_did("");
	step(event_of(SERVER_KV_END, 0)); /* nobody hears an answer */
	come(0, 5);
	assert_did("");
}

static void left__alone_drops_what_no_step_will_have(void **state)
{
	(void)state;
	leave(0, 3);
	leave(1, 3);
	*test.did = 0;
	leave(2, 3);
	assert_did("leave2:0:0:0 void0:0:0:0");
	setup(NULL);
	for (uint16_t i = 0; i < WORKERS; i++)
		leave(i, 0);
	assert_did("leave0:0:0:0 leave1:0:0:0 leave2:0:0:0");
}

static void left__after_one_that_waits_makes_the_step(void **state)
{
	(void)state;
	leave(1, 3);
	come(0, 5);
	leave(0, 3);
	*test.did = 0;
	leave(2, 3);
	assert_did("leave2:0:0:0 pass0:0:0:5 answer0:0:0:5");
}

/* R-KV-10 */
static void pull__is_answered_when_its_epoch_is_applied(void **state)
{
	(void)state;
	assert_true(server_kv_is_fresh(&test.kv, 0, 0));
	assert_true(server_kv_is_fresh(&test.kv, 7, 99));
	assert_true(server_kv_is_fresh(&test.kv, 8, 9));
	assert_false(server_kv_is_fresh(&test.kv, 8, 10));
	assert_false(server_kv_is_fresh(&test.kv, 9, 0));
}

static void gone__for_too_long_is_told_to_those_that_wait(void **state)
{
	char did[64];

	(void)state;
	assert_true(server_kv_grace_ns(&test.kv) == 6 * s_ns);
	test.worker[0].mode = test.worker[1].mode = SERVER_KV_BOUNDED;
	come(0, 5);
	come(1, 5);
	test.worker[1].link = test.worker[2].link = 0;
	test.worker[2].gone_ns = test.now_ns - 6 * s_ns;
	test.worker[0].joined_ns = test.worker[1].joined_ns = 1;
	*test.did = 0;
	turn(SERVER_KV_WELL);
	test.now_ns++;
	test.worker[0].joined_ns = test.worker[2].gone_ns; /* it has begun after that */
	turn(SERVER_KV_WELL);
	test.worker[0].joined_ns--;
	test.worker[2].barrier = 5; /* it has ended that step before */
	turn(SERVER_KV_WELL);
	test.worker[2].barrier = 4;
	test.worker[0].mode = SERVER_KV_ASYNC;
	turn(SERVER_KV_WELL);
	assert_did("");
	test.worker[0].mode = SERVER_KV_SYNC;
	turn(SERVER_KV_WELL);
	turn(SERVER_KV_WELL);
	snprintf(did, sizeof(did), "refuse0:%d:2:5", SERVER_KV_HAS_GONE);
	assert_did(did);
}

/* R-KV-11: it is waited for if that was before the other joined, maybe by an earlier run. */
static void gone__is_nobody_who_has_left(void **state)
{
	struct server_kv_event open = open_of(0, 6);

	(void)state;
	leave(2, 0);
	step(event_of(SERVER_KV_END, 2));
	leave(0, 0);
	open.mode = SERVER_KV_BOUNDED;
	test.worker[1].link = 0;
	step(open);
	test.now_ns++;
	step(open_of(2, 5)); /* it had no answer */
	step(event_of(SERVER_KV_END, 2));
	test.now_ns += 7 * s_ns;
	come(0, 5);
	*test.did = 0;
	turn(SERVER_KV_WELL);
	assert_did("");
	assert_true(server_kv_awaits(&test.kv, 0, 2));
}

static void trouble__of_the_disk_ends_what_waits(void **state)
{
	char did[64];

	(void)state;
	come(0, 5);
	come(1, 6);
	turn(SERVER_KV_WELL);
	assert_did("");
	test.worker[1].link = 0;
	turn(SERVER_KV_STUCK);
	snprintf(did, sizeof(did), "refuse0:%d:0:5", SERVER_KV_NO_DISK);
	assert_did(did);
	assert_false(test.worker[0].is_waiting);
	assert_int_equal(test.worker[0].barrier, 4); /* R-KV-14: as if it had not been said */
	assert_int_equal(test.worker[1].barrier, 6);
}

static void trouble__of_the_disk_is_nothing_to_one_that_hears_nothing_more(void **state)
{
	(void)state;
	come(0, 5);
	step(event_of(SERVER_KV_ENDS, 0));
	turn(SERVER_KV_TROUBLED);
	assert_did("");
	assert_int_equal(test.worker[0].barrier, 5);
	step(event_of(SERVER_KV_END, 0));
	assert_false(test.worker[0].is_ending);
	step(open_of(0, 5));
	step(event_of(SERVER_KV_ENDS, 0));
	step(open_of(0, 5)); /* it is of that connection alone */
	assert_false(test.worker[0].is_ending);
}

static void longest__has_waited_since_it_was_seen(void **state)
{
	(void)state;
	assert_int_equal(server_kv_longest(&test.kv, 5), WORKERS);
	come(2, 5);
	assert_int_equal(server_kv_longest(&test.kv, 5), 2);
	come(0, 6);
	assert_int_equal(server_kv_longest(&test.kv, 6), 2);
	test.worker[0].waits_ns = 4;
	assert_int_equal(server_kv_longest(&test.kv, 7), 0);
	assert_int_equal(test.worker[2].waits_ns, 5);
	step(event_of(SERVER_KV_END, 0)); /* who has gone does not wait */
	assert_int_equal(server_kv_longest(&test.kv, 8), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(barrier__is_passed_when_all_have_come),
		T(barrier__out_of_reach_is_refused),
		T(barrier__of_a_bounded_worker_is_answered_as_it_is_passed),
		T(barrier__who_has_left_is_not_waited_for),
		T(left__alone_drops_what_no_step_will_have),
		T(left__after_one_that_waits_makes_the_step),
		T(pull__is_answered_when_its_epoch_is_applied),
		T(gone__for_too_long_is_told_to_those_that_wait),
		T(gone__is_nobody_who_has_left),
		T(trouble__of_the_disk_ends_what_waits),
		T(trouble__of_the_disk_is_nothing_to_one_that_hears_nothing_more),
		T(longest__has_waited_since_it_was_seen),
#undef T
	};

	return cmocka_run_group_tests_name("core-server_kv_step", tests, NULL, NULL);
}
