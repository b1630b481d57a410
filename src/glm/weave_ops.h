/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weave_ops.h - the loops over planes, one table per instruction set, and the orders of bits and weights
 * that they agree on. For weave.c, the tables, tests and benchmarks.
 */
#ifndef GLM_WEAVE_OPS_H
#define GLM_WEAVE_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "glm/weave.h"

enum {
	WEAVE_WORD = 64,   /* features of a word */
	WEAVE_BLOCK = 512, /* features of a cache line */
	WEAVE_BLOCK_WORDS = WEAVE_BLOCK / WEAVE_WORD,
	WEAVE_BLOCK_PARTS = 2 * WEAVE_BLOCK,

	/* A chunk is what a kernel does in one call. It adds up pairs of 255 * 2^15 in 32 bits, 16 lanes
	 * of them per instruction at least: 128 of these for 2048 features. */
	WEAVE_CHUNK = 2048,
	WEAVE_CHUNK_WORDS = WEAVE_CHUNK / WEAVE_WORD,
	WEAVE_CHUNK_PARTS = 2 * WEAVE_CHUNK,

	WEAVE_PART_BITS = 15,
	WEAVE_PART_MASK = (1 << WEAVE_PART_BITS) - 1,
	WEAVE_LOW_PART = 32, /* from the signed part of a weight to the unsigned one */
};
_Static_assert(WEAVE_CHUNK / 16 * 2 * 255LL * (1 << WEAVE_PART_BITS) <= INT32_MAX,
	       "sums of a chunk");

static inline size_t weave_round_up(size_t x, size_t to)
{
	return (x + to - 1) / to * to;
}

static inline double weave_width(const struct weave_range *range)
{
	return (double)range->high - (double)range->low;
}

/* Feature 8 f + p of a word is bit f of byte p: the eight bits of one byte of eight planes are a matrix
 * whose transpose has eight values, and shifting the planes by f leaves eight neighbours in order. */
static inline uint32_t weave_bit(uint32_t feature)
{
	return feature % 8 * 8 + feature / 8 % 8;
}

/* Where a feature's signed part is. In a block: by f; then even words, odd words (what punpcklbw and
 * punpckhbw take from their 128-bit lanes); signed parts, unsigned ones; by word; by p. */
static inline size_t weave_part(uint32_t feature)
{
	size_t block = feature / WEAVE_BLOCK, word = feature / WEAVE_WORD % WEAVE_BLOCK_WORDS;

	return block * WEAVE_BLOCK_PARTS + feature / 8 % 8 * 128 + word % 2 * 64 + word / 2 * 8 +
	       feature % 8;
}

/* Added and taken away, this leaves a double below 2^51 rounded to an integer, half to even. */
#define WEAVE_ROUND 0x1.8p52

/* Planes are plane_words apart; `words` of each are read, WEAVE_CHUNK_WORDS at most; bits is 1..8. */
struct weave_ops {
	const char *name;
	/* The sum of W times q, the value of the first `bits` planes. parts: whole blocks. */
	int64_t (*dot)(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
		       const int16_t *parts);
	/* sums += scale * q. Of whole blocks, some past `words` may be added 0 to. */
	void (*add)(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
		    float scale, float *sums);
	/* NULL, or rounds `eights` times eight weights, of features feature, feature + 1, ... (a multiple of
	 * 8), as weave_model_set does, up to the first eight of which one does not fit. Returns how many it
	 * did. */
	uint32_t (*round)(const struct weave_range *ranges, const float *weight, uint32_t eights,
			  double unit, int16_t *parts, uint32_t feature, int64_t *constant);
};

extern const struct weave_ops weave_scalar; /* the reference */
extern const struct weave_ops weave_avx2;   /* x86_64 with AVX2 */
extern const struct weave_ops weave_avx512; /* x86_64 with these and AVX-512 F and BW */

/* weave_avx2's, which is weave_avx512's too. */
uint32_t weave_avx2_round(const struct weave_range *ranges, const float *weight, uint32_t eights,
			  double unit, int16_t *parts, uint32_t feature, int64_t *constant);

/* All tables that this processor can run, slowest first, [0] the scalar one; and the last of them, which
 * weave_init and weave_model_init take. From any thread. */
const struct weave_ops *const *weave_ops_all(size_t *count);
const struct weave_ops *weave_ops_best(void);

#endif
