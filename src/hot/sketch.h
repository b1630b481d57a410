/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sketch.h - the most frequent keys of a stream, in memory that is given at the start: space-saving (Metwally,
 * Agrawal, El Abbadi 2005). As long as there are no more keys than counters, counts are exact. Then a new key
 * takes the place of one with the least count, and inherits that count as its error.
 *
 * With m counters and N updates: every count is at least the truth, and exceeds it by at most its error, which
 * is at most N / m; a key with more than N / m updates has a counter. An update takes constant time on average:
 * a hand goes round over the counters and looks for one with the least count; after a round there is none left,
 * and the least count is one more, which happens N / m times at most.
 */
#ifndef HOT_SKETCH_H
#define HOT_SKETCH_H

#include <stddef.h>
#include <stdint.h>

enum {
	SKETCH_COUNTERS_MIN = 16,
	SKETCH_COUNTERS_MAX = 1 << 28, /* 8 GiB */
};

struct sketch;

struct sketch_counter {
	uint64_t key;
	uint64_t count;
	uint64_t error; /* count - error .. count has the truth */
};

/* -1: no memory. The sketch is the caller's until sketch_close. */
int sketch_open(struct sketch **sketch, uint32_t counters);
void sketch_close(struct sketch *sketch); /* NULL is fine */

void sketch_add(struct sketch *sketch, uint64_t key);

/* Forgets half: all counts are halved, and rounded down; who has none then is gone. Counts are not exact any more, and no
 * lower than half of what they would be by more than one for each time. */
void sketch_halve(struct sketch *sketch);

/* Counters in use, in no order; they are lent until the next call. */
const struct sketch_counter *sketch_counters(const struct sketch *sketch, uint32_t *count);
/* Of all updates. */
uint64_t sketch_updates(const struct sketch *sketch);
/* What the largest error can be: 0 as long as all counts are exact. */
uint64_t sketch_error(const struct sketch *sketch);

/* What a sketch of so many counters takes. */
size_t sketch_bytes(uint32_t counters);

#endif
