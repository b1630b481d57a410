/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/quant.h"
#include "sim/oracle.h"

enum { COUNT = 5000, WORKERS = 3, LANES = 64 };

static uint32_t sources[WORKERS][COUNT];
static const void *const source_list[] = { sources[0], sources[1], sources[2] };

static bool verify(const struct scenario_op *op, const void *result)
{
	char text[ORACLE_TEXT];

	return oracle_verify(op, WORKERS, LANES, source_list, result, text);
}

static struct scenario_op op_make(enum lanes_type type, bool is_avg, uint64_t count)
{
	return (struct scenario_op){ .type = type,
				     .op = is_avg ? LANES_AVG : LANES_SUM,
				     .count = count };
}

static void oracle__int32_saturates_and_avg_truncates_toward_zero(void **state)
{
	struct scenario_op sum = op_make(LANES_INT32, false, 3);
	struct scenario_op avg = op_make(LANES_INT32, true, 3);
	int32_t result[3];

	(void)state;
	for (uint32_t w = 0; w < WORKERS; w++) {
		sources[w][0] = INT32_MAX;
		sources[w][1] = 0x80000000;
		sources[w][2] = w ? 0 : (uint32_t)-5;
	}
	memcpy(result, (int32_t[]){ INT32_MAX, INT32_MIN, -5 }, sizeof(result));
	assert_true(verify(&sum, result));
	result[2] = -6;
	assert_false(verify(&sum, result));
	memcpy(result, (int32_t[]){ INT32_MAX, INT32_MIN, -1 }, sizeof(result));
	assert_true(verify(&avg, result));
	result[2] = -2;
	assert_false(verify(&avg, result));
}

static void floats_set(uint32_t at, float a, float b, float c)
{
	memcpy(&sources[0][at], &a, 4);
	memcpy(&sources[1][at], &b, 4);
	memcpy(&sources[2][at], &c, 4);
}

static void oracle__infinities_and_nan_are_exact(void **state)
{
	struct scenario_op op = op_make(LANES_FLOAT32, false, 4);
	float result[] = { INFINITY, -INFINITY, NAN, NAN };

	(void)state;
	floats_set(0, INFINITY, 1, 2);
	floats_set(1, 1, -INFINITY, 2);
	floats_set(2, INFINITY, -INFINITY, 2);
	floats_set(3, NAN, 1, INFINITY);
	assert_true(verify(&op, result));
	for (uint32_t i = 0; i < 4; i++) {
		float kept = result[i];
		result[i] = i < 2 ? -kept : INFINITY;
		assert_false(verify(&op, result));
		result[i] = 3;
		assert_false(verify(&op, result));
		result[i] = kept;
	}
}

/* 3 workers, largest magnitude 1.0: E = 127, s = 31 - 2 - 1 = 28; in a chunk without it 2^-20 is the largest:
 * E = 107, s = 48. */
static void oracle__float32_is_that_of_the_chunk_to_the_bit(void **state)
{
	struct scenario_op op = op_make(LANES_FLOAT32, false, 2 * LANES);
	struct scenario_op avg = op_make(LANES_FLOAT32, true, 2 * LANES);
	static float result[2 * LANES];

	(void)state;
	for (uint32_t i = 0; i < 2 * LANES; i++) {
		floats_set(i, 0, 0, i == 0 ? 1 : 0x1.008p-20f); /* 256.5 * 2^-28: to even */
		result[i] = i == 0 ? 1 : i < LANES ? 0x1p-20f : 0x1.008p-20f;
	}
	assert_true(verify(&op, result));
	assert_false(verify(&avg, result));
	result[1] = 0x1.01p-20f; /* rounded up */
	assert_false(verify(&op, result));
	result[1] = 0x1p-20f;
	result[LANES] = 0x1p-20f; /* the second chunk has no 1.0 in it */
	assert_false(verify(&op, result));
	for (uint32_t i = 0; i < 2 * LANES; i++)
		result[i] = i == 0 ? (float)(1.0 / 3)
				   : (float)((i < LANES ? 0x1p-20 : 0x1.008p-20) / 3);
	assert_true(verify(&avg, result));
}

