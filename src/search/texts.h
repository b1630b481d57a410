/* SPDX-License-Identifier: Apache-2.0 */
/* texts.h - core/shared/text.h once more: whole letters for bytes, and a row of flags for a set. */
#ifndef SEARCH_TEXTS_H
#define SEARCH_TEXTS_H

#include <stddef.h>

#include "util/rng.h"

/* Of whole letters, of one to four bytes, some of which move a terminal's cursor; up to `wanted` bytes or a few more,
 * and fewer than max. */
void texts_draw(struct rng *rng, char *text, size_t wanted, size_t max);
/* As many whole letters of `from` as fit, '?' for what moves a cursor, zeros behind. */
void texts_tidy(char *to, size_t max, const char *from);

/* Draws what to call text.h's functions with. NULL, or what is wrong. */
const char *texts_differ(struct rng *rng);

#endif
