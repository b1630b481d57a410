/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built with -mavx512f -mavx512bw, and called only where the processor has them: weave_avx2.c with a block,
 * a cache line of each plane, as a vector.
 */
#define WEAVE_VECTOR 64
#include <immintrin.h>

#include "glm/weave_join.h"

WEAVE_INLINE weave_vector words_load(const uint64_t *at, uint32_t words)
{
	__mmask8 mask = (__mmask8)(words < VECTOR_WORDS ? (1u << words) - 1 : 0xff);

	return (weave_vector)_mm512_maskz_loadu_epi64(mask, at);
}

WEAVE_INLINE weave_vector bytes_low(weave_vector bytes)
{
	return (weave_vector)_mm512_unpacklo_epi8((__m512i)bytes, _mm512_setzero_si512());
}

WEAVE_INLINE weave_vector bytes_high(weave_vector bytes)
{
	return (weave_vector)_mm512_unpackhi_epi8((__m512i)bytes, _mm512_setzero_si512());
}

WEAVE_INLINE weave_sums products(weave_vector values, const int16_t *part)
{
	return (weave_sums)_mm512_madd_epi16((__m512i)values, _mm512_loadu_si512(part));
}

WEAVE_INLINE int64_t sum_of(weave_sums x)
{
	__m512i first = _mm512_cvtepi32_epi64(_mm512_castsi512_si256((__m512i)x));
	__m512i second = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64((__m512i)x, 1));

	return _mm512_reduce_add_epi64(_mm512_add_epi64(first, second));
}

WEAVE_INLINE void sums_add(float *sums, __m128i values, __m512 scale)
{
	__m512 x = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(values));

	_mm512_storeu_ps(sums, _mm512_add_ps(_mm512_loadu_ps(sums), _mm512_mul_ps(scale, x)));
}

/* Every second word from sums on: 16 neighbours of each, in the four 128-bit lanes of values. */
WEAVE_INLINE void lanes_add(float *sums, __m512i values, __m512 scale)
{
	sums_add(sums, _mm512_castsi512_si128(values), scale);
	sums_add(sums + 2 * WEAVE_WORD, _mm512_extracti32x4_epi32(values, 1), scale);
	sums_add(sums + 4 * WEAVE_WORD, _mm512_extracti32x4_epi32(values, 2), scale);
	sums_add(sums + 6 * WEAVE_WORD, _mm512_extracti32x4_epi32(values, 3), scale);
}

WEAVE_INLINE void values_add(float *sums, const weave_vector *value, float scale)
{
	const __m512 scales = _mm512_set1_ps(scale);

	for (uint32_t f = 0; f < 8; f += 2, sums += 16) {
		__m512i first = (__m512i)value[f], second = (__m512i)value[f + 1];

		lanes_add(sums, _mm512_unpacklo_epi64(first, second), scales);
		lanes_add(sums + WEAVE_WORD, _mm512_unpackhi_epi64(first, second), scales);
	}
}

const struct weave_ops weave_avx512 = { .name = "avx512",
					.dot = kernel_dot,
					.add = kernel_add,
					.round = weave_avx2_round };
