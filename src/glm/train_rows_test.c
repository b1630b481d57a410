/* SPDX-License-Identifier: Apache-2.0 */
/* train_rows_test.c - data-parallel training by ranks that are threads, against synchronous SGD on the whole matrix. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "glm/exchange_fixture.h"
#include "glm/train_fixture.h"

enum { EPOCHS = 3, ROWS = 90, FEATURES = 60 };

static const double near = 1e-4; /* relative: ranks round their parts of a gradient */

struct job {
	const struct matrix *matrix;
	struct glm_options options;
	uint32_t ranks, threads;
	float *weight[SHARED_RANKS]; /* rank 0's; with GLM_DATA_PARALLEL the others' stay 0 */
	double *activation[SHARED_RANKS], rate;
	int result[SHARED_RANKS];
	char error[SHARED_RANKS][GLM_ERROR_MAX];
};

struct rank_arg {
	struct job *job;
	struct shared *shared;
	uint32_t rank;
	pthread_t id;
};

static uint32_t classes_of(const struct matrix *matrix)
{
	return matrix->classes_count > 2 ? matrix->classes_count : 1;
}

static void *rank_main(void *arg)
{
	struct rank_arg *me = arg;
	struct job *job = me->job;
	struct exchange *exchange = shared_open(me->shared, me->rank);
	int *result = &job->result[me->rank];
	struct glm_train *train;
	struct glm_data data;

	data_make(job->matrix, 0, 1, job->threads, &data);
	*result = glm_train_open(&train, &data, &job->options, exchange, job->error[me->rank]);
	if (!*result) {
		if (!me->rank)
			job->rate = glm_train_rate(train);
		for (int e = 0; e < EPOCHS && !*result; e++)
			*result = glm_train_epoch(train, NULL, NULL);
		if (!*result)
			*result = glm_train_activations(train, &data, job->activation[me->rank]);
		if (!*result)
			*result = glm_train_weights(train, job->weight[me->rank]);
		snprintf(job->error[me->rank], GLM_ERROR_MAX, "%s", glm_train_error(train));
		glm_train_close(train);
	}
	exchange->ops->close(exchange);
	data_free(&data);
	return NULL;
}

static void job_run(struct job *job)
{
	uint32_t classes = classes_of(job->matrix);
	struct rank_arg args[SHARED_RANKS];
	struct shared shared;

	shared_init(&shared, job->ranks);
	job->options.parallel = GLM_DATA_PARALLEL;
	for (uint32_t rank = 0; rank < job->ranks; rank++) {
		job->weight[rank] = calloc((FEATURES + 1) * classes, sizeof(float));
		job->activation[rank] = calloc(ROWS * classes, sizeof(double));
		args[rank] = (struct rank_arg){ .job = job, .shared = &shared, .rank = rank };
		assert_int_equal(pthread_create(&args[rank].id, NULL, rank_main, &args[rank]), 0);
	}
	for (uint32_t rank = 0; rank < job->ranks; rank++)
		pthread_join(args[rank].id, NULL);
	free(shared.large);
}

static void job_free(struct job *job)
{
	for (uint32_t rank = 0; rank < job->ranks; rank++) {
		free(job->weight[rank]);
		free(job->activation[rank]);
	}
}

static double loss_of(const struct reference *ref, const double *activation)
{
	double sum = 0;

	for (uint32_t row = 0; row < ROWS; row++)
		for (uint32_t c = 0; c < ref->classes; c++)
			sum += loss(ref->options->loss, activation[row * ref->classes + c],
				    reference_y(ref, row, c));
	return sum / ROWS;
}

static void compare(const struct job *job, const struct reference *ref)
{
	uint32_t classes = ref->classes, all = ROWS * classes;
	double *exact = calloc(all, sizeof(*exact)), of_ref;

	for (uint32_t i = 0; i < all; i++)
		exact[i] = reference_activation(ref, i / classes, i % classes);
	of_ref = loss_of(ref, exact);
	free(exact);
	for (uint32_t rank = 0; rank < job->ranks; rank++) {
		if (job->result[rank])
			fail_msg("rank %u: %s", rank, job->error[rank]);
		assert_memory_equal(job->activation[rank], job->activation[0],
				    all * sizeof(double));
	}
	if (fabs(loss_of(ref, job->activation[0]) / of_ref - 1) > near)
		fail_msg("%u ranks: loss %g, not %g", job->ranks, loss_of(ref, job->activation[0]),
			 of_ref);
	if (job->ranks == 1)
		assert_memory_equal(job->weight[0], ref->weight,
				    ref->columns * classes * sizeof(float));
}

/* One rank: the same bits. Several: nearly, and all ranks alike. */
static void rows__loss_is_that_of_one_matrix(void **state)
{
	static const uint32_t classes[] = { 2, 2, 4, 0 }, ranks[] = { 1, 2, 3, 8 };

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		const struct matrix_shape shape = { ROWS, FEATURES, classes[i], 150, 20 + i };
		struct glm_options options = {
			.loss = classes[i] ? GLM_LOGISTIC : GLM_LEAST_SQUARES,
			.bias = i == 2 ? -1 : 1,
			.l1 = i ? 0.001 : 0,
			.l2 = i ? 0.01 : 0,
			.rate = i == 1 ? 0 : 0.1,
			.batch = i ? 7 : 20, /* of the last mini-batch some ranks have no row */
			.is_shuffled = i % 2,
			.seed = i,
		};
		struct matrix matrix;

		matrix_make(&matrix, &shape);
		for (uint32_t r = 0; r < 4; r++) {
			struct job job = { .matrix = &matrix,
					   .options = options,
					   .ranks = ranks[r],
					   .threads = 1 };
			struct reference ref;

			job_run(&job);
			reference_open(&ref, &matrix, &options, job.rate);
			assert_true(options.rate > 0 || reference_is_rate(&ref, job.rate));
			for (uint32_t e = 0; e < EPOCHS; e++)
				reference_epoch(&ref, e);
			compare(&job, &ref);
			reference_close(&ref);
			job_free(&job);
		}
		matrix_free(&matrix);
	}
}

static void rows__what_cannot_be_fails_on_all_ranks(void **state)
{
	static const struct matrix_shape shape = { ROWS, FEATURES, 2, 150, 30 };
	struct matrix matrix;

	(void)state;
	matrix_make(&matrix, &shape);
	for (int i = 0; i < 2; i++) {
		struct job job = { .matrix = &matrix,
				   .options = { .loss = GLM_LEAST_SQUARES,
						.rate = i ? 1e15 : 0.1,
						.bias = -1,
						.batch = 10 },
				   .ranks = 3,
				   .threads = i ? 1 : 2 };
		uint32_t saturated = 0;

		job_run(&job);
		for (uint32_t rank = 0; rank < job.ranks; rank++) {
			assert_int_equal(job.result[rank], -1);
			saturated += strstr(job.error[rank], "mini-batch 2 of 9: saturated") !=
				     NULL;
			if (!i)
				assert_string_equal(
					job.error[rank],
					"data-parallel ranks have one thread, and all columns");
		}
		assert_int_equal(saturated > 0, i);
		job_free(&job);
	}
	matrix_free(&matrix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows__loss_is_that_of_one_matrix),
		cmocka_unit_test(rows__what_cannot_be_fails_on_all_ranks),
	};

	return cmocka_run_group_tests_name("glm-train-rows", tests, NULL, NULL);
}
