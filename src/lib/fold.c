/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c - see fold.h. */
#include "lib/fold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/ieee.h"
#include "lib/types.h"
#include "simd/float_state.h"

enum { ALIGN = 16 }; /* of the vector: a program's own elements may be anything */

/* Rank r's part of the gathered vector: what this rank brings of it, or memory for what another one brings. */
static void rank_lay_out(struct fold *fold, uint32_t r, bool is_mine,
			 const struct endpoint_segment *segments, uint32_t segments_count)
{
	uint64_t at = r * fold->count;
	uint32_t bytes = fold->bytes;

	fold->ends[r] = at + fold->count;
	if (!is_mine && fold->count)
		fold->segments[fold->segments_count++] =
			(struct endpoint_segment){ at, fold->count, NULL, fold->all + at * bytes };
	for (uint32_t i = 0; is_mine && i < segments_count; i++)
		fold->segments[fold->segments_count++] =
			(struct endpoint_segment){ at + segments[i].first, segments[i].count,
						   segments[i].source,
						   fold->all + (at + segments[i].first) * bytes };
}

struct fold *fold_new(const struct fold_op *op, uint64_t count, uint32_t ranks, uint32_t rank,
		      const struct endpoint_segment *segments, uint32_t segments_count)
{
	struct type type = type_of(op->dtype);
	uint32_t bytes = lanes_bytes(type.lanes);
	struct fold *fold;
	size_t most = (size_t)segments_count + ranks, all = (size_t)count * ranks * bytes;
	size_t head = sizeof(struct fold) + most * sizeof(struct endpoint_segment) +
		      ranks * sizeof(uint64_t);

	head = (head + ALIGN - 1) / ALIGN * ALIGN;
	fold = all / bytes / ranks == count ? malloc(head + all) : NULL;
	if (!fold)
		return NULL;
	*fold = (struct fold){ .op = *op, .ranks = ranks, .count = count, .bytes = bytes };
	fold->segments = (struct endpoint_segment *)(void *)(fold + 1);
	fold->ends = (uint64_t *)(void *)(fold->segments + most);
	fold->all = (uint8_t *)fold + head;
	for (uint32_t r = 0; r < ranks; r++)
		rank_lay_out(fold, r, r == rank, segments, segments_count);
	return fold;
}

static uint8_t *at(const struct fold *fold, uint32_t rank, uint64_t i)
{
	return fold->all + (rank * fold->count + i) * fold->bytes;
}

/* ---- integers: modulo 2^bits, as their bits ---- */

static uint64_t whole_get(const uint8_t *from, uint32_t bytes, bool is_signed)
{
	uint64_t value = 0;

	memcpy(&value, from, bytes);
	if (is_signed && bytes < 8 && value >> (8 * bytes - 1))
		value |= ~0ull << 8 * bytes;
	return value;
}

static uint64_t whole_op(uint64_t a, uint64_t b, int op, bool is_signed)
{
	bool is_less = is_signed ? (int64_t)b < (int64_t)a : b < a;

	switch (op) {
	case TALLY_PROD:
		return a * b;
	case TALLY_MAX:
		return is_less ? a : b;
	case TALLY_MIN:
		return is_less ? b : a;
	case TALLY_BAND:
		return a & b;
	case TALLY_BOR:
		return a | b;
	case TALLY_BXOR:
		return a ^ b;
	case TALLY_LAND:
		return a && b;
	case TALLY_LOR:
		return a || b;
	default:
		return !a != !b;
	}
}

static void whole_fold(struct fold *fold, bool is_signed, int op, bool is_truth)
{
	for (uint64_t i = 0; i < fold->count; i++) {
		uint64_t value = whole_get(at(fold, 0, i), fold->bytes, is_signed);

		value = is_truth ? value != 0 : value;
		for (uint32_t r = 1; r < fold->ranks; r++) {
			uint64_t next = whole_get(at(fold, r, i), fold->bytes, is_signed);

			value = whole_op(value, is_truth ? next != 0 : next, op, is_signed);
		}
		memcpy(at(fold, 0, i), &value, fold->bytes);
	}
}

/* ---- floats: as float64, rounded to their type once ---- */

static const struct ieee_form *form_of(enum lanes_type type)
{
	return type == LANES_FLOAT16    ? &ieee_form_16
	       : type == LANES_BFLOAT16 ? &ieee_form_b16
	       : type == LANES_FLOAT32  ? &ieee_form_32
					: &ieee_form_64;
}

static double float_get(const struct ieee_form *form, const uint8_t *from, uint32_t bytes)
{
	struct ieee_parts parts;
	uint64_t bits = 0;
	double value;

	memcpy(&bits, from, bytes);
	if (bytes == sizeof(value)) {
		memcpy(&value, &bits, sizeof(value));
		return value;
	}
	parts = ieee_split(form, bits);
	value = parts.class == IEEE_NAN        ? (double)NAN
		: parts.class == IEEE_INFINITE ? (double)INFINITY
					       : ldexp((double)parts.fraction, parts.power);
	return parts.is_negative ? -value : value;
}

static uint64_t float_bits(const struct ieee_form *form, double value)
{
	struct ieee_parts parts;
	struct wide wide = { .words = 1 };
	uint64_t bits, sign = (uint64_t) !!signbit(value) << (form->fraction + form->exponent);

	memcpy(&bits, &value, sizeof(bits));
	parts = ieee_split(&ieee_form_64, bits);
	if (parts.class == IEEE_NAN)
		return ieee_nan(form);
	if (form == &ieee_form_64)
		return bits;
	if (parts.class == IEEE_INFINITE)
		return ieee_infinity(form, parts.is_negative);
	wide.word[0] = parts.fraction;
	return ieee_join(form, &wide, parts.power) | sign;
}

