/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_test.c - the trainer with ranks that are threads, against synchronous SGD on the whole matrix, bit by bit:
 * whatever the ranks, the threads and the micro-batches.
 */
#include "glm/train_job_fixture.h"

static void train__every_loss_has_the_bits_of_one_matrix(void **state)
{
	static const struct matrix_shape shape = { 70, 61, 2, 200, 1 };
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	for (int loss_kind = GLM_LEAST_SQUARES; loss_kind <= GLM_SQUARED_HINGE; loss_kind++) {
		struct glm_options options = plain;

		options.loss = (enum glm_loss)loss_kind;
		options.rate = 0; /* auto */
		ways_check(&matrix, &options, (uint32_t)loss_kind % 3);
	}
	matrix_free(&matrix);
}

/* Rows that have little in common bear steps far above 1 / (smoothness * mean square). */
static void train__rate_of_sparse_rows_has_the_bits_of_one_matrix(void **state)
{
	static const struct matrix_shape shape = { 90, 500, 2, 12, 14 };
	struct glm_options options = plain;
	struct job job = { .way = { 2, 2, 8 }, .epochs = 1 };
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	options.rate = 0;
	options.bias = -1;
	options.batch = 45;
	ways_check(&matrix, &options, 1);
	job.matrix = &matrix;
	job.options = options;
	job_run(&job);
	assert_true(job.rate >
		    3 * 4 / (500 * 0.012 * 1.17)); /* smoothness 1/4; the mean of a square is 7/6 */
	job_free(&job);
	matrix_free(&matrix);
}

/* Its square counts as any other value's. */
static void train__rate_of_a_large_bias_has_the_bits_of_one_matrix(void **state)
{
	static const struct matrix_shape shape = { 70, 61, 2, 200, 6 };
	struct glm_options options = plain;
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	options.rate = 0;
	options.bias = 3;
	ways_check(&matrix, &options, 2);
	matrix_free(&matrix);
}

static void train__l1_and_l2_have_the_bits_of_one_matrix(void **state)
{
	static const struct matrix_shape shape = { 83, 301, 2, 30, 2 };
	struct glm_options options = plain;
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	options.l1 = 0.002;
	ways_check(&matrix, &options, 0);
	options.l2 = 0.7; /* the multiplier is below 1/2 after 5 of 8 steps */
	ways_check(&matrix, &options, 1);
	options.l1 = 0;
	options.bias = -1;
	ways_check(&matrix, &options, 2);
	matrix_free(&matrix);
}

static void train__several_classes_have_the_bits_of_one_matrix(void **state)
{
	static const struct matrix_shape shape = { 75, 44, 5, 300, 3 };
	struct glm_options options = plain;
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	options.batch = 75;
	options.wire = (struct glm_wire){ .is_narrow = false };
	options.l1 = 0.001;
	options.is_shuffled = true;
	options.seed = 42;
	for (int i = 0; i < 2; i++) {
		struct reference ref;
		struct way ways[] = { { 1, 1, 1 }, { 3, 2, 8 }, { 8, 3, 23 }, { 2, 3, 7 } };

		options.schedule = i ? GLM_SQUARE_ROOT : GLM_INVERSE;
		options.decay = 0.8;
		options.batch = i ? 10 : 75;
		reference_open(&ref, &matrix, &options, options.rate);
		for (uint32_t e = 0; e < EPOCHS; e++)
			reference_epoch(&ref, e);
		for (uint32_t w = 0; w < 4; w++) {
			struct job job = { .matrix = &matrix,
					   .options = options,
					   .way = ways[w],
					   .epochs = EPOCHS };

			job_run(&job);
			compare(&job, &ref);
			job_free(&job);
		}
		reference_close(&ref);
	}
	matrix_free(&matrix);
}

static void train__rate_of_several_classes_has_the_bits_of_one_matrix(void **state)
{
	static const struct matrix_shape shape = { 75, 44, 5, 300, 3 };
	static const struct way ways[] = { { 1, 1, 1 }, { 3, 2, 8 } };
	struct glm_options options = plain;
	struct reference ref;
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	options.rate = 0;
	for (uint32_t w = 0; w < 2; w++) {
		struct job job = {
			.matrix = &matrix, .options = options, .way = ways[w], .epochs = EPOCHS
		};

		job_run(&job);
		if (!w) {
			reference_open(&ref, &matrix, &options, job.rate);
			assert_true(reference_is_rate(&ref, job.rate));
			for (uint32_t e = 0; e < EPOCHS; e++)
				reference_epoch(&ref, e);
		}
		compare(&job, &ref);
		job_free(&job);
	}
	reference_close(&ref);
	matrix_free(&matrix);
}

static void train__numbers_as_labels_and_falling_rates_have_the_bits_of_one_matrix(void **state)
{
	static const struct matrix_shape shape = { 64, 40, 0, 300, 4 };
	struct glm_options options = plain;
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	options.loss = GLM_LEAST_SQUARES;
	options.rate = 0;
	options.schedule = GLM_EXPONENTIAL;
	options.decay = 0.75;
	options.batch = 1;
	options.is_shuffled = true;
	ways_check(&matrix, &options, 2);
	matrix_free(&matrix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(train__every_loss_has_the_bits_of_one_matrix),
		cmocka_unit_test(train__rate_of_sparse_rows_has_the_bits_of_one_matrix),
		cmocka_unit_test(train__rate_of_a_large_bias_has_the_bits_of_one_matrix),
		cmocka_unit_test(train__l1_and_l2_have_the_bits_of_one_matrix),
		cmocka_unit_test(train__several_classes_have_the_bits_of_one_matrix),
		cmocka_unit_test(train__rate_of_several_classes_has_the_bits_of_one_matrix),
		cmocka_unit_test(
			train__numbers_as_labels_and_falling_rates_have_the_bits_of_one_matrix),
	};

	return cmocka_run_group_tests_name("train", tests, NULL, NULL);
}
