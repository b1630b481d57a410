/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_exact.h - float32 as digits of an exact sum, and sums of these (R-NUM-13), without wide.h's long numbers: a few
 * digits are not 0. Lanes lie in rows, one digit of all elements in each. The text is built for each instruction set. What differs from element to element decides no
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
	QUANT_EXACT_TURN = 16,  /* elements at a time */
	QUANT_EXACT_NEAR = 8,   /* and of sums */
	QUANT_EXACT_USUAL = 12, /* the first rows are digits near that of 2^this */
};

/* The row of a digit: of those below `usual` and of those from there on, in turn the nearest that is left. */
CORE_INLINE uint32_t quant_exact_row(uint32_t digit, uint32_t usual, uint32_t digits)
{
	uint32_t above = digits - usual, far = digit < usual ? usual - 1 - digit : digit - usual;

	if (digit < usual)
		return far + (far < above ? far : above);
	return far + (far < usual ? far + 1 : usual);
}

/* The digit of 2^QUANT_EXACT_USUAL, if the lowest bit of all counts 2^-shift. */
CORE_INLINE uint32_t quant_exact_usual(uint32_t bits, uint32_t shift)
{
	return (shift + QUANT_EXACT_USUAL) / bits;
}

/* Where each digit's row begins. */
CORE_INLINE void quant_exact_rows(uint32_t *row, size_t count, uint32_t digits, uint32_t bits,
				  uint32_t shift)
{
	uint32_t usual = quant_exact_usual(bits, shift);

	for (uint32_t i = 0; i < digits; i++)
		row[i] = quant_exact_row(i, usual, digits) * (uint32_t)count;
}

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

/* All in the first three rows: that of the usual digit, the one below and the next. False: some have no place there. */
CORE_INLINE bool quant_exact_pack_few(int32_t *restrict lane, const float *restrict src,
				      size_t count, uint32_t bits)
{
	const uint32_t mask = (1u << bits) - 1;
	uint32_t least = (quant_exact_usual(bits, QUANT_DENORMALS) - 2) * bits + 1, is_other = 0;
	int32_t *middle = lane, *upper = lane + count, *lower = lane + 2 * count;

	for (size_t done = 0; done < count; done += QUANT_EXACT_NEAR) {
		size_t left = count - done,
		       at = left < QUANT_EXACT_NEAR ? count - QUANT_EXACT_NEAR : done;

		for (size_t i = at; i < at + QUANT_EXACT_NEAR; i++) {
			uint32_t element, up, number;
			int32_t sign, low, high;
			bool is_zero, is_up;

			__builtin_memcpy(&element, &src[i], sizeof(element));
			is_zero = element << 1 == 0;
			up = (element >> QUANT_FRACTION & QUANT_INFINITE) - least;
			is_other |= !is_zero & (up >= 2 * bits);
			number = (element & ((1u << QUANT_FRACTION) - 1)) | 1u << QUANT_FRACTION;
			number = is_zero ? 0 : number;
			is_up = up >= bits;
			up = (up - (is_up ? bits : 0)) & 31;
			sign = (int32_t)element >> 31;
			low = ((int32_t)(number << up & mask) ^ sign) - sign;
			high = ((int32_t)(number >> ((bits - up) & 31)) ^ sign) - sign;
			middle[i] = is_up ? low : high;
			upper[i] = is_up ? high : 0;
			lower[i] = is_up ? 0 : low;
		}
	}
	return !is_other;
}

CORE_INLINE uint8_t quant_exact_pack(int32_t *restrict lane, const float *restrict src,
				     size_t count, uint32_t digits, uint32_t bits)
{
	uint32_t row[QUANT_EXACT_DIGITS_MAX];
	struct quant_exact_turn turn;
	uint8_t flags = 0;

	if (count >= QUANT_EXACT_NEAR && quant_exact_pack_few(lane, src, count, bits)) {
		__builtin_memset(lane + QUANT_EXACT_TOP * count, 0,
				 (digits - QUANT_EXACT_TOP) * count * sizeof(*lane));
		return 0;
	}
	quant_exact_rows(row, count, digits, bits, QUANT_DENORMALS);
	__builtin_memset(lane, 0, count * digits * sizeof(*lane));
	for (size_t done = 0; done < count; done += QUANT_EXACT_TURN, lane += QUANT_EXACT_TURN) {
		bool is_full = count - done >= QUANT_EXACT_TURN;
		size_t some = is_full ? QUANT_EXACT_TURN : count - done;

		flags |= quant_exact_split(&turn, src + done, is_full ? QUANT_EXACT_TURN : some,
					   bits);
		for (size_t i = 0; i < some; i++) {
			uint32_t first = turn.first[i];

			/* 0 if it has no lane */
			lane[row[first + (first + 1 < digits)] + i] = turn.high[i];
			lane[row[first] + i] = turn.low[i];
		}
	}
	return flags;
}

