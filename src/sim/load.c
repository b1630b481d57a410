/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/load.h"

#include <stdlib.h>
#include <string.h>

enum {
	GUARD_BYTES = 32, /* on both sides of each vector that is written */
	GUARD = 0xa5,
	KIND_ALLREDUCE = 1,
	KIND_BARRIER = 2,
	KIND_GATHER = 3,
	KIND_SCATTER = 4,
};

/* What a rank says of a vector of which it has not all, or does not want all. */
struct gather {
	struct scenario_parts parts;
	struct endpoint_segment segments[2 * SIM_WORKERS_MAX];
};

struct state {
	uint32_t submitted, done; /* a bit per rank */
	void *source[SIM_WORKERS_MAX];
	uint8_t *guarded[SIM_WORKERS_MAX]; /* guard, destination, guard */
	struct gather *gather[SIM_WORKERS_MAX];
	bool is_out_of_range[SIM_WORKERS_MAX];
};

struct load {
	const struct scenario *scenario;
	struct check *check;
	uint32_t first; /* of this life */
	uint64_t elements;
	struct state state[SIM_OPS_MAX];
};

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

/* What this rank calls as operation number `index`. */
static const struct scenario_op *op_of(const struct load *load, uint32_t rank, uint32_t index)
{
	const struct scenario *scenario = load->scenario;

	if (scenario->kind == SCENARIO_disagree && index == scenario->strike_op &&
	    rank == scenario->odd_rank)
		return &scenario->odd_op;
	return &scenario->op[index];
}

static size_t op_bytes(const struct scenario_op *op)
{
	return op->count * lanes_bytes(op->type);
}

struct load *load_open(const struct scenario *scenario, struct check *check)
{
	struct load *load = calloc(1, sizeof(*load));

	if (!load)
		return NULL;
	load->scenario = scenario;
	load->check = check;
	return load;
}

static void state_free(struct state *state)
{
	for (uint32_t w = 0; w < SIM_WORKERS_MAX; w++) {
		free(state->source[w]);
		free(state->guarded[w]);
		free(state->gather[w]);
		state->gather[w] = NULL;
		state->source[w] = NULL;
		state->guarded[w] = NULL;
	}
}

void load_close(struct load *load)
{
	if (!load)
		return;
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		state_free(&load->state[i]);
	free(load);
}

/* As it is before; what the rank does not want stays so. */
static void guarded_fill(const struct state *state, const struct scenario_op *op, uint32_t rank,
			 uint8_t *guarded)
{
	memset(guarded, GUARD, op_bytes(op) + 2 * GUARD_BYTES);
	if (op->is_in_place >> rank & 1)
		memcpy(guarded + GUARD_BYTES, state->source[rank], op_bytes(op));
}

/* R-WK-13. A root's number says whose the parts are and where they end: their seed does. */
static void gather_submit(struct gather *gather, const struct scenario_op *op, uint32_t rank,
			  struct endpoint_op *submit)
{
	const struct scenario_parts *parts = &gather->parts;
	uint32_t bytes = lanes_bytes(op->type);
	uint64_t first = 0;

	bool is_sum = op->op != LANES_COPY;

	submit->descriptor.kind = is_sum ? KIND_SCATTER : KIND_GATHER;
	submit->descriptor.root = (uint32_t)op->parts;
	submit->ends = is_sum ? NULL : parts->ends;
	submit->parts = parts->count;
	submit->mine = parts->mine[rank];
	submit->is_for_one = parts->is_for_one;
	submit->segments = gather->segments;
	for (uint32_t i = 0; i < 2 * parts->count; first = parts->pieces[i++]) {
		struct endpoint_segment piece = { .first = first,
						  .count = parts->pieces[i] - first };

		if (is_sum || i / 2 == submit->mine)
			piece.source = (const uint8_t *)submit->source + first * bytes;
		if (parts->wanted[rank] >> i & 1)
			piece.destination = (uint8_t *)submit->destination + first * bytes;
		if (piece.count)
			gather->segments[submit->segments_count++] = piece;
	}
}

