/* SPDX-License-Identifier: Apache-2.0 */
/* heat.h - keys by how often they are updated. */
#ifndef HOT_HEAT_H
#define HOT_HEAT_H

#include <stddef.h>
#include <stdint.h>

struct heat {
	uint64_t key, count;
	double weight; /* what the count is worth: updates of as many as were counted */
};

/* The hottest first. Keys of one count come in an order that has nothing to do with theirs, another one for each
 * `salt`: two lists with the same order among the coldest would agree on more than they know. */
void heat_sort(struct heat *heat, size_t count, uint64_t salt);

/* Weights of counts that are all there is: the counts. */
void heat_weigh_all(struct heat *heat, size_t count);

/* Weights of exact counts of a sample, a part `rate` of all updates: rate * count + (1 - rate) * expected, where
 * `expected` is how often a key with that count comes in as large a sample of the rest. Most of those that came
 * once are not as frequent as that says: what a key with c updates is expected to have again is (c + 1) n[c + 1]
 * / n[c], n[c] being how many keys have c (Good 1953, after Turing). Taken as long as both have
 * HEAT_CLASS_MIN keys, up to HEAT_CLASSES; beyond, a count loses as much as the last of those. */
enum { HEAT_CLASSES = 5, HEAT_CLASS_MIN = 100 };
void heat_weigh_sample(struct heat *heat, size_t count, double rate);

#endif
