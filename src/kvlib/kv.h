/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.h - inside a table of keys (tally_kv_*): who holds what. One thread per table serves its connections and its
 * UDP socket; callers leave operations with it, and sleep until they are complete. All below is under kv->lock.
 *
 *     table.c   what all need: its error, its thread's sleep, who may call
 *     pack.c    which packets hot pairs go into (R-KV-18)
 *     fault.c   why it ends for what a server is, in words
 *     say.c     what a server is told, and told again on a new connection (R-KV-12)
 *     work.c    operations, and their keys, dealt to the servers
 *     carry.c   what a hot key's unit has no room for, until there is (R-KV-23)
 *     map.c     which keys are hot, and what comes of pushes when they are others (R-SP-32)
 *     hot.c     the hot keys at one server: their stream over UDP (R-SP)
 *     step.c    which operations wait for other workers (R-KV-15)
 *     feed.c    from operations to pushes, batches and pulls, and back
 *     server.c  the connection to one server: does what core/kv/worker_kv.h says (R-KV)
 *     leave.c   that they know of its end (R-KV-13)
 *     wait.c    who waits for an operation, and whom to tell that it is complete
 *     thread.c  the thread: packets, messages and time, in turns
 *     kv.c      the calls of tally_kv.h
 *
 * None needs one that is named behind it, as the linker sees it.
 */
#ifndef KVLIB_KV_H
#define KVLIB_KV_H

#include <pthread.h>
#include <sys/types.h>

#include "control/conn.h"
#include "core/kv/worker_kv.h"
#include "core/kv/worker_kv_greet.h"
#include "core/sparse/layout_sparse.h"
#include "core/sparse/pack_sparse.h"
#include "dataplane/endpoint_sparse.h"
#include "kv/stream.h"
#include "lib/report.h"
#include "tally_kv.h"
#include "util/clock.h"

enum {
	KV_PORT = 7272,
	KV_KEPT_PACKETS = 4096,
	KV_QUEUE_BYTES = 64 << 20,
	KV_BATCH_BYTES_MAX = 8 << 20, /* of batches without an answer: more are not made */
	KV_PULL_BYTES_MAX = 8 << 20,  /* of pulls without an answer: more wait to be asked for */
	KV_DEADLINE_MS = 60000,
	KV_BUCKETS = 256,
	KV_PACK_PAIRS = 4096, /* that are packed together: R-KV-18 */
};
#define KV_COLD UINT32_MAX /* the rank of a key that is not hot */

struct tally_kv;
struct kv_work;
struct kv_note;

/* HELLO over UDP until WELCOME (R-KV-7). */
struct kv_greeting {
	struct link_address address;
	struct worker_kv_greeting core;
};

/* Pairs of kv_server.hot on their way into packets. */
struct kv_pack {
	uint16_t registers; /* of the switch, as it is now; 0: it is no chip */
	enum kv_packing packing;
	bool is_packed;
	uint32_t next; /* packet that is not pushed */
	struct layout_sparse_packing packets;
	uint32_t *reg, *scratch;
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

/* A work waits for what has this number, and for all that went to the server before it. */
struct kv_due {
	struct kv_due *next;
	struct kv_work *work;
	uint64_t number; /* 0: for nothing */
	uint64_t moved;  /* of pushes: and for this batch, in which pairs of them are now */
};

struct kv_dues {
	struct kv_due *first, **end;
};

/* The hot keys of a server under one version. */
struct kv_map {
	struct sparse_map map; /* once it is whole */
	uint64_t *key;
	uint32_t *place;
	uint32_t version, ranks; /* 0, 0: none */
};

struct kv_server {
	struct tally_kv *kv;
	uint32_t idx;
	struct worker_kv_server *core; /* its connection, and what has no answer there */
	struct conn_address at;
	bool is_ready; /* its socket was, at the last poll */
	struct kv_stream stream;
	char lost[KV_TEXT_BYTES]; /* why, the last time */
	char made[KV_TEXT_BYTES]; /* as what it has made the table */
	uint64_t generation, expected, patience_ns;

	struct kv_map map;  /* the stream's; read under kv->maps */
	struct kv_map next; /* of a RESUME that is to come, or none */
	struct link_address at_server;
	struct kv_greeting to_server, to_switch;
	struct endpoint_sparse *endpoint;
	uint64_t hot_low; /* as of the last turn */
	/* When something last came of pushes, batches and pulls, or the first of them went there. */
	uint64_t hot_ns, batch_ns, pull_ns;

