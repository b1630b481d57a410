/* SPDX-License-Identifier: Apache-2.0 */
/* layout_csr.c - rows as load.h gives them, and what all layouts share. */
#include <string.h>

#include "glm/engine.h"

enum { ROWS_AHEAD = 6 };

static int csr_open(struct glm_engine *engine, uint64_t rows)
{
	(void)engine;
	(void)rows;
	return 0;
}

static void csr_close(struct glm_engine *engine)
{
	(void)engine;
}

/* ---- L1 ---- */

static float towards_zero(float weight, float by)
{
	if (weight >= -by && weight <= by)
		return 0;
	return weight > 0 ? weight - by : weight + by; /* NaN stays NaN */
}

void layout_column_pay(struct glm_engine *engine, uint32_t column)
{
	float *weight = engine->weight + (size_t)column * engine->options.classes;
	float due = (float)(engine->owed - engine->paid[column]);

	engine->paid[column] = engine->owed;
	for (uint32_t c = 0; c < engine->options.classes; c++)
		weight[c] = towards_zero(weight[c], due);
}

static void csr_pay(struct glm_engine *engine, const uint32_t *rows, uint32_t count)
{
	const struct glm_share *share = engine->share;

	for (uint32_t i = 0; i < count; i++)
		for (uint64_t at = share->start[rows[i]]; at < share->start[rows[i] + 1]; at++)
			if (engine->paid[share->column[at]] < engine->owed)
				layout_column_pay(engine, share->column[at]);
}

/* ---- forward ---- */

static bool row_one(const struct glm_engine *engine, const struct glm_share *share, uint32_t row,
		    int64_t *part)
{
	uint64_t at = share->start[row], end = share->start[row + 1], beyond = 0;
	bool fits = true;

	*part = 0;
	while (at < end) {
		uint64_t left = end - at;
		uint32_t count = left < ENGINE_PRODUCTS_MAX ? (uint32_t)left : ENGINE_PRODUCTS_MAX;

		fits &= layout_part_add(part,
					engine->kernels->dot(share->column + at, share->value + at,
							     count, engine->weight, &beyond));
		at += count;
	}
	return fits && !(beyond >> 52);
}

static bool row_classes(const struct glm_engine *engine, const struct glm_share *share,
			uint32_t row, int64_t *parts)
{
	uint64_t at = share->start[row], end = share->start[row + 1], beyond = 0;
	uint32_t classes = engine->options.classes;
	int64_t more[GLM_CLASSES_MAX];
	bool fits = true;

	memset(parts, 0, classes * sizeof(*parts));
	while (at < end) {
		uint64_t left = end - at;
		uint32_t count = left < ENGINE_PRODUCTS_MAX ? (uint32_t)left : ENGINE_PRODUCTS_MAX;

		memset(more, 0, classes * sizeof(*more));
		engine->kernels->dots(share->column + at, share->value + at, count, engine->weight,
				      classes, more, &beyond);
		for (uint32_t c = 0; c < classes; c++)
			fits &= layout_part_add(&parts[c], more[c]);
		at += count;
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

bool layout_csr_rows(const struct glm_engine *engine, const struct glm_share *share,
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

/* A row is where it starts and ends, its columns and its values. */
static uint64_t row_bytes(const struct glm_share *share, uint32_t row)
{
	return 2 * sizeof(uint64_t) +
	       (share->start[row + 1] - share->start[row]) * (sizeof(uint32_t) + sizeof(float));
}

static bool csr_forward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			uint32_t known, int64_t *parts)
{
	for (uint32_t i = 0; i < count; i++)
		engine->bytes_read += row_bytes(engine->share, rows[i]);
	return layout_csr_rows(engine, engine->share, rows, count, known, parts);
}

/* ---- backward ---- */

static void row_back(struct glm_engine *engine, uint32_t row, const float *scale)
{
	const struct glm_share *share = engine->share;
	uint64_t end = share->start[row + 1];
	uint32_t classes = engine->options.classes;

	engine->bytes_read += row_bytes(share, row);
	for (uint64_t at = share->start[row]; at < end; at++) {
		float *gradient = engine->gradient + (size_t)share->column[at] * classes;

		for (uint32_t c = 0; c < classes; c++)
			gradient[c] += scale[c] * share->value[at];
	}
}

static void row_back_one(struct glm_engine *engine, uint32_t row, const float *scale)
{
	const struct glm_share *share = engine->share;
	uint64_t end = share->start[row + 1];
	float *gradient = engine->gradient, s = *scale;

	engine->bytes_read += row_bytes(share, row);
	for (uint64_t at = share->start[row]; at < end; at++)
		gradient[share->column[at]] += s * share->value[at];
}

bool layout_is_zero(const float *scale, uint32_t classes)
{
	for (uint32_t c = 0; c < classes; c++)
		if (scale[c] != 0)
			return false;
	return true;
}

void layout_rows_back(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
		      const float *scales, layout_row_back_fn back)
{
	uint32_t classes = engine->options.classes;

	for (uint32_t i = 0; i < count; i++) {
		const float *scale = scales + (size_t)i * classes;

		if (!layout_is_zero(scale, classes))
			back(engine, rows[i], scale);
	}
}

static void csr_backward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			 const float *scales)
{
	layout_rows_back(engine, rows, count, scales,
			 engine->options.classes == 1 ? row_back_one : row_back);
}

/* ---- the step ---- */

void layout_weights_step(struct glm_engine *engine, uint64_t first, uint64_t count, float factor)
{
	float *weight = engine->weight + first, *gradient = engine->gradient + first;

	for (uint64_t i = 0; i < count; i++) {
		weight[i] -= factor * gradient[i];
		gradient[i] = 0;
	}
}

/* Where the gradient is 0 a step changes no bit: each column of these rows once, or all of them at once. */
static void csr_step(struct glm_engine *engine, const uint32_t *rows, uint32_t count, float factor)
{
	const struct glm_share *share = engine->share;
	uint32_t classes = engine->options.classes;
	uint64_t nonzeros = 0;

	for (uint32_t i = 0; i < count; i++)
		nonzeros += share->start[rows[i] + 1] - share->start[rows[i]];
	if (nonzeros * 4 >= share->columns) {
		layout_weights_step(engine, 0, (uint64_t)share->columns * classes, factor);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		for (uint64_t at = share->start[rows[i]]; at < share->start[rows[i] + 1]; at++)
			layout_weights_step(engine, (uint64_t)share->column[at] * classes, classes,
					    factor);
}

const struct glm_layout_ops glm_layout_csr = {
	.open = csr_open,
	.close = csr_close,
	.pay = csr_pay,
	.forward = csr_forward,
	.backward = csr_backward,
	.step = csr_step,
};
