/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weave_join.h - from bit planes to bytes in vector registers, for the kernels of one instruction set,
 * which define WEAVE_VECTOR, the bytes of a vector.
 *
 * Planes are joined in pairs, the more significant with the less: two vectors of bits are two of 2-bit
 * values, the even ones and the odd ones; two such pairs are four vectors of 4-bit values, and those
 * eight of bytes. Eight planes take 72 instructions for as many values as a plane has bits; adding the
 * weights under a mask, plane by plane, would take four for every eight values of every plane.
 */
#ifndef GLM_WEAVE_JOIN_H
#define GLM_WEAVE_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#define WEAVE_INLINE static inline __attribute__((always_inline))

/* 16-bit lanes, since there is no shift of bytes; what a shift brings from a neighbour is masked. */
typedef uint16_t weave_vector __attribute__((vector_size(WEAVE_VECTOR)));

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

#endif
