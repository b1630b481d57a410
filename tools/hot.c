/* SPDX-License-Identifier: Apache-2.0 */
/* hot.c - tally hot: a sample of what training would update, the hot keys of it, their map. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "files/hot_map.h"
#include "hot/zipf.h"
#include "tools/command.h"
#include "tools/hot.h"
#include "util/clock.h"
#include "util/plot.h"

enum { PIECE = 1 << 12, ROWS_PER_LOOK = 1 << 8 };

static int fail_memory(const struct hot_found *found)
{
	char sentence[160];

	if (!found->request->is_exact)
		return hot_fail("out of memory");
	snprintf(sentence, sizeof(sentence),
		 "no memory to count more than %zu keys; without --exact memory is bounded",
		 found->survey.count.keys);
	return hot_fail(sentence);
}

/* ---- the pass ---- */

static int zipf_pass(struct hot_found *found, struct hot_progress *progress)
{
	const struct hot_request *request = found->request;
	uint64_t left = request->zipf_updates;
	uint64_t key[PIECE];
	struct zipf zipf;
	int result = 0;

	found->format = "zipf";
	if (zipf_init(&zipf, request->zipf, (uint32_t)request->zipf_keys, request->seed))
		return hot_fail("no memory for so many --keys");
	while (left && !result) {
		size_t some = left < PIECE ? (size_t)left : PIECE;

		zipf_next(&zipf, key, some);
		left -= some;
		if (survey_each(&found->survey, key, some))
			result = fail_memory(found);
		hot_progress_show(progress, request->zipf_updates - left, request->zipf_updates,
				  found->survey.updates);
	}
	zipf_fini(&zipf);
	return result;
}

struct taking {
	struct hot_found *found;
	struct hot_progress *progress;
};

static int rows_take(void *arg, struct keys *keys)
{
	const struct taking *taking = arg;
	struct survey *survey = &taking->found->survey;
	struct keys_row row;
	int result;

	if (!taking->found->format)
		taking->found->format = keys_format_names[keys_format(keys)];
	while ((result = keys_next(keys, &row)) > 0) {
		if (row.is_each_row ? survey_each(survey, row.key, row.count)
				    : survey_row(survey, row.key, row.count))
			return fail_memory(taking->found);
		if (survey->rows % ROWS_PER_LOOK == 0 || row.is_each_row)
			hot_progress_show(taking->progress, source_position(keys_source(keys)),
					  source_size(keys_source(keys)), survey->updates);
	}
	return result ? hot_fail(keys_error(keys)) : 0;
}

static int pass(struct hot_found *found)
{
	const struct hot_request *request = found->request;
	struct hot_progress progress = { 0 };
	struct taking taking = { found, &progress };
	double begin = clock_s();
	int result = 0;

	hot_progress_open(&progress);
	if (request->zipf >= 0)
		result = zipf_pass(found, &progress);
	for (int i = 0; i < request->files && !result; i++)
		result = hot_file(request, request->file[i], rows_take, &taking);
	hot_progress_close(&progress);
	found->pass_s = clock_s() - begin;
	if (!result && !found->survey.updates)
		return hot_fail("there are no keys in it");
	return result;
}

/* ---- what follows from it ---- */

static int compare_all(struct hot_found *found)
{
	const struct survey *survey = &found->survey;
	struct evaluation evaluation = {
		.updates = survey->updates,
		.sampled = found->sampled,
		.sampled_count = found->sampled_count,
		.chosen = found->choice.keys,
		.rate = (double)survey->sampled_updates / (double)survey->updates,
		.options = found->options,
		.seed = found->request->seed,
	};

	if (survey_all(survey, &found->all, &found->all_count))
		return -1;
	evaluation.all = found->all;
	evaluation.all_count = found->all_count;
	return evaluate(&evaluation, &found->precision);
}

static int conclude(struct hot_found *found)
{
	const struct hot_request *request = found->request;

	if (!found->survey.sampled_updates)
		return hot_fail("the sample is empty: a larger --sample, or another --seed");
	if (survey_sampled(&found->survey, &found->sampled, &found->sampled_count))
		return hot_fail("out of memory");
	found->options = (struct choose_options){
		.p = request->p,
		.keys_max = choose_keys_max(request->memory, request->c, request->key_bytes),
		.is_knee = request->is_knee,
	};
	choose(found->sampled, found->sampled_count, (double)found->survey.sampled_updates,
	       &found->options, &found->choice);
	return request->is_exact && compare_all(found) ? fail_memory(found) : 0;
}

static int work(struct hot_found *found)
{
	const struct hot_request *request = found->request;
	uint32_t version = 0;

	if (request->output) {
		version = hot_version_choose(request);
		if (!version)
			return -1;
	}
	if (request->plot && !plot_check("tally hot", request->plot, false))
		return -1;
	if (survey_open(&found->survey, request->rate, request->seed, (uint32_t)request->counters,
			request->is_exact))
		return hot_fail("no memory for so many --counters");
	if (pass(found) || conclude(found) ||
	    (version && hot_map_put(request, version, found->sampled, found->choice.keys,
				    found->survey.sampled_updates)))
		return -1;
	found->version = version;
	hot_report(found);
	return request->plot && !hot_plot(found) ? -1 : 0;
}

/* ---- the other things ---- */

static int show(const struct hot_request *request)
{
	char error[FILES_ERROR_MAX];
	struct hot_map map;

	if (hot_map_read(request->show, &map, error)) {
		hot_fail(error);
		return EXIT_FAILED;
	}
	hot_report_map(request->show, &map, request->is_json);
	hot_map_fini(&map);
	return EXIT_DONE;
}

static int emit(const struct hot_request *request)
{
	uint64_t left = request->zipf_updates;
	uint64_t key[PIECE];
	struct zipf zipf;

	if (zipf_init(&zipf, request->zipf, (uint32_t)request->zipf_keys, request->seed)) {
		hot_fail("no memory for so many --keys");
		return EXIT_FAILED;
	}
	while (left && !ferror(stdout)) {
		size_t some = left < PIECE ? (size_t)left : PIECE;

		zipf_next(&zipf, key, some);
		left -= some;
		for (size_t i = 0; i < some; i++)
			printf("%" PRIu64 "\n", key[i]);
	}
	zipf_fini(&zipf);
	return EXIT_DONE; /* tally.c looks at stdout */
}

int hot_main(int argc, char **argv)
{
	struct hot_request request;
	struct hot_found found = { .request = &request };
	int status = hot_request_parse(&request, argc, argv);

	if (status >= 0)
		return status;
	if (request.show)
		return show(&request);
	if (request.is_emitted)
		return emit(&request);
	if (request.is_live)
		return hot_live(&request);
	status = work(&found) ? EXIT_FAILED : EXIT_DONE;
	survey_close(&found.survey);
	free(found.sampled);
	free(found.all);
	return status;
}
