/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_fixture.h - memory of which a test takes a piece away, and counts the others. The program is linked with
 * memory_links (meson.build).
 */
#ifndef UTIL_MEMORY_FIXTURE_H
#define UTIL_MEMORY_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* While it counts: pieces that were taken and not given back; how many were asked for, and which of these there is not,
 * 0: all are there. */
static struct {
	atomic_int held;
	atomic_uint asked;
	unsigned missing;
	bool is_counting;
} memory;

static void memory_count(unsigned missing)
{
	memory.held = 0;
	memory.asked = 0;
	memory.missing = missing;
	memory.is_counting = true;
}

static void *memory_taken(void *at)
{
	memory.held += at && memory.is_counting;
	return at;
}

static bool memory_is_missing(void)
{
	return memory.is_counting && ++memory.asked == memory.missing;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return memory_is_missing() ? NULL : memory_taken(__real_malloc(bytes));
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return memory_is_missing() ? NULL : memory_taken(__real_calloc(count, bytes));
}

void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes)
{
	void *more = memory_is_missing() ? NULL : __real_realloc(at, bytes);

	return at ? more : memory_taken(more);
}

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
	return memory_is_missing() ? NULL : memory_taken(__real_aligned_alloc(align, bytes));
}

void __real_free(void *at);
void __wrap_free(void *at);
void __wrap_free(void *at)
{
	memory.held -= at && memory.is_counting;
	__real_free(at);
}

#endif
