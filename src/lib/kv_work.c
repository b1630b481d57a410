/* SPDX-License-Identifier: Apache-2.0 */
/* kv_work.c - operations of a table of keys: see kv.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "lib/kv.h"

/* ---- their life ---- */

static uint32_t server_of(const struct tally_kv *kv, uint64_t key)
{
	return kv->servers == 1
		       ? 0
		       : (uint32_t)(hash_number(HASH_BEGIN, key, sizeof(key)) % kv->servers);
}

/* Keys of a server stay ascending. */
static void deal(struct tally_kv *kv, struct kv_work *work)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < work->count; i++)
		work->part[server_of(kv, work->key[i])].count++;
	for (uint32_t s = 0; s < kv->servers; s++) {
		work->part[s].first = at;
		at += work->part[s].count;
		work->part[s].next = work->part[s].first;
	}
	for (uint32_t i = 0; i < work->count; i++)
		work->order[work->part[server_of(kv, work->key[i])].next++] = i;
	for (uint32_t s = 0; s < kv->servers; s++) {
		work->part[s].next = 0;
		work->part[s].is_fed = !work->part[s].count;
	}
}

struct kv_work *kv_work_make(struct tally_kv *kv, enum kv_work_kind kind, const uint64_t *key,
			     const float *value, float *out, uint32_t count)
{
	struct kv_work *work = calloc(1, sizeof(*work) + kv->servers * sizeof(work->part[0]));
	size_t values = (size_t)count * kv->dim;

	if (!work)
		return NULL;
	work->kind = kind;
	work->count = count;
	work->out = out;
	if (!count)
		return work;
	work->key = malloc(count * sizeof(*key));
	work->order = malloc(count * sizeof(*work->order));
	work->value = value ? malloc(values * sizeof(*value)) : NULL;
	if (!work->key || !work->order || (value && !work->value)) {
		kv_work_free(work);
		return NULL;
	}
	memcpy(work->key, key, count * sizeof(*key));
	if (value)
		memcpy(work->value, value, values * sizeof(*value));
	deal(kv, work);
	return work;
}

void kv_work_free(struct kv_work *work)
{
	if (!work)
		return;
	free(work->key);
	free(work->order);
	free(work->value);
	free(work);
}

size_t kv_work_bytes(const struct tally_kv *kv, const struct kv_work *work)
{
	return work->value ? (size_t)work->count * (sizeof(uint64_t) + kv->dim * sizeof(float)) : 0;
}

struct kv_work *kv_work_find(const struct tally_kv *kv, uint64_t timestamp)
{
	struct kv_work *work = kv->works;

	while (work && work->timestamp != timestamp)
		work = work->next;
	return work;
}

/* ---- pushes ---- */

/* False: no room, this key has to come again. */
static bool key_feed(struct kv_server *server, struct kv_part *part, uint64_t key,
		     const float *value)
{
	uint16_t dim = server->kv->dim;
	uint32_t rank;

	if (server->ranks && sparse_map_has(&server->map, key, &rank)) {
		if (!kv_hot_add(server, rank, value, &part->seq))
			return false;
		server->kv->stats.pairs++;
		server->kv->stats.pairs_hot++;
		return true;
	}
	if (server->cold_count == kv_keys_max(dim)) {
		if (!kv_server_has_room(server))
			return false;
		kv_server_batch(server);
		part->batch = server->batch_next - 1;
	}
	server->cold_key[server->cold_count] = key;
	memcpy(server->cold_value + server->cold_count * dim, value, dim * sizeof(*value));
	server->cold_count++;
	server->kv->stats.pairs++;
	return true;
}

/* All of a work at one server, as far as there is room. */
static void part_feed(struct kv_server *server, const struct kv_work *work, struct kv_part *part)
{
	for (; part->next < part->count; part->next++) {
		uint32_t i = work->order[part->first + part->next];

		if (!key_feed(server, part, work->key[i],
			      work->value + (size_t)i * server->kv->dim))
			return;
	}
	if (server->hot_count && !kv_hot_push(server, &part->seq))
		return;
	if (server->cold_count) {
		if (!kv_server_has_room(server))
			return;
		kv_server_batch(server);
		part->batch = server->batch_next - 1;
	}
	part->is_fed = true;
}

static bool work_is_fed(const struct tally_kv *kv, const struct kv_work *work)
{
	for (uint32_t s = 0; s < kv->servers; s++)
		if (!work->part[s].is_fed)
			return false;
	return true;
}

static bool push_is_in(const struct tally_kv *kv, const struct kv_work *work)
{
	for (uint32_t s = 0; s < kv->servers; s++) {
		const struct kv_part *part = &work->part[s];

		if (!part->is_fed || kv->server[s].batch_done < part->batch ||
		    !kv_hot_is_committed(&kv->server[s], part->seq))
			return false;
	}
	return true;
}

