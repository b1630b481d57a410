/* SPDX-License-Identifier: Apache-2.0 */
/* rows_kv.c - the rows of kv.h and kv_both.h. */
#include "search/kv.h"
#include "search/kv_both.h"
#include "search/rows.h"

/* clang-format off */
static const struct search_row rows[] = {
	SEARCH_ROW(kv, "2 workers, two lives, 2 barriers", 0,
		.workers = 2, .lives = 2, .others = 2, .barriers = 2, .has_losses = true,
		.has_trouble = true),
	SEARCH_ROW(kv, "2 workers, two lives, 12 s", 0,
		.workers = 2, .lives = 2, .others = 2, .barriers = 1, .ticks = 3),
	SEARCH_ROW(kv, "2 workers, three lives, runs of 2 steps", 0,
		.workers = 2, .lives = 3, .others = 3, .barriers = 2, .is_sync = true),
	SEARCH_ROW(kv, "3 workers, a life, a barrier", 0,
		.workers = 3, .lives = 1, .others = 1, .barriers = 1),
	SEARCH_ROW(kv, "3 workers, two lives of one, a barrier", SEARCH_LONG,
		.workers = 3, .lives = 2, .others = 1, .barriers = 1),
	SEARCH_ROW(kv_both, "a worker, lost connections and restarts", 0,
		.processes = 1, .steps = 1, .batches = 2, .losses = 2, .crashes = 2),
	SEARCH_ROW(kv_both, "2 workers, a lost connection", 0,
		.processes = 2, .steps = 1, .batches = 1, .losses = 1),
	SEARCH_ROW(kv_both, "2 workers, a restart", 0,
		.processes = 2, .steps = 1, .batches = 1, .crashes = 1),
	SEARCH_ROW(kv_both, "2 workers, one is replaced", 0,
		.processes = 3, .steps = 1, .batches = 1),
	SEARCH_ROW(kv_both, "2 workers of a run, a lost connection", 0,
		.processes = 2, .steps = 1, .batches = 1, .losses = 1, .is_sync = true),
	SEARCH_ROW(kv_both, "2 workers of a run, a restart", 0,
		.processes = 2, .steps = 1, .batches = 1, .crashes = 1, .is_sync = true),
	SEARCH_ROW(kv_both, "2 workers of a run, one is replaced", 0,
		.processes = 3, .steps = 1, .batches = 1, .is_sync = true),
	SEARCH_ROW(kv_both, "2 workers, a lost connection, a restart", SEARCH_LONG,
		.processes = 2, .steps = 1, .batches = 1, .losses = 1, .crashes = 1),
	SEARCH_ROW(kv_both, "2 workers, one is replaced, a kill", SEARCH_LONG,
		.processes = 3, .steps = 1, .batches = 1, .kills = 1),
	SEARCH_ROW(kv_both, "2 workers of a run, a lost connection, a restart", SEARCH_LONG,
		.processes = 2, .steps = 1, .batches = 1, .losses = 1, .crashes = 1, .is_sync = true),
	SEARCH_ROW(kv_both, "2 workers of a run, one is replaced, a kill", SEARCH_LONG,
		.processes = 3, .steps = 1, .batches = 1, .kills = 1, .is_sync = true),
};
/* clang-format on */
const struct search_rows search_rows_kv = { rows, sizeof(rows) / sizeof(rows[0]) };
