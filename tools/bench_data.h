/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_data.h - vectors for a benchmark, and whether their sum is right. An element is a hash of (seed,
 * rank, operation, index): any rank can make any other's, so that every result is held against a sum that
 * tally had no part in. Both signs; float32 has exponents that differ between blocks and ranks; int32 is
 * small enough for the sum to stay in range.
 */
#ifndef TOOLS_BENCH_DATA_H
#define TOOLS_BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DATA_LANES_MAX = 65536 };

/* One operation. */
struct data_op {
	uint64_t seed;
	uint64_t number; /* of the operation: no two have the same data */
	uint32_t ranks;
	bool is_float; /* float32, else int32 */
	bool is_avg;
	size_t count;
};

/* What verification found. */
struct data_verdict {
	uint64_t wrong;  /* elements */
	uint64_t digest; /* of the bits of the result: the same on all ranks */
	size_t index;    /* of the first wrong one, */
	double got, want, bound;
};

/* out: count elements of this rank. */
void data_fill(const struct data_op *op, uint32_t rank, void *out);

/* int32 must be exact; float32 within tally.h's bound, with the largest exponent of each `lanes` elements
 * (a packet; 1 to DATA_LANES_MAX) over all ranks. false: no memory. */
bool data_verify(const struct data_op *op, uint32_t lanes, const void *result,
		 struct data_verdict *verdict);

#endif
