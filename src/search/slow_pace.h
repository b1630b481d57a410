/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_pace.h - R-PACE-1 to R-PACE-8 once more, and R-LAT-18: with sets and ranks where core/dense/pace.c has lists
 * and counters. It shares with pace.h the names of constants. Where a firing may come earlier at random it
 * follows whoever it is compared with.
 */
#ifndef SEARCH_SLOW_PACE_H
#define SEARCH_SLOW_PACE_H

#include "core/latency/pace_latency.h"

enum {
	SLOW_PACE_SHARDS = 2,
	SLOW_PACE_SLOTS = 208, /* of a shard */
	SLOW_PACE_ORDERS = 2048,
};

struct slow_pace_slot {
	uint64_t attempt_ns;
	uint32_t order;  /* of its last attempt among the shard's */
	uint32_t number; /* of its last PROBE, 0: none in this round */
	uint32_t copies;
	uint32_t rank; /* since when it is where it is: the smallest is first */
	uint8_t is_waiting, is_held, is_in_window, is_bulk;
};

struct slow_pace_shard {
	uint64_t srtt_ns, rttvar_ns, heard_ns, hello_ns, doubled_ns, quiet_ns;
	uint32_t orders, numbers, doublings;
	uint32_t quiet_left,
		ring_left; /* PROBEs of a time-out, of a firing, that are still to go */
	uint32_t window[MAP_STREAMS];
	uint8_t plain[SLOW_PACE_ORDERS /
		      8]; /* orders of what went out once and was answered, a bit each */
};

struct slow_pace {
	uint32_t shards, slots, ranks, firings, samples;
	uint8_t is_ringing, is_latency, reserved[2];
	uint64_t ring_ns, interval_ns;
	uint64_t burst_ns; /* latency mode: since when so many copies have gone */
	uint32_t burst, reserved2;
	struct slow_pace_shard shard[SLOW_PACE_SHARDS];
	struct slow_pace_slot slot[SLOW_PACE_SHARDS][SLOW_PACE_SLOTS];
};

void slow_pace_sample(struct slow_pace *pace, uint32_t shard, uint64_t rtt_ns);
uint64_t slow_pace_rto(const struct slow_pace *pace, uint32_t shard);
bool slow_pace_has_room(const struct slow_pace *pace, uint32_t shard, enum map_stream stream);
void slow_pace_sent(struct slow_pace *pace, uint32_t shard, uint32_t slot, uint64_t now_ns,
		    bool is_copy);
void slow_pace_result(struct slow_pace *pace, uint32_t shard, uint32_t slot, uint64_t now_ns,
		      bool is_last);
/* HELD and NEED. */
void slow_pace_asked(struct slow_pace *pace, uint32_t shard, uint32_t slot, uint64_t now_ns,
		     uint32_t echo, bool is_held);
/* *ring_ns: the other's next firing, if it has one. NULL, or what is wrong with it. */
const char *slow_pace_poll(struct slow_pace *pace, uint64_t now_ns, uint64_t ring_ns,
			   struct pace_probe *probes, uint32_t *count, uint32_t max);
bool slow_pace_hello_due(struct slow_pace *pace, uint32_t shard, uint64_t now_ns);
uint64_t slow_pace_next(const struct slow_pace *pace, uint64_t now_ns);
#endif
