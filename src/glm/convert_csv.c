/* SPDX-License-Identifier: Apache-2.0 */
/* convert_csv.c - tables of numbers, one line at a time. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/text.h"
#include "files/aside.h"
#include "files/number.h"
#include "files/source.h"
#include "glm/convert.h"

enum {
	LINE_BYTES_MAX = 1 << 23, /* so that a row has no more fields than LIBSVM_ROW_MAX */
	READ_BYTES = 1 << 16,
	SHOWN_BYTES = 24,
};

struct field {
	const char *at, *end; /* without blanks and quotes */
};

struct table {
	struct source *source;
	const struct convert_csv *csv;
	struct aside out;
	char separator;
	char *buffer; /* [LINE_BYTES_MAX + 1], of which the system gives what is touched */
	char *line, *line_end, *filled; /* line_end: what ends it is cut off; filled: read so far */
	char *next;
	bool is_end;
	uint64_t number; /* of the line, from 1 */
	uint32_t fields; /* of each row; 0: not known yet */
	uint32_t label;  /* from 0 */
	uint64_t rows;
	char *error;
};

static int fail_at(const struct table *t, const char *at, const char *before,
		   const struct field *shown, const char *after)
{
	size_t bytes = shown ? (size_t)(shown->end - shown->at) : 0;
	char seen[SHOWN_BYTES + sizeof("...")] = "";
	struct text text;

	for (size_t i = 0; i < bytes && i < SHOWN_BYTES; i++)
		seen[i] = shown->at[i] >= ' ' && shown->at[i] < 0x7f ? shown->at[i] : '?';
	if (bytes > SHOWN_BYTES)
		memcpy(seen + SHOWN_BYTES, "...", sizeof("..."));
	text_begin(&text, t->error, GLM_ERROR_MAX);
	text_add(&text, "%s:%llu:%llu: %s%s%s", source_name(t->source),
		 (unsigned long long)t->number, (unsigned long long)(at - t->line) + 1, before,
		 seen, after);
	return -1;
}

