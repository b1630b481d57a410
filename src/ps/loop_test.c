/* SPDX-License-Identifier: Apache-2.0 */
/* loop_test.c - one turn of a server: what is done for each table and connection, in which order, what is waited for and
 * for how long, and what is logged of it. All but server.c is played, the clock too. */
#include <errno.h>
#include <stdlib.h>

#include "ps/lines_fixture.h"

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

static void on_reload(void *arg)
{
	assert_ptr_equal(arg, &test);
	note("on-reload");
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

/* ---- tables ---- */

#define OF_WIDE "wide wide wide wide wide wide dropped summed"
#define OF_BOTH "settle serve_waiting steps_turn awaited_turn gather_turn serve_deleted " OF_WIDE

static void turn__does_all_for_each_table(void **state)
{
	(void)state;
	turn();
	assert_calls(OF_BOTH);
	assert_int_equal(heard.lines, 0);
	test.server.options.reload = on_reload;
	turn();
	assert_calls(OF_BOTH);
	ps_server_ask(&test.server, PS_RELOAD);
	turn();
	assert_calls("on-reload reload settle serve_waiting steps_turn awaited_turn gather_turn "
		     "serve_deleted wide " OF_WIDE);
	turn(); /* once */
	assert_calls(OF_BOTH);
	test.server.options.reload = NULL;
	ps_server_ask(&test.server, PS_RELOAD);
	turn();
	assert_calls("reload settle serve_waiting steps_turn awaited_turn gather_turn "
		     "serve_deleted wide " OF_WIDE);
}

static void bell__is_rung_by_all_that_is_asked(void **state)
{
	(void)state;
	ps_server_ask(&test.server, PS_STOP);
	assert_int_equal(test.bells, 2); /* the first was interrupted */
	assert_true(test.server.asked & PS_STOP);
	assert_int_equal(ps_server_run(&test.server), 0);
	assert_int_equal(test.turns, 0);
	turn();
	assert_int_equal(test.bells, 0); /* it was heard */
	ps_server_ask(&test.server, PS_REPORT);
	assert_int_equal(test.bells, 2);
	ps_server_ask(&test.server, PS_SAVE);
	assert_int_equal(test.bells, 3);
	ps_server_ask(&test.server, PS_RELOAD);
	assert_int_equal(test.bells, 4);
}

static void report__says_what_there_is(void **state)
{
	(void)state;
	test.server.hosted_count = 1;
	test.worker[0][0].conn = test.worker[0][2].conn = &test.conn[0];
	test.table[0].map.keys = 13;
	test.table[0].held = 14;
	test.sums[0] = (struct server_sparse){ .generation = 15ull << SPARSE_RANDOM_BITS | 7,
					       .expected = 17,
					       .recorded = 18,
					       .durable = 19,
					       .lost = 20,
					       .sticky = 3 };
	test.server.hosted[0].sticky = 3;
	test.server.hosted[0].is_held = true;
	test.stats = (struct home_sparse_stats){ .parts = 21, .dropped = 22, .strangers = 23 };
	ps_server_ask(&test.server, PS_REPORT);
	turn();
	assert_int_equal(heard.lines, 1);
	assert_line(0, PS_INFO, "emb",
		    "table emb: 11 rows in 12 bytes, 13 hot; 2 of 3 workers here; generation 15, "
		    "16 epochs, 18 records of which 19 durable; 20 pushes and batches lost since "
		    "the start; flushes: 21 parts, 22 dropped, 23 of strangers; flags 3; 14 steps "
		    "with a number that was too large");
	assert_non_null(strstr(test.calls, "dropped dropped-all"));
	turn();
	assert_int_equal(heard.lines, 1);
}

static void checkpoint__is_as_often_as_it_is_told(void **state)
{
	struct ps_hosted *hosted = &test.server.hosted[0];

	(void)state;
	test.server.hosted_count = 1;
	hosted->saved_ns = heard.now_ns - 500;
	turn();
	assert_null(strstr(test.calls, "checkpoint"));
	test.server.options.checkpoint_ns = 501;
	turn();
	assert_null(strstr(test.calls, "checkpoint"));
	heard.now_ns++;
	turn();
	assert_non_null(strstr(test.calls, "checkpoint"));
	assert_true(hosted->saved_ns == heard.now_ns);
	*test.calls = 0;
	turn();
	assert_null(strstr(test.calls, "checkpoint"));
	test.server.options.checkpoint_ns = 0;
	heard.now_ns++;
	ps_server_ask(&test.server, PS_SAVE);
	test.checkpoint_fails = 1;
	turn();
	assert_non_null(strstr(test.calls, "checkpoint"));
	assert_true(hosted->saved_ns == heard.now_ns);
	assert_line(0, PS_ERROR, "emb", "table emb: no child for it");
	test.checkpoint = 1;
	turn();
	assert_line(1, PS_INFO, "emb", "table emb: a checkpoint was written");
	test.checkpoint = -1;
	turn();
	assert_line(2, PS_ERROR, "emb", "table emb: no room for it");
	assert_int_equal(heard.lines, 3);
}

static void sums__that_are_wrong_are_said_once(void **state)
{
	(void)state;
	test.server.hosted[0].options.table.values = SPARSE_FIXED;
	test.server.hosted[1].options.table.values = SPARSE_LNS;
	test.sums[0].sticky = SPARSE_SATURATED;
	test.sums[1].sticky = (uint16_t)~SPARSE_SATURATED;
	turn();
	turn();
	assert_line(0, PS_WARN, "emb",
		    "table emb: values of hot keys were too large, and sums of them are not what "
		    "was pushed: a larger unit= has room for larger ones");
	assert_line(1, PS_WARN, "wide",
		    "table wide: values of hot keys were no numbers, and sums of them are not what "
		    "was pushed");
	test.table[0].held = 3;
	test.table[0].held_key = 1234;
	turn();
	turn();
	assert_line(2, PS_WARN, "emb",
		    "table emb: a step of key 1234 had a gradient or came to a number that was too "
		    "large: the largest that there is room for was taken in its place");
	assert_int_equal(heard.lines, 3);
}

static void trouble__is_said_as_it_begins_and_ends(void **state)
{
	(void)state;
	test.trouble = ENOSPC;
	turn();
	turn();
	assert_line(0, PS_ERROR, "emb",
		    "table emb: its log cannot be written: No space left on device: nothing more "
		    "is acknowledged until it can");
	test.trouble = ENOENT;
	turn();
	assert_line(1, PS_ERROR, "emb",
		    "table emb: its log cannot be written: its file was deleted: nothing more is "
		    "acknowledged, and its workers end: a copy of the folder, and a restart, are "
		    "what helps");
	test.trouble = 0;
	turn();
	turn();
	assert_line(2, PS_WARN, "emb", "table emb: its log can be written again");
	assert_int_equal(heard.lines, 3);
}

static void end__of_a_table_that_fails_is_said(void **state)
{
	(void)state;
	test.table[1].options.durability = PS_CHECKPOINT;
	test.end_of[0] = test.end_of[1] = -1;
	test.server.asked |= PS_STOP;
	assert_int_equal(ps_server_run(&test.server), -1);
	assert_line(0, PS_ERROR, "emb",
		    "table emb: it could not end: its log has no orderly end, and looks as after a "
		    "crash");
	assert_line(1, PS_ERROR, "wide",
		    "table wide: it could not end: what came after the last one is lost");
	test.end_of[0] = 0;
	assert_int_equal(ps_server_run(&test.server), -1);
	test.end_of[1] = 0;
	assert_int_equal(ps_server_run(&test.server), 0);
	assert_int_equal(heard.lines, 3);
}

/* ---- connections ---- */

/* One member; the turn is now. */
static struct ps_conn *one(void)
{
	setup(NULL);
	test.server.conn_count = 1;
	test.conn[0].is_welcome = true;
	return &test.conn[0];
}

static void alive__is_said_after_half_a_heartbeat_of_silence(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	turn();
	assert_true(test.patience_ns == 8000 * ms_ns);
	conn->said_ns = heard.now_ns - 500 * ms_ns;
	turn();
	assert_int_equal(test.alive, 0);
	conn->said_ns--;
	test.played[0].wants_to_write = true;
	turn();
	assert_int_equal(test.alive, 0);
	test.played[0].wants_to_write = false;
	conn->is_welcome = false;
	turn();
	assert_int_equal(test.alive, 0);
	conn->is_welcome = true;
	turn();
	assert_int_equal(test.alive, 1);
	conn = one();
	conn->is_ending = true;
	conn->said_ns -= 501 * ms_ns;
	turn();
	assert_int_equal(test.alive, 0);
}

static void conn__that_has_gone_is_closed_and_the_others_stay(void **state)
{
	(void)state;
	test.server.conn_count = CONNS;
	test.conn[0].is_gone = true;
	test.played[2].cannot_write = true;
	turn();
	assert_int_equal(test.closed, 5);
	assert_int_equal(test.server.conn_count, 1);
	assert_ptr_equal(test.server.conn[0], &test.conn[1]);
	assert_non_null(strstr(test.calls, "gone close gone close"));
}

static void conn__ends_when_all_was_said(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	conn->is_ending = test.played[0].wants_to_write = true;
	turn();
	assert_int_equal(test.closed, 0);
	test.played[0].wants_to_write = false;
	turn();
	assert_int_equal(test.closed, 1);
	conn = one();
	conn->has_left = true;
	conn->gate_count = 1; /* the disk has not what it has said */
	turn();
	assert_int_equal(test.closed, 0);
	assert_false(conn->is_ending);
	conn->gate_count = 0;
	turn();
	assert_int_equal(test.closed, 1);
}

static void full__conn_counts_as_heard_while_it_takes_something(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	heard.now_ns += 5;
	test.played[0].is_full = test.played[0].wants_to_write = true;
	turn();
	assert_true(conn->heard_ns == heard.now_ns - 5);
	test.played[0].written_ns = heard.now_ns;
	turn();
	assert_true(conn->heard_ns == heard.now_ns);
	heard.now_ns += 5;
	test.played[0].wants_to_write = false; /* all of it waits for the disk */
	turn();
	assert_true(conn->heard_ns == heard.now_ns);
	heard.now_ns += 5;
	test.played[0].is_full = false;
	turn();
	assert_true(conn->heard_ns == heard.now_ns - 5);
}

/* R-KV-12 */
static void silence__of_8_heartbeats_is_the_end(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	test.polled_after_ns = 8000 * ms_ns;
	turn();
	assert_false(conn->is_gone);
	assert_int_equal(heard.lines, 0);
	conn->heard_ns = heard.now_ns - 1;
	test.revents[3] = POLLIN; /* it has said something, which was not read */
	turn();
	assert_false(conn->is_gone);
	conn->heard_ns = heard.now_ns - 1;
	test.revents[3] = POLLOUT;
	turn();
	assert_true(conn->is_gone);
	assert_line(0, PS_WARN, NULL, "worker 1: nothing was heard for 8000 ms");
	assert_int_equal(heard.about[0].worker, 0);
}

static void read__is_bounded_in_a_turn(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	test.revents[3] = POLLIN;
	test.played[0].reads = 100;
	test.polled_after_ns = 5;
	turn();
	assert_int_equal(test.read_calls, 16);
	assert_true(conn->heard_ns == heard.now_ns);
	test.played[0].reads = test.played[0].frames + 2; /* and then there is nothing more */
	turn();
	assert_int_equal(test.read_calls, 16 + 3);
	test.played[0].reads += 5;
	test.played[0].full_after = test.played[0].frames + 3;
	turn();
	assert_int_equal(test.read_calls, 19 + 3);
	test.played[0].is_full = false;
	test.played[0].full_after = 0;
	test.played[0].reads += 100;
	test.played[0].bytes = 64 << 10; /* 256 KiB, and then come the others */
	turn();
	assert_int_equal(test.read_calls, 22 + 4);
	conn->is_ending = test.played[0].wants_to_write = true;
	turn();
	assert_int_equal(test.read_calls, 26);
}

static void read__of_an_end_is_the_end(void **state)
{
	static const short events[] = { POLLHUP, POLLERR };

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct ps_conn *conn = one();

		test.revents[3] = events[i];
		test.played[0].ends = true;
		turn();
		assert_true(conn->is_gone);
		assert_int_equal(test.read_calls, 1);
		assert_non_null(strstr(test.calls, "summed serve0"));
		assert_true(conn->heard_ns == heard.now_ns);
	}
	one(); /* whoever is new was not asked for */
	test.comes_anew = true;
	test.revents[4] = POLLIN;
	turn();
	assert_int_equal(test.read_calls, 0);
}

