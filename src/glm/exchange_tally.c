/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_tally.c - see exchange_tally.h. */
#include "glm/exchange_tally.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tally.h"

enum {
	DEPTH = 32,
	SLOTS = 2 * DEPTH, /* a rank may be half of the slots ahead without acknowledgements */

	LANES_MEASURED = 193, /* of 64 activations */
	MEASURE_ROUNDS =
		6, /* of both modes in turn: the best of each counts, whatever else runs here */
	MEASURE_SUMS = 40,
};

struct tally_exchange {
	struct exchange exchange;           /* first */
	struct tally_comm *dense, *latency; /* NULL: not in use */
	struct tally_comm *small;           /* one of them */
	struct tally_work *work[DEPTH];
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

	if (tally_iallreduce(lanes, lanes, count, TALLY_INT32, TALLY_SUM, tally->small, NULL,
			     &tally->work[slot]) != TALLY_OK)
		return fail(tally, tally->small);
	return 0;
}

static int tally_flush(struct exchange *exchange)
{
	(void)exchange; /* each leaves at once */
	return 0;
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

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* *best_s becomes less if a round was faster. */
static int sums_time(struct tally_exchange *tally, struct tally_comm *comm, int32_t *lanes,
		     uint32_t count, double *best_s)
{
	double begin_s = now_s(), time_s;

	for (int i = 0; i < MEASURE_SUMS; i++)
		if (tally_allreduce(lanes, lanes, count, TALLY_INT32, TALLY_SUM, comm) != TALLY_OK)
			return fail(tally, comm);
	time_s = now_s() - begin_s;
	if (time_s < *best_s)
		*best_s = time_s;
	return 0;
}

/* The times of all ranks count. */
static int choose(struct tally_exchange *tally, uint32_t count)
{
	const double s_most = 1; /* so that no sum of them in us leaves int32 */
	struct tally_comm *comms[2] = { tally->latency, tally->dense };
	double best_s[2] = { s_most, s_most };
	int32_t time_us[2], *lanes;
	int result = 0;

	if (!count)
		count = LANES_MEASURED;
	if (count > tally->exchange.lanes_max)
		count = tally->exchange.lanes_max;
	lanes = calloc(count, sizeof(*lanes));
	if (!lanes) {
		tally_abort(&tally->exchange);
		return fail(tally, tally->dense);
	}
	for (int i = 0; i < MEASURE_ROUNDS * 2 && !result; i++)
		result = sums_time(tally, comms[i % 2], lanes, count, &best_s[i % 2]);
	free(lanes);
	for (int i = 0; i < 2; i++)
		time_us[i] = (int32_t)(best_s[i] * 1e6);
	if (!result)
		result = tally_sum(&tally->exchange, time_us, 2);
	if (!result && time_us[1] < time_us[0])
		comm_close(&tally->latency);
	return result;
}

static int lanes_take(struct tally_exchange *tally, struct tally_comm *comm)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	if (tally_comm_get_stats(comm, &stats) != TALLY_OK)
		return fail(tally, comm);
	if (stats.lanes < tally->exchange.lanes_max)
		tally->exchange.lanes_max = stats.lanes;
	return 0;
}

static int comms_open(struct tally_exchange *tally, const struct exchange_tally_options *options)
{
	struct tally_options slots = TALLY_OPTIONS_INIT;
	int result;

	if (tally_comm_init_env(&tally->dense, NULL) != TALLY_OK)
		return fail(tally, NULL);
	tally->exchange.rank = tally_comm_rank(tally->dense);
	tally->exchange.ranks = tally_comm_size(tally->dense);
	slots.latency_slots = SLOTS;
	if (options->mode != EXCHANGE_DENSE &&
	    tally_comm_split(tally->dense, 0, (int)tally->exchange.rank, &slots, &tally->latency) !=
		    TALLY_OK)
		return fail(tally, NULL);
	result = lanes_take(tally, tally->dense);
	if (!result && tally->latency)
		result = lanes_take(tally, tally->latency);
	if (!result && options->mode == EXCHANGE_AUTO)
		result = choose(tally, options->lanes);
	tally->small = tally->latency ? tally->latency : tally->dense;
	tally->exchange.name = tally->latency ? "latency" : "dense";
	return result;
}

int exchange_tally(struct exchange **exchange, const struct exchange_tally_options *options,
		   char error[GLM_ERROR_MAX])
{
	static const struct exchange_ops ops = { tally_begin, tally_flush,     tally_end,
						 tally_sum,   tally_sum_float, tally_abort,
						 tally_close };
	struct tally_exchange *tally = calloc(1, sizeof(*tally));

	if (!tally) {
		snprintf(error, GLM_ERROR_MAX, "out of memory");
		return -1;
	}
	tally->exchange = (struct exchange){ .ops = &ops, .depth = DEPTH, .lanes_max = UINT32_MAX };
	if (comms_open(tally, options)) {
		snprintf(error, GLM_ERROR_MAX, "%s", tally->exchange.error);
		tally_close(&tally->exchange);
		return -1;
	}
	*exchange = &tally->exchange;
	return 0;
}
