/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libsvm.h - rows of a LIBSVM file, one after the other: `label index:value index:value ...`, indices from 1 and
 * rising, blanks or tabs between them, lines that end in LF, CR LF or with the file. `#` and what follows it on
 * its line is a comment; lines without a row are passed over. Anything else is an error, whose sentence begins
 * with FILE:LINE:COLUMN (columns in bytes, from 1); no part of that row is given.
 *
 * Memory does not depend on the file: a buffer, and one row of up to LIBSVM_ROW_MAX features.
 */
#ifndef FILES_LIBSVM_H
#define FILES_LIBSVM_H

#include <stdint.h>

#include "files/error.h"
#include "files/source.h"

enum {
	LIBSVM_ROW_MAX = 1 << 22, /* non-zeros: 32 MiB */
};
#define LIBSVM_INDEX_MAX \
	(UINT64_C(1) << 31) /* features fit an int32 when they are counted from 0 */

struct libsvm;

struct libsvm_row {   /* arrays are lent until the next call */
	double label; /* finite */
	uint32_t count;
	const uint32_t *feature; /* from 0, rising */
	const float *value;      /* finite; may be 0 */
	uint64_t line;           /* from 1 */
};

/* libsvm_open takes the source over, also if it fails (-1: no memory). */
int libsvm_open(struct libsvm **libsvm, struct source *source, char error[FILES_ERROR_MAX]);
void libsvm_close(struct libsvm *libsvm); /* NULL is fine */

/* 1: a row. 0: the end. -1: libsvm_error(), now and again whenever it is called. */
int libsvm_next(struct libsvm *libsvm, struct libsvm_row *row);
const char *libsvm_error(const struct libsvm *libsvm);
/* An error of the caller about the row's label, in the same words: "FILE:LINE:COLUMN: what". */
int libsvm_fail_label(struct libsvm *libsvm, const char *what);

/* Of all bytes so far: of the file, after the end. */
uint64_t libsvm_hash(const struct libsvm *libsvm);
const struct source *libsvm_source(const struct libsvm *libsvm);

#endif
