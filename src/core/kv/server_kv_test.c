/* SPDX-License-Identifier: Apache-2.0 */
/* server_kv_test.c - who may have a table, who comes, who goes: R-KV-6, R-KV-10, R-KV-11, R-KV-13, R-KV-15, R-KV-16, R-KV-20,
 * and R-SP-33's waiting. */
#include "core/kv/server_kv_fixture.h"

static enum server_kv_verdict judged(struct server_kv_event open)
{
	uint16_t other = 99;
	enum server_kv_verdict verdict = server_kv_may_open(&test.kv, &open, &other);

	if (verdict == SERVER_KV_DIFFERS)
		assert_int_equal(other, 0);
	return verdict;
}

/* ---- who may open it ---- */

/* R-KV-6: an hour is borne, and so is the number behind the last one. */
static void open__is_of_the_last_incarnation_and_not_far_ahead(void **state)
{
	struct server_kv_event open = open_of(1, 4);

	(void)state;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_LOWER);
	open.link = test.worker[1].link;
	open.incarnation = 5;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_YES);
	open.incarnation = open.wall_ns + 3600 * s_ns;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_YES);
	open.incarnation++;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_AHEAD);
	test.state[1].incarnation = open.incarnation - 2;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_AHEAD);
	test.state[1].incarnation = open.incarnation - 1;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_YES);
	open.disk = SERVER_KV_STUCK;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_YES);
	open.disk = SERVER_KV_DELETED;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_NO_DISK);
}

static void open__in_place_of_another_drains_and_needs_the_disk(void **state)
{
	struct server_kv_event open = open_of(1, 6);

	(void)state;
	assert_int_equal(judged(open), SERVER_KV_DRAIN);
	open.disk = SERVER_KV_TROUBLED;
	assert_int_equal(judged(open), SERVER_KV_DRAIN);
	open.disk = SERVER_KV_STUCK;
	assert_int_equal(judged(open), SERVER_KV_NO_DISK);
	open.incarnation = 5; /* who comes back records nothing */
	assert_int_equal(judged(open), SERVER_KV_YES);
	test.state[1].incarnation = 0; /* and the first of its place has nobody before it */
	open.disk = SERVER_KV_WELL;
	assert_int_equal(judged(open), SERVER_KV_YES);
}

/* R-KV-6, R-SP-1. */
static void open__in_place_of_another_spends_fences(void **state)
{
	struct server_kv_event open = open_of(1, 6);

	(void)state;
	test.kv.spends_ns = test.now_ns + SERVER_KV_AT_ONCE * s_ns;
	assert_int_equal(judged(open), SERVER_KV_DRAIN);
	test.kv.spends_ns++;
	assert_int_equal(judged(open), SERVER_KV_SOON);
	open.incarnation = 5;
	assert_int_equal(judged(open), SERVER_KV_YES);
	open.incarnation = 6;
	test.sparse.unreported = 1; /* R-SP-33: no generation begins */
	assert_int_equal(judged(open), SERVER_KV_DRAIN);
	test.sparse.unreported = 0;
	test.sparse.generation = (SPARSE_FENCES_MAX - SPARSE_FENCES_LAST - 1) << SPARSE_RANDOM_BITS;
	assert_int_equal(judged(open), SERVER_KV_SOON);
	test.sparse.generation += 1ull << SPARSE_RANDOM_BITS;
	assert_int_equal(judged(open), SERVER_KV_SPENT);
	test.sparse.generation = 8;
	test.kv.spends_ns = test.now_ns + 7;
	step(open);
	assert_true(test.kv.spends_ns == test.now_ns + 7 + s_ns);
	test.kv.spends_ns = 5; /* what was saved up is no more than that */
	step(open_of(1, 7));
	assert_true(test.kv.spends_ns == test.now_ns + s_ns);
	step(open_of(1, 7));
	assert_true(test.kv.spends_ns == test.now_ns + s_ns);
}

