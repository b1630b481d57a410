/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse_strange.c - a stranger in sparse.h's model: in each state that there is he sends everybody what would do the
 * most harm. He knows all: addresses, epochs, seqs, maps, how many fences there were; but not the random bits of a
 * generation, nor an instance. Nothing may change, not even an answer. See sparse_world.h.
 */
#include "search/sparse_world.h"

#include <stdio.h>
#include <string.h>

/* The right number of fences and a wrong guess; the next fence's; what is above all. */
enum { GUESSES = 4 };

static uint64_t guess_of(uint32_t g, uint32_t i)
{
	if (i == 0)
		return sparse_generation(g) ^ 1;
	if (i == 1)
		return (uint64_t)(g + 1) << SPARSE_RANDOM_BITS;
	return i == 2 ? UINT64_MAX : g; /* as one would count */
}

/* The packet, but of another generation. */
static void forge(uint8_t *at, uint64_t generation)
{
	sparse_put64(at + 8, generation);
}

static const char *differs(const struct sparse_state *state, const struct sparse_state *next,
			   const char *wrong, const char *what)
{
	return wrong || memcmp(state, next, sizeof(*next)) != 0 ? what : NULL;
}

/* What it would free all of what the worker has by. */
static uint32_t row_put(const struct sparse_world_worker *worker, enum sparse_kind kind, uint32_t w,
			uint8_t *at)
{
	uint32_t window = sparse->window, sent = worker->reached;
	struct sparse packet = { .kind = (uint8_t)kind,
				 .table = SPARSE_INDEX,
				 .worker = (uint16_t)w,
				 .number = SPARSE_EPOCHS,
				 .map = worker->map,
				 .count = 1,
				 .width = (uint16_t)window };

	if (kind == SPARSE_COMMITTED)
		sent = worker->sent;
	for (uint32_t place = 0; place < window; place++) {
		uint32_t seq = sent - 1;

		while (seq && seq % window != place)
			seq--;
		sparse_body_put64(at + SPARSE_HEADER_BYTES + place * SPARSE_NUMBER_BYTES, seq);
	}
	sparse_put(at, &packet);
	return sparse_bytes(&packet);
}

static const char *worker_hears(const struct sparse_state *state, uint32_t w)
{
	static const enum sparse_kind kinds[] = { SPARSE_RESUME, SPARSE_COMMITTED, SPARSE_ACK };
	const struct sparse_world_worker *worker = &state->worker[w];
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;

	for (uint32_t i = 0; i < 3 * GUESSES && !wrong; i++) {
		enum sparse_kind kind = kinds[i / GUESSES];
		struct sparse_state next = *state;
		uint32_t bytes = kind == SPARSE_ACK
					 ? sparse_ack_put(worker->generation, w, worker->low, at)
					 : row_put(worker, kind, w, at);

		forge(at, guess_of(worker->generation, i % GUESSES));
		wrong = differs(state, &next, sparse_worker_take(&next, w, at, bytes),
				"R-SP-22: a worker takes what a stranger says");
	}
	return wrong;
}

/* R-SP-22: the generation alone is not enough either. */
static const char *map_is_judged(const struct sparse_state *state, uint32_t w)
{
	const struct sparse_world_worker *worker = &state->worker[w];
	struct sparse_state next = *state;
	uint8_t at[SPARSE_DATAGRAM];
	uint32_t bytes;

	if (worker->named <= worker->generation)
		return NULL;
	bytes = row_put(worker, SPARSE_RESUME, w, at);
	forge(at, sparse_generation(worker->named));
	wire_put32(at + 24, sparse_map_of(worker->named) + 1);
	return differs(state, &next, sparse_worker_take(&next, w, at, bytes),
		       "R-SP-22: a worker takes a RESUME of a map that nobody has named");
}

static const char *switch_hears(const struct sparse_state *state, uint32_t g)
{
	uint32_t epoch = state->at[g].epoch;
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;

	for (uint32_t i = 0; i < 4 * GUESSES && !wrong; i++) {
		struct sparse_state next = *state;
		uint32_t bytes;

		if (i / GUESSES == 0)
			bytes = sparse_push_put(g, 0, sparse->pushes - 1, at);
		else if (i / GUESSES == 1)
			bytes = sparse_flip_put(g, epoch, at);
		else if (i / GUESSES == 2)
			bytes = sparse_committed_put(state, g, epoch - 1, SPARSE_SERVER, at);
		else
			bytes = sparse_setup_put(state, g, 0, at);
		forge(at, guess_of(g, i % GUESSES));
		sparse_put64(at + 16,
			     sparse_get64(at + 16) + (i / GUESSES == 3)); /* forgotten: 0 */
		wrong = differs(state, &next, sparse_switch_take(&next, g, at, bytes),
				"R-SP-8, 12, 13, 15: a switch takes what a stranger says");
	}
	return wrong;
}

static const char *server_hears(const struct sparse_state *state)
{
	uint32_t g = state->server.now.generation, epoch = state->server.now.expected;
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;

	for (uint32_t i = 0; i < 3 * GUESSES && !wrong; i++) {
		struct sparse_state next = *state;
		uint32_t bytes = sparse_end_put(g, 0, epoch, at);

		if (i / GUESSES == 0)
			bytes = sparse_part_put(state, g, epoch, 0, at);
		else if (i / GUESSES == 1) /* an old one, which would be answered */
			bytes = sparse_part_put(state, g, epoch - 1, 0, at);
		forge(at, guess_of(g, i % GUESSES));
		wrong = differs(state, &next, sparse_server_take(&next, at, bytes),
				"R-SP-23, 25, 30: the server takes what a stranger says");
	}
	return wrong;
}

const char *sparse_strange(const struct sparse_state *state)
{
	uint32_t now = state->server.now.generation;
	const char *wrong = server_hears(state);

	for (uint32_t w = 0; w < sparse->workers && !wrong; w++) {
		if (state->worker[w].is_waiting)
			continue;
		wrong = worker_hears(state, w);
		if (!wrong)
			wrong = map_is_judged(state, w);
	}
	for (uint32_t g = now > 1 ? now - 1 : 1; g <= now && !wrong; g++)
		wrong = switch_hears(state, g);
	return wrong;
}
