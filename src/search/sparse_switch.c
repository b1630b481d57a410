/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_switch.c - the switches of sparse.h's model; see sparse_world.h. */
#include "search/sparse_world.h"

#include <assert.h>
#include <string.h>

_Static_assert(sizeof(struct sparse_world_switch) == 8 + 3 * SPARSE_PLACES + 24, "no padding");
_Static_assert(sizeof(struct sparse_world_flush) == 4 + SPARSE_PLACES + 8, "no padding");

struct scratch {
	struct sparse_table table;
	struct switch_sparse state;
	struct switch_sparse_memory memory;
	struct switch_sparse_place place[SPARSE_PLACES];
	uint64_t tag[2 * SPARSE_RANKS];
	int64_t sum[2 * SPARSE_RANKS * SPARSE_DIM];
	uint32_t list[2 * SPARSE_RANKS];
};

static void load(const struct sparse_state *state, uint32_t g, struct scratch *scratch)
{
	const struct sparse_world_switch *from = &state->at[g];

	memset(scratch, 0, sizeof(*scratch));
	scratch->table = sparse_table_of();
	scratch->memory = (struct switch_sparse_memory){ scratch->place, scratch->tag, scratch->sum,
							 scratch->list, NULL };
	scratch->state = (struct switch_sparse){ .instance = (from->is_reset ? 200 : 100) + g,
						 .generation = sparse_generation(from->generation),
						 .epoch = from->epoch,
						 .named = sparse_generation(g),
						 .setup_parts = { from->setup_parts },
						 .map = from->generation
								? sparse_map_of(from->generation)
								: 0,
						 .touched = { from->touched[0], from->touched[1] },
						 .is_busy = from->is_busy,
						 .is_wanted = from->is_wanted };
	for (uint32_t i = 0; i < sparse_places(&scratch->table); i++)
		scratch->place[i] = (struct switch_sparse_place){ from->last[i], from->before[i],
								  from->since[i] };
	for (uint32_t i = 0; i < 2 * SPARSE_RANKS; i++) {
		scratch->tag[i] = from->tag[i / SPARSE_RANKS][i % SPARSE_RANKS];
		scratch->list[i] = from->list[i / SPARSE_RANKS][i % SPARSE_RANKS];
		for (uint32_t k = 0; k < SPARSE_DIM; k++)
			scratch->sum[i * SPARSE_DIM + k] =
				from->sum[i / SPARSE_RANKS][i % SPARSE_RANKS];
	}
}

static const char *save(struct sparse_state *state, uint32_t g, const struct scratch *scratch)
{
	const struct switch_sparse *from = &scratch->state;
	struct sparse_world_switch *to = &state->at[g];

	*to = (struct sparse_world_switch){ .generation = (uint8_t)sparse_fences(from->generation),
					    .epoch = (uint8_t)from->epoch,
					    .touched = { (uint8_t)from->touched[0],
							 (uint8_t)from->touched[1] },
					    .is_busy = from->is_busy,
					    .is_wanted = from->is_wanted,
					    .is_reset = to->is_reset };
	if (!from->generation)
		to->setup_parts = (uint8_t)from->setup_parts[0];
	for (uint32_t i = 0; i < sparse_places(&scratch->table); i++) {
		to->last[i] = (uint8_t)scratch->place[i].last;
		to->before[i] = (uint8_t)scratch->place[i].before;
		to->since[i] = (uint8_t)scratch->place[i].since;
	}
	for (uint32_t i = 0; i < 2 * SPARSE_RANKS; i++) {
		const int64_t *sum = scratch->sum + i * SPARSE_DIM;

		to->tag[i / SPARSE_RANKS][i % SPARSE_RANKS] = (uint8_t)scratch->tag[i];
		if (i % SPARSE_RANKS < to->touched[i / SPARSE_RANKS])
			to->list[i / SPARSE_RANKS][i % SPARSE_RANKS] = (uint8_t)scratch->list[i];
		to->sum[i / SPARSE_RANKS][i % SPARSE_RANKS] = (uint32_t)sum[0];
		if (sum[0] != sum[1])
			return "X1: a push is in one value of a rank and not in another";
		if (sparse_is_any_twice((uint32_t)sum[0]))
			return "X1: a push is in a bank twice";
	}
	return NULL;
}

uint32_t sparse_switch_parts(const struct sparse_state *state, uint32_t g)
{
	struct scratch scratch;

	load(state, g, &scratch);
	return switch_sparse_parts(&scratch.table, &scratch.state);
}

uint32_t sparse_switch_part(const struct sparse_state *state, uint32_t g, uint32_t part,
			    uint8_t *at)
{
	struct scratch scratch;

	load(state, g, &scratch);
	return switch_sparse_part(&scratch.table, &scratch.state, &scratch.memory, part, at);
}

