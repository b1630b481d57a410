/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c - connections, and the places that there are for them: docs/protocol.md, R-KV-21. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/link_address.h"
#include "ps/internal.h"

enum {
	ACCEPTS = 64, /* in a turn, before anybody else has one */
	ACCEPT_AGAIN_MS = 1000,
	FILES_OTHERS =
		64, /* descriptors that are no worker's: sockets, folders; some for each table come on top */
	FILES_TABLE = 4 + LOG_OLD_MAX,
	PLACES_LEAST = 8
};

static const uint64_t ms_ns = 1000000;

void ps_places(struct ps_server *server)
{
	struct rlimit files;
	uint64_t others = FILES_OTHERS + (uint64_t)FILES_TABLE * server->options.table_count;

	server->places = PS_CONNS_MAX;
	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < others + server->places)
		server->places = files.rlim_cur > others + PLACES_LEAST
					 ? (uint32_t)(files.rlim_cur - others)
					 : PLACES_LEAST;
	if (server->places < PS_CONNS_MAX)
		ps_log(server, PS_WARN, ps_about(NULL, NULL),
		       "room for %u connections alone, not %u: the limit of open files is %llu "
		       "(ulimit -n)",
		       server->places, PS_CONNS_MAX, (unsigned long long)files.rlim_cur);
}

static void close_now(struct ps_server *server, uint32_t at)
{
	struct ps_conn *conn = server->conn[at];

	(void)ps_conn_write(conn, ps_now(server));
	ps_serve_gone(server, conn);
	ps_conn_close(conn);
	server->conn_count--;
	memmove(&server->conn[at], &server->conn[at + 1],
		(server->conn_count - at) * sizeof(*server->conn));
}

/* What it has said by now counts: reading it may make it a stranger no more. */
static void turn_away(struct ps_server *server, uint32_t at)
{
	struct ps_conn *conn = server->conn[at];

	if (!conn->is_ending && !kv_stream_read(&conn->stream))
		ps_serve(server, conn);
	if (!ps_is_stranger(server, conn))
		return;
	if (!conn->is_ending)
		ps_serve_refuse(server, conn, NULL, KV_REFUSED_BUSY,
				"no room for one more connection without a table: %u are open",
				server->conn_count);
	close_now(server, at);
}

/* One more stranger of this source is to have a place. */
static void make_room(struct ps_server *server, uint64_t source)
{
	uint32_t count, at = ps_stranger_oldest(server, &source, &count);

	if (count >= ps_source_max(server))
		turn_away(server, at);
	ps_stranger_oldest(server, NULL, &count);
	if (count < ps_strangers_max(server))
		return;
	source = ps_stranger_busiest(server);
	turn_away(server, ps_stranger_oldest(server, &source, &count));
}

/* There is no descriptor left: does a stranger give up one? */
static bool give_up_one(struct ps_server *server)
{
	uint64_t source = ps_stranger_busiest(server);
	uint32_t count, at = ps_stranger_oldest(server, &source, &count),
			before = server->conn_count;

	if (at == PS_CONNS_MAX)
		return false;
	turn_away(server, at);
	return server->conn_count < before;
}

static void take(struct ps_server *server, int fd, const union link_sockaddr *from)
{
	struct link_address address;
	struct ps_conn *conn;
	uint64_t source;

	link_address_from_socket(from, &address);
	source = link_address_source(&address);
	make_room(server, source);
	conn = server->conn_count < server->places ? ps_conn_open(fd, ps_now(server)) : NULL;
	if (!conn) {
		ps_log_stranger(server, ps_about(NULL, NULL),
				"no room for one more connection than %u", server->conn_count);
		close(fd);
		return;
	}
	conn->source = source;
	conn->link = ++server->links;
	server->conn[server->conn_count++] = conn;
}

void ps_accept(struct ps_server *server)
{
	for (int i = 0; i < ACCEPTS; i++) {
		union link_sockaddr from;
		socklen_t bytes = sizeof(from);
		int fd = accept4(server->listener, &from.any, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take(server, fd, &from);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
			return;
		if (give_up_one(server))
			continue;
		/* Whoever waits would wake us again at once. */
		ps_log(server, PS_WARN, ps_about(NULL, NULL),
		       "no connection can be taken for a second: %s", strerror(errno));
		server->accept_ns = ps_now(server) + ACCEPT_AGAIN_MS * ms_ns;
		return;
	}
}

void ps_strangers_turn(struct ps_server *server, uint64_t now_ns, uint64_t patience_ns)
{
	for (uint32_t i = 0; i < server->conn_count; i++) {
		struct ps_conn *conn = server->conn[i];

		if (conn->is_gone || !ps_is_stranger(server, conn) ||
		    now_ns <= conn->since_ns + patience_ns)
			continue;
		if (!conn->is_ending)
			ps_serve_refuse(server, conn, NULL, KV_REFUSED_BUSY,
					"no table was opened for %llu ms",
					(unsigned long long)((now_ns - conn->since_ns) / ms_ns));
		conn->is_gone = true;
	}
}
