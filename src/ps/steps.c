/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - what a table's workers are to each other: tells core/kv/server_kv.h what has happened, and does what it asks
 * for. docs/protocol.md, R-KV-11 and R-KV-15 to R-KV-17. */
#include <errno.h>

#include "ps/internal.h"

_Static_assert((int)KV_BOUNDED == SERVER_KV_BOUNDED && (int)KV_SYNC == SERVER_KV_SYNC,
	       "a mode is what OPEN says");

/* R-KV-9, R-KV-11: on a full disk no new batch and no other barrier than a passed one is taken. */
enum server_kv_disk ps_disk(struct ps_hosted *hosted)
{
	/* Once: it may be over at any time, and is what workers are told, then. */
	hosted->disk_trouble = ps_table_trouble(hosted->table);
	if (!hosted->disk_trouble)
		return SERVER_KV_WELL;
	if (hosted->disk_trouble ==
	    ENOENT) /* it is never written again: what waits for it would wait for ever */
		return SERVER_KV_DELETED;
	return ps_table_is_stuck(hosted->table) ? SERVER_KV_STUCK : SERVER_KV_TROUBLED;
}

/* ---- what it asks for ---- */

static void answer(struct ps_hosted *hosted, const struct server_kv_action *action)
{
	const struct server_sparse *state = server_of(hosted);

	ps_conn_hold(hosted->worker[action->worker].conn, hosted->table,
		     &(struct kv_message){ .type = KV_BARRIER,
					   .table = hosted->number,
					   .number = action->number,
					   .generation = state->generation,
					   .epoch = state->expected - 1 });
}

static void refuse(struct ps_server *server, struct ps_hosted *hosted,
		   const struct server_kv_action *action)
{
	const struct kv_message what = { .type = KV_BARRIER,
					 .table = hosted->number,
					 .number = action->number };

	ps_verdict_say(server, hosted, hosted->worker[action->worker].conn, &what, action->verdict,
		       action->other);
}

/* What the worker had before is not listened to any more. */
static void take(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		 const struct server_kv_action *action)
{
	struct ps_conn **its = &hosted->worker[action->worker].conn, *old = *its;

	*its = conn;
	conn->has_table = true;
	conn->stream.bytes_max = KV_BYTES_MAX;
	if (action->verdict != SERVER_KV_YES)
		ps_verdict_say(server, hosted, old, NULL, action->verdict, 0);
}

static void close_it(struct ps_server *server, struct ps_hosted *hosted,
		     const struct server_kv_action *action)
{
	struct ps_conn *conn = hosted->worker[action->worker].conn;

	hosted->worker[action->worker].conn = NULL;
	ps_verdict_say(server, hosted, conn, NULL, action->verdict, action->other);
}

static void act(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		const struct server_kv_action *action)
{
	struct ps_table *table = hosted->table;

	switch ((enum server_kv_action_type)action->type) {
	case SERVER_KV_DO_PASS:
		ps_table_barrier(table, action->number);
		break;
	case SERVER_KV_DO_LEAVE:
		ps_table_leave(table, action->worker);
		break;
	case SERVER_KV_DO_VOID:
		ps_table_void(table);
		break;
	case SERVER_KV_DO_JOIN:
		home_sparse_join(table->home, action->worker, conn->incarnation);
		break;
	case SERVER_KV_DO_ANSWER:
		answer(hosted, action);
		break;
	case SERVER_KV_DO_TAKE:
		take(server, hosted, conn, action);
		break;
	case SERVER_KV_DO_REFUSE:
		refuse(server, hosted, action);
		break;
	case SERVER_KV_DO_CLOSE:
		close_it(server, hosted, action);
		break;
	case SERVER_KV_DO_MISS:
		home_sparse_missed(table->home, action->worker);
		break;
	}
}

const struct server_kv_actions *ps_step(struct ps_server *server, struct ps_hosted *hosted,
					struct ps_conn *conn, const struct server_kv_event *event)
{
	struct server_kv_actions *actions = &server->actions;

	server_kv_step(&hosted->table->kv, event, actions);
	for (uint32_t i = 0; i < actions->count; i++)
		act(server, hosted, conn, &actions->list[i]);
	return actions;
}

/* ---- what has happened ---- */

void ps_steps_begin(struct ps_server *server, struct ps_hosted *hosted)
{
	hosted->table->kv.heartbeat_ns = server->options.heartbeat_ms * 1000000ull;
	ps_step(server, hosted, NULL,
		&(struct server_kv_event){ .type = SERVER_KV_BEGIN, .now_ns = ps_now(server) });
}

void ps_steps_open(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		   const struct server_kv_event *event)
{
	for (uint16_t i = 0; i < hosted->table->shape.workers; i++)
		if (hosted->worker[i].conn && hosted->worker[i].conn->is_gone)
			ps_step(server, hosted, NULL,
				&(struct server_kv_event){ .type = SERVER_KV_LOST, .worker = i });
	ps_step(server, hosted, conn, event);
}

bool ps_steps_gone(struct ps_server *server, struct ps_hosted *hosted, const struct ps_conn *conn)
{
	if (!conn->is_welcome || !server_kv_has_open(&hosted->table->kv, conn->worker, conn->link))
		return false;
	ps_step(server, hosted, NULL,
		&(struct server_kv_event){
			.type = SERVER_KV_END, .worker = conn->worker, .now_ns = ps_now(server) });
	hosted->worker[conn->worker].conn = NULL;
	return true;
}

void ps_steps_come(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		   const struct kv_message *said)
{
	enum server_kv_verdict verdict =
		ps_step(server, hosted, conn,
			&(struct server_kv_event){ .type = SERVER_KV_BARRIER,
						   .worker = conn->worker,
						   .number = said->number,
						   .disk = ps_disk(hosted) })
			->verdict;

	if (verdict != SERVER_KV_YES)
		ps_verdict_say(server, hosted, conn, said, verdict, 0);
}

void ps_steps_left(struct ps_server *server, struct ps_hosted *hosted, uint16_t worker)
{
	struct stage *stage = hosted->table->stage;

	ps_step(server, hosted, NULL,
		&(struct server_kv_event){ .type = SERVER_KV_LEAVE,
					   .worker = worker,
					   .number = stage ? stage_count(stage) : 0 });
}

void ps_steps_turn(struct ps_server *server, struct ps_hosted *hosted)
{
	for (uint16_t i = 0; i < hosted->table->shape.workers; i++) {
		const struct ps_conn *conn = hosted->worker[i].conn;

		if (conn && conn->is_ending)
			ps_step(server, hosted, NULL,
				&(struct server_kv_event){ .type = SERVER_KV_ENDS, .worker = i });
		if (!server_kv_doubts(&hosted->table->kv, i) || conn->is_gone)
			continue;
		ps_step(server, hosted, NULL,
			&(struct server_kv_event){
				.type = SERVER_KV_HEARD, .worker = i, .now_ns = conn->heard_ns });
	}
	ps_step(server, hosted, NULL,
		&(struct server_kv_event){ .type = SERVER_KV_TIME,
					   .now_ns = ps_now(server),
					   .disk = ps_disk(hosted) });
}
