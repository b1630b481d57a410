/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_kv.h - a worker's side of a table of keys over TCP: the connection to each of its servers, again and again as
 * the same incarnation; what has no answer; which steps wait. No I/O, no clock, no allocation. docs/protocol.md, R-KV.
 *
 *   IDLE -> CONNECT -> HELLO -> OPENING -> MAPPING -> OPEN -> LEAVING -> LEFT   for each server; without hot keys there
 *   is no MAPPING. IDLE <- all of these, but LEFT: the connection is lost, and tried again.
 *   -> UNTOLD: it could not be told in time that the worker leaves. -> BROKEN: of its fault the table ends.
 *
 * An event is a function, with the server's place in the list. What is to be done then is in the actions, in the order
 * of enum worker_kv_todo. Frames, values and maps are the caller's; it answers for them as the events say.
 */
#ifndef CORE_WORKER_KV_H
#define CORE_WORKER_KV_H

#include "core/sparse/table_sparse.h"

enum {
	WORKER_KV_VERSION = 4,          /* R-KV-5 */
	WORKER_KV_IDENTITY_BYTES = 16,  /* R-KV-22 */
	WORKER_KV_HEARTBEATS_SILENT = 8 /* R-KV-12 */
};

enum worker_kv_state {
	WORKER_KV_IDLE,
	WORKER_KV_CONNECT, /* an attempt is under way, */
	WORKER_KV_HELLO,   /* and HELLO, which goes first */
	WORKER_KV_OPENING,
	WORKER_KV_MAPPING, /* OPENED has come, and maps do */
	WORKER_KV_OPEN,
	WORKER_KV_LEAVING, /* LEAVE has gone, on this connection */
	WORKER_KV_LEFT,
	WORKER_KV_UNTOLD,
	WORKER_KV_BROKEN,
	WORKER_KV_STATE_COUNT
};

/* R-KV-15 */
enum worker_kv_mode { WORKER_KV_ASYNC, WORKER_KV_BOUNDED, WORKER_KV_SYNC };

/* R-KV-3, what a server says. */
enum worker_kv_type {
	WORKER_KV_SAYS_WELCOME = 2,
	WORKER_KV_SAYS_OPENED = 4,
	WORKER_KV_SAYS_MAP = 5,
	WORKER_KV_SAYS_SWITCH = 6,
	WORKER_KV_SAYS_DONE = 8,
	WORKER_KV_SAYS_PULLED = 10,
	WORKER_KV_SAYS_BARRIER = 11,
	WORKER_KV_SAYS_LEAVE = 12,
	WORKER_KV_SAYS_ERROR = 13,
	WORKER_KV_SAYS_ALIVE = 14,
};
/* R-KV-14, of those that are more to a worker than a number and a text. */
enum { WORKER_KV_REFUSED_SUPERSEDED = 5, WORKER_KV_REFUSED_BUSY = 12 };

/* Why a connection is lost. */
enum worker_kv_lost {
	WORKER_KV_HERE,   /* this host can no more */
	WORKER_KV_ENDED,  /* the other side, or the way there */
	WORKER_KV_SILENT, /* R-KV-12 */
	WORKER_KV_UNFIT,  /* a message that may not come now */
	WORKER_KV_BUSY,   /* R-KV-21 */
};

/* Why the table ends. */
enum worker_kv_fault {
	WORKER_KV_FINE,
	WORKER_KV_OTHER_VERSION, /* R-KV-5 */
	WORKER_KV_OTHER_TABLE,   /* OPENED is not of what was asked for, */
	WORKER_KV_OTHER_MODE,
	WORKER_KV_UNSOUND, /* cannot be, */
	WORKER_KV_CHANGED, /* or not after what was opened before */
	WORKER_KV_OLDER_MAP,
	WORKER_KV_FORGOTTEN,  /* R-KV-6 */
	WORKER_KV_NEVER_SENT, /* R-KV-9 */
	WORKER_KV_LOST_DONE,  /* R-KV-9 */
	WORKER_KV_WENT_BACK,  /* R-KV-20 */
	WORKER_KV_MISPLACED,  /* R-KV-22: not in its place in the list, */
	WORKER_KV_RENEWED,    /* not the server or the words of before, */
	WORKER_KV_UNLIKE,     /* not as server 0 */
	WORKER_KV_REFUSED,    /* R-KV-14 */
	WORKER_KV_UNREACHED,  /* for the table's deadline */
};

