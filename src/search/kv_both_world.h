/* SPDX-License-Identifier: Apache-2.0 */
/* kv_both_world.h - what kv_both.c (moves), kv_both_worker.c and kv_both_server.c (what they are moved by, as src/kvlib and
 * src/ps do it) and kv_both_check.c (what must hold) share. */
#ifndef SEARCH_KV_BOTH_WORLD_H
#define SEARCH_KV_BOTH_WORLD_H

#include <string.h>

#include "core/kv/server_kv.h"
#include "core/kv/worker_kv.h"
#include "search/kv_both.h"

enum {
	BOTH_WORKERS = 2,
	BOTH_PROCESSES = 3,
	BOTH_CONNS = 6,
	BOTH_QUEUE = 10,
	BOTH_RECORDS = 12,
	BOTH_KV_BYTES = sizeof(struct worker_kv) + sizeof(struct worker_kv_server),
	BOTH_NOW_NS = 1000,
	BOTH_BEAT_NS = 1000000000,
};

/* R-KV-3, what a worker says. */
enum {
	BOTH_HELLO = 1,
	BOTH_OPEN = 3,
	BOTH_BATCH = 7,
	BOTH_BARRIER = 11,
	BOTH_LEAVE = 12,
	BOTH_MISMATCH = 8, /* R-KV-14: message */
};

struct both_message {
	uint8_t type, number, barrier, refusal, fences,
		gate; /* gate: so many records are to be durable before */
	bool is_known, reserved;
};

struct both_queue {
	uint8_t count;
	struct both_message at[BOTH_QUEUE];
};

/* near: at the worker, far: at the server. */
struct both_conn {
	uint64_t link; /* numbered as they came; 0: there is none */
	uint8_t process, worker, incarnation;
	bool near, far, is_welcome, has_left, is_ending;
	struct both_queue up, down, held;
};

struct both_process {
	uint64_t kv[(BOTH_KV_BYTES + 7) / 8];
	uint8_t conn; /* 1 +; 0: none */
	uint8_t steps, batches;
	uint64_t asked; /* its last barrier */
	bool is_begun, is_dead;
};

enum both_kind { BOTH_JOINED, BOTH_IN, BOTH_LEFT, BOTH_PASSED, BOTH_VOIDED };

struct both_record {
	uint8_t kind, process, number;
};

/* What the records say, as kv_both_check.c reads them. */
struct both_book {
	uint64_t joined[BOTH_WORKERS], left[BOTH_WORKERS], moves;
	uint8_t incarnation[BOTH_WORKERS];
	uint8_t in[BOTH_PROCESSES]; /* batches */
	uint8_t barrier, staged, fences;
};

/* Flat but for pointers into itself, which are zeros where it is kept. */
struct both_world {
	struct both_process process[BOTH_PROCESSES];
	struct both_conn conn[BOTH_CONNS];
	struct server_kv kv;
	struct server_kv_worker worker[BOTH_WORKERS];
	uint64_t generation, next[BOTH_WORKERS], incarnation[BOTH_WORKERS]; /* server_sparse's */
	uint8_t its[BOTH_WORKERS]; /* the connection that has the table open, 1 + */
	uint8_t records_count;
	struct both_record records[BOTH_RECORDS]; /* that are on their way to the disk */
	struct both_book book, disk;              /* with those, and without */
	uint8_t workers, kills, losses, crashes;
};

extern const char *both_wrong; /* the first claim that was not so since it was NULL */
#define BOTH_CHECK(claim, text) ((void)(both_wrong || (claim) || (both_wrong = (text))))

static inline uint16_t both_worker_of(uint32_t process)
{
	return process == 1;
}

static inline uint64_t both_incarnation_of(uint32_t process)
{
	return process == 2 ? 2 : 1;
}

static inline uint32_t both_process_of(uint16_t worker, uint64_t incarnation)
{
	return worker ? 1 : incarnation == 2 ? 2 : 0;
}

static inline struct worker_kv *both_kv(const struct both_process *process)
{
	return (struct worker_kv *)(void *)process->kv;
}

static inline void both_put(struct both_queue *queue, struct both_message message)
{
	CORE_ASSERT(queue->count < BOTH_QUEUE);
	queue->at[queue->count++] = message;
}

static inline struct both_message both_take(struct both_queue *queue)
{
	struct both_message first = queue->at[0];

	memmove(queue->at, queue->at + 1, --queue->count * sizeof(first));
	memset(&queue->at[queue->count], 0, sizeof(first));
	return first;
}

static inline void both_clear(struct both_queue *queue)
{
	memset(queue, 0, sizeof(*queue));
}

/* One end has gone, and maybe both have. */
static inline void both_conn_ends(struct both_conn *conn, bool is_near)
{
	if (is_near)
		conn->near = false;
	else
		conn->far = false;
	both_clear(is_near ? &conn->down : &conn->up);
	if (!is_near)
		both_clear(&conn->held);
	if (!conn->near && !conn->far)
		memset(conn, 0, sizeof(*conn));
}

/* ---- kv_both_worker.c ---- */

void both_process_begin(const struct kv_both_config *config, struct both_world *world, uint32_t p);
void both_process_connects(struct both_world *world, uint32_t p);
void both_process_breaks(struct both_world *world, uint32_t p, bool is_killed);
void both_process_hears(struct both_world *world, uint32_t p);
/* What its user does next. False: nothing, or not now. */
bool both_process_calls(const struct kv_both_config *config, struct both_world *world, uint32_t p);

/* ---- kv_both_server.c ---- */

void both_server_begin(struct both_world *world, bool is_sync);
/* Its pointers are set, or taken away. */
void both_server_lay(struct both_world *world, bool is_used);
/* False: there is nothing, or it waits. */
bool both_server_hears(struct both_world *world, uint32_t c);
void both_server_ends(struct both_world *world, uint32_t c);
/* The worker that is in doubt says ALIVE. */
void both_server_is_sure(struct both_world *world, uint16_t worker);
void both_server_syncs(struct both_world *world);
void both_server_dies(struct both_world *world, bool is_sync);

/* ---- kv_both_check.c ---- */

/* Reads a record, and says what of it cannot be. */
void both_book_take(struct both_book *book, const struct both_record *record);
void both_book_judge(const struct both_world *world, const struct both_record *record);
/* The worker's process was told so. */
void both_passed_judge(const struct both_world *world, uint32_t p);
void both_over_judge(const struct both_world *world, uint32_t p);
void both_fault_judge(const struct both_world *world, uint32_t p, enum worker_kv_fault fault,
		      uint8_t refusal);
/* Something but an ERROR is said to it. */
void both_served_judge(const struct both_world *world, const struct both_conn *conn);
const char *both_world_judge(const struct kv_both_config *config, const struct both_world *world);
bool both_may_rest(const struct both_world *world);

#endif
