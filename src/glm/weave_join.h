/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weave_join.h - the loops of weave_ops.h over vectors of one instruction set, kernel_dot and kernel_add. Who includes it
 * defines WEAVE_VECTOR, the bytes of a vector, and the functions that are declared below.
 *
 * Planes are joined in pairs, the more significant with the less: two vectors of bits are two of 2-bit
 * values, the even ones and the odd ones; two such pairs are four vectors of 4-bit values, and those
 * eight of bytes. Eight planes take 72 instructions for as many values as a plane has bits; adding the
 * weights under a mask, plane by plane, would take four for every eight values of every plane.
 */
#ifndef GLM_WEAVE_JOIN_H
#define GLM_WEAVE_JOIN_H

#include "glm/weave_ops.h"

#define WEAVE_INLINE static inline __attribute__((always_inline))

/* 16-bit lanes, since there is no shift of bytes; what a shift brings from a neighbour is masked. */
typedef uint16_t weave_vector __attribute__((vector_size(WEAVE_VECTOR)));
typedef int32_t weave_sums __attribute__((vector_size(WEAVE_VECTOR)));

/* What one instruction set does. A vector has words of 8 bytes, and lanes of 16. Words past the last are 0 and not
 * read. */
WEAVE_INLINE weave_vector words_load(const uint64_t *at, uint32_t words);
WEAVE_INLINE weave_vector bytes_low(weave_vector bytes); /* of each lane, as 16 bits each */
WEAVE_INLINE weave_vector bytes_high(weave_vector bytes);
WEAVE_INLINE weave_sums products(weave_vector values, const int16_t *part); /* summed in pairs */
WEAVE_INLINE int64_t sum_of(weave_sums sums);
/* value[f] is of features 8 f .. 8 f + 7 of each word: sums += scale * value. */
WEAVE_INLINE void values_add(float *sums, const weave_vector *value, float scale);

#define WEAVE_ALL(x) ((weave_vector){ 0 } + (uint16_t)(x))

/* Values of `width` bits in all of high and low to values of twice that, the even and the odd ones. */
WEAVE_INLINE void weave_pair(weave_vector high, weave_vector low, int width, uint16_t mask,
			     weave_vector *even, weave_vector *odd)
{
	const weave_vector m = WEAVE_ALL(mask);

	*even = (low & m) | (high & m) << width;
	*odd = (low >> width & m) | (high & ~m);
}

/* The same with high = 0. */
WEAVE_INLINE void weave_widen(weave_vector low, int width, uint16_t mask, weave_vector *even,
			      weave_vector *odd)
{
	const weave_vector m = WEAVE_ALL(mask);

	*even = low & m;
	*odd = low >> width & m;
}

/* 1 or 2 planes: crumb[i] has the 2-bit values of all f with f % 2 == i, in order. */
WEAVE_INLINE void weave_crumbs(const weave_vector *plane, uint32_t bits, weave_vector *crumb)
{
	if (bits == 1)
		weave_widen(plane[0], 1, 0x5555, &crumb[0], &crumb[1]);
	else
		weave_pair(plane[0], plane[1], 1, 0x5555, &crumb[0], &crumb[1]);
}

/* 1 to 4 planes: nibble[i] has the 4-bit values of all f with f % 4 == i. */
WEAVE_INLINE void weave_nibbles(const weave_vector *plane, uint32_t bits, weave_vector *nibble)
{
	weave_vector high[2], low[2];

	if (bits <= 2) {
		weave_crumbs(plane, bits, low);
		for (int i = 0; i < 2; i++)
			weave_widen(low[i], 2, 0x3333, &nibble[i], &nibble[i + 2]);
		return;
	}
	weave_crumbs(plane, bits - 2, high);
	weave_crumbs(plane + bits - 2, 2, low);
	for (int i = 0; i < 2; i++)
		weave_pair(high[i], low[i], 2, 0x3333, &nibble[i], &nibble[i + 2]);
}

/* 1 to 8 planes: byte p of value[f] is the value of feature 8 f + p, in each word. */
WEAVE_INLINE void weave_join(const weave_vector *plane, uint32_t bits, weave_vector *value)
{
	weave_vector high[4], low[4];

	if (bits <= 4) {
		weave_nibbles(plane, bits, low);
		for (int i = 0; i < 4; i++)
			weave_widen(low[i], 4, 0x0f0f, &value[i], &value[i + 4]);
		return;
	}
	weave_nibbles(plane, bits - 4, high);
	weave_nibbles(plane + bits - 4, 4, low);
	for (int i = 0; i < 4; i++)
		weave_pair(high[i], low[i], 4, 0x0f0f, &value[i], &value[i + 4]);
}

/* Calls body with the number of bits as a constant, so that the branches above are the compiler's. */
#define WEAVE_FOR_BITS(bits, body) \
	switch (bits) {            \
	case 1:                    \
		body(1);           \
	case 2:                    \
		body(2);           \
	case 3:                    \
		body(3);           \
	case 4:                    \
		body(4);           \
	case 5:                    \
		body(5);           \
	case 6:                    \
		body(6);           \
	case 7:                    \
		body(7);           \
	default:                   \
		body(8);           \
	}

enum { VECTOR_WORDS = WEAVE_VECTOR / 8 };

/* The first `bits` planes from `word` on, joined. */
WEAVE_INLINE void values_load(const uint64_t *plane, size_t plane_words, uint32_t bits,
			      uint32_t word, uint32_t words, weave_vector *value)
{
	weave_vector loaded[8];

	for (uint32_t bit = 0; bit < bits; bit++)
		loaded[bit] = words_load(plane + bit * plane_words + word, words - word);
	weave_join(loaded, bits, value);
}

WEAVE_INLINE int64_t dot_bits(const uint64_t *plane, size_t plane_words, uint32_t bits,
			      uint32_t words, const int16_t *parts)
{
	weave_sums high = { 0 }, low = { 0 };

	for (uint32_t word = 0; word < words; word += VECTOR_WORDS) {
		const int16_t *part = parts + weave_part(word * WEAVE_WORD);
		weave_vector value[8];

		values_load(plane, plane_words, bits, word, words, value);
		for (uint32_t f = 0; f < 8; f++, part += 128) {
			weave_vector even = bytes_low(value[f]), odd = bytes_high(value[f]);

			high += products(even, part);
			low += products(even, part + 32);
			high += products(odd, part + 64);
			low += products(odd, part + 96);
		}
	}
	return sum_of(high) * (1 << WEAVE_PART_BITS) + sum_of(low);
}

static int64_t kernel_dot(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
			  const int16_t *parts){
#define DOT(n) return dot_bits(plane, plane_words, n, words, parts)
	WEAVE_FOR_BITS(bits, DOT)
#undef DOT
}

WEAVE_INLINE void add_bits(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
			   float scale, float *sums)
{
	for (uint32_t word = 0; word < words; word += VECTOR_WORDS) {
		weave_vector value[8];

		values_load(plane, plane_words, bits, word, words, value);
		values_add(sums + word * WEAVE_WORD, value, scale);
	}
}

static void kernel_add(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
		       float scale, float *sums)
{
#define ADD(n)                                               \
	add_bits(plane, plane_words, n, words, scale, sums); \
	break
	WEAVE_FOR_BITS(bits, ADD)
#undef ADD
}

#endif
