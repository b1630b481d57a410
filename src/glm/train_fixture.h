/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_fixture.h - for tests of the trainer: data that is drawn, as one matrix and as each rank's part of it; and
 * the model that synchronous SGD makes of it, computed slowly and plainly on the whole matrix.
 */
#ifndef GLM_TRAIN_FIXTURE_H
#define GLM_TRAIN_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glm/train.h"
#include "util/rng.h"

/* Not every test needs all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

struct matrix {
	uint32_t rows, features;
	uint32_t classes_count; /* 0: labels are numbers */
	float *value;           /* [rows * features] */
	double *label;
};

struct matrix_shape {
	uint32_t rows, features, classes_count;
	uint32_t filled; /* of a thousand values */
	uint64_t seed;
};

static double draw_real(struct rng *rng)
{
	return (double)rng_u32(rng) / 4294967296.0 * 2 - 1;
}

/* Labels that a linear model can mostly tell, from hidden weights and some noise. */
static void matrix_make(struct matrix *matrix, const struct matrix_shape *shape)
{
	size_t count = (size_t)shape->rows * shape->features;
	uint32_t classes = shape->classes_count > 2 ? shape->classes_count : 1;
	double *hidden = calloc((size_t)shape->features * classes, sizeof(*hidden));
	struct rng rng;

	rng_init(&rng, shape->seed, 0);
	*matrix = (struct matrix){ shape->rows, shape->features, shape->classes_count,
				   calloc(count, sizeof(float)),
				   calloc(shape->rows, sizeof(double)) };
	for (uint32_t i = 0; i < shape->features * classes; i++)
		hidden[i] = draw_real(&rng);
	for (uint32_t row = 0; row < shape->rows; row++) {
		double best = -1e9;

		for (uint32_t f = 0; f < shape->features; f++)
			if (rng_below(&rng, 1000) < shape->filled)
				matrix->value[(size_t)row * shape->features + f] =
					rng_below(&rng, 2) ? 1 : (float)(2 * draw_real(&rng));
		for (uint32_t c = 0; c < classes; c++) {
			double a = 0.3 * draw_real(&rng);

			for (uint32_t f = 0; f < shape->features; f++)
				a += hidden[f * classes + c] *
				     (double)matrix->value[(size_t)row * shape->features + f];
			if (classes == 1)
				matrix->label[row] = shape->classes_count ? (a > 0 ? 3 : -7) : a;
			else if (a > best)
				matrix->label[row] = 10 + c;
			best = fmax(a, best);
		}
	}
	free(hidden);
}

static void matrix_free(struct matrix *matrix)
{
	free(matrix->value);
	free(matrix->label);
}

/* The labels in the order in which they appear. */
static uint32_t matrix_classes(const struct matrix *matrix, double classes[GLM_CLASSES_MAX])
{
	uint32_t count = 0;

	for (uint32_t row = 0; matrix->classes_count && row < matrix->rows; row++) {
		uint32_t c = 0;

		while (c < count && classes[c] != matrix->label[row])
			c++;
		if (c == count)
			classes[count++] = matrix->label[row];
	}
	return count;
}

/* What stands for the values at so many bits (weave.h); of the same labels. */
static void matrix_keep(const struct matrix *matrix, uint32_t bits, struct matrix *kept)
{
	size_t count = (size_t)matrix->rows * matrix->features;

	*kept = *matrix;
	kept->value = calloc(count, sizeof(float));
	for (size_t i = 0; i < count; i++) {
		double low = (double)matrix->value[i % matrix->features], high = low, q;

		for (size_t at = i % matrix->features; at < count; at += matrix->features) {
			low = fmin(low, (double)matrix->value[at]);
			high = fmax(high, (double)matrix->value[at]);
		}
		q = fmin(floor(((double)matrix->value[i] - low) * 256 / (high - low)), 255);
		kept->value[i] =
			(float)(low + (high - low) / ((1 << bits) - 1) * ((int)q >> (8 - bits)));
	}
}

/* ---- a rank's part ---- */

