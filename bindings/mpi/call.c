/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - who does a call, and how: see shim.h for the rules. */
#include <stdlib.h>

#include "bindings/mpi/shim.h"

static bool is_reduction(const struct call *call)
{
	return call->kind <= KIND_REDUCE_SCATTER_BLOCK;
}

/* What MPI itself finds wrong, without a word to others. */
static bool is_sound(const struct call *call)
{
	if (call->comm == MPI_COMM_NULL)
		return false;
	if (call->kind == KIND_BARRIER)
		return true;
	if (call->type == MPI_DATATYPE_NULL || call->count < 0)
		return false;
	if (call->kind == KIND_ALLGATHER || call->kind == KIND_ALLGATHERV)
		return call->send == MPI_IN_PLACE ||
		       (call->send_type != MPI_DATATYPE_NULL && call->send_count >= 0);
	return !is_reduction(call) || call->op != MPI_OP_NULL;
}

/* The elements of all ranks; negative: MPI refuses them. */
static MPI_Count elements(const struct call *call, const struct place *place)
{
	MPI_Count sum = 0;

	if (call->kind == KIND_ALLREDUCE || call->kind == KIND_REDUCE || call->kind == KIND_BCAST)
		return call->count;
	if (call->kind == KIND_BARRIER)
		return 0;
	for (int i = 0; i < place->size; i++) {
		if (call_count(call, i) < 0)
			return -1;
		sum += call_count(call, i);
	}
	return sum;
}

/* By what is equal on all ranks alone. Of gathers and broadcasts types and counts may differ, and their bytes not. */
static enum why refuse(const struct call *call, const struct place *place, uint64_t *bytes)
{
	bool has_root = call->kind == KIND_REDUCE || call->kind == KIND_BCAST;
	MPI_Count number = elements(call, place), width = 0;
	enum why why = WHY_NOT;
	struct sum sum;

	if (number < 0 || (has_root && (call->root < 0 || call->root >= place->size)))
		return WHY_ARGUMENT;
	if (is_reduction(call)) {
		why = types_sum(call->type, call->op, place->is_all, &sum);
		width = why ? 0 : sum.width;
	} else if (call->kind != KIND_BARRIER) {
		width = types_bytes(call->type);
	}
	if (why)
		return why;
	*bytes = (uint64_t)(number * width);
	if (width < 0 || (!*bytes && call->kind != KIND_BARRIER))
		return WHY_ARGUMENT;
	return *bytes < place->min_bytes ? WHY_SMALL : WHY_NOT;
}

/* It waits, is non-blocking, or is persistent. */
enum form { FORM_NOW, FORM_FLIES, FORM_LASTS };

/* TALLY_MPI_REQUIRE, and the aggregator was not there when the communicator wanted it: every call that it would do fails. */
static bool is_missed(const struct call *call, const struct place *place)
{
	uint64_t bytes;

	return place->never == WHY_AGGREGATOR && place->is_required && !refuse(call, place, &bytes);
}

/* The place whose tally does the call. NULL: MPI does it, or *code is the error. */
static struct place *decide(const struct call *call, enum form form, int *code)
{
	bool may_wait = form != FORM_FLIES || settings()->is_eager;
	struct place *place = is_sound(call) ? place_of(call->comm, may_wait) : NULL;
	enum why why = WHY_ARGUMENT;
	uint64_t bytes = 0;

	*code = MPI_SUCCESS;
	if (place)
		why = place->never ? place->never : refuse(call, place, &bytes);
	else if (!may_wait && is_sound(call))
		why = WHY_EARLY;
	if (place && is_missed(call, place))
		*code = report_code(
			call->kind,
			report_fault(TALLY_ERR_USAGE,
				     "no aggregator could be used when this communicator "
				     "began (TALLY_MPI_REQUIRE)"),
			NULL);
	if (!why && form != FORM_NOW && !place->can_start)
		why = WHY_PROGRESS;
	if (!why && form == FORM_LASTS && !place->is_ordered)
		why = WHY_ORDER;
	if (place && !place->never && !place->tally) {
		if (may_wait && (!why || place->is_wanted)) {
			*code = place_join(place, call->kind);
			why = why ? why : place->never;
		} else if (!why) {
			place->is_wanted = true;
			why = WHY_EARLY;
		}
	}
	report_count(call->kind, why, bytes);
	return why || *code ? NULL : place;
}

/* MPI's error handlers have their say. */
static int fail(const struct call *call, int code)
{
	if (code)
		PMPI_Comm_call_errhandler(call->comm, code);
	return code;
}

/* This rank alone cannot do it, or all cannot. */
static int fail_here(const struct call *call, struct place *place, int result)
{
	int code = report_code(call->kind, result, place->tally);

	place_give_up(place);
	return fail(call, code);
}

bool call_now(const struct call *call, int *code)
{
	struct place *place = decide(call, FORM_NOW, code);
	struct tally_work *work;
	struct plan plan;
	int result;

	if (!place)
		return fail(call, *code) != MPI_SUCCESS;
	result = plan_make(&plan, call, place);
	if (!result) {
		result = plan_start(&plan, &work);
		if (!result)
			result = poke_wait(&work);
		if (!result)
			result = plan_end(&plan);
		plan_free(&plan);
	}
	if (result)
		*code = fail_here(call, place, result);
	return true;
}

/* A plan that outlives the call. */
static struct plan *plan_keep(const struct call *call, struct place *place, int *result)
{
	struct plan *plan = malloc(sizeof(*plan));

	*result = plan ? plan_make(plan, call, place)
		       : report_fault(TALLY_ERR_NO_MEMORY, "no memory for a plan");
	if (!*result)
		return plan;
	free(plan);
	return NULL;
}

static bool start(const struct call *call, bool is_lasting, MPI_Request *request, int *code)
{
	struct place *place = decide(call, is_lasting ? FORM_LASTS : FORM_FLIES, code);
	struct plan *plan;
	int result;

	if (!place)
		return fail(call, *code) != MPI_SUCCESS;
	plan = plan_keep(call, place, &result);
	if (plan)
		result = is_lasting ? lasting_make(plan, request)
				    : pending_start(plan, true, request);
	if (!result)
		return true;
	if (plan) {
		plan_free(plan);
		free(plan);
	}
	*code = fail_here(call, place, result);
	return true;
}

bool call_start(const struct call *call, MPI_Request *request, int *code)
{
	return start(call, false, request, code);
}

bool call_init(const struct call *call, MPI_Request *request, int *code)
{
	return start(call, true, request, code);
}
