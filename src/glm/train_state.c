/* SPDX-License-Identifier: Apache-2.0 */
/* train_state.c - see train_state.h: what the files of the trainer ask it, and say of it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glm/train_state.h"

/* ---- errors ---- */

int train_fail(struct glm_train *train, const char *format, ...)
{
	va_list list;

	if (train->error[0])
		return -1;
	va_start(list, format);
	vsnprintf(train->error, sizeof(train->error), format, list);
	va_end(list);
	return -1;
}

int train_fail_exchange(struct glm_train *train)
{
	return train_fail(train, "%s", train->exchange->error);
}

int train_give_up(struct glm_train *train, const char *why)
{
	train->exchange->ops->abort(train->exchange);
	return train_fail(train, "rank %u: %s", train->exchange->rank, why);
}

int train_fail_saturated(struct glm_train *train, uint64_t batch)
{
	const struct glm_options *options = &train->options;
	char text[WIRE_TEXT_MAX];

	return train_fail(train,
			  "epoch %u, mini-batch %llu of %llu: saturated: a row's activation, or a "
			  "rank's part of it, is above %g in size, the limit of --wire %s with %u "
			  "ranks. Try a --rate below %g, or --scale%s",
			  train->epochs + 1, (unsigned long long)batch + 1,
			  (unsigned long long)train_batches(train),
			  wire_limit(&options->wire, train->exchange->ranks),
			  wire_text(&options->wire, text), train->exchange->ranks,
			  train_rate(train, batch),
			  options->wire.is_narrow ? ", or --wire fixed64"
			  : options->bits         ? ", or no --bits, with which a weight times its "
						    "column's range is below 512"
						  : "");
}

const char *glm_train_error(const struct glm_train *train)
{
	return train->error;
}

/* ---- small questions ---- */

bool train_is_counted(const struct glm_train *train)
{
	return train->options.parallel == GLM_MODEL_PARALLEL || train->exchange->rank == 0;
}

uint64_t train_batches(const struct glm_train *train)
{
	return (train->data->rows + train->options.batch - 1) / train->options.batch;
}

double train_label(const struct glm_train *train, uint32_t row, uint32_t class_idx)
{
	if (!train->class_of)
		return train->data->label[row];
	return train->class_of[row] == class_idx ? 1 : -1;
}

/* Nothing but +, *, / and sqrt, which are the same on all machines. */
double train_rate(const struct glm_train *train, uint64_t batch)
{
	double e = (double)train->epochs + (double)batch / (double)train_batches(train);
	double rate = train->rate;

	switch (train->options.schedule) {
	case GLM_CONSTANT:
		break;
	case GLM_INVERSE:
		return rate / (1 + train->options.decay * e);
	case GLM_SQUARE_ROOT:
		return rate / sqrt(1 + train->options.decay * e);
	case GLM_EXPONENTIAL:
		for (uint32_t i = 0; i < train->epochs && rate > 0; i++)
			rate *= train->options.decay;
	}
	return rate;
}

uint32_t glm_train_classes(const struct glm_train *train)
{
	return train->classes;
}

uint32_t glm_train_epochs(const struct glm_train *train)
{
	return train->epochs;
}

double glm_train_rate(const struct glm_train *train)
{
	return train_rate(train, 0);
}

uint32_t glm_train_micro(const struct glm_train *train)
{
	return train->micro;
}

/* ---- sums of a few rows ---- */

int train_sum_open(struct train_sum *sum, const struct glm_train *train, uint32_t rows)
{
	const struct glm_wire wide = { .is_narrow = false };
	size_t all = (size_t)rows * train->classes;

	*sum = (struct train_sum){
		.parts = malloc(all * sizeof(*sum->parts)),
		.sums = malloc(all * sizeof(*sum->sums)),
		.lanes = malloc(wire_lanes(&wide, (uint32_t)all) * sizeof(*sum->lanes)),
	};
	return sum->parts && sum->sums && sum->lanes ? 0 : -1;
}

void train_sum_close(struct train_sum *sum)
{
	free(sum->parts);
	free(sum->sums);
	free(sum->lanes);
}

int train_sum_rows(struct glm_train *train, struct train_sum *sum, const uint32_t *rows,
		   uint32_t count, uint32_t classes, double *a)
{
	const struct glm_wire wide = { .is_narrow = false };
	struct exchange *exchange = train->exchange;
	uint32_t all = count * classes;
	bool beyond = false;

	memset(sum->sums, 0, all * sizeof(*sum->sums));
	for (uint32_t t = 0; t < train->threads && train_is_counted(train); t++) {
		beyond |= !glm_engine_forward(&train->engines[t], rows, count, count, sum->parts);
		for (uint32_t i = 0; i < all; i++)
			beyond |= __builtin_add_overflow(
				sum->sums[i],
				sum->parts[i / classes * train->classes + i % classes],
				&sum->sums[i]);
	}
	wire_pack(&wide, exchange->ranks, sum->sums, all, beyond, sum->lanes);
	if (exchange->ops->sum(exchange, sum->lanes, wire_lanes(&wide, all)))
		return train_fail_exchange(train);
	return wire_unpack(&wide, sum->lanes, all, a) ? 0 : 1;
}
