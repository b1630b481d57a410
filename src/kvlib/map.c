/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - which keys of a server are hot, and what comes of pushes when they are others: see kv.h. docs/protocol.md, R-SP-32,
 * R-KV-8. */
#include <stdlib.h>
#include <string.h>

#include "kvlib/kv.h"

enum {
	PAIRS_MAX = SPARSE_BODY_MAX / (SPARSE_RANK_BYTES + SPARSE_VALUE_BYTES),
	VALUES_MAX = SPARSE_BODY_MAX / SPARSE_VALUE_BYTES,
};

/* ---- what comes ---- */

static void map_free(struct kv_map *map)
{
	free(map->key);
	free(map->place);
	*map = (struct kv_map){ 0 };
}

void kv_map_fini(struct kv_server *server)
{
	map_free(&server->map);
	map_free(&server->next);
}

bool kv_map_begin(struct kv_server *server, const struct kv_message *message)
{
	struct kv_map *map = &server->next;

	if (server->endpoint) /* the one before it does not come into force any more */
		endpoint_sparse_map(server->endpoint, 0, 0);
	map_free(map);
	map->version = message->map;
	map->ranks = message->ranks;
	map->key = malloc((size_t)map->ranks * sizeof(*map->key));
	map->place = malloc(sparse_map_places(map->ranks) * sizeof(*map->place));
	if (map->key && map->place)
		return true;
	map_free(map);
	kv_break(server->kv, TALLY_ERR_NO_MEMORY, "out of memory for a map of %u keys",
		 message->ranks);
	return false;
}

/* All of its keys are there. */
static bool map_end(struct kv_server *server, struct kv_map *map)
{
	if (!sparse_map_init(&map->map, map->key, map->ranks, map->place))
		return false;
	if (!server->endpoint) {
		kv_map_adopt(server);
	} else if (endpoint_sparse_map(server->endpoint, map->version, map->ranks)) {
		kv_break(server->kv, TALLY_ERR_NO_MEMORY, "out of memory for copies of %u rows",
			 map->ranks);
		return false;
	}
	return true;
}

bool kv_map_take(struct kv_server *server, const struct kv_message *message)
{
	struct kv_map *map = &server->next;

	memcpy(map->key + message->first, message->key, message->count * sizeof(*message->key));
	return message->first + message->count < map->ranks || map_end(server, map);
}

/* ---- from one to the next ---- */

struct packed {
	uint64_t hot_key[PAIRS_MAX], cold_key[PAIRS_MAX], key[PAIRS_MAX];
	int32_t hot[VALUES_MAX], cold[VALUES_MAX];
	float value[VALUES_MAX];
	uint32_t order[PAIRS_MAX];
};

static int by_key(const void *a, const void *b, void *arg)
{
	const uint64_t *key = arg, one = key[*(const uint32_t *)a],
		       other = key[*(const uint32_t *)b];

	return one < other ? -1 : one > other;
}

/* What a lane of a PUSH stands for. */
static float value_of(const struct kv_server *server, int32_t lane)
{
	float value;

	if (server->core->shape.values != SPARSE_LNS)
		return (float)((double)lane / (double)server->core->scale);
	memcpy(&value, &lane, sizeof(value));
	return value;
}

/* Ascending, as a batch has them: pairs that were packed for a chip are in another order. The batch's number. */
static uint64_t cold_send(struct kv_server *server, struct packed *packed, uint32_t count)
{
	uint32_t dim = server->core->shape.dim;

	for (uint32_t i = 0; i < count; i++)
		packed->order[i] = i;
	qsort_r(packed->order, count, sizeof(*packed->order), by_key, packed->cold_key);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = packed->order[i];

		packed->key[i] = packed->cold_key[at];
		for (uint32_t k = 0; k < dim; k++)
			packed->value[i * dim + k] = value_of(server, packed->cold[at * dim + k]);
	}
	return kv_server_batch_of(server, packed->key, packed->value, count);
}

/* Pairs of a push by server->map become those by server->next; what is not hot by that is a batch now. How many stay. */
static uint16_t pack_again(struct kv_server *server, uint8_t *at, uint16_t count, uint64_t *moved)
{
	uint32_t dim = server->core->shape.dim;
	struct packed packed;
	struct sparse_pairs hot = { packed.hot_key, packed.hot, count },
			    cold = { packed.cold_key, packed.cold, 0 };
	const uint8_t *item = at;

	for (uint32_t i = 0; i < count; i++) {
		hot.key[i] = server->map.key[sparse_body_get32(item)];
		item += SPARSE_RANK_BYTES;
		for (uint32_t k = 0; k < dim; k++, item += SPARSE_VALUE_BYTES)
			hot.value[i * dim + k] = (int32_t)sparse_body_get32(item);
	}
	sparse_split(&server->next.map, dim, &hot, &cold);
	sparse_pack(&server->next.map, dim, &hot, at);
	if (cold.count)
		*moved = cold_send(server, &packed, cold.count);
	server->kv->stats.pairs_hot -= cold.count;
	return (uint16_t)hot.count;
}

/* What is being filled may be the pairs of many packets. */
static void filled_again(struct kv_server *server, uint64_t *moved)
{
	uint32_t bytes = sparse_pair_bytes(server->core->shape.dim), most = SPARSE_BODY_MAX / bytes;
	uint32_t count, left = 0;

	kv_pack_undo(server);
	for (uint32_t at = 0; at < server->hot_count; at += count) {
		uint8_t *pairs = server->hot + (size_t)at * bytes;
		uint32_t stay;

		count = server->hot_count - at < most ? server->hot_count - at : most;
		stay = pack_again(server, pairs, (uint16_t)count, moved);
		memmove(server->hot + (size_t)left * bytes, pairs, (size_t)stay * bytes);
		left += stay;
	}
	server->hot_count = (uint16_t)left;
	if (!left)
		server->hot_flags = 0;
}

/* R-SP-32. The ranks of what is kept, and of what is being filled, are those of a map that is not any more. */
static void all_again(struct kv_server *server)
{
	const struct worker_sparse *worker = endpoint_sparse_worker(server->endpoint);
	uint64_t moved = 0;

	for (uint64_t seq = worker->low; seq < worker->next; seq++) {
		uint16_t *count;
		uint8_t *pairs = endpoint_sparse_kept(server->endpoint, seq, &count);

		if (pairs)
			*count = pack_again(server, pairs, *count, &moved);
	}
	filled_again(server, &moved);
	worker_kv_remapped(server->core, server->cold_count);
	for (struct kv_work *work = server->kv->works; work && moved; work = work->next) {
		struct kv_part *part = &work->part[server->idx];

		if (work->value && part->next)
			part->hot.moved = moved;
	}
}

void kv_map_adopt(struct kv_server *server)
{
	if (server->endpoint)
		all_again(server);
	kv_carry_move(server);
	pthread_rwlock_wrlock(&server->kv->maps);
	map_free(&server->map);
	server->map = server->next;
	pthread_rwlock_unlock(&server->kv->maps);
	server->next = (struct kv_map){ 0 };
	worker_kv_adopted(server->core);
}
