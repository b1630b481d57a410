/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - connections: found, counted, written, given up. What that means for others is read.c's. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "server/internal.h"

_Static_assert((PEERS_MAX & (PEERS_MAX - 1)) == 0, "a handle's low bits are the index");

struct peer *peer_of(struct server *server, uint32_t handle)
{
	struct peer *peer = &server->peers[handle % PEERS_MAX];

	return handle && peer->conn && peer->handle == handle ? peer : NULL;
}

/* POLLIN and POLLOUT are EPOLLIN and EPOLLOUT. */
void peer_arm(struct server *server, struct peer *peer)
{
	uint32_t events = (uint32_t)conn_events(peer->conn);
	struct epoll_event event = { .events = events, .data.u32 = peer->handle };

	if (events == peer->events)
		return;
	peer->events = events;
	epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, conn_fd(peer->conn), &event);
}

void peer_not_silent(struct server *server, struct peer *peer)
{
	if (!peer->has_joined)
		server->silent_count--;
	peer->has_joined = true;
}

void stranger_put(struct server *server, struct peer *peer)
{
	peer->is_stranger = true;
	peer->newer = NULL;
	peer->older = server->stranger_newest;
	if (peer->older)
		peer->older->newer = peer;
	else
		server->stranger_oldest = peer;
	server->stranger_newest = peer;
	server->strangers_count++;
}

void stranger_take(struct server *server, struct peer *peer)
{
	if (!peer->is_stranger)
		return;
	peer->is_stranger = false;
	if (peer->older)
		peer->older->newer = peer->newer;
	else
		server->stranger_oldest = peer->newer;
	if (peer->newer)
		peer->newer->older = peer->older;
	else
		server->stranger_newest = peer->older;
	server->strangers_count--;
}

int peers_spare(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void peer_free(struct server *server, struct peer *peer)
{
	peer_not_silent(server, peer);
	stranger_take(server, peer);
	if (peer->is_closing)
		server->closing_count--;
	server->peers_count--;
	atomic_store(&peer->held, 0);
	conn_close(peer->conn); /* leaves epoll by itself */
	if (peer->has_spare)
		server->spare_fd = peers_spare();
	peer->conn = NULL;
	peer->newer = server->peers_free;
	server->peers_free = peer;
}

/* A send that fails is the end of the peer, but not inside of the step that sends: others of its
 * actions are still to be carried out. */
void peer_send(struct server *server, struct peer *peer, const struct control_message *message)
{
	int result;

	if (peer->is_closing || peer->is_broken)
		return;
	result = conn_send(peer->conn, &server->codec, message);
	assert(result != -EINVAL); /* we encode only what may be decoded */
	if (result) {
		server_say_stranger(server, "%s: given up: %s", peer->text, strerror(-result));
		peer->is_broken = server->is_some_broken = true;
		return;
	}
	peer_arm(server, peer);
}

void peer_last_words(struct server *server, struct peer *peer, uint64_t now_ns)
{
	if (peer->is_closing)
		return;
	peer->is_closing = true;
	server->closing_count++;
	conn_last_words(peer->conn, now_ns);
	peer_arm(server, peer);
}

void peer_deny(struct server *server, struct peer *peer, enum control_cause cause, const char *text,
	       uint64_t now_ns)
{
	struct control_message message = { .type = CONTROL_DENY };

	message.end.cause = (uint16_t)cause;
	message.end.rank = CONTROL_RANK_NONE;
	snprintf(message.end.text, sizeof(message.end.text), "%s", text);
	peer_send(server, peer, &message);
	peer_last_words(server, peer, now_ns);
}

void peer_deny_ending(struct server *server, struct peer *peer, uint64_t now_ns)
{
	struct control_message message = { .type = CONTROL_DENY,
					   .end = { .cause = CONTROL_DENIED,
						    .rank = CONTROL_RANK_NONE,
						    .is_ending = 1,
						    .text = "the aggregator is shutting down" } };

	peer_send(server, peer, &message);
	peer_last_words(server, peer, now_ns);
}

void peers_last_words(struct server *server, uint64_t now_ns)
{
	for (uint32_t i = 0; i < PEERS_MAX; i++)
		if (server->peers[i].conn && server->peers[i].has_joined)
			peer_last_words(server, &server->peers[i], now_ns);
}

void peers_close_all(struct server *server)
{
	for (uint32_t i = 0; i < PEERS_MAX; i++)
		if (server->peers[i].conn)
			peer_free(server, &server->peers[i]);
}
