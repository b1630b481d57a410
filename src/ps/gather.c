/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - a restart without a log: what the workers had been told, and what of that is lost. docs/protocol.md, R-SP-33. */
#include <inttypes.h>

#include "ps/internal.h"

void ps_gather_begin(struct ps_server *server, struct ps_hosted *hosted)
{
	struct ps_table *table = hosted->table;

	home_sparse_gather(table->home, table->map.version);
	ps_step(server, hosted, NULL,
		&(struct server_kv_event){ .type = SERVER_KV_GATHER_IT, .now_ns = ps_now(server) });
	if (table->ended)
		ps_log(server, PS_WARN, ps_about(hosted, NULL),
		       "%u workers have left since the checkpoint, or begun anew: what "
		       "they had pushed after it is lost, and nobody is left to say how much",
		       table->ended);
	if (server_of(hosted)->unreported)
		ps_log(server, PS_WARN, ps_about(hosted, NULL),
		       "it was restarted from its checkpoint: nothing hot is summed "
		       "until %u workers have said what they know",
		       server_of(hosted)->unreported);
	ps_gather_turn(server, hosted);
}

void ps_gather_report(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		      const struct kv_message *said)
{
	uint64_t lost = server_of(hosted)->lost, generation = server_of(hosted)->generation;
	const char *name = hosted->options.table.name;

	if (said->window != hosted->table->shape.window ||
	    !home_sparse_report(hosted->table->home, conn->worker, conn->incarnation, said->number,
				said->row)) {
		char why[PS_ERROR_MAX] = "";

		(void)ps_table_spend(hosted->table, 1, why);
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_MESSAGE,
				"table %s: the report of %s cannot be, or not now%s%.300s", name,
				conn->who, *why ? ": " : "", why);
		return;
	}
	lost = server_of(hosted)->lost - lost;
	ps_log(server, lost ? PS_WARN : PS_INFO, ps_about(hosted, conn),
	       "%" PRIu64 " pushes and batches of %s are lost: they came after the "
	       "checkpoint",
	       lost, conn->who);
	if (server_of(hosted)->generation == generation)
		ps_gather_turn(server, hosted);
	else /* nobody had waited for it: the others have a switch already */
		ps_summed_begin(server, hosted);
}

/* What was lost once is not to be lost again, in another restart from the same checkpoint: so there is a new one. */
static void checkpoint(struct ps_server *server, struct ps_hosted *hosted)
{
	char error[PS_ERROR_MAX];

	hosted->saved_ns = ps_now(server);
	if ((server_of(hosted)->lost || hosted->table->ended) &&
	    ps_table_checkpoint(hosted->table, error))
		ps_log(server, PS_ERROR, ps_about(hosted, NULL), "%s", error);
}

void ps_gather_turn(struct ps_server *server, struct ps_hosted *hosted)
{
	const struct server_kv_actions *actions;

	if (!hosted->table->kv.is_gathering)
		return;
	actions = ps_step(server, hosted, NULL,
			  &(struct server_kv_event){ .type = SERVER_KV_GATHERED,
						     .now_ns = ps_now(server) });
	for (uint32_t i = 0; i < actions->count; i++)
		ps_log(server, PS_WARN,
		       (struct ps_about){ hosted->options.table.name, NULL,
					  actions->list[i].worker },
		       "worker %u has not come back: the others go on without it",
		       actions->list[i].worker);
	if (hosted->table->kv.is_gathering)
		return;
	ps_summed_begin(server, hosted);
	checkpoint(server, hosted);
}
