/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in plain C: what the others are held against, and what runs where none fits. */
#include "glm/weave_ops.h"

/* Eight neighbours, 8 f .. 8 f + 7 of a word, a byte each: bit by bit, the most significant first. */
static uint64_t eight_values(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t f)
{
	uint64_t values = 0;

	for (uint32_t bit = 0; bit < bits; bit++, plane += plane_words)
		values = values << 1 | (*plane >> f & 0x0101010101010101);
	return values;
}

static int64_t scalar_dot(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
			  const int16_t *parts)
{
	int64_t sum = 0;

	for (uint32_t feature = 0; feature < words * WEAVE_WORD; feature += 8) {
		uint64_t values = eight_values(plane + feature / WEAVE_WORD, plane_words, bits,
					       feature / 8 % 8);
		const int16_t *part = parts + weave_part(feature);
		int32_t high = 0, low = 0;

		for (uint32_t p = 0; p < 8; p++) {
			int32_t value = values >> 8 * p & 0xff;
			high += part[p] * value;
			low += part[p + WEAVE_LOW_PART] * value;
		}
		sum += (int64_t)high * (1 << WEAVE_PART_BITS) + low;
	}
	return sum;
}

static void scalar_add(const uint64_t *plane, size_t plane_words, uint32_t bits, uint32_t words,
		       float scale, float *sums)
{
	for (uint32_t feature = 0; feature < words * WEAVE_WORD; feature += 8) {
		uint64_t values = eight_values(plane + feature / WEAVE_WORD, plane_words, bits,
					       feature / 8 % 8);

		for (uint32_t p = 0; p < 8; p++, values >>= 8)
			sums[feature + p] += scale * (float)(values & 0xff);
	}
}

const struct weave_ops weave_scalar = { .name = "scalar", .dot = scalar_dot, .add = scalar_add };
