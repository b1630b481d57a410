/* SPDX-License-Identifier: Apache-2.0 */
/* operation.c - an operation from its request on: how it is made, how it enters, and who waits for it. */
#include "lib/operation.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "lib/group.h"
#include "lib/present.h"
#include "lib/types.h"

enum { LONE_MS = 30000 }; /* of a pair whose other rank has not come, until the only line at WARN */

/* ---- making a work ---- */

static bool buffers_note(struct tally_work *work, const struct request *request)
{
	uint32_t elements = type_of_op(&work->op).elements;
	uint64_t first = 0;

	if (!work_segments(work, request->n))
		return false;

	for (size_t i = 0; i < request->n; i++) {
		const struct tally_buffer *buffer = &request->buffers[i];

		if (!buffer->count)
			continue;
		work->segments[work->segments_count++] =
			(struct endpoint_segment){ first * elements, buffer->count * elements,
						   buffer->send, buffer->recv };
		first += buffer->count;
	}
	work->op.count = first;
	work->op.root = group_list_hash(request->buffers, request->n);
	return true;
}

_Static_assert(TALLY_HALF + 0 == TALLY_OP_HALF + 0 && TALLY_EXACT + 0 == TALLY_OP_EXACT + 0 &&
		       TALLY_STRICT + 0 == TALLY_OP_STRICT + 0,
	       "one set of bits");

/* Does the communicator's wish mean this operation? */
static bool takes_form(const struct request *request, uint32_t flags)
{
	bool is_float = type_is_float((uint32_t)request->dtype) ||
			request->dtype == TALLY_COMPLEX64 || request->dtype == TALLY_COMPLEX128;

	return (request->op == TALLY_SUM || request->op == TALLY_AVG) &&
	       (flags & TALLY_HALF ? request->dtype == TALLY_FLOAT32 : is_float);
}

/* R-WK-17: what TALLY_OP_STRICT is about. */
static bool is_guessed(const struct request *request)
{
	return request_is_sum(request->kind) &&
	       (request->op == TALLY_SUM || request->op == TALLY_AVG) &&
	       (request->dtype == TALLY_FLOAT32 || request->dtype == TALLY_COMPLEX64);
}

/* With what it is sent as, which all ranks must say alike. */
static uint32_t descriptor_type(const struct tally_comm *comm, const struct request *request)
{
	uint32_t flags = request->options ? request->options->flags & REQUEST_FORMS : 0;
	double scale = request->options ? request->options->scale : 0;
	enum lanes_form form = LANES_FREE;
	uint32_t exponent = 0;

	if (flags & TALLY_OP_STRICT && !is_guessed(request))
		flags = 0; /* it asks for nothing here */
	if (!flags && takes_form(request, comm->flags))
		flags = comm->flags;
	if (scale > 0 && request_is_sum(request->kind)) {
		form = LANES_FIXED;
		exponent = (uint32_t)request_exponent(scale, comm->who.size);
	} else if (flags & TALLY_OP_STRICT) {
		form = is_guessed(request) ? LANES_STRICT : LANES_FREE;
	} else if (flags && request_is_sum(request->kind)) {
		form = flags & TALLY_OP_HALF ? LANES_HALF : LANES_EXACT;
	}
	return lanes_word((uint32_t)request->dtype, form, exponent);
}

struct tally_work *operation_make(struct tally_comm *comm, const struct request *request)
{
	const struct tally_op_options *options = request->options;
	struct tally_work *work = work_get(comm);

	if (work) {
		work->op = (struct control_op){ .kind = request->kind,
						.type = descriptor_type(comm, request),
						.op = (uint32_t)request->op };
		if (request->n == 1)
			work->called = request->buffers[0];
	}
	if (!work ||
	    !(request->kind <= CONTROL_OP_BARRIER ? buffers_note(work, request)
						  : collective_note(comm, work, request))) {
		if (work)
			work_drop(comm, work);
		report_error(&comm->who, TALLY_ERR_NO_MEMORY, "%s: out of memory", request->call);
		return NULL;
	}
	work->stream = options ? options->stream : TALLY_STREAM_AUTO;
	work->residual = options ? options->residual : NULL;
	work->deadline_ms = options && options->deadline_ms ? options->deadline_ms
							    : comm->boot.deadline_ms;
	if (options && options->name)
		strcpy(work->op.name, options->name);
	work->reduce = options ? options->reduce : NULL;
	work->reduce_ctx = options ? options->reduce_ctx : NULL;
	return work;
}

