/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - tally-search: visits every reachable state of the shipped protocol code, row by row. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search/diagram.h"
#include "search/record.h"
#include "search/rows.h"
#include "search/slow.h"

struct options {
	const char *row; /* NULL: all */
	uint64_t states_max;
	bool is_row_name; /* of just one, not a part of names */
	bool is_violation_expected, is_long, is_list, is_diagram;
};

static void usage(FILE *out)
{
	fprintf(out,
		"usage: tally-search [--row NAME] [--long] [--list] [--expect-violation] "
		"[--diagram]\n"
		"       [--states-max N]\n"
		"Visits every state that the shipped protocol code can reach, breadth first.\n"
		"  --row NAME           only the row NAME; if there is none, rows whose name "
		"contains NAME\n"
		"  --long               rows that take minutes, too\n"
		"  --list               only the names of these rows, one a line\n"
		"  --expect-violation   without a rule (ABLATE=NAME): done when it is caught\n"
		"  --diagram            a trace is drawn, with a column for each who acts in it\n"
		"  --states-max N       gives up after N states (default 40,000,000)\n"
		"Exit status: 0 as expected, 1 not, 2 wrong command line.\n");
}

/* Decimal digits and nothing else, at least one state. */
static bool number_read(const char *text, uint64_t *number)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return !*end && !errno && *number;
}

static bool is_wanted(const struct options *options, const struct search_row *row)
{
	if (options->row && !(options->is_row_name ? !strcmp(row->name, options->row)
						   : !!strstr(row->name, options->row)))
		return false;
	return !(row->how & SEARCH_LONG) || options->is_long;
}

static void say(const struct search_row *row, const struct bfs_result *result)
{
	if (result->violation)
		printf("%-72s caught in %u steps%s: %s\n", row->name, result->steps,
		       row->how & SEARCH_CAUGHT ? ", as it must be" : "", result->violation);
	else
		printf("%-72s %9llu states, depth %3u, %5.1f s: %s\n", row->name,
		       (unsigned long long)result->states, result->depth, result->seconds,
		       result->is_complete ? "0 violations" : "NOT COMPLETE");
	fflush(stdout);
}

/* Back to the row, from a step that core itself calls impossible (CORE_ASSERT), or the model. */
static sigjmp_buf row_broken;

static void assertion_failed(int signal_number)
{
	siglongjmp(row_broken, signal_number);
}

static struct bfs_result run_sound_row(const struct search_row *row, const struct options *options,
				       uint64_t states_max)
{
	bool is_drawn = options->is_diagram && !(row->how & SEARCH_CAUGHT);
	struct bfs_result result;
	struct bfs_model model;
	size_t bytes = 0;
	char *trace = NULL;
	FILE *out = row->how & SEARCH_CAUGHT ? NULL : stdout;

	if (is_drawn)
		out = open_memstream(&trace, &bytes);
	if (is_drawn && !out) {
		perror("tally-search: a trace");
		exit(1);
	}
	row->model(&model, row->config);
	result = model.record ? record_run(&model, states_max)
			      : bfs_run(&model, states_max, out, isatty(STDERR_FILENO));
	if (!is_drawn)
		return result;
	fclose(out);
	if (result.violation)
		diagram_draw(trace, stdout);
	free(trace);
	return result;
}

static struct bfs_result run_row(const struct search_row *row, const struct options *options,
				 uint64_t states_max)
{
	if (sigsetjmp(row_broken, 1)) { /* what it had in memory is lost, and the row is over */
		record_stop();
		return (struct bfs_result){
			.violation = "an assertion of core's or the model's; a debugger shows which"
		};
	}
	return run_sound_row(row, options, states_max);
}

static bool is_row_name(const char *name)
{
	const struct search_row *row;

	for (uint32_t i = 0; (row = search_row(i)); i++)
		if (!strcmp(row->name, name))
			return true;
	return false;
}

static bool has_rows(const struct options *options)
{
	const struct search_row *row;

	for (uint32_t i = 0; (row = search_row(i)); i++)
		if (is_wanted(options, row))
			return true;
	fprintf(stderr, "tally-search: --row %s: there is no such row%s\n", options->row,
		options->is_long ? "" : ", or with --long alone");
	return false;
}

static bool run_all(const struct options *options)
{
	const struct search_row *row;
	bool is_clean = true;

	for (uint32_t i = 0; (row = search_row(i)); i++) {
		struct bfs_result result;

		if (!is_wanted(options, row))
			continue;
		result = run_row(row, options, options->states_max);
		say(row, &result);
		is_clean &= row->how & SEARCH_CAUGHT ? !!result.violation : result.is_complete;
	}
	return is_clean;
}

static void list(const struct options *options)
{
	const struct search_row *row;

	for (uint32_t i = 0; (row = search_row(i)); i++)
		if (is_wanted(options, row))
			puts(row->name);
}

/* A short look into every row first, then longer ones: one trace is enough, and its row is not known. */
static bool find_violation(const struct options *options)
{
	const struct search_row *row;

	for (uint64_t next = 1000, states = 0; states < options->states_max; next *= 20) {
		states = next < options->states_max ? next : options->states_max;
		for (uint32_t i = 0; (row = search_row(i)); i++) {
			struct bfs_result result;

			if (!is_wanted(options, row) || row->how & SEARCH_CAUGHT)
				continue;
			result = run_row(row, options, states);
			if (!result.violation)
				continue;
			say(row, &result);
			return true;
		}
	}
	printf("not caught\n");
	return false;
}

int main(int argc, char **argv)
{
	struct options options = { .states_max = 40000000 };

	signal(SIGILL, assertion_failed);
	signal(SIGABRT, assertion_failed);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			usage(stdout);
			return 0;
		} else if (!strcmp(argv[i], "--expect-violation")) {
			options.is_violation_expected = true;
			slow_leave_out();
		} else if (!strcmp(argv[i], "--diagram")) {
			options.is_diagram = true;
		} else if (!strcmp(argv[i], "--long")) {
			options.is_long = true;
		} else if (!strcmp(argv[i], "--list")) {
			options.is_list = true;
		} else if (!strcmp(argv[i], "--row") && i + 1 < argc) {
			options.row = argv[++i];
		} else if (!strcmp(argv[i], "--states-max") && i + 1 < argc) {
			if (number_read(argv[++i], &options.states_max))
				continue;
			fprintf(stderr, "tally-search: --states-max %s: a number, at least 1\n",
				argv[i]);
			return 2;
		} else {
			fprintf(stderr, "tally-search: what is '%s'?\n", argv[i]);
			usage(stderr);
			return 2;
		}
	}
	options.is_row_name = options.row && is_row_name(options.row);
	if (!has_rows(&options))
		return 2;
	if (options.is_list) {
		list(&options);
		return 0;
	}
	if (options.is_violation_expected)
		return find_violation(&options) ? 0 : 1;
	return run_all(&options) ? 0 : 1;
}
