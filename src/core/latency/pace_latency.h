/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace_latency.h - WHEN a worker in latency mode sends again: pace.h's round-trip estimate, RTO, gap rule
 * and ring of held slots, on one shard, with the one difference that what runs out is sent itself, as
 * there is no PROBE; so there is a limit to how much may go out at once. docs/protocol.md, R-LAT-18.
 */
#ifndef CORE_PACE_LATENCY_H
#define CORE_PACE_LATENCY_H

#include "core/dense/pace.h"

enum {
	PACE_LATENCY_BURST = 64, /* copies in an eighth of an RTO */
	PACE_LATENCY_PARTS = 8,
};

struct pace_latency {
	struct pace
		pace; /* of shard 0, for samples and HELLO too; stats.probes_* count copies by what they were sent for */
	struct pace_shard shard;
	uint64_t burst_ns; /* when the present part of an RTO began */
	uint32_t burst;    /* copies in it */
};

/* `slot` is lent: `slots` pace_slots. The struct must not be moved. */
void pace_latency_init(struct pace_latency *pace, uint32_t slots, struct pace_slot *slot);

/* An UPDATE or ACK is handed to the link for the first time. */
void pace_latency_sent(struct pace_latency *pace, uint32_t slot, uint64_t now_ns);
/* A RESULT or CONFIRM was accepted; is_last: this worker's UPDATE or ACK was the last (packet->child). */
void pace_latency_answered(struct pace_latency *pace, uint32_t slot, uint64_t now_ns, bool is_last);
void pace_latency_held(struct pace_latency *pace, uint32_t slot, uint64_t now_ns);
/* The slots whose UPDATE or ACK is to be sent again now, at most max, each recorded as sent. Call again
 * while it returns max. */
uint32_t pace_latency_poll(struct pace_latency *pace, uint64_t now_ns, uint32_t *slots,
			   uint32_t max);
/* When pace_latency_poll has something to do again if nothing comes; PACE_NEVER. */
uint64_t pace_latency_next(const struct pace_latency *pace, uint64_t now_ns);
#endif
