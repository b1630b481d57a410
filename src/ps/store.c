/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - see store.h. Rows lie in chunks, which never move; an index of row numbers + 1 is found by the key. */
#include "ps/store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/splitmix.h"

enum { CHUNK_ROWS = 1024, PLACES_MIN = 1024, CHUNKS_MIN = 64 };

static const uint64_t bytes_max_default = 1ull << 30;

struct store {
	struct store_options options;
	uint64_t row_bytes; /* the key, then the floats */
	uint64_t rows;
	uint8_t **chunk;
	uint64_t chunk_count, chunk_room;
	uint32_t *place; /* a row's number + 1; 0: free */
	uint64_t mask;
};

int store_open(struct store **out, const struct store_options *options)
{
	struct store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->options = *options;
	if (!store->options.bytes_max)
		store->options.bytes_max = bytes_max_default;
	store->row_bytes =
		(sizeof(uint64_t) + ((uint64_t)options->dim + options->state) * sizeof(float) + 7) &
		~7ull;
	store->mask = PLACES_MIN - 1;
	store->place = calloc(PLACES_MIN, sizeof(*store->place));
	store->chunk_room = CHUNKS_MIN;
	store->chunk = calloc(CHUNKS_MIN, sizeof(*store->chunk));
	if (!store->place || !store->chunk) {
		store_close(store);
		return -ENOMEM;
	}
	*out = store;
	return 0;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	for (uint64_t i = 0; i < store->chunk_count; i++)
		free(store->chunk[i]);
	free(store->chunk);
	free(store->place);
	free(store);
}

static uint8_t *row_at(const struct store *store, uint64_t row)
{
	return store->chunk[row / CHUNK_ROWS] + row % CHUNK_ROWS * store->row_bytes;
}

static uint64_t key_at(const struct store *store, uint64_t row)
{
	uint64_t key;

	memcpy(&key, row_at(store, row), sizeof(key));
	return key;
}

static float *floats_at(const struct store *store, uint64_t row)
{
	return (float *)(void *)(row_at(store, row) + sizeof(uint64_t));
}

/* The place of the key, or the free one where it would be. */
static uint64_t place_find(const struct store *store, uint64_t key)
{
	uint64_t place = splitmix64(key) & store->mask;

	while (store->place[place] && key_at(store, store->place[place] - 1) != key)
		place = (place + 1) & store->mask;
	return place;
}

/* ---- memory ---- */

/* At most two of three places are used. */
static uint64_t places_for(const struct store *store, uint64_t rows)
{
	uint64_t places = store->mask + 1;

	while (places / 3 * 2 < rows)
		places *= 2;
	return places;
}

static uint64_t chunks_for(uint64_t rows)
{
	return (rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
}

uint64_t store_bytes_for(const struct store *store, uint64_t rows)
{
	uint64_t chunks = chunks_for(rows);

	if (chunks < store->chunk_count)
		chunks = store->chunk_count;
	return chunks * (CHUNK_ROWS * store->row_bytes + sizeof(uint8_t *)) +
	       places_for(store, rows) * sizeof(uint32_t);
}

/* The rows stay where they are, so a failure in the middle leaves all that was. */
static int index_grow(struct store *store, uint64_t places)
{
	uint32_t *place, *old = store->place;

	if (places == store->mask + 1)
		return 0;
	place = calloc(places, sizeof(*place));
	if (!place)
		return -ENOMEM;
	store->place = place;
	store->mask = places - 1;
	for (uint64_t row = 0; row < store->rows; row++)
		place[place_find(store, key_at(store, row))] = (uint32_t)row + 1;
	free(old);
	return 0;
}

static int chunks_grow(struct store *store, uint64_t chunks)
{
	if (chunks > store->chunk_room) {
		uint64_t room = store->chunk_room;
		uint8_t **more;

		while (room < chunks)
			room *= 2;
		more = realloc(store->chunk, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		store->chunk = more;
		store->chunk_room = room;
	}
	while (store->chunk_count < chunks) {
		uint8_t *chunk = malloc(CHUNK_ROWS * store->row_bytes);

		if (!chunk)
			return -ENOMEM;
		store->chunk[store->chunk_count++] = chunk;
	}
	return 0;
}

int store_reserve(struct store *store, uint64_t more)
{
	uint64_t rows = store->rows + more;
	int error;

	if (rows < more || rows >= UINT32_MAX ||
	    store_bytes_for(store, rows) > store->options.bytes_max)
		return -ENOSPC;
	error = chunks_grow(store, chunks_for(rows));
	return error ? error : index_grow(store, places_for(store, rows));
}

/* ---- rows ---- */

float *store_get(struct store *store, uint64_t key)
{
	uint64_t place = place_find(store, key), row;
	float *floats;

	if (store->place[place])
		return floats_at(store, store->place[place] - 1);
	row = store->rows;
	assert(row < store->chunk_count * CHUNK_ROWS);
	assert(row < (store->mask + 1) / 3 * 2);
	memcpy(row_at(store, row), &key, sizeof(key));
	floats = floats_at(store, row);
	initial_values(&store->options.initial, key, store->options.dim, floats);
	memset(floats + store->options.dim, 0, store->options.state * sizeof(float));
	store->place[place] = (uint32_t)row + 1;
	store->rows++;
	return floats;
}

const float *store_find(const struct store *store, uint64_t key)
{
	uint32_t found = store->place[place_find(store, key)];

	return found ? floats_at(store, found - 1) : NULL;
}

void store_read(const struct store *store, uint64_t key, float *value)
{
	const float *found = store_find(store, key);

	if (found)
		memcpy(value, found, store->options.dim * sizeof(float));
	else
		initial_values(&store->options.initial, key, store->options.dim, value);
}

void store_clear(struct store *store)
{
	store->rows = 0;
	memset(store->place, 0, (store->mask + 1) * sizeof(*store->place));
}

uint64_t store_rows(const struct store *store)
{
	return store->rows;
}

uint64_t store_bytes(const struct store *store)
{
	return store_bytes_for(store, store->rows);
}

const float *store_row(const struct store *store, uint64_t i, uint64_t *key)
{
	*key = key_at(store, i);
	return floats_at(store, i);
}
