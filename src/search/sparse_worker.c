/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_worker.c - the workers of sparse.h's model; see sparse_world.h. */
#include "search/sparse_world.h"

#include <assert.h>
#include <string.h>

_Static_assert(sizeof(struct sparse_world_worker) == 22, "no padding");

struct scratch {
	struct sparse_table table;
	struct worker_sparse worker;
	struct worker_sparse_push push[SPARSE_PUSHES];
};

static void load(const struct sparse_state *state, uint32_t w, struct scratch *scratch)
{
	const struct sparse_world_worker *from = &state->worker[w];
	struct worker_sparse *worker = &scratch->worker;

	scratch->table = sparse_table_of();
	worker_sparse_init(worker, &scratch->table, (uint16_t)w,
			   sparse_generation(from->generation), from->map, sparse->kept,
			   scratch->push);
	worker->named = sparse_generation(from->named);
	worker->named_map = sparse_map_of(from->named);
	worker->low = from->low;
	worker->sent = from->sent;
	worker->next = from->next;
	worker->reached = from->reached;
	worker->step = from->step;
	worker->is_closed = from->is_closed;
	for (uint64_t seq = worker->low; seq < worker->next; seq++)
		scratch->push[seq % sparse->kept] = (struct worker_sparse_push){
			.is_acked = from->acked >> (seq - 1) & 1,
			.is_freed = from->freed >> (seq - 1) & 1,
		};
}

/* X5 is looked at here: a push is freed only when the disk has it. */
static const char *save(struct sparse_state *state, uint32_t w, const struct scratch *scratch)
{
	const struct worker_sparse *worker = &scratch->worker;
	struct sparse_world_worker *to = &state->worker[w];
	const uint32_t *total = state->server.disk.total;
	uint8_t before = to->freed;

	to->generation = (uint8_t)sparse_fences(worker->generation);
	to->low = (uint8_t)worker->low;
	to->sent = (uint8_t)worker->sent;
	to->next = (uint8_t)worker->next;
	to->reached = (uint8_t)worker->reached;
	to->map = (uint8_t)worker->map;
	to->step = (uint8_t)worker->step;
	to->is_closed = worker->is_closed;
	to->acked = to->freed = 0;
	for (uint64_t seq = 1; seq < worker->next; seq++) {
		if (worker_sparse_is_freed(worker, seq))
			to->freed |= (uint8_t)(1 << (seq - 1));
		else if (scratch->push[seq % sparse->kept].is_acked)
			to->acked |= (uint8_t)(1 << (seq - 1));
	}
	for (uint32_t seq = 1; seq < to->next; seq++) {
		if (!((to->freed & ~before) >> (seq - 1) & 1))
			continue;
		if (!sparse_times(total[0], w, to->life, seq) ||
		    (!(to->parted >> (seq - 1) & 1) && !sparse_times(total[1], w, to->life, seq)))
			return "X5: a worker frees a push that is not committed";
	}
	return NULL;
}

/* R-SP-32: what it has of rank 1 goes into a batch. */
static void part(struct sparse_world_worker *worker, uint32_t seq)
{
	uint32_t at = 0;

	if (worker->parted >> (seq - 1) & 1)
		return;
	worker->parted |= (uint8_t)(1 << (seq - 1));
	while (worker->batch_of[at])
		at++;
	worker->batch_of[at] = (uint8_t)seq;
}

static bool load_for_send(const struct sparse_state *state, uint32_t w, struct scratch *scratch)
{
	struct worker_sparse_event submit = { .type = WORKER_SPARSE_SUBMIT };
	struct worker_sparse_actions actions;

	if (state->worker[w].is_waiting)
		return false;
	load(state, w, scratch);
	if (scratch->worker.sent == scratch->worker.next) {
		if (scratch->worker.next > sparse->pushes ||
		    !worker_sparse_has_room(&scratch->worker))
			return false;
		worker_sparse_step(&scratch->worker, &submit, &actions);
	}
	return worker_sparse_may_send(&scratch->worker);
}

bool sparse_worker_may_send(const struct sparse_state *state, uint32_t w)
{
	struct scratch scratch;

	return load_for_send(state, w, &scratch);
}

/* A PUSH must be that of its number. */
static const char *sends(struct sparse_state *state, uint32_t w,
			 const struct worker_sparse_actions *actions)
{
	const struct sparse *header = &actions->header;
	const struct sparse_world_worker *worker = &state->worker[w];

	if (header->kind != SPARSE_PUSH || header->worker != w || header->map != worker->map ||
	    header->number != actions->seq ||
	    header->generation != sparse_generation(worker->generation) ||
	    header->map != sparse_map_of(worker->generation))
		return "R-SP-18: a PUSH is not that of its seq";
	state->push[worker->generation][w] |=
		(uint8_t)(1 << (worker->life * sparse->pushes + actions->seq - 1));
	return NULL;
}

