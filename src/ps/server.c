/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - see server.h. Its life, and the loop around everything. */
#include "ps/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/shared/rto.h"
#include "dataplane/link_address.h"
#include "ps/internal.h"
#include "util/clock.h"

enum {
	PORT = 7272,
	AGGREGATOR_PORT = 7171,
	FRAMES = 64,            /* taken from the socket at once */
	FRAMES_TURNS = 8,       /* before anybody else has a turn */
	READS = 16,             /* of a connection, likewise, */
	READ_BYTES = 256 << 10, /* and so many bytes, or a message: then come the others */
	HEARTBEATS = 8,         /* R-KV-12 */
	LISTEN_TRIES = 40,      /* for an address that is in use: 2 s */
	LISTEN_WAIT_NS = 50000000,
	AGE_US = 50000,
	PATIENCE_US = 100000,
	TURN_MS_MAX = 100 /* checkpoints, silence */
};

static const uint64_t ms_ns = 1000000;

static void ring(void *arg)
{
	struct ps_server *server = arg;
	uint64_t one = 1;

	while (write(server->bell, &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
}

void ps_server_ask(struct ps_server *server, enum ps_ask what)
{
	server->asked |= what;
	ring(server);
}

/* ---- sockets ---- */

static int failed(char error[PS_ERROR_MAX], const char *what, int why)
{
	return ps_fail(error, "%.300s: %s", what, strerror(why));
}

/* TCP first; UDP has the same port if it is free, else another one, which WELCOME tells. Who was killed a moment ago may
 * have left a child that has not yet closed its listener. */
static int listen_open(struct ps_server *server, const struct link_address *at, bool is_v6,
		       struct link_address *bound)
{
	struct conn_address address = { .bytes = 0 };

	address.bytes = link_address_to_socket(at, is_v6, (union link_sockaddr *)&address.socket);
	server->listener = conn_listen(&address);
	for (int tries = 0; server->listener == -EADDRINUSE && tries < LISTEN_TRIES; tries++) {
		nanosleep(&(struct timespec){ .tv_nsec = LISTEN_WAIT_NS }, NULL);
		server->listener = conn_listen(&address);
	}
	if (server->listener < 0)
		return server->listener;
	conn_address_ip(&address, bound->ip, &bound->port);
	return 0;
}

static int udp_open(struct ps_server *server, const struct link_address *bound, bool is_v6)
{
	struct link_udp_options udp = { .local = *bound,
					.is_v6 = is_v6,
					.keeps_via = link_address_is_any(bound),
					.poll_count = UINT32_MAX };
	int error = link_udp_open(&server->link, &udp);

	if (error == -EADDRINUSE) {
		udp.local.port = 0;
		error = link_udp_open(&server->link, &udp);
	}
	if (error)
		return error;
	server->port = server->link->local.port;
	server->self = server->link->local;
	if (link_address_is_any(bound)) {
		memset(server->self.ip, 0, sizeof(server->self.ip));
		server->self.ip[15] = 1;
		if (!is_v6)
			memcpy(server->self.ip + 10, "\xff\xff\x7f\x00\x00\x01", 6);
	}
	return 0;
}

static int sockets_open(struct ps_server *server, char error[PS_ERROR_MAX])
{
	struct engine_sparse_options engine = { .memory_max = server->options.switch_memory,
						.tables_max = 4096 };
	struct link_address at, bound = { .port = 0 };
	bool is_v6;
	int why;

	why = link_address_parse(server->options.listen, PORT, &at, &is_v6);
	if (why)
		return failed(error, server->options.listen, -why);
	why = listen_open(server, &at, is_v6, &bound);
	if (!why)
		why = udp_open(server, &bound, is_v6);
	if (why)
		return failed(error, server->options.listen, -why);
	server->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (server->bell < 0)
		return failed(error, "eventfd", errno);
	engine.link = server->link;
	server->engine = engine_sparse_open(&engine);
	if (!server->engine || outbox_open(&server->outbox, server->link))
		return failed(error, "the switch inside", ENOMEM);
	return 0;
}

/* ---- its life ---- */

static int hosted_open(struct ps_server *server, const struct ps_hosted_options *options,
		       char error[PS_ERROR_MAX])
{
	struct ps_hosted *hosted = &server->hosted[server->hosted_count];

	hosted->options = *options;
	if (!hosted->options.age_us)
		hosted->options.age_us = AGE_US;
	/* Whoever asks ends an epoch: not before age would have, and the flush has had its time. */
	if (!hosted->options.patience_us)
		hosted->options.patience_us = (uint32_t)(2 * hosted->options.age_us) + PATIENCE_US;
	hosted->options.table.workers = server->options.workers;
	hosted->options.table.changed = ring;
	hosted->options.table.arg = server;
	if (!hosted->options.table.memory_max)
		hosted->options.table.memory_max = 1ull << 30;
	hosted->number = (uint16_t)server->hosted_count;
	hosted->worker = calloc(server->options.workers, sizeof(*hosted->worker));
	hosted->row = calloc(options->table.window, sizeof(uint64_t));
	if (!hosted->worker || !hosted->row ||
	    ps_table_open(&hosted->table, &hosted->options.table, &server->outbox, error)) {
		if (!hosted->worker || !hosted->row)
			failed(error, options->table.name, ENOMEM);
		free(hosted->worker);
		free(hosted->row);
		return -1;
	}
	server->hosted_count++;
	if (*hosted->table->notice)
		ps_log(server, PS_WARN, ps_about(hosted, NULL), "%s", hosted->table->notice);
	return 0;
}

/* R-SP-26: after a restart as at the first start, there is no switch that could go on. */
static int hosted_begin(struct ps_server *server, struct ps_hosted *hosted,
			char error[PS_ERROR_MAX])
{
	struct ps_table *table = hosted->table;

	ps_log(server, PS_INFO, ps_about(hosted, NULL),
	       "%llu rows, %u of them hot, %llu records read",
	       (unsigned long long)store_rows(table->store), table->map.keys,
	       (unsigned long long)table->replayed);
	ps_steps_begin(server, hosted);
	hosted->saved_ns = ps_now(server);
	ps_spent_say(server, hosted);
	if (table->has_lost)
		ps_table_disown(table);
	if (table->options.durability == PS_CHECKPOINT) {
		ps_gather_begin(server, hosted);
	} else {
		home_sparse_fence(table->home, table->map.version);
		ps_summed_begin(server, hosted);
	}
	if (hosted->has_switch || hosted->candidate || hosted->table->kv.is_gathering)
		return 0;
	return ps_fail(
		error,
		"table %s: no switch for its %u hot keys: %s: %llu bytes are there for all tables "
		"that are summed here",
		hosted->options.table.name, table->map.keys, strerror(-hosted->no_room),
		(unsigned long long)server->options.switch_memory);
}

/* From a socket of loopback nothing gets to another host. */
static const char *out_of_reach(const struct ps_server *server, const struct conn_address *address)
{
	struct link_address at;

	conn_address_ip(address, at.ip, &at.port);
	return link_address_is_loopback(&server->link->local) && !link_address_is_loopback(&at)
		       ? "out of reach: this server listens on loopback alone; --listen an address "
			 "that it can be reached at"
		       : NULL;
}

static int aggregators_resolve(struct ps_server *server, char error[PS_ERROR_MAX])
{
	const struct ps_server_options *options = &server->options;

	for (uint32_t i = 0; i < options->aggregator_count; i++) {
		int why = conn_resolve(options->aggregator[i], AGGREGATOR_PORT,
				       &server->aggregator[i]);
		const char *unfit = why ? NULL : conn_address_unfit(&server->aggregator[i]);

		if (!why && !unfit)
			unfit = out_of_reach(server, &server->aggregator[i]);
		if (why || unfit)
			return ps_fail(error, "aggregator %.200s: %s", options->aggregator[i],
				       unfit            ? unfit
				       : why == -ENOENT ? "no such host"
							: strerror(-why));
	}
	return 0;
}

int ps_server_open(struct ps_server **out, const struct ps_server_options *options,
		   char error[PS_ERROR_MAX])
{
	struct ps_server *server = calloc(1, sizeof(*server));

	if (!server)
		return failed(error, "the server", ENOMEM);
	server->options = *options;
	ps_places(server);
	if (!server->options.heartbeat_ms)
		server->options.heartbeat_ms = 1000;
	if (!server->options.silence_ns)
		server->options.silence_ns = 500 * ms_ns;
	if (!server->options.switch_memory)
		server->options.switch_memory = 1ull << 30;
	if (!server->options.closed_ns)
		server->options.closed_ns = 5000 * ms_ns;
	if (!server->options.drain_ns)
		server->options.drain_ns = 2000 * ms_ns;
	server->listener = -1;
	server->bell = -1;
	server->values = calloc(KV_VALUES_MAX, sizeof(float));
	if (!server->values) {
		failed(error, "the server", ENOMEM);
		goto close_server;
	}
	if (sockets_open(server, error))
		goto close_server;
	if (aggregators_resolve(server, error))
		goto close_server;
	for (uint32_t i = 0; i < options->table_count; i++)
		if (hosted_open(server, &options->tables[i], error) ||
		    ps_share_adopt(server, &server->hosted[i], error))
			goto close_server;
	for (uint32_t i = 0; i < server->hosted_count; i++)
		if (hosted_begin(server, &server->hosted[i], error))
			goto close_server;
	*out = server;
	return 0;
close_server:
	ps_server_close(server);
	return -1;
}

void ps_server_close(struct ps_server *server)
{
	if (!server)
		return;
	for (uint32_t i = 0; i < server->conn_count; i++)
		ps_conn_close(server->conn[i]);
	for (uint32_t i = 0; i < server->hosted_count; i++) {
		ps_aggregator_drop(&server->hosted[i]);
		ps_table_close(server->hosted[i].table);
		free(server->hosted[i].worker);
		free(server->hosted[i].row);
	}
	engine_sparse_close(server->engine);
	outbox_close(&server->outbox);
	if (server->link)
		server->link->ops->close(server->link);
	if (server->listener >= 0)
		close(server->listener);
	if (server->bell >= 0)
		close(server->bell);
	free(server->values);
	free(server);
}

const char *ps_server_address(const struct ps_server *server, char text[PS_TEXT_BYTES])
{
	union link_sockaddr address;
	struct link_address at = { .port = 0 };
	socklen_t bytes = sizeof(address);

	if (!getsockname(server->listener, &address.any, &bytes))
		link_address_from_socket(&address, &at);
	return link_address_format(&at, text);
}

/* ---- the loop ---- */

/* R-KV-12: what it has said before `at_ns` was read. */
static void silence_look(struct ps_server *server, struct ps_conn *conn, uint64_t at_ns)
{
	if (at_ns <= conn->heard_ns + HEARTBEATS * server->options.heartbeat_ms * ms_ns)
		return;
	ps_log(server, PS_WARN, ps_about(NULL, conn), "%s: nothing was heard for %llu ms",
	       conn->who, (unsigned long long)((at_ns - conn->heard_ns) / ms_ns));
	conn->is_gone = true;
}

/* events: as they were at polled_ns. */
static void conn_serve(struct ps_server *server, struct ps_conn *conn, short events,
		       uint64_t polled_ns)
{
	uint64_t first = conn->stream.received;

	ps_serve(server, conn); /* what was left while it was full */
	if (!(events & (POLLIN | POLLHUP | POLLERR))) {
		silence_look(server, conn, polled_ns);
		return;
	}
	for (int i = 0; i < READS && !conn->is_gone && !conn->is_ending; i++) {
		uint64_t had = conn->stream.received;

		if (ps_conn_is_full(conn) || had - first >= READ_BYTES)
			break;
		if (kv_stream_read(&conn->stream)) {
			conn->is_gone = true;
			break;
		}
		if (conn->stream.received == had)
			break;
		conn->heard_ns = ps_now(server);
		ps_serve(server, conn);
	}
}

static void conn_turn(struct ps_server *server, struct ps_conn *conn, uint64_t now_ns)
{
	uint64_t beat_ns = server->options.heartbeat_ms * ms_ns;

	if (conn->is_welcome && !conn->is_ending && now_ns > conn->said_ns + beat_ns / 2 &&
	    !ps_conn_wants_to_write(conn))
		ps_conn_say(conn, &(struct kv_message){ .type = KV_ALIVE });
	if (!ps_conn_write(conn, now_ns))
		conn->is_gone = true;
	/* It is not listened to then: who takes what is said is there, and who waits for the disk is not to blame. */
	if (ps_conn_is_full(conn) && (conn->said_ns == now_ns || !ps_conn_wants_to_write(conn)))
		conn->heard_ns = now_ns;
	if (conn->has_left && !conn->gate_count)
		conn->is_ending = true;
	if (conn->is_ending && !ps_conn_wants_to_write(conn))
		conn->is_gone = true;
}

static void conns_turn(struct ps_server *server)
{
	uint64_t now_ns = ps_now(server);
	uint32_t left = 0;

	ps_strangers_turn(server, now_ns, HEARTBEATS * server->options.heartbeat_ms * ms_ns);
	for (uint32_t i = 0; i < server->conn_count; i++)
		conn_turn(server, server->conn[i], now_ns);
	for (uint32_t i = 0; i < server->conn_count; i++) {
		struct ps_conn *conn = server->conn[i];

		if (!conn->is_gone) {
			server->conn[left++] = conn;
			continue;
		}
		ps_serve_gone(server, conn);
		ps_conn_close(conn);
	}
	server->conn_count = left;
}

static int datagrams_take(struct ps_server *server)
{
	struct link_frame frames[FRAMES];

	for (int turn = 0; turn < FRAMES_TURNS; turn++) {
		int count = server->link->ops->recv(server->link, frames, FRAMES);

		if (count < 0) {
			ps_log(server, PS_ERROR, ps_about(NULL, NULL), "its UDP socket: %s",
			       strerror(-count));
			return -1;
		}
		for (int i = 0; i < count; i++) {
			const struct link_frame *frame = &frames[i];

			for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes)
				ps_summed_serve(server, &frame->peer, frame->data + at,
						link_packet_bytes(frame, at));
		}
		if (count < FRAMES)
			return 0;
	}
	return 0;
}

static void checkpoint_turn(struct ps_server *server, struct ps_hosted *hosted, bool is_now)
{
	char error[PS_ERROR_MAX];
	uint64_t every_ns = server->options.checkpoint_ns, now_ns = ps_now(server);
	int result = ps_table_checkpoint_turn(hosted->table, error);

	if (result)
		ps_log(server, result < 0 ? PS_ERROR : PS_INFO, ps_about(hosted, NULL), "%s",
		       result < 0 ? error : "a checkpoint was written");
	if (!is_now && (!every_ns || now_ns < hosted->saved_ns + every_ns))
		return;
	hosted->saved_ns = now_ns;
	if (ps_table_checkpoint(hosted->table, error))
		ps_log(server, PS_ERROR, ps_about(hosted, NULL), "%s", error);
}

static void report(const struct ps_server *server, const struct ps_hosted *hosted)
{
	const struct server_sparse *state = home_sparse_server(hosted->table->home);
	const struct home_sparse_stats *stats = home_sparse_stats(hosted->table->home);
	uint32_t here = 0;

	for (uint32_t i = 0; i < server->options.workers; i++)
		here += hosted->worker[i].conn != NULL;
	ps_log(server, PS_INFO, ps_about(hosted, NULL),
	       "%llu rows in %llu bytes, %u hot; %u of %u workers here; generation %llu, "
	       "%llu epochs, %llu records of which %llu durable; %llu pushes and batches lost "
	       "since the "
	       "start; flushes: %llu parts, %llu "
	       "dropped, "
	       "%llu of strangers; flags %u; %llu steps with a number that was too large",
	       (unsigned long long)store_rows(hosted->table->store),
	       (unsigned long long)store_bytes(hosted->table->store), hosted->table->map.keys, here,
	       server->options.workers, (unsigned long long)sparse_fences(state->generation),
	       (unsigned long long)(state->expected - 1), (unsigned long long)state->recorded,
	       (unsigned long long)state->durable, (unsigned long long)state->lost,
	       (unsigned long long)stats->parts, (unsigned long long)stats->dropped,
	       (unsigned long long)stats->strangers, state->sticky,
	       (unsigned long long)hosted->table->held);
}

/* R-SP-8: some sum is not what was pushed, and stays so; R-KV-19: some row is not what its optimiser would make it. */
static void sticky_say(struct ps_server *server, struct ps_hosted *hosted)
{
	uint16_t sticky = home_sparse_server(hosted->table->home)->sticky;
	const struct ps_table *table = hosted->table;

	if (table->held && !hosted->is_held)
		ps_log(server, PS_WARN, ps_about(hosted, NULL),
		       "a step of key %llu had a gradient or came to a number that was "
		       "too large: the largest that there is room for was taken in its place",
		       (unsigned long long)table->held_key);
	hosted->is_held = table->held;
	if (sticky == hosted->sticky)
		return;
	hosted->sticky = sticky;
	ps_log(server, PS_WARN, ps_about(hosted, NULL),
	       "values of hot keys were %s, and sums of them are not what was pushed%s",
	       sticky & SPARSE_SATURATED ? "too large" : "no numbers",
	       hosted->options.table.values == SPARSE_FIXED
		       ? ": a larger unit= has room for larger ones"
		       : "");
}

/* Once as it begins, and once as it ends. */
static void trouble_say(struct ps_server *server, struct ps_hosted *hosted)
{
	int trouble = ps_table_trouble(hosted->table);

	if (trouble == hosted->trouble)
		return;
	hosted->trouble = trouble;
	if (trouble)
		ps_log(server, PS_ERROR, ps_about(hosted, NULL),
		       "its log cannot be written: %s: nothing more is acknowledged%s",
		       log_why(trouble),
		       trouble == ENOENT ? ", and its workers end: a copy of the folder, and a "
					   "restart, are what helps"
					 : " until it can");
	else
		ps_log(server, PS_WARN, ps_about(hosted, NULL), "its log can be written again");
}

static void tables_turn(struct ps_server *server)
{
	unsigned asked = atomic_fetch_and(&server->asked, PS_STOP);

	if (asked & PS_RELOAD && server->options.reload)
		server->options.reload(server->options.arg);
	for (uint32_t i = 0; i < server->hosted_count; i++) {
		struct ps_hosted *hosted = &server->hosted[i];

		if (asked & PS_RELOAD)
			ps_reload(server, hosted);
		ps_table_settle(hosted->table);
		ps_serve_waiting(server, hosted);
		ps_steps_turn(server, hosted);
		ps_awaited_turn(server, hosted);
		ps_gather_turn(server, hosted);
		checkpoint_turn(server, hosted, asked & PS_SAVE);
		sticky_say(server, hosted);
		if (asked & PS_REPORT)
			report(server, hosted);
		trouble_say(server, hosted);
		ps_serve_deleted(server, hosted);
	}
	ps_dropped_turn(server);
	if (asked & PS_REPORT)
		ps_dropped_report(server);
}

static void wait_for(struct ps_server *server, uint64_t due_ns)
{
	struct pollfd *fds = server->fds;
	uint64_t now_ns = ps_now(server), most_ns = now_ns + TURN_MS_MAX * ms_ns;
	struct timespec wait;
	nfds_t count = 3;

	fds[0] = (struct pollfd){ .fd = server->bell, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = now_ns < server->accept_ns ? -1 : server->listener,
				  .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = link_udp_fd(server->link),
				  .events = link_udp_events(server->link) };
	for (uint32_t i = 0; i < server->conn_count; i++) {
		const struct ps_conn *conn = server->conn[i];
		bool listens = !conn->is_ending && !ps_conn_is_full(conn);

		fds[count++] = (struct pollfd){
			.fd = conn->stream.fd,
			.events = (short)((listens ? POLLIN : 0) |
					  (ps_conn_wants_to_write(conn) ? POLLOUT : 0)),
		};
	}
	for (uint32_t i = 0; i < server->hosted_count; i++)
		count += ps_aggregator_poll(&server->hosted[i], &fds[count]);
	if (due_ns > most_ns)
		due_ns = most_ns;
	due_ns = due_ns > now_ns ? due_ns - now_ns : 0;
	wait = clock_timespec(due_ns);
	if (ppoll(fds, count, &wait, NULL) < 0)
		for (nfds_t i = 0; i < count; i++)
			fds[i].revents = 0;
}

/* When the first of all is to be called again. */
static uint64_t switches_turn(struct ps_server *server)
{
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; i < server->hosted_count; i++)
		due_ns = rto_least(due_ns, ps_aggregator_turn(server, &server->hosted[i]));
	return rto_least(due_ns, ps_summed_turn(server));
}

