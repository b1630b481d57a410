/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built with -mavx2, and called only where the processor has it. Half a block, four words of each plane, is a
 * vector. Products are exact in 32 bits (pmaddwd), so the sums are the scalar's whatever their order; the
 * gradient's products and sums are each rounded as the scalar's are.
 */
#define WEAVE_VECTOR 32
#include <immintrin.h>

#include "glm/weave_join.h"

WEAVE_INLINE weave_vector words_load(const uint64_t *at, uint32_t words)
{
	__m256i lane = _mm256_set_epi64x(3, 2, 1, 0);
	__m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(words), lane);

	return (weave_vector)_mm256_maskload_epi64((const void *)at, mask);
}

WEAVE_INLINE weave_vector bytes_low(weave_vector bytes)
{
	return (weave_vector)_mm256_unpacklo_epi8((__m256i)bytes, _mm256_setzero_si256());
}

WEAVE_INLINE weave_vector bytes_high(weave_vector bytes)
{
	return (weave_vector)_mm256_unpackhi_epi8((__m256i)bytes, _mm256_setzero_si256());
}

WEAVE_INLINE weave_sums products(weave_vector values, const int16_t *part)
{
	__m256i parts = _mm256_loadu_si256((const void *)part);

	return (weave_sums)_mm256_madd_epi16((__m256i)values, parts);
}

WEAVE_INLINE int64_t sum_of(weave_sums x)
{
	__m256i first = _mm256_cvtepi32_epi64(_mm256_castsi256_si128((__m256i)x));
	__m256i second = _mm256_cvtepi32_epi64(_mm256_extracti128_si256((__m256i)x, 1));
	__m256i sums = _mm256_add_epi64(first, second);
	__m128i two =
		_mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));

	return _mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1);
}

/* The low eight bytes, times scale. */
WEAVE_INLINE void sums_add(float *sums, __m128i values, __m256 scale)
{
	__m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(values));

	_mm256_storeu_ps(sums, _mm256_add_ps(_mm256_loadu_ps(sums), _mm256_mul_ps(scale, x)));
}

WEAVE_INLINE void values_add(float *sums, const weave_vector *value, float scale)
{
	const __m256 scales = _mm256_set1_ps(scale);

	for (uint32_t f = 0; f < 8; f++, sums += 8) {
		__m128i first = _mm256_castsi256_si128((__m256i)value[f]);
		__m128i second = _mm256_extracti128_si256((__m256i)value[f], 1);

		sums_add(sums, first, scales);
		sums_add(sums + WEAVE_WORD, _mm_srli_si128(first, 8), scales);
		sums_add(sums + 2 * WEAVE_WORD, second, scales);
		sums_add(sums + 3 * WEAVE_WORD, _mm_srli_si128(second, 8), scales);
	}
}

/* Four features: w times width in units of the weights, and w times low in units of a constant. */
struct four {
	__m256d scaled, constant;
};

WEAVE_INLINE __m256d products_are_below(const struct four *four, double scaled, double constant)
{
	const __m256d size = _mm256_castsi256_pd(_mm256_set1_epi64x(INT64_MAX));
	__m256d a = _mm256_cmp_pd(_mm256_and_pd(four->scaled, size), _mm256_set1_pd(scaled),
				  _CMP_LT_OQ);
	__m256d b = _mm256_cmp_pd(_mm256_and_pd(four->constant, size), _mm256_set1_pd(constant),
				  _CMP_LT_OQ);

	return _mm256_and_pd(a, b);
}

WEAVE_INLINE struct four four_load(const struct weave_range *ranges, const float *weight,
				   double unit)
{
	__m128 first = _mm_loadu_ps(&ranges[0].low), second = _mm_loadu_ps(&ranges[2].low);
	__m256d low = _mm256_cvtps_pd(_mm_shuffle_ps(first, second, 0x88));
	__m256d high = _mm256_cvtps_pd(_mm_shuffle_ps(first, second, 0xdd));
	__m256d w = _mm256_cvtps_pd(_mm_loadu_ps(weight));
	__m256d scaled = _mm256_mul_pd(w, _mm256_sub_pd(high, low));

	return (struct four){ .scaled = _mm256_mul_pd(scaled, _mm256_set1_pd(unit)),
			      .constant = _mm256_mul_pd(w, low) };
}

WEAVE_INLINE __m128i four_round(const struct four *four, __m256i *constant)
{
	const __m256d magic = _mm256_set1_pd(WEAVE_ROUND);
	const __m256d unit = _mm256_set1_pd((double)(1LL << WEAVE_FRACTION_BITS));
	__m256d sum = _mm256_add_pd(_mm256_mul_pd(four->constant, unit), magic);

	/* Bits of doubles of one exponent differ as the integers that they were rounded to. */
	*constant = _mm256_add_epi64(*constant, _mm256_sub_epi64(_mm256_castpd_si256(sum),
								 _mm256_castpd_si256(magic)));
	return _mm256_cvttpd_epi32(_mm256_sub_pd(_mm256_add_pd(four->scaled, magic), magic));
}

uint32_t weave_avx2_round(const struct weave_range *ranges, const float *weight, uint32_t eights,
			  double unit, int16_t *parts, uint32_t feature, int64_t *constant)
{
	__m256i sum = _mm256_setzero_si256();
	int64_t sums[4];
	uint32_t done = 0;

	for (; done < eights; done++, ranges += 8, weight += 8, feature += 8) {
		struct four first = four_load(ranges, weight, unit);
		struct four second = four_load(ranges + 4, weight + 4, unit);
		__m256d are_below = _mm256_and_pd(
			products_are_below(&first, WEAVE_WEIGHT_MAX - 1, WEAVE_CONSTANT_MAX),
			products_are_below(&second, WEAVE_WEIGHT_MAX - 1, WEAVE_CONSTANT_MAX));
		__m128i low = _mm_set1_epi32(WEAVE_PART_MASK), a, b;
		int16_t *part = parts + weave_part(feature);

		if (_mm256_movemask_pd(are_below) != 0xf)
			break;
		a = four_round(&first, &sum);
		b = four_round(&second, &sum);
		_mm_storeu_si128((void *)part, _mm_packs_epi32(_mm_srai_epi32(a, WEAVE_PART_BITS),
							       _mm_srai_epi32(b, WEAVE_PART_BITS)));
		_mm_storeu_si128((void *)(part + WEAVE_LOW_PART),
				 _mm_packs_epi32(_mm_and_si128(a, low), _mm_and_si128(b, low)));
	}
	_mm256_storeu_si256((void *)sums, sum);
	*constant += sums[0] + sums[1] + sums[2] + sums[3];
	return done;
}

const struct weave_ops weave_avx2 = { .name = "avx2",
				      .dot = kernel_dot,
				      .add = kernel_add,
				      .round = weave_avx2_round };
