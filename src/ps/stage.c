/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - see stage.h. Entries lie one after the other; an index of their numbers + 1 is found by the key. */
#include "ps/stage.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/splitmix.h"
#include "core/sparse/wire_sparse.h"

__extension__ typedef __int128 sum_t;
__extension__ typedef unsigned __int128 bits_t;

enum { PLACES_MIN = 1024, PIECE_BYTES = 1 << 20, HEAD_BYTES = 16, SUM_BYTES = 16 };

struct head {
	uint64_t key;
	bool is_hot; /* its sums are units, else 2^-64 */
};

struct stage {
	uint32_t dim;
	float unit;
	uint64_t count, room; /* entries */
	struct head *head;
	sum_t *sum;      /* dim of each */
	uint32_t *place; /* an entry's number + 1; 0: free */
	uint64_t mask;
};

/* ---- memory ---- */

int stage_open(struct stage **out, uint32_t dim, float unit)
{
	struct stage *stage = calloc(1, sizeof(*stage));

	if (!stage)
		return -ENOMEM;
	stage->dim = dim;
	stage->unit = unit;
	stage->mask = PLACES_MIN - 1;
	stage->place = calloc(PLACES_MIN, sizeof(*stage->place));
	if (!stage->place) {
		stage_close(stage);
		return -ENOMEM;
	}
	*out = stage;
	return 0;
}

void stage_close(struct stage *stage)
{
	if (!stage)
		return;
	free(stage->head);
	free(stage->sum);
	free(stage->place);
	free(stage);
}

static uint64_t place_find(const struct stage *stage, uint64_t key)
{
	uint64_t place = splitmix64(key) & stage->mask;

	while (stage->place[place] && stage->head[stage->place[place] - 1].key != key)
		place = (place + 1) & stage->mask;
	return place;
}

static int index_grow(struct stage *stage, uint64_t places)
{
	uint32_t *place = calloc(places, sizeof(*place));

	if (!place)
		return -ENOMEM;
	free(stage->place);
	stage->place = place;
	stage->mask = places - 1;
	for (uint64_t i = 0; i < stage->count; i++)
		stage->place[place_find(stage, stage->head[i].key)] = (uint32_t)(i + 1);
	return 0;
}

/* What there is stays as it is, also if one of these fails. */
int stage_reserve(struct stage *stage, uint64_t keys)
{
	uint64_t need = stage->count + keys, room = stage->room ? stage->room : PLACES_MIN / 2;
	uint64_t places = stage->mask + 1;
	struct head *head;
	sum_t *sum;

	while (room < need)
		room *= 2;
	while (places < 2 * need)
		places *= 2;
	if (need >= UINT32_MAX)
		return -ENOMEM;
	if (room > stage->room) {
		head = realloc(stage->head, room * sizeof(*head));
		if (!head)
			return -ENOMEM;
		stage->head = head;
		sum = realloc(stage->sum, room * stage->dim * sizeof(*sum));
		if (!sum)
			return -ENOMEM;
		stage->sum = sum;
		stage->room = room;
	}
	return places > stage->mask + 1 ? index_grow(stage, places) : 0;
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

static double unit_of(const struct stage *stage, const struct head *head)
{
	return head->is_hot ? (double)stage->unit : 0x1p-64;
}

/* Its sums; of a new one they are 0. *is_hot becomes what they are: a map that has changed between may have made
 * another of it. */
static sum_t *entry_get(struct stage *stage, uint64_t key, bool *is_hot)
{
	uint64_t place = place_find(stage, key), at = stage->place[place];

	if (at) {
		*is_hot = stage->head[at - 1].is_hot;
		return stage->sum + (at - 1) * stage->dim;
	}
	at = stage->count++;
	stage->place[place] = (uint32_t)(at + 1);
	stage->head[at] = (struct head){ .key = key, .is_hot = *is_hot };
	memset(stage->sum + at * stage->dim, 0, stage->dim * sizeof(*stage->sum));
	return stage->sum + at * stage->dim;
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
	return stage->count;
}

uint64_t stage_gradient(const struct stage *stage, uint64_t i, float *gradient)
{
	const sum_t *sum = stage->sum + i * stage->dim;

	for (uint32_t k = 0; k < stage->dim; k++)
		gradient[k] = (float)((double)sum[k] * unit_of(stage, &stage->head[i]));
	return stage->head[i].key;
}

void stage_clear(struct stage *stage)
{
	stage->count = 0;
	memset(stage->place, 0, (stage->mask + 1) * sizeof(*stage->place));
}

/* ---- checkpoints ---- */

uint64_t stage_save(const struct stage *stage, uint64_t first, struct bytes *body)
{
	uint64_t left = stage->count - first,
		 most = PIECE_BYTES / (HEAD_BYTES + (uint64_t)SUM_BYTES * stage->dim) + 1;
	uint32_t count = (uint32_t)(left < most ? left : most);

	bytes_put32(body, count);
	bytes_put32(body, stage->dim);
	for (uint64_t i = first; i < first + count; i++) {
		bytes_put64(body, stage->head[i].key);
		bytes_put64(body, stage->head[i].is_hot);
		for (uint32_t k = 0; k < stage->dim; k++) {
			bits_t bits = (bits_t)stage->sum[i * stage->dim + k];

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

		if (hot > 1 || stage->place[place_find(stage, key)])
			return "sums of a step that has a key twice, or one that is neither hot "
			       "nor "
			       "cold";
		sum = entry_get(stage, key, &is_hot);
		for (uint32_t k = 0; k < stage->dim; k++) {
			const uint8_t *it = at + HEAD_BYTES + (uint64_t)SUM_BYTES * k;

			sum[k] = (sum_t)((bits_t)sparse_body_get64(it) |
					 (bits_t)sparse_body_get64(it + 8) << 64);
		}
	}
	return NULL;
}
