/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - what tally-search searches, in order. */
#ifndef SEARCH_ROWS_H
#define SEARCH_ROWS_H

#include "search/bfs.h"

struct search_row {
	const char *name;
	void (*model)(struct bfs_model *model, const void *config); /* fills it in */
	const void *config;
	bool is_long; /* only with --long */
};

extern const struct search_row search_rows[];
extern const uint32_t search_rows_count;

#endif
