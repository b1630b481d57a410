/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/score.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/rng.h"

static const double two[] = { 1, -1 }, three[] = { 7, 2, 5 };
static const struct score_labels pairs = { GLM_HINGE, two, 2 };
static const struct score_labels triples = { GLM_HINGE, three, 3 };

static void expect_near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-12))
		fail_msg("%.17g is not %.17g", a, b);
}

static struct score score_of(const struct score_labels *labels, const double *label,
			     const double *activation, uint64_t rows)
{
	struct score score;

	assert_int_equal(score_make(&score, labels, label, activation, rows), 0);
	assert_int_equal(score.rows, rows);
	return score;
}

static void score__two_classes(void **state)
{
	static const double label[] = { 1, 1, -1, -1 };
	static const double activation[] = { 2, -0.5, -3, 0.5 };
	struct score score = score_of(&pairs, label, activation, 4);

	(void)state;
	expect_near(score.loss, (0 + 1.5 + 0 + 1.5) / 4);
	expect_near(score.accuracy, 0.5);
	expect_near(score.auc, 0.75); /* of 4 pairs, one is the wrong way round */
	assert_true(isnan(score.mse));
}

static void score__an_activation_of_0_is_the_second_class(void **state)
{
	static const double label[] = { 1, -1 }, activation[] = { 0, 0 };

	(void)state;
	expect_near(score_of(&pairs, label, activation, 2).accuracy, 0.5);
	assert_int_equal(score_class(activation, 2), 1);
}

static void score__ties_count_half(void **state)
{
	static const double label[] = { 1, -1, 1, -1, -1 };
	static const double activation[] = { 1, 1, 2, 1, 0 };

	(void)state;
	/* 6 pairs: 2 against both 1s and 0: 3; 1 against 1, 1 and 0: 0.5 + 0.5 + 1 */
	expect_near(score_of(&pairs, label, activation, 5).auc, 5.0 / 6);
}

static void score__one_class_alone_has_no_auc(void **state)
{
	static const double label[] = { 1, 1 }, activation[] = { 1, 2 };
	struct score score = score_of(&pairs, label, activation, 2);

	(void)state;
	assert_true(isnan(score.auc));
	expect_near(score.accuracy, 1);
}

static void score__several_classes(void **state)
{
	static const double label[] = { 7, 2, 5, 9 };
	static const double activation[] = {
		1,  -1, -1, /* right */
		3,  3,  1,  /* the first of the largest: 7, not 2 */
		-2, -1, 0,  /* right */
		0,  0,  0,  /* no class at all */
	};
	struct score score = score_of(&triples, label, activation, 4);

	(void)state;
	expect_near(score.accuracy, 0.5);
	expect_near(score.loss, (0 + (4 + 0 + 2) + (0 + 0 + 1) + 3) / 4.0);
	/* 7: against 3, -2, 0: 2/3; 2: 3 against -1, -1, 0: 1; 5: 0 against -1, 1, 0: 1/2 */
	expect_near(score.auc, (2.0 / 3 + 1 + (1 + 0.5) / 3) / 3);
}

static void score__regression_is_a_squared_error(void **state)
{
	static const struct score_labels numbers = { GLM_LEAST_SQUARES, NULL, 0 };
	static const double label[] = { 1.5, -2 }, activation[] = { 1, 0 };
	struct score score = score_of(&numbers, label, activation, 2);

	(void)state;
	expect_near(score.mse, (0.25 + 4) / 2);
	expect_near(score.loss, (0.125 + 2) / 2);
	assert_true(isnan(score.accuracy));
	assert_true(isnan(score.auc));
}

static void score__no_rows_are_no_score(void **state)
{
	struct score score = score_of(&pairs, NULL, NULL, 0);

	(void)state;
	assert_true(isnan(score.loss));
	assert_true(isnan(score.accuracy));
	assert_true(isnan(score.auc));
}

/* Every pair looked at. */
static void score__auc_is_the_share_of_pairs(void **state)
{
	enum { ROWS = 300 };
	double label[ROWS], activation[ROWS], pairs_right = 0, pairs_all = 0;
	struct rng rng;

	(void)state;
	rng_init(&rng, 1, 0);
	for (int i = 0; i < ROWS; i++) {
		label[i] = rng_below(&rng, 3) ? 1 : -1;
		activation[i] = (double)rng_below(&rng, 20) / 4 - 2;
	}
	for (int i = 0; i < ROWS; i++) {
		for (int k = 0; k < ROWS; k++) {
			if (label[i] != 1 || label[k] == 1)
				continue;
			pairs_all++;
			pairs_right += activation[i] > activation[k]   ? 1
				       : activation[i] < activation[k] ? 0
								       : 0.5;
		}
	}
	expect_near(score_of(&pairs, label, activation, ROWS).auc, pairs_right / pairs_all);
}

/* A class that no row has, or all have, says nothing of the others. */
static void score__classes_that_nobody_has_have_no_auc(void **state)
{
	static const double label[] = { 7, 2, 7 };
	static const double activation[] = { 1, -1, 9, 2, 3, 0, 3, 4, -9 };

	(void)state;
	/* 7: 1 and 3 against 2: 1/2; 2: 3 against -1 and 4: 1/2; of 5 there is no row */
	expect_near(score_of(&triples, label, activation, 3).auc, 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(score__two_classes),
		cmocka_unit_test(score__an_activation_of_0_is_the_second_class),
		cmocka_unit_test(score__ties_count_half),
		cmocka_unit_test(score__one_class_alone_has_no_auc),
		cmocka_unit_test(score__several_classes),
		cmocka_unit_test(score__regression_is_a_squared_error),
		cmocka_unit_test(score__no_rows_are_no_score),
		cmocka_unit_test(score__auc_is_the_share_of_pairs),
		cmocka_unit_test(score__classes_that_nobody_has_have_no_auc),
	};

	return cmocka_run_group_tests_name("glm-score", tests, NULL, NULL);
}
