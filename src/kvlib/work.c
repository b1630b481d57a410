/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - operations of a table of keys: see kv.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/hash.h"
#include "kvlib/kv.h"

enum { FETCH_AHEAD = 12 }; /* keys: as long as memory takes */

/* ---- their life ---- */

static uint32_t server_of(const struct tally_kv *kv, uint64_t key)
{
	return kv->servers == 1
		       ? 0
		       : (uint32_t)(hash_number(HASH_BEGIN, key, sizeof(key)) % kv->servers);
}

/* Keys of a server stay ascending. Without the lock, but maps stay as they are meanwhile. */
static void deal(struct tally_kv *kv, struct kv_work *work)
{
	uint32_t at = 0;

	pthread_rwlock_rdlock(&kv->maps);
	for (uint32_t i = 0; i < work->count; i++) {
		struct kv_server *server = &kv->server[server_of(kv, work->key[i])];

		if (i + FETCH_AHEAD < work->count) {
			uint64_t later = work->key[i + FETCH_AHEAD];

			sparse_map_fetch(&kv->server[server_of(kv, later)].map.map, later);
		}
		if (!sparse_map_has(&server->map.map, work->key[i], &work->rank[i]))
			work->rank[i] = KV_COLD;
		work->part[server->idx].count++;
	}
	for (uint32_t s = 0; s < kv->servers; s++) {
		work->part[s].map = kv->server[s].map.version;
		work->part[s].first = work->part[s].next = at;
		at += work->part[s].count;
	}
	pthread_rwlock_unlock(&kv->maps);
	for (uint32_t i = 0; i < work->count; i++)
		work->order[work->part[server_of(kv, work->key[i])].next++] = i;
	for (uint32_t s = 0; s < kv->servers; s++) {
		work->part[s].next = 0;
		work->part[s].is_fed = !work->part[s].count;
		work->dues_left += !work->part[s].is_fed;
	}
}

void kv_work_rank(const struct kv_server *server, struct kv_work *work)
{
	struct kv_part *part = &work->part[server->idx];

	if (part->map == server->map.version)
		return;
	part->map = server->map.version;
	for (uint32_t i = 0; i < part->count; i++) {
		uint32_t at = work->order[part->first + i];

		if (!sparse_map_has(&server->map.map, work->key[at], &work->rank[at]))
			work->rank[at] = KV_COLD;
	}
}

/* All in one piece, keys first: they want the most alignment. */
struct kv_work *kv_work_make(struct tally_kv *kv, const uint64_t *key, const float *value,
			     float *out, uint32_t count)
{
	size_t fixed = sizeof(struct kv_work) + kv->servers * sizeof(struct kv_part);
	size_t values = value ? (size_t)count * kv->dim : 0;
	struct kv_work *work = malloc(fixed + count * (sizeof(*key) + 2 * sizeof(uint32_t)) +
				      values * sizeof(*value));

	if (!work)
		return NULL;
	memset(work, 0, fixed);
	work->count = count;
	work->out = out;
	if (!count)
		return work;
	work->key = (uint64_t *)(void *)((uint8_t *)work + fixed);
	work->rank = (uint32_t *)(work->key + count);
	work->order = work->rank + count;
	memcpy(work->key, key, count * sizeof(*key));
	if (value) {
		work->value = (float *)(work->order + count);
		memcpy(work->value, value, values * sizeof(*value));
	}
	deal(kv, work);
	return work;
}

size_t kv_work_bytes(const struct tally_kv *kv, const struct kv_work *work)
{
	return work->value ? (size_t)work->count * (sizeof(uint64_t) + kv->dim * sizeof(float)) : 0;
}

/* ---- those that are outstanding ---- */

static struct kv_work **bucket_of(struct tally_kv *kv, uint64_t timestamp)
{
	return &kv->bucket[timestamp % KV_BUCKETS];
}

struct kv_work *kv_work_find(const struct tally_kv *kv, uint64_t timestamp)
{
	struct kv_work *work = kv->bucket[timestamp % KV_BUCKETS];

	while (work && work->timestamp != timestamp)
		work = work->same;
	return work;
}

void kv_work_add(struct tally_kv *kv, struct kv_work *work, uint64_t now_ns)
{
	struct kv_work **bucket;

	kv->queue_bytes += kv_work_bytes(kv, work);
	work->begin_ns = now_ns;
	work->timestamp = kv->timestamp_next++;
	bucket = bucket_of(kv, work->timestamp);
	work->same = *bucket;
	*bucket = work;
	work->prev = kv->works_last;
	if (work->prev)
		work->prev->next = work;
	else
		kv->works = work;
	kv->works_last = work;
	if (!kv->unfed)
		kv->unfed = work;
}

static void work_remove(struct tally_kv *kv, struct kv_work *work)
{
	struct kv_work **same = bucket_of(kv, work->timestamp);

	while (*same != work)
		same = &(*same)->same;
	*same = work->same;
	if (work->prev)
		work->prev->next = work->next;
	else
		kv->works = work->next;
	if (work->next)
		work->next->prev = work->prev;
	else
		kv->works_last = work->prev;
	if (kv->unfed == work)
		kv->unfed = work->next;
	free(work);
}

void kv_work_complete(struct tally_kv *kv, struct kv_work *work)
{
	kv->is_news |= work->is_waited || kv->waits_all;
	work_remove(kv, work);
}

void kv_work_drop(struct tally_kv *kv, struct kv_work *work)
{
	for (uint32_t s = 0; s < kv->servers; s++)
		kv_server_forget(&kv->server[s], work);
	work_remove(kv, work);
}

void kv_works_end(struct tally_kv *kv)
{
	while (kv->works)
		work_remove(kv, kv->works);
	for (uint32_t s = 0; s < kv->servers; s++)
		kv->server[s].hot_dues.first = kv->server[s].cold_dues.first = NULL;
	kv->is_news = true;
}
