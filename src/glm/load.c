/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/load.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/libsvm.h"

enum {
	SAMPLE_NONZEROS = 1 << 21,
	PROGRESS_ROWS = 4096, /* between two calls of progress() */
};

/* Rows that wait for the split, as a CSR. */
struct sample {
	uint64_t *end; /* [rows_max] of glm_data */
	uint32_t *feature;
	float *value;
	size_t count, max;
};

struct load {
	struct glm_data *data;
	const struct glm_load_options *options;
	struct libsvm *libsvm;
	struct sample sample;
	bool is_split; /* data->columns is known */
	uint64_t rows_max, features_max;
	uint64_t *max;               /* [shares_count]: places in column[] and value[] */
	uint64_t own_first, own_end; /* of the contiguous features, this rank's */
	uint64_t dealt;
};

/* More by half: what the system has given and nobody has touched is not resident. */
static bool array_grow(void *array, size_t size, uint64_t max)
{
	void *at, *grown;

	memcpy(&at, array, sizeof(at));
	if (max > SIZE_MAX / size)
		return false;
	grown = realloc(at, (size_t)max * size);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	return true;
}

static uint64_t more(uint64_t max, uint64_t needed)
{
	max += max / 2;
	return max > needed ? max : needed;
}

static bool rows_grow(struct load *load)
{
	struct glm_data *data = load->data;
	uint64_t max = more(load->rows_max, 1024);

	if (!array_grow(&data->label, sizeof(*data->label), max))
		return false;
	if (!load->is_split && !array_grow(&load->sample.end, sizeof(*load->sample.end), max))
		return false;
	for (uint32_t i = 0; i < data->shares_count; i++) {
		struct glm_share *share = &data->shares[i];
		bool is_first = !share->start;

		if (!array_grow(&share->start, sizeof(*share->start), max + 1))
			return false;
		if (is_first)
			share->start[0] = 0;
	}
	load->rows_max = max;
	return true;
}

static bool sample_put(struct load *load, const struct libsvm_row *row)
{
	struct sample *sample = &load->sample;

	if (sample->max - sample->count < row->count) {
		uint64_t max = more(sample->max, sample->count + row->count);

		if (!array_grow(&sample->feature, sizeof(*sample->feature), max) ||
		    !array_grow(&sample->value, sizeof(*sample->value), max))
			return false;
		sample->max = max;
	}
	for (uint32_t i = 0; i < row->count; i++) {
		sample->feature[sample->count] = row->feature[i];
		sample->value[sample->count] = row->value[i];
		sample->count += row->value[i] != 0; /* no product with 0 counts */
	}
	sample->end[load->data->rows] = sample->count;
	return true;
}

static void share_put(struct glm_share *share, uint64_t row, uint32_t local, float value)
{
	uint64_t at = share->start[row + 1]++;

	share->column[at] = local;
	share->value[at] = value;
}

/* The row's non-zeros go where they belong, or nowhere: that is another rank's. */
static bool shares_put(struct load *load, uint64_t row, const uint32_t *feature, const float *value,
		       uint64_t count)
{
	struct glm_data *data = load->data;
	const struct columns *columns = &data->columns;
	uint32_t in = 0; /* features rise, so do the ranges that they are in */

	for (uint32_t i = 0; i < data->shares_count; i++) {
		struct glm_share *share = &data->shares[i];
		uint64_t used = share->start[row];

		share->start[row + 1] = used;
		if (load->max[i] - used >= count)
			continue;
		load->max[i] = more(load->max[i], used + count);
		if (!array_grow(&share->column, sizeof(*share->column), load->max[i]) ||
		    !array_grow(&share->value, sizeof(*share->value), load->max[i]))
			return false;
	}
	for (uint64_t i = 0; i < count; i++) {
		uint32_t f = feature[i];

		if (f >= load->features_max) {
			data->ignored += value[i] != 0;
			continue;
		}
		data->nonzeros += value[i] != 0;
		if (f < load->own_first || value[i] == 0)
			continue;
		if (f < load->own_end) {
			while (f >= columns->first[data->share_first + in + 1])
				in++;
			share_put(&data->shares[in], row,
				  f - columns->first[data->share_first + in], value[i]);
		} else if (f >= load->dealt) {
			uint32_t own = columns_share(columns, f) - data->share_first;

			if (own < data->shares_count)
				share_put(&data->shares[own], row, columns_local(columns, f),
					  value[i]);
		}
	}
	return true;
}