static void oracle__sum_of_one_is_its_bits(void **state)
{
	static const uint32_t odd[] = { 0x80000000, 0x7fc00001, 0xff800000, 1 };
	struct scenario_op op = op_make(LANES_FLOAT32, true, 4);
	const void *one[] = { odd };
	char text[ORACLE_TEXT];
	uint32_t result[4];

	(void)state;
	memcpy(result, odd, sizeof(odd));
	assert_true(oracle_verify(&op, 1, LANES, one, result, text));
	for (uint32_t i = 0; i < 4; i++) {
		result[i] ^= 1;
		assert_false(oracle_verify(&op, 1, LANES, one, result, text));
		result[i] ^= 1;
	}
}

static void oracle__sum_beyond_range_is_infinite(void **state)
{
	struct scenario_op op = op_make(LANES_FLOAT32, false, 1);
	float result = INFINITY;

	(void)state;
	floats_set(0, 0x1.8p127f, 0x1.8p127f, 0);
	assert_true(verify(&op, &result));
	result = 0x1.fffffep127f;
	assert_false(verify(&op, &result));
}

/* Half of all operations have everything in them: the simulator would else prove little. */
static void oracle__contents_have_all_kinds_of_numbers(void **state)
{
	uint32_t nan = 0, infinite = 0, zero = 0, denormal = 0, negative = 0, beyond = 0;
	struct scenario_op op = { .count = COUNT };

	(void)state;
	for (op.data = 1; op.data <= 8; op.data++) {
		op.type = LANES_FLOAT32;
		oracle_fill(&op, 0, sources[0]);
		for (uint32_t i = 0; i < COUNT; i++) {
			float x;
			memcpy(&x, &sources[0][i], 4);
			nan += isnan(x) != 0;
			infinite += isinf(x) != 0;
			zero += fpclassify(x) == FP_ZERO;
			denormal += fpclassify(x) == FP_SUBNORMAL;
			negative += x < 0;
		}
		op.type = LANES_INT32;
		oracle_fill(&op, 1, sources[1]);
		for (uint32_t i = 0; i < COUNT; i++)
			beyond += (int32_t)sources[1][i] > quant_bound(WORKERS);
	}
	assert_true(nan > 50);
	assert_true(infinite > 50);
	assert_true(zero > 50);
	assert_true(denormal > 50);
	assert_true(negative > 5000);
	assert_true(beyond > 50);
}

/* R-WK-13 */
static void oracle__gather_has_what_is_wanted_of_its_owners(void **state)
{
	struct scenario_op op = { .type = LANES_UINT8, .op = LANES_COPY, .count = COUNT };
	uint32_t empty = 0, idle = 0, kept = 0, straddled = 0;
	static uint8_t result[COUNT];
	struct scenario_parts parts;

	(void)state;
	for (op.parts = 1; op.parts <= 200; op.parts++) {
		scenario_parts(&op, WORKERS, &parts);
		assert_in_range(parts.count, 1, WORKERS);
		assert_int_equal(parts.ends[parts.count - 1], COUNT);
		for (uint32_t w = 0; w < WORKERS; w++) {
			memset(sources[w], (int)w + 1, sizeof(sources[w]));
			idle += parts.mine[w] == parts.count;
		}
		memset(result, 9, COUNT);
		oracle_gather(&op, WORKERS, 0, source_list, result);
		for (uint32_t i = 0, piece = 0; i < COUNT; i++) {
			while (parts.pieces[piece] <= i)
				piece++;
			kept += result[i] == 9;
			if (parts.wanted[0] >> piece & 1)
				assert_int_equal(parts.mine[result[i] - 1], piece / 2);
			else
				assert_int_equal(result[i], 9);
		}
		for (uint32_t p = 1; p < parts.count; p++) {
			empty += parts.ends[p] == parts.ends[p - 1];
			straddled += parts.ends[p] / LANES == parts.ends[p - 1] / LANES;
		}
	}
	assert_in_range(idle, 100, 300);
	assert_in_range(empty, 5, 100);
	assert_true(straddled > empty + 20);
	assert_in_range(kept, 100000, 400000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(oracle__int32_saturates_and_avg_truncates_toward_zero),
		cmocka_unit_test(oracle__infinities_and_nan_are_exact),
		cmocka_unit_test(oracle__float32_is_that_of_the_chunk_to_the_bit),
		cmocka_unit_test(oracle__sum_of_one_is_its_bits),
		cmocka_unit_test(oracle__sum_beyond_range_is_infinite),
		cmocka_unit_test(oracle__contents_have_all_kinds_of_numbers),
		cmocka_unit_test(oracle__gather_has_what_is_wanted_of_its_owners),
	};

	return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
