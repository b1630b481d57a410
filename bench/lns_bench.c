/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How precise are sums of floats that a switch makes? Table 2 of Libra (arXiv 2205.05243), by tables of
 * logarithms (core/sparse/lns.h) and by integers (core/shared/quant.h: an exponent agreed per chunk), and then how that
 * goes on with more than two addends. Precision is 1 - |sum - true sum| / |true sum|, and not below 0; the
 * true sum is made in double. Pairs of two zeros are left out.
 *
 *     lns_bench [--seed N] [FILE...]
 *
 * FILEs are gradients: float32, little-endian, nothing else; the first is added to the second, the third to
 * the fourth, element by element, so these two are as long.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/quant.h"
#include "core/sparse/lns.h"
#include "util/rng.h"

enum {
	CHUNK = 360, /* elements that share an exponent, as in a packet of dense mode */
	RANDOM_PAIRS = 1000080,
	CHAINS = 20000,
	ADDENDS_MAX = 1024,
};

struct pairs {
	float *x, *y;
	size_t count, room;
};

static struct lns_tables tables;
static struct rng rng;

static void *grown(void *old, size_t count, size_t bytes)
{
	void *memory = realloc(old, (count ? count : 1) * bytes);

	if (!memory) {
		fprintf(stderr, "lns_bench: no memory\n");
		exit(1);
	}
	return memory;
}

static void pair_add(struct pairs *pairs, float x, float y)
{
	if (pairs->count == pairs->room) {
		pairs->room = pairs->room ? 2 * pairs->room : 1024;
		pairs->x = grown(pairs->x, pairs->room, sizeof(*pairs->x));
		pairs->y = grown(pairs->y, pairs->room, sizeof(*pairs->y));
	}
	pairs->x[pairs->count] = x;
	pairs->y[pairs->count++] = y;
}

static void pairs_free(struct pairs *pairs)
{
	free(pairs->x);
	free(pairs->y);
	*pairs = (struct pairs){ 0 };
}

/* ---- the two ways ---- */

static uint32_t word_of(float number)
{
	uint32_t bits, flags = 0;

	memcpy(&bits, &number, sizeof(bits));
	return lns_word(&tables, bits, &flags);
}

static double number_of(uint32_t word)
{
	uint32_t bits = lns_float(&tables, word);
	float number;

	memcpy(&number, &bits, sizeof(number));
	return (double)number;
}

static void tables_add(const struct pairs *pairs, double *sum)
{
	uint32_t flags = 0;

	for (size_t i = 0; i < pairs->count; i++)
		sum[i] = number_of(
			lns_add(&tables, word_of(pairs->x[i]), word_of(pairs->y[i]), &flags));
}

static void integers_add(const struct pairs *pairs, double *sum)
{
	for (size_t i = 0; i < pairs->count; i += CHUNK) {
		size_t count = pairs->count - i < CHUNK ? pairs->count - i : CHUNK;
		uint32_t exponent_x = quant_scalar.exponent_f32(pairs->x + i, count);
		uint32_t exponent_y = quant_scalar.exponent_f32(pairs->y + i, count);
		int32_t x[CHUNK], y[CHUNK];
		struct quant_scale scale;
		float got[CHUNK];

		quant_scale(&scale, 2, exponent_x > exponent_y ? exponent_x : exponent_y);
		quant_scalar.pack_f32(x, pairs->x + i, count, &scale);
		quant_scalar.pack_f32(y, pairs->y + i, count, &scale);
		for (size_t k = 0; k < count; k++)
			x[k] += y[k];
		quant_scalar.unpack_f32(got, x, count, &scale, false);
		for (size_t k = 0; k < count; k++)
			sum[i + k] = (double)got[k];
	}
}

/* ---- the table ---- */

