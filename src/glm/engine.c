/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - see engine.h: what is the same whatever the layout. */
#include "glm/engine.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this the multiplier becomes part of the weights: it costs them at most one bit of the range that
 * products have, and is due once in ln(2) / (rate * l2) steps. */
static const double multiplier_min = 0.5;

static const struct glm_layout_ops *const layouts[] = {
	[GLM_LAYOUT_CSR] = &glm_layout_csr,
	[GLM_LAYOUT_DENSE] = &glm_layout_dense,
	[GLM_LAYOUT_WEAVE] = &glm_layout_weave,
};

int glm_engine_open(struct glm_engine *engine, const struct glm_share *share,
		    const struct glm_engine_options *options)
{
	uint64_t columns = (uint64_t)share->columns + options->has_bias;
	size_t weights = (size_t)columns * options->classes;

	*engine = (struct glm_engine){ .options = *options,
				       .kernels = glm_engine_kernels_best(),
				       .layout = &glm_layout_csr,
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

int glm_engine_lay(struct glm_engine *engine, enum glm_layout layout, uint64_t rows)
{
	engine->layout = layouts[layout];
	if (!engine->layout->open(engine, rows))
		return 0;
	engine->layout->close(engine);
	engine->layout = &glm_layout_csr;
	return -1;
}

void glm_engine_close(struct glm_engine *engine)
{
	if (engine->layout)
		engine->layout->close(engine);
	free(engine->weight);
	free(engine->gradient);
	free(engine->paid);
	*engine = (struct glm_engine){ 0 };
}

void glm_engine_changed(struct glm_engine *engine)
{
	if (engine->layout->changed)
		engine->layout->changed(engine);
}

void glm_engine_zero(struct glm_engine *engine)
{
	size_t bytes = (size_t)engine->columns * engine->options.classes * sizeof(float);

	memset(engine->weight, 0, bytes);
	memset(engine->gradient, 0, bytes);
	if (engine->paid)
		memset(engine->paid, 0, engine->columns * sizeof(*engine->paid));
	engine->owed = 0;
	engine->multiplier = 1;
	engine->rows_read = 0;
	engine->bytes_read = 0;
	glm_engine_changed(engine);
}

void glm_engine_pay(struct glm_engine *engine, const uint32_t *rows, uint32_t count)
{
	if (!engine->paid)
		return;
	engine->layout->pay(engine, rows, count);
	if (engine->options.has_bias && count)
		layout_column_pay(engine, engine->columns - 1);
}

bool glm_engine_settle(struct glm_engine *engine)
{
	size_t weights = (size_t)engine->columns * engine->options.classes;
	bool is_finite = true;

	for (uint32_t column = 0; engine->paid && column < engine->columns; column++) {
		layout_column_pay(engine, column);
		engine->paid[column] = 0;
	}
	engine->owed = 0;
	for (size_t i = 0; i < weights; i++) {
		engine->weight[i] = (float)(engine->multiplier * (double)engine->weight[i]);
		is_finite &= fabsf(engine->weight[i]) <= FLT_MAX;
	}
	engine->multiplier = 1;
	glm_engine_changed(engine);
	return is_finite;
}

/* ---- forward ---- */

/* The bias's product is the same in every row. */
static bool bias_add(const struct glm_engine *engine, uint32_t count, int64_t *parts)
{
	uint32_t classes = engine->options.classes;
	const float *weight;
	const uint32_t first = 0;
	int64_t more[GLM_CLASSES_MAX] = { 0 };
	uint64_t beyond = 0;
	bool fits = true;

	if (!engine->options.has_bias || !count)
		return true;
	weight = engine->weight + ((size_t)engine->columns - 1) * classes;
	engine->kernels->dots(&first, &engine->options.bias, 1, weight, classes, more, &beyond);
	for (size_t i = 0; i < count; i++)
		for (uint32_t c = 0; c < classes; c++)
			fits &= layout_part_add(&parts[i * classes + c], more[c]);
	return fits && !(beyond >> 52);
}

bool glm_engine_forward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			uint32_t known, int64_t *parts)
{
	engine->rows_read += count;
	return engine->layout->forward(engine, rows, count, known, parts) &&
	       bias_add(engine, count, parts);
}

bool glm_engine_score(const struct glm_engine *engine, const struct glm_share *share,
		      const uint32_t *rows, uint32_t count, int64_t *parts)
{
	return layout_csr_rows(engine, share, rows, count, count, parts) &&
	       bias_add(engine, count, parts);
}

/* ---- backward and the step ---- */

void glm_engine_backward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			 const float *scales)
{
	uint32_t classes = engine->options.classes;
	float *of_bias = NULL;

	if (engine->options.has_bias)
		of_bias = engine->gradient + ((size_t)engine->columns - 1) * classes;
	engine->layout->backward(engine, rows, count, scales);
	for (uint32_t i = 0; i < count; i++) {
		const float *scale = scales + (size_t)i * classes;

		engine->rows_read += !layout_is_zero(scale, classes);
		for (uint32_t c = 0; of_bias && c < classes; c++)
			of_bias[c] += scale[c] * engine->options.bias;
	}
}

void glm_engine_step(struct glm_engine *engine, double rate, const uint32_t *rows, uint32_t count)
{
	uint32_t classes = engine->options.classes;
	float factor;

	engine->multiplier *= 1 - rate * engine->options.l2;
	factor = (float)(rate / count / engine->multiplier);
	engine->layout->step(engine, rows, count, factor);
	if (engine->options.has_bias)
		layout_weights_step(engine, ((uint64_t)engine->columns - 1) * classes, classes,
				    factor);
	if (engine->paid)
		engine->owed += rate * engine->options.l1 / engine->multiplier;
	if (engine->multiplier < multiplier_min)
		glm_engine_settle(engine);
	glm_engine_changed(engine);
}
