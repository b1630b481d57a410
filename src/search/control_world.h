/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_world.h - the state of control.h's model, and the steps of its machines; control.c says which of
 * them may happen when.
 */
#ifndef SEARCH_CONTROL_WORLD_H
#define SEARCH_CONTROL_WORLD_H

#include "core/job/admission.h"
#include "core/job/member.h"
#include "search/control.h"

enum {
	SEATS = 2 * CONTROL_PROCESSES,
	/* The name's; then one of each life of it that has a second aggregator or communicator. */
	JOBS = 3,
	AGGREGATORS = 2,
	QUEUE = 6, /* messages in a direction */
	COMMANDS = 3,
	ACKS = 4,
	LANES = 360, /* of a shard; a rank's path carries 4 less than that of the rank before */
	CHUNKS = MAP_STREAMS * CONTROL_OPS, /* an operation is one chunk of its stream */
	SEEN = 4,
	GROUPS = 2,
	REFUSAL = 8, /* bytes of a text that is nobody's business here */
	HOST = 8,    /* bytes of a host's name */
	SPANS_MAX = 128,
	STILL_SPAN_MS =
		2000, /* what passes at a time: STALLs may be so far apart, a round may not be so slow */
	STILL = 7, /* of these: the heartbeat time and two beats */
	SAID = 2,  /* ... a STALL this old is too old, */
	ASKED = 1, /* and a round this old too slow */
	STATE_WORDS = (sizeof(struct admission) + CONTROL_RANKS * sizeof(struct admission_member) +
		       CONTROL_PROCESSES * sizeof(struct admission_peer) +
		       GROUPS * sizeof(struct control_op) + SEEN * sizeof(struct admission_seen) +
		       2 * REFUSAL + CONTROL_RANKS * sizeof(uint64_t)) /
		      sizeof(uint64_t),
};

enum status { NEW, ALIVE, STOPPED, DEAD }; /* of a process */
enum end { ABSENT, OPEN, SHUT, CLOSED };   /* of a connection; SHUT: last words are said */
enum aggregator { UP, HALTED, DOWN };      /* HALTED: SIGSTOP */
enum { ACK_NOTHING, ACK_MISMATCH, ACK_MISFIT, ACK_OF }; /* ACK_OF + enum admission_command */

/* A message on its way, what matters of it. Zeros where there is none. */
struct note {
	uint8_t type;    /* enum control_type */
	uint8_t cause;   /* DENY, ABORT; OPINFO: what is done, bit by bit */
	uint16_t rank;   /* DENY, ABORT; READY, START: lanes; OPINFO, LEAVE: submitted */
	uint32_t number; /* GRANT: generation; PING, PONG: serial; QUERY, OPINFO: round; STALL */
	uint32_t from;   /* QUERY, OPINFO */
};

/* What a process has at one aggregator, or of one communicator. Seat s is process s's first, seat processes + s
 * its second. */
struct seat {
	struct member member;
	struct note up[QUEUE], down[QUEUE];
	uint32_t generation; /* that it was granted */
	uint8_t status;      /* enum status: its process's, NEW until this seat is wanted */
	uint8_t near, far;   /* enum end: of its connection, here and at the aggregator */
	uint8_t is_vanished; /* no word gets through any more, neither does the end */
	uint8_t submitted;   /* operations; of a communicator's first seat */
	uint8_t done;        /* bit by bit; likewise */
	uint8_t results;     /* chunks whose result has been sent to it, bit by bit */
	uint8_t has_stalled; /* it has said STALL, and nothing has changed since */
	uint8_t is_bad;      /* it did something that a text may name it for */
	uint8_t has_joined;  /* the aggregator has read its JOIN */
	uint8_t is_held;     /* aborted: its place must not be given away before it is closed */
	uint8_t life;        /* that the first was granted: the second's JOIN says it */
	uint8_t is_granted;  /* its GRANT is in, and waits for the others' */
	uint8_t still;    /* has_clock: how long without a result of any operation, up to STILL */
	uint8_t is_mute;  /* no packet of it counts any more */
	uint8_t is_dumb;  /* it answers no QUERY */
	uint8_t hello;    /* the serial of its last HELLO */
	uint8_t welcomes; /* shards whose WELCOME it has, bit by bit */
	uint8_t reserved[2];
};

struct job_command {
	uint8_t type; /* 1 + enum admission_command */
	uint8_t generation;
	uint8_t who[CONTROL_RANKS]; /* 1 + the process that each child's nonce belongs to */
};

