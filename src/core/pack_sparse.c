/* SPDX-License-Identifier: Apache-2.0 */
/* pack_sparse.c - see pack_sparse.h. */
#include "core/pack_sparse.h"

bool sparse_map_has(const struct sparse_map *map, uint64_t key, uint32_t *rank)
{
	uint32_t first = 0, end = map->count;

	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (map->key[middle] == key) {
			*rank = map->rank[middle];
			return true;
		}
		if (map->key[middle] < key)
			first = middle + 1;
		else
			end = middle;
	}
	return false;
}

static void pair_move(const struct sparse_pairs *from, uint32_t i, struct sparse_pairs *to,
		      uint32_t dim)
{
	to->key[to->count] = from->key[i];
	for (uint32_t k = 0; k < dim; k++)
		to->value[to->count * dim + k] = from->value[i * dim + k];
	to->count++;
}

uint32_t sparse_split(const struct sparse_map *map, uint32_t dim, struct sparse_pairs *pairs,
		      struct sparse_pairs *cold)
{
	uint32_t count = pairs->count, rank;

	pairs->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		bool is_hot = sparse_map_has(map, pairs->key[i], &rank);

		if (!is_hot)
			pair_move(pairs, i, cold, dim);
		if (is_hot || TAKEN_OUT(SPARSE_GONE_COLD))
			pair_move(pairs, i, pairs, dim);
	}
	return count - pairs->count;
}

uint32_t sparse_pack(const struct sparse_map *map, uint32_t dim, const struct sparse_pairs *pairs,
		     uint8_t *at)
{
	for (uint32_t i = 0; i < pairs->count; i++) {
		uint32_t rank = 0;
		bool is_hot = sparse_map_has(map, pairs->key[i], &rank);

		CORE_ASSERT(is_hot);
		sparse_body_put32(at, rank);
		at += SPARSE_RANK_BYTES;
		for (uint32_t k = 0; k < dim; k++, at += SPARSE_VALUE_BYTES)
			sparse_body_put32(at, (uint32_t)pairs->value[i * dim + k]);
	}
	return pairs->count * sparse_pair_bytes(dim);
}
