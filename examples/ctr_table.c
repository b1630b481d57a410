/* SPDX-License-Identifier: Apache-2.0 */
/* ctr_table.c - tables of ctr.c: on servers, or for the reference in this process, without tally. */
#include "examples/ctr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STATE = 16 }; /* of a row here: twice as many as weights, as many as factors */

/* What the reference does, and what tally-ps has to be told. */
static const float FTRL_RATE = 0.1f, FTRL_BETA = 1, FTRL_L2 = 1;
static const float ADAGRAD_RATE = 0.05f, ADAGRAD_EPSILON = 1e-10f, INITIAL_SCALE = 0.05f;

/* Weights begin at zero, factors near it: drawn as tally-ps does, whose table has seed=1 unless it is told. */
static void row_begin(struct table *table, size_t at)
{
	uint64_t state = want.seed;

	state = draw(&state) ^ table->key[at] * 0xd1342543de82ef95;
	state = draw(&state);
	memset(table->state + at * STATE, 0, STATE * sizeof(float));
	for (uint32_t k = 0; k < table->dim; k++) {
		float normal = 0;

		for (int i = 0; i < 12 && table->dim > 1; i++)
			normal += (float)(draw(&state) >> 40) * 0x1p-24f - 0.5f;
		table->value[at * table->dim + k] = INITIAL_SCALE * normal;
	}
}

static void open_as(struct table *table, const char *name, uint32_t dim, uint32_t mode)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT; /* rank and size: the launcher's */

	*table = (struct table){ .dim = dim, .key = want.key, .keys = want.keys };
	if (!want.is_reference) {
		options.mode = mode;
		options.staleness = mode == TALLY_KV_BOUNDED ? want.staleness : 0;
		check(tally_kv_open(&table->kv, name, dim, &options));
		return;
	}
	table->value = memory(NULL, table->keys, dim * sizeof(float));
	table->state = memory(NULL, table->keys, STATE * sizeof(float));
	for (size_t at = 0; at < table->keys; at++)
		row_begin(table, at);
}

void table_open(struct table *table, const char *name, uint32_t dim)
{
	open_as(table, name, dim, TALLY_KV_ASYNC);
}

void table_open_stepped(struct table *table, const char *name, uint32_t dim)
{
	open_as(table, name, dim, want.mode);
}

void table_close(struct table *table)
{
	check(tally_kv_close(table->kv));
	free(table->value);
	free(table->state);
}

/* FTRL-Proximal of a weight, AdaGrad of factors: what tally-ps does. */
static void row_step(struct table *table, size_t at, const float *g)
{
	float *value = table->value + at * table->dim, *state = table->state + at * STATE;

	if (table->dim == 1) {
		float *z = state, *n = state + 1, sum = *n + *g * *g;

		*z += *g - (sqrtf(sum) - sqrtf(*n)) / FTRL_RATE * *value;
		*n = sum;
		*value = -*z / ((FTRL_BETA + sqrtf(sum)) / FTRL_RATE + FTRL_L2);
		return;
	}
	for (uint32_t k = 0; k < table->dim; k++) {
		state[k] += g[k] * g[k];
		value[k] -= ADAGRAD_RATE * g[k] / (sqrtf(state[k]) + ADAGRAD_EPSILON);
	}
}

void table_pull(struct table *table, const uint64_t *key, float *value, size_t count,
		uint64_t *timestamp)
{
	if (table->kv) {
		check(tally_kv_pull(table->kv, key, value, count, timestamp));
		return;
	}
	for (size_t i = 0; i < count; i++) {
		size_t at = keys_find(table->key, table->keys, key[i]);

		memcpy(value + i * table->dim, table->value + at * table->dim,
		       table->dim * sizeof(float));
	}
}

void table_push(struct table *table, const uint64_t *key, const float *g, size_t count,
		uint64_t *timestamp)
{
	if (table->kv) {
		check(tally_kv_push(table->kv, key, g, count, timestamp));
		return;
	}
	for (size_t i = 0; i < count; i++)
		row_step(table, keys_find(table->key, table->keys, key[i]), g + i * table->dim);
}

void table_wait(struct table *table, uint64_t timestamp)
{
	if (table->kv && timestamp)
		check(tally_kv_wait(table->kv, timestamp, -1));
}

void table_step(struct table *table)
{
	if (table->kv)
		check(tally_kv_step(table->kv, NULL));
}
