/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - see engine.h. */
#include "glm/engine.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_AHEAD = 6 };

/* Below this the multiplier becomes part of the weights: it costs them at most one bit of the range that
 * products have, and is due once in ln(2) / (rate * l2) steps. */
static const double multiplier_min = 0.5;

int glm_engine_open(struct glm_engine *engine, const struct glm_share *share,
		    const struct glm_engine_options *options)
{
	uint64_t columns = (uint64_t)share->columns + options->has_bias;
	size_t weights = (size_t)columns * options->classes;

	*engine = (struct glm_engine){ .options = *options,
				       .kernels = glm_engine_kernels_best(),
				       .share = share,
				       .columns = (uint32_t)columns,
				       .multiplier = 1 };
	if (columns > UINT32_MAX)
		return -1;
	engine->weight = calloc(weights + 1, sizeof(float));
	engine->gradient = calloc(weights + 1, sizeof(float));
	if (options->l1 > 0)
		engine->paid = calloc(columns + 1, sizeof(double));
	if (engine->weight && engine->gradient && (engine->paid || !(options->l1 > 0)))
		return 0;
	glm_engine_close(engine);
	return -1;
}

void glm_engine_close(struct glm_engine *engine)
{
	free(engine->weight);
	free(engine->gradient);
	free(engine->paid);
	*engine = (struct glm_engine){ 0 };
}

/* ---- L1 ---- */

static float towards_zero(float weight, float by)
{
	if (weight >= -by && weight <= by)
		return 0;
	return weight > 0 ? weight - by : weight + by; /* NaN stays NaN */
}

static void column_pay(struct glm_engine *engine, uint32_t column)
{
	float *weight = engine->weight + (size_t)column * engine->options.classes;
	float due = (float)(engine->owed - engine->paid[column]);

	engine->paid[column] = engine->owed;
	for (uint32_t c = 0; c < engine->options.classes; c++)
		weight[c] = towards_zero(weight[c], due);
}

void glm_engine_pay(struct glm_engine *engine, const uint32_t *rows, uint32_t count)
{
	const struct glm_share *share = engine->share;

	if (!engine->paid)
		return;
	for (uint32_t i = 0; i < count; i++)
		for (uint64_t at = share->start[rows[i]]; at < share->start[rows[i] + 1]; at++)
			if (engine->paid[share->column[at]] < engine->owed)
				column_pay(engine, share->column[at]);
	if (engine->options.has_bias && count)
		column_pay(engine, engine->columns - 1);
}

bool glm_engine_settle(struct glm_engine *engine)
{
	size_t weights = (size_t)engine->columns * engine->options.classes;
	bool is_finite = true;

	for (uint32_t column = 0; engine->paid && column < engine->columns; column++) {
		column_pay(engine, column);
		engine->paid[column] = 0;
	}
	engine->owed = 0;
	for (size_t i = 0; i < weights; i++) {
		engine->weight[i] = (float)(engine->multiplier * (double)engine->weight[i]);
		is_finite &= fabsf(engine->weight[i]) <= FLT_MAX;
	}
	engine->multiplier = 1;
	return is_finite;
}

/* ---- forward ---- */

static bool part_add(int64_t *part, int64_t more)
{
	return !__builtin_add_overflow(*part, more, part);
}

static bool row_one(const struct glm_engine *engine, const struct glm_share *share, uint32_t row,
		    int64_t *part)
{
	uint64_t at = share->start[row], end = share->start[row + 1], beyond = 0;
	bool fits = true;

	*part = 0;
	while (at < end) {
		uint64_t left = end - at;
		uint32_t count = left < ENGINE_PRODUCTS_MAX ? (uint32_t)left : ENGINE_PRODUCTS_MAX;

		fits &= part_add(part, engine->kernels->dot(share->column + at, share->value + at,
							    count, engine->weight, &beyond));
		at += count;
	}
	if (engine->options.has_bias) {
		uint32_t last = engine->columns - 1;

		fits &= part_add(part, engine->kernels->dot(&last, &engine->options.bias, 1,
							    engine->weight, &beyond));
	}
	return fits && !(beyond >> 52);
}

static bool classes_add(int64_t *parts, const int64_t *more, uint32_t classes)
{
	bool fits = true;

	for (uint32_t c = 0; c < classes; c++)
		fits &= part_add(&parts[c], more[c]);
	return fits;
}

static bool row_classes(const struct glm_engine *engine, const struct glm_share *share,
			uint32_t row, int64_t *parts)
{
	uint64_t at = share->start[row], end = share->start[row + 1], beyond = 0;
	const struct glm_engine_kernels *kernels = engine->kernels;
	uint32_t classes = engine->options.classes, last = engine->columns - 1;
	int64_t more[GLM_CLASSES_MAX];
	bool fits = true;

	memset(parts, 0, classes * sizeof(*parts));
	while (at < end) {
		uint64_t left = end - at;
		uint32_t count = left < ENGINE_PRODUCTS_MAX ? (uint32_t)left : ENGINE_PRODUCTS_MAX;

		memset(more, 0, classes * sizeof(*more));
		kernels->dots(share->column + at, share->value + at, count, engine->weight, classes,
			      more, &beyond);
		fits &= classes_add(parts, more, classes);
		at += count;
	}
	if (engine->options.has_bias) {
		memset(more, 0, classes * sizeof(*more));
		kernels->dots(&last, &engine->options.bias, 1, engine->weight, classes, more,
			      &beyond);
		fits &= classes_add(parts, more, classes);
	}
	return fits && !(beyond >> 52);
}

