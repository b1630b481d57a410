/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_fixture.h - for tests of quant and simd: random lanes, floats as bits, sizes of jobs
 * that are worth a test. Included once in a program, after tests/random.h.
 */
#ifndef CORE_QUANT_FIXTURE_H
#define CORE_QUANT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/quant.h"

/* A test may leave some of this unused, but nothing of its own: that would be a test that does not run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

enum { WORKERS_MAX = 65535, EXPONENT_MAX = 254 };

static const float infinity = __builtin_inff();
static const uint32_t workers_of_interest[] = { 1, 2, 3, 5, 7, 8, 1000, 32768, 65535 };
enum { WORKERS_OF_INTEREST = sizeof(workers_of_interest) / sizeof(workers_of_interest[0]) };

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static float random_sign(float x)
{
	return random_below(2) ? -x : x;
}

static int32_t random_lane(void)
{
	int32_t lane = (int32_t)(uint32_t)rng_next(&rng);

	switch (random_below(4)) {
	case 0:
		return lane;
	case 1:
		return lane >> random_below(31);
	case 2:
		return random_below(2) ? INT32_MAX - (int32_t)random_below(4)
				       : INT32_MIN + (int32_t)random_below(4);
	default: /* 25 significant bits, the last one set: halfway between two floats, for some N */
		return (int32_t)((uint32_t)(lane >> 7 | 1) << random_below(7));
	}
}

#pragma GCC diagnostic pop

#endif