/* 1: there is a line. 0: the end. -1: error[]. */
static int line_next(struct table *t)
{
	char *lf;

	t->line = t->next;
	t->number++;
	while (!(lf = memchr(t->next, '\n', (size_t)(t->filled - t->next))) && !t->is_end) {
		size_t kept = (size_t)(t->filled - t->line), room;
		ssize_t got;

		if (kept >= LINE_BYTES_MAX)
			return fail_at(t, t->line, "a line of more than 8388608 bytes", NULL, "");
		if (t->filled - t->buffer >= LINE_BYTES_MAX / 2 && t->line > t->buffer) {
			memmove(t->buffer, t->line, kept);
			t->line = t->buffer;
			t->filled = t->buffer + kept;
		}
		t->next = t->filled;
		room = (size_t)(t->buffer + LINE_BYTES_MAX - t->filled);
		got = source_read(t->source, t->filled, room < READ_BYTES ? room : READ_BYTES);
		if (got < 0) {
			memcpy(t->error, source_error(t->source), GLM_ERROR_MAX);
			return -1;
		}
		t->is_end = !got;
		t->filled += got;
	}
	if (!lf && t->line == t->filled)
		return 0;
	t->line_end = lf ? lf : t->filled;
	t->next = lf ? lf + 1 : t->filled;
	if (t->line_end > t->line && t->line_end[-1] == '\r')
		t->line_end--;
	return 1;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void blanks_cut(const struct table *t, struct field *field)
{
	while (field->at < field->end && is_blank(*field->at) && *field->at != t->separator)
		field->at++;
	while (field->end > field->at && is_blank(field->end[-1]) && field->end[-1] != t->separator)
		field->end--;
}

/* The field at `at`; what is behind it, a separator or the line's end. NULL: error[]. */
static const char *field_read(const struct table *t, const char *at, struct field *field)
{
	const char *end = at, *quote = at;

	while (quote < t->line_end && is_blank(*quote) && *quote != t->separator)
		quote++;
	if (quote < t->line_end && *quote == '"') {
		end = memchr(quote + 1, '"', (size_t)(t->line_end - quote - 1));
		if (!end) {
			fail_at(t, quote, "a quote that the line does not close", NULL, "");
			return NULL;
		}
		*field = (struct field){ quote + 1, end };
		for (end++; end < t->line_end && is_blank(*end) && *end != t->separator; end++)
			;
		if (end < t->line_end && *end != t->separator) {
			fail_at(t, end, "a quote inside of a field", NULL, "");
			return NULL;
		}
	} else {
		end = memchr(at, t->separator, (size_t)(t->line_end - at));
		if (!end)
			end = t->line_end;
		*field = (struct field){ at, end };
	}
	blanks_cut(t, field);
	return end;
}

/* A number that a LIBSVM file may have, in its own words. */
static bool field_number(const struct field *field, bool is_label, double *value)
{
	char text[NUMBER_BYTES_MAX + 1];
	struct number number;
	const char *end;
	size_t bytes = (size_t)(field->end - field->at);

	if (!bytes || bytes > NUMBER_BYTES_MAX)
		return false;
	memcpy(text, field->at, bytes);
	text[bytes] = 0;
	end = number_scan(text, &number);
	if (end != text + bytes)
		return false;
	*value = is_label ? number_double(&number, text, end)
			  : (double)number_float(&number, text, end);
	return isfinite(*value);
}

/* What the first line says: how many fields, which one is the label, and whether it is a row. */
static int first_line(struct table *t, bool *is_row)
{
	const struct convert_csv *csv = t->csv;
	const char *at = t->line;
	bool is_found = csv->label > 0;
	struct field field;
	double value;

	*is_row = false;
	t->label = csv->label - 1;
	for (;; at++) {
		at = field_read(t, at, &field);
		if (!at)
			return -1;
		if (csv->label && t->fields == t->label)
			*is_row = field_number(&field, true, &value);
		if (!csv->label && strlen(csv->label_name) == (size_t)(field.end - field.at) &&
		    !memcmp(csv->label_name, field.at, (size_t)(field.end - field.at))) {
			if (is_found)
				return fail_at(t, field.at, "two columns with the name ", &field,
					       "");
			is_found = true;
			t->label = t->fields;
		}
		t->fields++;
		if (at == t->line_end)
			break;
	}
	if (!is_found) {
		struct field name = { csv->label_name, csv->label_name + strlen(csv->label_name) };

		return fail_at(t, t->line, "no column with the name ", &name, "");
	}
	if (t->label >= t->fields)
		return fail_at(t, t->line, "fewer columns than the one of the label", NULL, "");
	if (t->fields < 2)
		return fail_at(t, t->line, "no column besides the label's", NULL, "");
	return 0;
}

static bool text_write(struct table *t, const struct field *field)
{
	return aside_write(&t->out, field->at, (size_t)(field->end - field->at));
}

/* The label is somewhere, but comes first. */
static int label_write(struct table *t)
{
	const char *at = t->line;
	struct field field;
	double value;

	for (uint32_t i = 0;; i++, at++) {
		at = field_read(t, at, &field);
		if (!at)
			return -1;
		if (i == t->label)
			break;
		if (at == t->line_end)
			return fail_at(t, at, "fewer fields than in the lines before", NULL, "");
	}
	if (!field_number(&field, true, &value))
		return fail_at(t, field.at, "the label '", &field, "' is no finite number");
	text_write(t, &field);
	return 0;
}

static int row_write(struct table *t)
{
	const char *at = t->line;
	uint32_t index = 0;

	if (label_write(t))
		return -1;
	for (uint32_t i = 0;; i++, at++) {
		struct field field;
		char head[16];
		double value;

		at = field_read(t, at, &field);
		if (!at)
			return -1;
		if (i >= t->fields)
			return fail_at(t, field.at, "more fields than in the lines before", NULL,
				       "");
		index += i != t->label;
		if (i != t->label && field.at < field.end) {
			if (!field_number(&field, false, &value))
				return fail_at(t, field.at, "the field '", &field,
					       "' is no finite number");
			if (value != 0) {
				aside_write(&t->out, head,
					    (size_t)snprintf(head, sizeof(head), " %" PRIu32 ":",
							     index));
				text_write(t, &field);
			}
		}
		if (at == t->line_end) {
			if (i + 1 < t->fields)
				return fail_at(t, at, "fewer fields than in the lines before", NULL,
					       "");
			break;
		}
	}
	aside_write(&t->out, "\n", 1);
	t->rows++;
	return 0;
}

static int rows_write(struct table *t)
{
	int result;

	while ((result = line_next(t)) > 0) {
		struct field all = { t->line, t->line_end };
		bool is_row = true;

		blanks_cut(t, &all);
		if (all.at == all.end)
			continue;
		if (!t->fields && first_line(t, &is_row))
			return -1;
		if (is_row && row_write(t))
			return -1;
	}
	if (!result && !t->rows) {
		struct text text;

		text_begin(&text, t->error, GLM_ERROR_MAX);
		text_add(&text, "%s: no rows", source_name(t->source));
		return -1;
	}
	return result;
}

int convert_csv(const char *from, const char *to, const struct convert_csv *csv,
		struct convert_done *done, char error[GLM_ERROR_MAX])
{
	struct table *t = calloc(1, sizeof(*t)); /* with two paths in it */
	char *buffer = malloc(LINE_BYTES_MAX + 1);
	int result = -1;

	assert(csv->label || csv->label_name);
	if (t && buffer && !source_open(&t->source, from, error)) {
		t->csv = csv;
		t->separator = csv->separator ? csv->separator : ',';
		t->buffer = t->line = t->next = t->filled = buffer;
		t->error = error;
		result = aside_open(&t->out, to, error);
		if (!result && rows_write(t)) {
			aside_drop(&t->out);
			result = -1;
		} else if (!result) {
			result = aside_commit(&t->out, error);
		}
		if (!result)
			*done = (struct convert_done){ t->rows, t->fields - 1 };
		source_close(t->source);
	} else if (!t || !buffer) {
		struct text text;

		text_begin(&text, error, GLM_ERROR_MAX);
		text_add(&text, "%s: out of memory", from);
	}
	free(buffer);
	free(t);
	return result;
}
