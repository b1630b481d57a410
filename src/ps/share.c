/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - which of how many servers of its table this is, and whether a worker's list says the same. docs/protocol.md, R-KV-22. */
#include <stdio.h>
#include <string.h>

#include "ps/internal.h"

static const uint8_t none[KV_IDENTITY_BYTES];

static void job_refuse(struct ps_server *server, struct ps_conn *conn,
		       const struct kv_message *open, const struct ps_conn *other)
{
	char name[PS_NAMED_BYTES];

	ps_serve_refuse(server, conn, open, KV_REFUSED_MISMATCH,
			"table %s: %s is of job %.120s; %s, which is here, is of %s%.120s: a "
			"tally-ps has the workers of one job at a time: end that job, or "
			"start a tally-ps for each, or give both the same TALLY_JOB",
			open->name, conn->who, conn->job, ps_serve_name(server, other, name),
			*server->options.key ? "job " : "another job",
			*server->options.key ? other->job : "");
}

/* Their job is one, so the asker knows its name. */
static void program_refuse(struct ps_server *server, struct ps_conn *conn,
			   const struct kv_message *open, const struct ps_conn *other)
{
	char name[PS_NAMED_BYTES];

	ps_serve_refuse(server, conn, open, KV_REFUSED_MISMATCH,
			"table %s: %s and %s, which is here, are of one launch (job %.80s), but of "
			"two command lines: give each program its own TALLY_JOB, and a tally-ps "
			"each, or, if they are to share the tables, both the same TALLY_JOB",
			open->name, conn->who, ps_serve_name(server, other, name), conn->job);
}

bool ps_share_other_job(struct ps_server *server, struct ps_conn *conn,
			const struct kv_message *open)
{
	for (uint32_t i = 0; i < server->conn_count; i++) {
		const struct ps_conn *other = server->conn[i];

		if (other == conn || !other->has_table || other->is_ending || other->is_gone)
			continue;
		if (strcmp(other->job, conn->job) != 0) {
			job_refuse(server, conn, open, other);
			return true;
		}
		if (open->program && other->program && open->program != other->program) {
			program_refuse(server, conn, open, other);
			return true;
		}
	}
	return false;
}

static void place_refuse(struct ps_server *server, const struct ps_hosted *hosted,
			 struct ps_conn *conn, const struct kv_message *open,
			 const struct ps_conn *other)
{
	const struct server_kv_share *has = &hosted->table->share;
	char name[PS_NAMED_BYTES];

	ps_serve_refuse(
		server, conn, open, KV_REFUSED_MISMATCH,
		"table %s: in the list of servers (TALLY_SERVERS) of %s this is number %u of %u; "
		"%s%s it was number %u of %u: all workers, always, list the same servers in the "
		"same order, each once, and each server keeps its own folder",
		open->name, conn->who, open->server + 1, open->servers,
		other ? "in that of " : "when the table was made",
		other ? ps_serve_name(server, other, name) : "", has->index + 1, has->count);
}

static void list_refuse(struct ps_server *server, struct ps_conn *conn,
			const struct kv_message *open, const struct ps_conn *other)
{
	char name[PS_NAMED_BYTES];

	ps_serve_refuse(
		server, conn, open, KV_REFUSED_MISMATCH,
		"table %s: of the servers 2 to %u in the list (TALLY_SERVERS) of %s one is another "
		"than %s%s, or has another folder (--adopt 0/%u at server 1: these are it from now "
		"on)",
		open->name, open->servers, conn->who,
		other ? "those of " : "those that the table was made with",
		other ? ps_serve_name(server, other, name) : "", open->servers);
}

static void nothing_refuse(struct ps_server *server, struct ps_conn *conn,
			   const struct kv_message *open)
{
	ps_serve_refuse(server, conn, open, KV_REFUSED_MISMATCH,
			"table %s: this server, number %u of %u, has nothing of it, and "
			"others have: its folder is gone, or is another one, or it kept "
			"nothing (durability=none): bring the folder back, or begin anew "
			"on all servers (--adopt %u/%u: go on without what was here)",
			open->name, open->server + 1, open->servers, open->server, open->servers);
}

static enum server_kv_share_verdict judge(const struct ps_hosted *hosted,
					  const struct kv_message *open, bool is_here)
{
	const struct hot_map *map = &hosted->table->map;
	struct server_kv_share said = { .index = open->server,
					.count = open->servers,
					.is_used = open->is_used };

	memcpy(said.identity, open->identity, sizeof(said.identity));
	memcpy(said.list, open->own, sizeof(said.list));
	return server_kv_share_judge(&hosted->table->share, &said, is_here, map->key, map->keys);
}

