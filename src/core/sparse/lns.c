/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lns.c - the tables of lns.h, each entry the nearest to the true value. Numbers in [1, 2) are held in 64
 * bits, 2^63 being 1; logarithms in 64 bits, 2^32 being 1, and rounded once, at the end.
 */
#include "core/sparse/lns.h"

enum {
	LOG_BITS = 32,
	/* log2 of a rest of 0: so far below all others that its exp is 0, and that no difference wraps. */
	LOG_OF_NONE = -64 * LNS_ONE,
};

#define UNIT (1ull << 63)
#define TWICE_LN2 0xb17217f7d1cf79acull /* 2 ln 2, which is in [1, 2); 63 bits after the point */

/* The upper half of a product. */
static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
	uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
	uint64_t other = a_low * b_high + (uint32_t)middle;

	return a_high * b_high + (middle >> 32) + (other >> 32);
}

/* log2 of a number in [1, 2): bit by bit, the square being in [2, 4) or not. */
static int64_t log_of(uint64_t number)
{
	int64_t log = 0;

	for (int bit = 0; bit < LOG_BITS; bit++) {
		uint64_t half = times(number, number); /* of the square */

		log <<= 1;
		if (half & UNIT) {
			log |= 1;
			number = half;
		} else {
			number = half << 1;
		}
	}
	return log;
}

/* log2 of number / 2^63, for any number but 0. */
static int64_t log_of_any(uint64_t number)
{
	int zeros = __builtin_clzll(number);

	return log_of(number << zeros) - ((int64_t)zeros << LOG_BITS);
}

/* To the nearest, of so many bits after the point. */
static int32_t log_round(int64_t log, int bits)
{
	const int64_t step = (int64_t)1 << (LOG_BITS - bits), high = (int64_t)1 << 40;

	/* Raised above 0, where a division rounds down. */
	return (int32_t)((log + step / 2 + high) / step - high / step);
}

/* The root of twice a number in [1/2, 1]. */
static uint64_t root_of_twice(uint64_t number)
{
	uint64_t found = UNIT;

	for (uint64_t bit = UNIT >> 1; bit; bit >>= 1)
		if (times(found | bit, found | bit) <= number)
			found |= bit;
	return found;
}

/* power[n] = 2^(n / 256): root after root, then their products. */
static void powers_make(uint64_t power[LNS_ONE])
{
	uint64_t half = UNIT;

	power[0] = UNIT;
	for (uint32_t n = LNS_ONE / 2; n; n /= 2) {
		power[n] = root_of_twice(half);
		half = power[n] >> 1;
	}
	for (uint32_t n = 1; n < LNS_ONE; n++) {
		uint32_t lowest = n & (0 - n);

		power[n] = times(power[n - lowest], power[lowest]) << 1;
		if (n == lowest)
			power[n] = power[lowest];
	}
}

/* number >> shift, to the nearest. */
static uint64_t shift_round(uint64_t number, int32_t shift)
{
	return shift > 64 ? 0 : ((number >> (shift - 1)) + 1) >> 1;
}

static void logs_make(struct lns_tables *tables)
{
	for (int32_t e = 0; e < 255; e++)
		tables->exponent[e] = (int16_t)((e - 127) * LNS_ONE);
	tables->exponent[255] = 0; /* of infinities and NaN: not looked up */
	for (uint32_t key = 0; key < 1 << 12; key++) {
		/* Without its leading 1 a head is no key. */
		uint64_t head = (uint64_t)key << (63 - LNS_HEAD_BITS);
		bool is_head = key >> LNS_HEAD_BITS;
		int64_t slope = log_of_any(TWICE_LN2) - ((int64_t)1 << LOG_BITS);

		tables->log[key] = is_head ? (uint16_t)log_round(log_of(head), 16) : 0;
		tables->log_slope[key] = is_head ? (int16_t)log_round(log_of(head) + slope, 8) : 0;
		/* key / 2^23, where head is key / 2^11 */
		tables->log_rest[key] =
			key ? (int16_t)(log_round(log_of_any(head), 8) - LNS_REST_BITS * LNS_ONE)
			    : LOG_OF_NONE;
	}
}

static void sums_make(struct lns_tables *tables, const uint64_t power[LNS_ONE])
{
	tables->log_plus[0] = LNS_ONE;
	tables->log_minus[0] = 0;
	for (uint32_t d = 1; d < 1 << 16; d++) {
		/* 2^-d/256, of which 64 bits are all of it that there is */
		uint32_t whole = (d + LNS_ONE - 1) / LNS_ONE;
		uint64_t part = whole < 64 ? power[whole * LNS_ONE - d] >> whole : 0;

		tables->log_plus[d] = (int16_t)log_round(log_of(UNIT + part), 8);
		tables->log_minus[d] = (int16_t)log_round(log_of_any(UNIT - part), 8);
	}
}

void lns_tables_make(struct lns_tables *tables)
{
	uint64_t power[LNS_ONE];

	powers_make(power);
	logs_make(tables);
	sums_make(tables, power);
	for (uint32_t key = 0; key < 1 << 16; key++) {
		uint64_t number = power[key % LNS_ONE];
		int32_t floor = (int32_t)(key / LNS_ONE), shift;

		floor -= floor < 128 ? 0 : 256;
		shift = 47 - floor;
		tables->exp[key] = 65535;
		if (floor < 0 && shift_round(number, shift) < 65535)
			tables->exp[key] = (uint16_t)shift_round(number, shift);
		tables->fraction[key] = (uint16_t)shift_round(number - UNIT, 47);
	}
}
