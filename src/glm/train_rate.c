/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_rate.c - a rate from the data, where none is given. What theory allows is found first: one over the curvature
 * that a mini-batch's loss can have at most. Most losses are flatter than that almost everywhere, and bear more: some
 * rows are tried with twice the rate, and twice that, as long as the loss after them becomes smaller (Bottou,
 * Stochastic Gradient Descent Tricks, 2012). Rows are float32 here whatever the layout.
 */
#include <math.h>
#include <stdlib.h>

#include "glm/train_state.h"
#include "util/rng.h"

enum {
	ROWS_MOST = 2048,
	STEPS_MOST = 128, /* of a pass: each waits for all ranks */
	STEPS_LEAST = 16, /* of a trial */
	DOUBLINGS = 10,
};

/* A pass over few rows flatters large rates: of those that are nearly as good as the best, half of the smallest. */
static const double nearly = 1.05, too_much = 2, prudence = 0.5;

struct trial {
	struct glm_train *train;
	uint32_t count; /* rows */
	uint32_t *rows;
	float *scales;
	double *a; /* [count * classes], as scales */
	struct train_sum sum;
};

/* ---- trials ---- */

/* 0; 1: something is beyond; -1. */
static int trial_batch(struct trial *trial, uint32_t first, uint32_t count, double rate)
{
	struct glm_train *train = trial->train;
	const uint32_t *rows = trial->rows + first;
	uint32_t classes = train->classes;
	int result;

	for (uint32_t t = 0; t < train->threads; t++)
		glm_engine_pay(&train->engines[t], rows, count);
	result = train_sum_rows(train, &trial->sum, rows, count, classes, trial->a);
	if (result)
		return result;
	for (uint32_t i = 0; i < count * classes; i++)
		trial->scales[i] = (float)dloss(train->options.loss,
						train->engines[0].multiplier * trial->a[i],
						train_label(train, rows[i / classes], i % classes));
	for (uint32_t t = 0; t < train->threads; t++) {
		glm_engine_backward(&train->engines[t], rows, count, trial->scales);
		glm_engine_step(&train->engines[t], rate, rows, count);
	}
	return 0;
}

/* The loss of the trial's rows after a pass over them, or several; infinite if something is beyond. 0 or -1. */
static int trial_run(struct trial *trial, double rate, double *mean)
{
	struct glm_train *train = trial->train;
	uint32_t batch = train->options.batch, classes = train->classes, steps = 0;
	double sum = 0;
	int result = 0;

	for (uint32_t t = 0; t < train->threads; t++)
		glm_engine_zero(&train->engines[t]);
	while (steps < STEPS_LEAST && !result)
		for (uint32_t first = 0; first < trial->count && !result; first += batch, steps++) {
			uint32_t left = trial->count - first;

			result = trial_batch(trial, first, left < batch ? left : batch, rate);
		}
	for (uint32_t t = 0; t < train->threads; t++)
		glm_engine_settle(&train->engines[t]); /* what is not finite is beyond, next */
	if (!result)
		result = train_sum_rows(train, &trial->sum, trial->rows, trial->count, classes,
					trial->a);
	for (uint32_t i = 0; i < trial->count * classes && !result; i++)
		sum += loss(train->options.loss, trial->a[i],
			    train_label(train, trial->rows[i / classes], i % classes));
	*mean = result ? (double)INFINITY : sum / trial->count;
	return result < 0 ? -1 : 0;
}

static int trials_run(struct trial *trial, double *rate)
{
	double after[DOUBLINGS + 1], best = (double)INFINITY, first = *rate;
	int tried = 0, k = 0;

	while (tried <= DOUBLINGS && ldexp(first, tried) * trial->train->options.l2 < 1) {
		if (trial_run(trial, ldexp(first, tried), &after[tried]))
			return -1;
		best = fmin(best, after[tried]);
		if (!(after[tried++] <= best * too_much))
			break;
	}
	while (k < tried && !(after[k] <= best * nearly))
		k++;
	if (k && k < tried)
		*rate = prudence * ldexp(first, k);
	return 0;
}

/* From all over the file, and in no order: a file may have one class after the other. */
static void rows_choose(struct trial *trial)
{
	uint64_t rows = trial->train->data->rows;
	struct rng rng;

	rng_init(&rng, 0, 0);
	for (uint32_t i = 0; i < trial->count; i++)
		trial->rows[i] = (uint32_t)(i * rows / trial->count);
	for (uint32_t i = trial->count - 1; i > 0; i--) {
		uint32_t other = rng_below(&rng, i + 1), row = trial->rows[i];

		trial->rows[i] = trial->rows[other];
		trial->rows[other] = row;
	}
}

static int rate_try(struct glm_train *train, double *rate)
{
	uint64_t count = (uint64_t)train->options.batch * STEPS_MOST;
	struct trial trial = { .train = train };
	size_t all;
	int result;

	if (count > ROWS_MOST)
		count = ROWS_MOST;
	trial.count = (uint32_t)(count < train->data->rows ? count : train->data->rows);
	all = (size_t)trial.count * train->classes;
	trial.rows = malloc(trial.count * sizeof(*trial.rows));
	trial.scales = malloc(all * sizeof(*trial.scales));
	trial.a = malloc(all * sizeof(*trial.a));
	if (train_sum_open(&trial.sum, train, trial.count) || !trial.rows || !trial.scales ||
	    !trial.a) {
		result = train_give_up(train, "out of memory");
	} else {
		rows_choose(&trial);
		result = trials_run(&trial, rate);
	}
	for (uint32_t t = 0; t < train->threads; t++)
		glm_engine_zero(&train->engines[t]);
	train_sum_close(&trial.sum);
	free(trial.rows);
	free(trial.scales);
	free(trial.a);
	return result;
}

/* ---- the rate ---- */

/*
 * A step of 1 / curvature goes to the bottom of a parabola. The mean gradient of B rows sees a curvature of at most
 * smoothness * (largest + mean square / B), the second part being chance; half of that step is safe for all of
 * them (Gower et al. 2019). So is 1 / (smoothness * mean square), which is more where rows are alike.
 */
int train_rate_auto(struct glm_train *train, double mean_square)
{
	double smoothness = loss_smoothness(train->options.loss), largest = 0, alike, sparse;

	train->rate = 1;
	if (!(mean_square > 0))
		return 0;
	if (train_curve(train, mean_square, &largest))
		return -1;
	alike = 1 / (smoothness * mean_square);
	sparse = 1 / (2 * smoothness * (largest + mean_square / train->options.batch));
	train->rate = alike > sparse ? alike : sparse;
	return rate_try(train, &train->rate);
}
