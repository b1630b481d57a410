/* SPDX-License-Identifier: Apache-2.0 */
/* model_read.c - liblinear's format, read; see model.h. */
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "glm/model.h"

enum { WORD_MAX = 64, LINES_FIRST = 1024, FEATURES_MAX = INT32_MAX };

struct reader {
	FILE *file;
	const char *name;
	char *error;
	uint32_t line, column; /* of the next character, from 1 */
	uint32_t word_column;
	char word[WORD_MAX];
	unsigned seen; /* bits of the keys */
};

/* ---- words ---- */

enum word { WORD_BAD = -1, WORD_END_OF_FILE, WORD_END_OF_LINE, WORD_TEXT };

static int failed(const struct reader *reader, const char *what)
{
	return files_fail_at(reader->error, reader->name, reader->line, reader->word_column, "%s",
			     what);
}

/* The same, with the word; what is not printable is not shown. */
static int refused(const struct reader *reader, const char *what)
{
	char shown[WORD_MAX];
	size_t i;

	for (i = 0; reader->word[i]; i++)
		shown[i] = isprint((unsigned char)reader->word[i]) ? reader->word[i] : '?';
	shown[i] = '\0';
	snprintf(reader->error, GLM_ERROR_MAX, "%s:%u:%u: %s: %s", reader->name, reader->line,
		 reader->word_column, shown, what);
	return -1;
}

static enum word word_next(struct reader *reader)
{
	size_t length = 0;
	int c;

	do {
		reader->word_column = reader->column++;
		c = getc_unlocked(reader->file);
	} while (c == ' ' || c == '\t' || c == '\r');
	if (c == EOF && ferror(reader->file)) {
		failed(reader, strerror(errno));
		return WORD_BAD;
	}
	if (c == EOF)
		return WORD_END_OF_FILE;
	if (c == '\n') {
		reader->line++;
		reader->column = 1;
		return WORD_END_OF_LINE;
	}
	for (; c != EOF && c != ' ' && c != '\t' && c != '\r' && c != '\n';
	     c = getc_unlocked(reader->file), reader->column++) {
		if (length == sizeof(reader->word) - 1 || c == '\0') {
			failed(reader, c ? "a word that is too long" : "a zero byte: no text");
			return WORD_BAD;
		}
		reader->word[length++] = (char)c;
	}
	reader->word[length] = '\0';
	if (c != EOF)
		ungetc(c, reader->file);
	reader->column--;
	return WORD_TEXT;
}

/* A word on this line. */
static int word_need(struct reader *reader, const char *what)
{
	char text[96];
	enum word word = word_next(reader);

	if (word == WORD_TEXT)
		return 0;
	if (word == WORD_BAD)
		return -1;
	if (word == WORD_END_OF_LINE) { /* the place is the end of the line before */
		reader->line--;
	}
	snprintf(text, sizeof(text), "%s is missing", what);
	return failed(reader, text);
}

static int line_end(struct reader *reader)
{
	enum word word = word_next(reader);

	if (word == WORD_TEXT)
		return refused(reader, "too much on this line");
	return word == WORD_BAD ? -1 : 0;
}

/* strtod takes more than numbers: hexadecimal ones, inf and nan. */
static int real_need(struct reader *reader, const char *what, double *real)
{
	char *end;

	if (word_need(reader, what))
		return -1;
	*real = strtod(reader->word, &end);
	if (*end || end == reader->word || !isfinite(*real) ||
	    strspn(reader->word, "+-.0123456789eE") != strlen(reader->word))
		return refused(reader, "not a number");
	return 0;
}

static int whole_need(struct reader *reader, const char *what, int64_t min, int64_t max,
		      int64_t *whole)
{
	char text[96], *end;

	if (word_need(reader, what))
		return -1;
	errno = 0;
	*whole = strtoll(reader->word, &end, 10);
	if (!*end && end != reader->word && !errno && *whole >= min && *whole <= max)
		return 0;
	snprintf(text, sizeof(text), "%s is a whole number from %" PRId64 " to %" PRId64, what, min,
		 max);
	return refused(reader, text);
}

/* ---- lines ---- */

static int solver_read(struct reader *reader, struct model *model)
{
	if (word_need(reader, "the solver"))
		return -1;
	if (model_solver_find(reader->word, model))
		return 0;
	return refused(reader, "not the solver of a loss that tally glm has");
}

static int classes_read(struct reader *reader, struct model *model)
{
	int64_t classes;

	if (whole_need(reader, "nr_class", 2, GLM_CLASSES_MAX, &classes))
		return -1;
	model->classes = (uint32_t)classes;
	return 0;
}

