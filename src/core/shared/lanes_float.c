/* SPDX-License-Identifier: Apache-2.0 */
/* lanes_float.c - floats as lanes: see lanes_ways.h. */
#include "core/shared/lanes_ways.h"

enum {
	BLOCK = 256,        /* elements that are looked at together */
	FLOAT16_SHIFT = 13, /* a float16's fraction in a float32's */
	FLOAT16_INFINITY = 0x7c00,
	INFINITY_32 = 0x7f800000,
	EXPONENT_MAX_64 = 2046,
	HALF_BITS = 16,
};

static uint32_t bits_of(float x)
{
	uint32_t bits;

	__builtin_memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float x;

	__builtin_memcpy(&x, &bits, sizeof(x));
	return x;
}

/* ---- infinities and NaNs (R-NUM-4): +Inf, -Inf counted, each in `bits` bits; NaN is both ---- */

static uint32_t detail_of(const struct ieee_form *form, uint64_t bits, uint32_t counter_bits)
{
	struct ieee_parts parts = ieee_split(form, bits);
	uint32_t negative = 1u << counter_bits;

	if (parts.class == IEEE_NAN)
		return 1 + negative;
	if (parts.class == IEEE_INFINITE)
		return parts.is_negative ? negative : 1;
	return 0;
}

static uint64_t bits_at(const struct lanes *lanes, const void *at, uint32_t i)
{
	if (lanes->bytes == 2)
		return ((const uint16_t *)at)[i];
	if (lanes->bytes == 4)
		return ((const uint32_t *)at)[i];
	return ((const uint64_t *)at)[i];
}

static void bits_set(const struct lanes *lanes, void *at, uint32_t i, uint64_t bits)
{
	if (lanes->bytes == 2)
		((uint16_t *)at)[i] = (uint16_t)bits;
	else if (lanes->bytes == 4)
		((uint32_t *)at)[i] = (uint32_t)bits;
	else
		((uint64_t *)at)[i] = bits;
}

/* Two elements share a lane, and have half as long counters. */
static void detail(const struct lanes *lanes, int32_t *lane, const void *source, uint32_t count)
{
	uint32_t together = lanes->shape.elements, each = lanes->shape.lanes;
	uint32_t bits = HALF_BITS / together;

	__builtin_memset(lane, 0, map_lanes(lanes->shape, count) * sizeof(*lane));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t found = detail_of(lanes->form, bits_at(lanes, source, i), bits);
		int32_t *at = &lane[i / together * each];

		*at = (int32_t)((uint32_t)*at | found << i % together * HALF_BITS);
	}
}

static uint64_t amend(const struct lanes *lanes, void *destination, const int32_t *lane,
		      uint32_t count)
{
	uint32_t together = lanes->shape.elements, each = lanes->shape.lanes;
	uint32_t bits = HALF_BITS / together, mask = (1u << bits) - 1;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t sum = (uint32_t)lane[i / together * each] >> i % together * HALF_BITS;
		uint32_t positive = sum & mask, negative = sum >> bits & mask;

		if (positive && negative)
			bits_set(lanes, destination, i, ieee_nan(lanes->form));
		else if (positive || negative)
			bits_set(lanes, destination, i, ieee_infinity(lanes->form, negative));
	}
	return 0;
}

/* ---- float32, a lane each (R-NUM-2, R-NUM-3) ---- */

static uint32_t float32_exponent(const struct lanes *lanes, const void *source, uint32_t count)
{
	return lanes->quant->exponent_f32(source, count);
}

static uint8_t float32_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			    uint32_t count, uint32_t exponent)
{
	struct quant_scale scale;

	quant_scale(&scale, lanes->workers, exponent);
	return lanes->quant->pack_f32(lane, source, count, &scale);
}

static uint64_t float32_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			       uint32_t count, uint32_t exponent, bool is_raw)
{
	struct quant_scale scale;

	(void)is_raw;
	quant_scale(&scale, lanes->workers, exponent);
	lanes->quant->unpack_f32(destination, lane, count, &scale, lanes->is_avg);
	return 0;
}

