/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - the hot keys of a stream that does not end, and that changes: a survey that forgets, half of all counts in each
 * half-life, and when a map of it is to be another one. No clock: times are the caller's, and ascend.
 */
#ifndef HOT_LIVE_H
#define HOT_LIVE_H

#include "files/hot_map.h"
#include "hot/choose.h"
#include "hot/survey.h"

struct live_options {
	double rate; /* of rows that are sampled */
	uint64_t seed;
	uint32_t counters;
	double half_life_s; /* above 0 */
	double slack;       /* a map may catch so much less of all updates than the best one */
	struct choose_options choose;
};

struct live {
	struct live_options options;
	struct survey survey; /* rows go there: survey_row, survey_each */
	double aged_s;
};

/* -1: no memory. */
int live_open(struct live *live, const struct live_options *options, double now_s);
void live_close(struct live *live);

/* Before rows of this time are added. */
void live_age(struct live *live, double now_s);

struct live_look {
	struct choice choice;
	double map_share; /* of all updates, that the map's keys have; 0 without one */
	bool is_due; /* another map is worth it: its keys are the first choice.keys of `heat` */
	struct heat *heat;
	uint64_t updates; /* of the sample, as far as it is remembered */
};

/* How good is the map (NULL: there is none) for what the stream is now? heat is the caller's. -1: no memory. Nothing is due
 * while there is no key. */
int live_look(const struct live *live, const struct hot_map *map, struct live_look *look);

#endif
