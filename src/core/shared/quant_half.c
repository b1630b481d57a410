/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_half.c - see quant.h: 16 bits, one or two in a lane (R-NUM-11, R-NUM-15). As in quant.c, all is exact but the
 * one rounding on the way in and the one on the way out.
 *
 * Two sums of less than 2^15 in magnitude share a lane: the low one may borrow from the high one, and gives it back.
 */
#include "core/shared/quant_half.h"

#include "core/shared/quant_parts.h"
#include "core/shared/wire.h"

enum {
	HALF_BITS = 16,
	HALF_MASK = 0x7fff, /* a magnitude */
	FLOAT16_FRACTION = 10,
	FLOAT16_SHIFT = 13,   /* a float16's fraction in a float32's */
	FLOAT16_REBIAS = 112, /* a float16's exponent is by this less than a float32's */
	FLOAT16_INFINITY = 0x7c00,
	BFLOAT16_FRACTION = 7,
	BFLOAT16_INFINITY = 0x7f80,
	INFINITY_32 = 0x7f800000,
};

/* Exact. The product makes denormals normal; what had the largest exponent has it again. */
CORE_INLINE float float16_widen(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t magnitude = (uint32_t)(half & HALF_MASK) << FLOAT16_SHIFT;
	uint32_t bits = bits_of(float_of(magnitude) * 0x1p112f);
	uint32_t is_finite = (half & HALF_MASK) < FLOAT16_INFINITY;

	return float_of(sign | bits | ((is_finite - 1) & INFINITY_32));
}

/* To nearest even: what is below the fraction is rounded by the sum of two integers; a denormal by that of two floats,
 * whose last bit is a denormal's. */
CORE_INLINE uint16_t float16_narrow(float x)
{
	uint32_t magnitude = bits_of(x) & MAGNITUDE_MASK, sign = bits_of(x) >> 16 & 0x8000, bits;

	if (magnitude < bits_of(0x1p-14f))
		bits = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
	else if (magnitude < bits_of(65520.0f))
		bits = (magnitude - bits_of(0x1p-15f) + 0xfff + (magnitude >> FLOAT16_SHIFT & 1)) >>
		       FLOAT16_SHIFT;
	else
		bits = FLOAT16_INFINITY;
	return (uint16_t)(sign | bits);
}

CORE_INLINE uint16_t bfloat16_narrow(float x)
{
	uint32_t bits = bits_of(x);

	return (uint16_t)((bits + 0x7fff + (bits >> HALF_BITS & 1)) >> HALF_BITS);
}

/* A float32 from which a shorter float is rounded as if from x: where it is not x, its last bit is set. */
CORE_INLINE float to_odd(double x)
{
	float near = (float)x;
	uint32_t bits = bits_of(near);

	if ((double)near == x || bits & 1)
		return near;
	return float_of((near < 0 ? -(double)near : (double)near) < (x < 0 ? -x : x) ? bits + 1
										     : bits - 1);
}

uint32_t quant_half_exponent(const uint16_t *src, size_t count, enum quant_half type)
{
	const int32_t infinity = type == QUANT_FLOAT16 ? FLOAT16_INFINITY : BFLOAT16_INFINITY;
	uint32_t largest = 0, exponent;

	for (size_t i = 0; i < count; i++) {
		int32_t magnitude = src[i] & HALF_MASK;

		magnitude = magnitude < infinity ? magnitude : 0;
		largest = (uint32_t)magnitude > largest ? (uint32_t)magnitude : largest;
	}
	if (type == QUANT_FLOAT16)
		return bits_of(float16_widen((uint16_t)largest)) >> EXPONENT_SHIFT;
	exponent = largest >> BFLOAT16_FRACTION;
	return exponent || !largest ? exponent : 1;
}

CORE_INLINE float widened(const void *src, size_t i, enum quant_half type)
{
	if (type == QUANT_FLOAT32)
		return ((const float *)src)[i];
	if (type == QUANT_BFLOAT16)
		return float_of((uint32_t)((const uint16_t *)src)[i] << HALF_BITS);
	return float16_widen(((const uint16_t *)src)[i]);
}

