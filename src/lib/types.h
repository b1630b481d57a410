/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - which types and operations of tally.h go together, and what travels for a type. */
#ifndef LIB_TYPES_H
#define LIB_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/job/control.h"
#include "core/shared/lanes.h"
#include "tally.h"

/* What travels for one element: `elements` of this type. Numbers of tally.h, which type_check has seen. */
struct type {
	enum lanes_type lanes;
	uint8_t elements; /* 2: a complex number; else 1 */
};
static inline struct type type_of(uint32_t dtype)
{
	switch (dtype) {
	case TALLY_BOOL:
		return (struct type){ LANES_UINT8, 1 };
	case TALLY_COMPLEX64:
		return (struct type){ LANES_FLOAT32, 2 };
	case TALLY_COMPLEX128:
		return (struct type){ LANES_FLOAT64, 2 };
	default:
		return (struct type){ (enum lanes_type)dtype, 1 };
	}
}

/* Of an operation's descriptor, whose type has the form above it. */
static inline struct type type_of_op(const struct control_op *op)
{
	return type_of(lanes_word_type(op->type));
}

/* Bytes of an element, as the caller counts. */
static inline uint32_t type_bytes(uint32_t dtype)
{
	struct type type = type_of(dtype);

	return type.elements * lanes_bytes(type.lanes);
}

bool type_is_float(uint32_t dtype);  /* complex numbers are none */
bool type_is_signed(uint32_t dtype); /* a whole number that may be below 0 */

/* Can lanes add it up; else: can it be gathered and worked out (fold.h)? */
bool type_lanes_can(uint32_t dtype, int op);
bool type_fold_can(uint32_t dtype, int op);

/* What an element is to the operation: 2 where the vector is pairs of a value and its index, else 1. */
uint32_t type_pair(int op);

#endif
