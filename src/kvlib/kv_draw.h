/* SPDX-License-Identifier: Apache-2.0 */
/* kv_draw.h - for tests against kv_fixture.h: pushes that are drawn. */
#ifndef KVLIB_KV_DRAW_H
#define KVLIB_KV_DRAW_H

#include "kvlib/kv_fixture.h"

enum { DRAWN_MAX = 400 }; /* keys */

/* Some keys of all, ascending, the hot ones more often; integers of both signs. Fills at most key[DRAWN_MAX] and
 * value[DRAWN_MAX * FAKE_DIM], and returns how many keys there are. */
static uint32_t keys_draw(struct rng *rng, uint64_t *key, float *value)
{
	uint32_t count = 0, step = 1 + rng_below(rng, 12);

	for (uint64_t k = rng_below(rng, step); k < FAKE_KEYS && count < DRAWN_MAX;
	     k += 1 + rng_below(rng, step)) {
		key[count] = k;
		for (uint32_t i = 0; i < FAKE_DIM; i++)
			value[count * FAKE_DIM + i] = (float)rng_below(rng, 2001) - 1000;
		count++;
	}
	return count;
}

#endif
