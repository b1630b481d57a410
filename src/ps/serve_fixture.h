/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_fixture.h - for tests of serve.c: workers say frames, and all around it is played: tables, switches, who may
 * take part, the disk, both clocks. What it calls is noted in words, in order; what it says is kept. Included once in a
 * program; meson.build names what it wraps.
 */
#ifndef PS_SERVE_FIXTURE_H
#define PS_SERVE_FIXTURE_H

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "ps/lines_fixture.h"

enum { TABLES = 2, WORKERS = 3, DIM = 2, WINDOW = 4, OUT_MAX = 8, IN_BYTES = 1 << 18, CONNS = 4 };

static const uint64_t s_ns = 1000000000;

/* One thing that was said. */
struct out {
	const struct ps_conn *to;
	bool is_held; /* until the disk has what `table` has recorded */
	const struct ps_table *table;
	struct kv_message what;
	float value[8];
};

static struct {
	struct ps_server server;
	struct ps_table table[TABLES];
	struct server_sparse sums[TABLES];
	struct server_sparse_worker member[TABLES][WORKERS];
	struct ps_worker worker[TABLES][WORKERS];
	struct server_kv_worker its[TABLES][WORKERS];
	uint64_t cut[WORKERS * WINDOW], row[WINDOW];
	float values[KV_VALUES_MAX];
	struct ps_conn conn[CONNS];
	uint8_t in[CONNS][IN_BYTES];
	/* What is played. */
	uint64_t wall_ns;
	bool is_stranger, has_no_place, is_stuck, is_random_out, is_undrained, begins, takes_none,
		is_unsynced;
	const char *refuses; /* who says no: "job", "share" */
	int trouble;
	enum ps_batch batch;
	/* What was done. */
	char calls[512];
	struct out out[OUT_MAX];
	uint32_t outs;
	struct kv_message taken; /* the last batch, barrier or report */
	float first_value;
} test;

static void note(const char *word)
{
	assert_true(strlen(test.calls) + strlen(word) + 2 < sizeof(test.calls));
	strcat(strcat(test.calls, *test.calls ? " " : ""), word);
}

/* Since the last time. */
static inline void assert_calls(const char *words)
{
	assert_string_equal(test.calls, words);
	*test.calls = 0;
}

static inline struct ps_hosted *hosted(void)
{
	return &test.server.hosted[0];
}

static uint32_t table_idx(const struct home_sparse *home)
{
	for (uint32_t i = 0; i < TABLES; i++)
		if ((const void *)home == (const void *)&test.table[i])
			return i;
	fail_msg("no such table");
	return 0;
}

/* ---- what it calls ---- */

#define PLAYED(type, name, ...)          \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

static void out_put(struct ps_conn *conn, const struct ps_table *table,
		    const struct kv_message *what)
{
	struct out *out = &test.out[test.outs++];

	assert_true(test.outs <= OUT_MAX);
	*out = (struct out){ .to = conn, .is_held = table, .table = table, .what = *what };
	for (uint32_t i = 0; what->value && i < what->count * what->dim && i < 8; i++)
		out->value[i] = what->value[i];
}

PLAYED(void, ps_conn_say, struct ps_conn *conn, const struct kv_message *message)
{
	out_put(conn, NULL, message);
}

PLAYED(void, ps_conn_hold, struct ps_conn *conn, const struct ps_table *table,
       const struct kv_message *message)
{
	assert_non_null(table);
	out_put(conn, table, message);
}

PLAYED(void, ps_conn_wait, struct ps_conn *conn, const struct ps_table *table)
{
	assert_non_null(conn);
	note(table == &test.table[0] ? "wait-emb" : "wait-wide");
}

PLAYED(const struct server_sparse *, home_sparse_server, const struct home_sparse *home)
{
	return &test.sums[table_idx(home)];
}

PLAYED(const uint64_t *, home_sparse_cut, const struct home_sparse *home)
{
	assert_int_equal(table_idx(home), 0);
	return test.cut;
}

PLAYED(bool, home_sparse_join, struct home_sparse *home, uint16_t worker, uint64_t incarnation)
{
	struct server_sparse_worker *member = &test.member[table_idx(home)][worker];

	note("join");
	member->incarnation = incarnation;
	member->next = 1;
	test.sums[0].generation += test.begins;
	return true;
}

