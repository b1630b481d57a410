/* SPDX-License-Identifier: Apache-2.0 */
/* wide.c - see wide.h. */
#include "core/shared/wide.h"

enum { WORD_BITS = 64 };

struct wide_form wide_form_of(uint32_t workers, uint32_t bits)
{
	uint32_t digit = 31 - wide_log2(workers);

	CORE_ASSERT(workers >= 1 && workers <= 65535);
	CORE_ASSERT(bits && bits <= digit * WIDE_LANES_MAX);
	return (struct wide_form){ .lanes = (uint8_t)((bits + digit - 1) / digit),
				   .bits = (uint8_t)digit };
}

/* Bits [from, from + 64) of value << shift. */
static uint64_t shifted(uint64_t value, uint32_t shift, uint32_t from)
{
	if (from >= shift)
		return from - shift < WORD_BITS ? value >> (from - shift) : 0;
	return shift - from < WORD_BITS ? value << (shift - from) : 0;
}

void wide_put(int32_t *lane, struct wide_form form, bool is_negative, uint64_t magnitude,
	      uint32_t shift)
{
	uint32_t mask = (1u << form.bits) - 1;

	for (uint32_t i = 0; i < form.lanes; i++) {
		int32_t digit = (int32_t)(shifted(magnitude, shift, i * form.bits) & mask);

		lane[i] = is_negative ? -digit : digit;
	}
}

/* `bits` bits of `value` at bit `at`; there were zeros. */
static void bits_put(struct wide *wide, uint32_t at, uint64_t value)
{
	uint32_t word = at / WORD_BITS, shift = at % WORD_BITS;

	CORE_ASSERT(word + 1 < WIDE_WORDS);
	wide->word[word] |= value << shift;
	if (shift)
		wide->word[word + 1] |= value >> (WORD_BITS - shift);
}

static void negate(struct wide *wide)
{
	uint64_t carry = 1;

	for (uint32_t i = 0; i < wide->words; i++) {
		wide->word[i] = ~wide->word[i] + carry;
		carry = carry && !wide->word[i];
	}
}

/* Digits are made positive from below; what is carried out of the last is the sign. */
void wide_get(struct wide *wide, const int32_t *lane, struct wide_form form)
{
	uint32_t bits = form.lanes * form.bits;
	int64_t carry = 0;

	wide->words = (bits + 2 * WORD_BITS - 1) / WORD_BITS;
	wide->is_inexact = false;
	for (uint32_t i = 0; i <= wide->words; i++)
		wide->word[i] = 0;
	for (uint32_t i = 0; i < form.lanes; i++) {
		int64_t digit = lane[i] + carry;

		bits_put(wide, i * form.bits, (uint64_t)digit & ((1u << form.bits) - 1));
		carry = digit >> form.bits;
	}
	bits_put(wide, bits, (uint64_t)carry);
	wide->is_negative = carry < 0;
	if (!wide->is_negative)
		return;
	if (bits % WORD_BITS) /* the sign goes on to the end of the last word */
		wide->word[wide->words - 1] |= ~(uint64_t)0 << bits % WORD_BITS;
	negate(wide);
}

void wide_divide(struct wide *wide, uint32_t by, uint32_t more)
{
	uint64_t rest = 0;

	CORE_ASSERT(by >= 1 && by <= 65535);
	CORE_ASSERT(wide->words + more < WIDE_WORDS);
	for (uint32_t i = wide->words; i-- > 0;)
		wide->word[i + more] = wide->word[i];
	for (uint32_t i = 0; i < more; i++)
		wide->word[i] = 0;
	wide->words += more;
	for (uint32_t i = wide->words; i-- > 0;) {
		uint64_t high = rest << 32 | wide->word[i] >> 32, low;

		low = high % by << 32 | (uint32_t)wide->word[i];
		wide->word[i] = high / by << 32 | low / by;
		rest = low % by;
	}
	wide->is_inexact = rest != 0;
}
