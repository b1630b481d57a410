/* SPDX-License-Identifier: Apache-2.0 */
/* hot.h - what the parts of `tally hot` share: what it is asked to do, what it has found, what it shows. */
#ifndef TOOLS_HOT_H
#define TOOLS_HOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hot/choose.h"
#include "hot/evaluate.h"
#include "hot/keys.h"
#include "hot/survey.h"

/* ---- what is asked for ---- */

struct hot_request {
	char **file; /* [files] */
	int files;
	const char *show;          /* a map to print, and nothing else; NULL: none */
	const char *output, *plot; /* NULL: none */
	struct keys_options keys;
	double zipf; /* exponent; negative: files */
	uint64_t zipf_keys, zipf_updates;
	double rate;                /* of rows that are sampled */
	double p, c;                /* of Principle 1 */
	uint64_t memory, key_bytes; /* of the aggregator, of a key in it */
	uint64_t seed, counters;
	uint64_t table, version; /* of the map; version 0: one more than the file has */
	bool is_knee, is_exact, is_json, is_emitted;
	bool is_live;
	double every_s, half_life_s, slack; /* of is_live */
	uint64_t tell;                      /* a pid; 0: nobody */
};

/* -1: go on; else the exit status, and all has been said. */
int hot_request_parse(struct hot_request *request, int argc, char **argv);

/* ---- files of keys, and the map ---- */

/* -1, with a line on stderr. */
int hot_fail(const char *what);
/* A file of keys, which is what was asked for: `rows` reads it. -1: it is said why. */
typedef int hot_rows(void *arg, struct keys *keys);
int hot_file(const struct hot_request *request, const char *path, hot_rows *rows, void *arg);
/* The version of the map that is to be written: 0, and it is said why, if there is something else. */
uint32_t hot_version_choose(const struct hot_request *request);
/* The first `keys` of heat. -1: it is said why. */
int hot_map_put(const struct hot_request *request, uint32_t version, const struct heat *heat,
		uint64_t keys, uint64_t updates);
/* --live: the exit status. */
int hot_live(const struct hot_request *request);

/* ---- what was found ---- */

struct hot_found {
	const struct hot_request *request;
	const char *format; /* of the first file; "zipf" */
	struct survey survey;
	struct heat *sampled, *all; /* all: NULL without --exact */
	size_t sampled_count, all_count;
	struct choose_options options;
	struct choice choice;
	struct precision precision; /* with --exact */
	uint32_t version;           /* of the map that was written; 0: none */
	double pass_s;
};

/* A table, or an object. */
void hot_report(const struct hot_found *found);

/* What a map has: a table, or an object. */
struct hot_map;
void hot_report_map(const char *path, const struct hot_map *map, bool is_json);

/* ---- progress, on stderr ---- */

struct hot_progress { /* zeros to begin with */
	bool is_open, is_shown;
	int64_t begin_ms, shown_ms;
};

void hot_progress_open(struct hot_progress *progress);
/* done, of all; all 0: nobody knows. */
void hot_progress_show(struct hot_progress *progress, uint64_t done, uint64_t all,
		       uint64_t updates);
void hot_progress_close(struct hot_progress *progress);

/* ---- a drawing ---- */

bool hot_plot(const struct hot_found *found);

#endif
