/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - how a share's values lie in memory while an engine trains on them, and the functions that go over
 * them so. CSR is what load.h gives; the others are made of it and lie beside it, as rows are scored by it.
 *
 * CSR and dense have the same bits. Weaved planes (weave.h) have values of 1 to 8 bits, and other models: each
 * the same for all ranks, threads and micro-batches.
 */
#ifndef GLM_LAYOUT_H
#define GLM_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "glm/data.h"

enum glm_layout {
	GLM_LAYOUT_AUTO, /* weaved if bits are asked for; else dense where more than a third is not 0 */
	GLM_LAYOUT_CSR,
	GLM_LAYOUT_DENSE, /* float32, zeros too */
	GLM_LAYOUT_WEAVE,
};

/* Of each layout; NULL behind the last. */
extern const char *const glm_layout_names[];
/* What auto becomes, the same on all ranks. bits 0: values are float32. */
enum glm_layout glm_layout_choose(enum glm_layout layout, uint32_t bits,
				  const struct glm_data *data);
/* What it takes beside CSR, of a share of so many columns; 2^64 - 1: more than memory can be. */
uint64_t glm_layout_bytes(enum glm_layout layout, uint64_t rows, uint32_t columns);

struct glm_engine;

/* Columns are those of the share; the engine itself cares for the bias. */
struct glm_layout_ops {
	int (*open)(struct glm_engine *engine, uint64_t rows); /* 0, or -1: no memory */
	void (*close)(struct glm_engine *engine);
	void (*pay)(struct glm_engine *engine, const uint32_t *rows, uint32_t count);
	/* parts are written; false: something is beyond. */
	bool (*forward)(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			uint32_t known, int64_t *parts);
	void (*backward)(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
			 const float *scales);
	/* Weights go by `factor` against the gradient, which becomes 0. */
	void (*step)(struct glm_engine *engine, const uint32_t *rows, uint32_t count, float factor);
	/* The weights are others than they were. May be NULL. */
	void (*changed)(struct glm_engine *engine);
};

extern const struct glm_layout_ops glm_layout_csr, glm_layout_dense, glm_layout_weave;

/* ---- what they share ---- */

/* Rows of any share that has the engine's columns, without the bias: also glm_layout_csr's forward. */
bool layout_csr_rows(const struct glm_engine *engine, const struct glm_share *share,
		     const uint32_t *rows, uint32_t count, uint32_t known, int64_t *parts);
/* Against count gradients from `first` on, which become 0. */
void layout_weights_step(struct glm_engine *engine, uint64_t first, uint64_t count, float factor);
/* A column pays what it owes of L1. */
void layout_column_pay(struct glm_engine *engine, uint32_t column);
/* No gradient is ever -0: a row whose scales are 0 changes nothing, and may be left out. */
bool layout_is_zero(const float *scale, uint32_t classes);
/* A batch backward: back() for each of its rows that changes something, with the row's own scales. */
typedef void (*layout_row_back_fn)(struct glm_engine *engine, uint32_t row, const float *scale);
void layout_rows_back(struct glm_engine *engine, const uint32_t *rows, uint32_t count,
		      const float *scales, layout_row_back_fn back);

static inline bool layout_part_add(int64_t *part, int64_t more)
{
	return !__builtin_add_overflow(*part, more, part);
}

#endif