/* An orderly end loses nothing, and what is lost after it can be told. */
static int tables_end(struct ps_server *server)
{
	char error[PS_ERROR_MAX];
	int result = 0;

	for (uint32_t i = 0; i < server->hosted_count; i++) {
		struct ps_table *table = server->hosted[i].table;

		if (!ps_table_end(table, error))
			continue;
		ps_log(server, PS_ERROR, ps_about(&server->hosted[i], NULL), "%s: %s", error,
		       table->options.durability == PS_CHECKPOINT
			       ? "what came after the last one is lost"
			       : "its log has no orderly end, and looks as after a crash");
		result = -1;
	}
	return result;
}

int ps_server_run(struct ps_server *server)
{
	while (!(server->asked & PS_STOP)) {
		uint64_t due_ns, polled_ns, rung;
		uint32_t conns;

		tables_turn(server);
		due_ns = switches_turn(server);
		conns_turn(server);
		conns = server->conn_count;
		wait_for(server, due_ns);
		polled_ns = ps_now(server);
		while (read(server->bell, &rung, sizeof(rung)) > 0)
			continue;
		/* Whoever is new was not asked for in this turn. */
		for (uint32_t i = 0; i < conns; i++)
			conn_serve(server, server->conn[i], server->fds[3 + i].revents, polled_ns);
		if (datagrams_take(server))
			return -1;
		if (server->fds[1].revents)
			ps_accept(server);
	}
	return tables_end(server);
}