/* What is sent of an epoch is the same each time: else one part could be of one time and one of another. */
static const char *parts_are_same(const struct sparse_state *state, uint32_t g)
{
	struct scratch scratch;
	uint8_t is[SPARSE_DATAGRAM], was[SPARSE_DATAGRAM];

	if (!state->at[g].is_busy || !state->flush[g][state->at[g].epoch - 1].is_sent)
		return NULL;
	load(state, g, &scratch);
	if (switch_sparse_parts(&scratch.table, &scratch.state) !=
	    sparse_parts_of(state, g, state->at[g].epoch - 1u))
		return "R-SP-11: a flush has more or fewer parts than at the flip";
	for (uint32_t part = 0; part < switch_sparse_parts(&scratch.table, &scratch.state);
	     part++) {
		uint32_t bytes = switch_sparse_part(&scratch.table, &scratch.state, &scratch.memory,
						    part, is);

		if (bytes != sparse_part_put(state, g, state->at[g].epoch - 1u, part, was) ||
		    memcmp(is, was, bytes))
			return "R-SP-11: a part of a flush is another one than at the flip";
	}
	return NULL;
}

const char *sparse_switch_take(struct sparse_state *state, uint32_t g, const uint8_t *at,
			       uint32_t bytes)
{
	struct scratch scratch;
	struct sparse packet = { 0 };
	enum wire_fault fault = sparse_check(at, bytes, &packet);
	enum switch_sparse_verdict verdict;
	const char *wrong;

	assert(fault == WIRE_OK);
	load(state, g, &scratch);
	verdict = switch_sparse_step(&scratch.table, &scratch.state, &scratch.memory, &packet, at);
	if (verdict == SWITCH_SPARSE_ADDED || verdict == SWITCH_SPARSE_REPEAT) {
		if (packet.generation !=
		    sparse_generation((uint32_t)sparse_fences(packet.generation)))
			return "R-SP-8: a PUSH is taken of a generation that there never was";
		if (packet.kind == SPARSE_ACK)
			state->ack[sparse_fences(packet.generation)][packet.worker] |=
				(uint8_t)(1 << (packet.number - 1));
	} else if (verdict == SWITCH_SPARSE_READY) {
		if (packet.number != 100 + g || packet.generation != sparse_generation(g))
			return "R-SP-15: READY is not this instance's";
	} else if (verdict == SWITCH_SPARSE_DROP_SHAPE || verdict == SWITCH_SPARSE_DROP_MAP ||
		   verdict == SWITCH_SPARSE_DROP_WORKER || verdict == SWITCH_SPARSE_DROP_KIND) {
		return "a switch calls a sound packet misshapen";
	}
	wrong = save(state, g, &scratch);
	return wrong ? wrong : parts_are_same(state, g);
}

bool sparse_switch_may_flip(const struct sparse_state *state, uint32_t g, bool is_asked)
{
	struct scratch scratch;

	load(state, g, &scratch);
	if (is_asked || sparse->step)
		return switch_sparse_is_due(&scratch.table, &scratch.state, UINT64_MAX, false);
	return switch_sparse_may_flip(&scratch.state);
}

/* Each push adds something to a rank that it has: what was touched is not 0. */
static const char *list_is_true(const struct sparse_world_switch *from,
				struct sparse_world_flush *flush, uint32_t epoch)
{
	uint32_t in = 0, touched = 0;

	flush->touched = from->touched[epoch & 1];
	for (uint32_t k = 0; k < flush->touched && k < SPARSE_RANKS; k++) {
		flush->list[k] = from->list[epoch & 1][k];
		in |= 1u << flush->list[k];
	}
	for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
		touched += flush->sum[rank] && in >> rank & 1;
	for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
		if (flush->sum[rank] && !(in >> rank & 1))
			return "R-SP-6: a rank that was touched is not in its bank's list";
	return touched == flush->touched
		       ? NULL
		       : "R-SP-6: a bank lists a rank twice, or one that was not touched";
}

const char *sparse_switch_flip(struct sparse_state *state, uint32_t g)
{
	const struct sparse_world_switch *from = &state->at[g];
	uint32_t epoch = from->epoch;
	struct sparse_world_flush *flush = &state->flush[g][epoch];
	struct scratch scratch;
	const char *wrong;

	assert(epoch <= SPARSE_EPOCHS);
	/* The new epoch's bank is that of the last one but this. */
	if (state->flush[g][epoch - 1].is_sent && epoch > state->server.disk.expected)
		return "X3: an epoch opens on a bank whose flush is not committed";
	*flush = (struct sparse_world_flush){ .is_sent = 1 };
	memcpy(flush->cut, from->last, sizeof(flush->cut));
	for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
		if (from->tag[epoch & 1][rank] == epoch)
			flush->sum[rank] = from->sum[epoch & 1][rank];
	wrong = list_is_true(from, flush, epoch);
	if (wrong)
		return wrong;
	load(state, g, &scratch);
	switch_sparse_flip(&scratch.state);
	wrong = save(state, g, &scratch);
	return wrong ? wrong : parts_are_same(state, g);
}
