/* SPDX-License-Identifier: Apache-2.0 */
#include "hot/choose.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEYS = 10 };

/* 50, 20, 10, 5, 5, 4, 3, 1, 1, 1: 100 in all. */
static void ten(struct heat heat[KEYS])
{
	static const double weight[KEYS] = { 50, 20, 10, 5, 5, 4, 3, 1, 1, 1 };

	for (uint64_t i = 0; i < KEYS; i++)
		heat[i] = (struct heat){ i, (uint64_t)weight[i], weight[i] };
}

static void expect(double p, uint64_t keys_max, double updates, const struct choice *want)
{
	struct heat heat[KEYS];
	struct choice choice;

	ten(heat);
	choose(heat, KEYS, updates, &(struct choose_options){ .p = p, .keys_max = keys_max },
	       &choice);
	assert_int_equal(choice.keys, want->keys);
	assert_int_equal(choice.wanted, want->wanted);
	assert_int_equal(choice.fits, want->fits);
	assert_int_equal(choice.has_share, want->has_share);
	assert_true(fabs(choice.share - want->share) < 1e-12);
}

static void principle__takes_the_fewest_keys_that_carry_p(void **state)
{
	(void)state;
	expect(0.5, 100, 100, &(struct choice){ 1, 0.5, 1, true, true });
	expect(0.51, 100, 100, &(struct choice){ 2, 0.7, 2, true, true });
	expect(0.8, 3, 100, &(struct choice){ 3, 0.8, 3, true, true });
	expect(1, 10, 100, &(struct choice){ 10, 1, 10, true, true });
}

static void principle__that_does_not_fit_takes_the_most_that_do(void **state)
{
	(void)state;
	expect(0.8, 2, 100, &(struct choice){ 2, 0.7, 3, false, false });
	expect(1, 9, 100, &(struct choice){ 9, 0.99, 10, false, false });
}

static void principle__that_no_key_can_fulfil_is_told_from_one_that_does_not_fit(void **state)
{
	(void)state;
	/* A hundred updates more are of keys that were not seen. */
	expect(0.6, 100, 200, &(struct choice){ 10, 0.5, 0, true, false });
	expect(0.6, 4, 200, &(struct choice){ 4, 0.425, 0, false, false });
}

/* `thousands` of keys, those of the i-th with a weight of share[i] percent together. */
static uint64_t knee_of(const double *share, size_t thousands, uint64_t keys_max,
			struct choice *choice)
{
	struct heat *heat = calloc(thousands * 1000, sizeof(*heat));

	assert_non_null(heat);
	for (size_t i = 0; i < thousands * 1000; i++)
		heat[i] = (struct heat){ i, 1, share[i / 1000] / 1000 };
	choose(heat, thousands * 1000, 100,
	       &(struct choose_options){ .keys_max = keys_max, .is_knee = true }, choice);
	free(heat);
	return choice->keys;
}

static void knee__is_where_a_thousand_keys_add_less_than_a_hundredth(void **state)
{
	static const double share[] = { 60, 20, 5, 1.01, 0.99, 0.5 };
	static const double flat[] = { 0.9, 0.5 }, steep[] = { 50, 30 };
	struct choice choice;

	(void)state;
	assert_int_equal(knee_of(share, 6, 1000000, &choice), 4000);
	assert_true(fabs(choice.share - 0.8601) < 1e-9);
	assert_true(choice.fits);
	assert_true(choice.has_share);
	assert_int_equal(knee_of(share, 6, 2500, &choice), 2500);
	assert_false(choice.fits);
	assert_int_equal(choice.wanted, 4000);
	assert_int_equal(knee_of(flat, 2, 1000000, &choice), 0);
	assert_int_equal(knee_of(steep, 2, 1000000, &choice), 2000);
}

static void knee__is_behind_a_thousand_keys_that_add_just_a_hundredth(void **state)
{
	static struct heat heat[2 * CHOOSE_KNEE_KEYS];
	struct choice choice;

	(void)state;
	for (uint64_t i = 0; i < 2 * CHOOSE_KNEE_KEYS; i++)
		heat[i] = (struct heat){ i, 1, i < CHOOSE_KNEE_KEYS ? 1 : 0.5 };
	choose(heat, 2 * CHOOSE_KNEE_KEYS, 100 * CHOOSE_KNEE_KEYS,
	       &(struct choose_options){ .keys_max = 1000000, .is_knee = true }, &choice);
	assert_int_equal(choice.keys, CHOOSE_KNEE_KEYS);
}

/* The rest may be less than a thousand, and what lies behind it is none of it. */
static void knee__takes_no_more_keys_than_there_are(void **state)
{
	enum { THERE = CHOOSE_KNEE_KEYS + 500 };
	static struct heat heat[2 * CHOOSE_KNEE_KEYS];
	struct choice choice;

	(void)state;
	for (uint64_t i = 0; i < THERE; i++)
		heat[i] = (struct heat){ i, 1, 0.05 };
	choose(heat, THERE, 100, &(struct choose_options){ .keys_max = 1000000, .is_knee = true },
	       &choice);
	assert_int_equal(choice.keys, THERE);
	assert_int_equal(choice.wanted, THERE);
}

static void nothing__chooses_nothing(void **state)
{
	struct choice choice;

	(void)state;
	choose(NULL, 0, 0, &(struct choose_options){ .p = 0.5, .keys_max = 5 }, &choice);
	assert_int_equal(choice.keys, 0);
	assert_true(choice.share == 0);
	choose(NULL, 0, 0, &(struct choose_options){ .keys_max = 5, .is_knee = true }, &choice);
	assert_int_equal(choice.keys, 0);
}

static void memory__of_whole_keys_holds_them_all(void **state)
{
	(void)state;
	assert_int_equal(choose_keys_max(20 << 20, 0.1, 4), 524288);
	assert_int_equal(choose_keys_max(20000000, 0.05, 4), 250000);
	assert_int_equal(choose_keys_max(100, 0.1, 4), 2);
	assert_int_equal(choose_keys_max(30, 0.1, 4), 0);
	for (uint64_t keys = 1; keys < 5000; keys++)
		assert_int_equal(choose_keys_max(40 * keys, 0.1, 4), keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(principle__takes_the_fewest_keys_that_carry_p),
		cmocka_unit_test(principle__that_does_not_fit_takes_the_most_that_do),
		cmocka_unit_test(
			principle__that_no_key_can_fulfil_is_told_from_one_that_does_not_fit),
		cmocka_unit_test(knee__is_where_a_thousand_keys_add_less_than_a_hundredth),
		cmocka_unit_test(knee__is_behind_a_thousand_keys_that_add_just_a_hundredth),
		cmocka_unit_test(knee__takes_no_more_keys_than_there_are),
		cmocka_unit_test(nothing__chooses_nothing),
		cmocka_unit_test(memory__of_whole_keys_holds_them_all),
	};

	return cmocka_run_group_tests_name("hot-choose", tests, NULL, NULL);
}
