/* SPDX-License-Identifier: Apache-2.0 */
/* tell.c - what a worker is told of its table, behind all that is held: docs/protocol.md, R-KV-6 and R-KV-8. */
#include <stdio.h>
#include <string.h>

#include "ps/internal.h"

void ps_serve_map(struct ps_hosted *hosted, struct ps_conn *conn)
{
	const struct hot_map *map = &hosted->table->map;

	for (uint32_t first = 0; first < map->keys; first += KV_KEYS_MAX) {
		struct kv_message part = { .type = KV_MAP,
					   .table = hosted->number,
					   .map = map->version,
					   .ranks = map->keys,
					   .first = first,
					   .count = map->keys - first,
					   .key = map->key + first };

		if (part.count > KV_KEYS_MAX)
			part.count = KV_KEYS_MAX;
		ps_conn_hold(conn, hosted->table, &part);
	}
}

void ps_serve_switch(struct ps_server *server, struct ps_hosted *hosted, uint16_t index)
{
	struct ps_worker *worker = &hosted->worker[index];
	struct kv_message message = { .type = KV_SWITCH,
				      .table = hosted->number,
				      .index = hosted->index,
				      .port = server->port,
				      .map = hosted->table->map.version,
				      .generation = server_of(hosted)->generation };

	memcpy(message.nonce, worker->nonce, sizeof(message.nonce));
	if (!hosted->is_inside) {
		message.registers = hosted->registers;
		message.packing = hosted->options.packing;
		message.port = hosted->at_switch.port;
		memcpy(message.ip, hosted->at_switch.ip, sizeof(message.ip));
	}
	ps_conn_hold(worker->conn, hosted->table, &message);
}

void ps_serve_opened(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		     bool is_known)
{
	const struct server_sparse *state = server_of(hosted);
	const struct ps_table *table = hosted->table;
	struct ps_worker *worker = &hosted->worker[conn->worker];
	struct kv_message message = { .type = KV_OPENED,
				      .table = hosted->number,
				      .dim = table->shape.dim,
				      .window = table->shape.window,
				      .bytes = table->shape.bytes,
				      .ranks = table->map.keys,
				      .map = table->map.version,
				      .patience_us = hosted->options.patience_us,
				      .scale = 1 / table->options.unit,
				      .values = table->options.values,
				      .is_stepped = table->options.is_sync,
				      .is_known = is_known,
				      .server = table->share.index,
				      .servers = table->share.count,
				      .is_used = table->share.is_used,
				      .must_report =
					      state->memory.worker[conn->worker].is_unreported,
				      .generation = state->generation,
				      .epoch = state->expected,
				      .barrier = table->kv.barrier,
				      .number = state->memory.worker[conn->worker].next };

	snprintf(message.name, sizeof(message.name), "%s", table->options.name);
	ps_table_made(table, message.text);
	memcpy(message.identity, table->share.identity, sizeof(message.identity));
	memcpy(message.own, table->share.own, sizeof(message.own));
	worker->binding = (struct binding){ 0 };
	if (!ps_random(worker->binding.nonce, sizeof(worker->binding.nonce))) {
		conn->is_gone = true;
		return;
	}
	memcpy(message.nonce, worker->binding.nonce, sizeof(message.nonce));
	memcpy(message.row, hosted->row, table->shape.window * sizeof(uint64_t));
	ps_conn_hold(conn, table, &message);
	ps_serve_map(hosted, conn);
	if (table->map.keys && hosted->has_switch)
		ps_serve_switch(server, hosted, conn->worker);
}
