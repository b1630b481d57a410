/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built with -mavx2, and called only where the processor has it. Why the bits are those of
 * quant.c, although most of it is computed in float:
 *
 * pack: float * 2^shift is exact in float, unless it underflows, and then it is rounded to zero
 * either way, or overflows, and then it is clamped either way. cvtps2dq rounds to even, like the
 * scalar code, and says INT32_MIN to all that is too large; where it was positive, that is turned
 * into INT32_MAX; then the integers are clamped. A chunk with an Inf or NaN is done by the
 * scalar.
 *
 * unpack: cvtdq2ps is the one rounding, and the product with 2^-shift is exact in float or
 * overflows as it should, as long as it cannot be denormal: not for shift <= 126, as |lane| >= 1.
 * An average over 2^n workers is such a product too.
 *
 * Other averages multiply in double by down / N, which is wrong by 2^-52 of its size at most, and
 * round that to 44 bits, so that it is wrong by 2^-43. If the exact quotient is a float or
 * halfway between two, then 44 bits hold it, and it is found again. Else it is 2^-41 of its size
 * away from all halfway points (quant.c), and stays on its side of them.
 */
#include "simd/tables.h"

#include <immintrin.h>

#include "core/shared/wire.h"

enum {
	STEP = 8, /* elements of a vector */
	EXPONENT_SHIFT = 23,
	FLOAT_BIAS = 127,
	FLOAT_EXPONENT_MAX = 127,
	FLOAT_EXPONENT_MIN = -126,
	MAGNITUDE_MASK = 0x7fffffff,
	MAGNITUDE_FINITE_MAX = 0x7f7fffff,

	/* A double has 53 bits, of which 44 are to stay. */
	ROUND_BITS = 9,
	ROUND_HALF = 1 << (ROUND_BITS - 1),
	ROUND_MASK = (1 << ROUND_BITS) - 1,
};

static __m256 power_of_two(int32_t exponent)
{
	return _mm256_castsi256_ps(_mm256_set1_epi32((FLOAT_BIAS + exponent) << EXPONENT_SHIFT));
}

static __m256i load(const void *at)
{
	return _mm256_loadu_si256(at);
}

static __m256i magnitude_of(__m256i bits)
{
	return _mm256_and_si256(bits, _mm256_set1_epi32(MAGNITUDE_MASK));
}

static uint32_t largest_of(__m256i x)
{
	__m128i four = _mm_max_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
	__m128i two = _mm_max_epu32(four, _mm_srli_si128(four, 8));

	return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_srli_si128(two, 4)));
}

static uint32_t avx2_exponent_f32(const float *src, size_t count)
{
	__m256i even = _mm256_setzero_si256(), odd = even;
	size_t i = 0;

	for (; i + 2 * STEP <= count; i += 2 * STEP) {
		even = _mm256_max_epu32(even, magnitude_of(load(src + i)));
		odd = _mm256_max_epu32(odd, magnitude_of(load(src + i + STEP)));
	}
	if (i + STEP <= count) {
		even = _mm256_max_epu32(even, magnitude_of(load(src + i)));
		i += STEP;
	}
	uint32_t largest = largest_of(_mm256_max_epu32(even, odd));
	if (largest > MAGNITUDE_FINITE_MAX)
		return quant_scalar.exponent_f32(src, count);

	uint32_t exponent = largest >> EXPONENT_SHIFT;
	exponent = exponent || !largest ? exponent : 1;
	uint32_t rest = quant_scalar.exponent_f32(src + i, count - i);
	return exponent > rest ? exponent : rest;
}

static uint8_t avx2_pack_f32(int32_t *restrict lane, const float *restrict src, size_t count,
			     const struct quant_scale *scale)
{
	/* 2^shift may be too large for a float (up to 2^157): then 2^64 of it comes first. */
	const int32_t shift_first = scale->shift > FLOAT_EXPONENT_MAX ? 64 : scale->shift;
	const __m256 up_first = power_of_two(shift_first);
	const __m256 up = power_of_two(scale->shift - shift_first);
	const __m256 too_large = _mm256_set1_ps(0x1p31f);
	const __m256i high = _mm256_set1_epi32(scale->bound);
	const __m256i low = _mm256_set1_epi32(-scale->bound);
	__m256i largest = _mm256_setzero_si256();
	size_t i = 0;

	for (; i + STEP <= count; i += STEP) {
		__m256 x = _mm256_loadu_ps(src + i);
		largest = _mm256_max_epu32(largest, magnitude_of(_mm256_castps_si256(x)));
		x = _mm256_mul_ps(_mm256_mul_ps(x, up_first), up);
		__m256i is_too_large = _mm256_castps_si256(_mm256_cmp_ps(x, too_large, _CMP_GE_OQ));
		__m256i q = _mm256_xor_si256(_mm256_cvtps_epi32(x), is_too_large);
		q = _mm256_max_epi32(_mm256_min_epi32(q, high), low);
		_mm256_storeu_si256((void *)(lane + i), q);
	}
	if (largest_of(largest) > MAGNITUDE_FINITE_MAX)
		return quant_scalar.pack_f32(lane, src, count, scale);
	return quant_scalar.pack_f32(lane + i, src + i, count - i, scale);
}

