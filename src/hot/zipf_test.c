/* SPDX-License-Identifier: Apache-2.0 */
#include "hot/zipf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void keys__of_all_ranks_differ(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 3, 6, 1000, 65536, 99991 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *seen = calloc(sizes[i], 1);

		assert_non_null(seen);
		for (uint32_t rank = 0; rank < sizes[i]; rank++) {
			uint32_t key = zipf_key(sizes[i], rank);

			assert_true(key < sizes[i]);
			assert_false(seen[key]);
			seen[key] = 1;
		}
		free(seen);
	}
}

/* Every key comes as often as its rank says, to within five standard deviations; and all of them together are as
 * far from it as chance has it. */
static void expect_shares(double exponent, uint32_t keys, uint32_t draws)
{
	uint64_t *key = malloc(draws * sizeof(*key));
	uint32_t *count = calloc(keys, sizeof(*count));
	double sum = 0, squares = 0;
	struct zipf zipf;

	assert_non_null(key);
	assert_non_null(count);
	assert_int_equal(zipf_init(&zipf, exponent, keys, 7), 0);
	zipf_next(&zipf, key, draws);
	zipf_fini(&zipf);
	for (uint32_t i = 0; i < draws; i++) {
		assert_true(key[i] < keys);
		count[key[i]]++;
	}
	for (uint32_t rank = 1; rank <= keys; rank++)
		sum += 1 / pow(rank, exponent);
	for (uint32_t rank = 1; rank <= keys; rank++) {
		double want = draws / pow(rank, exponent) / sum;
		double off = count[zipf_key(keys, rank - 1)] - want;

		if (fabs(off) > 5 * sqrt(want) + 1)
			fail_msg("exponent %g, rank %u: %g off %g", exponent, rank, off, want);
		squares += off * off / want;
	}
	/* Chi-squared: mean keys - 1, variance twice that. */
	if (fabs(squares - keys) > 6 * sqrt(2.0 * keys))
		fail_msg("exponent %g: chi-squared %g of %u keys", exponent, squares, keys);
	free(key);
	free(count);
}

static void draws__are_as_frequent_as_their_rank_says(void **state)
{
	(void)state;
	expect_shares(1.1, 1000, 2000000);
	expect_shares(0, 777, 1000000);
	expect_shares(0.7, 4096, 4000000);
	expect_shares(2, 30, 1000000);
}

static void one_key__comes_always(void **state)
{
	struct zipf zipf;
	uint64_t key[5] = { 9, 9, 9, 9, 9 };

	(void)state;
	assert_int_equal(zipf_init(&zipf, 1.1, 1, 3), 0);
	zipf_next(&zipf, key, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(key[i], 0);
	zipf_fini(&zipf);
}

static void stream__depends_on_the_seed_and_not_on_how_it_is_asked_for(void **state)
{
	enum { DRAWS = 1000 };
	uint64_t all[DRAWS], parts[DRAWS], other[DRAWS];
	struct zipf zipf;

	(void)state;
	assert_int_equal(zipf_init(&zipf, 1.1, 5000, 1), 0);
	zipf_next(&zipf, all, DRAWS);
	zipf_fini(&zipf);
	assert_int_equal(zipf_init(&zipf, 1.1, 5000, 1), 0);
	for (size_t at = 0, some = 1; at < DRAWS; at += some, some = some * 3 % 101 + 1) {
		some = some < DRAWS - at ? some : DRAWS - at;
		zipf_next(&zipf, parts + at, some);
	}
	zipf_fini(&zipf);
	assert_memory_equal(all, parts, sizeof(all));
	assert_int_equal(zipf_init(&zipf, 1.1, 5000, 2), 0);
	zipf_next(&zipf, other, DRAWS);
	zipf_fini(&zipf);
	assert_memory_not_equal(all, other, sizeof(all));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys__of_all_ranks_differ),
		cmocka_unit_test(draws__are_as_frequent_as_their_rank_says),
		cmocka_unit_test(one_key__comes_always),
		cmocka_unit_test(stream__depends_on_the_seed_and_not_on_how_it_is_asked_for),
	};

	return cmocka_run_group_tests_name("hot-zipf", tests, NULL, NULL);
}
