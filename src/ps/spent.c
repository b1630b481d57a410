/* SPDX-License-Identifier: Apache-2.0 */
/* spent.c - a table that has few generations left, or none: docs/protocol.md, R-SP-1. */
#include "ps/internal.h"

enum { SPENT_AT_ONCE = 65536 }; /* 256 short runs of all workers that there may be */

static const uint64_t SPENT_EACH_NS = 1000000000;

void ps_spent_say(struct ps_server *server, const struct ps_hosted *hosted)
{
	char why[PS_ERROR_MAX];

	if (!server_sparse_is_spent(home_sparse_server(hosted->table->home)))
		return;
	ps_table_spent(hosted->table, why);
	ps_log_stranger(server, ps_about(hosted, NULL), "%s", why);
}

/* In place of another, and its OPEN begins a generation. */
static bool is_in_place(const struct ps_hosted *hosted, const struct ps_conn *conn)
{
	const struct server_sparse *state = home_sparse_server(hosted->table->home);

	return conn->incarnation > state->memory.worker[conn->worker].incarnation &&
	       server_sparse_is_replaced(state, conn->worker);
}

/* R-KV-6: at one a second, they last for half a year. */
static bool is_too_soon(const struct ps_server *server, const struct ps_hosted *hosted)
{
	return hosted->spends_ns > ps_now(server) + SPENT_AT_ONCE * SPENT_EACH_NS;
}

void ps_spent_join(const struct ps_server *server, struct ps_hosted *hosted,
		   const struct ps_conn *conn)
{
	uint64_t now_ns = ps_now(server);

	if (!is_in_place(hosted, conn))
		return;
	if (hosted->spends_ns < now_ns)
		hosted->spends_ns = now_ns;
	hosted->spends_ns += SPENT_EACH_NS;
}

bool ps_spent_refuse(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct kv_message *open)
{
	const struct server_sparse *state = home_sparse_server(hosted->table->home);
	char why[PS_ERROR_MAX];

	if (!is_in_place(hosted, conn))
		return false;
	/* As long as it can be borne: who pulls its rows has to come first. */
	if (sparse_fences_left(state->generation) > SPARSE_FENCES_LAST) {
		if (!is_too_soon(server, hosted))
			return false;
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_BUSY,
				"table %s: workers come in place of others too fast: one a second "
				"may, after %u at once: come again",
				hosted->options.table.name, SPENT_AT_ONCE);
		return true;
	}
	ps_table_spent(hosted->table, why);
	ps_serve_refuse(server, conn, open, KV_REFUSED_UNSUPPORTED,
			"%.600s: nobody comes in place of worker %u any more", why, conn->worker);
	return true;
}
