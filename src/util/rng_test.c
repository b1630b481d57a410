/* SPDX-License-Identifier: Apache-2.0 */
/* rng_test.c - what is drawn is the same everywhere, and within its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "util/rng.h"

enum { DRAWS = 10000 };

/* The first three of splitmix64 from state 0, as its authors' C gives them. */
static void numbers__are_splitmix64s(void **state)
{
	struct rng rng = { 0 };

	(void)state;
	assert_true(rng_next(&rng) == 0xe220a8397b1dcdaf);
	assert_true(rng_next(&rng) == 0x6e789e6aa1b965f4);
	assert_int_equal(rng_u32(&rng), 0x06c45d18);
}

static void streams__of_a_seed_differ(void **state)
{
	struct rng first, second;

	(void)state;
	rng_init(&first, 7, 0);
	rng_init(&second, 7, 1);
	assert_true(rng_next(&first) != rng_next(&second));
	rng_init(&second, 7, 0);
	rng_next(&second);
	assert_true(rng_next(&first) == rng_next(&second));
}

/* All of first to last are drawn by `draw`, and nothing else. */
static void is_within(uint64_t (*draw)(struct rng *rng, uint64_t first, uint64_t last),
		      uint64_t first, uint64_t last)
{
	uint32_t seen[64] = { 0 };
	struct rng rng;

	rng_init(&rng, 1, 0);
	for (uint32_t i = 0; i < DRAWS; i++) {
		uint64_t drawn = draw(&rng, first, last);

		assert_in_range(drawn, first, last);
		seen[drawn - first]++;
	}
	for (uint64_t i = first; i <= last; i++)
		assert_true(seen[i - first] > 0);
}

static void draws__reach_both_ends_and_go_no_further(void **state)
{
	struct rng rng = { 0 };

	(void)state;
	is_within(rng_between, 5, 8);
	is_within(rng_between, 9, 9);
	is_within(rng_log, 1, 1);
	is_within(rng_log, 3, 20);
	is_within(rng_log, 4, 63);
	is_within(rng_log, 1, 31);
	assert_true(rng_between(&rng, 0, UINT64_MAX) == 0xe220a8397b1dcdaf);
	for (uint32_t i = 0; i < DRAWS; i++)
		assert_in_range(rng_below(&rng, 3), 0, 2);
}

/* The largest that is drawn is below what it is said to be below: a million parts are always enough. */
static void draws__largest_is_within_its_bounds(void **state)
{
	static const struct rng largest = { 0x31628af67b2131ab }; /* the next is 2^64 - 1 */
	struct rng rng = largest;

	(void)state;
	assert_true(rng_next(&rng) == UINT64_MAX);
	rng = largest;
	assert_int_equal(rng_below(&rng, 3), 2);
	rng = largest;
	assert_true(rng_chance(&rng, 1000000));
	rng = largest;
	assert_false(rng_chance(&rng, 999999));
}

/* 1..31 has five octaves: a fifth of the draws is 16 or more. And a fifth of a million parts is a fifth. */
static void octaves__are_equally_likely(void **state)
{
	uint32_t high = 0, ones = 0, chances = 0;
	struct rng rng;

	(void)state;
	rng_init(&rng, 1, 0);
	for (uint32_t i = 0; i < DRAWS; i++) {
		high += rng_log(&rng, 1, 31) >= 16;
		ones += rng_log(&rng, 1, 2) == 1;
		chances += rng_chance(&rng, 200000);
	}
	assert_in_range(high, DRAWS / 6, DRAWS / 4);
	assert_in_range(ones, DRAWS / 5 * 2, DRAWS / 5 * 3);
	assert_in_range(chances, DRAWS / 6, DRAWS / 4);
	assert_false(rng_chance(&rng, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers__are_splitmix64s),
		cmocka_unit_test(streams__of_a_seed_differ),
		cmocka_unit_test(draws__reach_both_ends_and_go_no_further),
		cmocka_unit_test(draws__largest_is_within_its_bounds),
		cmocka_unit_test(octaves__are_equally_likely),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
