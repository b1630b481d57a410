/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - what was offloaded, what was not and why; and what went wrong. */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bindings/mpi/shim.h"

static const char *const names[KIND_COUNT] = {
	[KIND_ALLREDUCE] = "Allreduce",
	[KIND_REDUCE] = "Reduce",
	[KIND_REDUCE_SCATTER] = "Reduce_scatter",
	[KIND_REDUCE_SCATTER_BLOCK] = "Reduce_scatter_block",
	[KIND_BCAST] = "Bcast",
	[KIND_ALLGATHER] = "Allgather",
	[KIND_ALLGATHERV] = "Allgatherv",
	[KIND_BARRIER] = "Barrier",
};

static const char *const whys[WHY_COUNT] = {
	[WHY_ARGUMENT] = "empty, or arguments that MPI refuses",
	[WHY_INTER] = "on an intercommunicator",
	[WHY_ALONE] = "on a communicator of one rank",
	[WHY_HOST] = "all ranks on one host, where MPI has shared memory (TALLY_MPI_MIN_BYTES=N "
		     "offloads from N bytes on)",
	[WHY_SMALL] = "below TALLY_MPI_MIN_BYTES",
	[WHY_TYPE] = "of a datatype that tally does not reduce",
	[WHY_OP] = "with an operation that tally does not have",
	[WHY_WRAPS] = "sums of unsigned integers, which wrap where tally's saturate",
	[WHY_GATHERED] = "would be gathered, not summed on the way (TALLY_MPI_ALL=1 offloads)",
	[WHY_EARLY] =
		"non-blocking, before a blocking call could join (TALLY_MPI_EAGER=1 offloads)",
	[WHY_ORDER] = "persistent, and ranks may start them in orders of their own "
		      "(TALLY_MPI_PERSISTENT=1: in one order; offloads)",
	[WHY_AGGREGATOR] = "no aggregator could be used",
	[WHY_SHIM] = "not all ranks have this library, in this version",
	[WHY_PROGRESS] = "non-blocking, and this MPI completes no requests of others",
};

static atomic_uint_fast64_t calls[KIND_COUNT][WHY_COUNT], bytes[KIND_COUNT];

void report_count(enum kind kind, enum why why, uint64_t more)
{
	atomic_fetch_add_explicit(&calls[kind][why], 1, memory_order_relaxed);
	if (!why)
		atomic_fetch_add_explicit(&bytes[kind], more, memory_order_relaxed);
}

void report_say(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "tally-mpi: %s\n", line);
}

void report_print(int rank, int size)
{
	uint64_t offloaded = 0, not_offloaded = 0;

	for (int kind = 0; kind < KIND_COUNT; kind++) {
		offloaded += calls[kind][WHY_NOT];
		for (int why = WHY_NOT + 1; why < WHY_COUNT; why++)
			not_offloaded += calls[kind][why];
	}
	report_say("rank %d of %d: %" PRIu64 " calls offloaded, %" PRIu64 " left to MPI", rank,
		   size, offloaded, not_offloaded);
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		if (calls[kind][WHY_NOT])
			report_say("  MPI_%s: %" PRIuFAST64 " offloaded, %" PRIuFAST64 " bytes",
				   names[kind], calls[kind][WHY_NOT], bytes[kind]);
		for (int why = WHY_NOT + 1; why < WHY_COUNT; why++)
			if (calls[kind][why])
				report_say("  MPI_%s: %" PRIuFAST64 " left to MPI: %s", names[kind],
					   calls[kind][why], whys[why]);
	}
}

static _Thread_local char fault[160];

int report_fault(int result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(fault, sizeof(fault), format, args);
	va_end(args);
	return result;
}

int report_code(enum kind kind, int result, struct tally_comm *comm)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int code = MPI_SUCCESS;
	char text[MPI_MAX_ERROR_STRING];
	const char *last = *fault ? fault : tally_get_last_error(comm);

	last = *last ? last : tally_strerror(result);
	report_say("MPI_%s: %s", names[kind], last);
	snprintf(text, sizeof(text), "MPI_%s over tally: %.160s", names[kind], last);
	*fault = '\0';
	pthread_mutex_lock(&lock);
	if (code == MPI_SUCCESS && PMPI_Add_error_code(MPI_ERR_OTHER, &code))
		code = MPI_ERR_OTHER;
	if (code != MPI_ERR_OTHER)
		PMPI_Add_error_string(code, text);
	pthread_mutex_unlock(&lock);
	return code;
}
