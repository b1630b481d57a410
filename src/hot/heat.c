/* SPDX-License-Identifier: Apache-2.0 */
/* heat.c - see heat.h. */
#include "hot/heat.h"

#include <stdlib.h>

#include "core/shared/splitmix.h"

static int heat_compare(const void *a, const void *b, void *salt)
{
	const struct heat *x = a, *y = b;
	uint64_t mixed_x, mixed_y;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	mixed_x = splitmix64(x->key ^ *(const uint64_t *)salt);
	mixed_y = splitmix64(y->key ^ *(const uint64_t *)salt);
	return mixed_x < mixed_y ? -1 : mixed_x > mixed_y;
}

void heat_sort(struct heat *heat, size_t count, uint64_t salt)
{
	uint64_t mixed = splitmix64(salt);

	if (count)
		qsort_r(heat, count, sizeof(*heat), heat_compare, &mixed);
}

void heat_weigh_all(struct heat *heat, size_t count)
{
	for (size_t i = 0; i < count; i++)
		heat[i].weight = (double)heat[i].count;
}

/* loss[c] for c = 1 .. the last that is known, which is returned: c - expected. `expected` is never above c, nor does
 * it fall: the coldest stay the coldest. */
static uint32_t loss_fill(double loss[HEAT_CLASSES + 1], const uint64_t keys[HEAT_CLASSES + 2])
{
	double before = 0;
	uint32_t c = 1;

	loss[0] = 0;
	for (; c <= HEAT_CLASSES; c++) {
		double again = (double)((c + 1) * keys[c + 1]) / (double)keys[c];

		if (keys[c] < HEAT_CLASS_MIN || keys[c + 1] < HEAT_CLASS_MIN)
			break;
		again = again > before ? again : before;
		before = again < c ? again : c;
		loss[c] = c - before;
	}
	return c - 1;
}

void heat_weigh_sample(struct heat *heat, size_t count, double rate)
{
	uint64_t keys[HEAT_CLASSES + 2] = { 0 };
	double loss[HEAT_CLASSES + 1];
	uint32_t known;

	for (size_t i = 0; i < count; i++)
		if (heat[i].count < HEAT_CLASSES + 2)
			keys[heat[i].count]++;
	known = loss_fill(loss, keys);
	for (size_t i = 0; i < count; i++) {
		uint64_t c = heat[i].count;

		heat[i].weight = (double)c - (1 - rate) * loss[c < known ? c : known];
	}
}
