/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - operations on their way, from their memory to their result. */
#include <stdlib.h>

#include "lib/carrier.h"
#include "lib/comm.h"
#include "lib/present.h"
#include "lib/types.h"

void work_append(struct work_list *list, struct tally_work *work)
{
	work->next = NULL;
	work->prev = list->last;
	if (list->last)
		list->last->next = work;
	else
		list->first = work;
	list->last = work;
}

void work_remove(struct work_list *list, struct tally_work *work)
{
	if (work->prev)
		work->prev->next = work->next;
	else
		list->first = work->next;
	if (work->next)
		work->next->prev = work->prev;
	else
		list->last = work->prev;
	work->next = work->prev = NULL;
}

struct tally_work *work_get(struct tally_comm *comm)
{
	struct tally_work *work = comm->free_works;

	if (work)
		comm->free_works = work->next;
	else
		work = malloc(sizeof(*work));
	if (work)
		*work = (struct tally_work){ .comm = comm };
	return work;
}

bool work_segments(struct tally_work *work, size_t count)
{
	work->segments = &work->segment;
	work->lents = work->lent;
	if (count <= 1)
		return true;
	work->segments = malloc(count * sizeof(*work->segments));
	work->lents = malloc(2 * count * sizeof(*work->lents));
	return work->segments && work->lents;
}

bool work_parts(struct tally_work *work, uint32_t parts)
{
	work->parts = parts;
	work->ends = parts > 1 ? malloc(parts * sizeof(*work->ends)) : &work->end;
	return work->ends;
}

static enum lanes_op lanes_op_of(const struct control_op *op)
{
	switch (op->kind) {
	case CONTROL_OP_BROADCAST:
	case CONTROL_OP_ALLGATHER:
	case CONTROL_OP_GATHER:
	case CONTROL_OP_SCATTER:
	case CONTROL_OP_ALLTOALL:
	case CONTROL_OP_SEND:
		return LANES_COPY;
	default:
		return (enum lanes_op)op->op;
	}
}

static bool is_for_one(const struct tally_work *work)
{
	switch (work->op.kind) {
	case CONTROL_OP_REDUCE:
	case CONTROL_OP_REDUCE_SCATTER:
	case CONTROL_OP_GATHER:
	case CONTROL_OP_SCATTER:
	case CONTROL_OP_ALLTOALL:
	case CONTROL_OP_SEND:
		return work->comm->who.size > 1;
	default:
		return false;
	}
}

/* R-MAP-8: of what is added up, a reduce_scatter alone is in parts. */
static uint32_t parts_of(const struct tally_work *work)
{
	return work->op.kind == CONTROL_OP_REDUCE_SCATTER ? work->comm->who.size : work->parts;
}

/* What is gathered all ranks want, whoever is to have the result. */
struct work_way work_way(const struct tally_work *work)
{
	const struct type elements = type_of_op(&work->op);
	const enum lanes_type type = elements.lanes;
	const struct fold *fold = work->fold;

	if (fold)
		return (struct work_way){ .type = type,
					  .op = LANES_COPY,
					  .count = fold->ranks * fold->count,
					  .segments = fold->segments,
					  .segments_count = fold->segments_count,
					  .ends = fold->ends,
					  .parts = fold->ranks,
					  .mine = work->comm->who.rank };
	return (struct work_way){ .type = type,
				  .op = lanes_op_of(&work->op),
				  .count = work->op.count * elements.elements,
				  .segments = work->segments,
				  .segments_count = work->segments_count,
				  .ends = work->ends,
				  .parts = parts_of(work),
				  .mine = work->mine,
				  .is_for_one = is_for_one(work) };
}

bool work_fold(struct tally_comm *comm, struct tally_work *work)
{
	const struct fold_op op = { lanes_word_type(work->op.type), (int)work->op.op, work->reduce,
				    work->reduce_ctx };

	if (type_lanes_can(op.dtype, op.op))
		return true;
	if (!comm->has_told_fold)
		report_log(&comm->who, TALLY_LOG_INFO,
			   "%s of %s is not summed on the way: each rank gathers what all ranks "
			   "bring, and works it out. tally_stats.gathered counts such operations",
			   report_ops[op.op], report_dtypes[op.dtype]);
	comm->has_told_fold = true;
	work->fold = fold_new(&op, work->op.count * type_of(op.dtype).elements, comm->who.size,
			      comm->who.rank, work->segments, work->segments_count);
	return work->fold;
}

