/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything between the one rounding on the way in and the one on the way out is exact.
 *
 * pack: float to double is exact, and so is the product with 2^shift: 24 bits, and an exponent
 * between -149 - 113 and 128 + 157. bound is an integer, so clamping before rounding gives what
 * clamping after it gives, and leaves a number that an int32 holds.
 *
 * unpack: lane * 2^-shift has 31 bits: exact in double. A quotient by N is rounded to double, then
 * to float, and ends where one rounding would have put it: unless it lies halfway between two
 * floats it is 2^-41 of its size or more away from there (31 bits over 16, against 25 bits), and
 * the double is wrong by 2^-53 of it. What exceeds FLT_MAX by half an ulp or more becomes an
 * infinity, as IEEE 754 has it: finite elements may have an infinite sum.
 *
 * The floating-point environment is the one that a C program starts with: round to nearest, and
 * denormals are not flushed. A thread that flushes them gets zeros where others get denormals.
 */
#include "core/shared/quant.h"

#include "core/shared/quant_exact.h"
#include "core/shared/quant_half.h"
#include "core/shared/quant_long.h"
#include "core/shared/quant_parts.h"
#include "core/shared/wire.h"

enum {
	INFINITY_BITS = 0x7f800000,
	NAN_BITS = 0x7fc00000,

	EXPONENT_MAX = 254,
	WORKERS_MAX = 65535,
	LANE_MAX = INT32_MAX,

	DETAIL_POSITIVE = 1,
	DETAIL_NEGATIVE = 1 << 16,
};

int32_t quant_bound(uint32_t workers)
{
	CORE_ASSERT(workers >= 1);
	CORE_ASSERT(workers <= WORKERS_MAX);
	return LANE_MAX / (int32_t)workers;
}

/* Of sums that have `bits` bits beside their sign. */
static void scale_for(struct quant_scale *scale, uint32_t workers, uint32_t exponent, int32_t bits)
{
	int32_t workers_log2 = 0;

	exponent = exponent < EXPONENT_MAX ? exponent : EXPONENT_MAX;
	while (1u << workers_log2 < workers)
		workers_log2++;
	scale->workers = workers;
	scale->shift = bits - workers_log2 - ((int32_t)exponent - 126);
	scale->up = power_of_two(scale->shift);
	scale->down = power_of_two(-scale->shift);
}

void quant_scale(struct quant_scale *scale, uint32_t workers, uint32_t exponent)
{
	scale->bound = quant_bound(workers);
	scale->together = 1;
	scale_for(scale, workers, exponent, 31);
}

void quant_scale_half(struct quant_scale *scale, uint32_t workers, uint32_t exponent)
{
	scale->bound = INT16_MAX / (int32_t)workers;
	scale->together = 2;
	scale_for(scale, workers, exponent, 15);
}

static uint32_t scalar_exponent_f32(const float *src, size_t count)
{
	int32_t largest = 0;

	for (size_t i = 0; i < count; i++) {
		int32_t magnitude = magnitude_of(src[i]);
		magnitude = magnitude > MAGNITUDE_FINITE_MAX ? 0 : magnitude;
		largest = magnitude > largest ? magnitude : largest;
	}
	uint32_t exponent = (uint32_t)largest >> EXPONENT_SHIFT;
	return exponent || !largest ? exponent : 1;
}

static uint8_t scalar_pack_f32(int32_t *restrict lane, const float *restrict src, size_t count,
			       const struct quant_scale *scale)
{
	const double up = scale->up;
	const double high = scale->bound;
	uint32_t nonfinite = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t finite = finite_mask(src[i]);
		lane[i] = quantised(float_of(bits_of(src[i]) & finite), up, high);
		nonfinite |= ~finite;
	}
	return nonfinite ? WIRE_NONFINITE : 0;
}

static void scalar_unpack_f32(float *restrict dst, const int32_t *restrict lane, size_t count,
			      const struct quant_scale *scale, bool is_avg)
{
	const double down = scale->down;
	const double workers = scale->workers;

	if (is_avg) {
		for (size_t i = 0; i < count; i++)
			dst[i] = (float)((double)lane[i] * down / workers);
	} else {
		for (size_t i = 0; i < count; i++)
			dst[i] = (float)((double)lane[i] * down);
	}
}

/* INT32_MIN too has a magnitude when it is unsigned. */
static uint32_t magnitude_of_i32(int32_t x)
{
	return x < 0 ? 0 - (uint32_t)x : (uint32_t)x;
}

