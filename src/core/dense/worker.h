/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - a worker's state machine: WHAT may be sent, never when. worker_step(event) fills in
 * actions; no I/O, no clock, no allocation; quantising is an action. docs/protocol.md, R-WK-1 to R-WK-18.
 *
 * A chunk keeps its slot through [EXPONENT or GUESS] DATA [DETAIL], with consecutive seqs. All workers choose the
 * same round for the same seq, because the choice depends on the operations of the stream and on accepted results
 * alone.
 */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include "core/dense/past.h"
#include "core/shared/map.h"
#include "core/shared/wire.h"

/* Does a caller want any of some elements? ALONE: all of them, and no other worker's caller wants any. */
enum worker_wish { WORKER_WANTS_NONE, WORKER_WANTS_SOME, WORKER_WANTS_ALONE };

/* An operation as the caller submits it. */
struct worker_op {
	uint64_t hash;          /* map_descriptor_hash */
	uint64_t count;         /* elements; 0: a barrier, one chunk of no lanes */
	uint64_t cookie;        /* the caller's, handed back */
	struct map_shape shape; /* an element fits a packet */
	enum map_stream stream;
	enum wire_op lane_op;
	bool is_scaled; /* floats: needs an agreed exponent per chunk */
	/* R-WK-17: what it is compared by, whether it may be guessed, and what it repeats: worker_place. */
	uint64_t key;
	bool is_guessed;
	struct past_place place;
	/* R-WK-13. NULL: every worker has all elements. Else they are in parts, and of each part just one worker has the
	 * elements. Part p ends before element ends[p], the last one at count; lent until the operation is complete.
	 * This worker has part `mine`; none: `mine` is `parts`. It is unscaled, and lane_op is TAKE. */
	const uint64_t *ends;
	uint32_t parts, mine; /* without `ends`: so many parts take turns (R-MAP-8); 0: none do */
	/* R-WK-14, R-WK-15: what the caller wants of these elements. NULL: all, as others do. Lent as `ends` is. */
	enum worker_wish (*wants)(const void *caller, uint64_t first, uint32_t elements);
	const void *caller;
};

/* An operation on its way; memory lent by the caller, kept by the worker. */
struct worker_op_state {
	struct worker_op op;
	uint64_t first; /* the stream's chunk counter of its first chunk */
	uint64_t chunks;
	uint64_t done; /* chunks that are complete */
	uint32_t full; /* elements of each but the last */
};

enum worker_slot_state { WORKER_IDLE, WORKER_OUTSTANDING };

struct worker_slot {
	uint64_t k;   /* the chunk in its pair's numbering */
	uint64_t op;  /* index into the stream's ring of operations, ever growing */
	uint32_t seq; /* of the round that was built last; 0: none */
	uint32_t tag;
	uint16_t lanes;     /* of that round's RESULT; as sent, but where another worker has them */
	uint16_t sent;      /* of lanes that end in zeros (R-WK-16): a RESULT has these or more */
	uint16_t governing; /* exponent of the last accepted result; UNKNOWN before the first */
	uint16_t scale;     /* exponent that this chunk's DATA or GUESS round was scaled with */
	uint8_t state;      /* enum worker_slot_state */
	uint8_t flags;      /* bits 0-3, as sent */
	uint8_t is_probed;  /* a PROBE went out since the last copy of the UPDATE */
	uint8_t is_resent;  /* more than one copy went out */
	uint8_t is_bare;    /* the RESULT may have no lanes */
	uint8_t is_kept;    /* this worker's lanes are in its slot's buffer alone */
};

struct worker_shard {
	uint32_t generation;
	uint16_t job;
	uint16_t child;
	uint64_t next[MAP_STREAMS]; /* k of each pair's next first round */
};

struct worker_stream {
	struct worker_op_state *ops; /* ring of ops_max */
	uint64_t head, tail;         /* oldest operation kept, next to be submitted */
	uint64_t chunks; /* chunks submitted ever: the counter of the next operation's first */
	struct past_rows rows;
};

struct worker {
	struct map map;
	uint32_t lanes;              /* START's */
	uint32_t slots;              /* per shard, as given to map_init */
	uint32_t ops_max;            /* per stream, a power of two */
	struct worker_shard *shards; /* map.shards of them */
	struct worker_slot *slot;    /* shard * slots + slot */
	struct worker_stream stream[MAP_STREAMS];
	struct past
		past; /* in the order of the calls, which is not that of submits in both streams */
};

enum worker_event_type {
	WORKER_SUBMIT, /* the caller has checked worker_has_room, and called worker_place */
	WORKER_START, /* first round of a pair's next chunk; the caller has checked worker_may_start */
	WORKER_PACKET, /* a RESULT, HELD or NEED has come from a shard; lanes stay with the caller */
	WORKER_PROBE,  /* the caller sends a PROBE for an outstanding slot */
};

struct worker_event {
	enum worker_event_type type;
	uint32_t shard;             /* START, PACKET, PROBE */
	uint32_t slot;              /* PROBE */
	uint32_t attempt;           /* PROBE: its number, never 0 */
	enum map_stream stream;     /* START */
	const struct worker_op *op; /* SUBMIT */
	const struct wire *packet;  /* PACKET: has passed wire_check */
};

