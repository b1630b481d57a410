/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/weave.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "glm/weave_ops.h"

static const double round_to_integer = WEAVE_ROUND;

size_t weave_model_bytes(uint32_t features)
{
	return weave_round_up(features, WEAVE_BLOCK) * 2 * sizeof(int16_t);
}

void weave_model_init(struct weave_model *model, void *memory, uint32_t features)
{
	assert((uintptr_t)memory % WEAVE_ALIGN == 0);
	memset(memory, 0, weave_model_bytes(features));
	*model = (struct weave_model){ .ops = weave_ops_best(),
				       .parts = memory,
				       .features = features };
}

/* x if |x| < max, else the nearest to it that is not beyond max - 1; NaN: 0. */
static double bounded(double x, double max, bool *is_saturated)
{
	if (fabs(x) < max)
		return x;
	*is_saturated = true;
	return isnan(x) ? 0 : x > 0 ? max - 1 : 1 - max;
}

/* One feature, its weight in units. */
static bool weight_set(struct weave_model *model, const struct weave_range *ranges, uint32_t j,
		       double w, double unit)
{
	const double constant_unit = (double)(1ULL << WEAVE_FRACTION_BITS);
	int16_t *part = model->parts + weave_part(j);
	bool is_saturated = false;
	/* Rounding must not reach the bound. */
	double scaled =
		bounded(w * weave_width(&ranges[j]) * unit, WEAVE_WEIGHT_MAX - 1, &is_saturated);
	double constant = bounded(w * (double)ranges[j].low, WEAVE_CONSTANT_MAX, &is_saturated);
	int32_t integer = (int32_t)(scaled + round_to_integer - round_to_integer);

	part[0] = (int16_t)(integer >> WEAVE_PART_BITS);
	part[WEAVE_LOW_PART] = integer & WEAVE_PART_MASK;
	constant = constant * constant_unit + round_to_integer - round_to_integer;
	model->constant += (int64_t)constant;
	return is_saturated;
}

/* A block at most. Eight at a time, as long as they fit. */
static uint64_t weights_set(struct weave_model *model, const struct weave_range *ranges,
			    uint32_t first, uint32_t count, const float *weight, size_t step,
			    double unit)
{
	float side_by_side[WEAVE_BLOCK];
	uint64_t saturated = 0;

	for (uint32_t j = 0; j < count && step > 1; j++)
		side_by_side[j] = weight[j * step];
	weight = step > 1 ? side_by_side : weight;
	for (uint32_t j = 0; j < count;) {
		uint32_t end = count;

		if (model->ops->round) {
			j += 8 * model->ops->round(ranges + first + j, weight + j, (count - j) / 8,
						   unit, model->parts, first + j, &model->constant);
			end = count - j < 8 ? count : j + 8;
		}
		for (; j < end; j++)
			saturated += weight_set(model, ranges, first + j, (double)weight[j], unit);
	}
	return saturated;
}

uint64_t weave_model_set(struct weave_model *model, const struct weave_range *ranges,
			 const float *weight, size_t step, uint32_t bits, uint32_t fraction)
{
	const double unit = (double)(1ULL << (fraction + bits)) / ((1 << bits) - 1);
	uint64_t saturated = 0;

	assert(bits >= 1);
	assert(bits <= WEAVE_BITS_MAX);
	assert(fraction <= WEAVE_FRACTION);
	model->bits = bits;
	model->fraction = fraction;
	model->constant = 0;
	for (uint32_t first = 0; first < model->features; first += WEAVE_BLOCK) {
		uint32_t left = model->features - first;
		uint32_t count = left < WEAVE_BLOCK ? left : WEAVE_BLOCK;

		saturated +=
			weights_set(model, ranges, first, count, weight + first * step, step, unit);
	}
	return saturated;
}

/* From the kernels' sum, in units of 2^-(fraction + bits), to the partial. */
static int64_t partial_of(const struct weave_model *model, int64_t sum)
{
	const int64_t max = (int64_t)1 << WEAVE_PARTIAL_BITS;
	const int64_t unit = (int64_t)1 << (WEAVE_FRACTION_BITS - model->fraction - model->bits);
	int64_t partial;

	if (__builtin_mul_overflow(sum, unit, &partial))
		return sum > 0 ? max : -max;
	if (__builtin_add_overflow(partial, model->constant, &partial))
		return model->constant > 0 ? max : -max;
	return partial > max ? max : partial < -max ? -max : partial;
}

/* The row after this one, while this one is computed: there are `bits` places that it comes from, and in
 * a shuffled order the processor cannot guess them. */
static void row_fetch(const struct weave *weave, uint32_t row, uint32_t word, uint32_t words,
		      uint32_t bits)
{
	const uint64_t *plane = weave->words + (uint64_t)row * weave->stride + word;

	for (uint32_t p = 0; p < bits; p++, plane += weave->plane_words) {
		for (uint32_t i = 0; i < words; i += WEAVE_BLOCK_WORDS)
			__builtin_prefetch(plane + i);
	}
}

void weave_dot(const struct weave *weave, const struct weave_model *model, const uint32_t *row,
	       size_t count, int64_t *partial)
{
	const int16_t *parts = model->parts;

	assert(model->features == weave->features);
	assert(model->bits <= weave->planes);
	memset(partial, 0, count * sizeof(*partial));
	for (uint32_t word = 0; word < weave->words_count; word += WEAVE_CHUNK_WORDS) {
		uint32_t left = weave->words_count - word;
		uint32_t words = left < WEAVE_CHUNK_WORDS ? left : WEAVE_CHUNK_WORDS;

		for (size_t i = 0; i < count; i++) {
			const uint64_t *plane = weave->words + row[i] * weave->stride + word;

			assert(row[i] < weave->rows);
			if (i + 1 < count)
				row_fetch(weave, row[i + 1], word, words, model->bits);
			partial[i] += weave->ops->dot(plane, weave->plane_words, model->bits, words,
						      parts);
		}
		parts += WEAVE_CHUNK_PARTS;
	}
	for (size_t i = 0; i < count; i++)
		partial[i] = partial_of(model, partial[i]);
}

size_t weave_sums_count(uint32_t features)
{
	return weave_round_up(features, WEAVE_BLOCK);
}

void weave_add(const struct weave *weave, uint32_t bits, const uint32_t *row, const float *scale,
	       size_t count, float *sums)
{
	assert(bits >= 1);
	assert(bits <= weave->planes);
	for (uint32_t word = 0; word < weave->words_count; word += WEAVE_CHUNK_WORDS) {
		uint32_t left = weave->words_count - word;
		uint32_t words = left < WEAVE_CHUNK_WORDS ? left : WEAVE_CHUNK_WORDS;

		for (size_t i = 0; i < count; i++) {
			const uint64_t *plane = weave->words + row[i] * weave->stride + word;

			assert(row[i] < weave->rows);
			if (i + 1 < count)
				row_fetch(weave, row[i + 1], word, words, bits);
			weave->ops->add(plane, weave->plane_words, bits, words, scale[i], sums);
		}
		sums += WEAVE_CHUNK;
	}
}

void weave_gradient(const struct weave *weave, uint32_t bits, float *sums, double scale_sum,
		    float *gradient, size_t step)
{
	const double level = 1.0 / ((1 << bits) - 1);

	for (uint32_t j = 0; j < weave->features; j++) {
		const struct weave_range *range = &weave->ranges[j];
		double constant = (double)range->low * scale_sum;

		gradient[j * step] =
			(float)(constant + weave_width(range) * level * (double)sums[j]);
	}
	memset(sums, 0, weave_sums_count(weave->features) * sizeof(*sums));
}
