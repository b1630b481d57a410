/* SPDX-License-Identifier: Apache-2.0 */
/* By hand. Draws of everything are compared with a second reading: tests/interop/lanes.py. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/lanes.h"
#include "core/shared/quant_exact.h"
#include "tests/random.h"

enum { PACKET = 360, RANKS = 4 };

/* As a big operation has it, or one of `count` elements. */
static struct lanes chosen(enum lanes_type type, enum lanes_op op, uint32_t workers, uint64_t count)
{
	struct lanes_call call = { type, op, LANES_FREE, count, workers, PACKET, 0 };
	struct lanes lanes;

	assert_true(lanes_choose(&lanes, &call, &quant_scalar));
	return lanes;
}

/* What `workers` ranks get, the rank's elements being source + rank * count elements. Saturated ones are counted. */
static uint64_t all_get(const struct lanes *lanes, void *result, const void *source, uint32_t count)
{
	uint32_t fills = map_lanes(lanes->shape, count), exponent = 0;
	const uint8_t *from = source;
	size_t bytes = (size_t)count * lanes->bytes;
	int32_t sum[PACKET] = { 0 }, lane[PACKET];
	uint8_t flags = 0;
	uint64_t saturated;

	assert_true(fills <= PACKET);
	for (uint32_t rank = 0; rank < lanes->workers && lanes->way->exponent; rank++) {
		uint32_t own = lanes->way->exponent(lanes, from + rank * bytes, count);

		exponent = own > exponent ? own : exponent;
	}
	for (uint32_t rank = 0; rank < lanes->workers; rank++) {
		flags |= lanes->way->pack(lanes, lane, from + rank * bytes, count, exponent);
		for (uint32_t i = 0; i < fills; i++) {
			bool is_more = !rank || lane[i] > sum[i];

			if (lanes->lane_op != WIRE_MAX)
				sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)lane[i]);
			else if (is_more)
				sum[i] = lane[i];
		}
	}
	saturated = lanes->way->unpack(lanes, result, sum, count, exponent, flags);
	if (!flags)
		return saturated;
	memset(sum, 0, sizeof(sum));
	for (uint32_t rank = 0; rank < lanes->workers; rank++) {
		lanes->way->detail(lanes, lane, from + rank * bytes, count);
		for (uint32_t i = 0; i < fills; i++)
			sum[i] += lane[i];
	}
	return lanes->way->amend(lanes, result, sum, count);
}

static void check_shape(enum lanes_type type, uint32_t workers, uint32_t elements, uint32_t fills)
{
	struct lanes lanes = chosen(type, LANES_SUM, workers, 1000000);

	assert_int_equal(lanes.shape.elements, elements);
	assert_int_equal(lanes.shape.lanes, fills);
}

static void lanes__shapes_are_as_the_rules_say(void **state)
{
	(void)state;
	check_shape(LANES_INT8, 65535, 1, 1);
	check_shape(LANES_UINT32, 2, 1, 1);
	check_shape(LANES_FLOAT32, 2, 1, 1);
	check_shape(LANES_FLOAT16, 16, 2, 1);
	check_shape(LANES_FLOAT16, 17, 1, 1);
	check_shape(LANES_BFLOAT16, 128, 2, 1);
	check_shape(LANES_BFLOAT16, 129, 1, 1);
	check_shape(LANES_FLOAT64, 8, 1, 2);
	check_shape(LANES_FLOAT64, 9, 1, 3);
	check_shape(LANES_FLOAT64, 65535, 1, 4);
	check_shape(LANES_INT64, 512, 1, 3);
	check_shape(LANES_UINT64, 513, 1, 4);
	check_shape(LANES_INT64, 65535, 1, 5);
	check_shape(LANES_INT8, 1, 4, 1); /* bits of one worker */
	check_shape(LANES_BFLOAT16, 1, 2, 1);
	check_shape(LANES_INT32, 1, 1, 1);
	check_shape(LANES_FLOAT64, 1, 1, 2);
}