/* ---- what is waited for ---- */

static void assert_fd(uint32_t i, int fd, short events)
{
	assert_true(i < test.fds_count);
	assert_int_equal(test.fds[i].fd, fd);
	assert_int_equal(test.fds[i].events, events);
}

static void wait__is_for_all_that_may_come(void **state)
{
	(void)state;
	test.server.conn_count = CONNS;
	test.played[1].is_full = test.played[1].wants_to_write = true;
	test.conn[2].is_ending = test.played[2].wants_to_write = true;
	turn();
	assert_int_equal(test.fds_count, 6);
	assert_fd(0, BELL, POLLIN);
	assert_fd(1, LISTENER, POLLIN);
	assert_fd(2, LINK, 5);
	assert_fd(3, 50, POLLIN);
	assert_fd(4, 51, POLLOUT);
	assert_fd(5, 52, POLLOUT);
	test.is_polled_aggregator = true;
	test.server.accept_ns = heard.now_ns + 1;
	turn();
	assert_fd(1, -1, POLLIN);
	assert_int_equal(test.fds_count, 7);
	assert_fd(6, 97, 4);
	test.server.accept_ns--;
	turn();
	assert_fd(1, LISTENER, POLLIN);
}

static void wait__is_until_something_is_due(void **state)
{
	(void)state;
	turn();
	assert_true(test.wait_ns == 100 * ms_ns); /* checkpoints, silence */
	test.due_ns = heard.now_ns + 100 * ms_ns - 1;
	turn();
	assert_true(test.wait_ns == 100 * ms_ns - 1);
	test.switch_due_ns = heard.now_ns + 7;
	turn();
	assert_true(test.wait_ns == 7);
	test.due_ns = heard.now_ns - 1;
	turn();
	assert_true(test.wait_ns == 0);
}

