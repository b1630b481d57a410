/* SPDX-License-Identifier: Apache-2.0 */
/* plain_loops.h - the loops of plain.h, compiled for each instruction set: blocks stay in the nearest cache. */
#ifndef SIMD_PLAIN_LOOPS_H
#define SIMD_PLAIN_LOOPS_H

#include "simd/plain.h"

enum { PLAIN_BLOCK = 512 };

static void plain_two_f32(float *dst, const float *a, const float *b, size_t count)
{
	/* One rounding of an exact sum: as in float64 and then to float32. -0 and -0 are +0. */
	for (size_t i = 0; i < count; i++)
		dst[i] = (a[i] + b[i]) + 0.0F;
}

static void plain_f32(float *dst, const float *const *src, uint32_t ranks, size_t count,
		      bool is_avg)
{
	double sum[PLAIN_BLOCK];

	if (ranks == 2 && !is_avg) {
		plain_two_f32(dst, src[0], src[1], count);
		return;
	}
	for (size_t first = 0; first < count; first += PLAIN_BLOCK) {
		size_t m = count - first < PLAIN_BLOCK ? count - first : PLAIN_BLOCK;

		for (size_t i = 0; i < m; i++)
			sum[i] = 0.0 + (double)src[0][first + i];
		for (uint32_t r = 1; r < ranks; r++)
			for (size_t i = 0; i < m; i++)
				sum[i] += (double)src[r][first + i];
		for (size_t i = 0; is_avg && i < m; i++)
			sum[i] /= ranks;
		for (size_t i = 0; i < m; i++)
			dst[first + i] = (float)sum[i];
	}
}

static void plain_f64(double *dst, const double *const *src, uint32_t ranks, size_t count,
		      bool is_avg)
{
	double sum[PLAIN_BLOCK];

	for (size_t first = 0; first < count; first += PLAIN_BLOCK) {
		size_t m = count - first < PLAIN_BLOCK ? count - first : PLAIN_BLOCK;

		for (size_t i = 0; i < m; i++)
			sum[i] = 0.0 + src[0][first + i];
		for (uint32_t r = 1; r < ranks; r++)
			for (size_t i = 0; i < m; i++)
				sum[i] += src[r][first + i];
		for (size_t i = 0; is_avg && i < m; i++)
			sum[i] /= ranks;
		for (size_t i = 0; i < m; i++)
			dst[first + i] = sum[i];
	}
}

static uint64_t plain_i32(int32_t *dst, const int32_t *const *src, uint32_t ranks, size_t count,
			  bool is_avg)
{
	int64_t sum[PLAIN_BLOCK];
	uint64_t saturated = 0;

	for (size_t first = 0; first < count; first += PLAIN_BLOCK) {
		size_t m = count - first < PLAIN_BLOCK ? count - first : PLAIN_BLOCK;

		for (size_t i = 0; i < m; i++)
			sum[i] = src[0][first + i];
		for (uint32_t r = 1; r < ranks; r++)
			for (size_t i = 0; i < m; i++)
				sum[i] += src[r][first + i];
		for (size_t i = 0; is_avg && i < m; i++)
			sum[i] /= ranks;
		for (size_t i = 0; i < m; i++) {
			int64_t fits = sum[i] > INT32_MAX   ? INT32_MAX
				       : sum[i] < INT32_MIN ? INT32_MIN
							    : sum[i];

			saturated += fits != sum[i];
			dst[first + i] = (int32_t)fits;
		}
	}
	return saturated;
}

#define PLAIN_TABLE                                                  \
	{                                                            \
		.f32 = plain_f32, .f64 = plain_f64, .i32 = plain_i32 \
	}

#endif
