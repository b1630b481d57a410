/* SPDX-License-Identifier: Apache-2.0 */
/*
 * polling.h - how long a thread that waits for packets gives way to others before it sleeps: a sleep and its end cost
 * some microseconds, and a thread that shares its processor can use them. What has paid off lately will again. Pure:
 * whoever waits brings the clock.
 *
 *     polling_begin(&polling);
 *     until something is there: polling_again(&polling, now) ? sched_yield() : sleep
 */
#ifndef DATAPLANE_POLLING_H
#define DATAPLANE_POLLING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How long one whose yields keep nobody from working goes on with them.
 *   LONG     for a millisecond: what comes is little, and each moment until it is seen counts
 *   SHORT    not at all, unless the last waits were short: what comes is much, others have the processor until then,
 *            but on a fast path the end of a sleep would come too late each time. If the last waits were long, it
 *            sleeps without a yield
 *   NEVER    not at all
 */
enum polling_rule { POLLING_LONG, POLLING_SHORT, POLLING_NEVER };

struct polling {
	enum polling_rule rule;
	uint32_t most, count;    /* yields of a wait: at most, and of the next one */
	uint32_t left;           /* of this one */
	uint32_t shy, shy_next;  /* waits to come without any */
	uint32_t shorts, longs;  /* the last waits that were, at most as many as matter */
	uint64_t begun_ns;       /* this wait */
	uint64_t last_ns;        /* the last yield began; 0: none of this wait */
	uint64_t quick_until_ns; /* quick ones do not count until then */
};

void polling_init(struct polling *polling, uint32_t most,
		  enum polling_rule rule); /* 0: never yields */
void polling_begin(struct polling *polling);
/* Nothing has come: true to yield once more, false to sleep. */
bool polling_again(struct polling *polling, uint64_t now_ns);
/* Something has come before a sleep; */
void polling_paid(struct polling *polling, uint64_t now_ns);
/* or after a sleep of so long, or nothing has. */
void polling_slept(struct polling *polling, uint64_t slept_ns, bool has_come);

#endif
