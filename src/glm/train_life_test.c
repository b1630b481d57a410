/* SPDX-License-Identifier: Apache-2.0 */
/* train_life_test.c - how a training goes on, what is measured, and what ends it: on all ranks alike. */
#include "glm/train_job_fixture.h"

/* ---- going on, and what is measured ---- */

static void train__state_goes_on_with_the_same_bits_anywhere(void **state)
{
	static const struct matrix_shape shape = { 90, 120, 3, 100, 5 };
	static const struct way ways[] = { { 1, 1, 8 }, { 4, 2, 3 }, { 3, 1, 20 }, { 1, 3, 1 } };
	struct glm_options options = plain;
	struct reference ref;
	struct matrix matrix;
	void *bytes = NULL;
	size_t count = 0;

	(void)state;
	matrix_make(&matrix, &shape);
	options.l1 = 0.001;
	options.l2 = 0.01;
	options.is_shuffled = true;
	options.schedule = GLM_INVERSE;
	options.decay = 1;
	reference_open(&ref, &matrix, &options, options.rate);
	for (uint32_t w = 0; w < 4; w++) {
		struct job job = { .matrix = &matrix,
				   .options = options,
				   .way = ways[w],
				   .epochs = 1,
				   .state = bytes,
				   .state_bytes = count };

		reference_epoch(&ref, w);
		job_run(&job);
		compare(&job, &ref);
		free(bytes);
		bytes = job.saved;
		count = job.saved_bytes;
		job.saved = NULL;
		job_free(&job);
	}
	free(bytes);
	reference_close(&ref);
	matrix_free(&matrix);
}

static void refused(struct job *job, const char *words)
{
	job_run(job);
	for (uint32_t rank = 0; rank < job->way.ranks; rank++) {
		assert_int_equal(job->result[rank], -1);
		if (!strstr(job->error[rank], words))
			fail_msg("rank %u says \"%s\", not \"%s\"", rank, job->error[rank], words);
		assert_string_equal(job->error[rank], job->error[0]);
	}
	job_free(job);
}

static void train__states_of_other_trainings_are_refused_on_all_ranks(void **state)
{
	static const struct matrix_shape shape = { 30, 20, 2, 300, 6 };
	struct job made = { .options = plain, .way = { 2, 1, 8 }, .epochs = 1 };
	struct matrix matrix;
	uint8_t *bytes;

	(void)state;
	matrix_make(&matrix, &shape);
	made.matrix = &matrix;
	job_run(&made);
	bytes = made.saved;
	for (int i = 0; i < 5; i++) {
		static const char *const words[] = { "no state", "other options", "not whole",
						     "another file", "other options" };
		struct job job = { .matrix = &matrix,
				   .options = plain,
				   .way = { 3, 1, 8 },
				   .state = bytes,
				   .state_bytes = made.saved_bytes - (i == 2) };

		bytes[0] ^= i == 0;
		bytes[8] ^= i == 3;
		job.options.rate += i == 1;
		job.is_turned = i == 4;
		refused(&job, words[i]);
		bytes[0] ^= i == 0;
		bytes[8] ^= i == 3;
	}
	job_free(&made);
	matrix_free(&matrix);
}

/* Whichever it becomes, the bits are the same. */
static void train__auto_finds_a_micro_batch_and_the_same_model(void **state)
{
	static const struct matrix_shape shape = { 400, 30, 2, 200, 7 };
	struct glm_options options = plain;
	struct reference ref;
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	options.batch = 16;
	reference_open(&ref, &matrix, &options, options.rate);
	for (uint32_t e = 0; e < EPOCHS; e++)
		reference_epoch(&ref, e);
	for (uint32_t ranks = 1; ranks <= 3; ranks++) {
		struct job job = { .matrix = &matrix,
				   .options = options,
				   .way = { ranks, 2, 0 },
				   .epochs = EPOCHS };

		job_run(&job);
		compare(&job, &ref);
		assert_true(job.micro == 16 || job.micro == 8);
		job_free(&job);
	}
	reference_close(&ref);
	matrix_free(&matrix);
}

/* Each rank rounds, so the bits differ; the model hardly does. */
static void train__narrow_wire_gives_nearly_the_same_model(void **state)
{
	static const struct matrix_shape shape = { 90, 50, 2, 200, 8 };
	struct glm_options options = plain;
	struct reference ref;
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	reference_open(&ref, &matrix, &options, options.rate);
	for (uint32_t e = 0; e < EPOCHS; e++)
		reference_epoch(&ref, e);
	options.wire = (struct glm_wire){ .is_narrow = true, .fraction = 19 };
	for (uint32_t ranks = 1; ranks <= 4; ranks++) {
		struct job job = { .matrix = &matrix,
				   .options = options,
				   .way = { ranks, 2, 23 },
				   .epochs = EPOCHS };

		job_run(&job);
		assert_int_equal(job.result[0], 0);
		for (uint32_t i = 0; i < weights_count(&matrix, &options); i++)
			assert_true(fabsf(job.weight[i] - ref.weight[i]) < 1e-4f);
		job_free(&job);
	}
	reference_close(&ref);
	matrix_free(&matrix);
}

