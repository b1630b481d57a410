/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often do packets of hot pairs recirculate in a chip? Figure 16 of Libra (arXiv 2205.05243), for a
 * stream of pushes whose keys are drawn by Zipf's law: ranks in random registers or by heat, packets filled
 * in the order of keys, by the paper's Algorithm 1 or by dealing (core/layout_sparse.h). A key's number says
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

#include "core/layout_sparse.h"
#include "util/rng.h"

enum { NUMBER_MAX = 100000000, REGISTERS_MAX = 128 };

static const uint32_t registers_all[] = { 8, 16, 32, 64, REGISTERS_MAX };
enum { REGISTERS_COUNT = sizeof(registers_all) / sizeof(registers_all[0]) };

enum way { RANDOM, HEAT, ALGORITHM_1, DEALING, WAY_COUNT };
static const char *const way_names[WAY_COUNT] = { "random", "heat", "algorithm 1", "dealing" };

/* clang-format off */
enum { SEED, KEYS, HOT, UPDATES, PUSHES, BYTES, NUMBER_COUNT };
static uint64_t number[NUMBER_COUNT] = {
	[SEED] = 1,
	[KEYS] = 1000000,
	[HOT] = 30000,    /* the paper's */
	[UPDATES] = 1000, /* drawn for a push, keys drawn again being one pair */
	[PUSHES] = 1000,
	[BYTES] = 192,    /* a chip has to parse all of a packet: the paper's limit */
};
/* clang-format on */
static double skew = 1.1;

struct result {
	uint64_t packets, pairs, further, recirculated, again, passes_max;
};
static struct result results[REGISTERS_COUNT][WAY_COUNT];

static void *memory_get(size_t count, size_t bytes)
{
	void *memory = calloc(count ? count : 1, bytes);

	if (!memory) {
		fprintf(stderr, "layout_bench: no memory\n");
		exit(1);
	}
	return memory;
}

/* ---- the stream ---- */

static struct rng rng;
static double *chance_up_to; /* of ranks 0 to this */
static uint32_t *drawn_in;   /* per rank: the last push that has it */
static uint32_t *shuffled;   /* per hot rank, for random registers */

static void stream_open(void)
{
	double sum = 0;

	rng_init(&rng, number[SEED], 0);
	chance_up_to = memory_get(number[KEYS], sizeof(*chance_up_to));
	drawn_in = memory_get(number[KEYS], sizeof(*drawn_in));
	shuffled = memory_get(number[HOT], sizeof(*shuffled));
	for (uint64_t rank = 0; rank < number[KEYS]; rank++)
		chance_up_to[rank] = sum += pow((double)(rank + 1), -skew);
	for (uint32_t rank = 0; rank < number[HOT]; rank++) {
		uint32_t other = rng_below(&rng, rank + 1);

		shuffled[rank] = shuffled[other];
		shuffled[other] = rank;
	}
}