static void float32_detail(const struct lanes *lanes, int32_t *lane, const void *source,
			   uint32_t count)
{
	(void)lanes;
	quant_detail_pack_f32(lane, source, count);
}

static uint64_t float32_amend(const struct lanes *lanes, void *destination, const int32_t *lane,
			      uint32_t count)
{
	(void)lanes;
	quant_detail_amend_f32(destination, lane, count);
	return 0;
}

const struct lanes_way lanes_float32 = { .exponent = float32_exponent,
					 .pack = float32_pack,
					 .unpack = float32_unpack,
					 .detail = float32_detail,
					 .amend = float32_amend };

/* ---- 16 bits, one or two in a lane (R-NUM-11) ---- */

/* Exact. The product makes denormals normal; what had the largest exponent has it again. */
static float float16_widen(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t magnitude = (uint32_t)(half & 0x7fff) << FLOAT16_SHIFT;
	uint32_t bits = bits_of(float_of(magnitude) * 0x1p112f);

	if ((half & 0x7fff) >= FLOAT16_INFINITY)
		bits |= INFINITY_32;
	return float_of(sign | bits);
}

/* To nearest even: what is below the fraction is rounded by the sum of two integers; a denormal by that of two floats,
 * whose last bit is a denormal's. */
static uint16_t float16_narrow(float x)
{
	uint32_t magnitude = bits_of(x) & 0x7fffffff, sign = bits_of(x) >> 16 & 0x8000, bits;

	if (magnitude < bits_of(0x1p-14f))
		bits = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
	else if (magnitude < bits_of(65520.0f))
		bits = (magnitude - bits_of(0x1p-15f) + 0xfff + (magnitude >> FLOAT16_SHIFT & 1)) >>
		       FLOAT16_SHIFT;
	else
		bits = FLOAT16_INFINITY;
	return (uint16_t)(sign | bits);
}

static uint16_t bfloat16_narrow(float x)
{
	uint32_t bits = bits_of(x);

	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A float32 from which a shorter float is rounded as if from x: where it is not x, its last bit is set. */
static float to_odd(double x)
{
	float near = (float)x;
	uint32_t bits = bits_of(near);

	if ((double)near == x || bits & 1)
		return near;
	return float_of((near < 0 ? -(double)near : (double)near) < (x < 0 ? -x : x) ? bits + 1
										     : bits - 1);
}

static void widen(const struct lanes *lanes, float *to, const void *source, uint32_t first,
		  uint32_t count)
{
	const uint16_t *from = (const uint16_t *)source + first;

	if (lanes->type == LANES_FLOAT32)
		__builtin_memcpy(to, (const float *)source + first, count * sizeof(*to));
	else if (lanes->type == LANES_BFLOAT16)
		for (uint32_t i = 0; i < count; i++)
			to[i] = float_of((uint32_t)from[i] << 16);
	else
		for (uint32_t i = 0; i < count; i++)
			to[i] = float16_widen(from[i]);
}

static uint32_t block_of(uint32_t first, uint32_t count)
{
	return count - first < BLOCK ? count - first : BLOCK;
}

static uint32_t half_exponent(const struct lanes *lanes, const void *source, uint32_t count)
{
	uint32_t largest = 0;
	float wide[BLOCK];

	for (uint32_t at = 0; at < count; at += BLOCK) {
		uint32_t block = block_of(at, count), exponent;

		widen(lanes, wide, source, at, block);
		exponent = lanes->quant->exponent_f32(wide, block);
		largest = exponent > largest ? exponent : largest;
	}
	return largest;
}

static void half_scale(const struct lanes *lanes, struct quant_scale *scale, uint32_t exponent)
{
	if (lanes->shape.elements == 2)
		quant_scale_half(scale, lanes->workers, exponent);
	else
		quant_scale(scale, lanes->workers, exponent);
}

/* Two sums of less than 2^15 in magnitude: the low one may borrow from the high one, and gives it back. */
static void pairs_join(int32_t *lane, const int32_t *value, uint32_t count)
{
	for (uint32_t i = 0; i + 1 < count; i += 2)
		lane[i / 2] = value[i] + (int32_t)((uint32_t)value[i + 1] << HALF_BITS);
	if (count % 2)
		lane[count / 2] = value[count - 1];
}

static void pairs_split(int32_t *value, const int32_t *lane, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t both = (uint32_t)lane[i / 2];
		int32_t low = (int16_t)both;

		value[i] = i % 2 ? (int16_t)((both - (uint32_t)low) >> HALF_BITS) : low;
	}
}

