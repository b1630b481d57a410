/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weave_fixture.h - random rows with their ranges and planes, and what weave.h says of a value, for the tests
 * of weaved bit planes. Included once in a program, after tests/random.h.
 */
#ifndef GLM_WEAVE_FIXTURE_H
#define GLM_WEAVE_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "glm/weave.h"

#include <cmocka.h>

/* Not every test needs all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

enum { ROWS = 5 };

/* Around words, vectors, blocks and chunks. */
static const uint32_t sizes[] = { 0,   1,   63,   64,   65,   128,  255,  256,  257, 511,
				  512, 513, 1000, 2047, 2048, 2049, 2560, 4097, 5000 };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Random rows of a set of features, with their ranges and planes. */
struct data {
	uint32_t features, planes;
	float *value, *weight; /* [ROWS][features], [features] */
	struct weave_range *range;
	struct weave weave;
	struct weave_model model;
	void *planes_memory, *model_memory;
};

static void *get(size_t bytes)
{
	void *memory = aligned_alloc(WEAVE_ALIGN, (bytes / WEAVE_ALIGN + 1) * WEAVE_ALIGN);

	assert_non_null(memory);
	return memory;
}

static float random_float(float scale)
{
	return scale * ((float)(int32_t)rng_u32(&rng) * 0x1p-31f);
}

/* A feature's kind: any value, often an end, always 0, or 0 and 1. */
static float random_value(uint32_t kind, float center)
{
	switch (kind) {
	case 0:
		return 0;
	case 1:
		return (float)random_below(2);
	case 2:
		return random_below(3) ? center : center + random_float(1);
	default:
		return center + random_float(1.5f);
	}
}

static void planes_make(struct data *data)
{
	data->planes_memory = get(weave_bytes(ROWS, data->features, data->planes));
	weave_init(&data->weave, data->planes_memory, ROWS, data->features, data->planes,
		   data->range);
	for (size_t r = 0; r < ROWS; r++)
		weave_append_dense(&data->weave, data->value + r * data->features);
	data->model_memory = get(weave_model_bytes(data->features));
	weave_model_init(&data->model, data->model_memory, data->features);
}

static void data_open(struct data *data, uint32_t features, uint32_t planes)
{
	*data = (struct data){ .features = features, .planes = planes };
	data->value = get(ROWS * (size_t)features * sizeof(float));
	data->weight = get(features * sizeof(float));
	data->range = get(features * sizeof(struct weave_range));
	for (uint32_t j = 0; j < features; j++) {
		uint32_t kind = random_below(5);
		float center = random_below(2) ? random_float(4) : 0;

		data->weight[j] = random_float(10);
		data->range[j] = (struct weave_range){ .low = INFINITY, .high = -INFINITY };
		for (uint32_t r = 0; r < ROWS; r++) {
			float x = random_value(kind, center);

			data->value[r * (size_t)features + j] = x;
			data->range[j].low = fminf(data->range[j].low, x);
			data->range[j].high = fmaxf(data->range[j].high, x);
		}
	}
	planes_make(data);
}

static void data_close(struct data *data)
{
	free(data->model_memory);
	free(data->planes_memory);
	free(data->range);
	free(data->weight);
	free(data->value);
}

/* What weave.h says of a value at `bits`: q, and the value that stands for it. */
static uint32_t q_of(const struct weave_range *range, float x, uint32_t bits)
{
	double width = (double)range->high - (double)range->low;
	double q = width > 0 ? floor(((double)x - (double)range->low) * 256 / width) : 0;

	return (uint32_t)(q < 0 ? 0 : q > 255 ? 255 : q) >> (8 - bits);
}

static long double kept(const struct weave_range *range, float x, uint32_t bits)
{
	long double width = (long double)range->high - (long double)range->low;

	return (long double)range->low + width / ((1 << bits) - 1) * q_of(range, x, bits);
}

#endif
