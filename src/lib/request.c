/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - what a call asks for: what of it is refused, before anything is made. */
#include <math.h>
#include <string.h>

#include "lib/group.h"
#include "lib/operation.h"
#include "lib/present.h"
#include "lib/types.h"

enum {
	BUFFERS_MAX = 1 << 24, /* of one operation */
};

static const uint64_t count_max = (uint64_t)1 << COLLECTIVE_COUNT_BITS;

bool request_is_sum(enum control_op_kind kind)
{
	return kind == CONTROL_OP_ALLREDUCE || kind == CONTROL_OP_REDUCE ||
	       kind == CONTROL_OP_REDUCE_SCATTER;
}

bool request_has_one_form(uint32_t flags)
{
	uint32_t forms = flags & REQUEST_FORMS;

	return !(forms & (forms - 1));
}

/* What TALLY_USER needs, and nothing else. */
static int reduce_check(const struct report_who *who, const struct request *request)
{
	bool has_reduce = request->options && request->options->reduce;
	bool is_user = request_is_sum(request->kind) && request->op == TALLY_USER;

	if (is_user && !has_reduce)
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: op user: options->reduce is not set (a call without "
				    "options cannot have it: tally_iallreduce and its kin do)",
				    request->call);
	if (has_reduce && !is_user)
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: options->reduce is set: it is for op TALLY_USER",
				    request->call);
	return TALLY_OK;
}

static int type_check(const struct report_who *who, const struct request *request)
{
	int dtype = request->dtype, op = request->op;

	if (dtype < TALLY_INT8 || dtype > TALLY_COMPLEX128)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: dtype %d: no such type",
				    request->call, dtype);
	if (dtype > TALLY_BFLOAT16 && dtype < TALLY_BOOL)
		return report_error(who, TALLY_ERR_UNSUPPORTED, "%s: dtype %s: not in this version",
				    request->call, report_dtypes[dtype]);
	if (!request_is_sum(request->kind))
		return TALLY_OK;
	if (op < TALLY_SUM || op > TALLY_USER)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: op %d: no such operation",
				    request->call, op);
	if (!type_lanes_can((uint32_t)dtype, op) && !type_fold_can((uint32_t)dtype, op))
		return report_error(who, TALLY_ERR_UNSUPPORTED, "%s: op %s of %s: %s",
				    request->call, report_ops[op], report_dtypes[dtype],
				    dtype == TALLY_BOOL ? "truth values have bits, min and max"
				    : dtype > TALLY_BOOL
					    ? "complex numbers have sum, prod and avg"
					    : "bits and truth values are for integers");
	return TALLY_OK;
}

/* Pairs are whole. */
static int pairs_check(const struct report_who *who, const struct request *request)
{
	uint32_t pair = request_is_sum(request->kind) ? type_pair(request->op) : 1;

	for (size_t i = 0; pair > 1 && i < request->n; i++)
		if (request->buffers[i].count % pair)
			return report_error(who, TALLY_ERR_ARGUMENT,
					    "%s: op %s: count %zu is odd: elements come in pairs",
					    request->call, report_ops[request->op],
					    request->buffers[i].count);
	return TALLY_OK;
}

static bool overlaps(const void *a, const void *b, uint64_t bytes)
{
	uintptr_t a_first = (uintptr_t)a, b_first = (uintptr_t)b;

	return a_first < b_first + bytes && b_first < a_first + bytes;
}

static int buffer_check(const struct report_who *who, const struct request *request, size_t idx)
{
	const struct tally_buffer *buffer = &request->buffers[idx];
	char name[48], other[48];
	int result = TALLY_OK;

	if (buffer->count > count_max)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: %s %zu is above 2^45",
				    request->call, extent_name(request, idx, "count", name),
				    buffer->count);
	for (uint32_t side = 0; side < 2 && !result; side++) {
		const struct extent extent = { side ? "recv" : "send", idx,
					       side ? buffer->recv : buffer->send, buffer->count };

		result = extent_check(who, request, &extent);
	}
	if (result || !buffer->count)
		return result;
	if (buffer->send != buffer->recv &&
	    overlaps(buffer->send, buffer->recv,
		     (uint64_t)buffer->count * type_bytes((uint32_t)request->dtype)))
		return report_error(
			who, TALLY_ERR_ARGUMENT,
			"%s: %s %p and %s %p overlap in %zu elements: in place means send == recv",
			request->call, extent_name(request, idx, "send", name), buffer->send,
			extent_name(request, idx, "recv", other), buffer->recv, buffer->count);
	return TALLY_OK;
}

static int buffers_check(const struct report_who *who, const struct request *request)
{
	uint64_t sum = 0;

	if (request->n > BUFFERS_MAX)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: n %zu is above %d", request->call,
				    request->n, BUFFERS_MAX);
	if (!request->buffers && request->n)
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: buffers is NULL, n %zu",
				    request->call, request->n);
	for (size_t i = 0; i < request->n; i++) {
		int result = buffer_check(who, request, i);

		if (result)
			return result;
		sum += request->buffers[i].count; /* 2^24 times 2^45: no wrap */
	}
	if (sum > count_max)
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: the counts of all buffers are above 2^45 together",
				    request->call);
	return TALLY_OK;
}

