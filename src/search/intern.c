/* SPDX-License-Identifier: Apache-2.0 */
/* intern.c - see intern.h. */
#include "search/intern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 1024, ALIGN = 8 };

static void *grow(void *memory, uint64_t count, size_t bytes)
{
	void *more = realloc(memory, count * bytes);

	if (!more) {
		fprintf(stderr, "search: out of memory (%llu bytes)\n",
			(unsigned long long)(count * bytes));
		exit(1);
	}
	return more;
}

static uint64_t hash_of(const uint8_t *bytes, size_t count)
{
	uint64_t hash = 0x9e3779b97f4a7c15ull ^ count;

	for (size_t i = 0; i < count; i += 8) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, count - i < 8 ? count - i : 8);
		hash = (hash ^ word) * 0xbf58476d1ce4e5b9ull;
		hash ^= hash >> 32;
	}
	return hash * 0x94d049bb133111ebull ^ hash >> 32;
}

const void *intern_get(const struct intern *intern, uint32_t number, size_t *count)
{
	const uint8_t *entry = intern->bytes + intern->at[number];
	uint64_t length;

	memcpy(&length, entry, sizeof(length));
	if (count)
		*count = length;
	return entry + sizeof(length);
}

static uint64_t entry_of(uint64_t hash, uint32_t number)
{
	return hash >> 32 << 32 | (number + 1u);
}

static void table_grow(struct intern *intern)
{
	uint32_t size = intern->table_size ? 2 * intern->table_size : ROOM_FIRST;

	free(intern->table);
	intern->table = grow(NULL, size, sizeof(*intern->table));
	memset(intern->table, 0, size * sizeof(*intern->table));
	intern->table_size = size;
	for (uint32_t i = 0; i < intern->count; i++) {
		size_t count;
		const void *bytes = intern_get(intern, i, &count);
		uint64_t hash = hash_of(bytes, count), at = hash & (size - 1);

		while (intern->table[at])
			at = (at + 1) & (size - 1);
		intern->table[at] = entry_of(hash, i);
	}
}

static void append(struct intern *intern, const void *bytes, size_t count)
{
	uint64_t length = count, padded = (count + ALIGN - 1) / ALIGN * ALIGN;

	if (intern->count == intern->room) {
		intern->room = intern->room ? 2 * intern->room : ROOM_FIRST;
		intern->at = grow(intern->at, intern->room, sizeof(*intern->at));
	}
	while (intern->bytes_count + sizeof(length) + padded > intern->bytes_room) {
		intern->bytes_room = intern->bytes_room ? 2 * intern->bytes_room : 64 * ROOM_FIRST;
		intern->bytes = grow(intern->bytes, intern->bytes_room, 1);
	}
	intern->at[intern->count++] = intern->bytes_count;
	memcpy(intern->bytes + intern->bytes_count, &length, sizeof(length));
	memset(intern->bytes + intern->bytes_count + sizeof(length), 0, padded);
	if (count)
		memcpy(intern->bytes + intern->bytes_count + sizeof(length), bytes, count);
	intern->bytes_count += sizeof(length) + padded;
}

uint32_t intern_put(struct intern *intern, const void *bytes, size_t count)
{
	uint64_t hash = hash_of(bytes, count), at;

	if (intern->count * 2ull >= intern->table_size)
		table_grow(intern);
	for (at = hash & (intern->table_size - 1); intern->table[at];
	     at = (at + 1) & (intern->table_size - 1)) {
		uint32_t number = (uint32_t)intern->table[at] - 1;
		size_t other_count;
		const void *other;

		if (intern->table[at] >> 32 != hash >> 32)
			continue;
		other = intern_get(intern, number, &other_count);
		if (other_count == count && (!count || !memcmp(other, bytes, count)))
			return number;
	}
	intern->table[at] = entry_of(hash, intern->count);
	append(intern, bytes, count);
	return intern->count - 1;
}

void intern_forget(struct intern *intern)
{
	free(intern->bytes);
	free(intern->at);
	free(intern->table);
	*intern = (struct intern){ 0 };
}
