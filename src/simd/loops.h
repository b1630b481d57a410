/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loops.h - the loops of struct quant_ops over vectors; loops_half.h has those of 16 bits. A file that is built for one
 * instruction set includes both once, after it has said how long its vectors are (VECTOR_BYTES); it then defines what
 * C has no operator for, as declared here and there. Why the bits are those of quant.c, although most of it is computed
 * in float:
 *
 * pack: float * 2^shift is exact in float, unless it underflows, and then it is rounded to zero either way. Elements
 * up to the limit, the largest float whose product is not above the bound, need not be clamped. A chunk with a larger
 * one, an Inf or a NaN is done again by the scalar: correct workers send no larger ones, but for the last bits.
 *
 * unpack: the conversion to float is the one rounding, and the product with 2^-shift is exact in float or overflows as
 * it should, as long as it cannot be denormal: not for shift <= 126, as |lane| >= 1. An average over 2^n workers is
 * such a product too.
 *
 * Other averages multiply in double by down / N, which is wrong by 2^-52 of its size at most, and round that to 44
 * bits, so that it is wrong by 2^-43. If the exact quotient is a float or halfway between two, then 44 bits hold it,
 * and it is found again. Else it is 2^-41 of its size away from all halfway points (quant.c), and stays on its side
 * of them.
 *
 * What is left behind the last whole vector: a last one ends where the elements end, and does some of them again.
 * Fewer elements than a vector has are the scalar's.
 */
#ifndef SIMD_LOOPS_H
#define SIMD_LOOPS_H

#include "core/shared/quant_exact.h"
#include "core/shared/quant_long.h"
#include "core/shared/wire.h"
#include "simd/tables.h"

#define LOOP_INLINE static inline __attribute__((always_inline))

enum {
	STEP = VECTOR_BYTES / 4, /* elements of a vector */
	HALF_STEP = STEP / 2,    /* as many doubles */
	EXPONENT_SHIFT = 23,
	FLOAT_BIAS = 127,
	FLOAT_EXPONENT_MAX = 127,
	FLOAT_EXPONENT_MIN = -126,
	EXPONENT_INFINITE = 255,
	MAGNITUDE_MASK = 0x7fffffff,

	AHEAD_BYTES = 1024, /* of DRAM: the processor looks not as far ahead by itself */

	/* A double has 53 bits, of which 44 are to stay. */
	ROUND_BITS = 9,
	ROUND_HALF = 1 << (ROUND_BITS - 1),
	ROUND_MASK = (1 << ROUND_BITS) - 1,
};

typedef int32_t words __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t unsigned_words __attribute__((vector_size(VECTOR_BYTES)));
typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t longs __attribute__((vector_size(VECTOR_BYTES)));

/* The larger of each two, and the largest, unsigned. */
LOOP_INLINE words larger(words a, words b);
LOOP_INLINE uint32_t largest_of(words x);
/* To nearest even; below 2^31 in magnitude. */
LOOP_INLINE words rounded(floats x);
/* Of HALF_STEP elements: exact; two to nearest even; toward zero. (gcc's __builtin_convertvector does it twice.) */
LOOP_INLINE doubles doubles_load(const int32_t *lane);
LOOP_INLINE floats doubles_near(doubles first, doubles second);
LOOP_INLINE void doubles_truncate(int32_t *dst, doubles x);

/* x in all lanes. */
LOOP_INLINE floats floats_of(float x)
{
	return (floats){ 0 } + x;
}

LOOP_INLINE doubles doubles_of(double x)
{
	return (doubles){ 0 } + x;
}

LOOP_INLINE words words_load(const void *at)
{
	words x;

	__builtin_memcpy(&x, at, sizeof(x));
	return x;
}

LOOP_INLINE void words_store(void *at, words x)
{
	__builtin_memcpy(at, &x, sizeof(x));
}

/* Modulo 2^32. */
LOOP_INLINE words words_sum(words a, words b)
{
	return (words)((unsigned_words)a + (unsigned_words)b);
}

