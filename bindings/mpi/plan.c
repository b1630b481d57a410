/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - a call as tally has it. What one rank's memory makes necessary is done here, by that rank alone: copies of
 * what is not aligned or not contiguous, and MPI's places of results that are not tally's.
 */
#include <stdlib.h>
#include <string.h>

#include "bindings/mpi/shim.h"

enum { PIECE_BYTES = 1 << 30 }; /* MPI_Pack's sizes are int */

/* ---- copying ---- */

/* One side of MPI_Pack at a time: elements of a type, and plain memory. */
static int pack(bool is_in, void *elements, MPI_Count count, MPI_Datatype type, void *plain)
{
	MPI_Count width = types_bytes(type), lower, extent;
	MPI_Count step = width > 0 ? PIECE_BYTES / width : count;
	int code = PMPI_Type_get_extent_x(type, &lower, &extent);

	if (!step)
		code = MPI_ERR_COUNT; /* an element of more than PIECE_BYTES */
	for (MPI_Count i = 0; i < count && !code; i += step) {
		int number = (int)(count - i < step ? count - i : step), position = 0;
		char *element = (char *)elements + i * extent, *bytes = (char *)plain + i * width;
		int size = (int)(number * width);

		code = is_in ? PMPI_Pack(element, number, type, bytes, size, &position,
					 MPI_COMM_SELF)
			     : PMPI_Unpack(bytes, size, &position, element, number, type,
					   MPI_COMM_SELF);
		if (!code && position != size)
			code = MPI_ERR_INTERN; /* an MPI that packs more than the elements */
	}
	return code;
}

static int no_memory(const struct plan *plan, size_t bytes)
{
	return report_fault(TALLY_ERR_NO_MEMORY, "rank %d has no memory for %zu bytes",
			    plan->place->rank, bytes);
}

static int copy_alloc(const struct plan *plan, size_t bytes, void **copy)
{
	*copy = aligned_alloc(64, (bytes + 64) / 64 * 64);
	return *copy ? TALLY_OK : no_memory(plan, bytes);
}

/* Elements of tally's send are at `from`, plain memory. */
static int copy_send(struct plan *plan, size_t bytes)
{
	int result = copy_alloc(plan, bytes, &plan->copied_send);

	plan->from = plan->send;
	plan->from_bytes = bytes;
	plan->send = plan->copied_send;
	return result;
}

static int copy_recv(struct plan *plan, size_t bytes)
{
	int result = copy_alloc(plan, bytes, &plan->copied_recv);

	plan->to = plan->recv;
	plan->to_bytes = bytes;
	plan->recv = plan->copied_recv;
	return result;
}

/* The program may free its type while the request is in flight. */
static int type_keep(MPI_Datatype type, MPI_Datatype *kept)
{
	return PMPI_Type_dup(type, kept)
		       ? report_fault(TALLY_ERR_INTERNAL, "MPI does not copy a datatype")
		       : TALLY_OK;
}

/* ---- sums ---- */

static int counts_make(struct plan *plan, const struct call *call, size_t per_element)
{
	size_t *counts = calloc((size_t)plan->place->size, sizeof(*counts));

	if (!counts)
		return no_memory(plan, (size_t)plan->place->size * sizeof(*counts));
	for (int i = 0; i < plan->place->size; i++)
		counts[i] = (size_t)call_count(call, i) * per_element;
	plan->counts = counts;
	return TALLY_OK;
}

/* What of a reduce_scatter's vector is before this rank's part; after the last: all. */
static size_t before(const struct plan *plan, int rank)
{
	size_t sum = 0;

	for (int i = 0; i < rank; i++)
		sum += plan->counts ? plan->counts[i] : plan->count;
	return sum;
}

static bool is_aligned(const void *at, size_t bytes)
{
	return (uintptr_t)at % bytes == 0;
}

