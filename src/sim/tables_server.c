/* SPDX-License-Identifier: Apache-2.0 */
/* tables_server.c - a server of simulated tables of keys: does what core/kv/server_kv.h says, as src/ps does; server_sparse
 * has batches and incarnations. */
#include "sim/tables_world.h"

#include <stdlib.h>
#include <string.h>

static struct tables_conn *conn_of(struct tables_world *world, uint32_t s, uint32_t worker)
{
	uint32_t its = world->server[s].its[worker];

	return its ? &world->conn[its - 1] : NULL;
}

static uint32_t number_of(const struct tables_world *world, const struct tables_conn *conn)
{
	return (uint32_t)(conn - world->conn);
}

static uint16_t worker_of(const struct tables_world *world, const struct tables_conn *conn)
{
	return (uint16_t)world->process[conn->process].worker;
}

static uint64_t incarnation_of(const struct tables_world *world, const struct tables_conn *conn)
{
	return world->process[conn->process].incarnation;
}

/* ---- what the core asks for ---- */

/* R-KV-14, about 0: the connection ends with it. */
static void end_with(struct tables_world *world, struct tables_conn *conn, uint8_t refusal)
{
	tables_down(world, number_of(world, conn),
		    (struct tables_message){ .type = WORKER_KV_SAYS_ERROR, .refusal = refusal });
	conn->is_ending = true;
}

static void refuse(struct tables_world *world, struct tables_conn *conn, uint8_t refusal)
{
	world->report->refused++;
	tables_down(world, number_of(world, conn),
		    (struct tables_message){ .type = WORKER_KV_SAYS_ERROR, .refusal = refusal });
}

static void join(struct tables_world *world, uint32_t s, const struct tables_conn *conn)
{
	struct tables_server *server = &world->server[s];
	const struct server_sparse_event event = { .type = SERVER_SPARSE_JOINED,
						   .worker = worker_of(world, conn),
						   .random = rng_next(&world->rng),
						   .incarnation = incarnation_of(world, conn) };
	struct server_sparse_actions actions = { .apply = false };

	server_sparse_step(&server->sparse, &event, &actions);
	if (!actions.record)
		tables_fail(world, "server %u refuses worker %u", s, event.worker);
	tables_came_joins(world, s, event.worker);
	tables_record(world, s,
		      (struct tables_record){ .kind = TABLES_JOINED,
					      .process = conn->process,
					      .sparse = actions.what });
	server_kv_replay(&server->kv, SERVER_KV_JOINED, event.worker);
}

static void take(struct tables_world *world, uint32_t s, const struct server_kv_action *action,
		 struct tables_conn *conn)
{
	struct tables_conn *old = conn_of(world, s, action->worker);

	if (old && old != conn)
		tables_came_ends(world, s, action->worker);
	world->server[s].its[action->worker] = number_of(world, conn) + 1;
	tables_came_opens(world, s, action->worker);
	if (action->verdict != SERVER_KV_YES)
		end_with(world, old, WORKER_KV_REFUSED_SUPERSEDED);
}

static void act(struct tables_world *world, uint32_t s, const struct server_kv_action *action,
		struct tables_conn *conn)
{
	struct tables_conn *its = conn_of(world, s, action->worker);

	switch ((enum server_kv_action_type)action->type) {
	case SERVER_KV_DO_PASS:
		tables_record(world, s,
			      (struct tables_record){ .kind = TABLES_PASSED,
						      .number = action->number });
		break;
	case SERVER_KV_DO_LEAVE:
		tables_record(world, s,
			      (struct tables_record){ .kind = TABLES_HAS_LEFT,
						      .process = action->worker });
		break;
	case SERVER_KV_DO_VOID:
		world->report->runs_over++;
		tables_record(world, s, (struct tables_record){ .kind = TABLES_VOIDED });
		break;
	case SERVER_KV_DO_JOIN:
		join(world, s, conn);
		break;
	case SERVER_KV_DO_ANSWER:
		tables_answer_judge(world, s, action->worker, action->number);
		tables_hold(world, its,
			    (struct tables_message){ .type = WORKER_KV_SAYS_BARRIER,
						     .number = action->number });
		break;
	case SERVER_KV_DO_TAKE:
		take(world, s, action, conn);
		break;
	case SERVER_KV_DO_CLOSE:
		if (tables_book_has(&world->server[s].book, action->worker))
			tables_fail(world, "R-KV-16: server %u ends a run that is not over", s);
		world->process[its->process].part[s].was_ended = true;
		tables_came_ends(world, s, action->worker);
		end_with(world, its, WORKER_KV_REFUSED_SUPERSEDED);
		world->server[s].its[action->worker] = 0;
		break;
	case SERVER_KV_DO_REFUSE:
		if (action->verdict == SERVER_KV_HAS_GONE)
			tables_gone_judge(world, s, action->worker, action->other);
		tables_came_refused(world, s, action->worker, action->verdict == SERVER_KV_NO_DISK);
		refuse(world, its,
		       action->verdict == SERVER_KV_HAS_GONE ? TABLES_GONE : TABLES_NO_DISK);
		break;
	case SERVER_KV_DO_MISS:
		tables_fail(world, "server %u misses a report that nobody waits for", s);
		break;
	}
}

