/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is expected is worked out from the rules (R-NUM-1 to R-NUM-7) with integers and long
 * doubles, never with the code that is tested.
 */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/quant.h"
#include "core/wire.h"
#include "util/rng.h"

enum { SAMPLES = 200, BLOCK = 64, WORKERS_MAX = 65535, EXPONENT_MAX = 254 };

static const float infinity = __builtin_inff();
static const uint32_t workers_of_interest[] = { 1, 2, 3, 5, 7, 8, 1000, 32768, 65535 };
enum { WORKERS_OF_INTEREST = sizeof(workers_of_interest) / sizeof(workers_of_interest[0]) };

static uint64_t seed;
static struct rng rng;

static uint32_t random_below(uint32_t end)
{
	return rng_below(&rng, end);
}

static int restart_random(void **state)
{
	(void)state;
	rng_init(&rng, seed, 0);
	return 0;
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static float random_sign(float x)
{
	return random_below(2) ? -x : x;
}

/* Of all classes: any bits, denormals, infinities, NaNs, zeros of both signs; and what random bits
 * would hardly hit: numbers just below 2^(exponent - 126), whose lanes are near their bound. */
static float random_float(uint32_t exponent)
{
	uint32_t fraction = (uint32_t)rng_next(&rng) & 0x7fffff;

	switch (random_below(8)) {
	case 0:
		return float_of((uint32_t)rng_next(&rng));
	case 1:
		return random_sign(float_of(fraction));
	case 2:
		return random_sign(random_below(4) ? 0.0f : infinity);
	case 3:
		return random_below(4) ? random_sign(float_of(fraction | 1u << 23))
				       : float_of((uint32_t)rng_next(&rng) | 0x7f800001);
	case 4:
		return random_sign(float_of(exponent << 23 | fraction));
	case 5:
		return random_sign(float_of(exponent << 23 | 0x7ffff0 | random_below(16)));
	default: /* up to 32 binades below: the halves to be rounded are there */
		exponent -= random_below(exponent < 32 ? exponent + 1 : 32);
		return random_sign(float_of(exponent << 23 | (random_below(2) ? fraction : 0)));
	}
}

static long double power_of_two(int exponent)
{
	long double x = 1;

	for (; exponent > 0; exponent--)
		x *= 2;
	for (; exponent < 0; exponent++)
		x /= 2;
	return x;
}

static int expected_shift(uint32_t workers, uint32_t exponent)
{
	int log2_ceil = 0;

	while ((uint64_t)1 << log2_ceil < workers)
		log2_ceil++;
	return 31 - log2_ceil - ((int)exponent - 126);
}

static long double expected_bound(uint32_t workers)
{
	return (int64_t)0x7fffffff / workers;
}

/* clamp(rne(x * 2^shift), +-bound): x is +-fraction * 2^binade, both integers. */
static int32_t expected_lane(float x, int shift, int64_t bound)
{
	uint32_t bits = bits_of(x);
	int64_t fraction = bits & 0x7fffff;
	int binade = (int)(bits >> 23 & 0xff);

	if (binade == 255)
		return 0;
	if (binade)
		fraction |= 1 << 23;
	else
		binade = 1;
	int up = binade - 127 - 23 + shift;
	int64_t rounded;
	if (up >= 0) {
		rounded = fraction
			  << (up < 36 ? up : 36); /* any further and it is clamped anyway */
	} else {
		int down = -up < 30 ? -up : 30; /* any further and it is 0 anyway */
		int64_t whole = fraction >> down, rest = fraction - (whole << down);
		int64_t half = (int64_t)1 << (down - 1);
		rounded = whole + (rest > half || (rest == half && whole % 2));
	}
	rounded = rounded > bound ? bound : rounded;
	return (int32_t)(bits >> 31 ? -rounded : rounded);
}

static void quant__exponent_of_largest_finite_magnitude(void **state)
{
	(void)state;
	for (int i = 0; i < 20 * SAMPLES; i++) {
		float src[BLOCK];
		size_t count = random_below(BLOCK + 1);
		long double largest = 0;
		uint32_t about = random_below(EXPONENT_MAX + 1);
		for (size_t j = 0; j < count; j++) {
			src[j] = random_float(random_below(about + 1));
			long double x = src[j] < 0 ? -(long double)src[j] : (long double)src[j];
			if (x < power_of_two(128) && x > largest)
				largest = x;
		}
		/* Biased exponent e is [2^(e-127), 2^(e-126)), denormals with 1. */
		uint32_t expected = largest > 0;
		while (expected && largest >= power_of_two((int)expected - 126))
			expected++;
		assert_int_equal(quant_scalar.exponent_f32(src, count), expected);
	}
}

static void quant__exponent_of_zeros_is_zero(void **state)
{
	const float zeros[5] = { 0.0f, -0.0f, 0.0f, -0.0f, -0.0f };
	(void)state;

	for (size_t count = 0; count <= 5; count++)
		assert_int_equal(quant_scalar.exponent_f32(zeros, count), 0);
}

static void quant__exponent_counts_denormals_as_one(void **state)
{
	const float src[3] = { 0.0f, -0x1p-149f, 0.0f };
	(void)state;

	assert_int_equal(quant_scalar.exponent_f32(src, 3), 1);
	assert_int_equal(quant_scalar.exponent_f32(&(float){ -0x1p-126f }, 1), 1);
	assert_int_equal(quant_scalar.exponent_f32(&(float){ 0x1.fffffep-126f }, 1), 1);
	assert_int_equal(quant_scalar.exponent_f32(&(float){ -0x1p-125f }, 1), 2);
	assert_int_equal(quant_scalar.exponent_f32(&(float){ 1.0f }, 1), 127);
	assert_int_equal(quant_scalar.exponent_f32(&(float){ -FLT_MAX }, 1), 254);
}

static void quant__exponent_ignores_inf_and_nan(void **state)
{
	const float src[6] = { infinity, -2.5f, -infinity, __builtin_nanf(""), 1.0f, infinity };
	(void)state;

	assert_int_equal(quant_scalar.exponent_f32(src, 6), 128);
	assert_int_equal(quant_scalar.exponent_f32(src, 1), 0);
	assert_int_equal(quant_scalar.exponent_f32(src + 2, 2), 0);
}

static void check_scale(uint32_t workers, uint32_t exponent)
{
	struct quant_scale scale;

	quant_scale(&scale, workers, exponent);
	assert_int_equal(scale.shift, expected_shift(workers, exponent));
	assert_true(scale.bound == expected_bound(workers));
	assert_int_equal(scale.workers, workers);
	assert_true((long double)scale.up == power_of_two(scale.shift));
	assert_true((long double)scale.down == power_of_two(-scale.shift));
	assert_int_equal(quant_bound(workers), scale.bound);
}

static void quant__scale_follows_the_rule(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < WORKERS_OF_INTEREST; i++)
		for (uint32_t exponent = 0; exponent <= EXPONENT_MAX; exponent++)
			check_scale(workers_of_interest[i], exponent);
	for (uint32_t workers = 1; workers <= WORKERS_MAX; workers++)
		check_scale(workers, 127);

	struct quant_scale scale;
	quant_scale(&scale, 1, 0);
	assert_int_equal(scale.shift, 157);
	quant_scale(&scale, WORKERS_MAX, EXPONENT_MAX);
	assert_int_equal(scale.shift, -113);
	quant_scale(&scale, 8, 127); /* eight numbers below 2 */
	assert_int_equal(scale.shift, 27);
	assert_int_equal(scale.bound, 268435455);
}

