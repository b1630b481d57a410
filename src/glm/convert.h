/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert.h - other files as LIBSVM files. What is read may be packed (files/source.h); what is written is whole
 * or not there (files/aside.h), and files/libsvm.h reads it without an error. Zeros are left out.
 */
#ifndef GLM_CONVERT_H
#define GLM_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "glm/sizes.h"

struct convert_done {
	uint64_t rows, features; /* features: of a row, with its zeros */
};

/* Images and labels as idx files of bytes (MNIST, Fashion-MNIST): one feature per pixel, in their order. Scaled:
 * pixels are 0 .. 1, else 0 .. 255. 0, or -1 and a sentence that names the file. */
int convert_idx(const char *images, const char *labels, const char *to, bool is_scaled,
		struct convert_done *done, char error[GLM_ERROR_MAX]);

struct convert_csv {
	char separator; /* 0: a comma */
	uint32_t label; /* the column of the label, from 1; 0: the one that label_name says */
	const char *label_name; /* as in the first line, which is then no row */
};

/* A table of numbers: a line per row, equally many fields in all of them. The first line is passed over if its
 * label is no number; fields may be quoted ("..."), lines end in LF or CR LF, blank ones are passed over. All
 * columns but the label's are features, in their order. An empty field is a zero. 0, or -1 and a sentence that
 * begins with FILE:LINE:COLUMN (of the byte). */
int convert_csv(const char *from, const char *to, const struct convert_csv *csv,
		struct convert_done *done, char error[GLM_ERROR_MAX]);

#endif
