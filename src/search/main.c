/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - tally-search: visits every reachable state of the shipped protocol code, row by row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search/data.h"

static const struct data_config rows[] = {
	{ .name = "n=2, 4 chunks, a partial last one, EXPONENT and DETAIL rounds, set",
	  .workers = 2,
	  .pool = 1,
	  .generations = 1,
	  .ops_count = 3,
	  .ops = { { 16, true }, { 8, false }, { 3, true } },
	  .sticky = { 0x2, 0x8 } },
	{ .name = "n=2, 4 chunks in 2 slots, a partial last one, near the wrap, set",
	  .workers = 2,
	  .pool = 2,
	  .generations = 1,
	  .ops_count = 2,
	  .ops = { { 24, false }, { 3, false } },
	  .first_seq = 0xfffffffe },
	{ .name = "n=2, 4 chunks in 2 slots, EXPONENT and DETAIL rounds, set",
	  .workers = 2,
	  .pool = 2,
	  .generations = 1,
	  .ops_count = 2,
	  .ops = { { 16, true }, { 11, true } },
	  .sticky = { 0x1, 0 } },
	{ .name = "n=3, 2 chunks, EXPONENT and DETAIL rounds, set",
	  .workers = 3,
	  .pool = 1,
	  .generations = 1,
	  .ops_count = 2,
	  .ops = { { 8, true }, { 3, true } },
	  .sticky = { 0, 0, 0x2 } },
	{ .name = "n=2, 2 chunks, a restart, set",
	  .workers = 2,
	  .pool = 1,
	  .generations = 2,
	  .ops_count = 2,
	  .ops = { { 8, true }, { 3, false } } },
	{ .name = "n=2, 2 chunks, EXPONENT and DETAIL rounds, PROBE and NEED, fifo",
	  .workers = 2,
	  .pool = 1,
	  .generations = 1,
	  .ops_count = 2,
	  .ops = { { 8, true }, { 3, false } },
	  .sticky = { 0x1, 0 },
	  .is_fifo = true,
	  .first_seq = 0xfffffffe },
};

static void usage(FILE *out)
{
	fprintf(out,
		"usage: tally-search [--row N] [--expect-violation] [--states-max N]\n"
		"Visits every state that the shipped switch and worker can reach, breadth first.\n"
		"  --row N              only row N (0, 1, ...)\n"
		"  --expect-violation   for a build with a rule taken out: done when it is caught\n"
		"  --states-max N       gives up after N states (default 40,000,000)\n"
		"Exit status: 0 as expected, 1 not, 2 wrong command line.\n");
}

static bool run_row(uint32_t row, uint64_t states_max, bool is_violation_expected)
{
	struct bfs_result result;
	struct bfs_model model;

	data_model(&model, &rows[row]);
	result = bfs_run(&model, states_max, stdout, isatty(STDERR_FILENO));
	if (result.violation)
		printf("%-72s caught in %u steps: %s\n", rows[row].name, result.steps,
		       result.violation);
	else
		printf("%-72s %9llu states, depth %3u, %5.1f s: %s\n", rows[row].name,
		       (unsigned long long)result.states, result.depth, result.seconds,
		       result.is_complete ? "0 violations" : "NOT COMPLETE");
	fflush(stdout);
	if (is_violation_expected)
		return result.violation;
	return !result.violation && result.is_complete;
}

int main(int argc, char **argv)
{
	enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
	uint64_t states_max = 40000000;
	bool is_violation_expected = false;
	uint32_t first = 0, last = ROWS - 1, passed = 0;

	for (int i = 1; i < argc; i++) {
		char *end = NULL;

		if (!strcmp(argv[i], "--help")) {
			usage(stdout);
			return 0;
		} else if (!strcmp(argv[i], "--expect-violation")) {
			is_violation_expected = true;
		} else if (!strcmp(argv[i], "--row") && i + 1 < argc) {
			first = last = (uint32_t)strtoul(argv[++i], &end, 10);
		} else if (!strcmp(argv[i], "--states-max") && i + 1 < argc) {
			states_max = strtoull(argv[++i], &end, 10);
		} else {
			fprintf(stderr, "tally-search: what is '%s'?\n", argv[i]);
			usage(stderr);
			return 2;
		}
		if (end && *end) {
			fprintf(stderr, "tally-search: '%s' is not a number\n", argv[i]);
			return 2;
		}
	}
	if (last >= ROWS) {
		fprintf(stderr, "tally-search: rows are 0 to %d\n", ROWS - 1);
		return 2;
	}
	for (uint32_t row = first; row <= last; row++) {
		passed += run_row(row, states_max, is_violation_expected);
		if (is_violation_expected && passed)
			return 0; /* one trace is enough */
	}
	return passed == last - first + 1 ? 0 : 1;
}
