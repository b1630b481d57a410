/* SPDX-License-Identifier: Apache-2.0 */
/* Built with -mavx512f, bw, dq and vl, and called only where the processor has
 * all of them, AVX2, F16C and BMI2. */
#define VECTOR_BYTES 64
#include "simd/loops_half.h"
#include "simd/plain_loops.h"

#include <immintrin.h>

LOOP_INLINE words larger(words a, words b)
{
	return (words)_mm512_max_epu32((__m512i)a, (__m512i)b);
}

LOOP_INLINE uint32_t largest_of(words x)
{
	return _mm512_reduce_max_epu32((__m512i)x);
}

LOOP_INLINE words rounded(floats x)
{
	return (words)_mm512_cvtps_epi32((__m512)x);
}

LOOP_INLINE doubles doubles_load(const int32_t *lane)
{
	return (doubles)_mm512_cvtepi32_pd(_mm256_loadu_si256((const void *)lane));
}

LOOP_INLINE floats doubles_near(doubles first, doubles second)
{
	__m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)first));

	return (floats)_mm512_insertf32x8(low, _mm512_cvtpd_ps((__m512d)second), 1);
}

LOOP_INLINE void doubles_truncate(int32_t *dst, doubles x)
{
	_mm256_storeu_si256((void *)dst, _mm512_cvttpd_epi32((__m512d)x));
}

LOOP_INLINE words halves_larger(words a, words b)
{
	return (words)_mm512_max_epu16((__m512i)a, (__m512i)b);
}

LOOP_INLINE uint32_t halves_largest(words x)
{
	__m512i low = _mm512_and_si512((__m512i)x, _mm512_set1_epi32(UINT16_MAX));
	__m512i high = _mm512_srli_epi32((__m512i)x, 16);

	return _mm512_reduce_max_epu32(_mm512_max_epu32(low, high));
}

LOOP_INLINE void halves_split(words both, words *first, words *second)
{
	*first = (words)_mm512_cvtepi16_epi32(_mm512_castsi512_si256((__m512i)both));
	*second = (words)_mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64((__m512i)both, 1));
}

LOOP_INLINE words halves_join(words first, words second)
{
	const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
	__m512i crossed = _mm512_packs_epi32((__m512i)first, (__m512i)second);

	return (words)_mm512_permutexvar_epi64(order, crossed);
}

LOOP_INLINE floats float16_load(const uint16_t *src)
{
	return (floats)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)src));
}

LOOP_INLINE void float16_store(uint16_t *dst, floats x)
{
	_mm256_storeu_si256((void *)dst, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
}

const struct quant_ops simd_avx512 = LOOP_TABLE("avx512");
const struct plain_ops plain_avx512 = PLAIN_TABLE;
