/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - barriers, and the steps that they end: docs/protocol.md, R-KV-11 and R-KV-15 to R-KV-17. */
#include <inttypes.h>

#include "ps/internal.h"

/* R-KV-17. The milliseconds: who finds no server tries again once a second (src/kvlib/server.c). */
enum { GONE_HEARTBEATS = 4, GONE_MS = 2000 };

static const uint64_t ms_ns = 1000000;

/* R-KV-11: whoever said the last number that there is would leave none for any worker of the table, for ever. Servers
 * whose folders are not of one age may be so far apart. */
static const uint64_t BARRIERS_AHEAD_MAX = 1ull << 32;

uint64_t ps_steps_grace_ns(const struct ps_server *server)
{
	return (GONE_MS + GONE_HEARTBEATS * (uint64_t)server->options.heartbeat_ms) * ms_ns;
}

void ps_steps_begin(struct ps_server *server, struct ps_hosted *hosted)
{
	for (uint16_t i = 0; i < hosted->table->shape.workers; i++)
		if (ps_table_is_member(hosted->table, i))
			hosted->worker[i].gone_ns = ps_now(server);
}

/* ---- who may take part: R-KV-15, R-KV-16 ---- */

/* Another one that is here, and waits otherwise than this one would; NULL: none. */
static const struct ps_worker *who_differs(const struct ps_hosted *hosted, uint16_t worker,
					   const struct kv_message *open)
{
	for (uint16_t i = 0; i < hosted->table->shape.workers; i++) {
		const struct ps_worker *other = &hosted->worker[i];

		if (i != worker && other->conn &&
		    (other->mode != open->mode || other->staleness != open->staleness))
			return other;
	}
	return NULL;
}

bool ps_steps_refuse(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct kv_message *open)
{
	const struct ps_table *table = hosted->table;
	const struct ps_worker *other = who_differs(hosted, conn->worker, open);
	struct ps_worker *worker = &hosted->worker[conn->worker];
	uint64_t had = home_sparse_server(table->home)->memory.worker[conn->worker].incarnation;
	bool is_sync = open->mode == KV_SYNC;
	char name[PS_NAMED_BYTES];

	if (is_sync != table->options.is_sync) {
		ps_serve_refuse(server, conn, open, KV_REFUSED_MISMATCH,
				"table %s is %s, mode=%s; %s has opened it as %s one", open->name,
				table->options.is_sync ? "synchronous" : "asynchronous",
				table->options.is_sync ? "sync" : "async", conn->who,
				is_sync                    ? "a synchronous"
				: open->mode == KV_BOUNDED ? "a bounded"
							   : "an asynchronous");
	} else if (other) {
		ps_serve_refuse(server, conn, open, KV_REFUSED_MISMATCH,
				"table %s: %s has opened it as %s, staleness %u; %s, which is "
				"here, as %s, staleness %u",
				open->name, conn->who, kv_mode_name(open->mode), open->staleness,
				ps_serve_name(server, other->conn, name), kv_mode_name(other->mode),
				other->staleness);
	} else if (is_sync && conn->incarnation == had &&
		   !ps_table_is_member(table, conn->worker)) {
		ps_serve_refuse(
			server, conn, NULL, KV_REFUSED_SUPERSEDED,
			"table %s: the run of %s is over: it has left, or another worker has "
			"begun anew",
			open->name, conn->who);
	} else {
		worker->mode = open->mode;
		worker->staleness = open->staleness;
		return false;
	}
	return true;
}

static void forget(const struct ps_hosted *hosted, struct ps_worker *worker)
{
	worker->doubt_ns = 0;
	if (worker->barrier > hosted->table->barrier)
		worker->barrier = hosted->table->barrier;
}

/* R-KV-11: a barrier that a dead run's worker has come to must not let the next run through. Who replaces one that has
 * not left may be the first of a new run, and then the connections of the others may be dead too, and not yet seen. */
static void others_doubt(struct ps_server *server, struct ps_hosted *hosted, uint16_t joins)
{
	bool is_replaced = ps_table_is_member(hosted->table, joins);

	for (uint16_t i = 0; i < hosted->table->shape.workers; i++) {
		struct ps_worker *other = &hosted->worker[i];

		if (!other->conn || other->conn->is_gone)
			forget(hosted, other);
		else if (is_replaced && i != joins && other->barrier > hosted->table->barrier)
			other->doubt_ns = ps_now(server);
	}
}

