/* SPDX-License-Identifier: Apache-2.0 */
/* lanes_float.c - floats as lanes: see lanes_ways.h. */
#include "core/shared/lanes_ways.h"
#include "core/shared/quant_exact.h"

enum {
	EXPONENT_MAX_64 = 2046,
	HALF_BITS = 16,
};

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

/* From an element to the next one: exact ones lie in rows. */
static uint32_t stride_of(const struct lanes *lanes)
{
	return lanes->is_exact ? 1 : lanes->shape.lanes;
}

/* Two elements share a lane, and have half as long counters. */
static void detail(const struct lanes *lanes, int32_t *lane, const void *source, uint32_t count)
{
	uint32_t together = lanes->shape.elements, each = stride_of(lanes);
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
	uint32_t together = lanes->shape.elements, each = stride_of(lanes);
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

/* ---- float32 with an exponent that the caller has said: what is above it counts as infinite (R-NUM-16) ---- */

static uint8_t fixed_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			  uint32_t count, uint32_t exponent)
{
	uint8_t flags = float32_pack(lanes, lane, source, count, lanes->exponent);

	(void)exponent;
	if (lanes->quant->exponent_f32(source, count) > lanes->exponent)
		flags |= WIRE_NONFINITE;
	return flags;
}

static uint64_t fixed_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			     uint32_t count, uint32_t exponent, bool is_raw)
{
	(void)exponent;
	return float32_unpack(lanes, destination, lane, count, lanes->exponent, is_raw);
}

static void fixed_detail(const struct lanes *lanes, int32_t *lane, const void *source,
			 uint32_t count)
{
	const uint32_t *from = source;

	quant_detail_pack_f32(lane, source, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t exponent = from[i] >> 23 & 0xff;

		if (exponent > lanes->exponent && exponent <= LANES_EXPONENT_MAX)
			lane[i] = from[i] >> 31 ? 1 << HALF_BITS : 1;
	}
}

/* All that become infinite or NaN count. */
static uint64_t fixed_amend(const struct lanes *lanes, void *destination, const int32_t *lane,
			    uint32_t count)
{
	uint64_t saturated = 0;

	for (uint32_t i = 0; i < count; i++)
		saturated += lane[i] != 0;
	float32_amend(lanes, destination, lane, count);
	return saturated;
}

const struct lanes_way lanes_fixed = { .pack = fixed_pack,
				       .unpack = fixed_unpack,
				       .detail = fixed_detail,
				       .amend = fixed_amend };

/* ---- 16 bits, one or two in a lane (R-NUM-11) ---- */

static enum quant_half half_of(const struct lanes *lanes)
{
	if (lanes->type == LANES_FLOAT32)
		return QUANT_FLOAT32;
	return lanes->type == LANES_BFLOAT16 ? QUANT_BFLOAT16 : QUANT_FLOAT16;
}

static uint32_t half_exponent(const struct lanes *lanes, const void *source, uint32_t count)
{
	if (lanes->type == LANES_FLOAT32)
		return lanes->quant->exponent_f32(source, count);
	return lanes->quant->exponent_half(source, count, half_of(lanes));
}

static void half_scale(const struct lanes *lanes, struct quant_scale *scale, uint32_t exponent)
{
	if (lanes->shape.elements == 2)
		quant_scale_half(scale, lanes->workers, exponent);
	else
		quant_scale(scale, lanes->workers, exponent);
}

static uint8_t half_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			 uint32_t count, uint32_t exponent)
{
	struct quant_scale scale;

	half_scale(lanes, &scale, exponent);
	return lanes->quant->pack_half(lane, source, count, &scale, half_of(lanes));
}

static uint64_t half_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			    uint32_t count, uint32_t exponent, bool is_raw)
{
	struct quant_scale scale;

	(void)is_raw;
	half_scale(lanes, &scale, exponent);
	lanes->quant->unpack_half(destination, lane, count, &scale, lanes->is_avg, half_of(lanes));
	return 0;
}

const struct lanes_way lanes_half = { .exponent = half_exponent,
				      .pack = half_pack,
				      .unpack = half_unpack,
				      .detail = detail,
				      .amend = amend };

/* ---- several lanes: float64 by its block's exponent (R-NUM-12) ---- */

