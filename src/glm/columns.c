/* SPDX-License-Identifier: Apache-2.0 */
#include "glm/columns.h"

#include <assert.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = 3 };
_Static_assert(PASSES *DIGIT_BITS >= 32, "all bits of a feature are sorted by");

static void features_sort(uint32_t *at, uint32_t *spare, size_t count)
{
	for (uint32_t shift = 0; shift < PASSES * DIGIT_BITS; shift += DIGIT_BITS) {
		size_t place[DIGITS] = { 0 }, before = 0;

		for (size_t i = 0; i < count; i++)
			place[at[i] >> shift & (DIGITS - 1)]++;
		for (size_t i = 0; i < DIGITS; i++) {
			size_t here = place[i];

			place[i] = before;
			before += here;
		}
		for (size_t i = 0; i < count; i++)
			spare[place[at[i] >> shift & (DIGITS - 1)]++] = at[i];
		memcpy(at, spare, count * sizeof(*at));
	}
}

/* How many of the sorted are below `feature`. */
static size_t features_below(const uint32_t *sorted, size_t count, uint64_t feature)
{
	size_t low = 0;

	while (count > low) {
		size_t middle = low + (count - low) / 2;

		if (sorted[middle] < feature)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

/* The cut nearest to `target` non-zeros before it: a feature's non-zeros stay together. */
static uint32_t feature_cut(const uint32_t *sorted, size_t count, size_t target)
{
	size_t low = features_below(sorted, count, sorted[target]);
	size_t high = features_below(sorted, count, (uint64_t)sorted[target] + 1);

	return sorted[target] + (target - low > high - target);
}

void columns_make(struct columns *columns, uint32_t shares, uint32_t *sample, uint32_t *spare,
		  size_t count)
{
	assert(shares >= 1);
	assert(shares <= COLUMNS_SHARES_MAX);
	memset(columns, 0, sizeof(*columns));
	columns->shares = shares;
	if (!count)
		return;
	features_sort(sample, spare, count);
	for (uint32_t k = 1; k < shares; k++)
		columns->first[k] =
			feature_cut(sample, count, (size_t)((uint64_t)count * k / shares));
	assert(sample[count - 1] < UINT32_MAX);
	columns->first[shares] = sample[count - 1] + 1;
}

uint32_t columns_share(const struct columns *columns, uint32_t feature)
{
	uint32_t low = 0, high = columns->shares;

	if (feature >= columns->first[high])
		return (feature - columns->first[high]) / COLUMNS_BLOCK % columns->shares;
	while (high - low > 1) { /* first[low] <= feature < first[high] */
		uint32_t middle = (low + high) / 2;

		if (columns->first[middle] <= feature)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static uint32_t range_columns(const struct columns *columns, uint32_t share)
{
	return columns->first[share + 1] - columns->first[share];
}

uint32_t columns_local(const struct columns *columns, uint32_t feature)
{
	uint32_t share = columns_share(columns, feature), dealt = columns->first[columns->shares];

	if (feature < dealt)
		return feature - columns->first[share];
	feature -= dealt;
	return range_columns(columns, share) +
	       feature / COLUMNS_BLOCK / columns->shares * COLUMNS_BLOCK + feature % COLUMNS_BLOCK;
}

uint32_t columns_global(const struct columns *columns, uint32_t share, uint32_t local)
{
	uint32_t range = range_columns(columns, share);

	if (local < range)
		return columns->first[share] + local;
	local -= range;
	return columns->first[columns->shares] +
	       (local / COLUMNS_BLOCK * columns->shares + share) * COLUMNS_BLOCK +
	       local % COLUMNS_BLOCK;
}

uint32_t columns_count(const struct columns *columns, uint32_t share, uint64_t features)
{
	uint64_t first = columns->first[share], dealt = columns->first[columns->shares];
	uint64_t turn = (uint64_t)COLUMNS_BLOCK * columns->shares, before, own;

	if (features <= dealt) {
		own = features > first ? features - first : 0;
		return (uint32_t)(own < range_columns(columns, share)
					  ? own
					  : range_columns(columns, share));
	}
	features -= dealt;
	before = (uint64_t)COLUMNS_BLOCK * share;
	own = features % turn > before ? features % turn - before : 0;
	if (own > COLUMNS_BLOCK)
		own = COLUMNS_BLOCK;
	return (uint32_t)(range_columns(columns, share) + features / turn * COLUMNS_BLOCK + own);
}
