/* SPDX-License-Identifier: Apache-2.0 */
/* tables_disk.c - the disk of a server of simulated tables of keys: it takes its time, may be full, and messages wait for
 * it. */
#include "sim/tables_world.h"

enum server_kv_disk tables_disk(const struct tables_world *world, uint32_t s)
{
	return world->now_ns < world->server[s].full_ns ? SERVER_KV_TROUBLED : SERVER_KV_WELL;
}

/* One write at a time, of all that there is by then; on a full disk it is tried until there is room. */
static void sync_begin(struct tables_world *world, uint32_t s)
{
	struct tables_server *server = &world->server[s];
	uint64_t ns = rng_log(&world->rng, 1000, world->scenario->disk_ns);

	if (server->is_syncing || server->durable == server->records)
		return;
	server->is_syncing = true;
	if (tables_disk(world, s) != SERVER_KV_WELL)
		ns += server->full_ns - world->now_ns;
	tables_event_in(world, ns,
			(struct tables_event){ .what = TABLES_SYNCED,
					       .whom = s,
					       .life = server->life,
					       .number = server->records });
}

void tables_record(struct tables_world *world, uint32_t s, struct tables_record what)
{
	struct tables_server *server = &world->server[s];

	if (server->records == TABLES_RECORDS) {
		tables_fail(world, "there is no end of records");
		return;
	}
	tables_trace(world, "server %u: record %u: kind %d, process or worker %u, number %llu", s,
		     server->records, (int)what.kind, what.process,
		     (unsigned long long)what.number);
	tables_record_judge(world, s, &what);
	tables_book_take(world, &server->book, &what);
	server->record[server->records++] = what;
	sync_begin(world, s);
	tables_progress(world);
}

/* What rests on a record leaves when the disk has it (R-SP-27). */
void tables_hold(struct tables_world *world, struct tables_conn *conn,
		 struct tables_message message)
{
	struct tables_server *server = &world->server[conn->server];

	if (server->durable == server->records) {
		tables_down(world, (uint32_t)(conn - world->conn), message);
		return;
	}
	if (server->held_count == TABLES_RECORDS) {
		tables_fail(world, "there is no end of answers");
		return;
	}
	server->held[server->held_count++] = (struct tables_held){
		.message = message, .conn = (uint32_t)(conn - world->conn), .gate = server->records
	};
}

static void release(struct tables_world *world, struct tables_server *server)
{
	for (; server->held_first < server->held_count; server->held_first++) {
		const struct tables_held *held = &server->held[server->held_first];
		struct tables_conn *conn = &world->conn[held->conn];

		if (held->gate > server->durable)
			return;
		if (!conn->far || conn->is_ending)
			continue;
		tables_down(world, held->conn, held->message);
		conn->is_ending |= held->message.type == TABLES_LEAVE;
	}
	server->held_first = server->held_count = 0;
}

void tables_server_synced(struct tables_world *world, uint32_t s, uint64_t records)
{
	struct tables_server *server = &world->server[s];

	server->is_syncing = false;
	for (; server->durable < records; server->durable++)
		tables_book_take(world, &server->disk, &server->record[server->durable]);
	release(world, server);
	sync_begin(world, s);
	tables_progress(world);
}

void tables_replay(struct tables_world *world, uint32_t s)
{
	struct tables_server *server = &world->server[s];

	for (uint32_t i = 0; i < server->durable; i++) {
		const struct tables_record *it = &server->record[i];

		if (it->kind == TABLES_JOINED)
			server_kv_replay(&server->kv, SERVER_KV_JOINED, it->sparse.worker);
		if (it->kind == TABLES_FENCED || it->kind == TABLES_JOINED || it->kind == TABLES_IN)
			server_sparse_replay(&server->sparse, &it->sparse, NULL);
		if (it->kind == TABLES_HAS_LEFT)
			server_kv_replay(&server->kv, SERVER_KV_HAS_LEFT, it->process);
		if (it->kind == TABLES_PASSED)
			server_kv_replay(&server->kv, SERVER_KV_PASSED, it->number);
		if (it->kind == TABLES_VOIDED)
			server_kv_replay(&server->kv, SERVER_KV_VOIDED, 0);
	}
	server->records = server->durable;
	server->book = server->disk;
	for (uint32_t i = 0; i < world->scenario->workers; i++)
		server->came[i] = (struct tables_came){ .gone_ns = tables_book_has(&server->disk, i)
									   ? world->now_ns
									   : 0 };
}
