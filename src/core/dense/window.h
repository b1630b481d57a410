/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h - HOW MANY packets a bulk pair may have in flight: a window that follows the queue on this worker's own
 * path. docs/protocol.md, R-WIN-1 to R-WIN-6; why: docs/decisions/0021-a-window-that-lives.md.
 *
 * Most of a RESULT's time is waiting for others, which says nothing of a queue. So only rounds that this worker
 * completed itself (RESULT.child) are measured, and of them the quickest of each trip. Pure: time comes in as
 * nanoseconds of any monotonic clock.
 */
#ifndef CORE_WINDOW_H
#define CORE_WINDOW_H

#include "core/shared/env.h"

enum {
	WINDOW_LEAST = 2, /* packets */
	/* A queue that costs nobody much, and that keeps the link busy while this host does something else. */
	WINDOW_TARGET_NS = 2 * 1000 * 1000,
	WINDOW_YIELDS = 3, /* so many in a row have had no effect: others fill the queue */
	WINDOW_MENDS = 3,  /* trips behind a loss in which more of the same are told of */
	WINDOW_UNIT = 256, /* of the size: a packet */
	WINDOW_GROWTH =
		135, /* in a trip: 0.53 packets, as TCP grows that keeps 0.7 (RFC 9438, 4.3) */
};
#define WINDOW_SPAN_NS 10000000000ull /* what has been seen is believed so long */
#define WINDOW_PAIR_NS \
	1000000000ull /* more than this, and a trip, between the ends of two: they tell of two things */

struct window {
	uint32_t most;       /* packets; 0: the window is fixed */
	uint32_t size;       /* 1/256 packets */
	uint32_t before;     /* that it had before it yielded in vain */
	uint32_t vain;       /* so many times in a row */
	uint64_t hoped_ns;   /* the queue that the last yield should have left; 0: there was none */
	bool is_pressed;     /* yielding does not help: only losses make it smaller */
	uint64_t pressed_ns; /* since then */
	/* The trip: it ends with the first answer to what was sent after it had begun. */
	uint64_t trip_order;
	uint64_t quickest_ns, slowest_ns; /* 0: no sample */
	bool is_lossy, is_full;
	/* What is known of the path; 0: nothing yet. */
	uint64_t base_ns, queue_ns, queue_at_ns;
	uint32_t mends;   /* trips to go, of WINDOW_MENDS */
	uint64_t span_ns; /* since when the next one is: */
	uint64_t span_least_ns;
	struct window_stats {
		uint64_t yields, losses,
			presses; /* it became smaller for a queue, for a loss; began to press */
	} stats;
};

/* `most`: what receive buffers and slots let. It begins there (R-PACE-9). */
void window_init(struct window *window, uint32_t most);
/* A round that was sent once took so long, and this worker was its last contributor. */
void window_sample(struct window *window, uint64_t took_ns);
/* A packet of ours, or an answer to us, was lost. */
void window_lost(struct window *window);
/* A RESULT of what was sent once, as the `order`th attempt, or more than once (0); of `newest` so far. is_full: as much
 * was in flight as may be. */
void window_answer(struct window *window, uint64_t now_ns, uint64_t order, uint64_t newest,
		   bool is_full);
uint32_t window_packets(const struct window *window);

#endif
