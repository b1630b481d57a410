/* SPDX-License-Identifier: Apache-2.0 */
/*
 * features_test.c - a processor that lacks one thing only of what a table needs. What the compiler's library has found
 * is the test's here, __cpu_model: gcc's and clang's code reads the same bits there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "simd/simd.h"
#include "tests/skip.h"

struct model {
	unsigned vendor, type, subtype, features[1];
};

extern struct model __real___cpu_model, __wrap___cpu_model;
struct model __wrap___cpu_model;

/* Of 32 things AVX2 is one, and five are what the table of AVX-512 is built for: F, BW, DQ, VL and BMI2. */
static void features__each_thing_that_is_not_there_takes_its_own_away(void **state)
{
	uint32_t all, avx2 = 0, avx512 = 0;

	(void)state;
	__builtin_cpu_init();
	__wrap___cpu_model = __real___cpu_model;
	all = simd_features();
	if (all != (SIMD_AVX2 | SIMD_F16C | SIMD_AVX512))
		SKIP_NOT_HERE("AVX2, F16C and AVX-512 of this processor");
	for (uint32_t bit = 0; bit < 32; bit++) {
		__wrap___cpu_model.features[0] = __real___cpu_model.features[0] & ~(1u << bit);
		avx2 += simd_features() == all - SIMD_AVX2;
		avx512 += simd_features() == all - SIMD_AVX512;
		assert_true(simd_features() & SIMD_F16C);
	}
	assert_int_equal(avx2, 1);
	assert_int_equal(avx512, 5);
	__wrap___cpu_model.features[0] = 0;
	assert_int_equal(simd_features(), SIMD_F16C); /* cpuid itself says so */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(features__each_thing_that_is_not_there_takes_its_own_away),
	};

	return cmocka_run_group_tests_name("simd-features", tests, NULL, NULL);
}