/* Do a buffer's side and `count` float32 at `residual` overlap? */
static bool meets(const void *side, const struct tally_buffer *buffer, const float *residual,
		  uint64_t count)
{
	uintptr_t first = (uintptr_t)side, rest = (uintptr_t)residual;

	return first < rest + count * sizeof(float) && rest < first + buffer->count * sizeof(float);
}

static int residual_check(const struct report_who *who, const struct request *request)
{
	const float *residual = request->options->residual;
	uint64_t count = 0;
	bool overlapping = false;

	if (!residual)
		return TALLY_OK;
	if (request->kind != CONTROL_OP_ALLREDUCE || request->dtype != TALLY_FLOAT32 ||
	    (request->op != TALLY_SUM && request->op != TALLY_AVG))
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: options->residual is for sum and avg of float32 by an "
				    "allreduce",
				    request->call);
	if (group_is_open())
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: options->residual in a group: give the buffers to "
				    "tally_iallreduce_multi",
				    request->call);
	for (size_t i = 0; i < request->n; i++)
		count += request->buffers[i].count;
	for (size_t i = 0; i < request->n; i++)
		overlapping =
			overlapping ||
			meets(request->buffers[i].send, &request->buffers[i], residual, count) ||
			meets(request->buffers[i].recv, &request->buffers[i], residual, count);
	if (overlapping || (uintptr_t)residual % sizeof(float))
		return report_error(who, TALLY_ERR_ARGUMENT, "%s: options->residual %p %s",
				    request->call, (const void *)residual,
				    overlapping ? "overlaps a buffer" : "is not aligned");
	return TALLY_OK;
}

int request_exponent(double scale, uint32_t ranks)
{
	struct quant_scale one;
	int above; /* the least power of two that is */

	quant_scale(&one, ranks, LANES_EXPONENT_ONE);
	frexp(scale, &above);
	return LANES_EXPONENT_ONE + one.shift - (above - 1);
}

static int scale_check(const struct report_who *who, const struct request *request)
{
	double scale = request->options->scale;
	int exponent;

	if (scale == 0 || request->kind == CONTROL_OP_BARRIER)
		return TALLY_OK;
	if (!request_is_sum(request->kind) || request->dtype != TALLY_FLOAT32 ||
	    (request->op != TALLY_SUM && request->op != TALLY_AVG))
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: options->scale is for sum and avg of float32",
				    request->call);
	if (request->options->flags & REQUEST_FORMS)
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: options->scale with TALLY_OP_HALF, TALLY_OP_EXACT or "
				    "TALLY_OP_STRICT: choose one",
				    request->call);
	exponent = scale > 0 && isfinite(scale) ? request_exponent(scale, who->size) : 0;
	if (exponent < 1 || exponent > LANES_EXPONENT_MAX)
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: options->scale is %g: with %u ranks it is from 2^%d to "
				    "2^%d",
				    request->call, scale, who->size,
				    request_exponent(1, who->size) - LANES_EXPONENT_MAX,
				    request_exponent(1, who->size) - 1);
	return TALLY_OK;
}

static int options_check(const struct report_who *who, const struct request *request)
{
	int result;

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
	if (options->flags & ~(uint32_t)(TALLY_OP_MORE | REQUEST_FORMS))
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: options->flags 0x%x: this version has TALLY_OP_MORE, "
				    "TALLY_OP_HALF, TALLY_OP_EXACT and TALLY_OP_STRICT",
				    request->call, options->flags);
	if (!request_has_one_form(options->flags))
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: options->flags has more than one of TALLY_OP_HALF, "
				    "TALLY_OP_EXACT and TALLY_OP_STRICT: choose one",
				    request->call);
	if ((options->counts || options->displs) &&
	    (request->kind <= CONTROL_OP_BROADCAST || request->kind == CONTROL_OP_SEND))
		return report_error(who, TALLY_ERR_ARGUMENT,
				    "%s: options->%s is set: it is for gather, allgather, scatter, "
				    "reduce_scatter and alltoall",
				    request->call, options->counts ? "counts" : "displs");
	if (options->flags & TALLY_OP_HALF && request->kind != CONTROL_OP_BARRIER &&
	    !request_is_sum(request->kind))
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: TALLY_OP_HALF is for sum and avg of float32",
				    request->call);
	if (options->flags & TALLY_OP_HALF && request_is_sum(request->kind) &&
	    (request->dtype != TALLY_FLOAT32 ||
	     (request->op != TALLY_SUM && request->op != TALLY_AVG)))
		return report_error(who, TALLY_ERR_UNSUPPORTED,
				    "%s: TALLY_OP_HALF with %s of %s: it is for sum and avg of "
				    "float32",
				    request->call, report_ops[request->op],
				    report_dtypes[request->dtype]);
	result = scale_check(who, request);
	return result ? result : residual_check(who, request);
}

int request_check(struct tally_comm *comm, const struct request *request)
{
	int result = comm_check(comm, request->call);

	present_here();
	if (!result && request->kind != CONTROL_OP_BARRIER) {
		result = type_check(&comm->who, request);
		if (!result && request->kind == CONTROL_OP_ALLREDUCE)
			result = buffers_check(&comm->who, request);
	}
	if (!result)
		result = options_check(&comm->who, request);
	if (!result)
		result = reduce_check(&comm->who, request);
	if (!result)
		result = pairs_check(&comm->who, request);
	if (!result && request->kind > CONTROL_OP_BARRIER)
		result = collective_check(comm, request);
	return result;
}
