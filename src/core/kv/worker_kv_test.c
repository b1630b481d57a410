/* SPDX-License-Identifier: Apache-2.0 */
/* worker_kv_test.c - a worker's connections, what it says on them and hears, and its end. */
#include "core/kv/worker_kv_fixture.h"

/* ---- the connection: R-KV-5, R-KV-12, R-KV-21 ---- */

/* It is tried again after twice as long each time, and once a second in the end: who was gone for an hour is found at
 * once. */
static void kv__server_that_is_gone_is_tried_each_second_in_the_end(void **state)
{
	uint64_t waits_ns;

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	for (unsigned i = 0; i < 30; i++) {
		assert_int_equal(wait(0, 0), WORKER_KV_ATTEMPT);
		worker_kv_lost(kv, 0, now_ns, WORKER_KV_ENDED, &actions);
		assert_int_equal(actions.todo, WORKER_KV_CLOSE | WORKER_KV_NEXT_ADDRESS);
		waits_ns = kv->server->retry_ns - now_ns;
		assert_int_equal(waits_ns, i < 5 ? 50 * ms_ns << i : s_ns);
		assert_int_equal(wait(0, waits_ns - 1), 0);
		now_ns++;
	}
	now_ns = 1000 * s_ns;
	assert_int_equal(wait(0, 60 * s_ns), WORKER_KV_FAIL);
	assert_int_equal(actions.fault, WORKER_KV_UNREACHED);
	assert_true(worker_kv_wake_ns(kv, 0) == UINT64_MAX);
}

/* Before WELCOME silence is that of the address; after an answer a loss is a new one, with all of the deadline. */
static void kv__silence_loses_the_connection(void **state)
{
	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	assert_int_equal(wait(0, 0), WORKER_KV_ATTEMPT);
	worker_kv_connected(kv->server);
	assert_int_equal(wait(0, 4999 * ms_ns), WORKER_KV_SAY_ALIVE);
	assert_int_equal(wait(0, ms_ns), WORKER_KV_CLOSE | WORKER_KV_NEXT_ADDRESS);
	assert_int_equal(actions.lost, WORKER_KV_SILENT);
	up(0);
	assert_int_equal(wait(0, 500 * ms_ns), WORKER_KV_SAY_ALIVE);
	worker_kv_said(kv->server, now_ns);
	assert_true(worker_kv_wake_ns(kv, 0) == now_ns + 500 * ms_ns);
	assert_int_equal(wait(0, 7 * s_ns), WORKER_KV_SAY_ALIVE);
	assert_int_equal(wait(0, 500 * ms_ns), WORKER_KV_CLOSE | WORKER_KV_WARN);
	assert_true(kv->server->down_ns == 1000 * s_ns); /* it only seemed to be back */
	up(0);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_ALIVE, 0), 0);
	assert_int_equal(wait(0, 8 * s_ns), WORKER_KV_CLOSE | WORKER_KV_WARN);
	assert_true(kv->server->down_ns == now_ns);
	assert_true(kv->server->retry_ns == now_ns + 50 * ms_ns);
	up(0);
	now_ns += 7 * s_ns;
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_PULLED, 1), WORKER_KV_TAKE);
	assert_int_equal(wait(0, 7 * s_ns), WORKER_KV_SAY_ALIVE);
}

static void kv__server_is_back_when_it_has_answered(void **state)
{
	static const struct {
		enum worker_kv_type type;
		bool is_answer;
	} cases[] = {
		{ WORKER_KV_SAYS_ALIVE, true },   { WORKER_KV_SAYS_DONE, true },
		{ WORKER_KV_SAYS_PULLED, true },  { WORKER_KV_SAYS_BARRIER, true },
		{ WORKER_KV_SAYS_SWITCH, false },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t down_ns;

		begin(1, WORKER_KV_ASYNC, 0);
		greet(0);
		(void)hear(0, hot_of(0, 5));
		(void)hear_of(0, WORKER_KV_SAYS_ALIVE, 0); /* it is not open */
		map_is_whole(5);
		down_ns = kv->server->down_ns;
		now_ns += s_ns;
		(void)hear(0, (struct worker_kv_message){
				      .type = cases[i].type, .table = NUMBER, .map = 5 });
		lose(0);
		assert_true(kv->server->down_ns == (cases[i].is_answer ? now_ns : down_ns));
		down_ns = kv->server->down_ns;
		greet(0);
		(void)hear(0, hot_of(0, 5));
		assert_int_equal(part(5, 0, 100), WORKER_KV_AGAIN);
		now_ns += s_ns;
		lose(0);
		assert_true(kv->server->down_ns == down_ns); /* it only seemed to be */
	}
}

