/* SPDX-License-Identifier: Apache-2.0 */
/*
 * past.h - what exponents the chunks of a stream's earlier operations had, and which of them an operation repeats: what
 * a GUESS round is made of. Pure functions of what was submitted and accepted, so all ranks guess alike.
 * docs/protocol.md, R-WK-17 and R-WK-18.
 */
#ifndef CORE_PAST_H
#define CORE_PAST_H

#include "core/shared/env.h"

enum {
	PAST_REACH = 1024, /* operations: so far an operation looks back */
	PAST_CHUNKS =
		1024, /* of an operation: the first ones. Most others' exponents travel ahead (R-WK-9) */
	PAST_MATCH = 16, /* operations before it that are compared to find its place */
	PAST_BELOW = 3,  /* a guess may be so much above what it is of */
	PAST_EXPONENT_MAX = 254,
	PAST_OPEN = 255, /* instead of the exponent of a chunk that has not been accepted */
};

#define PAST_NONE UINT64_MAX

struct past_op {
	uint64_t key;
	uint64_t before; /* the number of the operation at the same place, or PAST_NONE */
};

/* Memory is lent. Operations are numbered 0, 1, 2, ... */
struct past {
	struct past_op
		*ops; /* a ring of `ring` of them, a power of two; NULL: nothing is ever guessed */
	uint8_t *exponents; /* `chunks` of each */
	uint32_t ring;      /* at least reach, and those that may be on their way at once */
	uint32_t reach, chunks;
	uint64_t count;
};

enum past_guess {
	PAST_UNKNOWN, /* there is nothing to guess from */
	PAST_WAITS,   /* there will be, when an earlier operation's chunk has been accepted */
	PAST_KNOWN,
};

/* An operation of so many chunks is submitted: its number. `key`: of all that is compared (R-WK-17). */
uint64_t past_put(struct past *past, uint64_t key, uint64_t chunks);
/* The exponent to guess for an operation's chunk, in *guess. The operation has not been complete for `reach` others. */
enum past_guess past_guess(const struct past *past, uint64_t op, uint64_t chunk, uint16_t *guess);
/* The chunk was accepted; all ranks were told this exponent. */
void past_note(struct past *past, uint64_t op, uint64_t chunk, uint32_t exponent);
/* R-WK-18: is a guess good enough for a chunk of this exponent? */
bool past_fits(uint32_t guess, uint32_t exponent);

#endif
