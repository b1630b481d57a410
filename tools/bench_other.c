/* SPDX-License-Identifier: Apache-2.0 */
/* bench_other.c - bench_data.h's vectors of all types but int32 and float32: one element at a time. */
#include "tools/bench_block.h"

#include <string.h>

/* What a type is: bits of an integer, or of a float's fraction and exponent. */
static const struct type {
	uint8_t bytes;
	bool is_signed;
	uint8_t fraction, exponent; /* of floats; else 0 */
} types[] = {
	[TALLY_INT8] = { 1, true, 0, 0 },      [TALLY_UINT8] = { 1, false, 0, 0 },
	[TALLY_INT32] = { 4, true, 0, 0 },     [TALLY_UINT32] = { 4, false, 0, 0 },
	[TALLY_INT64] = { 8, true, 0, 0 },     [TALLY_UINT64] = { 8, false, 0, 0 },
	[TALLY_FLOAT16] = { 2, true, 10, 5 },  [TALLY_FLOAT32] = { 4, true, 23, 8 },
	[TALLY_FLOAT64] = { 8, true, 52, 11 }, [TALLY_BFLOAT16] = { 2, true, 7, 8 },
};

size_t data_bytes(int dtype)
{
	return types[dtype].bytes;
}

static const struct type *type_of(const struct data_op *op)
{
	return &types[op->dtype];
}

/* ---- elements ---- */

/* Of 64 bits: so large that their high halves count. */
static int64_t int_of(const struct data_op *op, struct block block, uint32_t index)
{
	int64_t x = element(block, index);

	if (!type_of(op)->is_signed)
		x += (int64_t)1 << (31 - block.shift);
	return type_of(op)->bytes == 8 ? x * ((int64_t)1 << 24) : x;
}

static double float_of(struct block block, uint32_t index)
{
	return (double)element(block, index) * block.scale;
}

/* A float of 16 bits from a number that is exact in it. */
static uint16_t half_of(const struct type *type, double x)
{
	int bias = (1 << (type->exponent - 1)) - 1, power;
	double fraction = frexp(fabs(x), &power); /* 0.5 to 1 */
	uint32_t sign = signbit(x) ? 0x8000 : 0;

	if (x == 0)
		return (uint16_t)sign;
	return (uint16_t)(sign | (uint32_t)(power - 1 + bias) << type->fraction |
			  (uint32_t)ldexp(2 * fraction - 1, type->fraction));
}

static double double_of(const struct data_op *op, const void *at, size_t i)
{
	const struct type *type = type_of(op);
	uint32_t bits, fraction, exponent;
	double magnitude;

	if (type->bytes == 8)
		return ((const double *)at)[i];
	bits = ((const uint16_t *)at)[i];
	fraction = bits & ((1u << type->fraction) - 1);
	exponent = (bits & 0x7fff) >> type->fraction;
	if (exponent + 1 == 1u << type->exponent)
		return fraction ? (double)NAN : HUGE_VAL;
	magnitude = ldexp(fraction + (exponent ? 1u << type->fraction : 0),
			  (int)(exponent ? exponent : 1) - (1 << (type->exponent - 1)) + 1 -
				  type->fraction);
	return bits & 0x8000 ? -magnitude : magnitude;
}

void data_other_fill(const struct data_op *op, uint32_t rank, void *out)
{
	const struct type *type = type_of(op);

	for (size_t i = 0; i < op->count; i++) {
		struct block block = block_of(op, rank, i / BLOCK);
		uint32_t index = (uint32_t)(i % BLOCK);
		int64_t whole = int_of(op, block, index); /* little-endian, as lanes are */

		if (!type->fraction)
			memcpy((uint8_t *)out + i * type->bytes, &whole, type->bytes);
		else if (type->bytes == 8)
			((double *)out)[i] = float_of(block, index);
		else
			((uint16_t *)out)[i] = half_of(type, float_of(block, index));
	}
}

/* ---- what is right ---- */

