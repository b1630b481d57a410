/* SPDX-License-Identifier: Apache-2.0 */
/* copy_sparse.c - see copy_sparse.h. */
#include "core/sparse/copy_sparse.h"

uint32_t copy_sparse_ranks_per_part(const struct sparse_table *table)
{
	return sparse_items_of(SPARSE_BCAST, table->bytes, sparse_pair_bytes(table->dim));
}

/* One at least: an epoch that has touched nothing is told of, too. */
uint32_t copy_sparse_parts(const struct sparse_table *table, uint32_t touched)
{
	uint32_t per_part = copy_sparse_ranks_per_part(table);

	return touched ? (touched - 1) / per_part + 1 : 1;
}

uint32_t copy_sparse_parts_max(const struct sparse_table *table)
{
	return copy_sparse_parts(table, table->ranks);
}

/* ---- which epochs have come ---- */

static uint8_t *parts_of(const struct copy_sparse *copy, uint64_t epoch)
{
	return copy->memory.has_part +
	       epoch % COPY_SPARSE_AHEAD * copy_sparse_parts_max(copy->table);
}

static void parts_clear(struct copy_sparse *copy, uint64_t epoch)
{
	for (uint32_t part = 0; part < copy->parts[epoch % COPY_SPARSE_AHEAD]; part++)
		parts_of(copy, epoch)[part] = 0;
	copy->parts[epoch % COPY_SPARSE_AHEAD] = 0;
	copy->parts_count[epoch % COPY_SPARSE_AHEAD] = 0;
}

static bool is_whole(const struct copy_sparse *copy, uint64_t epoch)
{
	uint32_t at = epoch % COPY_SPARSE_AHEAD;

	return copy->parts[at] && copy->parts_count[at] == copy->parts[at];
}

/* An epoch that is fresh makes room for one that is COPY_SPARSE_AHEAD later. */
static void fresh_up_to(struct copy_sparse *copy, uint64_t epoch)
{
	for (uint32_t i = 0; i < COPY_SPARSE_AHEAD && copy->fresh < epoch; i++)
		parts_clear(copy, ++copy->fresh);
	copy->fresh = epoch;
	while (copy->fresh < copy->newest && is_whole(copy, copy->fresh + 1))
		parts_clear(copy, ++copy->fresh);
}

/* What is missing up to here is waited for no more: only what is as of this epoch or later is of use from now on. */
static void base_at(struct copy_sparse *copy, uint64_t epoch)
{
	copy->base = epoch;
	fresh_up_to(copy, epoch);
}

static void newest_put(struct copy_sparse *copy, uint64_t epoch)
{
	if (copy->newest < epoch)
		copy->newest = epoch;
	if (copy->newest - copy->fresh > COPY_SPARSE_AHEAD)
		base_at(copy, copy->newest - COPY_SPARSE_AHEAD);
}

void copy_sparse_give_up(struct copy_sparse *copy)
{
	if (copy->fresh < copy->newest)
		base_at(copy, copy->newest);
}

/* ---- generations ---- */

void copy_sparse_init(struct copy_sparse *copy, const struct sparse_table *table,
		      uint64_t generation, uint64_t expected,
		      const struct copy_sparse_memory *memory)
{
	CORE_ASSERT(sparse_table_is_sound(table));
	CORE_ASSERT(expected);
	*copy = (struct copy_sparse){ .table = table,
				      .generation = generation,
				      .told = generation,
				      .since = 1,
				      .base = expected - 1,
				      .fresh = expected - 1,
				      .newest = expected - 1,
				      .memory = *memory };
	for (uint32_t rank = 0; rank < table->ranks; rank++)
		memory->tag[rank] = (struct copy_sparse_tag){ 0 };
	for (uint32_t i = 0; i < COPY_SPARSE_AHEAD * copy_sparse_parts_max(table); i++)
		memory->has_part[i] = 0;
}

/* Is there a value of an epoch that the server has lost? It has gone back if it expects that one again. */
static bool has_lost(const struct copy_sparse *copy, uint64_t expected)
{
	for (uint32_t rank = 0; rank < copy->table->ranks; rank++)
		if (copy->memory.tag[rank].epoch >= expected)
			return true;
	return copy->fresh >= expected;
}

/* A generation that it never heard of may have gone back, and on again. What of the last one's BCASTs is missing does
 * not come any more. */
void copy_sparse_resume(struct copy_sparse *copy, uint64_t generation, uint64_t expected)
{
	bool is_next = sparse_fences(generation) == sparse_fences(copy->generation) + 1;
	bool is_same = is_next && !has_lost(copy, expected);

	if (generation <= copy->generation || !expected)
		return;
	copy->generation = generation;
	if (copy->told < generation)
		copy->told = generation;
	for (uint32_t i = 0; i < COPY_SPARSE_AHEAD; i++)
		parts_clear(copy, i);
	if (!is_same) {
		copy->since = generation;
		copy->past = 0;
	}
	if (!is_same || copy->fresh < expected - 1) {
		copy->fresh = expected - 1;
		base_at(copy, expected - 1);
	}
	copy->newest = copy->fresh;
}

