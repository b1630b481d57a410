/* SPDX-License-Identifier: Apache-2.0 */
/* tables_world.h - what tables_run.c (what happens when), tables_worker.c, tables_server.c,
 * tables_disk.c, tables_check.c (what must hold)
 * and tables_world.c (events, streams) share. */
#ifndef SIM_TABLES_WORLD_H
#define SIM_TABLES_WORLD_H

#include "core/kv/server_kv.h"
#include "core/kv/worker_kv.h"
#include "sim/agenda.h"
#include "sim/tables.h"
#include "util/rng.h"

#define MS 1000000ull

enum {
	TABLES_WORKERS = 4,
	TABLES_SERVERS = 3,
	TABLES_LIVES = 128, /* processes of a run */
	TABLES_CONNS = 4096,
	TABLES_STEPS = 6,
	TABLES_BATCHES = 64, /* of a process, to a server */
	TABLES_RECORDS = 1 << 14,
	TABLES_LATE_NS =
		2 * 1000000, /* so late may a process or a server be that has something to do */
};

/* R-KV-3, what a worker says, and what TCP does. */
enum tables_type {
	TABLES_CONNECT = 0,
	TABLES_HELLO = 1,
	TABLES_OPEN = 3,
	TABLES_BATCH = 7,
	TABLES_PULL = 9,
	TABLES_BARRIER = 11,
	TABLES_LEAVE = 12,
	TABLES_ALIVE = 14,
	TABLES_END = 255,
};

/* R-KV-14 */
enum { TABLES_NO_DISK = 7, TABLES_MISUSE = 8, TABLES_GONE = 11 };

struct tables_message {
	uint8_t type, refusal;
	bool is_known;
	uint32_t seen; /* PULLED: which of `seen` */
	uint64_t number, barrier, generation, value;
};

struct tables_scenario {
	uint64_t seed;
	uint64_t heartbeat_ns, deadline_ns, delay_ns, disk_ns;
	uint32_t workers, servers, steps, batches, strikes, staleness;
	uint32_t room; /* of a connection: batches that have no answer */
	uint32_t slow; /* of a million messages: they are sent again by TCP */
	enum worker_kv_mode mode;
};

/* near: at the process, far: at the server. */
struct tables_conn {
	uint64_t link;              /* numbered by the server as they come */
	uint64_t up_ns, down_ns;    /* when the last of each direction arrives, at least */
	uint64_t heard_ns, said_ns; /* by the server, */
	uint64_t near_heard_ns, near_said_ns; /* and by the process */
	uint32_t process;
	uint8_t server;
	bool near, far, is_silent;           /* nothing arrives any more, and nobody is told */
	bool is_welcome, is_told, is_opened; /* WELCOME is said, and has come; and OPENED has */
	bool has_left, is_ending, is_gone;
};

/* A process's part of one server: what libtally keeps, and what it has said, for the oracle. */
struct tables_part {
	uint32_t conn; /* 1 +; 0: none */
	uint32_t made, unsaid, freed;
	uint64_t number[TABLES_BATCHES], value[TABLES_BATCHES];
	uint32_t made_at[TABLES_STEPS + 1]; /* after so many steps of its own */
	uint64_t pull;                      /* number of the one that has no answer; 0: none */
	uint32_t pull_made;                 /* what it must bring */
	bool is_pull_said, was_ended;       /* ended: with its run, by the server */
	uint64_t lost_ns, answered_ns;
};

struct tables_process {
	struct worker_kv *kv;
	uint64_t incarnation, wake_ns;
	uint32_t worker, steps, batches_left, pulls;
	uint64_t asked, first; /* barriers: the last, and the first */
	uint64_t began_ns, left_ns;
	bool is_thinking, is_dead, has_failed, is_through; /* through: the gate of `asked` */
	struct tables_part part[TABLES_SERVERS];
};

enum tables_kind {
	TABLES_FENCED,
	TABLES_JOINED,
	TABLES_IN,
	TABLES_HAS_LEFT,
	TABLES_PASSED,
	TABLES_VOIDED
};

