/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_parts.c - what a mini-batch takes, and what its two parts take alone: its computation without an exchange,
 * its sums without a computation. Less than both together is what the pipeline has hidden.
 */
#include <math.h>
#include <stdlib.h>

#include "glm/train_state.h"
#include "util/clock.h"

enum {
	ROUNDS = 5, /* of all three in turn: the best of each counts, whatever else runs here */
	BATCHES = 16,
};
enum part { PART_WHOLE, PART_COMPUTE, PART_EXCHANGE, PARTS };

struct probe {
	struct glm_train *train;
	struct exchange *alone; /* of one rank, as deep as the real one */
	int32_t *lanes;         /* of the first mini-batch: none has more */
	uint32_t each;          /* lanes of a micro-batch */
	uint64_t batches;
};

/* As many sums as the flow has: what is left of the rows may be less than a mini-batch. */
static uint32_t batch_lanes(const struct probe *probe, uint64_t batch)
{
	const struct glm_train *train = probe->train;
	uint64_t rows = train->data->rows - batch * train->options.batch;

	if (rows > train->options.batch)
		rows = train->options.batch;
	return (uint32_t)((rows + train->micro - 1) / train->micro) * probe->each;
}

static int sums(struct probe *probe)
{
	for (uint64_t i = 0; i < probe->batches; i++)
		if (exchange_sums(probe->train->exchange, probe->lanes, batch_lanes(probe, i),
				  probe->each))
			return train_fail_exchange(probe->train);
	return 0;
}

/* The first mini-batches, over this exchange; the rate is 0. */
static int flow(struct probe *probe, struct exchange *exchange)
{
	struct glm_train *train = probe->train;
	struct exchange *real = train->exchange;
	const struct flow_plan plan = { .end = probe->batches, .micro = train->micro };
	int result;

	train->exchange = exchange;
	result = flow_run(train, &plan);
	train->exchange = real;
	return result;
}

static int part_run(struct probe *probe, enum part part, uint64_t *best_ns)
{
	uint64_t begin_ns = clock_ns(), time_ns;
	int result = part == PART_EXCHANGE ? sums(probe)
					   : flow(probe, part == PART_WHOLE ? probe->train->exchange
									    : probe->alone);

	time_ns = clock_ns() - begin_ns;
	if (time_ns < *best_ns)
		*best_ns = time_ns;
	return result;
}

static int parts_run(struct probe *probe, double us[PARTS])
{
	const double us_most = INT32_MAX / WIRE_RANKS_MAX;
	struct exchange *exchange = probe->train->exchange;
	uint64_t best_ns[PARTS] = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
	int32_t time_us[PARTS];
	int result = 0;

	for (int i = 0; i < ROUNDS * PARTS && !result; i++)
		result = part_run(probe, (enum part)(i % PARTS), &best_ns[i % PARTS]);
	for (int i = 0; i < PARTS; i++)
		time_us[i] = (int32_t)fmin((double)best_ns[i] / 1000, us_most);
	if (!result && exchange->ops->sum(exchange, time_us, PARTS))
		result = train_fail_exchange(probe->train);
	for (int i = 0; i < PARTS; i++)
		us[i] = (double)time_us[i] / exchange->ranks / (double)probe->batches;
	return result;
}

int glm_train_parts(struct glm_train *train, struct glm_parts *parts)
{
	uint64_t batches = train_batches(train);
	double us[PARTS] = { 0 }, rate = train->rate;
	struct probe probe = { .train = train,
			       .each = wire_lanes(&train->options.wire,
						  train->micro * train->classes),
			       .batches = batches < BATCHES ? batches : BATCHES };
	int result;

	if (train->error[0])
		return -1;
	probe.lanes = calloc(batch_lanes(&probe, 0), sizeof(*probe.lanes));
	if (!probe.lanes || exchange_none(&probe.alone)) {
		result = train_give_up(train, "out of memory");
	} else {
		probe.alone->depth = train->exchange->depth;
		train->rate = 0;
		result = parts_run(&probe, us);
		train->rate = rate;
		probe.alone->ops->close(probe.alone);
	}
	free(probe.lanes);
	*parts = (struct glm_parts){ us[PART_WHOLE], us[PART_COMPUTE], us[PART_EXCHANGE] };
	return result;
}