static void lanes__what_cannot_be_done_is_refused(void **state)
{
	struct lanes_call call = { LANES_FLOAT32, LANES_PROD, LANES_FREE, 8, 2, PACKET, 0 };
	struct lanes lanes;

	(void)state;
	assert_false(lanes_choose(&lanes, &call, &quant_scalar));
	call.op = LANES_MAX;
	for (uint32_t type = 0; type < LANES_TYPES; type++) {
		call.type = (enum lanes_type)type;
		assert_int_equal(lanes_choose(&lanes, &call, &quant_scalar),
				 lanes_bytes(call.type) < 8);
	}
	call = (struct lanes_call){ LANES_INT64, LANES_SUM, LANES_FREE, 8, 65535, 4, 0 };
	assert_false(lanes_choose(&lanes, &call, &quant_scalar)); /* 5 lanes */
	call.lanes = 8;
	assert_true(lanes_choose(&lanes, &call, &quant_scalar));
	call = (struct lanes_call){
		LANES_INT64, LANES_SUM, LANES_FREE, 0, 65535, 4, 0
	}; /* of nothing */
	assert_true(lanes_choose(&lanes, &call, &quant_scalar));
	assert_int_equal(map_full(lanes.shape, 4), 4);
}

/* R-NUM-13: as many as fit a packet. */
static void lanes__few_floats_are_exact(void **state)
{
	struct lanes lanes = chosen(LANES_FLOAT32, LANES_SUM, 4, 36);
	const float source[4] = { 1e9f, 1e-3f, 0.5f, 3 };
	float result;

	(void)state;
	assert_true(lanes.is_exact);
	assert_int_equal(lanes.shape.lanes, 10);
	assert_null(lanes.way->exponent);
	all_get(&lanes, &result, source, 1);
	assert_true(result == (float)(1e9 + 1e-3 + 0.5 + 3));
	assert_false(chosen(LANES_FLOAT32, LANES_SUM, 4, 37).is_exact);
	assert_true(chosen(LANES_FLOAT64, LANES_AVG, 4, 4).is_exact); /* 73 lanes each */
	assert_false(chosen(LANES_FLOAT64, LANES_AVG, 4, 5).is_exact);
	assert_true(chosen(LANES_FLOAT16, LANES_SUM, 4, 180).is_exact);
	assert_false(chosen(LANES_FLOAT16, LANES_SUM, 4, 181).is_exact);
	assert_false(chosen(LANES_INT32, LANES_SUM, 4, 1).is_exact);
	assert_false(chosen(LANES_FLOAT32, LANES_MAX, 4, 1).is_exact);
	assert_false(chosen(LANES_FLOAT32, LANES_SUM, 4, 0).is_exact);
}

/* R-NUM-13: the digit of each row, seen by a float that has this digit alone. */
static void exact_rows(enum lanes_type type, uint32_t workers, const char *digits)
{
	struct lanes lanes = chosen(type, LANES_SUM, workers, 3);
	int32_t lane[PACKET], shift = ieee_shift(lanes.form);

	assert_int_equal(strlen(digits), lanes.shape.lanes);
	assert_int_equal(lanes.lane_op, WIRE_ADD_SHORT);
	for (uint32_t row = 0; digits[row]; row++) {
		int32_t power = (digits[row] - '0') * lanes.wide.bits - shift;
		float x[3] = { 0, ldexpf(1, power), 0 };
		uint16_t bits[3] = { 0, (uint16_t)(power + 15 > 0 ? (power + 15) << 10 : 1), 0 };

		lanes.way->pack(&lanes, lane, type == LANES_FLOAT32 ? (void *)x : bits, 3, 0);
		for (uint32_t i = 0; i < 3 * lanes.shape.lanes; i++)
			assert_int_equal(lane[i] != 0, i == 3 * row + 1);
	}
}

static void lanes__exact_digits_lie_in_rows_the_usual_ones_first(void **state)
{
	(void)state;
	exact_rows(LANES_FLOAT32, 2, "4536271809");      /* 30 bits: 1 is 2^149 */
	exact_rows(LANES_FLOAT32, 8, "4536271809");      /* 28 */
	exact_rows(LANES_FLOAT32, 256, "6758493:2;1<0"); /* 23 */
	exact_rows(LANES_FLOAT16, 2, "01");
}

/* The loops of quant_exact.h do nothing: each element is looked at by itself. */
static size_t none_is_quick(float *dst, const int32_t *lane, size_t first, size_t count,
			    uint32_t digits, uint32_t bits)
{
	(void)dst, (void)lane, (void)count, (void)digits, (void)bits;
	return first;
}

