/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - see live.h. */
#include "hot/live.h"

int live_open(struct live *live, const struct live_options *options, double now_s)
{
	*live = (struct live){ .options = *options, .aged_s = now_s };
	return survey_open(&live->survey, options->rate, options->seed, options->counters, false);
}

void live_close(struct live *live)
{
	survey_close(&live->survey);
}

void live_age(struct live *live, double now_s)
{
	double half_life_s = live->options.half_life_s;
	unsigned halves = 0;

	/* After 64 of them nothing is left. */
	for (; now_s - live->aged_s >= half_life_s && halves < 64; halves++) {
		survey_halve(&live->survey);
		live->aged_s += half_life_s;
	}
	if (now_s - live->aged_s >= half_life_s)
		live->aged_s = now_s;
}

int live_look(const struct live *live, const struct hot_map *map, struct live_look *look)
{
	uint64_t updates = sketch_updates(live->survey.sketch);
	double caught = 0;
	size_t count;

	*look = (struct live_look){ .updates = updates };
	if (survey_sampled(&live->survey, &look->heat, &count))
		return -1;
	if (!count || !updates)
		return 0;
	choose(look->heat, count, (double)updates, &live->options.choose, &look->choice);
	for (size_t i = 0; i < count && map; i++)
		if (hot_map_rank(map, look->heat[i].key) != HOT_MAP_COLD)
			caught += look->heat[i].weight;
	look->map_share = caught / (double)updates;
	look->is_due = look->choice.keys &&
		       (!map || look->choice.share - look->map_share > live->options.slack);
	return 0;
}