static int labels_read(struct reader *reader, struct model *model)
{
	int64_t label;

	if (!model->classes) {
		reader->word_column = 1;
		return failed(reader, "labels before nr_class");
	}
	for (uint32_t c = 0; c < model->classes; c++) {
		if (whole_need(reader, "a label", INT32_MIN, INT32_MAX, &label))
			return -1;
		model->label[c] = (int32_t)label;
		for (uint32_t i = 0; i < c; i++)
			if (model->label[i] == label)
				return refused(reader, "a label that is there already");
	}
	return 0;
}

static int features_read(struct reader *reader, struct model *model)
{
	int64_t features;

	if (whole_need(reader, "nr_feature", 1, FEATURES_MAX, &features))
		return -1;
	model->features = (uint64_t)features;
	return 0;
}

static int bias_read(struct reader *reader, struct model *model)
{
	return real_need(reader, "the bias", &model->bias);
}

static int (*const lines[])(struct reader *reader, struct model *model) = {
	solver_read, classes_read, labels_read, features_read, bias_read,
};

enum { LINE_SOLVER, LINE_CLASSES, LINE_LABELS, LINE_FEATURES, LINE_BIAS, LINES };

static const char *const keys[LINES] = {
	"solver_type", "nr_class", "label", "nr_feature", "bias",
};

/* Before "w" all has been said, and nothing that contradicts. */
static int header_check(struct reader *reader, struct model *model)
{
	bool is_regression = model->loss == GLM_LEAST_SQUARES;
	char text[64];

	for (uint32_t k = 0; k < LINES; k++) {
		if (reader->seen & 1u << k || (k == LINE_LABELS && is_regression))
			continue;
		snprintf(text, sizeof(text), "weights, but no %s before them", keys[k]);
		return failed(reader, text);
	}
	if (is_regression && (model->classes != 2 || reader->seen & 1u << LINE_LABELS))
		return failed(reader, "a regression has nr_class 2, and no labels");
	if (is_regression)
		model->classes = 0;
	return 0;
}

/* Up to the line "w". */
static int header_read(struct reader *reader, struct model *model)
{
	for (;;) {
		enum word word = word_next(reader);
		uint32_t k = 0;

		if (word == WORD_END_OF_LINE)
			continue;
		if (word == WORD_END_OF_FILE)
			return failed(reader, "the file ends before its weights");
		if (word == WORD_BAD)
			return -1;
		if (!strcmp(reader->word, "w"))
			return header_check(reader, model) ? -1 : line_end(reader);
		while (k < LINES && strcmp(keys[k], reader->word) != 0)
			k++;
		if (k == LINES)
			return refused(reader, "no line of a liblinear model begins so");
		if (reader->seen & 1u << k)
			return refused(reader, "a second time");
		reader->seen |= 1u << k;
		if (lines[k](reader, model) || line_end(reader))
			return -1;
	}
}

static int line_read(struct reader *reader, float *weight, uint32_t vectors)
{
	for (uint32_t c = 0; c < vectors; c++) {
		double real;

		if (real_need(reader, "a weight", &real))
			return -1;
		if (fabs(real) > (double)FLT_MAX)
			return refused(reader, "too large for a float32");
		weight[c] = (float)real;
	}
	return line_end(reader);
}

static int weights_read(struct reader *reader, struct model *model)
{
	uint32_t vectors = model_vectors(model);
	uint64_t count = model_lines(model), room = 0;
	enum word word;

	for (uint64_t i = 0; i < count; i++) {
		if (i == room) {
			float *more;

			room = room ? 2 * room : LINES_FIRST;
			if (room > count)
				room = count;
			more = realloc(model->weight, room * vectors * sizeof(float));
			if (!more)
				return failed(reader, "out of memory");
			model->weight = more;
		}
		if (line_read(reader, model->weight + i * vectors, vectors))
			return -1;
	}
	do
		word = word_next(reader);
	while (word == WORD_END_OF_LINE);
	if (word == WORD_TEXT)
		return refused(reader, "more weights than features");
	return word == WORD_BAD ? -1 : 0;
}

int model_read_file(FILE *file, const char *name, struct model *model, char error[GLM_ERROR_MAX])
{
	struct reader reader = {
		.file = file, .name = name, .error = error, .line = 1, .column = 1
	};
	struct model read = { .classes = 0 };

	if (header_read(&reader, &read) || weights_read(&reader, &read)) {
		model_free(&read);
		return -1;
	}
	*model = read;
	return 0;
}

int model_read(const char *path, struct model *model, char error[GLM_ERROR_MAX])
{
	FILE *file = fopen(path, "re");
	int result;

	if (!file)
		return files_fail(error, path, "%s", strerror(errno));
	result = model_read_file(file, path, model, error);
	fclose(file);
	return result;
}