/* Rows lie anywhere: where one begins is fetched early, and then the row, by the time that its turn comes. */
static void fetch(const struct glm_share *share, const uint32_t *rows, uint32_t known, uint32_t i)
{
	uint64_t first, end;

	if (i + 2 * ROWS_AHEAD < known)
		__builtin_prefetch(&share->start[rows[i + 2 * ROWS_AHEAD]]);
	if (i + ROWS_AHEAD >= known)
		return;
	first = share->start[rows[i + ROWS_AHEAD]];
	end = share->start[rows[i + ROWS_AHEAD] + 1];
	__builtin_prefetch(share->column + first);
	__builtin_prefetch(share->value + first);
	__builtin_prefetch(share->column + end);
	__builtin_prefetch(share->value + end);
}

bool glm_engine_forward(const struct glm_engine *engine, const struct glm_share *share,
			const uint32_t *rows, uint32_t count, uint32_t known, int64_t *parts)
{
	uint32_t classes = engine->options.classes;
	bool fits = true;

	for (uint32_t i = 0; i < count; i++) {
		fetch(share, rows, known, i);
		fits &= classes == 1
				? row_one(engine, share, rows[i], parts + i)
				: row_classes(engine, share, rows[i], parts + (size_t)i * classes);
	}
	return fits;
}

/* ---- backward ---- */

static void row_back(struct glm_engine *engine, uint32_t row, const float *scale)
{
	const struct glm_share *share = engine->share;
	uint64_t end = share->start[row + 1];
	uint32_t classes = engine->options.classes;

	for (uint64_t at = share->start[row]; at < end; at++) {
		float *gradient = engine->gradient + (size_t)share->column[at] * classes;

		for (uint32_t c = 0; c < classes; c++)
			gradient[c] += scale[c] * share->value[at];
	}
}

static void row_back_one(struct glm_engine *engine, uint32_t row, float scale)
{
	const struct glm_share *share = engine->share;
	uint64_t end = share->start[row + 1];
	float *gradient = engine->gradient;

	for (uint64_t at = share->start[row]; at < end; at++)
		gradient[share->column[at]] += scale * share->value[at];
}

/* No gradient is ever -0: a row whose scales are 0 changes nothing, and may be left out. */
static bool is_zero(const float *scale, uint32_t classes)
{
	for (uint32_t c = 0; c < classes; c++)
		if (scale[c] != 0)
			return false;
	return true;
}

void glm_engine_backward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			 const float *scales)
{
	uint32_t classes = engine->options.classes;
	float *of_bias = engine->gradient + ((size_t)engine->columns - 1) * classes;

	for (uint32_t i = 0; i < count; i++) {
		const float *scale = scales + (size_t)i * classes;

		if (is_zero(scale, classes))
			continue;
		if (classes == 1)
			row_back_one(engine, rows[i], scale[0]);
		else
			row_back(engine, rows[i], scale);
		for (uint32_t c = 0; engine->options.has_bias && c < classes; c++)
			of_bias[c] += scale[c] * engine->options.bias;
	}
}

/* ---- the step ---- */

static void weights_step(struct glm_engine *engine, size_t first, size_t count, float factor)
{
	float *weight = engine->weight + first, *gradient = engine->gradient + first;

	for (size_t i = 0; i < count; i++) {
		weight[i] -= factor * gradient[i];
		gradient[i] = 0;
	}
}

/* Where the gradient is 0 a step changes no bit: each column of these rows once, or all of them at once. */
static void step_rows(struct glm_engine *engine, const uint32_t *rows, uint32_t count, float factor)
{
	const struct glm_share *share = engine->share;
	uint32_t classes = engine->options.classes;

	for (uint32_t i = 0; i < count; i++)
		for (uint64_t at = share->start[rows[i]]; at < share->start[rows[i] + 1]; at++)
			weights_step(engine, (size_t)share->column[at] * classes, classes, factor);
	if (engine->options.has_bias)
		weights_step(engine, ((size_t)engine->columns - 1) * classes, classes, factor);
}

void glm_engine_step(struct glm_engine *engine, double rate, const uint32_t *rows, uint32_t count)
{
	const struct glm_share *share = engine->share;
	uint32_t classes = engine->options.classes;
	uint64_t nonzeros = 0;
	float factor;

	engine->multiplier *= 1 - rate * engine->options.l2;
	factor = (float)(rate / count / engine->multiplier);
	for (uint32_t i = 0; i < count; i++)
		nonzeros += share->start[rows[i] + 1] - share->start[rows[i]];
	if (nonzeros * 4 < engine->columns)
		step_rows(engine, rows, count, factor);
	else
		weights_step(engine, 0, (size_t)engine->columns * classes, factor);
	if (engine->paid)
		engine->owed += rate * engine->options.l1 / engine->multiplier;
	if (engine->multiplier < multiplier_min)
		glm_engine_settle(engine);
}