struct tables_record {
	enum tables_kind kind;
	uint32_t process; /* or worker: HAS_LEFT */
	uint64_t number, value;
	struct server_sparse_record sparse;
};

/* What the records say, as tables_check.c reads them. */
struct tables_book {
	uint64_t joined[TABLES_WORKERS], left[TABLES_WORKERS], moves, barrier;
	uint32_t process[TABLES_WORKERS]; /* 1 +; 0: none */
	uint16_t in[TABLES_LIVES],
		made[TABLES_LIVES];    /* batches: recorded, and in a step that is made */
	bool is_dropped[TABLES_LIVES]; /* what is not made never will be */
};

/* The oracle's: what the server has heard of a worker since it came. */
struct tables_came {
	uint64_t barrier, joined_ns, gone_ns;
	uint64_t waits_ns; /* since then; 0: it does not */
	uint64_t doubt_ns; /* since then it may not be there; 0: it is */
	bool is_here;
};

struct tables_held {
	struct tables_message message;
	uint32_t conn, gate;
};

struct tables_server {
	struct server_kv kv;
	struct server_kv_worker member[TABLES_WORKERS];
	struct server_sparse sparse;
	struct server_sparse_worker sparse_worker[TABLES_WORKERS];
	uint64_t cut[TABLES_WORKERS], staged[TABLES_WORKERS], tag[1];
	int64_t sum[1];
	uint8_t has_part[64];
	uint32_t its[TABLES_WORKERS]; /* the connection that has the table open, 1 + */
	uint32_t life;
	uint64_t links;
	uint32_t conn_first; /* none before it is open */
	bool is_up, is_syncing, is_host_dead;
	uint64_t full_ns; /* until then the disk is */
	struct tables_record *record;
	uint32_t records, durable;
	struct tables_held *held;
	uint32_t held_first, held_count;
	struct tables_book book, disk;
	struct tables_came came[TABLES_WORKERS];
};

enum tables_what {
	TABLES_ARRIVES_UP, /* whom: the connection */
	TABLES_ARRIVES_DOWN,
	TABLES_WAKES,  /* a process: of the time */
	TABLES_CALLS,  /* its user has thought */
	TABLES_BEGINS, /* a worker's next process */
	TABLES_TURNS,  /* a server */
	TABLES_SYNCED,
	TABLES_RESTARTS,
	TABLES_STRIKES,
	TABLES_LOOKS, /* whoever starts processes sees who waits in vain */
};

struct tables_event {
	enum tables_what what;
	uint32_t whom, life;
	uint64_t number;
	struct tables_message message;
};

struct tables_world {
	const struct tables_scenario *scenario;
	struct tables_report *report;
	FILE *trace;
	struct rng rng;
	struct agenda agenda;
	struct tables_event *event;
	uint32_t events, events_max, event_free; /* 0: none */
	uint64_t now_ns, progress_ns;
	uint32_t strikes_left, conns, processes, seen_count, seen_max;
	uint16_t (*seen)[TABLES_LIVES];
	uint32_t latest[TABLES_WORKERS]; /* process, 1 + */
	bool is_awaited[TABLES_WORKERS]; /* its next process begins */
	struct sparse_table table;
	struct tables_process process[TABLES_LIVES];
	struct tables_server server[TABLES_SERVERS];
	struct tables_conn conn[TABLES_CONNS];
};

/* ---- tables_world.c ---- */

__attribute__((format(printf, 2, 3))) void tables_fail(struct tables_world *world,
						       const char *format, ...);
void *tables_need(void *memory);
void tables_event_in(struct tables_world *world, uint64_t delay_ns, struct tables_event event);
/* The next one: it is its time. There is one. */
struct tables_event tables_event_next(struct tables_world *world);
/* Something was done that had to be. */
void tables_progress(struct tables_world *world);
/* It has told all its servers that it leaves, and they have it. */
bool tables_process_has_left(const struct tables_world *world, uint32_t process);
/* Over a connection. It arrives behind what was said before, or never. */
void tables_up(struct tables_world *world, uint32_t conn, struct tables_message message);
void tables_down(struct tables_world *world, uint32_t conn, struct tables_message message);
__attribute__((format(printf, 2, 3))) void tables_trace(struct tables_world *world,
							const char *format, ...);

