/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast do the kernels of weaved bit planes go, and what do they read? Per instruction set and number of
 * bits: ns per feature and bit of the dot product and of the addition to the gradient, with few rows (all in
 * L2), with rows from memory in order, and with these shuffled, in turns, median of 5; then what is done once
 * per mini-batch, and the bytes of planes read per row against dense float32. Give a factor (default 1) to
 * measure longer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "glm/weave.h"
#include "glm/weave_ops.h"

enum {
	FEATURES = 5000,
	ROWS_NEAR = 16,
	ROWS_FAR = 16384, /* 640 bytes a row and plane: 10 MB a plane */
	BATCH = 8,        /* rows of a call */
	TURNS = 5,
	TABLES_MAX = 3,
	RUN_NS = 4000000,
};

/* Which rows: the first `rows`, each `step` after the one before. */
static const struct place {
	const char *name;
	uint32_t rows, step;
} places[] = { { "near", ROWS_NEAR, 1 },
	       { "memory", ROWS_FAR, 1 },
	       { "shuffled", ROWS_FAR, 7919 } };

enum op { OP_DOT, OP_ADD, OP_COUNT };
static const char *const op_names[OP_COUNT] = { "dot", "add" };

/* What is done once per mini-batch, or per row of the file. */
enum once { ONCE_MODEL, ONCE_GRADIENT, ONCE_APPEND, ONCE_COUNT };
static const char *const once_names[ONCE_COUNT] = { "model_set", "gradient", "append_dense" };

static struct weave weave;
static struct weave_model model;
static struct weave_range ranges[FEATURES];
static float values[FEATURES], weights[FEATURES], sums[FEATURES + WEAVE_BLOCK];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static float uniform(void)
{
	static uint64_t random = 1;

	random = random * 6364136223846793005 + 1442695040888963407;
	return (float)(int32_t)(uint32_t)(random >> 32) * 0x1p-31f;
}

static void *memory_get(size_t bytes)
{
	void *memory =
		aligned_alloc(WEAVE_ALIGN, (bytes + WEAVE_ALIGN - 1) / WEAVE_ALIGN * WEAVE_ALIGN);

	if (!memory) {
		fprintf(stderr, "weave_bench: no memory\n");
		exit(1);
	}
	return memory;
}

static void fill(void)
{
	for (uint32_t j = 0; j < FEATURES; j++) {
		ranges[j] = (struct weave_range){ .low = -1, .high = 1 };
		weights[j] = uniform() / 16;
	}
	weave_init(&weave, memory_get(weave_bytes(ROWS_FAR, FEATURES, WEAVE_BITS_MAX)), ROWS_FAR,
		   FEATURES, WEAVE_BITS_MAX, ranges);
	for (uint32_t r = 0; r < ROWS_FAR; r++) {
		for (uint32_t j = 0; j < FEATURES; j++)
			values[j] = uniform();
		weave_append_dense(&weave, values);
	}
	weave_model_init(&model, memory_get(weave_model_bytes(FEATURES)), FEATURES);
}

static volatile int64_t sink;

static void batch_run(enum op op, const struct place *place, uint64_t first, uint32_t bits)
{
	uint32_t row[BATCH];
	float scale[BATCH];
	int64_t partial[BATCH];

	for (uint32_t i = 0; i < BATCH; i++) {
		row[i] = (uint32_t)((first + i) * place->step % place->rows);
		scale[i] = (float)i * 0x1p-10f;
	}
	if (op == OP_DOT) {
		weave_dot(&weave, &model, row, BATCH, partial);
		sink = partial[0];
	} else {
		weave_add(&weave, bits, row, scale, BATCH, sums);
	}
}

