/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train.h - mini-batch SGD over columns that ranks and threads share: each has its part of the model only, and
 * activations are all that travels. The model, bit for bit, depends on data and options, and not on ranks,
 * threads or micro-batches (but for narrow wires, where each rank rounds). That is GLM_MODEL_PARALLEL;
 * GLM_DATA_PARALLEL is there to compare with: data is then loaded as if there were one rank, with one thread, and
 * the bits depend on the ranks and on how the exchange rounds.
 *
 * With `bits` it learns from values of as many bits, each column's between the least and the greatest that it has;
 * its weights are for the values as they are, and rows are scored by these.
 *
 * The functions that return int are collective: every rank calls them in the same order. They return 0, or -1 on
 * all ranks, and the sentence is glm_train_error (or `error`); after that the model is the one before the
 * mini-batch that failed, and only the functions that ask something and close may be called.
 */
#ifndef GLM_TRAIN_H
#define GLM_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "glm/data.h"
#include "glm/exchange.h"
#include "glm/layout.h"
#include "glm/loss.h"
#include "glm/wire.h"

/* The rate after e epochs and parts of one. */
enum glm_schedule {
	GLM_CONSTANT,    /* rate */
	GLM_INVERSE,     /* rate / (1 + decay * e) */
	GLM_SQUARE_ROOT, /* rate / sqrt(1 + decay * e) */
	GLM_EXPONENTIAL, /* rate * decay^(whole epochs of e), 0 < decay <= 1 */
};

enum glm_parallel {
	GLM_MODEL_PARALLEL, /* ranks share the columns; activations travel */
	GLM_DATA_PARALLEL, /* ranks share a mini-batch's rows; gradients travel. No micro-batches, no wire */
};

struct glm_options {
	enum glm_loss loss;
	enum glm_parallel parallel;
	double l1, l2;
	double bias; /* the value of one more feature, in every row; < 0: none */
	double rate; /* 0: auto, from the rows, the loss and the mini-batch */
	double decay;
	enum glm_schedule schedule;
	uint32_t batch; /* at least 1 */
	uint32_t micro; /* 0: auto, measured in the first epoch */
	uint32_t
		depth; /* micro-batches on their way at once, at most; 1: none is computed while one travels.
	                   0: as many as the exchange takes. The model does not depend on it */
	uint64_t seed;
	bool is_shuffled;
	struct glm_wire wire;
	enum glm_layout layout;
	uint32_t bits; /* of a value, 1 to 8, in weaved planes; 0: float32 */
};

struct glm_train;

/* After each mini-batch or several, on one thread, on every rank. */
typedef void (*glm_progress_fn)(void *arg, uint64_t rows_done, uint64_t rows);

/* As many threads as data has shares. data and exchange stay the caller's, and must stay. error also says when
 * ranks have different files or options, and which. */
int glm_train_open(struct glm_train **train, const struct glm_data *data,
		   const struct glm_options *options, struct exchange *exchange,
		   char error[GLM_ERROR_MAX]);
void glm_train_close(struct glm_train *train); /* NULL is fine; not collective */

int glm_train_epoch(struct glm_train *train, glm_progress_fn fn, void *arg);
/* a[row * classes + class] of every row of data, which may be another file with the same columns; on all ranks. */
int glm_train_activations(struct glm_train *train, const struct glm_data *data, double *a);
/* Bytes of values that all threads of all ranks have read to train, since it was opened, and what these would have
 * been as dense float32; rows that were gone over twice, forward and backward, count twice. */
int glm_train_bytes(struct glm_train *train, uint64_t *read, uint64_t *dense);
/* w[feature * classes + class], the bias last; w is wanted on rank 0, and ignored elsewhere. */
int glm_train_weights(struct glm_train *train, float *w);

/* Between epochs: all that a run needs to go on with the same bits, whatever ranks, threads and micro-batch then
 * are. Rank 0 has *bytes, to be freed; elsewhere it becomes NULL. */
int glm_train_save(struct glm_train *train, void **bytes, size_t *count);
/* On a train that is as it was opened. Rank 0's bytes count: -1 if they are not of the same file and options. */
int glm_train_load(struct glm_train *train, const void *bytes, size_t count);

/* Of a mini-batch, in us, the mean of all ranks: as it is; its computation, and its sums, each alone. */
struct glm_parts {
	double whole_us, compute_us, exchange_us;
};

/* Measured for a moment with the last epoch's micro-batch; model-parallel. After that nothing but close: the model
 * is done with. */
int glm_train_parts(struct glm_train *train, struct glm_parts *parts);

const char *glm_train_error(const struct glm_train *train);
uint32_t
glm_train_classes(const struct glm_train *train); /* activations of a row: 1 for two labels */
uint32_t glm_train_epochs(const struct glm_train *train);        /* done */
double glm_train_rate(const struct glm_train *train);            /* of the next mini-batch */
uint32_t glm_train_micro(const struct glm_train *train);         /* in use; 0: not measured yet */
enum glm_layout glm_train_layout(const struct glm_train *train); /* in use: never AUTO */

#endif