/* ---- entering ---- */

/* Buffers of two operations on their way must not meet, but for two that only read: nor may two buffers
 * of one. */
static int lent_refuse(struct tally_comm *comm, const struct tally_work *work, const char *call,
		       const char *mine, const struct lent *other, const char *its)
{
	const struct tally_work *owner = other->owner;

	its = other == &owner->lent_residual ? "residual" : its;
	if (owner == work)
		return report_error(&comm->who, TALLY_ERR_ARGUMENT,
				    "%s: a %s buffer overlaps the %s buffer at %p of the same "
				    "operation",
				    call, mine, its, (void *)other->first);
	return report_error(&comm->who, TALLY_ERR_ARGUMENT,
			    "%s: %s overlaps the %s buffer of operation #%llu, which is still "
			    "lent to it",
			    call, mine, its, (unsigned long long)owner->op.number);
}

static int lend(struct tally_comm *comm, struct tally_work *work, uint32_t idx, const char *call)
{
	const struct endpoint_segment *segment = &work->segments[idx];
	uintptr_t from = (uintptr_t)segment->source, to = (uintptr_t)segment->destination;
	uint64_t bytes = segment->count * lanes_bytes(type_of_op(&work->op).lanes);
	struct lent *reads = &work->lents[2 * idx], *writes = reads + 1;
	const struct lent *other;

	if (from == to && !request_is_sum(work->op.kind))
		to = 0; /* what is not added up stays as it is */
	other = from ? lent_find(comm->lent_writes, from, from + bytes) : NULL;
	if (other)
		return lent_refuse(comm, work, call, "send", other, "recv");
	other = to ? lent_find(comm->lent_writes, to, to + bytes) : NULL;
	if (other)
		return lent_refuse(comm, work, call, "recv", other, "recv");
	if (from && from != to) { /* else nobody may read it either */
		*reads = (struct lent){ .first = from, .end = from + bytes, .owner = work };
		lent_insert(&comm->lent_reads, reads);
	}
	other = to ? lent_find(comm->lent_reads, to, to + bytes) : NULL;
	if (other)
		return lent_refuse(comm, work, call, "recv", other, "send");
	if (to) {
		*writes = (struct lent){ .first = to, .end = to + bytes, .owner = work };
		lent_insert(&comm->lent_writes, writes);
	}
	return TALLY_OK;
}

/* Its own buffers are elsewhere: request_check has seen to that. */
static int lend_residual(struct tally_comm *comm, struct tally_work *work, const char *call)
{
	uintptr_t to = (uintptr_t)work->residual, end = to + work->op.count * sizeof(float);
	const struct lent *read = lent_find(comm->lent_reads, to, end);
	const struct lent *written = lent_find(comm->lent_writes, to, end);

	if (read || written)
		return lent_refuse(comm, work, call, "residual", written ? written : read,
				   written ? "recv" : "send");
	work->lent_residual = (struct lent){ .first = to, .end = end, .owner = work };
	lent_insert(&comm->lent_writes, &work->lent_residual);
	return TALLY_OK;
}

/* Memory has no exponent that ranks agree on before they write. */
static int residual_refuse(struct tally_comm *comm, const struct tally_work *work, const char *call)
{
	enum lanes_form form = lanes_word_form(work->op.type);

	if (!comm->host || !host_has_same_bits(comm->host) || form == LANES_EXACT ||
	    form == LANES_FIXED)
		return TALLY_OK;
	return report_error(
		&comm->who, TALLY_ERR_UNSUPPORTED,
		"%s: options->residual and TALLY_SAME_BITS=1: in shared memory only with "
		"TALLY_OP_EXACT or a scale; without TALLY_SAME_BITS nothing is left",
		call);
}

static int lend_all(struct tally_comm *comm, struct tally_work *work, const char *call)
{
	int result = TALLY_OK;

	memset(work->lents, 0, 2 * work->segments_count * sizeof(*work->lents));
	for (uint32_t i = 0; i < work->segments_count && !result; i++)
		result = lend(comm, work, i, call);
	if (!result && work->residual && work->op.count)
		result = residual_refuse(comm, work, call);
	if (!result && work->residual && work->op.count)
		result = lend_residual(comm, work, call);
	if (result)
		work_unlend(comm, work);
	return result;
}

