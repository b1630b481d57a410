/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c - see fold.h. */
#include "lib/fold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/ieee.h"
#include "core/shared/lanes.h"
#include "simd/float_state.h"
#include "tally.h"

static bool is_float(int dtype)
{
	return dtype >= TALLY_FLOAT16 && dtype <= TALLY_BFLOAT16;
}

bool fold_can(int dtype, int op)
{
	if (op == TALLY_PROD || op == TALLY_MIN || op == TALLY_MAX)
		return true;
	return op >= TALLY_BAND && op <= TALLY_LXOR && !is_float(dtype);
}

struct fold *fold_new(int dtype, uint64_t count, uint32_t ranks, uint32_t rank,
		      const struct endpoint_segment *segments, uint32_t segments_count)
{
	uint32_t bytes = lanes_bytes((enum lanes_type)dtype);
	size_t most = (size_t)segments_count + ranks, all = (size_t)count * ranks * bytes;
	size_t head = sizeof(struct fold) + most * sizeof(struct endpoint_segment) +
		      ranks * sizeof(uint64_t);
	struct fold *fold = all / bytes / ranks == count ? malloc(head + all) : NULL;

	if (!fold)
		return NULL;
	*fold = (struct fold){ .ranks = ranks, .count = count };
	fold->segments = (struct endpoint_segment *)(void *)(fold + 1);
	fold->ends = (uint64_t *)(void *)(fold->segments + most);
	fold->all = (uint8_t *)(fold->ends + ranks);
	for (uint32_t r = 0; r < ranks; r++) {
		fold->ends[r] = (r + 1) * count;
		for (uint32_t i = 0; r == rank && i < segments_count; i++)
			fold->segments[fold->segments_count++] = (struct endpoint_segment){
				r * count + segments[i].first, segments[i].count,
				segments[i].source,
				fold->all + (r * count + segments[i].first) * bytes
			};
		if (r != rank && count)
			fold->segments[fold->segments_count++] =
				(struct endpoint_segment){ r * count, count, NULL,
							   fold->all + r * count * bytes };
	}
	return fold;
}

/* ---- integers: modulo 2^bits, as their bits ---- */

static uint64_t whole_get(const uint8_t *at, uint32_t bytes, bool is_signed)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
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

static void whole_fold(struct fold *fold, uint32_t bytes, bool is_signed, int op)
{
	bool is_truth = op >= TALLY_LAND;

	for (uint64_t i = 0; i < fold->count; i++) {
		uint64_t value = whole_get(fold->all + i * bytes, bytes, is_signed);

		value = is_truth ? value != 0 : value;
		for (uint32_t r = 1; r < fold->ranks; r++)
			value = whole_op(value,
					 whole_get(fold->all + (r * fold->count + i) * bytes, bytes,
						   is_signed),
					 op, is_signed);
		memcpy(fold->all + i * bytes, &value, bytes);
	}
}

/* ---- floats: as float64, rounded to their type once ---- */

static const struct ieee_form *form_of(int dtype)
{
	return dtype == TALLY_FLOAT16    ? &ieee_form_16
	       : dtype == TALLY_BFLOAT16 ? &ieee_form_b16
	       : dtype == TALLY_FLOAT32  ? &ieee_form_32
					 : &ieee_form_64;
}

static double float_get(const struct ieee_form *form, const uint8_t *at, uint32_t bytes)
{
	struct ieee_parts parts;
	uint64_t bits = 0;
	double value;

	memcpy(&bits, at, bytes);
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

static void float_fold(struct fold *fold, int dtype, uint32_t bytes, int op)
{
	const struct ieee_form *form = form_of(dtype);

	for (uint64_t i = 0; i < fold->count; i++) {
		double value = float_get(form, fold->all + i * bytes, bytes);
		uint64_t bits;

		for (uint32_t r = 1; r < fold->ranks; r++)
			value = float_op(value,
					 float_get(form, fold->all + (r * fold->count + i) * bytes,
						   bytes),
					 op);
		bits = float_bits(form, value);
		memcpy(fold->all + i * bytes, &bits, bytes);
	}
}

void fold_run(struct fold *fold, int dtype, int op, const struct endpoint_segment *segments,
	      uint32_t segments_count)
{
	uint32_t bytes = lanes_bytes((enum lanes_type)dtype);
	bool is_signed = dtype == TALLY_INT8 || dtype == TALLY_INT32 || dtype == TALLY_INT64;
	uint64_t before = float_state_begin();

	if (fold->ranks == 1 && op < TALLY_LAND)
		; /* the element itself, bit for bit */
	else if (is_float(dtype))
		float_fold(fold, dtype, bytes, op);
	else
		whole_fold(fold, bytes, is_signed, op);
	float_state_end(before);
	for (uint32_t i = 0; i < segments_count; i++)
		if (segments[i].destination)
			memcpy(segments[i].destination, fold->all + segments[i].first * bytes,
			       (size_t)segments[i].count * bytes);
}
