/* SPDX-License-Identifier: Apache-2.0 */
/* pace_latency.c - see pace_latency.h. Rule R-LAT-18 of docs/protocol.md. */
#include "core/latency/pace_latency.h"

void pace_latency_init(struct pace_latency *pace, uint32_t slots, struct pace_slot *slot)
{
	/* One pair has all the slots; its window is no limit here, P is (R-LAT-12). */
	struct map map = { .shards = 1,
			   .base = { [MAP_BULK] = slots },
			   .pool = { slots, slots },
			   .run = { 1, 1 } };

	*pace = (struct pace_latency){ 0 };
	pace_init(&pace->pace, &map, slots, slots, &pace->shard, slot);
	pace->pace.is_whole = true;
}

void pace_latency_sent(struct pace_latency *pace, uint32_t slot, uint64_t now_ns)
{
	pace_sent(&pace->pace, 0, slot, now_ns, false);
}

void pace_latency_answered(struct pace_latency *pace, uint32_t slot, uint64_t now_ns, bool is_last)
{
	pace_result(&pace->pace, 0, slot, now_ns, is_last);
}

/* A HELD is the answer to a first copy only if the network doubles it, or a resend overtakes it. After just one
 * more it is taken for that one's: a sample. */
void pace_latency_held(struct pace_latency *pace, uint32_t slot, uint64_t now_ns)
{
	const struct pace_slot *at = &pace->pace.slot[slot];

	pace_held(&pace->pace, 0, slot, now_ns, at->copies == 1 ? at->attempt : 0);
}

static uint64_t part_ns(const struct pace_latency *pace)
{
	return pace_rto(&pace->pace, 0) / PACE_LATENCY_PARTS;
}

uint32_t pace_latency_poll(struct pace_latency *pace, uint64_t now_ns, uint32_t *slots,
			   uint32_t max)
{
	struct pace_probe due[PACE_LATENCY_BURST];
	uint32_t count;

	if (now_ns - pace->burst_ns >= part_ns(pace)) {
		pace->burst_ns = now_ns;
		pace->burst = 0;
	}
	if (max > PACE_LATENCY_BURST - pace->burst)
		max = PACE_LATENCY_BURST - pace->burst;
	count = pace_poll(&pace->pace, now_ns, due, max);
	pace->burst += count;
	for (uint32_t i = 0; i < count; i++) {
		struct pace_slot *slot = &pace->pace.slot[due[i].slot];

		if (slot->copies < UINT8_MAX)
			slot->copies++;
		slots[i] = due[i].slot;
	}
	return count;
}

uint64_t pace_latency_next(const struct pace_latency *pace, uint64_t now_ns)
{
	uint64_t next = pace_next(&pace->pace, now_ns);
	uint64_t part_end = pace->burst_ns + part_ns(pace);

	if (pace->burst < PACE_LATENCY_BURST || next == PACE_NEVER)
		return next;
	return part_end > now_ns ? part_end : now_ns; /* more may have been due */
}