/* R-KV-15 */
static void mode__is_the_tables_and_the_others(void **state)
{
	struct server_kv_event open = open_of(2, 5);

	(void)state;
	open.mode = SERVER_KV_SYNC;
	assert_int_equal(judged(open), SERVER_KV_OTHER_MODE);
	open.mode = SERVER_KV_BOUNDED;
	open.staleness = 3;
	assert_int_equal(judged(open), SERVER_KV_DIFFERS);
	test.worker[0].mode = SERVER_KV_BOUNDED;
	test.worker[0].staleness = 2;
	test.worker[1].link = 0;
	assert_int_equal(judged(open), SERVER_KV_DIFFERS);
	test.worker[0].staleness = 3;
	assert_int_equal(judged(open), SERVER_KV_YES);
	step(open);
	assert_int_equal(test.worker[2].mode, SERVER_KV_BOUNDED);
	assert_int_equal(test.worker[2].staleness, 3);
	test.kv.is_sync = true;
	assert_int_equal(judged(open), SERVER_KV_OTHER_MODE);
}

/* R-KV-16 */
static void run__that_is_over_goes_not_on(void **state)
{
	struct server_kv_event open = open_of(0, 5);

	(void)state;
	test.kv.is_sync = true;
	open.mode = SERVER_KV_SYNC;
	for (uint16_t i = 0; i < WORKERS; i++)
		test.worker[i].mode = SERVER_KV_SYNC;
	assert_int_equal(judged(open), SERVER_KV_YES);
	leave(0, 0);
	assert_int_equal(judged(open), SERVER_KV_OVER);
	open.incarnation = 6;
	assert_int_equal(judged(open), SERVER_KV_DRAIN);
}

static void open__again_takes_the_place_of_the_older_connection(void **state)
{
	struct server_kv_event open = open_of(1, 5);
	char taken[64];

	(void)state;
	come(1, 6);
	assert_true(server_kv_has_open(&test.kv, 1, 51));
	assert_false(server_kv_has_open(&test.kv, 1, 52));
	step(open);
	assert_did("take1:0:0:0");
	assert_false(test.worker[1].is_waiting); /* it says its barrier again */
	assert_int_equal(test.worker[1].barrier, 6);
	open.link = 77;
	test.worker[1].doubt_ns = 3;
	step(open);
	snprintf(taken, sizeof(taken), "take1:%d:0:0", SERVER_KV_TAKEN);
	assert_did(taken);
	assert_true(server_kv_has_open(&test.kv, 1, 77));
	assert_false(server_kv_has_open(&test.kv, 1, 51));
	assert_int_equal(test.worker[1].barrier, 4);
	step(event_of(SERVER_KV_END, 1));
	assert_false(server_kv_has_open(&test.kv, 1, 0));
}

/* R-KV-6 */
static void open__late_on_a_connection_that_was_given_up_ends_no_other(void **state)
{
	struct server_kv_event open = open_of(1, 5);

	(void)state;
	open.link--;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_TAKEN);
	open.link++; /* it asks again: R-KV-22 */
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_YES);
	open.link--;
	open.incarnation++; /* another process may have come earlier */
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_YES);
	step(event_of(SERVER_KV_END, 1));
	open.incarnation--;
	assert_int_equal(server_kv_is_due(&test.kv, &open), SERVER_KV_YES);
}

/* R-KV-22: its list has this server twice, then. */
static void here__is_another_worker_or_the_same_process_again(void **state)
{
	(void)state;
	test.worker[0].link = test.worker[2].link = 0;
	assert_int_equal(server_kv_is_here(&test.kv, 0, 50, 5), 1);
	assert_int_equal(server_kv_is_here(&test.kv, 1, 51, 5), WORKERS);
	assert_int_equal(server_kv_is_here(&test.kv, 1, 99, 5), 1);
	assert_int_equal(server_kv_is_here(&test.kv, 1, 99, 6), WORKERS);
}

