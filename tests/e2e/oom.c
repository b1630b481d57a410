/* SPDX-License-Identifier: Apache-2.0 */
/* oom.c - see oom.h. */
#include "oom.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *at, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static _Atomic uint64_t count, fails_at;
static atomic_bool lasts;

void oom_arm(uint64_t n, bool is_lasting)
{
	fails_at = 0;
	count = 0;
	lasts = is_lasting;
	fails_at = n;
}

uint64_t oom_count(void)
{
	return count;
}

static bool is_out(void)
{
	uint64_t number = ++count, at = fails_at;
	bool is = at && (number == at || (lasts && number > at));

	if (is)
		errno = ENOMEM;
	return is;
}

void *malloc(size_t bytes)
{
	return is_out() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes)
{
	return is_out() ? NULL : __libc_calloc(items, bytes);
}

void *realloc(void *at, size_t bytes)
{
	return is_out() ? NULL : __libc_realloc(at, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
	return is_out() ? NULL : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return is_out() ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **at, size_t alignment, size_t bytes)
{
	if (is_out())
		return ENOMEM;
	*at = __libc_memalign(alignment, bytes);
	return *at ? 0 : ENOMEM;
}
