/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The golden numbers of tests/vectors/lns, run against core/sparse/lns.h: one test per case, named as its claim.
 * What the text may say is in tests/vectors/README.md; all else is an error. Argument: the directory.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/hash.h"
#include "core/sparse/lns.h"

enum { CASES_MAX = 64, LINES_MAX = 32, NAME_MAX_BYTES = 120 };

enum kind { TABLE, WORD, SUM, FLOAT, KIND_COUNT };
enum key { NAME, ENTRIES, FNV, BITS, IS, FLAGS, A, B, WORD_IN, KEY_COUNT };
#define HAS(key) (1u << (key))

static const struct {
	const char *name;
	uint32_t keys; /* all of these, and no other */
} kinds[KIND_COUNT] = {
	[TABLE] = { "table", HAS(NAME) | HAS(ENTRIES) | HAS(FNV) },
	[WORD] = { "word", HAS(BITS) | HAS(IS) | HAS(FLAGS) },
	[SUM] = { "sum", HAS(A) | HAS(B) | HAS(IS) | HAS(FLAGS) },
	[FLOAT] = { "float", HAS(WORD_IN) | HAS(IS) },
};
static const char *const keys[KEY_COUNT] = { "name",  "entries", "fnv", "bits", "is",
					     "flags", "a",       "b",   "word" };

static struct lns_tables tables;
static const struct {
	const char *name;
	const void *entry;
	size_t bytes;
} places[] = {
	{ "exponent", tables.exponent, sizeof(tables.exponent) },
	{ "log", tables.log, sizeof(tables.log) },
	{ "log_rest", tables.log_rest, sizeof(tables.log_rest) },
	{ "log_slope", tables.log_slope, sizeof(tables.log_slope) },
	{ "exp", tables.exp, sizeof(tables.exp) },
	{ "log_plus", tables.log_plus, sizeof(tables.log_plus) },
	{ "log_minus", tables.log_minus, sizeof(tables.log_minus) },
	{ "fraction", tables.fraction, sizeof(tables.fraction) },
};
enum { PLACE_COUNT = sizeof(places) / sizeof(places[0]) };

struct line {
	enum kind kind;
	uint64_t number[KEY_COUNT]; /* of name: which table */
};

struct golden {
	char name[NAME_MAX_BYTES];
	bool has_rule;
	struct line line[LINES_MAX];
	uint32_t line_count;
};

static struct golden *all[CASES_MAX];
static size_t all_count;

/* ---- reading ---- */

static bool value_read(enum key key, const char *text, uint64_t *number)
{
	char *end;

	if (key == NAME) {
		for (*number = 0; *number < PLACE_COUNT; ++*number)
			if (!strcmp(places[*number].name, text))
				return true;
		return false;
	}
	if (key == FLAGS) {
		*number = !strcmp(text, "SATURATED")   ? SPARSE_SATURATED
			  : !strcmp(text, "NONFINITE") ? SPARSE_NONFINITE
						       : 0;
		return *number || !strcmp(text, "none");
	}
	*number = strtoull(text, &end, 0);
	return *text && !*end;
}

static bool claim_read(struct golden *now, const char *keyword, char *rest)
{
	struct line *line = &now->line[now->line_count++];
	uint32_t seen = 0, kind = 0;

	while (kind < KIND_COUNT && strcmp(kinds[kind].name, keyword))
		kind++;
	if (kind == KIND_COUNT || now->line_count == LINES_MAX)
		return false;
	line->kind = (enum kind)kind;
	for (char *word; (word = strsep(&rest, " "));) {
		char *value = strchr(word, '=');
		uint32_t key = 0;

		if (!value)
			return false;
		*value++ = '\0';
		while (key < KEY_COUNT && strcmp(keys[key], word))
			key++;
		if (key == KEY_COUNT || seen & HAS(key) ||
		    !value_read((enum key)key, value, &line->number[key]))
			return false;
		seen |= HAS(key);
	}
	return seen == kinds[kind].keys;
}