static enum server_kv_verdict step(struct tables_world *world, uint32_t s,
				   struct server_kv_event event, struct tables_conn *conn)
{
	static struct server_kv_actions actions;

	event.now_ns = event.now_ns ? event.now_ns : world->now_ns;
	event.disk = tables_disk(world, s);
	server_kv_step(&world->server[s].kv, &event, &actions);
	for (uint32_t i = 0; i < actions.count; i++)
		act(world, s, &actions.list[i], conn);
	return actions.verdict;
}

static void tell(struct tables_world *world, uint32_t s, enum server_kv_event_type type,
		 uint16_t worker)
{
	step(world, s, (struct server_kv_event){ .type = type, .worker = worker }, NULL);
}

/* ---- what it hears ---- */

static enum server_kv_verdict verdict_of(const struct tables_world *world, uint32_t s,
					 const struct server_kv_event *open)
{
	const struct server_kv *kv = &world->server[s].kv;
	enum server_kv_verdict verdict = server_kv_is_due(kv, open);
	uint16_t other;

	return verdict == SERVER_KV_YES ? server_kv_may_open(kv, open, &other) : verdict;
}

static void open_it(struct tables_world *world, struct tables_conn *conn,
		    const struct tables_message *said)
{
	uint32_t s = conn->server;
	struct tables_server *server = &world->server[s];
	const struct server_kv_event open = { .type = SERVER_KV_TO_OPEN,
					      .worker = worker_of(world, conn),
					      .mode = (uint8_t)world->scenario->mode,
					      .staleness = world->scenario->staleness,
					      .link = conn->link,
					      .incarnation = incarnation_of(world, conn),
					      .now_ns = world->now_ns,
					      .wall_ns = world->now_ns };
	struct tables_message opened = { .type = WORKER_KV_SAYS_OPENED };
	enum server_kv_verdict verdict = verdict_of(world, s, &open);

	/* R-KV-13: who is told that its run is over says no LEAVE any more, so the disk has it. It waits, unread. */
	if (verdict == SERVER_KV_OVER && server->durable < server->records) {
		tables_event_in(world, MS,
				(struct tables_event){ .what = TABLES_ARRIVES_UP,
						       .whom = number_of(world, conn),
						       .message = *said });
		return;
	}
	if (verdict != SERVER_KV_YES && verdict != SERVER_KV_DRAIN) {
		end_with(world, conn,
			 verdict == SERVER_KV_LOWER || verdict == SERVER_KV_TAKEN ||
					 verdict == SERVER_KV_OVER
				 ? WORKER_KV_REFUSED_SUPERSEDED
				 : TABLES_MISUSE);
		return;
	}
	opened.is_known = open.incarnation == server->sparse_worker[open.worker].incarnation;
	for (uint16_t i = 0; i < world->scenario->workers; i++)
		if (server->its[i] && conn_of(world, s, i)->is_gone)
			tell(world, s, SERVER_KV_LOST, i);
	step(world, s, open, conn);
	opened.number = server->sparse_worker[open.worker].next;
	opened.barrier = server->kv.barrier;
	opened.generation = server->sparse.generation;
	tables_hold(world, conn, opened);
}

static void batch(struct tables_world *world, struct tables_conn *conn,
		  const struct tables_message *said)
{
	struct tables_server *server = &world->server[conn->server];
	const struct server_sparse_event event = { .type = SERVER_SPARSE_COLD,
						   .worker = worker_of(world, conn),
						   .incarnation = incarnation_of(world, conn),
						   .number = said->number };
	struct server_sparse_actions actions = { .apply = false };

	if (tables_disk(world, conn->server) != SERVER_KV_WELL) {
		refuse(world, conn, TABLES_NO_DISK);
		return;
	}
	server_sparse_step(&server->sparse, &event, &actions);
	if (actions.record)
		tables_record(world, conn->server,
			      (struct tables_record){ .kind = TABLES_IN,
						      .process = conn->process,
						      .number = said->number,
						      .value = said->value,
						      .sparse = actions.what });
	if (actions.refuse)
		end_with(world, conn, TABLES_MISUSE);
	else
		tables_hold(world, conn,
			    (struct tables_message){ .type = WORKER_KV_SAYS_DONE,
						     .number = said->number });
}

