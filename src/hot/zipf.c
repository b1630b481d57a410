/* SPDX-License-Identifier: Apache-2.0 */
/* zipf.c - see zipf.h. */
#include "hot/zipf.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { AHEAD = 64 /* draws whose cells are on their way from memory */ };

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Near the golden section, which lays neighbours far apart; prime to `keys`, so that no key comes twice. */
static uint32_t stride(uint32_t keys)
{
	uint32_t step = (uint32_t)(0.6180339887498949 * keys) + 1;

	while (common_divisor(step, keys) != 1)
		step++;
	return step;
}

static uint32_t key_at(uint32_t keys, uint32_t step, uint32_t rank)
{
	return (uint32_t)(((uint64_t)rank * step + keys / 3) % keys);
}

uint32_t zipf_key(uint32_t keys, uint32_t rank)
{
	return key_at(keys, stride(keys), rank);
}

/* How many cells' worth of draws each key gets: 1 on average. */
static void shares_fill(double *share, double exponent, uint32_t keys)
{
	uint32_t step = stride(keys);
	double sum = 0;

	for (uint32_t rank = keys; rank--;)
		sum += pow(rank + 1.0, -exponent);
	for (uint32_t rank = 0; rank < keys; rank++)
		share[key_at(keys, step, rank)] = pow(rank + 1.0, -exponent) / sum * keys;
}

static void cell_set(struct zipf_cell *cell, double share, uint32_t other)
{
	double keeps = share * 0x1p32;

	cell->keeps = keeps < UINT32_MAX ? (uint32_t)keeps : UINT32_MAX;
	cell->other = other;
}

/* Each cell below the average is filled up by one key above it. `stack` has the keys of the former from its
 * beginning, those of the latter from its end. */
static void cells_fill(struct zipf *zipf, double *share, uint32_t *stack)
{
	uint32_t low = 0, high = zipf->keys;

	for (uint32_t key = 0; key < zipf->keys; key++)
		stack[share[key] < 1 ? low++ : --high] = key;
	while (low && high < zipf->keys) {
		uint32_t poor = stack[--low], rich = stack[high];

		cell_set(&zipf->cell[poor], share[poor], rich);
		share[rich] -= 1 - share[poor];
		if (share[rich] < 1) {
			high++;
			stack[low++] = rich;
		}
	}
	while (low) { /* 1, but for rounding */
		uint32_t key = stack[--low];

		cell_set(&zipf->cell[key], 1, key);
	}
	while (high < zipf->keys) {
		uint32_t key = stack[high++];

		cell_set(&zipf->cell[key], 1, key);
	}
}

int zipf_init(struct zipf *zipf, double exponent, uint32_t keys, uint64_t seed)
{
	double *share = malloc(keys * sizeof(*share));
	uint32_t *stack = malloc(keys * sizeof(*stack));
	struct zipf_cell *cell = malloc(keys * sizeof(*cell));

	assert(keys >= 1);
	assert(keys <= ZIPF_KEYS_MAX);
	assert(exponent >= 0);
	assert(exponent <= ZIPF_EXPONENT_MAX);
	if (share && stack && cell) {
		*zipf = (struct zipf){ .keys = keys, .cell = cell };
		rng_init(&zipf->rng, seed, 0);
		shares_fill(share, exponent, keys);
		cells_fill(zipf, share, stack);
	} else {
		free(cell);
		cell = NULL;
	}
	free(share);
	free(stack);
	return cell ? 0 : -1;
}

void zipf_fini(struct zipf *zipf)
{
	free(zipf->cell);
	zipf->cell = NULL;
}

/* random * keys, 96 bits: the highest 32 say which cell, the next 32 where in it. */
static uint64_t place(const struct zipf *zipf, uint64_t random)
{
	return (random >> 32) * zipf->keys + ((random & UINT32_MAX) * zipf->keys >> 32);
}

void zipf_next(struct zipf *zipf, uint64_t *key, size_t count)
{
	while (count) {
		size_t some = count < AHEAD ? count : AHEAD;

		for (size_t i = 0; i < some; i++) {
			key[i] = place(zipf, rng_next(&zipf->rng));
			__builtin_prefetch(&zipf->cell[key[i] >> 32]);
		}
		for (size_t i = 0; i < some; i++) {
			struct zipf_cell cell = zipf->cell[key[i] >> 32];

			key[i] = (uint32_t)key[i] < cell.keeps ? key[i] >> 32 : cell.other;
		}
		key += some;
		count -= some;
	}
}