/* Most near one another; some 0, or, if there are such, elsewhere. */
static float any_near(uint32_t about, bool has_far)
{
	uint32_t kind = has_far ? random_below(16) : 1 + random_below(15),
		 exponent = kind ? about + random_below(40) : random_below(254);
	uint32_t bits = random_below(2) << 31 | (exponent < 254 ? exponent : 254) << 23 |
			random_below(1 << 23);
	float x;

	memcpy(&x, &bits, sizeof(x));
	return kind == 1 ? 0 : kind == 2 ? 2 : x;
}

/* The one that is not 1 is in one of the first three rows, or 0. */
static void lanes__usual_floats_need_three_rows(void **state)
{
	enum { COUNT = QUANT_EXACT_NEAR + 3 };
	int32_t lane[3 * COUNT];
	float source[COUNT];

	(void)state;
	for (uint32_t run = 0; run < 8 * 512; run++) {
		uint32_t bits = QUANT_EXACT_BITS_MIN + run % 8, biased = run / 8 % 256;
		uint32_t fraction = random_below(3) ? random_below(1 << 23) : random_below(2);
		uint32_t element = random_below(2) << 31 | biased << 23 | fraction;
		uint32_t digit = biased ? (biased - 1) / bits : 0, usual = (149 + 12) / bits;
		bool is_usual = digit == usual - 1 || digit == usual - 2 || element << 1 == 0;

		for (uint32_t i = 0; i < COUNT; i++)
			source[i] = 1;
		memcpy(&source[random_below(COUNT)], &element, sizeof(element));
		assert_int_equal(quant_exact_pack_few(lane, source, COUNT, bits), is_usual);
	}
}

static void lanes__sums_in_three_rows_are_usual(void **state)
{
	enum { COUNT = QUANT_EXACT_NEAR + 3, DIGITS = 10, BITS = 29 };
	int32_t lane[COUNT * DIGITS] = { 0 };
	float sum[COUNT];

	(void)state;
	for (uint32_t i = 0; i < COUNT * DIGITS; i++) {
		lane[i] = i % 2 ? 1 : -1;
		assert_int_equal(quant_exact_few_rows(sum, lane, COUNT, DIGITS, BITS),
				 i < 3 * COUNT);
		lane[i] = 0;
	}
}

static void lanes__exact_sums_are_the_same_together_and_one_by_one(void **state)
{
	static const uint32_t ranks[] = { 2, 3, 8, 100, 256 };
	struct quant_ops slow = quant_scalar;

	(void)state;
	slow.unpack_exact = none_is_quick;
	for (uint32_t run = 0; run < 5000; run++) {
		uint32_t count = 1 + random_below(27), about = random_below(254);
		struct lanes lanes = chosen(LANES_FLOAT32, LANES_SUM, ranks[run % 5], count);
		struct lanes alone = chosen(LANES_FLOAT32, LANES_AVG, ranks[run % 5], count);
		int32_t lane[PACKET], other[PACKET], sum[PACKET] = { 0 };
		float source[27], quick[27], one[27];

		for (uint32_t rank = 0; rank < 2; rank++) {
			for (uint32_t i = 0; i < count; i++) /* some nearly cancel */
				source[i] = rank && !random_below(4) ? nextafterf(-source[i], 0)
								     : any_near(about, run % 2);
			assert_int_equal(lanes.way->pack(&lanes, lane, source, count, 0),
					 alone.way->pack(&alone, other, source, count, 0));
			assert_memory_equal(lane, other,
					    map_lanes(lanes.shape, count) * sizeof(*lane));
			for (uint32_t i = 0; i < map_lanes(lanes.shape, count); i++)
				sum[i] += lane[i];
		}
		lanes.way->unpack(&lanes, quick, sum, count, 0, false);
		lanes.quant = &slow;
		lanes.way->unpack(&lanes, one, sum, count, 0, false);
		assert_memory_equal(quick, one, count * sizeof(*one));
	}
}

/* R-NUM-15 */
static void lanes__forms_are_what_the_caller_says(void **state)
{
	struct lanes_call call = { LANES_FLOAT32, LANES_SUM, LANES_HALF, 1000000, 16, PACKET, 0 };
	struct lanes lanes;

	(void)state;
	assert_true(lanes_choose(&lanes, &call, &quant_scalar));
	assert_int_equal(map_full(lanes.shape, PACKET), 2 * PACKET);
	call.workers = 17;
	assert_false(lanes_choose(&lanes, &call, &quant_scalar));
	call.form = LANES_EXACT;
	assert_true(lanes_choose(&lanes, &call, &quant_scalar));
	assert_true(lanes.is_exact);
	call.lanes = 8;
	assert_false(lanes_choose(&lanes, &call, &quant_scalar)); /* 11 lanes */
}

