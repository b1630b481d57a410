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
};

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

#endif
