/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/glm.h"

static void curve_of(struct glm_curve *curve, const double *losses, uint32_t count)
{
	*curve = (struct glm_curve){ 0 };
	for (uint32_t i = 0; i < count; i++) {
		struct glm_epoch epoch = { .score = { .rows = 10, .loss = losses[i] } };

		assert_int_equal(glm_curve_add(curve, &epoch), 0);
	}
}

static void curve__is_flat_when_the_loss_stays(void **state)
{
	static const double falling[] = { 5, 4, 3, 2, 1 }, staying[] = { 5, 4, 4, 3.9999, 4.5 };
	static const double broken[] = { (double)NAN, (double)NAN, (double)NAN };
	struct glm_curve curve;

	(void)state;
	curve_of(&curve, falling, 5);
	assert_false(glm_curve_is_flat(&curve, 1));
	glm_curve_free(&curve);
	for (uint32_t count = 0; count <= 5; count++) {
		curve_of(&curve, staying, count);
		assert_int_equal(glm_curve_is_flat(&curve, 3), count == 5);
		assert_int_equal(glm_curve_is_flat(&curve, 1), count >= 3);
		assert_false(glm_curve_is_flat(&curve, 0)); /* not asked for */
		glm_curve_free(&curve);
	}
	curve_of(&curve, broken, 3);
	assert_true(glm_curve_is_flat(&curve, 2));
	glm_curve_free(&curve);
}

static void curve__a_better_epoch_begins_the_count_anew(void **state)
{
	static const double losses[] = { 5, 5, 4, 4, 3, 3 };
	struct glm_curve curve;

	(void)state;
	curve_of(&curve, losses, 6);
	assert_false(glm_curve_is_flat(&curve, 2));
	assert_true(glm_curve_is_flat(&curve, 1));
	glm_curve_free(&curve);
}

static void curve__looks_at_the_test_file_if_there_is_one(void **state)
{
	struct glm_curve curve = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct glm_epoch epoch = { .score = { .rows = 1, .loss = 10 - i },
					   .test = { .rows = 1, .loss = 3 + i } };

		assert_int_equal(glm_curve_add(&curve, &epoch), 0);
	}
	assert_true(glm_curve_is_flat(&curve, 3));
	glm_curve_free(&curve);
}

static void curve__comes_back_from_bytes(void **state)
{
	enum { EPOCHS = 40, BEHIND = 5 };
	struct glm_curve curve = { 0 }, again = { 0 };
	size_t bytes = glm_curve_bytes(EPOCHS), used = 0;
	uint8_t *packed = malloc(bytes + BEHIND);

	(void)state;
	assert_non_null(packed);
	for (int i = 0; i < EPOCHS; i++) {
		struct glm_epoch epoch = {
			.score = { 1000, 1.0 / (i + 1), 0.5, i % 2 ? 0.25 : (double)NAN,
				   (double)NAN },
			.test = { (uint64_t)i, i, i + 1, i + 2, i + 3 },
			.rate = 0.1 / (i + 1),
			.train_s = i,
		};

		assert_int_equal(glm_curve_add(&curve, &epoch), 0);
	}
	glm_curve_pack(&curve, packed);
	assert_int_equal(glm_curve_unpack(&again, packed, bytes + BEHIND, &used), 0);
	assert_int_equal(used, bytes);
	assert_int_equal(again.count, EPOCHS);
	assert_memory_equal(again.epoch, curve.epoch, EPOCHS * sizeof(*curve.epoch));
	glm_curve_free(&again);
	for (size_t i = 0; i < bytes; i++) {
		assert_int_equal(glm_curve_unpack(&again, packed, i, &used), -1);
		assert_int_equal(again.count, 0);
	}
	memset(packed, 0xff, 8); /* so many that their size has no number */
	assert_int_equal(glm_curve_unpack(&again, packed, bytes, &used), -1);
	glm_curve_free(&curve);
	free(packed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(curve__is_flat_when_the_loss_stays),
		cmocka_unit_test(curve__a_better_epoch_begins_the_count_anew),
		cmocka_unit_test(curve__looks_at_the_test_file_if_there_is_one),
		cmocka_unit_test(curve__comes_back_from_bytes),
	};

	return cmocka_run_group_tests_name("tools-glm-curve", tests, NULL, NULL);
}
