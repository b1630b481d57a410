/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm.h - a communicator from inside. Whoever waits drives: a thread that blocks in a call takes the
 * role of the driver (`is_driven`) and polls the endpoint; only the driver, or the holder of the lock
 * while nobody is the driver, touches endpoint and link. The lock is never held while the link waits,
 * nor while a user's function runs. What nobody drives is driven by the process's background thread,
 * which also serves all control connections (background.h).
 *
 * The files of lib stand in layers. None needs one that is named behind it here, as the linker sees it:
 *     process     config report version interface bootstrap* config_bootstrap identity present wake lent types fold timeline
 *     state       local work comm_state group stray paths part meeting, and what drives: progress caller
 *     membership  seat membership_do late membership background
 *     calls       collective request operation calls handle fuse dump
 *     life        local_end comm split pair oob
 */
#ifndef LIB_COMM_H
#define LIB_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/job/control.h"
#include "dataplane/endpoint.h"
#include "lib/bootstrap.h"
#include "lib/fold.h"
#include "lib/lent.h"
#include "lib/report.h"
#include "lib/timeline.h"
#include "lib/wake.h"
#include "tally.h"
#include "util/clock.h"

struct membership; /* seat.h: this rank's end of the control connection */
struct local;
struct host;

enum comm_state {
	COMM_JOINING, /* not all are there yet */
	COMM_RUNNING,
	COMM_LEAVING, /* finalize has been called */
	COMM_LEFT,
};

enum work_state {
	WORK_GATHERED,  /* in a group that has not ended, or fused into another work */
	WORK_WAITING,   /* numbered, and the endpoint's ring has no room yet; or `held` */
	WORK_SUBMITTED, /* the endpoint has it */
	WORK_CALLING,   /* all is there; fold_run or on_done is queued, or runs */
	WORK_COMPLETE,
};

struct tally_work {
	struct tally_comm *comm;
	struct tally_work *next, *prev; /* outstanding: by number; CALLING: the queue; or free */
	struct tally_work *next_waiting;
	struct control_op op;    /* number, kind, type, op, count, stream, name */
	struct past_place place; /* R-WK-17: what it repeats, found when it was numbered */
	int stream;              /* enum tally_stream: as asked for */
	uint32_t deadline_ms;    /* its own, or the communicator's; 0: none */
	uint32_t segments_count;
	struct endpoint_segment
		*segments;  /* what is not empty, as it travels; `segment`, or allocated */
	struct lent *lents; /* two of each: source, destination; or `lent` */
	struct endpoint_segment segment;
	struct lent lent[2], lent_residual;
	float *residual; /* NULL, or as tally_op_options has it */
	/* R-WK-13: where `parts` parts end, of which this rank has `mine`; NULL, &end, or allocated. */
	uint64_t *ends;
	uint64_t end;
	uint32_t parts, mine;
	tally_reduce_fn reduce; /* TALLY_USER */
	void *reduce_ctx;
	struct fold *fold; /* NULL, or it is gathered, and `segments` are where the result goes */
	/* As the caller said it: a blocking call that was interrupted comes again with it. */
	struct tally_buffer called;
	uint64_t first_ns;          /* its first packet was built; 0: not yet, or nobody asks */
	struct tally_work *members; /* by `next`: the handles of what was fused into this one */
	uint64_t submitted_ns;
	uint64_t deadline_ns; /* on the link's clock; 0: none */
	tally_done_fn done_fn;
	void *done_arg;
	atomic_int state; /* enum work_state; written under the lock */
	int result;
	uint64_t interrupted_by; /* if is_interrupted: the thread that is to call again */
	bool is_interrupted;
	bool is_detached;     /* nobody holds the handle: freed when complete */
	bool is_out_of_range; /* latency mode: TALLY_ERR_RANGE, which breaks nothing */
};

struct work_list {
	struct tally_work *first, *last;
};

/* Waits until is_over(comm, arg). */
typedef bool (*progress_over_fn)(struct tally_comm *comm, void *arg);

/* A thread that waits for as long as it takes; on its stack. */
struct blocked {
	progress_over_fn is_over;
	void *arg;
	struct blocked *next, *prev;
};

