/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_latency.h - a worker's state machine in latency mode: WHAT may be sent, never when.
 * worker_latency_step(event) fills in actions; no I/O, no clock, no allocation. docs/protocol.md,
 * R-LAT-11 to R-LAT-17; pace_latency.h has the WHEN.
 *
 * Every operation is one packet. Operation k = 0, 1, 2, ... (the order of SUBMIT, equal on all ranks)
 * uses slot k mod S in round k div S + 1. A result is stored when it comes; operations complete
 * strictly in their order.
 *
 *   IDLE --START--> RESULT_DUE --RESULT--> IDLE                      self-acknowledging
 *                   RESULT_DUE --RESULT--> CONFIRM_DUE --CONFIRM--> IDLE    acknowledged
 */
#ifndef CORE_WORKER_LATENCY_H
#define CORE_WORKER_LATENCY_H

#include "core/latency/switch_latency.h"

/* An operation as the caller submits it. */
struct worker_latency_op {
	uint64_t hash;   /* map_descriptor_hash */
	uint64_t cookie; /* the caller's, handed back */
	uint32_t count;  /* elements, at most worker->lanes; 0: a barrier */
};

/* An operation on its way; memory lent by the caller, kept by the worker. */
struct worker_latency_op_state {
	struct worker_latency_op op;
	uint8_t is_stored; /* its RESULT was accepted */
	uint8_t is_range;  /* the RESULT has RANGE: a failure that is the same on all ranks */
};

enum worker_latency_state {
	WORKER_LATENCY_IDLE,
	WORKER_LATENCY_RESULT_DUE,  /* UPDATE was sent */
	WORKER_LATENCY_CONFIRM_DUE, /* ACK was sent */
};

struct worker_latency_slot {
	uint64_t k;   /* the operation that used it last */
	uint32_t seq; /* its round; 0: none yet */
	uint32_t tag;
	uint16_t lanes; /* as sent */
	uint8_t state;  /* enum worker_latency_state */
};

struct worker_latency {
	/* The grant's, filled in by the caller after worker_latency_init. */
	uint32_t generation;
	uint16_t job;
	uint16_t child;
	/* Read by anyone. */
	uint32_t slots;        /* S */
	uint32_t window;       /* P */
	uint32_t lanes;        /* START's */
	uint32_t ops_max;      /* a power of two */
	enum switch_mode mode; /* switch_latency_mode(S, P) */
	uint64_t head;         /* operations below are complete */
	uint64_t next;         /* the next to be sent; head <= next <= tail */
	uint64_t tail;         /* the next to be submitted; head + ops_max at most */
	struct worker_latency_slot *slot;
	struct worker_latency_op_state *ops;
};

enum worker_latency_event_type {
	WORKER_LATENCY_SUBMIT, /* the caller has checked worker_latency_has_room */
	WORKER_LATENCY_START, /* the next operation's UPDATE; worker_latency_may_start was checked */
	WORKER_LATENCY_PACKET, /* RESULT, CONFIRM or HELD from the switch; others change nothing */
	WORKER_LATENCY_RESEND, /* a timer ran out for a slot that is not idle */
};

struct worker_latency_event {
	enum worker_latency_event_type type;
	uint32_t slot;                      /* RESEND */
	const struct worker_latency_op *op; /* SUBMIT: copied */
	const struct wire *packet;          /* PACKET: has passed wire_check */
};

/*
 * What the caller does, in this order:
 *   store   the RESULT's lanes are those of operation `op`: its op->count elements are the sum over all
 *           workers. If is_range they mean nothing. Store at once: the slot may be used again.
 *   ack     send `header`, an ACK: 24 bytes. RESENT is set in copies.
 *   build   compose the slot's packet in the slot's own buffer: `header`, header.lanes lanes from the
 *           op->count elements of operation `op`, zeros beyond; set WIRE_RANGE if an element's magnitude
 *           exceeds floor((2^31 - 1) / workers). Then send it. Once sent, these bytes never change, but
 *           for WIRE_RESENT, and are kept until the slot's next build.
 *   resend  the slot's bytes again, with WIRE_RESENT set.
 *   done    so many operations are complete: numbers done_first and on, in order. Their states are read
 *           with worker_latency_op before the next SUBMIT.
 * After build and ack the slot's timer starts anew (pace_latency_sent); is_answered ends it first; is_held
 * slows it. is_protocol_error: a RESULT of another operation; nothing was stored, the job is broken.
 */
struct worker_latency_actions {
	bool store, ack, build, resend;
	bool is_answered; /* a RESULT or CONFIRM was accepted; packet->child is whose came last */
	bool is_held;
	bool is_protocol_error;
	bool is_range;
	uint32_t slot; /* of all but done */
	uint64_t op;   /* store, build */
	struct wire header;
	uint64_t done_first;
	uint32_t done;
};

/* worker_latency_init starts a life: all slots idle, operation 0 is next (R-LAT-17). Memory is lent: `slots`
 * worker_latency_slots, ops_max worker_latency_op_states. 1 <= window <= slots <=
 * SWITCH_LATENCY_SLOTS_MAX; lanes 4..WIRE_LANES_MAX, a multiple of 4; ops_max a power of two, at
 * least window. */
void worker_latency_init(struct worker_latency *worker, uint32_t slots, uint32_t window,
			 uint32_t lanes, uint32_t ops_max, struct worker_latency_slot *slot,
			 struct worker_latency_op_state *ops);

/* Can an operation be submitted? False while ops_max are kept. */
bool worker_latency_has_room(const struct worker_latency *worker);

/* May the next submitted operation be sent? *slot is then its slot (R-LAT-12). */
bool worker_latency_may_start(const struct worker_latency *worker, uint32_t *slot);

/* Operation k, from its SUBMIT to the first SUBMIT after its completion. */
const struct worker_latency_op_state *worker_latency_op(const struct worker_latency *worker,
							uint64_t k);

void worker_latency_step(struct worker_latency *worker, const struct worker_latency_event *event,
			 struct worker_latency_actions *actions);

#endif
