/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summed.c - who sums a table's hot keys, and the datagrams of both sides. The switch of a generation is at an
 * aggregator (aggregator.c), or a table of the engine inside, to which the server speaks over its own socket, as to
 * any other.
 */
#include <errno.h>
#include <string.h>

#include "core/shared/rto.h"
#include "ps/internal.h"

enum { INDICES = 4096 }; /* of tables and switches: R-KV-7 */
_Static_assert(PS_TABLES_MAX < INDICES / 2, "there are more indices than tables");

static uint16_t index_new(struct ps_server *server)
{
	do {
		if (++server->index_next >= INDICES || server->index_next < PS_TABLES_MAX)
			server->index_next = PS_TABLES_MAX;
	} while (engine_sparse_state(server->engine, server->index_next));
	return server->index_next;
}

/* Nonces of the workers, then one that nobody has: the server is bound without. */
static int summed_add(struct ps_server *server, struct ps_hosted *hosted, uint16_t index,
		      uint64_t instance)
{
	uint8_t nonces[SWITCH_CHILDREN_MAX + 1][WIRE_NONCE_BYTES];
	uint16_t workers = hosted->table->shape.workers;
	struct engine_sparse_table table = {
		.shape = hosted->table->shape,
		.instance = instance,
		.pairs_max = hosted->options.pairs_max,
		.age_ns = hosted->options.age_us * 1000,
		.nonces = nonces,
	};
	int error;

	if (!ps_random(nonces, (workers + 1ul) * WIRE_NONCE_BYTES))
		return -EIO;
	for (uint16_t i = 0; i < workers; i++)
		memcpy(hosted->worker[i].nonce, nonces[i], sizeof(nonces[i]));
	table.shape.index = index;
	error = engine_sparse_add(server->engine, &table);
	if (!error)
		engine_sparse_bind(server->engine, index, SPARSE_SERVER, &server->self);
	return error;
}

void ps_aggregator_drop(struct ps_hosted *hosted)
{
	table_client_close(hosted->candidate);
	table_client_close(hosted->client);
	hosted->candidate = NULL;
	hosted->client = NULL;
	hosted->is_knocking = false;
}

void ps_summed_drop(struct ps_server *server, struct ps_hosted *hosted)
{
	ps_aggregator_drop(hosted);
	if (hosted->is_inside)
		engine_sparse_remove(server->engine, hosted->index);
	hosted->is_inside = false;
	hosted->has_switch = false;
	hosted->tired = (struct ps_tired){ 0 };
	hosted->drain_ns = 0;
}

bool ps_summed_is_drained(struct ps_server *server, struct ps_hosted *hosted)
{
	struct home_sparse *home = hosted->table->home;
	uint64_t now_ns = ps_now(server);

	if (!hosted->has_switch || !hosted->table->map.keys)
		return true;
	hosted->is_drain_asked = true;
	if (!hosted->drain_ns) {
		hosted->drain_ns = now_ns;
		home_sparse_drain(home);
	}
	if (server_sparse_is_drained(home_sparse_server(home)))
		return true;
	if (now_ns - hosted->drain_ns < server->options.drain_ns)
		return false;
	ps_log(server, PS_WARN, ps_about(hosted, NULL),
	       "what its switch has did not come in %llu ms: workers push it again",
	       (unsigned long long)(server->options.drain_ns / 1000000));
	return true;
}

/* When whoever waits is to be asked again; nobody does any more: the next drain is another one. */
static uint64_t drain_due(struct ps_server *server, struct ps_hosted *hosted)
{
	bool is_asked = hosted->is_drain_asked;

	hosted->is_drain_asked = false;
	if (!is_asked)
		hosted->drain_ns = 0;
	if (!hosted->drain_ns)
		return UINT64_MAX;
	return server_sparse_is_drained(home_sparse_server(hosted->table->home))
		       ? ps_now(server)
		       : hosted->drain_ns + server->options.drain_ns;
}

void ps_summed_install(struct ps_server *server, struct ps_hosted *hosted, uint64_t instance,
		       uint16_t index, const struct link_address *at, const char *where)
{
	uint64_t generation = home_sparse_server(hosted->table->home)->generation;

	hosted->has_switch = true;
	hosted->parts = 0;
	hosted->taken_ns = ps_now(server);
	hosted->index = index;
	hosted->at_switch = *at;
	home_sparse_instance(hosted->table->home, instance, index, at);
	if (hosted->is_inside)
		engine_sparse_name(server->engine, index, generation);
	else
		table_client_name(hosted->client, generation);
	ps_log(server, PS_INFO, ps_about(hosted, NULL), "generation %llu is summed %s, as table %u",
	       (unsigned long long)sparse_fences(generation), where, index);
	for (uint16_t i = 0; i < hosted->table->shape.workers && hosted->table->map.keys; i++)
		if (hosted->worker[i].conn)
			ps_serve_switch(server, hosted, i);
}

