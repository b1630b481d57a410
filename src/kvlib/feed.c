/* SPDX-License-Identifier: Apache-2.0 */
/* feed.c - operations of a table of keys become pushes, batches and pulls, and are complete: see kv.h. */
#include <string.h>

#include "kvlib/kv.h"

enum { FETCH_AHEAD = 12 }; /* keys: as long as memory takes */

/* ---- pulls ---- */

/* What the copy has is there at once; the others stay, in their order, before it. How many they are. The bound of R-SP-31
 * is 0 in all modes: it is in epochs, a worker's staleness in steps, and a step may have many epochs. */
static uint32_t copied_take(struct kv_server *server, struct kv_work *work,
			    const struct kv_part *part)
{
	const struct copy_sparse *copy = kv_hot_copy(server);
	uint32_t *order, left = 0;
	uint16_t dim = server->kv->dim;

	if (!copy || !part->count)
		return part->count;
	order = work->order + part->first;
	for (uint32_t i = 0; i < part->count; i++) {
		uint32_t at = order[i], rank = work->rank[at];
		const uint32_t *has = rank == KV_COLD ? NULL : copy_sparse_value(copy, rank, 0);

		if (i + FETCH_AHEAD < part->count)
			copy_sparse_fetch(copy, work->rank[order[i + FETCH_AHEAD]]);
		if (has) {
			memcpy(work->out + (size_t)at * dim, has, dim * sizeof(*has));
			continue;
		}
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
		uint32_t count;

		kv_work_rank(&kv->server[s], work);
		count = copied_take(&kv->server[s], work, part);

		for (uint32_t at = 0; at < count && !kv->error; at += most) {
			uint32_t left = count - at;

			work->pulls_left++;
			kv_server_pull(&kv->server[s], work, part->first + at,
				       left < most ? left : most);
		}
	}
	if (!work->pulls_left && !kv->error)
		kv_work_complete(kv, work);
}

/* ---- pushes ---- */

/* False: no room, this pair has to come again. */
static bool pair_feed(struct kv_server *server, struct kv_part *part, uint64_t key, uint32_t rank,
		      const float *value)
{
	uint16_t dim = server->kv->dim;

	if (rank != KV_COLD)
		return kv_hot_add(server, key, rank, value, &part->hot.number);
	if (server->cold_count == server->cold_max) {
		if (!kv_server_has_room(server))
			return false;
		part->cold.number = kv_server_batch(server);
	}
	server->cold_key[server->cold_count] = key;
	for (uint32_t k = 0; k < dim; k++)
		server->cold_value[server->cold_count * dim + k] = value[k];
	server->cold_count++;
	return true;
}

/* All of a work at one server, as far as there is room. */
static void part_feed(struct kv_server *server, struct kv_work *work, struct kv_part *part)
{
	struct tally_kv_stats *stats = &server->kv->stats;

	kv_work_rank(server, work);
	for (; part->next < part->count; part->next++) {
		uint32_t i = work->order[part->first + part->next];

		if (!pair_feed(server, part, work->key[i], work->rank[i],
			       work->value + (size_t)i * server->kv->dim))
			return;
		stats->pairs++;
		stats->pairs_hot += work->rank[i] != KV_COLD;
	}
	if (server->hot_count && !kv_hot_push(server, &part->hot.number))
		return;
	if (server->cold_count) {
		if (!kv_server_has_room(server))
			return;
		part->cold.number = kv_server_batch(server);
	}
	part->is_fed = true;
}

static void due_add(struct kv_dues *dues, struct kv_due *due, struct kv_work *work)
{
	if (!due->number && !due->moved)
		return;
	due->work = work;
	due->next = NULL;
	if (!dues->first)
		dues->end = &dues->first;
	*dues->end = due;
	dues->end = &due->next;
	work->dues_left++;
}

/* What the push of a work still waits for, or what it pulls is asked for, or all is done. */
static void push_settle(struct tally_kv *kv, struct kv_work *work)
{
	if (work->dues_left)
		return;
	kv->awaited -= work->is_awaited;
	work->is_awaited = false;
	if (work->out)
		pulls_begin(kv, work);
	else
		kv_work_complete(kv, work);
}

static void push_feed(struct tally_kv *kv, struct kv_work *work, bool is_blocked[KV_SERVERS_MAX])
{
	bool is_fed = true;

	for (uint32_t s = 0; s < kv->servers; s++) {
		struct kv_server *server = &kv->server[s];
		struct kv_part *part = &work->part[s];

		if (!part->is_fed && !is_blocked[s] && kv_hot_is_ready(server)) {
			part_feed(server, work, part);
			if (part->is_fed) {
				due_add(&server->hot_dues, &part->hot, work);
				due_add(&server->cold_dues, &part->cold, work);
				work->dues_left--;
			}
		}
		is_blocked[s] |= !part->is_fed; /* those after it wait for their turn */
		is_fed &= part->is_fed;
	}
	if (!is_fed)
		return;
	work->is_begun = true;
	kv->queue_bytes -= kv_work_bytes(kv, work);
	kv->is_news |= kv->waits_room;
	push_settle(kv, work);
}

/* ---- all of them ---- */

void kv_works_feed(struct tally_kv *kv)
{
	bool is_blocked[KV_SERVERS_MAX] = { false };
	struct kv_work *work = kv->unfed, *next;

	for (; work && !kv->error; work = next) {
		next = work->next;
		if (work->is_barrier) {
			if (!kv_step_feed(kv, work))
				break;
			continue;
		}
		if (work->is_begun)
			continue;
		if (!work->is_free) { /* what it waited for until now was other workers */
			work->is_free = true;
			work->begin_ns = kv->now_ns;
		}
		if (work->value) {
			push_feed(kv, work, is_blocked);
		} else {
			work->is_begun = true;
			pulls_begin(kv, work);
		}
	}
	while (kv->unfed && kv->unfed->is_begun &&
	       (!kv->unfed->is_barrier || worker_kv_step_is_open(kv->core, kv->unfed->number)))
		kv->unfed = kv->unfed->next;
}

void kv_works_settle(struct tally_kv *kv)
{
	for (uint32_t s = 0; s < kv->servers; s++) {
		struct kv_server *server = &kv->server[s];
		struct kv_due *due;

		while ((due = server->hot_dues.first) && kv_hot_is_committed(server, due->number) &&
		       server->core->batch_done >= due->moved) {
			server->hot_dues.first = due->next;
			due->work->dues_left--;
			push_settle(kv, due->work);
		}
		while ((due = server->cold_dues.first) && server->core->batch_done >= due->number) {
			server->cold_dues.first = due->next;
			due->work->dues_left--;
			push_settle(kv, due->work);
		}
	}
}
