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

static inline __m256d four_weights(const float *weight, uint32_t a, uint32_t b, uint32_t c,
				   uint32_t d)
{
	__m128 low = _mm_unpacklo_ps(_mm_load_ss(weight + a), _mm_load_ss(weight + b));
	__m128 high = _mm_unpacklo_ps(_mm_load_ss(weight + c), _mm_load_ss(weight + d));

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

/* 1 to 3 products, and for those that lack to four the first column's weight times 0: it is finite, or beyond as
 * the first product is. */
static inline void rest_add(struct sums *sums, const uint32_t *column, const float *value,
			    uint32_t count, const float *weight)
{
	const __m128i mask =
		_mm_cmpgt_epi32(_mm_set1_epi32((int)count), _mm_setr_epi32(0, 1, 2, 3));
	uint32_t second = count > 1 ? column[1] : column[0];
	uint32_t third = count > 2 ? column[2] : column[0];

	four_add(sums, _mm256_cvtps_pd(_mm_maskload_ps(value, mask)),
		 four_weights(weight, column[0], second, third, column[0]));
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
	uint32_t whole = count & ~3u, padded = (count + 3) & ~3u;

	for (uint32_t i = 0; i < whole; i += 4)
		four_add(&sums, _mm256_cvtps_pd(_mm_loadu_ps(value + i)),
			 four_weights(weight, column[i], column[i + 1], column[i + 2],
				      column[i + 3]));
	if (whole < padded)
		rest_add(&sums, column + whole, value + whole, count - whole, weight);
	*beyond |= across_or(sums.changed);
	return (int64_t)(across_add(sums.sum) - padded * ENGINE_MAGIC_BITS);
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

static int64_t avx2_dense(const float *value, uint32_t count, const float *weight, uint64_t *beyond)
{
	struct sums sums = { _mm256_setzero_si256(), _mm256_setzero_si256() };
	uint32_t whole = count & ~3u, padded = (count + 3) & ~3u;

	for (uint32_t i = 0; i < whole; i += 4)
		four_add(&sums, _mm256_cvtps_pd(_mm_loadu_ps(value + i)),
			 _mm256_cvtps_pd(_mm_loadu_ps(weight + i)));
	if (whole < padded) {
		const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32((int)(count - whole)),
						     _mm_setr_epi32(0, 1, 2, 3));

		four_add(&sums, _mm256_cvtps_pd(_mm_maskload_ps(value + whole, mask)),
			 _mm256_cvtps_pd(_mm_maskload_ps(weight + whole, mask)));
	}
	*beyond |= across_or(sums.changed);
	return (int64_t)(across_add(sums.sum) - padded * ENGINE_MAGIC_BITS);
}

static void avx2_dense_add(const float *value, uint32_t count, float scale, float *gradient)
{
	const __m256 scales = _mm256_set1_ps(scale);
	uint32_t whole = count & ~7u;

	for (uint32_t i = 0; i < whole; i += 8)
		_mm256_storeu_ps(gradient + i,
				 _mm256_add_ps(_mm256_loadu_ps(gradient + i),
					       _mm256_mul_ps(scales, _mm256_loadu_ps(value + i))));
	for (uint32_t i = whole; i < count; i++)
		gradient[i] += scale * value[i];
}

const struct glm_engine_kernels glm_engine_kernels_avx2 = {
	"avx2", avx2_dot, avx2_dots, avx2_dense, avx2_dense_add,
};
#endif
