/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow.h - the rules once more, as docs/protocol.md says them, beside each step of the shipped code in the
 * search: data.h's and latency.h's switches and workers. Where the two differ is a violation, whether or
 * not anything comes of it later. What a step says is not only looked at for the packet that came, but for
 * what nearly is that packet too: another tag, kind, number of lanes, round, life, child.
 *
 * Only for the whole rules: with one of them taken out the search shows what comes of that.
 */
#ifndef SEARCH_SLOW_H
#define SEARCH_SLOW_H

#include "core/latency/worker_latency.h"
#include "search/data_world.h"

/* Are they the same on the wire? */
CORE_INLINE bool slow_is_same(const struct wire *a, const struct wire *b)
{
	uint8_t bytes[2][WIRE_HEADER_BYTES];

	wire_put(bytes[0], a);
	wire_put(bytes[1], b);
	return !memcmp(bytes[0], bytes[1], WIRE_HEADER_BYTES);
}

bool slow_is_asked(void);
void slow_leave_out(void); /* from now on it is not */
/* Each NULL, or what is wrong. `packet` came to the slot, as seen from there. The same is asked about jobs of
 * up to 256 children, of whom the model's are a few and all others are in. */
const char *slow_switch(const struct switch_job *job, const struct node_state *slot,
			const struct packet *packet);
const char *slow_latency(const struct switch_job *job, const struct switch_latency_slot *slot,
			 const int32_t *sum, const struct wire *packet, const int32_t *lane);

/* In latency mode a worker is asked about all that may happen next in a state that it got to, and about all
 * packets that nearly fit it: HELDs, which the search does not keep, are among them. */
struct latency_config;
const char *slow_worker_latency(const struct latency_config *config,
				const struct worker_latency *worker);

/* What a worker should do; `wire`: the packet of DO_PACKET, as seen from the slot. */
struct slow_event {
	uint32_t worker, cell, shard, slot;
	enum worker_move move;
	enum map_stream stream;
	const struct wire *wire;
	bool is_resent; /* more than one copy of the slot's UPDATE went out */
};
const char *slow_worker(const struct worker_state *state, const struct slow_event *event,
			const struct worker_actions *actions);

/* Makes of a packet another one: change number `i`. False: there are no more. */
bool slow_nearly(uint32_t i, const struct switch_job *job, struct wire *packet);

#endif
