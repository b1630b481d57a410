/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "dataplane/polling.h"

enum { MOST = 50, US = 1000, MS = 1000 * US };

/* One wait, in which each yield takes so long and nothing comes: how many there are before it sleeps. */
static uint32_t yields_of(struct polling *polling, uint64_t *now_ns, uint64_t yield_ns)
{
	uint32_t yields = 0;

	polling_begin(polling);
	while (polling_again(polling, *now_ns)) {
		*now_ns += yield_ns;
		assert_in_range(++yields, 0, 100000);
	}
	return yields;
}

static void yields__are_counted_where_others_work_meanwhile(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;

	(void)state;
	polling_init(&polling, MOST, POLLING_LONG);
	assert_int_equal(yields_of(&polling, &now_ns, 30 * US), MOST);
	assert_int_equal(now_ns, 7 * MS + MOST * 30 * US);
}

static void yields__that_are_back_at_once_have_a_time_of_their_own(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;

	(void)state;
	polling_init(&polling, MOST, POLLING_LONG);
	assert_int_equal(yields_of(&polling, &now_ns, US), 1000 + MOST - 1);
}

static void waits__that_do_not_pay_become_shorter_and_those_that_do_long_again(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;
	uint32_t before = MOST;

	(void)state;
	polling_init(&polling, MOST, POLLING_LONG);
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t yields = yields_of(&polling, &now_ns, 30 * US);

		assert_int_equal(yields, before);
		polling_slept(&polling, 500 * US, true);
		before = before / 2 ? before / 2 : 1;
	}
	for (uint32_t i = 0; i < 8; i++) {
		polling_begin(&polling);
		assert_true(polling_again(&polling, now_ns));
		polling_paid(&polling, now_ns + 5 * US);
	}
	assert_int_equal(yields_of(&polling, &now_ns, 30 * US), MOST);
	polling_slept(&polling, 500 * US, true);
	polling_slept(&polling, 20 * US, true); /* a sleep for nothing */
	assert_int_equal(yields_of(&polling, &now_ns, 30 * US), MOST);
	polling_slept(&polling, 20 * US, false); /* nothing came: there was nothing to yield for */
	assert_int_equal(yields_of(&polling, &now_ns, 30 * US), MOST / 2);
}

static void somebody_with_the_processor_for_long__is_not_given_way_to(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;

	(void)state;
	polling_init(&polling, MOST, POLLING_LONG);
	for (uint32_t shy = 1; shy < 200; shy = 2 * shy + 1) {
		assert_int_equal(yields_of(&polling, &now_ns, 3 * MS), 1);
		for (uint32_t i = 0; i < (shy < 63 ? shy : 63); i++) {
			polling_slept(&polling, 20 * US, true); /* pays, but for that */
			assert_int_equal(yields_of(&polling, &now_ns, 3 * MS), 0);
		}
		polling_slept(&polling, 20 * US, true);
	}
	/* Nor does it count as paid off if something has come meanwhile; */
	polling_begin(&polling);
	assert_true(polling_again(&polling, now_ns));
	polling_paid(&polling, now_ns + 3 * MS);
	assert_int_equal(yields_of(&polling, &now_ns, 30 * US), 0);
	for (uint32_t i = 0; i < 62; i++)
		assert_int_equal(yields_of(&polling, &now_ns, 30 * US), 0);
	/* until that neighbour has gone. */
	polling_begin(&polling);
	assert_true(polling_again(&polling, now_ns));
	polling_paid(&polling, now_ns + 5 * US);
	assert_int_equal(yields_of(&polling, &now_ns, 3 * MS), 1);
	assert_int_equal(yields_of(&polling, &now_ns, 30 * US), 0);
	assert_true(yields_of(&polling, &now_ns, 30 * US) > 1);
}

/* To the nanosecond. */
static void times__are_what_they_are_from_the_first_moment(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;

	(void)state;
	polling_init(&polling, MOST, POLLING_LONG);
	assert_int_equal(yields_of(&polling, &now_ns, MS), 1); /* that was long */
	polling_init(&polling, MOST, POLLING_LONG);
	assert_int_equal(yields_of(&polling, &now_ns, MS - 1), MOST);
	polling_init(&polling, MOST, POLLING_LONG);
	assert_int_equal(yields_of(&polling, &now_ns, 10 * US), MOST);
	polling_init(&polling, MOST, POLLING_LONG);
	assert_int_equal(yields_of(&polling, &now_ns, 10 * US - 1), 101 + MOST - 1); /* for 1 ms */
	polling_init(&polling, MOST, POLLING_LONG);
	polling_slept(&polling, 100 * US, true); /* that was no sleep for nothing */
	assert_int_equal(polling.count, MOST / 2);
	polling_slept(&polling, 100 * US - 1, true);
	assert_int_equal(polling.count, MOST);
	polling_begin(&polling);
	assert_true(polling_again(&polling, now_ns));
	polling_paid(&polling, now_ns + MS - 1);
	assert_int_equal(polling.shy, 0);
	polling_begin(&polling);
	assert_true(polling_again(&polling, now_ns));
	polling_paid(&polling, now_ns + MS);
	assert_int_equal(polling.shy, 1);
}

