/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - what is wrong with a file, as a sentence: "NAME: what", or "NAME:LINE:COLUMN: what". */
#ifndef FILES_ERROR_H
#define FILES_ERROR_H

#include <stddef.h>
#include <stdint.h>

enum {
	FILES_ERROR_MAX = 512, /* bytes of a sentence, its NUL included */
	FILES_SHOWN_BYTES = 24,
};

/* Line 0: it is wrong as a whole. A long name is cut, so that there is room for what is wrong. Returns -1. */
int files_fail_at(char error[FILES_ERROR_MAX], const char *name, uint64_t line, uint64_t column,
		  const char *format, ...) __attribute__((format(printf, 5, 6)));
#define files_fail(error, name, ...) files_fail_at(error, name, 0, 0, __VA_ARGS__)

/* The first of these bytes as far as they can be shown, and "..." if there are more than FILES_SHOWN_BYTES. */
struct files_shown {
	char text[FILES_SHOWN_BYTES + sizeof("...")];
};
struct files_shown files_show(const char *at, size_t bytes);

#endif
