/* SPDX-License-Identifier: Apache-2.0 */
#include "hot/heat.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/splitmix.h"
#include "hot/survey.h"
#include "util/rng.h"

static void keys__are_sorted_and_equals_in_an_order_of_their_own(void **state)
{
	enum { KEYS = 1000 };
	struct heat a[KEYS], b[KEYS];
	uint32_t same = 0, rising = 0;

	(void)state;
	for (uint64_t i = 0; i < KEYS; i++)
		a[i] = b[i] = (struct heat){ i, i < 10 ? 100 + i : 5, 0 };
	heat_sort(a, KEYS, 1);
	heat_sort(b, KEYS, 2);
	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(a[i].count, 109 - i);
		assert_int_equal(a[i].key, 9 - i);
		assert_int_equal(b[i].key, 9 - i);
	}
	for (uint32_t i = 11; i < KEYS; i++) {
		same += a[i].key == b[i].key;
		rising += a[i].key > a[i - 1].key;
	}
	assert_true(same < 20);
	assert_true(rising > 400);
	assert_true(rising < 600);
	heat_sort(b, KEYS, 1);
	assert_memory_equal(a, b, sizeof(a));
}

static void weights__of_a_few_classes_are_those_computed_by_hand(void **state)
{
	enum {
		ONCE = 400,
		TWICE = 200,
		THRICE = 120,
		FOUR = 10,
		KEYS = ONCE + TWICE + THRICE + FOUR
	};
	struct heat heat[KEYS];
	/* 2 * 200 / 400; 3 * 120 / 200; of 4 there are too few, so 3 and 4 lose what 2 does. */
	const double again[] = { 0, 1, 1.8, 2.8, 3.8 };

	(void)state;
	for (uint64_t i = 0; i < KEYS; i++)
		heat[i] = (struct heat){ i,
					 i < FOUR                    ? 4
					 : i < FOUR + THRICE         ? 3
					 : i < FOUR + THRICE + TWICE ? 2
								     : 1,
					 0 };
	heat_weigh_sample(heat, KEYS, 0.25);
	for (uint32_t i = 0; i < KEYS; i++) {
		double count = (double)heat[i].count;

		assert_true(fabs(heat[i].weight - (0.25 * count + 0.75 * again[heat[i].count])) <
			    1e-12);
	}
	heat_weigh_sample(heat, KEYS, 1);
	for (uint32_t i = 0; i < KEYS; i++)
		assert_true(heat[i].weight == (double)heat[i].count);
	/* Too few keys to say anything: counts as they are. */
	heat_weigh_sample(heat, 50, 0.25);
	for (uint32_t i = 0; i < 50; i++)
		assert_true(heat[i].weight == (double)heat[i].count);
}

static void weights__of_as_few_keys_as_suffice_are_computed(void **state)
{
	enum { ONCE = 4 * HEAT_CLASS_MIN, KEYS = ONCE + 2 * HEAT_CLASS_MIN };
	struct heat heat[KEYS];

	(void)state;
	for (uint64_t i = 0; i < KEYS; i++)
		heat[i] = (struct heat){ i, i < ONCE ? 1 : 2 + i % 2, 0 };
	heat_weigh_sample(heat, KEYS, 0.25);
	/* 2 * 100 / 400 of 1; of 2 there would be 3 * 100 / 100 again, so that it loses nothing. */
	for (uint32_t i = 0; i < KEYS; i++)
		assert_true(heat[i].weight == (i < ONCE ? 0.625 : (double)heat[i].count));
	/* Without the last there are too few of 3 to say what 2 loses: as much as 1. */
	heat_weigh_sample(heat, KEYS - 1, 0.25);
	assert_int_equal(heat[ONCE].count, 2);
	assert_true(heat[ONCE].weight == 1.625);
}