static int sum_make(struct plan *plan, const struct call *call)
{
	const struct place *place = plan->place;
	bool is_scatter = call->kind == KIND_REDUCE_SCATTER ||
			  call->kind == KIND_REDUCE_SCATTER_BLOCK;
	bool is_in_place = call->send == MPI_IN_PLACE;
	size_t width, send_bytes, recv_bytes;
	int result = TALLY_OK;
	struct sum sum;

	types_sum(call->type, call->op, true, &sum);
	width = sum.width / sum.elements;
	plan->dtype = sum.dtype;
	plan->op = sum.op;
	plan->send = is_in_place ? call->recv : call->send;
	plan->recv = call->kind == KIND_REDUCE && place->rank != call->root ? NULL : call->recv;
	if (call->kind == KIND_REDUCE_SCATTER)
		result = counts_make(plan, call, sum.elements);
	if (result)
		return result;
	plan->count = plan->counts ? plan->counts[place->rank] : (size_t)call->count * sum.elements;
	recv_bytes = plan->count * width;
	send_bytes = is_scatter ? before(plan, place->size) * width : recv_bytes;
	if (!is_aligned(plan->send, width))
		result = copy_send(plan, send_bytes);
	/* In place, MPI has the part at the vector's beginning, and the rest stays as it is. */
	if (!result && plan->recv &&
	    ((is_scatter && is_in_place) || !is_aligned(plan->recv, width)))
		result = copy_recv(plan, recv_bytes);
	return result;
}

/* ---- moves ---- */

static int broadcast_make(struct plan *plan, const struct call *call)
{
	bool is_root = plan->place->rank == call->root;
	int result;

	plan->count = (size_t)(call->count * types_bytes(call->type));
	plan->send = is_root ? call->recv : NULL;
	plan->recv = call->recv;
	if (types_is_plain(call->type))
		return TALLY_OK;
	if (is_root) {
		result = copy_send(plan, plan->count);
		plan->recv = plan->copied_send;
		plan->from_count = call->count;
		return result ? result : type_keep(call->type, &plan->from_type);
	}
	result = copy_recv(plan, plan->count);
	plan->to_count = call->count;
	return result ? result : type_keep(call->type, &plan->to_type);
}

/* Where the parts of an allgatherv begin, in the program's memory. True: tally can use that. */
static int displs_make(struct plan *plan, const struct call *call, bool *can_use)
{
	MPI_Count lower, extent;
	int size = plan->place->size;
	MPI_Aint *displs = calloc((size_t)size, sizeof(*displs));

	plan->to_displs = displs;
	plan->displs = calloc((size_t)size, sizeof(*plan->displs));
	if (!displs || !plan->displs)
		return no_memory(plan, (size_t)size * sizeof(*displs));
	if (PMPI_Type_get_extent_x(call->type, &lower, &extent))
		return report_fault(TALLY_ERR_INTERNAL, "MPI knows no extent of a datatype");
	for (int i = 0; i < size; i++) {
		displs[i] = call_displ(call, i) * (MPI_Aint)extent;
		if (displs[i] < 0)
			*can_use = false;
		plan->displs[i] = (size_t)displs[i];
	}
	return TALLY_OK;
}

/* Where this rank's part is in the program's memory. */
static char *part_of(const struct plan *plan, const struct call *call)
{
	MPI_Count lower, extent = 0;
	int rank = plan->place->rank;

	if (plan->to_displs)
		return (char *)call->recv + plan->to_displs[rank];
	PMPI_Type_get_extent_x(call->type, &lower, &extent);
	return (char *)call->recv + rank * call->count * extent;
}

static int gather_send(struct plan *plan, const struct call *call)
{
	bool is_in_place = call->send == MPI_IN_PLACE;
	MPI_Datatype type = is_in_place ? call->type : call->send_type;
	int result;

	plan->send = is_in_place ? part_of(plan, call) : call->send;
	if (types_is_plain(type) && !(is_in_place && plan->copied_recv))
		return TALLY_OK;
	result = copy_send(plan, plan->count);
	if (result || types_is_plain(type))
		return result;
	plan->from_count = is_in_place ? call_count(call, plan->place->rank) : call->send_count;
	return type_keep(type, &plan->from_type);
}

static int gather_make(struct plan *plan, const struct call *call)
{
	MPI_Count width = types_bytes(call->type);
	bool can_use = types_is_plain(call->type);
	int result = TALLY_OK;

	plan->count = (size_t)(call_count(call, plan->place->rank) * width);
	plan->recv = call->recv;
	if (call->kind == KIND_ALLGATHERV)
		result = counts_make(plan, call, (size_t)width);
	if (!result && call->kind == KIND_ALLGATHERV)
		result = displs_make(plan, call, &can_use);
	if (!result && !can_use) {
		result = copy_recv(plan, before(plan, plan->place->size));
		free(plan->displs);
		plan->displs = NULL;
		plan->to_count = call->count;
		if (!result)
			result = type_keep(call->type, &plan->to_type);
	}
	return result ? result : gather_send(plan, call);
}

