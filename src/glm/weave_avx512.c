/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built with -mavx512f -mavx512bw, and called only where the processor has them: weave_avx2.c with a block,
 * a cache line of each plane, as a vector.
 */
#define WEAVE_VECTOR 64
#include "glm/weave_ops.h"

#include <immintrin.h>

#include "glm/weave_join.h"

enum { WORDS = WEAVE_VECTOR / 8 }; /* of a vector */

/* The first `bits` planes from `word` on, joined; words past the last are 0 and not read. */
WEAVE_INLINE void values_load(const uint64_t *plane, size_t plane_words, uint32_t bits,
			      uint32_t word, uint32_t words, weave_vector *value)
{
	__mmask8 mask = (__mmask8)(words - word < WORDS ? (1u << (words - word)) - 1 : 0xff);
	weave_vector loaded[8];

	for (uint32_t bit = 0; bit < bits; bit++) {
		const void *at = plane + bit * plane_words + word;
		loaded[bit] = (weave_vector)_mm512_maskz_loadu_epi64(mask, at);
	}
	weave_join(loaded, bits, value);
}

static __m512i load(const int16_t *at)
{
	return _mm512_loadu_si512(at);
}

static int64_t sum_of(__m512i x)
{
	__m512i first = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(x));
	__m512i second = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(x, 1));

	return _mm512_reduce_add_epi64(_mm512_add_epi64(first, second));
}

WEAVE_INLINE int64_t dot_bits(const uint64_t *plane, size_t plane_words, uint32_t bits,
			      uint32_t words, const int16_t *parts)
{
	const __m512i zero = _mm512_setzero_si512();
	__m512i high = zero, low = zero;

	for (uint32_t word = 0; word < words; word += WORDS) {
		const int16_t *part = parts + weave_part(word * WEAVE_WORD);
		weave_vector value[8];

		values_load(plane, plane_words, bits, word, words, value);
		for (uint32_t f = 0; f < 8; f++, part += 128) {
			__m512i even = _mm512_unpacklo_epi8((__m512i)value[f], zero);
			__m512i odd = _mm512_unpackhi_epi8((__m512i)value[f], zero);

			high = _mm512_add_epi32(high, _mm512_madd_epi16(even, load(part)));
			low = _mm512_add_epi32(low, _mm512_madd_epi16(even, load(part + 32)));
			high = _mm512_add_epi32(high, _mm512_madd_epi16(odd, load(part + 64)));
			low = _mm512_add_epi32(low, _mm512_madd_epi16(odd, load(part + 96)));
		}
	}
	return sum_of(high) * (1 << WEAVE_PART_BITS) + sum_of(low);
}

static int64_t avx512_dot(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
			  const int16_t *parts){
#define DOT(n) return dot_bits(plane, plane_words, n, words, parts)
	WEAVE_FOR_BITS(bits, DOT)
#undef DOT
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

WEAVE_INLINE void add_bits(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
			   float scale, float *sums)
{
	const __m512 scales = _mm512_set1_ps(scale);

	for (uint32_t word = 0; word < words; word += WORDS) {
		float *at = sums + word * WEAVE_WORD;
		weave_vector value[8];

		values_load(plane, plane_words, bits, word, words, value);
		for (uint32_t f = 0; f < 8; f += 2, at += 16) {
			__m512i first = (__m512i)value[f], second = (__m512i)value[f + 1];

			lanes_add(at, _mm512_unpacklo_epi64(first, second), scales);
			lanes_add(at + WEAVE_WORD, _mm512_unpackhi_epi64(first, second), scales);
		}
	}
}

static void avx512_add(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
		       float scale, float *sums)
{
#define ADD(n)                                               \
	add_bits(plane, plane_words, n, words, scale, sums); \
	break
	WEAVE_FOR_BITS(bits, ADD)
#undef ADD
}

const struct weave_ops weave_avx512 = { .name = "avx512",
					.dot = avx512_dot,
					.add = avx512_add,
					.round = weave_avx2_round };
