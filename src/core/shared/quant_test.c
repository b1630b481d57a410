/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is expected is worked out from the rules (R-NUM-1 to R-NUM-7) with integers and long
 * doubles, never with the code that is tested.
 */
#include <float.h>

#include "core/shared/wire.h"
#include "tests/random.h"

#include "core/shared/quant_fixture.h"

enum { SAMPLES = 200, BLOCK = 64 };

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

static float random_finite(uint32_t exponent)
{
	float x;

	do
		x = random_float(exponent);
	while (x - x != 0);
	return x;
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

/* lane / (2^shift * divisor), rounded once, to even; denormals and overflow included. */
static float expected_float(int32_t lane, int shift, uint32_t divisor)
{
	if (lane == 0)
		return 0.0f;
	unsigned __int128 dividend = (unsigned __int128)(uint64_t)llabs(lane) << 64;
	unsigned __int128 quotient = dividend / divisor;
	int inexact = dividend % divisor != 0;
	int scale = -64 - shift; /* the value is (quotient + less than 1) * 2^scale */

	/* Keep 24 bits, or as many as are above 2^-149. */
	int bits = 0;
	while (quotient >> bits)
		bits++;
	int drop = bits - 24;
	if (scale + drop < -149)
		drop = -149 - scale;
	assert_true(drop >= 1);
	if (drop > 126)
		return lane < 0 ? -0.0f : 0.0f;
	unsigned __int128 kept = quotient >> drop, rest = quotient - (kept << drop);
	unsigned __int128 half = (unsigned __int128)1 << (drop - 1);
	if (rest > half || (rest == half && (inexact || kept % 2)))
		kept++;
	long double value = (long double)(uint64_t)kept * power_of_two(scale + drop);
	float magnitude = value >= power_of_two(128) ? infinity : (float)value; /* exact */
	return lane < 0 ? -magnitude : magnitude;
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
	quant_scale(&scale, WORKERS_MAX, 255); /* of a peer that is broken */
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

static void check_unpack(uint32_t workers, uint32_t exponent, bool is_avg)
{
	int32_t lane[BLOCK];
	float dst[BLOCK + 1];
	struct quant_scale scale;
	size_t count = random_below(BLOCK + 1);

	for (size_t i = 0; i < count; i++)
		lane[i] = random_lane();
	dst[count] = 42.0f;
	quant_scale(&scale, workers, exponent);
	quant_scalar.unpack_f32(dst, lane, count, &scale, is_avg);
	assert_true(dst[count] == 42.0f);
	for (size_t i = 0; i < count; i++) {
		float expected = expected_float(lane[i], expected_shift(workers, exponent),
						is_avg ? workers : 1);
		assert_int_equal(bits_of(dst[i]), bits_of(expected));
	}
}

static void quant__unpack_rounds_once(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < WORKERS_OF_INTEREST; i++)
		for (uint32_t exponent = 0; exponent <= EXPONENT_MAX; exponent++)
			check_unpack(workers_of_interest[i], exponent, false);
	for (int i = 0; i < 10 * SAMPLES; i++)
		check_unpack(1 + random_below(WORKERS_MAX), random_below(EXPONENT_MAX + 1), false);
}

static void quant__average_rounds_once(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < WORKERS_OF_INTEREST; i++)
		for (uint32_t exponent = 0; exponent <= EXPONENT_MAX; exponent++)
			check_unpack(workers_of_interest[i], exponent, true);
	for (int i = 0; i < 10 * SAMPLES; i++)
		check_unpack(1 + random_below(WORKERS_MAX), random_below(EXPONENT_MAX + 1), true);
}

/* N times a number halfway between two floats: the quotient is exact, and goes to the even one. */
static void quant__average_of_a_tie_goes_to_even(void **state)
{
	struct quant_scale scale;
	float dst[2];
	(void)state;

	for (uint32_t workers = 1; workers <= 63; workers++) {
		int32_t tie = (1 << 24) + 1; /* between 2^24 and 2^24 + 2 */
		int32_t lane[2] = { tie * (int32_t)workers, -(tie + 2) * (int32_t)workers };
		quant_scale(&scale, workers, 130);
		quant_scalar.unpack_f32(dst, lane, 2, &scale, true);
		assert_true(dst[0] == (float)(power_of_two(24 - scale.shift)));
		assert_true(dst[1] == (float)(-((1 << 24) + 4) * power_of_two(-scale.shift)));
	}
}

static void quant__sum_beyond_float_becomes_infinite(void **state)
{
	const float src[2] = { FLT_MAX, -FLT_MAX };
	struct quant_scale scale;
	int32_t lane[2];
	float dst[2];
	(void)state;

	quant_scale(&scale, 2, EXPONENT_MAX);
	assert_int_equal(quant_scalar.pack_f32(lane, src, 2, &scale), 0);
	quant_scalar.unpack_f32(dst, lane, 2, &scale, false);
	assert_true(dst[0] == FLT_MAX);
	assert_true(dst[1] == -FLT_MAX);

	lane[0] *= 2; /* two workers with the same elements */
	lane[1] *= 2;
	quant_scalar.unpack_f32(dst, lane, 2, &scale, false);
	assert_true(dst[0] == infinity);
	assert_true(dst[1] == -infinity);
	quant_scalar.unpack_f32(dst, lane, 2, &scale, true);
	assert_true(dst[0] == FLT_MAX);
	assert_true(dst[1] == -FLT_MAX);
}