/* R-NUM-16: 3 ranks, and 2^3 is above all that is to come. */
static void lanes__fixed_scale_asks_for_no_exponent_and_flags_what_is_above(void **state)
{
	struct lanes_call call = { LANES_FLOAT32, LANES_SUM, LANES_FIXED, 1000, 3, PACKET, 129 };
	const float source[9] = { 7.75f, 0x1p-26f, 0x1p-27f, -7.5f,    -0x1p-25f,
				  0,     1,        0x1p-26f, -0x1p-26f };
	const float above[12] = { -8,        8, FLT_MAX, INFINITY,      1,  -8, 1,
				  0x1p-149f, 1, 1,       0x1.fffffep2f, NAN };
	const float large[6] = { 8, 1, 1, -2, 1, 3 }; /* all are finite */
	float result[4];
	struct lanes lanes;

	(void)state;
	assert_true(lanes_choose(&lanes, &call, &quant_scalar));
	assert_null(lanes.way->exponent);
	assert_int_equal(all_get(&lanes, result, large, 2), 1);
	assert_true(isinf(result[0]) && result[1] == 2);
	assert_int_equal(map_full(lanes.shape, PACKET), PACKET);
	assert_int_equal(all_get(&lanes, result, source, 3), 0);
	assert_true(result[0] == 1.25f && result[1] == 0 && result[2] == -0x1p-26f);
	assert_int_equal(all_get(&lanes, result, above, 4), 4);
	assert_true(isinf(result[0]) && result[0] < 0);
	assert_true(isnan(result[1])); /* above, from two sides */
	assert_true(isinf(result[2]) && result[2] > 0);
	assert_true(isnan(result[3]));
	call.op = LANES_AVG;
	assert_true(lanes_choose(&lanes, &call, &quant_scalar));
	assert_int_equal(all_get(&lanes, result, source, 3), 0);
	assert_true(result[0] == 1.25f / 3);
	for (uint32_t i = 0; i < 4; i++) { /* no float32 has the first and the last of these */
		const uint32_t exponents[] = { 0, 1, 254, 255 };

		call.exponent = exponents[i];
		assert_int_equal(lanes_choose(&lanes, &call, &quant_scalar), i == 1 || i == 2);
	}
	call.count = 36; /* exact, and no largest number */
	assert_true(lanes_choose(&lanes, &call, &quant_scalar));
	assert_true(lanes.is_exact);
}

static void lanes__cancellation_and_the_ends_of_the_range_are_exact(void **state)
{
	struct lanes lanes = chosen(LANES_FLOAT32, LANES_SUM, 4, 3);
	const float source[12] = { FLT_MAX,  0x1p-149f, 1,        FLT_MAX,  0x1p-149f, 0x1p-24f,
				   -FLT_MAX, 0,         0x1p-60f, -FLT_MAX, 0,         0 };
	float result[3];

	(void)state;
	all_get(&lanes, result, source, 3);
	assert_true(result[0] == 0);
	assert_true(result[1] == 0x1p-148f);
	assert_true(result[2] == 0x1.000002p0f); /* a tie but for 2^-60 */
}

static void lanes__exact_sums_know_infinities(void **state)
{
	struct lanes lanes = chosen(LANES_FLOAT64, LANES_SUM, 2, 3);
	const double source[6] = { HUGE_VAL, HUGE_VAL, 1, 2, -HUGE_VAL, DBL_MAX };
	double result[3];

	(void)state;
	all_get(&lanes, result, source, 3);
	assert_true(isinf(result[0]) && result[0] > 0);
	assert_true(isnan(result[1]));
	assert_true(result[2] == DBL_MAX);
}

