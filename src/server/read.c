/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - what connections say, for how long they are heard, and their end. */
#include <stdio.h>
#include <string.h>

#include "server/internal.h"

/* The connection has ended: its job hears of it after the entry is free. */
void peer_end(struct server *server, struct peer *peer)
{
	struct admission_event event = { .type = ADMISSION_CLOSED, .connection = peer->handle };
	struct job *job = peer->job == NO_JOB ? NULL : server->jobs[peer->job];
	struct table *table = peer->table == NO_TABLE ? NULL : server->tables[peer->table];

	peer_free(server, peer);
	if (job)
		job_step(server, job, &event);
	if (table)
		table_end(server, table);
}

static void peer_message(struct server *server, struct peer *peer,
			 const struct control_message *message, uint64_t now_ns)
{
	uint8_t nonce[WIRE_NONCE_BYTES];
	struct admission_event event = {
		.type = ADMISSION_MESSAGE,
		.connection = peer->handle,
		.message = message,
		.nonce = nonce,
	};

	if (!peer->has_joined)
		peer_join(server, peer, message, now_ns);
	else if (peer->table != NO_TABLE)
		table_message(server, peer, message, now_ns);
	if (peer->job != NO_JOB) {
		if (message->type == CONTROL_OPINFO)
			crossed_answered(server, server->jobs[peer->job], peer->handle,
					 &message->opinfo, now_ns);
		if (message->type == CONTROL_JOIN)
			event.source = peer->source;
		server_random(nonce, sizeof(nonce));
		job_step(server, server->jobs[peer->job], &event);
	}
	if (peer->is_stranger && !peer->is_closing && !peer->is_broken) {
		stranger_take(server, peer);
		conn_limit(peer->conn, CODEC_JSON_BYTES_MAX);
	}
}

/* A first message that may be as long as any would cost us more than a stranger is worth; and one that cannot be read
 * may be another version's, whose user is to know. */
static bool peer_said_nonsense(struct server *server, struct peer *peer, uint64_t now_ns)
{
	static const char nonsense[] = "the peer said nonsense: ";
	struct control_message deny = { .type = CONTROL_DENY };
	const char *why = conn_text(peer->conn);

	deny.end.cause = CONTROL_DENIED;
	deny.end.rank = CONTROL_RANK_NONE;
	if (!strncmp(why, nonsense, strlen(nonsense)))
		snprintf(deny.end.text, sizeof(deny.end.text),
			 "the aggregator cannot read the first message: %s",
			 why + strlen(nonsense));
	else
		snprintf(deny.end.text, sizeof(deny.end.text), "the aggregator does not take %s",
			 why);
	if (peer->has_joined || conn_answer_nonsense(peer->conn, &server->codec, &deny, now_ns))
		return false;
	peer_not_silent(server, peer);
	peer->is_closing = true;
	server->closing_count++;
	peer_arm(server, peer);
	return true;
}

/* No more is to be read there, or nothing is left of it. */
static void peer_stop(struct server *server, struct peer *peer, enum conn_result result,
		      uint64_t now_ns)
{
	if (result == CONN_ERROR && !peer->is_closing) {
		server_say_stranger(server, "%s: dropped: %s", peer->text, conn_text(peer->conn));
		if (peer_said_nonsense(server, peer, now_ns))
			return;
	}
	if (result != CONN_NONE)
		peer_end(server, peer);
	else
		peer_arm(server, peer);
}

void peer_read(struct server *server, struct peer *peer, uint64_t now_ns)
{
	struct control_message message;
	uint64_t until_ns = clock_ns() + PEER_US * 1000;

	for (uint32_t i = 0; i < PEER_MESSAGES; i++) {
		enum conn_result result;

		if (peer->is_broken)
			return; /* to be ended: what it still says is not worth our time */
		result = conn_read(peer->conn, now_ns, &server->codec, &message);
		if (result == CONN_MESSAGE && !peer->is_closing && !peer->is_broken)
			peer_message(server, peer, &message, now_ns);
		if (result == CONN_NONE || result == CONN_EOF || result == CONN_ERROR) {
			peer_stop(server, peer, result, now_ns);
			return;
		}
		if (clock_ns() >= until_ns)
			break;
	}
	peer->has_more = server->has_some_more = true;
	peer_arm(server, peer);
}

/* Ending one may break another. */
void peers_end_broken(struct server *server)
{
	while (server->is_some_broken) {
		server->is_some_broken = false;
		for (uint32_t i = 0; i < PEERS_MAX; i++) {
			struct peer *peer = &server->peers[i];

			if (peer->conn && peer->is_broken)
				peer_end(server, peer);
		}
	}
}

void peers_read_more(struct server *server, uint64_t now_ns)
{
	if (!server->has_some_more)
		return;
	server->has_some_more = false;
	for (uint32_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &server->peers[server->more_next];

		if (peer->conn && peer->has_more) {
			if (server_turn_is_over(server)) {
				server->has_some_more = true; /* these are first in the next turn */
				return;
			}
			peer->has_more = false;
			peer_read(server, peer, now_ns);
		}
		server->more_next = (server->more_next + 1) % PEERS_MAX;
	}
}

/* Strangers have some seconds to say JOIN, last words some seconds to be read. */
void peers_sweep(struct server *server, uint64_t now_ns)
{
	if (now_ns < server->sweep_ns)
		return;
	server->sweep_ns = now_ns + SWEEP_MS * MS_NS;
	for (uint32_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &server->peers[i];

		if (!peer->conn)
			continue;
		if (!peer->has_joined && now_ns - peer->since_ns > STRANGER_MS * MS_NS) {
			server_say_stranger(server, "%s: dropped: no JOIN in %d s", peer->text,
					    STRANGER_MS / 1000);
			peer_end(server, peer);
		} else if (now_ns >= conn_deadline(peer->conn)) {
			peer_read(server, peer, now_ns);
		}
	}
}
