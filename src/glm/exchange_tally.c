/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_tally.c - see exchange_tally.h. */
#include "glm/exchange_tally.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tally.h"

enum {
	DEPTH = 32,
	SLOTS = 2 * DEPTH, /* a rank may be half of the slots ahead without acknowledgements */
};

struct tally_exchange {
	struct exchange exchange;           /* first */
	struct tally_comm *dense, *latency; /* NULL: not in use */
	struct tally_comm *small;           /* one of them */
	struct tally_work *work[DEPTH];
	struct begun {
		uint32_t slot, count;
		int32_t *lanes;
	} begun[DEPTH]; /* not flushed yet */
	uint32_t begun_count;
	bool is_tuned; /* one of them was asked for, or has been chosen */
	atomic_bool has_failed;
};

static struct tally_exchange *tally_of(struct exchange *exchange)
{
	return (struct tally_exchange *)exchange;
}

/* The sentence of the first one that fails; -1. */
static int fail(struct tally_exchange *tally, const struct tally_comm *comm)
{
	if (!atomic_exchange(&tally->has_failed, true))
		snprintf(tally->exchange.error, sizeof(tally->exchange.error), "%s",
			 tally_get_last_error(comm));
	return -1;
}

static int tally_begin(struct exchange *exchange, uint32_t slot, int32_t *lanes, uint32_t count)
{
	struct tally_exchange *tally = tally_of(exchange);

	tally->begun[tally->begun_count++] =
		(struct begun){ .slot = slot, .count = count, .lanes = lanes };
	return 0;
}

/* All but the last wait for it, so that their packets leave as one message. */
static int tally_flush(struct exchange *exchange)
{
	struct tally_exchange *tally = tally_of(exchange);
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	int result = TALLY_OK;

	for (uint32_t i = 0; i < tally->begun_count && result == TALLY_OK; i++) {
		const struct begun *begun = &tally->begun[i];

		options.flags = i + 1 < tally->begun_count ? TALLY_OP_MORE : 0;
		result = tally_iallreduce(begun->lanes, begun->lanes, begun->count, TALLY_INT32,
					  TALLY_SUM, tally->small, &options,
					  &tally->work[begun->slot]);
	}
	tally->begun_count = 0;
	return result == TALLY_OK ? 0 : fail(tally, tally->small);
}

static enum exchange_state tally_end(struct exchange *exchange, uint32_t slot, bool is_wait)
{
	struct tally_exchange *tally = tally_of(exchange);
	int result = tally_wait(&tally->work[slot], is_wait ? -1 : 0);

	if (result == TALLY_OK)
		return EXCHANGE_DONE;
	if (result == TALLY_IN_PROGRESS)
		return EXCHANGE_BUSY;
	fail(tally, tally->small);
	return EXCHANGE_FAILED;
}

static int tally_sum(struct exchange *exchange, int32_t *values, size_t count)
{
	struct tally_exchange *tally = tally_of(exchange);

	if (tally_allreduce(values, values, count, TALLY_INT32, TALLY_SUM, tally->dense) !=
	    TALLY_OK)
		return fail(tally, tally->dense);
	return 0;
}

static int tally_sum_float(struct exchange *exchange, float *values, size_t count)
{
	struct tally_exchange *tally = tally_of(exchange);

	if (tally_allreduce(values, values, count, TALLY_FLOAT32, TALLY_SUM, tally->dense) !=
	    TALLY_OK)
		return fail(tally, tally->dense);
	return 0;
}

static void tally_abort(struct exchange *exchange)
{
	struct tally_exchange *tally = tally_of(exchange);

	if (tally->latency)
		tally_comm_abort(tally->latency);
	tally_comm_abort(tally->dense);
}

static void comm_close(struct tally_comm **comm)
{
	if (*comm && tally_comm_get_async_error(*comm) == TALLY_OK)
		tally_comm_finalize(*comm);
	tally_comm_destroy(*comm);
	*comm = NULL;
}

static void tally_close(struct exchange *exchange)
{
	struct tally_exchange *tally = tally_of(exchange);

	comm_close(&tally->latency);
	comm_close(&tally->dense);
	free(tally);
}

