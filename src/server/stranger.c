/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stranger.c - connections that no job has taken: they have said no JOIN yet, or were denied. They have a
 * share of the table and no more; whoever comes when that is full takes the place of the oldest.
 */
#include <stdio.h>

#include "server/internal.h"

/* R-CT-1: its place is for another. Who was denied has heard why. */
static void turn_away(struct server *server, struct peer *peer, uint64_t now_ns)
{
	char words[CONTROL_TEXT_BYTES];

	if (!peer->has_joined) {
		snprintf(words, sizeof(words),
			 "the aggregator has no room for another connection: %u are open, %u of "
			 "them without a JOIN that it takes",
			 server->peers_count, server->strangers_count);
		server_say_stranger(server, "%s: turned away: %s", peer->text, words);
		peer_deny(server, peer, CONTROL_NO_RESOURCE, words, now_ns);
	}
	peer_end(server, peer);
}

/* What it has said by now counts: reading it may end it, or make it a stranger no more. */
static bool is_still_stranger(struct server *server, struct peer *peer, uint64_t now_ns)
{
	uint32_t handle = peer->handle;

	if (!peer->has_joined)
		peer_read(server, peer, now_ns);
	return peer_of(server, handle) && peer->is_stranger;
}

void strangers_make_room(struct server *server, uint64_t now_ns)
{
	while (server->strangers_count >= STRANGERS_MAX) {
		struct peer *oldest = server->stranger_oldest;

		if (is_still_stranger(server, oldest, now_ns))
			turn_away(server, oldest, now_ns);
	}
}

/* Whose address has more of them than it needs; NULL. It is looked for among the oldest alone. */
static struct peer *one_of_many(const struct server *server)
{
	struct peer *peer = server->stranger_oldest;

	for (uint32_t i = 0; peer && i < STRANGERS_LOOKED; i++, peer = peer->newer) {
		uint32_t count = 0;

		for (const struct peer *at = peer; at; at = at->newer)
			count += at->source == peer->source;
		if (count > STRANGERS_FEW && !peer->has_spare)
			return peer;
	}
	return NULL;
}

bool strangers_give_up_one(struct server *server, uint64_t now_ns)
{
	struct peer *many = one_of_many(server);
	struct peer *oldest = many ? many : server->stranger_oldest;

	if (!oldest || oldest->has_spare ||
	    (!many && !oldest->has_joined && now_ns - oldest->since_ns < STRANGER_LEAST_MS * MS_NS))
		return false;
	if (is_still_stranger(server, oldest, now_ns))
		turn_away(server, oldest, now_ns);
	return true;
}