/* Half as many, and half of these have half of the time. */
static void quick_yields__have_time_as_they_have_number(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;

	(void)state;
	polling_init(&polling, MOST, POLLING_LONG);
	polling_slept(&polling, 500 * US, false);
	assert_int_equal(yields_of(&polling, &now_ns, US), 500 + MOST / 2 - 1);
	polling_paid(&polling, now_ns); /* it has paid: twice as many, as long as that is less */
	assert_int_equal(polling.count, MOST);
	polling_slept(&polling, 500 * US, false);
	polling_slept(&polling, 500 * US, false);
	assert_int_equal(polling.count, MOST / 4);
	polling_begin(&polling);
	polling_paid(&polling, now_ns); /* nothing was yielded: it says nothing */
	assert_int_equal(polling.count, MOST / 4);
	assert_true(polling_again(&polling, now_ns));
	polling_paid(&polling, now_ns);
	assert_int_equal(polling.count, MOST / 4 * 2);
}

/* Waits of so long, in which nothing is yielded: it has slept. */
static void waits_of(struct polling *polling, uint32_t count, uint64_t ns)
{
	for (uint32_t i = 0; i < count; i++) {
		polling_begin(polling);
		polling_slept(polling, ns, true);
	}
}

static void who_waits_for_much__gives_way_to_those_who_work_alone(void **state)
{
	static const enum polling_rule rules[] = { POLLING_SHORT, POLLING_NEVER };
	uint64_t now_ns = 7 * MS;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct polling polling;

		polling_init(&polling, MOST, rules[i]);
		assert_int_equal(yields_of(&polling, &now_ns, US), 1);
		assert_int_equal(yields_of(&polling, &now_ns, 10 * US - 1), 1);
		assert_int_equal(yields_of(&polling, &now_ns, 10 * US), MOST);
		polling_begin(&polling);
		assert_true(polling_again(&polling, now_ns));
		for (uint32_t k = 0; k < 5; k++)
			assert_true(polling_again(&polling, now_ns += 30 * US));
		assert_false(polling_again(&polling, now_ns += US)); /* now nobody does */
	}
}

static void who_waits_for_much__yields_where_the_last_four_waits_were_short(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;

	(void)state;
	polling_init(&polling, MOST, POLLING_SHORT);
	waits_of(&polling, 3, 200 * US - 1);
	assert_int_equal(yields_of(&polling, &now_ns, US), 1);
	waits_of(&polling, 1, 200 * US - 1);
	assert_int_equal(yields_of(&polling, &now_ns, US), 200); /* for 200 us */
	waits_of(&polling, 1, 200 * US);
	assert_int_equal(yields_of(&polling, &now_ns, US), 1);
	waits_of(&polling, 4, 0);
	assert_int_equal(yields_of(&polling, &now_ns, US), 200);
	polling_slept(&polling, 0, true); /* the yields are part of the wait */
	assert_int_equal(yields_of(&polling, &now_ns, US), 1);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(polling.shorts, i);
		polling_begin(&polling);
		assert_true(polling_again(&polling, now_ns));
		polling_paid(&polling, now_ns + 200 * US - 1);
	}
	assert_int_equal(polling.shorts, 4);
	polling_begin(&polling);
	assert_true(polling_again(&polling, now_ns));
	polling_paid(&polling, now_ns + 200 * US);
	assert_int_equal(polling.shorts, 0);
	polling_init(&polling, MOST, POLLING_NEVER);
	waits_of(&polling, 9, US);
	assert_int_equal(yields_of(&polling, &now_ns, US), 1);
}

static void who_waits_for_much__sleeps_at_once_where_the_last_two_waits_were_long(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;

	(void)state;
	polling_init(&polling, MOST, POLLING_SHORT);
	waits_of(&polling, 1, 200 * US);
	polling.count = MOST;
	assert_int_equal(yields_of(&polling, &now_ns, 10 * US), MOST);
	waits_of(&polling, 2, 200 * US);
	assert_int_equal(yields_of(&polling, &now_ns, 10 * US), 0);
	waits_of(&polling, 1, 200 * US - 1);
	assert_int_equal(yields_of(&polling, &now_ns, US), 1);
	polling_init(&polling, MOST, POLLING_LONG);
	waits_of(&polling, 9, 200 * US);
	polling.count = MOST;
	assert_int_equal(yields_of(&polling, &now_ns, 10 * US), MOST);
}

static void none__if_none_are_wanted(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;

	(void)state;
	polling_init(&polling, 0, POLLING_LONG);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(yields_of(&polling, &now_ns, US), 0);
		polling_slept(&polling, 20 * US, true);
	}
}

static void one__is_as_few_as_there_are(void **state)
{
	struct polling polling;
	uint64_t now_ns = 7 * MS;

	(void)state;
	polling_init(&polling, 1, POLLING_LONG);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(yields_of(&polling, &now_ns, 30 * US), 1);
		polling_slept(&polling, 500 * US, false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(yields__are_counted_where_others_work_meanwhile),
		cmocka_unit_test(yields__that_are_back_at_once_have_a_time_of_their_own),
		cmocka_unit_test(
			waits__that_do_not_pay_become_shorter_and_those_that_do_long_again),
		cmocka_unit_test(somebody_with_the_processor_for_long__is_not_given_way_to),
		cmocka_unit_test(times__are_what_they_are_from_the_first_moment),
		cmocka_unit_test(quick_yields__have_time_as_they_have_number),
		cmocka_unit_test(who_waits_for_much__gives_way_to_those_who_work_alone),
		cmocka_unit_test(who_waits_for_much__yields_where_the_last_four_waits_were_short),
		cmocka_unit_test(
			who_waits_for_much__sleeps_at_once_where_the_last_two_waits_were_long),
		cmocka_unit_test(none__if_none_are_wanted),
		cmocka_unit_test(one__is_as_few_as_there_are),
	};

	return cmocka_run_group_tests_name("dataplane-polling", tests, NULL, NULL);
}
