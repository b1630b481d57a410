/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score.h - how good a model is, from the activations of some rows and their labels. Sums run in the order of the
 * rows, in double: the same activations give the same bits.
 */
#ifndef GLM_SCORE_H
#define GLM_SCORE_H

#include <stdint.h>

#include "glm/loss.h"
#include "glm/sizes.h"

/* What the labels mean. */
struct score_labels {
	enum glm_loss loss;
	const double *classes; /* [classes_count] */
	uint32_t
		classes_count; /* 0: regression: labels are the numbers that activations should be */
};

struct score {
	uint64_t rows;
	double loss; /* mean over the rows, summed over the classes where there are more than two; without l1 and l2 */
	double accuracy; /* share of the rows whose class is right; NaN for regression */
	double auc; /* area under the ROC curve, ties count half; for more than two classes the mean of each
			    against the rest; NaN for regression, and where all rows are of one class */
	double mse; /* mean squared error; NaN for classes */
};

/* Activations of a row: one, or for more than two classes one of each. */
uint32_t score_vectors(uint32_t classes_count);

/* Which class: of two the first if the activation is above 0; of more the first of those with the largest. */
uint32_t score_class(const double *activation, uint32_t classes_count);

/* label[rows], activation[rows * score_vectors()]. A label that is none of the classes is of no class, and wrong.
 * rows 0: all NaN. -1: no memory. */
int score_make(struct score *score, const struct score_labels *labels, const double *label,
	       const double *activation, uint64_t rows);

#endif
