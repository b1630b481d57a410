/* SPDX-License-Identifier: Apache-2.0 */
/* sketch.c - see sketch.h. The counters lie still; an index of twice as many places says where a key's is. */
#include "hot/sketch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/splitmix.h"

struct sketch {
	uint32_t counters, used;
	uint32_t hand;
	uint64_t least; /* no counter has less, once all are used */
	uint64_t updates;
	uint32_t mask;   /* of places in the index */
	uint32_t *index; /* a counter's number + 1; 0: none. Linear probing */
	struct sketch_counter *counter;
};

static uint32_t places_of(uint32_t counters)
{
	uint32_t places = 1;

	while (places < 2 * counters)
		places *= 2;
	return places;
}

size_t sketch_bytes(uint32_t counters)
{
	return sizeof(struct sketch) + counters * sizeof(struct sketch_counter) +
	       places_of(counters) * sizeof(uint32_t);
}

int sketch_open(struct sketch **sketch, uint32_t counters)
{
	struct sketch *s = calloc(1, sizeof(*s));

	assert(counters >= SKETCH_COUNTERS_MIN);
	assert(counters <= SKETCH_COUNTERS_MAX);
	if (!s)
		return -1;
	s->counters = counters;
	s->mask = places_of(counters) - 1;
	s->index = calloc(s->mask + 1ul, sizeof(*s->index));
	s->counter = malloc(counters * sizeof(*s->counter));
	if (!s->index || !s->counter) {
		sketch_close(s);
		return -1;
	}
	*sketch = s;
	return 0;
}

void sketch_close(struct sketch *s)
{
	if (!s)
		return;
	free(s->index);
	free(s->counter);
	free(s);
}

static uint32_t home(const struct sketch *s, uint64_t key)
{
	return (uint32_t)splitmix64(key) & s->mask;
}

/* The place that has the key's counter, or the empty one where it would be. */
static uint32_t place_find(const struct sketch *s, uint64_t key)
{
	uint32_t place = home(s, key);

	while (s->index[place] && s->counter[s->index[place] - 1].key != key)
		place = (place + 1) & s->mask;
	return place;
}

/* What lies behind moves up, unless it would come to lie before its home. */
static void place_clear(struct sketch *s, uint32_t hole)
{
	for (uint32_t at = (hole + 1) & s->mask; s->index[at]; at = (at + 1) & s->mask) {
		uint32_t wants = home(s, s->counter[s->index[at] - 1].key);

		if (((at - wants) & s->mask) < ((at - hole) & s->mask))
			continue;
		s->index[hole] = s->index[at];
		hole = at;
	}
	s->index[hole] = 0;
}

static struct sketch_counter *least_find(struct sketch *s)
{
	for (;;) {
		if (s->hand == s->counters) {
			s->hand = 0;
			s->least++;
		}
		if (s->counter[s->hand].count == s->least)
			return &s->counter[s->hand++];
		s->hand++;
	}
}

void sketch_add(struct sketch *s, uint64_t key)
{
	uint32_t place = place_find(s, key);
	struct sketch_counter *counter;

	s->updates++;
	if (s->index[place]) {
		s->counter[s->index[place] - 1].count++;
		return;
	}
	if (s->used < s->counters) {
		counter = &s->counter[s->used++];
		*counter = (struct sketch_counter){ key, s->least + 1, s->least };
	} else {
		counter = least_find(s);
		place_clear(s, place_find(s, counter->key));
		*counter = (struct sketch_counter){ key, counter->count + 1, counter->count };
		place = place_find(s, key); /* the hole may have come nearer */
	}
	s->index[place] = (uint32_t)(counter - s->counter) + 1;
}

void sketch_halve(struct sketch *s)
{
	uint32_t left = 0;

	memset(s->index, 0, (s->mask + 1ul) * sizeof(*s->index));
	for (uint32_t i = 0; i < s->used; i++) {
		struct sketch_counter counter = s->counter[i];

		counter.count /= 2;
		counter.error /= 2;
		if (!counter.count)
			continue;
		s->counter[left++] = counter;
		s->index[place_find(s, counter.key)] = left;
	}
	s->used = left;
	s->hand = 0;
	s->least /= 2;
	s->updates /= 2;
}

const struct sketch_counter *sketch_counters(const struct sketch *s, uint32_t *count)
{
	*count = s->used;
	return s->counter;
}

uint64_t sketch_updates(const struct sketch *s)
{
	return s->updates;
}

uint64_t sketch_error(const struct sketch *s)
{
	return s->least;
}
