/* SPDX-License-Identifier: Apache-2.0 */
/* hot_map.c - see hot_map.h. */
#include "files/hot_map.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/shared/splitmix.h"
#include "files/aside.h"
#include "util/bytes.h"
#include "util/whole.h"

enum {
	AT_FORMAT = 8,
	AT_CRC = 12,
	AT_TABLE = 16,
	AT_VERSION = 20,
	AT_KEYS = 24,
	AT_HOT_UPDATES = 32,
	AT_UPDATES = 40,
	KEY_BYTES = 8,
};
_Static_assert((uint64_t)HOT_MAP_KEYS_MAX *KEY_BYTES < UINT32_MAX, "zlib counts in 32 bits");

static const uint8_t magic[8] = { 't', 'a', 'l', 'l', 'y', 'h', 'o', 't' };

/* ---- writing ---- */

int hot_map_write(const char *path, const struct hot_map *map, char error[FILES_ERROR_MAX])
{
	size_t bytes = HOT_MAP_HEADER_BYTES + (size_t)map->keys * KEY_BYTES;
	uint8_t *file = malloc(bytes);
	struct aside aside;
	int result = -1;

	assert(map->table <= HOT_MAP_TABLE_MAX);
	assert(map->version >= 1);
	assert(map->keys >= 1);
	assert(map->keys <= HOT_MAP_KEYS_MAX);
	assert(map->hot_updates <= map->updates);
	if (!file)
		return files_fail(error, path, "out of memory");
	memcpy(file, magic, sizeof(magic));
	bytes_put(file + AT_FORMAT, HOT_MAP_FORMAT, 4);
	bytes_put(file + AT_TABLE, map->table, 4);
	bytes_put(file + AT_VERSION, map->version, 4);
	bytes_put(file + AT_KEYS, map->keys, 8);
	bytes_put(file + AT_HOT_UPDATES, map->hot_updates, 8);
	bytes_put(file + AT_UPDATES, map->updates, 8);
	for (uint32_t rank = 0; rank < map->keys; rank++)
		bytes_put(file + HOT_MAP_HEADER_BYTES + (size_t)rank * KEY_BYTES, map->key[rank],
			  KEY_BYTES);
	bytes_put(file + AT_CRC, crc32(0, file + AT_TABLE, (uInt)(bytes - AT_TABLE)), 4);
	if (!aside_open(&aside, path, error)) {
		aside_write(&aside, file, bytes);
		result = aside_commit(&aside, error);
	}
	free(file);
	return result;
}

/* ---- reading ---- */

/* The place of the key, or the empty one where it would be. */
static uint32_t place_find(const struct hot_map *map, uint64_t key)
{
	uint32_t place = (uint32_t)splitmix64(key) & map->mask;

	while (map->index[place] && map->key[map->index[place] - 1] != key)
		place = (place + 1) & map->mask;
	return place;
}

uint32_t hot_map_rank(const struct hot_map *map, uint64_t key)
{
	uint32_t found = map->index[place_find(map, key)];

	return found ? found - 1 : HOT_MAP_COLD;
}

static int keys_take(const char *name, const uint8_t *at, struct hot_map *map,
		     char error[FILES_ERROR_MAX])
{
	uint32_t places = 1;

	while (places < 2 * map->keys)
		places *= 2;
	map->mask = places - 1;
	map->index = calloc(places, sizeof(*map->index));
	map->key = malloc(map->keys * sizeof(*map->key));
	if (!map->index || !map->key)
		return files_fail(error, name, "out of memory");
	for (uint32_t rank = 0; rank < map->keys; rank++) {
		uint64_t key = bytes_get(at + (size_t)rank * KEY_BYTES, KEY_BYTES);
		uint32_t place = place_find(map, key);

		if (map->index[place])
			return files_fail(error, name,
					  "damaged: the key %" PRIu64 " has the ranks %u and %u",
					  key, map->index[place] - 1, rank);
		map->index[place] = rank + 1;
		map->key[rank] = key;
	}
	return 0;
}

static int header_check(const char *name, const uint8_t *file, size_t bytes,
			char error[FILES_ERROR_MAX])
{
	uint64_t format, keys, has;

	if (bytes < sizeof(magic) || memcmp(file, magic, sizeof(magic)) != 0)
		return files_fail(error, name, "no map of tally hot");
	if (bytes < HOT_MAP_HEADER_BYTES)
		return files_fail(error, name, "truncated: ends inside of its header");
	format = bytes_get(file + AT_FORMAT, 4);
	if (format != HOT_MAP_FORMAT)
		return files_fail(error, name,
				  "a map of format %" PRIu64 "; this program has format %d", format,
				  HOT_MAP_FORMAT);
	keys = bytes_get(file + AT_KEYS, 8);
	has = bytes - HOT_MAP_HEADER_BYTES;
	if (keys > HOT_MAP_KEYS_MAX || has != keys * KEY_BYTES)
		return files_fail(
			error, name, "%s: %" PRIu64 " bytes of keys, and %" PRIu64 " keys of 8",
			has / KEY_BYTES < keys ? "truncated" : "something is behind its end", has,
			keys);
	if (bytes_get(file + AT_CRC, 4) != crc32(0, file + AT_TABLE, (uInt)(bytes - AT_TABLE)))
		return files_fail(error, name, "damaged: its checksum does not fit");
	return 0;
}

int hot_map_parse(const char *name, const uint8_t *file, size_t bytes, struct hot_map *map,
		  char error[FILES_ERROR_MAX])
{
	struct hot_map m = { 0 };

	if (header_check(name, file, bytes, error))
		return -1;
	m.table = (uint32_t)bytes_get(file + AT_TABLE, 4);
	m.version = (uint32_t)bytes_get(file + AT_VERSION, 4);
	m.keys = (uint32_t)bytes_get(file + AT_KEYS, 8);
	m.hot_updates = bytes_get(file + AT_HOT_UPDATES, 8);
	m.updates = bytes_get(file + AT_UPDATES, 8);
	if (m.table > HOT_MAP_TABLE_MAX || !m.version || !m.keys || m.hot_updates > m.updates)
		return files_fail(error, name, "damaged: its numbers do not fit each other");
	if (keys_take(name, file + HOT_MAP_HEADER_BYTES, &m, error)) {
		hot_map_fini(&m);
		return -1;
	}
	*map = m;
	return 0;
}

int hot_map_read(const char *path, struct hot_map *map, char error[FILES_ERROR_MAX])
{
	const uint64_t most = HOT_MAP_HEADER_BYTES + (uint64_t)HOT_MAP_KEYS_MAX * KEY_BYTES;
	size_t bytes = 0;
	uint8_t *file = whole_read(path, most, &bytes);
	int result;

	if (!file)
		return files_fail(error, path, "%s", whole_why(errno));
	result = hot_map_parse(path, file, bytes, map, error);
	free(file);
	return result;
}

void hot_map_fini(struct hot_map *map)
{
	free(map->key);
	free(map->index);
	*map = (struct hot_map){ 0 };
}

int hot_map_expect(const struct hot_map *map, const char *name, uint32_t table, uint32_t version,
		   char error[FILES_ERROR_MAX])
{
	if (map->table != table)
		return files_fail(error, name, "the map of table %u, not of table %u", map->table,
				  table);
	if (version && map->version != version)
		return files_fail(error, name, "version %u of the map, not %u", map->version,
				  version);
	return 0;
}
