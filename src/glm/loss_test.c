/* SPDX-License-Identifier: Apache-2.0 */
/* loss_test.c - losses against their definitions, slopes against differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "glm/loss.h"

enum { LOSSES = GLM_SQUARED_HINGE + 1 };

static double defined(enum glm_loss kind, double a, double y)
{
	switch (kind) {
	case GLM_LEAST_SQUARES:
		return 0.5 * pow(a - y, 2);
	case GLM_LOGISTIC:
		return log1p(exp(-y * a));
	case GLM_HINGE:
		return fmax(0, 1 - y * a);
	case GLM_SQUARED_HINGE:
		return pow(fmax(0, 1 - y * a), 2);
	}
	return (double)NAN;
}

static void loss__is_what_its_definition_says(void **state)
{
	(void)state;
	for (int kind = 0; kind < LOSSES; kind++)
		for (double a = -30; a < 30; a += 0.37)
			for (double y = -1; y <= 1; y += 2) {
				double value = loss((enum glm_loss)kind, a, y);
				double expected = defined((enum glm_loss)kind, a, y);

				assert_true(fabs(value - expected) <= 1e-14 * (1 + expected));
			}
}

static void loss__slope_is_that_of_the_loss(void **state)
{
	const double h = 1e-6;

	(void)state;
	for (int kind = 0; kind < LOSSES; kind++)
		for (double a = -9.05; a < 9; a += 0.1)
			for (double y = -1; y <= 1; y += 2) {
				double slope = (defined((enum glm_loss)kind, a + h, y) -
						defined((enum glm_loss)kind, a - h, y)) /
					       (2 * h);

				assert_true(fabs(dloss((enum glm_loss)kind, a, y) - slope) < 1e-5);
			}
}

/* Its exponential is its own. */
static void loss__logistic_slope_is_right_to_the_last_bits(void **state)
{
	(void)state;
	for (double a = -700; a < 700; a += 0.173) {
		double expected = -1 / (1 + exp(a));

		assert_true(fabs(dloss(GLM_LOGISTIC, a, 1) - expected) <= 4e-16 * -expected);
		assert_true(dloss(GLM_LOGISTIC, -a, -1) == -dloss(GLM_LOGISTIC, a, 1));
	}
	assert_true(dloss(GLM_LOGISTIC, 0, 1) == -0.5);
	assert_true(dloss(GLM_LOGISTIC, 1e300, 1) == 0);
	assert_true(dloss(GLM_LOGISTIC, -1e300, 1) == -1);
	assert_true(loss(GLM_LOGISTIC, -1e6, 1) == 1e6);
}

static void loss__slopes_change_no_faster_than_smoothness_says(void **state)
{
	(void)state;
	for (int kind = 0; kind < LOSSES; kind++) {
		double fastest = 0, smoothness = loss_smoothness((enum glm_loss)kind);

		for (double a = -5; a < 5; a += 0.01) {
			double change = dloss((enum glm_loss)kind, a + 0.01, 1) -
					dloss((enum glm_loss)kind, a, 1);

			fastest = fmax(fastest, kind == GLM_HINGE ? change : change / 0.01);
		}
		assert_true(fastest <= smoothness * (1 + 1e-9));
		assert_true(fastest > smoothness * 0.99);
	}
}

static void loss__has_a_name(void **state)
{
	static const char *const names[] = { "least-squares", "logistic", "hinge",
					     "squared-hinge" };

	(void)state;
	for (int i = 0; i < LOSSES; i++)
		assert_string_equal(loss_names[i], names[i]);
	assert_null(loss_names[LOSSES]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss__is_what_its_definition_says),
		cmocka_unit_test(loss__slope_is_that_of_the_loss),
		cmocka_unit_test(loss__logistic_slope_is_right_to_the_last_bits),
		cmocka_unit_test(loss__slopes_change_no_faster_than_smoothness_says),
		cmocka_unit_test(loss__has_a_name),
	};

	return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
