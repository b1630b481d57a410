/* SPDX-License-Identifier: Apache-2.0 */
/* numbers_set.h - the vectors that bench/numbers sums: of each rank one, with their tensors. What fails ends the program. */
#ifndef BENCH_NUMBERS_SET_H
#define BENCH_NUMBERS_SET_H

#include <stddef.h>

enum { RANKS_MAX = 256, TENSORS_MAX = 256, NAME_MAX_BYTES = 64 };

struct tensor {
	char name[NAME_MAX_BYTES];
	size_t first, count;
};

struct set {
	char name[NAME_MAX_BYTES];
	int ranks;
	size_t count;
	float *own[RANKS_MAX]; /* of all ranks: what each puts in */
	struct tensor tensor[TENSORS_MAX];
	size_t tensors; /* at least one: they cover the vector */
};

void *memory_get(size_t count, size_t bytes);

/* Made up: small numbers, and in each 16,384 of them a large one. */
void set_make_up(struct set *set, int ranks, size_t count);

/* The names of the sets in a folder, in order; *count of them. Freed with free, each and all. */
char **set_names(const char *folder, size_t *count);

/* FOLDER/NAME_w0.f32, NAME_w1.f32, ...: raw little-endian float32, one file per rank. FOLDER/MODEL_tensors.csv, with
 * MODEL what is before the last "_s" of NAME, says where tensors end: index,name,shape,elements behind a line of titles.
 * Without it the vector is one tensor. */
void set_read(struct set *set, int ranks, const char *folder, const char *name);
void set_free(struct set *set);

#endif