static void share_make(const struct matrix *matrix, const struct columns *columns, uint32_t idx,
		       struct glm_share *share)
{
	uint64_t at = 0;

	share->columns = columns_count(columns, idx, matrix->features);
	share->start = calloc(matrix->rows + 1, sizeof(*share->start));
	share->column = calloc((size_t)matrix->rows * matrix->features, sizeof(*share->column));
	share->value = calloc((size_t)matrix->rows * matrix->features, sizeof(*share->value));
	for (uint32_t row = 0; row < matrix->rows; row++) {
		for (uint32_t f = 0; f < matrix->features; f++) {
			float value = matrix->value[(size_t)row * matrix->features + f];

			if (value == 0 || columns_share(columns, f) != idx)
				continue;
			share->column[at] = columns_local(columns, f);
			share->value[at++] = value;
		}
		share->start[row + 1] = at;
	}
}

/* Only the first half of the features is in the sample: the others are dealt out. */
static void data_make(const struct matrix *matrix, uint32_t rank, uint32_t ranks, uint32_t threads,
		      struct glm_data *data)
{
	uint32_t count = 0;
	uint32_t *sample = calloc((size_t)matrix->rows * matrix->features + 1, sizeof(*sample));
	uint32_t *spare = calloc((size_t)matrix->rows * matrix->features + 1, sizeof(*spare));

	*data = (struct glm_data){ .rows = matrix->rows,
				   .features = matrix->features,
				   .label = matrix->label,
				   .shares = calloc(threads, sizeof(*data->shares)),
				   .shares_count = threads,
				   .share_first = rank * threads,
				   .hash = 0x1234567890abcdef };
	for (uint32_t row = 0; row < matrix->rows; row++)
		for (uint32_t f = 0; f < matrix->features / 2; f++)
			if (matrix->value[(size_t)row * matrix->features + f] != 0)
				sample[count++] = f;
	columns_make(&data->columns, ranks * threads, sample, spare, count);
	data->classes_count = matrix_classes(matrix, data->classes);
	for (uint32_t i = 0; i < threads; i++) {
		share_make(matrix, &data->columns, data->share_first + i, &data->shares[i]);
		data->nonzeros += data->shares[i].start[matrix->rows];
	}
	free(sample);
	free(spare);
}

static void data_free(struct glm_data *data)
{
	for (uint32_t i = 0; i < data->shares_count; i++) {
		free(data->shares[i].start);
		free(data->shares[i].column);
		free(data->shares[i].value);
	}
	free(data->shares);
}

/* ---- the reference ---- */

struct reference {
	const struct matrix *matrix;
	const struct glm_options *options;
	double rate;
	uint32_t classes, columns; /* the bias's included */
	double label_of[GLM_CLASSES_MAX];
	float *weight; /* [columns * classes] */
	double *paid;
	double multiplier, owed;
};

static float reference_value(const struct reference *ref, uint32_t row, uint32_t column)
{
	if (column == ref->matrix->features)
		return (float)ref->options->bias;
	return ref->matrix->value[(size_t)row * ref->matrix->features + column];
}

static bool reference_uses(const struct reference *ref, uint32_t row, uint32_t column)
{
	return column == ref->matrix->features || reference_value(ref, row, column) != 0;
}

static void reference_open(struct reference *ref, const struct matrix *matrix,
			   const struct glm_options *options, double rate)
{
	*ref = (struct reference){ .matrix = matrix, .options = options, .rate = rate };
	ref->classes = matrix->classes_count > 2 ? matrix->classes_count : 1;
	ref->columns = matrix->features + (options->bias >= 0);
	ref->weight = calloc((size_t)ref->columns * ref->classes, sizeof(float));
	ref->paid = calloc(ref->columns, sizeof(double));
	ref->multiplier = 1;
	matrix_classes(matrix, ref->label_of);
}

static void reference_close(struct reference *ref)
{
	free(ref->weight);
	free(ref->paid);
}

static double reference_y(const struct reference *ref, uint32_t row, uint32_t c)
{
	double label = ref->matrix->label[row];

	if (!ref->matrix->classes_count)
		return label;
	return label == ref->label_of[c] ? 1 : -1;
}

