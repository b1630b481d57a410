/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evaluate.h - how good a choice from a sample is, for who has the full count: precision |Hg and Hs| / |Hg| (Libra
 * 5.3), Hs being the keys that the sample calls hot, Hg those that the full count does by the same rule. And
 * what a sample can give at best: as many updates drawn one by one, each as likely as another, and counted
 * without an error. A sample of rows through a sketch is neither.
 */
#ifndef HOT_EVALUATE_H
#define HOT_EVALUATE_H

#include <stddef.h>
#include <stdint.h>

#include "hot/choose.h"
#include "hot/heat.h"

enum { EVALUATE_DRAWS = 5 }; /* ideal samples, of which mean, least and most are told */

struct precision {
	double mine;                           /* of the sample */
	double ideal, ideal_least, ideal_most; /* of ideal ones */
	double as_many, ideal_as_many; /* the same with the |Hg| hottest of the sample for Hs */
	double share;                  /* of all updates, by the full count: those of Hs */
	uint64_t hot_all, hot_sampled, hot_ideal; /* |Hg|, |Hs|; of the ideal ones the mean */
};

struct evaluation {
	const struct heat *all; /* sorted, weighed */
	size_t all_count;
	uint64_t updates; /* theirs */
	const struct heat *sampled;
	size_t sampled_count;
	uint64_t chosen; /* |Hs| */
	double rate;     /* of updates that were sampled */
	struct choose_options options;
	uint64_t seed;
};

/* -1: no memory. */
int evaluate(const struct evaluation *evaluation, struct precision *precision);

#endif