struct job_ack {
	uint8_t type; /* ACK_... */
	uint8_t generation, has_failed, rank;
};

struct shard {
	struct job_command commands[COMMANDS];
	struct job_ack acks[ACKS];
	uint8_t generation; /* of the job that it has; 0: none */
	uint8_t is_enabled;
	uint8_t who[CONTROL_RANKS];
	uint8_t first[CHUNKS];        /* 1 + whose UPDATE came first */
	uint8_t contributors[CHUNKS]; /* ranks, bit by bit */
	uint8_t has_told;             /* of a MISMATCH */
	uint8_t reserved[3];
};

/* A job at an aggregator, and its part of the shards. */
struct job {
	struct shard shard[CONTROL_SHARDS];
	/* has_clock: how long ago, in STILL_SPAN_MS; what admission says of them is zero meanwhile. */
	uint8_t still_age[CONTROL_RANKS], said_age[CONTROL_RANKS];
	uint8_t asked_age, page_age;
	uint64_t admission[STATE_WORDS]; /* as many as admission_bytes says */
};

struct state {
	struct seat seat[SEATS];
	uint8_t left[FAULT_END + 1];     /* of what may happen */
	uint8_t aggregator[AGGREGATORS]; /* enum aggregator */
	uint8_t is_guilty[AGGREGATORS];  /* it did something that members may name it for */
	uint8_t is_terminating[AGGREGATORS];
	uint8_t generation[AGGREGATORS]; /* what the next life gets */
	uint8_t lives;                   /* of the first job */
	uint8_t ended_life;              /* of these the last that ended badly */
	uint8_t called; /* seats that had called it when the deadline was over, bit by bit */
	uint8_t reserved[8];
	struct job job[JOBS];
};
_Static_assert(sizeof(struct seat) % 8 == 0, "no padding: states are compared as bytes");
_Static_assert(sizeof(struct job) % 8 == 0, "no padding: states are compared as bytes");
_Static_assert(offsetof(struct state, job) == sizeof(struct seat) * SEATS + FAULT_END + 1 + 19,
	       "no padding: as above");
_Static_assert(offsetof(struct state, job) % 8 == 0, "no padding: as above");
_Static_assert(SEATS <= 8, "seats are bits of a byte");

/* Of a state's bytes: what is packed, and what always is zero. */
struct span {
	uint32_t bytes;
	bool is_in;
};

/* A row's, and what its steps need. */
struct world {
	const struct control_config *config;
	const struct control_process *process[SEATS]; /* whose seat it is */
	uint32_t seats, jobs, aggregators;
	struct admission_config admission[JOBS];
	struct member_config member[SEATS];
	struct control_join join[SEATS + 1]; /* one for NOBODY */
	uint32_t at;                         /* the job that steps */
	struct state state;                  /* the one that is being made */
	uint32_t silent;                     /* whom the aggregator has not heard for so long */
	const char *violation;
	char blamed[CONTROL_TEXT_BYTES]; /* by admission, for a trace */
	struct span spans[SPANS_MAX];
	uint32_t spans_count;
	size_t packed_bytes;
};

void world_begin(struct world *world, const struct control_config *config);
/* ---- seats and jobs ---- */

/* Its process's index. */
uint32_t seat_owner(const struct world *world, uint32_t s);
bool seat_is_second(const struct world *world, uint32_t s);
/* Where its operations are counted. */
uint32_t seat_home(const struct world *world, uint32_t s);
/* Of one process, and of one communicator. */
bool seat_is_beside(const struct world *world, uint32_t s, uint32_t other);
uint32_t seat_job(const struct world *world, uint32_t s);
uint32_t seat_aggregator(const struct world *world, uint32_t s);
uint32_t job_aggregator(const struct world *world, uint32_t job);
/* Of one job, in whatever life; JOIN says which. */
bool seats_meet(const struct world *world, uint32_t s, uint32_t other);
/* It is the home of a communicator, and that runs. */
bool home_runs(const struct world *world, uint32_t s);
/* A second communicator belongs to the first, one way or another. */
bool has_parts(const struct world *world);
/* What its JOIN belongs to has ended badly. */
bool seat_is_orphan(const struct world *world, uint32_t s);
/* It calls nothing more in its first communicator, and waits for nothing in its second, a pair. */
bool process_has_deserted(const struct world *world, uint32_t p);
/* It waits in a pair, and the other rank has. */
bool seat_is_deserted(const struct world *world, uint32_t s);
bool seat_is_over(const struct seat *seat);
/* What its path carries. */
uint16_t seat_lanes(const struct world *world, uint32_t s);
/* The process is no more; whose end its connection has is the caller's. */
void seat_wipe(struct seat *seat);
/* The steps of an aggregator that follow are this job's. */
void world_select(struct world *world, uint32_t job);