static void segments_free(struct tally_work *work)
{
	if (work->segments != &work->segment)
		free(work->segments);
	if (work->lents != work->lent)
		free(work->lents);
	if (work->ends != &work->end)
		free(work->ends);
	free(work->fold);
	work->segments = NULL;
	work->lents = NULL;
	work->ends = NULL;
	work->fold = NULL;
	work->segments_count = 0;
}

void work_drop(struct tally_comm *comm, struct tally_work *work)
{
	segments_free(work);
	work->next = comm->free_works;
	comm->free_works = work;
}

void work_put(struct tally_comm *comm, struct tally_work *work)
{
	work_remove(&comm->complete, work);
	work_drop(comm, work);
}

void work_unlend(struct tally_comm *comm, struct tally_work *work)
{
	for (uint32_t i = 0; i < 2 * work->segments_count; i++) {
		struct lent *lent = &work->lents[i];

		if (lent->end)
			lent_remove(i % 2 ? &comm->lent_writes : &comm->lent_reads, lent);
		lent->end = 0;
	}
	if (work->lent_residual.end)
		lent_remove(&comm->lent_writes, &work->lent_residual);
	work->lent_residual.end = 0;
}

/* Nothing more happens to it but that its holder looks. */
void work_rest(struct tally_comm *comm, struct tally_work *work)
{
	atomic_store(&work->state, WORK_COMPLETE);
	if (work->is_detached)
		work_drop(comm, work);
	else
		work_append(&comm->complete, work);
}

static struct endpoint_op endpoint_op_of(const struct tally_comm *comm, struct tally_work *work)
{
	/* What this rank does not have, or does not want, is said by segments alone. */
	bool is_whole = !work->fold && (work->op.kind == CONTROL_OP_ALLREDUCE ||
					work->op.kind == CONTROL_OP_BARRIER);
	const struct work_way way = work_way(work);
	return (struct endpoint_op){
		.descriptor = { .number = work->op.number,
				.kind = work->op.kind,
				.type = work->op.type,
				.op = work->op.op,
				.root = work->op.root,
				.count = work->op.count,
				.name = work->op.name },
		.source = way.segments_count ? way.segments[0].source : NULL,
		.destination = way.segments_count ? way.segments[0].destination : NULL,
		.segments = way.segments,
		.segments_count = way.segments_count > 1 || !is_whole ? way.segments_count : 0,
		.count = way.count,
		.ends = way.ends,
		.parts = way.parts,
		.mine = way.mine,
		.is_for_one = way.is_for_one,
		.rest = work->residual,
		.type = way.type,
		.op = way.op,
		.form = lanes_word_form(work->op.type),
		.exponent = lanes_word_exponent(work->op.type),
		.stream = (int)work->op.stream,
		.cookie = (uintptr_t)work,
		.is_out_of_range = &work->is_out_of_range,
		.first_ns = comm->timeline ? &work->first_ns : NULL,
		.place = &work->place,
	};
}

/* R-WK-17: in the order of the numbers, whatever waits for room. */
void work_place(struct tally_comm *comm, struct tally_work *work)
{
	const struct endpoint_op op = endpoint_op_of(comm, work);

	if (comm->host) /* it guesses nothing */
		return;
	endpoint_place(comm->endpoint, &op, &work->place);
}

static bool endpoint_takes(struct tally_comm *comm, struct tally_work *work)
{
	const struct endpoint_op op = endpoint_op_of(comm, work);

	if (carrier_submit(comm, &op))
		return false; /* -EAGAIN: its ring is full */
	atomic_store(&work->state, WORK_SUBMITTED);
	return true;
}

/* Packets have an order for each stream, memory has one for all: that of the numbers. */
static struct waiting *waiting_of(struct tally_comm *comm, const struct tally_work *work)
{
	return &comm->waiting[comm->host ? 0 : work->op.stream];
}

void work_submit(struct tally_comm *comm, struct tally_work *work)
{
	struct waiting *waiting = waiting_of(comm, work);

	if (!waiting->first && endpoint_takes(comm, work))
		return;
	work->next_waiting = NULL;
	if (waiting->first)
		waiting->last->next_waiting = work;
	else
		waiting->first = work;
	waiting->last = work;
}

void work_deadline_set(struct tally_comm *comm, struct tally_work *work)
{
	work->deadline_ns = work->submitted_ns + work->deadline_ms * 1000000ull;
	if (work->deadline_ns >= atomic_load(&comm->deadline_ns))
		return;
	atomic_store(&comm->deadline_ns, work->deadline_ns);
	wake_background(); /* it sleeps until a later one */
}

