/* SPDX-License-Identifier: Apache-2.0 */
/* lanes_int.c - integers as lanes, what is copied, and what has an order: see lanes_ways.h. */
#include "core/shared/lanes_ways.h"

enum { SIGN_32 = (int32_t)0x80000000 };

/* ---- where there is nothing to amend ---- */

static void no_detail(const struct lanes *lanes, int32_t *lane, const void *source, uint32_t count)
{
	(void)source;
	__builtin_memset(lane, 0, map_lanes(lanes->shape, count) * sizeof(*lane));
}

static uint64_t no_amend(const struct lanes *lanes, void *destination, const int32_t *lane,
			 uint32_t count)
{
	(void)lanes;
	(void)destination;
	(void)lane;
	(void)count;
	return 0;
}

/* ---- 8 bits: each sum fits its lane ---- */

static uint8_t narrow_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			   uint32_t count, uint32_t exponent)
{
	const uint8_t *from = source;

	(void)exponent;
	for (uint32_t i = 0; i < count; i++)
		lane[i] = lanes->type == LANES_INT8 ? (int8_t)from[i] : from[i];
	return 0;
}

static uint64_t narrow_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			      uint32_t count, uint32_t exponent, bool is_raw)
{
	int32_t least = lanes->type == LANES_INT8 ? INT8_MIN : 0;
	int32_t most = lanes->type == LANES_INT8 ? INT8_MAX : UINT8_MAX;
	int32_t by = lanes->is_avg ? (int32_t)lanes->workers : 1;
	uint64_t saturated = 0;
	uint8_t *to = destination;

	(void)exponent;
	(void)is_raw;
	for (uint32_t i = 0; i < count; i++) {
		int32_t sum = lane[i] / by;

		saturated += sum < least || sum > most;
		sum = sum < least ? least : sum;
		to[i] = (uint8_t)(sum > most ? most : sum);
	}
	return saturated;
}

const struct lanes_way lanes_narrow = { .pack = narrow_pack,
					.unpack = narrow_unpack,
					.detail = no_detail,
					.amend = no_amend };

/* ---- int32 (R-NUM-5, R-NUM-6) ---- */

static uint8_t int32_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			  uint32_t count, uint32_t exponent)
{
	(void)exponent;
	return lanes->quant->pack_i32(lane, source, count, quant_bound(lanes->workers));
}

static uint64_t int32_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			     uint32_t count, uint32_t exponent, bool is_raw)
{
	(void)exponent;
	lanes->quant->unpack_i32(destination, lane, count, lanes->workers,
				 lanes->is_avg && !is_raw);
	return 0;
}

static void int32_detail(const struct lanes *lanes, int32_t *lane, const void *source,
			 uint32_t count)
{
	(void)lanes;
	quant_detail_pack_i32(lane, source, count);
}

static uint64_t int32_amend(const struct lanes *lanes, void *destination, const int32_t *lane,
			    uint32_t count)
{
	return quant_detail_amend_i32(destination, lane, count, lanes->workers, lanes->is_avg);
}

const struct lanes_way lanes_int32 = { .pack = int32_pack,
				       .unpack = int32_unpack,
				       .detail = int32_detail,
				       .amend = int32_amend };

/* ---- uint32 (R-NUM-9) ---- */

static uint8_t uint32_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			   uint32_t count, uint32_t exponent)
{
	uint32_t bound = (uint32_t)quant_bound(lanes->workers), beyond = 0;
	const uint32_t *from = source;

	(void)exponent;
	for (uint32_t i = 0; i < count; i++) {
		lane[i] = (int32_t)from[i];
		beyond |= from[i] > bound;
	}
	return beyond ? WIRE_RANGE : 0;
}

static uint64_t uint32_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			      uint32_t count, uint32_t exponent, bool is_raw)
{
	uint32_t by = lanes->is_avg && !is_raw ? lanes->workers : 1;
	uint32_t *to = destination;

	(void)exponent;
	for (uint32_t i = 0; i < count; i++)
		to[i] = (uint32_t)lane[i] / by;
	return 0;
}

static void uint32_detail(const struct lanes *lanes, int32_t *lane, const void *source,
			  uint32_t count)
{
	const uint32_t *from = source;

	(void)lanes;
	for (uint32_t i = 0; i < count; i++)
		lane[i] = (int32_t)(from[i] >> 16);
}

/* 65,535 halves of 16 bits add up to less than 2^32: none of the two sums of halves has wrapped. */
static uint64_t uint32_amend(const struct lanes *lanes, void *destination, const int32_t *lane,
			     uint32_t count)
{
	uint32_t *to = destination;
	uint64_t saturated = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t high = (uint32_t)lane[i];
		uint64_t sum = ((uint64_t)high << 16) + (uint32_t)(to[i] - (high << 16));

		sum /= lanes->is_avg ? lanes->workers : 1;
		saturated += sum > UINT32_MAX;
		to[i] = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
	}
	return saturated;
}

const struct lanes_way lanes_uint32 = { .pack = uint32_pack,
					.unpack = uint32_unpack,
					.detail = uint32_detail,
					.amend = uint32_amend };

/* ---- 64 bits, in digits (R-NUM-10) ---- */

static uint8_t int64_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			  uint32_t count, uint32_t exponent)
{
	uint32_t bits = lanes->wide.bits, mask = (1u << bits) - 1, each = lanes->wide.lanes;
	const uint64_t *from = source;

	(void)exponent;
	if (each == 3) {
		lanes->quant->pack_i64(lane, from, count, bits, lanes->type == LANES_INT64);
		return 0;
	}
	for (uint32_t i = 0; i < count; i++, lane += each) {
		bool is_negative = lanes->type == LANES_INT64 && from[i] >> 63;
		uint64_t rest = is_negative ? 0 - from[i] : from[i];
		uint32_t sign = is_negative ? UINT32_MAX : 0;

		for (uint32_t digit = 0; digit < each; digit++, rest >>= bits)
			lane[digit] = (int32_t)((((uint32_t)rest & mask) ^ sign) - sign);
	}
	return 0;
}