static uint32_t rank_draw(void)
{
	double at = (double)(rng_next(&rng) >> 11) * 0x1p-53 * chance_up_to[number[KEYS] - 1];
	uint64_t low = 0, high = number[KEYS] - 1;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (chance_up_to[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return (uint32_t)low;
}

/* A rank has any key. */
static uint64_t key_of(uint32_t rank)
{
	struct rng hash;

	rng_init(&hash, rank, number[SEED]);
	return rng_next(&hash);
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = key_of(*(const uint32_t *)a), y = key_of(*(const uint32_t *)b);

	return (x > y) - (x < y);
}

/* The hot ranks of push number `push`, from 1, sorted by key; returns how many. */
static uint32_t push_draw(uint32_t *rank, uint32_t push)
{
	uint32_t count = 0;

	for (uint64_t i = 0; i < number[UPDATES]; i++) {
		uint32_t drawn = rank_draw();

		if (drawn < number[HOT] && drawn_in[drawn] != push)
			rank[count++] = drawn;
		drawn_in[drawn] = push;
	}
	qsort(rank, count, sizeof(*rank), by_key);
	return count;
}

/* ---- packing and counting ---- */

static uint32_t *rank_of, *reg, *scratch, chip[REGISTERS_MAX];
static struct layout_packing packing;
static uint32_t room;

static void buffers_open(void)
{
	size_t pairs = number[UPDATES];

	rank_of = memory_get(pairs, sizeof(*rank_of));
	reg = memory_get(pairs, sizeof(*reg));
	scratch =
		memory_get(layout_scratch((uint32_t)pairs, REGISTERS_MAX, room), sizeof(*scratch));
	packing.order = memory_get(pairs, sizeof(*packing.order));
	packing.first = memory_get(pairs + 1, sizeof(*packing.first));
}

static void push_pack(enum way way, uint32_t count, uint32_t registers)
{
	for (uint32_t i = 0; i < count; i++)
		reg[i] = layout_register(way == RANDOM ? shuffled[rank_of[i]] : rank_of[i],
					 registers);
	if (way == ALGORITHM_1)
		layout_orchestrate(&packing, reg, count, registers, room, scratch);
	else if (way == DEALING)
		layout_deal(&packing, reg, count, registers, room, scratch);
	else
		layout_fill(&packing, count, room);
}

static void push_count(struct result *result, uint32_t registers)
{
	for (uint32_t p = 0; p < packing.packets; p++) {
		struct layout_cost cost = layout_cost(&packing, p, reg, registers, chip);

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
	FILE *gnuplot = popen("gnuplot", "w");

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
	return pclose(gnuplot) == 0;
}

/* gnuplot draws onto our standard output if it cannot open the file. */
static bool plot_check(const char *path)
{
	const char *end = strrchr(path, '.');
	FILE *file;

	if (!end || strcmp(end, ".svg") != 0 || strpbrk(path, "'\\\n")) {
		fprintf(stderr, "layout_bench: --plot %s: FILE.svg, without quotes\n", path);
		return false;
	}
	if (system("command -v gnuplot >/dev/null 2>&1") != 0) {
		fprintf(stderr, "layout_bench: --plot: gnuplot is not installed\n");
		return false;
	}
	file = fopen(path, "ae");
	if (!file) {
		fprintf(stderr, "layout_bench: --plot %s: %s\n", path, strerror(errno));
		return false;
	}
	fclose(file);
	return true;
}

/* ---- options ---- */

static bool options_read(int argc, char **argv, const char **plot)
{
	enum { PLOT = NUMBER_COUNT, SKEW };
	static const struct option options[] = {
		{ "seed", required_argument, NULL, SEED },
		{ "keys", required_argument, NULL, KEYS },
		{ "hot", required_argument, NULL, HOT },
		{ "updates", required_argument, NULL, UPDATES },
		{ "pushes", required_argument, NULL, PUSHES },
		{ "bytes", required_argument, NULL, BYTES },
		{ "plot", required_argument, NULL, PLOT },
		{ "skew", required_argument, NULL, SKEW },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		char *end = NULL;

		if (option == PLOT) {
			*plot = optarg;
			continue;
		}
		if (option == SKEW)
			skew = strtod(optarg, &end);
		else if (option < NUMBER_COUNT)
			number[option] = strtoull(optarg, &end, 0);
		if (!end || end == optarg || *end || !(skew >= 0 && skew < 10))
			return false;
	}
	for (int i = KEYS; i < NUMBER_COUNT; i++)
		if (number[i] < 1 || number[i] > NUMBER_MAX)
			return false;
	room = layout_room((uint32_t)number[BYTES], 1);
	return optind == argc && number[HOT] <= number[KEYS] && room > 0;
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
	if (plot && !plot_check(plot))
		return 2;
	stream_open();
	buffers_open();
	stream_run();
	table_print();
	if (plot && !plot_write(plot)) {
		fprintf(stderr, "layout_bench: --plot: gnuplot could not write %s\n", plot);
		return 1;
	}
	return 0;
}
