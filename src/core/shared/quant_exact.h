/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_exact.h - float32 as digits of an exact sum, and sums of these (R-NUM-13), without wide.h's long numbers: a few
 * digits are not 0. The text is built for each instruction set. What differs from element to element decides no
 * branch: a processor could not foresee it.
 *
 * Why the bits are ieee.c's: three digits are an integer of less than 63 bits, and what is behind its point. The last bit
 * of the integer also says whether anything is (rounding to odd). It is 2^25 or more, so that bit is below what the
 * conversion to float keeps, which rounds once. The product with a power of two is exact, or infinite as it should be:
 * the result is no denormal.
 */
#ifndef CORE_QUANT_EXACT_H
#define CORE_QUANT_EXACT_H

#include "core/shared/wire.h"

enum {
	QUANT_EXACT_BITS_MIN = 23,   /* of a digit: an element then has two that are not 0, */
	QUANT_EXACT_DIGITS_MAX = 16, /* and all float32 need no more digits than this */
	QUANT_EXACT_TOP = 3,         /* digits that are looked at */
	QUANT_EXACT_LEAST = 25,      /* bits that the integer has, at least */
	QUANT_FRACTION = 23,
	QUANT_INFINITE = 255,
	QUANT_DENORMALS = 149, /* the smallest float32 is 2^-this */
	QUANT_BIAS = 127,
	QUANT_EXACT_TURN = 16, /* elements at a time */
};

/* Some elements: where the two digits of each lie, and what they are. */
struct quant_exact_turn {
	uint32_t first[QUANT_EXACT_TURN];
	int32_t low[QUANT_EXACT_TURN], high[QUANT_EXACT_TURN];
};

/* The loop is for a compiler to turn into vectors. */
CORE_INLINE uint8_t quant_exact_split(struct quant_exact_turn *turn, const float *src, size_t count,
				      uint32_t bits)
{
	const uint32_t mask = (1u << bits) - 1, inverse = UINT16_MAX / bits + 1;
	uint32_t is_infinite = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t element, biased, up, number;
		int32_t sign;

		__builtin_memcpy(&element, &src[i], sizeof(element));
		biased = element >> QUANT_FRACTION & QUANT_INFINITE;
		is_infinite |= biased == QUANT_INFINITE;
		number = (element & ((1u << QUANT_FRACTION) - 1)) | (uint32_t)(biased > 0)
									    << QUANT_FRACTION;
		number = biased == QUANT_INFINITE ? 0 : number;
		up = biased - (biased > 0);
		turn->first[i] = up * inverse >> 16; /* up / bits */
		up -= turn->first[i] * bits;
		sign = (int32_t)element >> 31;
		turn->low[i] = ((int32_t)(number << up & mask) ^ sign) - sign;
		turn->high[i] = ((int32_t)(number >> (bits - up)) ^ sign) - sign;
	}
	return is_infinite ? WIRE_NONFINITE : 0;
}

CORE_INLINE uint8_t quant_exact_pack(int32_t *restrict lane, const float *restrict src,
				     size_t count, uint32_t digits, uint32_t bits)
{
	struct quant_exact_turn turn;
	uint8_t flags = 0;

	__builtin_memset(lane, 0, count * digits * sizeof(*lane));
	for (size_t done = 0; done < count; done += QUANT_EXACT_TURN) {
		bool is_full = count - done >= QUANT_EXACT_TURN;
		size_t some = is_full ? QUANT_EXACT_TURN : count - done;

		flags |= quant_exact_split(&turn, src + done, is_full ? QUANT_EXACT_TURN : some,
					   bits);
		for (size_t i = 0; i < some; i++, lane += digits) {
			uint32_t first = turn.first[i];

			lane[first + (first + 1 < digits)] = turn.high[i]; /* 0 if it has no lane */
			lane[first] = turn.low[i];
		}
	}
	return flags;
}

/* The three digits that begin with lane[low], rounded; *is_whole: no other digit counts, and they are enough. */
CORE_INLINE float quant_exact_join(const int32_t *lane, uint32_t found, uint32_t low, uint32_t bits,
				   bool *is_whole)
{
	uint32_t below = (uint32_t)lane[low] & ((1u << bits) - 1), scale_bits;
	int64_t upper = lane[low + 2] * ((int64_t)1 << bits) + lane[low + 1] + (lane[low] >> bits);
	uint64_t sign = (uint64_t)(upper >> 63), magnitude = ((uint64_t)upper ^ sign) - sign;
	float scale;

	*is_whole = !(found & ((1u << low) - 1)) & (magnitude >> QUANT_EXACT_LEAST != 0);
	scale_bits = ((low + 1) * bits + QUANT_BIAS - QUANT_DENORMALS) << QUANT_FRACTION;
	__builtin_memcpy(&scale, &scale_bits, sizeof(scale));
	return (float)(upper | (below != 0)) * scale;
}

/* `found` says which digits are not 0. Returns how many sums there are before one that needs more than this. */
CORE_INLINE size_t quant_exact_unpack(float *restrict dst, const int32_t *restrict lane,
				      size_t count, uint32_t digits, uint32_t bits,
				      uint32_t (*found)(const int32_t *lane, uint32_t digits))
{
	for (size_t i = 0; i < count; i++, lane += digits) {
		uint32_t set = found(lane, digits);
		uint32_t top = 31 - (uint32_t)__builtin_clz(set | 1u << (QUANT_EXACT_TOP - 1));
		bool is_whole;

		dst[i] = quant_exact_join(lane, set, top + 1 - QUANT_EXACT_TOP, bits, &is_whole);
		if (!is_whole)
			return i;
	}
	return count;
}

CORE_INLINE uint32_t quant_exact_found(const int32_t *lane, uint32_t digits)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < digits; i++)
		found |= (uint32_t)(lane[i] != 0) << i;
	return found;
}

#endif
