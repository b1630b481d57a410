/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout_stream.h - the pushes of layout_bench and layout_live, the same for the same numbers: keys drawn by Zipf's law,
 * of which the hottest are hot. A key's number says nothing of its heat. Included once in a program.
 */
#ifndef BENCH_LAYOUT_STREAM_H
#define BENCH_LAYOUT_STREAM_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/rng.h"

enum { NUMBER_MAX = 100000000 };

/* clang-format off */
enum { SEED, KEYS, HOT, UPDATES, PUSHES, BYTES, NUMBER_COUNT };
static uint64_t number[NUMBER_COUNT] = {
	[SEED] = 1,
	[KEYS] = 1000000,
	[HOT] = 30000,    /* the paper's */
	[UPDATES] = 1000, /* drawn for a push, keys drawn again being one pair */
	[PUSHES] = 1000,
	[BYTES] = 192,    /* a chip has to parse all of a packet: the paper's limit */
};
/* clang-format on */
static double skew = 1.1;

enum { STREAM_SKEW = NUMBER_COUNT, STREAM_OPTION_END };
/* clang-format off */
#define STREAM_OPTIONS \
	{ "seed", required_argument, NULL, SEED }, \
	{ "keys", required_argument, NULL, KEYS }, \
	{ "hot", required_argument, NULL, HOT }, \
	{ "updates", required_argument, NULL, UPDATES }, \
	{ "pushes", required_argument, NULL, PUSHES }, \
	{ "bytes", required_argument, NULL, BYTES }, \
	{ "skew", required_argument, NULL, STREAM_SKEW }
/* clang-format on */

/* One of STREAM_OPTIONS; false: not a number, or no such option. */
static bool stream_option(int option, const char *value)
{
	char *end = NULL;

	if (option == STREAM_SKEW)
		skew = strtod(value, &end);
	else if (option >= 0 && option < NUMBER_COUNT)
		number[option] = strtoull(value, &end, 0);
	return end && end != value && !*end;
}

static bool stream_is_sound(void)
{
	for (int i = KEYS; i < NUMBER_COUNT; i++)
		if (number[i] < 1 || number[i] > NUMBER_MAX)
			return false;
	return skew >= 0 && skew < 10 && number[HOT] <= number[KEYS];
}

static void *memory_get(size_t count, size_t bytes)
{
	void *memory = calloc(count ? count : 1, bytes);

	if (!memory) {
		fprintf(stderr, "layout: no memory\n");
		exit(1);
	}
	return memory;
}

/* ---- the stream ---- */

static struct rng rng;
static double *chance_up_to; /* of ranks 0 to this */
static uint32_t *drawn_in;   /* per rank: the last push that has it */
static uint32_t *shuffled;   /* per hot rank, for random registers */

static void stream_open(void)
{
	double sum = 0;

	rng_init(&rng, number[SEED], 0);
	chance_up_to = memory_get(number[KEYS], sizeof(*chance_up_to));
	drawn_in = memory_get(number[KEYS], sizeof(*drawn_in));
	shuffled = memory_get(number[HOT], sizeof(*shuffled));
	for (uint64_t rank = 0; rank < number[KEYS]; rank++)
		chance_up_to[rank] = sum += pow((double)(rank + 1), -skew);
	for (uint32_t rank = 0; rank < number[HOT]; rank++) {
		uint32_t other = rng_below(&rng, rank + 1);

		shuffled[rank] = shuffled[other];
		shuffled[other] = rank;
	}
}

static uint32_t rank_draw(void)
{
	double at = (double)(rng_next(&rng) >> 11) * 0x1p-53 * chance_up_to[number[KEYS] - 1];
	uint64_t low = 0, high = number[KEYS] - 1;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (chance_up_to[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return (uint32_t)low;
}

/* A rank has any key. */
static uint64_t key_of(uint32_t rank)
{
	struct rng hash;

	rng_init(&hash, rank, number[SEED]);
	return rng_next(&hash);
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = key_of(*(const uint32_t *)a), y = key_of(*(const uint32_t *)b);

	return (x > y) - (x < y);
}

/* The hot ranks of push number `push`, from 1, sorted by key; returns how many. */
static uint32_t push_draw(uint32_t *rank, uint32_t push)
{
	uint32_t count = 0;

	for (uint64_t i = 0; i < number[UPDATES]; i++) {
		uint32_t drawn = rank_draw();

		if (drawn < number[HOT] && drawn_in[drawn] != push)
			rank[count++] = drawn;
		drawn_in[drawn] = push;
	}
	qsort(rank, count, sizeof(*rank), by_key);
	return count;
}

#endif