/* R-NUM-9, R-NUM-10 */
static void lanes__integers_saturate_and_are_counted(void **state)
{
	const int8_t small[4] = { 100, -100, 100, -100 };
	const uint8_t bytes[4] = { 200, 1, 100, 1 };
	const uint32_t words[4] = { UINT32_MAX, 7, 1, 8 };
	const int64_t longs[4] = { INT64_MAX, INT64_MIN, 1, -1 };
	const uint64_t large[4] = { UINT64_MAX, 5, 1, 6 };
	uint64_t result[2];
	struct lanes lanes = chosen(LANES_INT8, LANES_SUM, 2, 2);

	(void)state;
	assert_int_equal(all_get(&lanes, result, small, 2), 2);
	assert_memory_equal(result, ((int8_t[]){ 127, -128 }), 2);
	lanes = chosen(LANES_UINT8, LANES_SUM, 2, 2);
	assert_int_equal(all_get(&lanes, result, bytes, 2), 1);
	assert_memory_equal(result, ((uint8_t[]){ 255, 2 }), 2);
	lanes = chosen(LANES_UINT32, LANES_SUM, 2, 2);
	assert_int_equal(all_get(&lanes, result, words, 2), 1);
	assert_memory_equal(result, ((uint32_t[]){ UINT32_MAX, 15 }), 8);
	lanes = chosen(LANES_UINT32, LANES_AVG, 2, 2);
	assert_int_equal(all_get(&lanes, result, words, 2), 0);
	assert_memory_equal(result, ((uint32_t[]){ 0x80000000, 7 }), 8);
	lanes = chosen(LANES_INT64, LANES_SUM, 2, 2);
	assert_int_equal(all_get(&lanes, result, longs, 2), 2);
	assert_memory_equal(result, ((int64_t[]){ INT64_MAX, INT64_MIN }), 16);
	lanes = chosen(LANES_INT64, LANES_AVG, 2, 2);
	assert_int_equal(all_get(&lanes, result, longs, 2), 0);
	assert_memory_equal(result, ((int64_t[]){ INT64_C(1) << 62, -(INT64_C(1) << 62) }), 16);
	lanes = chosen(LANES_UINT64, LANES_SUM, 2, 2);
	assert_int_equal(all_get(&lanes, result, large, 2), 1);
	assert_memory_equal(result, ((uint64_t[]){ UINT64_MAX, 11 }), 16);
}

/* R-NUM-11 */
static void lanes__two_halves_share_a_lane(void **state)
{
	struct lanes lanes = chosen(LANES_FLOAT16, LANES_SUM, 2, 100000);
	/* 1, -1, 0.5 and -2, -0.5, 1: what the low half borrows it gives back. */
	const uint16_t source[6] = { 0x3c00, 0xbc00, 0x3800, 0xc000, 0xb800, 0x3c00 };
	uint16_t result[3];
	int32_t lane[2];

	(void)state;
	assert_int_equal(lanes.way->exponent(&lanes, source, 6), 128);
	assert_int_equal(lanes.way->pack(&lanes, lane, source, 3, 128), 0);
	assert_int_equal(lane[0], 4096 - 4096 * 65536);
	assert_int_equal(lane[1], 2048);
	all_get(&lanes, result, source, 3);
	assert_memory_equal(result, ((uint16_t[]){ 0xbc00, 0xbe00, 0x3e00 }), 6);
}

static void lanes__halves_know_infinities(void **state)
{
	struct lanes lanes = chosen(LANES_BFLOAT16, LANES_AVG, 2, 100000);
	/* Inf and 1, NaN and 1, Inf and -Inf, 2 and 1 */
	const uint16_t source[8] = {
		0x7f80, 0x7fc1, 0x7f80, 0x4000, 0x3f80, 0x3f80, 0xff80, 0x3f80
	};
	uint16_t result[4];

	(void)state;
	all_get(&lanes, result, source, 4);
	assert_memory_equal(result, ((uint16_t[]){ 0x7f80, 0x7fc0, 0x7fc0, 0x3fc0 }), 8);
}

/* A sum of 31 bits that is no tie of float16, but would be one after it was rounded to float32. */
static void lanes__long_sums_are_rounded_once(void **state)
{
	struct lanes lanes = chosen(LANES_FLOAT16, LANES_SUM, 17, 100000);
	const int32_t lane =
		(1 << 25) + (1 << 14) + 1; /* 1 and half of float16's last bit, and 2^-25 */
	uint16_t result;

	(void)state;
	/* E of 127 + 31 - 5 - 25: lanes are of 2^-25. */
	lanes.way->unpack(&lanes, &result, &lane, 1, 127, false);
	assert_int_equal(result, 0x3c01);
}