/* One chunk of one operation: elements [first, first + elements). */
struct worker_chunk {
	uint64_t cookie;
	uint64_t first;
	uint32_t elements;
};

enum worker_ahead {
	WORKER_AHEAD_UNKNOWN, /* not submitted: the exponent field is WIRE_EXPONENT_UNKNOWN */
	WORKER_AHEAD_ZERO,    /* unscaled: the exponent field is 0 */
	WORKER_AHEAD_SCAN,    /* the exponent field is the largest of `ahead` */
};

/*
 * What the caller does, in this order:
 *   build   compose the slot's next packet in the slot's own buffer: `header`, its exponent field as
 *           `look` says, its lanes from `chunk` by header's round (EXPONENT: none), its sticky flags from
 *           those lanes; then send it. `lanes` lanes, zeros beyond those of chunk.elements, and for
 *           elements that this worker does not have (R-WK-13). Once sent, these bytes never change, but for
 *           WIRE_RESENT. header.lanes is `lanes`, or 0: then the lanes stay in the buffer (R-WK-15). What
 *           worker_trim says goes out.
 *           Of a GUESS round the field says the exponent of `chunk` as well (wire_guess_field).
 *   store   the RESULT's lanes, and zeros up to `stored_lanes` (R-WK-16), belong to `stored`: `stored_round` DATA or
 *           GUESS writes the destination (scaled by `stored_scale`; raw, neither divided nor saturated, if
 *           `is_amended_later`), DETAIL amends it. build comes first: the source may be the destination. If
 *           `is_bare` the RESULT has no lanes: those of a TAKE round are in the slot's buffer; else nobody wants
 *           them. If `is_joined` the slot's buffer has lanes, from before build, that are to be combined with them
 *           by `joined_by`.
 *   resend  the slot's bytes again, with WIRE_RESENT set.
 *   probe   send `header`.
 */
struct worker_actions {
	bool build, store, resend, probe;
	bool is_accepted;       /* a RESULT was accepted: the slot's timers end */
	bool is_held;           /* a HELD fits */
	bool is_asked;          /* a NEED fits (whether or not a copy goes out) */
	bool is_op_done;        /* the operation `stored.cookie` is complete */
	bool is_protocol_error; /* a RESULT of another round: nothing was stored; the job is broken */
	bool is_amended_later, is_bare, is_joined;
	bool is_again; /* a GUESS does not fit: `build` is the DATA round instead of it */
	uint32_t slot; /* of build, resend, probe, accepted, held, asked */
	struct wire header;
	uint16_t lanes; /* build */
	enum wire_op joined_by;
	struct worker_chunk chunk, ahead;
	enum worker_ahead look;
	struct worker_chunk stored;
	enum wire_round stored_round;
	uint16_t stored_lanes;
	uint16_t
		build_scale; /* build, DATA or GUESS of a scaled chunk: the exponent to scale with */
	uint16_t stored_scale;
};

/* Memory that worker_init wants: `shards` worker_shards, `slots_all` = shards * slots worker_slots, and
 * ops_max worker_op_states for each stream; what of `past` its caller chooses (ops, reach, rows), and worker_rows of each
 * stream's rows. It keeps the pointers. Grants are filled in by the caller afterwards: worker->shards[i].{generation, job,
 * child}. */
struct worker_memory {
	struct worker_shard *shards;
	struct worker_slot *slot;
	struct worker_op_state *ops[MAP_STREAMS];
	struct past past;
	struct past_rows rows[MAP_STREAMS];
};

/* worker_init starts a life: no result yet, all seqs, counters and operations 0 (R-WK-12). lanes 4..
 * WIRE_LANES_MAX, a multiple of 4; ops_max a power of two. */
void worker_init(struct worker *worker, const struct map *map, uint32_t slots, uint32_t lanes,
		 uint32_t ops_max, const struct worker_memory *memory);

/* The bytes of a stream's rows, for operations on their way of `open` of the longest. */
uint64_t worker_rows(const struct map *map, enum map_stream stream, uint32_t rows, uint32_t open);

/* R-WK-17: an operation is called. In the order of the calls; it may be submitted behind later ones of the other stream. */
void worker_place(struct worker *worker, struct worker_op *op);

/* Can an operation be submitted to the stream? False while ops_max are kept, or there is no room for exponents. */
bool worker_has_room(const struct worker *worker, enum map_stream stream);

/* Is the pair's next chunk submitted and its slot free, and what it is guessed from (R-WK-18) known? *slot is then its slot. Strict order: no other
 * chunk of the pair may start before it (R-WK-7). */
bool worker_may_start(const struct worker *worker, uint32_t shard, enum map_stream stream,
		      uint32_t *slot);

/* The stream that an operation of `count` elements takes when the caller says nothing (R-MAP-2). */
enum map_stream worker_stream_of(const struct worker *worker, struct map_shape shape,
				 uint64_t count);

void worker_step(struct worker *worker, const struct worker_event *event,
		 struct worker_actions *actions);

/* R-WK-16: how many of the lanes that `actions` had built go out. Once for each packet that is built. */
uint16_t worker_trim(struct worker *worker, uint32_t shard, const struct worker_actions *actions,
		     const int32_t *lane);

#endif