static uint8_t half_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			 uint32_t count, uint32_t exponent)
{
	uint32_t together = lanes->shape.elements;
	struct quant_scale scale;
	int32_t value[BLOCK];
	float wide[BLOCK];
	uint8_t flags = 0;

	half_scale(lanes, &scale, exponent);
	for (uint32_t at = 0; at < count; at += BLOCK) {
		uint32_t block = block_of(at, count);

		widen(lanes, wide, source, at, block);
		flags |= lanes->quant->pack_f32(value, wide, block, &scale);
		if (together == 2)
			pairs_join(lane + at / 2, value, block);
		else
			__builtin_memcpy(lane + at, value, block * sizeof(*value));
	}
	return flags;
}

/* Sums of pairs, and their quotients by 128 at most, lie further from a tie than a float32 is wrong. */
static void narrow(const struct lanes *lanes, void *destination, uint32_t first,
		   const int32_t *value, uint32_t count, double down)
{
	uint16_t *to = (uint16_t *)destination + first;
	double by = lanes->is_avg ? lanes->workers : 1;
	float near[BLOCK];

	if (lanes->shape.elements == 2)
		for (uint32_t i = 0; i < count; i++)
			near[i] = (float)(value[i] * down / by);
	else
		for (uint32_t i = 0; i < count; i++)
			near[i] = to_odd(value[i] * down / by);
	if (lanes->type == LANES_FLOAT32)
		__builtin_memcpy((float *)destination + first, near, count * sizeof(*near));
	else if (lanes->type == LANES_BFLOAT16)
		for (uint32_t i = 0; i < count; i++)
			to[i] = bfloat16_narrow(near[i]);
	else
		for (uint32_t i = 0; i < count; i++)
			to[i] = float16_narrow(near[i]);
}

static uint64_t half_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			    uint32_t count, uint32_t exponent, bool is_raw)
{
	struct quant_scale scale;
	int32_t value[BLOCK];

	(void)is_raw;
	half_scale(lanes, &scale, exponent);
	for (uint32_t at = 0; at < count; at += BLOCK) {
		uint32_t block = block_of(at, count);

		if (lanes->shape.elements == 2)
			pairs_split(value, lane + at / 2, block);
		else
			__builtin_memcpy(value, lane + at, block * sizeof(*value));
		narrow(lanes, destination, at, value, block, scale.down);
	}
	return 0;
}

const struct lanes_way lanes_half = { .exponent = half_exponent,
				      .pack = half_pack,
				      .unpack = half_unpack,
				      .detail = detail,
				      .amend = amend };

/* ---- several lanes: float64 by its block's exponent, and all floats exactly (R-NUM-12, R-NUM-13) ---- */

/* Elements are sent as multiples of 2^-this. */
static int32_t shift_of(const struct lanes *lanes, uint32_t exponent)
{
	int32_t bits = lanes->wide.lanes * lanes->wide.bits;

	exponent = exponent < EXPONENT_MAX_64 ? exponent : EXPONENT_MAX_64;
	return lanes->is_exact ? ieee_shift(lanes->form) : bits - ((int32_t)exponent - 1022);
}

static uint64_t rounded(uint64_t fraction, uint32_t drop)
{
	uint64_t kept, rest;

	if (drop > 63)
		return 0;
	kept = fraction >> drop;
	rest = fraction << (64 - drop);
	return kept + (rest > (uint64_t)1 << 63 || (rest == (uint64_t)1 << 63 && kept & 1));
}

/* 2^power; it is a normal double. */
static double power_of_two(int32_t power)
{
	uint64_t bits = (uint64_t)(power + 1023) << 52;
	double x;

	__builtin_memcpy(&x, &bits, sizeof(x));
	return x;
}

/* In two digits, with all products far from the ends of the range: exact but for the one rounding. */
static bool is_near_one(const struct lanes *lanes, int32_t shift)
{
	return lanes->wide.lanes == 2 && lanes->type == LANES_FLOAT64 && shift > -900 &&
	       shift < 900;
}

