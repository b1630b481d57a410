/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zipf.h - a stream of keys as skewed as one likes: the key of rank r (from 1) comes with a probability that is
 * proportional to 1 / r^exponent, each draw by itself. Walker's alias method, tables as Vose fills them: a
 * draw costs one random number and one look into a table of 8 bytes per key.
 *
 * Keys are 0 .. keys - 1, and lie among the ranks as if shuffled: which key has which rank depends on `keys`
 * alone, so that streams of several seeds, of several workers say, have the same hot keys.
 */
#ifndef HOT_ZIPF_H
#define HOT_ZIPF_H

#include <stddef.h>
#include <stdint.h>

#include "util/rng.h"

enum { ZIPF_KEYS_MAX = 1 << 26 }; /* 512 MiB */
#define ZIPF_EXPONENT_MAX 8.0     /* nearly all is one key */

struct zipf_cell {
	uint32_t keeps; /* of 2^32 draws that come here, so many stay */
	uint32_t other; /* where the rest goes */
};

struct zipf {
	struct rng rng;
	uint32_t keys;
	struct zipf_cell *cell; /* [keys] */
};

/* 0 <= exponent <= ZIPF_EXPONENT_MAX; 1 <= keys <= ZIPF_KEYS_MAX. -1: no memory. */
int zipf_init(struct zipf *zipf, double exponent, uint32_t keys, uint64_t seed);
void zipf_fini(struct zipf *zipf);

/* The key of a rank, which is from 0 here. */
uint32_t zipf_key(uint32_t keys, uint32_t rank);

/* The next `count` keys of the stream. */
void zipf_next(struct zipf *zipf, uint64_t *key, size_t count);

#endif
