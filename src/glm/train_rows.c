/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_rows.c - data-parallel training, to compare with: every rank has all columns and the whole model, and of each
 * mini-batch every ranks-th row. The gradient is what travels, once per mini-batch; then all ranks take the same
 * step. Rows are float32 sums on each rank, and those are added up by the exchange: the bits depend on the ranks.
 */
#include <stdlib.h>

#include "glm/train_state.h"
#include "util/clock.h"

enum { PROGRESS_NS = 20 * 1000000 };

struct rows {
	struct glm_train *train;
	uint32_t *mine; /* this rank's of a mini-batch: [batch] */
	float *scales;  /* [batch * classes], as all that follow */
	double *sums;
	int64_t *parts;
	int32_t *lanes;
	uint64_t progress_ns;
};

/* What a step goes against, from these rows. False: an activation is beyond. */
static bool scales_make(struct rows *rows, uint32_t count)
{
	const struct glm_wire wide = { .is_narrow = false };
	const struct glm_train *train = rows->train;
	struct glm_engine *engine = &train->engines[0];
	uint32_t classes = train->classes;
	bool fits = glm_engine_forward(engine, rows->mine, count, count, rows->parts);

	wire_pack(&wide, 1, rows->parts, count * classes, !fits, rows->lanes);
	if (!wire_unpack(&wide, rows->lanes, count * classes, rows->sums))
		return false;
	for (uint32_t i = 0; i < count * classes; i++)
		rows->scales[i] =
			(float)dloss(train->options.loss, engine->multiplier * rows->sums[i],
				     train_label(train, rows->mine[i / classes], i % classes));
	return true;
}

static int batch_run(struct rows *rows, uint64_t batch, const uint32_t *all, uint32_t count)
{
	struct glm_train *train = rows->train;
	struct glm_engine *engine = &train->engines[0];
	struct exchange *exchange = train->exchange;
	uint32_t mine = 0;

	for (uint32_t i = exchange->rank; i < count; i += exchange->ranks)
		rows->mine[mine++] = all[i];
	glm_engine_pay(engine, all, count); /* L1, on all ranks alike */
	if (!scales_make(rows, mine)) {
		exchange->ops->abort(exchange);
		return train_fail_saturated(train, batch);
	}
	glm_engine_backward(engine, rows->mine, mine, rows->scales);
	if (exchange->ops->sum_float(exchange, engine->gradient,
				     (size_t)engine->columns * train->classes))
		return train_fail_exchange(train);
	glm_engine_step(engine, train_rate(train, batch), all, count);
	return 0;
}

static void progress(struct rows *rows, const struct flow_plan *plan, uint64_t done)
{
	uint64_t now_ns = clock_ns();

	if (!plan->progress || now_ns - rows->progress_ns < PROGRESS_NS)
		return;
	rows->progress_ns = now_ns;
	plan->progress(plan->progress_arg, done, rows->train->data->rows);
}

static int batches_run(struct rows *rows, const struct flow_plan *plan)
{
	const struct glm_train *train = rows->train;
	uint32_t most = train->options.batch;
	int result = 0;

	for (uint64_t batch = plan->first; batch < plan->end && !result; batch++) {
		uint64_t first = batch * most, left = train->data->rows - first;
		uint32_t count = left < most ? (uint32_t)left : most;

		result = batch_run(rows, batch, train->order + first, count);
		progress(rows, plan, first + count);
	}
	return result;
}

int rows_run(struct glm_train *train, const struct flow_plan *plan)
{
	const struct glm_wire wide = { .is_narrow = false };
	size_t all = (size_t)train->options.batch * train->classes;
	struct rows rows = { .train = train,
			     .mine = malloc(train->options.batch * sizeof(*rows.mine)),
			     .scales = malloc(all * sizeof(*rows.scales)),
			     .sums = malloc(all * sizeof(*rows.sums)),
			     .parts = malloc(all * sizeof(*rows.parts)),
			     .lanes = malloc(wire_lanes(&wide, (uint32_t)all) *
					     sizeof(*rows.lanes)) };
	int result;

	if (!rows.mine || !rows.scales || !rows.sums || !rows.parts || !rows.lanes)
		result = train_give_up(train, "out of memory");
	else
		result = batches_run(&rows, plan);
	free(rows.mine);
	free(rows.scales);
	free(rows.sums);
	free(rows.parts);
	free(rows.lanes);
	return result;
}
