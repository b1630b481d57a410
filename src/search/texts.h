/* SPDX-License-Identifier: Apache-2.0 */
/* texts.h - draws texts, and records what core/shared/text.h makes of them: tests/interop/replay_texts.py. */
#ifndef SEARCH_TEXTS_H
#define SEARCH_TEXTS_H

#include <stddef.h>

#include "util/rng.h"

/* Of whole letters, of one to four bytes, some of which move a terminal's cursor; up to `wanted` bytes or a few more,
 * and fewer than max. */
void texts_draw(struct rng *rng, char *text, size_t wanted, size_t max);

/* Draws what to call text.h's functions with. */
void texts_record(struct rng *rng);

#endif
