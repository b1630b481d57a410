/* SPDX-License-Identifier: Apache-2.0 */
/* rows_host.c - host.h's rows. */
#include "search/rows.h"

#include "search/host.h"

#define ROW(name, how, ...) SEARCH_ROW(host, name, how, __VA_ARGS__)

/* clang-format off */
static const struct search_row rows[] = {
	ROW("2 ranks, 3 phases, a sleep ends for no reason", 0,
		.ranks = 2, .phases = 3, .has_spurious = true),
	ROW("2 ranks, 3 phases, near the wrap", 0,
		.ranks = 2, .phases = 3, .before = UINT32_MAX),
	ROW("2 ranks, 2 phases, one dies", 0,
		.ranks = 2, .phases = 2, .has_death = true),
	ROW("2 ranks, 2 phases, one gives up", 0,
		.ranks = 2, .phases = 2, .has_abort = true),
	ROW("3 ranks, 1 phase", 0,
		.ranks = 3, .phases = 1),
	ROW("3 ranks, 1 phase, one dies", 0,
		.ranks = 3, .phases = 1, .has_death = true),
	ROW("3 ranks, 1 phase, one gives up", 0,
		.ranks = 3, .phases = 1, .has_abort = true),
	ROW("3 ranks, 2 phases", SEARCH_LONG,
		.ranks = 3, .phases = 2),
};
/* clang-format on */
const struct search_rows search_rows_host = { rows, sizeof(rows) / sizeof(rows[0]) };