static int64_t int_at(const struct data_op *op, const void *at, size_t i)
{
	const struct type *type = type_of(op);
	uint64_t bits = 0;

	memcpy(&bits, (const uint8_t *)at + i * type->bytes, type->bytes);
	if (type->is_signed && type->bytes < 8 && bits >> (8 * type->bytes - 1))
		bits |= ~(uint64_t)0 << 8 * type->bytes;
	return (int64_t)bits;
}

static int64_t int_wanted(const struct data_op *op, size_t i)
{
	const struct type *type = type_of(op);
	int bits = 8 * type->bytes - type->is_signed;
	int64_t most = bits > 62 ? INT64_MAX : ((int64_t)1 << bits) - 1, sum = 0;

	for (uint32_t rank = 0; rank < op->ranks; rank++)
		sum += int_of(op, block_of(op, rank, i / BLOCK), (uint32_t)(i % BLOCK));
	sum /= op->is_avg ? op->ranks : 1;
	sum = sum > most ? most : sum;
	return type->is_signed && sum < -most - 1 ? -most - 1 : sum;
}

static bool ints_verify(const struct data_op *op, const void *result, struct data_verdict *verdict)
{
	for (size_t i = 0; i < op->count; i++) {
		int64_t got = int_at(op, result, i), want = int_wanted(op, i);

		if (got == want)
			continue;
		if (!verdict->wrong++) {
			verdict->index = i;
			verdict->got = (double)got;
			verdict->want = (double)want;
		}
	}
	return true;
}

/* tally.h: how many elements share an exponent, and what they may be wrong by, of the largest among them. */
static size_t chunk_of(const struct data_op *op, uint32_t lanes, int *bits)
{
	int digit = 31 - (int)block_log2(op->ranks);
	uint32_t pairs_most = op->dtype == TALLY_FLOAT16 ? 16 : 128;

	if (type_of(op)->bytes == 8) {
		*bits = 54; /* of a power of two that is twice as large as the element */
		return lanes / (uint32_t)((55 + digit - 1) / digit);
	}
	*bits = digit - (op->ranks <= pairs_most ? 16 : 0);
	return op->ranks <= pairs_most ? 2 * (size_t)lanes : lanes;
}

static double half_ulp(const struct type *type, double x)
{
	int bias = (1 << (type->exponent - 1)) - 1, power;

	frexp(x, &power);
	power = power - 1 > 1 - bias ? power - 1 : 1 - bias;
	return ldexp(0.5, power - type->fraction);
}

/* Elements [at, end) of one packet. */
static void floats_verify(const struct data_op *op, const void *result, size_t at, size_t end,
			  int bits, struct data_verdict *verdict)
{
	double divisor = op->is_avg ? op->ranks : 1, top = 0, bound;
	int power;

	for (size_t i = at; i < end; i++)
		for (uint32_t rank = 0; rank < op->ranks; rank++)
			top = fmax(top, fabs(float_of(block_of(op, rank, i / BLOCK),
						      (uint32_t)(i % BLOCK))));
	frexp(top, &power); /* top < 2^power */
	bound = ldexp(op->ranks, power - bits) / divisor;
	for (size_t i = at; i < end; i++) {
		long double sum = 0; /* exact: 32 bits, 20 binades, and the ranks */
		double got = double_of(op, result, i), error;

		for (uint32_t rank = 0; rank < op->ranks; rank++)
			sum += (long double)float_of(block_of(op, rank, i / BLOCK),
						     (uint32_t)(i % BLOCK));
		error = (double)fabsl(sum / (long double)divisor - (long double)got);
		if (error <= bound + half_ulp(type_of(op), got) && error < HUGE_VAL)
			continue;
		if (!verdict->wrong++) {
			verdict->index = i;
			verdict->got = got;
			verdict->want = (double)sum / divisor;
			verdict->bound = bound;
		}
	}
}

bool data_other_verify(const struct data_op *op, uint32_t lanes, const void *result,
		       struct data_verdict *verdict)
{
	size_t chunk;
	int bits;

	if (!type_of(op)->fraction)
		return ints_verify(op, result, verdict);
	chunk = chunk_of(op, lanes, &bits);
	for (size_t at = 0; at < op->count; at += chunk)
		floats_verify(op, result, at, op->count - at < chunk ? op->count : at + chunk, bits,
			      verdict);
	return true;
}
