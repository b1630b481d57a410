/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c - see evaluate.h. */
#include "hot/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "hot/count.h"
#include "hot/survey.h"

enum { SALT_IDEAL = 3 };

static int set_make(struct count *set, const struct heat *heat, size_t count)
{
	*set = (struct count){ 0 };
	for (size_t i = 0; i < count; i++) {
		if (!count_add(set, &heat[i].key, 1))
			continue;
		count_fini(set);
		return -1;
	}
	return 0;
}

/* What part of Hg, the first `hot` of all, is among the first `keys` of `sampled`. */
static int precision_of(const struct evaluation *e, size_t hot, const struct heat *sampled,
			size_t keys, double *precision)
{
	struct count set;
	uint64_t both = 0;

	if (set_make(&set, sampled, keys))
		return -1;
	for (size_t i = 0; i < hot; i++)
		both += count_of(&set, e->all[i].key);
	count_fini(&set);
	*precision = hot ? (double)both / (double)hot : 1;
	return 0;
}

/* What part of all updates the chosen keys have. */
static int share_of(const struct evaluation *e, double *share)
{
	struct count set;
	uint64_t sum = 0;

	if (set_make(&set, e->sampled, e->chosen))
		return -1;
	for (size_t i = 0; i < e->all_count; i++)
		sum += count_of(&set, e->all[i].key) ? e->all[i].count : 0;
	count_fini(&set);
	*share = e->updates ? (double)sum / (double)e->updates : 0;
	return 0;
}

/* Updates are looked at one after the other, those of a key side by side; nobody notices. */
static size_t ideal_draw(const struct evaluation *e, uint64_t draw, struct heat *sampled,
			 uint64_t *taken)
{
	struct sampler sampler;
	size_t keys = 0;

	sampler_init(&sampler, e->rate, e->seed + draw + 1);
	*taken = 0;
	for (size_t i = 0; i < e->all_count; i++) {
		uint64_t at = sampler.gap, count = 0;

		for (; at < e->all[i].count; at += 1 + sampler.gap) {
			count++;
			sampler_next(&sampler);
		}
		sampler.gap = at - e->all[i].count;
		*taken += count;
		if (count)
			sampled[keys++] = (struct heat){ e->all[i].key, count, 0 };
	}
	heat_sort(sampled, keys, SALT_IDEAL);
	heat_weigh_sample(sampled, keys, e->rate);
	return keys;
}

static int ideal_evaluate(const struct evaluation *e, size_t hot, struct precision *precision)
{
	struct heat *sampled = malloc((e->all_count ? e->all_count : 1) * sizeof(*sampled));
	double sum = 0, sum_as_many = 0, least = 1, most = 0;
	uint64_t chosen = 0;
	int result = sampled ? 0 : -1;

	for (uint64_t draw = 0; draw < EVALUATE_DRAWS && !result; draw++) {
		struct choice choice;
		uint64_t taken;
		size_t keys = ideal_draw(e, draw, sampled, &taken);
		double one, as_many;

		choose(sampled, keys, (double)taken, &e->options, &choice);
		if (precision_of(e, hot, sampled, choice.keys, &one) ||
		    precision_of(e, hot, sampled, hot < keys ? hot : keys, &as_many)) {
			result = -1;
			break;
		}
		chosen += choice.keys;
		sum += one;
		sum_as_many += as_many;
		least = one < least ? one : least;
		most = one > most ? one : most;
	}
	free(sampled);
	precision->ideal = sum / EVALUATE_DRAWS;
	precision->ideal_as_many = sum_as_many / EVALUATE_DRAWS;
	precision->ideal_least = least;
	precision->ideal_most = most;
	precision->hot_ideal = chosen / EVALUATE_DRAWS;
	return result;
}

int evaluate(const struct evaluation *e, struct precision *precision)
{
	struct precision p = { .hot_sampled = e->chosen };
	struct choice choice;
	size_t as_many;

	choose(e->all, e->all_count, (double)e->updates, &e->options, &choice);
	p.hot_all = choice.keys;
	as_many = p.hot_all < e->sampled_count ? p.hot_all : e->sampled_count;
	if (precision_of(e, p.hot_all, e->sampled, e->chosen, &p.mine) ||
	    precision_of(e, p.hot_all, e->sampled, as_many, &p.as_many) || share_of(e, &p.share) ||
	    ideal_evaluate(e, p.hot_all, &p))
		return -1;
	*precision = p;
	return 0;
}