void load_submit(struct load *load, uint32_t rank, uint32_t index, struct endpoint_op *submit)
{
	const struct scenario_op *op = op_of(load, rank, index);
	struct state *state = &load->state[index];
	size_t bytes = op_bytes(op);
	bool is_in_place = op->is_in_place >> rank & 1;

	if (!state->source[rank]) {
		state->source[rank] = need(malloc(bytes + 1));
		state->guarded[rank] = need(malloc(bytes + 2 * GUARD_BYTES));
		oracle_fill(op, rank, state->source[rank]);
		if (op->parts) {
			state->gather[rank] = need(malloc(sizeof(struct gather)));
			scenario_parts(op, load->scenario->workers, &state->gather[rank]->parts);
		}
	}
	uint8_t *destination = state->guarded[rank] + GUARD_BYTES;
	guarded_fill(state, op, rank, state->guarded[rank]);
	state->submitted |= 1u << rank;
	*submit = (struct endpoint_op){
		.descriptor = { .number = index - load->first,
				.kind = op->is_barrier ? KIND_BARRIER : KIND_ALLREDUCE,
				.type = (uint32_t)op->type,
				.op = op->op,
				.count = op->count,
				.name = "" },
		.source = is_in_place ? destination : state->source[rank],
		.destination = destination,
		.count = op->count,
		.type = op->type,
		.op = op->op,
		.stream = op->stream,
		.cookie = index,
		.is_out_of_range = &state->is_out_of_range[rank],
	};
	state->is_out_of_range[rank] = false;
	if (state->gather[rank])
		gather_submit(state->gather[rank], op, rank, submit);
}

static void guards_check(struct load *load, uint32_t rank, uint32_t index)
{
	const uint8_t *guarded = load->state[index].guarded[rank];
	size_t bytes = op_bytes(op_of(load, rank, index));

	for (size_t i = 0; i < GUARD_BYTES; i++)
		if (guarded[i] != GUARD || guarded[GUARD_BYTES + bytes + i] != GUARD)
			check_fail(load->check, UINT32_MAX, 0,
				   "w%u wrote beside its result of operation %u", rank, index);
}

/* The rank's memory is as `expected`, which is given back. */
static void memory_verify(struct load *load, uint32_t rank, uint32_t index, uint8_t *expected)
{
	const struct scenario_op *op = &load->scenario->op[index];
	const uint8_t *found = load->state[index].guarded[rank];
	size_t bytes = op_bytes(op) + 2 * GUARD_BYTES, i = 0;

	while (i < bytes && found[i] == expected[i])
		i++;
	if (i < bytes)
		check_fail(load->check, UINT32_MAX, 0,
			   "operation %u, a %s: byte %zu of w%u is %02x, not %02x", index,
			   op->op == LANES_COPY ? "gather" : "scatter", i - GUARD_BYTES, rank,
			   found[i], expected[i]);
	free(expected);
}

static uint8_t *memory_before(const struct load *load, uint32_t rank, uint32_t index)
{
	const struct scenario_op *op = &load->scenario->op[index];
	uint8_t *memory = need(malloc(op_bytes(op) + 2 * GUARD_BYTES));

	guarded_fill(&load->state[index], op, rank, memory);
	return memory;
}

/* The rank has what it wants of a gather, and nothing else is written. */
static void gather_verify(struct load *load, uint32_t rank, uint32_t index)
{
	uint8_t *expected = memory_before(load, rank, index);

	oracle_gather(&load->scenario->op[index], load->scenario->workers, rank,
		      (const void *const *)load->state[index].source, expected + GUARD_BYTES);
	memory_verify(load, rank, index, expected);
}

