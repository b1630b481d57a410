/* SPDX-License-Identifier: Apache-2.0 */
/* table_client.c - see table_client.h. */
#include "control/table_client.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/rto.h"

static const uint64_t open_ns_default = 5000000000, beat_ns_default = 100000000,
		      silence_ns_default = 3000000000;

struct table_client {
	struct table_client_options options; /* with all defaults filled in */
	struct conn *conn;                   /* NULL: it has ended */
	enum table_client_state state;
	uint64_t begun_ns; /* table_client_open, or the end of what leaves */
	bool is_leaving;
	struct control_table_grant grant;
	struct control_table_beat beat; /* the last answer */
	uint32_t serial;                /* of the last beat that was sent */
	bool is_waiting;                /* for its answer */
	uint64_t generation;            /* that the aggregator is told; 0: none yet */
	bool is_naming;                 /* it has not been told yet */
	uint64_t beats, beat_ns;        /* answers that have come; when the last was sent */
	uint64_t srtt_ns, rttvar_ns;    /* of the answers */
	enum control_cause cause;
	char text[CONTROL_TEXT_BYTES + 2 * CONN_ADDRESS_BYTES];
	uint8_t nonces[CONTROL_NONCES_MAX][WIRE_NONCE_BYTES];
	struct codec codec;
};

int table_client_open(struct table_client **out, const struct table_client_options *options,
		      uint64_t now_ns)
{
	struct table_client *client = calloc(1, sizeof(*client));
	struct control_message message = { .type = CONTROL_TABLE_OPEN };
	int error;

	if (!client)
		return -ENOMEM;
	client->options = *options;
	if (!options->open.version_min && !options->open.version_max)
		client->options.open.version_min = client->options.open.version_max =
			CONTROL_VERSION;
	if (!options->open_ns)
		client->options.open_ns = open_ns_default;
	if (!options->beat_ns)
		client->options.beat_ns = beat_ns_default;
	if (!options->silence_ns)
		client->options.silence_ns = silence_ns_default;
	client->begun_ns = now_ns;
	error = conn_connect(&client->conn, &options->address, now_ns, client->options.open_ns);
	if (error) {
		free(client);
		return error;
	}
	message.table_open = client->options.open;
	error = conn_send(client->conn, &client->codec, &message);
	if (error) { /* -EINVAL: an option that no aggregator takes; codec->error would name it */
		table_client_close(client);
		return error;
	}
	*out = client;
	return 0;
}

void table_client_close(struct table_client *client)
{
	if (!client)
		return;
	conn_close(client->conn);
	explicit_bzero(client->nonces, sizeof(client->nonces));
	free(client);
}

static void end(struct table_client *client, enum control_cause cause, const char *why)
{
	if (client->state == TABLE_CLIENT_ENDED)
		return;
	snprintf(client->text, sizeof(client->text), "aggregator %s: %s",
		 client->options.address.text, why);
	client->cause = client->is_leaving ? CONTROL_OK : cause;
	client->state = TABLE_CLIENT_ENDED;
	conn_close(client->conn);
	client->conn = NULL;
}

/* ---- what comes ---- */

static void granted(struct table_client *client, const struct control_table_grant *grant)
{
	static const uint8_t zeros[sizeof(grant->ip)];
	uint16_t port;

	if (client->state != TABLE_CLIENT_OPENING) {
		end(client, CONTROL_INTERNAL, "it granted the table a second time");
		return;
	}
	if (grant->nonces_count != client->options.open.workers + 1) {
		end(client, CONTROL_INTERNAL, "its grant is not for as many workers as were said");
		return;
	}
	client->grant = *grant;
	memcpy(client->nonces, grant->nonces, grant->nonces_count * sizeof(*grant->nonces));
	client->grant.nonces = (const uint8_t(*)[WIRE_NONCE_BYTES])client->nonces;
	if (!memcmp(grant->ip, zeros, sizeof(zeros)))
		conn_peer(client->conn, client->grant.ip, &port);
	client->state = TABLE_CLIENT_LIVE;
}

/* Another table, or another life of it, under our index: the aggregator has lost ours. */
static void answered(struct table_client *client, const struct control_table_beat *beat,
		     uint64_t now_ns)
{
	if (client->state != TABLE_CLIENT_LIVE || !client->is_waiting ||
	    beat->serial != client->serial)
		return;
	client->is_waiting = false;
	client->beats++;
	rto_estimate(&client->srtt_ns, &client->rttvar_ns, now_ns - client->beat_ns);
	client->beat = *beat;
	if (beat->index != client->grant.index || beat->instance != client->grant.instance)
		end(client, CONTROL_INTERNAL, "it answers for another table");
}