PLAYED(bool, ps_is_stranger, const struct ps_server *server, const struct ps_conn *conn)
{
	assert_ptr_equal(server, &test.server);
	assert_non_null(conn);
	return test.is_stranger;
}

PLAYED(bool, ps_member_fits, const struct ps_server *server)
{
	assert_ptr_equal(server, &test.server);
	return !test.has_no_place;
}

PLAYED(bool, ps_random, void *at, size_t bytes)
{
	memset(at, 0x5a, bytes);
	return !test.is_random_out;
}

static inline bool refuses(const char *who)
{
	return test.refuses && !strcmp(test.refuses, who);
}

PLAYED(bool, ps_share_other_job, struct ps_server *server, struct ps_conn *conn,
       const struct kv_message *open)
{
	assert_true(server && conn && open);
	return refuses("job");
}

PLAYED(bool, ps_share_refuse, struct ps_server *server, struct ps_hosted *of, struct ps_conn *conn,
       const struct kv_message *open)
{
	assert_true(server && of && conn && open);
	return refuses("share");
}

PLAYED(bool, ps_share_take, struct ps_hosted *of, const struct kv_message *open)
{
	assert_true(of && open);
	note("share");
	return !test.takes_none;
}

PLAYED(void, ps_spent_say, struct ps_server *server, const struct ps_hosted *of)
{
	assert_true(server && of);
	note("spent-say");
}

PLAYED(void, ps_steps_left, struct ps_server *server, struct ps_hosted *of, uint16_t worker)
{
	assert_true(server && of && worker < WORKERS);
	note("steps-left");
}

PLAYED(void, ps_steps_come, struct ps_server *server, struct ps_hosted *of, struct ps_conn *conn,
       const struct kv_message *said)
{
	assert_true(server && of && conn);
	test.taken = *said;
	note("come");
}

PLAYED(bool, ps_summed_is_drained, struct ps_server *server, struct ps_hosted *of)
{
	assert_true(server && of);
	note("drain");
	return !test.is_undrained;
}

PLAYED(void, ps_summed_drop, struct ps_server *server, struct ps_hosted *of)
{
	assert_true(server && of);
	of->has_switch = false;
	note("drop");
}

PLAYED(void, ps_summed_begin, struct ps_server *server, struct ps_hosted *of)
{
	assert_true(server && of);
	note("begin");
}

PLAYED(void, ps_gather_turn, struct ps_server *server, struct ps_hosted *of)
{
	assert_true(server && of);
	note("gather");
}

PLAYED(void, ps_gather_report, struct ps_server *server, struct ps_hosted *of, struct ps_conn *conn,
       const struct kv_message *said)
{
	assert_true(server && of && conn);
	test.taken = *said;
	note("report");
}

PLAYED(bool, ps_table_is_stuck, const struct ps_table *table)
{
	assert_non_null(table);
	return test.is_stuck;
}

PLAYED(int, ps_table_trouble, const struct ps_table *table)
{
	assert_non_null(table);
	return test.trouble;
}

PLAYED(bool, ps_table_is_durable, const struct ps_table *table, uint64_t position)
{
	assert_true(table && !position);
	return !test.is_unsynced;
}

PLAYED(void, ps_table_use, struct ps_table *table)
{
	note(table == &test.table[0] ? "use" : "use-wide");
}

PLAYED(void, ps_table_made, const struct ps_table *table, char text[KV_TEXT_BYTES])
{
	assert_non_null(table);
	strcpy(text, "made so");
}

PLAYED(enum ps_batch, ps_table_batch, struct ps_table *table, uint16_t worker, uint64_t incarnation,
       uint64_t number, const uint64_t *keys, const float *values, uint32_t count)
{
	assert_ptr_equal(table, &test.table[0]);
	test.taken = (struct kv_message){
		.worker = worker, .incarnation = incarnation, .number = number, .count = count
	};
	assert_true(keys[0] == 50);
	test.first_value = values[0];
	note("batch");
	return test.batch;
}

PLAYED(void, store_read, const struct store *store, uint64_t key, float *value)
{
	assert_ptr_equal(store, &test);
	value[0] = (float)key;
	value[1] = -(float)key;
}

PLAYED(uint64_t, store_rows, const struct store *store)
{
	assert_ptr_equal(store, &test);
	return 123;
}

PLAYED(uint64_t, store_bytes, const struct store *store)
{
	assert_ptr_equal(store, &test);
	return 4567;
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);

