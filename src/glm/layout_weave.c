/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout_weave.c - an engine on weaved bit planes: eight are kept, of which options.bits are read, any number of
 * them from one mini-batch to the next. The weights are rounded for a pass when they have changed, once per
 * mini-batch; the gradient of a mini-batch is in units of the planes until the step.
 */
#include <stdlib.h>
#include <string.h>

#include "glm/engine.h"
#include "glm/weave.h"

enum {
	ROWS_AT_ONCE = 64,
	/* Weights times their feature's range are rounded to 2^-20 and finer, and below 512 with 1 bit, 1024
	 * with more. */
	FRACTION = 20,
};

struct engine_weave {
	struct weave weave;
	struct weave_range *ranges;
	void *planes;
	struct weave_model model[GLM_CLASSES_MAX];
	void *model_memory[GLM_CLASSES_MAX];
	float *sums; /* [classes][weave_sums_count()] */
	double scale_sum[GLM_CLASSES_MAX];
	bool is_changed, fits; /* fits: of the weights as they were rounded last */
};

static void *aligned(size_t bytes)
{
	return aligned_alloc(WEAVE_ALIGN, (bytes / WEAVE_ALIGN + 1) * WEAVE_ALIGN);
}

static int memory_take(struct engine_weave *mine, uint64_t rows, uint32_t columns, uint32_t classes)
{
	size_t bytes = weave_bytes(rows, columns, WEAVE_BITS_MAX);

	mine->ranges = calloc((size_t)columns + 1, sizeof(*mine->ranges));
	mine->planes = bytes ? aligned(bytes) : NULL;
	mine->sums = calloc(weave_sums_count(columns) * classes + 1, sizeof(*mine->sums));
	for (uint32_t c = 0; c < classes; c++) {
		mine->model_memory[c] = aligned(weave_model_bytes(columns));
		if (!mine->model_memory[c])
			return -1;
		weave_model_init(&mine->model[c], mine->model_memory[c], columns);
	}
	return mine->ranges && mine->planes && mine->sums ? 0 : -1;
}

static int weave_open(struct glm_engine *engine, uint64_t rows)
{
	const struct glm_share *share = engine->share;
	struct engine_weave *mine = calloc(1, sizeof(*mine));
	uint64_t *seen = calloc((size_t)share->columns + 1, sizeof(*seen));

	engine->weave = mine;
	if (!mine || !seen || memory_take(mine, rows, share->columns, engine->options.classes)) {
		free(seen);
		return -1;
	}
	weave_ranges_sparse(mine->ranges, seen, share->columns, rows, share->start, share->column,
			    share->value);
	free(seen);
	weave_init(&mine->weave, mine->planes, rows, share->columns, WEAVE_BITS_MAX, mine->ranges);
	for (uint64_t row = 0; row < rows; row++)
		weave_append_sparse(&mine->weave, share->column + share->start[row],
				    share->value + share->start[row],
				    share->start[row + 1] - share->start[row]);
	mine->is_changed = true;
	return 0;
}

static void weave_close(struct glm_engine *engine)
{
	struct engine_weave *mine = engine->weave;

	if (!mine)
		return;
	for (uint32_t c = 0; c < engine->options.classes; c++)
		free(mine->model_memory[c]);
	free(mine->ranges);
	free(mine->planes);
	free(mine->sums);
	free(mine);
	engine->weave = NULL;
}

static void weave_changed(struct glm_engine *engine)
{
	engine->weave->is_changed = true;
}

/* A feature of 0 need not be 0 in the planes: every row uses all columns. */
static void weave_pay(struct glm_engine *engine, const uint32_t *rows, uint32_t count)
{
	uint32_t columns = engine->share->columns;

	(void)rows;
	if (!count || !columns || !(engine->paid[0] < engine->owed))
		return;
	for (uint32_t j = 0; j < columns; j++)
		layout_column_pay(engine, j);
	engine->weave->is_changed = true;
}