int operation_may_start(struct tally_comm *comm, const char *call)
{
	bool is_left = comm->state > COMM_RUNNING;
	int error = atomic_load(&comm->error);

	if (error && !(comm->pair_of && is_left)) /* a pair may have been dropped just now */
		return report_again(error, comm->error_text);
	if (is_left)
		return report_error(comm_named(comm), TALLY_ERR_USAGE,
				    "%s after tally_comm_finalize", call);
	return TALLY_OK;
}

/* How it travels; false: not one element of it fits a packet. */
static bool lanes_of(const struct tally_comm *comm, const struct tally_work *work,
		     struct lanes *lanes)
{
	const struct work_way way = work_way(work);
	const struct lanes_call call = {
		.type = way.type,
		.op = way.op,
		.form = lanes_word_form(work->op.type),
		.count = way.count,
		.workers = comm->who.size,
		.lanes = comm->lanes,
		.exponent = lanes_word_exponent(work->op.type),
	};

	return lanes_choose(lanes, &call, NULL);
}

static uint32_t stream_of(const struct tally_comm *comm, const struct tally_work *work,
			  const struct lanes *lanes)
{
	/* A choice for nothing at all is no choice: R-MAP-5, R-WK-11. Latency mode has no streams. */
	if (!work->op.count || comm->latency_slots)
		return MAP_EXPRESS;
	if (work->stream == TALLY_STREAM_AUTO)
		return worker_stream_of(endpoint_worker(comm->endpoint), lanes->shape,
					work_way(work).count);
	return work->stream == TALLY_STREAM_EXPRESS ? MAP_EXPRESS : MAP_BULK;
}

/* What latency mode has not; a group's fused operation comes here, too. */
static int latency_check(const struct tally_comm *comm, const struct tally_work *work,
			 const char *call)
{
	if (work->op.kind != CONTROL_OP_ALLREDUCE && work->op.kind != CONTROL_OP_BARRIER)
		return report_error(&comm->who, TALLY_ERR_UNSUPPORTED,
				    "%s: latency mode has allreduce and barrier", call);
	if (work->op.type != TALLY_INT32)
		return report_error(&comm->who, TALLY_ERR_UNSUPPORTED,
				    "%s: dtype %s: latency mode has int32, as it is", call,
				    report_dtypes[lanes_word_type(work->op.type)]);
	if (work->op.op != TALLY_SUM && work->op.op != TALLY_AVG)
		return report_error(&comm->who, TALLY_ERR_UNSUPPORTED,
				    "%s: op %s: latency mode has sum and avg", call,
				    report_ops[work->op.op]);
	if (work->op.count > comm->lanes)
		return report_error(&comm->who, TALLY_ERR_UNSUPPORTED,
				    "%s: count %llu: in latency mode an operation has to fit one "
				    "packet, which here holds %u elements",
				    call, (unsigned long long)work->op.count, comm->lanes);
	return TALLY_OK;
}

/* How it travels, but in latency mode, where all do alike; or what this job cannot do. */
static int lanes_check(struct tally_comm *comm, struct tally_work *work, const char *call,
		       struct lanes *lanes)
{
	if (comm->latency_slots)
		return latency_check(comm, work, call);
	if (request_is_sum(work->op.kind) && !work_fold(comm, work))
		return report_error(&comm->who, TALLY_ERR_NO_MEMORY,
				    "%s: out of memory: op %s of %s gathers %llu elements of each "
				    "of %u ranks",
				    call, report_ops[work->op.op],
				    report_dtypes[lanes_word_type(work->op.type)],
				    (unsigned long long)work->op.count, comm->who.size);
	if (lanes_of(comm, work, lanes))
		return TALLY_OK;
	if (lanes_word_form(work->op.type) == LANES_HALF)
		return report_error(&comm->who, TALLY_ERR_UNSUPPORTED,
				    "%s: TALLY_OP_HALF is for up to 16 ranks, and these are %u",
				    call, comm->who.size);
	return report_error(&comm->who, TALLY_ERR_UNSUPPORTED,
			    "%s: dtype %s: with %u ranks an element takes more than the %u lanes "
			    "of this job's packets: start the aggregator with more",
			    call, report_dtypes[lanes_word_type(work->op.type)], comm->who.size,
			    comm->lanes);
}

