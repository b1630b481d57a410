/* SPDX-License-Identifier: Apache-2.0 */
/* kv_both_server.c - the server of kv_both.h: does what core/kv/server_kv.h says, as src/ps does; server_sparse has batches
 * and incarnations. A disk that has records one after the other, and messages that wait for it. */
#include "search/kv_both_world.h"

static struct sparse_table table = { .ranks = 1, .window = 1, .dim = 1, .bytes = 600 };
/* Of server_sparse, what is not kept: nothing is hot. */
static struct server_sparse sparse;
static struct server_sparse_worker sparse_worker[BOTH_WORKERS];
static uint64_t cut[BOTH_WORKERS], staged[BOTH_WORKERS], tag[1];
static int64_t sum[1];
static uint8_t has_part[64];

void both_server_lay(struct both_world *world, bool is_used)
{
	const struct server_sparse_memory memory = {
		cut, staged, sum, tag, has_part, sparse_worker
	};

	table.workers = world->workers;
	if (is_used) {
		CORE_ASSERT(sparse_flush_parts_max(&table) <= sizeof(has_part));
		server_sparse_init(&sparse, &table, 1, &memory);
		sparse.generation = world->generation;
	}
	for (uint32_t i = 0; i < BOTH_WORKERS; i++) {
		if (is_used) {
			sparse_worker[i].incarnation = world->incarnation[i];
			sparse_worker[i].next = world->next[i];
		} else {
			world->incarnation[i] = sparse_worker[i].incarnation;
			world->next[i] = sparse_worker[i].next;
		}
	}
	world->generation = sparse.generation;
	world->kv.sparse = is_used ? &sparse : NULL;
	world->kv.worker = is_used ? world->worker : NULL;
}

/* ---- what it says ---- */

static void record(struct both_world *world, enum both_kind kind, uint32_t p, uint64_t number)
{
	struct both_record *it = &world->records[world->records_count++];

	CORE_ASSERT(world->records_count <= BOTH_RECORDS);
	*it = (struct both_record){ (uint8_t)kind, (uint8_t)p, (uint8_t)number };
	both_book_judge(world, it);
	both_book_take(&world->book, it);
}

static void hold(struct both_world *world, struct both_conn *conn, struct both_message message)
{
	both_served_judge(world, conn);
	message.gate = world->records_count;
	both_put(message.gate || conn->held.count ? &conn->held : &conn->down, message);
}

/* R-KV-14, about 0: the connection ends with it. */
static void end_with(struct both_conn *conn, uint8_t refusal)
{
	both_put(&conn->down,
		 (struct both_message){ .type = WORKER_KV_SAYS_ERROR, .refusal = refusal });
	both_clear(&conn->held);
	conn->is_ending = true;
}

static void join(struct both_world *world, uint16_t worker, uint64_t incarnation)
{
	const struct server_sparse_event event = { .type = SERVER_SPARSE_JOINED,
						   .worker = worker,
						   .incarnation = incarnation };
	struct server_sparse_actions actions = { .apply = false };

	server_sparse_step(&sparse, &event, &actions);
	BOTH_CHECK(actions.record, "a newcomer is refused");
	record(world, BOTH_JOINED, both_process_of(worker, incarnation),
	       sparse_fences(sparse.generation));
	server_kv_replay(&world->kv, SERVER_KV_JOINED, worker);
}

static void take(struct both_world *world, const struct server_kv_action *action, uint32_t c)
{
	uint8_t old = world->its[action->worker];

	world->its[action->worker] = (uint8_t)(c + 1);
	if (action->verdict != SERVER_KV_YES)
		end_with(&world->conn[old - 1], WORKER_KV_REFUSED_SUPERSEDED);
}

static void act(struct both_world *world, const struct server_kv_action *action, uint32_t c)
{
	uint8_t *its = &world->its[action->worker];
	const struct both_message answer = { .type = WORKER_KV_SAYS_BARRIER,
					     .number = (uint8_t)action->number };

	switch ((enum server_kv_action_type)action->type) {
	case SERVER_KV_DO_PASS:
		record(world, BOTH_PASSED, 0, action->number);
		break;
	case SERVER_KV_DO_LEAVE:
		record(world, BOTH_LEFT,
		       both_process_of(action->worker, sparse_worker[action->worker].incarnation),
		       0);
		break;
	case SERVER_KV_DO_VOID:
		record(world, BOTH_VOIDED, 0, 0);
		break;
	case SERVER_KV_DO_JOIN:
		join(world, action->worker, world->conn[c].incarnation);
		break;
	case SERVER_KV_DO_ANSWER:
		hold(world, &world->conn[*its - 1], answer);
		break;
	case SERVER_KV_DO_TAKE:
		take(world, action, c);
		break;
	case SERVER_KV_DO_CLOSE:
		end_with(&world->conn[*its - 1], WORKER_KV_REFUSED_SUPERSEDED);
		*its = 0;
		break;
	case SERVER_KV_DO_REFUSE:
	case SERVER_KV_DO_MISS:
		BOTH_CHECK(false, "a barrier is refused");
		break;
	}
}

