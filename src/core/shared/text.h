/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - texts for people, made in the core, where there is no libc: appended to a lent buffer, always
 * terminated, cut at its end between two characters of UTF-8.
 */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include "core/shared/env.h"

struct text {
	char *at;
	size_t max; /* bytes at `at`, at least 1 */
	size_t used;
};

/* text_begin empties the buffer. */
void text_begin(struct text *text, char *at, size_t max);

/* text_add appends; it knows %s, %u, %llu and %%. Control characters in a %s become '?': what a peer calls
 * itself must not end a line of our log. */
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_args(struct text *text, const char *format, __builtin_va_list args)
	__attribute__((format(printf, 2, 0)));

/* text_clean makes every control character of a terminated text '?'s, as many as it has bytes. */
void text_clean(char *text);

/* Ranks 0..255. */
struct text_ranks {
	uint64_t word[4];
};

void text_ranks_put(struct text_ranks *ranks, uint32_t rank); /* a higher one changes nothing */
void text_ranks_drop(struct text_ranks *ranks, uint32_t rank);
bool text_ranks_has(const struct text_ranks *ranks, uint32_t rank);
uint32_t text_ranks_count(const struct text_ranks *ranks);

/* "rank 2", "ranks 0, 3-5, 7". */
void text_add_ranks(struct text *text, const struct text_ranks *ranks);

/* text_copy copies a terminated text, cut to fit, zeros behind it: for structs that are compared. */
void text_copy(char *to, size_t max, const char *from);

#endif