/* The pieces that the rank wants, from one memory to another. */
static void pieces_copy(const struct load *load, uint32_t rank, uint32_t index, const uint8_t *from,
			uint8_t *to)
{
	const struct scenario_op *op = &load->scenario->op[index];
	size_t bytes = lanes_bytes(op->type), first = 0, end;
	struct scenario_parts parts;

	scenario_parts(op, load->scenario->workers, &parts);
	for (uint32_t i = 0; i < 2 * parts.count; i++, first = end) {
		end = parts.pieces[i] * bytes;
		if (parts.wanted[rank] >> i & 1)
			memcpy(to + first, from + first, end - first);
	}
}

/* The rank has of `whole` what it wants, and nothing else is written. */
static void pieces_verify(struct load *load, uint32_t rank, uint32_t index, const uint8_t *whole)
{
	uint8_t *expected = memory_before(load, rank, index);

	pieces_copy(load, rank, index, whole, expected + GUARD_BYTES);
	memory_verify(load, rank, index, expected);
}

/* Who wants a piece of a sum has the same as all who do, and that is right. */
static void scatter_verify(struct load *load, uint32_t index)
{
	const struct scenario *scenario = load->scenario;
	const struct state *state = &load->state[index];
	uint8_t *whole = need(malloc(op_bytes(&scenario->op[index]) + 1));
	char text[ORACLE_TEXT];

	for (uint32_t w = 0; w < scenario->workers; w++)
		pieces_copy(load, w, index, state->guarded[w] + GUARD_BYTES, whole);
	for (uint32_t w = 0; w < scenario->workers; w++)
		pieces_verify(load, w, index, whole);
	if (!oracle_verify(&scenario->op[index], scenario->workers, scenario->lanes,
			   (const void *const *)state->source, whole, text))
		check_fail(load->check, UINT32_MAX, 0, "operation %u of %u, a scatter: %s", index,
			   scenario->ops, text);
	free(whole);
}

/* Everybody has it. R-NUM-7: and to the bit, in whatever order packets have come. */
static void op_verify(struct load *load, uint32_t index)
{
	const struct scenario *scenario = load->scenario;
	const struct scenario_op *op = &scenario->op[index];
	struct state *state = &load->state[index];
	const uint8_t *result = state->guarded[0] + GUARD_BYTES;
	bool is_out_of_range = false;
	char text[ORACLE_TEXT];

	if (scenario->latency_window)
		is_out_of_range = oracle_is_out_of_range(op, scenario->workers,
							 (const void *const *)state->source);
	for (uint32_t w = 0; w < scenario->workers; w++) {
		guards_check(load, w, index);
		if (state->is_out_of_range[w] != is_out_of_range)
			check_fail(load->check, UINT32_MAX, 0,
				   "operation %u: w%u says it is %s range", index, w,
				   is_out_of_range ? "in" : "out of");
		if (op->op == LANES_COPY)
			gather_verify(load, w, index);
		else if (op->parts || is_out_of_range)
			continue;
		else if (memcmp(result, state->guarded[w] + GUARD_BYTES, op_bytes(op)) != 0)
			check_fail(load->check, UINT32_MAX, 0,
				   "operation %u differs between w0 and w%u", index, w);
	}
	if (op->op != LANES_COPY && op->parts)
		scatter_verify(load, index);
	else if (op->op != LANES_COPY && !is_out_of_range &&
		 !oracle_verify(op, scenario->workers, scenario->lanes,
				(const void *const *)state->source, result, text))
		check_fail(load->check, UINT32_MAX, 0, "operation %u of %u: %s", index,
			   scenario->ops, text);
	load->elements += op->count;
	state_free(state);
}