static void weights__expect_no_less_of_a_larger_count(void **state)
{
	enum { EACH = 4 * HEAT_CLASS_MIN, KEYS = 2 * EACH + HEAT_CLASS_MIN };
	static struct heat heat[KEYS];

	(void)state;
	for (uint64_t i = 0; i < KEYS; i++)
		heat[i] = (struct heat){ i, 1 + i / EACH, 0 };
	heat_weigh_sample(heat, KEYS, 0.25);
	/* 2 * 400 / 400 of 1, which is no more than 1; 3 * 100 / 400 of 2, which is no less than that. */
	assert_true(heat[0].weight == 1);
	assert_true(heat[EACH].weight == 1.25);
	assert_true(heat[KEYS - 1].weight == 2.25);
}

/* Each class has half as many keys as the one before: (c + 1) / 2 are expected of c. Beyond the last a count loses as
 * much as that. */
static void weights__beyond_the_classes_lose_what_the_last_does(void **state)
{
	enum { KEYS = 127 * HEAT_CLASS_MIN };
	const double lost[] = { 0, 0, 0.5, 1, 1.5, 2, 2, 2 };
	static struct heat heat[KEYS];
	uint32_t keys = 0;

	(void)state;
	for (uint64_t c = 1; c < 8; c++)
		for (uint32_t i = 0; i < (uint32_t)HEAT_CLASS_MIN << (7 - c); i++, keys++)
			heat[keys] = (struct heat){ keys, c, 0 };
	heat_weigh_sample(heat, KEYS, 0.25);
	for (uint32_t i = 0; i < KEYS; i++)
		assert_true(heat[i].weight == (double)heat[i].count - 0.75 * lost[heat[i].count]);
}

/* A data set of which each key has few updates: what the sampled keys have of all of it is known, and the weights
 * say it, where the counts say more than twice as much. */
static void weights__say_what_the_sampled_keys_have_of_all(void **state)
{
	enum { KEYS = 50000, EACH_MAX = 9 };
	static struct heat heat[KEYS];
	struct sampler sampler;
	double weight = 0, counted = 0, truth = 0, all = 0, taken = 0;
	size_t keys = 0;
	struct rng rng;

	(void)state;
	rng_init(&rng, 3, 0);
	sampler_init(&sampler, 0.08, 3);
	for (uint64_t key = 0; key < KEYS; key++) {
		uint32_t updates = 1 + rng_below(&rng, EACH_MAX), count = 0;

		for (uint32_t i = 0; i < updates; i++)
			count += sampler_takes(&sampler);
		all += updates;
		taken += count;
		truth += count ? updates : 0;
		if (count)
			heat[keys++] = (struct heat){ key, count, 0 };
	}
	heat_sort(heat, keys, 1);
	heat_weigh_sample(heat, keys, 0.08);
	for (size_t i = 0; i < keys; i++) {
		weight += heat[i].weight;
		counted += (double)heat[i].count;
	}
	assert_true(counted / taken == 1);
	assert_true(truth / all < 0.5);
	if (fabs(weight / taken - truth / all) > 0.05)
		fail_msg("%g of the updates by the weights, %g in truth", weight / taken,
			 truth / all);
}

/* The numbers of a splitmix64 that begins with 0, as its authors give them. */
static void mix__is_the_end_of_splitmix64(void **state)
{
	(void)state;
	assert_true(splitmix64(0) == UINT64_C(0xe220a8397b1dcdaf));
	assert_true(splitmix64(UINT64_C(0x9e3779b97f4a7c15)) == UINT64_C(0x6e789e6aa1b965f4));
	assert_true(splitmix64(UINT64_C(0x3c6ef372fe94f82a)) == UINT64_C(0x06c45d188009454f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys__are_sorted_and_equals_in_an_order_of_their_own),
		cmocka_unit_test(weights__of_a_few_classes_are_those_computed_by_hand),
		cmocka_unit_test(weights__of_as_few_keys_as_suffice_are_computed),
		cmocka_unit_test(weights__expect_no_less_of_a_larger_count),
		cmocka_unit_test(weights__beyond_the_classes_lose_what_the_last_does),
		cmocka_unit_test(weights__say_what_the_sampled_keys_have_of_all),
		cmocka_unit_test(mix__is_the_end_of_splitmix64),
	};

	return cmocka_run_group_tests_name("hot-heat", tests, NULL, NULL);
}