static void kv__message_that_may_not_come_now_loses_the_connection(void **state)
{
	static const enum worker_kv_type early[] = { WORKER_KV_SAYS_OPENED, WORKER_KV_SAYS_DONE,
						     WORKER_KV_SAYS_LEAVE, WORKER_KV_SAYS_MAP };

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(wait(0, 2 * s_ns), WORKER_KV_ATTEMPT);
		worker_kv_connected(kv->server);
		assert_int_equal(hear_of(0, early[i], 1), WORKER_KV_CLOSE);
		assert_int_equal(actions.lost, WORKER_KV_UNFIT);
		up(0);
		if (early[i] == WORKER_KV_SAYS_OPENED || early[i] == WORKER_KV_SAYS_LEAVE)
			assert_true(hear(0, opened_of(0)) & WORKER_KV_CLOSE);
		else
			lose(0);
	}
	up(0);
	assert_true(hear(0, (struct worker_kv_message){ .type = WORKER_KV_SAYS_DONE,
							.table = NUMBER + 1 }) &
		    WORKER_KV_CLOSE);
	up(0);
	assert_true(hear_of(0, WORKER_KV_SAYS_WELCOME, 0) & WORKER_KV_CLOSE);
	up(0);
	assert_true(hear(0, (struct worker_kv_message){ .type = WORKER_KV_SAYS_SWITCH,
							.table = NUMBER }) &
		    WORKER_KV_CLOSE); /* no hot keys */
}

static void kv__refusal_that_says_come_again_is_none(void **state)
{
	struct worker_kv_message error = { .type = WORKER_KV_SAYS_ERROR, .refusal = 12 };

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	greet(0);
	assert_int_equal(hear(0, error), WORKER_KV_CLOSE);
	assert_int_equal(actions.lost, WORKER_KV_BUSY);
	up(0);
	error.refusal = 6;
	error.is_pull = true;
	assert_int_equal(hear(0, error), WORKER_KV_TAKE);
	state_is(0, WORKER_KV_OPEN);
	error.is_pull = false;
	fails(0, error, WORKER_KV_REFUSED);
}

static void kv__other_version_ends_the_table(void **state)
{
	struct worker_kv_message welcome = { .type = WORKER_KV_SAYS_WELCOME, .version = 3 };

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	assert_int_equal(wait(0, 0), WORKER_KV_ATTEMPT);
	worker_kv_connected(kv->server);
	fails(0, welcome, WORKER_KV_OTHER_VERSION);
}

/* ---- batches, pulls, barriers: R-KV-9 to R-KV-12, R-KV-15 ---- */

/* R-KV-9, R-KV-12 */
static void kv__what_has_no_answer_is_said_again(void **state)
{
	struct worker_kv_server *server;

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	server = kv->server;
	up(0);
	for (uint64_t number = 1; number <= 3; number++) {
		assert_int_equal(worker_kv_batch(server), number);
		assert_true(worker_kv_batch_due(server));
		assert_false(worker_kv_may_pull(server)); /* it would not see the batch */
		worker_kv_batch_said(server);
		assert_true(worker_kv_may_pull(server));
	}
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 1), WORKER_KV_FREE);
	assert_int_equal(server->batch_done, 1);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 1), 0);
	assert_true(worker_kv_barrier(server, 1));
	lose(0);
	assert_false(worker_kv_batch_due(server));
	assert_false(worker_kv_may_pull(server));
	assert_false(worker_kv_barrier_due(server));
	greet(0);
	{
		struct worker_kv_message opened = opened_of(0);

		opened.number = 3; /* it has two; of the second the answer was lost */
		assert_int_equal(hear(0, opened), WORKER_KV_FREE | WORKER_KV_PAST | WORKER_KV_TAKE |
							  WORKER_KV_AGAIN);
		assert_int_equal(server->batch_done, 2);
	}
	assert_int_equal(server->batch_said, 2);
	assert_true(worker_kv_batch_due(server));
	assert_true(worker_kv_barrier_due(server));
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 99), WORKER_KV_FREE); /* all there are */
	assert_int_equal(server->batch_done, 3);
	assert_false(worker_kv_batch_due(server));
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_BARRIER, 2), 0); /* never said */
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_BARRIER, 1), WORKER_KV_PAST | WORKER_KV_PASSED);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_BARRIER, 1), 0);
	assert_false(worker_kv_barrier_due(server));
}

