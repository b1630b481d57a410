/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - one share of the columns: its part of the model, its part of every activation, its part of the
 * gradient. One thread at a time uses an engine.
 *
 * Numbers, so that no result depends on how the columns are shared out. A product of two float32 is exact in
 * double and is rounded to a multiple of 2^-32; a part of an activation is a sum of these in 64-bit integers, and
 * so the same in any order. A product of 2^19 or more in size, or a part of 2^31 or more, is beyond: it is said,
 * never wrapped. A column's gradient is float32, summed over the samples in the order of the calls.
 *
 * The model is the weights times one multiplier, which L2 makes smaller at every step; L1 is owed by every column
 * and paid when the column is used next. glm_engine_settle makes the weights the model.
 */
#ifndef GLM_ENGINE_H
#define GLM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "glm/layout.h"

struct glm_engine_options {
	uint32_t classes; /* models side by side, 1 to GLM_CLASSES_MAX */
	bool has_bias;    /* one more column, the last, which is `bias` in every row */
	float bias;
	double l1, l2;
	uint32_t bits; /* of a value, with weaved planes */
};

struct engine_weave;

struct glm_engine {
	struct glm_engine_options options;
	const struct glm_engine_kernels *kernels;
	const struct glm_layout_ops *layout;
	const struct glm_share *share;
	uint32_t columns;           /* the bias's included */
	float *dense;               /* [rows * share's columns], or NULL */
	struct engine_weave *weave; /* or NULL */
	float *weight;              /* [columns * classes], a column's classes side by side */
	float *gradient;            /* the same; 0 between mini-batches */
	double *paid; /* [columns]: `owed` as it was when the column paid; NULL without L1 */
	double multiplier, owed;
	/* Since it was opened: rows that were gone over, forward and backward each, and the bytes of
	 * values and what says where they belong that were read for it. With several classes the planes
	 * are read once for each. */
	uint64_t rows_read, bytes_read;
};

/* The model is 0, the layout CSR. share stays the caller's. 0, or -1: no memory, or more columns than 2^32. */
int glm_engine_open(struct glm_engine *engine, const struct glm_share *share,
		    const struct glm_engine_options *options);
void glm_engine_close(struct glm_engine *engine); /* also of one that is all 0 */

/* Another layout of the share, of so many rows, for all that follows but glm_engine_score; once. Not AUTO.
 * 0, or -1: no memory. */
int glm_engine_lay(struct glm_engine *engine, enum glm_layout layout, uint64_t rows);
/* Weights, or options.bits, are others now: to be said by whoever writes them from outside. Between
 * mini-batches. */
void glm_engine_changed(struct glm_engine *engine);
/* As it was opened, whatever the layout. */
void glm_engine_zero(struct glm_engine *engine);

/* What is owed by the columns of these rows is paid: before the mini-batch's first forward of them. */
void glm_engine_pay(struct glm_engine *engine, const uint32_t *rows, uint32_t count);
/* parts[i * classes + c]: of row rows[i]; in units of 2^-32 of the activation over the multiplier. False:
 * something is beyond, and the parts are not to be used. rows[count] to rows[known - 1] are likely to be next. */
bool glm_engine_forward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			uint32_t known, int64_t *parts);
/* The same of the float32 values of any share that has the engine's columns. */
bool glm_engine_score(const struct glm_engine *engine, const struct glm_share *share,
		      const uint32_t *rows, uint32_t count, int64_t *parts);
/* The gradient grows by scales[i * classes + c] times row rows[i]. */
void glm_engine_backward(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			 const float *scales);
/* The end of a mini-batch of these rows: the model goes by `rate` against the mean gradient. */
void glm_engine_step(struct glm_engine *engine, double rate, const uint32_t *rows, uint32_t count);
/* False: a weight is not finite. */
bool glm_engine_settle(struct glm_engine *engine);

/* The loops over a row's columns; bit-equal to glm_engine_kernels_scalar, the reference. */
struct glm_engine_kernels {
	const char *name;
	/* Sum of the rounded products, count <= ENGINE_PRODUCTS_MAX. *beyond grows by bits, of which the
	 * highest 12 are 0 unless a product was beyond. */
	int64_t (*dot)(const uint32_t *column, const float *value, uint32_t count,
		       const float *weight, uint64_t *beyond);
	/* The same for several classes, added to parts. */
	void (*dots)(const uint32_t *column, const float *value, uint32_t count,
		     const float *weight, uint32_t classes, int64_t *parts, uint64_t *beyond);
	/* dot() with the columns 0, 1, 2, ... */
	int64_t (*dense)(const float *value, uint32_t count, const float *weight, uint64_t *beyond);
	/* gradient[i] += scale * value[i], any count */
	void (*dense_add)(const float *value, uint32_t count, float scale, float *gradient);
};
enum { ENGINE_PRODUCTS_MAX = 2048 }; /* of 2^19 each: their sum is below 2^31 */

extern const struct glm_engine_kernels glm_engine_kernels_scalar;
#ifdef __x86_64__
extern const struct glm_engine_kernels glm_engine_kernels_avx2;
#endif
/* What is best on this processor. */
const struct glm_engine_kernels *glm_engine_kernels_best(void);

/* 1.5 * 2^20: what is added to it in double is rounded to a multiple of 2^-32, and as integers the bits of
 * the sum have grown by that multiple. Above 2^19 in size it would leave the binade, which the exponent shows. */
#define ENGINE_MAGIC 1572864.0
#define ENGINE_MAGIC_BITS 0x4138000000000000u

#endif
