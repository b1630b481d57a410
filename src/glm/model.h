/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - a model in liblinear's format, so that liblinear-predict reads ours and we read those of
 * liblinear-train, as far as they are sums x*w of one of our losses:
 *
 *   solver_type L2R_LR       the loss, and whether weights were cut to zero (L1R_)
 *   nr_class 2
 *   label 1 -1               not for regression; with two classes the first is that of activations above 0
 *   nr_feature 123
 *   bias 1                   the value of the feature behind the last one; negative: there is none
 *   w
 *   0.25 ...                 a line per feature: a weight per class, with two classes or none a single one
 *
 * Weights are written with 17 digits, as liblinear does: they are the same bits when they are read again.
 */
#ifndef GLM_MODEL_H
#define GLM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "glm/loss.h"
#include "glm/sizes.h"

struct source;

struct model {
	enum glm_loss loss;
	bool is_l1; /* some weights were cut to zero: only the name of the solver depends on it */
	uint32_t classes; /* 0: regression; else 2 .. GLM_CLASSES_MAX */
	int32_t label[GLM_CLASSES_MAX];
	uint64_t features; /* 1 .. 2^31 - 1 */
	double bias;       /* < 0: none */
	float *weight;     /* [model_lines() * model_vectors()], feature by feature */
};

/* Weights of a feature: one, or for more than two classes one of each. */
uint32_t model_vectors(const struct model *model);
/* The features, and the bias if there is one. */
uint64_t model_lines(const struct model *model);

/* 0, or -1 with a sentence: what was at path is as it was. */
int model_write(const char *path, const struct model *model, char error[GLM_ERROR_MAX]);

/* On success the weights are the caller's until model_free. -1: the sentence has file, line and column. Memory
 * grows with the lines that are there, not with what the header says. */
int model_read(const char *path, struct model *model, char error[GLM_ERROR_MAX]);
/* The same, of a source, which it takes over. */
int model_read_source(struct source *source, struct model *model, char error[GLM_ERROR_MAX]);

void model_free(struct model *model); /* zeros are fine */

/* What liblinear calls the solver of such a loss. */
const char *model_solver(enum glm_loss loss, bool is_l1);
/* The loss of that solver, and whether weights were cut; false: none of ours has it. */
bool model_solver_find(const char *name, struct model *model);

#endif