static void pull(struct tables_world *world, struct tables_conn *conn,
		 const struct tables_message *said)
{
	if (world->seen_count == world->seen_max) {
		world->seen_max = world->seen_max ? 2 * world->seen_max : 64;
		world->seen =
			tables_need(realloc(world->seen, world->seen_max * sizeof(world->seen[0])));
	}
	memcpy(world->seen[world->seen_count], world->server[conn->server].book.made,
	       sizeof(world->seen[0]));
	tables_hold(world, conn,
		    (struct tables_message){ .type = WORKER_KV_SAYS_PULLED,
					     .number = said->number,
					     .seen = world->seen_count++ });
}

/* R-KV-13. The connection ends behind the answer. */
static void leave(struct tables_world *world, struct tables_conn *conn)
{
	struct tables_server *server = &world->server[conn->server];
	uint64_t staged = 0;

	for (uint32_t p = 0; p < world->processes; p++)
		staged += server->book.in[p] != server->book.made[p] && !server->book.is_dropped[p];
	if (server_kv_has_open(&server->kv, worker_of(world, conn), conn->link))
		step(world, conn->server,
		     (struct server_kv_event){ .type = SERVER_KV_LEAVE,
					       .worker = worker_of(world, conn),
					       .number = staged },
		     conn);
	conn->has_left = true;
	tables_hold(world, conn, (struct tables_message){ .type = TABLES_LEAVE });
	conn->is_ending |= server->durable == server->records;
}

/* About the table, which must be open. */
static void tabled(struct tables_world *world, struct tables_conn *conn,
		   const struct tables_message *said)
{
	uint32_t s = conn->server;
	uint16_t worker = worker_of(world, conn);

	if (!server_kv_has_open(&world->server[s].kv, worker, conn->link)) {
		end_with(world, conn, TABLES_MISUSE);
	} else if (said->type == TABLES_BATCH) {
		batch(world, conn, said);
	} else if (said->type == TABLES_PULL) {
		pull(world, conn, said);
	} else {
		tables_came_says(world, s, worker, said->number,
				 tables_disk(world, s) == SERVER_KV_WELL);
		if (step(world, s,
			 (struct server_kv_event){ .type = SERVER_KV_BARRIER,
						   .worker = worker,
						   .number = said->number },
			 conn) != SERVER_KV_YES)
			refuse(world, conn, TABLES_NO_DISK);
	}
}

static void serve(struct tables_world *world, struct tables_conn *conn,
		  const struct tables_message *said)
{
	switch ((enum tables_type)said->type) {
	case TABLES_HELLO:
		conn->is_welcome = true;
		tables_down(world, number_of(world, conn),
			    (struct tables_message){ .type = WORKER_KV_SAYS_WELCOME });
		break;
	case TABLES_OPEN:
		open_it(world, conn, said);
		break;
	case TABLES_LEAVE:
		leave(world, conn);
		break;
	case TABLES_ALIVE:
		break;
	default:
		tabled(world, conn, said);
	}
}

static void turn_soon(struct tables_world *world, uint32_t s)
{
	tables_event_in(world, rng_log(&world->rng, 1000, TABLES_LATE_NS),
			(struct tables_event){ .what = TABLES_TURNS,
					       .whom = s,
					       .life = world->server[s].life,
					       .number = 1 });
}

void tables_server_hears(struct tables_world *world, uint32_t c, const struct tables_message *said)
{
	struct tables_conn *conn = &world->conn[c];
	struct tables_server *server = &world->server[conn->server];
	uint32_t worker = worker_of(world, conn);

	if (said->type == TABLES_CONNECT && server->is_up) {
		if (c < server->conn_first)
			server->conn_first = c;
		conn->far = true;
		conn->link = ++server->links;
		conn->heard_ns = conn->said_ns = world->now_ns;
		return;
	}
	if (!conn->far) {
		if (server->is_up || !server->is_host_dead)
			tables_down(world, c, (struct tables_message){ .type = TABLES_END });
		return;
	}
	if (said->type == TABLES_END) {
		conn->is_gone = true;
		if (server->its[worker] == c + 1)
			tables_came_lost(world, conn->server, worker);
		turn_soon(world, conn->server);
		return;
	}
	if (conn->is_gone || conn->is_ending || conn->has_left)
		return;
	conn->heard_ns = world->now_ns;
	serve(world, conn, said);
	turn_soon(world, conn->server);
}

/* ---- time ---- */

