/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_avx2.c - the loops over a row's columns, four products at a time. Weights are fetched one by one: the
 * gather instruction is slower than four loads on many processors.
 */
#ifdef __x86_64__
#include <immintrin.h>

#include "glm/engine.h"

struct sums {
	__m256i sum, changed;
};

static inline __m256d four_weights(const float *weight, const uint32_t *column)
{
	__m128 low =
		_mm_unpacklo_ps(_mm_load_ss(weight + column[0]), _mm_load_ss(weight + column[1]));
	__m128 high =
		_mm_unpacklo_ps(_mm_load_ss(weight + column[2]), _mm_load_ss(weight + column[3]));

	return _mm256_cvtps_pd(_mm_movelh_ps(low, high));
}

static inline void four_add(struct sums *sums, __m256d value, __m256d weight)
{
	const __m256d magic = _mm256_set1_pd(ENGINE_MAGIC);
	__m256i bits = _mm256_castpd_si256(_mm256_add_pd(_mm256_mul_pd(value, weight), magic));

	sums->sum = _mm256_add_epi64(sums->sum, bits);
	sums->changed =
		_mm256_or_si256(sums->changed, _mm256_xor_si256(bits, _mm256_castpd_si256(magic)));
}

static inline uint64_t across_add(__m256i x)
{
	__m128i half = _mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	return (uint64_t)_mm_cvtsi128_si64(half) + (uint64_t)_mm_extract_epi64(half, 1);
}

static inline uint64_t across_or(__m256i x)
{
	__m128i half = _mm_or_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	return (uint64_t)_mm_cvtsi128_si64(half) | (uint64_t)_mm_extract_epi64(half, 1);
}

static int64_t avx2_dot(const uint32_t *column, const float *value, uint32_t count,
			const float *weight, uint64_t *beyond)
{
	struct sums sums = { _mm256_setzero_si256(), _mm256_setzero_si256() };
	uint32_t whole = count & ~3u;
	int64_t rest;

	for (uint32_t i = 0; i < whole; i += 4)
		four_add(&sums, _mm256_cvtps_pd(_mm_loadu_ps(value + i)),
			 four_weights(weight, column + i));
	rest = glm_engine_kernels_scalar.dot(column + whole, value + whole, count - whole, weight,
					     beyond);
	*beyond |= across_or(sums.changed);
	return (int64_t)(across_add(sums.sum) - whole * ENGINE_MAGIC_BITS + (uint64_t)rest);
}

/* Four classes of one column at a time; what is left of them goes to the reference. */
static void avx2_dots(const uint32_t *column, const float *value, uint32_t count,
		      const float *weight, uint32_t classes, int64_t *parts, uint64_t *beyond)
{
	uint32_t whole = classes & ~3u;

	for (uint32_t c = 0; c < whole; c += 4) {
		struct sums sums = { _mm256_setzero_si256(), _mm256_setzero_si256() };
		__m256i *at = (__m256i *)(void *)(parts + c), total;

		for (uint32_t i = 0; i < count; i++)
			four_add(&sums, _mm256_set1_pd((double)value[i]),
				 _mm256_cvtps_pd(
					 _mm_loadu_ps(weight + (size_t)column[i] * classes + c)));
		total = _mm256_sub_epi64(sums.sum,
					 _mm256_set1_epi64x((int64_t)(count * ENGINE_MAGIC_BITS)));
		_mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), total));
		*beyond |= across_or(sums.changed);
	}
	for (uint32_t c = whole; c < classes; c++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < count; i++) {
			double product =
				(double)value[i] * (double)weight[(size_t)column[i] * classes + c];
			uint64_t bits = (uint64_t)_mm_cvtsi128_si64(
				_mm_castpd_si128(_mm_set_sd(product + ENGINE_MAGIC)));

			sum += bits;
			*beyond |= bits ^ ENGINE_MAGIC_BITS;
		}
		parts[c] = (int64_t)((uint64_t)parts[c] + sum - count * ENGINE_MAGIC_BITS);
	}
}

const struct glm_engine_kernels glm_engine_kernels_avx2 = { "avx2", avx2_dot, avx2_dots };
#endif
