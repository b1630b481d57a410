/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - what tally-search searches, in order. */
#ifndef SEARCH_ROWS_H
#define SEARCH_ROWS_H

#include "search/bfs.h"

enum {
	SEARCH_LONG = 1,   /* only with --long */
	SEARCH_CAUGHT = 2, /* lets happen what must not: shows that the search catches it */
};

struct search_row {
	const char *name;
	void (*model)(struct bfs_model *model, const void *config); /* fills it in */
	const void *config;
	unsigned how; /* SEARCH_* */
};

/* A row of the model KIND.h, with what is to be set of its KIND_config. */
/* clang-format off */
#define SEARCH_ROW(kind, name, how, ...) \
	{ #kind ": " name, kind##_model, &(const struct kind##_config){ __VA_ARGS__ }, how }
/* clang-format on */

struct search_rows {
	const struct search_row *row;
	uint32_t count;
};

extern const struct search_rows search_rows_control, search_rows_data, search_rows_host,
	search_rows_kv, search_rows_latency, search_rows_pace, search_rows_sparse;

/* Row i of them all, NULL after the last. */
const struct search_row *search_row(uint32_t i);

#endif
