/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
	BLOCK = 24, /* elements of one kind side by side: chunks of few lanes are of one kind, others not */
	EXPONENT_AT = 23,
	RANK_STREAM = 100,
};

/* --- what goes in --- */

enum contents { CALM, ZEROS, WIDE, TINY, VAST, SPECIAL, CONTENTS };

static uint32_t float_bits(uint64_t draw, uint32_t exponent)
{
	return (uint32_t)(draw >> 40 & 0x7fffff) | exponent << EXPONENT_AT |
	       (uint32_t)(draw >> 63) << 31;
}

static uint32_t float_of_kind(enum contents kind, uint64_t draw)
{
	switch (kind) {
	case CALM:
		return float_bits(draw, 118 + (draw & 15));
	case ZEROS:
		return draw & 1 ? 0x80000000 : 0;
	case WIDE:
		return float_bits(draw, 1 + (uint32_t)(draw % 254));
	case TINY:
		return float_bits(draw, draw & 1);
	case VAST:
		return float_bits(draw, 252 + (uint32_t)(draw % 3));
	default:
		if ((draw & 7) > 2)
			return float_bits(draw, 120 + (draw >> 8 & 15));
		if ((draw & 7) == 2)
			return 0x7fc00000 | float_bits(draw, 255);
		return 0x7f800000 | (uint32_t)(draw & 1) << 31;
	}
}

static uint32_t int_of_kind(enum contents kind, uint64_t draw)
{
	uint32_t x = (uint32_t)(draw >> 32);

	switch (kind) {
	case CALM:
		return (uint32_t)((int32_t)x >> 8);
	case ZEROS:
		return 0;
	case TINY: /* around the bound of two to eight workers */
		return (draw & 1 ? 1 : UINT32_MAX) *
		       (uint32_t)(INT32_MAX / (1 + (draw >> 8 & 7)) + (draw >> 12 & 1));
	case VAST:
		return draw & 1 ? INT32_MAX : 0x80000000;
	default:
		return x;
	}
}

/* 1200004 is element 4 of rank 0's tensor 2; rank 1's is -2000000 + 200004: sums of other tensors or
 * elements, or without somebody, are other numbers. */
static void plain_fill(const struct scenario_op *op, uint32_t rank, int32_t *elements)
{
	int32_t whose = (int32_t)(rank + 1) * (rank & 1 ? -1000000 : 1000000);

	for (uint64_t i = 0; i < op->count; i++)
		elements[i] = whose + (int32_t)(op->data * 100000 + i);
}

void oracle_fill(const struct scenario_op *op, uint32_t rank, void *elements)
{
	struct rng shared, own;
	uint32_t *at = elements;

	if (op->is_plain) {
		plain_fill(op, rank, elements);
		return;
	}
	bool is_calm = op->data & 1; /* half of the operations need no DETAIL round */

	rng_init(&shared, op->data, 0);
	rng_init(&own, op->data, RANK_STREAM + rank);
	for (uint64_t i = 0; i < op->count; i += BLOCK) {
		uint64_t end = i + BLOCK < op->count ? i + BLOCK : op->count;
		uint64_t draw = rng_next(&shared);
		enum contents kind = CALM;

		if (!is_calm && (draw & 3) == 0)
			kind = (enum contents)((draw >> 32) % CONTENTS);
		if (!is_calm && rng_chance(&own, 20000))
			kind = (enum contents)rng_below(&own, CONTENTS);
		for (uint64_t j = i; j < end; j++)
			at[j] = op->type == ENDPOINT_FLOAT32 ? float_of_kind(kind, rng_next(&own))
							     : int_of_kind(kind, rng_next(&own));
	}
}

/* --- what has to come out --- */

int32_t oracle_int32(const struct scenario_op *op, uint32_t workers, const void *const *sources,
		     uint64_t i)
{
	int64_t sum = 0;

	for (uint32_t w = 0; w < workers; w++)
		sum += ((const int32_t *)sources[w])[i];
	if (op->is_avg)
		sum /= (int64_t)workers;
	if (sum > INT32_MAX)
		return INT32_MAX;
	return sum < INT32_MIN ? INT32_MIN : (int32_t)sum;
}