/* In order inside each stream; a full bulk ring does not hold up the express stream. */
bool work_submit_waiting(struct tally_comm *comm)
{
	bool any = false;

	for (uint32_t stream = 0; stream < MAP_STREAMS; stream++) {
		struct waiting *waiting = &comm->waiting[stream];

		while (waiting->first && endpoint_takes(comm, waiting->first)) {
			waiting->first = waiting->first->next_waiting;
			any = true;
		}
	}
	return any;
}

/* For whoever lets the lock go next: progress_callbacks. */
static void queue(struct tally_comm *comm, struct tally_work *work)
{
	work_append(&comm->calling, work);
	atomic_store(&work->state, WORK_CALLING);
	present_moved();
}

void work_settle(struct tally_comm *comm, struct tally_work *work, int result)
{
	work->result = result;
	if (work->done_fn) {
		queue(comm, work);
	} else {
		work_rest(comm, work);
	}
}

static void timeline_note(struct tally_comm *comm, const struct tally_work *work, int result)
{
	const struct timeline_op op = { .op = work->op,
					.submitted_ns = work->submitted_ns,
					.first_ns = work->first_ns,
					.complete_ns = clock_ns(),
					.result = result,
					.comm = comm->timeline_comm };

	timeline_add(comm->timeline, &op);
}

static void finish(struct tally_comm *comm, struct tally_work *work, int result)
{
	work_unlend(comm, work);
	if (comm->timeline)
		timeline_note(comm, work, result);
	if (result == TALLY_OK || result == TALLY_ERR_RANGE) {
		comm->completed++;
		comm->elements += work->op.count;
		if (comm->last_complete <= work->op.number)
			comm->last_complete = work->op.number + 1;
	}
	while (work->members) {
		struct tally_work *member = work->members;

		work->members = member->next;
		work_settle(comm, member, result);
	}
	work_settle(comm, work, result);
	wake_waiters(comm); /* a driver, too: another thread may have worked it out */
}

void work_complete(struct tally_comm *comm, struct tally_work *work, int result)
{
	/* Only when all is broken, oldest first: it is the first that waits. */
	if (atomic_load(&work->state) == WORK_WAITING)
		waiting_of(comm, work)->first = work->next_waiting;
	work_remove(&comm->outstanding, work);
	if (work->fold && result == TALLY_OK)
		queue(comm, work);
	else
		finish(comm, work, result);
}

void work_folded(struct tally_comm *comm, struct tally_work *work)
{
	free(work->fold);
	work->fold = NULL;
	comm->folded++;
	finish(comm, work, TALLY_OK);
}

int work_report(const struct tally_comm *comm, const struct tally_work *work)
{
	char text[96];

	if (work->result == TALLY_OK)
		return TALLY_OK;
	if (work->result == atomic_load(&comm->error))
		return report_again(work->result, comm->error_text);
	if (work->result != TALLY_ERR_RANGE)
		return report_again(work->result,
				    "tally_group_end has not started this operation, and said why");
	return report_error(&comm->who, TALLY_ERR_RANGE,
			    "operation #%llu, %s: some rank's element is above %u, (2^31 - 1) / %u "
			    "ranks: the sum might not fit. Nothing was stored, on any rank; the "
			    "communicator goes on",
			    (unsigned long long)work->op.number, report_op(&work->op, text),
			    INT32_MAX / comm->who.size, comm->who.size);
}

bool work_is_over(struct tally_comm *comm, void *work)
{
	(void)comm;
	return atomic_load(&((struct tally_work *)work)->state) == WORK_COMPLETE;
}

static void blocked_add(uint32_t *blocked, uint64_t *waits, uint64_t number)
{
	if (!(*blocked)++ || number < *waits)
		*waits = number;
}

/* What a thread waits for: an operation, or all of them. */
static uint64_t thread_number(const struct tally_comm *comm, const struct blocked *thread)
{
	if (thread->is_over == work_is_over)
		return ((const struct tally_work *)thread->arg)->op.number;
	return comm->outstanding.last ? comm->outstanding.last->op.number : comm->next_number;
}

uint32_t work_blocked(struct tally_comm *comm, uint64_t *waits)
{
	uint32_t blocked = 0;

	*waits = 0;
	for (const struct blocked *at = comm->blocked; at; at = at->next)
		if (!at->is_over(comm, at->arg))
			blocked_add(&blocked, waits, thread_number(comm, at));
	for (const struct tally_work *work = comm->outstanding.first; work; work = work->next) {
		if (work->done_fn)
			blocked_add(&blocked, waits, work->op.number);
		for (const struct tally_work *member = work->members; member; member = member->next)
			if (member->done_fn)
				blocked_add(&blocked, waits, work->op.number);
	}
	return blocked;
}
