/* SPDX-License-Identifier: Apache-2.0 */
/* quant_parts.h - what quant.c and quant_half.c are made of. */
#ifndef CORE_QUANT_PARTS_H
#define CORE_QUANT_PARTS_H

#include "core/shared/env.h"

#if __FLT_EVAL_METHOD__ != 0
#error "float and double must be computed as float and double: not with x87 instructions"
#endif

enum {
	EXPONENT_SHIFT = 23,
	MAGNITUDE_MASK = 0x7fffffff,
	MAGNITUDE_FINITE_MAX = 0x7f7fffff, /* FLT_MAX; an infinity is one more, NaNs are beyond */

	DOUBLE_BIAS = 1023,
	DOUBLE_EXPONENT_SHIFT = 52,
};

CORE_INLINE uint32_t bits_of(float x)
{
	uint32_t bits;

	__builtin_memcpy(&bits, &x, sizeof(bits));
	return bits;
}

CORE_INLINE float float_of(uint32_t bits)
{
	float x;

	__builtin_memcpy(&x, &bits, sizeof(x));
	return x;
}

/* Magnitudes compare like the integers that they are; signed, as SSE2 knows no other. */
CORE_INLINE int32_t magnitude_of(float x)
{
	return (int32_t)(bits_of(x) & MAGNITUDE_MASK);
}

/* All ones or nothing: gcc would branch, and not vectorise. */
CORE_INLINE uint32_t finite_mask(float x)
{
	return 0 - (uint32_t)(magnitude_of(x) <= MAGNITUDE_FINITE_MAX);
}

CORE_INLINE double power_of_two(int32_t exponent)
{
	uint64_t bits = (uint64_t)(DOUBLE_BIAS + exponent) << DOUBLE_EXPONENT_SHIFT;
	double x;

	__builtin_memcpy(&x, &bits, sizeof(x));
	return x;
}

/* Of magnitude below 2^31. In [2^52, 2^53) the doubles are the integers: the addition rounds to
 * even and leaves the integer, in two's complement, in the low bits. */
CORE_INLINE int32_t round_to_even(double x)
{
	double sum = x + 0x1.8p52;
	uint64_t bits;

	__builtin_memcpy(&bits, &sum, sizeof(bits));
	return (int32_t)(uint32_t)bits;
}

/* x * up, clamped. */
CORE_INLINE int32_t quantised(float finite, double up, double high)
{
	double x = (double)finite * up;

	x = x > high ? high : x;
	x = x < -high ? -high : x;
	return round_to_even(x);
}

#endif
