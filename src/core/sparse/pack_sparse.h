/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack_sparse.h - which pairs of a push are hot, under a map and under the next one. Pure; memory is the caller's.
 * docs/protocol.md, R-SP-32.
 *
 * Whoever pushes keeps the pairs of each push by key until it is freed. sparse_split takes the cold ones out of
 * them: once when the push is made, and again when RESUME brings another map. What was taken out goes into
 * batches and never comes back, so no pair is ever in both.
 */
#ifndef CORE_PACK_SPARSE_H
#define CORE_PACK_SPARSE_H

#include "core/sparse/wire_sparse.h"

/* A key's rank is its place in `key`; found by its hash. */
struct sparse_map {
	const uint64_t *key;
	uint32_t count;
	uint32_t bits;         /* of a hash */
	uint32_t ranks;        /* the low bits of a place that are a rank + 1; */
	const uint32_t *place; /* the others are of the key's hash; by hash, 0: none */
};

/* Pairs by key: key[i] has the values value[i * dim] to value[i * dim + dim - 1]. */
struct sparse_pairs {
	uint64_t *key;
	int32_t *value;
	uint32_t count;
};

/* How many places a map of so many keys wants. */
size_t sparse_map_places(uint32_t count);
/* Both arrays stay the caller's, and lent; place is written here. False: a key comes twice. */
bool sparse_map_init(struct sparse_map *map, const uint64_t *key, uint32_t count, uint32_t *place);
/* Soon this key will be asked for: who asks for many says so a dozen keys before, and waits less for memory. */
void sparse_map_fetch(const struct sparse_map *map, uint64_t key);
/* Has the map this key? Then *rank is its rank. Zeros are a map that has none. */
bool sparse_map_has(const struct sparse_map *map, uint64_t key, uint32_t *rank);

/* What is hot stays in *pairs, in its order; what is not is appended to *cold, which has room for it. How many that
 * were. */
uint32_t sparse_split(const struct sparse_map *map, uint32_t dim, struct sparse_pairs *pairs,
		      struct sparse_pairs *cold);

/* Writes the items of a PUSH: all pairs are hot, as after sparse_split with this map. How many bytes. */
uint32_t sparse_pack(const struct sparse_map *map, uint32_t dim, const struct sparse_pairs *pairs,
		     uint8_t *at);

#endif
