/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - what workers say over TCP, and what they are answered: docs/protocol.md, R-KV-5 to R-KV-14. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/internal.h"

/* ---- HELLO ---- */

/* In a time that says nothing of where they differ. */
static bool key_equal(const char *key, const char *said)
{
	size_t bytes = strlen(key);
	volatile uint8_t differ = strlen(said) != bytes;

	for (size_t i = 0; i < bytes; i++)
		differ |= (uint8_t)(key[i] ^ said[i < strlen(said) ? i : 0]);
	return !differ;
}

/* R-KV-21: for one that is about to be a stranger no more. */
static bool has_place(struct ps_server *server, struct ps_conn *conn)
{
	if (ps_member_fits(server))
		return true;
	ps_serve_refuse(server, conn, NULL, KV_REFUSED_BUSY,
			"no room for one more connection of a worker: %u are open",
			server->conn_count);
	return false;
}

/* Without a key the job that this server is for is named to its own workers alone: R-KV-21. */
static void hello_refuse(struct ps_server *server, struct ps_conn *conn,
			 const struct kv_message *said)
{
	const struct ps_server_options *options = &server->options;
	bool is_secret = !*options->key && *options->job && strcmp(options->job, said->job) != 0;

	ps_serve_refuse(server, conn, NULL, KV_REFUSED_MISMATCH,
			"%s is of job %.200s with %u workers; this server is for %s%.200s with %u",
			conn->who, said->job, said->workers, is_secret ? "another job" : "job ",
			is_secret       ? ""
			: *options->job ? options->job
					: "(any)",
			options->workers);
}

/* R-KV-5 */
static void hello(struct ps_server *server, struct ps_conn *conn, const struct kv_message *said)
{
	const struct ps_server_options *options = &server->options;
	struct kv_message answer = { .type = KV_WELCOME,
				     .version = KV_VERSION,
				     .port = server->port,
				     .heartbeat_ms = options->heartbeat_ms };

	snprintf(conn->who, sizeof(conn->who), "worker %u (%.60s, pid %u)", said->worker,
		 said->host, said->pid);
	if (!key_equal(options->key, said->secret)) {
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_DENIED,
				"%s has another key than this server", conn->who);
		return;
	}
	if ((*options->job && strcmp(options->job, said->job) != 0) ||
	    said->workers != options->workers) {
		hello_refuse(server, conn, said);
		return;
	}
	if (*options->key && !has_place(server, conn))
		return;
	if (said->version < KV_VERSION) {
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_VERSION,
				"%s speaks version %u; this server speaks %d: bring both to one "
				"release",
				conn->who, said->version, KV_VERSION);
		return;
	}
	conn->worker = said->worker;
	conn->incarnation = said->incarnation;
	memcpy(conn->job, said->job, sizeof(conn->job));
	conn->is_welcome = true;
	if (!ps_is_stranger(server, conn))
		conn->stream.bytes_max = KV_BYTES_MAX;
	ps_conn_say(conn, &answer);
}

/* ---- OPEN ---- */

static struct ps_hosted *by_name(struct ps_server *server, const char *name)
{
	for (uint32_t i = 0; i < server->hosted_count; i++)
		if (!strcmp(server->hosted[i].options.table.name, name))
			return &server->hosted[i];
	return NULL;
}

/* Is it taken? If not, it has been told so, or waits. */
static bool may_open(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		     const struct kv_message *said, const struct server_kv_event *open)
{
	const struct ps_table *table = hosted->table;
	enum server_kv_verdict verdict = server_kv_is_due(&table->kv, open);
	uint16_t other = 0;

	if (verdict == SERVER_KV_YES) {
		if (ps_share_other_job(server, conn, said) ||
		    ps_share_refuse(server, hosted, conn, said))
			return false;
		verdict = server_kv_may_open(&table->kv, open, &other);
	}
	/* R-KV-13: who is told that its run is over says no LEAVE any more, and its last one may wait for the disk yet. */
	conn->is_held = verdict == SERVER_KV_OVER &&
			!ps_table_is_durable(table, ps_table_position(table));
	if (conn->is_held)
		return false;
	ps_verdict_say(server, hosted, conn, said, verdict, other);
	/* R-SP-29: what its predecessor has pushed is in nobody's memory but the switch's. */
	conn->is_held = verdict == SERVER_KV_DRAIN && !ps_summed_is_drained(server, hosted);
	return verdict == SERVER_KV_YES || (verdict == SERVER_KV_DRAIN && !conn->is_held);
}