struct tally_comm {
	struct report_who who;
	struct bootstrap boot;
	uint32_t poll_count, window_packets;
	uint32_t flags;                   /* enum tally_flags */
	tally_interrupted_fn interrupted; /* NULL: waits are not interrupted */
	void *interrupted_ctx;
	unsigned epoch;            /* of the process: a forked child has another */
	struct timeline *timeline; /* NULL: none is wanted */
	uint32_t timeline_comm;
	struct local *local; /* local mode: the aggregator, in rank 0's process */
	bool is_local_last;  /* no other communicator needs it any more */
	/* Local mode: whose rank 0 hosts it, after its life if it has one. */
	char local_job[BOOTSTRAP_JOB_MAX + 18];

	pthread_mutex_t lock;
	pthread_cond_t changed;
	atomic_uint contenders; /* threads that want the lock: a driver lets them in */
	/* tally_comm_abort was called, maybe by a signal handler in a thread that holds the lock: so that only says it here,
	 * and whoever gets the lock next does it. */
	atomic_bool is_abort_asked;

	/* Under the lock. */
	enum comm_state state;
	atomic_int error; /* what broke it; written under the lock, after error_text */
	char error_text[REPORT_TEXT_MAX];
	bool is_driven;   /* a calling thread is the driver */
	bool is_waiting;  /* ... and waits on the link */
	bool is_knocking; /* an aggregator is silent, and asked by HELLO: answers are read */
	bool is_watched;  /* the background thread polls the socket */
	uint64_t watched_until_ns; /* ... and drives it then, at the latest */
	uint32_t watch_us;         /* host: how long after it has last done so */
	bool is_left;              /* to the background thread, by one that came and did not stay */
	uint64_t touched_ns;       /* a thread of the program has last driven it, or looked */
	uint64_t look_ns;     /* the background thread is to see whether it is wanted; 0: no need */
	uint32_t patience_us; /* ... so long after touched_ns; 0: the least (progress.c) */
	uint32_t sleepers;    /* threads that wait for `changed` */
	struct link *link;
	struct endpoint *endpoint;
	struct host *host; /* NULL: operations travel by the endpoint (carrier.h) */
	void *host_memory;
	struct blocked *blocked;
	struct work_list outstanding; /* oldest number first */
	struct work_list held;        /* a pair's, while it is joining: not numbered */
	struct work_list calling;     /* all is there; what is due is done without the lock */
	struct work_list folding;     /* taken from there, and worked out by some thread */
	struct work_list complete;    /* nobody has looked yet */
	struct tally_work *free_works;
	uint32_t interrupted_count; /* works whose blocking calls were interrupted */
	bool is_finalize_interrupted;
	uint32_t gathered; /* works in groups that no thread has ended yet: they point here */
	struct lent *lent_reads, *lent_writes; /* to outstanding operations: trees */
	struct waiting {
		struct tally_work *first, *last; /* by next_waiting */
	} waiting[MAP_STREAMS]; /* outstanding ones that the endpoint has no room for */
	uint64_t next_number;   /* of the next operation */
	uint64_t last_complete; /* 1 + the last complete number; 0: none */
	uint64_t completed, elements, folded;
	bool has_told_fold; /* that operations are gathered */
	uint32_t lanes, shards, slots, run;
	struct control_member *members; /* of START: all ranks; NULL before it */
	atomic_ullong deadline_ns;      /* the first of all outstanding works'; UINT64_MAX: none */
	struct control_waiting late;    /* the last WAITING: whom operation `number` waits for */
	uint64_t life;                  /* of GRANT; the background thread's before START */
	struct strays {
		uint64_t said;    /* how many the last line told of */
		uint64_t said_ns; /* when that was; 0: there was none */
		uint64_t look_ns; /* when to look again */
	} strays;

	/* pair.c: what a rank sends to another has a communicator of the two, whose rank 0 sends. Of theirs: */
	struct tally_comm *pairs;   /* by next_pair: only grows; under the lock */
	bool is_closing;            /* ... and no more: tally_comm_finalize has begun */
	pthread_mutex_t pairs_lock; /* taken before the lock: one thread at a time opens a pair */
	/* Of a pair: */
	struct tally_comm *next_pair;
	const struct report_who *pair_of; /* the communicator that it is of; NULL: it is no pair */
	uint32_t peer;                    /* the other one, as a rank of what the pair is of */
	uint64_t
		lone_ns; /* to say that it has not come; 0: not yet, UINT64_MAX: it has been said */
	/* It has just become whole: `held` enter. Lock held. */
	void (*enter_held)(struct tally_comm *comm);