int plan_make(struct plan *plan, const struct call *call, struct place *place)
{
	int result = TALLY_OK;

	*plan = (struct plan){ .place = place,
			       .kind = call->kind,
			       .root = (uint32_t)call->root,
			       .dtype = TALLY_UINT8,
			       .from_type = MPI_DATATYPE_NULL,
			       .to_type = MPI_DATATYPE_NULL };
	place_get(place);
	if (call->kind <= KIND_REDUCE_SCATTER_BLOCK)
		result = sum_make(plan, call);
	else if (call->kind == KIND_BCAST)
		result = broadcast_make(plan, call);
	else if (call->kind != KIND_BARRIER)
		result = gather_make(plan, call);
	if (result)
		plan_free(plan);
	return result;
}

void plan_free(struct plan *plan)
{
	free(plan->counts);
	free(plan->displs);
	free(plan->to_displs);
	free(plan->copied_send);
	free(plan->copied_recv);
	if (plan->from_type != MPI_DATATYPE_NULL)
		PMPI_Type_free(&plan->from_type);
	if (plan->to_type != MPI_DATATYPE_NULL)
		PMPI_Type_free(&plan->to_type);
	place_put(plan->place);
}

/* ---- doing it ---- */

static int submit(const struct plan *plan, struct tally_work **work)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_comm *tally = plan->place->tally;

	options.counts = plan->counts;
	options.displs = plan->displs;
	switch (plan->kind) {
	case KIND_ALLREDUCE:
		return tally_iallreduce(plan->send, plan->recv, plan->count, plan->dtype, plan->op,
					tally, &options, work);
	case KIND_REDUCE:
		return tally_ireduce(plan->send, plan->recv, plan->count, plan->dtype, plan->op,
				     plan->root, tally, &options, work);
	case KIND_REDUCE_SCATTER:
	case KIND_REDUCE_SCATTER_BLOCK:
		return tally_ireduce_scatter(plan->send, plan->recv, plan->count, plan->dtype,
					     plan->op, tally, &options, work);
	case KIND_BCAST:
		return tally_ibroadcast(plan->send, plan->recv, plan->count, plan->dtype,
					plan->root, tally, &options, work);
	case KIND_ALLGATHER:
	case KIND_ALLGATHERV:
		return tally_iallgather(plan->send, plan->recv, plan->count, plan->dtype, tally,
					&options, work);
	case KIND_BARRIER:
	case KIND_COUNT:
		break;
	}
	return tally_ibarrier(tally, &options, work);
}

int plan_start(struct plan *plan, struct tally_work **work)
{
	int result = TALLY_OK;

	if (plan->from_type != MPI_DATATYPE_NULL) {
		if (pack(true, (void *)(uintptr_t)plan->from, plan->from_count, plan->from_type,
			 plan->copied_send))
			result = report_fault(TALLY_ERR_INTERNAL,
					      "MPI does not pack what rank %d sends",
					      plan->place->rank);
	} else if (plan->copied_send && plan->from_bytes) {
		memcpy(plan->copied_send, plan->from, plan->from_bytes);
	}
	return result ? result : submit(plan, work);
}

/* The parts are one after the other in copied_recv. */
static int spread(const struct plan *plan)
{
	MPI_Count width = types_bytes(plan->to_type);
	const char *at = plan->copied_recv;
	int code = MPI_SUCCESS;

	for (int i = 0; i < plan->place->size && !code; i++) {
		MPI_Count count = (MPI_Count)plan->counts[i] / (width ? width : 1);

		code = pack(false, (char *)plan->to + plan->to_displs[i], count, plan->to_type,
			    (void *)(uintptr_t)at);
		at += plan->counts[i];
	}
	return code;
}

int plan_end(struct plan *plan)
{
	MPI_Count parts = plan->kind == KIND_ALLGATHER ? plan->place->size : 1;
	int code = MPI_SUCCESS;

	if (plan->to_type != MPI_DATATYPE_NULL)
		code = plan->to_displs ? spread(plan)
				       : pack(false, plan->to, parts * plan->to_count,
					      plan->to_type, plan->copied_recv);
	else if (plan->copied_recv && plan->to_bytes)
		memcpy(plan->to, plan->copied_recv, plan->to_bytes);
	return code ? report_fault(TALLY_ERR_INTERNAL, "MPI does not unpack what rank %d receives",
				   plan->place->rank)
		    : TALLY_OK;
}
