/* SPDX-License-Identifier: Apache-2.0 */
/* operation.c - the calls that start an operation: what they refuse, and how they enter. */
#include <stdio.h>
#include <string.h>

#include "lib/comm.h"

enum {
	ELEMENT_BYTES = 4, /* of int32 and float32 */
	ELEMENT_ALIGN = 4,
};

/* More than any address space holds; keeps all sums of sizes and chunks far from their wrap. */
static const uint64_t count_max = (uint64_t)1 << 45;

/* What a call asks for. */
struct request {
	const char *call; /* "tally_allreduce" */
	enum control_op_kind kind;
	const void *send;
	void *recv;
	size_t count;
	int dtype, op;
	const struct tally_op_options *options;
};

static const char *const unsupported_dtypes[] = {
	[TALLY_INT8] = "int8",       [TALLY_UINT8] = "uint8",       [TALLY_UINT32] = "uint32",
	[TALLY_INT64] = "int64",     [TALLY_UINT64] = "uint64",     [TALLY_FLOAT16] = "float16",
	[TALLY_FLOAT64] = "float64", [TALLY_BFLOAT16] = "bfloat16",
};
static const char *const unsupported_ops[] = {
	[TALLY_PROD] = "prod",
	[TALLY_MAX] = "max",
	[TALLY_MIN] = "min",
};

static int type_check(const struct report_who *who, const struct request *request)
{
	if (request->dtype < TALLY_INT8 || request->dtype > TALLY_BFLOAT16)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: dtype %d: no such type",
				    request->call, request->dtype);
	if (request->dtype != TALLY_INT32 && request->dtype != TALLY_FLOAT32)
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: dtype %s: this version adds up int32 and float32",
				    request->call, unsupported_dtypes[request->dtype]);
	if (request->op < TALLY_SUM || request->op > TALLY_AVG)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: op %d: no such operation",
				    request->call, request->op);
	if (request->op != TALLY_SUM && request->op != TALLY_AVG)
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: op %s: this version has sum and avg", request->call,
				    unsupported_ops[request->op]);
	return TALLY_OK;
}

static int buffer_check(const struct report_who *who, const struct request *request,
			const char *name, const void *buffer)
{
	if (!buffer && !TAKEN_OUT(NULL_BUFFER))
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: %s is NULL, count %zu",
				    request->call, name, request->count);
	if ((uintptr_t)buffer % ELEMENT_ALIGN && !TAKEN_OUT(UNALIGNED))
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: %s %p is not aligned to %d bytes",
				    request->call, name, buffer, ELEMENT_ALIGN);
	return TALLY_OK;
}

static bool overlaps(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
	uintptr_t a_first = (uintptr_t)a, b_first = (uintptr_t)b;

	return a_bytes && b_bytes && a_first < b_first + b_bytes && b_first < a_first + a_bytes;
}

static int buffers_check(const struct report_who *who, const struct request *request)
{
	uint64_t bytes;
	int result;

	if (request->count > count_max)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: count %zu is above 2^45",
				    request->call, request->count);
	if (!request->count)
		return TALLY_OK;
	result = buffer_check(who, request, "send", request->send);
	if (!result)
		result = buffer_check(who, request, "recv", request->recv);
	if (result)
		return result;
	bytes = (uint64_t)request->count * ELEMENT_BYTES;
	if (request->send != request->recv &&
	    overlaps(request->send, bytes, request->recv, bytes) && !TAKEN_OUT(OVERLAP))
		return report_error(
			who, TALLY_ERR_ARGUMENT,
			"%s: send %p and recv %p overlap in %zu elements: in place means "
			"send == recv",
			request->call, request->send, request->recv, request->count);
	return TALLY_OK;
}

static int options_check(const struct report_who *who, const struct request *request)
{
	const struct tally_op_options *options = request->options;

	if (!options)
		return TALLY_OK;
	if (options->size != sizeof(*options))
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: options->size is %zu, not %zu: set it with "
				    "TALLY_OP_OPTIONS_INIT",
				    request->call, options->size, sizeof(*options));
	if (options->stream < TALLY_STREAM_AUTO || options->stream > TALLY_STREAM_BULK)
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: options->stream %d: no such stream", request->call,
				    options->stream);
	if (options->name && strlen(options->name) >= CONTROL_OP_NAME_BYTES)
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: options->name has more than %d bytes", request->call,
				    CONTROL_OP_NAME_BYTES - 1);
	if (options->flags)
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: options->flags 0x%x: this version has none", request->call,
				    options->flags);
	if (options->deadline_ms)
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: options->deadline_ms: this version has no deadlines",
				    request->call);
	return TALLY_OK;
}

/* Lock held. Buffers of two operations on their way must not meet, but for two that only read. */
static int lent_check(struct tally_comm *comm, const struct request *request)
{
	uint64_t bytes = (uint64_t)request->count * ELEMENT_BYTES;

	if (TAKEN_OUT(LENT_BUFFER))
		return TALLY_OK;
	for (const struct tally_work *work = comm->outstanding.first; work; work = work->next) {
		uint64_t lent = work->op.count * ELEMENT_BYTES;
		const char *mine, *its;

		if (overlaps(request->send, bytes, work->destination, lent)) {
			mine = "send";
			its = "recv";
		} else if (overlaps(request->recv, bytes, work->destination, lent)) {
			mine = its = "recv";
		} else if (overlaps(request->recv, bytes, work->source, lent)) {
			mine = "recv";
			its = "send";
		} else {
			continue;
		}
		return report_error(
			&comm->who, TALLY_ERR_ARGUMENT,
			"%s: %s overlaps the %s buffer of operation #%llu, which is still "
			"lent to it",
			request->call, mine, its, (unsigned long long)work->op.number);
	}
	return TALLY_OK;
}