	/* What JOIN says besides; set before membership_open. Zeros: dense, no key, a name is enough. */
	uint32_t latency_slots, latency_window;
	uint64_t join_life; /* its parent's, or what tally_comm_init_oob's rank 0 has drawn */
	char key[CONTROL_KEY_BYTES];

	/* Requests to the background thread, under the lock. */
	bool wants_abort, wants_leave, wants_error;
	enum control_cause fault_cause;
	char fault_text[CONTROL_TEXT_BYTES];
	bool is_over; /* its control connection is closed for good */

	/* The background thread's own. */
	struct membership *membership;
	struct tally_comm *next_comm;
	short watched_events; /* of its socket, while is_watched */
	bool is_removed;      /* under background.c's lock */

	/* Under caller.c's lock: functions are due. */
	struct tally_comm *next_due;
	bool is_due;
};

/* ---- work.c; lock held ---- */

struct tally_work *work_get(struct tally_comm *comm); /* NULL: out of memory */
/* Room for so many segments; false: out of memory. */
bool work_segments(struct tally_work *work, size_t count);
/* The same for the ends of so many parts. */
bool work_parts(struct tally_work *work, uint32_t parts);
/* What travels: an allgather in place of what lanes cannot do. */
struct work_way {
	enum lanes_type type;
	enum lanes_op op; /* LANES_COPY if nothing is added up */
	uint64_t count;   /* of that type: a complex number is two */
	const struct endpoint_segment *segments;
	uint32_t segments_count;
	const uint64_t *ends;
	uint32_t parts, mine;
	bool is_for_one; /* each element goes to one rank alone, of several */
};
struct work_way work_way(const struct tally_work *work);
/* A sum that lanes cannot do, whose segments are known, becomes one that is gathered. False: out of memory. */
bool work_fold(struct tally_comm *comm, struct tally_work *work);
/* One that never entered: nobody has its handle. */
void work_drop(struct tally_comm *comm, struct tally_work *work);
/* Its buffers are the caller's again. */
void work_unlend(struct tally_comm *comm, struct tally_work *work);
/* One that was fused, or that its group could not start, gets its result. */
void work_settle(struct tally_comm *comm, struct tally_work *work, int result);
/* A complete one whose handle is given back. */
void work_put(struct tally_comm *comm, struct tally_work *work);
/* Complete, on_done has run: until its holder looks, or for good if there is none. */
void work_rest(struct tally_comm *comm, struct tally_work *work);
void work_append(struct work_list *list, struct tally_work *work);
void work_remove(struct work_list *list, struct tally_work *work);
void work_complete(struct tally_comm *comm, struct tally_work *work, int result);
/* A complete one whose fold has run. */
void work_folded(struct tally_comm *comm, struct tally_work *work);
/* Says why the work ended so, if it failed; returns its result. */
int work_report(const struct tally_comm *comm, const struct tally_work *work);
/* One that has just been numbered, and has a deadline. */
void work_deadline_set(struct tally_comm *comm, struct tally_work *work);
/* One that has just been numbered. */
void work_place(struct tally_comm *comm, struct tally_work *work);
/* The endpoint takes it, or it waits until there is room. */
void work_submit(struct tally_comm *comm, struct tally_work *work);
/* Gives the endpoint what it has room for; true if that was anything. */
bool work_submit_waiting(struct tally_comm *comm);
bool work_is_over(struct tally_comm *comm, void *work); /* a progress_over_fn */
/* R-CT-45: who waits here, threads and functions, and for what at least. */
uint32_t work_blocked(struct tally_comm *comm, uint64_t *waits);

/* ---- comm_state.c ---- */

