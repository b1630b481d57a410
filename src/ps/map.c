/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - the hot keys of a table, at its start and when its map is another one: see table.h. docs/protocol.md, R-SP-32. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/shared/splitmix.h"
#include "ps/table.h"

int ps_table_map_read(const struct ps_table *table, struct hot_map *map, char error[PS_ERROR_MAX])
{
	char said[FILES_ERROR_MAX];

	if (!table->options.map)
		return 0;
	if (hot_map_read(table->options.map, map, said))
		return ps_fail(error, "table %s: %.600s", table->options.name, said);
	if (hot_map_expect(map, table->options.map, table->options.map_table, 0, said)) {
		hot_map_fini(map);
		return ps_fail(error, "table %s: %.600s", table->options.name, said);
	}
	if (RECORD_STEP_BYTES + 8ull * sparse_places(&table->shape) +
		    map->keys * 8ull * (1 + table->shape.dim) <=
	    RECORD_BODY_MAX)
		return 0;
	hot_map_fini(map);
	return ps_fail(error, "table %s: an epoch of all its hot keys fits into no record",
		       table->options.name);
}

/* ---- which one it is ---- */

static uint64_t digest_of(const struct hot_map *map)
{
	uint64_t digest = 0;

	for (uint32_t i = 0; i < map->keys; i++)
		digest = splitmix64(digest ^ map->key[i]);
	return digest;
}

/* A version has the same keys for ever, now and in all logs: workers keep pushes by its ranks. 1: it is a later one; 0: the
 * last that there was; -1: neither. */
static int judge(const struct ps_table *table, const struct hot_map *map, char error[PS_ERROR_MAX])
{
	if (!table->map_version || map->version > table->map_version)
		return 1;
	if (map->version == table->map_version && map->keys == table->map_keys &&
	    digest_of(map) == table->map_digest)
		return 0;
	return ps_fail(
		error,
		map->version < table->map_version
			? "table %s: its map has version %u; its log has had version %u"
			: "table %s: its map of version %u has other keys than that of its log, "
			  "version %u: a changed map needs a higher version",
		table->options.name, map->version, table->map_version);
}

static void version_take(struct ps_table *table, const struct hot_map *map)
{
	table->map_version = map->version;
	table->map_keys = map->keys;
	table->map_digest = digest_of(map);
}

/* ---- its rows ---- */

/* Every hot key has its row from the start on, so an epoch always has room. */
static int rows_reserve(struct ps_table *table, const struct hot_map *map, char error[PS_ERROR_MAX])
{
	uint64_t fresh = 0;

	for (uint32_t i = 0; i < map->keys; i++)
		fresh += !store_find(table->store, map->key[i]);
	if (!store_reserve(table->store, fresh) &&
	    (!table->stage || !stage_reserve(table->stage, map->keys)))
		return 0;
	return ps_fail(
		error,
		"table %s: its %u hot keys and %llu rows do not fit into %llu bytes of memory",
		table->options.name, map->keys, (unsigned long long)store_rows(table->store),
		(unsigned long long)table->options.memory_max);
}

static void rows_find(struct ps_table *table, float **hot)
{
	for (uint32_t i = 0; i < table->map.keys; i++)
		hot[i] = store_get(table->store, table->map.key[i]);
	free(table->hot);
	table->hot = hot;
}

/* ---- from one to the next ---- */

int ps_table_map_begin(struct ps_table *table, char error[PS_ERROR_MAX])
{
	float **hot;

	if (judge(table, &table->map, error) < 0 || rows_reserve(table, &table->map, error))
		return -1;
	hot = calloc(table->map.keys + 1ul, sizeof(*hot));
	if (!hot)
		return ps_fail(error, "table %s: out of memory", table->options.name);
	version_take(table, &table->map);
	rows_find(table, hot);
	return 0;
}

int ps_table_remap(struct ps_table *table, struct hot_map *map, char error[PS_ERROR_MAX])
{
	int result = judge(table, map, error);
	float **hot;

	if (result <= 0)
		return result;
	if (server_sparse_is_spent(home_sparse_server(table->home))) {
		ps_table_spent(table, error);
		return -1;
	}
	if (rows_reserve(table, map, error))
		return -1;
	hot = calloc(map->keys + 1ul, sizeof(*hot));
	if (!hot || home_sparse_remap(table->home, map->version, map->keys)) {
		free(hot);
		return ps_fail(error, "table %s: out of memory for its map", table->options.name);
	}
	hot_map_fini(&table->map);
	table->map = *map;
	*map = (struct hot_map){ 0 };
	table->shape.ranks = table->map.keys;
	version_take(table, &table->map);
	rows_find(table, hot);
	/* MAP and SWITCH leave when this is on the disk, so no worker has the map before (R-SP-32). */
	if (table->log)
		ps_table_map_record(table);
	return 1;
}