static uint8_t near_pack(const struct lanes *lanes, int32_t *lane, const double *from,
			 uint32_t count, double up)
{
	uint32_t bits = lanes->wide.bits, mask = (1u << bits) - 1;
	uint8_t flags = 0;

	for (uint32_t i = 0; i < count; i++, lane += 2) {
		double magnitude = __builtin_fabs(from[i]) * up;
		/* From 2^52 on all doubles are integers: a sum is rounded to one. */
		double whole = magnitude < 0x1p52 ? magnitude + 0x1p52 - 0x1p52 : magnitude;
		bool is_finite = __builtin_fabs(from[i]) <= __DBL_MAX__;
		uint64_t number = is_finite && whole < 0x1p62 ? (uint64_t)(int64_t)whole : 0;
		uint32_t sign = from[i] < 0 ? UINT32_MAX : 0;

		flags |= is_finite ? 0 : WIRE_NONFINITE;
		lane[0] = (int32_t)((((uint32_t)number & mask) ^ sign) - sign);
		lane[1] = (int32_t)(((uint32_t)(number >> bits & mask) ^ sign) - sign);
	}
	return flags;
}

static void near_unpack(const struct lanes *lanes, double *to, const int32_t *lane, uint32_t count,
			double down)
{
	int64_t unit = (int64_t)1 << lanes->wide.bits;

	for (uint32_t i = 0; i < count; i++, lane += 2)
		to[i] = (double)(lane[1] * unit + lane[0]) * down;
}

static uint8_t wide_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			 uint32_t count, uint32_t exponent)
{
	int32_t shift = shift_of(lanes, exponent);
	uint8_t flags = 0;

	if (is_near_one(lanes, shift))
		return near_pack(lanes, lane, source, count, power_of_two(shift));
	for (uint32_t i = 0; i < count; i++, lane += lanes->wide.lanes) {
		struct ieee_parts parts = ieee_split(lanes->form, bits_at(lanes, source, i));
		int32_t up = parts.power + shift;

		if (parts.class != IEEE_FINITE) {
			parts.fraction = 0;
			flags = WIRE_NONFINITE;
		}
		if (up < 0)
			parts.fraction = rounded(parts.fraction, (uint32_t)-up);
		wide_put(lane, lanes->wide, parts.is_negative, parts.fraction,
			 up > 0 ? (uint32_t)up : 0);
	}
	return flags;
}

static uint64_t wide_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			    uint32_t count, uint32_t exponent, bool is_raw)
{
	int32_t power = -shift_of(lanes, exponent);
	struct wide wide;

	(void)is_raw;
	if (is_near_one(lanes, power) && !lanes->is_avg) {
		near_unpack(lanes, destination, lane, count, power_of_two(power));
		return 0;
	}
	for (uint32_t i = 0; i < count; i++, lane += lanes->wide.lanes) {
		int32_t more = 0;

		wide_get(&wide, lane, lanes->wide);
		if (lanes->is_avg) {
			more = 2; /* words: more than a fraction */
			wide_divide(&wide, lanes->workers, (uint32_t)more);
		}
		bits_set(lanes, destination, i, ieee_join(lanes->form, &wide, power - 64 * more));
	}
	return 0;
}

static uint32_t float64_exponent(const struct lanes *lanes, const void *source, uint32_t count)
{
	const uint64_t *from = source;
	uint64_t largest = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t magnitude = from[i] & INT64_MAX;

		magnitude = magnitude < ieee_infinity(lanes->form, false) ? magnitude : 0;
		largest = magnitude > largest ? magnitude : largest;
	}
	return largest >> 52 || !largest ? (uint32_t)(largest >> 52) : 1;
}

const struct lanes_way lanes_float64 = { .exponent = float64_exponent,
					 .pack = wide_pack,
					 .unpack = wide_unpack,
					 .detail = detail,
					 .amend = amend };
const struct lanes_way lanes_exact = { .pack = wide_pack,
				       .unpack = wide_unpack,
				       .detail = detail,
				       .amend = amend };
