/* SPDX-License-Identifier: Apache-2.0 */
/* bench_block.h - what the elements of bench_data.h are made of; for bench_data.c and bench_other.c. */
#ifndef TOOLS_BENCH_BLOCK_H
#define TOOLS_BENCH_BLOCK_H

#include <math.h>

#include "tally.h"
#include "tools/bench_data.h"

enum { BLOCK = 1024 }; /* elements that share a key and an exponent */

/* Of one rank. */
struct block {
	uint32_t key;
	int shift;    /* right, arithmetic */
	double scale; /* floats: a power of two */
};

static inline uint64_t block_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static inline uint32_t block_log2(uint32_t ranks)
{
	uint32_t bits = 0;

	while (1ull << bits < ranks)
		bits++;
	return bits;
}

/* All elements of floats are exact in their type. */
static inline int block_shift(const struct data_op *op)
{
	int shift = (int)block_log2(op->ranks) + 1;

	switch (op->dtype) {
	case TALLY_FLOAT16:
		return 21;
	case TALLY_BFLOAT16:
		return 24;
	case TALLY_FLOAT32:
		return 8;
	case TALLY_FLOAT64:
		return 0;
	case TALLY_INT8:
	case TALLY_UINT8:
		return shift + 24 < 31 ? shift + 24 : 31;
	default:
		return shift;
	}
}

/* As gradients do: a rank's block has its own size, which changes little from one operation to the next, or (one time
 * in 2,048) to whatever. */
static inline int block_binade(const struct data_op *op, uint64_t place, uint64_t hash)
{
	uint32_t binades = op->dtype == TALLY_FLOAT16 ? 4 : 20;

	if (!(hash >> 53))
		return (int)(hash >> 32 & 0xffffff) % (int)binades;
	return (int)(place % (binades - 1) + (hash >> 52 & 1));
}

static inline struct block block_of(const struct data_op *op, uint32_t rank, size_t number)
{
	uint64_t seed = block_mix(op->seed + 0x9e3779b97f4a7c15);
	uint64_t where = (uint64_t)rank << 48 | number;
	uint64_t hash = block_mix(block_mix(seed ^ op->number) ^ where);
	struct block block;

	block.key = (uint32_t)hash;
	block.shift = block_shift(op);
	/* below 2^4, or 2^5 */
	block.scale = ldexp(1.0, block.shift - 27 -
					 block_binade(op, block_mix(seed ^ where) >> 32, hash));
	return block;
}

static inline int32_t element(struct block block, uint32_t index)
{
	uint32_t x = block.key + index * 0x9e3779b1u;

	x = (x ^ x >> 15) * 0x85ebca77u;
	x = (x ^ x >> 13) * 0xc2b2ae3du;
	x ^= x >> 16;
	return (int32_t)x >> block.shift;
}

/* How far [at, end) goes before its next block. */
static inline uint32_t block_piece(size_t at, size_t end)
{
	size_t room = BLOCK - at % BLOCK;

	return (uint32_t)(end - at < room ? end - at : room);
}

/* As data_fill and data_verify, of other types than int32 and float32. verdict->digest is set. */
void data_other_fill(const struct data_op *op, uint32_t rank, void *out);
bool data_other_verify(const struct data_op *op, uint32_t lanes, const void *result,
		       struct data_verdict *verdict);

#endif
