/* SPDX-License-Identifier: Apache-2.0 */
#include "hot/evaluate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hot/survey.h"
#include "hot/zipf.h"

static void precision__is_the_part_of_the_hot_keys_that_the_sample_has(void **state)
{
	enum { KEYS = 8 };
	struct heat all[KEYS], sampled[5];
	const uint64_t found[] = { 2, 0, 7, 3, 9 };
	struct evaluation evaluation = { .all = all,
					 .all_count = KEYS,
					 .updates = 1000,
					 .sampled = sampled,
					 .sampled_count = 5,
					 .chosen = 4,
					 .rate = 1,
					 .options = { .p = 0.8, .keys_max = 100 } };
	struct precision precision;

	(void)state;
	for (uint64_t i = 0; i < KEYS; i++)
		all[i] = (struct heat){ i, 0, 0 };
	all[0].count = 400;
	all[1].count = 250;
	all[2].count = 150;
	for (uint64_t i = 3; i < KEYS; i++)
		all[i].count = 40;
	heat_weigh_all(all, KEYS);
	for (uint64_t i = 0; i < 5; i++)
		sampled[i] = (struct heat){ found[i], 10 - i, (double)(10 - i) };
	assert_int_equal(evaluate(&evaluation, &precision), 0);
	/* Hg = {0, 1, 2}; Hs = {2, 0, 7, 3}; of as many, {2, 0, 7}. */
	assert_int_equal(precision.hot_all, 3);
	assert_int_equal(precision.hot_sampled, 4);
	assert_true(fabs(precision.mine - 2.0 / 3) < 1e-12);
	assert_true(fabs(precision.as_many - 2.0 / 3) < 1e-12);
	assert_true(fabs(precision.share - 0.63) < 1e-12);
	/* Everything drawn is everything there is. */
	assert_true(precision.ideal == 1);
	assert_true(precision.ideal_least == 1);
	assert_true(precision.ideal_as_many == 1);
	assert_int_equal(precision.hot_ideal, 3);
}

/* Zipf 1.1, and as many updates of the coldest hot key as in 100 million of a million keys whose knee is at 5,000: 8 %
 * of them are enough for 0.9, 4 % for 0.85, and the sample is as good as an ideal one. */
static void samples__of_a_skewed_stream_are_as_good_as_ideal_ones(void **state)
{
	enum { KEYS = 100000, UPDATES = 10000000, PIECE = 10000, COUNTERS = 1 << 12 };
	static const struct {
		double rate, least;
	} wants[] = { { 0.08, 0.9 }, { 0.04, 0.85 } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		static uint64_t key[PIECE];
		struct evaluation e = { .rate = wants[i].rate,
					.options = { .p = 0.7, .keys_max = 1000000 } };
		struct heat *all, *sampled;
		struct precision precision;
		struct survey survey;
		struct choice choice;
		struct zipf zipf;

		assert_int_equal(zipf_init(&zipf, 1.1, KEYS, 2), 0);
		assert_int_equal(survey_open(&survey, wants[i].rate, 6, COUNTERS, true), 0);
		for (int at = 0; at < UPDATES; at += PIECE) {
			zipf_next(&zipf, key, PIECE);
			assert_int_equal(survey_each(&survey, key, PIECE), 0);
		}
		assert_int_equal(survey_sampled(&survey, &sampled, &e.sampled_count), 0);
		assert_int_equal(survey_all(&survey, &all, &e.all_count), 0);
		choose(sampled, e.sampled_count, (double)survey.sampled_updates, &e.options,
		       &choice);
		e.all = all;
		e.sampled = sampled;
		e.chosen = choice.keys;
		e.updates = survey.updates;
		assert_int_equal(evaluate(&e, &precision), 0);
		print_message("%g: |Hg| %d, |Hs| %d, precision %.4f, ideal %.4f (%.4f .. %.4f)\n",
			      wants[i].rate, (int)precision.hot_all, (int)precision.hot_sampled,
			      precision.mine, precision.ideal, precision.ideal_least,
			      precision.ideal_most);
		assert_true(precision.mine >= wants[i].least);
		assert_true(precision.mine >= precision.ideal - 0.02);
		assert_true(precision.ideal_least <= precision.ideal);
		assert_true(precision.ideal_most >= precision.ideal);
		assert_true(precision.ideal < 1);
		assert_true(fabs(precision.share - choice.share) < 0.01);
		free(all);
		free(sampled);
		survey_close(&survey);
		zipf_fini(&zipf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(precision__is_the_part_of_the_hot_keys_that_the_sample_has),
		cmocka_unit_test(samples__of_a_skewed_stream_are_as_good_as_ideal_ones),
	};

	return cmocka_run_group_tests_name("hot-evaluate", tests, NULL, NULL);
}