/* ---- tables_check.c ---- */

void tables_book_take(const struct tables_world *world, struct tables_book *book,
		      const struct tables_record *record);
bool tables_book_has(const struct tables_book *book, uint32_t worker);
void tables_record_judge(struct tables_world *world, uint32_t server,
			 const struct tables_record *record);
/* What a server has heard, for the rules of barriers. */
void tables_came_says(struct tables_world *world, uint32_t server, uint32_t worker, uint64_t number,
		      bool is_taken);
void tables_came_refused(struct tables_world *world, uint32_t server, uint32_t worker,
			 bool is_forgotten);
void tables_came_opens(struct tables_world *world, uint32_t server, uint32_t worker);
/* Its connection is over, and ends in a moment. */
void tables_came_lost(struct tables_world *world, uint32_t server, uint32_t worker);
void tables_came_joins(struct tables_world *world, uint32_t server, uint32_t worker);
void tables_came_ends(struct tables_world *world, uint32_t server, uint32_t worker);
void tables_answer_judge(struct tables_world *world, uint32_t server, uint32_t worker,
			 uint64_t number);
void tables_gone_judge(struct tables_world *world, uint32_t server, uint32_t worker,
		       uint32_t other);
/* Who ought to have been told. */
void tables_turn_judge(struct tables_world *world, uint32_t server);
/* A process: was told so. */
void tables_freed_judge(struct tables_world *world, uint32_t process, uint32_t server);
void tables_passed_judge(struct tables_world *world, uint32_t process, uint32_t server);
void tables_gate_judge(struct tables_world *world, uint32_t process);
void tables_pulled_judge(struct tables_world *world, uint32_t process, uint32_t server,
			 uint32_t seen);
void tables_over_judge(struct tables_world *world, uint32_t process, uint32_t server);
void tables_fault_judge(struct tables_world *world, uint32_t process, uint32_t server,
			enum worker_kv_fault fault, uint8_t refusal);
void tables_lost_judge(struct tables_world *world, uint32_t process, uint32_t server,
		       enum worker_kv_lost lost);
void tables_attempt_judge(struct tables_world *world, uint32_t process, uint32_t server);
/* Does it wait for one that has left before it came, and for good? */
bool tables_waits_in_vain(const struct tables_world *world, uint32_t process);
void tables_end_judge(struct tables_world *world);

/* ---- tables_worker.c ---- */

void tables_process_begin(struct tables_world *world, uint32_t worker);
void tables_process_turn(struct tables_world *world, uint32_t process);
void tables_process_calls(struct tables_world *world, uint32_t process);
void tables_process_hears(struct tables_world *world, uint32_t conn,
			  const struct tables_message *message);
/* is_silent: with its host. */
void tables_process_dies(struct tables_world *world, uint32_t process, bool is_silent);

/* ---- tables_disk.c ---- */

enum server_kv_disk tables_disk(const struct tables_world *world, uint32_t server);
void tables_record(struct tables_world *world, uint32_t server, struct tables_record what);
/* It leaves when the disk has all that was recorded by now (R-SP-27). */
void tables_hold(struct tables_world *world, struct tables_conn *conn,
		 struct tables_message message);
void tables_server_synced(struct tables_world *world, uint32_t server, uint64_t records);
/* After a restart: what the disk has. */
void tables_replay(struct tables_world *world, uint32_t server);

/* ---- tables_server.c ---- */

void tables_server_begin(struct tables_world *world, uint32_t server);
void tables_server_dies(struct tables_world *world, uint32_t server, bool is_silent);
void tables_server_hears(struct tables_world *world, uint32_t conn,
			 const struct tables_message *message);
void tables_server_turn(struct tables_world *world, uint32_t server);

#endif
