/* SPDX-License-Identifier: Apache-2.0 */
/* train_state.h - what the files of the trainer share. */
#ifndef GLM_TRAIN_STATE_H
#define GLM_TRAIN_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "glm/engine.h"
#include "glm/train.h"

struct glm_train {
	const struct glm_data *data;
	struct glm_options options;
	struct exchange *exchange;
	uint32_t classes, threads;
	struct glm_engine *engines; /* one per thread */
	uint8_t *class_of;          /* of every row; NULL: labels are numbers */
	uint32_t *order;            /* of the rows, in this epoch */
	double rate;                /* before the schedule */
	uint32_t epochs;
	uint32_t micro; /* 0: not measured yet */
	uint64_t options_hash;
	char error[GLM_ERROR_MAX];
};

/* Notes the sentence, unless there is one already; -1. */
__attribute__((format(printf, 2, 3))) int train_fail(struct glm_train *train, const char *format,
						     ...);
/* An activation of this mini-batch was beyond; -1. */
int train_fail_saturated(struct glm_train *train, uint64_t batch);
/* What the exchange says, as the trainer's error; -1. */
int train_fail_exchange(struct glm_train *train);
/* This rank cannot go on: the others are told, and hear of it in whatever they wait for; -1. */
int train_give_up(struct glm_train *train, const char *why);

uint64_t train_batches(const struct glm_train *train);
/* Of mini-batch `batch` of this epoch. */
double train_rate(const struct glm_train *train, uint64_t batch);
double train_label(const struct glm_train *train, uint32_t row, uint32_t class_idx);
/* What all data-parallel ranks have counts once. */
bool train_is_counted(const struct glm_train *train);

/* Activations of some of the training's rows as the engines' weights now are, summed over all of them, outside of the
 * flow. a[i * classes + class] of the first `classes` classes. 0; 1: one is beyond, on all ranks; -1. */
struct train_sum {
	int64_t *parts, *sums; /* [rows * classes] */
	int32_t *lanes;
};
int train_sum_open(struct train_sum *sum, const struct glm_train *train, uint32_t rows);
void train_sum_close(struct train_sum *sum); /* also if it was not opened whole */
int train_sum_rows(struct glm_train *train, struct train_sum *sum, const uint32_t *rows,
		   uint32_t count, uint32_t classes, double *a);

/* The rate that the data ask for; the engines' model is 0 before and after. 0 or -1. */
int train_rate_auto(struct glm_train *train, double mean_square);

/* The largest eigenvalue of X'X / rows, nearly; the rows' mean square is above 0. 0 or -1. The model is 0. */
int train_curve(struct glm_train *train, double mean_square, double *largest);

/* Whether there is memory here for how the rows shall lie, and the sentence if not; what else is wrong
 * with it; and that it is so, after which engines read nothing else. */
bool train_layout_fits(const struct glm_train *train);
int train_layout_refuse(struct glm_train *train, uint32_t rank);
int train_layout_check(struct glm_train *train);
int train_layout_open(struct glm_train *train);

/* Mini-batches [first, end) of this epoch with micro-batches of `micro` rows; 0 or -1. */
struct flow_plan {
	uint64_t first, end;
	uint32_t micro;
	glm_progress_fn progress;
	void *progress_arg;
};
int flow_run(struct glm_train *train, const struct flow_plan *plan);
/* The same, data-parallel: without micro-batches. */
int rows_run(struct glm_train *train, const struct flow_plan *plan);

#endif
