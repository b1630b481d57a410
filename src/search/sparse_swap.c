/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_swap.c - of two states of sparse.h's model that are the same but for the names of the workers one is
 * visited; see sparse_world.h. */
#include "search/sparse_world.h"

#include <string.h>

static void swap(uint8_t *a, uint8_t *b, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		uint8_t kept = a[i];

		a[i] = b[i];
		b[i] = kept;
	}
}

/* An array of two. */
#define SWAP(array) swap((uint8_t *)&(array)[0], (uint8_t *)&(array)[1], sizeof((array)[0]))

static void swap_rows(uint8_t *cut)
{
	uint8_t was[SPARSE_PLACES];

	memcpy(was, cut, sizeof(was));
	for (uint32_t i = 0; i < sparse->window && i < SPARSE_PLACES / 2; i++) {
		cut[i] = was[sparse->window + i];
		cut[sparse->window + i] = was[i];
	}
}

/* Two bits that are next to each other, the lowest ones. */
static uint8_t swapped_bits(uint8_t bits)
{
	return (uint8_t)((bits & ~3) | (bits & 1) << 1 | (bits >> 1 & 1));
}

/* The parts of a CUT or SETUP, if each has a worker's row. */
static uint8_t swapped_parts(uint8_t parts)
{
	return sparse->rows == 1 ? swapped_bits(parts) : parts;
}

static void swap_sums(uint32_t *sums, uint32_t count)
{
	uint32_t bits = 2 * sparse->pushes * sparse->lives;

	for (uint32_t i = 0; i < count; i++)
		sums[i] = (sums[i] & ((1u << bits) - 1)) << bits | sums[i] >> bits;
}

static void swap_durable(struct sparse_world_durable *durable)
{
	swap_rows(durable->cut);
	SWAP(durable->incarnation);
	SWAP(durable->next);
	SWAP(durable->cold);
	swap_sums(durable->total, SPARSE_RANKS);
}

static void swap_server(struct sparse_world_server *server)
{
	swap_durable(&server->now);
	swap_durable(&server->disk);
	server->ended = swapped_bits(server->ended);
	server->parts = swapped_parts(server->parts);
	swap_rows(server->staged);
	swap_sums(server->staged_sum, SPARSE_RANKS);
	for (uint32_t i = 0; i < server->pending_count; i++) {
		struct sparse_world_record *record = &server->pending[i];

		if (record->kind == SERVER_SPARSE_JOIN || record->kind == SERVER_SPARSE_BATCH)
			record->worker ^= 1;
		swap_durable(&record->after);
	}
}

static void swap_switch(struct sparse_world_switch *at)
{
	at->setup_parts = swapped_parts(at->setup_parts);
	swap_rows(at->last);
	swap_rows(at->before);
	swap_rows(at->since);
	swap_sums(at->sum[0], 2 * SPARSE_RANKS);
}

void sparse_mirror(struct sparse_state *state)
{
	SWAP(state->worker);
	swap_server(&state->server);
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++) {
		swap_switch(&state->at[g]);
		for (uint32_t e = 0; e <= SPARSE_EPOCHS; e++) {
			if (state->flush[g][e].is_sent) {
				swap_rows(state->flush[g][e].cut);
				swap_sums(state->flush[g][e].sum, SPARSE_RANKS);
			}
			if (state->committed[g] >> e & 1)
				swap_rows(state->committed_cut[g][e]);
		}
		SWAP(state->push[g]);
		SWAP(state->ack[g]);
		SWAP(state->end[g]);
		swap_rows(state->fence_cut[g]);
	}
	SWAP(state->batch);
	SWAP(state->answer);
}

bool sparse_swap(struct sparse_state *state)
{
	struct sparse_state other;
	int order;

	if (sparse->workers != 2 || sparse->is_named)
		return false;
	order = memcmp(&state->worker[0], &state->worker[1], sizeof(state->worker[0]));
	if (order > 0)
		return false;
	other = *state;
	sparse_mirror(&other);
	if (!order && memcmp(state, &other, sizeof(other)) >= 0)
		return false;
	*state = other;
	return true;
}
