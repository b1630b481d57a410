/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_pace.h - what must hold of a worker's clock-work (R-PACE) after a poll: a slot has a timer, or counts
 * as in flight, only if its round is on its way, the lists and counts are those of the slots, no first round
 * goes out beyond the window, and a time-out is within its bounds.
 */
#ifndef SIM_CHECK_PACE_H
#define SIM_CHECK_PACE_H

#include "core/dense/pace.h"
#include "core/dense/worker.h"
#include "sim/scenario.h"

enum {
	CHECK_PACE_EACH = 64
}; /* of so many calls one looks at all slots: it takes as long as they do */

/* Of a worker's life: all zeros at first. */
struct check_pace {
	uint32_t calls;
	uint32_t window[SIM_SHARDS_MAX][MAP_STREAMS]; /* as last seen */
	uint64_t order[SIM_SHARDS_MAX][MAP_STREAMS];  /* attempts until it was seen to change */
};

/* After each poll. NULL, or what is wrong, in shard *shard: *slot is where, or the last one. */
const char *check_pace(struct check_pace *check, const struct worker *worker,
		       const struct pace *pace, uint32_t *shard, uint32_t *slot);

#endif
