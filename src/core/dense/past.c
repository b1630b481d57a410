/* SPDX-License-Identifier: Apache-2.0 */
/* past.c - see past.h. */
#include "core/dense/past.h"

static struct past_op *op_at(const struct past *past, uint64_t op)
{
	return &past->ops[op & (past->ring - 1)];
}

static uint8_t *exponents_of(const struct past *past, uint64_t op)
{
	return &past->exponents[(op & (past->ring - 1)) * past->chunks];
}

static bool is_in_reach(const struct past *past, uint64_t op, uint64_t from)
{
	return op < from && from - op <= past->reach;
}

/* How many operations before `op` are those before the next one. */
static uint32_t match(const struct past *past, uint64_t op)
{
	uint64_t next = past->count;
	uint32_t length = 0;

	while (length < PAST_MATCH && length < op && is_in_reach(past, op - length - 1, next) &&
	       op_at(past, op - length - 1)->key == op_at(past, next - length - 1)->key)
		length++;
	return length;
}

/* R-WK-17: who repeats a sequence goes on to repeat it. */
static uint64_t find(const struct past *past, uint64_t key)
{
	uint64_t next = past->count, best = PAST_NONE;
	uint64_t last = next ? op_at(past, next - 1)->before : PAST_NONE;
	uint32_t longest = 0;

	if (last != PAST_NONE && is_in_reach(past, last + 1, next) &&
	    op_at(past, last + 1)->key == key)
		return last + 1;
	for (uint64_t op = next; op-- && is_in_reach(past, op, next);) {
		uint32_t length;

		if (op_at(past, op)->key != key)
			continue;
		length = match(past, op);
		if (best != PAST_NONE && length <= longest)
			continue;
		best = op;
		longest = length;
	}
	return best;
}

uint64_t past_put(struct past *past, uint64_t key, uint64_t chunks)
{
	uint64_t before = find(past, key), op = past->count++;
	uint8_t *exponents = exponents_of(past, op);

	*op_at(past, op) = (struct past_op){ .key = key, .before = before };
	for (uint64_t i = 0; i < chunks && i < past->chunks; i++)
		exponents[i] = PAST_OPEN;
	return op;
}

enum past_guess past_guess(const struct past *past, uint64_t op, uint64_t chunk, uint16_t *guess)
{
	uint64_t first = op_at(past, op)->before, second;
	uint32_t a, b;

	if (first == PAST_NONE || chunk >= past->chunks)
		return PAST_UNKNOWN;
	second = op_at(past, first)->before;
	if (second == PAST_NONE || !is_in_reach(past, second, op))
		second = first;
	a = exponents_of(past, first)[chunk];
	b = exponents_of(past, second)[chunk];
	if (a == PAST_OPEN || b == PAST_OPEN)
		return PAST_WAITS;
	a = a > b ? a : b;
	*guess = (uint16_t)(a && a < PAST_EXPONENT_MAX ? a + 1 : a);
	return PAST_KNOWN;
}

void past_note(struct past *past, uint64_t op, uint64_t chunk, uint32_t exponent)
{
	if (chunk < past->chunks)
		exponents_of(past, op)[chunk] =
			(uint8_t)(exponent < PAST_EXPONENT_MAX ? exponent : PAST_EXPONENT_MAX);
}

bool past_fits(uint32_t guess, uint32_t exponent)
{
	return !exponent || (exponent <= guess && guess - exponent <= PAST_BELOW);
}