/* What the integer of the digits from `low` on counts: the second digit's lowest bit. */
CORE_INLINE uint32_t quant_exact_unit_bits(uint32_t low, uint32_t bits)
{
	return ((low + 1) * bits + QUANT_BIAS - QUANT_DENORMALS) << QUANT_FRACTION;
}

CORE_INLINE float quant_exact_unit(uint32_t low, uint32_t bits)
{
	uint32_t unit_bits = quant_exact_unit_bits(low, bits);
	float unit;

	__builtin_memcpy(&unit, &unit_bits, sizeof(unit));
	return unit;
}

/* Three digits next to each other as an integer of units, the last bit of which says what is behind its point. */
CORE_INLINE int64_t quant_exact_join(int32_t high, int32_t middle, int32_t low, uint32_t bits)
{
	int64_t upper = high * ((int64_t)1 << bits) + middle + (low >> bits);

	return upper | (((uint32_t)low & ((1u << bits) - 1)) != 0);
}

CORE_INLINE bool quant_exact_is_enough(int64_t whole)
{
	return ((uint64_t)whole + (1u << QUANT_EXACT_LEAST)) >> (QUANT_EXACT_LEAST + 1) != 0;
}

typedef uint32_t quant_exact_words __attribute__((vector_size(4 * QUANT_EXACT_NEAR)));

/* Which digits of each of some elements are not 0. Returns those that any has. */
CORE_INLINE uint32_t quant_exact_found(uint32_t *restrict found, const int32_t *restrict lane,
				       const uint32_t *row, uint32_t digits)
{
	quant_exact_words all = { 0 };
	uint32_t any = 0;

	for (uint32_t digit = 0; digit < digits; digit++) {
		quant_exact_words x;

		__builtin_memcpy(&x, lane + row[digit], sizeof(x));
		all |= (quant_exact_words)(x != 0) & 1u << digit;
	}
	__builtin_memcpy(found, &all, sizeof(all));
	for (size_t i = 0; i < QUANT_EXACT_NEAR; i++)
		any |= found[i];
	return any;
}

CORE_INLINE uint32_t quant_exact_found_one(const int32_t *lane, const uint32_t *row,
					   uint32_t digits)
{
	uint32_t found = 0;

	for (uint32_t digit = 0; digit < digits; digit++)
		found |= (uint32_t)(lane[row[digit]] != 0) << digit;
	return found;
}

/* The first of the three digits that end with the highest one that is there. */
CORE_INLINE uint32_t quant_exact_low(uint32_t found)
{
	return 32 - QUANT_EXACT_TOP - (uint32_t)__builtin_clz(found | 1u << (QUANT_EXACT_TOP - 1));
}

/* Elements that all lie in the same three digits. False: some take more. */
CORE_INLINE bool quant_exact_near(float *restrict dst, const int32_t *restrict lane,
				  const uint32_t *row, const uint32_t *found, uint32_t any,
				  uint32_t bits)
{
	uint32_t low = quant_exact_low(any), is_wrong = 0;
	const int32_t *first = lane + row[low], *second = lane + row[low + 1],
		      *third = lane + row[low + 2];
	float unit = quant_exact_unit(low, bits);

	if (any & ((1u << low) - 1))
		return false;
	for (size_t i = 0; i < QUANT_EXACT_NEAR; i++) {
		int64_t whole = quant_exact_join(third[i], second[i], first[i], bits);

		is_wrong |= (found[i] != 0) & !quant_exact_is_enough(whole);
		dst[i] = (float)whole * unit;
	}
	return !is_wrong;
}

