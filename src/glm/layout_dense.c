/* SPDX-License-Identifier: Apache-2.0 */
/* layout_dense.c - all values of a row side by side, as float32, zeros too: the bits that CSR gives. */
#include <stdlib.h>
#include <string.h>

#include "glm/engine.h"

static int dense_open(struct glm_engine *engine, uint64_t rows)
{
	const struct glm_share *share = engine->share;

	engine->dense = calloc(rows * share->columns + 1, sizeof(float));
	if (!engine->dense)
		return -1;
	for (uint64_t row = 0; row < rows; row++)
		for (uint64_t at = share->start[row]; at < share->start[row + 1]; at++)
			engine->dense[row * share->columns + share->column[at]] = share->value[at];
	return 0;
}

static void dense_close(struct glm_engine *engine)
{
	free(engine->dense);
}

static const float *row_values(struct glm_engine *engine, uint32_t row)
{
	engine->bytes_read += engine->share->columns * sizeof(float);
	return engine->dense + (uint64_t)row * engine->share->columns;
}

/* Who uses a column is who has a value there, as with CSR. */
static void dense_pay(struct glm_engine *engine, const uint32_t *rows, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const float *value = row_values(engine, rows[i]);

		for (uint32_t j = 0; j < engine->share->columns; j++)
			if (value[j] != 0 && engine->paid[j] < engine->owed)
				layout_column_pay(engine, j);
	}
}

/* Several classes: the loop over a row's columns, which all are there. */
static void chunk_dots(const struct glm_engine *engine, const float *value, uint32_t first,
		       uint32_t count, int64_t *more, uint64_t *beyond)
{
	uint32_t classes = engine->options.classes, column[ENGINE_PRODUCTS_MAX];

	for (uint32_t j = 0; j < count; j++)
		column[j] = j;
	memset(more, 0, classes * sizeof(*more));
	engine->kernels->dots(column, value + first, count,
			      engine->weight + (size_t)first * classes, classes, more, beyond);
}

static bool row_forward(const struct glm_engine *engine, const float *value, int64_t *parts)
{
	uint32_t columns = engine->share->columns, classes = engine->options.classes;
	int64_t more[GLM_CLASSES_MAX];
	uint64_t beyond = 0;
	bool fits = true;

	memset(parts, 0, classes * sizeof(*parts));
	for (uint32_t first = 0, count; first < columns; first += count) {
		count = columns - first < ENGINE_PRODUCTS_MAX ? columns - first
							      : ENGINE_PRODUCTS_MAX;
		if (classes == 1)
			more[0] = engine->kernels->dense(value + first, count,
							 engine->weight + first, &beyond);
		else
			chunk_dots(engine, value, first, count, more, &beyond);
		for (uint32_t c = 0; c < classes; c++)
			fits &= layout_part_add(&parts[c], more[c]);
	}
	return fits && !(beyond >> 52);
}

static bool dense_forward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			  uint32_t known, int64_t *parts)
{
	uint32_t classes = engine->options.classes;
	bool fits = true;

	(void)known;
	for (uint32_t i = 0; i < count; i++)
		fits &= row_forward(engine, row_values(engine, rows[i]),
				    parts + (size_t)i * classes);
	return fits;
}

static void row_back(struct glm_engine *engine, uint32_t row, const float *scale)
{
	const float *value = row_values(engine, row);
	uint32_t classes = engine->options.classes;
	float *gradient = engine->gradient;

	for (uint32_t j = 0; j < engine->share->columns; j++, gradient += classes)
		for (uint32_t c = 0; c < classes; c++)
			gradient[c] += scale[c] * value[j];
}

static void row_back_one(struct glm_engine *engine, uint32_t row, const float *scale)
{
	engine->kernels->dense_add(row_values(engine, row), engine->share->columns, *scale,
				   engine->gradient);
}

static void dense_backward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			   const float *scales)
{
	layout_rows_back(engine, rows, count, scales,
			 engine->options.classes == 1 ? row_back_one : row_back);
}

static void dense_step(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
		       float factor)
{
	(void)rows;
	(void)count;
	layout_weights_step(engine, 0, (uint64_t)engine->share->columns * engine->options.classes,
			    factor);
}

const struct glm_layout_ops glm_layout_dense = {
	.open = dense_open,
	.close = dense_close,
	.pay = dense_pay,
	.forward = dense_forward,
	.backward = dense_backward,
	.step = dense_step,
};
