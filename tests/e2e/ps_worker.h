/* SPDX-License-Identifier: Apache-2.0 */
/* ps_worker.h - for ps_test: workers that speak to a parameter server, and lose datagrams. Any failure ends the test. */
#ifndef TESTS_E2E_PS_WORKER_H
#define TESTS_E2E_PS_WORKER_H

#include "dataplane/endpoint_sparse.h"
#include "kv/message.h"
#include "util/rng.h"

enum {
	WORKERS = 4,
	DIM = 2,
	HOT = 300,
	COLD = 500,
	KEYS = HOT + COLD,
	WINDOW = 8,
	KEPT = 64,       /* pushes, and batches */
	PAIRS = 12,      /* of a push, and of a batch */
	LOSS = 10000,    /* of a million */
	VALUE_MAX = 100, /* sums stay below 2^24, where a float counts */
	ROUND_MS = 250,
	DEADLINE_S = 60,
};

struct batch {
	uint64_t number;
	uint64_t key[PAIRS];
	float value[PAIRS * DIM];
	uint32_t count;
};

struct worker {
	uint16_t index;
	int fd; /* -1: none */
	uint8_t in[KV_FRAME_BYTES + KV_BYTES_MAX];
	size_t in_count;
	struct link *link;
	struct outbox outbox;
	struct endpoint_sparse *endpoint;
	struct link_address server, at_switch;
	struct kv_message opened;
	uint8_t switch_nonce[KV_NONCE_BYTES];
	uint16_t switch_index;
	bool is_open, has_switch, is_known_there, is_known_switch;
	uint32_t serial;
	uint64_t knocked_ns;
	uint32_t map_keys; /* that have come */
	struct batch kept[KEPT];
	uint64_t batch_first, batch_next; /* unanswered, and the next */
	uint64_t pushes, batches;
	uint64_t barrier, passed; /* asked for, answered */
	uint32_t pulls, pulled;   /* likewise */
	uint64_t said_ns;
};

/* Of all workers. */
struct ps_test {
	struct rng rng;
	uint64_t hot[HOT], asked[KEYS]; /* keys; asked: all, in order */
	uint32_t rank_of[HOT];
	float got[KEYS][DIM];                  /* the values that were pulled last, as asked */
	uint16_t port;                         /* of the server */
	uint64_t lost, connections, elsewhere; /* datagrams; SWITCHes to an aggregator */
};
extern struct ps_test test;

uint64_t now_ns(void);

void worker_begin(struct worker *it, uint16_t index);
/* Reads, sends what is due, connects again. */
void worker_turn(struct worker *it);
void batch_say(struct worker *it, const struct batch *batch);
void barrier_say(struct worker *it);
void pull_say(struct worker *it);

#endif
