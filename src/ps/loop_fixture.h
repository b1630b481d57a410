/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_fixture.h - for tests of a server's turns: all but server.c is played, the clock too. What is done for tables is noted
 * in words, in order. Included once in a program; meson.build names what it wraps.
 */
#ifndef PS_LOOP_FIXTURE_H
#define PS_LOOP_FIXTURE_H

#include <errno.h>
#include <stdlib.h>

#include "ps/lines_fixture.h"

#pragma GCC diagnostic ignored "-Wunused-function"

enum { TABLES = 2, WORKERS = 3, CONNS = 3, BELL = 90, LISTENER = 91, LINK = 92, FRAMES = 64 };

static const uint64_t ms_ns = 1000000;

/* What a connection is like. */
struct played {
	bool is_full, wants_to_write, ends, cannot_write;
	uint32_t reads, frames; /* how many reads bring something; how many came */
	uint32_t full_after;    /* reads; 0: never */
	uint32_t bytes;         /* of a read; 0: one */
	uint64_t written_ns;
};

static struct {
	struct ps_server server;
	struct link link;
	struct ps_table table[TABLES];
	struct server_sparse sums[TABLES];
	struct home_sparse_stats stats;
	struct ps_worker worker[TABLES][WORKERS];
	struct ps_conn conn[CONNS];
	struct played played[CONNS];
	uint64_t due_ns, switch_due_ns, polled_after_ns;
	short revents[8];
	bool poll_fails, is_polled_aggregator, comes_anew;
	int trouble, checkpoint, end_of[TABLES], link_error;
	uint32_t checkpoint_fails, frames_left, frames_calls;
	struct link_frame frame;
	/* What was done. */
	struct pollfd fds[8];
	uint32_t fds_count, turns, alive, closed, datagrams, datagram_bytes[4], bells;
	uint64_t wait_ns, patience_ns, read_calls;
	uint8_t data[64];
	char calls[4096];
} test;

static void note(const char *word)
{
	assert_true(strlen(test.calls) + strlen(word) + 2 < sizeof(test.calls));
	strcat(strcat(test.calls, *test.calls ? " " : ""), word);
}

static void assert_calls(const char *words)
{
	assert_string_equal(test.calls, words);
	*test.calls = 0;
}

#define PLAYED(type, name, ...)          \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