static void split_is_known(struct load *load)
{
	const struct columns *columns = &load->data->columns;

	load->is_split = true;
	load->own_first = columns->first[load->data->share_first];
	load->own_end = columns->first[load->data->share_first + load->data->shares_count];
	load->dealt = columns->first[columns->shares];
}

static void sample_free(struct sample *sample)
{
	free(sample->end);
	free(sample->feature);
	free(sample->value);
	*sample = (struct sample){ 0 };
}

/* The sample decides the split, and is then dealt with like any other row. */
static bool sample_end(struct load *load)
{
	struct sample *sample = &load->sample;
	uint32_t shares = load->data->columns.shares;
	uint32_t *sorted = malloc(2 * sizeof(*sorted) * (sample->count + 1));
	uint64_t from = 0;
	bool is_good = true;

	if (!sorted)
		return false;
	if (sample->count)
		memcpy(sorted, sample->feature, sample->count * sizeof(*sorted));
	columns_make(&load->data->columns, shares, sorted, sorted + sample->count, sample->count);
	free(sorted);
	split_is_known(load);
	for (uint64_t row = 0; is_good && row < load->data->rows; row++) {
		uint64_t end = sample->end[row];

		is_good = shares_put(load, row, sample->feature + from, sample->value + from,
				     end - from);
		from = end;
	}
	sample_free(sample);
	return is_good;
}

static int class_put(struct load *load, double label)
{
	struct glm_data *data = load->data;
	char sentence[128];

	for (uint32_t i = 0; i < data->classes_count; i++) {
		if (data->classes[i] == label)
			return 0;
	}
	if (data->classes_count < GLM_CLASSES_MAX) {
		data->classes[data->classes_count++] = label;
		return 0;
	}
	snprintf(sentence, sizeof(sentence),
		 "a label of one more class: there may be %d; labels that are numbers are for "
		 "least squares",
		 GLM_CLASSES_MAX);
	return libsvm_fail_label(load->libsvm, sentence);
}

/* liblinear's one exception to the order of appearance: of -1 and +1, and nothing else, +1 is first. Who has an
 * activation of 0, as rows without features have, is then -1, whichever the file begins with. */
static void classes_turn(struct glm_data *data)
{
	if (data->classes_count == 2 && data->classes[0] == -1 && data->classes[1] == 1) {
		data->classes[0] = 1;
		data->classes[1] = -1;
	}
}

static const char *name_of(const struct load *load)
{
	return source_name(libsvm_source(load->libsvm));
}

static int no_memory(const struct load *load, char error[GLM_ERROR_MAX])
{
	return files_fail(error, name_of(load), "out of memory after %" PRIu64 " rows",
			  load->data->rows);
}

static void progress_tell(const struct load *load)
{
	const struct source *source = libsvm_source(load->libsvm);

	if (load->options->progress)
		load->options->progress(load->options->arg, source_position(source),
					source_size(source));
}

