/* SPDX-License-Identifier: Apache-2.0 */
/* memory_test.c - counts, samples and maps without all the memory that they want: they say so, and give back what they
 * have got; and those that have had all give back all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "files/hot_map.h"
#include "files/line.h"
#include "hot/evaluate.h"
#include "hot/live.h"
#include "hot/zipf.h"
#include "util/memory_fixture.h"

enum { KEYS = 500, PIECES_MAX = 100 };

/* How often it asks for memory, of which each piece is missing once. It is 0, or -1. */
static unsigned pieces_of(int (*job)(void))
{
	for (unsigned missing = 1; missing < PIECES_MAX; missing++) {
		int result;

		memory_count(missing);
		result = job();
		memory.is_counting = false;
		if (memory.held)
			fail_msg("without piece %u %d are not given back", missing, memory.held);
		if (!result) {
			assert_true(memory.asked < missing);
			return missing - 1;
		}
		assert_int_equal(result, -1);
	}
	fail_msg("it never ends");
	return 0;
}

static uint64_t key_of(uint64_t i)
{
	return i % 7 * 1000003 + i % 3;
}

/* ---- counts ---- */

static int count_job(void)
{
	struct count count = { 0 };
	int result = 0;

	for (uint64_t i = 0; i < 10000 && !result; i++) {
		uint64_t key = i * i;

		result = count_add(&count, &key, 1);
		if (result) { /* it is as it was */
			assert_int_equal(count.keys, i);
			assert_int_equal(count.updates, i);
			assert_int_equal(count_of(&count, key), 0);
			assert_int_equal(count_of(&count, 0), i > 0);
		}
	}
	count_fini(&count);
	return result;
}

static int sketch_job(void)
{
	struct sketch *sketch = NULL;
	int result = sketch_open(&sketch, 64);

	if (result)
		assert_null(sketch);
	sketch_close(sketch);
	return result;
}

static int zipf_job(void)
{
	struct zipf zipf;
	uint64_t key[10];

	if (zipf_init(&zipf, 1.1, KEYS, 3))
		return -1;
	zipf_next(&zipf, key, 10);
	zipf_fini(&zipf);
	return 0;
}

static void counts__give_back_what_they_have(void **state)
{
	(void)state;
	assert_int_equal(pieces_of(count_job), 4); /* the first, and twice as many three times */
	assert_int_equal(pieces_of(sketch_job), 3);
	assert_in_range(pieces_of(zipf_job), 1, 6);
}

/* ---- samples ---- */

static int survey_job(void)
{
	struct heat *sampled = NULL, *all = NULL;
	struct survey survey;
	size_t sampled_count, all_count;
	int result = survey_open(&survey, 1, 3, 64, true);

	if (result)
		return result;
	for (uint64_t i = 0; i < KEYS && !result; i++) {
		uint64_t key[2] = { key_of(i), i };

		result = survey_row(&survey, key, 1) || survey_each(&survey, key, 2) ? -1 : 0;
	}
	if (!result && (survey_sampled(&survey, &sampled, &sampled_count) ||
			survey_all(&survey, &all, &all_count)))
		result = -1;
	free(sampled);
	free(all);
	survey_close(&survey);
	return result;
}

static int live_job(void)
{
	const struct live_options options = { .rate = 1,
					      .seed = 1,
					      .counters = 64,
					      .half_life_s = 60,
					      .choose = { .p = 0.5, .keys_max = 10 } };
	struct live_look look = { .heat = NULL };
	struct live live;
	int result = live_open(&live, &options, 100);

	if (result)
		return result;
	for (uint64_t i = 0; i < KEYS; i++) {
		uint64_t key = key_of(i);

		assert_int_equal(survey_row(&live.survey, &key, 1), 0); /* it takes no memory */
	}
	result = live_look(&live, NULL, &look);
	free(look.heat);
	live_close(&live);
	return result;
}

static int evaluate_job(void)
{
	static struct heat all[KEYS], sampled[KEYS / 2];
	struct evaluation evaluation = { .all = all,
					 .all_count = KEYS,
					 .sampled = sampled,
					 .sampled_count = KEYS / 2,
					 .chosen = 20,
					 .rate = 0.2,
					 .options = { .p = 0.5, .keys_max = KEYS },
					 .seed = 3 };
	struct precision precision;

	for (uint64_t i = 0; i < KEYS; i++) {
		all[i] = (struct heat){ i, KEYS - i, (double)(KEYS - i) };
		evaluation.updates += KEYS - i;
		if (i % 2 == 0)
			sampled[i / 2] = all[i];
	}
	return evaluate(&evaluation, &precision);
}

static void samples__give_back_what_they_have(void **state)
{
	(void)state;
	assert_in_range(pieces_of(survey_job), 6, 12);
	assert_in_range(pieces_of(live_job), 4, 6);
	assert_in_range(pieces_of(evaluate_job), 10, 20);
}

/* ---- lines ---- */

static ssize_t read_nothing(void *arg, void *to, size_t bytes)
{
	(void)arg, (void)to, (void)bytes;
	return 0;
}

static int line_job(void)
{
	char error[FILES_ERROR_MAX] = "";
	struct source *source;
	struct line line;

	if (source_open_read(&source, "F", read_nothing, NULL, error))
		return -1;
	memory.held++; /* the name, which strdup has taken */
	if (line_open(&line, source, error)) {
		assert_string_equal(error, "F: out of memory");
		return -1;
	}
	line_close(&line);
	return 0;
}

static void lines__give_back_what_they_have(void **state)
{
	(void)state;
	assert_int_equal(pieces_of(line_job), 2);
}

/* ---- maps ---- */

static char path[] = "/tmp/tally-hot-memory-XXXXXX";

static int map_job(void)
{
	char error[FILES_ERROR_MAX] = "";
	struct hot_map map = { 0 };
	int result = hot_map_read(path, &map, error);

	if (result && (strncmp(error, path, strlen(path)) != 0 || !strstr(error, "memory")))
		fail_msg("%s", error);
	if (!result)
		hot_map_fini(&map);
	return result;
}

static void maps__give_back_what_they_have(void **state)
{
	uint64_t key[KEYS];
	const struct hot_map map = { .version = 1, .keys = KEYS, .key = key };
	char error[FILES_ERROR_MAX] = "";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	for (uint64_t i = 0; i < KEYS; i++)
		key[i] = i * i;
	if (hot_map_write(path, &map, error))
		fail_msg("%s", error);
	assert_in_range(pieces_of(map_job), 2, 8);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts__give_back_what_they_have),
		cmocka_unit_test(samples__give_back_what_they_have),
		cmocka_unit_test(lines__give_back_what_they_have),
		cmocka_unit_test(maps__give_back_what_they_have),
	};

	return cmocka_run_group_tests_name("hot-memory", tests, NULL, NULL);
}
