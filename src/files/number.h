/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - decimal numbers as text files have them, [+-]digits[.digits][e[+-]digits] with a digit before the
 * exponent, to the nearest float or double: the same bits as strtof and strtod, ten times as fast. No "inf", no
 * "nan", no hexadecimal.
 *
 * Exact because (Clinger 1990): a mantissa of up to 53 bits and a power of ten up to 10^22 are doubles, so that
 * one multiplication or division of them is rounded once. A double that is no midpoint of two floats lies on the
 * same side of every midpoint as what it was rounded from, so rounding it again gives the nearest float. All
 * else is left to strtof and strtod (in the C locale, which the programs here never leave).
 */
#ifndef FILES_NUMBER_H
#define FILES_NUMBER_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	NUMBER_BYTES_MAX =
		128, /* longer ones are refused; a double printed in full with %.17g has 24 */
};

_Static_assert(FLT_EVAL_METHOD == 0, "a double is rounded to a double");

struct number {
	uint64_t mantissa; /* right where is_small */
	int32_t exponent;  /* of ten */
	bool is_negative;
	bool is_small; /* all digits fit the mantissa */
};

/* number_scan reads at `at`, where some byte that no number has (NUL, blank) ends what may be read. The number's
 * end, or NULL where there is none. Its length is the caller's to check, before number_float(). */
static inline const char *number_scan(const char *at, struct number *number)
{
	uint64_t mantissa = 0;
	ptrdiff_t digits;
	int32_t exponent = 0;
	const char *from;
	unsigned digit;

	*number = (struct number){ .is_negative = *at == '-' };
	at += *at == '-' || *at == '+';
	for (from = at; (digit = (unsigned)(*at - '0')) <= 9; at++)
		mantissa = 10 * mantissa + digit;
	digits = at - from;
	if (*at == '.') {
		for (from = ++at; (digit = (unsigned)(*at - '0')) <= 9; at++)
			mantissa = 10 * mantissa + digit;
		digits += at - from;
		exponent = -(int32_t)(at - from);
	}
	if (!digits)
		return NULL;
	if (*at == 'e' || *at == 'E') {
		int32_t sign = at[1] == '-' ? -1 : 1, power = 0;

		at += at[1] == '-' || at[1] == '+' ? 2 : 1;
		for (from = at; (digit = (unsigned)(*at - '0')) <= 9; at++)
			power = power > 99999 ? power : 10 * power + (int32_t)digit;
		if (at == from)
			return NULL;
		exponent += sign * power;
	}
	number->mantissa = mantissa;
	number->exponent = exponent;
	number->is_small = digits <= 19; /* below 10^19 < 2^64 */
	return at;
}

/* strtod and strtof of bytes that no NUL ends; at most NUMBER_BYTES_MAX. */
double number_double_slow(const char *from, const char *to);
float number_float_slow(const char *from, const char *to);

static inline bool number_is_quick(const struct number *number)
{
	return number->is_small && number->mantissa <= (uint64_t)1 << 53 &&
	       number->exponent >= -22 && number->exponent <= 22;
}

static inline double number_quick(const struct number *number)
{
	static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
					1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
					1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
	double value = (double)number->mantissa;

	value = number->exponent < 0 ? value / power[-number->exponent]
				     : value * power[number->exponent];
	return number->is_negative ? -value : value;
}

/* The number that number_scan read from `from` to `to`; infinite if it is too large. */
static inline double number_double(const struct number *number, const char *from, const char *to)
{
	return number_is_quick(number) ? number_quick(number) : number_double_slow(from, to);
}

static inline float number_float(const struct number *number, const char *from, const char *to)
{
	const uint64_t below = (1ull << 29) - 1,
		       midpoint = 1ull << 28; /* of the 52 bits, a float has 23 */
	uint64_t bits;
	double value;

	if (!number_is_quick(number))
		return number_float_slow(from, to);
	value = number_quick(
		number); /* 0, or 1e-22 .. 1e38: as a float neither infinite nor subnormal */
	memcpy(&bits, &value, sizeof(bits));
	return (bits & below) == midpoint ? number_float_slow(from, to) : (float)value;
}

#endif