/* A NaN is the result, and -0 is less than +0, as in lanes. */
static double float_op(double a, double b, int op)
{
	bool is_less = b < a || (b == a && signbit(b) && !signbit(a));

	if (op == TALLY_PROD)
		return a * b;
	if (isnan(a) || isnan(b))
		return (double)NAN;
	return is_less == (op == TALLY_MIN) ? b : a;
}

static void float_put(const struct ieee_form *form, uint8_t *to, uint32_t bytes, double value)
{
	uint64_t bits = float_bits(form, value);

	memcpy(to, &bits, bytes);
}

static void float_fold(struct fold *fold, const struct ieee_form *form)
{
	for (uint64_t i = 0; i < fold->count; i++) {
		double value = float_get(form, at(fold, 0, i), fold->bytes);

		for (uint32_t r = 1; r < fold->ranks; r++)
			value = float_op(value, float_get(form, at(fold, r, i), fold->bytes),
					 fold->op.op);
		float_put(form, at(fold, 0, i), fold->bytes, value);
	}
}

/* (a + bi)(c + di), as it is written: Inf and NaN are those of its products and sums. */
static void complex_product(struct fold *fold, const struct ieee_form *form)
{
	uint32_t bytes = fold->bytes;

	for (uint64_t i = 0; i + 1 < fold->count; i += 2) {
		double real = float_get(form, at(fold, 0, i), bytes);
		double imaginary = float_get(form, at(fold, 0, i + 1), bytes);

		for (uint32_t r = 1; r < fold->ranks; r++) {
			double c = float_get(form, at(fold, r, i), bytes);
			double d = float_get(form, at(fold, r, i + 1), bytes);
			double before = real;

			real = before * c - imaginary * d;
			imaginary = before * d + imaginary * c;
		}
		float_put(form, at(fold, 0, i), bytes, real);
		float_put(form, at(fold, 0, i + 1), bytes, imaginary);
	}
}

/* ---- pairs of a value and its index ---- */

/* How a stands to b: below 0, 0, above 0. NaNs are equal to one another, and `nan` to numbers. */
static int compare(const struct fold *fold, const uint8_t *a, const uint8_t *b, int nan)
{
	enum lanes_type type = type_of(fold->op.dtype).lanes;

	if (type_is_float(fold->op.dtype)) {
		double x = float_get(form_of(type), a, fold->bytes);
		double y = float_get(form_of(type), b, fold->bytes);

		if (isnan(x) || isnan(y))
			return isnan(x) ? (isnan(y) ? 0 : nan) : -nan;
		return (x > y) - (x < y);
	}
	bool is_signed = type_is_signed(fold->op.dtype);
	uint64_t x = whole_get(a, fold->bytes, is_signed), y = whole_get(b, fold->bytes, is_signed);

	if (is_signed)
		return ((int64_t)x > (int64_t)y) - ((int64_t)x < (int64_t)y);
	return (x > y) - (x < y);
}

static void pair_fold(struct fold *fold)
{
	int sign = fold->op.op == TALLY_MINLOC ? -1
					       : 1; /* the best is that much above the others */

	for (uint64_t i = 0; i + 1 < fold->count; i += 2) {
		uint32_t best = 0;

		for (uint32_t r = 1; r < fold->ranks; r++) {
			int order = compare(fold, at(fold, r, i), at(fold, best, i), sign) * sign;
			int index = compare(fold, at(fold, r, i + 1), at(fold, best, i + 1), 1);

			if (order > 0 || (order == 0 && index < 0))
				best = r;
		}
		memmove(at(fold, 0, i), at(fold, best, i), 2 * (size_t)fold->bytes);
	}
}

/* ---- all ---- */

/* The program's own; the result is where the last rank's vector was. */
static void user_fold(struct fold *fold)
{
	uint64_t count = fold->count / type_of(fold->op.dtype).elements;

	for (uint32_t r = fold->ranks - 1; count && r-- > 0;)
		fold->op.reduce(at(fold, r, 0), at(fold, fold->ranks - 1, 0), count,
				(int)fold->op.dtype, fold->op.reduce_ctx);
}

static void work_out(struct fold *fold)
{
	struct type type = type_of(fold->op.dtype);
	int op = fold->op.op;
	bool is_truth = fold->op.dtype == TALLY_BOOL || (op >= TALLY_LAND && op <= TALLY_LXOR);

	if (op == TALLY_MINLOC || op == TALLY_MAXLOC)
		pair_fold(fold);
	else if (fold->ranks == 1 && !is_truth)
		; /* the element itself, bit for bit */
	else if (type.elements == 2)
		complex_product(fold, form_of(type.lanes));
	else if (type_is_float(fold->op.dtype))
		float_fold(fold, form_of(type.lanes));
	else
		whole_fold(fold, type_is_signed(fold->op.dtype), op, is_truth);
}

void fold_run(struct fold *fold, const struct endpoint_segment *segments, uint32_t segments_count)
{
	bool is_user = fold->op.op == TALLY_USER;
	uint64_t before = 0;

	if (is_user) {
		user_fold(fold);
	} else {
		before = float_state_begin();
		work_out(fold);
		float_state_end(before);
	}
	for (uint32_t i = 0; i < segments_count; i++)
		if (segments[i].destination)
			memcpy(segments[i].destination,
			       at(fold, is_user ? fold->ranks - 1 : 0, segments[i].first),
			       (size_t)segments[i].count * fold->bytes);
}
