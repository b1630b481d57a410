/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_client.h - a parameter server's side of one table's connection to an aggregator: opens it, keeps asking
 * whether the shard still has it, and says how it ended. Never blocks; for a poll loop:
 *
 *     wait for table_client_events on table_client_fd, at most until table_client_due; then table_client_turn
 *
 * The table lives as long as the connection: table_client_close, or the death of this process, removes it.
 * docs/protocol.md, R-CT-28 to R-CT-31.
 */
#ifndef CONTROL_TABLE_CLIENT_H
#define CONTROL_TABLE_CLIENT_H

#include "control/conn.h"

struct table_client;

struct table_client_options {
	struct conn_address address;    /* of the aggregator's control: conn_resolve */
	struct control_table_open open; /* versions 0: this build's */
	uint64_t open_ns;               /* for connecting and the grant; 0: 5 s */
	uint64_t beat_ns;               /* from one TABLE_BEAT to the next; 0: 100 ms */
	uint64_t silence_ns; /* a beat that is not answered for so long ends it; 0: 3 s */
};

enum table_client_state {
	TABLE_CLIENT_OPENING,
	TABLE_CLIENT_LIVE,  /* granted */
	TABLE_CLIENT_ENDED, /* table_client_text says why; only table_client_close is left */
};

/* 0 and *client, the caller's until table_client_close; -ENOMEM; or connect's negative errno, if it fails at once. */
int table_client_open(struct table_client **client, const struct table_client_options *options,
		      uint64_t now_ns);
/* The connection ends at once, and with it the table. NULL is fine. */
void table_client_close(struct table_client *client);

int table_client_fd(const struct table_client *client); /* -1: it has ended */
short table_client_events(const struct table_client *client);
uint64_t table_client_due(const struct table_client *client); /* UINT64_MAX: never */
/* Reads, judges, sends what is due. now_ns: CLOCK_MONOTONIC, in all calls alike. */
enum table_client_state table_client_turn(struct table_client *client, uint64_t now_ns);

/* R-CT-30: the table's server has begun this generation with it: SETUP of no other is taken. The aggregator is told at
 * the next turn. */
void table_client_name(struct table_client *client, uint64_t generation);

/* Asks the aggregator to remove the table; it has ended when that is done ("closed"), or cannot be waited for. */
void table_client_leave(struct table_client *client, uint64_t now_ns);

/* From LIVE on, the client's: with an address, also where the aggregator has left that to the connection. */
const struct control_table_grant *table_client_grant(const struct table_client *client);
/* The last answer to a beat; NULL: there is none yet. */
const struct control_table_beat *table_client_beat(const struct table_client *client);
/* How many have come, and how long they take, smoothed (R-PACE-1). */
uint64_t table_client_beats(const struct table_client *client);
uint64_t table_client_delay_ns(const struct table_client *client);

/* How it ended, for people, with the aggregator's address; "" while it has not. */
const char *table_client_text(const struct table_client *client);
/* The same as a cause; CONTROL_OK: this side asked for it. */
enum control_cause table_client_cause(const struct table_client *client);

#endif