static void step(struct both_world *world, struct server_kv_event event, uint32_t c)
{
	static struct server_kv_actions actions;

	event.disk = SERVER_KV_WELL;
	server_kv_step(&world->kv, &event, &actions);
	BOTH_CHECK(actions.verdict == SERVER_KV_YES, "a barrier is refused");
	for (uint32_t i = 0; i < actions.count; i++)
		act(world, &actions.list[i], c);
}

static struct server_kv_event event_of(enum server_kv_event_type type, uint16_t worker)
{
	return (struct server_kv_event){
		.type = type, .worker = worker, .now_ns = BOTH_NOW_NS, .wall_ns = BOTH_NOW_NS
	};
}

/* ---- what it hears ---- */

static struct server_kv_event open_of(const struct both_world *world, const struct both_conn *conn)
{
	struct server_kv_event open = event_of(SERVER_KV_TO_OPEN, conn->worker);

	open.mode = world->kv.is_sync ? SERVER_KV_SYNC : SERVER_KV_BOUNDED;
	open.link = conn->link;
	open.incarnation = conn->incarnation;
	return open;
}

static enum server_kv_verdict verdict_of(const struct both_world *world,
					 const struct both_conn *conn)
{
	struct server_kv_event open = open_of(world, conn);
	enum server_kv_verdict verdict = server_kv_is_due(&world->kv, &open);
	uint16_t other;

	return verdict == SERVER_KV_YES ? server_kv_may_open(&world->kv, &open, &other) : verdict;
}

/* Who is told that its run is over says no LEAVE any more, so the disk has it (R-KV-13). */
static bool is_early(const struct both_world *world, const struct both_conn *conn)
{
	return conn->up.at[0].type == BOTH_OPEN && world->records_count &&
	       verdict_of(world, conn) == SERVER_KV_OVER;
}

static void open_it(struct both_world *world, uint32_t c)
{
	struct both_conn *conn = &world->conn[c];
	struct server_kv_event open = open_of(world, conn);
	struct both_message opened = { .type = WORKER_KV_SAYS_OPENED };
	enum server_kv_verdict verdict = verdict_of(world, conn);

	if (verdict != SERVER_KV_YES && verdict != SERVER_KV_DRAIN) {
		end_with(conn, WORKER_KV_REFUSED_SUPERSEDED);
		return;
	}
	opened.is_known = open.incarnation == sparse_worker[conn->worker].incarnation;
	step(world, open, c);
	opened.number = (uint8_t)sparse_worker[conn->worker].next;
	opened.barrier = (uint8_t)world->kv.barrier;
	opened.fences = (uint8_t)sparse_fences(sparse.generation);
	hold(world, conn, opened);
}

static void batch(struct both_world *world, struct both_conn *conn, uint8_t number)
{
	const struct server_sparse_event event = { .type = SERVER_SPARSE_COLD,
						   .worker = conn->worker,
						   .incarnation = conn->incarnation,
						   .number = number };
	struct server_sparse_actions actions = { .apply = false };

	server_sparse_step(&sparse, &event, &actions);
	if (actions.record)
		record(world, BOTH_IN, conn->process, number);
	if (actions.refuse)
		end_with(conn, BOTH_MISMATCH);
	else
		hold(world, conn,
		     (struct both_message){ .type = WORKER_KV_SAYS_DONE, .number = number });
}

/* R-KV-13. The connection ends behind the answer. */
static void leave(struct both_world *world, uint32_t c)
{
	struct both_conn *conn = &world->conn[c];
	struct server_kv_event event = event_of(SERVER_KV_LEAVE, conn->worker);

	event.number = world->book.staged;
	step(world, event, c);
	conn->has_left = true;
	hold(world, conn, (struct both_message){ .type = WORKER_KV_SAYS_LEAVE });
	conn->is_ending = !conn->held.count;
}

