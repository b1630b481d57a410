/* SPDX-License-Identifier: Apache-2.0 */
#include "hot/survey.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hot/zipf.h"

enum { KEYS = 2000, UPDATES = 400000, COUNTERS = 4096 };

static uint64_t stream[UPDATES];

static int stream_make(void **state)
{
	struct zipf zipf;

	(void)state;
	if (zipf_init(&zipf, 1.1, KEYS, 4))
		return -1;
	zipf_next(&zipf, stream, UPDATES);
	zipf_fini(&zipf);
	return 0;
}

static void samples__have_the_size_that_was_asked_for(void **state)
{
	static const double rates[] = { 0.0001, 0.04, 0.08, 0.5, 0.999 };

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		enum { THINGS = 2000000 };
		double taken = 0, pairs = 0, last = 0, rate = rates[i];
		struct sampler sampler;

		sampler_init(&sampler, rate, 9);
		for (int k = 0; k < THINGS; k++) {
			double now = sampler_takes(&sampler);

			taken += now;
			pairs += now * last;
			last = now;
		}
		if (fabs(taken - rate * THINGS) > 5 * sqrt(rate * (1 - rate) * THINGS))
			fail_msg("%g of %d at %g", taken, THINGS, rate);
		/* One says nothing of the next. */
		if (fabs(pairs - rate * rate * THINGS) > 8 * sqrt(rate * rate * THINGS) + 5)
			fail_msg("%g neighbours of %d at %g", pairs, THINGS, rate);
	}
}

static void all__of_it_is_sampled_if_so_asked(void **state)
{
	struct survey survey;
	struct heat *sampled, *all;
	size_t sampled_count, all_count;

	(void)state;
	assert_int_equal(survey_open(&survey, 1, 3, COUNTERS, true), 0);
	assert_int_equal(survey_each(&survey, stream, 1000), 0);
	assert_int_equal(survey_row(&survey, stream + 1000, UPDATES - 1000), 0);
	assert_int_equal(survey.rows, 1001);
	assert_int_equal(survey.sampled_rows, 1001);
	assert_int_equal(survey.updates, UPDATES);
	assert_int_equal(survey.sampled_updates, UPDATES);
	assert_int_equal(survey_sampled(&survey, &sampled, &sampled_count), 0);
	assert_int_equal(survey_all(&survey, &all, &all_count), 0);
	assert_int_equal(sampled_count, all_count);
	heat_sort(sampled, sampled_count, 2);
	heat_sort(all, all_count, 2);
	assert_memory_equal(sampled, all, all_count * sizeof(*all));
	free(sampled);
	free(all);
	survey_close(&survey);
}

/* However the updates come in, the same ones are sampled. */
static void rows__of_one_key_are_sampled_one_by_one(void **state)
{
	struct survey one, each;
	struct heat *a, *b;
	size_t a_count, b_count, at = 0;

	(void)state;
	assert_int_equal(survey_open(&one, 0.08, 3, COUNTERS, false), 0);
	assert_int_equal(survey_open(&each, 0.08, 3, COUNTERS, false), 0);
	for (size_t i = 0; i < UPDATES; i++)
		assert_int_equal(survey_row(&one, &stream[i], 1), 0);
	for (size_t some = 1; at < UPDATES; at += some) {
		some = (7 * some + 1) % 5000;
		some = some < UPDATES - at ? some : UPDATES - at;
		assert_int_equal(survey_each(&each, stream + at, some), 0);
	}
	assert_int_equal(one.sampled_updates, each.sampled_updates);
	assert_true(fabs((double)one.sampled_updates / UPDATES - 0.08) < 0.002);
	assert_int_equal(survey_sampled(&one, &a, &a_count), 0);
	assert_int_equal(survey_sampled(&each, &b, &b_count), 0);
	assert_int_equal(a_count, b_count);
	assert_memory_equal(a, b, a_count * sizeof(*a));
	free(a);
	free(b);
	survey_close(&one);
	survey_close(&each);
}

