/* SPDX-License-Identifier: Apache-2.0 */
/* hot_live.c - tally hot --live: a stream whose hot keys change, and the map that follows it. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "hot/live.h"
#include "tools/command.h"
#include "tools/hot.h"
#include "util/clock.h"

struct watch {
	const struct hot_request *request;
	struct live live;
	struct hot_map map; /* keys 0: none yet */
	uint32_t next;      /* version */
	double begin_s, look_s;
	bool is_new; /* rows have come since the last look */
};

/* ---- what it says ---- */

static void say(const struct watch *watch, const struct live_look *look, double map_share,
		bool is_written, bool is_told)
{
	const struct hot_request *request = watch->request;
	uint64_t updates = watch->live.survey.updates;
	double seconds = clock_s() - watch->begin_s;

	if (request->is_json) {
		json_t *object = json_pack("{s:f, s:I, s:I, s:I, s:f, s:I, s:f, s:b, s:b}",
					   "seconds", seconds, "updates", (json_int_t)updates,
					   "remembered", (json_int_t)look->updates, "map_version",
					   (json_int_t)watch->map.version, "map_share", map_share,
					   "hot_keys", (json_int_t)look->choice.keys, "share",
					   look->choice.share, "written", is_written, "told",
					   is_told);
		char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

		puts(text ? text : "{}");
		free(text);
		json_decref(object);
	} else {
		printf("%.1f s, %" PRIu64 " updates: the %" PRIu64 " hottest keys have %.1f %%",
		       seconds, updates, look->choice.keys, look->choice.share * 100);
		if (is_written)
			printf(", the map before %.1f %%: version %u is written%s\n",
			       map_share * 100, watch->map.version, is_told ? ", and told" : "");
		else
			printf(", version %u of the map has %.1f %%\n", watch->map.version,
			       map_share * 100);
	}
	fflush(stdout);
}

/* Who is not there reads the map when it starts. */
static bool tell(const struct hot_request *request)
{
	if (!request->tell)
		return false;
	if (!kill((pid_t)request->tell, SIGHUP))
		return true;
	fprintf(stderr, "tally hot: --tell %" PRIu64 ": %s; the map is there for its next start\n",
		request->tell, strerror(errno));
	return false;
}

/* ---- what it does ---- */

static int map_read(struct watch *watch)
{
	char error[FILES_ERROR_MAX];
	struct hot_map map;

	if (hot_map_read(watch->request->output, &map, error))
		return hot_fail(error);
	hot_map_fini(&watch->map);
	watch->map = map;
	return 0;
}

static int map_write(struct watch *watch, const struct live_look *look)
{
	if (!watch->next)
		return hot_fail("the map has had the last version there is");
	if (hot_map_put(watch->request, watch->next, look->heat, look->choice.keys, look->updates))
		return -1;
	watch->next++;
	return map_read(watch);
}

static int look(struct watch *watch)
{
	struct live_look seen;
	int result;

	watch->is_new = false;
	if (live_look(&watch->live, watch->map.keys ? &watch->map : NULL, &seen))
		return hot_fail("out of memory");
	result = seen.is_due ? map_write(watch, &seen) : 0;
	if (!result && seen.choice.keys)
		say(watch, &seen, seen.map_share, seen.is_due, seen.is_due && tell(watch->request));
	free(seen.heat);
	return result;
}

static int rows_take(void *arg, struct keys *keys)
{
	struct watch *watch = arg;
	struct survey *survey = &watch->live.survey;
	struct keys_row row;
	int result;

	while ((result = keys_next(keys, &row)) > 0) {
		double at_s = clock_s();

		live_age(&watch->live, at_s);
		row.is_each_row ? survey_each(survey, row.key, row.count)
				: survey_row(survey, row.key, row.count);
		watch->is_new = true;
		if (at_s < watch->look_s)
			continue;
		watch->look_s = at_s + watch->request->every_s;
		if (look(watch))
			return -1;
	}
	return result ? hot_fail(keys_error(keys)) : 0;
}

int hot_live(const struct hot_request *request)
{
	const struct live_options options = {
		.rate = request->rate,
		.seed = request->seed,
		.counters = (uint32_t)request->counters,
		.half_life_s = request->half_life_s,
		.slack = request->slack,
		.choose = { .p = request->p,
			    .keys_max = choose_keys_max(request->memory, request->c,
							request->key_bytes),
			    .is_knee = request->is_knee },
	};
	struct watch watch = { .request = request, .next = hot_version_choose(request) };
	FILE *there = watch.next ? fopen(request->output, "re") : NULL;
	int result = watch.next ? 0 : -1;

	if (there) {
		fclose(there);
		result = map_read(&watch);
	}
	watch.begin_s = clock_s();
	watch.look_s = watch.begin_s + request->every_s;
	if (!result && live_open(&watch.live, &options, watch.begin_s))
		result = hot_fail("no memory for so many --counters");
	for (int i = 0; i < request->files && !result; i++)
		result = hot_file(request, request->file[i], rows_take, &watch);
	if (!result && watch.is_new)
		result = look(&watch);
	live_close(&watch.live);
	hot_map_fini(&watch.map);
	return result ? EXIT_FAILED : EXIT_DONE;
}