/* In this order. */
enum worker_kv_todo {
	WORKER_KV_FAIL = 1 << 0,         /* `fault`: the table ends */
	WORKER_KV_CLOSE = 1 << 1,        /* `lost`: the connection, */
	WORKER_KV_WARN = 1 << 2,         /* ... which somebody misses, */
	WORKER_KV_NEXT_ADDRESS = 1 << 3, /* ... so its host's next address is tried */
	WORKER_KV_ATTEMPT = 1 << 4,      /* to connect: connected or lost follows */
	WORKER_KV_SAY_OPEN = 1 << 5,     /* worker_kv_open */
	WORKER_KV_FREE = 1 << 6,         /* batches up to `batch_done` */
	WORKER_KV_REPORT = 1 << 7,       /* worker_kv_report, and say it */
	WORKER_KV_PAST = 1 << 8,    /* R-KV-9: what is cached as of the message's epoch is old */
	WORKER_KV_NEW_MAP = 1 << 9, /* begins with the message; with what was to come it is over */
	WORKER_KV_TAKE = 1 << 10,   /* what the message brings */
	WORKER_KV_AGAIN = 1 << 11,  /* R-KV-12: what has no answer is said */
	WORKER_KV_PASSED = 1 << 12, /* a barrier was, there */
	WORKER_KV_SAY_ALIVE = 1 << 13,
	WORKER_KV_SAY_LEAVE = 1 << 14,
	WORKER_KV_OVER = 1 << 15, /* LEFT or UNTOLD: nothing is said there any more, nor heard */
};

struct worker_kv_actions {
	uint32_t todo;
	enum worker_kv_fault fault;
	enum worker_kv_lost lost;
};

struct worker_kv_config {
	uint64_t deadline_ns;
	uint32_t kept_packets; /* of hot keys: as many as the widest window, at least */
	uint32_t staleness;
	uint16_t servers, dim;
	enum worker_kv_mode mode;
};

/* R-KV-4, and what the caller knows of it. Pointers are lent. */
struct worker_kv_message {
	enum worker_kv_type type;
	uint16_t table, version, refusal;
	uint32_t heartbeat_ms;
	uint64_t number, generation;
	bool is_same; /* SWITCH: it says what the last one has said of where the switch is */
	bool is_pull; /* ERROR: of a pull that has no answer */
	uint32_t map; /* its version */
	uint32_t first, count; /* MAP */

	/* OPENED; and of a MAP the ranks, of a SWITCH the index */
	uint64_t epoch, barrier;
	const uint8_t *identity, *own;
	struct sparse_table shape; /* ranks 0: the table has no hot keys */
	float scale;
	uint16_t server, servers;
	bool is_stepped, is_known, must_report, is_used;
	bool is_named; /* as OPEN has named it */
	/* Its words: server 0's, and its own first OPENED's. */
	bool is_made_as_first, is_made_as_before;
	uint64_t stream; /* the generation of the hot keys' stream here; 0: there is none yet */
};

/* R-KV-8 */
struct worker_kv_map {
	uint32_t version, ranks; /* 0, 0: none */
	uint32_t got;            /* keys, since part 0 has come last */
	bool is_whole;
};

struct worker_kv_server {
	uint64_t down_ns; /* since when it is down */
	uint64_t retry_ns, retry_wait_ns;
	uint64_t heard_ns, said_ns, heartbeat_ns;
	/* Numbers of batches: of the next, the last one said on this connection, the last that is in. */
	uint64_t batch_next, batch_said, batch_done;
	uint64_t batch_old; /* up to this one they may have keys that are hot by now */
	uint64_t barrier_said, barrier_done; /* the last ones */
	uint64_t barrier_found;              /* the table's last, as the first OPENED says */
	uint64_t switch_generation;
	/* R-KV-20: the last generation that it has told; what was reported, so is not lost another time. */
	uint64_t generation_told, reported, reported_row[SPARSE_WINDOW_MAX];
	struct sparse_table shape; /* OPENED's; ranks and index, of the map and switch in force */
	float scale;
	struct worker_kv_map map;  /* in force */
	struct worker_kv_map next; /* of a RESUME that is to come, or none */
	uint32_t map_opening;      /* which must be whole for OPEN */
	uint16_t number;           /* of the table there */
	uint8_t own[WORKER_KV_IDENTITY_BYTES];
	uint8_t state;     /* enum worker_kv_state */
	bool was_answered; /* since it is open */
	bool was_open, has_hot, was_remapped;
	bool was_used;       /* R-KV-22 */
	bool has_list;       /* the last OPEN has told it which the others are; */
	bool is_asked_again; /* on a connection on which it had opened the table */
};

/* Flat, without pointers; as many servers as `config` says. */
struct worker_kv {
	struct worker_kv_config config;
	uint64_t leave_ns;      /* since when its servers are told that it leaves; 0: it does not */
	uint64_t barrier_next;  /* number; 0: no server has opened the table */
	uint64_t barrier_first; /* of this worker's own; 0: none yet */
	uint8_t identity[WORKER_KV_IDENTITY_BYTES]; /* as the first of its servers has said it */
	bool is_whole; /* and it has been told which the others are, and knows no others */
	struct worker_kv_server server[];
};

