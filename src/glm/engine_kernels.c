/* SPDX-License-Identifier: Apache-2.0 */
/* engine_kernels.c - the reference of the loops over a row's columns, and which ones a processor runs. */
#include <string.h>

#include "glm/engine.h"

static uint64_t product_bits(double value, float weight)
{
	double sum = value * (double)weight + ENGINE_MAGIC;
	uint64_t bits;

	memcpy(&bits, &sum, sizeof(bits));
	return bits;
}

static int64_t scalar_dot(const uint32_t *column, const float *value, uint32_t count,
			  const float *weight, uint64_t *beyond)
{
	uint64_t sum = 0, changed = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t bits = product_bits((double)value[i], weight[column[i]]);

		sum += bits;
		changed |= bits ^ ENGINE_MAGIC_BITS;
	}
	*beyond |= changed;
	return (int64_t)(sum - count * ENGINE_MAGIC_BITS);
}

static void scalar_dots(const uint32_t *column, const float *value, uint32_t count,
			const float *weight, uint32_t classes, int64_t *parts, uint64_t *beyond)
{
	uint64_t changed = 0;

	for (uint32_t i = 0; i < count; i++) {
		const float *of_column = weight + (size_t)column[i] * classes;

		for (uint32_t c = 0; c < classes; c++) {
			uint64_t bits = product_bits((double)value[i], of_column[c]);

			parts[c] = (int64_t)((uint64_t)parts[c] + (bits - ENGINE_MAGIC_BITS));
			changed |= bits ^ ENGINE_MAGIC_BITS;
		}
	}
	*beyond |= changed;
}

static int64_t scalar_dense(const float *value, uint32_t count, const float *weight,
			    uint64_t *beyond)
{
	uint64_t sum = 0, changed = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t bits = product_bits((double)value[i], weight[i]);

		sum += bits;
		changed |= bits ^ ENGINE_MAGIC_BITS;
	}
	*beyond |= changed;
	return (int64_t)(sum - count * ENGINE_MAGIC_BITS);
}

static void scalar_dense_add(const float *value, uint32_t count, float scale, float *gradient)
{
	for (uint32_t i = 0; i < count; i++)
		gradient[i] += scale * value[i];
}

const struct glm_engine_kernels glm_engine_kernels_scalar = {
	"scalar", scalar_dot, scalar_dots, scalar_dense, scalar_dense_add,
};

const struct glm_engine_kernels *glm_engine_kernels_best(void)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2"))
		return &glm_engine_kernels_avx2;
#endif
	return &glm_engine_kernels_scalar;
}
