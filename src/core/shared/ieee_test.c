/* SPDX-License-Identifier: Apache-2.0 */
/* Against integers of 128 bits and the processor's own rounding. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/ieee.h"
#include "tests/random.h"

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

static uint64_t double_bits(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static uint32_t float_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static uint64_t join_of(const struct ieee_form *form, int128 value, int32_t power)
{
	uint128 magnitude = value < 0 ? -(uint128)value : (uint128)value;
	struct wide wide = { .is_negative = value < 0, .words = 2 };

	wide.word[0] = (uint64_t)magnitude;
	wide.word[1] = (uint64_t)(magnitude >> 64);
	return ieee_join(form, &wide, power);
}

static void ieee__is_rounded_as_the_processor_rounds(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 200000; i++) {
		uint32_t length = 1 + random_below(126);
		uint128 bits = (uint128)rng_next(&rng) << 64 | rng_next(&rng);
		int128 value = (int128)(bits >> (127 - length) & ~((uint128)1 << 127));

		if (random_below(2)) /* halves, and what is beside them */
			value &= ~(((int128)1 << random_below(length)) - 1);
		value += random_below(3);
		value = random_below(2) ? -value : value;
		assert_true(join_of(&ieee_form_64, value, 0) == double_bits((double)value));
		assert_true(join_of(&ieee_form_32, value, 0) == float_bits((float)value));
	}
}

/* Down to denormals and to nothing: a double that has more bits is rounded by the processor. */
static void ieee__denormals_are_rounded_once(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 200000; i++) {
		uint64_t fraction = rng_next(&rng) >> (11 + random_below(53));
		int32_t power = -120 - (int32_t)random_below(90);
		float near = (float)ldexp((double)fraction, power);

		assert_true(join_of(&ieee_form_32, (int128)fraction, power) == float_bits(near));
	}
	assert_true(join_of(&ieee_form_64, 1, -1074) == 1);
	assert_true(join_of(&ieee_form_64, 1, -1075) == 0); /* a tie: to even */
	assert_true(join_of(&ieee_form_64, 3, -1076) == 1);
	assert_true(join_of(&ieee_form_64, -1, -1200) == 0x8000000000000000ull);
	assert_true(join_of(&ieee_form_64, 0, 0) == 0);
}

static void ieee__too_large_is_an_infinity(void **state)
{
	(void)state;
	assert_true(join_of(&ieee_form_16, 65519, 0) == 0x7bff);
	assert_true(join_of(&ieee_form_16, 65520, 0) == 0x7c00);
	assert_true(join_of(&ieee_form_16, -65520, 0) == 0xfc00);
	assert_true(join_of(&ieee_form_16, 1, 4000) == 0x7c00);
	assert_true(join_of(&ieee_form_b16, 255, 120) == 0x7f7f);
	assert_true(join_of(&ieee_form_b16, 511, 119) == 0x7f80);
	assert_true(join_of(&ieee_form_64, ((int128)1 << 54) - 1, 970) == 0x7ff0000000000000ull);
}

static void check_round_trip(const struct ieee_form *form, uint64_t bits)
{
	struct ieee_parts parts = ieee_split(form, bits);
	int128 fraction = (int128)parts.fraction;
	uint64_t magnitude = bits & ~((uint64_t)1 << (form->fraction + form->exponent));

	assert_int_equal(parts.is_negative, magnitude != bits);
	if (magnitude == ieee_infinity(form, false))
		assert_int_equal(parts.class, IEEE_INFINITE);
	else if (magnitude > ieee_infinity(form, false))
		assert_int_equal(parts.class, IEEE_NAN);
	else if (magnitude)
		assert_true(join_of(form, parts.is_negative ? -fraction : fraction, parts.power) ==
			    bits);
	else
		assert_true(parts.class == IEEE_FINITE && !parts.fraction);
	if (parts.class == IEEE_FINITE)
		assert_true(parts.power >= -ieee_shift(form));
}

static void ieee__of_every_kind_comes_back(void **state)
{
	(void)state;
	for (uint32_t bits = 0; bits < 65536; bits++) {
		check_round_trip(&ieee_form_16, bits);
		check_round_trip(&ieee_form_b16, bits);
	}
	for (uint32_t i = 0; i < 100000; i++) {
		check_round_trip(&ieee_form_32, rng_next(&rng) >> 32);
		check_round_trip(&ieee_form_64, rng_next(&rng));
	}
	assert_int_equal(ieee_shift(&ieee_form_32), 149);
	assert_int_equal(ieee_span(&ieee_form_32), 277);
	assert_int_equal(ieee_shift(&ieee_form_64), 1074);
	assert_int_equal(ieee_span(&ieee_form_64), 2098);
	assert_int_equal(ieee_span(&ieee_form_16), 40);
	assert_true(ieee_nan(&ieee_form_32) == 0x7fc00000);
	assert_true(ieee_infinity(&ieee_form_32, true) == 0xff800000);
}

/* A quotient that no double has lies above a tie or below it by what is left. */
static void ieee__quotients_are_rounded_once(void **state)
{
	struct wide wide = { .words = 1, .word = { 3 } };
	int32_t lane[3];

	(void)state;
	wide_divide(&wide, 7, 2);
	assert_true(ieee_join(&ieee_form_64, &wide, -128) == double_bits(3.0 / 7));
	assert_true(wide.is_inexact);
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t by = 1 + random_below(65535);
		uint64_t value = rng_next(&rng) >> (11 + random_below(53));

		wide_put(lane, wide_form_of(1, 64), false, value, 0);
		wide_get(&wide, lane, wide_form_of(1, 64));
		wide_divide(&wide, by, 2);
		assert_true(ieee_join(&ieee_form_64, &wide, -128) ==
			    double_bits((double)value / by));
	}
}

/* What is far up, in a form of many lanes, as a float64 of any size needs it. */
static void ieee__a_long_number_keeps_all_its_bits(void **state)
{
	static const uint32_t workers[] = { 2, 9, 65535 };

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct wide_form form = wide_form_of(workers[i], 2098);
		int32_t lane[WIDE_LANES_MAX];
		struct wide wide;

		wide_put(lane, form, true, 0x1fffffffffffffull, 2045);
		wide_get(&wide, lane, form);
		assert_true(wide.is_negative);
		assert_true(ieee_join(&ieee_form_64, &wide, -1074) == 0xffefffffffffffffull);
		wide_divide(&wide, 65535, 3);
		assert_true(ieee_join(&ieee_form_64, &wide, -1074 - 192) ==
			    double_bits(-DBL_MAX / 65535));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(ieee__is_rounded_as_the_processor_rounds, restart_random),
		cmocka_unit_test_setup(ieee__denormals_are_rounded_once, restart_random),
		cmocka_unit_test_setup(ieee__too_large_is_an_infinity, restart_random),
		cmocka_unit_test_setup(ieee__of_every_kind_comes_back, restart_random),
		cmocka_unit_test_setup(ieee__quotients_are_rounded_once, restart_random),
		cmocka_unit_test_setup(ieee__a_long_number_keeps_all_its_bits, restart_random),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests_name("core-ieee", tests, NULL, NULL);
}