void load_stored(struct load *load, uint32_t rank, uint32_t index, uint64_t first, uint32_t count,
		 uint32_t slot)
{
	const struct scenario *scenario = load->scenario;
	const struct scenario_op *op = &scenario->op[index];
	const struct state *state = &load->state[index];
	const int32_t *result = (const void *)(state->guarded[rank] + GUARD_BYTES);
	uint32_t all = (1u << scenario->workers) - 1;

	if (state->submitted != all) {
		check_fail(load->check, 0, slot,
			   "w%u has a result of operation %u, which not all have called (%x of %x)",
			   rank, index, state->submitted, all);
		return;
	}
	for (uint64_t i = first; i < first + count && i < op->count; i++) {
		int32_t expected =
			oracle_int32(op, scenario->workers, (const void *const *)state->source, i);
		if (result[i] != expected)
			check_fail(load->check, 0, slot,
				   "w%u stores a wrong sum: element %llu of operation %u is %d, "
				   "not %d",
				   rank, (unsigned long long)i, index, result[i], expected);
	}
}

/* R-CT-20 */
void load_done(struct load *load, uint32_t rank, uint32_t index)
{
	const struct scenario *scenario = load->scenario;
	struct state *state = &load->state[index];
	uint32_t all = (1u << scenario->workers) - 1;

	if (scenario->latency_window && index && !(load->state[index - 1].done >> rank & 1))
		check_fail(load->check, UINT32_MAX, 0, "w%u finishes operation %u before %u", rank,
			   index, index - 1);
	if (state->done >> rank & 1 || !(state->submitted >> rank & 1))
		check_fail(load->check, UINT32_MAX, 0,
			   "w%u finishes operation %u, which is not on "
			   "its way",
			   rank, index);
	if (state->submitted != all)
		check_fail(load->check, UINT32_MAX, 0,
			   "w%u finishes operation %u before all have called it (%x of %x)", rank,
			   index, state->submitted, all);
	if (scenario->kind == SCENARIO_disagree && index == scenario->strike_op)
		check_fail(load->check, UINT32_MAX, 0,
			   "w%u finishes operation %u, which w%u calls differently", rank, index,
			   scenario->odd_rank);
	state->done |= 1u << rank;
	if (state->done == all && !check_failure(load->check)->is_set)
		op_verify(load, index);
}

bool load_is_idle(const struct load *load, uint32_t rank)
{
	for (uint32_t i = load->first; i < load->scenario->ops; i++)
		if ((load->state[i].submitted & ~load->state[i].done) >> rank & 1)
			return false;
	return true;
}

bool load_is_finished(const struct load *load)
{
	uint32_t all = (1u << load->scenario->workers) - 1;

	for (uint32_t i = load->scenario->ops; i-- > 0;)
		if (load->state[i].done != all)
			return false;
	return true;
}

/* Ranks may differ in which operation was their last; those that have it have it right. */
void load_lost(struct load *load)
{
	const struct scenario *scenario = load->scenario;
	uint32_t all = (1u << scenario->workers) - 1;
	char text[ORACLE_TEXT];

	for (uint32_t i = load->first; i < scenario->ops; i++) {
		const struct state *state = &load->state[i];

		if (!state->done || state->done == all)
			continue;
		for (uint32_t w = 0; w < scenario->workers; w++) {
			if (!(state->done >> w & 1) || state->is_out_of_range[w])
				continue;
			guards_check(load, w, i);
			if (scenario->op[i].op == LANES_COPY)
				gather_verify(load, w, i);
			else if (scenario->op[i].parts)
				pieces_verify(load, w, i, state->guarded[w] + GUARD_BYTES);
			else if (!oracle_verify(&scenario->op[i], scenario->workers,
						scenario->lanes, (const void *const *)state->source,
						state->guarded[w] + GUARD_BYTES, text))
				check_fail(load->check, UINT32_MAX, 0,
					   "operation %u of w%u, before the end: %s", i, w, text);
		}
	}
}

uint32_t load_restart(struct load *load)
{
	uint32_t all = (1u << load->scenario->workers) - 1;

	load_lost(load);
	while (load->first < load->scenario->ops && load->state[load->first].done == all)
		load->first++;
	for (uint32_t i = load->first; i < load->scenario->ops; i++) {
		load->state[i].submitted = load->state[i].done = 0;
	}
	return load->first;
}

uint64_t load_elements(const struct load *load)
{
	return load->elements;
}