static void presence__is_what_has_become_of_it(void **state)
{
	struct server_kv_event end = event_of(SERVER_KV_END, 1);

	(void)state;
	assert_int_equal(server_kv_presence(&test.kv, 1), SERVER_KV_OPEN);
	test.state[1].is_unreported = true; /* R-KV-20 */
	assert_int_equal(server_kv_presence(&test.kv, 1), SERVER_KV_REPORTING);
	step(end);
	assert_int_equal(server_kv_presence(&test.kv, 1), SERVER_KV_GONE);
	assert_true(test.worker[1].gone_ns == test.now_ns);
	step(open_of(1, 5));
	leave(1, 0);
	step(end);
	assert_int_equal(server_kv_presence(&test.kv, 1), SERVER_KV_LEFT);
	step(open_of(
		1, 5)); /* R-KV-13: it had no answer, and is lost before it has said LEAVE again */
	step(end);
	assert_int_equal(server_kv_presence(&test.kv, 1), SERVER_KV_LEFT);
	assert_true(test.worker[1].gone_ns == 0);
	test.state[1].incarnation = 0;
	assert_int_equal(server_kv_presence(&test.kv, 1), SERVER_KV_ABSENT);
}

/* ---- who joins, who has gone ---- */

/* R-KV-11: a barrier that a dead run's worker has come to must not let the next run through. */
static void join__in_place_of_another_puts_others_in_doubt(void **state)
{
	struct server_kv_event heard = event_of(SERVER_KV_HEARD, 0);
	char did[64];

	(void)state;
	come(0, 5);
	come(1, 5);
	step(event_of(SERVER_KV_END, 1)); /* it is not here: it comes again */
	test.worker[2].barrier = 9;
	test.worker[2].doubt_ns = 3; /* its own, which it has not any more */
	test.worker[2].answered = 2;
	step(open_of(2, 6));
	snprintf(did, sizeof(did), "join2:0:0:0 take2:%d:0:0", SERVER_KV_TAKEN);
	assert_did(did);
	assert_true(test.worker[2].barrier == 0 && test.worker[2].answered == 0);
	assert_true(test.worker[2].doubt_ns == 0 && test.worker[2].joined_ns == test.now_ns);
	assert_true(server_kv_doubts(&test.kv, 0));
	assert_int_equal(test.worker[0].barrier, 5);
	assert_int_equal(test.worker[1].barrier, 4);
	come(2, 5);
	come(1, 5);
	assert_did(""); /* the first one's does not count */
	assert_true(server_kv_awaits(&test.kv, 2, 0));
	step(heard);
	turn(SERVER_KV_WELL);
	assert_did("");
	heard.now_ns++; /* it was heard since */
	step(heard);
	assert_false(server_kv_doubts(&test.kv, 0));
	turn(SERVER_KV_WELL);
	assert_did("pass0:0:0:5 answer0:0:0:5 answer2:0:0:5");
	turn(SERVER_KV_WELL);
	assert_did("");
}

static void join__of_who_had_left_puts_nobody_in_doubt(void **state)
{
	(void)state;
	leave(2, 0);
	come(0, 6);
	test.worker[1].barrier = 5;
	step(event_of(SERVER_KV_LOST, 1));
	step(open_of(2, 6));
	assert_false(server_kv_doubts(&test.kv, 0) || server_kv_doubts(&test.kv, 1));
	assert_int_equal(test.worker[0].barrier, 6);
	assert_int_equal(test.worker[1].barrier, 4);
}

static void gone__in_doubt_is_forgotten(void **state)
{
	(void)state;
	test.worker[0].barrier = test.worker[1].barrier = 6;
	test.worker[1].doubt_ns = 3;
	step(event_of(SERVER_KV_END, 0));
	step(event_of(SERVER_KV_END, 1));
	assert_int_equal(test.worker[0].barrier, 6);
	assert_int_equal(test.worker[1].barrier, 4);
	assert_false(server_kv_doubts(&test.kv, 1));
}