static double precision_of(double got, double exact)
{
	double wrong = fabs(got - exact);

	return wrong == 0 ? 1 : exact == 0 ? 0 : fmax(0, 1 - wrong / fabs(exact));
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts. */
static void precision_print(double *precision, size_t count, const char *paper)
{
	double total = 0;

	if (!count) {
		printf(" %9u\n", 0);
		return;
	}
	qsort(precision, count, sizeof(*precision), by_value);
	for (size_t i = 0; i < count; i++)
		total += precision[i];
	printf(" %9zu  %7.2f %7.2f   %s\n", count, 100 * precision[count / 2],
	       100 * total / (double)count, paper);
}

enum which { ALL, SAME_SIGN, OPPOSITE };

/* NULL: no such row in the paper. */
static void row_print(const char *way, const char *what, const struct pairs *pairs,
		      const double *sum, enum which which, const char *paper)
{
	double *precision = grown(NULL, pairs->count, sizeof(*precision));
	size_t count = 0;

	for (size_t i = 0; i < pairs->count; i++) {
		double x = (double)pairs->x[i], y = (double)pairs->y[i];

		if ((x == 0 && y == 0) || (which == SAME_SIGN && x * y < 0) ||
		    (which == OPPOSITE && !(x * y < 0)))
			continue;
		precision[count++] = precision_of(sum[i], x + y);
	}
	printf("%-18s %-34s", way, what);
	precision_print(precision, count, paper ? paper : "");
	free(precision);
}

/* What a set of pairs is called, and what the paper has for it. */
struct data {
	const char *name, *paper_tables, *paper_integers;
};

static void data_print(const struct data *data, const struct pairs *pairs)
{
	double *sum = grown(NULL, pairs->count, sizeof(*sum));

	tables_add(pairs, sum);
	row_print("tables", data->name, pairs, sum, ALL, data->paper_tables);
	row_print("tables", "  of one sign", pairs, sum, SAME_SIGN, NULL);
	row_print("tables", "  of opposite signs", pairs, sum, OPPOSITE, NULL);
	integers_add(pairs, sum);
	row_print("float-to-integer", data->name, pairs, sum, ALL, data->paper_integers);
	free(sum);
}

/* ---- the data ---- */

static float *file_read(const char *path, size_t *count)
{
	FILE *file = fopen(path, "rbe");
	size_t room = 1 << 16, got;
	float *numbers = NULL;

	if (!file) {
		fprintf(stderr, "lns_bench: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	*count = 0;
	do {
		room *= 2;
		numbers = grown(numbers, room, sizeof(*numbers));
		got = fread(numbers + *count, sizeof(*numbers), room - *count, file);
		*count += got;
	} while (*count == room);
	if (ferror(file)) {
		fprintf(stderr, "lns_bench: %s: cannot be read\n", path);
		exit(1);
	}
	fclose(file);
	for (size_t i = 0; i < *count; i++) {
		if (!isfinite(numbers[i])) {
			fprintf(stderr, "lns_bench: %s: number %zu is not finite\n", path, i);
			exit(1);
		}
	}
	return numbers;
}

static void files_print(char **paths, int count)
{
	static const struct data data = { "gradients", "99.92  99.87", "99.97  99.89" };
	struct pairs pairs = { 0 };

	for (int i = 0; i + 1 < count; i += 2) {
		size_t x_count, y_count;
		float *x = file_read(paths[i], &x_count), *y = file_read(paths[i + 1], &y_count);

		if (x_count != y_count) {
			fprintf(stderr, "lns_bench: %s and %s are not as long\n", paths[i],
				paths[i + 1]);
			exit(1);
		}
		for (size_t k = 0; k < x_count; k++)
			pair_add(&pairs, x[k], y[k]);
		free(x);
		free(y);
	}
	data_print(&data, &pairs);
	pairs_free(&pairs);
}

static float uniform(void)
{
	return (float)((double)(int32_t)(uint32_t)rng_next(&rng) * 0x1p-31);
}

/* Any sign and fraction, and any exponent of a normal number below 1. */
static float wild(void)
{
	uint32_t bits = (uint32_t)rng_next(&rng) & 0x807fffff;
	float number;

	bits |= (1 + rng_below(&rng, 126)) << 23;
	memcpy(&number, &bits, sizeof(number));
	return number;
}

static void random_print(void)
{
	static const struct data even = { "random, even in (-1, 1)", "100.00 99.84",
					  "36.79  62.46" };
	static const struct data any = { "random, any exponent below 1", NULL, NULL };
	struct pairs pairs = { 0 };

	for (int i = 0; i < RANDOM_PAIRS; i++) {
		float x = uniform();

		pair_add(&pairs, x, uniform());
	}
	data_print(&even, &pairs);
	pairs.count = 0;
	for (int i = 0; i < RANDOM_PAIRS; i++) {
		float x = wild();

		pair_add(&pairs, x, wild());
	}
	data_print(&any, &pairs);
	pairs_free(&pairs);
}

/* Sums of 2 to 1,024 random numbers, one after the other. */
static void chains_print(bool is_signed)
{
	double *precision = grown(NULL, CHAINS, sizeof(*precision));

	for (uint32_t addends = 2; addends <= ADDENDS_MAX; addends *= addends < 4 ? 2 : 4) {
		uint32_t flags = 0;
		char what[64];

		for (int i = 0; i < CHAINS; i++) {
			uint32_t word = 0;
			double exact = 0;

			for (uint32_t k = 0; k < addends; k++) {
				float number = is_signed ? uniform() : fabsf(uniform());

				word = lns_add(&tables, word, word_of(number), &flags);
				exact += (double)number;
			}
			precision[i] = precision_of(number_of(word), exact);
		}
		snprintf(what, sizeof(what), "%u random ones, even in %s", addends,
			 is_signed ? "(-1, 1)" : "(0, 1)");
		printf("%-18s %-34s", "tables", what);
		precision_print(precision, CHAINS, "");
	}
	free(precision);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "seed", required_argument, NULL, 's' },
						 { NULL, 0, NULL, 0 } };
	uint64_t seed = 1;
	char *end = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's')
			seed = strtoull(optarg, &end, 0);
		if (option != 's' || !*optarg || *end) {
			fprintf(stderr, "usage: lns_bench [--seed N] [FILE FILE]...\n");
			return 2;
		}
	}
	if ((argc - optind) % 2) {
		fprintf(stderr,
			"lns_bench: files are added up two by two, and here is an odd one\n");
		return 2;
	}
	rng_init(&rng, seed, 0);
	lns_tables_make(&tables);
	printf("precision of sums in %%, seed %llu\n%-18s %-34s %9s  %7s %7s   paper's\n",
	       (unsigned long long)seed, "way", "numbers", "sums", "median", "mean");
	if (argc > optind)
		files_print(argv + optind, argc - optind);
	random_print();
	chains_print(false);
	chains_print(true);
	return 0;
}
