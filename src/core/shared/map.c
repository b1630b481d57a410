/* SPDX-License-Identifier: Apache-2.0 */
#include "core/shared/map.h"

#include "core/shared/hash.h"
#include "core/shared/splitmix.h"

bool map_init(struct map *map, uint32_t shards, uint32_t slots, uint32_t run)
{
	if (shards < 1 || shards > MAP_SHARDS_MAX)
		return false;
	if (run < 1 || run > MAP_RUN_MAX)
		return false;
	if (slots < MAP_EXPRESS_SLOTS_MIN + run || slots > MAP_SLOTS_MAX)
		return false;

	uint32_t express = slots / 8;
	if (express < MAP_EXPRESS_SLOTS_MIN)
		express = MAP_EXPRESS_SLOTS_MIN;
	if (express > slots - run)
		express = slots - run; /* of 44 slots a run of 40 leaves 4, not 5 */
	uint32_t bulk = slots - express;
	bulk -= bulk % run;

	*map = (struct map){
		.shards = shards,
		.base = { [MAP_EXPRESS] = 0, [MAP_BULK] = express },
		.pool = { [MAP_EXPRESS] = express, [MAP_BULK] = bulk },
		.run = { [MAP_EXPRESS] = 1, [MAP_BULK] = run },
	};
	return true;
}

void map_place(const struct map *map, enum map_stream stream, uint64_t chunk,
	       struct map_place *place)
{
	uint32_t run = map->run[stream];
	uint64_t group = chunk / run;
	uint64_t k = group / map->shards * run + chunk % run;

	place->shard = (uint32_t)(group % map->shards);
	place->slot = map->base[stream] + (uint32_t)(k % map->pool[stream]);
	place->k = k;
}

uint64_t map_chunk(const struct map *map, enum map_stream stream, uint32_t shard, uint64_t k)
{
	CORE_ASSERT(shard < map->shards);
	uint32_t run = map->run[stream];
	uint64_t group = k / run * map->shards + shard;

	return group * run + k % run;
}

uint32_t map_full(struct map_shape shape, uint32_t lanes)
{
	return lanes / shape.lanes * shape.elements;
}

uint32_t map_lanes(struct map_shape shape, uint32_t elements)
{
	return (elements + shape.elements - 1) / shape.elements * shape.lanes;
}

uint64_t map_chunks(uint64_t count, uint32_t full)
{
	return count ? (count - 1) / full + 1 : 1;
}

uint32_t map_chunk_elements(uint64_t count, uint32_t full, uint64_t index)
{
	CORE_ASSERT(index < map_chunks(count, full));
	uint64_t left = count - index * full;

	return left < full ? (uint32_t)left : full;
}

uint64_t map_turn(uint64_t index, uint64_t chunks, uint32_t parts, uint32_t run)
{
	CORE_ASSERT(parts && run);
	uint64_t runs = chunks / run, group = index / run;
	uint64_t part = group % parts, more = runs % parts;

	/* What is left of a run comes last. */
	if (group >= runs)
		return index;
	return (part * (runs / parts) + (part < more ? part : more) + group / parts) * run +
	       index % run;
}

uint64_t map_descriptor_hash(const struct map_descriptor *descriptor)
{
	uint64_t hash = HASH_BEGIN;

	hash = hash_number(hash, descriptor->number, 8);
	hash = hash_number(hash, descriptor->kind, 4);
	hash = hash_number(hash, descriptor->type, 4);
	hash = hash_number(hash, descriptor->op, 4);
	hash = hash_number(hash, descriptor->count, 8);
	hash = hash_number(hash, descriptor->root, 4);
	return hash_text(hash, descriptor->name);
}

uint32_t map_tag(uint64_t hash, uint64_t index)
{
	return (uint32_t)(splitmix64(hash + index) >> 32);
}
