/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DETAIL rounds: what the lanes of a DATA round could not say (R-NUM-4, R-NUM-6).
 */
#include <float.h>

#include "tests/random.h"

#include "core/shared/quant_fixture.h"

enum { SAMPLES = 200, BLOCK = 64 };

static void quant__detail_of_floats_counts_infinities(void **state)
{
	const float src[6] = { infinity, -infinity, __builtin_nanf(""), -__builtin_nanf("7"),
			       -FLT_MAX, 0.0f };
	const int32_t expected[6] = { 1, 1 << 16, 0x10001, 0x10001, 0, 0 };
	int32_t lane[6];
	(void)state;

	quant_detail_pack_f32(lane, src, 6);
	assert_memory_equal(lane, expected, sizeof(lane));
}

static void quant__detail_of_floats_amends_as_ieee_adds(void **state)
{
	(void)state;
	for (int i = 0; i < 50 * SAMPLES; i++) {
		uint32_t workers = 1 + random_below(8);
		uint32_t sum = 0;
		float expected = 0;
		bool is_finite = true;
		for (uint32_t j = 0; j < workers; j++) {
			float src = random_below(3)   ? random_sign(1.0f)
				    : random_below(4) ? random_sign(infinity)
						      : __builtin_nanf("");
			int32_t lane;
			quant_detail_pack_f32(&lane, &src, 1);
			sum += (uint32_t)lane;
			expected += src;
			is_finite = is_finite && src - src == 0;
		}
		float dst = -123.0f;
		quant_detail_amend_f32(&dst, &(int32_t){ (int32_t)sum }, 1);
		if (is_finite)
			assert_true(dst == -123.0f);
		else if (expected != expected)
			assert_int_equal(bits_of(dst), 0x7fc00000);
		else
			assert_true(dst == expected);
	}
}

static void quant__detail_of_65535_workers_does_not_carry(void **state)
{
	static const uint32_t sums[6] = {
		65535u, 65535u << 16, 65535u * 0x10001u, 65534u | 1u << 16, 1u << 15, 1u << 31
	};
	int32_t lane[6];
	float dst[6] = { 1, 1, 1, 1, 1, 1 };
	(void)state;

	memcpy(lane, sums, sizeof(lane));
	quant_detail_amend_f32(dst, lane, 6);
	assert_true(dst[0] == infinity);
	assert_true(dst[1] == -infinity);
	assert_int_equal(bits_of(dst[2]), 0x7fc00000);
	assert_int_equal(bits_of(dst[3]), 0x7fc00000);
	assert_true(dst[4] == infinity);
	assert_true(dst[5] == -infinity);
}

/* Adds `workers` elements as the switch does: lanes wrap. Returns how many should be saturated. */
static uint64_t sum_wrapped(int32_t *sum, int32_t *detail_sum, int32_t *expected, uint32_t workers,
			    bool is_avg)
{
	__int128 exact = 0;
	uint32_t wrapped = 0, wrapped_detail = 0;
	bool is_extreme = random_below(4) == 0;
	int32_t extreme = random_below(2) ? INT32_MIN : INT32_MAX;

	for (uint32_t i = 0; i < workers; i++) {
		int32_t src = is_extreme ? extreme : random_lane(), lane;
		quant_detail_pack_i32(&lane, &src, 1);
		wrapped += (uint32_t)src;
		wrapped_detail += (uint32_t)lane;
		exact += src;
	}
	*sum = (int32_t)wrapped;
	*detail_sum = (int32_t)wrapped_detail;
	if (is_avg)
		exact = exact < 0 ? -(-exact / workers) : exact / workers;
	*expected = exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : (int32_t)exact;
	return exact != *expected;
}

static void check_detail_i32(uint32_t workers, bool is_avg)
{
	int32_t dst[BLOCK + 1], lane[BLOCK], expected[BLOCK];
	uint64_t saturated = 0;
	size_t count = workers > 100 ? 2 : random_below(BLOCK + 1);

	for (size_t i = 0; i < count; i++)
		saturated += sum_wrapped(&dst[i], &lane[i], &expected[i], workers, is_avg);
	dst[count] = -7;
	assert_int_equal(quant_detail_amend_i32(dst, lane, count, workers, is_avg), saturated);
	assert_int_equal(dst[count], -7);
	assert_memory_equal(dst, expected, count * sizeof(dst[0]));
	if (is_avg)
		assert_int_equal(saturated, 0);
}

static void quant__detail_of_int32_gives_the_exact_sum_saturated(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * SAMPLES; i++)
		check_detail_i32(1 + random_below(16), false);
	for (int i = 0; i < 4; i++)
		check_detail_i32(WORKERS_MAX, false);
}

static void quant__detail_of_int32_gives_the_exact_average(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * SAMPLES; i++)
		check_detail_i32(1 + random_below(16), true);
	for (int i = 0; i < 4; i++)
		check_detail_i32(WORKERS_MAX, true);
}

static void quant__detail_of_int32_at_the_edges(void **state)
{
	enum { MAX = INT32_MAX, MIN = INT32_MIN };
	/* clang-format off */
	static const int32_t a[7] =        { MAX, MIN, MAX, MIN, MAX, MIN, MIN };
	static const int32_t b[7] =        { MAX, MIN,   1,  -1,   0,   0, MAX };
	static const int32_t expected[7] = { MAX, MIN, MAX, MIN, MAX, MIN,  -1 };
	/* clang-format on */
	int32_t lane_a[7], lane_b[7], dst[7];
	(void)state;

	quant_detail_pack_i32(lane_a, a, 7);
	quant_detail_pack_i32(lane_b, b, 7);
	for (int i = 0; i < 7; i++) {
		lane_a[i] += lane_b[i];
		dst[i] = (int32_t)((uint32_t)a[i] + (uint32_t)b[i]);
	}
	assert_int_equal(quant_detail_amend_i32(dst, lane_a, 7, 2, false), 4);
	assert_memory_equal(dst, expected, sizeof(dst));
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);

#define RANDOM(test) cmocka_unit_test_setup(test, restart_random)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quant__detail_of_floats_counts_infinities),
		RANDOM(quant__detail_of_floats_amends_as_ieee_adds),
		cmocka_unit_test(quant__detail_of_65535_workers_does_not_carry),
		RANDOM(quant__detail_of_int32_gives_the_exact_sum_saturated),
		RANDOM(quant__detail_of_int32_gives_the_exact_average),
		cmocka_unit_test(quant__detail_of_int32_at_the_edges),
	};
	return cmocka_run_group_tests_name("core-quant_detail", tests, NULL, NULL);
}
