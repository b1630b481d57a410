/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold.h - sums that lanes cannot do: products, bits, truth values, minima of 64 bits, the program's own. All ranks gather what all of them
 * bring, and each rank works the result out by itself, in the order of the ranks: the same bits on all (R-NUM-17).
 */
#ifndef LIB_FOLD_H
#define LIB_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataplane/segments.h"
#include "tally.h"

struct fold_op {
	uint32_t dtype; /* numbers of tally.h */
	int op;
	tally_reduce_fn reduce; /* TALLY_USER */
	void *reduce_ctx;
};

/* One operation that is gathered; one block of memory. */
struct fold {
	struct endpoint_segment
		*segments; /* of the gathered vector: rank 0's whole, then rank 1's, ... */
	uint32_t segments_count;
	uint32_t ranks;
	uint64_t
		count; /* elements that each rank brings, as they travel: a complex number is two */
	uint32_t bytes; /* of one */
	struct fold_op op;
	uint64_t *ends; /* of each rank's */
	uint8_t *all;   /* ranks * count elements */
};

/* From the segments of an operation over `count` elements: what this rank brings of them, and where it wants the result.
 * NULL: no memory. free() gives it back. */
struct fold *fold_new(const struct fold_op *op, uint64_t count, uint32_t ranks, uint32_t rank,
		      const struct endpoint_segment *segments, uint32_t segments_count);

/* All is there: works the result out, and puts it where these segments want it. */
void fold_run(struct fold *fold, const struct endpoint_segment *segments, uint32_t segments_count);

#endif