/* ns per row; goes on at row *at of the order. */
static double op_measure(enum op op, const struct place *place, uint32_t bits, uint64_t *at,
			 uint64_t run_ns)
{
	uint64_t start = now_ns(), end = start, done = 0;

	while (end - start < run_ns) {
		for (int i = 0; i < 4; i++, done += BATCH, *at += BATCH)
			batch_run(op, place, *at, bits);
		end = now_ns();
	}
	return (double)(end - start) / (double)done;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void line_print(enum op op, const struct place *place, uint32_t bits, uint64_t run_ns)
{
	double ns[TABLES_MAX][TURNS];
	uint64_t at[TABLES_MAX] = { 0 };
	size_t count;
	const struct weave_ops *const *tables = weave_ops_all(&count);

	weave_model_set(&model, ranges, weights, 1, bits, WEAVE_FRACTION);
	for (int turn = 0; turn < TURNS; turn++) {
		for (size_t i = 0; i < count; i++) {
			weave.ops = tables[i];
			ns[i][turn] = op_measure(op, place, bits, &at[i], run_ns);
		}
	}
	printf("%-4s %-8s %5u", op_names[op], place->name, bits);
	for (size_t i = 0; i < count; i++) {
		qsort(ns[i], TURNS, sizeof(ns[i][0]), by_value);
		printf(" %9.4f", ns[i][TURNS / 2] / FEATURES / bits);
		if (i > 0)
			printf(" %5.1fx", ns[0][TURNS / 2] / ns[i][TURNS / 2]);
	}
	printf("\n");
}

static void once_run(enum once once)
{
	switch (once) {
	case ONCE_MODEL:
		weave_model_set(&model, ranges, weights, 1, 4, WEAVE_FRACTION);
		break;
	case ONCE_GRADIENT:
		weave_gradient(&weave, 4, sums, 1, values, 1);
		break;
	case ONCE_APPEND:
		weave.rows = 0;
		weave_append_dense(&weave, values);
		weave.rows = ROWS_FAR;
		break;
	case ONCE_COUNT:
		break;
	}
}

static void once_print(enum once once, uint64_t run_ns)
{
	double ns[TURNS];

	for (int turn = 0; turn < TURNS; turn++) {
		uint64_t start = now_ns(), end = start, done = 0;

		for (; end - start < run_ns; done++, end = now_ns())
			once_run(once);
		ns[turn] = (double)(end - start) / (double)done;
	}
	qsort(ns, TURNS, sizeof(ns[0]), by_value);
	printf("%-12s %9.4f ns per feature\n", once_names[once], ns[TURNS / 2] / FEATURES);
}

static void bytes_print(void)
{
	double dense = (double)FEATURES * sizeof(float);

	printf("\nbytes of planes per row, of %.0f as float32, and against bits / 32 of that\n",
	       dense);
	for (uint32_t bits = 1; bits <= WEAVE_BITS_MAX; bits++) {
		double bytes = (double)weave_row_bytes(&weave, bits);
		double lines = (double)weave.stride * sizeof(uint64_t) * bits;
		printf("%u bits: %5.0f (%.4f), in cache lines %5.0f (%.4f)\n", bits, bytes,
		       bytes / dense * 32 / bits, lines, lines / dense * 32 / bits);
	}
}

int main(int argc, char **argv)
{
	char *end = NULL;
	double factor = argc > 1 ? strtod(argv[1], &end) : 1;
	uint64_t run_ns;
	size_t count;
	const struct weave_ops *const *tables = weave_ops_all(&count);

	if (argc > 2 || (end && (*end || end == argv[1])) || !(factor > 0 && factor <= 1000)) {
		fprintf(stderr, "usage: weave_bench [FACTOR], above 0 and up to 1000\n");
		return 2;
	}
	run_ns = (uint64_t)(RUN_NS * factor);
	fill();
	printf("ns per feature and bit, %u features, median of %d; and scalar / this\n%-4s %-8s "
	       "%5s",
	       FEATURES, TURNS, "op", "rows", "bits");
	for (size_t i = 0; i < count; i++)
		printf(i ? " %9s       " : " %9s", tables[i]->name);
	printf("\n");
	for (enum op op = 0; op < OP_COUNT; op++) {
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			for (uint32_t bits = 1; bits <= WEAVE_BITS_MAX; bits++)
				line_print(op, &places[i], bits, run_ns);
		}
	}
	for (enum once once = 0; once < ONCE_COUNT; once++)
		once_print(once, run_ns);
	bytes_print();
	return 0;
}