/* R-KV-16 */
static void join__in_place_of_another_ends_a_synchronous_run(void **state)
{
	char did[128];

	(void)state;
	test.kv.is_sync = true;
	test.worker[1].is_waiting = true;
	test.worker[0].barrier = 5;
	test.worker[0].gone_ns = test.worker[0].doubt_ns = 3;
	test.worker[0].link = 0;
	step(open_of(2, 6));
	snprintf(did, sizeof(did), "void0:0:0:0 join2:0:0:0 take2:%d:0:0 close1:%d:2:0",
		 SERVER_KV_TAKEN, SERVER_KV_ANEW);
	assert_did(did);
	assert_true(test.worker[0].barrier == 0 && test.worker[1].barrier == 0);
	assert_true(test.worker[0].gone_ns == 0 && test.worker[0].doubt_ns == 0);
	assert_false(server_kv_has_open(&test.kv, 1, 51) || test.worker[1].is_waiting);
	assert_false(server_kv_is_member(&test.kv, 0) || server_kv_is_member(&test.kv, 1));
	assert_true(server_kv_is_member(&test.kv, 2));
	leave(2, 0); /* nobody's step has anything of it */
	*test.did = 0;
	step(open_of(2, 7));
	snprintf(did, sizeof(did), "join2:0:0:0 take2:%d:0:0", SERVER_KV_TAKEN);
	assert_did(did);
}

static void begin__expects_who_had_not_left(void **state)
{
	(void)state;
	leave(1, 0);
	step(event_of(SERVER_KV_BEGIN, 0));
	assert_true(test.worker[0].gone_ns == test.now_ns);
	assert_true(test.worker[1].gone_ns == 0);
	assert_true(test.worker[2].gone_ns == test.now_ns);
	assert_true(test.worker[WORKERS].gone_ns == 0);
}

/* R-KV-17: 2 s and four heartbeats. */
/* R-SP-33 */
static void gather__waits_for_members_and_not_for_ever(void **state)
{
	(void)state;
	leave(1, 0);
	*test.did = 0;
	for (uint16_t i = 0; i < WORKERS; i++)
		test.state[i].is_unreported = true;
	test.sparse.unreported = WORKERS;
	step(event_of(SERVER_KV_GATHER_IT, 0));
	assert_did("miss1:0:0:0");
	step(event_of(SERVER_KV_GATHERED, 0));
	assert_true(test.kv.is_gathering);
	test.now_ns += 6 * s_ns - 1;
	test.state[0].is_unreported = false; /* it has reported */
	test.sparse.unreported--;
	step(event_of(SERVER_KV_GATHERED, 0));
	assert_true(test.kv.is_gathering);
	assert_did("");
	test.now_ns++;
	step(event_of(SERVER_KV_GATHERED, 0));
	assert_did("miss2:0:0:0");
	assert_false(test.kv.is_gathering);
	step(event_of(SERVER_KV_GATHERED, 0));
	assert_did("");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(open__is_of_the_last_incarnation_and_not_far_ahead),
		T(open__in_place_of_another_drains_and_needs_the_disk),
		T(open__in_place_of_another_spends_fences),
		T(mode__is_the_tables_and_the_others),
		T(run__that_is_over_goes_not_on),
		T(open__again_takes_the_place_of_the_older_connection),
		T(open__late_on_a_connection_that_was_given_up_ends_no_other),
		T(here__is_another_worker_or_the_same_process_again),
		T(presence__is_what_has_become_of_it),
		T(join__in_place_of_another_puts_others_in_doubt),
		T(join__of_who_had_left_puts_nobody_in_doubt),
		T(gone__in_doubt_is_forgotten),
		T(join__in_place_of_another_ends_a_synchronous_run),
		T(begin__expects_who_had_not_left),
		T(gather__waits_for_members_and_not_for_ever),
#undef T
	};

	return cmocka_run_group_tests_name("core-server_kv", tests, NULL, NULL);
}