/* R-NUM-14 */
static void lanes__least_and_largest_are_found(void **state)
{
	const float floats[8] = { -0.0f, NAN, -3, INFINITY, 0.0f, 1, -4, -INFINITY };
	const uint32_t words[4] = { UINT32_MAX, 0, 1, 7 };
	float result[4];
	uint32_t word[2];
	struct lanes lanes = chosen(LANES_FLOAT32, LANES_MIN, 2, 4);

	(void)state;
	all_get(&lanes, result, floats, 4);
	assert_true(signbit(result[0]) && result[0] == 0 && isnan(result[1]));
	assert_true(result[2] == -4 && isinf(result[3]) && result[3] < 0);
	lanes = chosen(LANES_FLOAT32, LANES_MAX, 2, 4);
	all_get(&lanes, result, floats, 4);
	assert_true(!signbit(result[0]) && result[0] == 0 && isnan(result[1]));
	assert_true(result[2] == -3 && isinf(result[3]) && result[3] > 0);
	lanes = chosen(LANES_UINT32, LANES_MAX, 2, 2);
	all_get(&lanes, word, words, 2);
	assert_memory_equal(word, ((uint32_t[]){ UINT32_MAX, 7 }), 8);
	lanes = chosen(LANES_UINT32, LANES_MIN, 2, 2);
	all_get(&lanes, word, words, 2);
	assert_memory_equal(word, ((uint32_t[]){ 1, 0 }), 8);
}

/* R-NUM-8: any bits; and what is left of the last lane is 0. */
static void lanes__one_worker_gets_its_bits(void **state)
{
	struct lanes lanes = chosen(LANES_BFLOAT16, LANES_AVG, 1, 3);
	const uint16_t source[3] = { 0x7f81, 0x8000, 0x0001 };
	int32_t lane[2] = { -1, -1 };
	uint16_t result[3];

	(void)state;
	assert_int_equal(lanes.way->pack(&lanes, lane, source, 3, 0), 0);
	assert_int_equal(lane[1], 1);
	all_get(&lanes, result, source, 3);
	assert_memory_equal(result, source, 6);
	lanes.way->pack(&lanes, lane, source, 0, 0);
}

/* R-NUM-12 */
static void lanes__float64_keeps_its_bound(void **state)
{
	struct lanes lanes = chosen(LANES_FLOAT64, LANES_SUM, 3, 100000);
	const double source[6] = { 1, 0x1p-58, 0x1p-57, 0x1p-59, -1, 0x1p-58 };
	double result[2];

	(void)state;
	all_get(&lanes, result, source, 2); /* 29 bits a digit: multiples of 2^-57, E being 1023 */
	assert_true(result[0] == 0x1p-57);
	assert_true(result[1] == 0); /* ties to even, and what is less than half */
}

#define RANDOM(test) cmocka_unit_test_setup(test, restart_random)

int main(int argc, char **argv)
{
	seed_take(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes__shapes_are_as_the_rules_say),
		cmocka_unit_test(lanes__what_cannot_be_done_is_refused),
		cmocka_unit_test(lanes__few_floats_are_exact),
		RANDOM(lanes__usual_floats_need_three_rows),
		cmocka_unit_test(lanes__sums_in_three_rows_are_usual),
		RANDOM(lanes__exact_sums_are_the_same_together_and_one_by_one),
		cmocka_unit_test(lanes__exact_digits_lie_in_rows_the_usual_ones_first),
		cmocka_unit_test(lanes__forms_are_what_the_caller_says),
		cmocka_unit_test(lanes__fixed_scale_asks_for_no_exponent_and_flags_what_is_above),
		cmocka_unit_test(lanes__cancellation_and_the_ends_of_the_range_are_exact),
		cmocka_unit_test(lanes__exact_sums_know_infinities),
		cmocka_unit_test(lanes__integers_saturate_and_are_counted),
		cmocka_unit_test(lanes__two_halves_share_a_lane),
		cmocka_unit_test(lanes__halves_know_infinities),
		cmocka_unit_test(lanes__long_sums_are_rounded_once),
		cmocka_unit_test(lanes__least_and_largest_are_found),
		cmocka_unit_test(lanes__one_worker_gets_its_bits),
		cmocka_unit_test(lanes__float64_keeps_its_bound),
	};

	return cmocka_run_group_tests_name("core-lanes", tests, NULL, NULL);
}