void comm_lock(struct tally_comm *comm);
void comm_unlock(struct tally_comm *comm);
/* What has broken it, an abort that was only asked for included; TALLY_OK. No lock held. */
int comm_error(struct tally_comm *comm);
/* This process is a child of the one that opened it: the handle is its parent's. */
bool comm_is_forked(const struct tally_comm *comm);
/* NULL and forked handles: TALLY_ERR_ARGUMENT, _USAGE, said. */
int comm_check(const struct tally_comm *comm, const char *call);
/* Who it is, as texts say it: of a pair, what it is of. */
static inline const struct report_who *comm_named(const struct tally_comm *comm)
{
	return comm->pair_of ? comm->pair_of : &comm->who;
}

/* Breaks it, once: all that is outstanding completes with `result`. `text` becomes the first cause, with
 * what was going on here appended. Lock held. */
void comm_break(struct tally_comm *comm, int result, const char *text);
int result_of_cause(enum control_cause cause);
/* What a pair is of has broken: so does the pair. Lock not held. */
void comm_break_pair(struct tally_comm *pair, int result, const char *text);
/* A pair with operations that are held, whose other rank has not come in time. Lock held. */
void comm_break_alone(struct tally_comm *pair);

/* ---- part.c ---- */

/* A communicator of some of a communicator's ranks: with its aggregator and life, by its name with `suffix`. */
void part_boot(struct bootstrap *boot, const struct tally_comm *parent, const char *source,
	       uint32_t rank, uint32_t size, const char *suffix);

/* ---- stray.c ---- */

/* Says, now and then, what packets that were not this communicator's have come (R-CT-35). By the background thread. */
void stray_look(struct tally_comm *comm, uint64_t now_ns);

/* ---- progress.c; lock held unless said otherwise ---- */

/* One burst; true if there may be more at once. The caller is the driver, or nobody is. */
bool progress_drive(struct tally_comm *comm);
/* Sends what was just submitted, or makes the driver do so. */
void progress_submitted(struct tally_comm *comm);
/* What was just submitted may wait for what follows: only sees to it that it will be sent. */
void progress_gathered(struct tally_comm *comm);
/* For the background thread, which could drive it (is_idle: nobody else does) or has been asked to look: has its
 * program left it alone for long enough? False: come back at *until_ns, UINT64_MAX if there is no need. */
bool progress_is_left(struct tally_comm *comm, bool is_idle, uint64_t *until_ns);
/* Runs the on_done functions that are due, without the lock meanwhile. */
void progress_callbacks(struct tally_comm *comm);
/* Runs a user's on_done function; no lock held. */
void progress_call(struct tally_work *work, tally_done_fn fn, int result, void *arg);

/* progress_drive by one who does not stay: nobody is the driver. */
bool progress_look(struct tally_comm *comm);

/* Waits until is_over(comm, arg), driving if nobody does; until_ns on the link's clock. may_interrupt: the program's
 * `interrupted` is asked meanwhile. */
enum progress_end {
	PROGRESS_OVER,
	PROGRESS_LATE, /* the time ran out first */
	PROGRESS_INTERRUPTED,
	PROGRESS_FORKED, /* a function of the user's has forked, and this is the child: comm_is_forked */
};
enum progress_end progress_wait(struct tally_comm *comm, progress_over_fn is_over, void *arg,
				uint64_t until_ns, bool may_interrupt);
/* Asks the program whether a wait is to end. No lock held. */
bool progress_is_interrupted(struct tally_comm *comm);

/* ---- comm.c ---- */

/* What every init checks first, and a whole copy of the options, which may be NULL or an older version's. TALLY_OK, or
 * said. */
int comm_init_check(struct tally_comm **comm, struct tally_options *mine,
		    const struct tally_options *theirs, const char *call);
/* Joins. boot and options are complete; parent: what it is split off, or NULL. TALLY_OK, or said. */
int comm_open(struct tally_comm **out, const struct bootstrap *boot,
	      const struct tally_options *options, const struct tally_comm *parent);
/* The same for a pair, which nobody waits for. */
int comm_open_pair(struct tally_comm **out, const struct bootstrap *boot,
		   const struct tally_options *options, const struct tally_comm *parent);
/* What this rank has sent, and how much of it again: it has left. */
void comm_say_end(struct tally_comm *comm);

#endif