void copy_sparse_told(struct copy_sparse *copy, uint64_t generation, uint64_t epoch)
{
	if (copy->told < generation)
		copy->told = generation;
	if (generation == copy->generation)
		newest_put(copy, epoch);
}

void copy_sparse_past(struct copy_sparse *copy, uint64_t epoch)
{
	if (copy->past < epoch)
		copy->past = epoch;
}

/* ---- values ---- */

static void value_put(struct copy_sparse *copy, uint32_t rank, uint64_t generation, uint64_t epoch,
		      const uint8_t *at, const uint32_t *value)
{
	struct copy_sparse_tag *tag = &copy->memory.tag[rank];
	uint32_t dim = copy->table->dim;

	if (generation < tag->generation || (generation == tag->generation && epoch <= tag->epoch))
		return;
	*tag = (struct copy_sparse_tag){ generation, epoch };
	for (uint32_t k = 0; k < dim; k++)
		copy->memory.value[(size_t)rank * dim + k] =
			at ? sparse_body_get32(at + k * SPARSE_VALUE_BYTES) : value[k];
}

static bool is_sound(const struct sparse_table *table, const struct sparse *packet,
		     const uint8_t *at)
{
	uint32_t per_part = copy_sparse_ranks_per_part(table);
	bool is_last = packet->part + 1 == packet->parts;
	uint64_t next = 0;

	if (packet->kind != SPARSE_BCAST || packet->table != table->index ||
	    packet->width != table->dim || packet->parts > copy_sparse_parts_max(table) ||
	    !packet->number || !packet->generation || packet->count > per_part)
		return false;
	if (packet->count < per_part && !is_last)
		return false;
	if (!packet->count && packet->parts > 1)
		return false;
	for (uint32_t i = 0; i < packet->count; i++) {
		uint32_t rank = sparse_body_get32(sparse_item(packet, at, i));

		if (rank < next || rank >= table->ranks)
			return false;
		next = (uint64_t)rank + 1;
	}
	return true;
}

/* Is it a part that counts, and has not come? */
static bool part_put(struct copy_sparse *copy, const struct sparse *packet)
{
	uint32_t at = packet->number % COPY_SPARSE_AHEAD;
	uint8_t *has = &parts_of(copy, packet->number)[packet->part];

	if (copy->parts[at] && packet->parts != copy->parts[at])
		return false;
	copy->parts[at] = packet->parts;
	copy->parts_count[at] += !*has;
	*has = 1;
	return true;
}

bool copy_sparse_take(struct copy_sparse *copy, const struct sparse *packet, const uint8_t *at)
{
	uint64_t epoch = packet->number;

	if (!is_sound(copy->table, packet, at))
		return false;
	/* Of a higher one only TCP can tell: anybody could say it here, and no value could be used any more. */
	if (packet->generation != copy->generation)
		return false;
	copy_sparse_told(copy, packet->generation, epoch);
	if (epoch > copy->fresh && epoch - copy->fresh <= COPY_SPARSE_AHEAD &&
	    !part_put(copy, packet))
		return false;
	for (uint32_t i = 0; i < packet->count; i++) {
		const uint8_t *item = sparse_item(packet, at, i);

		value_put(copy, sparse_body_get32(item), packet->generation, epoch,
			  item + SPARSE_RANK_BYTES, NULL);
	}
	if (epoch > copy->fresh && is_whole(copy, epoch) && epoch == copy->fresh + 1)
		fresh_up_to(copy, epoch);
	return true;
}

void copy_sparse_pulled(struct copy_sparse *copy, uint32_t rank, uint64_t generation,
			uint64_t epoch, const uint32_t *value)
{
	CORE_ASSERT(rank < copy->table->ranks);
	copy_sparse_told(copy, generation, epoch);
	if (generation == copy->generation)
		value_put(copy, rank, generation, epoch, NULL, value);
}

void copy_sparse_fetch(const struct copy_sparse *copy, uint32_t rank)
{
	if (rank >= copy->table->ranks)
		return;
	__builtin_prefetch(&copy->memory.tag[rank]);
	__builtin_prefetch(&copy->memory.value[(size_t)rank * copy->table->dim]);
}

const uint32_t *copy_sparse_value(const struct copy_sparse *copy, uint32_t rank, uint64_t bound)
{
	const struct copy_sparse_tag *tag = &copy->memory.tag[rank];

	CORE_ASSERT(rank < copy->table->ranks);
	if (copy->told > copy->generation)
		return NULL;
	if (tag->generation < copy->since || tag->epoch < copy->base || tag->epoch <= copy->past ||
	    copy->newest - copy->fresh > bound)
		return NULL;
	return copy->memory.value + (size_t)rank * copy->table->dim;
}
