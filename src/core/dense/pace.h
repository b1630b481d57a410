/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.h - WHEN a worker sends: round-trip estimate, RTO, gap rule, window, ring of held slots. It knows
 * slots and times, nothing of what is in them. Time comes in as nanoseconds of any monotonic clock.
 * docs/protocol.md, R-PACE-1 to R-PACE-9 and R-PACE-11.
 *
 * A slot that waits is in one of three lists of its shard: one of the two pairs' *flight*, in order of the last attempt
 * (time-out and gap rule), or the *ring* of those that the switch holds (gap rule and one slow timer). What runs out
 * sends a PROBE, never data.
 */
#ifndef CORE_PACE_H
#define CORE_PACE_H

#include "core/dense/window.h"
#include "core/shared/map.h"
#include "core/shared/rto.h"

#define PACE_NEVER UINT64_MAX
#define PACE_END UINT32_MAX /* of a list */

enum {
	PACE_GAP = 3, /* results of so many later slots make an earlier one suspect */
	PACE_QUIET_PART =
		16,         /* in doubt, a time-out probes 1/16 of what is in flight of the pair, */
	PACE_QUIET_MIN = 8, /* or so many if that is more */
	PACE_RING_PART = 16,              /* a firing of the ring's timer probes 1/16 of it, */
	PACE_RING_PROBE_NS = 4000 * 1000, /* or one in so long, if that is more */
	PACE_RING_BURST =
		16, /* of a ring with more, a firing probes about so many when the interval has grown */
	PACE_COPIES =
		4, /* whoever is still asked for the same then is refused: only the slow timer */
	PACE_US = 1000,
	PACE_MS = 1000 * 1000,
	PACE_RING_MAX_NS = 250 * PACE_MS,
	PACE_HELLO_MIN_NS = 250 * PACE_MS, /* HELLO again at most so often */
	PACE_SPAN_NS = 1000 * PACE_MS,     /* a long wait is remembered so long, up to twice that */
};

enum pace_list { PACE_NONE, PACE_FLIGHT, PACE_RING };

struct pace_slot {
	uint64_t attempt_ns; /* the last UPDATE or PROBE of this round */
	uint64_t order;      /* of that attempt among the shard's attempts */
	uint32_t next, prev; /* in its list; PACE_END */
	uint32_t attempt;    /* the last PROBE's number; 0: none since the round began */
	uint8_t list;        /* enum pace_list */
	uint8_t copies;      /* UPDATEs of this round beyond the first */
	uint8_t in_window;
	uint8_t stream;
	uint8_t by_gap; /* the last PROBE was sent for a gap */
};

struct pace_list_ends {
	uint32_t head, tail, count;
};

/* What is in flight of a pair, in order of the last attempt. */
struct pace_flight {
	struct pace_list_ends ends;
	uint64_t quiet_ns;  /* the last time-out in doubt */
	uint32_t quiet_due; /* its probes that are still to be sent */
};

struct pace_shard {
	uint64_t srtt_ns, rttvar_ns; /* 0: no sample yet */
	uint64_t order;              /* attempts so far */
	uint64_t late[PACE_GAP]; /* largest orders of never-resent slots with results, descending */
	uint64_t heard_ns;       /* anything came from the shard; or the first unanswered attempt */
	uint64_t result_ns;      /* the last RESULT that was accepted */
	uint64_t need_ns;        /* the last NEED: something was lost */
	/* The longest that a RESULT of the bulk pair took, in this span and the last one; R-PACE-11. */
	uint64_t longest_ns, span_longest_ns, span_ns;
	uint64_t hello_ns;               /* the last HELLO that was asked for */
	uint64_t backoff_ns;             /* the last doubling: at most one in an RTO */
	uint32_t backoff;                /* doublings since a sample, or a RESULT in time */
	uint32_t ring_due;               /* probes of the ring's last firing still to be sent */
	uint32_t attempts;               /* PROBEs so far: their numbers */
	uint32_t in_flight[MAP_STREAMS]; /* of each pair, inside its window */
	uint32_t window[MAP_STREAMS];    /* 1.., changed at any time by pace_window */
	struct window follow;            /* that of the bulk pair, while it follows the queue */
	struct pace_flight flight[MAP_STREAMS];
	struct pace_list_ends ring;
};

struct pace {
	struct map map;
	uint32_t slots;
	struct pace_shard *shards;
	struct pace_slot *slot; /* shard * slots + slot */
	uint64_t ring_ns;       /* when the ring's timer fires; PACE_NEVER: empty */
	uint64_t ring_interval_ns;
	bool is_whole; /* a silent shard's time-out is for all slots, and results change none: latency mode */
	uint32_t turn; /* the shard whose probes go first: another one after each firing */
	struct pace_stats {
		uint64_t probes_rto, probes_gap, probes_ring, samples;
	} stats;
};

struct pace_probe {
	uint32_t shard, slot, attempt;
};

/* Memory is lent: map->shards pace_shards, shards * slots pace_slots. window: of the bulk pairs; express
 * pairs get at most their pool. */
void pace_init(struct pace *pace, const struct map *map, uint32_t slots, uint32_t window,
	       struct pace_shard *shards, struct pace_slot *slot);
/* It stays so. */
void pace_window(struct pace *pace, uint32_t shard, enum map_stream stream, uint32_t window);
/* From now on the bulk pairs' windows follow the queues (R-WIN); none becomes larger than it is now. */
void pace_follow(struct pace *pace);
/* May the pair start another chunk? (R-PACE-5) */
bool pace_has_room(const struct pace *pace, uint32_t shard, enum map_stream stream);

/* An UPDATE of the slot is handed to the link: the first copy of a round, or a further one. */
void pace_sent(struct pace *pace, uint32_t shard, uint32_t slot, uint64_t now_ns, bool is_copy);
/* A round-trip sample from elsewhere (WELCOME). */
void pace_sample(struct pace *pace, uint32_t shard, uint64_t rtt_ns);
/* Something has come from the shard. */
void pace_heard(struct pace *pace, uint32_t shard, uint64_t now_ns);
/* The slot's RESULT was accepted; is_last: this worker was the last contributor (RESULT.child). */
void pace_result(struct pace *pace, uint32_t shard, uint32_t slot, uint64_t now_ns, bool is_last);
/* HELD and NEED that fit, with the attempt number they echo (0: none, or a HINT). */
void pace_held(struct pace *pace, uint32_t shard, uint32_t slot, uint64_t now_ns, uint32_t attempt);
void pace_need(struct pace *pace, uint32_t shard, uint32_t slot, uint64_t now_ns, uint32_t attempt);

/* The PROBEs that are due, at most max, each recorded as sent: a message's worth (R-PACE-3). Call again while it
 * returns max, for there are other shards; what else of this one had run out then has the doubled RTO. */
uint32_t pace_poll(struct pace *pace, uint64_t now_ns, struct pace_probe *probes, uint32_t max);
/* Does anything of the shard wait for an answer? */
bool pace_is_idle(const struct pace_shard *shard);
/* Is a shard silent so long that its HELLO should be said again? Recorded as said. */
bool pace_hello_due(struct pace *pace, uint32_t shard, uint64_t now_ns);
/* When pace_poll has something to do again if nothing comes; PACE_NEVER. */
uint64_t pace_next(const struct pace *pace, uint64_t now_ns);
/* The shard's time-out, backed off. */
uint64_t pace_rto(const struct pace *pace, uint32_t shard);

#endif
