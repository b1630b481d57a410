/* SPDX-License-Identifier: Apache-2.0 */
/* Against integers of 128 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/shared/wide.h"
#include "tests/random.h"

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

static const uint32_t workers_of_interest[] = { 1, 2, 3, 4, 5, 8, 9, 512, 513, 65535 };

enum { WORKERS_OF_INTEREST = sizeof(workers_of_interest) / sizeof(*workers_of_interest) };

static int128 value_of(const struct wide *wide)
{
	uint128 magnitude = (uint128)wide->word[1] << 64 | wide->word[0];

	for (uint32_t i = 2; i < wide->words; i++)
		assert_true(wide->word[i] == 0);
	return wide->is_negative ? -(int128)magnitude : (int128)magnitude;
}

static void wide__digits_of_all_workers_fit_their_lane(void **state)
{
	(void)state;
	for (uint32_t workers = 1; workers <= 65535; workers++) {
		struct wide_form form = wide_form_of(workers, 64);

		assert_true((uint64_t)workers * ((1u << form.bits) - 1) <= INT32_MAX);
		assert_true((uint64_t)workers << (form.bits + 1) > INT32_MAX);
		assert_in_range(form.lanes * form.bits, 64, 63 + form.bits);
	}
	assert_int_equal(wide_form_of(2, 277).lanes, 10);
	assert_int_equal(wide_form_of(8, 277).lanes, 10);
	assert_int_equal(wide_form_of(9, 277).lanes, 11);
	assert_int_equal(wide_form_of(65535, 2098).lanes, 140);
}

/* Of some ranks, the first of which is there many times. */
static void check_sum(uint32_t workers, uint32_t words_shift)
{
	struct wide_form form = wide_form_of(workers, 96);
	int32_t lane[WIDE_LANES_MAX], sum[WIDE_LANES_MAX] = { 0 };
	int128 want = 0;
	struct wide wide;

	for (uint32_t left = workers, rank = 0; left; rank++) {
		uint32_t times = rank < 2 && left > 1 ? 1 : left;
		uint64_t magnitude = rng_next(&rng) >> random_below(64);
		uint32_t shift = random_below(words_shift + 1);
		bool is_negative = random_below(2);
		int128 value = (int128)magnitude << shift;

		wide_put(lane, form, is_negative, magnitude, shift);
		for (uint32_t i = 0; i < form.lanes; i++)
			sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)lane[i] * times);
		want += (is_negative ? -value : value) * times;
		left -= times;
	}
	wide_get(&wide, sum, form);
	assert_true(value_of(&wide) == want);
	wide_divide(&wide, workers, 0);
	assert_true(value_of(&wide) == want / (int128)workers);
	assert_int_equal(wide.is_inexact, want % (int128)workers != 0);
}

static void wide__sums_are_exact(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 20000; i++)
		check_sum(workers_of_interest[random_below(WORKERS_OF_INTEREST)], 32);
}

static void wide__largest_of_all_workers_add_up(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < WORKERS_OF_INTEREST; i++) {
		uint32_t workers = workers_of_interest[i];
		struct wide_form form = wide_form_of(workers, 64);
		int32_t lane[WIDE_LANES_MAX];
		struct wide wide;

		wide_put(lane, form, true, UINT64_MAX, 0);
		for (uint32_t at = 0; at < form.lanes; at++)
			lane[at] *= (int32_t)workers;
		wide_get(&wide, lane, form);
		assert_true(value_of(&wide) == -(int128)UINT64_MAX * workers);
		wide_divide(&wide, workers, 0);
		assert_true(value_of(&wide) == -(int128)UINT64_MAX);
		assert_false(wide.is_inexact);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(wide__digits_of_all_workers_fit_their_lane, restart_random),
		cmocka_unit_test_setup(wide__sums_are_exact, restart_random),
		cmocka_unit_test_setup(wide__largest_of_all_workers_add_up, restart_random),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests_name("core-wide", tests, NULL, NULL);
}
