/* SPDX-License-Identifier: Apache-2.0 */
/* count.c - see count.h. */
#include "hot/count.h"

#include <assert.h>
#include <stdlib.h>

#include "core/shared/splitmix.h"

enum { CELLS_FIRST = 1 << 12, AHEAD = 16 /* keys whose cells are on their way from memory */ };

void count_fini(struct count *count)
{
	free(count->cell);
	*count = (struct count){ 0 };
}

static struct count_cell *cell_find(struct count_cell *cell, size_t mask, uint64_t key)
{
	size_t at = (size_t)splitmix64(key) & mask;

	while (cell[at].count && cell[at].key != key)
		at = (at + 1) & mask;
	return &cell[at];
}

/* So many cells that half of them stay empty with so many keys. */
static int grow(struct count *count, size_t keys)
{
	size_t cells = count->cell ? count->mask + 1 : CELLS_FIRST;
	struct count_cell *more;

	while (cells < 2 * keys)
		cells *= 2;
	more = calloc(cells, sizeof(*more));
	if (!more)
		return -1;
	for (size_t i = 0; count->cell && i <= count->mask; i++)
		if (count->cell[i].count)
			*cell_find(more, cells - 1, count->cell[i].key) = count->cell[i];
	free(count->cell);
	count->cell = more;
	count->mask = cells - 1;
	return 0;
}

int count_add(struct count *count, const uint64_t *key, size_t keys)
{
	assert(keys <= COUNT_ADD_MAX);
	if (2 * (count->keys + keys) > count->mask + 1 && grow(count, count->keys + keys))
		return -1;
	for (size_t i = 0; i < keys; i++) {
		struct count_cell *cell;

		if (i + AHEAD < keys)
			__builtin_prefetch(&count->cell[splitmix64(key[i + AHEAD]) & count->mask],
					   1);
		cell = cell_find(count->cell, count->mask, key[i]);
		count->keys += !cell->count;
		cell->key = key[i];
		cell->count++;
	}
	count->updates += keys;
	return 0;
}

uint64_t count_of(const struct count *count, uint64_t key)
{
	return count->cell ? cell_find(count->cell, count->mask, key)->count : 0;
}

void count_read(const struct count *count, struct heat *heat)
{
	for (size_t i = 0; count->cell && i <= count->mask; i++)
		if (count->cell[i].count)
			*heat++ = (struct heat){ count->cell[i].key, count->cell[i].count, 0 };
}
