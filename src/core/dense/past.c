/* SPDX-License-Identifier: Apache-2.0 */
/* past.c - see past.h. */
#include "core/dense/past.h"

/* ---- which operation one repeats ---- */

static struct past_op *op_at(const struct past *past, uint64_t op)
{
	return &past->ops[op & (past->reach - 1)];
}

static bool is_in_reach(const struct past *past, uint64_t op)
{
	return op < past->count && past->count - op <= past->reach;
}

uint64_t past_kept(const struct past *past, enum map_stream stream)
{
	return (uint64_t)past->rows * past->turn[stream];
}

/* The first of the operations with this key that are directly before the next one; none: the next one. */
static uint64_t run_of(const struct past *past, uint64_t key)
{
	const struct past_op *last = past->count ? op_at(past, past->count - 1) : NULL;

	return last && last->key == key ? last->run : past->count;
}

/* R-WK-17: equal operations in a row are mostly of one step. Each would wait for the one before it, if that is nearer than
 * a slot's turn, for which it waits anyway. */
static bool may_repeat(const struct past *past, const struct past_call *call, uint64_t op)
{
	uint64_t behind;

	if (!is_in_reach(past, op) || op_at(past, op)->key != call->key)
		return false;
	if (!call->is_guessed)
		return true;
	behind = past->end[call->stream] - op_at(past, op)->row;
	return behind <= past_kept(past, call->stream) &&
	       (op < run_of(past, call->key) || behind >= past->turn[call->stream]);
}

/* How many operations before `op` are those before the next one. */
static uint32_t match(const struct past *past, uint64_t op)
{
	uint64_t next = past->count;
	uint32_t length = 0;

	while (length < PAST_MATCH && length < op && is_in_reach(past, op - length - 1) &&
	       op_at(past, op - length - 1)->key == op_at(past, next - length - 1)->key)
		length++;
	return length;
}

/* Who repeats a sequence goes on to repeat it. */
static uint64_t find(const struct past *past, const struct past_call *call)
{
	uint64_t next = past->count, best = PAST_NONE;
	uint64_t last = next ? op_at(past, next - 1)->before : PAST_NONE;
	uint32_t longest = 0;

	if (last != PAST_NONE && may_repeat(past, call, last + 1))
		return last + 1;
	for (uint64_t op = next; op-- && is_in_reach(past, op);) {
		uint32_t length;

		if (!may_repeat(past, call, op))
			continue;
		length = match(past, op);
		if (best != PAST_NONE && length <= longest)
			continue;
		best = op;
		longest = length;
	}
	return best;
}

/* The row of an operation, if it is in reach. */
static uint64_t row_of(const struct past *past, enum map_stream stream, uint64_t op)
{
	if (op == PAST_NONE || !is_in_reach(past, op) ||
	    past->end[stream] - op_at(past, op)->row > past_kept(past, stream))
		return PAST_NONE;
	return op_at(past, op)->row;
}

void past_put(struct past *past, const struct past_call *call, struct past_place *place)
{
	uint64_t before, run, *end = &past->end[call->stream];

	*place = (struct past_place){ .first = PAST_NONE, .second = PAST_NONE };
	if (!past->ops)
		return;
	before = find(past, call);
	run = run_of(past, call->key);
	place->row = *end;
	if (call->is_guessed) {
		uint32_t longest = past->turn[call->stream];

		place->length = call->chunks < longest ? call->chunks : longest;
		place->first = row_of(past, call->stream, before);
	}
	if (place->first != PAST_NONE) {
		place->second = row_of(past, call->stream, op_at(past, before)->before);
		if (place->second == PAST_NONE)
			place->second = place->first;
	}
	*op_at(past, past->count++) =
		(struct past_op){ .key = call->key, .before = before, .run = run, .row = *end };
	*end += place->length;
}

/* ---- what exponents its chunks had ---- */

static uint8_t *exponent_at(const struct past_rows *rows, uint64_t row, uint64_t chunk)
{
	return &rows->exponents[(row + chunk) % rows->size];
}

void past_open(struct past_rows *rows, const struct past_place *place)
{
	for (uint64_t i = 0; i < place->length; i++)
		*exponent_at(rows, place->row, i) = PAST_OPEN;
}

enum past_guess past_guess(const struct past_rows *rows, const struct past_place *place,
			   uint64_t chunk, uint16_t *guess)
{
	uint32_t a, b;

	if (place->first == PAST_NONE || chunk >= place->length)
		return PAST_UNKNOWN;
	a = *exponent_at(rows, place->first, chunk);
	b = *exponent_at(rows, place->second, chunk);
	if (a == PAST_OPEN || b == PAST_OPEN)
		return PAST_WAITS;
	a = a > b ? a : b;
	*guess = (uint16_t)(a && a < PAST_EXPONENT_MAX ? a + 1 : a);
	return PAST_KNOWN;
}

void past_note(struct past_rows *rows, const struct past_place *place, uint64_t chunk,
	       uint32_t exponent)
{
	if (chunk < place->length)
		*exponent_at(rows, place->row, chunk) =
			(uint8_t)(exponent < PAST_EXPONENT_MAX ? exponent : PAST_EXPONENT_MAX);
}

bool past_fits(uint32_t guess, uint32_t exponent)
{
	return !exponent || (exponent <= guess && guess - exponent <= PAST_BELOW);
}
