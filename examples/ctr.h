/* SPDX-License-Identifier: Apache-2.0 */
/* ctr.h - between the files of the example: ctr.c the model and its training, ctr_rows.c what is read or made,
 * ctr_table.c tables on servers, or here for the reference. */
#ifndef EXAMPLES_CTR_H
#define EXAMPLES_CTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tally.h>

enum { CTR_BIAS = 0 }; /* the key of what all rows have */

struct settings {
	const char *train, *test;
	uint32_t epochs, batch, factors, rank, size;
	uint64_t seed, generate;
	bool is_json, is_reference;
};
extern struct settings want;

__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);
void check(int result); /* of a call of tally */
void *memory(void *old, size_t count, size_t bytes);
uint64_t draw(uint64_t *state);  /* splitmix64 */
double uniform(uint64_t *state); /* 0 to below 1 */

/* ---- ctr_rows.c ---- */

struct rows {
	size_t count, room;
	size_t *begin; /* count + 1: of the features */
	float *label;  /* 0 or 1 */
	size_t features, features_room;
	uint64_t *key;
	float *x;
};

/* A LIBSVM file, or one of Criteo's logs. */
void rows_read(struct rows *rows, const char *path);
/* Every fifth row becomes a test's. */
void rows_hold_out(struct rows *rows, struct rows *test);
void rows_free(struct rows *rows);
/* Prints want.generate of them. 0, or 1 if that fails. */
int rows_generate(void);

/* ---- ctr_table.c ---- */

struct table {
	struct tally_kv *kv; /* NULL: here */
	uint32_t dim;
	size_t count, room; /* here: by a hash of the key; room is a power of two */
	uint64_t *key;
	float *value, *state;
	bool *is_there;
};

void table_open(struct table *table, const char *name, uint32_t dim);
void table_close(struct table *table);
void table_pull(struct table *table, const uint64_t *key, float *value, size_t count,
		uint64_t *timestamp);
void table_push(struct table *table, const uint64_t *key, const float *gradient, size_t count,
		uint64_t *timestamp);
void table_wait(struct table *table, uint64_t timestamp);

#endif