/* Elements are sent as multiples of 2^-this. */
static int32_t shift_of(const struct lanes *lanes, uint32_t exponent)
{
	int32_t bits = lanes->wide.lanes * lanes->wide.bits;

	exponent = exponent < EXPONENT_MAX_64 ? exponent : EXPONENT_MAX_64;
	return bits - ((int32_t)exponent - 1022);
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

/* An element's digits. */
static uint8_t wide_split(const struct lanes *lanes, int32_t *digit, uint64_t bits, int32_t shift)
{
	struct ieee_parts parts = ieee_split(lanes->form, bits);
	int32_t up = parts.power + shift;

	if (parts.class != IEEE_FINITE)
		parts.fraction = 0;
	if (up < 0)
		parts.fraction = rounded(parts.fraction, (uint32_t)-up);
	wide_put(digit, lanes->wide, parts.is_negative, parts.fraction, up > 0 ? (uint32_t)up : 0);
	return parts.class == IEEE_FINITE ? 0 : WIRE_NONFINITE;
}

/* What a sum's digits are. */
static uint64_t wide_join(const struct lanes *lanes, const int32_t *digit, int32_t power)
{
	struct wide wide;
	int32_t more = 0;

	wide_get(&wide, digit, lanes->wide);
	if (lanes->is_avg) {
		more = 2; /* words: more than a fraction */
		wide_divide(&wide, lanes->workers, (uint32_t)more);
	}
	return ieee_join(lanes->form, &wide, power - 64 * more);
}

static uint8_t wide_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			 uint32_t count, uint32_t exponent)
{
	int32_t shift = shift_of(lanes, exponent);
	uint8_t flags = 0;

	if (is_near_one(lanes, shift))
		return near_pack(lanes, lane, source, count, power_of_two(shift));
	for (uint32_t i = 0; i < count; i++, lane += lanes->wide.lanes)
		flags |= wide_split(lanes, lane, bits_at(lanes, source, i), shift);
	return flags;
}

static uint64_t wide_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			    uint32_t count, uint32_t exponent, bool is_raw)
{
	int32_t power = -shift_of(lanes, exponent);

	(void)is_raw;
	if (is_near_one(lanes, power) && !lanes->is_avg) {
		near_unpack(lanes, destination, lane, count, power_of_two(power));
		return 0;
	}
	for (uint32_t i = 0; i < count; i++, lane += lanes->wide.lanes)
		bits_set(lanes, destination, i, wide_join(lanes, lane, power));
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

/* ---- all floats exactly, in rows (R-NUM-13) ---- */

/* Float32 has loops of its own. */
static bool is_quick(const struct lanes *lanes)
{
	return lanes->type == LANES_FLOAT32 && lanes->wide.bits >= QUANT_EXACT_BITS_MIN &&
	       !lanes->is_avg;
}

static void rows_of(const struct lanes *lanes, uint32_t *row, uint32_t count)
{
	quant_exact_rows(row, count, lanes->wide.lanes, lanes->wide.bits,
			 (uint32_t)ieee_shift(lanes->form));
}

static uint8_t exact_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			  uint32_t count, uint32_t exponent)
{
	uint32_t row[WIDE_LANES_MAX], digits = lanes->wide.lanes;
	int32_t digit[WIDE_LANES_MAX];
	uint8_t flags = 0;

	(void)exponent;
	if (is_quick(lanes))
		return lanes->quant->pack_exact(lane, source, count, digits, lanes->wide.bits);
	rows_of(lanes, row, count);
	for (uint32_t i = 0; i < count; i++) {
		flags |= wide_split(lanes, digit, bits_at(lanes, source, i),
				    ieee_shift(lanes->form));
		for (uint32_t d = 0; d < digits; d++)
			lane[row[d] + i] = digit[d];
	}
	return flags;
}

static uint64_t exact_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			     uint32_t count, uint32_t exponent, bool is_raw)
{
	uint32_t row[WIDE_LANES_MAX], digits = lanes->wide.lanes;
	int32_t digit[WIDE_LANES_MAX];
	bool has_rows = false;

	(void)exponent;
	(void)is_raw;
	for (uint32_t i = 0; i < count; i++) {
		if (is_quick(lanes))
			i = (uint32_t)lanes->quant->unpack_exact(destination, lane, i, count,
								 digits, lanes->wide.bits);
		if (i == count)
			break;
		if (!has_rows)
			rows_of(lanes, row, count);
		has_rows = true;
		for (uint32_t d = 0; d < digits; d++)
			digit[d] = lane[row[d] + i];
		bits_set(lanes, destination, i, wide_join(lanes, digit, -ieee_shift(lanes->form)));
	}
	return 0;
}

const struct lanes_way lanes_exact = { .pack = exact_pack,
				       .unpack = exact_unpack,
				       .detail = detail,
				       .amend = amend };