/* control_pack.c: as bfs.h keeps it, without what always is zero; world_begin has called pack_begin. */
void pack_begin(struct world *world);
void pack(const struct world *world, const struct state *state, uint8_t *packed);
/* What is left out must be zero in *state. */
void unpack(const struct world *world, const uint8_t *packed, struct state *state);

/* ---- the aggregator: the job that world_select has named, unless a seat or a job is given ---- */

struct admission *world_admission(struct world *world);
struct admission_peer *world_peer(struct world *world, uint32_t i); /* members', waiters' */
uint32_t world_peers_count(const struct world *world);
struct control_op *world_group(struct world *world, uint32_t i);
/* As long after everything as it wants: it has just heard everybody, but `silent` (NOBODY: nobody). */
enum { NOBODY = SEATS };
uint64_t world_heartbeat_passes(struct world *world, uint32_t silent);
uint64_t world_gathering_passes(struct world *world);
/* 5 s after a refusal: false if there was none. */
bool world_refusal_passes(struct world *world);
/* 1 s after a QUERY about a deadline: false if there is none on its way. */
bool world_verdict_is_due(struct world *world);
/* 1 s after the last JOIN, all being ready: false if START waits for nothing. */
bool world_hold_passes(struct world *world);
void world_aggregator(struct world *world, struct admission_event event);
/* control_check.c: of a life's end, of a verdict (`before` is the admission before it), and of what it says to a seat. */
void world_check_drained(struct world *world);
void world_check_text(struct world *world, const struct admission_event *event,
		      const struct admission *before, const struct admission_actions *actions);
void world_check_message(struct world *world, uint32_t s, const struct control_message *message);
/* A pair is said to be deserted by a rank: it is. */
void world_check_deserted(struct world *world, uint32_t rank);
void world_check_heard(struct world *world, const struct admission_event *event, bool is_over);
/* `was` is the admission before the step that says so. */
void world_check_waiting(struct world *world, const struct admission *was,
			 const struct admission_actions *actions);
void world_read(struct world *world, uint32_t from);
void world_closed(struct world *world, uint32_t from);
void world_ack(struct world *world, uint32_t shard);
/* Seats that a HEARTBEAT would go to now. */
uint32_t world_beats(struct world *world);
void world_aggregator_ends(struct world *world, uint32_t aggregator);

/* ---- members ---- */

void world_start(struct world *world, uint32_t s);
void world_member(struct world *world, uint32_t s, struct member_event event);
void world_take(struct world *world, uint32_t s);
/* An aggregator's silence, as long as a member endures. */
void world_member_silence(struct world *world, uint32_t s);
/* The member has overslept. */
void world_member_wakes(struct world *world, uint32_t s);
void world_member_late(struct world *world, uint32_t s);
/* 100 ms without WELCOME: HELLO again. */
void world_member_unheard(struct world *world, uint32_t s);
/* No WELCOME has come for as many HELLOs as a member sends. */
void world_member_unwelcome(struct world *world, uint32_t s);
/* A deadline was over 2 s ago. */
void world_member_no_verdict(struct world *world, uint32_t s);
bool world_member_beats(const struct world *world, uint32_t s);

/* ---- shards and operations ---- */

const char *seat_program(const struct world *world, uint32_t s);
uint32_t op_chunk(const struct world *world, uint32_t s, uint32_t op);
void world_ack_push(struct world *world, uint32_t shard, struct job_ack ack);
void world_command(struct world *world, uint32_t shard, bool has_failed);
/* A shard has not done, or not acknowledged, what it was told. */
bool world_is_owed(const struct world *world);
bool world_may_add(const struct world *world, uint32_t s, uint32_t op);
void world_add(struct world *world, uint32_t s, uint32_t op);
/* Something has changed in its communicator: who has stalled may stall again. */
void world_changed(struct world *world, uint32_t s);

/* ---- what they share ---- */

uint32_t notes_count(const struct note *notes);
void notes_push(struct world *world, struct note *notes, const struct note *note);
struct note notes_pop(struct note *notes);
struct note note_of(const struct control_message *message);
void message_of(const struct world *world, uint32_t s, const struct note *note,
		struct control_op *ops, struct control_message *message);
void world_fail(struct world *world, const char *violation);

#endif