bool oracle_is_out_of_range(const struct scenario_op *op, uint32_t workers,
			    const void *const *sources)
{
	int64_t bound = INT32_MAX / (int64_t)workers;

	for (uint32_t w = 0; w < workers; w++)
		for (uint64_t i = 0; i < op->count; i++) {
			int64_t x = ((const int32_t *)sources[w])[i];

			if (x > bound || x < -bound)
				return true;
		}
	return false;
}

static bool int32_verify(const struct scenario_op *op, uint32_t workers, const void *const *sources,
			 const int32_t *result, char text[ORACLE_TEXT])
{
	for (uint64_t i = 0; i < op->count; i++) {
		int32_t expected = oracle_int32(op, workers, sources, i);
		if (result[i] == expected)
			continue;
		snprintf(text, ORACLE_TEXT, "int32 element %llu is %d, not %d",
			 (unsigned long long)i, result[i], expected);
		return false;
	}
	return true;
}

/* N * 2^-s for the largest finite magnitude among these elements of all ranks; 0 if all are zero. */
static double chunk_error(uint32_t workers, const void *const *sources, uint64_t first,
			  uint64_t end)
{
	uint32_t largest = 0;
	int log2_workers = 0;

	for (uint32_t w = 0; w < workers; w++)
		for (uint64_t i = first; i < end; i++) {
			uint32_t magnitude = ((const uint32_t *)sources[w])[i] & 0x7fffffff;
			if (magnitude < 0x7f800000 && magnitude > largest)
				largest = magnitude;
		}
	if (!largest)
		return 0;
	int exponent = (int)(largest >> EXPONENT_AT);
	if (!exponent)
		exponent = 1;
	while (1u << log2_workers < workers)
		log2_workers++;
	return ldexp((double)workers, -(31 - log2_workers - (exponent - 126)));
}

static const char *float32_wrong(const struct scenario_op *op, uint32_t workers,
				 const void *const *sources, uint64_t i, double error, float result)
{
	bool has_nan = false, has_plus = false, has_minus = false;
	double sum = 0; /* exact enough: its own error is 2^-15 of `error` at most */

	for (uint32_t w = 0; w < workers; w++) {
		float x = ((const float *)sources[w])[i];
		has_nan |= isnan(x) != 0;
		has_plus |= isinf(x) && x > 0;
		has_minus |= isinf(x) && x < 0;
		sum += isfinite(x) ? (double)x : 0;
	}
	if (has_nan || (has_plus && has_minus))
		return isnan(result) ? NULL : "should be NaN";
	if (has_plus || has_minus)
		return isinf(result) && (result > 0) == has_plus ? NULL : "should be infinite";
	error *= 1 + 0x1p-12;
	double divisor = op->is_avg ? workers : 1;
	/* Rounding keeps order: so this is the bound and half an ulp, at the edges of range too. */
	float low = (float)((sum - error) / divisor);
	float high = (float)((sum + error) / divisor);
	return result >= low && result <= high ? NULL : "is out of bound";
}

static bool float32_verify(const struct scenario_op *op, uint32_t workers, uint32_t lanes,
			   const void *const *sources, const float *result, char text[ORACLE_TEXT])
{
	for (uint64_t first = 0; first < op->count; first += lanes) {
		uint64_t end = first + lanes < op->count ? first + lanes : op->count;
		double error = chunk_error(workers, sources, first, end);

		for (uint64_t i = first; i < end; i++) {
			const char *wrong =
				float32_wrong(op, workers, sources, i, error, result[i]);
			if (!wrong)
				continue;
			snprintf(text, ORACLE_TEXT, "float32 element %llu, %a, %s (bound %a)",
				 (unsigned long long)i, (double)result[i], wrong, error);
			return false;
		}
	}
	return true;
}

bool oracle_verify(const struct scenario_op *op, uint32_t workers, uint32_t lanes,
		   const void *const *sources, const void *result, char text[ORACLE_TEXT])
{
	if (op->type == ENDPOINT_INT32)
		return int32_verify(op, workers, sources, result, text);
	return float32_verify(op, workers, lanes, sources, result, text);
}
