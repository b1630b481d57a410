/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - which types and operations of tally.h go together, and what travels for a type. */
#ifndef LIB_TYPES_H
#define LIB_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/job/control.h"
#include "core/shared/lanes.h"

/* What travels for one element: `elements` of this type. Numbers of tally.h, which type_check has seen. */
struct type {
	enum lanes_type lanes;
	uint8_t elements; /* 2: a complex number; else 1 */
};
struct type type_of(uint32_t dtype);
/* Of an operation's descriptor, whose type has the form above it. */
struct type type_of_op(const struct control_op *op);
/* Bytes of an element, as the caller counts. */
uint32_t type_bytes(uint32_t dtype);
bool type_is_float(uint32_t dtype);  /* complex numbers are none */
bool type_is_signed(uint32_t dtype); /* a whole number that may be below 0 */

/* Can lanes add it up; else: can it be gathered and worked out (fold.h)? */
bool type_lanes_can(uint32_t dtype, int op);
bool type_fold_can(uint32_t dtype, int op);

/* What an element is to the operation: 2 where the vector is pairs of a value and its index, else 1. */
uint32_t type_pair(int op);

#endif