static void open_table(struct ps_server *server, struct ps_conn *conn,
		       const struct kv_message *said)
{
	struct ps_hosted *hosted = by_name(server, said->name);
	struct server_kv_event open = { .type = SERVER_KV_TO_OPEN,
					.worker = conn->worker,
					.mode = (uint8_t)said->mode,
					.staleness = said->staleness,
					.link = conn->link,
					.incarnation = conn->incarnation,
					.now_ns = ps_now(server),
					.wall_ns = ps_wall() };
	uint64_t had, generation;
	bool begins;

	if (!hosted) {
		ps_serve_refuse(server, conn, said, KV_REFUSED_UNKNOWN,
				"%s asks for a table %s, which is not here", conn->who, said->name);
		return;
	}
	if (said->dim != hosted->table->shape.dim) {
		ps_serve_refuse(server, conn, said, KV_REFUSED_MISMATCH,
				"table %s has dim %u; %s has opened it with dim %u", said->name,
				hosted->table->shape.dim, conn->who, said->dim);
		return;
	}
	if (ps_is_stranger(server, conn) && !has_place(server, conn))
		return;
	open.disk = ps_disk(hosted);
	if (!may_open(server, hosted, conn, said, &open))
		return;
	if (!ps_share_take(hosted, said)) {
		conn->is_gone = true;
		return;
	}
	generation = server_of(hosted)->generation;
	had = server_of(hosted)->memory.worker[conn->worker].incarnation;
	memcpy(hosted->row,
	       home_sparse_cut(hosted->table->home) +
		       (size_t)conn->worker * hosted->table->shape.window,
	       hosted->table->shape.window * sizeof(uint64_t));
	ps_steps_open(server, hosted, conn, &open);
	conn->program = said->program;
	/* R-SP-29: who replaces another begins a generation, which needs a switch of its own. */
	begins = server_of(hosted)->generation != generation;
	if (begins)
		ps_summed_drop(server, hosted);
	ps_serve_opened(server, hosted, conn, conn->incarnation == had);
	if (begins) {
		ps_summed_begin(server, hosted);
		ps_spent_say(server, hosted);
	}
	/* R-SP-33: it may have stood for the last report. A JOIN after that begins a generation, and finds a switch in this. */
	ps_gather_turn(server, hosted);
	ps_log(server, PS_INFO, ps_about(hosted, conn), "%s has %s", conn->who,
	       conn->incarnation == had ? "come back"
	       : had                    ? "come in place of another"
					: "come");
}

/* NULL: it has not opened that; it is told so. */
static struct ps_hosted *its_table(struct ps_server *server, struct ps_conn *conn,
				   const struct kv_message *said)
{
	struct ps_hosted *hosted = said->table < server->hosted_count ? &server->hosted[said->table]
								      : NULL;
	/* A REPORT that is refused ends the connection: R-KV-20. */
	const struct kv_message *what = said->type == KV_REPORT ? NULL : said;

	if (hosted && server_kv_has_open(&hosted->table->kv, conn->worker, conn->link)) {
		ps_table_use(hosted->table);
		return hosted;
	}
	ps_serve_refuse(server, conn, what, KV_REFUSED_MESSAGE, "%s of %s: it has no table %u open",
			kv_type_name(said->type), conn->who, said->table);
	return NULL;
}

/* ---- pairs ---- */

static void batch_refuse(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
			 const struct kv_message *said, enum ps_batch why)
{
	const char *name = hosted->options.table.name;

	if (why == PS_BATCH_REFUSED)
		ps_serve_refuse(server, conn, said, KV_REFUSED_MESSAGE,
				"table %s: batch %" PRIu64 " of %s; %" PRIu64 " is next", name,
				said->number, conn->who,
				server_of(hosted)->memory.worker[conn->worker].next);
	else if (why == PS_BATCH_FULL)
		ps_serve_refuse(server, conn, said, KV_REFUSED_MEMORY,
				"table %s: no room for a batch of %u keys of %s: %" PRIu64
				" rows take %" PRIu64 " of at most %" PRIu64 " bytes",
				name, said->count, conn->who, store_rows(hosted->table->store),
				store_bytes(hosted->table->store),
				hosted->options.table.memory_max);
	else
		ps_serve_refuse(server, conn, said, KV_REFUSED_MEMORY,
				"table %s: out of memory for a batch of %u keys of %s", name,
				said->count, conn->who);
}

/* R-KV-16 */
static bool is_too_large(const struct kv_message *said)
{
	for (uint32_t i = 0; i < said->count * said->dim; i++)
		if (!(fabsf(said->value[i]) < STAGE_VALUE_MAX))
			return true;
	return false;
}

