/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_data.h - vectors for a benchmark, and whether their sum is right. An element is a hash of (seed,
 * rank, operation, index): any rank can make any other's, so that every result is held against a sum that
 * tally had no part in. Both signs, where the type has them; floats have exponents that differ between blocks and
 * ranks; integers are small enough for the sum to stay in range, unless too many ranks add up 8 bits.
 */
#ifndef TOOLS_BENCH_DATA_H
#define TOOLS_BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DATA_LANES_MAX = 65536 };

/* How sums of float32 travel: tally.h's TALLY_HALF, TALLY_EXACT, TALLY_STRICT, or none. */
enum data_wire { DATA_FREE, DATA_HALF, DATA_EXACT, DATA_STRICT };

/* One operation. */
struct data_op {
	uint64_t seed;
	uint64_t number; /* of the operation: no two have the same data */
	uint32_t ranks;
	int dtype; /* enum tally_dtype */
	bool is_avg;
	size_t count;
	double scale; /* of a float32 sum, as in tally_op_options; 0: none */
	enum data_wire wire;
};

/* No element's magnitude is as large. */
#define DATA_LIMIT 32

/* What verification found. */
struct data_verdict {
	uint64_t wrong;  /* elements */
	uint64_t digest; /* of the bits of the result: the same on all ranks */
	size_t index;    /* of the first wrong one, */
	double got, want, bound;
};

/* Of an element. */
size_t data_bytes(int dtype);

/* out: count elements of this rank. */
void data_fill(const struct data_op *op, uint32_t rank, void *out);

/* Integers must be exact; floats within tally.h's bound, with the largest exponent of each packet of `lanes` lanes
 * (1 to DATA_LANES_MAX) over all ranks. false: no memory. */
bool data_verify(const struct data_op *op, uint32_t lanes, const void *result,
		 struct data_verdict *verdict);

#endif
