/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h - sums of elements that lie in memory as they are, one vector of each rank. Floats are added as float64, in
 * the order of the ranks, and rounded once; a sum of zeros is +0. All tables give the same bits, but for which NaN it is.
 */
#ifndef SIMD_PLAIN_H
#define SIMD_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* dst may be one of src, else it overlaps none; is_avg: divided by the ranks, of which there are 1 or more. */
struct plain_ops {
	void (*f32)(float *dst, const float *const *src, uint32_t ranks, size_t count, bool is_avg);
	void (*f64)(double *dst, const double *const *src, uint32_t ranks, size_t count,
		    bool is_avg);
	/* Returns how many have left the type, and are saturated. An average is cut off toward zero. */
	uint64_t (*i32)(int32_t *dst, const int32_t *const *src, uint32_t ranks, size_t count,
			bool is_avg);
};

extern const struct plain_ops plain_scalar;

/* The fastest table for a processor that has these features and no others (simd.h), and for this one. */
const struct plain_ops *plain_best_of(uint32_t features);
const struct plain_ops *plain_best(void);

#endif