static void batch(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		  const struct kv_message *said)
{
	struct kv_message answer = { .type = KV_DONE, .number = said->number };
	enum ps_batch result;
	bool is_news = said->number >= server_of(hosted)->memory.worker[conn->worker].next;

	if (said->dim != hosted->table->shape.dim) {
		ps_serve_refuse(server, conn, said, KV_REFUSED_MISMATCH,
				"table %s has dim %u; %s has sent a batch of dim %u",
				hosted->options.table.name, hosted->table->shape.dim, conn->who,
				said->dim);
		return;
	}
	/* One that is said again was recorded, and its answer waits for the disk with that. */
	if (is_news && ps_disk(hosted) != SERVER_KV_WELL) {
		ps_verdict_say(server, hosted, conn, said, SERVER_KV_NO_DISK, 0);
		return;
	}
	if (hosted->table->options.is_sync && is_too_large(said)) {
		ps_serve_refuse(server, conn, said, KV_REFUSED_MESSAGE,
				"table %s: a value of %s is 2^46 or more, which no step has room "
				"for",
				hosted->options.table.name, conn->who);
		return;
	}
	result = ps_table_batch(hosted->table, conn->worker, conn->incarnation, said->number,
				said->key, said->value, said->count);
	if (result != PS_BATCH_TAKEN) {
		batch_refuse(server, hosted, conn, said, result);
		return;
	}
	answer.table = hosted->number;
	answer.generation = server_of(hosted)->generation;
	answer.epoch = server_of(hosted)->expected - 1;
	ps_conn_hold(conn, hosted->table, &answer);
}

static void pulled_say(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		       uint64_t number, const uint64_t *key, uint32_t count)
{
	const struct server_sparse *state = server_of(hosted);
	uint16_t dim = hosted->table->shape.dim;
	struct kv_message answer = { .type = KV_PULLED,
				     .table = hosted->number,
				     .number = number,
				     .generation = state->generation,
				     .epoch = state->expected - 1,
				     .dim = dim,
				     .count = count,
				     .value = server->values };

	for (uint32_t i = 0; i < count; i++)
		store_read(hosted->table->store, key[i], server->values + (size_t)i * dim);
	ps_conn_hold(conn, hosted->table, &answer);
}

static void pull(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn,
		 const struct kv_message *said)
{
	struct ps_waiting_pull *waiting;

	if (said->count > kv_keys_max(hosted->table->shape.dim)) {
		ps_serve_refuse(
			server, conn, said, KV_REFUSED_MESSAGE,
			"table %s: %s asks for %u keys at once; %u of dim %u fit into an answer",
			hosted->options.table.name, conn->who, said->count,
			kv_keys_max(hosted->table->shape.dim), hosted->table->shape.dim);
		return;
	}
	if (server_kv_is_fresh(&hosted->table->kv, said->generation, said->epoch)) {
		pulled_say(server, hosted, conn, said->number, said->key, said->count);
		return;
	}
	waiting = &conn->pull[conn->pull_count];
	if (conn->pull_count == PS_CONN_PULLS) {
		ps_serve_refuse(server, conn, said, KV_REFUSED_MEMORY,
				"%u pulls of %s wait already", conn->pull_count, conn->who);
		return;
	}
	*waiting = (struct ps_waiting_pull){ .table = hosted->number,
					     .number = said->number,
					     .generation = said->generation,
					     .epoch = said->epoch,
					     .count = said->count,
					     .key = malloc((said->count + 1) * sizeof(uint64_t)) };
	if (!waiting->key) {
		ps_serve_refuse(server, conn, said, KV_REFUSED_MEMORY,
				"out of memory for a pull of %s", conn->who);
		return;
	}
	if (said->count)
		memcpy(waiting->key, said->key, said->count * sizeof(uint64_t));
	conn->pull_count++;
}

static void pulls_answer(struct ps_server *server, struct ps_hosted *hosted, struct ps_conn *conn)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < conn->pull_count; i++) {
		struct ps_waiting_pull waiting = conn->pull[i];

		if (waiting.table != hosted->number ||
		    !server_kv_is_fresh(&hosted->table->kv, waiting.generation, waiting.epoch)) {
			conn->pull[left++] = waiting;
			continue;
		}
		pulled_say(server, hosted, conn, waiting.number, waiting.key, waiting.count);
		free(waiting.key);
	}
	conn->pull_count = left;
}

/* ---- the end ---- */

