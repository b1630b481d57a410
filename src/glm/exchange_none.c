/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_none.c - the exchange of one rank, and what all kinds share: see exchange.h. */
#include <stdlib.h>
#include <string.h>

#include "glm/exchange.h"

enum { DEPTH = 8 };

static int none_tune(struct exchange *exchange, uint32_t total, uint32_t each)
{
	(void)exchange, (void)total, (void)each;
	return 0;
}

static int none_begin(struct exchange *exchange, uint32_t slot, int32_t *lanes, uint32_t count)
{
	(void)exchange, (void)slot, (void)lanes, (void)count;
	return 0;
}

static int none_flush(struct exchange *exchange)
{
	(void)exchange;
	return 0;
}

static enum exchange_state none_end(struct exchange *exchange, uint32_t slot, bool is_wait)
{
	(void)exchange, (void)slot, (void)is_wait;
	return EXCHANGE_DONE;
}

static int none_sum(struct exchange *exchange, int32_t *values, size_t count)
{
	(void)exchange, (void)values, (void)count;
	return 0;
}

static int none_sum_float(struct exchange *exchange, float *values, size_t count)
{
	(void)exchange, (void)values, (void)count;
	return 0;
}

static void none_abort(struct exchange *exchange)
{
	(void)exchange;
}

static void none_close(struct exchange *exchange)
{
	free(exchange);
}

int exchange_none(struct exchange **exchange)
{
	static const struct exchange_ops ops = {
		none_tune, none_begin,     none_flush, none_end,
		none_sum,  none_sum_float, none_abort, none_close
	};
	struct exchange *made = calloc(1, sizeof(*made));

	if (!made)
		return -1;
	*made = (struct exchange){
		.ops = &ops, .ranks = 1, .depth = DEPTH, .lanes_max = UINT32_MAX, .name = "none"
	};
	*exchange = made;
	return 0;
}

int exchange_gather(struct exchange *exchange, int32_t *all, size_t count)
{
	for (uint32_t rank = 0; rank < exchange->ranks; rank++)
		if (rank != exchange->rank)
			memset(all + rank * count, 0, count * sizeof(*all));
	return exchange->ops->sum(exchange, all, exchange->ranks * count);
}
