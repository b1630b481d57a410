/* SPDX-License-Identifier: Apache-2.0 */
/* hot_report.c - what tally hot shows: a table or an object on stdout, progress on stderr. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "files/hot_map.h"
#include "tally.h"
#include "tools/hot.h"
#include "util/clock.h"
#include "util/utf8.h"

enum { BAR_WIDTH = 24, BAR_MS = 100, TEXT_MAX = 4096 };

/* ---- progress ---- */

void hot_progress_open(struct hot_progress *progress)
{
	const char *wanted = getenv("TALLY_PROGRESS");

	*progress = (struct hot_progress){
		.is_open = isatty(STDERR_FILENO) || (wanted && !strcmp(wanted, "1")),
		.begin_ms = clock_ms(),
	};
}

void hot_progress_show(struct hot_progress *progress, uint64_t done, uint64_t all, uint64_t updates)
{
	int64_t now;
	double part, spent_s;
	int filled;

	if (!progress->is_open)
		return;
	now = clock_ms();
	if (now - progress->shown_ms < BAR_MS)
		return;
	progress->shown_ms = now;
	progress->is_shown = true;
	spent_s = (double)(now - progress->begin_ms) / 1000;
	part = all && done <= all ? (double)done / (double)all : 0;
	filled = (int)(part * BAR_WIDTH);
	if (all)
		fprintf(stderr, "reading  [%.*s%*s] %3.0f %%", filled, "########################",
			BAR_WIDTH - filled, "", part * 100);
	else
		fprintf(stderr, "reading");
	fprintf(stderr, "  %.3g M updates", (double)updates / 1e6);
	if (spent_s > 0)
		fprintf(stderr, "  %.3g M/s", (double)updates / 1e6 / spent_s);
	fprintf(stderr, "\033[K\r");
	fflush(stderr);
}

void hot_progress_close(struct hot_progress *progress)
{
	if (progress->is_shown)
		fputs("\033[K\r", stderr);
	progress->is_shown = false;
}

/* ---- a table ---- */

static const char *bytes_text(double bytes, char text[32])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;

	while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 32, "%.4g %s", bytes, units[unit]);
	return text;
}

static void table_head(const struct hot_found *found)
{
	const struct hot_request *request = found->request;
	const struct survey *survey = &found->survey;
	char bytes[32];

	printf("# tally %s hot", tally_get_version_text());
	if (request->zipf >= 0)
		printf(" --zipf %g: %" PRIu64 " keys, %" PRIu64 " updates\n", request->zipf,
		       request->zipf_keys, survey->updates);
	else
		printf(" %s%s: %s, %" PRIu64 " rows, %" PRIu64 " updates\n", request->file[0],
		       request->files > 1 ? ", ..." : "", found->format, survey->rows,
		       survey->updates);
	printf("# sample: %g %% of the rows, seed %" PRIu64 ": %" PRIu64 " rows, %" PRIu64
	       " updates, %zu keys; sketch: %s, ",
	       request->rate * 100, request->seed, survey->sampled_rows, survey->sampled_updates,
	       found->sampled_count,
	       bytes_text((double)sketch_bytes((uint32_t)request->counters), bytes));
	if (sketch_error(survey->sketch))
		printf("counts at most %" PRIu64 " too high\n", sketch_error(survey->sketch));
	else
		printf("counts are exact\n");
}

static void table_choice(const struct hot_found *found)
{
	const struct hot_request *request = found->request;
	const struct choice *choice = &found->choice;
	char bytes[32], memory[32];

	printf("%-18s %10" PRIu64 "  ", "hot keys", choice->keys);
	if (!choice->fits)
		printf("as many as fit\n");
	else if (choice->keys == found->sampled_count)
		printf("all of the sample\n");
	else if (request->is_knee)
		printf("then 1,000 more add less than 1 %%\n");
	else
		printf("the fewest that have %g %% of all updates\n", request->p * 100);
	printf("%-18s %9.2f%%  by the sample\n", "of all updates", choice->share * 100);
	printf("%-18s %10s  of %s (%g %% of the aggregator's)\n", "memory",
	       bytes_text((double)(choice->keys * request->key_bytes), bytes),
	       bytes_text((double)request->memory * request->c, memory), request->c * 100);
	if (!choice->fits && choice->wanted)
		printf("# both conditions cannot hold: %s takes %" PRIu64 " keys, %s; %" PRIu64
		       " fit\n",
		       request->is_knee ? "the knee" : "--p", choice->wanted,
		       bytes_text((double)(choice->wanted * request->key_bytes), bytes),
		       found->options.keys_max);
	else if (!choice->wanted && !request->is_knee)
		printf("# both conditions cannot hold: all keys of the sample together have not "
		       "%g %% of all updates%s\n",
		       request->p * 100, choice->fits ? "" : ", and do not fit");
}

static void table_precision(const struct hot_found *found)
{
	const struct precision *p = &found->precision;

	printf("%-18s %9.2f%%  by the full count, of %zu keys\n", "of all updates", p->share * 100,
	       found->all_count);
	printf("%-18s %10.4f  of %" PRIu64 " hot keys by the full count\n", "precision", p->mine,
	       p->hot_all);
	printf("%-18s %10.4f  %.4f to %.4f in %d draws, %" PRIu64 " hot keys\n", "  ideal sample",
	       p->ideal, p->ideal_least, p->ideal_most, EVALUATE_DRAWS, p->hot_ideal);
	printf("%-18s %10.4f  the %" PRIu64 " hottest keys of the sample; ideal sample %.4f\n",
	       "  of as many", p->as_many, p->hot_all, p->ideal_as_many);
}

