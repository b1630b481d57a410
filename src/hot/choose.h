/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.h - how many of the hottest keys are worth a place in the aggregator (Libra, Principle 1): the smallest k
 * whose updates are at least the part p of all, if k keys fit the part c of its memory. Where they do not, the
 * most that fit. Or by the knee of the curve: keys are taken by the thousand until a thousand more add less
 * than a hundredth of all updates (Libra 5.3), and memory sets a limit to that, too.
 */
#ifndef HOT_CHOOSE_H
#define HOT_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hot/heat.h"

enum { CHOOSE_KNEE_KEYS = 1000 };
#define CHOOSE_KNEE_SHARE 0.01

struct choose_options {
	double p;          /* in 0 .. 1; not looked at with is_knee */
	uint64_t keys_max; /* that fit the memory, at least 1 */
	bool is_knee;
};

struct choice {
	uint64_t keys;   /* k; 0: no key was seen, or a knee before the first thousand */
	double share;    /* T_k / T_n */
	uint64_t wanted; /* by p or the knee alone; with p 0: all that were seen are not enough */
	bool fits;       /* `wanted` keys fit the memory */
	bool has_share;  /* share >= p; true with is_knee */
};

/* `heat` is sorted and weighed; `updates` are all, T_n. */
void choose(const struct heat *heat, size_t count, double updates,
	    const struct choose_options *options, struct choice *choice);

/* The keys that fit the part c of a memory. */
uint64_t choose_keys_max(uint64_t memory_bytes, double c, uint64_t key_bytes);

#endif