static void rows__are_sampled_whole(void **state)
{
	const struct sketch_counter *counter;
	struct survey survey;
	uint32_t used;

	(void)state;
	assert_int_equal(survey_open(&survey, 0.25, 3, COUNTERS, false), 0);
	for (uint64_t row = 0; row < 1000; row++) {
		uint64_t key[] = { 2 * row, 2 * row + 1 };

		assert_int_equal(survey_row(&survey, key, 2), 0);
	}
	assert_int_equal(survey_row(&survey, stream, 0), 0);
	assert_int_equal(survey.rows, 1001);
	assert_int_equal(survey.updates, 2000);
	counter = sketch_counters(survey.sketch, &used);
	assert_int_equal(used, survey.sampled_updates);
	assert_in_range(survey.sampled_rows, 180, 320);
	for (uint32_t i = 0; i < used; i += 2) {
		assert_int_equal(counter[i].key % 2, 0);
		assert_int_equal(counter[i].key + 1, counter[i + 1].key);
	}
	survey_close(&survey);
}

/* A sketch that is too small: a key is worth what it has for certain. */
static void weights__of_a_full_sketch_promise_nothing(void **state)
{
	struct survey survey;
	struct heat *sampled, *all;
	size_t sampled_count, all_count;
	struct count full = { 0 };
	double sum = 0;

	(void)state;
	assert_int_equal(survey_open(&survey, 1, 3, 300, true), 0);
	assert_int_equal(survey_each(&survey, stream, UPDATES), 0);
	assert_true(sketch_error(survey.sketch) > 0);
	assert_int_equal(survey_sampled(&survey, &sampled, &sampled_count), 0);
	assert_int_equal(survey_all(&survey, &all, &all_count), 0);
	for (size_t at = 0; at < UPDATES; at += COUNT_ADD_MAX)
		assert_int_equal(count_add(&full, stream + at,
					   UPDATES - at < COUNT_ADD_MAX ? UPDATES - at
									: COUNT_ADD_MAX),
				 0);
	assert_int_equal(all_count, full.keys);
	assert_int_equal(sampled_count, 300);
	for (size_t i = 0; i < sampled_count; i++) {
		assert_true(sampled[i].weight <= (double)count_of(&full, sampled[i].key));
		assert_true(sampled[i].count >= count_of(&full, sampled[i].key));
		sum += sampled[i].weight;
	}
	assert_true(sum > UPDATES / 2);
	count_fini(&full);
	free(sampled);
	free(all);
	survey_close(&survey);
}

/* What a halved count was when its key was sampled is not known: it is what it says. */
static void weights__of_halved_counts_are_the_counts(void **state)
{
	struct survey survey;
	struct heat *sampled;
	size_t count;

	(void)state;
	assert_int_equal(survey_open(&survey, 0.08, 3, COUNTERS, false), 0);
	assert_int_equal(survey_each(&survey, stream, UPDATES), 0);
	survey_halve(&survey);
	assert_int_equal(sketch_error(survey.sketch), 0);
	assert_int_equal(survey_sampled(&survey, &sampled, &count), 0);
	assert_true(count > 100);
	for (size_t i = 0; i < count; i++)
		assert_true(sampled[i].weight == (double)sampled[i].count);
	free(sampled);
	survey_close(&survey);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples__have_the_size_that_was_asked_for),
		cmocka_unit_test(all__of_it_is_sampled_if_so_asked),
		cmocka_unit_test(rows__of_one_key_are_sampled_one_by_one),
		cmocka_unit_test(rows__are_sampled_whole),
		cmocka_unit_test(weights__of_a_full_sketch_promise_nothing),
		cmocka_unit_test(weights__of_halved_counts_are_the_counts),
	};

	return cmocka_run_group_tests_name("hot-survey", tests, stream_make, NULL);
}