static void take(struct table_client *client, const struct control_message *message,
		 uint64_t now_ns)
{
	switch (message->type) {
	case CONTROL_TABLE_GRANT:
		granted(client, &message->table_grant);
		break;
	case CONTROL_TABLE_BEAT:
		answered(client, &message->table_beat, now_ns);
		break;
	case CONTROL_TABLE_CLOSE:
		end(client, CONTROL_REMOTE, "closed");
		break;
	case CONTROL_DENY:
	case CONTROL_ABORT:
		end(client, (enum control_cause)message->end.cause, message->end.text);
		break;
	default:
		end(client, CONTROL_INTERNAL, "it said what is not for a parameter server");
		break;
	}
}

static void receive(struct table_client *client, uint64_t now_ns)
{
	struct control_message message;

	while (client->conn) {
		switch (conn_read(client->conn, now_ns, &client->codec, &message)) {
		case CONN_MESSAGE:
			take(client, &message, now_ns);
			break;
		case CONN_CONNECTED:
			break;
		case CONN_NONE:
			return;
		case CONN_EOF:
			end(client, CONTROL_REMOTE, conn_text(client->conn));
			break;
		case CONN_ERROR:
			end(client, CONTROL_SYSTEM, conn_text(client->conn));
			break;
		}
	}
}

/* ---- time ---- */

static void send_or_end(struct table_client *client, const struct control_message *message)
{
	int error = conn_send(client->conn, &client->codec, message);

	if (error == -EINVAL)
		end(client, CONTROL_INTERNAL, client->codec.error);
	else if (error && error != -EPIPE) /* why that is, conn_read will say */
		end(client, CONTROL_SYSTEM, strerror(-error));
}

static uint64_t limit_ns(const struct table_client *client)
{
	if (client->state == TABLE_CLIENT_OPENING || client->is_leaving)
		return client->begun_ns + client->options.open_ns;
	return client->is_waiting ? client->beat_ns + client->options.silence_ns : UINT64_MAX;
}

static void late(struct table_client *client)
{
	char words[64];

	if (client->state == TABLE_CLIENT_LIVE && !client->is_leaving)
		snprintf(words, sizeof(words), "silent for %llu ms",
			 (unsigned long long)(client->options.silence_ns / 1000000));
	else
		snprintf(words, sizeof(words), "no answer in %llu ms",
			 (unsigned long long)(client->options.open_ns / 1000000));
	end(client, CONTROL_TIMEOUT, words);
}

static bool is_beat_due(const struct table_client *client, uint64_t now_ns)
{
	if (client->state != TABLE_CLIENT_LIVE || client->is_leaving)
		return false;
	return client->is_naming || !client->serial ||
	       (!client->is_waiting && now_ns - client->beat_ns >= client->options.beat_ns);
}

enum table_client_state table_client_turn(struct table_client *client, uint64_t now_ns)
{
	struct control_message beat = { .type = CONTROL_TABLE_BEAT };

	receive(client, now_ns); /* before its silence is judged */
	if (client->conn && now_ns >= limit_ns(client))
		late(client);
	if (client->conn && is_beat_due(client, now_ns)) {
		if (!++client->serial)
			client->serial = 1; /* 0: none was sent */
		client->is_waiting = true;
		client->is_naming = false;
		client->beat_ns = now_ns;
		beat.table_beat.serial = client->serial;
		beat.table_beat.generation = client->generation;
		send_or_end(client, &beat);
	}
	return client->state;
}

uint64_t table_client_due(const struct table_client *client)
{
	uint64_t due_ns;

	if (!client->conn)
		return UINT64_MAX;
	due_ns = rto_least(conn_deadline(client->conn), limit_ns(client));
	if (client->state != TABLE_CLIENT_LIVE || client->is_leaving)
		return due_ns;
	if (client->is_naming || !client->serial)
		return 0;
	return client->is_waiting ? due_ns
				  : rto_least(due_ns, client->beat_ns + client->options.beat_ns);
}

void table_client_name(struct table_client *client, uint64_t generation)
{
	client->generation = generation;
	client->is_naming = true;
}

void table_client_leave(struct table_client *client, uint64_t now_ns)
{
	struct control_message message = { .type = CONTROL_TABLE_CLOSE };

	if (!client->conn || client->is_leaving)
		return;
	client->is_leaving = true;
	client->begun_ns = now_ns;
	send_or_end(client, &message);
}

/* ---- what the owner asks ---- */

int table_client_fd(const struct table_client *client)
{
	return client->conn ? conn_fd(client->conn) : -1;
}

short table_client_events(const struct table_client *client)
{
	return client->conn ? conn_events(client->conn) : 0;
}

const struct control_table_grant *table_client_grant(const struct table_client *client)
{
	assert(client->grant.instance); /* not before LIVE */
	return &client->grant;
}

const struct control_table_beat *table_client_beat(const struct table_client *client)
{
	return client->beats ? &client->beat : NULL;
}

uint64_t table_client_beats(const struct table_client *client)
{
	return client->beats;
}

uint64_t table_client_delay_ns(const struct table_client *client)
{
	return client->srtt_ns;
}

const char *table_client_text(const struct table_client *client)
{
	return client->text;
}

enum control_cause table_client_cause(const struct table_client *client)
{
	return client->cause;
}