/* ---- pulls, barriers ---- */

/* What the copy has is there at once; the others stay, in their order, before it. How many they are. */
static uint32_t copied_take(struct kv_server *server, struct kv_work *work,
			    const struct kv_part *part)
{
	uint32_t *order = work->order + part->first, left = 0;
	uint16_t dim = server->kv->dim;

	for (uint32_t i = 0; i < part->count; i++) {
		uint32_t at = order[i];

		if (server->kv->has_copies &&
		    kv_hot_copied(server, work->key[at], work->out + (size_t)at * dim))
			continue;
		order[i] = order[left];
		order[left++] = at;
	}
	return left;
}

static void pulls_begin(struct tally_kv *kv, struct kv_work *work)
{
	uint32_t most = kv_keys_max(kv->dim);

	work->is_pulling = true;
	for (uint32_t s = 0; s < kv->servers && !kv->error; s++) {
		const struct kv_part *part = &work->part[s];
		uint32_t count = copied_take(&kv->server[s], work, part);

		for (uint32_t at = 0; at < count && !kv->error; at += most) {
			uint32_t left = count - at;

			work->pulls_left++;
			kv_server_pull(&kv->server[s], work, part->first + at,
				       left < most ? left : most);
		}
	}
}

/* All before it are complete. */
static void barrier_begin(struct tally_kv *kv, struct kv_work *work)
{
	work->is_pulling = true;
	work->barriers_left = kv->servers;
	for (uint32_t s = 0; s < kv->servers && !kv->error; s++)
		kv_server_barrier(&kv->server[s], work);
}

/* ---- all of them ---- */

void kv_works_feed(struct tally_kv *kv)
{
	bool is_blocked[KV_SERVERS_MAX] = { false }, is_oldest = true;

	for (struct kv_work *work = kv->works; work && !kv->error; work = work->next) {
		if (work->result)
			continue;
		if (work->kind == KV_WORK_BARRIER) {
			if (is_oldest && !work->is_pulling)
				barrier_begin(kv, work);
			is_oldest = false;
			continue;
		}
		is_oldest = false;
		if (!work->value) {
			if (!work->is_pulling && work->kind == KV_WORK_PULL)
				pulls_begin(kv, work);
			continue;
		}
		if (work_is_fed(kv, work))
			continue;
		for (uint32_t s = 0; s < kv->servers; s++) {
			struct kv_part *part = &work->part[s];

			if (!part->is_fed && !is_blocked[s] && kv_server_is_ready(&kv->server[s]))
				part_feed(&kv->server[s], work, part);
			is_blocked[s] |= !part->is_fed; /* those after it wait for their turn */
		}
		if (work_is_fed(kv, work)) {
			kv->queue_bytes -= kv_work_bytes(kv, work);
			pthread_cond_broadcast(&kv->changed);
		}
	}
}

static bool is_complete(struct tally_kv *kv, struct kv_work *work)
{
	if (work->kind == KV_WORK_BARRIER)
		return work->is_pulling && !work->barriers_left;
	if (work->kind == KV_WORK_PUSH && !work->count)
		return true;
	if (work->value && !work->is_pulling) {
		if (!push_is_in(kv, work))
			return false;
		if (!work->out)
			return true;
		pulls_begin(kv, work);
	}
	return work->is_pulling && !work->pulls_left;
}

/* One that has failed stays until somebody asks for it. */
bool kv_works_settle(struct tally_kv *kv)
{
	struct kv_work **at = &kv->works;
	bool is_changed = false;

	while (*at && !kv->error) {
		struct kv_work *work = *at;

		if (work->result || !is_complete(kv, work)) {
			at = &work->next;
			continue;
		}
		*at = work->next;
		is_changed = true;
		kv_work_free(work);
	}
	while (*at)
		at = &(*at)->next;
	kv->works_end = at;
	if (is_changed)
		pthread_cond_broadcast(&kv->changed);
	return is_changed;
}

void kv_work_drop(struct tally_kv *kv, struct kv_work *work)
{
	struct kv_work **at = &kv->works;

	while (*at != work)
		at = &(*at)->next;
	*at = work->next;
	if (!*at)
		kv->works_end = at;
	for (uint32_t s = 0; s < kv->servers; s++)
		kv_server_forget(&kv->server[s], work);
	kv_work_free(work);
}

void kv_works_end(struct tally_kv *kv)
{
	while (kv->works) {
		struct kv_work *work = kv->works;

		kv->works = work->next;
		kv_work_free(work);
	}
	kv->works_end = &kv->works;
	kv->queue_bytes = 0;
	pthread_cond_broadcast(&kv->changed);
}
