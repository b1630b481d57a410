/* SPDX-License-Identifier: Apache-2.0 */
/* line.h - the lines of a source, one at a time, without what ends them: LF, CR LF or the end of the file. */
#ifndef FILES_LINE_H
#define FILES_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "files/error.h"
#include "files/source.h"

enum { LINE_BYTES_MAX = 1 << 23 };

struct line {
	const char *at, *end; /* lent until the next call; *end is 0 */
	uint64_t number;      /* from 1 */
	/* The rest is line.c's. */
	struct source *source;
	char *buffer; /* [LINE_BYTES_MAX + 1], of which the system gives what is touched */
	char *next, *filled;
	bool is_end;
};

/* line_open takes the source over, also if it fails (-1: no memory). */
int line_open(struct line *line, struct source *source, char error[FILES_ERROR_MAX]);
void line_close(struct line *line); /* zeros are fine */

/* 1: a line. 0: the end. -1: error[]. */
int line_next(struct line *line, char error[FILES_ERROR_MAX]);

/* "FILE:LINE:COLUMN: before'shown'after", as far as the bytes from `at` to `to` can be shown; without them if both are
 * the same. `at` is in the line, for the column (from 1). Returns -1. */
int line_fail(const struct line *line, const char *at, const char *to, const char *before,
	      const char *after, char error[FILES_ERROR_MAX]);

#endif