/* The largest magnitude that the type has on this side of 0. */
static uint64_t most_of(enum lanes_type type, bool is_negative)
{
	if (type == LANES_UINT64)
		return is_negative ? 0 : UINT64_MAX;
	return (uint64_t)INT64_MAX + is_negative;
}

static uint64_t int64_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			     uint32_t count, uint32_t exponent, bool is_raw)
{
	uint64_t *to = destination, saturated = 0;
	struct wide wide;

	(void)exponent;
	(void)is_raw;
	if (lanes->wide.lanes == 3 && !lanes->is_avg)
		return lanes->quant->unpack_i64(to, lane, count, lanes->wide.bits,
						lanes->type == LANES_INT64);
	for (uint32_t i = 0; i < count; i++, lane += lanes->wide.lanes) {
		uint64_t most, high = 0;

		wide_get(&wide, lane, lanes->wide);
		if (lanes->is_avg)
			wide_divide(&wide, lanes->workers, 0);
		most = most_of(lanes->type, wide.is_negative);
		for (uint32_t word = 1; word < wide.words; word++)
			high |= wide.word[word];
		if (high || wide.word[0] > most) {
			wide.word[0] = most;
			saturated++;
		}
		to[i] = wide.is_negative ? 0 - wide.word[0] : wide.word[0];
	}
	return saturated;
}

const struct lanes_way lanes_int64 = { .pack = int64_pack,
				       .unpack = int64_unpack,
				       .detail = no_detail,
				       .amend = no_amend };

/* ---- min and max (R-NUM-14) ---- */

static bool is_float(enum lanes_type type)
{
	return type == LANES_FLOAT16 || type == LANES_FLOAT32 || type == LANES_BFLOAT16;
}

/* Floats of one sign are ordered as their magnitudes are, read as integers. */
static int32_t float_code(const struct lanes *lanes, int32_t bits)
{
	int32_t magnitude = bits & (lanes->bytes == 2 ? INT16_MAX : INT32_MAX);

	if (magnitude > (int32_t)ieee_infinity(lanes->form, false))
		return LANES_CODE_NAN;
	return bits < 0 ? ~magnitude : magnitude;
}

static int32_t code_of(const struct lanes *lanes, const void *source, uint32_t i)
{
	switch (lanes->type) {
	case LANES_INT8:
		return ((const int8_t *)source)[i];
	case LANES_UINT8:
		return ((const uint8_t *)source)[i];
	case LANES_UINT32:
		return ((const int32_t *)source)[i] ^ SIGN_32;
	case LANES_FLOAT16:
	case LANES_BFLOAT16:
		return float_code(lanes, ((const int16_t *)source)[i]);
	case LANES_FLOAT32:
		return float_code(lanes, ((const int32_t *)source)[i]);
	default:
		return ((const int32_t *)source)[i];
	}
}

static uint8_t order_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			  uint32_t count, uint32_t exponent)
{
	(void)exponent;
	for (uint32_t i = 0; i < count; i++) {
		int32_t code = code_of(lanes, source, i);

		if (lanes->is_min && !(is_float(lanes->type) && code == LANES_CODE_NAN))
			code = ~code;
		lane[i] = code;
	}
	return 0;
}

static int32_t bits_of_code(const struct lanes *lanes, int32_t lane)
{
	int32_t code = lanes->is_min ? ~lane : lane;

	if (lanes->type == LANES_UINT32)
		return code ^ SIGN_32;
	if (!is_float(lanes->type))
		return code;
	if (lane == LANES_CODE_NAN)
		return (int32_t)ieee_nan(lanes->form);
	return code < 0 ? SIGN_32 >> (32 - 8 * lanes->bytes) | ~code : code;
}

static uint64_t order_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			     uint32_t count, uint32_t exponent, bool is_raw)
{
	(void)exponent;
	(void)is_raw;
	for (uint32_t i = 0; i < count; i++) {
		int32_t bits = bits_of_code(lanes, lane[i]);

		if (lanes->bytes == 1)
			((uint8_t *)destination)[i] = (uint8_t)bits;
		else if (lanes->bytes == 2)
			((uint16_t *)destination)[i] = (uint16_t)bits;
		else
			((int32_t *)destination)[i] = bits;
	}
	return 0;
}

const struct lanes_way lanes_order = { .pack = order_pack,
				       .unpack = order_unpack,
				       .detail = no_detail,
				       .amend = no_amend };

/* ---- bytes as they are (R-NUM-8) ---- */

static uint8_t copy_pack(const struct lanes *lanes, int32_t *lane, const void *source,
			 uint32_t count, uint32_t exponent)
{
	(void)exponent;
	if (count)
		lane[map_lanes(lanes->shape, count) - 1] = 0; /* which bytes may not fill */
	__builtin_memcpy(lane, source, (size_t)count * lanes->bytes);
	return 0;
}

static uint64_t copy_unpack(const struct lanes *lanes, void *destination, const int32_t *lane,
			    uint32_t count, uint32_t exponent, bool is_raw)
{
	(void)exponent;
	(void)is_raw;
	__builtin_memcpy(destination, lane, (size_t)count * lanes->bytes);
	return 0;
}

const struct lanes_way lanes_copy = { .pack = copy_pack,
				      .unpack = copy_unpack,
				      .detail = no_detail,
				      .amend = no_amend };