void ps_steps_gone(struct ps_hosted *hosted, uint16_t worker)
{
	if (hosted->worker[worker].doubt_ns)
		forget(hosted, &hosted->worker[worker]);
}

/* R-KV-16: what the dead one has pushed in its step cannot be told from what others have. */
void ps_steps_join(struct ps_server *server, struct ps_hosted *hosted, const struct ps_conn *conn)
{
	struct ps_worker *worker = &hosted->worker[conn->worker];
	char name[PS_NAMED_BYTES];

	worker->barrier = 0;
	worker->answered = 0;
	worker->doubt_ns = 0;
	worker->joined_ns = ps_now(server);
	others_doubt(server, hosted, conn->worker);
	if (!hosted->table->options.is_sync || !ps_table_is_member(hosted->table, conn->worker))
		return;
	ps_table_void(hosted->table);
	for (uint16_t i = 0; i < hosted->table->shape.workers; i++) {
		struct ps_worker *other = &hosted->worker[i];
		struct ps_conn *out = other->conn;

		other->barrier = 0;
		other->doubt_ns = 0;
		other->gone_ns = 0;
		if (i == conn->worker || !out)
			continue;
		other->conn = NULL;
		other->is_waiting = false;
		ps_serve_refuse(server, out, NULL, KV_REFUSED_SUPERSEDED,
				"table %s: %s has begun anew: what all have pushed since step "
				"%" PRIu64 " is dropped, and the run is over",
				hosted->options.table.name, ps_serve_name(server, conn, name),
				hosted->table->barrier);
	}
}

/* ---- barriers ---- */

static void answer(struct ps_hosted *hosted, struct ps_worker *worker)
{
	const struct server_sparse *state = home_sparse_server(hosted->table->home);
	uint64_t passed = hosted->table->barrier;
	struct kv_message message = {
		.type = KV_BARRIER,
		.table = hosted->number,
		.number = worker->barrier < passed ? worker->barrier : passed,
		.generation = state->generation,
		.epoch = state->expected - 1,
	};

	/* Only of a bounded worker several may be unanswered. */
	if (message.number <= worker->answered ||
	    (message.number < worker->barrier && worker->mode != KV_BOUNDED))
		return;
	worker->answered = message.number;
	worker->waits_ns = 0;
	worker->is_waiting = worker->barrier > passed;
	ps_conn_hold(worker->conn, hosted->table, &message);
}

/* The last barrier that it has come to, as far as that counts. */
static uint64_t barrier_of(const struct ps_hosted *hosted, uint16_t worker)
{
	const struct ps_worker *it = &hosted->worker[worker];

	return it->doubt_ns && it->barrier > hosted->table->barrier ? hosted->table->barrier
								    : it->barrier;
}

bool ps_steps_awaits(const struct ps_hosted *hosted, uint16_t worker, uint16_t other)
{
	return barrier_of(hosted, other) < hosted->worker[worker].barrier &&
	       !ps_table_has_left(hosted->table, other, worker);
}

/* The last barrier that all have come to whom this worker waits for. */
static uint64_t common(const struct ps_hosted *hosted, uint16_t worker)
{
	uint64_t least = barrier_of(hosted, worker);

	for (uint16_t i = 0; i < hosted->table->shape.workers; i++)
		if (barrier_of(hosted, i) < least && !ps_table_has_left(hosted->table, i, worker))
			least = barrier_of(hosted, i);
	return least;
}

/* R-KV-11. What was passed is on the disk before anybody is told, for one that asks again after a restart may be the
 * only one that does. */
static void look(struct ps_hosted *hosted)
{
	uint16_t workers = hosted->table->shape.workers;

	for (uint16_t i = 0; i < workers; i++) {
		uint64_t least = hosted->worker[i].is_waiting ? common(hosted, i) : 0;

		if (least > hosted->table->barrier)
			ps_table_barrier(hosted->table, least);
	}
	for (uint16_t i = 0; i < workers; i++)
		if (hosted->worker[i].is_waiting && hosted->worker[i].conn)
			answer(hosted, &hosted->worker[i]);
}