/* Until all are there: a pair's other rank may come late. */
static void hold(struct tally_comm *comm, struct tally_work *work)
{
	work->submitted_ns = clock_ns();
	atomic_store(&work->state, WORK_WAITING);
	work_append(&comm->held, work);
	if (work->deadline_ms)
		work_deadline_set(comm, work);
	if (!comm->lone_ns)
		comm->lone_ns = work->submitted_ns + LONE_MS * 1000000ull;
	if (comm->lone_ns < atomic_load(&comm->deadline_ns))
		atomic_store(&comm->deadline_ns, comm->lone_ns);
	wake_background();
}

static int number_and_submit(struct tally_comm *comm, struct tally_work *work, const char *call)
{
	struct lanes lanes;
	int result = lanes_check(comm, work, call, &lanes);

	if (!result && !work->submitted_ns) /* else it was held */
		result = lend_all(comm, work, call);
	if (result)
		return result;
	work->op.number = comm->next_number++; /* R-MAP-1 */
	for (struct tally_work *member = work->members; member; member = member->next)
		member->op.number = work->op.number; /* for what is said of it */
	work->op.stream = stream_of(comm, work, &lanes);
	if (!work->submitted_ns)
		work->submitted_ns = clock_ns();
	atomic_store(&work->state, WORK_WAITING);
	work_append(&comm->outstanding, work);
	if (work->deadline_ms)
		work_deadline_set(comm, work);
	work_place(comm, work);
	work_submit(comm, work);
	return TALLY_OK;
}

int operation_enter(struct tally_comm *comm, struct tally_work *work, const char *call)
{
	int result = operation_may_start(comm, call);

	if (result || comm->state != COMM_JOINING)
		return result ? result : number_and_submit(comm, work, call);
	result = lend_all(comm, work, call);
	if (!result)
		hold(comm, work);
	return result;
}

/* One that cannot enter breaks the pair: the others would be taken for those before them. */
void operation_enter_held(struct tally_comm *comm)
{
	while (comm->held.first) {
		struct tally_work *work = comm->held.first;

		work_remove(&comm->held, work);
		if (!number_and_submit(comm, work, report_kinds[work->op.kind]))
			continue;
		work_unlend(comm, work);
		snprintf(comm->fault_text, sizeof(comm->fault_text), "%s", report_last());
		comm->wants_error = true;
		comm->fault_cause = CONTROL_REMOTE;
		comm_break(comm, TALLY_ERR_UNSUPPORTED, comm->fault_text);
		work_settle(comm, work, TALLY_ERR_UNSUPPORTED);
	}
	progress_gathered(comm);
}

int operation_may_wait(const struct tally_comm *comm, const char *call)
{
	const struct report_who *who = comm ? &comm->who : NULL;

	present_here();
	if (present_is_calling())
		return report_error(who, TALLY_ERR_USAGE,
				    "%s inside an on_done or reduce function: it must not wait",
				    call);
	if (group_is_open())
		return report_error(who, TALLY_ERR_USAGE,
				    "%s between tally_group_start and tally_group_end: it would "
				    "wait for what has not started",
				    call);
	return TALLY_OK;
}

/* ---- starting ---- */

/* A caller built with an older header, whose struct ends before one of these, keeps working. */
static void options_take(struct request *request, struct tally_op_options *mine)
{
	const size_t before_counts = offsetof(struct tally_op_options, counts);
	const size_t before_reduce = offsetof(struct tally_op_options, reduce);
	const size_t before_scale = offsetof(struct tally_op_options, scale);
	size_t size = request->options ? request->options->size : 0;

	if (size != before_counts && size != before_reduce && size != before_scale)
		return;
	memset(mine, 0, sizeof(*mine));
	memcpy(mine, request->options, size);
	mine->size = sizeof(*mine);
	request->options = mine;
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
	work = operation_make(comm, request);
	if (!work) {
		result = TALLY_ERR_NO_MEMORY;
	} else if (group_is_open()) {
		group_add(work);
	} else {
		result = operation_enter(comm, work, request->call);
		if (result)
			work_drop(comm, work);
	}
	if (!result) {
		*out = work;
		if (!group_is_open() && request->options && request->options->flags & TALLY_OP_MORE)
			progress_gathered(comm);
		else if (!group_is_open())
			progress_submitted(comm);
	}
	comm_unlock(comm);
	return result;
}

int operation_check(struct tally_comm *comm, const struct request *request)
{
	struct tally_op_options options;
	struct request mine = *request;

	options_take(&mine, &options);
	return request_check(comm, &mine);
}

int operation_start(struct tally_comm *comm, const struct request *request, struct tally_work **out)
{
	struct tally_op_options options;
	struct request mine = *request;

	options_take(&mine, &options);
	return start(comm, &mine, out);
}

