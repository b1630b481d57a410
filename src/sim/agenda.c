/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/agenda.h"

#include <assert.h>
#include <stdlib.h>

enum { BUCKET_FIRST = 64 };

void agenda_fini(struct agenda *agenda)
{
	for (uint32_t i = 0; i < AGENDA_BUCKETS; i++)
		free(agenda->bucket[i].entry);
}

static void bucket_grow(struct agenda_bucket *bucket)
{
	bucket->max = bucket->max ? 2 * bucket->max : BUCKET_FIRST;
	bucket->entry = realloc(bucket->entry, bucket->max * sizeof(*bucket->entry));
	if (!bucket->entry)
		abort(); /* nothing in a simulation could go on as the seed says */
}

static inline void put(struct agenda *agenda, const struct agenda_entry *entry)
{
	uint64_t differs = entry->at ^ agenda->last;
	uint32_t number = differs ? 64 - (uint32_t)__builtin_clzll(differs) : 0;
	struct agenda_bucket *bucket = &agenda->bucket[number];

	if (bucket->count == bucket->max)
		bucket_grow(bucket);
	bucket->entry[bucket->count++] = *entry;
	if (number)
		agenda->used |= 1ull << (number - 1);
}

void agenda_push(struct agenda *agenda, uint64_t at, uint32_t what)
{
	struct agenda_entry entry = { .at = at, .what = what };

	assert(at >= agenda->last);
	agenda->count++;
	put(agenda, &entry);
}

static uint64_t bucket_least(const struct agenda_bucket *bucket)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < bucket->count; i++)
		least = bucket->entry[i].at < least ? bucket->entry[i].at : least;
	return least;
}

/* The first bucket with entries is dealt out to those before it, which are empty. */
static void deal(struct agenda *agenda)
{
	uint32_t number = (uint32_t)__builtin_ctzll(agenda->used) + 1;
	struct agenda_bucket *bucket = &agenda->bucket[number];
	uint32_t count = bucket->count;

	agenda->used &= agenda->used - 1;
	agenda->last = count == 1 ? bucket->entry[0].at : bucket_least(bucket);
	bucket->count = 0;
	for (uint32_t i = 0; i < count; i++)
		put(agenda, &bucket->entry[i]);
}

struct agenda_entry agenda_pop(struct agenda *agenda)
{
	struct agenda_bucket *due = &agenda->bucket[0];

	assert(agenda->count);
	agenda->count--;
	if (agenda->head == due->count) {
		agenda->head = due->count = 0;
		deal(agenda);
	}
	return due->entry[agenda->head++];
}

uint64_t agenda_next(const struct agenda *agenda)
{
	if (!agenda->count)
		return UINT64_MAX;
	if (agenda->head < agenda->bucket[0].count)
		return agenda->last;
	return bucket_least(&agenda->bucket[__builtin_ctzll(agenda->used) + 1]);
}