/* R-KV-9: an answer to a batch that was made by an older map says as of when caches are old. */
static void kv__batches_of_an_older_map_make_caches_old(void **state)
{
	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	up(0);
	worker_kv_batch(kv->server);
	worker_kv_batch(kv->server);
	worker_kv_remapped(kv->server, true); /* the third is being filled */
	assert_true(kv->server->was_remapped);
	worker_kv_batch(kv->server);
	worker_kv_batch(kv->server);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 2), WORKER_KV_FREE | WORKER_KV_PAST);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 3), WORKER_KV_FREE | WORKER_KV_PAST);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 4), WORKER_KV_FREE);
	worker_kv_batch(kv->server);
	worker_kv_remapped(kv->server, false);
	worker_kv_batch(kv->server);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 5), WORKER_KV_FREE | WORKER_KV_PAST);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_DONE, 6), WORKER_KV_FREE);
}

/* R-KV-11 */
static void kv__barriers_go_on_from_the_highest_that_a_server_tells(void **state)
{
	struct worker_kv_message opened;

	(void)state;
	begin(SERVERS, WORKER_KV_ASYNC, 0);
	for (uint32_t s = 0; s < SERVERS; s++) {
		greet(s);
		opened = opened_of(s);
		opened.barrier = 41 - s;
		assert_true(hear(s, opened) & WORKER_KV_AGAIN);
	}
	assert_int_equal(kv->server[1].barrier_found, 40);
	assert_int_equal(worker_kv_barrier_number(kv), 42);
	assert_int_equal(worker_kv_barrier_number(kv), 43);
	for (uint32_t s = 0; s < SERVERS; s++) {
		assert_int_equal(worker_kv_passed(kv), 0);
		assert_true(worker_kv_barrier(&kv->server[s], 42));
		assert_true(hear_of(s, WORKER_KV_SAYS_BARRIER, 42) & WORKER_KV_PASSED);
	}
	assert_int_equal(worker_kv_passed(kv), 42);
	lose(0);
	greet(0);
	opened = opened_of(0);
	opened.barrier = 99; /* others' steps; this worker goes on with its own */
	assert_true(hear(0, opened) & WORKER_KV_AGAIN);
	assert_int_equal(worker_kv_barrier_number(kv), 44);
}

/* R-KV-15 */
static void kv__steps_wait_for_those_before(void **state)
{
	struct worker_kv_message opened;

	(void)state;
	for (uint32_t staleness = 0; staleness < 3; staleness++) {
		begin(1, staleness ? WORKER_KV_BOUNDED : WORKER_KV_SYNC, staleness);
		greet(0);
		opened = opened_of(0);
		opened.barrier = 10;
		assert_true(hear(0, opened) & WORKER_KV_AGAIN);
		for (uint64_t step = 11; step < 16; step++) {
			assert_int_equal(worker_kv_barrier_number(kv), step);
			worker_kv_barrier(kv->server, step);
			assert_int_equal(worker_kv_step_is_open(kv, step), step <= 10 + staleness);
			if (step <= 10 + staleness)
				continue; /* of its own the first ones wait for nobody */
			hear_of(0, WORKER_KV_SAYS_BARRIER, step - staleness);
			assert_true(worker_kv_step_is_open(kv, step));
			assert_false(worker_kv_step_is_open(kv, step + 1));
		}
	}
	begin(1, WORKER_KV_ASYNC, 0);
	assert_true(worker_kv_step_is_open(kv, 0));
}

/* ---- the end: R-KV-13 ---- */

static void kv__leave_is_said_until_it_is_answered(void **state)
{
	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	up(0);
	worker_kv_leave(kv, now_ns);
	assert_int_equal(wait(0, 0), WORKER_KV_SAY_LEAVE);
	assert_int_equal(wait(0, 0), 0);
	lose(0); /* its disk may have nothing */
	up(0);
	assert_int_equal(wait(0, 0), WORKER_KV_SAY_LEAVE);
	state_is(0, WORKER_KV_LEAVING);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_LEAVE, 0), WORKER_KV_OVER);
	state_is(0, WORKER_KV_LEFT);
	assert_int_equal(wait(0, 100 * s_ns), 0);
}

