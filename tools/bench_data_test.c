/* SPDX-License-Identifier: Apache-2.0 */
/* bench_data_test.c - a wrong sum is seen, a right one is not called wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/lanes.h"
#include "tally.h"
#include "tools/bench_data.h"

enum { COUNT = 5000, LANES = 360, RANKS = 5 };

static struct data_op op_of(bool is_float, bool is_avg)
{
	struct data_op op = { .seed = 7, .number = 3, .ranks = RANKS };

	op.dtype = is_float ? TALLY_FLOAT32 : TALLY_INT32;
	op.is_avg = is_avg;
	op.count = COUNT;
	return op;
}

/* The sum over all ranks, from what data_fill makes: not from what data_verify adds up. */
static void sum_make(const struct data_op *op, void *sum)
{
	static union {
		float floats[COUNT];
		int32_t ints[COUNT];
	} one;
	static double total[COUNT];
	double divisor = op->is_avg ? op->ranks : 1;

	memset(total, 0, sizeof(total));
	for (uint32_t rank = 0; rank < op->ranks; rank++) {
		data_fill(op, rank, &one);
		for (size_t i = 0; i < COUNT; i++)
			total[i] += (op->dtype == TALLY_FLOAT32) ? (double)one.floats[i]
								 : one.ints[i];
	}
	for (size_t i = 0; i < COUNT; i++) {
		if ((op->dtype == TALLY_FLOAT32))
			((float *)sum)[i] = (float)(total[i] / divisor);
		else
			((int32_t *)sum)[i] = (int32_t)(total[i] / divisor);
	}
}

static struct data_verdict verdict_of(const struct data_op *op, const void *sum)
{
	struct data_verdict verdict;

	assert_true(data_verify(op, LANES, sum, &verdict));
	return verdict;
}

static void verify__right_sums_are_right(void **state)
{
	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		struct data_op op = op_of(kind & 1, kind & 2);
		int32_t sum[COUNT];

		sum_make(&op, sum);
		assert_int_equal(verdict_of(&op, sum).wrong, 0);
	}
}

static bool is_right(struct data_op op, enum data_wire wire, const float *sum)
{
	op.wire = wire;
	return !verdict_of(&op, sum).wrong;
}

/* 16 bits may be further off, an exact sum not at all. */
static void verify__bound_is_that_of_what_travels(void **state)
{
	struct data_op op = op_of(true, false);
	float sum[COUNT], *least = sum;

	(void)state;
	sum_make(&op, (int32_t *)(void *)sum);
	for (size_t i = 0; i < COUNT; i++)
		least = fabsf(sum[i]) < fabsf(*least) ? &sum[i] : least;
	assert_true(is_right(op, DATA_EXACT, sum));
	*least = nextafterf(nextafterf(*least, 100), 100);
	assert_true(is_right(op, DATA_FREE, sum));
	assert_false(is_right(op, DATA_EXACT, sum));
	*least += 1e-4f;
	assert_true(is_right(op, DATA_HALF, sum));
	assert_false(is_right(op, DATA_FREE, sum));
	*least += 1;
	assert_false(is_right(op, DATA_HALF, sum));
}

static void verify__one_too_much_is_wrong(void **state)
{
	struct data_op op = op_of(false, false);
	int32_t sum[COUNT];
	struct data_verdict verdict;

	(void)state;
	sum_make(&op, sum);
	sum[COUNT - 1]++;
	sum[1234]--;
	verdict = verdict_of(&op, sum);
	assert_int_equal(verdict.wrong, 2);
	assert_int_equal(verdict.index, 1234);
	assert_true(verdict.want == verdict.got + 1);
}

/* Each element, inside and outside of the bound that is reported for it (of which rounding
 * to float32 is a part: so not closer). */
static void verify__floats_beyond_the_bound_are_wrong(void **state)
{
	struct data_op op = op_of(true, false);
	float sum[COUNT];

	(void)state;
	sum_make(&op, sum);
	for (size_t i = 0; i < COUNT; i += 97) {
		float right = sum[i];
		struct data_verdict verdict;

		sum[i] = right + 1;
		verdict = verdict_of(&op, sum);
		assert_int_equal(verdict.wrong, 1);
		assert_int_equal(verdict.index, i);
		for (uint32_t nearer = 0; nearer < 3; nearer++) { /* what rounding adds is less */
			sum[i] = (float)(verdict.want + 4 * verdict.bound);
			verdict = verdict_of(&op, sum);
			assert_int_equal(verdict.wrong, 1);
		}
		sum[i] = (float)(verdict.want + 0.5 * verdict.bound);
		assert_int_equal(verdict_of(&op, sum).wrong, 0);
		sum[i] = right;
	}
}

static void verify__nan_and_infinity_are_wrong(void **state)
{
	struct data_op op = op_of(true, false);
	float sum[COUNT];

	(void)state;
	sum_make(&op, sum);
	sum[5] = NAN;
	sum[6] = INFINITY;
	sum[7] = -INFINITY;
	assert_int_equal(verdict_of(&op, sum).wrong, 3);
}

