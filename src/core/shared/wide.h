/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wide.h - numbers that need more than one lane: an integer as digits, one in each lane, low digits first, all with
 * the sign of the number. Digits are so short that N of them fit a lane: lanes are added as they are, and carries are
 * looked at in the sum. docs/protocol.md, R-NUM-10.
 */
#ifndef CORE_WIDE_H
#define CORE_WIDE_H

#include "core/shared/env.h"

enum {
	WIDE_LANES_MAX = 140, /* a float64 of any size, for 65,535 workers */
	WIDE_WORDS = 40,      /* its 2,098 bits, a digit more, a carry, and what wide_divide adds */
};

/* ceil(log2 workers), and the bits of a digit: N digits fit a lane (R-NUM-9). */
CORE_INLINE uint32_t wide_log2(uint32_t workers)
{
	uint32_t log2 = 0;

	while (1u << log2 < workers)
		log2++;
	return log2;
}

/* How a number lies in lanes. */
struct wide_form {
	uint8_t lanes, bits; /* of a digit */
};

/* As many digits as `bits` bits need. */
struct wide_form wide_form_of(uint32_t workers, uint32_t bits);

/* The number is magnitude << shift, with a sign; it fits the form. All lanes are written. */
void wide_put(int32_t *lane, struct wide_form form, bool is_negative, uint64_t magnitude,
	      uint32_t shift);

/* A sum: its magnitude in words of 64 bits, low words first. */
struct wide {
	bool is_negative;
	bool is_inexact; /* wide_divide has left a rest */
	uint32_t words;  /* that may be other than 0 */
	uint64_t word[WIDE_WORDS];
};

void wide_get(struct wide *wide, const int32_t *lane, struct wide_form form);

/* By 1 to 65535, toward zero, with `more` words of 64 bits behind the point: the number is then 2^(64 more) times
 * as large. */
void wide_divide(struct wide *wide, uint32_t by, uint32_t more);

#endif