/* What every worker's largest lane adds up to fits an int32, and so does what rounds up to it. */
static void quant__bounds_of_all_workers_fit_an_int32(void **state)
{
	(void)state;
	for (uint32_t workers = 1; workers <= WORKERS_MAX; workers++) {
		int64_t sum = (int64_t)quant_bound(workers) * workers;
		assert_true(sum <= INT32_MAX);
		assert_true(sum + workers > INT32_MAX);
	}
}

static void quant__rounds_half_to_even(void **state)
{
	struct quant_scale scale;
	/* clang-format off */
	const float src[] = { 0.5f, 1.5f, 2.5f, 3.5f, -0.5f, -1.5f, -2.5f, -3.5f,
			      0.49999997f, 0.50000006f, -0.49999997f, -0.50000006f,
			      1.4999999f, 8388607.5f, -8388606.5f, 8388608.0f, -0.0f };
	const int32_t lane_expected[] = { 0, 2, 2, 4, 0, -2, -2, -4,
					  0, 1, 0, -1,
					  1, 8388608, -8388606, 8388608, 0 };
	/* clang-format on */
	enum { COUNT = sizeof(src) / sizeof(src[0]) };
	int32_t lane[COUNT];
	(void)state;

	quant_scale(&scale, 1, 157); /* shift 0 */
	assert_int_equal(scale.shift, 0);
	assert_int_equal(quant_scalar.pack_f32(lane, src, COUNT, &scale), 0);
	assert_memory_equal(lane, lane_expected, sizeof(lane));
}

