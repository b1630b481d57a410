/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.h - inside a table of keys (tally_kv_*): who holds what. One thread per table serves its connections and its
 * UDP socket; callers leave operations with it, and sleep until they are complete. All below is under kv->lock.
 *
 *     kv.c         the calls of tally.h
 *     kv_thread.c  the thread: packets, messages and time, in turns
 *     kv_work.c    operations: from keys and values to pushes, batches and pulls, and back
 *     kv_server.c  the connection to one server: again and again, as the same incarnation (R-KV)
 *     kv_hot.c     the hot keys at one server: their map, their stream over UDP (R-SP)
 */
#ifndef LIB_KV_H
#define LIB_KV_H

#include <pthread.h>
#include <sys/types.h>

#include "control/conn.h"
#include "core/pack_sparse.h"
#include "dataplane/endpoint_sparse.h"
#include "kv/stream.h"
#include "lib/report.h"
#include "tally.h"

enum {
	KV_SERVERS_MAX = 64,
	KV_PORT = 7272,
	KV_KEPT_PACKETS = 1024,
	KV_QUEUE_BYTES = 64 << 20,
	KV_BATCH_BYTES_MAX = 8 << 20, /* of batches without an answer: more are not made */
	KV_PULL_BYTES_MAX = 8 << 20,  /* of pulls without an answer: more wait to be asked for */
	KV_DEADLINE_MS = 60000,
	KV_HEARTBEATS_SILENT = 8, /* R-KV-12 */
};

struct tally_kv;
struct kv_work;

/* HELLO over UDP until WELCOME (R-KV-7). */
struct kv_greeting {
	struct link_address address;
	uint8_t nonce[KV_NONCE_BYTES];
	uint16_t index;
	bool is_begun, is_welcome;
	uint32_t serial, before; /* of the last HELLO; this one's begin behind */
	uint64_t due_ns, wait_ns;
};

struct kv_batch {
	struct kv_batch *next;
	uint64_t number;
	size_t bytes;
	uint8_t frame[];
};

struct kv_pull {
	struct kv_pull *next;
	uint64_t number;
	struct kv_work *work;
	uint32_t first, count; /* of work->order */
	size_t bytes;          /* of its frame, at most */
	bool is_said;
};

enum kv_server_state { KV_DOWN, KV_CONNECTING, KV_OPENING, KV_MAPPING, KV_UP };

struct kv_server {
	struct tally_kv *kv;
	uint32_t idx;
	struct conn_address at;
	enum kv_server_state state;
	struct kv_stream stream;
	uint64_t retry_ns, retry_wait_ns, down_ns; /* since when it is down */
	uint64_t heard_ns, said_ns, heartbeat_ns;
	bool was_answered;        /* since it is up */
	char lost[KV_TEXT_BYTES]; /* why, the last time */

	/* As OPENED has said it for the first time. */
	bool was_open;
	uint16_t number; /* of the table there */
	uint32_t ranks, map_version;
	float scale;
	uint64_t generation, expected, patience_ns;
	struct sparse_table shape;

	struct sparse_map map;
	uint64_t *map_key; /* what `map` points to */
	uint32_t *map_rank;
	uint32_t map_got;
	struct link_address at_server;
	struct kv_greeting to_server, to_switch;
	uint64_t switch_generation;
	struct endpoint_sparse *endpoint;
	uint64_t hot_low; /* as of the last turn */
	/* When something last came of pushes, batches and pulls, or the first of them went there. */
	uint64_t hot_ns, batch_ns, pull_ns;

	struct kv_batch *batches, **batches_end; /* not answered */
	size_t batch_bytes;
	uint64_t batch_next, batch_done;
	struct kv_pull *pulls, *pulls_unsaid; /* in order; from which on none was said */
	size_t pull_bytes;                    /* of those that were said */
	uint64_t pull_next;
	struct kv_work *barrier;

	/* What is being filled for the next push and the next batch, of one work. */
	uint8_t hot[SPARSE_BODY_MAX];
	uint16_t hot_count, hot_flags;
	uint64_t cold_key[KV_KEYS_MAX];
	float cold_value[KV_VALUES_MAX];
	uint32_t cold_count;
};

/* A work's keys at one server. */
struct kv_part {
	uint32_t first, count; /* of work->order */
	uint32_t next;         /* below: in a push or batch */
	bool is_fed;           /* all are */
	uint32_t pulls;        /* without an answer */
	uint64_t seq, batch;   /* the last ones; 0: none */
};

enum kv_work_kind { KV_WORK_PUSH, KV_WORK_PULL, KV_WORK_BARRIER };

struct kv_work {
	struct kv_work *next;
	uint64_t timestamp, begin_ns;
	enum kv_work_kind kind;
	bool is_pulling; /* the pulls are on their way: from the start, or after the push */
	bool is_awaited; /* a push that somebody waits for */
	int result;
	char text[KV_TEXT_BYTES]; /* why */
	uint32_t count;           /* keys */
	uint32_t pulls_left;
	uint64_t *key;   /* copies */
	float *value;    /* NULL: nothing to push */
	uint32_t *order; /* indices of keys, server by server */
	float *out;      /* the caller's; NULL: nothing to pull */
	uint64_t number; /* BARRIER */
	uint32_t barriers_left;
	struct kv_part part[];
};

