/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segments.h - an operation's vector may lie in several buffers. Chunks are cut from the vector, so one
 * may straddle them: such a chunk is worked on in a scratch, any other where it lies.
 */
#ifndef DATAPLANE_SEGMENTS_H
#define DATAPLANE_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dense/worker.h"

struct endpoint_op;

/* Elements [first, first + count) of the vector. */
struct endpoint_segment {
	uint64_t first;
	uint64_t count;     /* not 0 */
	const void *source; /* NULL: this worker does not have them (R-WK-13); they read as zeros */
	void *destination;  /* NULL: nobody here wants them */
};

enum segments_side { SEGMENTS_SOURCE, SEGMENTS_DESTINATION };

/* Elements [first, first + count) of that side, one after the other: where they lie, or copied to `scratch`,
 * which has room for them. */
const void *segments_read(const struct endpoint_op *op, enum segments_side side, uint64_t first,
			  uint32_t count, void *scratch);

/* Where to write elements [first, first + count) of the destination: in place, or `scratch`; then
 * segments_written brings what is in the scratch to its places. Not of elements that are there (segments_are_there). */
void *segments_write(const struct endpoint_op *op, uint64_t first, uint32_t count, void *scratch);
void segments_written(const struct endpoint_op *op, uint64_t first, uint32_t count,
		      const void *scratch);

/* They are where they are to be, all of them: this rank's own, copied in place. Its memory may not be written to. */
bool segments_are_there(const struct endpoint_op *op, uint64_t first, uint32_t count);

/* What this rank wants of these elements, which are some. */
enum worker_wish segments_wish(const struct endpoint_op *op, uint64_t first, uint32_t count);

#endif