static void verify__a_rank_left_out_is_wrong(void **state)
{
	struct data_op op = op_of(true, false), less = op;
	float sum[COUNT];

	(void)state;
	less.ranks--;
	sum_make(&less, sum);
	assert_in_range(verdict_of(&op, sum).wrong, COUNT * 9 / 10, COUNT);
}

static void verify__another_operation_is_wrong(void **state)
{
	struct data_op op = op_of(true, false), other = op;
	float sum[COUNT];

	(void)state;
	other.number++;
	sum_make(&other, sum);
	assert_in_range(verdict_of(&op, sum).wrong, COUNT * 9 / 10, COUNT);
}

static void verify__digest_tells_bits_apart(void **state)
{
	struct data_op op = op_of(true, false);
	float sum[COUNT];
	uint64_t digest;

	(void)state;
	sum_make(&op, sum);
	digest = verdict_of(&op, sum).digest;
	assert_true(digest == verdict_of(&op, sum).digest);
	sum[COUNT - 1] = nextafterf(sum[COUNT - 1], 0);
	assert_true(digest != verdict_of(&op, sum).digest);
}

/* ---- the other types: by core's own lanes, and what it makes of one bit more ---- */

static void other_sums(const struct data_op *op, void *sum)
{
	static _Alignas(8) uint8_t source[RANKS][8 * COUNT];
	static int32_t lane[RANKS][LANES], total[LANES];
	struct lanes_call call = { (enum lanes_type)op->dtype,
				   op->is_avg ? LANES_AVG : LANES_SUM,
				   LANES_FREE,
				   op->count,
				   op->ranks,
				   LANES,
				   0 };
	struct lanes lanes;
	uint32_t full;

	assert_true(lanes_choose(&lanes, &call, &quant_scalar));
	full = map_full(lanes.shape, LANES);
	for (uint32_t rank = 0; rank < op->ranks; rank++)
		data_fill(op, rank, source[rank]);
	for (size_t at = 0; at < op->count; at += full) {
		uint32_t count = op->count - at < full ? (uint32_t)(op->count - at) : full;
		uint32_t exponent = 0;

		memset(total, 0, sizeof(total));
		for (uint32_t rank = 0; rank < op->ranks && lanes.way->exponent; rank++) {
			uint32_t own =
				lanes.way->exponent(&lanes, source[rank] + at * lanes.bytes, count);

			exponent = own > exponent ? own : exponent;
		}
		for (uint32_t rank = 0; rank < op->ranks; rank++) {
			lanes.way->pack(&lanes, lane[rank], source[rank] + at * lanes.bytes, count,
					exponent);
			for (uint32_t i = 0; i < map_lanes(lanes.shape, count); i++)
				total[i] += lane[rank][i];
		}
		lanes.way->unpack(&lanes, (uint8_t *)sum + at * lanes.bytes, total, count, exponent,
				  false);
	}
}

static void verify__knows_all_types(void **state)
{
	static _Alignas(8) uint8_t sum[8 * COUNT];

	(void)state;
	for (int i = 0; i < 2 * (TALLY_BFLOAT16 + 1); i++) {
		int dtype = i / 2;
		struct data_op op = op_of(false, i % 2);
		struct data_verdict verdict;

		op.dtype = dtype;
		other_sums(&op, sum);
		verdict = verdict_of(&op, sum);
		assert_int_equal(verdict.wrong, 0);
		/* The last byte has the sign, or what counts most. */
		sum[(size_t)(COUNT / 2) * data_bytes(dtype) - 1] ^= 0x42;
		verdict = verdict_of(&op, sum);
		assert_int_equal(verdict.wrong, 1);
		assert_int_equal(verdict.index, COUNT / 2 - 1);
		assert_true(verdict.got != verdict.want);
	}
}

static void fill__both_signs_and_many_exponents(void **state)
{
	struct data_op op = op_of(true, false);
	float one[COUNT];
	int negative = 0, exponent_min = 1000, exponent_max = -1000;

	(void)state;
	data_fill(&op, 0, one);
	for (size_t i = 0; i < COUNT; i++) {
		int exponent;

		frexpf(one[i], &exponent);
		negative += one[i] < 0;
		exponent_min = exponent < exponent_min ? exponent : exponent_min;
		exponent_max = exponent > exponent_max ? exponent : exponent_max;
	}
	assert_in_range(negative, COUNT * 2 / 5, COUNT * 3 / 5);
	assert_in_range(exponent_max - exponent_min, 8, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verify__right_sums_are_right),
		cmocka_unit_test(verify__bound_is_that_of_what_travels),
		cmocka_unit_test(verify__one_too_much_is_wrong),
		cmocka_unit_test(verify__floats_beyond_the_bound_are_wrong),
		cmocka_unit_test(verify__nan_and_infinity_are_wrong),
		cmocka_unit_test(verify__a_rank_left_out_is_wrong),
		cmocka_unit_test(verify__another_operation_is_wrong),
		cmocka_unit_test(verify__digest_tells_bits_apart),
		cmocka_unit_test(verify__knows_all_types),
		cmocka_unit_test(fill__both_signs_and_many_exponents),
	};

	return cmocka_run_group_tests_name("bench_data", tests, NULL, NULL);
}
