/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - which of how many servers of its table this is, and whether a worker's list says the same. docs/protocol.md, R-KV-22. */
#include <string.h>

#include "core/ablate.h"
#include "ps/internal.h"

static const uint8_t none[KV_IDENTITY_BYTES];

/* Another worker that is here; NULL: none. */
static const struct ps_conn *who_is_here(const struct ps_hosted *hosted, uint16_t worker)
{
	for (uint16_t i = 0; i < hosted->table->shape.workers; i++)
		if (i != worker && hosted->worker[i].conn)
			return hosted->worker[i].conn;
	return NULL;
}

static void place_refuse(struct ps_server *server, const struct ps_hosted *hosted,
			 struct ps_conn *conn, const struct kv_message *open,
			 const struct ps_conn *other)
{
	const struct ps_share *has = &hosted->table->share;

	ps_serve_refuse(
		server, conn, open, KV_REFUSED_MISMATCH,
		"table %s: in the list of servers (TALLY_SERVERS) of %s this is number %u of %u; "
		"%s%s it was number %u of %u: all workers, always, list the same servers in the "
		"same order, each once, and each server keeps its own folder",
		open->name, conn->who, open->server + 1, open->servers,
		other ? "in that of " : "when the table was made", other ? other->who : "",
		has->index + 1, has->count);
}

bool ps_share_refuse(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct kv_message *open)
{
	const struct ps_share *has = &hosted->table->share;
	const struct ps_conn *other = who_is_here(hosted, conn->worker);
	bool is_fixed = has->is_used || other;

	if (TAKEN_OUT(PS_SHARE))
		return false;
	if (!has->count && open->is_used) {
		ps_serve_refuse(server, conn, open, KV_REFUSED_MISMATCH,
				"table %s: this server, number %u of %u, has nothing of it, and "
				"others have: its folder is gone, or is another one, or it kept "
				"nothing (durability=none): bring the folder back, or begin anew "
				"on all servers (--adopt %u/%u: go on without what was here)",
				open->name, open->server + 1, open->servers, open->server,
				open->servers);
		return true;
	}
	if (has->count && (has->index != open->server || has->count != open->servers)) {
		if (is_fixed)
			place_refuse(server, hosted, conn, open, has->is_used ? NULL : other);
		return is_fixed;
	}
	if (!has->is_known || !memcmp(open->identity, none, sizeof(none)) ||
	    !memcmp(open->identity, has->identity, sizeof(none)) || (!is_fixed && !open->is_used))
		return false;
	ps_serve_refuse(server, conn, open, KV_REFUSED_MISMATCH,
			"table %s: what is here is of another table of this name than what the "
			"first server of %s has: their folders were not made together",
			open->name, conn->who);
	return true;
}

bool ps_share_take(struct ps_hosted *hosted, const struct kv_message *open)
{
	struct ps_share share = hosted->table->share;
	bool is_mine = share.count == open->servers && share.index == open->server;
	bool is_new = !is_mine || !share.is_known;

	if (memcmp(open->identity, none, sizeof(none)) != 0) {
		is_new |= memcmp(open->identity, share.identity, sizeof(none)) != 0;
		memcpy(share.identity, open->identity, sizeof(none));
	} else if (is_new && !ps_random(share.identity, sizeof(share.identity))) {
		return false;
	}
	share.index = open->server;
	share.count = open->servers;
	share.is_known = true;
	if (is_new)
		ps_table_share(hosted->table, &share);
	return true;
}