static void conn_end(struct tables_world *world, struct tables_conn *conn)
{
	uint32_t s = conn->server;
	uint16_t worker = worker_of(world, conn);

	conn->far = false;
	tables_down(world, number_of(world, conn), (struct tables_message){ .type = TABLES_END });
	if (!conn->is_welcome || !server_kv_has_open(&world->server[s].kv, worker, conn->link))
		return;
	tables_came_ends(world, s, worker);
	tell(world, s, SERVER_KV_END, worker);
	world->server[s].its[worker] = 0;
}

/* R-KV-12 */
static void conn_turn(struct tables_world *world, struct tables_conn *conn)
{
	uint64_t beat_ns = world->scenario->heartbeat_ns;

	if (conn->is_welcome && !conn->is_ending && world->now_ns > conn->said_ns + beat_ns / 2)
		tables_down(world, number_of(world, conn),
			    (struct tables_message){ .type = TABLES_ALIVE });
	if (world->now_ns > conn->heard_ns + WORKER_KV_HEARTBEATS_SILENT * beat_ns) {
		world->report->silences++;
		conn->is_gone = true;
	}
	if (conn->is_gone || conn->is_ending)
		conn_end(world, conn);
}

void tables_server_turn(struct tables_world *world, uint32_t s)
{
	struct tables_server *server = &world->server[s];

	for (uint16_t i = 0; i < world->scenario->workers; i++) {
		const struct tables_conn *conn = conn_of(world, s, i);

		if (conn && conn->is_ending)
			tell(world, s, SERVER_KV_ENDS, i);
		if (!conn || conn->is_gone)
			continue;
		if (conn->heard_ns > server->came[i].doubt_ns)
			server->came[i].doubt_ns = 0;
		if (server_kv_doubts(&server->kv, i))
			step(world, s,
			     (struct server_kv_event){ .type = SERVER_KV_HEARD,
						       .worker = i,
						       .now_ns = conn->heard_ns },
			     NULL);
	}
	tell(world, s, SERVER_KV_TIME, 0);
	tables_turn_judge(world, s);
	for (uint32_t c = server->conn_first; c < world->conns; c++)
		if (world->conn[c].far && world->conn[c].server == s)
			conn_turn(world, &world->conn[c]);
	while (server->conn_first < world->conns && !world->conn[server->conn_first].near &&
	       !world->conn[server->conn_first].far)
		server->conn_first++;
}

/* ---- its life ---- */

/* Every start begins a generation. */
static void fence(struct tables_world *world, uint32_t s)
{
	const struct server_sparse_event event = { .type = SERVER_SPARSE_FENCE_IT,
						   .map = 1,
						   .random = rng_next(&world->rng) };
	struct server_sparse_actions actions = { .apply = false };

	server_sparse_step(&world->server[s].sparse, &event, &actions);
	tables_record(world, s,
		      (struct tables_record){ .kind = TABLES_FENCED, .sparse = actions.what });
}

void tables_server_begin(struct tables_world *world, uint32_t s)
{
	struct tables_server *server = &world->server[s];
	const struct server_sparse_memory memory = { server->cut,      server->staged,
						     server->sum,      server->tag,
						     server->has_part, server->sparse_worker };

	if (!server->record) {
		server->record = tables_need(malloc(TABLES_RECORDS * sizeof(server->record[0])));
		server->held = tables_need(malloc(TABLES_RECORDS * sizeof(server->held[0])));
	}
	memset(server->member, 0, sizeof(server->member));
	server->is_up = true;
	server->is_syncing = server->is_host_dead = false;
	server->held_first = server->held_count = 0;
	server->conn_first = world->conns;
	server->links = 0;
	server_sparse_init(&server->sparse, &world->table, 1, &memory);
	server_kv_init(&server->kv, &server->sparse, server->member,
		       world->scenario->mode == WORKER_KV_SYNC);
	server->kv.heartbeat_ns = world->scenario->heartbeat_ns;
	tables_replay(world, s);
	tell(world, s, SERVER_KV_BEGIN, 0);
	fence(world, s);
	turn_soon(world, s);
	tables_trace(world, "server %u begins, with %u records", s, server->durable);
}

void tables_server_dies(struct tables_world *world, uint32_t s, bool is_silent)
{
	struct tables_server *server = &world->server[s];

	for (uint32_t c = 0; c < world->conns; c++) {
		if (!world->conn[c].far || world->conn[c].server != s)
			continue;
		world->conn[c].far = false;
		if (!is_silent)
			tables_down(world, c, (struct tables_message){ .type = TABLES_END });
	}
	memset(server->its, 0, sizeof(server->its));
	server->is_up = false;
	server->is_host_dead = is_silent;
	server->life++;
	world->report->server_deaths++;
	tables_trace(world, "server %u dies, with %u of %u records on its disk", s, server->durable,
		     server->records);
}
