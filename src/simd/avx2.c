/* SPDX-License-Identifier: Apache-2.0 */
/* Built with -mavx2, and called only where the processor has it. */
#define VECTOR_BYTES 32
#include "simd/loops.h"

#include <immintrin.h>

LOOP_INLINE words larger(words a, words b)
{
	return (words)_mm256_max_epu32((__m256i)a, (__m256i)b);
}

LOOP_INLINE uint32_t largest_of(words x)
{
	__m128i four = _mm_max_epu32(_mm256_castsi256_si128((__m256i)x),
				     _mm256_extracti128_si256((__m256i)x, 1));
	__m128i two = _mm_max_epu32(four, _mm_srli_si128(four, 8));

	return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_srli_si128(two, 4)));
}

LOOP_INLINE words rounded(floats x)
{
	return (words)_mm256_cvtps_epi32((__m256)x);
}

LOOP_INLINE doubles doubles_load(const int32_t *lane)
{
	return (doubles)_mm256_cvtepi32_pd(_mm_loadu_si128((const void *)lane));
}

LOOP_INLINE void doubles_round(float *dst, doubles x)
{
	_mm_storeu_ps(dst, _mm256_cvtpd_ps((__m256d)x));
}

LOOP_INLINE void doubles_truncate(int32_t *dst, doubles x)
{
	_mm_storeu_si128((void *)dst, _mm256_cvttpd_epi32((__m256d)x));
}

const struct quant_ops simd_avx2 = LOOP_TABLE("avx2");
