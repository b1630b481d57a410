/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data.h - a file's rows as one rank has them: all labels, and of each row the columns of its own shares.
 * glm_load makes it (glm/load.h), everything else reads it.
 */
#ifndef GLM_DATA_H
#define GLM_DATA_H

#include "glm/columns.h"
#include "glm/sizes.h"

/* One engine's columns of all rows, row after row (CSR): row i has the places start[i] .. start[i + 1] - 1. */
struct glm_share {
	uint64_t *start;  /* [rows + 1] */
	uint32_t *column; /* columns_local(); rising within a row */
	float *value;     /* finite, never 0 */
	uint32_t columns; /* how many the share owns; may be 0 */
};

struct glm_data {
	uint64_t rows, features,
		nonzeros; /* of all ranks; features: the highest of the file, counted from 1 */
	double *label;    /* [rows], as in the file */
	/* The labels, in the order in which they appear first, but never -1 before 1 where there are no others:
	 * as liblinear's. */
	double classes[GLM_CLASSES_MAX];
	uint32_t classes_count;             /* 0: labels are numbers, not classes */
	struct glm_share *shares;           /* this rank's, one per thread */
	uint32_t shares_count, share_first; /* share_first: which of all shares shares[0] is */
	struct columns columns;
	uint64_t ignored; /* non-zeros of features that the training's file did not have */
	uint64_t hash;    /* of all bytes of the file, unpacked (core/shared/hash.h) */
};

#endif
