/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.c - how exact are sums of floats? Each tensor's signal to noise, in dB, against the float64 sum: tally's in all
 * its forms, and beside them that of a ring that adds in float32. A rank of a job.
 *
 *     tally run -n 4 -- numbers [--json] [--plot FILE.svg] FOLDER    recorded gradients of 4 ranks (numbers_set.h)
 *     tally run -n 4 -- numbers [...] ELEMENTS                       made up: small numbers, and some large ones
 *
 * Exits with 1 if the error of a sum is above its bound (docs/numbers.md), if ranks have other bits than rank 0, if a
 * vector's float32 sum is more than 1 dB below the ring's; of one rank: if the sum is not what went in. 2: a file cannot
 * be read. bench/numbers.sh runs it with the MTUs that are not everywhere.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/numbers_sum.h"
#include "util/plot.h"

static const double allowed_db = 1;

static struct {
	const char *plot;
	bool is_json;
} settings;

/* --- what is shown; NAN and infinities are no JSON --- */

static void show_number(const char *name, double x)
{
	if (!settings.is_json)
		printf(" %8.1f", x);
	else if (isfinite(x))
		printf(",\"%s\":%.4g", name, x);
	else
		printf(",\"%s\":null", name);
}

static void show_head(const struct sums *sums)
{
	const struct set *set = sums->set;

	if (settings.is_json)
		return;
	printf("%s: %zu float32 of %d ranks, packets of %u lanes. Signal to noise in dB:\n%-18s "
	       "%8s %8s",
	       set->name, set->count, set->ranks, sums->lanes, "tensor", "elements", "below");
	for (enum way way = 0; way < WAYS; way++)
		printf(" %8s", way_names[way]);
	printf(" %8s %8s\n", "zeros", "a ring's");
}

static void show_tensor(const struct sums *sums, const struct tensor *tensor)
{
	struct quality of[WAYS];
	double below = quality_below(sums, tensor);

	for (enum way way = 0; way < WAYS; way++)
		of[way] = quality_of(sums, way, tensor);
	if (settings.is_json)
		printf("{\"set\":\"%s\",\"tensor\":\"%s\",\"elements\":%zu", sums->set->name,
		       tensor->name, tensor->count);
	else
		printf("%-18s %8zu", tensor->name, tensor->count);
	show_number("below", below);
	for (enum way way = 0; way < WAYS; way++)
		show_number(way_names[way], of[way].db);
	if (settings.is_json)
		printf(",\"zeros\":%zu,\"zeros_ring\":%zu}\n", of[WAY_WHOLE].zeros,
		       of[WAY_RING].zeros);
	else
		printf(" %8zu %8zu\n", of[WAY_WHOLE].zeros, of[WAY_RING].zeros);
}

static void show_worst(const struct sums *sums)
{
	const struct set *set = sums->set;
	const struct tensor *worst = set->tensor;
	double least = (double)INFINITY;

	for (size_t i = 0; i < set->tensors; i++) {
		double more = quality_of(sums, WAY_WHOLE, &set->tensor[i]).db -
			      quality_of(sums, WAY_RING, &set->tensor[i]).db;

		if (more < least) {
			least = more;
			worst = &set->tensor[i];
		}
	}
	if (settings.is_json)
		printf("{\"set\":\"%s\",\"worst\":\"%s\"", set->name, worst->name);
	else
		printf("worst: %s, %.1f dB %s a ring: its sums lie %.1f bits below their packets' "
		       "largest "
		       "element\nerror over bound, at most:",
		       worst->name, least < 0 ? -least : least, least < 0 ? "below" : "above",
		       quality_below(sums, worst));
	for (enum way way = 0; way < WAYS; way++) {
		if (way == WAY_RING)
			continue;
		if (settings.is_json)
			printf(",\"over_bound_%s\":%.4f", way_names[way], sums->over[way]);
		else
			printf("%s %s %.3f", way ? "," : "", way_names[way], sums->over[way]);
	}
	printf(settings.is_json ? "}\n" : "\n\n");
}

static const char bins_title[] =
	"right bits of an element 2^k times smaller than its packet's largest";

static const enum way bins_ways[] = { WAY_WHOLE, WAY_HALF, WAY_RING };

static void show_bins(const struct bins *bins)
{
	if (!settings.is_json)
		printf("%s\n%8s %8s %8s %8s %8s\n", bins_title, "k", "elements",
		       way_names[WAY_WHOLE], way_names[WAY_HALF], way_names[WAY_RING]);
	for (int k = 0; k < BINS; k++) {
		if (!bins->count[WAY_WHOLE][k])
			continue;
		if (settings.is_json)
			printf("{\"k\":%d,\"elements\":%zu", k, bins->count[WAY_WHOLE][k]);
		else
			printf("%8d %8zu", k, bins->count[WAY_WHOLE][k]);
		for (size_t i = 0; i < sizeof(bins_ways) / sizeof(bins_ways[0]); i++)
			show_number(way_names[bins_ways[i]], bins_bits(bins, bins_ways[i], k));
		printf(settings.is_json ? "}\n" : "\n");
	}
}

