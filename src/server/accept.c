/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c - who connects: is accepted, named, and a stranger to begin with. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "server/internal.h"

/* Its text and its source. */
static void peer_name(struct peer *peer)
{
	struct link_address address = { .port = 0 };

	conn_peer(peer->conn, address.ip, &address.port);
	if (!address.port) {
		strcpy(peer->text, "a local process");
		return;
	}
	link_address_format(&address, peer->text);
	peer->source = link_address_source(&address);
}

/* Abstract unix sockets have no file permissions: anybody on this host can connect. */
static bool peer_is_foreign(const struct server *server, const struct conn *conn)
{
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	if (!server->is_local)
		return false;
	if (getsockopt(conn_fd(conn), SOL_SOCKET, SO_PEERCRED, &cred, &bytes))
		return true;
	return cred.uid && cred.uid != geteuid();
}

static void peer_add(struct server *server, struct conn *conn, bool is_last, uint64_t now_ns)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct peer *peer;
	uint32_t serial;

	if (peer_is_foreign(server, conn)) {
		server_say_stranger(server, "a process of another user was refused");
		conn_close(conn);
		if (is_last)
			server->spare_fd = peers_spare();
		return;
	}
	strangers_make_room(server, now_ns);
	peer = server->peers_free;
	assert(peer); /* strangers are few, and peer_finds_no_place keeps the others few enough */
	server->peers_free = peer->newer;
	serial = (peer->serial + 1) % (UINT32_MAX / PEERS_MAX);
	*peer = (struct peer){
		.conn = conn,
		.held = conn_fd(conn) + 1,
		.since_ns = now_ns,
		.serial = serial,
		.handle = (serial + 1) * PEERS_MAX + (uint32_t)(peer - server->peers),
		.events = EPOLLIN,
		.job = NO_JOB,
		.table = NO_TABLE,
		.has_spare = is_last,
	};
	peer_name(peer);
	conn_limit(conn, JOIN_BYTES_MAX);
	server->peers_count++;
	server->silent_count++;
	stranger_put(server, peer);
	event.data.u32 = peer->handle;
	if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, conn_fd(conn), &event)) {
		server_say_stranger(server,
				    "%s: its connection cannot be watched, and is closed: %s",
				    peer->text, strerror(errno));
		peer_free(server, peer);
	}
}

/* Out of descriptors: one more can come in if we give up what was kept for this. */
static int accept_last(struct server *server, struct conn **conn)
{
	int result;

	if (server->spare_fd < 0)
		return -EMFILE;
	close(server->spare_fd);
	server->spare_fd = -1;
	result = conn_accept(conn, server->listen_fd);
	if (result)
		server->spare_fd = peers_spare();
	return result;
}

static int accept_one(struct server *server, uint64_t now_ns)
{
	struct conn *conn;
	bool is_last = false;
	int result = conn_accept(&conn, server->listen_fd);

	if ((result == -EMFILE || result == -ENFILE) && strangers_give_up_one(server, now_ns))
		result = conn_accept(&conn, server->listen_fd);
	if (result == -EMFILE || result == -ENFILE) {
		result = accept_last(server, &conn);
		is_last = !result;
	}
	if (!result)
		peer_add(server, conn, is_last, now_ns);
	return result;
}

/* It stays in epoll, where there may be no room for it later. */
void peers_listen(struct server *server, bool is_on)
{
	struct epoll_event event = { .events = is_on ? EPOLLIN : 0, .data.u32 = READY_LISTEN };

	epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listen_fd, &event);
	server->is_listening = is_on;
}

void peers_accept(struct server *server, uint64_t now_ns)
{
	int result = 0;

	for (uint32_t i = 0; i < ACCEPTS && !result; i++)
		result = accept_one(server, now_ns);
	if (!result || result == -EAGAIN)
		return;
	/* Out of descriptors, most likely: those who wait in the backlog can wait a little longer. */
	server_say_stranger(server, "cannot accept a connection: %s", strerror(-result));
	peers_listen(server, false);
	server->listen_ns = now_ns + TICK_MS * MS_NS;
}

/* On a unix socket, unlike TCP, those in the backlog can still be accepted after the shutdown. Whoever got
 * in at all hears why it was to no avail; all others are refused, and know as much. */
void peers_local_last(struct server *server, uint64_t now_ns)
{
	if (!server->is_local || server->is_shut)
		return;
	server->is_shut = true;
	epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
	server->is_listening = false;
	server->listen_ns = UINT64_MAX;
	shutdown(server->listen_fd, SHUT_RDWR);
	while (!accept_one(server, now_ns)) {
	}
	for (uint32_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &server->peers[i];

		if (!peer->conn || peer->has_joined || peer->is_closing || peer->is_broken)
			continue;
		peer_not_silent(server, peer);
		peer_deny_ending(server, peer, now_ns);
	}
}