/* R-NUM-2's promise, end to end: |error| <= N * 2^-s + half an ulp of the result. */
static void check_error(uint32_t workers, uint32_t exponent)
{
	struct quant_scale scale;
	int64_t sum = 0;
	long double exact = 0;
	uint32_t exponent_agreed = 0;
	float src[WORKERS_OF_INTEREST + 8];

	for (uint32_t i = 0; i < workers; i++) {
		do
			src[i] = random_finite(exponent);
		while (quant_scalar.exponent_f32(&src[i], 1) > exponent);
		uint32_t own = quant_scalar.exponent_f32(&src[i], 1);
		exponent_agreed = own > exponent_agreed ? own : exponent_agreed;
		exact += (long double)src[i];
	}
	quant_scale(&scale, workers, exponent_agreed);
	for (uint32_t i = 0; i < workers; i++) {
		int32_t lane;
		quant_scalar.pack_f32(&lane, &src[i], 1, &scale);
		sum += lane;
	}
	assert_true(llabs(sum) <= INT32_MAX);

	float dst;
	quant_scalar.unpack_f32(&dst, &(int32_t){ (int32_t)sum }, 1, &scale, false);
	if (dst - dst != 0)
		return; /* beyond FLT_MAX */
	long double error = exact > (long double)dst ? exact - (long double)dst
						     : (long double)dst - exact;
	long double size = dst < 0 ? -(long double)dst : (long double)dst;
	long double half_ulp = power_of_two(-150);
	while (half_ulp * power_of_two(25) <= size)
		half_ulp *= 2;
	/* The sum of the few terms in long double is itself off by a 2^-63 of the largest. */
	long double slack = power_of_two((int)exponent_agreed - 126 - 60);
	assert_true(error <= workers * power_of_two(-scale.shift) + half_ulp + slack);
}

static void quant__error_is_within_the_bound(void **state)
{
	static const uint32_t workers[] = { 1, 2, 3, 5, 7, 8, 13 };
	(void)state;

	for (uint32_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++)
		for (uint32_t exponent = 0; exponent <= EXPONENT_MAX; exponent++)
			for (int j = 0; j < 10; j++)
				check_error(workers[i], exponent);
}

static void quant__int32_is_copied_and_flagged_iff_beyond_the_bound(void **state)
{
	(void)state;
	for (int i = 0; i < 20 * SAMPLES; i++) {
		uint32_t workers = random_below(2)
					   ? workers_of_interest[random_below(WORKERS_OF_INTEREST)]
					   : 1 + random_below(WORKERS_MAX);
		int64_t bound = (int64_t)expected_bound(workers);
		int32_t src[BLOCK], lane[BLOCK + 1];
		size_t count = random_below(BLOCK + 1);
		bool is_beyond = false;
		for (size_t j = 0; j < count; j++) {
			int64_t x = bound - 2 + (int64_t)random_below(3);
			x = random_below(40) ? x : x + 2;
			src[j] = (int32_t)(random_below(2) ? -x : x > INT32_MAX ? INT32_MAX : x);
			is_beyond = is_beyond || llabs(src[j]) > bound;
		}
		lane[count] = -7;
		assert_int_equal(quant_scalar.pack_i32(lane, src, count, quant_bound(workers)),
				 is_beyond ? WIRE_RANGE : 0);
		assert_memory_equal(lane, src, count * sizeof(src[0]));
		assert_int_equal(lane[count], -7);
	}
	int32_t lane;
	assert_int_equal(quant_scalar.pack_i32(&lane, &(int32_t){ INT32_MIN }, 1, INT32_MAX),
			 WIRE_RANGE);
	assert_int_equal(quant_scalar.pack_i32(&lane, &(int32_t){ -INT32_MAX }, 1, INT32_MAX), 0);
	assert_int_equal(quant_scalar.pack_i32(&lane, &(int32_t){ INT32_MAX }, 1, INT32_MAX), 0);
}

static void quant__int32_average_truncates_toward_zero(void **state)
{
	(void)state;
	for (int i = 0; i < 20 * SAMPLES; i++) {
		int32_t workers = (int32_t)(1 + random_below(random_below(2) ? 16 : WORKERS_MAX));
		int32_t lane[BLOCK], dst[BLOCK + 1];
		size_t count = random_below(BLOCK + 1);
		for (size_t j = 0; j < count; j++)
			lane[j] = random_lane();
		dst[count] = -7;
		quant_scalar.unpack_i32(dst, lane, count, (uint32_t)workers, true);
		assert_int_equal(dst[count], -7);
		for (size_t j = 0; j < count; j++) {
			int64_t magnitude = llabs(lane[j]) / workers;
			assert_int_equal(dst[j], lane[j] < 0 ? -magnitude : magnitude);
		}
	}
}

static void quant__int32_sum_is_copied(void **state)
{
	const int32_t lane[4] = { INT32_MIN, -1, 0, INT32_MAX };
	int32_t dst[5] = { 1, 1, 1, 1, 42 };
	(void)state;

	quant_scalar.unpack_i32(dst, lane, 4, 3, false);
	assert_memory_equal(dst, lane, sizeof(lane));
	assert_int_equal(dst[4], 42);
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);

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
		RANDOM(quant__unpack_rounds_once),
		RANDOM(quant__average_rounds_once),
		cmocka_unit_test(quant__average_of_a_tie_goes_to_even),
		cmocka_unit_test(quant__sum_beyond_float_becomes_infinite),
		RANDOM(quant__error_is_within_the_bound),
		RANDOM(quant__int32_is_copied_and_flagged_iff_beyond_the_bound),
		RANDOM(quant__int32_average_truncates_toward_zero),
		cmocka_unit_test(quant__int32_sum_is_copied),
	};
	return cmocka_run_group_tests_name("core-quant", tests, NULL, NULL);
}
