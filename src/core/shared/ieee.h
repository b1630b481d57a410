/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ieee.h - binary floats, of IEEE 754's forms and bfloat16, as integers times a power of two, and back, rounded once.
 * In integers alone: no state of the processor changes a bit.
 */
#ifndef CORE_IEEE_H
#define CORE_IEEE_H

#include "core/shared/wide.h"

/* Bits of a magnitude; the sign is apart. */
struct ieee_form {
	uint8_t fraction, exponent; /* bits */
};

extern const struct ieee_form ieee_form_16, ieee_form_b16, ieee_form_32, ieee_form_64;

enum ieee_class { IEEE_FINITE, IEEE_INFINITE, IEEE_NAN };

/* Finite: the magnitude is fraction * 2^power. */
struct ieee_parts {
	enum ieee_class class;
	bool is_negative;
	uint64_t fraction;
	int32_t power;
};

struct ieee_parts ieee_split(const struct ieee_form *form, uint64_t bits);

/* wide * 2^power, rounded to nearest even, once; too large is an infinity. */
uint64_t ieee_join(const struct ieee_form *form, const struct wide *wide, int32_t power);

/* All floats of the form are multiples of 2^-this. */
int32_t ieee_shift(const struct ieee_form *form);
/* Bits of such a multiple, at most. */
uint32_t ieee_span(const struct ieee_form *form);

uint64_t ieee_infinity(const struct ieee_form *form, bool is_negative);
uint64_t ieee_nan(const struct ieee_form *form); /* the quiet one, positive, no payload */

#endif