/* ---- which mode ---- */

enum { WAY_LATENCY, WAY_DENSE };

static void use(struct exchange *exchange, int way)
{
	struct tally_exchange *tally = tally_of(exchange);

	tally->small = way == WAY_DENSE ? tally->dense : tally->latency;
}

/* The other one goes. An operation of dense mode has no bounds. */
static void settle(struct tally_exchange *tally)
{
	if (tally->small == tally->dense) {
		tally->exchange.lanes_max = UINT32_MAX;
		comm_close(&tally->latency);
	}
	tally->exchange.name = tally->latency ? "latency" : "dense";
	tally->is_tuned = true;
}

static int tally_tune(struct exchange *exchange, uint32_t total, uint32_t each)
{
	struct tally_exchange *tally = tally_of(exchange);
	uint32_t most = exchange->lanes_max;
	const uint32_t parts[2] = { each ? each : most, each ? each : total };
	int result = 0;

	if (tally->is_tuned)
		return 0;
	if (parts[WAY_LATENCY] > most)
		use(exchange, WAY_DENSE);
	else
		result = exchange_choose(exchange, use, total, parts);
	if (!result)
		settle(tally);
	else if (!atomic_load(&tally->has_failed))
		snprintf(exchange->error, sizeof(exchange->error), "out of memory");
	return result;
}

/* Not every aggregator has latency mode (a P4 switch runs one program). It tells all ranks so, and dense mode does too. */
static int latency_open(struct tally_exchange *tally, enum exchange_mode mode)
{
	struct tally_options slots = TALLY_OPTIONS_INIT;
	int result;

	if (mode == EXCHANGE_DENSE)
		return 0;
	slots.latency_slots = SLOTS;
	result = tally_comm_split(tally->dense, 0, (int)tally->exchange.rank, &slots,
				  &tally->latency);
	return result == TALLY_OK || (result == TALLY_ERR_NO_RESOURCE && mode == EXCHANGE_AUTO)
		       ? 0
		       : fail(tally, NULL);
}

static int comms_open(struct tally_exchange *tally, const struct exchange_tally_options *options)
{
	struct tally_options strict = TALLY_OPTIONS_INIT;
	struct tally_stats stats = TALLY_STATS_INIT;

	strict.flags = TALLY_STRICT; /* a training that is resumed ends with the same bits */
	if (tally_comm_init_env(&tally->dense, &strict) != TALLY_OK)
		return fail(tally, NULL);
	tally->exchange.rank = tally_comm_rank(tally->dense);
	tally->exchange.ranks = tally_comm_size(tally->dense);
	if (options->agree && options->agree(options->arg, &tally->exchange, tally->exchange.error))
		return -1;
	if (latency_open(tally, options->mode))
		return -1;
	if (tally->latency && tally_comm_get_stats(tally->latency, &stats) != TALLY_OK)
		return fail(tally, tally->latency);
	tally->exchange.lanes_max = stats.lanes;
	use(&tally->exchange, tally->latency ? WAY_LATENCY : WAY_DENSE);
	if (options->mode != EXCHANGE_AUTO || !tally->latency)
		settle(tally);
	return 0;
}

int exchange_tally(struct exchange **exchange, const struct exchange_tally_options *options,
		   char error[GLM_ERROR_MAX])
{
	static const struct exchange_ops ops = { tally_tune,  tally_begin, tally_flush,
						 tally_end,   tally_sum,   tally_sum_float,
						 tally_abort, tally_close };
	struct tally_exchange *tally = calloc(1, sizeof(*tally));

	if (!tally) {
		snprintf(error, GLM_ERROR_MAX, "out of memory");
		return -1;
	}
	tally->exchange = (struct exchange){ .ops = &ops, .depth = DEPTH, .name = "auto" };
	if (comms_open(tally, options)) {
		snprintf(error, GLM_ERROR_MAX, "%s", tally->exchange.error);
		tally_close(&tally->exchange);
		return -1;
	}
	*exchange = &tally->exchange;
	return 0;
}