/* The memory that is lent to worker_kv_init. */
size_t worker_kv_bytes(uint32_t servers);
void worker_kv_init(struct worker_kv *kv, const struct worker_kv_config *config, uint64_t now_ns);

/* It is worker_kv_wake_ns, or something may have changed. */
void worker_kv_time(struct worker_kv *kv, uint32_t idx, uint64_t now_ns,
		    struct worker_kv_actions *actions);
uint64_t worker_kv_wake_ns(const struct worker_kv *kv, uint32_t idx);
/* HELLO may go. */
void worker_kv_connected(struct worker_kv_server *server);
void worker_kv_lost(struct worker_kv *kv, uint32_t idx, uint64_t now_ns, enum worker_kv_lost lost,
		    struct worker_kv_actions *actions);
void worker_kv_message(struct worker_kv *kv, uint32_t idx, uint64_t now_ns,
		       const struct worker_kv_message *message, struct worker_kv_actions *actions);
/* R-KV-13: nothing is left to be done. Servers are told, and have it on the disk, within the deadline. */
void worker_kv_leave(struct worker_kv *kv, uint64_t now_ns);
/* The caller has found a fault of this server. */
void worker_kv_broken(struct worker_kv_server *server);

/* R-KV-22, of an OPEN that is said now: is it `used`? And the list, or zeros. */
bool worker_kv_open(struct worker_kv *kv, uint32_t idx, uint8_t list[WORKER_KV_IDENTITY_BYTES]);
/* Is server 0 to be told which the others are? */
bool worker_kv_may_ask_again(const struct worker_kv *kv);

/* R-KV-20: what is lost, now that OPENED says this number and row, and REPORT `batch_done` and `row`. */
struct worker_kv_loss {
	uint64_t batches, packets;
};
struct worker_kv_loss worker_kv_report(struct worker_kv_server *server, uint64_t number,
				       const uint64_t *opened, const uint64_t *row);

/* This map has come, all of it, and is sound. */
void worker_kv_mapped(struct worker_kv_server *server, uint32_t version,
		      struct worker_kv_actions *actions);
/* `next` is in force (R-SP-32). */
void worker_kv_adopted(struct worker_kv_server *server);
/* In place of another: batches up to the last may have keys that are hot; or up to the next, which has begun. */
void worker_kv_remapped(struct worker_kv_server *server, bool has_begun);

/* ---- batches, pulls, barriers ---- */

/* R-KV-11: the number of the next barrier, or step. */
uint64_t worker_kv_barrier_number(struct worker_kv *kv);
/* The last barrier that was passed at all servers. */
uint64_t worker_kv_passed(const struct worker_kv *kv);
/* R-KV-15: may what comes after this step go on? */
bool worker_kv_step_is_open(const struct worker_kv *kv, uint64_t number);

CORE_INLINE bool worker_kv_is_up(const struct worker_kv_server *server)
{
	return server->state == WORKER_KV_OPEN || server->state == WORKER_KV_LEAVING;
}

CORE_INLINE bool worker_kv_is_over(const struct worker_kv_server *server)
{
	return server->state >= WORKER_KV_LEFT;
}

CORE_INLINE bool worker_kv_is_there(const struct worker_kv_server *server)
{
	return server->state != WORKER_KV_IDLE && !worker_kv_is_over(server);
}

/* Something went there: the next ALIVE has time. */
CORE_INLINE void worker_kv_said(struct worker_kv_server *server, uint64_t now_ns)
{
	server->said_ns = now_ns;
}

/* One more: its number. */
CORE_INLINE uint64_t worker_kv_batch(struct worker_kv_server *server)
{
	return server->batch_next++;
}

/* Is there one to be said? Then it is that after `batch_said`. */
CORE_INLINE bool worker_kv_batch_due(const struct worker_kv_server *server)
{
	return worker_kv_is_up(server) && server->batch_said + 1 < server->batch_next;
}

CORE_INLINE void worker_kv_batch_said(struct worker_kv_server *server)
{
	server->batch_said++;
}

/* R-KV-10: what was pushed before is in what a pull brings. */
CORE_INLINE bool worker_kv_may_pull(const struct worker_kv_server *server)
{
	return worker_kv_is_up(server) && !worker_kv_batch_due(server);
}

/* Is the last barrier to be said, now that the connection is open? */
CORE_INLINE bool worker_kv_barrier_due(const struct worker_kv_server *server)
{
	return worker_kv_is_up(server) && server->barrier_said > server->barrier_done;
}

/* The worker has come to this one. May it be said now? */
CORE_INLINE bool worker_kv_barrier(struct worker_kv_server *server, uint64_t number)
{
	server->barrier_said = number;
	return worker_kv_is_up(server);
}

#endif
