/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intern.h - gives equal strings of bytes equal numbers, 0, 1, 2, ... in the order in which they are met. A
 * model whose state has parts that take few values keeps the parts here, once each, and their numbers in
 * its states; what a part does at an event is then worked out once as well.
 */
#ifndef SEARCH_INTERN_H
#define SEARCH_INTERN_H

#include <stddef.h>
#include <stdint.h>

struct intern {
	uint8_t *bytes;
	uint64_t bytes_count, bytes_room;
	uint64_t *at; /* where number i begins */
	uint32_t count, room;
	uint64_t *table; /* half of the hash, and number + 1; 0: free */
	uint32_t table_size;
};

/* The number of these bytes: `intern->count` before the call if they are new. Ends the program when there
 * is no memory. All zeros is an empty one. */
uint32_t intern_put(struct intern *intern, const void *bytes, size_t count);

/* The bytes of a number, aligned to 8, until the next intern_put. */
const void *intern_get(const struct intern *intern, uint32_t number, size_t *count);

void intern_forget(struct intern *intern);

#endif
