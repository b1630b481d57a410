/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h - the keys that training on a file would update, row by row, in the order of the file. Files may be plain, gz
 * or xz (files/source.h). What is wrong with one is a sentence that begins with FILE:LINE:COLUMN.
 *
 *   libsvm  label index:value ...       the indices (files/libsvm.h)
 *   list    numbers, with blanks, tabs or commas between them: the keys; `columns` says which of a line
 *   words   the same of any words: the hash of each
 *   criteo  40 fields with tabs between them: label, 13 numbers, 26 categories; or 39, without the label. The hash of
 *           "I3=7" for a number x, which is floor(ln(x)^2) above 2 and "S" with x otherwise; of "C14=68fd1e64".
 *           Empty fields are none
 *   avazu   fields with commas between them, names in the first line: the hash of "site_id=1fbe01fe", of all columns
 *           but id and click; of hour the last two digits
 *   u64     numbers of 8 bytes, little endian; each is a row
 *
 * The hash is FNV-1a, 64 bits (core/shared/hash.h); with `bits` it is taken modulo 2^bits, plus 1. A row has a key
 * once: what a LIBSVM file of hashed features has as its indices.
 */
#ifndef HOT_KEYS_H
#define HOT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "files/error.h"
#include "files/source.h"

enum keys_format {
	KEYS_AUTO, /* by the first line, of a regular file only */
	KEYS_LIBSVM,
	KEYS_LIST,
	KEYS_WORDS,
	KEYS_CRITEO,
	KEYS_AVAZU,
	KEYS_U64,
};

enum {
	KEYS_ROW_MAX = 1 << 22, /* keys of a row */
	KEYS_BITS_MAX = 32,
	KEYS_COLUMN_MAX = 1 << 20,
};

struct keys_options {
	enum keys_format format;
	uint32_t column_first,
		column_last; /* of a line, from 1; 0, 0: all; n, 0: from the n-th on */
	uint32_t bits;       /* of hashes; 0: all 64 */
};

struct keys_row { /* lent until the next call */
	const uint64_t *key;
	size_t count;     /* may be 0 */
	bool is_each_row; /* these are `count` rows of one key */
};

struct keys;

/* "-" is standard input. 0 and *keys, which is the caller's until keys_close, or -1 and the error's sentence. */
int keys_open(struct keys **keys, const char *path, const struct keys_options *options,
	      char error[FILES_ERROR_MAX]);
/* The same of a source, which it takes over; not with KEYS_AUTO. */
int keys_open_source(struct keys **keys, struct source *source, const struct keys_options *options,
		     char error[FILES_ERROR_MAX]);
void keys_close(struct keys *keys); /* NULL is fine */

/* 1: a row. 0: the end. -1: keys_error(). */
int keys_next(struct keys *keys, struct keys_row *row);
const char *keys_error(const struct keys *keys);
enum keys_format keys_format(const struct keys *keys); /* never KEYS_AUTO */
const struct source *keys_source(const struct keys *keys);

/* Of each format; NULL behind the last. */
extern const char *const keys_format_names[];

#endif
