/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_job_fixture.h - for tests of the trainer: a training of ranks that are threads, over sums in memory that they
 * share, and what each of them has said. Included once in a program.
 */
#ifndef GLM_TRAIN_JOB_FIXTURE_H
#define GLM_TRAIN_JOB_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "glm/exchange_fixture.h"
#include "glm/train_fixture.h"

/* Not every test needs all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

enum { EPOCHS = 2 };

/* One way to compute what must always be the same. */
struct way {
	uint32_t ranks, threads, micro;
};

struct job {
	const struct matrix *matrix;
	struct glm_options options;
	struct way way;
	uint32_t epochs;
	const void *state; /* to go on from */
	size_t state_bytes;
	uint32_t odd_rank; /* this one, if above 0, has another file */
	bool is_turned;    /* its two classes are not in the order in which they appear */
	uint64_t fail_from;

	/* what rank 0 has at the end, and what every rank has said */
	float *weight;
	double *activation, rate;
	void *saved;
	size_t saved_bytes;
	uint32_t micro;
	int result[SHARED_RANKS];
	char error[SHARED_RANKS][GLM_ERROR_MAX];
	double *activations[SHARED_RANKS];
};

struct rank_arg {
	struct job *job;
	struct shared *shared;
	uint32_t rank;
	pthread_t id;
};

static uint32_t weights_count(const struct matrix *matrix, const struct glm_options *options)
{
	uint32_t classes = matrix->classes_count > 2 ? matrix->classes_count : 1;

	return (matrix->features + (options->bias >= 0)) * classes;
}

static int rank_train(struct job *job, struct glm_train *train, const struct glm_data *data,
		      uint32_t rank)
{
	uint32_t classes = glm_train_classes(train);
	int result = 0;

	if (!rank)
		job->rate = glm_train_rate(train);
	if (job->state)
		result = glm_train_load(train, job->state, job->state_bytes);
	for (uint32_t e = 0; e < job->epochs && !result; e++)
		result = glm_train_epoch(train, NULL, NULL);
	job->activations[rank] = calloc((size_t)data->rows * classes, sizeof(double));
	if (!result)
		result = glm_train_activations(train, data, job->activations[rank]);
	if (!result)
		result = glm_train_weights(train, rank ? NULL : job->weight);
	if (!result) {
		void *bytes;
		size_t count;

		result = glm_train_save(train, &bytes, &count);
		assert(result || !bytes == !!rank);
		if (!rank) {
			job->saved = bytes;
			job->saved_bytes = count;
			job->micro = glm_train_micro(train);
		}
	}
	return result;
}

static void *rank_main(void *arg)
{
	struct rank_arg *me = arg;
	struct job *job = me->job;
	struct exchange *exchange = shared_open(me->shared, me->rank);
	struct glm_train *train;
	struct glm_data data;
	char *error = job->error[me->rank];

	data_make(job->matrix, me->rank, job->way.ranks, job->way.threads, &data);
	if (job->odd_rank && me->rank == job->odd_rank)
		data.hash++;
	if (job->is_turned) {
		double first = data.classes[0];

		data.classes[0] = data.classes[1];
		data.classes[1] = first;
	}
	job->result[me->rank] = glm_train_open(&train, &data, &job->options, exchange, error);
	if (!job->result[me->rank]) {
		job->result[me->rank] = rank_train(job, train, &data, me->rank);
		snprintf(error, GLM_ERROR_MAX, "%s", glm_train_error(train));
		glm_train_close(train);
	}
	exchange->ops->close(exchange);
	data_free(&data);
	return NULL;
}

static void job_run(struct job *job)
{
	struct rank_arg args[SHARED_RANKS];
	struct shared shared;

	shared_init(&shared, job->way.ranks);
	shared.fail_from = job->fail_from;
	job->options.micro = job->way.micro;
	job->weight = calloc(weights_count(job->matrix, &job->options), sizeof(float));
	for (uint32_t rank = 0; rank < job->way.ranks; rank++) {
		args[rank] = (struct rank_arg){ .job = job, .shared = &shared, .rank = rank };
		assert_int_equal(pthread_create(&args[rank].id, NULL, rank_main, &args[rank]), 0);
	}
	for (uint32_t rank = 0; rank < job->way.ranks; rank++)
		pthread_join(args[rank].id, NULL);
	free(shared.large);
}

static void job_free(struct job *job)
{
	free(job->weight);
	free(job->saved);
	for (uint32_t rank = 0; rank < SHARED_RANKS; rank++)
		free(job->activations[rank]);
	job->weight = NULL;
	job->saved = NULL;
	memset(job->activations, 0, sizeof(job->activations));
}

/* ---- what is compared ---- */

static void compare(const struct job *job, const struct reference *ref)
{
	uint32_t count = weights_count(job->matrix, &job->options);

	for (uint32_t rank = 0; rank < job->way.ranks; rank++)
		if (job->result[rank])
			fail_msg("rank %u: %s", rank, job->error[rank]);
	for (uint32_t i = 0; i < count; i++)
		if (memcmp(&job->weight[i], &ref->weight[i], sizeof(float)) != 0)
			fail_msg("%u ranks, %u threads, micro-batch %u: weight %u is %a, not %a",
				 job->way.ranks, job->way.threads, job->way.micro, i,
				 (double)job->weight[i], (double)ref->weight[i]);
	for (uint32_t rank = 0; rank < job->way.ranks; rank++)
		for (uint32_t row = 0; row < job->matrix->rows; row++)
			for (uint32_t c = 0; c < ref->classes; c++)
				assert_true(job->activations[rank][row * ref->classes + c] ==
					    reference_activation(ref, row, c));
}

static const struct glm_options plain = { .loss = GLM_LOGISTIC,
					  .bias = 1,
					  .rate = 0.2,
					  .batch = 23 };

/* A third of all ways, in which any two of ranks, threads and micro-batch meet; thirds 0, 1 and 2 are all. */
static void ways_check(const struct matrix *matrix, const struct glm_options *options,
		       uint32_t third)
{
	static const uint32_t many_ranks[] = { 1, 2, 3, 4, 8 }, micros[] = { 1, 8, 64 };
	struct reference ref = { .weight = NULL };
	uint32_t used = 0;

	for (uint32_t r = 0; r < 5; r++)
		for (uint32_t m = 0; m < 3; m++) {
			struct job job = { .matrix = matrix,
					   .options = *options,
					   .way = { many_ranks[r], 1 + (r + m + third) % 3,
						    micros[m] },
					   .epochs = EPOCHS };

			job_run(&job);
			if (!ref.weight) {
				reference_open(&ref, matrix, options, job.rate);
				assert_true(options->rate > 0 || reference_is_rate(&ref, job.rate));
				for (uint32_t e = 0; e < EPOCHS; e++)
					reference_epoch(&ref, e);
			}
			compare(&job, &ref);
			job_free(&job);
		}
	for (uint32_t i = 0; i < weights_count(matrix, options); i++)
		used += ref.weight[i] != 0;
	assert_true(used > matrix->features / 8);
	reference_close(&ref);
}

#endif
