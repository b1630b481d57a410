/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - see choose.h. */
#include "hot/choose.h"

#include <math.h>

#define ROUNDING \
	1e-12 /* of a sum of many weights, relative: p of exactly what k keys have is reached by k */

uint64_t choose_keys_max(uint64_t memory_bytes, double c, uint64_t key_bytes)
{
	/* 0.1 is a little more than a tenth: what is whole but for rounding is whole. */
	return (uint64_t)floor((double)memory_bytes * c / (double)key_bytes * (1 + ROUNDING));
}

static double weight_of(const struct heat *heat, size_t from, size_t to)
{
	double sum = 0;

	for (size_t i = from; i < to; i++)
		sum += heat[i].weight;
	return sum;
}

static uint64_t keys_by_share(const struct heat *heat, size_t count, double updates, double p)
{
	double sum = 0, least = p * updates * (1 - ROUNDING);

	for (size_t i = 0; i < count; i++) {
		sum += heat[i].weight;
		if (sum >= least)
			return i + 1;
	}
	return 0;
}

static uint64_t keys_by_knee(const struct heat *heat, size_t count, double updates)
{
	size_t keys = 0;

	while (keys < count) {
		size_t more = count - keys < CHOOSE_KNEE_KEYS ? count - keys : CHOOSE_KNEE_KEYS;

		if (weight_of(heat, keys, keys + more) < CHOOSE_KNEE_SHARE * updates)
			break;
		keys += more;
	}
	return keys;
}

void choose(const struct heat *heat, size_t count, double updates,
	    const struct choose_options *options, struct choice *choice)
{
	uint64_t keys;

	choice->wanted = options->is_knee ? keys_by_knee(heat, count, updates)
					  : keys_by_share(heat, count, updates, options->p);
	keys = choice->wanted || options->is_knee ? choice->wanted : count;
	choice->fits = keys <= options->keys_max;
	choice->keys = choice->fits ? keys : options->keys_max;
	choice->share = updates > 0 ? weight_of(heat, 0, choice->keys) / updates : 0;
	choice->has_share = options->is_knee || (choice->wanted && choice->fits);
}
