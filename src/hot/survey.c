/* SPDX-License-Identifier: Apache-2.0 */
/* survey.c - see survey.h. */
#include "hot/survey.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { SALT_SAMPLED = 1, SALT_ALL = 2 }; /* of the order among equals */

void sampler_next(struct sampler *sampler)
{
	/* In 0 < u <= 1. A gap of g or more has the chance (1 - rate)^g, which u is below. */
	double u = ((double)(rng_next(&sampler->rng) >> 11) + 1) * 0x1p-53;

	sampler->gap = (uint64_t)(log(u) * sampler->gap_mean);
}

void sampler_init(struct sampler *sampler, double rate, uint64_t seed)
{
	assert(rate > 0);
	assert(rate <= 1);
	rng_init(&sampler->rng, seed, 1); /* 0 is for who makes keys */
	sampler->gap_mean = rate < 1 ? 1 / log1p(-rate) : 0;
	sampler_next(sampler);
}

int survey_open(struct survey *survey, double rate, uint64_t seed, uint32_t counters, bool is_exact)
{
	*survey = (struct survey){ .rate = rate, .is_exact = is_exact };
	sampler_init(&survey->sampler, rate, seed);
	return sketch_open(&survey->sketch, counters);
}

void survey_close(struct survey *survey)
{
	sketch_close(survey->sketch);
	count_fini(&survey->count);
}

static int count_all(struct survey *survey, const uint64_t *key, size_t count)
{
	while (survey->is_exact && count) {
		size_t some = count < COUNT_ADD_MAX ? count : COUNT_ADD_MAX;

		if (count_add(&survey->count, key, some))
			return -1;
		key += some;
		count -= some;
	}
	return 0;
}

int survey_row(struct survey *survey, const uint64_t *key, size_t count)
{
	if (count_all(survey, key, count))
		return -1;
	survey->rows++;
	survey->updates += count;
	if (!sampler_takes(&survey->sampler))
		return 0;
	survey->sampled_rows++;
	survey->sampled_updates += count;
	for (size_t i = 0; i < count; i++)
		sketch_add(survey->sketch, key[i]);
	return 0;
}

int survey_each(struct survey *survey, const uint64_t *key, size_t count)
{
	uint64_t gap = survey->sampler.gap;

	if (count_all(survey, key, count))
		return -1;
	survey->rows += count;
	survey->updates += count;
	for (; gap < count; gap += 1 + survey->sampler.gap) {
		sketch_add(survey->sketch, key[gap]);
		survey->sampled_rows++;
		survey->sampled_updates++;
		sampler_next(&survey->sampler);
	}
	survey->sampler.gap = gap - count;
	return 0;
}

void survey_halve(struct survey *survey)
{
	sketch_halve(survey->sketch);
	survey->is_halved = true;
}

int survey_sampled(const struct survey *survey, struct heat **heat, size_t *count)
{
	const struct sketch_counter *counter;
	uint32_t used;
	struct heat *all;

	counter = sketch_counters(survey->sketch, &used);
	all = malloc((used ? used : 1) * sizeof(*all));
	if (!all)
		return -1;
	for (uint32_t i = 0; i < used; i++)
		all[i] = (struct heat){ counter[i].key, counter[i].count,
					(double)(counter[i].count - counter[i].error) };
	heat_sort(all, used, SALT_SAMPLED);
	if (!sketch_error(survey->sketch) && !survey->is_halved)
		heat_weigh_sample(all, used, survey->rate);
	*heat = all;
	*count = used;
	return 0;
}

int survey_all(const struct survey *survey, struct heat **heat, size_t *count)
{
	size_t keys = survey->count.keys;
	struct heat *all = malloc((keys ? keys : 1) * sizeof(*all));

	if (!all)
		return -1;
	count_read(&survey->count, all);
	heat_sort(all, keys, SALT_ALL);
	heat_weigh_all(all, keys);
	*heat = all;
	*count = keys;
	return 0;
}
