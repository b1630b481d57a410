/* SPDX-License-Identifier: Apache-2.0 */
/* keys_row.c - the row that the readers of keys.h fill. */
#include <stdlib.h>

#include "hot/keys_state.h"

const struct source *keys_source(const struct keys *k)
{
	return k->libsvm ? libsvm_source(k->libsvm) : k->source ? k->source : k->line.source;
}

int keys_room_make(struct keys *k, size_t count)
{
	size_t room = k->room ? k->room : KEYS_ROOM_FIRST;
	uint64_t *more;

	while (room < count)
		room *= 2;
	if (room == k->room)
		return 0;
	more = realloc(k->key, room * sizeof(*more));
	if (!more)
		return files_fail(k->error, source_name(keys_source(k)),
				  "no memory for so long a row");
	k->key = more;
	k->room = room;
	return 0;
}

int keys_put(struct keys *k, uint64_t key)
{
	if (k->count == k->room && keys_room_make(k, k->count + 1))
		return -1;
	k->key[k->count++] = key;
	return 0;
}

int keys_put_hash(struct keys *k, uint64_t hash)
{
	if (k->options.bits)
		hash = (hash & ((UINT64_C(1) << k->options.bits) - 1)) + 1;
	return keys_put(k, hash);
}