/* A count that may be wrong by a good part of itself says little. */
static void table_doubt(const struct hot_found *found)
{
	uint64_t error = sketch_error(found->survey.sketch), coldest;

	if (!error || !found->choice.keys)
		return;
	coldest = found->sampled[found->choice.keys - 1].count;
	if (coldest < 4 * error)
		printf("# the coldest hot key has a count of %" PRIu64 ", at most %" PRIu64
		       " too high: take more --counters\n",
		       coldest, error);
}

static void table(const struct hot_found *found)
{
	const struct hot_request *request = found->request;

	table_head(found);
	table_choice(found);
	if (request->is_exact)
		table_precision(found);
	table_doubt(found);
	if (found->version)
		printf("# map: %s, table %" PRIu64 ", version %u\n", request->output,
		       request->table, found->version);
	printf("# %.2f s, %.1f M updates/s\n", found->pass_s,
	       (double)found->survey.updates / 1e6 / (found->pass_s > 0 ? found->pass_s : 1e-9));
}

/* ---- an object ---- */

static json_t *text_json(const char *text)
{
	char clean[TEXT_MAX];

	return json_string(utf8_copy(clean, sizeof(clean), text));
}

static void put(json_t *object, const char *name, uint64_t number)
{
	json_object_set_new(object, name, json_integer((json_int_t)number));
}

static void put_real(json_t *object, const char *name, double number)
{
	json_object_set_new(object, name, json_real(number));
}

static void print_json(json_t *object)
{
	char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));

	puts(line ? line : "{}");
	free(line);
	json_decref(object);
}

static void json_precision(json_t *object, const struct hot_found *found)
{
	const struct precision *p = &found->precision;

	put(object, "all_keys", found->all_count);
	put(object, "all_hot_keys", p->hot_all);
	put(object, "ideal_hot_keys", p->hot_ideal);
	put_real(object, "all_share", p->share);
	put_real(object, "precision", p->mine);
	put_real(object, "ideal_precision", p->ideal);
	put_real(object, "ideal_precision_least", p->ideal_least);
	put_real(object, "ideal_precision_most", p->ideal_most);
	put_real(object, "precision_of_as_many", p->as_many);
	put_real(object, "ideal_precision_of_as_many", p->ideal_as_many);
}

static void json_whole(const struct hot_found *found)
{
	const struct hot_request *request = found->request;
	const struct survey *survey = &found->survey;
	const struct choice *choice = &found->choice;
	json_t *object = json_object(), *files = json_array();

	json_object_set_new(object, "command", json_string("hot"));
	json_object_set_new(object, "version", json_string(tally_get_version_text()));
	for (int i = 0; i < request->files; i++)
		json_array_append_new(files, text_json(request->file[i]));
	json_object_set_new(object, "files", files);
	json_object_set_new(object, "format", json_string(found->format));
	if (request->zipf >= 0)
		put_real(object, "zipf", request->zipf);
	put(object, "rows", survey->rows);
	put(object, "updates", survey->updates);
	put_real(object, "sample", request->rate);
	put(object, "seed", request->seed);
	put(object, "sampled_rows", survey->sampled_rows);
	put(object, "sampled_updates", survey->sampled_updates);
	put(object, "sampled_keys", found->sampled_count);
	put(object, "counters", request->counters);
	put(object, "sketch_bytes", sketch_bytes((uint32_t)request->counters));
	put(object, "count_error", sketch_error(survey->sketch));
	json_object_set_new(object, "rule", json_string(request->is_knee ? "knee" : "p"));
	if (!request->is_knee)
		put_real(object, "p", request->p);
	put_real(object, "c", request->c);
	put(object, "memory", request->memory);
	put(object, "key_bytes", request->key_bytes);
	put(object, "hot_keys", choice->keys);
	put(object, "wanted_keys", choice->wanted);
	put(object, "keys_that_fit", found->options.keys_max);
	put_real(object, "share", choice->share);
	json_object_set_new(object, "both_hold", json_boolean(choice->fits && choice->has_share));
	if (request->is_exact)
		json_precision(object, found);
	if (found->version) {
		json_object_set_new(object, "map", text_json(request->output));
		put(object, "table", request->table);
		put(object, "map_version", found->version);
	}
	put_real(object, "pass_s", found->pass_s);
	print_json(object);
}

void hot_report(const struct hot_found *found)
{
	if (found->request->is_json)
		json_whole(found);
	else
		table(found);
}

void hot_report_map(const char *path, const struct hot_map *map, bool is_json)
{
	double share = map->updates ? (double)map->hot_updates / (double)map->updates : 0;

	if (is_json) {
		json_t *object = json_object(), *keys = json_array();

		json_object_set_new(object, "map", text_json(path));
		put(object, "table", map->table);
		put(object, "map_version", map->version);
		put(object, "hot_updates", map->hot_updates);
		put(object, "updates", map->updates);
		for (uint32_t rank = 0; rank < map->keys; rank++) {
			char text[24]; /* JSON's numbers end at 2^53 for many a reader */

			snprintf(text, sizeof(text), "%" PRIu64, map->key[rank]);
			json_array_append_new(keys, json_string(text));
		}
		json_object_set_new(object, "keys", keys);
		print_json(object);
		return;
	}
	printf("# %s: table %u, version %u: %u keys, %.2f %% of %" PRIu64 " updates\n", path,
	       map->table, map->version, map->keys, share * 100, map->updates);
	for (uint32_t rank = 0; rank < map->keys; rank++)
		printf("%u %" PRIu64 "\n", rank, map->key[rank]);
}
