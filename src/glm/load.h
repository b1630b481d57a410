/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - a LIBSVM file becomes one rank's part of its rows, in one pass. Every rank reads the whole file and
 * keeps all labels and its own columns: memory is its share, and for a while the sample of the first rows
 * (2 Mi non-zeros) after which the columns are split.
 */
#ifndef GLM_LOAD_H
#define GLM_LOAD_H

#include <stdbool.h>

#include "glm/data.h"

struct exchange;

struct glm_load_options {              /* zeros: one rank, one thread, a file for training */
	uint32_t rank, ranks, threads; /* ranks, threads 0: one */
	/* For a file that a model meets after training: the split and the number of features of the training's
	 * file (struct glm_data). What it has above those is counted in `ignored` and left out. */
	const struct columns *columns;
	uint64_t features;
	bool is_regression;   /* labels are any numbers */
	uint32_t classes_min; /* fewer are refused: 2 for training a classifier */
	void (*progress)(void *arg, uint64_t position,
			 uint64_t size); /* bytes of the file; size 0: unknown */
	void *arg;
};

/* 0: data is the caller's until glm_data_free. -1: error[] has the sentence, with file, line and column where
 * they are known, and nothing is kept. */
int glm_load(struct glm_data *data, const char *path, const struct glm_load_options *options,
	     char error[GLM_ERROR_MAX]);
void glm_data_free(struct glm_data *data); /* also of zeros */

/* Whether all ranks have read the same file and split it alike: 0, or -1 and the same sentence on all of them,
 * which names the ranks that most others do not agree with. All ranks call it. */
int glm_load_agree(const struct glm_data *data, struct exchange *exchange,
		   char error[GLM_ERROR_MAX]);

#endif
