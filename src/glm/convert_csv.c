/* SPDX-License-Identifier: Apache-2.0 */
/* convert_csv.c - tables of numbers, one line at a time. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "files/aside.h"
#include "files/libsvm.h"
#include "files/line.h"
#include "files/number.h"
#include "glm/convert.h"

_Static_assert(LINE_BYTES_MAX / 2 <= LIBSVM_ROW_MAX,
	       "a line has no more fields than a row can have");

struct field {
	const char *at, *end; /* without blanks and quotes */
};

struct table {
	struct line line;
	const struct convert_csv *csv;
	struct aside out;
	char separator;
	uint32_t fields; /* of each row; 0: not known yet */
	uint32_t label;  /* from 0 */
	uint64_t rows;
	char *error;
};

static int fail_at(const struct table *t, const char *at, const char *what)
{
	return line_fail(&t->line, at, at, what, "", t->error);
}

static int fail_name(const struct table *t, const char *at, const char *what)
{
	return line_fail(&t->line, at, at, what, t->csv->label_name, t->error);
}

static int fail_number(const struct table *t, const struct field *field, const char *what)
{
	if (field->at == field->end)
		return fail_at(t, field->at, "the label '' is no finite number");
	return line_fail(&t->line, field->at, field->end, what, " is no finite number", t->error);
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

	while (quote < t->line.end && is_blank(*quote) && *quote != t->separator)
		quote++;
	if (quote < t->line.end && *quote == '"') {
		end = memchr(quote + 1, '"', (size_t)(t->line.end - quote - 1));
		if (!end) {
			fail_at(t, quote, "a quote that the line does not close");
			return NULL;
		}
		*field = (struct field){ quote + 1, end };
		for (end++; end < t->line.end && is_blank(*end) && *end != t->separator; end++)
			;
		if (end < t->line.end && *end != t->separator) {
			fail_at(t, end, "a quote inside of a field");
			return NULL;
		}
	} else {
		end = memchr(at, t->separator, (size_t)(t->line.end - at));
		if (!end)
			end = t->line.end;
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
	const char *at = t->line.at;
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
				return fail_name(t, field.at, "two columns with the name ");
			is_found = true;
			t->label = t->fields;
		}
		t->fields++;
		if (at == t->line.end)
			break;
	}
	if (!is_found)
		return fail_name(t, t->line.at, "no column with the name ");
	if (t->label >= t->fields)
		return fail_at(t, t->line.at, "fewer columns than the one of the label");
	if (t->fields < 2)
		return fail_at(t, t->line.at, "no column besides the label's");
	return 0;
}

static bool text_write(struct table *t, const struct field *field)
{
	return aside_write(&t->out, field->at, (size_t)(field->end - field->at));
}

/* The label is somewhere, but comes first. */
static int label_write(struct table *t)
{
	const char *at = t->line.at;
	struct field field;
	double value;

	for (uint32_t i = 0;; i++, at++) {
		at = field_read(t, at, &field);
		if (!at)
			return -1;
		if (i == t->label)
			break;
		if (at == t->line.end)
			return fail_at(t, at, "fewer fields than in the lines before");
	}
	if (!field_number(&field, true, &value))
		return fail_number(t, &field, "the label ");
	text_write(t, &field);
	return 0;
}

static int row_write(struct table *t)
{
	const char *at = t->line.at;
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
			return fail_at(t, field.at, "more fields than in the lines before");
		index += i != t->label;
		if (i != t->label && field.at < field.end) {
			if (!field_number(&field, false, &value))
				return fail_number(t, &field, "the field ");
			if (value != 0) {
				aside_write(&t->out, head,
					    (size_t)snprintf(head, sizeof(head), " %" PRIu32 ":",
							     index));
				text_write(t, &field);
			}
		}
		if (at == t->line.end) {
			if (i + 1 < t->fields)
				return fail_at(t, at, "fewer fields than in the lines before");
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

	while ((result = line_next(&t->line, t->error)) > 0) {
		struct field all = { t->line.at, t->line.end };
		bool is_row = true;

		blanks_cut(t, &all);
		if (all.at == all.end)
			continue;
		if (!t->fields && first_line(t, &is_row))
			return -1;
		if (is_row && row_write(t))
			return -1;
	}
	if (!result && !t->rows)
		return files_fail(t->error, source_name(t->line.source), "no rows");
	return result;
}

int convert_csv(const char *from, const char *to, const struct convert_csv *csv,
		struct convert_done *done, char error[GLM_ERROR_MAX])
{
	struct table t = { .csv = csv, .separator = csv->separator ? csv->separator : ',' };
	struct source *source;
	int result;

	assert(csv->label || csv->label_name);
	t.error = error;
	if (source_open(&source, from, error) || line_open(&t.line, source, error))
		return -1;
	result = aside_open(&t.out, to, error);
	if (!result && rows_write(&t)) {
		aside_drop(&t.out);
		result = -1;
	} else if (!result) {
		result = aside_commit(&t.out, error);
	}
	if (!result)
		*done = (struct convert_done){ t.rows, t.fields - 1 };
	line_close(&t.line);
	return result;
}
