/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.h - a pass over rows of keys: a random part of the rows goes to a sketch, and, if so asked, all of them are
 * counted besides, to know how good the sample is. Each row is taken or not by itself, with the same chance, so
 * that a stream whose end nobody knows is sampled as well as a file.
 */
#ifndef HOT_SURVEY_H
#define HOT_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hot/count.h"
#include "hot/sketch.h"
#include "util/rng.h"

/* Which of a sequence of things are taken: instead of a die for each, one for the gap to the next. */
struct sampler {
	struct rng rng;
	double gap_mean; /* the factor of ln(random); 0: no gaps */
	uint64_t gap;    /* to pass over before the next one that is taken */
};

/* 0 < rate <= 1. */
void sampler_init(struct sampler *sampler, double rate, uint64_t seed);
void sampler_next(struct sampler *sampler); /* one was taken: a new gap */

static inline bool sampler_takes(struct sampler *sampler)
{
	if (sampler->gap) {
		sampler->gap--;
		return false;
	}
	sampler_next(sampler);
	return true;
}

struct survey {
	double rate;
	struct sampler sampler;
	struct sketch *sketch;
	bool is_exact;
	struct count count; /* of all keys, with is_exact */
	bool is_halved;     /* so counts are none of a sample */
	uint64_t rows, updates, sampled_rows, sampled_updates;
};

/* -1: no memory. */
int survey_open(struct survey *survey, double rate, uint64_t seed, uint32_t counters,
		bool is_exact);
void survey_close(struct survey *survey);

/* One row, or `count` rows of one key. -1: no memory for another key that is to be counted. */
int survey_row(struct survey *survey, const uint64_t *key, size_t count);
int survey_each(struct survey *survey, const uint64_t *key, size_t count);

/* The sample forgets half of what it knows. */
void survey_halve(struct survey *survey);

/* The sampled keys, sorted and weighed: *heat is the caller's. -1: no memory. If the sketch has errors, or has been halved, weights are
 * what a key has for certain: no choice is better than it says. */
int survey_sampled(const struct survey *survey, struct heat **heat, size_t *count);
/* All keys, by the full count. */
int survey_all(const struct survey *survey, struct heat **heat, size_t *count);

#endif
