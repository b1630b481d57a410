/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stranger.c - who is a stranger, and who of them has to go first. Their connections have a quarter of the places, and
 * one address a quarter of these: docs/protocol.md, R-KV-21.
 */
#include "ps/internal.h"

bool ps_is_stranger(const struct ps_server *server, const struct ps_conn *conn)
{
	return !conn->is_welcome || (!*server->options.key && !conn->has_table && !conn->is_held);
}

uint32_t ps_strangers_max(const struct ps_server *server)
{
	return server->places / 4;
}

uint32_t ps_source_max(const struct ps_server *server)
{
	uint32_t most = ps_strangers_max(server) / 4;

	return most ? most : 1;
}

uint32_t ps_stranger_oldest(const struct ps_server *server, const uint64_t *source, uint32_t *count)
{
	uint32_t oldest = PS_CONNS_MAX;

	*count = 0;
	for (uint32_t i = 0; i < server->conn_count; i++) {
		const struct ps_conn *conn = server->conn[i];

		if (conn->is_gone || !ps_is_stranger(server, conn) ||
		    (source && conn->source != *source))
			continue;
		if (!(*count)++)
			oldest = i; /* they stand in the order in which they came */
	}
	return oldest;
}

uint64_t ps_stranger_busiest(const struct ps_server *server)
{
	uint64_t source = 0;
	uint32_t most = 0;

	for (uint32_t i = 0; i < server->conn_count; i++) {
		const struct ps_conn *conn = server->conn[i];
		uint32_t count;

		if (!ps_is_stranger(server, conn))
			continue;
		ps_stranger_oldest(server, &conn->source, &count);
		if (count > most) {
			most = count;
			source = conn->source;
		}
	}
	return source;
}

bool ps_member_fits(const struct ps_server *server)
{
	uint32_t strangers;

	ps_stranger_oldest(server, NULL, &strangers);
	return server->conn_count - strangers < server->places - ps_strangers_max(server);
}
