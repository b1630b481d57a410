/* SPDX-License-Identifier: Apache-2.0 */
/* generation.c - a generation begins: who sums it. docs/protocol.md, R-SP-26. */
#include "ps/internal.h"

void ps_summed_begin(struct ps_server *server, struct ps_hosted *hosted)
{
	ps_summed_drop(server, hosted);
	hosted->tried = 0;
	/* Of no key it takes next to nothing; and the one inside never goes, so it costs no more fences. */
	if (!hosted->table->map.keys ||
	    server_sparse_is_spent(home_sparse_server(hosted->table->home)))
		ps_summed_inside(server, hosted);
	if (hosted->table->map.keys && !hosted->has_switch)
		ps_aggregator_ask(server, hosted);
}

void ps_spent_say(struct ps_server *server, const struct ps_hosted *hosted)
{
	char why[PS_ERROR_MAX];

	if (!server_sparse_is_spent(home_sparse_server(hosted->table->home)))
		return;
	ps_table_spent(hosted->table, why);
	ps_log_stranger(server, ps_about(hosted, NULL), "%s", why);
}
