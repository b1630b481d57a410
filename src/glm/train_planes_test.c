/* SPDX-License-Identifier: Apache-2.0 */
/* train_planes_test.c - the same of rows that lie dense, and in planes of a few bits. */
#include "glm/train_job_fixture.h"

static void train__dense_rows_have_the_bits_of_one_matrix(void **state)
{
	static const struct matrix_shape shape = { 83, 131, 2, 500, 15 };
	struct glm_options options = plain;
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	options.l1 = 0.002;
	options.l2 = 0.7;
	options.layout = GLM_LAYOUT_DENSE;
	ways_check(&matrix, &options, 0);
	matrix_free(&matrix);
}

/* With the bits of the first way; and nearly the model of the values that the planes stand for. */
static void planes_check(const struct matrix *matrix, const struct glm_options *options)
{
	static const struct way ways[] = { { 1, 1, 1 },  { 1, 3, 64 }, { 2, 1, 8 }, { 3, 2, 7 },
					   { 4, 1, 23 }, { 4, 3, 8 },  { 8, 2, 64 } };
	uint32_t count = weights_count(matrix, options);
	struct matrix kept;
	struct reference ref;
	struct job first = { .matrix = NULL };

	matrix_keep(matrix, options->bits, &kept);
	reference_open(&ref, &kept, options, options->rate);
	for (uint32_t e = 0; e < EPOCHS; e++)
		reference_epoch(&ref, e);
	for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
		struct job job = {
			.matrix = matrix, .options = *options, .way = ways[w], .epochs = EPOCHS
		};

		job_run(&job);
		if (job.result[0])
			fail_msg("%s", job.error[0]);
		for (uint32_t i = 0; i < count; i++)
			if (!(fabsf(job.weight[i] - ref.weight[i]) < 1e-4f))
				fail_msg("%u bits: weight %u is %g, not %g", options->bits, i,
					 (double)job.weight[i], (double)ref.weight[i]);
		if (w) {
			assert_memory_equal(job.weight, first.weight, count * sizeof(float));
			assert_int_equal(job.saved_bytes, first.saved_bytes);
			assert_memory_equal(job.saved, first.saved, job.saved_bytes);
			job_free(&job);
		} else {
			first = job;
		}
	}
	job_free(&first);
	reference_close(&ref);
	free(kept.value);
}

static void train__planes_have_the_same_bits_any_way(void **state)
{
	static const struct matrix_shape shapes[] = { { 83, 170, 2, 400, 16 },
						      { 61, 90, 5, 300, 17 } };

	(void)state;
	for (int i = 0; i < 2; i++)
		for (uint32_t bits = 1; bits <= 8; bits += bits < 4 ? 1 : 4) {
			struct glm_options options = plain;
			struct matrix matrix;

			matrix_make(&matrix, &shapes[i]);
			options.bits = bits;
			options.l2 = bits % 2 ? 0.2 : 0;
			options.is_shuffled = bits == 4;
			planes_check(&matrix, &options);
			matrix_free(&matrix);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(train__dense_rows_have_the_bits_of_one_matrix),
		cmocka_unit_test(train__planes_have_the_same_bits_any_way),
	};

	return cmocka_run_group_tests_name("train-planes", tests, NULL, NULL);
}