/* What each turn calls for each table. */
#define STEP(name)                                                             \
	PLAYED(void, name, struct ps_server *server, struct ps_hosted *hosted) \
	{                                                                      \
		assert_true(server == &test.server && hosted->table != NULL);  \
		note(hosted == &server->hosted[0] ? &#name[3] : "wide");       \
	}
STEP(ps_serve_waiting)
STEP(ps_steps_turn)
STEP(ps_gather_turn)
STEP(ps_serve_deleted)
STEP(ps_reload)

PLAYED(void, ps_awaited_turn, const struct ps_server *server, struct ps_hosted *hosted)
{
	note(hosted == &server->hosted[0] ? "awaited_turn" : "wide");
}

PLAYED(void, ps_table_settle, struct ps_table *table)
{
	note(table == &test.table[0] ? "settle" : "wide");
}

PLAYED(int, ps_table_checkpoint_turn, struct ps_table *table, char error[PS_ERROR_MAX])
{
	strcpy(error, "no room for it");
	return table == &test.table[0] ? test.checkpoint : 0;
}

PLAYED(int, ps_table_checkpoint, struct ps_table *table, char error[PS_ERROR_MAX])
{
	note(table == &test.table[0] ? "checkpoint" : "checkpoint-wide");
	strcpy(error, "no child for it");
	return test.checkpoint_fails ? -1 : 0;
}

PLAYED(int, ps_table_trouble, const struct ps_table *table)
{
	return table == &test.table[0] ? test.trouble : 0;
}

PLAYED(int, ps_table_end, struct ps_table *table, char error[PS_ERROR_MAX])
{
	strcpy(error, "it could not end");
	return test.end_of[table - test.table];
}

PLAYED(const struct server_sparse *, home_sparse_server, const struct home_sparse *home)
{
	return &test.sums[(const struct ps_table *)(const void *)home - test.table];
}

PLAYED(const struct home_sparse_stats *, home_sparse_stats, const struct home_sparse *home)
{
	assert_non_null(home);
	return &test.stats;
}

PLAYED(uint64_t, store_rows, const struct store *store)
{
	assert_null(store);
	return 11;
}

PLAYED(uint64_t, store_bytes, const struct store *store)
{
	assert_null(store);
	return 12;
}

PLAYED(void, ps_dropped_turn, struct ps_server *server)
{
	assert_ptr_equal(server, &test.server);
	note("dropped");
}

PLAYED(void, ps_dropped_report, const struct ps_server *server)
{
	assert_ptr_equal(server, &test.server);
	note("dropped-all");
}

PLAYED(uint64_t, ps_summed_turn, struct ps_server *server)
{
	assert_ptr_equal(server, &test.server);
	note("summed");
	return test.due_ns;
}

PLAYED(void, ps_strangers_turn, struct ps_server *server, uint64_t now_ns, uint64_t patience_ns)
{
	assert_ptr_equal(server, &test.server);
	assert_true(now_ns == heard.now_ns);
	test.patience_ns = patience_ns;
}

PLAYED(void, ps_summed_serve, struct ps_server *server, const struct link_address *peer,
       const uint8_t *at, uint32_t bytes)
{
	assert_ptr_equal(server, &test.server);
	assert_int_equal(peer->port, 33);
	assert_ptr_equal(at, test.data + (test.datagrams % 3) * 10);
	if (test.datagrams < 4)
		test.datagram_bytes[test.datagrams] = bytes;
	test.datagrams++;
}

PLAYED(void, ps_accept, struct ps_server *server)
{
	assert_ptr_equal(server, &test.server);
	note("accept");
}

PLAYED(uint64_t, ps_aggregator_turn, struct ps_server *server, struct ps_hosted *hosted)
{
	assert_ptr_equal(server, &test.server);
	return hosted == &server->hosted[1] ? test.switch_due_ns : UINT64_MAX;
}

PLAYED(bool, ps_aggregator_poll, const struct ps_hosted *hosted, struct pollfd *fd)
{
	*fd = (struct pollfd){ .fd = hosted == &test.server.hosted[1] ? 97 : -1, .events = 4 };
	return test.is_polled_aggregator && hosted == &test.server.hosted[1];
}

PLAYED(int, link_udp_fd, const struct link *link)
{
	assert_ptr_equal(link, &test.link);
	return LINK;
}

PLAYED(short, link_udp_events, const struct link *link)
{
	assert_ptr_equal(link, &test.link);
	return 5;
}

static struct played *played_of(const struct ps_conn *conn)
{
	return &test.played[conn - test.conn];
}

PLAYED(void, ps_conn_say, struct ps_conn *conn, const struct kv_message *message)
{
	assert_int_equal(message->type, KV_ALIVE);
	test.alive |= 1u << (conn - test.conn);
}

PLAYED(bool, ps_conn_write, struct ps_conn *conn, uint64_t now_ns)
{
	assert_true(now_ns == heard.now_ns);
	if (played_of(conn)->written_ns)
		conn->said_ns = played_of(conn)->written_ns;
	return !played_of(conn)->cannot_write;
}

PLAYED(bool, ps_conn_wants_to_write, const struct ps_conn *conn)
{
	return played_of(conn)->wants_to_write;
}

PLAYED(bool, ps_conn_is_full, const struct ps_conn *conn)
{
	return played_of(conn)->is_full;
}

PLAYED(int, kv_stream_read, struct kv_stream *stream)
{
	struct played *played = played_of((const struct ps_conn *)stream); /* its first field */

	test.read_calls++;
	if (played->frames < played->reads) {
		stream->received += played->bytes ? played->bytes : 1;
		played->frames++;
		played->is_full = played->frames == played->full_after;
	}
	return played->ends ? -ECONNRESET : 0;
}

PLAYED(void, ps_serve, struct ps_server *server, struct ps_conn *conn)
{
	static const char *const words[CONNS] = { "serve0", "serve1", "serve2" };

	assert_ptr_equal(server, &test.server);
	if (test.read_calls < 3)
		note(words[conn - test.conn]);
}

PLAYED(void, ps_serve_gone, struct ps_server *server, struct ps_conn *conn)
{
	assert_ptr_equal(server, &test.server);
	assert_false(test.closed & 1u << (conn - test.conn));
	note("gone");
}

PLAYED(void, ps_conn_close, struct ps_conn *conn)
{
	note("close");
	test.closed |= 1u << (conn - test.conn);
}

PLAYED(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *wait,
       const sigset_t *mask)
{
	assert_null(mask);
	assert_true(count <= 8);
	memcpy(test.fds, fds, count * sizeof(*fds));
	test.fds_count = (uint32_t)count;
	test.wait_ns = (uint64_t)wait->tv_sec * 1000000000 + (uint64_t)wait->tv_nsec;
	heard.now_ns += test.polled_after_ns;
	for (nfds_t i = 0; i < count; i++)
		fds[i].revents = test.revents[i];
	if (test.comes_anew)
		test.server.conn_count++;
	if (++test.turns)
		test.server.asked |= PS_STOP;
	errno = EINTR;
	return test.poll_fails ? -1 : (int)count;
}

PLAYED(ssize_t, read, int fd, void *at, size_t bytes)
{
	assert_int_equal(fd, BELL);
	memset(at, 0, bytes);
	return test.bells ? (test.bells--, 8) : -1;
}

PLAYED(ssize_t, write, int fd, const void *at, size_t bytes)
{
	assert_int_equal(fd, BELL);
	assert_int_equal(bytes, 8);
	assert_int_equal(*(const uint8_t *)at, 1);
	errno = EINTR;
	return test.bells++ ? 8 : -1;
}

static uint64_t now(struct link *link)
{
	assert_ptr_equal(link, &test.link);
	return heard.now_ns;
}

static int receive(struct link *link, struct link_frame *frames, uint32_t max)
{
	uint32_t count = test.frames_left < max ? test.frames_left : max;

	assert_ptr_equal(link, &test.link);
	assert_int_equal(max, FRAMES);
	test.frames_calls++;
	for (uint32_t i = 0; i < count; i++)
		frames[i] = test.frame;
	test.frames_left -= count;
	return test.link_error ? test.link_error : (int)count;
}

static void on_line(void *arg, enum ps_level level, const struct ps_about *about, const char *line)
{
	assert_ptr_equal(arg, &test);
	__wrap_ps_log(&test.server, level, *about, "%s", line);
}

static int setup(void **state)
{
	static const struct link_ops ops = { .now_ns = now, .recv = receive };

	(void)state;
	memset(&test, 0, sizeof(test));
	memset(&heard, 0, sizeof(heard));
	heard.now_ns = 100000 * ms_ns;
	test.link.ops = &ops;
	test.server.link = &test.link;
	test.server.bell = BELL;
	test.server.listener = LISTENER;
	test.server.options = (struct ps_server_options){
		.heartbeat_ms = 1000, .workers = WORKERS, .log = on_line, .arg = &test
	};
	test.server.hosted_count = TABLES;
	for (uint32_t i = 0; i < TABLES; i++) {
		test.table[i].home = (struct home_sparse *)(void *)&test.table[i];
		test.server.hosted[i].table = &test.table[i];
		test.server.hosted[i].worker = test.worker[i];
		strcpy(test.server.hosted[i].options.table.name, i ? "wide" : "emb");
	}
	for (uint32_t i = 0; i < CONNS; i++) {
		test.server.conn[i] = &test.conn[i];
		test.conn[i].stream.fd = 50 + (int)i;
		test.conn[i].heard_ns = test.conn[i].said_ns = heard.now_ns;
		strcpy(test.conn[i].who, "worker 1");
	}
	test.due_ns = test.switch_due_ns = UINT64_MAX;
	return 0;
}

static void turn(void)
{
	test.server.asked &= ~(unsigned)PS_STOP;
	assert_int_equal(ps_server_run(&test.server), 0);
}

#endif