static bool plot(const struct bins *bins)
{
	FILE *gnuplot = plot_open("numbers");

	if (!gnuplot)
		return false;
	for (size_t i = 0; i < sizeof(bins_ways) / sizeof(bins_ways[0]); i++) {
		fprintf(gnuplot, "$%s << EOD\n", way_names[bins_ways[i]]);
		for (int k = 0; k < BINS; k++) {
			double bits = bins_bits(bins, bins_ways[i], k);

			if (isfinite(bits))
				fprintf(gnuplot, "%d %.4g\n", k, bits);
		}
		fprintf(gnuplot, "EOD\n");
	}
	fprintf(gnuplot,
		"set terminal svg size 800,420\nset output '%s'\nset grid\nset title \"%s\"\n"
		"set xlabel 'k'\nset ylabel 'bits'\nset yrange [0:32]\n"
		"plot $float32 with lines linewidth 2 title 'tally, float32', $half with lines "
		"linewidth 2 "
		"title 'tally, TALLY\\_OP\\_HALF', $ring with lines linewidth 2 title 'a ring of "
		"float32'\n",
		settings.plot, bins_title);
	return plot_close(gnuplot, "numbers", settings.plot);
}

/* --- one set after the other --- */

/* What is wrong is said on stderr. */
static bool judge(const struct sums *sums)
{
	const struct set *set = sums->set;
	const struct tensor all = { "all", 0, set->count };
	double tally, ring;
	bool is_good = true;

	if (set->ranks == 1) {
		is_good = sums_are_own(sums);
		if (!settings.is_json)
			printf("%s: %zu floats of one rank: %s\n", set->name, set->count,
			       is_good ? "the same bits" : "OTHER BITS");
		return is_good;
	}
	show_head(sums);
	for (size_t i = 0; i < set->tensors; i++)
		show_tensor(sums, &set->tensor[i]);
	if (set->tensors > 1)
		show_tensor(sums, &all);
	show_worst(sums);
	for (enum way way = 0; way < WAYS; way++) {
		if (way == WAY_RING || sums->over[way] <= 1)
			continue;
		fprintf(stderr, "numbers: %s: %s: an error is %.9g times its bound\n", set->name,
			way_names[way], sums->over[way]);
		is_good = false;
	}
	tally = quality_of(sums, WAY_WHOLE, &all).db;
	ring = quality_of(sums, WAY_RING, &all).db;
	if (tally < ring - allowed_db) {
		fprintf(stderr, "numbers: %s: %.1f dB, and a ring has %.1f\n", set->name, tally,
			ring);
		is_good = false;
	}
	return is_good;
}

static bool set_judge(const struct set *set, struct tally_comm *comm, struct bins *bins)
{
	struct sums sums;
	bool is_good;

	sums_open(&sums, set, comm);
	is_good = sums_agree(&sums, comm);
	if (!is_good)
		fprintf(stderr, "numbers: %s: ranks have other bits\n", set->name);
	if (tally_comm_rank(comm) == 0) {
		is_good = judge(&sums) && is_good;
		bins_add(bins, &sums);
	}
	sums_close(&sums);
	return is_good;
}

static bool all_judge(const char *what, struct tally_comm *comm, struct bins *bins)
{
	int ranks = (int)tally_comm_size(comm);
	char *end;
	unsigned long long elements = strtoull(what, &end, 10);
	struct set set;
	bool is_good = true;

	if (elements && !*end) {
		set_make_up(&set, ranks, (size_t)elements);
		is_good = set_judge(&set, comm, bins);
		set_free(&set);
	} else {
		size_t count;
		char **names = set_names(what, &count);

		for (size_t i = 0; i < count; i++) {
			set_read(&set, ranks, what, names[i]);
			is_good = set_judge(&set, comm, bins) && is_good;
			set_free(&set);
			free(names[i]);
		}
		free(names);
	}
	return is_good;
}

static const char *parse(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "plot", required_argument, NULL, 'p' },
						 { NULL, 0, NULL, 0 } };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'j')
			settings.is_json = true;
		else if (option == 'p' && plot_check("numbers", optarg, false))
			settings.plot = optarg;
		else
			exit(2);
	}
	if (optind != argc - 1) {
		fprintf(stderr, "usage: tally run -n N -- numbers [--json] [--plot FILE.svg] "
				"FOLDER | ELEMENTS\n");
		exit(2);
	}
	return argv[optind];
}

int main(int argc, char **argv)
{
	const char *what = parse(argc, argv);
	struct bins bins = { 0 };
	struct tally_comm *comm;
	bool is_good;

	sums_check(tally_comm_init_env(&comm, NULL), "init");
	if (tally_comm_size(comm) > RANKS_MAX) {
		fprintf(stderr, "numbers: at most %d ranks\n", RANKS_MAX);
		return 2;
	}
	is_good = all_judge(what, comm, &bins);
	if (tally_comm_rank(comm) == 0 && tally_comm_size(comm) > 1) {
		show_bins(&bins);
		is_good = (!settings.plot || plot(&bins)) && is_good;
	}
	sums_check(tally_comm_finalize(comm), "finalize");
	tally_comm_destroy(comm);
	return is_good ? 0 : 1;
}
