/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lent.h - memory that is lent to operations on their way, so that the next call can be told whether it
 * would touch any of it: a tree of intervals, balanced by chance. The caller owns the nodes.
 */
#ifndef LIB_LENT_H
#define LIB_LENT_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes [first, end). */
struct lent {
	uintptr_t first, end; /* the caller's; end == first: not in any tree */
	const void *owner;    /* the caller's */
	uintptr_t end_max;    /* of this node and all below it */
	struct lent *left, *right;
};

/* first < end. Intervals may overlap, and be equal. */
void lent_insert(struct lent **root, struct lent *node);
void lent_remove(struct lent **root, struct lent *node); /* which is in it */
/* One that has a byte in common with [first, end); NULL. */
const struct lent *lent_find(const struct lent *root, uintptr_t first, uintptr_t end);

#endif
