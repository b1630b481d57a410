/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h - for tests that draw random numbers: one generator, and its seed, which is printed first.
 * Included once in a program.
 */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "util/rng.h"

/* Not every test needs all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

static uint64_t seed;
static struct rng rng;

/* cmocka's setup: every test begins with the same numbers, whichever ran before it. */
static int restart_random(void **state)
{
	(void)state;
	rng_init(&rng, seed, 0);
	return 0;
}

/* The first argument, TALLY_TEST_SEED, or the time. */
static void seed_take(int argc, char **argv)
{
	const char *text = argc > 1 ? argv[1] : getenv("TALLY_TEST_SEED");

	seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
	printf("seed %llu (TALLY_TEST_SEED)\n", (unsigned long long)seed);
	fflush(stdout);
	restart_random(NULL);
}

static uint32_t random_below(uint32_t end)
{
	return rng_below(&rng, end);
}

#endif