void ps_summed_inside(struct ps_server *server, struct ps_hosted *hosted)
{
	uint64_t instance;
	uint16_t index = index_new(server);
	int error = -EIO;

	if (ps_random(&instance, sizeof(instance)))
		error = summed_add(server, hosted, index, instance | 1);
	if (error && error != hosted->no_room)
		ps_log(server, PS_ERROR, ps_about(hosted, NULL),
		       "no switch for its %u hot keys: %s: nothing hot is summed, until "
		       "there is",
		       hosted->table->map.keys, strerror(-error));
	hosted->no_room = error;
	if (error)
		return; /* ps_aggregator_turn tries again */
	hosted->is_inside = true;
	ps_summed_install(server, hosted, instance | 1, index, &server->self, "here");
}

/* ---- datagrams ---- */

/* R-KV-7: of a table's number it is for the server, of a switch's index for that. */
static void hello_serve(struct ps_server *server, const struct link_address *peer,
			const struct wire *hello, const uint8_t *nonce)
{
	struct ps_hosted *hosted;
	struct ps_worker *worker;

	if (hello->job >= server->hosted_count) {
		engine_sparse_hello(server->engine, peer, hello, nonce);
		return;
	}
	hosted = &server->hosted[hello->job];
	if (hello->child >= hosted->table->shape.workers)
		return;
	worker = &hosted->worker[hello->child];
	/* Whoever has not opened the table has no nonce. */
	if (!worker->conn || !binding_hello(&worker->binding, peer, hello->seq, nonce)) {
		hosted->nonces_wrong++;
		return;
	}
	home_sparse_worker(hosted->table->home, hello->child, peer);
	binding_welcome(hello, peer, outbox_put(&server->outbox, peer, wire_bytes(hello->lanes)));
}

/* R-KV-7: an aggregator's answer. Only of who knocks there with this index is it known that nobody else waits for it. */
static void welcome_serve(struct ps_server *server, const struct link_address *peer,
			  const struct wire *welcome, const uint8_t *at, uint32_t bytes)
{
	struct ps_hosted *named = NULL;
	bool is_taken = false;

	for (uint32_t i = 0; i < server->hosted_count; i++) {
		struct ps_hosted *hosted = &server->hosted[i];

		if (!hosted->is_knocking)
			continue;
		is_taken |= knock_serve(&hosted->knock, peer, at, bytes);
		if (hosted->knock.index == welcome->job && welcome->child == SPARSE_SERVER)
			named = hosted;
	}
	if (is_taken || !named)
		return;
	if (link_address_equal(peer, &named->knock.at_switch))
		named->nonces_wrong++;
	else
		named->addresses_wrong++;
}

/* What the workers and the server say to a switch; all else is for the server. */
static bool is_for_switch(uint8_t kind)
{
	return kind == SPARSE_PUSH || kind == SPARSE_ASK || kind == SPARSE_FLIP ||
	       kind == SPARSE_COMMITTED || kind == SPARSE_BCAST || kind == SPARSE_SETUP ||
	       kind == SPARSE_HAVE;
}

static void sparse_serve(struct ps_server *server, const struct link_address *peer,
			 const uint8_t *at, uint32_t bytes)
{
	struct sparse packet;

	if (sparse_check(at, bytes, &packet) != WIRE_OK || is_for_switch(packet.kind)) {
		engine_sparse_serve(server->engine, peer, at, bytes);
		return;
	}
	for (uint32_t i = 0; i < server->hosted_count; i++) {
		struct ps_hosted *hosted = &server->hosted[i];
		bool is_part = sparse_is_flush(packet.kind) || packet.kind == SPARSE_CUT;

		if (!hosted->has_switch || hosted->index != packet.table)
			continue;
		hosted->parts += is_part && link_address_equal(&hosted->at_switch, peer);
		/* Parts of an epoch that could not be recorded come again. */
		if (!is_part || !ps_table_is_stuck(hosted->table))
			home_sparse_serve(hosted->table->home, peer, at, bytes);
	}
}

void ps_summed_serve(struct ps_server *server, const struct link_address *peer, const uint8_t *at,
		     uint32_t bytes)
{
	struct wire packet;

	if (bytes && at[0] == SPARSE_FIRST_BYTE)
		sparse_serve(server, peer, at, bytes);
	else if (wire_check(at, bytes, &packet) != WIRE_OK)
		return;
	else if (packet.type == WIRE_HELLO)
		hello_serve(server, peer, &packet, at + WIRE_HEADER_BYTES);
	else if (packet.type == WIRE_WELCOME)
		welcome_serve(server, peer, &packet, at, bytes);
}

uint64_t ps_summed_turn(struct ps_server *server)
{
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; i < server->hosted_count; i++) {
		struct ps_hosted *hosted = &server->hosted[i];

		due_ns = rto_least(due_ns, drain_due(server, hosted));
		due_ns = rto_least(due_ns, home_sparse_turn(hosted->table->home));
	}
	outbox_flush(&server->outbox);
	return rto_least(due_ns, engine_sparse_turn(server->engine));
}
