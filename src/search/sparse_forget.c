/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_forget.c - what of sparse.h's model can do nothing more, if the rules are kept; see sparse_world.h. */
#include "search/sparse_world.h"

#include <string.h>

/* Whatever the worker's generation is, is there something for it in this cut? */
static bool is_news(const struct sparse_state *state, const uint8_t *cut)
{
	for (uint32_t w = 0; w < sparse->workers; w++) {
		const struct sparse_world_worker *worker = &state->worker[w];

		for (uint32_t seq = 1; seq < worker->next; seq++)
			if (!(worker->freed >> (seq - 1) & 1) && sparse_cut_covers(cut, w, seq))
				return true;
	}
	return false;
}

/* A worker that waits for the answer to its JOIN begins in the generation of that, or has yet to say it. */
static uint32_t generation_of(const struct sparse_world_worker *worker)
{
	return worker->is_waiting ? worker->joined : worker->generation;
}

static void forget_pushes(struct sparse_state *state)
{
	for (uint32_t w = 0; w < sparse->workers; w++) {
		const struct sparse_world_worker *worker = &state->worker[w];
		uint32_t own = generation_of(worker);
		uint8_t is_in = worker->acked | worker->freed;

		for (uint32_t g = 1; g < own; g++)
			state->push[g][w] = state->ack[g][w] = state->end[g][w] = 0;
		state->push[own][w] &= (uint8_t) ~(is_in << (worker->life * sparse->pushes));
		state->ack[own][w] &= (uint8_t)~is_in;
	}
}

/* A switch that the disk knows as fenced still acknowledges; what it sums reaches nobody. */
static void forget_fenced(struct sparse_state *state)
{
	const struct sparse_world_server *server = &state->server;

	for (uint32_t g = 1; g < server->disk.generation; g++) {
		struct sparse_world_switch *at = &state->at[g];

		if (at->generation)
			*at = (struct sparse_world_switch){ .generation = at->generation,
							    .epoch = 2,
							    .is_busy = 1 };
		memset(state->flush[g], 0, sizeof(state->flush[g]));
		state->flip[g] = 0;
	}
	for (uint32_t e = 1; e < server->disk.expected; e++) {
		memset(&state->flush[server->disk.generation][e], 0, sizeof(state->flush[0][0]));
		state->flip[server->disk.generation] &= (uint8_t) ~(1 << e);
	}
}

static void forget_commits(struct sparse_state *state)
{
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++) {
		for (uint32_t e = 0; e <= SPARSE_EPOCHS; e++) {
			bool is_awaited = state->at[g].is_busy && state->at[g].epoch == e + 1 &&
					  g >= state->server.disk.generation;
			bool is_for_any = false, is_step_open = false;

			for (uint32_t w = 0; w < sparse->workers; w++) {
				is_for_any |= generation_of(&state->worker[w]) <= g;
				is_step_open |= sparse->step && state->worker[w].step <= e;
			}
			if (!(state->committed[g] >> e & 1) || is_awaited ||
			    (is_for_any &&
			     (is_step_open || is_news(state, state->committed_cut[g][e]))))
				continue;
			state->committed[g] &= (uint8_t) ~(1 << e);
			memset(state->committed_cut[g][e], 0, SPARSE_PLACES);
		}
	}
}

static void forget_fences(struct sparse_state *state)
{
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++) {
		bool is_awaited = !state->at[g].generation;

		for (uint32_t w = 0; w < sparse->workers; w++)
			is_awaited |= generation_of(&state->worker[w]) < g;
		if (is_awaited)
			continue;
		state->fence_epoch[g] = 0;
		memset(state->fence_cut[g], 0, SPARSE_PLACES);
	}
}

static void forget_batches(struct sparse_state *state)
{
	for (uint32_t w = 0; w < sparse->workers; w++) {
		const struct sparse_world_worker *worker = &state->worker[w];

		for (uint32_t life = 0; life < worker->life; life++)
			state->answer[w][life] = 0;
		state->answer[w][worker->life] &= (uint8_t) ~((1 << worker->answered) - 1);
	}
}

void sparse_forget(struct sparse_state *state)
{
	if (sparse->is_fat)
		return;
	forget_pushes(state);
	forget_fenced(state);
	forget_commits(state);
	forget_fences(state);
	forget_batches(state);
}