void both_server_is_sure(struct both_world *world, uint16_t worker)
{
	struct server_kv_event heard = event_of(SERVER_KV_HEARD, worker);

	heard.now_ns++;
	step(world, heard, 0);
	step(world, event_of(SERVER_KV_TIME, 0), 0);
}

bool both_server_hears(struct both_world *world, uint32_t c)
{
	struct both_conn *conn = &world->conn[c];
	struct both_message said;
	struct server_kv_event come;

	if (!conn->far || !conn->up.count || is_early(world, conn))
		return false;
	said = both_take(&conn->up);
	if (conn->is_ending || conn->has_left)
		return true;
	if (said.type == BOTH_HELLO) {
		conn->worker = (uint8_t)both_worker_of(conn->process);
		conn->incarnation = (uint8_t)both_incarnation_of(conn->process);
		conn->is_welcome = true;
		both_put(&conn->down, (struct both_message){ .type = WORKER_KV_SAYS_WELCOME });
	} else if (said.type == BOTH_OPEN) {
		open_it(world, c);
	} else if (!server_kv_has_open(&world->kv, conn->worker, conn->link)) {
		end_with(conn, BOTH_MISMATCH);
	} else if (said.type == BOTH_BATCH) {
		batch(world, conn, said.number);
	} else if (said.type == BOTH_BARRIER) {
		come = event_of(SERVER_KV_BARRIER, conn->worker);
		come.number = said.number;
		step(world, come, c);
	} else {
		leave(world, c);
	}
	if (conn->is_welcome && world->its[conn->worker] == c + 1 &&
	    server_kv_doubts(&world->kv, conn->worker))
		both_server_is_sure(world, conn->worker);
	return true;
}

void both_server_ends(struct both_world *world, uint32_t c)
{
	struct both_conn *conn = &world->conn[c];

	if (conn->is_welcome && server_kv_has_open(&world->kv, conn->worker, conn->link)) {
		step(world, event_of(SERVER_KV_END, conn->worker), c);
		world->its[conn->worker] = 0;
	}
	both_conn_ends(conn, false);
}

/* ---- its disk, and its death ---- */

static void release(struct both_conn *conn)
{
	for (uint32_t i = 0; i < conn->held.count; i++)
		if (conn->held.at[i].gate)
			conn->held.at[i].gate--;
	while (conn->held.count && !conn->held.at[0].gate)
		both_put(&conn->down, both_take(&conn->held));
	conn->is_ending |= conn->has_left && !conn->held.count;
}

void both_server_syncs(struct both_world *world)
{
	both_book_take(&world->disk, &world->records[0]);
	memmove(world->records, world->records + 1,
		--world->records_count * sizeof(world->records[0]));
	memset(&world->records[world->records_count], 0, sizeof(world->records[0]));
	for (uint32_t c = 0; c < BOTH_CONNS; c++)
		release(&world->conn[c]);
}

void both_server_begin(struct both_world *world, bool is_sync)
{
	const struct both_book *disk = &world->disk;

	memset(world->worker, 0, sizeof(world->worker));
	memset(&world->kv, 0, sizeof(world->kv));
	server_kv_init(&world->kv, &sparse, world->worker, is_sync);
	world->kv.heartbeat_ns = BOTH_BEAT_NS;
	for (uint64_t move = 1; move <= disk->moves; move++)
		for (uint32_t i = 0; i < BOTH_WORKERS; i++) {
			if (disk->joined[i] == move)
				server_kv_replay(&world->kv, SERVER_KV_JOINED, i);
			if (disk->left[i] == move)
				server_kv_replay(&world->kv, SERVER_KV_HAS_LEFT, i);
		}
	server_kv_replay(&world->kv, SERVER_KV_PASSED, disk->barrier);
	for (uint32_t i = 0; i < BOTH_WORKERS; i++) {
		sparse_worker[i].incarnation = disk->incarnation[i];
		sparse_worker[i].next =
			1u + (disk->incarnation[i]
				      ? disk->in[both_process_of((uint16_t)i, disk->incarnation[i])]
				      : 0);
	}
	sparse.generation = (uint64_t)disk->fences << SPARSE_RANDOM_BITS;
	step(world, event_of(SERVER_KV_BEGIN, 0), 0);
}

void both_server_dies(struct both_world *world, bool is_sync)
{
	for (uint32_t c = 0; c < BOTH_CONNS; c++)
		if (world->conn[c].far)
			both_conn_ends(&world->conn[c], false);
	memset(world->its, 0, sizeof(world->its));
	memset(world->records, 0, sizeof(world->records));
	world->records_count = 0;
	world->book = world->disk;
	both_server_begin(world, is_sync);
}
