/* SPDX-License-Identifier: Apache-2.0 */
/* Built with -mavx2 -mf16c, and called only where the processor has both. */
#define VECTOR_BYTES 32
#include "simd/loops_half.h"
#include "simd/plain_loops.h"

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

LOOP_INLINE floats doubles_near(doubles first, doubles second)
{
	return (floats)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)second),
				       _mm256_cvtpd_ps((__m256d)first));
}

LOOP_INLINE void doubles_truncate(int32_t *dst, doubles x)
{
	_mm_storeu_si128((void *)dst, _mm256_cvttpd_epi32((__m256d)x));
}

LOOP_INLINE words halves_larger(words a, words b)
{
	return (words)_mm256_max_epu16((__m256i)a, (__m256i)b);
}

LOOP_INLINE uint32_t halves_largest(words x)
{
	__m128i eight = _mm_max_epu16(_mm256_castsi256_si128((__m256i)x),
				      _mm256_extracti128_si256((__m256i)x, 1));

	/* The least one is what SSE can find. */
	eight = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi32(-1)));
	return ~(uint32_t)_mm_cvtsi128_si32(eight) & UINT16_MAX;
}

LOOP_INLINE void halves_split(words both, words *first, words *second)
{
	*first = (words)_mm256_cvtepi16_epi32(_mm256_castsi256_si128((__m256i)both));
	*second = (words)_mm256_cvtepi16_epi32(_mm256_extracti128_si256((__m256i)both, 1));
}

LOOP_INLINE words halves_join(words first, words second)
{
	__m256i crossed = _mm256_packs_epi32((__m256i)first, (__m256i)second);

	return (words)_mm256_permute4x64_epi64(crossed, 0xd8);
}

LOOP_INLINE floats float16_load(const uint16_t *src)
{
	return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const void *)src));
}

LOOP_INLINE void float16_store(uint16_t *dst, floats x)
{
	_mm_storeu_si128((void *)dst, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
}

const struct quant_ops simd_avx2 = LOOP_TABLE("avx2");
const struct plain_ops plain_avx2 = PLAIN_TABLE;