/* ---- what goes wrong ---- */

static void train__saturation_is_named_alike_on_all_ranks(void **state)
{
	static const struct matrix_shape shape = { 90, 50, 2, 200, 9 };
	static const struct glm_wire narrow = { .is_narrow = true, .fraction = 30 };
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	for (uint32_t threads = 1; threads <= 2; threads++)
		for (uint32_t ranks = 1; ranks <= 4; ranks += 3) {
			struct job job = { .matrix = &matrix,
					   .options = plain,
					   .way = { ranks, threads, 5 },
					   .epochs = 50 };

			job.options.loss = GLM_LEAST_SQUARES;
			job.options.rate = 30;
			refused(&job, "saturated");
			job.options.rate = 3e38;
			refused(&job, "epoch 1, mini-batch 2 of 4: saturated");
			job.options.rate = 1;
			job.options.wire = narrow;
			refused(&job, "--wire fixed64");
			job.options.wire.is_narrow = false;
			job.options.rate = 30;
			job.options.bits = 1;
			refused(&job, ", or --scale, or no --bits, with which a weight times its "
				      "column's range is below 512");
		}
	matrix_free(&matrix);
}

/* The last step of an epoch may be the one that is too much. */
static void train__weight_beyond_float_is_named_alike_on_all_ranks(void **state)
{
	static const struct matrix_shape shape = { 20, 10, 2, 500, 10 };
	struct job job = { .options = plain, .way = { 3, 2, 5 }, .epochs = 1 };
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	matrix.value[0] = 3e38f;
	job.matrix = &matrix;
	job.options.rate = 1e30;
	refused(&job, "epoch 1: saturated: a weight");
	matrix_free(&matrix);
}

static void train__bad_options_and_other_files_are_refused_on_all_ranks(void **state)
{
	static const struct matrix_shape shape = { 130, 20, 2, 300, 11 };
	struct job job = { .way = { 3, 2, 8 }, .epochs = 1 }, bad;
	struct matrix matrix, numbers;

	(void)state;
	matrix_make(&matrix, &shape);
	numbers = matrix;
	numbers.classes_count = 0;
	job.matrix = &matrix;
	job.options = plain;
	bad = job;
	bad.odd_rank = 2;
	refused(&bad, "rank 2 has read another file");
	bad = job;
	bad.options.l2 = 5;
	refused(&bad, "1 or more");
	bad = job;
	bad.options.batch = 500;
	bad.way.micro = 200;
	refused(&bad, "119 fit");
	bad = job;
	bad.options.batch = 0;
	refused(&bad, "mini-batch");
	bad = job;
	bad.options.l1 = -1;
	refused(&bad, "l1");
	bad = job;
	bad.options.rate = (double)NAN;
	refused(&bad, "rate");
	bad = job;
	bad.options.schedule = GLM_EXPONENTIAL;
	refused(&bad, "decay");
	bad = job;
	bad.options.bits = 9;
	refused(&bad, "9 bits");
	bad = job;
	bad.options.bits = 4;
	bad.options.layout = GLM_LAYOUT_CSR;
	refused(&bad, "go together");
	bad = job;
	bad.matrix = &numbers;
	refused(&bad, "least-squares");
	matrix_free(&matrix);
}

static void train__one_label_is_refused(void **state)
{
	static const struct matrix_shape shape = { 30, 20, 2, 300, 12 };
	struct job job = { .options = plain, .way = { 2, 1, 8 }, .epochs = 1 };
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	for (uint32_t row = 0; row < matrix.rows; row++)
		matrix.label[row] = 3;
	job.matrix = &matrix;
	refused(&job, "all rows have the label 3");
	matrix_free(&matrix);
}

/* In the middle of everything, with micro-batches on their way. */
static void train__failed_exchange_ends_all_threads(void **state)
{
	static const struct matrix_shape shape = { 90, 50, 2, 200, 13 };
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	for (uint32_t from = 1; from < 40; from++) {
		struct job job = { .matrix = &matrix,
				   .options = plain,
				   .way = { 1 + from % 3, 1 + (from / 3) % 3, 3 },
				   .epochs = 2,
				   .fail_from = from };

		refused(&job, "the shared exchange has failed");
	}
	matrix_free(&matrix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(train__state_goes_on_with_the_same_bits_anywhere),
		cmocka_unit_test(train__states_of_other_trainings_are_refused_on_all_ranks),
		cmocka_unit_test(train__auto_finds_a_micro_batch_and_the_same_model),
		cmocka_unit_test(train__narrow_wire_gives_nearly_the_same_model),
		cmocka_unit_test(train__saturation_is_named_alike_on_all_ranks),
		cmocka_unit_test(train__weight_beyond_float_is_named_alike_on_all_ranks),
		cmocka_unit_test(train__bad_options_and_other_files_are_refused_on_all_ranks),
		cmocka_unit_test(train__one_label_is_refused),
		cmocka_unit_test(train__failed_exchange_ends_all_threads),
	};

	return cmocka_run_group_tests_name("train-life", tests, NULL, NULL);
}
