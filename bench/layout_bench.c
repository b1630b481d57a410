/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often do packets of hot pairs recirculate in a chip? Figure 16 of Libra (arXiv 2205.05243), for a
 * stream of pushes whose keys are drawn by Zipf's law: ranks in random registers or by heat, packets filled
 * in the order of keys, by the paper's Algorithm 1 or by dealing (core/sparse/layout_sparse.h). A key's number says
 * nothing of its heat, and the hottest ranks are known: what sampling them costs is another question.
 *
 *     layout_bench [--plot FILE.svg] [--seed N] [--skew S] [--keys N] [--hot N] [--updates N] [--pushes N]
 *                  [--bytes N]
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/layout_stream.h"
#include "core/sparse/layout_sparse.h"
#include "util/plot.h"

enum { REGISTERS_MAX = 128 };

static const uint32_t registers_all[] = { 8, 16, 32, 64, REGISTERS_MAX };
enum { REGISTERS_COUNT = sizeof(registers_all) / sizeof(registers_all[0]) };

enum way { RANDOM, HEAT, ALGORITHM_1, DEALING, WAY_COUNT };
static const char *const way_names[WAY_COUNT] = { "random", "heat", "algorithm 1", "dealing" };

struct result {
	uint64_t packets, pairs, further, recirculated, again, passes_max;
};
static struct result results[REGISTERS_COUNT][WAY_COUNT];

/* ---- packing and counting ---- */

static uint32_t *rank_of, *reg, *scratch, chip[REGISTERS_MAX];
static struct layout_sparse_packing packing;
static uint32_t room;

static void buffers_open(void)
{
	size_t pairs = number[UPDATES];

	rank_of = memory_get(pairs, sizeof(*rank_of));
	reg = memory_get(pairs, sizeof(*reg));
	scratch = memory_get(layout_sparse_scratch((uint32_t)pairs, REGISTERS_MAX, room),
			     sizeof(*scratch));
	packing.order = memory_get(pairs, sizeof(*packing.order));
	packing.first = memory_get(pairs + 1, sizeof(*packing.first));
}

static void push_pack(enum way way, uint32_t count, uint32_t registers)
{
	for (uint32_t i = 0; i < count; i++)
		reg[i] = layout_sparse_register(way == RANDOM ? shuffled[rank_of[i]] : rank_of[i],
						registers);
	if (way == ALGORITHM_1)
		layout_sparse_orchestrate(&packing, reg, count, registers, room, scratch);
	else if (way == DEALING)
		layout_sparse_deal(&packing, reg, count, registers, room, scratch);
	else
		layout_sparse_fill(&packing, count, room);
}

static void push_count(struct result *result, uint32_t registers)
{
	for (uint32_t p = 0; p < packing.packets; p++) {
		struct layout_sparse_cost cost =
			layout_sparse_cost(&packing, p, reg, registers, chip);

		result->packets++;
		result->pairs += packing.first[p + 1] - packing.first[p];
		result->further += cost.further;
		result->recirculated += cost.passes > 1;
		result->again += cost.passes - 1;
		if (cost.passes > result->passes_max)
			result->passes_max = cost.passes;
	}
}

static void stream_run(void)
{
	for (uint32_t push = 1; push <= number[PUSHES]; push++) {
		uint32_t count = push_draw(rank_of, push);

		for (uint32_t r = 0; r < REGISTERS_COUNT; r++) {
			for (enum way way = 0; way < WAY_COUNT; way++) {
				push_pack(way, count, registers_all[r]);
				push_count(&results[r][way], registers_all[r]);
			}
		}
	}
}

/* ---- the table and the plot ---- */

static double per_packet(const struct result *result, uint64_t what)
{
	return result->packets ? (double)what / (double)result->packets : 0;
}

