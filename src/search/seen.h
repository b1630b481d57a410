/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seen.h - a set of strings of bytes that only grows, each kept as two hashes of 64 bits. Two different strings
 * count as one with odds of n^2 / 2^129 for n of them: 10^-23 for a hundred million.
 */
#ifndef SEARCH_SEEN_H
#define SEARCH_SEEN_H

#include <stddef.h>
#include <stdint.h>

struct seen {
	uint64_t (*table)[2]; /* {0, 0}: free */
	uint32_t *numbers;    /* whose hash it is */
	uint64_t room, count; /* room: a power of two */
};

/* The number of these bytes: `seen->count` before the call if they are new. Ends the program when there is no
 * memory. All zeros is an empty one. */
uint32_t seen_put(struct seen *seen, const void *bytes, size_t count);

void seen_forget(struct seen *seen);

#endif
