/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - see stage.h. */
#include "ps/stage.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/sparse/wire_sparse.h"
#include "ps/store.h"

__extension__ typedef __int128 sum_t;
__extension__ typedef unsigned __int128 bits_t;

enum { PIECE_BYTES = 1 << 20, HEAD_BYTES = 16, SUM_BYTES = 16 };

/* Of a key's row in floats: a number that is not 0 if its sums are units, and 0 if they are 2^-64; from `SUMS` on they. With the
 * key itself in front they lie as their size wants it. */
enum { IS_HOT, SUMS = 2, SUM_FLOATS = SUM_BYTES / sizeof(float) };

struct stage {
	uint32_t dim;
	float unit;
	struct store *store;
};

/* ---- memory ---- */

int stage_open(struct stage **out, uint32_t dim, float unit)
{
	struct store_options rows = { .state = SUMS + dim * SUM_FLOATS, .bytes_max = UINT64_MAX };
	struct stage *stage = calloc(1, sizeof(*stage));

	if (!stage)
		return -ENOMEM;
	stage->dim = dim;
	stage->unit = unit;
	if (store_open(&stage->store, &rows)) {
		free(stage);
		return -ENOMEM;
	}
	*out = stage;
	return 0;
}

void stage_close(struct stage *stage)
{
	if (!stage)
		return;
	store_close(stage->store);
	free(stage);
}

int stage_reserve(struct stage *stage, uint64_t keys)
{
	return store_reserve(stage->store, keys) ? -ENOMEM : 0;
}

/* ---- sums ---- */

static sum_t add(sum_t a, sum_t b)
{
	const sum_t most = (sum_t)(~(bits_t)0 >> 1);
	sum_t sum;

	if (!__builtin_add_overflow(a, b, &sum))
		return sum;
	return b < 0 ? -most - 1 : most;
}

/* To the nearest; from 2^62 on a double is a whole number. */
static sum_t whole(double value)
{
	value = fmax(-0x1p126, fmin(value, 0x1p126));
	return fabs(value) < 0x1p62 ? (sum_t)llrint(value) : (sum_t)value;
}

static const sum_t *sums_of(const float *row)
{
	return (const sum_t *)(const void *)(row + SUMS);
}

/* Its sums; of a new one they are 0. *is_hot becomes what they are: a map that has changed between may have made
 * another of it. */
static sum_t *entry_get(struct stage *stage, uint64_t key, bool *is_hot)
{
	uint64_t had = store_rows(stage->store);
	float *row = store_get(stage->store, key);

	if (store_rows(stage->store) > had)
		row[IS_HOT] = *is_hot;
	*is_hot = row[IS_HOT] != 0;
	return (sum_t *)(void *)(row + SUMS);
}

void stage_add_sums(struct stage *stage, uint64_t key, const int64_t *sums)
{
	bool is_hot = true;
	sum_t *sum = entry_get(stage, key, &is_hot);

	for (uint32_t i = 0; i < stage->dim; i++)
		sum[i] =
			add(sum[i], is_hot ? sums[i]
					   : whole((double)sums[i] * (double)stage->unit * 0x1p64));
}

void stage_add_floats(struct stage *stage, uint64_t key, const float *values)
{
	bool is_hot = false;
	sum_t *sum = entry_get(stage, key, &is_hot);

	for (uint32_t i = 0; i < stage->dim; i++)
		sum[i] = add(sum[i], whole((double)values[i] *
					   (is_hot ? 1 / (double)stage->unit : 0x1p64)));
}

uint64_t stage_count(const struct stage *stage)
{
	return store_rows(stage->store);
}

uint64_t stage_gradient(const struct stage *stage, uint64_t i, float *gradient)
{
	uint64_t key;
	const float *row = store_row(stage->store, i, &key);
	double unit = row[IS_HOT] != 0 ? (double)stage->unit : 0x1p-64;

	for (uint32_t k = 0; k < stage->dim; k++)
		gradient[k] = (float)((double)sums_of(row)[k] * unit);
	return key;
}

void stage_clear(struct stage *stage)
{
	store_clear(stage->store);
}

/* ---- checkpoints ---- */

uint64_t stage_save(const struct stage *stage, uint64_t first, struct bytes *body)
{
	uint64_t left = stage_count(stage) - first,
		 most = PIECE_BYTES / (HEAD_BYTES + (uint64_t)SUM_BYTES * stage->dim) + 1;
	uint32_t count = (uint32_t)(left < most ? left : most);

	bytes_put32(body, count);
	bytes_put32(body, stage->dim);
	for (uint64_t i = first; i < first + count; i++) {
		uint64_t key;
		const float *row = store_row(stage->store, i, &key);

		bytes_put64(body, key);
		bytes_put64(body, row[IS_HOT] != 0);
		for (uint32_t k = 0; k < stage->dim; k++) {
			bits_t bits = (bits_t)sums_of(row)[k];

			bytes_put64(body, (uint64_t)bits);
			bytes_put64(body, (uint64_t)(bits >> 64));
		}
	}
	return count;
}

const char *stage_load(struct stage *stage, const uint8_t *body, uint32_t bytes)
{
	uint64_t entry = HEAD_BYTES + (uint64_t)SUM_BYTES * stage->dim;
	uint32_t count = bytes < 8 ? 0 : sparse_body_get32(body);

	if (bytes < 8 || sparse_body_get32(body + 4) != stage->dim || 8 + count * entry != bytes)
		return "sums of a step that do not fit the table";
	if (stage_reserve(stage, count))
		return "out of memory for the sums of a step";
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *at = body + 8 + i * entry;
		uint64_t key = sparse_body_get64(at), hot = sparse_body_get64(at + 8);
		bool is_hot = hot;
		sum_t *sum;

		if (hot > 1 || store_find(stage->store, key))
			return "sums of a step that has a key twice, or one that is neither hot "
			       "nor cold";
		sum = entry_get(stage, key, &is_hot);
		for (uint32_t k = 0; k < stage->dim; k++) {
			const uint8_t *it = at + HEAD_BYTES + (uint64_t)SUM_BYTES * k;

			sum[k] = (sum_t)((bits_t)sparse_body_get64(it) |
					 (bits_t)sparse_body_get64(it + 8) << 64);
		}
	}
	return NULL;
}
