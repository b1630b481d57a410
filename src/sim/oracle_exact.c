/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_exact.c - sums of float32 without an error: a long number of limbs, each of 32 bits and a sign of its own. */
#include <math.h>
#include <string.h>

#include "sim/oracle.h"

enum {
	BEHIND = 4, /* limbs for what a quotient has behind the last bit of all floats */
	LIMBS = BEHIND + 12,
	LEAST = -149,
	KEPT = 50, /* bits that a double takes, with a last one for what is behind */
};

static void add(int64_t limb[LIMBS], float x)
{
	int exponent;
	int64_t fraction = (int64_t)ldexp((double)frexpf(x, &exponent), 24);
	uint32_t at;

	exponent -= 24;
	while (exponent < LEAST) { /* zeros of a denormal */
		fraction /= 2;
		exponent++;
	}
	at = (uint32_t)(exponent - LEAST);
	fraction *= (int64_t)1 << at % 32;
	limb[BEHIND + at / 32] += fraction % ((int64_t)1 << 32);
	limb[BEHIND + at / 32 + 1] += fraction / ((int64_t)1 << 32);
}

/* Every limb is 0 to 2^32 - 1; whether the number was negative. */
static bool settle(int64_t limb[LIMBS])
{
	for (int turn = 0; turn < 2; turn++) {
		for (uint32_t i = 0; i + 1 < LIMBS; i++) {
			int64_t rest = limb[i] & UINT32_MAX;

			limb[i + 1] += (limb[i] - rest) / ((int64_t)1 << 32);
			limb[i] = rest;
		}
		if (limb[LIMBS - 1] >= 0)
			return turn;
		for (uint32_t i = 0; i < LIMBS; i++)
			limb[i] = -limb[i];
	}
	return false;
}

static bool divide(int64_t limb[LIMBS], uint32_t by)
{
	uint64_t rest = 0;

	for (uint32_t i = LIMBS; i-- > 0;) {
		uint64_t all = rest << 32 | (uint64_t)limb[i];

		limb[i] = (int64_t)(all / by);
		rest = all % by;
	}
	return rest;
}

static uint32_t bit(const int64_t limb[LIMBS], int at)
{
	return at < 0 ? 0 : (uint32_t)(limb[at / 32] >> at % 32 & 1);
}

/* The first bits as a double, which is exact, and whether there are more. One rounding is left. */
float oracle_exact(uint32_t workers, const void *const *sources, uint64_t i, bool is_avg)
{
	int64_t limb[LIMBS] = { 0 };
	int top = 32 * LIMBS - 1;
	bool is_negative, is_more;
	double near = 0;

	for (uint32_t w = 0; w < workers; w++)
		add(limb, ((const float *)sources[w])[i]);
	is_negative = settle(limb);
	is_more = divide(limb, is_avg ? workers : 1);
	while (top >= 0 && !bit(limb, top))
		top--;
	for (int at = top; at > top - KEPT; at--)
		near = near * 2 + bit(limb, at);
	for (int at = top - KEPT; at >= 0; at--)
		is_more |= bit(limb, at);
	near = ldexp(near * 2 + is_more, top - KEPT - 32 * BEHIND + LEAST);
	return (float)(is_negative ? -near : near);
}
