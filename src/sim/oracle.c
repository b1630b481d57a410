/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef __int128 int128;

enum { GUESS_BITS = 4 };
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

static void element_put(const struct scenario_op *op, void *elements, uint64_t i,
			enum contents kind, uint64_t draw)
{
	bool is_float = op->type == LANES_FLOAT32;
	uint64_t bits = is_float ? float_of_kind(kind, draw) : int_of_kind(kind, draw);
	size_t bytes = lanes_bytes(op->type);

	if (bytes == 8)
		bits = bits << 32 | (uint32_t)draw;
	if (op->op == LANES_COPY)
		bits |= 1; /* who sends an element is seen (check.c) */
	memcpy((uint8_t *)elements + i * bytes, &bits, bytes);
}

void oracle_fill(const struct scenario_op *op, uint32_t rank, void *elements)
{
	struct rng shared, own;

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
			element_put(op, elements, j, kind, rng_next(&own));
	}
}

/* --- what has to come out --- */

static int128 int_at(enum lanes_type type, const void *elements, uint64_t i)
{
	switch (type) {
	case LANES_INT8:
		return ((const int8_t *)elements)[i];
	case LANES_UINT8:
		return ((const uint8_t *)elements)[i];
	case LANES_UINT32:
		return ((const uint32_t *)elements)[i];
	case LANES_INT64:
		return ((const int64_t *)elements)[i];
	case LANES_UINT64:
		return ((const uint64_t *)elements)[i];
	default:
		return ((const int32_t *)elements)[i];
	}
}

/* R-NUM-9: at the ends of its type. */
static int128 saturated(enum lanes_type type, int128 sum)
{
	bool is_signed = type == LANES_INT8 || type == LANES_INT32 || type == LANES_INT64;
	uint32_t bits = 8 * lanes_bytes(type) - is_signed;
	int128 most = ((int128)1 << bits) - 1, least = is_signed ? -most - 1 : 0;

	return sum > most ? most : sum < least ? least : sum;
}

static int128 int_expected(const struct scenario_op *op, uint32_t workers,
			   const void *const *sources, uint64_t i)
{
	int128 result = int_at(op->type, sources[0], i);

	for (uint32_t w = 1; w < workers; w++) {
		int128 x = int_at(op->type, sources[w], i);

		if (op->op == LANES_MAX)
			result = x > result ? x : result;
		else if (op->op == LANES_MIN)
			result = x < result ? x : result;
		else
			result += x;
	}
	return saturated(op->type, op->op == LANES_AVG ? result / workers : result);
}

