/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/weave.h"

#include <assert.h>
#include <string.h>

#include "glm/weave_ops.h"

static void range_widen(struct weave_range *range, float x)
{
	range->low = x < range->low ? x : range->low;
	range->high = x > range->high ? x : range->high;
}

void weave_ranges_sparse(struct weave_range *ranges, uint64_t *seen, uint32_t features,
			 uint64_t rows, const uint64_t *start, const uint32_t *column,
			 const float *value)
{
	memset(seen, 0, features * sizeof(*seen));
	memset(ranges, 0, features * sizeof(*ranges));
	for (uint64_t i = rows ? start[0] : 0; rows && i < start[rows]; i++) {
		struct weave_range *range = &ranges[column[i]];

		if (!seen[column[i]]++)
			*range = (struct weave_range){ .low = value[i], .high = value[i] };
		range_widen(range, value[i]);
	}
	for (uint32_t j = 0; j < features; j++) {
		if (seen[j] < rows)
			range_widen(&ranges[j], 0);
	}
}

static uint8_t quantise(const struct weave_range *range, float x)
{
	double q = ((double)x - (double)range->low) * 256 / weave_width(range);

	return (uint8_t)(q > 0 ? q < 255 ? q : 255 : 0); /* 0 / 0, a range of one value, is 0 */
}

static uint32_t words_of(uint32_t features)
{
	return features / WEAVE_WORD + (features % WEAVE_WORD > 0);
}

/* Rows begin at a cache line if that costs little; else they follow each other, as many shares have few
 * features each. */
static uint32_t stride_of(uint32_t words)
{
	uint32_t lines = (uint32_t)weave_round_up(words, WEAVE_BLOCK_WORDS);

	return (lines - words) * 16 <= words ? lines : words;
}

size_t weave_bytes(uint64_t rows_max, uint32_t features, uint32_t planes)
{
	uint64_t words = words_of(features), plane_words, bytes;

	assert(features <= WEAVE_FEATURES_MAX);
	assert(planes >= 1);
	assert(planes <= WEAVE_BITS_MAX);
	if (__builtin_mul_overflow(rows_max, stride_of((uint32_t)words), &plane_words) ||
	    __builtin_mul_overflow(plane_words, planes * sizeof(uint64_t), &bytes) ||
	    __builtin_add_overflow(bytes, 2 * words * WEAVE_WORD + WEAVE_ALIGN, &bytes) ||
	    bytes > PTRDIFF_MAX)
		return 0;
	return weave_round_up(bytes, WEAVE_ALIGN);
}

void weave_init(struct weave *weave, void *memory, uint64_t rows_max, uint32_t features,
		uint32_t planes, const struct weave_range *ranges)
{
	uint32_t words = words_of(features);

	assert(weave_bytes(rows_max, features, planes) > 0);
	assert((uintptr_t)memory % WEAVE_ALIGN == 0);
	*weave = (struct weave){ .words = memory,
				 .plane_words = rows_max * stride_of(words),
				 .ranges = ranges,
				 .rows_max = rows_max,
				 .features = features,
				 .words_count = words,
				 .stride = stride_of(words),
				 .planes = planes,
				 .ops = weave_ops_best() };
	weave->zero = (uint8_t *)(weave->words + weave->plane_words * planes);
	weave->row = weave->zero + (size_t)words * WEAVE_WORD;
	memset(weave->zero, 0, 2 * (size_t)words * WEAVE_WORD);
	for (uint32_t j = 0; j < features; j++)
		weave->zero[j] = quantise(&ranges[j], 0);
}

/* Eight rows of a matrix of bits, a byte each (bit f of value[f]'s row), to its columns: plane p gets the
 * bits of 2^(7 - p). */
static void row_append(struct weave *weave)
{
	uint64_t *out = weave->words + weave->rows * weave->stride;

	assert(weave->rows < weave->rows_max);
	for (uint32_t word = 0; word < weave->words_count; word++, out++) {
		uint64_t values[8];

		memcpy(values, weave->row + (size_t)word * WEAVE_WORD, sizeof(values));
		for (uint32_t p = 0; p < weave->planes; p++) {
			uint64_t bits = 0;

			for (uint32_t f = 0; f < 8; f++)
				bits |= (values[f] >> (7 - p) & 0x0101010101010101) << f;
			out[p * weave->plane_words] = bits;
		}
	}
	weave->rows++;
}

void weave_append_sparse(struct weave *weave, const uint32_t *column, const float *value,
			 size_t count)
{
	memcpy(weave->row, weave->zero, weave->features);
	for (size_t i = 0; i < count; i++) {
		assert(column[i] < weave->features);
		weave->row[column[i]] = quantise(&weave->ranges[column[i]], value[i]);
	}
	row_append(weave);
}

void weave_append_dense(struct weave *weave, const float *value)
{
	for (uint32_t j = 0; j < weave->features; j++)
		weave->row[j] = quantise(&weave->ranges[j], value[j]);
	row_append(weave);
}
