/* SPDX-License-Identifier: Apache-2.0 */
/* pack_sparse.c - see pack_sparse.h. */
#include "core/sparse/pack_sparse.h"

/* At least half of the places are free. */
static uint32_t bits_of(uint32_t count)
{
	uint32_t bits = 1;

	while (1ull << bits < 2ull * count)
		bits++;
	return bits;
}

size_t sparse_map_places(uint32_t count)
{
	return (size_t)1 << bits_of(count);
}

static uint64_t hash_of(uint64_t key)
{
	return (key ^ key >> 32) *
	       0x9e3779b97f4a7c15ull; /* its upper bits are of all bits of the key */
}

static size_t place_of(const struct sparse_map *map, uint64_t hash)
{
	return (size_t)(hash >> (64 - map->bits));
}

/* What a place has of the hash, so that other keys are known to be others without a look at them. */
static uint32_t mark_of(const struct sparse_map *map, uint64_t hash)
{
	return (uint32_t)(hash >> 16) & ~map->ranks;
}

/* The place of the key, or the free one where it would be. */
static size_t place_find(const struct sparse_map *map, uint64_t key)
{
	uint64_t hash = hash_of(key);
	size_t place = place_of(map, hash), mask = ((size_t)1 << map->bits) - 1;
	uint32_t mark = mark_of(map, hash), found;

	while ((found = map->place[place]) != 0) {
		if ((found & ~map->ranks) == mark && map->key[(found & map->ranks) - 1] == key)
			break;
		place = (place + 1) & mask;
	}
	return place;
}

bool sparse_map_init(struct sparse_map *map, const uint64_t *key, uint32_t count, uint32_t *place)
{
	uint32_t bits = bits_of(count);

	*map = (struct sparse_map){ .key = key,
				    .count = count,
				    .bits = bits,
				    .ranks = (uint32_t)((1ull << bits) - 1),
				    .place = place };
	for (size_t i = 0; i < sparse_map_places(count); i++)
		place[i] = 0;
	for (uint32_t rank = 0; rank < count; rank++) {
		size_t at = place_find(map, key[rank]);

		if (place[at])
			return false;
		place[at] = mark_of(map, hash_of(key[rank])) | (rank + 1);
	}
	return true;
}

void sparse_map_fetch(const struct sparse_map *map, uint64_t key)
{
	if (map->count)
		__builtin_prefetch(&map->place[place_of(map, hash_of(key))]);
}

bool sparse_map_has(const struct sparse_map *map, uint64_t key, uint32_t *rank)
{
	uint32_t found = map->count ? map->place[place_find(map, key)] & map->ranks : 0;

	if (found)
		*rank = found - 1;
	return found;
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
		if (sparse_map_has(map, pairs->key[i], &rank))
			pair_move(pairs, i, pairs, dim);
		else
			pair_move(pairs, i, cold, dim);
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