int32_t oracle_int32(const struct scenario_op *op, uint32_t workers, const void *const *sources,
		     uint64_t i)
{
	return (int32_t)int_expected(op, workers, sources, i);
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

static bool int_verify(const struct scenario_op *op, uint32_t workers, const void *const *sources,
		       const void *result, char text[ORACLE_TEXT])
{
	for (uint64_t i = 0; i < op->count; i++) {
		int128 expected = int_expected(op, workers, sources, i);
		int128 is = int_at(op->type, result, i);

		if (is == expected)
			continue;
		snprintf(text, ORACLE_TEXT, "int%u element %llu is %lld, not %lld",
			 8 * lanes_bytes(op->type), (unsigned long long)i, (long long)is,
			 (long long)expected);
		return false;
	}
	return true;
}

/* How the elements of one chunk are told in integers (R-NUM-1, R-NUM-2). */
struct chunk {
	uint64_t first, end; /* its elements */
	bool is_exact;       /* R-NUM-13 */
	int shift;
	double bound; /* of a rank's lane */
};

static struct chunk chunk_of(uint32_t workers, const void *const *sources, uint64_t first,
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
	int exponent = (int)(largest >> EXPONENT_AT);
	if (largest && !exponent)
		exponent = 1;
	while (1u << log2_workers < workers)
		log2_workers++;
	return (struct chunk){ .first = first,
			       .end = end,
			       .shift = 31 - log2_workers - (exponent - 126),
			       .bound = floor(INT32_MAX / (double)workers) };
}

/* What R-NUM-2 to R-NUM-4 say, to the bit; all of it is exact in double but the last two roundings. */
static float float32_expected(const struct scenario_op *op, uint32_t workers,
			      const void *const *sources, uint64_t i, const struct chunk *chunk)
{
	bool has_nan = false, has_plus = false, has_minus = false;
	double sum = 0;

	if (workers == 1)
		return ((const float *)sources[0])[i]; /* R-NUM-8 */
	for (uint32_t w = 0; w < workers; w++) {
		float x = ((const float *)sources[w])[i];
		double lane = isfinite(x) ? nearbyint(ldexp((double)x, chunk->shift)) : 0;

		has_nan |= isnan(x) != 0;
		has_plus |= isinf(x) && x > 0;
		has_minus |= isinf(x) && x < 0;
		sum += fmax(-chunk->bound, fmin(chunk->bound, lane));
	}
	if (has_nan || (has_plus && has_minus))
		return NAN;
	if (has_plus || has_minus)
		return has_plus ? INFINITY : -INFINITY;
	if (chunk->is_exact)
		return oracle_exact(workers, sources, i, op->op == LANES_AVG);
	sum = ldexp(sum, -chunk->shift) + 0.0; /* no lane is -0 */
	return (float)(op->op == LANES_AVG ? sum / workers : sum);
}

/* R-NUM-8 */
static bool lone_verify(const struct scenario_op *op, const void *source, const void *result,
			char text[ORACLE_TEXT])
{
	for (uint64_t i = 0; i < op->count; i++) {
		uint32_t is = ((const uint32_t *)result)[i], was = ((const uint32_t *)source)[i];

		if (is == was)
			continue;
		snprintf(text, ORACLE_TEXT, "float32 element %llu of one worker is %08x, not %08x",
			 (unsigned long long)i, is, was);
		return false;
	}
	return true;
}

/* R-NUM-14: -0 is less than +0, and a NaN is the result. */
static float float32_order(const struct scenario_op *op, uint32_t workers,
			   const void *const *sources, uint64_t i)
{
	float best = ((const float *)sources[0])[i];

	for (uint32_t w = 1; w < workers; w++) {
		float x = ((const float *)sources[w])[i];
		bool is_less = x < best || (x == best && signbit(x) && !signbit(best));
		bool is_more = x > best || (x == best && !signbit(x) && signbit(best));

		if (isnan(x) || isnan(best))
			best = NAN;
		else if (op->op == LANES_MAX ? is_more : is_less)
			best = x;
	}
	return best;
}

/* As many digits of a lane's bits as 277 bits need: do they fit for all elements? */
static bool is_exact(const struct scenario_op *op, uint32_t workers, uint32_t lanes)
{
	uint32_t bits = 31;

	while (1u << (31 - bits) < workers)
		bits--;
	return op->count * ((277 + bits - 1) / bits) <= lanes;
}

static bool chunk_verify(const struct scenario_op *op, uint32_t workers, const void *const *sources,
			 const float *result, const struct chunk *chunk, char text[ORACLE_TEXT])
{
	bool is_order = op->op == LANES_MAX || op->op == LANES_MIN;

	for (uint64_t i = chunk->first; i < chunk->end; i++) {
		float expected = is_order ? float32_order(op, workers, sources, i)
					  : float32_expected(op, workers, sources, i, chunk);

		if (memcmp(&result[i], &expected, sizeof(expected)) == 0 ||
		    (isnan(expected) && isnan(result[i])))
			continue;
		snprintf(text, ORACLE_TEXT, "float32 element %llu is %a, not %a",
			 (unsigned long long)i, (double)result[i], (double)expected);
		return false;
	}
	return true;
}

/* R-WK-18: all of a chunk is scaled by its exponent, or by a guess up to 3 above. */
static bool float32_verify(const struct scenario_op *op, uint32_t workers, uint32_t lanes,
			   const void *const *sources, const float *result, char text[ORACLE_TEXT])
{
	for (uint64_t first = 0; first < op->count; first += lanes) {
		uint64_t end = first + lanes < op->count ? first + lanes : op->count;
		struct chunk chunk = chunk_of(workers, sources, first, end);
		uint32_t guess = 0;

		chunk.is_exact = is_exact(op, workers, lanes);
		while (!chunk_verify(op, workers, sources, result, &chunk, text)) {
			if (guess++ == GUESS_BITS)
				return false;
			chunk.shift--;
		}
	}
	return true;
}

bool oracle_verify(const struct scenario_op *op, uint32_t workers, uint32_t lanes,
		   const void *const *sources, const void *result, char text[ORACLE_TEXT])
{
	if (op->type != LANES_FLOAT32)
		return int_verify(op, workers, sources, result, text);
	if (workers == 1)
		return lone_verify(op, sources[0], result, text);
	return float32_verify(op, workers, lanes, sources, result, text);
}

void oracle_gather(const struct scenario_op *op, uint32_t workers, uint32_t rank,
		   const void *const *sources, uint8_t *result)
{
	size_t bytes = lanes_bytes(op->type), first = 0, end;
	struct scenario_parts parts;

	scenario_parts(op, workers, &parts);
	for (uint32_t i = 0; i < 2 * parts.count; i++, first = end) {
		end = parts.pieces[i] * bytes;
		for (uint32_t w = 0; w < workers && parts.wanted[rank] >> i & 1; w++)
			if (parts.mine[w] == i / 2)
				memcpy(result + first, (const uint8_t *)sources[w] + first,
				       end - first);
	}
}
