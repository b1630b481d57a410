/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_kv.h - a parameter server's side of R-KV for one table: who may have it open, on which connection; who waits for
 * whom in a barrier; who has gone, who has left, whose word is in doubt. server_kv_step(event) -> a verdict and actions;
 * no I/O, no clock, no allocation, no texts. docs/protocol.md, R-KV-6 and R-KV-9 to R-KV-20.
 *
 *   ABSENT     nobody has been this worker     OPEN   it has the table open
 *   REPORTING  likewise, and R-KV-20 waits for what it knows
 *   GONE       its connection has ended, and it may come back
 *   LEFT       it has said so, or its run was ended
 *
 * Incarnations, batches and generations are server_sparse's, which is looked at here and never changed: the caller steps
 * that, too. What must survive is in records, which actions ask for, and which server_kv_replay takes after a restart.
 */
#ifndef CORE_SERVER_KV_H
#define CORE_SERVER_KV_H

#include "core/sparse/server_sparse.h"

/* R-KV-15, as OPEN says it. */
enum server_kv_mode { SERVER_KV_ASYNC, SERVER_KV_BOUNDED, SERVER_KV_SYNC };

enum server_kv_presence {
	SERVER_KV_ABSENT,
	SERVER_KV_REPORTING,
	SERVER_KV_OPEN,
	SERVER_KV_GONE,
	SERVER_KV_LEFT,
};

/* Memory lent by the caller; zeros at first. */
struct server_kv_worker {
	uint64_t joined, left; /* of all that joined and left, in which order; 0: never */
	uint64_t
		link; /* the connection that has opened the table for it, numbered as they came; 0: none */
	uint64_t barrier;  /* the last that it has come to, */
	uint64_t answered; /* and the last that it has been answered */
	uint64_t
		waits_ns; /* since then, and since the last answer; 0: server_kv_longest has not seen it yet */
	/* R-KV-11: since then it is not sure that it is still there, and its barrier does not count; 0: it is */
	uint64_t doubt_ns;
	uint64_t joined_ns; /* this incarnation; 0: before this server began */
	uint64_t
		gone_ns; /* since when it has no connection, though it has not left; 0: it has, or never had one */
	uint32_t staleness;
	uint8_t mode;       /* enum server_kv_mode; as it has said in OPEN */
	uint8_t is_waiting; /* its barrier has not been answered */
	uint8_t is_lost;    /* its connection is over, and END comes */
	uint8_t is_ending;  /* it hears nothing more on its connection, which ends */
};

struct server_kv {
	const struct server_sparse *sparse; /* who is which incarnation */
	struct server_kv_worker *worker;    /* sparse->table->workers */
	uint64_t barrier;                   /* the last that was passed */
	uint64_t moves;                     /* joins and leaves */
	uint64_t
		spends_ns; /* when, at one a second, all would have come that came in place of others */
	uint64_t began_ns; /* this server */
	uint64_t heartbeat_ns;
	bool is_sync;      /* R-KV-16 */
	bool is_sure;      /* somebody was in doubt, and has been heard */
	bool is_gathering; /* R-SP-33 */
};

/* How the disk is. */
enum server_kv_disk {
	SERVER_KV_WELL,
	SERVER_KV_TROUBLED, /* nothing can be recorded just now, */
	SERVER_KV_STUCK,    /* and so much waits for it that nothing more is taken, */
	SERVER_KV_DELETED,  /* or it never can again */
};

/* What is said to a worker, if it is not yes. */
enum server_kv_verdict {
	SERVER_KV_YES,
	SERVER_KV_DRAIN, /* OPEN: yes, once what its predecessor has pushed was brought (R-SP-29) */
	SERVER_KV_LOWER, /* a later incarnation has come */
	SERVER_KV_AHEAD, /* this one is too far ahead */
	SERVER_KV_NO_DISK,    /* DELETED, STUCK or TROUBLED */
	SERVER_KV_SPENT,      /* no generation is left for who comes in place of another */
	SERVER_KV_SOON,       /* nor for so many of them at once */
	SERVER_KV_OTHER_MODE, /* than the table's, */
	SERVER_KV_DIFFERS,    /* or than that of `other` */
	SERVER_KV_OVER,       /* its run is */
	SERVER_KV_FAR,        /* a barrier that nobody can come to */
	SERVER_KV_HAS_GONE,   /* `other`, whom it waits for */
	SERVER_KV_ANEW,       /* `other` has begun anew, and the run is over */
	SERVER_KV_TAKEN,      /* another connection has its place */
};

enum server_kv_event_type {
	SERVER_KV_BEGIN,     /* after all replays */
	SERVER_KV_TO_OPEN,   /* server_kv_may_open has said yes */
	SERVER_KV_LOST,      /* the worker's connection is over; END comes */
	SERVER_KV_ENDS,      /* its last words were said to it */
	SERVER_KV_END,       /* it has been closed */
	SERVER_KV_LEAVE,     /* `number`: the step that is under way has something */
	SERVER_KV_BARRIER,   /* number */
	SERVER_KV_HEARD,     /* of the worker's connection at now_ns; only if server_kv_doubts */
	SERVER_KV_TIME,      /* in each turn; disk */
	SERVER_KV_GATHER_IT, /* R-SP-33: server_sparse gathers since now */
	SERVER_KV_GATHERED, /* in each turn, and after each REPORT: has everybody said what it knows? */
};