static void models_set(struct glm_engine *engine)
{
	struct engine_weave *mine = engine->weave;
	uint32_t classes = engine->options.classes;

	mine->fits = true;
	for (uint32_t c = 0; c < classes; c++)
		mine->fits &= !weave_model_set(&mine->model[c], mine->ranges, engine->weight + c,
					       classes, engine->options.bits, FRACTION);
	mine->is_changed = false;
}

/* ROWS_AT_ONCE at most: what is fetched for the first class is there for the others. */
static bool rows_forward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			 int64_t *parts)
{
	const int64_t most = (int64_t)1 << WEAVE_PARTIAL_BITS;
	struct engine_weave *mine = engine->weave;
	uint32_t classes = engine->options.classes;
	int64_t partial[ROWS_AT_ONCE];
	bool fits = true;

	for (uint32_t c = 0; c < classes; c++) {
		weave_dot(&mine->weave, &mine->model[c], rows, count, partial);
		for (size_t i = 0; i < count; i++) {
			fits &= partial[i] > -most && partial[i] < most;
			parts[i * classes + c] = partial[i];
		}
	}
	engine->bytes_read += weave_row_bytes(&mine->weave, engine->options.bits) * count * classes;
	return fits;
}

static bool weave_forward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			  uint32_t known, int64_t *parts)
{
	bool fits = true;

	(void)known;
	if (engine->weave->is_changed)
		models_set(engine);
	for (uint32_t first = 0, at_once; first < count; first += at_once) {
		at_once = count - first < ROWS_AT_ONCE ? count - first : ROWS_AT_ONCE;
		fits &= rows_forward(engine, rows + first, at_once,
				     parts + (size_t)first * engine->options.classes);
	}
	return fits && engine->weave->fits;
}

/* One class, ROWS_AT_ONCE at most; those with a scale of 0 are not read. */
static void rows_backward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			  const float *scales, uint32_t class_idx)
{
	struct engine_weave *mine = engine->weave;
	uint32_t used[ROWS_AT_ONCE], used_count = 0;
	float scale[ROWS_AT_ONCE];

	for (uint32_t i = 0; i < count; i++) {
		float s = scales[(size_t)i * engine->options.classes + class_idx];

		if (s == 0)
			continue;
		mine->scale_sum[class_idx] += (double)s;
		used[used_count] = rows[i];
		scale[used_count++] = s;
	}
	weave_add(&mine->weave, engine->options.bits, used, scale, used_count,
		  mine->sums + class_idx * weave_sums_count(engine->share->columns));
	engine->bytes_read += weave_row_bytes(&mine->weave, engine->options.bits) * used_count;
}

static void weave_backward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			   const float *scales)
{
	uint32_t classes = engine->options.classes;

	for (uint32_t first = 0, at_once; first < count; first += at_once) {
		at_once = count - first < ROWS_AT_ONCE ? count - first : ROWS_AT_ONCE;
		for (uint32_t c = 0; c < classes; c++)
			rows_backward(engine, rows + first, at_once,
				      scales + (size_t)first * classes, c);
	}
}

static void weave_step(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
		       float factor)
{
	struct engine_weave *mine = engine->weave;
	uint32_t columns = engine->share->columns, classes = engine->options.classes;

	(void)rows;
	(void)count;
	for (uint32_t c = 0; c < classes; c++) {
		weave_gradient(&mine->weave, engine->options.bits,
			       mine->sums + c * weave_sums_count(columns), mine->scale_sum[c],
			       engine->gradient + c, classes);
		mine->scale_sum[c] = 0;
	}
	layout_weights_step(engine, 0, (uint64_t)columns * classes, factor);
}

const struct glm_layout_ops glm_layout_weave = {
	.open = weave_open,
	.close = weave_close,
	.pay = weave_pay,
	.forward = weave_forward,
	.backward = weave_backward,
	.step = weave_step,
	.changed = weave_changed,
};
