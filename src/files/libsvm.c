/* SPDX-License-Identifier: Apache-2.0 */
#include "files/libsvm.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/shared/hash.h"
#include "files/number.h"

enum {
	BUFFER_BYTES = 1 << 18,
	INDEX_BYTES_MAX = 24, /* with zeros in front of it, as nobody writes it */
	/* What is read without looking for the buffer's end: "index:value" and the byte after it. */
	TOKEN_BYTES_MAX = INDEX_BYTES_MAX + 1 + NUMBER_BYTES_MAX + 1,
	ROW_FIRST = 256,
};

struct libsvm {
	struct source *source;
	const char *at, *end; /* in buffer[]; *end is 0 */
	bool is_end;          /* of the source: nothing comes after `end` */
	bool is_failed;
	uint64_t base;       /* where in the file buffer[0] is */
	uint64_t line_start; /* where in the file the line begins */
	uint64_t line, label_column;
	uint64_t hash;
	uint32_t row_max;
	uint32_t *feature; /* [row_max] */
	float *value;
	char buffer[BUFFER_BYTES + 1];
	char error[FILES_ERROR_MAX];
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* What may follow a number. A NUL or a lone CR is found where the next token begins. */
static bool ends_token(char c)
{
	return is_blank(c) || c == '\n' || c == '\r' || c == '#' || !c;
}

static uint64_t column(const struct libsvm *l, const char *at)
{
	return l->base + (uint64_t)(at - l->buffer) - l->line_start + 1;
}

static int fail_at(struct libsvm *l, uint64_t where, const char *what)
{
	l->is_failed = true;
	return files_fail_at(l->error, source_name(l->source), l->line, where, "%s", what);
}

/* `before`, the bytes at `at` up to what may end a token, as far as they can be shown, `after`. */
static int fail_shown(struct libsvm *l, const char *at, const char *before, const char *after)
{
	size_t bytes = 0;

	while (bytes <= FILES_SHOWN_BYTES && !ends_token(at[bytes]))
		bytes++;
	if (bytes <= FILES_SHOWN_BYTES && !at[bytes] && at + bytes < l->end)
		return fail_at(l, column(l, at + bytes), "a NUL byte");
	l->is_failed = true;
	return files_fail_at(l->error, source_name(l->source), l->line, column(l, at), "%s%s%s",
			     before, files_show(at, bytes).text, after);
}

int libsvm_fail_label(struct libsvm *l, const char *what)
{
	return fail_at(l, l->label_column, what);
}

static bool fill(struct libsvm *l)
{
	size_t kept = (size_t)(l->end - l->at);

	memmove(l->buffer, l->at, kept);
	l->base += (uint64_t)(l->at - l->buffer);
	l->at = l->buffer;
	while (kept < TOKEN_BYTES_MAX && !l->is_end) {
		ssize_t got = source_read(l->source, l->buffer + kept, BUFFER_BYTES - kept);

		if (got < 0) {
			memcpy(l->error, source_error(l->source), sizeof(l->error));
			l->is_failed = true;
			return false;
		}
		l->is_end = !got;
		l->hash = hash_bytes(l->hash, l->buffer + kept, (size_t)got);
		kept += (size_t)got;
	}
	l->end = l->buffer + kept;
	l->buffer[kept] = 0;
	return true;
}

/* A whole token lies at `at`, or the file's last bytes. */
static inline bool ready(struct libsvm *l)
{
	return l->end - l->at >= TOKEN_BYTES_MAX || l->is_end || fill(l);
}

static inline bool blanks_pass(struct libsvm *l)
{
	do {
		if (!ready(l))
			return false;
		while (is_blank(*l->at))
			l->at++;
	} while (l->end - l->at < TOKEN_BYTES_MAX && !l->is_end);
	return true;
}

/* So many bytes of a token are always there. What more of it there is depends on how the bytes came in. */
static bool is_long(const char *at)
{
	for (int i = 0; i <= NUMBER_BYTES_MAX; i++) {
		if (ends_token(at[i]))
			return false;
	}
	return true;
}

static bool is_infinite(const char *at)
{
	at += *at == '-' || *at == '+';
	return !strncasecmp(at, "inf", 3) || !strncasecmp(at, "nan", 3);
}

/* 1: the line has ended, and `at` is past it. 0: it goes on. -1: an error. */
static int line_end(struct libsvm *l)
{
	switch (*l->at) {
	case '\0':
		if (l->at < l->end)
			return fail_at(l, column(l, l->at), "a NUL byte");
		return 1;
	case '\r':
		if (l->at[1] != '\n' && (l->at + 1 < l->end || !l->is_end))
			return fail_at(l, column(l, l->at), "a carriage return inside of a line");
		l->at += l->at[1] == '\n' ? 2 : 1;
		break;
	case '\n':
		l->at++;
		break;
	case '#':
		for (;;) {
			const char *lf = memchr(l->at, '\n', (size_t)(l->end - l->at));

			l->at = lf ? lf + 1 : l->end;
			if (lf || l->is_end)
				break;
			if (!fill(l))
				return -1;
		}
		break;
	default:
		return 0;
	}
	l->line_start = l->base + (uint64_t)(l->at - l->buffer);
	return 1;
}

static int label_read(struct libsvm *l, double *label)
{
	struct number number;
	const char *end = number_scan(l->at, &number);

	l->label_column = column(l, l->at);
	if (end && end - l->at <= NUMBER_BYTES_MAX && *end == ':')
		return fail_shown(l, l->at, "no label before ", "");
	if (is_long(l->at))
		return fail_shown(l, l->at, "the label ", " is longer than any number has to be");
	if (!end || !ends_token(*end))
		return fail_shown(l, l->at, "the label ",
				  is_infinite(l->at) ? " is not finite" : " is no number");
	*label = number_double(&number, l->at, end);
	if (!isfinite(*label))
		return fail_shown(l, l->at, "the label ", " is too large for a double");
	l->at = end;
	return 0;
}

static bool row_grow(struct libsvm *l)
{
	uint32_t row_max = l->row_max ? 2 * l->row_max : ROW_FIRST;
	uint32_t *feature = realloc(l->feature, row_max * sizeof(*feature));
	float *value;

	if (feature)
		l->feature = feature;
	value = realloc(l->value, row_max * sizeof(*value));
	if (value)
		l->value = value;
	if (!feature || !value)
		return false;
	l->row_max = row_max;
	return true;
}

static int index_fail(struct libsvm *l, const char *end)
{
	if (!strncmp(l->at, "qid:", 4))
		return fail_at(l, column(l, l->at),
			       "qid: groups of queries are for ranking, which is not done here");
	if (end - l->at > INDEX_BYTES_MAX)
		return fail_shown(l, l->at, "the index ", " is too long");
	if (end == l->at || !(ends_token(*end) || *end == ':'))
		return fail_shown(l, l->at, "", " is no index:value");
	return fail_shown(l, l->at, "no ':' after the index ", "");
}

static int order_fail(struct libsvm *l, uint64_t index, uint64_t before)
{
	char sentence[128];

	if (!index)
		return fail_at(l, column(l, l->at), "the index 0: features are counted from 1");
	if (index == before)
		snprintf(sentence, sizeof(sentence), "the index %" PRIu64 " is there twice", index);
	else
		snprintf(sentence, sizeof(sentence),
			 "the index %" PRIu64 " after %" PRIu64 ": they must rise", index, before);
	return fail_at(l, column(l, l->at), sentence);
}

static int value_fail(struct libsvm *l, const char *at)
{
	if (ends_token(*at) && (*at || at == l->end))
		return fail_shown(l, l->at, "no value after ", "");
	if (is_long(at))
		return fail_shown(l, at, "the value ", " is longer than any number has to be");
	return fail_shown(l, at, "the value ",
			  is_infinite(at) ? " is not finite" : " is no number");
}

/* One "index:value"; `before` is the last index, 0 before the first. */
static int pair_read(struct libsvm *l, uint64_t *before, float *value)
{
	const char *at = l->at, *from;
	struct number number;
	uint64_t index = 0;
	unsigned digit;

	for (; (digit = (unsigned)(*at - '0')) <= 9; at++)
		index = index > LIBSVM_INDEX_MAX ? index : 10 * index + digit;
	if (*at != ':' || at == l->at || at - l->at > INDEX_BYTES_MAX)
		return index_fail(l, at);
	if (index > LIBSVM_INDEX_MAX)
		return fail_shown(l, l->at, "the index of ", " is above 2^31");
	if (index <= *before)
		return order_fail(l, index, *before);
	from = ++at;
	at = number_scan(from, &number);
	if (!at || !ends_token(*at) || at - from > NUMBER_BYTES_MAX)
		return value_fail(l, from);
	*value = number_float(&number, from, at);
	if (!isfinite(*value))
		return fail_shown(l, from, "the value ", " is too large for a float");
	*before = index;
	l->at = at;
	return 0;
}

static int pairs_read(struct libsvm *l, struct libsvm_row *row)
{
	uint64_t before = 0;

	for (;;) {
		int ended;

		if (!blanks_pass(l))
			return -1;
		ended = line_end(l);
		if (ended)
			break;
		if (row->count == l->row_max) {
			if (row->count == LIBSVM_ROW_MAX)
				return fail_at(l, column(l, l->at),
					       "a row of more than 4194304 features");
			if (!row_grow(l))
				return fail_at(l, column(l, l->at), "no memory for so long a row");
		}
		if (pair_read(l, &before, &l->value[row->count]))
			return -1;
		l->feature[row->count++] = (uint32_t)(before - 1);
	}
	row->feature = l->feature;
	row->value = l->value;
	return l->is_failed ? -1 : 1;
}

int libsvm_next(struct libsvm *l, struct libsvm_row *row)
{
	int ended;

	if (l->is_failed)
		return -1;
	do { /* lines without a row */
		l->line++;
		if (!blanks_pass(l))
			return -1;
		if (l->at == l->end) {
			l->line--;
			return 0;
		}
		ended = line_end(l);
	} while (ended > 0);
	if (ended)
		return -1;
	*row = (struct libsvm_row){ .line = l->line };
	if (label_read(l, &row->label))
		return -1;
	return pairs_read(l, row);
}

int libsvm_open(struct libsvm **libsvm, struct source *source, char error[FILES_ERROR_MAX])
{
	struct libsvm *l = malloc(sizeof(*l));

	if (!l) {
		files_fail(error, source_name(source), "out of memory");
		source_close(source);
		return -1;
	}
	memset(l, 0, offsetof(struct libsvm, buffer));
	l->source = source;
	l->at = l->end = l->buffer;
	l->buffer[0] = 0;
	l->hash = HASH_BEGIN;
	l->error[0] = 0;
	*libsvm = l;
	return 0;
}

void libsvm_close(struct libsvm *l)
{
	if (!l)
		return;
	source_close(l->source);
	free(l->feature);
	free(l->value);
	free(l);
}

const char *libsvm_error(const struct libsvm *l)
{
	return l->error;
}

uint64_t libsvm_hash(const struct libsvm *l)
{
	return l->hash;
}

const struct source *libsvm_source(const struct libsvm *l)
{
	return l->source;
}