static void wait__that_fails_has_brought_nothing(void **state)
{
	(void)state;
	one();
	test.revents[1] = test.revents[3] = POLLIN;
	test.poll_fails = true;
	turn();
	assert_int_equal(test.read_calls, 0);
	assert_null(strstr(test.calls, "accept"));
	test.poll_fails = false;
	turn();
	assert_int_equal(test.read_calls, 1);
	assert_non_null(strstr(test.calls, "accept"));
}

/* ---- datagrams ---- */

static void datagrams__of_one_frame_are_told_apart(void **state)
{
	(void)state;
	test.frame = (struct link_frame){
		.peer = { .port = 33 }, .packet_bytes = 10, .bytes = 25, .data = test.data
	};
	test.frames_left = 2;
	turn();
	assert_int_equal(test.datagrams, 6);
	assert_int_equal(test.datagram_bytes[0], 10);
	assert_int_equal(test.datagram_bytes[1], 10);
	assert_int_equal(test.datagram_bytes[2], 5);
	assert_int_equal(test.datagram_bytes[3], 10);
	assert_int_equal(test.frames_calls, 1);
	test.frames_left = FRAMES;
	turn();
	assert_int_equal(test.datagrams, 6 + 3 * FRAMES);
	assert_int_equal(test.frames_calls, 3);
	test.frames_left = 9 * FRAMES;
	turn();
	assert_int_equal(test.frames_left, FRAMES); /* others have a turn */
}