static size_t unpack_by_power_of_two(float *restrict dst, const int32_t *restrict lane,
				     size_t count, int32_t exponent)
{
	const __m256 down = power_of_two(exponent);
	size_t i = 0;

	for (; i + STEP <= count; i += STEP)
		_mm256_storeu_ps(dst + i, _mm256_mul_ps(_mm256_cvtepi32_ps(load(lane + i)), down));
	return i;
}

static __m128 unpack_four(const int32_t *lane, __m256d down)
{
	__m256d q = _mm256_cvtepi32_pd(_mm_loadu_si128((const void *)lane));
	__m256i x = _mm256_castpd_si256(_mm256_mul_pd(q, down));

	x = _mm256_add_epi64(x, _mm256_set1_epi64x(ROUND_HALF));
	x = _mm256_andnot_si256(_mm256_set1_epi64x(ROUND_MASK), x);
	return _mm256_cvtpd_ps(_mm256_castsi256_pd(x));
}

static size_t unpack_by_double(float *restrict dst, const int32_t *restrict lane, size_t count,
			       double factor)
{
	const __m256d down = _mm256_set1_pd(factor);
	size_t i = 0;

	for (; i + STEP <= count; i += STEP) {
		_mm_storeu_ps(dst + i, unpack_four(lane + i, down));
		_mm_storeu_ps(dst + i + STEP / 2, unpack_four(lane + i + STEP / 2, down));
	}
	return i;
}

static void avx2_unpack_f32(float *restrict dst, const int32_t *restrict lane, size_t count,
			    const struct quant_scale *scale, bool is_avg)
{
	const uint32_t divisor = is_avg ? scale->workers : 1;
	const int32_t exponent = -scale->shift - __builtin_ctz(divisor);
	const bool is_power_of_two = (divisor & (divisor - 1)) == 0;
	size_t done;

	if (is_power_of_two && exponent >= FLOAT_EXPONENT_MIN)
		done = unpack_by_power_of_two(dst, lane, count, exponent);
	else
		done = unpack_by_double(dst, lane, count, scale->down / divisor);
	quant_scalar.unpack_f32(dst + done, lane + done, count - done, scale, is_avg);
}

static uint8_t avx2_pack_i32(int32_t *restrict lane, const int32_t *restrict src, size_t count,
			     int32_t bound)
{
	__m256i largest = _mm256_setzero_si256();
	size_t i = 0;

	for (; i + STEP <= count; i += STEP) {
		__m256i x = load(src + i);
		largest = _mm256_max_epu32(largest, _mm256_abs_epi32(x)); /* INT32_MIN: 2^31 */
		_mm256_storeu_si256((void *)(lane + i), x);
	}
	uint8_t flags = largest_of(largest) > (uint32_t)bound ? WIRE_RANGE : 0;
	return flags | quant_scalar.pack_i32(lane + i, src + i, count - i, bound);
}

/* A quotient that is whole must not come out below it, and others are 2^-32 of their size or more
 * below the next whole number: so 1 / N is made larger by 2^-40 of it. */
static void avx2_unpack_i32(int32_t *restrict dst, const int32_t *restrict lane, size_t count,
			    uint32_t workers, bool is_avg)
{
	const __m256d inverse = _mm256_set1_pd(1.0 / workers * (1 + 0x1p-40));
	size_t i = 0;

	if (is_avg) {
		for (; i + STEP / 2 <= count; i += STEP / 2) {
			__m256d x = _mm256_cvtepi32_pd(_mm_loadu_si128((const void *)(lane + i)));
			__m128i q = _mm256_cvttpd_epi32(_mm256_mul_pd(x, inverse));
			_mm_storeu_si128((void *)(dst + i), q);
		}
	}
	quant_scalar.unpack_i32(dst + i, lane + i, count - i, workers, is_avg);
}

const struct quant_ops simd_avx2 = {
	.name = "avx2",
	.exponent_f32 = avx2_exponent_f32,
	.pack_f32 = avx2_pack_f32,
	.unpack_f32 = avx2_unpack_f32,
	.pack_i32 = avx2_pack_i32,
	.unpack_i32 = avx2_unpack_i32,
};