PLAYED(int, clock_gettime, clockid_t clock, struct timespec *now)
{
	if (clock != CLOCK_REALTIME)
		return __real_clock_gettime(clock, now);
	*now = (struct timespec){ .tv_sec = (time_t)(test.wall_ns / s_ns),
				  .tv_nsec = (long)(test.wall_ns % s_ns) };
	return 0;
}

/* ---- a server and its workers ---- */

static int setup(void **state)
{
	static const char *const names[TABLES] = { "emb", "wide" };

	(void)state;
	memset(&test, 0, sizeof(test));
	memset(&heard, 0, sizeof(heard));
	test.wall_ns = 1000 * 3600 * s_ns + 5;
	heard.now_ns = 700 * s_ns;
	test.server.options = (struct ps_server_options){
		.job = "J", .key = "secret", .workers = WORKERS, .heartbeat_ms = 500
	};
	test.server.port = 7272;
	test.server.values = test.values;
	test.server.hosted_count = TABLES;
	for (uint16_t i = 0; i < TABLES; i++) {
		test.table[i].home = (struct home_sparse *)(void *)&test.table[i];
		test.table[i].store = (struct store *)(void *)&test;
		test.table[i].shape = (struct sparse_table){
			.workers = WORKERS, .dim = DIM, .window = WINDOW, .bytes = 1472
		};
		test.table[i].options.unit = 0.25f;
		test.sums[i].memory.worker = test.member[i];
		test.sums[i].table = &test.table[i].shape;
		server_kv_init(&test.table[i].kv, &test.sums[i], test.its[i], false);
		test.sums[i].generation = 8;
		test.sums[i].expected = 4;
		test.server.hosted[i].table = &test.table[i];
		test.server.hosted[i].worker = test.worker[i];
		test.server.hosted[i].row = test.row;
		test.server.hosted[i].number = i;
		strcpy(test.server.hosted[i].options.table.name, names[i]);
		strcpy(test.table[i].options.name, names[i]);
	}
	for (uint32_t i = 0; i < CONNS; i++) {
		test.conn[i].stream.in.bytes = test.in[i];
		test.conn[i].link = i + 1;
		test.conn[i].stream.bytes_max = KV_BYTES_MAX;
		strcpy(test.conn[i].who, "somebody");
	}
	return 0;
}

/* Worker i is conn[i], and has said HELLO; incarnation 5. */
static inline struct ps_conn *member(uint16_t i)
{
	struct ps_conn *conn = &test.conn[i];

	conn->is_welcome = true;
	conn->worker = i;
	conn->incarnation = 5;
	snprintf(conn->who, sizeof(conn->who), "worker %u (H, pid 77)", i);
	strcpy(conn->job, "J");
	return conn;
}

/* It has opened both tables as well. */
static inline struct ps_conn *opened(uint16_t i)
{
	struct ps_conn *conn = member(i);

	for (uint32_t k = 0; k < TABLES; k++) {
		test.worker[k][i].conn = conn;
		test.its[k][i].link = conn->link;
		test.member[k][i] = (struct server_sparse_worker){ .incarnation = 5, .next = 7 };
	}
	conn->has_table = true;
	return conn;
}

static inline void give(struct ps_conn *conn, const struct kv_message *message)
{
	struct buffer *in = &conn->stream.in;

	assert_true(in->end + kv_bytes(message) <= IN_BYTES);
	in->end += kv_put(message, in->bytes + in->end);
}

static inline void say(struct ps_conn *conn, const struct kv_message *message)
{
	give(conn, message);
	ps_serve(&test.server, conn);
}

static struct kv_message *last(void)
{
	assert_true(test.outs > 0);
	return &test.out[test.outs - 1].what;
}

/* The only thing that was said since the last time: to this one, about such a message; none: it ends. */
static inline void assert_refused(const struct ps_conn *conn, enum kv_refusal refusal,
				  enum kv_type about, const char *text)
{
	assert_int_equal(test.outs, 1);
	assert_string_equal(last()->text, text);
	assert_ptr_equal(test.out[0].to, conn);
	assert_false(test.out[0].is_held);
	assert_int_equal(last()->type, KV_ERROR);
	assert_int_equal(last()->refusal, refusal);
	assert_int_equal(last()->about, about);
	assert_int_equal(last()->worker, conn->is_welcome ? conn->worker : KV_NOBODY);
	assert_int_equal(conn->is_ending, about == KV_NOTHING);
	test.outs = 0;
}

#endif
