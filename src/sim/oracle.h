/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oracle.h - what goes into a simulated operation and what has to come out of it. It knows the numbers of
 * docs/protocol.md (R-NUM-*) and shares no code with what computes them.
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "sim/scenario.h"

enum { ORACLE_TEXT = 200 };

/* Writes the op->count elements that `rank` contributes. */
void oracle_fill(const struct scenario_op *op, uint32_t rank, void *elements);

/* Element i of an int32 operation. */
int32_t oracle_int32(const struct scenario_op *op, uint32_t workers, const void *const *sources,
		     uint64_t i);

/* Has some rank an element of a magnitude above (2^31 - 1) / workers? */
bool oracle_is_out_of_range(const struct scenario_op *op, uint32_t workers,
			    const void *const *sources);

/* The correctly rounded sum (or average) of element i of these float32 vectors, all finite (R-NUM-13). */
float oracle_exact(uint32_t workers, const void *const *sources, uint64_t i, bool is_avg);

/* Is `result` right for these sources, chunk by chunk of `lanes` lanes? Integers: exact, saturated, avg
 * truncated. float32: to the bit what R-NUM-2 to R-NUM-4, R-NUM-13 and R-NUM-14 say; any NaN is one. If not,
 * false, and `text` says what is wrong. */
bool oracle_verify(const struct scenario_op *op, uint32_t workers, uint32_t lanes,
		   const void *const *sources, const void *result, char text[ORACLE_TEXT]);

/* What a gather leaves at `rank`: writes what it wants into `result`, which has what was there before. */
void oracle_gather(const struct scenario_op *op, uint32_t workers, uint32_t rank,
		   const void *const *sources, uint8_t *result);

#endif
