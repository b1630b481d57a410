/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - a copy that goes past the caches. For memory that another processor has read last: a plain store would first
 * fetch each line from that processor's cache, which takes longer than all the rest. And for more than caches hold.
 */
#ifndef SIMD_STREAM_H
#define SIMD_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { STREAM_LINE = 64 };

#if defined(__x86_64__)
#include <immintrin.h>

/* `to` and `from` do not overlap. Another thread may read it after stream_end and what the caller then tells it by. */
static inline void stream_copy(void *to, const void *from, size_t bytes)
{
	size_t head = -(uintptr_t)to % STREAM_LINE, at;

	if (head > bytes)
		head = bytes;
	memcpy(to, from, head);
	for (at = head; at + STREAM_LINE <= bytes; at += STREAM_LINE) {
		const __m128i *source = (const void *)((const uint8_t *)from + at);
		__m128i *line = (void *)((uint8_t *)to + at);
		__m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
		__m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);

		_mm_stream_si128(line, a);
		_mm_stream_si128(line + 1, b);
		_mm_stream_si128(line + 2, c);
		_mm_stream_si128(line + 3, d);
	}
	memcpy((uint8_t *)to + at, (const uint8_t *)from + at, bytes - at);
}

static inline void stream_end(void)
{
	_mm_sfence();
}

#else

static inline void stream_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static inline void stream_end(void)
{
}

#endif

#endif