/* 1: a row was taken. 0: there are no more. -1: error[]. */
static int row_load(struct load *load, char error[GLM_ERROR_MAX])
{
	struct glm_data *data = load->data;
	struct libsvm_row row;
	int result = libsvm_next(load->libsvm, &row);

	if (result > 0 && !load->options->is_regression && class_put(load, row.label))
		result = -1;
	if (result < 0)
		memcpy(error, libsvm_error(load->libsvm), GLM_ERROR_MAX);
	if (result <= 0)
		return result;
	if (data->rows == load->rows_max && !rows_grow(load))
		return no_memory(load, error);
	data->label[data->rows] = row.label;
	if (row.count && data->features <= row.feature[row.count - 1])
		data->features = (uint64_t)row.feature[row.count - 1] + 1;
	if (!(load->is_split ? shares_put(load, data->rows, row.feature, row.value, row.count)
			     : sample_put(load, &row)))
		return no_memory(load, error);
	data->rows++;
	if (load->sample.count >= SAMPLE_NONZEROS && !sample_end(load))
		return no_memory(load, error);
	if (data->rows % PROGRESS_ROWS == 0)
		progress_tell(load);
	return 1;
}

/* What was taken in advance goes back. */
static void shares_fit(struct load *load)
{
	struct glm_data *data = load->data;

	array_grow(&data->label, sizeof(*data->label), data->rows);
	for (uint32_t i = 0; i < data->shares_count; i++) {
		struct glm_share *share = &data->shares[i];
		uint64_t used = share->start[data->rows];

		array_grow(&share->start, sizeof(*share->start), data->rows + 1);
		array_grow(&share->column, sizeof(*share->column),
			   used + 1); /* never none: realloc() */
		array_grow(&share->value, sizeof(*share->value), used + 1);
		share->columns =
			columns_count(&data->columns, data->share_first + i, data->features);
	}
}

static int load_end(struct load *load, char error[GLM_ERROR_MAX])
{
	struct glm_data *data = load->data;

	if (!data->rows)
		return files_fail(error, name_of(load), "no rows");
	if (!load->options->is_regression && data->classes_count < load->options->classes_min)
		return files_fail(error, name_of(load),
				  "all labels are the same: there is nothing to tell apart");
	if (!load->is_split && !sample_end(load))
		return no_memory(load, error);
	if (load->options->columns)
		data->features = load->options->features;
	classes_turn(data);
	shares_fit(load);
	data->hash = libsvm_hash(load->libsvm);
	progress_tell(load);
	return 0;
}

static bool load_begin(struct load *load)
{
	const struct glm_load_options *options = load->options;
	struct glm_data *data = load->data;
	uint32_t ranks = options->ranks ? options->ranks : 1,
		 threads = options->threads ? options->threads : 1;

	assert(options->rank < ranks);
	assert(threads <= COLUMNS_SHARES_MAX / ranks);
	data->shares_count = threads;
	data->share_first = options->rank * threads;
	data->columns.shares = ranks * threads;
	data->shares = calloc(threads, sizeof(*data->shares));
	load->max = calloc(threads, sizeof(*load->max));
	load->features_max = UINT64_MAX;
	if (options->columns) {
		assert(options->columns->shares == ranks * threads);
		data->columns = *options->columns;
		load->features_max = options->features;
		split_is_known(load);
	}
	return data->shares && load->max && rows_grow(load);
}

int glm_load(struct glm_data *data, const char *path, const struct glm_load_options *options,
	     char error[GLM_ERROR_MAX])
{
	struct load load = { .data = data, .options = options };
	struct source *source;
	int result;

	memset(data, 0, sizeof(*data));
	if (source_open(&source, path, error) || libsvm_open(&load.libsvm, source, error))
		return -1;
	result = load_begin(&load) ? 1 : no_memory(&load, error);
	while (result > 0)
		result = row_load(&load, error);
	if (!result)
		result = load_end(&load, error);
	sample_free(&load.sample);
	free(load.max);
	libsvm_close(load.libsvm);
	if (result)
		glm_data_free(data);
	return result;
}

void glm_data_free(struct glm_data *data)
{
	for (uint32_t i = 0; data->shares && i < data->shares_count; i++) {
		free(data->shares[i].start);
		free(data->shares[i].column);
		free(data->shares[i].value);
	}
	free(data->shares);
	free(data->label);
	memset(data, 0, sizeof(*data));
}
