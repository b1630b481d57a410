/* SPDX-License-Identifier: Apache-2.0 */
/* rows_latency.c - latency.h's rows. Self-acknowledging if slots >= 2 * window. */
#include "search/rows.h"

#include "search/latency.h"

#define ROW(name, how, ...) SEARCH_ROW(latency, name, how, __VA_ARGS__)

/* clang-format off */
static const struct search_row rows[] = {
	ROW("n=2, P=1, S=2, 8 operations", 0,
		.workers = 2, .slots = 2, .window = 1, .ops = 8, .generations = 1),
	ROW("n=2, P=2, S=4, 8 operations", 0,
		.workers = 2, .slots = 4, .window = 2, .ops = 8, .generations = 1),
	ROW("n=2, P=2, S=4, 8 operations, 2 kept", 0,
		.workers = 2, .slots = 4, .window = 2, .ops = 8, .generations = 1, .ring = 2),
	ROW("n=3, P=1, S=2, 8 operations", 0,
		.workers = 3, .slots = 2, .window = 1, .ops = 8, .generations = 1),
	ROW("n=3, P=2, S=4, 8 operations", 0,
		.workers = 3, .slots = 4, .window = 2, .ops = 8, .generations = 1),
	ROW("n=2, P=1, S=2, near the wrap", 0,
		.workers = 2, .slots = 2, .window = 1, .ops = 8, .generations = 1,
		.first = 0x1fffffffc),
	ROW("n=2, P=2, S=4, 6 operations, a restart", 0,
		.workers = 2, .slots = 4, .window = 2, .ops = 6, .generations = 2),
	ROW("n=3, P=1, S=2, 4 operations, a restart", 0,
		.workers = 3, .slots = 2, .window = 1, .ops = 4, .generations = 2),
	ROW("n=2, P=S=2, ACK, 8 operations", 0,
		.workers = 2, .slots = 2, .window = 2, .ops = 8, .generations = 1),
	ROW("n=2, P=2, S=3, ACK, 8 operations", 0,
		.workers = 2, .slots = 3, .window = 2, .ops = 8, .generations = 1),
	ROW("n=3, P=S=2, ACK, 6 operations", 0,
		.workers = 3, .slots = 2, .window = 2, .ops = 6, .generations = 1),
	ROW("n=3, P=2, S=3, ACK, 4 operations", 0,
		.workers = 3, .slots = 3, .window = 2, .ops = 4, .generations = 1),
	ROW("n=2, P=S=2, ACK, near the wrap", 0,
		.workers = 2, .slots = 2, .window = 2, .ops = 8, .generations = 1,
		.first = 0x1fffffffc),
	ROW("n=2, P=S=2, ACK, 5 operations, a restart", 0,
		.workers = 2, .slots = 2, .window = 2, .ops = 5, .generations = 2),
	/* The switch is a chip: R-CHIP-11. */
	ROW("n=2, a chip, P=2, S=4, 8 operations", 0,
		.workers = 2, .slots = 4, .window = 2, .ops = 8, .generations = 1, .is_chip = true),
	ROW("n=3, a chip, P=1, S=2, 8 operations", 0,
		.workers = 3, .slots = 2, .window = 1, .ops = 8, .generations = 1, .is_chip = true),
	ROW("n=2, a chip, P=1, S=2, near the wrap", 0,
		.workers = 2, .slots = 2, .window = 1, .ops = 8, .generations = 1,
		.first = 0x1fffffffc, .is_chip = true),
	ROW("n=2, a chip, P=1, S=2, 4 operations, a restart", 0,
		.workers = 2, .slots = 2, .window = 1, .ops = 4, .generations = 2, .is_chip = true),
	ROW("n=2, a chip, P=S=2, ACK, 8 operations", 0,
		.workers = 2, .slots = 2, .window = 2, .ops = 8, .generations = 1, .is_chip = true),
	ROW("n=2, a chip, P=S=2, ACK, near the wrap", 0,
		.workers = 2, .slots = 2, .window = 2, .ops = 8, .generations = 1,
		.first = 0x1fffffffc, .is_chip = true),
	ROW("n=2, a chip, P=S=2, ACK, 3 operations, a restart", 0,
		.workers = 2, .slots = 2, .window = 2, .ops = 3, .generations = 2, .is_chip = true),
	ROW("n=3, a chip, P=S=1, ACK, 3 operations", 0,
		.workers = 3, .slots = 1, .window = 1, .ops = 3, .generations = 1, .is_chip = true),
	ROW("n=3, P=2, S=4, 5 operations, a restart", SEARCH_LONG,
		.workers = 3, .slots = 4, .window = 2, .ops = 5, .generations = 2),
	ROW("n=3, P=2, S=3, ACK, 6 operations", SEARCH_LONG,
		.workers = 3, .slots = 3, .window = 2, .ops = 6, .generations = 1),
};
/* clang-format on */
const struct search_rows search_rows_latency = { rows, sizeof(rows) / sizeof(rows[0]) };