/* Lock held. TALLY_OK, or why no operation may start. */
static int state_check(struct tally_comm *comm, const struct request *request)
{
	int error = atomic_load(&comm->error);

	if (error)
		return report_again(error, comm->error_text);
	if (comm->state != COMM_RUNNING)
		return report_error(&comm->who, TALLY_ERR_USAGE, "%s after tally_comm_finalize",
				    request->call);
	return TALLY_OK;
}

static uint32_t stream_of(const struct tally_comm *comm, const struct request *request)
{
	int stream = request->options ? request->options->stream : TALLY_STREAM_AUTO;

	if (stream == TALLY_STREAM_AUTO)
		return worker_stream_of(endpoint_worker(comm->endpoint), request->count);
	return stream == TALLY_STREAM_EXPRESS ? MAP_EXPRESS : MAP_BULK;
}

/* Lock held: numbers follow the order in which calls get here. */
static int enter(struct tally_comm *comm, const struct request *request, struct tally_work **out)
{
	struct tally_work *work;
	int result = state_check(comm, request);

	if (!result && request->count)
		result = lent_check(comm, request);
	if (result)
		return result;
	work = work_get(comm);
	if (!work)
		return report_error(&comm->who, TALLY_ERR_NO_MEMORY, "%s: out of memory",
				    request->call);
	work->op = (struct control_op){ .number = comm->next_number++,
					.count = request->count,
					.kind = request->kind,
					.type = (uint32_t)request->dtype,
					.op = (uint32_t)request->op };
	/* A stream that the caller chose for nothing at all is no choice: R-MAP-5. */
	work->op.stream = request->count ? stream_of(comm, request) : MAP_EXPRESS;
	if (request->options && request->options->name)
		strcpy(work->op.name, request->options->name);
	work->source = request->send;
	work->destination = request->recv;
	work->submitted_ns = clock_ns();
	comm->waiting++;
	work_append(&comm->outstanding, work);
	work_submit_waiting(comm);
	*out = work;
	return TALLY_OK;
}

static int request_check(struct tally_comm *comm, const struct request *request)
{
	int result = comm_check(comm, request->call);

	if (!result && request->kind != CONTROL_OP_BARRIER) {
		result = type_check(&comm->who, request);
		if (!result)
			result = buffers_check(&comm->who, request);
	}
	return result ? result : options_check(&comm->who, request);
}

static int start(struct tally_comm *comm, const struct request *request, struct tally_work **out)
{
	struct tally_work *work;
	int result = request_check(comm, request);

	if (result)
		return result;
	if (!out)
		return report_error(&comm->who, TALLY_ERR_ARGUMENT, "%s: work is NULL",
				    request->call);
	comm_lock(comm);
	result = enter(comm, request, &work);
	if (!result) {
		*out = work;
		progress_submitted(comm);
	}
	comm_unlock(comm);
	return result;
}

static int start_and_wait(struct tally_comm *comm, const struct request *request)
{
	struct tally_work *work;
	int result = request_check(comm, request);

	if (result)
		return result;
	if (progress_is_calling())
		return report_error(&comm->who, TALLY_ERR_USAGE,
				    "%s inside an on_done function: it must not wait",
				    request->call);
	comm_lock(comm);
	result = enter(comm, request, &work);
	if (!result) {
		if (comm->is_driven) /* else this thread is about to drive */
			progress_submitted(comm);
		progress_wait(comm, work_is_over, work, UINT64_MAX);
		result = work->result;
		work_put(comm, work);
		if (result)
			report_again(result, comm->error_text);
	}
	comm_unlock(comm);
	return result;
}

int tally_allreduce(const void *send, void *recv, size_t count, int dtype, int op,
		    struct tally_comm *comm)
{
	const struct request request = {
		"tally_allreduce", CONTROL_OP_ALLREDUCE, send, recv, count, dtype, op, NULL
	};

	return start_and_wait(comm, &request);
}

int tally_iallreduce(const void *send, void *recv, size_t count, int dtype, int op,
		     struct tally_comm *comm, const struct tally_op_options *options,
		     struct tally_work **work)
{
	const struct request request = {
		"tally_iallreduce", CONTROL_OP_ALLREDUCE, send, recv, count, dtype, op, options
	};

	return start(comm, &request, work);
}

/* A barrier's type and op are no choice: the numbers are the same on all ranks. */
int tally_barrier(struct tally_comm *comm)
{
	const struct request request = { .call = "tally_barrier",
					 .kind = CONTROL_OP_BARRIER,
					 .dtype = TALLY_INT32 };

	return start_and_wait(comm, &request);
}

int tally_ibarrier(struct tally_comm *comm, const struct tally_op_options *options,
		   struct tally_work **work)
{
	const struct request request = { .call = "tally_ibarrier",
					 .kind = CONTROL_OP_BARRIER,
					 .dtype = TALLY_INT32,
					 .options = options };

	return start(comm, &request, work);
}

int tally_iallreduce_multi(const struct tally_buffer *buffers, size_t n, int dtype, int op,
			   struct tally_comm *comm, const struct tally_op_options *options,
			   struct tally_work **work)
{
	int result = comm_check(comm, "tally_iallreduce_multi");

	(void)buffers, (void)n, (void)dtype, (void)op, (void)options, (void)work;
	return result ? result
		      : report_error(&comm->who, TALLY_ERR_UNSUPPORTED,
				     "tally_iallreduce_multi: not in this version");
}

int tally_group_start(void)
{
	return report_error(NULL, TALLY_ERR_UNSUPPORTED, "tally_group_start: not in this version");
}

int tally_group_end(void)
{
	return report_error(NULL, TALLY_ERR_UNSUPPORTED, "tally_group_end: not in this version");
}
