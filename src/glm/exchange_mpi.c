/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_mpi.c - see exchange_mpi.h. */
#include "glm/exchange_mpi.h"

#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	DEPTH = 32,
	AT_ONCE = 1 << 24, /* values of a large sum: MPI counts in int */
};

struct mpi_exchange {
	struct exchange exchange; /* first */
	MPI_Comm small, large;    /* orders of their own */
	bool may_block, is_blocking;
	struct {
		int32_t *lanes;
		uint32_t count;
		MPI_Request request;
	} slot[DEPTH];
	uint32_t begun[DEPTH]; /* slots that have not been flushed, in order */
	uint32_t begun_count;
	atomic_bool has_failed, is_aborted;
};

static struct mpi_exchange *mpi_of(struct exchange *exchange)
{
	return (struct mpi_exchange *)exchange;
}

/* The sentence of the first one that fails; -1. */
static int fail(struct mpi_exchange *mpi, int code)
{
	char text[MPI_MAX_ERROR_STRING] = "given up";
	int length;

	if (code != MPI_SUCCESS)
		MPI_Error_string(code, text, &length);
	if (!atomic_exchange(&mpi->has_failed, true))
		snprintf(mpi->exchange.error, sizeof(mpi->exchange.error), "MPI: %s", text);
	return -1;
}

static int mpi_begin(struct exchange *exchange, uint32_t slot, int32_t *lanes, uint32_t count)
{
	struct mpi_exchange *mpi = mpi_of(exchange);

	mpi->slot[slot].lanes = lanes;
	mpi->slot[slot].count = count;
	mpi->begun[mpi->begun_count++] = slot;
	return 0;
}

static int mpi_flush(struct exchange *exchange)
{
	struct mpi_exchange *mpi = mpi_of(exchange);
	int code = MPI_SUCCESS;

	for (uint32_t i = 0; i < mpi->begun_count && code == MPI_SUCCESS; i++) {
		uint32_t slot = mpi->begun[i];
		int32_t *lanes = mpi->slot[slot].lanes;
		int count = (int)mpi->slot[slot].count;

		mpi->slot[slot].request = MPI_REQUEST_NULL;
		if (mpi->is_blocking)
			code = MPI_Allreduce(MPI_IN_PLACE, lanes, count, MPI_INT32_T, MPI_SUM,
					     mpi->small);
		else
			code = MPI_Iallreduce(MPI_IN_PLACE, lanes, count, MPI_INT32_T, MPI_SUM,
					      mpi->small, &mpi->slot[slot].request);
	}
	mpi->begun_count = 0;
	return code == MPI_SUCCESS ? 0 : fail(mpi, code);
}

/* MPI_Test yields as MPI_Wait does, and a rank that gives up can be heard. */
static enum exchange_state mpi_end(struct exchange *exchange, uint32_t slot, bool is_wait)
{
	struct mpi_exchange *mpi = mpi_of(exchange);
	int is_done = 0, code = MPI_SUCCESS;

	do {
		if (atomic_load(&mpi->is_aborted))
			break;
		code = MPI_Test(&mpi->slot[slot].request, &is_done, MPI_STATUS_IGNORE);
	} while (is_wait && !is_done && code == MPI_SUCCESS);
	if (code == MPI_SUCCESS && is_done)
		return EXCHANGE_DONE;
	if (code == MPI_SUCCESS && !is_wait && !atomic_load(&mpi->is_aborted))
		return EXCHANGE_BUSY;
	fail(mpi, code);
	return EXCHANGE_FAILED;
}

/* Of four bytes each. */
static int sum_large(struct mpi_exchange *mpi, void *values, size_t count, MPI_Datatype type)
{
	for (size_t at = 0; at < count; at += AT_ONCE) {
		int part = count - at < AT_ONCE ? (int)(count - at) : AT_ONCE;
		int code = MPI_SUCCESS;

		if (!atomic_load(&mpi->is_aborted))
			code = MPI_Allreduce(MPI_IN_PLACE, (char *)values + at * 4, part, type,
					     MPI_SUM, mpi->large);
		if (code != MPI_SUCCESS || atomic_load(&mpi->is_aborted))
			return fail(mpi, code);
	}
	return 0;
}

static int mpi_sum(struct exchange *exchange, int32_t *values, size_t count)
{
	return sum_large(mpi_of(exchange), values, count, MPI_INT32_T);
}

static int mpi_sum_float(struct exchange *exchange, float *values, size_t count)
{
	return sum_large(mpi_of(exchange), values, count, MPI_FLOAT);
}

static void mpi_abort(struct exchange *exchange)
{
	atomic_store(&mpi_of(exchange)->is_aborted, true);
}

static void mpi_close(struct exchange *exchange)
{
	struct mpi_exchange *mpi = mpi_of(exchange);

	if (atomic_load(&mpi->is_aborted) || atomic_load(&mpi->has_failed))
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Comm_free(&mpi->small);
	MPI_Comm_free(&mpi->large);
	MPI_Finalize();
	free(mpi);
}

/* ---- which call ---- */

static void use(struct exchange *exchange, int way)
{
	struct mpi_exchange *mpi = mpi_of(exchange);

	mpi->is_blocking = way;
	exchange->name = way ? "mpi-blocking" : "mpi";
}

static int mpi_tune(struct exchange *exchange, uint32_t total, uint32_t each)
{
	const uint32_t parts[2] = { each ? each : total, each ? each : total };

	if (!mpi_of(exchange)->may_block)
		return 0;
	if (!exchange_choose(exchange, use, total, parts))
		return 0;
	return fail(mpi_of(exchange), MPI_SUCCESS);
}

static int comms_open(struct mpi_exchange *mpi, const struct exchange_mpi_options *options)
{
	int needed = options->threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, given;
	int rank, ranks;

	MPI_Init_thread(NULL, NULL, needed, &given); /* what fails in it ends the process */
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	mpi->exchange.rank = (uint32_t)rank;
	mpi->exchange.ranks = (uint32_t)ranks;
	MPI_Comm_dup(MPI_COMM_WORLD, &mpi->small);
	MPI_Comm_dup(MPI_COMM_WORLD, &mpi->large);
	MPI_Comm_set_errhandler(mpi->small, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(mpi->large, MPI_ERRORS_RETURN);
	if (given < needed) {
		mpi_abort(&mpi->exchange);
		snprintf(mpi->exchange.error, sizeof(mpi->exchange.error),
			 "this MPI has no MPI_THREAD_MULTIPLE: --threads 1");
		return -1;
	}
	mpi->may_block = options->threads == 1 && !options->is_nonblocking;
	return 0;
}

int exchange_mpi(struct exchange **exchange, const struct exchange_mpi_options *options,
		 char error[GLM_ERROR_MAX])
{
	static const struct exchange_ops ops = { mpi_tune, mpi_begin,     mpi_flush, mpi_end,
						 mpi_sum,  mpi_sum_float, mpi_abort, mpi_close };
	struct mpi_exchange *mpi = calloc(1, sizeof(*mpi));

	if (!mpi) {
		snprintf(error, GLM_ERROR_MAX, "out of memory");
		return -1;
	}
	mpi->exchange = (struct exchange){
		.ops = &ops, .depth = DEPTH, .lanes_max = UINT32_MAX, .name = "mpi"
	};
	if (comms_open(mpi, options)) {
		fprintf(stderr, "%s\n", mpi->exchange.error); /* close does not return */
		mpi_close(&mpi->exchange);
		return -1;
	}
	*exchange = &mpi->exchange;
	return 0;
}