/* R-KV-22: behind LEAVE no OPENED may come. */
static void kv__leave_waits_for_the_table_that_is_asked_for_again(void **state)
{
	uint8_t list[WORKER_KV_IDENTITY_BYTES];

	(void)state;
	begin(2, WORKER_KV_ASYNC, 0);
	up(0);
	up(1);
	assert_int_equal(wait(0, 0), WORKER_KV_SAY_OPEN);
	assert_true(worker_kv_open(kv, 0, list));
	worker_kv_leave(kv, now_ns);
	assert_int_equal(wait(0, 0), 0);
	assert_int_equal(wait(1, 0), WORKER_KV_SAY_LEAVE);
	assert_true(hear(0, opened_of(0)) & WORKER_KV_AGAIN);
	assert_int_equal(wait(0, 0), WORKER_KV_SAY_LEAVE);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_LEAVE, 0), WORKER_KV_OVER);
}

static void kv__a_server_that_is_asked_again_was_up_until_then(void **state)
{
	uint8_t list[WORKER_KV_IDENTITY_BYTES];
	uint64_t asked_ns;

	(void)state;
	begin(2, WORKER_KV_ASYNC, 0);
	up(0);
	(void)hear_of(0, WORKER_KV_SAYS_ALIVE, 0);
	now_ns += s_ns;
	up(1);
	assert_true(wait(0, 0) & WORKER_KV_SAY_OPEN);
	assert_true(worker_kv_open(kv, 0, list));
	asked_ns = now_ns;
	assert_true(hear(0, opened_of(0)) & WORKER_KV_AGAIN);
	lose(0); /* and has answered nothing since */
	assert_true(kv->server->down_ns == asked_ns);
}

static void kv__who_cannot_be_told_that_this_one_leaves_is_given_up(void **state)
{
	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	up(0);
	lose(0);
	worker_kv_leave(kv, now_ns);
	assert_true(worker_kv_wake_ns(kv, 0) <= now_ns + 60 * s_ns);
	assert_int_equal(wait(0, 60 * s_ns), WORKER_KV_OVER);
	state_is(0, WORKER_KV_UNTOLD);
}

static void kv__who_has_no_place_need_not_leave(void **state)
{
	struct worker_kv_message error = { .type = WORKER_KV_SAYS_ERROR, .refusal = 5 };

	(void)state;
	for (uint32_t is_leaving = 0; is_leaving < 2; is_leaving++) {
		begin(1, WORKER_KV_ASYNC, 0);
		greet(0);
		if (is_leaving)
			worker_kv_leave(kv, now_ns);
		assert_int_equal(hear(0, error), is_leaving ? WORKER_KV_OVER : WORKER_KV_FAIL);
		state_is(0, is_leaving ? WORKER_KV_LEFT : WORKER_KV_BROKEN);
	}
	worker_kv_broken(kv->server); /* it is over, and stays so */
	state_is(0, WORKER_KV_LEFT);
	begin(1, WORKER_KV_ASYNC, 0);
	up(0);
	worker_kv_leave(kv, now_ns);
	worker_kv_broken(kv->server);
	assert_int_equal(wait(0, 100 * s_ns), 0);
	state_is(0, WORKER_KV_BROKEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__server_that_is_gone_is_tried_each_second_in_the_end),
		cmocka_unit_test(kv__silence_loses_the_connection),
		cmocka_unit_test(kv__server_is_back_when_it_has_answered),
		cmocka_unit_test(kv__message_that_may_not_come_now_loses_the_connection),
		cmocka_unit_test(kv__refusal_that_says_come_again_is_none),
		cmocka_unit_test(kv__other_version_ends_the_table),
		cmocka_unit_test(kv__what_has_no_answer_is_said_again),
		cmocka_unit_test(kv__batches_of_an_older_map_make_caches_old),
		cmocka_unit_test(kv__barriers_go_on_from_the_highest_that_a_server_tells),
		cmocka_unit_test(kv__steps_wait_for_those_before),
		cmocka_unit_test(kv__leave_is_said_until_it_is_answered),
		cmocka_unit_test(kv__leave_waits_for_the_table_that_is_asked_for_again),
		cmocka_unit_test(kv__a_server_that_is_asked_again_was_up_until_then),
		cmocka_unit_test(kv__who_cannot_be_told_that_this_one_leaves_is_given_up),
		cmocka_unit_test(kv__who_has_no_place_need_not_leave),
	};
	int failed = cmocka_run_group_tests_name("core-worker_kv", tests, NULL, NULL);

	free(kv);
	return failed;
}
