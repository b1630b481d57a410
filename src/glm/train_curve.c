/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_curve.c - how much the rows X agree on one direction: the largest eigenvalue of X'X / rows, from which a rate
 * follows. Found by a few rounds of u <- X X'u over some rows, with the engines: activations are what all ranks
 * have, and so the same bits whoever has which columns.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "glm/train_state.h"

enum { ROWS_MOST = 2048, ROUNDS = 8 };

struct curve {
	struct glm_train *train;
	uint32_t count; /* rows */
	uint32_t *rows;
	double *u;     /* [count] */
	float *scales; /* [count * classes]: of the first class alone */
	struct train_sum sum;
};

static double norm(const struct curve *curve)
{
	double sum = 0;

	for (uint32_t i = 0; i < curve->count; i++)
		sum += curve->u[i] * curve->u[i];
	return sqrt(sum);
}

/* The engine's weights become X'u, of its columns. */
static void columns_make_weights(const struct curve *curve, struct glm_engine *engine)
{
	size_t bytes = (size_t)engine->columns * curve->train->classes * sizeof(float);

	glm_engine_backward(engine, curve->rows, curve->count, curve->scales);
	memcpy(engine->weight, engine->gradient, bytes);
	memset(engine->gradient, 0, bytes);
}

/* u <- X X'u. 0; 1: something was beyond; -1. */
static int turn(struct curve *curve)
{
	struct glm_train *train = curve->train;

	for (uint32_t i = 0; i < curve->count; i++)
		curve->scales[(size_t)i * train->classes] = (float)curve->u[i];
	for (uint32_t t = 0; t < train->threads; t++)
		columns_make_weights(curve, &train->engines[t]);
	return train_sum_rows(train, &curve->sum, curve->rows, curve->count, 1, curve->u);
}

/* mean_square bounds it from above, and is the answer where nothing better is found. */
static int rounds(struct curve *curve, double mean_square, double *largest)
{
	for (uint32_t i = 0; i < curve->count; i++)
		curve->u[i] = 1;
	for (int round = 0; round < ROUNDS; round++) {
		/* So that no activation is large: |X X'| is at most rows * mean_square. */
		double factor = 1 / (norm(curve) * mean_square), before;
		int result;

		for (uint32_t i = 0; i < curve->count; i++)
			curve->u[i] *= factor;
		before = norm(curve);
		result = turn(curve);
		if (result < 0)
			return -1;
		if (result > 0 || !(norm(curve) > 0)) {
			*largest = mean_square;
			return 0;
		}
		*largest = norm(curve) / before / curve->count;
	}
	return 0;
}

int train_curve(struct glm_train *train, double mean_square, double *largest)
{
	uint64_t rows = train->data->rows;
	uint32_t count = rows < ROWS_MOST ? (uint32_t)rows : ROWS_MOST;
	size_t all = (size_t)count * train->classes;
	struct curve curve = { .train = train,
			       .count = count,
			       .rows = malloc(count * sizeof(*curve.rows)),
			       .u = malloc(count * sizeof(*curve.u)),
			       .scales = calloc(all, sizeof(*curve.scales)) };
	int result;

	for (uint32_t i = 0; curve.rows && i < count; i++)
		curve.rows[i] = (uint32_t)(i * rows / count); /* from all over the file */
	if (train_sum_open(&curve.sum, train, count) || !curve.rows || !curve.u || !curve.scales)
		result = train_give_up(train, "out of memory");
	else
		result = rounds(&curve, mean_square, largest);
	for (uint32_t t = 0; t < train->threads; t++)
		glm_engine_zero(&train->engines[t]);
	free(curve.rows);
	free(curve.u);
	free(curve.scales);
	train_sum_close(&curve.sum);
	return result;
}