const char *sparse_worker_send(struct sparse_state *state, uint32_t w)
{
	struct worker_sparse_event event = { .type = WORKER_SPARSE_SEND };
	struct worker_sparse_event close = { .type = WORKER_SPARSE_CLOSE };
	struct worker_sparse_actions actions, none;
	struct sparse_world_worker *worker = &state->worker[w];
	struct scratch scratch;
	bool may_send = load_for_send(state, w, &scratch);
	const char *wrong;

	assert(may_send);
	worker_sparse_step(&scratch.worker, &event, &actions);
	if (sparse->step && !scratch.worker.is_closed &&
	    scratch.worker.next == scratch.worker.step * sparse->step + 1)
		worker_sparse_step(&scratch.worker, &close, &none);
	wrong = save(state, w, &scratch);
	if (worker->map != SPARSE_MAP)
		part(worker, (uint32_t)actions.seq);
	return wrong ? wrong : sends(state, w, &actions);
}

const char *sparse_worker_take(struct sparse_state *state, uint32_t w, const uint8_t *at,
			       uint32_t bytes)
{
	struct sparse packet = { 0 };
	struct worker_sparse_event event = { .type = WORKER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };
	struct worker_sparse_actions actions;
	struct scratch scratch;
	enum wire_fault fault = sparse_check(at, bytes, &packet);
	const char *wrong;

	assert(fault == WIRE_OK);
	load(state, w, &scratch);
	worker_sparse_step(&scratch.worker, &event, &actions);
	if (actions.is_protocol_error)
		return "R-SP-21: a row covers what was never sent";
	wrong = save(state, w, &scratch);
	if (actions.is_map_new && state->worker[w].map != SPARSE_MAP)
		for (uint32_t seq = 1; seq < state->worker[w].next; seq++)
			if (!(state->worker[w].freed >> (seq - 1) & 1))
				part(&state->worker[w], seq);
	if (!wrong && actions.send)
		wrong = sends(state, w, &actions);
	return wrong;
}

void sparse_worker_name(struct sparse_state *state, uint32_t w, uint32_t g)
{
	if (state->worker[w].named < g)
		state->worker[w].named = (uint8_t)g;
}

bool sparse_worker_may_end(const struct sparse_state *state, uint32_t w)
{
	struct scratch scratch;

	if (!sparse->step || state->worker[w].is_waiting)
		return false;
	load(state, w, &scratch);
	return worker_sparse_may_end(&scratch.worker);
}

const char *sparse_worker_end(struct sparse_state *state, uint32_t w)
{
	struct worker_sparse_event event = { .type = WORKER_SPARSE_END };
	struct worker_sparse_actions actions;
	struct scratch scratch;

	load(state, w, &scratch);
	worker_sparse_step(&scratch.worker, &event, &actions);
	if (!actions.end || actions.seq != scratch.worker.step * sparse->step)
		return "R-SP-30: an END is not that of its step";
	state->end[state->worker[w].generation][w] |= (uint8_t)(1 << actions.header.number);
	return NULL;
}

const char *sparse_worker_timers(struct sparse_state *state, uint32_t w, uint8_t *ask,
				 uint32_t *ask_bytes)
{
	struct worker_sparse_event event = { .type = WORKER_SPARSE_RESEND };
	struct worker_sparse_actions actions;
	struct scratch scratch;
	const char *wrong = NULL;

	load(state, w, &scratch);
	for (event.seq = scratch.worker.low; event.seq < scratch.worker.sent && !wrong;
	     event.seq++) {
		if (!worker_sparse_is_due(&scratch.worker, event.seq))
			continue;
		worker_sparse_step(&scratch.worker, &event, &actions);
		wrong = sends(state, w, &actions);
	}
	*ask_bytes = 0;
	if (!worker_sparse_wants(&scratch.worker))
		return wrong;
	event.type = WORKER_SPARSE_ASK;
	worker_sparse_step(&scratch.worker, &event, &actions);
	sparse_put(ask, &actions.header);
	*ask_bytes = sparse_bytes(&actions.header);
	return wrong;
}

/* ---- its lives, and batches ---- */

void sparse_worker_die(struct sparse_state *state, uint32_t w)
{
	state->worker[w] = (struct sparse_world_worker){ .low = 1,
							 .sent = 1,
							 .next = 1,
							 .reached = 1,
							 .step = 1,
							 .life = state->worker[w].life + 1,
							 .is_waiting = 1 };
}

void sparse_worker_admit(struct sparse_state *state, uint32_t w)
{
	struct sparse_world_worker *worker = &state->worker[w];

	worker->is_waiting = 0;
	worker->generation = worker->named = worker->joined;
	worker->map = SPARSE_MAP;
	worker->joined = 0;
}

bool sparse_worker_may_batch(const struct sparse_state *state, uint32_t w)
{
	const struct sparse_world_worker *worker = &state->worker[w];
	uint32_t batches = sparse->batches;

	if (sparse->is_remapped)
		for (batches = 0; batches < 4 && worker->batch_of[batches];)
			batches++;
	return !worker->is_waiting && worker->batches < batches &&
	       worker->batches - worker->answered < 2;
}

void sparse_worker_batch(struct sparse_state *state, uint32_t w)
{
	struct sparse_world_worker *worker = &state->worker[w];

	assert(sparse_worker_may_batch(state, w));
	state->batch[w][worker->life] = ++worker->batches;
}

const char *sparse_worker_answered(struct sparse_state *state, uint32_t w, uint32_t number)
{
	struct sparse_world_worker *worker = &state->worker[w];

	if (!(state->server.disk.cold[w][worker->life] >> (number - 1) & 1))
		return "R-SP-27: a batch is answered that is not on the disk";
	if (worker->answered < number)
		worker->answered = (uint8_t)number;
	return NULL;
}
