/* SPDX-License-Identifier: Apache-2.0 */
/* numbers_sum.h - a set of vectors, summed in every way, and how good each sum is. */
#ifndef BENCH_NUMBERS_SUM_H
#define BENCH_NUMBERS_SUM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/numbers_set.h"
#include "tally.h"

enum way {
	WAY_WHOLE, /* float32 without guesses, all tensors as one operation: a bucket */
	WAY_APART, /* float32, an operation for each tensor */
	WAY_EXACT, /* TALLY_OP_EXACT */
	WAY_HALF,  /* TALLY_OP_HALF; more than 16 ranks have none, and NaN as figures */
	WAY_FLOAT16,
	WAY_BFLOAT16,
	WAY_RING, /* without tally: each part of the vector begins at another rank, and goes round */
	WAYS
};

extern const char *const way_names[WAYS];

struct sums {
	const struct set *set;
	float *sum[WAYS];
	double *truth;           /* the sum in float64 */
	int32_t *exponent[WAYS]; /* of each element's packet: its largest is below 2^this */
	double over[WAYS];       /* the largest error over its bound */
	uint32_t lanes;          /* of a packet */
};

/* Ends the program, with tally's text, if the result is an error. */
void sums_check(int result, const char *what);

/* Collective. The set is borrowed until close. */
void sums_open(struct sums *sums, const struct set *set, struct tally_comm *comm);
void sums_close(struct sums *sums);

/* Collective: do all ranks have the same bits? */
bool sums_agree(const struct sums *sums, struct tally_comm *comm);
/* Of one rank: are they what went in, bit for bit? */
bool sums_are_own(const struct sums *sums);

struct quality {
	double db;    /* signal to noise; infinite if there is no error */
	size_t zeros; /* sums that became 0, and are not */
};

struct quality quality_of(const struct sums *sums, enum way way, const struct tensor *tensor);
/* How many bits the tensor's sums lie below the largest elements of their packets, both as root of mean squares: each
 * costs 6.02 dB. */
double quality_below(const struct sums *sums, const struct tensor *tensor);

/* Errors by how small an element is beside its packet's largest: by 2^k, k the bin's number. An element's size is the
 * largest of all ranks'; its error is divided by that. A ring has tally's packets. */
enum { BINS = 32 };
struct bins {
	size_t count[WAYS][BINS];
	double squares[WAYS][BINS];
};

void bins_add(struct bins *bins, const struct sums *sums);
/* Of the root of the mean square. */
double bins_bits(const struct bins *bins, enum way way, int k);

#endif
