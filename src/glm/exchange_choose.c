/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_choose.c - which of two ways an exchange is faster at: see exchange.h. */
#include <stdlib.h>

#include "glm/exchange.h"
#include "util/clock.h"

enum {
	ROUNDS = 6, /* of both ways in turn: the best of each counts, whatever else runs here */
	REPEATS = 20,
};

int exchange_sums(struct exchange *exchange, int32_t *lanes, uint32_t total, uint32_t each)
{
	for (uint32_t at = 0; at < total;) {
		uint32_t count = 0, part;

		for (; count < exchange->depth && at < total; at += part) {
			part = total - at < each ? total - at : each;
			if (exchange->ops->begin(exchange, count++, lanes + at, part))
				return -1;
		}
		if (exchange->ops->flush(exchange))
			return -1;
		for (uint32_t slot = 0; slot < count; slot++)
			if (exchange->ops->end(exchange, slot, true) != EXCHANGE_DONE)
				return -1;
	}
	return 0;
}

/* *best_s becomes less if this was faster. */
static int sums_time(struct exchange *exchange, int32_t *lanes, uint32_t total, uint32_t each,
		     double *best_s)
{
	double begin_s = clock_s(), time_s;

	for (int i = 0; i < REPEATS; i++)
		if (exchange_sums(exchange, lanes, total, each))
			return -1;
	time_s = clock_s() - begin_s;
	if (time_s < *best_s)
		*best_s = time_s;
	return 0;
}

int exchange_choose(struct exchange *exchange, exchange_use_fn use, uint32_t total,
		    const uint32_t each[2])
{
	const double s_most = 1; /* so that no sum of them in us leaves int32 */
	double best_s[2] = { s_most, s_most };
	int32_t *lanes = calloc(total, sizeof(*lanes)), time_us[2];
	int result = lanes ? 0 : -1;

	if (!lanes)
		exchange->ops->abort(exchange);
	for (int i = 0; i < ROUNDS * 2 && !result; i++) {
		use(exchange, i % 2);
		result = sums_time(exchange, lanes, total, each[i % 2], &best_s[i % 2]);
	}
	free(lanes);
	for (int i = 0; i < 2; i++)
		time_us[i] = (int32_t)(best_s[i] * 1e6);
	if (result || exchange->ops->sum(exchange, time_us, 2)) /* the times of all ranks count */
		return -1;
	use(exchange, time_us[1] < time_us[0]);
	return 0;
}