/* ---- blocking calls that were interrupted ---- */

/* This thread's, and no other's for ever: a pthread_t is given again once its thread has ended. */
static uint64_t thread_serial(void)
{
	static atomic_ullong last;
	static _Thread_local uint64_t serial;

	if (!serial)
		serial = atomic_fetch_add(&last, 1) + 1;
	return serial;
}

static struct tally_work *interrupted_in(const struct work_list *list)
{
	for (struct tally_work *work = list->first; work; work = work->next)
		if (work->is_interrupted && work->interrupted_by == thread_serial())
			return work;
	return NULL;
}

/* Lock held. This thread's, or NULL. */
static struct tally_work *interrupted_find(const struct tally_comm *comm)
{
	struct tally_work *work = NULL;

	if (comm->interrupted_count)
		work = interrupted_in(&comm->outstanding);
	if (!work && comm->interrupted_count)
		work = interrupted_in(&comm->held);
	if (!work && comm->interrupted_count) /* all is there, and it is not worked out yet */
		work = interrupted_in(&comm->calling);
	if (!work && comm->interrupted_count)
		work = interrupted_in(&comm->folding);
	if (!work && comm->interrupted_count)
		work = interrupted_in(&comm->complete);
	return work;
}

static bool is_same_call(const struct tally_work *work, const struct request *request)
{
	const struct tally_buffer *buffer = request->buffers, *before = &work->called;

	if (work->op.kind != request->kind ||
	    work->op.type != descriptor_type(work->comm, request) ||
	    work->op.op != (uint32_t)request->op)
		return false;
	if (request->kind == CONTROL_OP_BARRIER)
		return true;
	if (request->kind > CONTROL_OP_BARRIER && work->op.root != request->root)
		return false;
	return before->count == buffer->count &&
	       (!buffer->count || (before->send == buffer->send && before->recv == buffer->recv));
}

static void interrupted_forget(struct tally_comm *comm, struct tally_work *work)
{
	if (work->is_interrupted)
		comm->interrupted_count--;
	work->is_interrupted = false;
}

/* Lock held. Waits, the first time or again; the work is outstanding, or complete. */
static int wait_for(struct tally_comm *comm, struct tally_work *work, const struct request *request)
{
	int result;

	switch (progress_wait(comm, work_is_over, work, UINT64_MAX, request->may_interrupt)) {
	case PROGRESS_INTERRUPTED:
		if (!work->is_interrupted)
			comm->interrupted_count++;
		work->is_interrupted = true;
		work->interrupted_by = thread_serial();
		return TALLY_INTERRUPTED;
	case PROGRESS_FORKED:
		return comm_check(comm, request->call);
	case PROGRESS_OVER:
	case PROGRESS_LATE:
		break;
	}
	interrupted_forget(comm, work);
	result = work_report(comm, work);
	work_put(comm, work);
	return result;
}

static int other_refuse(const struct tally_comm *comm, const struct tally_work *work,
			const char *call)
{
	char text[96];

	return report_error(&comm->who, TALLY_ERR_USAGE,
			    "%s: this thread's operation #%llu, %s, was interrupted and is still "
			    "on its way: call that again, with the same arguments",
			    call, (unsigned long long)work->op.number, report_op(&work->op, text));
}

/* Lock held. */
static int enter_and_wait(struct tally_comm *comm, const struct request *request, uint64_t *number)
{
	struct tally_work *work;
	int result = TALLY_ERR_NO_MEMORY;

	work = operation_make(comm, request);
	if (!work)
		return result;
	result = operation_enter(comm, work, request->call);
	if (result) {
		work_drop(comm, work);
		return result;
	}
	if (number)
		*number = work->op.number;
	if (comm->is_driven) /* else this thread is about to drive */
		progress_submitted(comm);
	return wait_for(comm, work, request);
}

int operation_run(struct tally_comm *comm, const struct request *request, uint64_t *number)
{
	int result = request_check(comm, request);
	struct tally_work *before;

	if (!result)
		result = operation_may_wait(comm, request->call);
	if (result)
		return result;
	comm_lock(comm);
	before = interrupted_find(comm);
	if (before && is_same_call(before, request))
		result = wait_for(comm, before, request);
	else if (before && !atomic_load(&comm->error))
		result = other_refuse(comm, before, request->call);
	else
		result = enter_and_wait(comm, request, number);
	comm_unlock(comm);
	return result;
}