static void check_pack(uint32_t workers, uint32_t exponent)
{
	float src[BLOCK];
	int32_t lane[BLOCK + 1];
	struct quant_scale scale;
	size_t count = random_below(BLOCK + 1);
	int expected_flags = 0;

	for (size_t i = 0; i < count; i++) {
		src[i] = random_float(exponent);
		if (src[i] - src[i] != 0)
			expected_flags = WIRE_NONFINITE;
	}
	lane[count] = 0x5a5a5a5a;
	quant_scale(&scale, workers, exponent);
	assert_int_equal(quant_scalar.pack_f32(lane, src, count, &scale), expected_flags);
	assert_int_equal(lane[count], 0x5a5a5a5a);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(lane[i], expected_lane(src[i], expected_shift(workers, exponent),
							(int64_t)expected_bound(workers)));
}

/* Also of numbers beyond the agreed exponent: nobody should have them, and they are clamped. */
static void quant__pack_rounds_the_exact_product(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < WORKERS_OF_INTEREST; i++)
		for (uint32_t exponent = 0; exponent <= EXPONENT_MAX; exponent++)
			check_pack(workers_of_interest[i], exponent);
	for (int i = 0; i < 10 * SAMPLES; i++)
		check_pack(1 + random_below(WORKERS_MAX), random_below(EXPONENT_MAX + 1));
}

static void quant__pack_clamps_at_the_bound(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < WORKERS_OF_INTEREST; i++) {
		for (uint32_t exponent = 0; exponent <= EXPONENT_MAX; exponent++) {
			const float src[4] = { FLT_MAX, -FLT_MAX,
					       float_of(exponent << 23 | 0x7fffff),
					       -float_of(exponent << 23 | 0x7fffff) };
			struct quant_scale scale;
			int32_t lane[4];
			quant_scale(&scale, workers_of_interest[i], exponent);
			quant_scalar.pack_f32(lane, src, 4, &scale);
			for (int j = 0; j < 4; j++)
				assert_true(llabs(lane[j]) <= scale.bound);
			assert_int_equal(lane[3], -lane[2]);
			if (exponent == EXPONENT_MAX)
				continue;
			assert_int_equal(lane[0], scale.bound);
			assert_int_equal(lane[1], -scale.bound);
		}
	}
}

static void quant__nonfinite_is_sent_as_zero_and_flagged(void **state)
{
	const float src[5] = { 1.0f, infinity, -1.0f, __builtin_nanf(""), -infinity };
	const int32_t expected[5] = { 1 << 29, 0, -(1 << 29), 0, 0 };
	int32_t lane[5];
	struct quant_scale scale;
	(void)state;

	quant_scale(&scale, 2, 127);
	assert_int_equal(quant_scalar.pack_f32(lane, src, 5, &scale), WIRE_NONFINITE);
	assert_memory_equal(lane, expected, sizeof(lane));
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(quant_scalar.pack_f32(lane, src + i, 1, &scale),
				 expected[i] ? 0 : WIRE_NONFINITE);
	assert_int_equal(quant_scalar.pack_f32(lane, src, 0, &scale), 0);
}

int main(int argc, char **argv)
{
	const char *text = argc > 1 ? argv[1] : getenv("TALLY_TEST_SEED");
	seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
	printf("seed %llu (TALLY_TEST_SEED)\n", (unsigned long long)seed);

#define RANDOM(test) cmocka_unit_test_setup(test, restart_random)
	const struct CMUnitTest tests[] = {
		RANDOM(quant__exponent_of_largest_finite_magnitude),
		cmocka_unit_test(quant__exponent_of_zeros_is_zero),
		cmocka_unit_test(quant__exponent_counts_denormals_as_one),
		cmocka_unit_test(quant__exponent_ignores_inf_and_nan),
		cmocka_unit_test(quant__scale_follows_the_rule),
		cmocka_unit_test(quant__bounds_of_all_workers_fit_an_int32),
		cmocka_unit_test(quant__rounds_half_to_even),
		RANDOM(quant__pack_rounds_the_exact_product),
		cmocka_unit_test(quant__pack_clamps_at_the_bound),
		cmocka_unit_test(quant__nonfinite_is_sent_as_zero_and_flagged),
	};
	return cmocka_run_group_tests_name("core-quant", tests, NULL, NULL);
}