/* Every product rounded to a multiple of 2^-32, the sum exact. Products that the trainer calls beyond are large. */
static double reference_activation(const struct reference *ref, uint32_t row, uint32_t c)
{
	int64_t sum = 0;

	for (uint32_t f = 0; f < ref->columns; f++)
		if (reference_uses(ref, row, f)) {
			double product = (double)reference_value(ref, row, f) *
					 (double)ref->weight[f * ref->classes + c];

			product = fmax(fmin(product, 0x1p20), -0x1p20);
			sum += (int64_t)rint(product * 4294967296.0);
		}
	return (double)sum / 4294967296.0;
}

static void reference_pay(struct reference *ref, uint32_t column)
{
	float due = (float)(ref->owed - ref->paid[column]);

	if (!(ref->options->l1 > 0))
		return;
	for (uint32_t c = 0; c < ref->classes; c++) {
		float *w = &ref->weight[column * ref->classes + c];

		if (fabsf(*w) <= due)
			*w = 0;
		else
			*w -= copysignf(due, *w);
	}
	ref->paid[column] = ref->owed;
}

static void reference_settle(struct reference *ref)
{
	for (uint32_t f = 0; f < ref->columns; f++) {
		reference_pay(ref, f);
		ref->paid[f] = 0;
		for (uint32_t c = 0; c < ref->classes; c++) {
			float *w = &ref->weight[f * ref->classes + c];

			*w = (float)((double)*w * ref->multiplier);
		}
	}
	ref->owed = 0;
	ref->multiplier = 1;
}

/* u <- X X'u; |X X'u| / |u| / rows, where u was. */
static double reference_turn(const struct reference *ref, double *u)
{
	uint32_t rows = ref->matrix->rows;
	double *v = calloc(ref->columns, sizeof(*v)), before = 0, after = 0;

	for (uint32_t row = 0; row < rows; row++) {
		before += u[row] * u[row];
		for (uint32_t f = 0; f < ref->columns; f++)
			v[f] += u[row] * (double)reference_value(ref, row, f);
	}
	for (uint32_t row = 0; row < rows; row++) {
		u[row] = 0;
		for (uint32_t f = 0; f < ref->columns; f++)
			u[row] += v[f] * (double)reference_value(ref, row, f);
		after += u[row] * u[row];
	}
	free(v);
	return sqrt(after / before) / rows;
}

/* What theory allows: train_rate.c begins with it. */
static double reference_rate_safe(const struct reference *ref)
{
	double mean = 0, largest = 0, smoothness = loss_smoothness(ref->options->loss), alike,
	       sparse;
	double *u = calloc(ref->matrix->rows, sizeof(*u));

	for (uint32_t row = 0; row < ref->matrix->rows; row++) {
		u[row] = 1;
		for (uint32_t f = 0; f < ref->columns; f++)
			mean += pow((double)reference_value(ref, row, f), 2) / ref->matrix->rows;
	}
	for (int round = 0; round < 8; round++)
		largest = reference_turn(ref, u);
	free(u);
	alike = 1 / (smoothness * mean);
	sparse = 0.5 / (smoothness * (largest + mean / ref->options->batch));
	return fmax(alike, sparse);
}

static double reference_rate(const struct reference *ref, uint32_t epoch, double part)
{
	const struct glm_options *options = ref->options;
	double e = epoch + part;

	switch (options->schedule) {
	case GLM_CONSTANT:
		return ref->rate;
	case GLM_INVERSE:
		return ref->rate / (1 + options->decay * e);
	case GLM_SQUARE_ROOT:
		return ref->rate / sqrt(1 + options->decay * e);
	case GLM_EXPONENTIAL:
		break;
	}
	return epoch ? options->decay * reference_rate(ref, epoch - 1, 0) : ref->rate;
}

