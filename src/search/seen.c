/* SPDX-License-Identifier: Apache-2.0 */
/* seen.c - see seen.h. */
#include "search/seen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 1 << 16, FOUR = 4 };

/* Two independent hashes (the mixing step of splitmix64). */
struct hash {
	uint64_t a, b;
};

static void mix(struct hash *hash, uint64_t word, uint64_t place)
{
	if (!word)
		return;
	hash->a = (hash->a ^ word ^ place * 0xd6e8feb86659fd93ull) * 0xbf58476d1ce4e5b9ull;
	hash->a ^= hash->a >> 29;
	hash->b = (hash->b + word + place * 0xa0761d6478bd642full) * 0x94d049bb133111ebull;
	hash->b ^= hash->b >> 32;
}

/* Most of a state is 0: that is passed over, so what is not is taken together with its place. */
static void hash_of(const uint8_t *bytes, size_t count, uint64_t hash[2])
{
	struct hash now = { 0x9e3779b97f4a7c15ull ^ count, 0xc2b2ae3d27d4eb4full };
	uint64_t word[FOUR];
	size_t at = 0;

	for (; at + sizeof(word) <= count; at += sizeof(word)) {
		memcpy(word, bytes + at, sizeof(word));
		if (!(word[0] | word[1] | word[2] | word[3]))
			continue;
		for (size_t k = 0; k < FOUR; k++)
			mix(&now, word[k], at + k);
	}
	memset(word, 0, sizeof(word));
	memcpy(word, bytes + at, count - at);
	for (size_t k = 0; k < FOUR; k++)
		mix(&now, word[k], at + k);
	hash[0] = now.a ^ now.a >> 31;
	hash[1] = (now.b ^ now.b >> 27) | 1; /* never {0, 0} */
}

static uint32_t put(struct seen *seen, const uint64_t hash[2], uint32_t number)
{
	uint64_t at = hash[0] & (seen->room - 1);

	while (seen->table[at][1]) {
		if (seen->table[at][0] == hash[0] && seen->table[at][1] == hash[1])
			return seen->numbers[at];
		at = (at + 1) & (seen->room - 1);
	}
	seen->table[at][0] = hash[0];
	seen->table[at][1] = hash[1];
	seen->numbers[at] = number;
	return number;
}

static void grow(struct seen *seen)
{
	struct seen old = *seen;

	seen->room = old.room ? 2 * old.room : ROOM_FIRST;
	seen->table = calloc(seen->room, sizeof(*seen->table));
	seen->numbers = malloc(seen->room * sizeof(*seen->numbers));
	if (!seen->table || !seen->numbers) {
		fprintf(stderr, "search: out of memory (%llu states)\n",
			(unsigned long long)old.count);
		exit(1);
	}
	for (uint64_t i = 0; i < old.room; i++)
		if (old.table[i][1])
			put(seen, old.table[i], old.numbers[i]);
	free(old.table);
	free(old.numbers);
}

uint32_t seen_put(struct seen *seen, const void *bytes, size_t count)
{
	uint64_t hash[2];
	uint32_t number;

	hash_of(bytes, count, hash);
	if (seen->count * 3 >= seen->room * 2)
		grow(seen);
	number = put(seen, hash, (uint32_t)seen->count);
	seen->count += number == seen->count;
	return number;
}

void seen_forget(struct seen *seen)
{
	free(seen->table);
	free(seen->numbers);
	*seen = (struct seen){ 0 };
}
