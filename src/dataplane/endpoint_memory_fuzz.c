/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_memory_fuzz.c - memory for the targets of the endpoint, which is opened for each input: the large
 * blocks, whose bytes are written before they are read, are kept. Link arguments in meson.build.
 */
#include "tests/fuzz/input.h"

enum { KEPT = 7, KEPT_BYTES_MIN = 16384 };

static struct {
	void *block;
	size_t bytes;
	bool is_used;
} kept[KEPT];

void *__real_calloc(size_t count, size_t size);
void __real_free(void *block);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *block);

void *__wrap_calloc(size_t count, size_t size)
{
	uint32_t i = 0;

	if (count * size < KEPT_BYTES_MIN)
		return __real_calloc(count, size);
	while (i < KEPT && (kept[i].is_used || (kept[i].block && kept[i].bytes != count * size)))
		i++;
	FUZZ_CHECK(i < KEPT); /* as many as the endpoint has */
	if (!kept[i].block) {
		kept[i].bytes = count * size;
		kept[i].block = __real_calloc(count, size);
	}
	kept[i].is_used = true;
	return kept[i].block;
}

void __wrap_free(void *block)
{
	for (uint32_t i = 0; i < KEPT; i++) {
		if (block && block == kept[i].block) {
			kept[i].is_used = false;
			return;
		}
	}
	__real_free(block);
}
