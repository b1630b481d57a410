/* SPDX-License-Identifier: Apache-2.0 */
/* model_read.c - liblinear's format, read; see model.h. */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/line.h"
#include "files/number.h"
#include "glm/model.h"

enum { WORD_MAX = 64, LINES_FIRST = 1024, FEATURES_MAX = INT32_MAX };

struct reader {
	struct line line;
	const char *at;  /* in the line, behind the last word */
	uint64_t column; /* of that word, or where one is missing */
	char *error;
	char word[WORD_MAX];
	unsigned seen; /* bits of the keys */
};

/* ---- words ---- */

#define failed(reader, ...)                                                                       \
	files_fail_at((reader)->error, source_name((reader)->line.source), (reader)->line.number, \
		      (reader)->column, __VA_ARGS__)

/* The same, with the word. */
static int refused(const struct reader *reader, const char *what)
{
	return failed(reader, "%s: %s", files_show(reader->word, strlen(reader->word)).text, what);
}

/* 0, and a line begins. -1: an error, or the file's end, where `missing` is missing. */
static int line_begin(struct reader *reader, const char *missing)
{
	int result = line_next(&reader->line, reader->error);

	reader->at = reader->line.at;
	reader->column = 1;
	return result ? result > 0 ? 0 : -1 : failed(reader, "%s", missing);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* 1: a word. 0: the line has no more of them. -1: an error. */
static int word_next(struct reader *reader)
{
	const char *from = reader->at, *to;

	while (is_blank(*from))
		from++;
	for (to = from; to < reader->line.end && !is_blank(*to); to++)
		if (!*to || to - from == WORD_MAX - 1)
			break;
	reader->at = to;
	reader->column = (uint64_t)(from - reader->line.at) + 1;
	if (to < reader->line.end && !is_blank(*to))
		return failed(reader, "%s",
			      *to ? "a word that is too long" : "a zero byte: no text");
	memcpy(reader->word, from, (size_t)(to - from));
	reader->word[to - from] = 0;
	return to > from;
}

/* A word on this line. */
static int word_need(struct reader *reader, const char *what)
{
	int has = word_next(reader);

	if (has)
		return has > 0 ? 0 : -1;
	return failed(reader, "%s is missing", what);
}

static int line_end(struct reader *reader)
{
	int has = word_next(reader);

	return has > 0 ? refused(reader, "too much on this line") : has;
}

static int real_need(struct reader *reader, const char *what, double *real)
{
	struct number number;
	const char *end;

	if (word_need(reader, what))
		return -1;
	end = number_scan(reader->word, &number);
	if (!end || *end)
		return refused(reader, "not a number");
	*real = number_double(&number, reader->word, end);
	return isfinite(*real) ? 0 : refused(reader, "not a number");
}

static int whole_need(struct reader *reader, const char *what, int64_t min, int64_t max,
		      int64_t *whole)
{
	char *end;

	if (word_need(reader, what))
		return -1;
	errno = 0;
	*whole = strtoll(reader->word, &end, 10);
	if (!*end && end != reader->word && !errno && *whole >= min && *whole <= max)
		return 0;
	return failed(reader, "%s: %s is a whole number from %" PRId64 " to %" PRId64,
		      files_show(reader->word, strlen(reader->word)).text, what, min, max);
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
		reader->column = 1;
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

	for (uint32_t k = 0; k < LINES; k++) {
		if (reader->seen & 1u << k || (k == LINE_LABELS && is_regression))
			continue;
		return failed(reader, "weights, but no %s before them", keys[k]);
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
	while (!line_begin(reader, "the file ends before its weights")) {
		int has = word_next(reader);
		uint32_t k = 0;

		if (!has)
			continue;
		if (has < 0)
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
	return -1;
}

static int line_read(struct reader *reader, float *weight, uint32_t vectors)
{
	if (line_begin(reader, "a weight is missing"))
		return -1;
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
	int result;

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
	while ((result = line_next(&reader->line, reader->error)) > 0) {
		reader->at = reader->line.at;
		result = word_next(reader);
		if (result)
			return result < 0 ? -1 : refused(reader, "more weights than features");
	}
	return result;
}

int model_read_source(struct source *source, struct model *model, char error[GLM_ERROR_MAX])
{
	struct reader reader = { .error = error };
	struct model read = { .classes = 0 };
	int result;

	if (line_open(&reader.line, source, error))
		return -1;
	result = header_read(&reader, &read) || weights_read(&reader, &read) ? -1 : 0;
	line_close(&reader.line);
	if (result)
		model_free(&read);
	else
		*model = read;
	return result;
}

int model_read(const char *path, struct model *model, char error[GLM_ERROR_MAX])
{
	struct source *source;

	return source_open(&source, path, error) ? -1 : model_read_source(source, model, error);
}
