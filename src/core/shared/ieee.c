/* SPDX-License-Identifier: Apache-2.0 */
/* ieee.c - see ieee.h. */
#include "core/shared/ieee.h"

enum { WORD_BITS = 64 };

const struct ieee_form ieee_form_16 = { 10, 5 }, ieee_form_b16 = { 7, 8 }, ieee_form_32 = { 23, 8 },
		       ieee_form_64 = { 52, 11 };

static int32_t bias_of(const struct ieee_form *form)
{
	return (1 << (form->exponent - 1)) - 1;
}

int32_t ieee_shift(const struct ieee_form *form)
{
	return bias_of(form) + form->fraction - 1;
}

uint32_t ieee_span(const struct ieee_form *form)
{
	return (uint32_t)(ieee_shift(form) + bias_of(form) + 1);
}

uint64_t ieee_infinity(const struct ieee_form *form, bool is_negative)
{
	uint64_t sign = (uint64_t)is_negative << (form->fraction + form->exponent);

	return sign | (((uint64_t)1 << form->exponent) - 1) << form->fraction;
}

uint64_t ieee_nan(const struct ieee_form *form)
{
	return ieee_infinity(form, false) | (uint64_t)1 << (form->fraction - 1);
}

struct ieee_parts ieee_split(const struct ieee_form *form, uint64_t bits)
{
	uint64_t hidden = (uint64_t)1 << form->fraction;
	uint64_t infinity = ieee_infinity(form, false);
	uint64_t sign = (uint64_t)1 << (form->fraction + form->exponent);
	uint64_t magnitude = bits & (sign - 1);
	int32_t exponent = (int32_t)(magnitude >> form->fraction);
	struct ieee_parts parts = { .is_negative = bits & sign };

	if (magnitude >= infinity) {
		parts.class = magnitude > infinity ? IEEE_NAN : IEEE_INFINITE;
		return parts;
	}
	parts.fraction = (magnitude & (hidden - 1)) | (exponent ? hidden : 0);
	parts.power = (exponent ? exponent : 1) - bias_of(form) - form->fraction;
	return parts;
}

/* The number of the highest bit that is set; -1: none is. */
static int32_t highest(const struct wide *wide)
{
	for (uint32_t i = wide->words; i-- > 0;)
		if (wide->word[i])
			return (int32_t)(i * WORD_BITS) + 63 - __builtin_clzll(wide->word[i]);
	return -1;
}

/* 64 bits from bit `from` on. */
static uint64_t bits_get(const struct wide *wide, uint32_t from)
{
	uint32_t word = from / WORD_BITS, shift = from % WORD_BITS;
	uint64_t bits = word < wide->words ? wide->word[word] >> shift : 0;

	if (shift && word + 1 < wide->words)
		bits |= wide->word[word + 1] << (WORD_BITS - shift);
	return bits;
}

/* Is a bit set below bit `end`? */
static bool has_below(const struct wide *wide, uint32_t end)
{
	uint32_t word = end / WORD_BITS;

	for (uint32_t i = 0; i < word && i < wide->words; i++)
		if (wide->word[i])
			return true;
	return word < wide->words && wide->word[word] & (((uint64_t)1 << end % WORD_BITS) - 1);
}

/* The integer without its last `drop` bits, to nearest even. */
static uint64_t rounded(const struct wide *wide, uint32_t drop)
{
	uint64_t kept = bits_get(wide, drop);
	bool is_half = bits_get(wide, drop - 1) & 1;
	bool is_more = wide->is_inexact || has_below(wide, drop - 1);

	return kept + (is_half && (is_more || kept & 1));
}

/* A carry out of the fraction makes the exponent one larger, of a denormal too, and of the largest an infinity. */
uint64_t ieee_join(const struct ieee_form *form, const struct wide *wide, int32_t power)
{
	uint64_t sign = (uint64_t)wide->is_negative << (form->fraction + form->exponent);
	int32_t least = 1 - bias_of(form) - form->fraction, top = highest(wide), last, drop;
	uint64_t kept, magnitude;

	if (top < 0)
		return wide->is_inexact ? sign : 0;
	last = top + power - form->fraction;
	last = last > least ? last : least;
	drop = last - power;
	if (drop > top + 1)
		return sign;
	kept = drop > 0 ? rounded(wide, (uint32_t)drop) : wide->word[0] << -drop;
	if (last - least >= (1 << form->exponent) - 1)
		return ieee_infinity(form, wide->is_negative);
	magnitude = ((uint64_t)(last - least) << form->fraction) + kept;
	if (magnitude > ieee_infinity(form, false))
		magnitude = ieee_infinity(form, false);
	return sign | magnitude;
}