struct server_kv_event {
	enum server_kv_event_type type;
	uint16_t worker;
	uint8_t mode;
	uint32_t staleness;
	uint64_t link, incarnation, number;
	uint64_t now_ns;
	uint64_t wall_ns; /* server_kv_may_open */
	enum server_kv_disk disk;
};

enum server_kv_action_type {
	/* Records; this state has them already, but for a JOIN. */
	SERVER_KV_DO_PASS,  /* barrier `number`, and the step that it ends */
	SERVER_KV_DO_LEAVE, /* of the worker */
	SERVER_KV_DO_VOID,  /* R-KV-16: the step that is under way is dropped, and all have left */
	SERVER_KV_DO_JOIN,  /* server_sparse joins it, and server_kv_replay does */
	/* Messages; they leave when all that was recorded by now is on the disk. */
	SERVER_KV_DO_ANSWER, /* its barrier `number` */
	SERVER_KV_DO_TAKE, /* `link` is its connection now; what it had ends with `verdict`, TAKEN, or is YES: it had none */
	/* At once. */
	SERVER_KV_DO_REFUSE, /* its barrier `number`: verdict, other */
	SERVER_KV_DO_CLOSE,  /* its connection ends: verdict, other */
	SERVER_KV_DO_MISS,   /* server_sparse waits for its report no more */
};

struct server_kv_action {
	uint8_t type;    /* enum server_kv_action_type */
	uint8_t verdict; /* enum server_kv_verdict */
	uint16_t worker, other;
	uint16_t reserved;
	uint64_t number;
};

enum {
	SERVER_KV_ACTIONS_MAX = 3 * SWITCH_CHILDREN_MAX + 4,
	SERVER_KV_AT_ONCE =
		65536, /* workers in place of others: 256 short runs of all that there may be */
};

struct server_kv_actions {
	enum server_kv_verdict verdict; /* of a BARRIER */
	uint32_t count;
	struct server_kv_action list[SERVER_KV_ACTIONS_MAX];
};

/* What a record says: of whom, or which barrier. */
enum server_kv_record { SERVER_KV_JOINED, SERVER_KV_HAS_LEFT, SERVER_KV_PASSED, SERVER_KV_VOIDED };

void server_kv_init(struct server_kv *kv, const struct server_sparse *sparse,
		    struct server_kv_worker *worker, bool is_sync);
/* After init, in order; and of a JOIN, when it is recorded. */
void server_kv_replay(struct server_kv *kv, enum server_kv_record record, uint64_t number);

/* May the worker join or come back on this connection: R-KV-6, R-KV-15, R-KV-16? In two halves, between which the caller looks
 * at what else OPEN says. *other: of DIFFERS. */
enum server_kv_verdict server_kv_is_due(const struct server_kv *kv,
					const struct server_kv_event *open);
enum server_kv_verdict server_kv_may_open(const struct server_kv *kv,
					  const struct server_kv_event *open, uint16_t *other);

/* The caller does what the list says, in its order. */
void server_kv_step(struct server_kv *kv, const struct server_kv_event *event,
		    struct server_kv_actions *actions);

/* Is this the connection that has the table open for the worker? */
bool server_kv_has_open(const struct server_kv *kv, uint16_t worker, uint64_t link);
/* Another connection that has it open, be it of the same process: its worker; as many as there are workers: none. */
uint16_t server_kv_is_here(const struct server_kv *kv, uint16_t worker, uint64_t link,
			   uint64_t incarnation);
/* R-KV-10: may a pull of this generation and epoch be answered? */
bool server_kv_is_fresh(const struct server_kv *kv, uint64_t generation, uint64_t epoch);

enum server_kv_presence server_kv_presence(const struct server_kv *kv, uint16_t worker);
/* Has it joined, and not left? */
bool server_kv_is_member(const struct server_kv *kv, uint16_t worker);
/* R-KV-11: has `other` left since `worker` joined? */
bool server_kv_has_left(const struct server_kv *kv, uint16_t other, uint16_t worker);
/* Does the one wait for the other, who has not come to its barrier? */
bool server_kv_awaits(const struct server_kv *kv, uint16_t worker, uint16_t other);
/* Is it not sure that it is there? */
bool server_kv_doubts(const struct server_kv *kv, uint16_t worker);
/* Who has waited in a barrier for the longest; as many as there are workers: nobody waits. */
uint16_t server_kv_longest(struct server_kv *kv, uint64_t now_ns);
/* For so long one that has gone is waited for: R-KV-17. */
uint64_t server_kv_grace_ns(const struct server_kv *kv);

/* ---- server_kv_step.c, for server_kv.c ---- */

struct server_kv_action *server_kv_act(struct server_kv_actions *actions,
				       enum server_kv_action_type type, uint16_t worker);
/* It may not be there any more: what it has come to does not count. */
void server_kv_forget(const struct server_kv *kv, struct server_kv_worker *worker);
/* What was passed, and who is to be answered. */
void server_kv_look(struct server_kv *kv, struct server_kv_actions *actions);
void server_kv_come(struct server_kv *kv, const struct server_kv_event *event,
		    struct server_kv_actions *actions);
void server_kv_heard(struct server_kv *kv, const struct server_kv_event *event);
void server_kv_time(struct server_kv *kv, const struct server_kv_event *event,
		    struct server_kv_actions *actions);

#endif