bool ps_share_refuse(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct kv_message *open)
{
	uint16_t here =
		server_kv_is_here(&hosted->table->kv, conn->worker, conn->link, conn->incarnation);
	bool is_here = here < hosted->table->shape.workers;
	const struct ps_conn *other = is_here ? hosted->worker[here].conn : NULL;

	switch (judge(hosted, open, is_here)) {
	case SERVER_KV_SHARE_FITS:
		return false;
	case SERVER_KV_SHARE_NOTHING:
		nothing_refuse(server, conn, open);
		break;
	case SERVER_KV_SHARE_PLACE:
		place_refuse(server, hosted, conn, open, other);
		break;
	case SERVER_KV_SHARE_MAP:
		ps_serve_refuse(server, conn, open, KV_REFUSED_MISMATCH,
				"table %s: the %u keys of its map are all of another server than "
				"this, number %u of %u: the map (map=) was made for that one",
				open->name, hosted->table->map.keys, open->server + 1,
				open->servers);
		break;
	case SERVER_KV_SHARE_LIST:
		list_refuse(server, conn, open, other);
		break;
	case SERVER_KV_SHARE_IDENTITY:
		ps_serve_refuse(server, conn, open, KV_REFUSED_MISMATCH,
				"table %s: what is here is of another table of this name than what "
				"the first server of %s has: their folders were not made together",
				open->name, conn->who);
		break;
	}
	return true;
}

bool ps_share_take(struct ps_hosted *hosted, const struct kv_message *open)
{
	struct server_kv_share share = hosted->table->share;
	bool is_mine = share.count == open->servers && share.index == open->server;
	bool is_new = !is_mine || !share.is_known;

	if (memcmp(open->identity, none, sizeof(none)) != 0) {
		is_new |= memcmp(open->identity, share.identity, sizeof(none)) != 0;
		memcpy(share.identity, open->identity, sizeof(none));
	} else if (is_new && !ps_random(share.identity, sizeof(share.identity))) {
		return false;
	}
	if (!memcmp(share.own, none, sizeof(none))) {
		is_new = true;
		if (!ps_random(share.own, sizeof(share.own)))
			return false;
	}
	if (!is_mine)
		memset(share.list, 0, sizeof(share.list));
	if (!open->server && memcmp(open->own, none, sizeof(none)) != 0) {
		is_new |= memcmp(open->own, share.list, sizeof(none)) != 0;
		memcpy(share.list, open->own, sizeof(share.list));
	}
	share.index = open->server;
	share.count = open->servers;
	share.is_known = true;
	if (is_new)
		ps_table_share(hosted->table, &share);
	/* From here on it may push to the others, of which this one hears nothing. */
	if (!open->server && memcmp(open->own, none, sizeof(none)) != 0)
		ps_table_use(hosted->table);
	return true;
}

int ps_share_adopt(struct ps_server *server, struct ps_hosted *hosted, char error[PS_ERROR_MAX])
{
	const struct ps_server_options *options = &server->options;
	const char *name = hosted->options.table.name;
	struct server_kv_share has = hosted->table->share, share = { .index = options->adopt_index,
								     .count = options->adopt_count,
								     .is_used = true };

	if (!share.count) {
		if (has.count || !ps_table_is_joined(hosted->table))
			return 0;
		return ps_fail(
			error,
			"table %s: its folder does not say which of how many servers it is of, "
			"for an older tally-ps has made it: start it once with --adopt 0/1 if it "
			"is the only one, else with its place in the workers' list, from 0, and "
			"their number: --adopt INDEX/COUNT",
			name);
	}
	if (has.is_used) {
		if (has.index == share.index && has.count == share.count) {
			memset(has.list, 0, sizeof(has.list));
			ps_table_share(hosted->table, &has);
			return 0;
		}
		return ps_fail(
			error,
			"table %s: --adopt %u/%u: its folder is that of number %u of %u servers "
			"(%u/%u), and stays it",
			name, share.index, share.count, has.index + 1, has.count, has.index,
			has.count);
	}
	/* The first one's is the table's; the others take that one from the first worker. */
	share.is_known = !share.index;
	if (share.is_known && !ps_random(share.identity, sizeof(share.identity)))
		return ps_fail(error, "table %s: the kernel has no random bytes", name);
	ps_table_share(hosted->table, &share);
	ps_log(server, PS_WARN, ps_about(hosted, NULL),
	       "adopted as that of number %u of %u servers", share.index + 1, share.count);
	return 0;
}
