/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - the rows of a table: keys and their floats, in bounded memory. Rows never move, and go all at
 * once; a row is found by open addressing. Not thread-safe.
 */
#ifndef PS_STORE_H
#define PS_STORE_H

#include <stdint.h>

#include "ps/optimiser.h"

struct store;

struct store_options {
	uint32_t dim;   /* values of a row, */
	uint32_t state; /* and floats of its optimiser behind them */
	struct initial initial;
	uint64_t bytes_max; /* of all that it takes; 0: 1 GiB */
};

int store_open(struct store **store, const struct store_options *options); /* 0, -ENOMEM */
void store_close(struct store *store);                                     /* NULL is fine */

/* Makes room for so many rows more than there are. 0; -ENOSPC: bytes_max does not allow it; -ENOMEM. What there is
 * stays as it is. */
int store_reserve(struct store *store, uint64_t rows);
/* The floats of the key: dim values, then state. What is not there is made, with its initial values and a state of
 * zeros; store_reserve has made the room. Valid until store_close. */
float *store_get(struct store *store, uint64_t key);
const float *store_find(const struct store *store, uint64_t key); /* NULL: not there */
/* Its values, or those it would begin with. */
void store_read(const struct store *store, uint64_t key, float *value);

/* There are none; the room for them stays. */
void store_clear(struct store *store);

uint64_t store_rows(const struct store *store);
uint64_t store_bytes(const struct store *store);
/* What store_bytes would be with so many rows. */
uint64_t store_bytes_for(const struct store *store, uint64_t rows);
/* Row i of store_rows, in the order in which they were made. */
const float *store_row(const struct store *store, uint64_t i, uint64_t *key);

#endif