static void reference_batch(struct reference *ref, const uint32_t *rows, uint32_t count,
			    double rate)
{
	uint32_t classes = ref->classes;
	float *gradient = calloc((size_t)ref->columns * classes, sizeof(*gradient));
	float factor;

	for (uint32_t f = 0; f < ref->columns; f++)
		for (uint32_t i = 0; i < count; i++)
			if (reference_uses(ref, rows[i], f))
				reference_pay(ref, f);
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t c = 0; c < classes; c++) {
			double a = reference_activation(ref, rows[i], c) * ref->multiplier;
			float scale =
				(float)dloss(ref->options->loss, a, reference_y(ref, rows[i], c));

			for (uint32_t f = 0; f < ref->columns; f++)
				if (reference_uses(ref, rows[i], f))
					gradient[f * classes + c] +=
						scale * reference_value(ref, rows[i], f);
		}
	ref->multiplier *= 1 - rate * ref->options->l2;
	factor = (float)(rate / count / ref->multiplier);
	for (uint32_t i = 0; i < ref->columns * classes; i++)
		ref->weight[i] -= factor * gradient[i];
	ref->owed += rate * ref->options->l1 / ref->multiplier;
	if (ref->multiplier < 0.5)
		reference_settle(ref);
	free(gradient);
}

/* The mean loss after 16 steps at least of a constant rate, over all rows again and again. */
static double reference_trial(const struct reference *like, double rate, const uint32_t *rows)
{
	uint32_t count = like->matrix->rows, batch = like->options->batch, steps = 0;
	struct reference ref;
	double sum = 0;

	reference_open(&ref, like->matrix, like->options, rate);
	while (steps < 16)
		for (uint32_t first = 0; first < count; first += batch, steps++)
			reference_batch(&ref, rows + first,
					count - first < batch ? count - first : batch, rate);
	reference_settle(&ref);
	for (uint32_t row = 0; row < count; row++)
		for (uint32_t c = 0; c < ref.classes; c++)
			sum += loss(ref.options->loss, reference_activation(&ref, row, c),
				    reference_y(&ref, row, c));
	reference_close(&ref);
	return isfinite(sum) ? sum / count : (double)INFINITY;
}

/* Is this what auto should give, nearly? Of few rows, all are tried. */
static bool reference_is_rate(const struct reference *ref, double rate)
{
	uint32_t count = ref->matrix->rows, *rows = calloc(count, sizeof(*rows)), k = 0, tried = 0;
	double after[11], best = (double)INFINITY, safe = reference_rate_safe(ref);
	struct rng rng;

	rng_init(&rng, 0, 0);
	for (uint32_t i = 0; i < count; i++)
		rows[i] = i;
	for (uint32_t i = count - 1; i > 0; i--) {
		uint32_t other = rng_below(&rng, i + 1), row = rows[i];

		rows[i] = rows[other];
		rows[other] = row;
	}
	while (tried < 11) {
		after[tried] = reference_trial(ref, safe * (1 << tried), rows);
		best = fmin(best, after[tried]);
		if (!(after[tried++] <= 2 * best))
			break;
	}
	free(rows);
	while (k < tried && !(after[k] <= 1.05 * best))
		k++;
	if (k && k < tried)
		safe *= (1 << k) / 2.0;
	return fabs(rate / safe - 1) < 1e-4;
}

static void reference_epoch(struct reference *ref, uint32_t epoch)
{
	uint32_t rows = ref->matrix->rows, batch = ref->options->batch;
	uint32_t batches = (rows + batch - 1) / batch;
	uint32_t *order = calloc(rows, sizeof(*order));
	struct rng rng;

	rng_init(&rng, ref->options->seed, epoch);
	for (uint32_t i = 0; i < rows; i++)
		order[i] = i;
	for (uint32_t i = rows - 1; ref->options->is_shuffled && i > 0; i--) {
		uint32_t other = rng_below(&rng, i + 1), row = order[i];

		order[i] = order[other];
		order[other] = row;
	}
	for (uint32_t b = 0; b < batches; b++)
		reference_batch(ref, order + (size_t)b * batch,
				b * batch + batch < rows ? batch : rows - b * batch,
				reference_rate(ref, epoch, (double)b / (double)batches));
	reference_settle(ref);
	free(order);
}

#endif