void ps_steps_come(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		   const struct kv_message *said)
{
	struct ps_worker *worker = &hosted->worker[conn->worker];
	uint64_t passed = hosted->table->barrier;

	if (said->number > passed && said->number - passed > BARRIERS_AHEAD_MAX) {
		ps_serve_refuse(server, conn, said, KV_REFUSED_MESSAGE,
				"table %s: barrier %" PRIu64 " is out of reach: the last that was "
				"passed is %" PRIu64 ", and none is more than 2^32 above that",
				hosted->options.table.name, said->number, passed);
		return;
	}
	worker->barrier = said->number;
	if (!worker->is_waiting)
		worker->waits_ns = 0;
	worker->answered = 0;
	worker->doubt_ns = 0;
	worker->is_waiting = true;
	look(hosted);
}

/* R-KV-12: who is there says something every heartbeat. */
static void doubts_look(struct ps_hosted *hosted)
{
	bool is_sure = false;

	for (uint16_t i = 0; i < hosted->table->shape.workers; i++) {
		struct ps_worker *worker = &hosted->worker[i];

		if (!worker->doubt_ns || worker->conn->is_gone ||
		    worker->conn->heard_ns <= worker->doubt_ns)
			continue;
		worker->doubt_ns = 0;
		is_sure = true;
	}
	if (is_sure)
		look(hosted);
}

/* Nobody is left to end the step: what it has is no whole one. */
void ps_steps_left(struct ps_hosted *hosted, uint16_t worker)
{
	struct ps_table *table = hosted->table;

	/* R-KV-13: said again. As news it would be taken by those who came since for a word of their own run. */
	if (!ps_table_is_member(table, worker))
		return;
	ps_table_leave(table, worker);
	look(hosted);
	for (uint16_t i = 0; i < table->shape.workers; i++)
		if (ps_table_is_member(table, i))
			return;
	if (table->stage && stage_count(table->stage))
		ps_table_void(table);
}

/* ---- what they wait for in vain: the disk, R-KV-11; ---- */

/* As a batch is refused: a worker must not wait without a word for a record that cannot be written. */
static void disk_look(struct ps_server *server, struct ps_hosted *hosted)
{
	int trouble = ps_table_trouble(hosted->table);

	for (uint16_t i = 0; i < hosted->table->shape.workers && trouble; i++) {
		struct ps_worker *worker = &hosted->worker[i];
		const struct kv_message what = { .type = KV_BARRIER,
						 .table = hosted->number,
						 .number = worker->barrier };

		if (!worker->conn || worker->conn->is_ending || !worker->is_waiting)
			continue;
		worker->is_waiting = false;
		forget(hosted, worker); /* R-KV-14 */
		ps_serve_trouble(server, hosted, worker->conn, &what, trouble);
	}
}

/* ---- and R-KV-17: whom they wait for in vain ---- */

static bool is_gone(const struct ps_server *server, const struct ps_hosted *hosted, uint16_t other,
		    uint16_t worker)
{
	const struct ps_worker *it = &hosted->worker[other];
	uint64_t grace_ns = ps_steps_grace_ns(server);

	return it->gone_ns && it->gone_ns > hosted->worker[worker].joined_ns &&
	       ps_now(server) > it->gone_ns + grace_ns && it->barrier <= hosted->table->barrier &&
	       !ps_table_has_left(hosted->table, other, worker);
}

void ps_steps_turn(struct ps_server *server, struct ps_hosted *hosted)
{
	uint16_t workers = hosted->table->shape.workers;

	doubts_look(hosted);
	disk_look(server, hosted);
	for (uint16_t i = 0; i < workers; i++) {
		struct ps_worker *worker = &hosted->worker[i];
		const struct kv_message what = { .type = KV_BARRIER,
						 .table = hosted->number,
						 .number = worker->barrier };

		for (uint16_t k = 0;
		     k < workers && worker->conn && worker->is_waiting && worker->mode != KV_ASYNC;
		     k++) {
			if (!is_gone(server, hosted, k, i))
				continue;
			worker->is_waiting = false;
			ps_serve_refuse(server, worker->conn, &what, KV_REFUSED_GONE,
					"table %s: worker %u has gone, %" PRIu64
					" ms ago, and has not ended step %" PRIu64,
					hosted->options.table.name, k,
					(ps_now(server) - hosted->worker[k].gone_ns) / ms_ns,
					hosted->table->barrier + 1);
		}
	}
}
