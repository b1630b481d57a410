/* SPDX-License-Identifier: Apache-2.0 */
/* plain_test.c - plain.h's sums against sums worked out one by one, and stream.h's copy. [SEED] */
#include "simd/plain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simd/simd.h"
#include "simd/stream.h"
#include "util/rng.h"

enum { RANKS = 9, COUNT = 1100, TABLES = 3 };

static const uint32_t features[TABLES] = { 0, SIMD_AVX2 | SIMD_F16C,
					   SIMD_AVX2 | SIMD_F16C | SIMD_AVX512 };
static uint64_t seed = 1;

/* Tables that this processor can run. */
static const struct plain_ops *table(uint32_t i)
{
	return plain_best_of(features[i] & simd_features());
}

static uint32_t draw_bits(struct rng *rng)
{
	static const uint32_t odd[] = { 0, 0x80000000, 0x7f800000, 0xff800000, 1, 0x7f7fffff };

	return rng_below(rng, 8) ? (rng_u32(rng) & 0x8fffffff) | 0x30000000
				 : odd[rng_below(rng, 6)];
}

static bool is_same(double a, double b)
{
	return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof(a));
}

static void plain__floats_are_sums_of_float64_rounded_once(void **state)
{
	static float from[RANKS][COUNT], to[COUNT];
	static double from_64[RANKS][COUNT], to_64[COUNT];
	const float *src[RANKS];
	const double *src_64[RANKS];
	struct rng rng;

	(void)state;
	rng_init(&rng, seed, 0);
	for (uint32_t r = 0; r < RANKS; r++) {
		src[r] = from[r];
		src_64[r] = from_64[r];
		for (uint32_t i = 0; i < COUNT; i++) {
			uint32_t bits = draw_bits(&rng);

			memcpy(&from[r][i], &bits, sizeof(bits));
			from_64[r][i] = (double)from[r][i] * 1.1;
		}
	}
	for (uint32_t round = 0; round < TABLES * RANKS * 2; round++) {
		const struct plain_ops *ops = table(round % TABLES);
		uint32_t ranks = 1 + round / TABLES % RANKS, count = COUNT - round;
		bool is_avg = round / TABLES / RANKS;

		ops->f32(to, src, ranks, count, is_avg);
		ops->f64(to_64, src_64, ranks, count, is_avg);
		for (uint32_t i = 0; i < count; i++) {
			double sum = 0, sum_64 = 0;

			for (uint32_t r = 0; r < ranks; r++) {
				sum += (double)from[r][i];
				sum_64 += from_64[r][i];
			}
			assert_true(is_same((double)to[i],
					    (double)(float)(is_avg ? sum / ranks : sum)));
			assert_true(is_same(to_64[i], is_avg ? sum_64 / ranks : sum_64));
		}
	}
}

static void plain__integers_saturate_and_are_counted(void **state)
{
	static int32_t from[RANKS][COUNT], to[COUNT];
	const int32_t *src[RANKS];
	struct rng rng;

	(void)state;
	rng_init(&rng, seed, 1);
	for (uint32_t r = 0; r < RANKS; r++) {
		src[r] = from[r];
		for (uint32_t i = 0; i < COUNT; i++)
			from[r][i] = (int32_t)rng_u32(&rng) >> rng_below(&rng, 8);
	}
	for (uint32_t round = 0; round < TABLES * RANKS * 2; round++) {
		uint32_t ranks = 1 + round / TABLES % RANKS;
		bool is_avg = round / TABLES / RANKS;
		uint64_t counted = table(round % TABLES)->i32(to, src, ranks, COUNT, is_avg);

		for (uint32_t i = 0; i < COUNT; i++) {
			int64_t sum = 0;

			for (uint32_t r = 0; r < ranks; r++)
				sum += from[r][i];
			sum = is_avg ? sum / (int64_t)ranks : sum;
			counted -= sum > INT32_MAX || sum < INT32_MIN;
			sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
			assert_int_equal(to[i], sum);
		}
		assert_int_equal(counted, 0);
	}
}

/* Every beginning and end of a line, and nothing beside. */
static void stream__is_a_copy(void **state)
{
	_Alignas(STREAM_LINE) uint8_t from[5 * STREAM_LINE], to[5 * STREAM_LINE];
	struct rng rng;

	(void)state;
	rng_init(&rng, seed, 2);
	for (uint32_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)rng_below(&rng, 255);
	for (uint32_t at = 0; at < STREAM_LINE; at++)
		for (uint32_t bytes = 0; bytes < 3 * STREAM_LINE; bytes++) {
			const uint8_t *source = from + bytes % 7;

			memset(to, 0xff, sizeof(to));
			stream_copy(to + at, source, bytes);
			stream_end();
			assert_memory_equal(to + at, source, bytes);
			assert_true(!at || to[at - 1] == 0xff);
			assert_int_equal(to[at + bytes], 0xff);
		}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain__floats_are_sums_of_float64_rounded_once),
		cmocka_unit_test(plain__integers_saturate_and_are_counted),
		cmocka_unit_test(stream__is_a_copy),
	};

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
