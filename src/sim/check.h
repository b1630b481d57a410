/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - the invariants of docs/protocol.md, asserted on what each step touched. It watches the
 * network from outside, keeps a ledger of what the workers have sent in the rounds that can still
 * matter, and looks at workers and switches after each of their polls. It shares no code with what it
 * checks but the packet format.
 *
 *   M1 every RESULT that leaves a switch is the exact combination over all workers
 *   M2 every partial that a tree node sends up is its subtree's
 *   M3 an UPDATE never changes (but for RESENT); seq goes out only after seq - 1 was accepted
 *   S1 final implies a full bitmap        S3 the bitmap names only children that have sent the round
 *   S4, S5, S2: by M1, as far as they show in a packet
 *   I2 a phase opens only when the last one is complete and final here
 *   I3 when P + 1 opens, every worker has accepted P - 1
 *   L1 a worker's round is P - 1, P or P + 1    L2 it is P + 1 only if P is final
 *   L3 a worker at P - 1 is not in bitmap(P)    L4 a node and its parent are at most one phase apart
 *   W1 each round is accepted once, in order, and as soon as its RESULT is there
 *   G1 nothing crosses generations
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "dataplane/endpoint.h"
#include "dataplane/engine_soft.h"
#include "sim/wiring.h"

enum {
	CHECK_NO_SLOT = UINT32_MAX,
	SIM_JOB = 3, /* job k's index at engine e is SIM_JOB + 4 * k + e % 4 */
	SIM_JOB_STEP = 4,
};

struct check;

struct check_failure {
	bool is_set;
	uint32_t shard, slot; /* what it is about; CHECK_NO_SLOT */
	char text[240];
};

struct check *check_open(const struct scenario *scenario, const struct wiring *wiring);
void check_close(struct check *check);

/* A life of the job begins: all engines have this generation, workers start with no result and every slot
 * as after round `first`. */
void check_life(struct check *check, uint32_t generation, uint32_t first);
/* Engine number `engine` goes over to the generation. */
void check_generation(struct check *check, uint32_t engine, uint32_t generation);

/* A packet was sent or taken; `packet` is its header. */
void check_sight(struct check *check, const struct net_sight *sight, const struct wire *packet);
/* In latency mode (R-LAT) slots have one copy, so I3 is stricter: when a round opens, every worker has accepted the
 * last one. A worker sends ACK for the round whose RESULT it has, a switch CONFIRM when all have it. */
/* The worker, or the engine, has been polled. */
void check_worker(struct check *check, uint32_t number, const struct worker *worker);
void check_worker_latency(struct check *check, uint32_t number,
			  const struct worker_latency *worker);
void check_engine(struct check *check, uint32_t number, const struct engine_soft *engine);

/* The first failure counts. */
__attribute__((format(printf, 4, 5))) void check_fail(struct check *check, uint32_t shard,
						      uint32_t slot, const char *format, ...);
const struct check_failure *check_failure(const struct check *check);

static inline uint16_t sim_job(const struct scenario *scenario, uint32_t engine)
{
	return (uint16_t)(SIM_JOB + SIM_JOB_STEP * scenario->job + engine % SIM_JOB_STEP);
}

#endif