CORE_INLINE uint32_t pack_one(const void *src, size_t i, const struct quant_scale *scale,
			      enum quant_half type, uint32_t *nonfinite)
{
	float x = widened(src, i, type);
	uint32_t finite = finite_mask(x);

	*nonfinite |= ~finite;
	return (uint32_t)quantised(float_of(bits_of(x) & finite), scale->up, scale->bound);
}

CORE_INLINE uint8_t pack(int32_t *restrict lane, const void *restrict src, size_t count,
			 const struct quant_scale *scale, enum quant_half type)
{
	const struct quant_scale own = *scale; /* which lanes cannot change */
	uint32_t nonfinite = 0;

	if (own.together == 1) {
		for (size_t i = 0; i < count; i++)
			lane[i] = (int32_t)pack_one(src, i, &own, type, &nonfinite);
		return nonfinite ? WIRE_NONFINITE : 0;
	}
	for (size_t i = 0; i < count / 2; i++) {
		uint32_t low = pack_one(src, 2 * i, &own, type, &nonfinite);
		uint32_t high = pack_one(src, 2 * i + 1, &own, type, &nonfinite);

		lane[i] = (int32_t)(low + (high << HALF_BITS));
	}
	if (count % 2)
		lane[count / 2] = (int32_t)pack_one(src, count - 1, &own, type, &nonfinite);
	return nonfinite ? WIRE_NONFINITE : 0;
}

uint8_t quant_half_pack(int32_t *lane, const void *src, size_t count,
			const struct quant_scale *scale, enum quant_half type)
{
	if (type == QUANT_FLOAT16)
		return pack(lane, src, count, scale, QUANT_FLOAT16);
	if (type == QUANT_BFLOAT16)
		return pack(lane, src, count, scale, QUANT_BFLOAT16);
	return pack(lane, src, count, scale, QUANT_FLOAT32);
}

CORE_INLINE void narrow(void *dst, size_t i, float near, enum quant_half type)
{
	if (type == QUANT_FLOAT32)
		((float *)dst)[i] = near;
	else if (type == QUANT_BFLOAT16)
		((uint16_t *)dst)[i] = bfloat16_narrow(near);
	else
		((uint16_t *)dst)[i] = float16_narrow(near);
}

CORE_INLINE int32_t sum_of(const int32_t *lane, size_t i, uint32_t together)
{
	uint32_t both = (uint32_t)lane[i / together];
	int32_t low = (int16_t)both;

	if (together == 1)
		return lane[i];
	return i % 2 ? (int16_t)((both - (uint32_t)low) >> HALF_BITS) : low;
}

/* Sums of pairs, and their quotients by 128 at most, lie further from a tie than a float32 is wrong. */
CORE_INLINE void unpack(void *restrict dst, const int32_t *restrict lane, size_t count,
			const struct quant_scale *scale, bool is_avg, enum quant_half type)
{
	const double down = scale->down, by = is_avg ? scale->workers : 1;

	if (scale->together == 1)
		for (size_t i = 0; i < count; i++)
			narrow(dst, i, to_odd(sum_of(lane, i, 1) * down / by), type);
	else
		for (size_t i = 0; i < count; i++)
			narrow(dst, i, (float)(sum_of(lane, i, 2) * down / by), type);
}

void quant_half_unpack(void *dst, const int32_t *lane, size_t count,
		       const struct quant_scale *scale, bool is_avg, enum quant_half type)
{
	if (type == QUANT_FLOAT16)
		unpack(dst, lane, count, scale, is_avg, QUANT_FLOAT16);
	else if (type == QUANT_BFLOAT16)
		unpack(dst, lane, count, scale, is_avg, QUANT_BFLOAT16);
	else
		unpack(dst, lane, count, scale, is_avg, QUANT_FLOAT32);
}