	struct kv_dues hot_dues, cold_dues;
	struct kv_batch *batches, **batches_end; /* not answered */
	struct kv_batch *batches_unsaid; /* from which on none was said on this connection */
	size_t batch_bytes;
	struct kv_pull *pulls, *pulls_unsaid; /* in order; from which on none was said */
	size_t pull_bytes;                    /* of those that were said */
	uint64_t pull_next;

	/* What is being filled for the next push and the next batch, of one work. */
	uint8_t hot_packet[SPARSE_BODY_MAX];
	uint8_t *hot; /* hot_packet, or memory for the pairs that are packed together */
	uint16_t hot_count, hot_max, hot_flags;
	struct kv_pack *pack; /* NULL: no switch was a chip; as they come */
	bool has_saturated;   /* it was said, once */
	float *carry;         /* of the map's keys, dim each; NULL: there was none yet */
	uint64_t cold_key[KV_KEYS_MAX];
	float cold_value[KV_VALUES_MAX];
	uint32_t cold_count, cold_max;
};

/* A work's keys at one server. */
struct kv_part {
	uint32_t first, count;   /* of work->order */
	uint32_t next;           /* below: in a push or batch */
	uint32_t map;            /* the version by which work->rank says what is hot */
	bool is_fed;             /* all are */
	uint32_t pulls;          /* without an answer */
	struct kv_due hot, cold; /* its last push, its last batch */
};

/* A barrier; or a push, if there are values; or a pull, if there is room for them; or both. */
struct kv_work {
	struct kv_work *next, *prev; /* in order of timestamps */
	struct kv_work *same;        /* of kv->bucket */
	uint64_t timestamp, begin_ns;
	bool is_barrier;
	bool is_begun;   /* nothing of it is left to be fed */
	bool is_pulling; /* the pulls are on their way: from the start, or after the push */
	bool is_waited;  /* somebody sleeps until it is complete */
	bool is_awaited; /* a push that is to be committed soon */
	int result;
	char text[KV_TEXT_BYTES]; /* why */
	uint32_t count;           /* keys */
	uint32_t dues_left;       /* of its push; each part that is not fed is one */
	uint32_t pulls_left;
	uint64_t *key;   /* copies */
	float *value;    /* NULL: nothing to push */
	uint32_t *rank;  /* or KV_COLD */
	uint32_t *order; /* indices of keys, server by server */
	float *out;      /* the caller's; NULL: nothing to pull */
	uint64_t number; /* BARRIER; 0: one that is not said */
	bool is_step;    /* BARRIER: tally_kv_step's */
	bool is_free;    /* no step before it holds it back any more */
	struct kv_part part[];
};

struct tally_kv {
	pthread_mutex_t lock;
	pthread_rwlock_t maps; /* callers look keys up without the lock */
	pthread_cond_t changed;
	pthread_t thread;
	bool is_ending;
	bool is_asleep;                 /* the thread; who wakes it says that it is not any more */
	bool is_ready;                  /* the UDP socket was, at the last poll */
	bool is_news;                   /* for those who sleep until `changed` */
	uint32_t waits_all, waits_room; /* who sleep until all is complete, or there is room */
	int wake_fd;
	pid_t pid;
	int error; /* the table is broken, */
	char error_text[REPORT_TEXT_MAX];
	struct report_who who;
	char name[KV_NAME_BYTES], key[KV_JOB_BYTES];
	uint16_t dim, worker, workers;
	uint64_t incarnation;
	struct worker_kv *core;
	uint64_t program; /* of OPEN: R-KV-6 */
	int leave_error;  /* what one of them has refused then; error_text has it */
	bool has_copies;
	size_t queue_bytes, queue_bytes_max; /* of works that are not fed */
	struct link *link;
	struct outbox outbox;
	uint64_t now_ns, stall_ns;          /* when to look for what nothing comes of */
	struct kv_work *works, *works_last; /* in order of timestamps */
	struct kv_work *unfed;              /* all before it are begun */
	struct kv_work *bucket[KV_BUCKETS]; /* by timestamp */
	uint32_t awaited;                   /* pushes */
	uint64_t timestamp_next, hurry_to;
	struct kv_note *notes, **notes_end; /* in the order in which they were asked for */
	struct kv_codec codec;
	struct kv_message message;
	struct tally_kv_stats stats; /* bytes: of connections that are closed */
	uint64_t dropped_said;       /* packets_dropped, as it was logged */
	uint32_t servers;
	struct kv_server server[];
};

/* ---- table.c ---- */

/* The first error stays; what is outstanding ends with it, when the thread's turn is over. */
void kv_break(struct tally_kv *kv, int result, const char *format, ...) REPORT_FORMAT(3, 4);

/* The lock is held before it, and not after it. */
void kv_thread_wake_unlock(struct tally_kv *kv);
int kv_handle_check(const struct tally_kv *kv, const char *call);
/* A callback runs on the table's own thread, which would wait for itself. */
int kv_wait_check(const struct tally_kv *kv, const char *call);

/* ---- thread.c ---- */

int kv_thread_begin(struct tally_kv *kv); /* 0, or a positive errno */
void kv_thread_end(struct tally_kv *kv);

/* ---- work.c ---- */

/* A work of `count` keys, dealt to their servers; value or out may be NULL. To be freed, or added. NULL: no memory. */
struct kv_work *kv_work_make(struct tally_kv *kv, const uint64_t *key, const float *value,
			     float *out, uint32_t count);
/* Which of its keys at a server are hot, if that is not by the map that the server has now. */
void kv_work_rank(const struct kv_server *server, struct kv_work *work);
size_t kv_work_bytes(const struct tally_kv *kv, const struct kv_work *work);
/* The last one from now on; it has its room in the queue. */
void kv_work_add(struct tally_kv *kv, struct kv_work *work, uint64_t now_ns);
/* The last of its pulls, or its barrier, is over. */
void kv_work_complete(struct tally_kv *kv, struct kv_work *work);
/* One that has failed, and was asked for. */
void kv_work_drop(struct tally_kv *kv, struct kv_work *work);
/* Ends all, for kv->error. */
void kv_works_end(struct tally_kv *kv);
struct kv_work *kv_work_find(const struct tally_kv *kv, uint64_t timestamp);

/* ---- feed.c ---- */

/* Makes pushes, batches and pulls of works, as many as there is room for. */
void kv_works_feed(struct tally_kv *kv);
/* Of pushes that are in: they are complete, or what they pull is asked for. */
void kv_works_settle(struct tally_kv *kv);

/* ---- step.c ---- */

/* NULL, or what is wrong with these options. */
const char *kv_step_fault(const struct tally_kv_options *options);
/* All have opened a synchronous table: warns if one has made a step that another has not. */
void kv_steps_compare(const struct tally_kv *kv);
/* Says the barrier, if all before it are complete, but steps of a bounded worker; may what comes after it go on? */
bool kv_step_feed(struct tally_kv *kv, struct kv_work *work);
/* Of barriers that are over. */
void kv_barriers_settle(struct tally_kv *kv);
/* Is what is not committed to be so soon, for somebody waits for it, or a step does? */
bool kv_step_is_awaited(const struct tally_kv *kv);

/* ---- wait.c ---- */

/* On the table's thread: calls those whose operations are complete. Lets go of the lock meanwhile. Whether there were any. */
bool kv_notes_run(struct tally_kv *kv);
void kv_notes_fini(struct tally_kv *kv);

/* ---- server.c ---- */

void kv_server_init(struct kv_server *server, struct tally_kv *kv, uint32_t idx);
void kv_server_fini(struct kv_server *server);
/* The socket is ready, or it is time: reads, connects, says what is due. When to be called again. */
uint64_t kv_server_turn(struct kv_server *server);

/* ---- say.c ---- */

void kv_say(struct kv_server *server, const struct kv_message *message);
/* Room for one more batch; and batches and pulls, which are said again after a reconnection. */
bool kv_server_has_room(const struct kv_server *server);
uint64_t kv_server_batch(struct kv_server *server); /* of what is filled: its number */
/* Of these; there is always room. */
uint64_t kv_server_batch_of(struct kv_server *server, const uint64_t *key, const float *value,
			    uint32_t count);
void kv_server_pull(struct kv_server *server, struct kv_work *work, uint32_t first, uint32_t count);
/* The work is going, and its pulls with it. */
void kv_server_forget(struct kv_server *server, const struct kv_work *work);
void kv_server_barrier(struct kv_server *server, uint64_t number);
/* Closes the connection; it is tried again. */
void kv_server_lose(struct kv_server *server, enum worker_kv_lost lost, const char *why);
/* So the core says. */
void kv_server_close(struct kv_server *server, const struct worker_kv_actions *actions,
		     const char *why);
/* Nothing is heard from it, nor said to it, any more. */
void kv_server_over(struct kv_server *server);
void kv_server_flush(struct kv_server *server);
/* Batches and pulls that were not said yet, as far as there is room. */
void kv_say_next(struct kv_server *server);
/* The connection is up: all that has no answer. */
void kv_say_all_again(struct kv_server *server);
/* Those that are in. */
void kv_say_batches_free(struct kv_server *server);
/* Where it is; or where there is none. */
struct kv_pull **kv_say_pull_find(struct kv_server *server, uint64_t number);
/* It is over. */
void kv_say_pull_drop(struct kv_server *server, struct kv_pull **at);

/* ---- leave.c: R-KV-13 ---- */

/* The table is whole, and all is complete: tells the servers, and waits until they have it on the disk, at most the
 * table's deadline. */
int kv_leave(struct tally_kv *kv);
/* From then on in place of kv_server_turn. */
uint64_t kv_leave_turn(struct kv_server *server);

/* ---- pack.c ---- */

/* What a SWITCH says of registers. False: no memory. */
bool kv_pack_switch(struct kv_server *server, uint16_t registers, enum kv_packing packing);
void kv_pack_fini(struct kv_server *server);
/* The pairs of the next packet, in server->hot_packet: how many; 0: all are pushed, and none is left. */
uint16_t kv_pack_next(struct kv_server *server);
void kv_pack_pushed(struct kv_server *server);
/* Before the ranks of what is filled are others: what is not pushed is not packed any more, either. */
void kv_pack_undo(struct kv_server *server);

/* ---- carry.c: R-KV-23 ---- */

/* The integer that this value of a hot key, its k-th, travels as. */
int32_t kv_carry_lane(struct kv_server *server, uint32_t rank, uint32_t k, float value);
/* server->next is about to be the map: by its ranks, and what is not hot any more is pushed. */
void kv_carry_move(struct kv_server *server);
/* The table is closed: how much of it went by small steps, if that matters. */
void kv_carry_say(const struct tally_kv *kv);

/* ---- map.c ---- */

/* One is to come, in place of another that was. False: no memory, and the table is broken. */
bool kv_map_begin(struct kv_server *server, const struct kv_message *message);
/* Of a message that has come; false: the connection is no use any more, and lost. */
bool kv_map_take(struct kv_server *server, const struct kv_message *message);
/* The stream has another map now (RESUME has said so), or there is no stream yet: that is the server's map from now on, and
 * what is not committed is packed again by it. */
void kv_map_adopt(struct kv_server *server);
void kv_map_fini(struct kv_server *server);

/* ---- fault.c ---- */

/* Why the table ends, of a server, and of its message, if it is of one. */
void kv_fault(struct kv_server *server, enum worker_kv_fault fault,
	      const struct kv_message *message);
/* The error that tally.h has for it. */
int kv_fault_of(enum kv_refusal refusal);

/* ---- hot.c ---- */

/* All that hot pairs need is there, or there are none. */
bool kv_hot_is_ready(const struct kv_server *server);
/* Of a message that has come; false: the connection is no use any more, and lost. */
bool kv_hot_switch(struct kv_server *server, const struct kv_message *message);
/* Is it a SWITCH to where the switch is by now? */
bool kv_hot_is_at(const struct kv_server *server, const struct kv_message *message);
/* The greeting to the server begins (again). */
void kv_hot_opened(struct kv_server *server, const uint8_t nonce[KV_NONCE_BYTES]);
void kv_hot_fini(struct kv_server *server);
/* The stream's, here; 0: there is none. */
uint64_t kv_hot_generation(const struct kv_server *server);
/* R-KV-20: what of it is committed, by place, once it waits for this generation. */
void kv_hot_report(struct kv_server *server, uint64_t generation, uint64_t row[SPARSE_WINDOW_MAX]);
/* The filled push goes to the stream; false: no room. */
bool kv_hot_push(struct kv_server *server, uint64_t *seq);
/* Adds the pair of a hot key to the push that is filled; false: it is full, and there is no room for it. */
bool kv_hot_add(struct kv_server *server, uint64_t key, uint32_t rank, const float *value,
		uint64_t *seq);
void kv_hot_packet(struct tally_kv *kv, const struct link_address *peer, const uint8_t *at,
		   uint32_t bytes);
/* Packets that nobody took: of stats.packets_dropped; and says so, as they grow. */
uint64_t kv_hot_dropped(const struct tally_kv *kv);
void kv_hot_dropped_say(struct tally_kv *kv);
/* Sends what is due. When to be called again. */
uint64_t kv_hot_turn(struct kv_server *server);
/* TALLY_KV_COPIES: the copy, if it may be used now; or NULL. */
const struct copy_sparse *kv_hot_copy(const struct kv_server *server);
/* Batches are in, this worker's or others', that may have hot keys: as of this epoch. */
void kv_hot_batched(struct kv_server *server, uint64_t generation, uint64_t epoch);
/* What the server has said of a row. */
void kv_hot_pulled(struct kv_server *server, const struct kv_message *message, uint32_t rank,
		   const float *value);
/* Are all pushes up to seq committed? */
bool kv_hot_is_committed(const struct kv_server *server, uint64_t seq);

#endif
