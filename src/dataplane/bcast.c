/* SPDX-License-Identifier: Apache-2.0 */
/* bcast.c - see bcast.h. */
#include "dataplane/bcast.h"

#include <stdlib.h>

#include "core/sparse/copy_sparse.h"

static uint32_t parts_room(const struct sparse_table *table)
{
	uint32_t most = copy_sparse_parts_max(table);

	return most < BCAST_PARTS_MAX ? most : BCAST_PARTS_MAX;
}

bool bcast_open(struct bcast *bcast, const struct sparse_table *table)
{
	uint32_t parts = parts_room(table), per_part = copy_sparse_ranks_per_part(table);

	*bcast = (struct bcast){ .ranks_max = parts * per_part };
	if (bcast->ranks_max > table->ranks)
		bcast->ranks_max = table->ranks;
	bcast->rank = calloc(bcast->ranks_max, sizeof(*bcast->rank));
	bcast->value = calloc((size_t)bcast->ranks_max * table->dim, sizeof(*bcast->value));
	bcast->bytes = calloc(parts, table->bytes);
	return bcast->rank && bcast->value && bcast->bytes;
}

void bcast_close(struct bcast *bcast)
{
	free(bcast->rank);
	free(bcast->value);
	free(bcast->bytes);
}

void bcast_drop(struct bcast *bcast)
{
	bcast->parts = bcast->next = 0;
}

void bcast_make(struct bcast *bcast, const struct server_sparse *server, bcast_values *values,
		void *arg)
{
	const struct sparse_table *table = server->table;
	struct server_sparse_touched touched = { bcast->rank, bcast->value, 0 };

	bcast_drop(bcast);
	for (uint32_t rank = 0; rank < table->ranks; rank++) {
		if (!server_sparse_is_touched(server, rank))
			continue;
		if (touched.count == bcast->ranks_max)
			return;
		values(arg, rank, bcast->value + (size_t)touched.count * table->dim);
		bcast->rank[touched.count++] = rank;
	}
	bcast->record = server->recorded;
	bcast->parts = copy_sparse_parts(table, touched.count);
	for (uint32_t part = 0; part < bcast->parts; part++)
		bcast->last_bytes = server_sparse_bcast(server, part, &touched,
							bcast->bytes + (size_t)part * table->bytes);
}

const uint8_t *bcast_next(struct bcast *bcast, const struct server_sparse *server, uint64_t now_ns,
			  uint32_t *bytes, uint64_t *due_ns)
{
	const struct sparse_table *table = server->table;
	uint32_t full = SPARSE_HEADER_BYTES +
			copy_sparse_ranks_per_part(table) * sparse_pair_bytes(table->dim);
	uint32_t burst = BCAST_BURST_BYTES / full + 1, part = bcast->next;

	*due_ns = UINT64_MAX;
	if (part == bcast->parts || server->durable < bcast->record)
		return NULL;
	if (now_ns < bcast->due_ns) {
		*due_ns = bcast->due_ns;
		return NULL;
	}
	bcast->next++;
	if (bcast->next % burst == 0)
		bcast->due_ns = now_ns + BCAST_BURST_NS;
	*bytes = bcast->next == bcast->parts ? bcast->last_bytes : full;
	return bcast->bytes + (size_t)part * table->bytes;
}