static uint8_t scalar_pack_i32(int32_t *restrict lane, const int32_t *restrict src, size_t count,
			       int32_t bound)
{
	int32_t beyond = 0;

	for (size_t i = 0; i < count; i++) {
		lane[i] = src[i];
		beyond |= magnitude_of_i32(src[i]) > (uint32_t)bound;
	}
	return beyond ? WIRE_RANGE : 0;
}

static void scalar_unpack_i32(int32_t *restrict dst, const int32_t *restrict lane, size_t count,
			      uint32_t workers, bool is_avg)
{
	if (is_avg) {
		for (size_t i = 0; i < count; i++)
			dst[i] = lane[i] / (int32_t)workers;
	} else {
		for (size_t i = 0; i < count; i++)
			dst[i] = lane[i];
	}
}

static void scalar_pack_i64(int32_t *lane, const uint64_t *src, size_t count, uint32_t bits,
			    bool is_signed)
{
	quant_long_pack(lane, src, count, bits, is_signed);
}

static uint64_t scalar_unpack_i64(uint64_t *dst, const int32_t *lane, size_t count, uint32_t bits,
				  bool is_signed)
{
	return quant_long_unpack(dst, lane, count, bits, is_signed);
}

static uint8_t scalar_pack_exact(int32_t *lane, const float *src, size_t count, uint32_t digits,
				 uint32_t bits)
{
	return quant_exact_pack(lane, src, count, digits, bits);
}

static size_t scalar_unpack_exact(float *dst, const int32_t *lane, size_t first, size_t count,
				  uint32_t digits, uint32_t bits)
{
	return quant_exact_unpack(dst, lane, first, count, digits, bits);
}

const struct quant_ops quant_scalar = {
	.name = "scalar",
	.exponent_f32 = scalar_exponent_f32,
	.pack_f32 = scalar_pack_f32,
	.unpack_f32 = scalar_unpack_f32,
	.pack_i32 = scalar_pack_i32,
	.unpack_i32 = scalar_unpack_i32,
	.pack_i64 = scalar_pack_i64,
	.unpack_i64 = scalar_unpack_i64,
	.pack_exact = scalar_pack_exact,
	.unpack_exact = scalar_unpack_exact,
	.exponent_half = quant_half_exponent,
	.pack_half = quant_half_pack,
	.unpack_half = quant_half_unpack,
};

void quant_detail_pack_f32(int32_t *lane, const float *src, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (magnitude_of(src[i]) <= MAGNITUDE_FINITE_MAX)
			lane[i] = 0;
		else if (magnitude_of(src[i]) > INFINITY_BITS)
			lane[i] = DETAIL_POSITIVE + DETAIL_NEGATIVE;
		else
			lane[i] = src[i] > 0 ? DETAIL_POSITIVE : DETAIL_NEGATIVE;
	}
}

void quant_detail_amend_f32(float *dst, const int32_t *lane, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t positive = (uint32_t)lane[i] % DETAIL_NEGATIVE;
		uint32_t negative = (uint32_t)lane[i] / DETAIL_NEGATIVE;

		if (positive && negative)
			dst[i] = float_of(NAN_BITS);
		else if (positive)
			dst[i] = float_of(INFINITY_BITS);
		else if (negative)
			dst[i] = -float_of(INFINITY_BITS);
	}
}

void quant_detail_pack_i32(int32_t *lane, const int32_t *src, size_t count)
{
	for (size_t i = 0; i < count; i++)
		lane[i] = src[i] >> 16;
}

uint64_t quant_detail_amend_i32(int32_t *dst, const int32_t *lane, size_t count, uint32_t workers,
				bool is_avg)
{
	uint64_t saturated = 0;

	for (size_t i = 0; i < count; i++) {
		/* 65,535 low halves add up to less than 2^32: nothing of them was lost. */
		uint32_t low_halves = (uint32_t)dst[i] - ((uint32_t)lane[i] << 16);
		int64_t sum = (int64_t)lane[i] * 65536 + low_halves;

		if (is_avg)
			sum /= workers;
		if (sum > INT32_MAX || sum < INT32_MIN)
			saturated++;
		sum = sum > INT32_MAX ? INT32_MAX : sum;
		dst[i] = (int32_t)(sum < INT32_MIN ? INT32_MIN : sum);
	}
	return saturated;
}
