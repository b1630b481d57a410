/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse_lies.h - packets of a table as somebody makes them who can write any source address, and knows all but the
 * random numbers: each is right in all but one. They leave from the sockets of those who could say such things.
 */
#ifndef TESTS_HOSTILE_SPARSE_LIES_H
#define TESTS_HOSTILE_SPARSE_LIES_H

#include "kvlib/kv.h"
#include "ps/internal.h"
#include "tally_kv.h"
#include "util/rng.h"

enum {
	WORKERS = 2,
	LIE_RUN = 64,
	LIE_BYTES = 512 /* of a datagram at most, as the table says */
};

/* Who says what to whom. */
enum side {
	SERVER_TO_WORKER,
	SERVER_TO_SWITCH,
	SWITCH_TO_SERVER,
	SWITCH_TO_WORKER,
	WORKER_TO_SWITCH,
	WORKER_TO_SERVER
};

/* The number that is wrong. */
enum guess { GUESS_GENERATION, GUESS_INSTANCE, GUESS_NONCE };

/* Where the table is summed: in tally-ps itself; at an aggregator that grants it, and answers no HELLO; by a tallyd. */
enum place { PLACE_INSIDE = 1, PLACE_SILENT = 2, PLACE_TALLYD = 4 };

struct lie {
	const char *name;
	enum side side;
	enum guess guess;
	int kind; /* of enum sparse_kind; HELLO, WELCOME: below 0 */
	unsigned places;
	bool is_servers; /* of HELLO, ASK: for the server, not for a worker */
};

enum { LIES = 26 };
extern const struct lie lies[LIES];

/* Who is there. */
struct cast {
	struct ps_server *server;
	struct tally_kv *kv[WORKERS];
	struct link *at_switch; /* the switch's; NULL: it is the server's, or another process's */
};

/* LIE_RUN of them, which the kernel takes and drops as one. How many it has taken: all, or none. *fd: the socket that they
 * have gone to; -1: it is another process's. */
uint32_t lie_send(const struct cast *cast, const struct lie *lie, struct rng *rng, int *fd);

#endif