static float float_of(uint32_t bits)
{
	float x;

	__builtin_memcpy(&x, &bits, sizeof(x));
	return x;
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	__builtin_memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static bool is_power_of_two(uint32_t x)
{
	return (x & (x - 1)) == 0;
}

static float power_of_two(int32_t exponent)
{
	return float_of((uint32_t)(FLOAT_BIAS + exponent) << EXPONENT_SHIFT);
}

LOOP_INLINE words magnitudes(const float *at)
{
	return words_load(at) & MAGNITUDE_MASK;
}

/* How many of the elements are in whole blocks of so many. Behind whole pairs of vectors there is one more whole vector
 * if count & STEP, a power of two. */
LOOP_INLINE size_t whole_of(size_t count, size_t block)
{
	return count - count % block;
}

static uint32_t loop_exponent_f32(const float *src, size_t count)
{
	const size_t pairs = whole_of(count, 2 * STEP);
	words even = { 0 }, odd = { 0 };
	uint32_t largest, exponent;

	if (count < STEP)
		return quant_scalar.exponent_f32(src, count);
	for (size_t i = 0; i < pairs; i += 2 * STEP) {
		even = larger(even, magnitudes(src + i));
		odd = larger(odd, magnitudes(src + i + STEP));
	}
	if (count & STEP)
		even = larger(even, magnitudes(src + pairs));
	largest = largest_of(larger(larger(even, odd), magnitudes(src + count - STEP)));
	exponent = largest >> EXPONENT_SHIFT;
	if (exponent == EXPONENT_INFINITE)
		return quant_scalar.exponent_f32(src, count);
	return exponent || !largest ? exponent : 1;
}

/* The largest magnitude that need not be clamped. */
static uint32_t limit_of(const struct quant_scale *scale)
{
	double exact = (double)scale->bound * scale->down;
	float near = (float)exact;

	return bits_of(near) - ((double)near > exact);
}

/* 2^shift may be too large for a float (up to 2^157): then 2^64 of it comes first. */
struct factors {
	floats first, second;
	bool is_far; /* both are needed */
};

LOOP_INLINE struct factors factors_of(int32_t shift)
{
	int32_t first = shift > FLOAT_EXPONENT_MAX ? 64 : 0;

	return (struct factors){ .first = floats_of(power_of_two(first)),
				 .second = floats_of(power_of_two(shift - first)),
				 .is_far = first };
}

LOOP_INLINE words quantised(floats x, const struct factors *up, bool is_far)
{
	return rounded(is_far ? x * up->first * up->second : x * up->second);
}

LOOP_INLINE words pack_vector(int32_t *lane, const float *src, const struct factors *up,
			      bool is_far)
{
	words x = words_load(src);

	words_store(lane, quantised((floats)x, up, is_far));
	return x & MAGNITUDE_MASK;
}

LOOP_INLINE words pack_vectors(int32_t *restrict lane, const float *restrict src, size_t count,
			       const struct factors *up, bool is_far)
{
	const size_t pairs = whole_of(count, 2 * STEP), last = count - STEP;
	words even = { 0 }, odd = { 0 };

	for (size_t i = 0; i < pairs; i += 2 * STEP) {
		for (size_t line = 0; line < 2 * VECTOR_BYTES; line += 64)
			__builtin_prefetch((const char *)(src + i) + AHEAD_BYTES + line);
		even = larger(even, pack_vector(lane + i, src + i, up, is_far));
		odd = larger(odd, pack_vector(lane + i + STEP, src + i + STEP, up, is_far));
	}
	if (count & STEP)
		even = larger(even, pack_vector(lane + pairs, src + pairs, up, is_far));
	return larger(larger(even, odd), pack_vector(lane + last, src + last, up, is_far));
}

static uint8_t loop_pack_f32(int32_t *restrict lane, const float *restrict src, size_t count,
			     const struct quant_scale *scale)
{
	const struct factors up = factors_of(scale->shift);
	words largest;

	if (count < STEP)
		return quant_scalar.pack_f32(lane, src, count, scale);
	if (up.is_far)
		largest = pack_vectors(lane, src, count, &up, true);
	else
		largest = pack_vectors(lane, src, count, &up, false);
	if (largest_of(largest) > limit_of(scale))
		return quant_scalar.pack_f32(lane, src, count, scale);
	return 0;
}

LOOP_INLINE void unpack_vector(float *dst, const int32_t *lane, floats down)
{
	words_store(dst, (words)(__builtin_convertvector(words_load(lane), floats) * down));
}

static void unpack_by_power_of_two(float *restrict dst, const int32_t *restrict lane, size_t count,
				   int32_t exponent)
{
	const floats down = floats_of(power_of_two(exponent));
	const size_t pairs = whole_of(count, 2 * STEP);

	for (size_t i = 0; i < pairs; i += 2 * STEP) {
		unpack_vector(dst + i, lane + i, down);
		unpack_vector(dst + i + STEP, lane + i + STEP, down);
	}
	if (count & STEP)
		unpack_vector(dst + pairs, lane + pairs, down);
	unpack_vector(dst + count - STEP, lane + count - STEP, down);
}

LOOP_INLINE doubles averages(const int32_t *lane, doubles down)
{
	longs near = (longs)(doubles_load(lane) * down) + ROUND_HALF;

	return (doubles)(near & ~(int64_t)ROUND_MASK);
}

static void unpack_by_double(float *restrict dst, const int32_t *restrict lane, size_t count,
			     double factor)
{
	const doubles down = doubles_of(factor);

	for (size_t i = 0;; i = i + 2 * STEP <= count ? i + STEP : count - STEP) {
		floats near = doubles_near(averages(lane + i, down),
					   averages(lane + i + HALF_STEP, down));
		words_store(dst + i, (words)near);
		if (i + STEP == count)
			return;
	}
}

static void loop_unpack_f32(float *restrict dst, const int32_t *restrict lane, size_t count,
			    const struct quant_scale *scale, bool is_avg)
{
	const uint32_t divisor = is_avg ? scale->workers : 1;
	const int32_t exponent = -scale->shift - __builtin_ctz(divisor);

	if (count < STEP)
		quant_scalar.unpack_f32(dst, lane, count, scale, is_avg);
	else if (is_power_of_two(divisor) && exponent >= FLOAT_EXPONENT_MIN)
		unpack_by_power_of_two(dst, lane, count, exponent);
	else
		unpack_by_double(dst, lane, count, scale->down / divisor);
}

/* |x| is at most the bound if x + bound, unsigned, is at most twice the bound. */
static uint8_t loop_pack_i32(int32_t *restrict lane, const int32_t *restrict src, size_t count,
			     int32_t bound)
{
	const words up = (words){ 0 } + bound;
	words largest = { 0 };

	if (count < STEP)
		return quant_scalar.pack_i32(lane, src, count, bound);
	for (size_t i = 0; i < whole_of(count, STEP); i += STEP) {
		words x = words_load(src + i);
		largest = larger(largest, words_sum(x, up));
		words_store(lane + i, x);
	}
	words last = words_load(src + count - STEP);
	words_store(lane + count - STEP, last);
	return largest_of(larger(largest, words_sum(last, up))) > 2 * (uint32_t)bound ? WIRE_RANGE
										      : 0;
}

/* A quotient that is whole must not come out below it, and others are 2^-32 of their size or more
 * below the next whole number: so 1 / N is made larger by 2^-40 of it. */
static void loop_unpack_i32(int32_t *restrict dst, const int32_t *restrict lane, size_t count,
			    uint32_t workers, bool is_avg)
{
	const doubles inverse = doubles_of(1.0 / workers * (1 + 0x1p-40));

	if (!is_avg || count < STEP) {
		quant_scalar.unpack_i32(dst, lane, count, workers, is_avg);
		return;
	}
	for (size_t i = 0; i < whole_of(count, HALF_STEP); i += HALF_STEP)
		doubles_truncate(dst + i, doubles_load(lane + i) * inverse);
	dst += count - HALF_STEP;
	doubles_truncate(dst, doubles_load(lane + count - HALF_STEP) * inverse);
}

static void loop_pack_i64(int32_t *lane, const uint64_t *src, size_t count, uint32_t bits,
			  bool is_signed)
{
	quant_long_pack(lane, src, count, bits, is_signed);
}

static uint64_t loop_unpack_i64(uint64_t *dst, const int32_t *lane, size_t count, uint32_t bits,
				bool is_signed)
{
	return quant_long_unpack(dst, lane, count, bits, is_signed);
}

static uint8_t loop_pack_exact(int32_t *lane, const float *src, size_t count, uint32_t digits,
			       uint32_t bits)
{
	return quant_exact_pack(lane, src, count, digits, bits);
}

static size_t loop_unpack_exact(float *dst, const int32_t *lane, size_t first, size_t count,
				uint32_t digits, uint32_t bits)
{
	return quant_exact_unpack(dst, lane, first, count, digits, bits);
}

#endif