static bool line_read(char *line)
{
	char *rest = line, *keyword = strsep(&rest, " ");
	struct golden *now = all_count ? all[all_count - 1] : NULL;

	if (!rest)
		return false;
	if (!strcmp(keyword, "case")) {
		if (all_count == CASES_MAX || strlen(rest) >= NAME_MAX_BYTES)
			return false;
		now = all[all_count++] = calloc(1, sizeof(*now));
		strcpy(now->name, rest);
		return true;
	}
	if (!now)
		return false;
	if (!strcmp(keyword, "rule"))
		return now->has_rule = !strncmp(rest, "R-LNS-", 6);
	return claim_read(now, keyword, rest);
}

static bool file_read(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[512];
	uint32_t number = 0;
	bool is_good = file != NULL;

	while (is_good && fgets(line, sizeof(line), file)) {
		number++;
		line[strcspn(line, "\n")] = '\0';
		is_good = !*line || *line == '#' || line_read(line);
	}
	for (size_t i = 0; is_good && i < all_count; i++)
		is_good = all[i]->has_rule && all[i]->line_count;
	if (!is_good)
		fprintf(stderr, "%s:%u: not as tests/vectors/README.md says\n", path, number);
	if (file)
		fclose(file);
	return is_good;
}

/* ---- comparing ---- */

static void line_holds(const struct line *line)
{
	const uint64_t *number = line->number;
	uint32_t flags = 0, flags_back = 0;

	switch (line->kind) {
	case TABLE:
		assert_int_equal(places[number[NAME]].bytes, 2 * number[ENTRIES]);
		assert_int_equal(hash_bytes(HASH_BEGIN, places[number[NAME]].entry,
					    places[number[NAME]].bytes),
				 number[FNV]);
		break;
	case WORD:
		assert_int_equal(lns_word(&tables, (uint32_t)number[BITS], &flags), number[IS]);
		assert_int_equal(flags, number[FLAGS]);
		break;
	case SUM:
		assert_int_equal(lns_add(&tables, (uint32_t)number[A], (uint32_t)number[B], &flags),
				 number[IS]);
		assert_int_equal(flags, number[FLAGS]);
		assert_int_equal(lns_add(&tables, (uint32_t)number[B], (uint32_t)number[A],
					 &flags_back),
				 number[IS]);
		assert_int_equal(flags_back, flags);
		break;
	case FLOAT:
		assert_int_equal(lns_float(&tables, (uint32_t)number[WORD_IN]), number[IS]);
		break;
	case KIND_COUNT:
		fail();
	}
}

static void case_holds(void **state)
{
	const struct golden *golden = *state;

	for (uint32_t i = 0; i < golden->line_count; i++) {
		printf("  %s, claim %u\n", golden->name, i + 1);
		line_holds(&golden->line[i]);
	}
}

static void every_table_has_a_claim(void **state)
{
	uint32_t has = 0;

	(void)state;
	for (size_t i = 0; i < all_count; i++)
		for (uint32_t k = 0; k < all[i]->line_count; k++)
			if (all[i]->line[k].kind == TABLE)
				has |= 1u << all[i]->line[k].number[NAME];
	assert_int_equal(has, (1u << PLACE_COUNT) - 1);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[CASES_MAX + 1];
	char pattern[1024];
	glob_t files;
	int failed;

	if (argc != 2)
		return 2;
	snprintf(pattern, sizeof(pattern), "%s/*.txt", argv[1]);
	if (glob(pattern, 0, NULL, &files))
		return 2;
	for (size_t i = 0; i < files.gl_pathc; i++)
		if (!file_read(files.gl_pathv[i]))
			return 2;
	globfree(&files);
	lns_tables_make(&tables);
	tests[0] = (struct CMUnitTest)cmocka_unit_test(every_table_has_a_claim);
	for (size_t i = 0; i < all_count; i++)
		tests[i + 1] = (struct CMUnitTest){ .name = all[i]->name,
						    .test_func = case_holds,
						    .initial_state = all[i] };
	failed = _cmocka_run_group_tests("vectors-lns", tests, all_count + 1, NULL, NULL);
	for (size_t i = 0; i < all_count; i++)
		free(all[i]);
	return failed;
}
