/* SPDX-License-Identifier: Apache-2.0 */
/* copy_sparse.c - see copy_sparse.h. */
#include "core/copy_sparse.h"

uint32_t copy_sparse_ranks_per_part(const struct sparse_table *table)
{
	return sparse_items_of(SPARSE_BCAST, table->bytes, sparse_pair_bytes(table->dim));
}

uint32_t copy_sparse_parts(const struct sparse_table *table)
{
	return (table->ranks - 1) / copy_sparse_ranks_per_part(table) + 1;
}

static uint8_t *parts_of(const struct copy_sparse *copy, uint64_t epoch)
{
	return copy->memory.has_part + epoch % COPY_SPARSE_AHEAD * copy_sparse_parts(copy->table);
}

static void parts_clear(const struct copy_sparse *copy, uint64_t epoch)
{
	uint32_t parts = copy_sparse_parts(copy->table);

	for (uint32_t part = 0; part < parts; part++)
		parts_of(copy, epoch)[part] = 0;
}

static bool is_whole(const struct copy_sparse *copy, uint64_t epoch)
{
	uint32_t parts = copy_sparse_parts(copy->table);

	for (uint32_t part = 0; part < parts; part++)
		if (!parts_of(copy, epoch)[part])
			return false;
	return true;
}

/* An epoch that is fresh makes room for one that is COPY_SPARSE_AHEAD later. */
static void fresh_up_to(struct copy_sparse *copy, uint64_t epoch)
{
	for (uint32_t i = 0; i < COPY_SPARSE_AHEAD && copy->fresh < epoch; i++)
		parts_clear(copy, ++copy->fresh);
	copy->fresh = epoch;
	while (is_whole(copy, copy->fresh + 1))
		parts_clear(copy, ++copy->fresh);
	if (copy->newest < copy->fresh)
		copy->newest = copy->fresh;
}

void copy_sparse_init(struct copy_sparse *copy, const struct sparse_table *table,
		      uint64_t generation, uint64_t expected,
		      const struct copy_sparse_memory *memory)
{
	CORE_ASSERT(sparse_table_is_sound(table));
	CORE_ASSERT(expected);
	*copy = (struct copy_sparse){ .table = table,
				      .generation = generation,
				      .first = expected,
				      .newest = expected - 1,
				      .memory = *memory };
	for (uint32_t rank = 0; rank < table->ranks; rank++)
		memory->tag[rank] = (struct copy_sparse_tag){ 0 };
	for (uint32_t i = 0; i < COPY_SPARSE_AHEAD; i++)
		parts_clear(copy, i);
}

/* Is there a value of an epoch that the server has lost? It has gone back if it expects that one again. */
static bool has_lost(const struct copy_sparse *copy, uint64_t expected)
{
	for (uint32_t rank = 0; rank < copy->table->ranks; rank++)
		if (copy->memory.tag[rank].epoch >= expected)
			return true;
	return copy->fresh >= expected;
}

/* A generation that it never heard of may have gone back, and on again. */
void copy_sparse_resume(struct copy_sparse *copy, uint64_t generation, uint64_t expected)
{
	bool is_next = generation == copy->generation + 1 || TAKEN_OUT(SPARSE_COPY_SKIPPED);

	if (generation <= copy->generation)
		return;
	if (!is_next || (has_lost(copy, expected) && !TAKEN_OUT(SPARSE_COPY_BACK)))
		copy->fresh = 0;
	copy->generation = generation;
	copy->first = expected;
	copy->newest = expected - 1;
	for (uint32_t i = 0; i < COPY_SPARSE_AHEAD; i++)
		parts_clear(copy, i);
}

void copy_sparse_committed(struct copy_sparse *copy, uint64_t generation, uint64_t epoch)
{
	if (generation == copy->generation && copy->newest < epoch)
		copy->newest = epoch;
}

static void value_put(struct copy_sparse *copy, uint32_t rank, uint64_t generation, uint64_t epoch,
		      const uint8_t *at, const uint32_t *value)
{
	struct copy_sparse_tag *tag = &copy->memory.tag[rank];
	uint32_t dim = copy->table->dim;

	if ((generation < tag->generation ||
	     (generation == tag->generation && epoch <= tag->epoch)) &&
	    !TAKEN_OUT(SPARSE_COPY_LATE))
		return;
	*tag = (struct copy_sparse_tag){ generation, epoch };
	for (uint32_t k = 0; k < dim; k++)
		copy->memory.value[rank * dim + k] =
			at ? sparse_body_get32(at + k * SPARSE_VALUE_BYTES) : value[k];
}

static bool is_sound(const struct sparse_table *table, const struct sparse *packet,
		     const uint8_t *at)
{
	uint32_t per_part = copy_sparse_ranks_per_part(table);
	uint64_t next = (uint64_t)packet->part * per_part, end = next + per_part;

	if (packet->kind != SPARSE_BCAST || packet->table != table->index ||
	    packet->width != table->dim || packet->parts != copy_sparse_parts(table) ||
	    !packet->number || !packet->generation)
		return false;
	for (uint32_t i = 0; i < packet->count; i++) {
		uint32_t rank = sparse_body_get32(sparse_item(packet, at, i));

		if (rank < next || rank >= end || rank >= table->ranks)
			return false;
		next = (uint64_t)rank + 1;
	}
	return true;
}

bool copy_sparse_take(struct copy_sparse *copy, const struct sparse *packet, const uint8_t *at)
{
	uint64_t epoch = packet->number;

	if (!is_sound(copy->table, packet, at))
		return false;
	if (packet->generation != copy->generation && !TAKEN_OUT(SPARSE_COPY_GENERATION))
		return true;
	for (uint32_t i = 0; i < packet->count; i++) {
		const uint8_t *item = sparse_item(packet, at, i);

		value_put(copy, sparse_body_get32(item), packet->generation, epoch,
			  item + SPARSE_RANK_BYTES, NULL);
	}
	if (copy->newest < epoch)
		copy->newest = epoch;
	if (epoch <= copy->fresh || epoch - copy->fresh > COPY_SPARSE_AHEAD)
		return true;
	parts_of(copy, epoch)[packet->part] = 1;
	if (epoch == copy->fresh + 1 || TAKEN_OUT(SPARSE_COPY_GAP))
		if (is_whole(copy, epoch))
			fresh_up_to(copy, epoch);
	return true;
}

void copy_sparse_pulled(struct copy_sparse *copy, uint32_t rank, uint64_t generation,
			uint64_t epoch, const uint32_t *value)
{
	CORE_ASSERT(rank < copy->table->ranks);
	if (generation != copy->generation)
		return;
	value_put(copy, rank, generation, epoch, NULL, value);
}

void copy_sparse_pulled_all(struct copy_sparse *copy, uint64_t generation, uint64_t epoch)
{
	if (generation == copy->generation && epoch > copy->fresh)
		fresh_up_to(copy, epoch);
}

bool copy_sparse_is_within(const struct copy_sparse *copy, uint64_t bound)
{
	return copy->newest - copy->fresh <= bound;
}

bool copy_sparse_has_gap(const struct copy_sparse *copy)
{
	if (copy->fresh == copy->newest)
		return false;
	return copy->fresh + 1 < copy->first || copy->newest - copy->fresh > COPY_SPARSE_AHEAD;
}