/* An element by itself. */
CORE_INLINE bool quant_exact_one(float *restrict dst, const int32_t *restrict lane,
				 const uint32_t *row, uint32_t found, uint32_t bits)
{
	uint32_t low = quant_exact_low(found);
	int64_t whole =
		quant_exact_join(lane[row[low + 2]], lane[row[low + 1]], lane[row[low]], bits);

	*dst = (float)whole * quant_exact_unit(low, bits);
	return !found || (!(found & ((1u << low) - 1)) && quant_exact_is_enough(whole));
}

/* Elements in the first three rows: those of the usual digit, the one below and the next. A result is no denormal, and of
 * an integer that is too short for the above all three digits fit 63 bits. */
CORE_INLINE void quant_exact_few(float *restrict dst, const int32_t *restrict lane, size_t row,
				 size_t count, uint32_t bits)
{
	uint32_t usual = quant_exact_usual(bits, QUANT_DENORMALS);
	uint32_t unit = quant_exact_unit_bits(usual - 2, bits),
		 least = quant_exact_unit_bits(usual - 3, bits);
	int64_t whole[QUANT_EXACT_NEAR];
	uint32_t chosen[QUANT_EXACT_NEAR];
	float units[QUANT_EXACT_NEAR];

	for (size_t i = 0; i < count; i++) {
		int32_t middle = lane[i], high = lane[row + i], low = lane[2 * row + i];
		int64_t some = quant_exact_join(high, middle, low, bits);
		uint64_t upper = ((uint64_t)high << bits) + (uint64_t)middle;
		uint64_t all = (upper << bits) + (uint64_t)low;
		uint64_t is_enough = 0ull - quant_exact_is_enough(some); /* all bits */

		whole[i] = (int64_t)(all ^ (is_enough & (all ^ (uint64_t)some)));
		chosen[i] = ((uint32_t)is_enough & (unit ^ least)) ^ least;
	}
	__builtin_memcpy(units, chosen, sizeof(units));
	for (size_t i = 0; i < count; i++)
		dst[i] = (float)whole[i] * units[i];
}

/* All, if nothing is in other rows. */
CORE_INLINE bool quant_exact_few_rows(float *restrict dst, const int32_t *restrict lane,
				      size_t count, uint32_t digits, uint32_t bits)
{
	int32_t others = 0;

	for (size_t i = QUANT_EXACT_TOP * count; i < digits * count; i++)
		others |= lane[i];
	if (others)
		return false;
	for (size_t done = 0; done < count; done += QUANT_EXACT_NEAR) {
		size_t left = count - done;

		if (count < QUANT_EXACT_NEAR) {
			quant_exact_few(dst, lane, count, count, bits);
			break;
		}
		if (left < QUANT_EXACT_NEAR)
			done = count - QUANT_EXACT_NEAR; /* at the end some once more */
		quant_exact_few(dst + done, lane + done, count, QUANT_EXACT_NEAR, bits);
	}
	return true;
}

/* Of elements from `first` on. Returns the number of the first that needs more than this, or count. */
CORE_INLINE size_t quant_exact_unpack(float *restrict dst, const int32_t *restrict lane,
				      size_t first, size_t count, uint32_t digits, uint32_t bits)
{
	uint32_t row[QUANT_EXACT_DIGITS_MAX], found[QUANT_EXACT_NEAR];
	size_t done = first;

	if (!first && quant_exact_few_rows(dst, lane, count, digits, bits))
		return count;
	quant_exact_rows(row, count, digits, bits, QUANT_DENORMALS);
	while (done < count) {
		size_t left = count - done,
		       end = done + (left < QUANT_EXACT_NEAR ? left : QUANT_EXACT_NEAR);

		if (count - first >= QUANT_EXACT_NEAR) {
			uint32_t any;

			done = end - QUANT_EXACT_NEAR; /* at the end some once more */
			any = quant_exact_found(found, lane + done, row, digits);
			if (quant_exact_near(dst + done, lane + done, row, found, any, bits)) {
				done = end;
				continue;
			}
		}
		for (; done < end; done++) {
			uint32_t one = quant_exact_found_one(lane + done, row, digits);

			if (!quant_exact_one(dst + done, lane + done, row, one, bits))
				return done;
		}
	}
	return count;
}

#endif