static void datagrams__of_a_broken_socket_end_the_server(void **state)
{
	(void)state;
	test.link_error = -ENETDOWN;
	test.server.asked &= ~(unsigned)PS_STOP;
	assert_int_equal(ps_server_run(&test.server), -1);
	assert_line(0, PS_ERROR, NULL, "its UDP socket: Network is down");
	assert_int_equal(test.turns, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(turn__does_all_for_each_table),
		T(bell__is_rung_by_all_that_is_asked),
		T(report__says_what_there_is),
		T(checkpoint__is_as_often_as_it_is_told),
		T(sums__that_are_wrong_are_said_once),
		T(trouble__is_said_as_it_begins_and_ends),
		T(end__of_a_table_that_fails_is_said),
		T(alive__is_said_after_half_a_heartbeat_of_silence),
		T(conn__that_has_gone_is_closed_and_the_others_stay),
		T(conn__ends_when_all_was_said),
		T(full__conn_counts_as_heard_while_it_takes_something),
		T(silence__of_8_heartbeats_is_the_end),
		T(read__is_bounded_in_a_turn),
		T(read__of_an_end_is_the_end),
		T(wait__is_for_all_that_may_come),
		T(wait__is_until_something_is_due),
		T(wait__that_fails_has_brought_nothing),
		T(datagrams__of_one_frame_are_told_apart),
		T(datagrams__of_a_broken_socket_end_the_server),
#undef T
	};

	return cmocka_run_group_tests_name("ps-loop", tests, NULL, NULL);
}