static void table_print(void)
{
	printf("Zipf %g over %llu keys, %llu hot; %llu pushes of %llu updates, %.1f hot pairs a "
	       "push; packets of %llu bytes, %u pairs; seed %llu\n\n",
	       skew, (unsigned long long)number[KEYS], (unsigned long long)number[HOT],
	       (unsigned long long)number[PUSHES], (unsigned long long)number[UPDATES],
	       (double)results[0][0].pairs / (double)number[PUSHES],
	       (unsigned long long)number[BYTES], room, (unsigned long long)number[SEED]);
	printf("%9s %-12s %12s %12s %15s %13s %15s %11s\n", "registers", "way", "packets/push",
	       "pairs/packet", "recirculations", "all at once", "recirculated %", "passes most");
	for (uint32_t r = 0; r < REGISTERS_COUNT; r++) {
		for (enum way way = 0; way < WAY_COUNT; way++) {
			const struct result *result = &results[r][way];

			printf("%9u %-12s %12.2f %12.2f %15.4f %13.4f %15.2f %11llu\n",
			       registers_all[r], way_names[way],
			       (double)result->packets / (double)number[PUSHES],
			       per_packet(result, result->pairs),
			       per_packet(result, result->further),
			       per_packet(result, result->again),
			       100 * per_packet(result, result->recirculated),
			       (unsigned long long)result->passes_max);
		}
	}
	printf("\nrecirculations, all at once: per packet; one for each pair that finds its "
	       "register touched, and if\neach time the packet comes by every register takes "
	       "one\n");
}

static bool plot_write(const char *path)
{
	FILE *gnuplot = plot_open("layout_bench");

	if (!gnuplot)
		return false;
	fprintf(gnuplot, "$ways << EOD\n");
	for (uint32_t r = 0; r < REGISTERS_COUNT; r++) {
		fprintf(gnuplot, "%u", registers_all[r]);
		for (enum way way = 0; way < WAY_COUNT; way++)
			fprintf(gnuplot, " %.9g",
				per_packet(&results[r][way], results[r][way].further));
		putc('\n', gnuplot);
	}
	fprintf(gnuplot,
		"EOD\nset terminal svg size 800,450\nset output '%s'\nset grid\nset key top right\n"
		"set title 'Zipf %g, packets of %llu bytes'\nset logscale x 2\nset xtics (8, 16, "
		"32, "
		"64, 128)\nset xlabel 'registers'\nset ylabel 'recirculations per packet'\n"
		"set xrange [7:150]\nset yrange [-0.2:*]\nplot ",
		path, skew, (unsigned long long)number[BYTES]);
	for (enum way way = 0; way < WAY_COUNT; way++)
		fprintf(gnuplot, "%s$ways using 1:%d with linespoints linewidth 2 title '%s'",
			way ? ", " : "", way + 2, way_names[way]);
	putc('\n', gnuplot);
	return plot_close(gnuplot, "layout_bench", path);
}

/* ---- options ---- */

static bool options_read(int argc, char **argv, const char **plot)
{
	enum { PLOT = STREAM_OPTION_END };
	static const struct option options[] = {
		STREAM_OPTIONS,
		{ "plot", required_argument, NULL, PLOT },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == PLOT)
			*plot = optarg;
		else if (!stream_option(option, optarg))
			return false;
	}
	room = layout_sparse_room((uint32_t)number[BYTES], 1);
	return optind == argc && stream_is_sound() && room > 0;
}

int main(int argc, char **argv)
{
	const char *plot = NULL;

	if (!options_read(argc, argv, &plot)) {
		fprintf(stderr,
			"usage: layout_bench [--plot FILE.svg] [--seed N] [--skew S] [--keys N] "
			"[--hot N] [--updates N]\n                    [--pushes N] [--bytes N]: "
			"hot up to keys, 48 bytes or more\n");
		return 2;
	}
	if (plot && !plot_check("layout_bench", plot, false))
		return 2;
	stream_open();
	buffers_open();
	stream_run();
	table_print();
	return plot && !plot_write(plot) ? 1 : 0;
}
