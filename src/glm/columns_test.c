/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/rng.h"

enum { SAMPLE_MAX = 200000 };

static uint32_t sample[SAMPLE_MAX], spare[SAMPLE_MAX], counted[COLUMNS_SHARES_MAX];
static struct columns columns;

/* Each feature has one place, each place one feature, and shares have no gaps. */
static void places_check(uint32_t features)
{
	uint64_t all = 0;

	for (uint32_t share = 0; share < columns.shares; share++) {
		uint32_t count = columns_count(&columns, share, features);

		all += count;
		for (uint32_t local = 0; local < count; local++) {
			uint32_t feature = columns_global(&columns, share, local);

			assert_true(feature < features);
			assert_int_equal(columns_share(&columns, feature), share);
			assert_int_equal(columns_local(&columns, feature), local);
		}
	}
	assert_int_equal(all, features);
}

static void columns__every_feature_has_one_place(void **state)
{
	const uint32_t shares[] = { 1, 2, 3, 7, 64 };
	struct rng rng;

	(void)state;
	rng_init(&rng, 1, 0);
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		for (uint32_t count = 0; count < 4000; count = 3 * count + 1) {
			for (uint32_t k = 0; k < count; k++)
				sample[k] = rng_below(&rng, 10000);
			columns_make(&columns, shares[i], sample, spare, count);
			places_check(columns.first[shares[i]]);
			places_check(columns.first[shares[i]] / 2);
			places_check(columns.first[shares[i]] + 1);
			places_check(columns.first[shares[i]] + 5 * COLUMNS_BLOCK + 17);
		}
	}
}

/* Popular features as words are: the k-th is there once in k. */
static void columns__nonzeros_are_even_and_indices_are_not(void **state)
{
	uint32_t shares = 8;
	struct rng rng;

	(void)state;
	rng_init(&rng, 2, 0);
	for (size_t i = 0; i < SAMPLE_MAX; i++)
		sample[i] = (uint32_t)rng_log(&rng, 100, 1000000);
	columns_make(&columns, shares, sample, spare, SAMPLE_MAX);
	for (size_t i = 0; i < SAMPLE_MAX; i++)
		counted[columns_share(&columns, sample[i])]++;
	for (uint32_t share = 0; share < shares; share++) {
		assert_in_range(counted[share], SAMPLE_MAX / shares * 95 / 100,
				SAMPLE_MAX / shares * 105 / 100);
		counted[share] = 0;
	}
	assert_true(columns_count(&columns, 0, 1000000) < 10000);
	assert_true(columns_count(&columns, shares - 1, 1000000) > 100000);
}

static void columns__order_of_the_sample_does_not_matter(void **state)
{
	static struct columns other;
	struct rng rng;

	(void)state;
	rng_init(&rng, 3, 0);
	for (size_t i = 0; i < 1000; i++)
		sample[i] = rng_u32(&rng) >> 1;
	for (size_t i = 0; i < 1000; i++)
		spare[1000 + i] = sample[999 - i];
	columns_make(&columns, 5, sample, spare, 1000);
	columns_make(&other, 5, spare + 1000, spare, 1000);
	for (size_t i = 1; i < 1000; i++)
		assert_true(sample[i] >= sample[i - 1]); /* by all their bits */
	assert_memory_equal(&columns, &other, sizeof(columns));
}

static void columns__one_feature_for_many_shares_has_one_owner(void **state)
{
	(void)state;
	for (size_t i = 0; i < 100; i++)
		sample[i] = 41;
	columns_make(&columns, 8, sample, spare, 100);
	places_check(42);
	places_check(43);
}

static void columns__above_the_sample_shares_take_turns(void **state)
{
	(void)state;
	sample[0] = 0;
	columns_make(&columns, 3, sample, spare, 1);
	for (uint32_t k = 0; k < 9; k++)
		assert_int_equal(columns_share(&columns, 1 + k * COLUMNS_BLOCK), k % 3);
	assert_int_equal(columns_share(&columns, INT32_MAX), (INT32_MAX - 1) / COLUMNS_BLOCK % 3);
	assert_int_equal(columns_global(&columns, columns_share(&columns, INT32_MAX),
					columns_local(&columns, INT32_MAX)),
			 INT32_MAX);
}

static void columns__of_the_highest_features_are_sorted(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		sample[i] = INT32_MAX - i;
	columns_make(&columns, 4, sample, spare, 1000);
	for (uint32_t i = 1; i < 1000; i++)
		assert_true(sample[i] > sample[i - 1]);
	assert_int_equal(columns.first[4], (uint32_t)INT32_MAX + 1);
	assert_int_equal(columns.first[2], INT32_MAX - 499);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns__every_feature_has_one_place),
		cmocka_unit_test(columns__nonzeros_are_even_and_indices_are_not),
		cmocka_unit_test(columns__order_of_the_sample_does_not_matter),
		cmocka_unit_test(columns__one_feature_for_many_shares_has_one_owner),
		cmocka_unit_test(columns__above_the_sample_shares_take_turns),
		cmocka_unit_test(columns__of_the_highest_features_are_sorted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
