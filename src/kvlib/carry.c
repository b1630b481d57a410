/* SPDX-License-Identifier: Apache-2.0 */
/* carry.c - values of hot keys travel as whole numbers of units: what is left of each comes with the next one. See kv.h.
 * docs/protocol.md, R-KV-23. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvlib/kv.h"

/* Of a row's values; NULL: there is nothing to be carried, or no memory, and the table is broken. */
static float *row_of(struct kv_server *server, uint32_t rank, bool is_needed)
{
	size_t values = (size_t)server->map.ranks * server->core->shape.dim;

	if (!server->carry && is_needed) {
		server->carry = calloc(values, sizeof(*server->carry));
		if (!server->carry)
			kv_break(server->kv, TALLY_ERR_NO_MEMORY,
				 "out of memory for what is left of %zu values of hot keys",
				 values);
	}
	return server->carry ? server->carry + (size_t)rank * server->core->shape.dim : NULL;
}

int32_t kv_carry_lane(struct kv_server *server, uint32_t rank, uint32_t k, float value)
{
	float *carry = row_of(server, rank, false);
	double whole = (double)value + (carry ? (double)carry[k] : 0);
	double scaled = rint(whole * (double)server->core->scale);
	float left = (float)(whole - scaled / (double)server->core->scale);

	if (scaled > INT32_MAX || scaled < INT32_MIN) {
		server->hot_flags |= SPARSE_SATURATED;
		scaled = scaled > 0 ? INT32_MAX : INT32_MIN;
		left = 0;
	}
	if (left != 0 && !carry)
		carry = row_of(server, rank, true);
	if (carry)
		carry[k] = left;
	server->kv->stats.values_small += scaled == 0 && value != 0;
	return (int32_t)scaled;
}

/* ---- another map ---- */

struct cold {
	uint64_t key;
	uint32_t rank; /* that it had */
};

static int by_key(const void *a, const void *b)
{
	const struct cold *one = a, *other = b;

	return one->key < other->key ? -1 : one->key > other->key;
}

static bool is_zero(const float *row, uint32_t dim)
{
	for (uint32_t k = 0; k < dim; k++)
		if (row[k] != 0)
			return false;
	return true;
}

/* As any push of the program's, behind all that there are: so a barrier, and tally_kv_close, wait for it. */
static bool push(struct kv_server *server, struct cold *cold, uint32_t count)
{
	struct tally_kv *kv = server->kv;
	uint32_t dim = server->core->shape.dim;
	uint64_t *key = malloc((count + 1ul) * sizeof(*key));
	float *value = malloc((count + 1ul) * dim * sizeof(*value));
	struct kv_work *work = NULL;

	if (key && value && count) {
		qsort(cold, count, sizeof(*cold), by_key);
		for (uint32_t i = 0; i < count; i++) {
			key[i] = cold[i].key;
			memcpy(value + (size_t)i * dim, server->carry + (size_t)cold[i].rank * dim,
			       dim * sizeof(*value));
		}
		work = kv_work_make(kv, key, value, NULL, count);
	}
	free(key);
	free(value);
	if (work)
		kv_work_add(kv, work, kv->now_ns);
	return work || !count;
}

void kv_carry_move(struct kv_server *server)
{
	uint32_t dim = server->core->shape.dim, count = 0;
	const struct kv_map *next = &server->next;
	struct cold *cold;
	float *moved;

	if (!server->carry)
		return;
	moved = calloc((size_t)next->ranks * dim, sizeof(*moved));
	cold = malloc((server->map.ranks + 1ul) * sizeof(*cold));
	for (uint32_t rank = 0; rank < server->map.ranks && moved && cold; rank++) {
		const float *row = server->carry + (size_t)rank * dim;
		uint64_t key = server->map.key[rank];
		uint32_t now;

		if (is_zero(row, dim))
			continue;
		if (sparse_map_has(&next->map, key, &now))
			memcpy(moved + (size_t)now * dim, row, dim * sizeof(*row));
		else
			cold[count++] = (struct cold){ key, rank };
	}
	if (!moved || !cold || !push(server, cold, count))
		kv_break(server->kv, TALLY_ERR_NO_MEMORY,
			 "out of memory for what is left of values of hot keys, which are others "
			 "now");
	free(cold);
	free(server->carry);
	server->carry = moved;
}

/* ---- the end ---- */

void kv_carry_say(const struct tally_kv *kv)
{
	const struct tally_kv_stats *stats = &kv->stats;
	uint64_t values = stats->pairs_hot * kv->dim, left = 0;

	/* Few of them are nothing that a smaller unit would be better for. */
	if (stats->values_small < values / 100 || !stats->values_small)
		return;
	for (uint32_t s = 0; s < kv->servers; s++) {
		const struct kv_server *server = &kv->server[s];
		size_t count = server->carry ? (size_t)server->map.ranks * kv->dim : 0;

		for (size_t i = 0; i < count; i++)
			left += server->carry[i] != 0;
	}
	report_log(&kv->who, TALLY_LOG_WARN,
		   "table %s: %llu of %llu values that were pushed for hot keys were smaller than "
		   "its unit, and came with later ones; of %llu of its values less than half a "
		   "unit is left, and lost: a smaller unit= at tally-ps has room for them",
		   kv->name, (unsigned long long)stats->values_small, (unsigned long long)values,
		   (unsigned long long)left);
}
