/* SPDX-License-Identifier: Apache-2.0 */
/* aggregator.c - the switch of a table at an aggregator: watched, and given up. docs/protocol.md, R-SP-26 and R-CT-28 to
 * R-CT-33. candidate.c asks for it. */
#include <inttypes.h>
#include <stdio.h>

#include "core/shared/rto.h"
#include "ps/internal.h"

static const uint64_t closed_ns_max = 300000000000;

/* Would anybody else sum the table? */
static bool has_another(const struct ps_server *server, const struct ps_hosted *hosted)
{
	uint64_t now_ns = ps_now(server);

	for (uint32_t i = 0; i < server->options.aggregator_count; i++)
		if (i != hosted->which && now_ns >= server->closed[i].until_ns)
			return true;
	return engine_sparse_memory_used(server->engine) +
		       engine_sparse_table_bytes(&hosted->table->shape) <=
	       server->options.switch_memory;
}

/* Its control answers, and its datagrams do not come through: each try is a generation in which nothing is summed for
 * as long as the knocking takes. So it is left alone for a while, and each time for longer. */
static bool is_closed(const struct ps_hosted *hosted)
{
	return hosted->is_knocking && !hosted->knock.is_welcome &&
	       hosted->knock.count > KNOCKS_MANY;
}

static void closed_note(struct ps_server *server, const struct ps_hosted *hosted, uint64_t now_ns)
{
	struct ps_closed *closed = &server->closed[hosted->which];

	if (now_ns < closed->until_ns)
		return; /* another table has found it out */
	closed->wait_ns = closed->wait_ns ? rto_least(2 * closed->wait_ns, closed_ns_max)
					  : server->options.closed_ns;
	closed->until_ns = now_ns + closed->wait_ns;
}

/* NULL, or why this switch cannot be the table's any more. */
static const char *why_gone(const struct ps_hosted *hosted, enum table_client_state state)
{
	const struct table_client *client = hosted->client;
	const struct control_table_beat *beat = table_client_beat(client);

	if (state != TABLE_CLIENT_LIVE)
		return table_client_text(client);
	if (beat && (beat->instance != table_client_grant(client)->instance ||
		     (beat->generation && beat->generation != server_of(hosted)->generation)))
		return "it tells of another instance or generation";
	if (is_closed(hosted))
		return hosted->knock.is_short_welcome
			       ? "its datagrams of full size do not come through"
			       : "its datagrams do not come through";
	return NULL;
}

/* It was taken before its time, for nobody else would have the table. */
static bool is_last_resort(const struct ps_server *server, const struct ps_hosted *hosted)
{
	return hosted->is_early && ps_now(server) < server->closed[hosted->which].until_ns;
}

/* R-CT-33: it is drained first, and then left alone for a while, or it would be asked again at once. */
static bool is_left(struct ps_server *server, struct ps_hosted *hosted)
{
	char why[128];

	if (!hosted->tired.is && ps_tired_look(server, hosted, why, sizeof(why)) &&
	    ps_candidate_may_change(hosted) && !is_last_resort(server, hosted) &&
	    has_another(server, hosted)) {
		hosted->tired.is = true;
		ps_log(server, PS_WARN, ps_about(hosted, NULL),
		       "its switch %s is tired: %s: it is drained",
		       server->aggregator[hosted->which].text, why);
	}
	return hosted->tired.is && ps_summed_is_drained(server, hosted);
}

/* R-SP-1: no other switch can ever be told from this one. */
static void end(struct ps_server *server, struct ps_hosted *hosted)
{
	char why[PS_ERROR_MAX];

	ps_table_spent(hosted->table, why);
	ps_log(server, PS_ERROR, ps_about(hosted, NULL), "%.700s: nothing hot is summed any more",
	       why);
	ps_summed_drop(server, hosted);
}

static void client_turn(struct ps_server *server, struct ps_hosted *hosted, uint64_t now_ns)
{
	enum table_client_state state = table_client_turn(hosted->client, now_ns);
	struct ps_closed *closed = &server->closed[hosted->which];
	const char *why = why_gone(hosted, state);

	/* It has summed for as long as it was left alone. */
	if (hosted->knock.is_welcome && now_ns - hosted->taken_ns >= closed->wait_ns)
		closed->wait_ns = 0;
	if (!why && !is_left(server, hosted))
		return;
	if (is_closed(hosted) || hosted->tired.is)
		closed_note(server, hosted, now_ns);
	if (why)
		ps_log(server, PS_WARN, ps_about(hosted, NULL), "its switch has gone: %.700s", why);
	hosted->first = (hosted->first + 1) % server->options.aggregator_count;
	if (home_sparse_fence(hosted->table->home, hosted->table->map.version))
		ps_summed_begin(server, hosted);
	else
		end(server, hosted);
}

uint64_t ps_aggregator_turn(struct ps_server *server, struct ps_hosted *hosted)
{
	uint64_t now_ns = ps_now(server), due_ns = UINT64_MAX;

	if (hosted->table->kv.is_gathering)
		return due_ns; /* nothing may be summed yet */
	if (hosted->candidate)
		ps_candidate_turn(server, hosted, now_ns);
	else if (!hosted->client && now_ns >= hosted->again_ns && ps_candidate_may_change(hosted) &&
		 (!hosted->has_switch ||
		  (server->options.aggregator_count && hosted->table->map.keys))) {
		hosted->tried = 0;
		ps_aggregator_ask(server, hosted);
	}
	if (hosted->client)
		client_turn(server, hosted, now_ns);
	if (hosted->candidate)
		due_ns = rto_least(due_ns, table_client_due(hosted->candidate));
	if (hosted->client)
		due_ns = rto_least(due_ns, table_client_due(hosted->client));
	if (hosted->is_knocking)
		due_ns = rto_least(due_ns, knock_turn(&hosted->knock, &server->outbox, now_ns));
	return due_ns;
}

bool ps_aggregator_poll(const struct ps_hosted *hosted, struct pollfd *fd)
{
	const struct table_client *client = hosted->candidate ? hosted->candidate : hosted->client;

	*fd = (struct pollfd){ .fd = -1 };
	if (!client)
		return false;
	fd->fd = table_client_fd(client);
	fd->events = table_client_events(client);
	return true;
}
