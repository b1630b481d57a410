/* SPDX-License-Identifier: Apache-2.0 */
/* candidate.c - an aggregator that is asked for a table's switch, while the table is summed elsewhere, or nowhere; once it
 * has granted the table, a generation begins with it. docs/protocol.md, R-SP-26 and R-CT-28. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ps/internal.h"

static const uint64_t open_ns = 1000000000; /* to connect, and for the grant */
static const uint64_t again_ns =
	1000000000; /* when all have refused: the one inside sums meanwhile */
static const uint64_t beat_ns = 20000000;

static int ask(struct ps_server *server, struct ps_hosted *hosted, uint32_t which)
{
	const struct sparse_table *shape = &hosted->table->shape;
	struct table_client_options options = {
		.address = server->aggregator[which],
		.open = { .workers = shape->workers,
			  .window = shape->window,
			  .dim = shape->dim,
			  .bytes = shape->bytes,
			  .values = shape->values,
			  .ranks = shape->ranks,
			  .pid = (uint32_t)getpid(),
			  .pairs_max = hosted->options.pairs_max,
			  .age_us = hosted->options.age_us },
		.open_ns = open_ns,
		.beat_ns = beat_ns,
		.silence_ns = server->options.silence_ns,
	};

	snprintf(options.open.job, sizeof(options.open.job), "%.200s",
		 *server->options.job ? server->options.job : "any");
	snprintf(options.open.table, sizeof(options.open.table), "%s", hosted->options.table.name);
	snprintf(options.open.key, sizeof(options.open.key), "%s", server->options.key);
	gethostname(options.open.host, sizeof(options.open.host) - 1);
	return table_client_open(&hosted->candidate, &options, ps_now(server));
}

void ps_aggregator_ask(struct ps_server *server, struct ps_hosted *hosted)
{
	uint32_t count = server->options.aggregator_count;
	bool is_nowhere = !hosted->has_switch && hosted->no_room;

	while (hosted->tried < count) {
		hosted->asked = (hosted->first + hosted->tried++) % count;
		hosted->is_early = ps_now(server) < server->closed[hosted->asked].until_ns;
		if ((!hosted->is_early || is_nowhere) && !ask(server, hosted, hosted->asked))
			return;
	}
	hosted->again_ns = ps_now(server) + again_ns;
	if (!hosted->has_switch)
		ps_summed_inside(server, hosted);
}

bool ps_candidate_may_change(const struct ps_hosted *hosted)
{
	return server_of(hosted)->is_fenced ||
	       (hosted->has_switch && !server_sparse_is_spent(server_of(hosted)));
}

/* It has granted the table: this generation's switch, or the next one's. */
static void take(struct ps_server *server, struct ps_hosted *hosted)
{
	struct table_client *client = hosted->candidate;
	const struct control_table_grant *grant = table_client_grant(client);
	struct sparse_table shape = hosted->table->shape;
	struct link_address at = { .port = grant->port };

	hosted->candidate = NULL;
	if (!server_of(hosted)->is_fenced)
		home_sparse_fence(hosted->table->home, hosted->table->map.version);
	ps_summed_drop(server, hosted);
	hosted->client = client;
	hosted->which = hosted->asked;
	hosted->registers = grant->registers;
	memcpy(at.ip, grant->ip, sizeof(at.ip));
	shape.index = grant->index;
	for (uint16_t i = 0; i < shape.workers; i++)
		memcpy(hosted->worker[i].nonce, grant->nonces[i], KV_NONCE_BYTES);
	knock_begin(&hosted->knock, &shape, SPARSE_SERVER, &at, grant->nonces[shape.workers]);
	hosted->is_knocking = true;
	hosted->first = hosted->asked;
	ps_summed_install(server, hosted, grant->instance, grant->index, &at,
			  server->aggregator[hosted->asked].text);
}

void ps_candidate_turn(struct ps_server *server, struct ps_hosted *hosted, uint64_t now_ns)
{
	switch (table_client_turn(hosted->candidate, now_ns)) {
	case TABLE_CLIENT_OPENING:
		break;
	case TABLE_CLIENT_LIVE:
		if (!ps_candidate_may_change(hosted)) {
			table_client_close(hosted->candidate);
			hosted->candidate = NULL;
		} else if (ps_summed_is_drained(server, hosted)) {
			take(server, hosted);
		}
		break;
	case TABLE_CLIENT_ENDED:
		ps_log(server, hosted->has_switch ? PS_DEBUG : PS_WARN, ps_about(hosted, NULL),
		       "no switch of it: %.700s", table_client_text(hosted->candidate));
		table_client_close(hosted->candidate);
		hosted->candidate = NULL;
		ps_aggregator_ask(server, hosted);
		break;
	}
}