struct tally_kv {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool is_ending;
	int wake_fd;
	pid_t pid;
	int error; /* the table is broken, */
	char error_text[REPORT_TEXT_MAX];
	struct report_who who;
	char name[KV_NAME_BYTES], key[KV_JOB_BYTES];
	uint16_t dim, worker, workers;
	uint64_t incarnation, deadline_ns;
	uint32_t kept_packets;
	bool has_copies;
	size_t queue_bytes, queue_bytes_max; /* of works that are not fed */
	struct link *link;
	struct outbox outbox;
	uint64_t now_ns, stall_ns;          /* when to look for what nothing comes of */
	struct kv_work *works, **works_end; /* in order of timestamps */
	uint64_t timestamp_next, barrier_next, hurry_to;
	struct kv_codec codec;
	struct kv_message message;
	struct tally_kv_stats stats; /* bytes: of connections that are closed */
	uint32_t servers;
	struct kv_server server[];
};

/* The first error stays; what is outstanding ends with it, when the thread's turn is over. */
void kv_break(struct tally_kv *kv, int result, const char *format, ...) REPORT_FORMAT(3, 4);

/* ---- kv_thread.c ---- */

int kv_thread_begin(struct tally_kv *kv); /* 0, or a positive errno */
void kv_thread_end(struct tally_kv *kv);
void kv_thread_wake(struct tally_kv *kv);
uint64_t kv_clock_ns(void);

/* ---- kv_work.c ---- */

/* A work of `count` keys, dealt to their servers; value or out may be NULL. NULL: no memory. */
struct kv_work *kv_work_make(struct tally_kv *kv, enum kv_work_kind kind, const uint64_t *key,
			     const float *value, float *out, uint32_t count);
void kv_work_free(struct kv_work *work);
size_t kv_work_bytes(const struct tally_kv *kv, const struct kv_work *work);
/* Makes pushes, batches and pulls of works, as many as there is room for. */
void kv_works_feed(struct tally_kv *kv);
/* Takes out what is complete; whether there was any. */
bool kv_works_settle(struct tally_kv *kv);
/* One that has failed, and was asked for. */
void kv_work_drop(struct tally_kv *kv, struct kv_work *work);
/* Ends all, for kv->error. */
void kv_works_end(struct tally_kv *kv);
struct kv_work *kv_work_find(const struct tally_kv *kv, uint64_t timestamp);

/* ---- kv_server.c ---- */

void kv_server_init(struct kv_server *server, struct tally_kv *kv, uint32_t idx);
void kv_server_fini(struct kv_server *server);
short kv_server_events(const struct kv_server *server);
/* The socket is ready, or it is time: reads, connects, says what is due. When to be called again. */
uint64_t kv_server_turn(struct kv_server *server);
/* For works: room for one more batch; and these, which are said again after a reconnection. */
bool kv_server_has_room(const struct kv_server *server);
void kv_server_batch(struct kv_server *server);
void kv_server_pull(struct kv_server *server, struct kv_work *work, uint32_t first, uint32_t count);
/* The work is going, and its pulls with it. */
void kv_server_forget(struct kv_server *server, const struct kv_work *work);
void kv_server_barrier(struct kv_server *server, struct kv_work *work);
/* Closes the connection; it is tried again. */
void kv_server_lose(struct kv_server *server, const char *why);
void kv_server_leave(struct kv_server *server);
/* All that hot pairs need is there, or there are none. */
bool kv_server_is_ready(const struct kv_server *server);

/* ---- kv_hot.c ---- */

/* Of a message that has come; false: the connection is no use any more, and lost. */
bool kv_hot_map(struct kv_server *server, const struct kv_message *message);
bool kv_hot_switch(struct kv_server *server, const struct kv_message *message);
/* The greeting to the server begins (again). */
void kv_hot_opened(struct kv_server *server, const uint8_t nonce[KV_NONCE_BYTES]);
void kv_hot_fini(struct kv_server *server);
/* The filled push goes to the stream; false: no room. */
bool kv_hot_push(struct kv_server *server, uint64_t *seq);
/* Adds the pair of a hot key to the push that is filled; false: it is full, and there is no room for it. */
bool kv_hot_add(struct kv_server *server, uint32_t rank, const float *value, uint64_t *seq);
void kv_hot_packet(struct tally_kv *kv, const struct link_address *peer, const uint8_t *at,
		   uint32_t bytes);
/* Sends what is due. When to be called again. */
uint64_t kv_hot_turn(struct kv_server *server);
/* TALLY_KV_COPIES: is the row of this key in the copy, and new enough? It is written then. */
bool kv_hot_copied(const struct kv_server *server, uint64_t key, float *value);
/* What the server has said of its epochs, and of a row. */
void kv_hot_told(struct kv_server *server, uint64_t generation, uint64_t epoch);
void kv_hot_pulled(struct kv_server *server, const struct kv_message *message, uint64_t key,
		   const float *value);
/* Are all pushes up to seq committed? */
bool kv_hot_is_committed(const struct kv_server *server, uint64_t seq);

#endif
