/* SPDX-License-Identifier: Apache-2.0 */
#include "simd/simd.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "simd/plain_loops.h"
#include "simd/tables.h"

const struct plain_ops plain_scalar = PLAIN_TABLE;

/* Each needs what the one before it needs. */
static const struct quant_ops *const tables[] = {
	&quant_scalar,
#ifdef __x86_64__
	&simd_avx2,
	&simd_avx512,
#elif defined(__aarch64__)
	&simd_neon,
#endif
};
static const struct plain_ops *const plains[] = {
	&plain_scalar,
#ifdef __x86_64__
	&plain_avx2,
	&plain_avx512,
#elif defined(__aarch64__)
	&plain_neon,
#endif
};
static const uint32_t needs[] = {
	0,
#ifdef __x86_64__
	SIMD_AVX2 | SIMD_F16C,
	SIMD_AVX2 | SIMD_F16C | SIMD_AVX512,
#elif defined(__aarch64__)
	0,
#endif
};
_Static_assert(sizeof(tables) / sizeof(*tables) == sizeof(needs) / sizeof(*needs), "one each");

uint32_t simd_features(void)
{
	uint32_t features = 0;

#ifdef __x86_64__
	unsigned a, b, c, d;

	__builtin_cpu_init(); /* we may be called before the constructor that does it */
	if (__builtin_cpu_supports("avx2"))
		features |= SIMD_AVX2;
	if (__get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C) /* no name of clang's */
		features |= SIMD_F16C;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("bmi2"))
		features |= SIMD_AVX512;
#endif
	return features;
}

static size_t runnable(uint32_t features)
{
	size_t count = 1;

	while (count < sizeof(tables) / sizeof(*tables) && !(needs[count] & ~features))
		count++;
	return count;
}

const struct quant_ops *simd_best_of(uint32_t features)
{
	return tables[runnable(features) - 1];
}

const struct quant_ops *const *simd_all(size_t *count)
{
	*count = runnable(simd_features());
	return tables;
}

const struct quant_ops *simd_best(void)
{
	return simd_best_of(simd_features());
}

const struct plain_ops *plain_best_of(uint32_t features)
{
	return plains[runnable(features) - 1];
}

const struct plain_ops *plain_best(void)
{
	return plain_best_of(simd_features());
}
