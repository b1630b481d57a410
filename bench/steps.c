/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.c - how good are guesses of exponents (R-WK-18)? Sums the gradients of consecutive steps, as a training would: a
 * blocking call for each tensor, or one for all. How many packets of a step are done again, and how exact its sums are
 * beside a ring that adds in float32. A rank of a job; bench/steps.sh runs it.
 *
 *     tally run -n 8 -- steps [--whole] FOLDER     recorded gradients of 8 ranks (numbers_set.h), of one model
 *
 * Exits with 1 if more than 2 % of the packets of a step are done again, in the median, or if the sums are less exact
 * than the ring's; with 2 if a file cannot be read. The first three steps are not counted: there is little to guess from.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/numbers_set.h"
#include "tally.h"

enum { NOT_COUNTED = 3, STEPS_MAX = 10000 };

static const double again_max = 0.02;

/* Of the steps that count. */
static struct {
	size_t count;
	double again[STEPS_MAX], guessed[STEPS_MAX], db[STEPS_MAX], ring_db[STEPS_MAX];
} found;

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "steps: %s: %s\n", what, tally_get_last_error(NULL));
	exit(1);
}

/* Each part of the vector begins at another rank, and goes round. */
static float ring_sum(const struct set *set, size_t i)
{
	size_t size = (size_t)set->ranks, part = i * size / set->count;
	float sum = set->own[part][i];

	for (size_t step = 1; step < size; step++)
		sum += set->own[(part + step) % size][i];
	return sum;
}

static double true_sum(const struct set *set, size_t i)
{
	double sum = 0;

	for (int rank = 0; rank < set->ranks; rank++)
		sum += (double)set->own[rank][i];
	return sum;
}

static double decibels(double signal, double noise)
{
	return noise > 0 ? 10 * log10(signal / noise) : (double)INFINITY;
}

static void judge(const struct set *set, const float *sums, size_t at)
{
	double signal = 0, noise = 0, ring_noise = 0;

	for (size_t i = 0; i < set->count; i++) {
		double is = true_sum(set, i), off = (double)sums[i] - is;
		double ring_off = (double)ring_sum(set, i) - is;

		signal += is * is;
		noise += off * off;
		ring_noise += ring_off * ring_off;
	}
	found.db[at] = decibels(signal, noise);
	found.ring_db[at] = decibels(signal, ring_noise);
}

/* In *sums what the library makes of a step. */
static void step_sum(const struct set *set, bool is_whole, struct tally_comm *comm, float *sums,
		     size_t at)
{
	const float *own = set->own[tally_comm_rank(comm)];
	struct tally_stats before = TALLY_STATS_INIT, after = TALLY_STATS_INIT;
	double packets;

	check(tally_comm_get_stats(comm, &before), "stats");
	for (size_t i = 0; i < (is_whole ? 1 : set->tensors); i++) {
		size_t first = is_whole ? 0 : set->tensor[i].first;
		size_t count = is_whole ? set->count : set->tensor[i].count;

		check(tally_allreduce(own + first, sums + first, count, TALLY_FLOAT32, TALLY_SUM,
				      comm),
		      set->name);
	}
	check(tally_comm_get_stats(comm, &after), "stats");
	packets = (double)(after.chunks_express + after.chunks_bulk - before.chunks_express -
			   before.chunks_bulk);
	found.again[at] = (double)(after.guesses_again - before.guesses_again) / packets;
	found.guessed[at] = (double)(after.guess_rounds - before.guess_rounds) / packets;
}

static int by_step(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts them. */
static double median(double *values)
{
	qsort(values, found.count, sizeof(*values), by_size);
	return values[found.count / 2];
}

/* One line. True if it is as good as it has to be. */
static bool show(const char *folder, bool is_whole)
{
	double least = (double)INFINITY, db, ring_db, again, guessed;

	for (size_t i = 0; i < found.count; i++)
		least = fmin(least, found.db[i] - found.ring_db[i]);
	db = median(found.db);
	ring_db = median(found.ring_db);
	guessed = median(found.guessed);
	again = median(found.again);
	printf("%-24s %-6s %5zu %8.1f %% %8.2f %% %8.2f %% %8.1f %8.1f %8.1f\n", folder,
	       is_whole ? "whole" : "apart", found.count, 100 * guessed, 100 * again,
	       100 * found.again[found.count - 1], db, ring_db, least);
	if (again > again_max)
		fprintf(stderr, "steps: %s: more than 2 %% of the packets are done again\n",
			folder);
	if (db < ring_db)
		fprintf(stderr, "steps: %s: the sums are less exact than a ring's\n", folder);
	return again <= again_max && db >= ring_db;
}

int main(int argc, char **argv)
{
	bool is_whole = argc == 3 && !strcmp(argv[1], "--whole"), is_good = true;
	struct tally_comm *comm = NULL;
	char **names;
	size_t steps;

	if (argc != 2 + is_whole) {
		fprintf(stderr, "usage: tally run -n RANKS -- steps [--whole] FOLDER\n");
		return 2;
	}
	check(tally_comm_init_env(&comm, NULL), "init");
	names = set_names(argv[1 + is_whole], &steps);
	qsort(names, steps, sizeof(*names), by_step);
	if (steps <= NOT_COUNTED || steps > STEPS_MAX) {
		fprintf(stderr, "steps: %s has %zu steps: from 4 to 10,000 may be there\n",
			argv[1 + is_whole], steps);
		return 2;
	}
	for (size_t i = 0; i < steps; i++) {
		size_t at = i < NOT_COUNTED ? 0 : i - NOT_COUNTED;
		struct set set;
		float *sums;

		set_read(&set, (int)tally_comm_size(comm), argv[1 + is_whole], names[i]);
		sums = memory_get(set.count, sizeof(*sums));
		step_sum(&set, is_whole, comm, sums, at);
		judge(&set, sums, at);
		free(sums);
		set_free(&set);
		free(names[i]);
	}
	free(names);
	found.count = steps - NOT_COUNTED;
	if (tally_comm_rank(comm) == 0)
		is_good = show(argv[1 + is_whole], is_whole);
	check(tally_comm_finalize(comm), "finalize");
	tally_comm_destroy(comm);
	return is_good ? 0 : 1;
}
