/* SPDX-License-Identifier: Apache-2.0 */
/*
 * published.h - the rules as two papers print them, on the simulator's network and before its oracle: what
 * docs/why.md shows. They run instead of the shipped code where --rules says so, and then only in scenarios of
 * plain data. Nothing else knows of them.
 *
 * Numbers in the comments are the lines of the algorithms. What a paper leaves open is chosen so that it
 * helps: a worker never writes outside of its tensor, and a time-out is one millisecond, as SwitchML's is.
 */
#ifndef SIM_PUBLISHED_H
#define SIM_PUBLISHED_H

#include "sim/run_state.h"

enum { PUBLISHED_LANES = 8, PUBLISHED_SLOTS = 8, PUBLISHED_RTO_NS = 1000 * 1000 };

/* A packet of either paper. In the simulator's header `slot` is idx (P4SGD: seq), `child` the sender,
 * `seq` off in chunks, `flags` ver, `tag` the first element, for the eye alone. */
struct published_packet {
	uint8_t type; /* UPDATE up, RESULT down; P4SGD, is_agg = false: ACK up, CONFIRM down */
	uint8_t ver;
	uint16_t idx;
	uint16_t wid;
	uint32_t off;
	uint32_t lanes;
	int32_t vector[PUBLISHED_LANES];
};

enum published_answer { PUBLISHED_DROP, PUBLISHED_UNICAST, PUBLISHED_MULTICAST };

struct published_switch {
	uint32_t n;
	/* SwitchML, Algorithm 3 */
	int32_t pool[2][PUBLISHED_SLOTS][PUBLISHED_LANES];
	uint32_t count[2][PUBLISHED_SLOTS];
	bool seen[2][PUBLISHED_SLOTS][SIM_WORKERS_MAX];
	/* P4SGD, Algorithm 2 */
	int32_t agg[PUBLISHED_SLOTS][PUBLISHED_LANES];
	uint32_t agg_count[PUBLISHED_SLOTS], agg_bm[PUBLISHED_SLOTS];
	uint32_t ack_count[PUBLISHED_SLOTS], ack_bm[PUBLISHED_SLOTS];
};

struct published_worker {
	struct run *run;
	uint32_t w, slots;
	struct {
		uint64_t due_ns; /* NET_NEVER: no timer */
		struct published_packet packet;
	} timer[PUBLISHED_SLOTS];
	/* SwitchML, Algorithm 4: one tensor at a time */
	struct endpoint_op op;
	uint32_t index; /* of that operation */
	uint32_t chunks, filled;
	uint64_t is_filled; /* a bit per chunk */
	/* P4SGD, Algorithm 3 */
	bool unused[PUBLISHED_SLOTS];
	uint32_t seq;
	struct endpoint_op op_of[PUBLISHED_SLOTS];
	uint32_t index_of[PUBLISHED_SLOTS];
	uint32_t consumed[PUBLISHED_SLOTS]; /* results of that operation: 1 would be right */
};

/* published_packet.c */
void published_send_from(struct run *run, uint32_t from, uint32_t to,
			 const struct published_packet *packet);
/* The next packet that has arrived. */
bool published_next(struct run *run, uint32_t node, struct published_packet *packet);
/* To the switch. */
void published_send(struct published_worker *worker, const struct published_packet *packet);
void published_timer_start(struct published_worker *worker, const struct published_packet *packet);
void published_timer_cancel(struct published_worker *worker, uint32_t idx);

/* Changes *packet into the answer. */
enum published_answer switchml_switch(struct published_switch *state,
				      struct published_packet *packet);
void switchml_begin(struct published_worker *worker);
void switchml_receive(struct published_worker *worker, const struct published_packet *packet);

enum published_answer p4sgd_switch(struct published_switch *state, struct published_packet *packet);
/* False: the slot is in use. */
bool p4sgd_send(struct published_worker *worker, const struct endpoint_op *op, uint32_t index);
void p4sgd_receive(struct published_worker *worker, const struct published_packet *packet);

/* Is the scenario one to run by published rules? */
static inline bool published_is_run(const struct scenario *scenario)
{
	if (scenario->rules == SIM_P4SGD)
		return scenario->kind == SCENARIO_small;
	return scenario->rules == SIM_SWITCHML && scenario->is_plain;
}

/* Everything, until all is done or the oracle has seen a violation. */
void published_run(struct run *run);

#endif