/* R-KV-13: the answer, and the end behind it, wait for the disks of all these tables. */
static void leave(struct ps_server *server, struct ps_conn *conn)
{
	const struct kv_message answer = { .type = KV_LEAVE };
	const struct ps_table *last = NULL;

	for (uint32_t i = 0; i < server->hosted_count; i++) {
		struct ps_hosted *hosted = &server->hosted[i];

		if (!server_kv_has_open(&hosted->table->kv, conn->worker, conn->link))
			continue;
		ps_table_use(hosted->table);
		ps_steps_left(server, hosted, conn->worker);
		ps_conn_wait(conn, hosted->table);
		last = hosted->table;
	}
	conn->has_left = true;
	if (last)
		ps_conn_hold(conn, last, &answer);
	else
		ps_conn_say(conn, &answer);
}

/* ---- all of them ---- */

void ps_serve_waiting(struct ps_server *server, struct ps_hosted *hosted)
{
	if (hosted->recorded == server_of(hosted)->recorded)
		return;
	hosted->recorded = server_of(hosted)->recorded;
	for (uint32_t i = 0; i < hosted->table->shape.workers; i++)
		if (hosted->worker[i].conn && hosted->worker[i].conn->pull_count)
			pulls_answer(server, hosted, hosted->worker[i].conn);
}

void ps_serve_deleted(struct ps_server *server, struct ps_hosted *hosted)
{
	for (uint32_t i = 0; i < hosted->table->shape.workers; i++) {
		struct ps_conn *conn = hosted->worker[i].conn;

		if (conn && !conn->is_ending && ps_disk(hosted) == SERVER_KV_DELETED)
			ps_verdict_say(server, hosted, conn, NULL, SERVER_KV_NO_DISK, 0);
	}
}

void ps_serve_gone(struct ps_server *server, struct ps_conn *conn)
{
	for (uint32_t i = 0; i < server->hosted_count; i++)
		if (ps_steps_gone(server, &server->hosted[i], conn))
			ps_log(server, PS_INFO, ps_about(&server->hosted[i], conn), "%s has %s",
			       conn->who, conn->has_left ? "left" : "gone, and may come back");
}

/* About a table that it has to have open. */
static void table_serve(struct ps_server *server, struct ps_conn *conn,
			const struct kv_message *said)
{
	struct ps_hosted *hosted = its_table(server, conn, said);

	if (!hosted)
		return;
	if (said->type == KV_REPORT)
		ps_gather_report(server, hosted, conn, said);
	else if (said->type == KV_BATCH)
		batch(server, hosted, conn, said);
	else if (said->type == KV_PULL)
		pull(server, hosted, conn, said);
	else
		ps_steps_come(server, hosted, conn, said);
}

static void message_serve(struct ps_server *server, struct ps_conn *conn,
			  const struct kv_message *said)
{
	if (conn->is_welcome == (said->type == KV_HELLO)) {
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_MESSAGE, "%s from %s, where %s",
				kv_type_name(said->type), conn->who,
				conn->is_welcome ? "HELLO was said before" : "HELLO comes first");
		return;
	}
	if (conn->has_left)
		return; /* it only waits for the answer */
	switch (said->type) {
	case KV_HELLO:
		hello(server, conn, said);
		break;
	case KV_OPEN:
		open_table(server, conn, said);
		break;
	case KV_REPORT:
	case KV_BATCH:
	case KV_PULL:
	case KV_BARRIER:
		table_serve(server, conn, said);
		break;
	case KV_LEAVE:
		leave(server, conn);
		break;
	case KV_ALIVE:
		break;
	default:
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_MESSAGE,
				"%s from %s: only servers say that", kv_type_name(said->type),
				conn->who);
	}
}

void ps_serve(struct ps_server *server, struct ps_conn *conn)
{
	struct kv_message message;

	while (!conn->is_ending && !conn->is_gone && !ps_conn_is_full(conn)) {
		size_t bytes = kv_stream_frame(&conn->stream);

		if (!bytes)
			return;
		if (bytes == SIZE_MAX) {
			ps_serve_refuse(server, conn, NULL, KV_REFUSED_MESSAGE,
					"%s: what it sends are no messages of tally, or one longer "
					"than %u bytes",
					conn->who, conn->stream.bytes_max);
			return;
		}
		conn->is_held = false;
		memset(&message, 0, sizeof(message));
		if (kv_decode(&server->codec, buffer_first(&conn->stream.in), bytes, &message))
			ps_serve_refuse(server, conn, NULL, KV_REFUSED_MESSAGE, "%s: %s", conn->who,
					server->codec.fault);
		else
			message_serve(server, conn, &message);
		if (conn->is_held)
			return;
		buffer_take(&conn->stream.in, bytes);
	}
}
