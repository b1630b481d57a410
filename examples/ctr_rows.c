/* SPDX-License-Identifier: Apache-2.0 */
/* ctr_rows.c - rows of ctr.c: read from files, or made. */
#include "examples/ctr.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	HELD_OUT = 5,
	GENERATED_FIELDS = 10,
	GENERATED_VALUES = 200, /* of a field */
};

void die(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

void check(int result)
{
	if (result)
		die("%s", tally_get_last_error(NULL));
}

void *memory(void *old, size_t count, size_t bytes)
{
	void *at = count > SIZE_MAX / bytes ? NULL : realloc(old, count * bytes + 1);

	if (!at)
		die("out of memory");
	return at;
}

uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

double uniform(uint64_t *state)
{
	return (double)(draw(state) >> 11) * 0x1p-53;
}

static void feature_add(struct rows *rows, uint64_t key, float x)
{
	if (rows->features == rows->features_room) {
		rows->features_room = 2 * rows->features_room + 1024;
		rows->key = memory(rows->key, rows->features_room, sizeof(*rows->key));
		rows->x = memory(rows->x, rows->features_room, sizeof(*rows->x));
	}
	rows->key[rows->features] = key;
	rows->x[rows->features++] = x;
}

static void row_begin(struct rows *rows, bool is_click)
{
	if (rows->count + 1 >= rows->room) {
		rows->room = 2 * rows->room + 1024;
		rows->begin = memory(rows->begin, rows->room, sizeof(*rows->begin));
		rows->label = memory(rows->label, rows->room, sizeof(*rows->label));
	}
	rows->begin[rows->count] = rows->features;
	rows->label[rows->count++] = is_click ? 1 : 0;
	feature_add(rows, CTR_BIAS, 1);
}

void rows_free(struct rows *rows)
{
	free(rows->begin);
	free(rows->label);
	free(rows->key);
	free(rows->x);
}

/* "+1 3:1 77:0.5" */
static const char *libsvm_row(struct rows *rows, const char *at)
{
	char *end;
	double label = strtod(at, &end);

	if (end == at)
		return "no label";
	row_begin(rows, label > 0);
	for (at = end; *(at += strspn(at, " \t")); at = end) {
		uint64_t key = strtoull(at, &end, 10);

		if (end == at || *end != ':')
			return "not INDEX:VALUE";
		if (key == CTR_BIAS)
			return "index 0: that is the bias's";
		at = end + 1;
		feature_add(rows, key, strtof(at, &end));
		if (end == at)
			return "not INDEX:VALUE";
	}
	return NULL;
}

/* The keys of `tally hot`, docs/hot.md: FNV-1a of "C14=68fd1e64", of "I3=7". */
static uint64_t hash(const char *column, const char *value)
{
	uint64_t sum = 0xcbf29ce484222325;

	for (; *column; column++)
		sum = (sum ^ (unsigned char)*column) * 0x100000001b3;
	for (; *value; value++)
		sum = (sum ^ (unsigned char)*value) * 0x100000001b3;
	return sum;
}

/* Of Criteo's logs: label, 13 numbers, 26 categories. */
static const char *criteo_row(struct rows *rows, char *at)
{
	char *field = strsep(&at, "\t");

	if (strcmp(field, "0") != 0 && strcmp(field, "1") != 0)
		return "the label is not 0 or 1";
	row_begin(rows, *field == '1');
	for (int i = 1; i <= 39; i++) {
		char column[16], text[32];
		long long number;

		field = strsep(&at, "\t");
		if (!field)
			return "not 40 fields";
		if (!*field)
			continue;
		snprintf(column, sizeof(column), "%c%d=", i <= 13 ? 'I' : 'C',
			 i <= 13 ? i : i - 13);
		number = i <= 13 ? atoll(field) : 0;
		if (number > 2)
			snprintf(text, sizeof(text), "%lld",
				 (long long)(log((double)number) * log((double)number)));
		else
			snprintf(text, sizeof(text), "S%lld", number);
		feature_add(rows, hash(column, i <= 13 ? text : field), 1);
	}
	return NULL;
}

static void rows_read(struct rows *rows, const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0, number = 0;

	if (!file)
		die("%s: %s", path, strerror(errno));
	while (getline(&line, &room, file) > 0) {
		const char *wrong;

		number++;
		line[strcspn(line, "\r\n")] = 0;
		if (!line[strspn(line, " \t")])
			continue;
		wrong = line[strcspn(line, "\t")] ? criteo_row(rows, line) : libsvm_row(rows, line);
		if (wrong)
			die("%s:%zu: %s", path, number, wrong);
	}
	free(line);
	fclose(file);
	if (!rows->count)
		die("%s: no rows", path);
	rows->begin[rows->count] = rows->features;
}

/* A number that follows from the key: what the generator knows and training has to find. */
static double hidden(uint64_t key, uint64_t which)
{
	uint64_t state = key * 0x100000001b3 + which;

	return 2 * uniform(&state) - 1;
}

/* Fields with few common values and many rare ones; some go together with others. */
int rows_generate(void)
{
	uint64_t state = want.seed;

	for (uint64_t row = 0; row < want.generate; row++) {
		uint64_t key[GENERATED_FIELDS];
		double score = -1.2, sum = 0, squares = 0;

		for (uint32_t i = 0; i < GENERATED_FIELDS; i++) {
			double u = uniform(&state);

			key[i] = 1 + (uint64_t)i * GENERATED_VALUES +
				 (uint64_t)pow(GENERATED_VALUES, u) - 1;
			score += 0.9 * hidden(key[i], 1);
			sum += hidden(key[i], 2);
			squares += hidden(key[i], 2) * hidden(key[i], 2);
		}
		score += 0.3 * (sum * sum - squares);
		printf("%d", uniform(&state) < 1 / (1 + exp(-score)) ? 1 : -1);
		for (uint32_t i = 0; i < GENERATED_FIELDS; i++)
			printf(" %" PRIu64 ":1", key[i]);
		putchar('\n');
	}
	return fflush(stdout) ? 1 : 0;
}

static void rows_hold_out(struct rows *rows, struct rows *test)
{
	struct rows left = { 0 };

	for (size_t i = 0; i < rows->count; i++) {
		struct rows *to = i % HELD_OUT == HELD_OUT - 1 ? test : &left;

		row_begin(to, rows->label[i] > 0);
		for (size_t k = rows->begin[i] + 1; k < rows->begin[i + 1]; k++)
			feature_add(to, rows->key[k], rows->x[k]);
	}
	if (!test->count)
		die("%s: fewer than %d rows", want.train, HELD_OUT);
	left.begin[left.count] = left.features;
	test->begin[test->count] = test->features;
	rows_free(rows);
	*rows = left;
}

static int by_key(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
}

size_t keys_sort(uint64_t *key, size_t count)
{
	size_t kept = 0;

	qsort(key, count, sizeof(*key), by_key);
	for (size_t i = 0; i < count; i++)
		if (!i || key[i] != key[i - 1])
			key[kept++] = key[i];
	return kept;
}

size_t keys_find(const uint64_t *key, size_t count, uint64_t wanted)
{
	const uint64_t *found = bsearch(&wanted, key, count, sizeof(*key), by_key);

	return (size_t)(found - key);
}

void rows_load(struct rows *rows, struct rows *test)
{
	rows_read(rows, want.train);
	if (want.test)
		rows_read(test, want.test);
	else
		rows_hold_out(rows, test);
	if (!want.is_reference)
		return;
	want.keys = rows->features + test->features;
	want.key = memory(NULL, want.keys, sizeof(*want.key));
	memcpy(want.key, rows->key, rows->features * sizeof(*want.key));
	memcpy(want.key + rows->features, test->key, test->features * sizeof(*want.key));
	want.keys = keys_sort(want.key, want.keys);
}
