/* SPDX-License-Identifier: Apache-2.0 */
/* reload.c - another map for a table whose workers are there: docs/protocol.md, R-SP-32 and R-KV-8. */
#include <stdio.h>

#include "ps/internal.h"

/* If no aggregator grants the table, it has to have room here. */
static bool has_room(const struct ps_server *server, const struct ps_hosted *hosted,
		     const struct hot_map *map, char error[PS_ERROR_MAX])
{
	struct sparse_table shape = hosted->table->shape;
	uint64_t used = engine_sparse_memory_used(server->engine);

	if (hosted->is_inside)
		used -= engine_sparse_table_bytes(&shape);
	shape.ranks = map->keys;
	used += engine_sparse_table_bytes(&shape);
	if (used <= server->options.switch_memory)
		return true;
	snprintf(
		error, PS_ERROR_MAX,
		"table %s: no switch for %u hot keys: %llu bytes are there for all tables that are "
		"summed here",
		hosted->options.table.name, map->keys,
		(unsigned long long)server->options.switch_memory);
	return false;
}

static int remap(struct ps_server *server, struct ps_hosted *hosted, char error[PS_ERROR_MAX])
{
	int trouble = ps_table_trouble(hosted->table), result = -1;
	struct hot_map map;

	if (trouble)
		return ps_fail(error, "table %s: its log cannot be written: %s",
			       hosted->options.table.name, log_why(trouble));
	if (ps_table_map_read(hosted->table, &map, error))
		return -1;
	if (server_kv_share_is_others(&hosted->table->share, map.key, map.keys))
		snprintf(error, PS_ERROR_MAX,
			 "table %s: the %u keys of its map are all of another server",
			 hosted->options.table.name, map.keys);
	else if (has_room(server, hosted, &map, error))
		result = ps_table_remap(hosted->table, &map, error);
	hot_map_fini(&map);
	return result;
}

void ps_reload(struct ps_server *server, struct ps_hosted *hosted)
{
	char error[PS_ERROR_MAX];
	int result;

	if (!hosted->options.table.map)
		return;
	if (hosted->table->kv.is_gathering) { /* no generation may begin before it is over */
		ps_log(server, PS_ERROR, ps_about(hosted, NULL),
		       "version %u of its map goes on: it waits for its workers after "
		       "its restart: try again",
		       hosted->table->map.version);
		return;
	}
	result = remap(server, hosted, error);
	if (result < 0)
		ps_log(server, PS_ERROR, ps_about(hosted, NULL),
		       "%.700s: version %u of the map goes on", error, hosted->table->map.version);
	else if (!result)
		ps_log(server, PS_INFO, ps_about(hosted, NULL),
		       "version %u of its map is the one that it has", hosted->table->map.version);
	if (result <= 0)
		return;
	ps_log(server, PS_INFO, ps_about(hosted, NULL),
	       "version %u of its map from now on: %u hot keys", hosted->table->map.version,
	       hosted->table->map.keys);
	for (uint16_t i = 0; i < hosted->table->shape.workers; i++)
		if (hosted->worker[i].conn)
			ps_serve_map(hosted, hosted->worker[i].conn);
	ps_summed_begin(server, hosted);
}
