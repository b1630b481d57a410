/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_sparse.h - the switch program of sparse mode: one instance of it sums the hot ranks of one table in
 * one generation. Restricted C, as switch.h. docs/protocol.md, R-SP-6 to R-SP-16.
 *
 * A push counts when its seq is above the last one of its place; a repeat is answered and changes nothing.
 * Epoch e sums in bank e mod 2. A flip closes it; its flush is sent until the server says COMMITTED, and no
 * other flip comes before. Nothing is ever cleared or copied: a rank of a bank has the epoch that it belongs
 * to as its tag, a bank lists the ranks that it has, and a place remembers what it was when the epoch began.
 *
 * What the engine does: says switch_sparse_name when the table's server has told of its generation; finds the table
 * by the packet's index; checks the sender's address (R-SP-5); calls
 * switch_sparse_step, under the table's lock, and sends what the verdict says. While switch_sparse_is_due it
 * calls switch_sparse_flip; while state->is_busy it sends all parts (switch_sparse_part), again and again. It
 * owns all memory, zeroed before an instance begins:
 *   place   sparse_places(table)
 *   tag     2 * table->ranks: of bank 0, then of bank 1
 *   sum     2 * table->ranks * table->dim, likewise
 *   list    2 * table->ranks, likewise
 * and lends the tables of logarithms, if table->values is SPARSE_LNS.
 */
#ifndef CORE_SWITCH_SPARSE_H
#define CORE_SWITCH_SPARSE_H

#include "core/sparse/lns.h"
#include "core/sparse/table_sparse.h"

enum switch_sparse_verdict {
	SWITCH_SPARSE_ADDED,   /* PUSH: ACK to its sender */
	SWITCH_SPARSE_REPEAT,  /* PUSH that is in: ACK to its sender */
	SWITCH_SPARSE_TAKEN,   /* ASK, FLIP, COMMITTED, a part of SETUP: nothing is sent; HAVE */
	SWITCH_SPARSE_READY,   /* SETUP is complete, or was: READY to the server */
	SWITCH_SPARSE_FORWARD, /* BCAST: as it is to all workers */
	/* dropped, counted, nothing has changed */
	SWITCH_SPARSE_DROP_KIND,
	SWITCH_SPARSE_DROP_GENERATION,
	SWITCH_SPARSE_DROP_MAP,
	SWITCH_SPARSE_DROP_WORKER,
	SWITCH_SPARSE_DROP_SHAPE, /* another width, a rank that there is not, seq or epoch 0 */
	SWITCH_SPARSE_DROP_STALE, /* of another epoch or instance */
	SWITCH_SPARSE_VERDICT_COUNT
};

struct switch_sparse_place {
	uint64_t last;   /* the highest seq that was added */
	uint64_t before; /* what last was when epoch `since` began */
	uint64_t since;  /* the epoch of the last push */
};

struct switch_sparse {
	uint64_t
		instance; /* the engine's, never used before; the only field that is not 0 at first */
	uint64_t generation; /* 0: not set up */
	uint64_t epoch;
	uint64_t pairs; /* that this epoch has */
	uint64_t named; /* R-SP-15: SETUP is taken of this generation alone; 0: of none */
	uint64_t setup_parts[SWITCH_BITMAP_WORDS];
	uint32_t map;
	uint32_t touched[2]; /* ranks in the list of a bank */
	uint16_t flags[2];   /* of a bank */
	uint8_t is_busy;     /* the flush of epoch - 1 is not committed */
	uint8_t is_wanted;
	uint8_t reserved[6];
};

struct switch_sparse_memory {
	struct switch_sparse_place *place;
	uint64_t *tag;
	int64_t *sum; /* of SPARSE_LNS, a word each */
	uint32_t *list;
	const struct lns_tables *lns; /* or NULL */
};

/* Index into tag of a rank in the bank of an epoch; times dim, into sum. */
CORE_INLINE uint64_t switch_sparse_at(const struct sparse_table *table, uint64_t epoch,
				      uint32_t rank)
{
	return (epoch & 1) * table->ranks + rank;
}

CORE_INLINE void switch_sparse_answer(enum sparse_kind kind, struct sparse *packet)
{
	packet->kind = (uint8_t)kind;
	packet->count = 0;
	packet->map = 0;
	packet->part = 0;
	packet->parts = 0;
	packet->width = 0;
	packet->flags = 0;
}

/* ---- PUSH ---- */

CORE_INLINE enum switch_sparse_verdict switch_sparse_refuse(const struct sparse_table *table,
							    const struct switch_sparse *state,
							    const struct sparse *packet,
							    const uint8_t *at)
{
	if (!state->generation || packet->generation != state->generation)
		return SWITCH_SPARSE_DROP_GENERATION;
	if (packet->map != state->map)
		return SWITCH_SPARSE_DROP_MAP;
	if (packet->worker >= table->workers)
		return SWITCH_SPARSE_DROP_WORKER;
	if (packet->width != table->dim || !packet->number)
		return SWITCH_SPARSE_DROP_SHAPE;
	for (uint32_t i = 0; i < packet->count; i++)
		if (sparse_body_get32(sparse_item(packet, at, i)) >= table->ranks)
			return SWITCH_SPARSE_DROP_SHAPE;
	return SWITCH_SPARSE_ADDED;
}

/* R-SP-8: the tag lets a rank into the list once in an epoch, so it has room for all. */
CORE_INLINE void switch_sparse_touch(const struct sparse_table *table, struct switch_sparse *state,
				     const struct switch_sparse_memory *memory, uint32_t rank)
{
	uint32_t *touched = &state->touched[state->epoch & 1];

	CORE_ASSERT(*touched < table->ranks);
	memory->list[switch_sparse_at(table, state->epoch, (*touched)++)] = rank;
}

/* R-SP-8 */
CORE_INLINE void switch_sparse_add_integer(int64_t *sum, uint32_t bits, uint16_t *flags)
{
	int64_t value = (int32_t)bits;
	const int64_t most = (int64_t)(~0ull >> 1);

	if (__builtin_add_overflow(*sum, value, sum)) {
		*sum = value < 0 ? -most - 1 : most;
		*flags |= SPARSE_SATURATED;
	}
}

/* R-LNS-5 */
CORE_INLINE void switch_sparse_add_float(const struct lns_tables *lns, int64_t *sum, uint32_t bits,
					 uint16_t *flags)
{
	uint32_t found = 0, word = lns_word(lns, bits, &found);

	*sum = lns_add(lns, (uint32_t)*sum, word, &found);
	*flags |= (uint16_t)found;
}

/* R-SP-8: a bank is emptied by another epoch's tag. */
CORE_INLINE void switch_sparse_add(const struct sparse_table *table, struct switch_sparse *state,
				   const struct switch_sparse_memory *memory, const uint8_t *pair)
{
	uint32_t rank = sparse_body_get32(pair);
	uint64_t index = switch_sparse_at(table, state->epoch, rank);
	int64_t *sum = memory->sum + index * table->dim;
	bool is_first = memory->tag[index] != state->epoch;
	uint16_t *flags = &state->flags[state->epoch & 1];

	if (is_first)
		switch_sparse_touch(table, state, memory, rank);
	memory->tag[index] = state->epoch;
	for (uint32_t i = 0; i < table->dim; i++) {
		uint32_t bits =
			sparse_body_get32(pair + SPARSE_RANK_BYTES + i * SPARSE_VALUE_BYTES);

		if (is_first)
			sum[i] = 0;
		if (table->values == SPARSE_LNS)
			switch_sparse_add_float(memory->lns, &sum[i], bits, flags);
		else
			switch_sparse_add_integer(&sum[i], bits, flags);
	}
}

CORE_INLINE enum switch_sparse_verdict switch_sparse_push(const struct sparse_table *table,
							  struct switch_sparse *state,
							  const struct switch_sparse_memory *memory,
							  struct sparse *packet, const uint8_t *at)
{
	struct switch_sparse_place *place;
	enum switch_sparse_verdict verdict = switch_sparse_refuse(table, state, packet, at);

	if (verdict)
		return verdict;
	place = memory->place + sparse_place(table, packet->worker, packet->number);
	if (packet->number <= place->last) {
		switch_sparse_answer(SPARSE_ACK, packet);
		return SWITCH_SPARSE_REPEAT;
	}
	if (place->since != state->epoch) {
		place->before = place->last;
		place->since = state->epoch;
	}
	place->last = packet->number;
	state->flags[state->epoch & 1] |= packet->flags;
	state->pairs += packet->count;
	for (uint32_t i = 0; i < packet->count; i++)
		switch_sparse_add(table, state, memory, sparse_item(packet, at, i));
	switch_sparse_answer(SPARSE_ACK, packet);
	return SWITCH_SPARSE_ADDED;
}

/* ---- flips ---- */

/* R-SP-9. pairs_max: as many make an epoch; is_old: it has lasted long enough. */
CORE_INLINE bool switch_sparse_may_flip(const struct switch_sparse *state)
{
	return state->generation && !state->is_busy;
}

CORE_INLINE bool switch_sparse_is_due(const struct sparse_table *table,
				      const struct switch_sparse *state, uint64_t pairs_max,
				      bool is_old)
{
	if (!switch_sparse_may_flip(state))
		return false;
	if (table->is_stepped)
		return state->is_wanted;
	return state->is_wanted || is_old || state->pairs >= pairs_max;
}

/* The caller has asked switch_sparse_may_flip. */
CORE_INLINE void switch_sparse_flip(struct switch_sparse *state)
{
	CORE_ASSERT(switch_sparse_may_flip(state));
	state->epoch++;
	state->is_busy = 1;
	state->is_wanted = 0;
	state->pairs = 0;
	state->flags[state->epoch & 1] = 0;
	state->touched[state->epoch & 1] = 0;
}

/* The parts of the flush, while state->is_busy: the list that they are cut of does not change. */
CORE_INLINE uint32_t switch_sparse_parts(const struct sparse_table *table,
					 const struct switch_sparse *state)
{
	return sparse_flush_parts(table, state->touched[(state->epoch - 1) & 1]);
}

/* R-SP-10: the cut of the flush, whatever has been pushed since. */
CORE_INLINE uint64_t switch_sparse_cut(const struct switch_sparse *state,
				       const struct switch_sparse_place *place)
{
	if (place->since == state->epoch)
		return place->before;
	return place->last;
}

/* R-SP-11: the items of one part, behind its header; how many. */
CORE_INLINE uint32_t switch_sparse_rows(const struct sparse_table *table,
					const struct switch_sparse *state,
					const struct switch_sparse_memory *memory, uint32_t first,
					uint32_t rows, uint8_t *at)
{
	for (uint32_t i = 0; i < rows * table->window; i++)
		sparse_body_put64(at + i * SPARSE_NUMBER_BYTES,
				  switch_sparse_cut(state,
						    memory->place + first * table->window + i));
	return rows;
}

/* Where the sums of the k-th rank of the flush's list are; *rank: which it is. */
CORE_INLINE const int64_t *switch_sparse_listed(const struct sparse_table *table,
						const struct switch_sparse *state,
						const struct switch_sparse_memory *memory,
						uint32_t k, uint32_t *rank)
{
	uint64_t epoch = state->epoch - 1;

	*rank = memory->list[switch_sparse_at(table, epoch, k)];
	return memory->sum + switch_sparse_at(table, epoch, *rank) * table->dim;
}

/* Have all sums of these ranks 32 bits at most? */
CORE_INLINE bool switch_sparse_are_short(const struct sparse_table *table,
					 const struct switch_sparse *state,
					 const struct switch_sparse_memory *memory, uint32_t first,
					 uint32_t count)
{
	bool are_short = true;

	for (uint32_t k = first; k < first + count; k++) {
		uint32_t rank;
		const int64_t *sum = switch_sparse_listed(table, state, memory, k, &rank);

		for (uint32_t i = 0; i < table->dim; i++)
			are_short &= sum[i] == (int32_t)sum[i];
	}
	return are_short;
}

CORE_INLINE void switch_sparse_sums(const struct sparse_table *table,
				    const struct switch_sparse *state,
				    const struct switch_sparse_memory *memory, uint32_t first,
				    struct sparse *packet, uint8_t *at)
{
	uint32_t left = state->touched[(state->epoch - 1) & 1] - first;
	uint32_t count = sparse_ranks_per_part(table);
	bool are_short;

	if (count > left)
		count = left;
	are_short = switch_sparse_are_short(table, state, memory, first, count);
	packet->kind = are_short ? SPARSE_FLUSH_SHORT : SPARSE_FLUSH;
	packet->count = (uint16_t)count;
	for (uint32_t k = first; k < first + count; k++) {
		uint32_t rank;
		const int64_t *sum = switch_sparse_listed(table, state, memory, k, &rank);

		sparse_body_put32(at, rank);
		at += SPARSE_RANK_BYTES;
		for (uint32_t i = 0; i < table->dim; i++) {
			if (are_short)
				sparse_body_put32(at, (uint32_t)sum[i]);
			else
				sparse_body_put64(at, (uint64_t)sum[i]);
			at += are_short ? SPARSE_VALUE_BYTES : SPARSE_SUM_BYTES;
		}
	}
}

/* Part `part` of switch_sparse_parts of the flush, while state->is_busy: writes it at `at`, table->bytes
 * at most, and says how many bytes it has. */
CORE_INLINE uint32_t switch_sparse_part(const struct sparse_table *table,
					const struct switch_sparse *state,
					const struct switch_sparse_memory *memory, uint32_t part,
					uint8_t *at)
{
	struct sparse packet = { .table = table->index,
				 .generation = state->generation,
				 .number = state->epoch - 1,
				 .part = part,
				 .parts = switch_sparse_parts(table, state),
				 .width = table->dim,
				 .flags = state->flags[(state->epoch - 1) & 1] };
	uint8_t *body = at + SPARSE_HEADER_BYTES;

	CORE_ASSERT(state->is_busy);
	CORE_ASSERT(part < packet.parts);
	if (part < sparse_cut_parts(table)) {
		packet.kind = SPARSE_CUT;
		packet.width = table->window;
		packet.worker = (uint16_t)(part * sparse_rows_per_part(table));
		packet.count = (uint16_t)switch_sparse_rows(table, state, memory, packet.worker,
							    sparse_rows_of_part(table, part), body);
	} else {
		switch_sparse_sums(table, state, memory, sparse_first_touched(table, part), &packet,
				   body);
	}
	sparse_put(at, &packet);
	return sparse_bytes(&packet);
}

/* ---- from the server ---- */

/* R-SP-13 */
CORE_INLINE enum switch_sparse_verdict switch_sparse_committed(struct switch_sparse *state,
							       const struct sparse *packet)
{
	if (!state->generation || packet->generation != state->generation)
		return SWITCH_SPARSE_DROP_GENERATION;
	if (packet->worker != SPARSE_SERVER)
		return SWITCH_SPARSE_DROP_WORKER; /* a worker's copy */
	if (!state->is_busy || packet->number != state->epoch - 1)
		return SWITCH_SPARSE_DROP_STALE;
	state->is_busy = 0;
	return SWITCH_SPARSE_TAKEN;
}

/* R-SP-34: it is about the flush under way. What that is good for is the engine's business. */
CORE_INLINE enum switch_sparse_verdict switch_sparse_have(const struct sparse_table *table,
							  const struct switch_sparse *state,
							  const struct sparse *packet)
{
	if (!state->generation || packet->generation != state->generation)
		return SWITCH_SPARSE_DROP_GENERATION;
	if (!state->is_busy || packet->number != state->epoch - 1)
		return SWITCH_SPARSE_DROP_STALE;
	if (packet->parts != switch_sparse_parts(table, state))
		return SWITCH_SPARSE_DROP_SHAPE;
	return SWITCH_SPARSE_TAKEN;
}

/* R-SP-12 */
CORE_INLINE enum switch_sparse_verdict switch_sparse_want(const struct sparse_table *table,
							  struct switch_sparse *state,
							  const struct sparse *packet)
{
	if (!state->generation || packet->generation != state->generation)
		return SWITCH_SPARSE_DROP_GENERATION;
	if (packet->worker >= table->workers && packet->worker != SPARSE_SERVER)
		return SWITCH_SPARSE_DROP_WORKER;
	if (packet->kind == SPARSE_FLIP ? packet->number != state->epoch : table->is_stepped)
		return SWITCH_SPARSE_DROP_STALE;
	state->is_wanted = 1;
	return SWITCH_SPARSE_TAKEN;
}

/* The rows of one part; state->setup_parts says which have come. */
CORE_INLINE void switch_sparse_take_rows(const struct sparse_table *table,
					 const struct switch_sparse_memory *memory,
					 const struct sparse *packet, const uint8_t *at)
{
	const uint8_t *number = sparse_item(packet, at, 0);
	struct switch_sparse_place *place =
		memory->place + (uint32_t)packet->worker * table->window;

	for (uint32_t i = 0; i < (uint32_t)packet->count * table->window; i++) {
		place[i].last = sparse_body_get64(number + i * SPARSE_NUMBER_BYTES);
		place[i].before = place[i].last;
		place[i].since = 0;
	}
}

/* R-SP-15: its server has told of this generation over TCP. An instance that has one keeps it. */
CORE_INLINE void switch_sparse_name(struct switch_sparse *state, uint64_t generation)
{
	if (state->generation || generation == state->named)
		return;
	state->named = generation;
	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++)
		state->setup_parts[word] = 0;
}

/* R-SP-15 */
CORE_INLINE enum switch_sparse_verdict
switch_sparse_setup(const struct sparse_table *table, struct switch_sparse *state,
		    const struct switch_sparse_memory *memory, struct sparse *packet,
		    const uint8_t *at)
{
	if (sparse_body_get64(at + SPARSE_HEADER_BYTES) != state->instance)
		return SWITCH_SPARSE_DROP_STALE;
	if (!sparse_is_cut_part(table, packet) || packet->parts != sparse_cut_parts(table) ||
	    !packet->number || !packet->generation)
		return SWITCH_SPARSE_DROP_SHAPE;
	if (packet->generation != state->named)
		return SWITCH_SPARSE_DROP_GENERATION;
	if (!state->generation) {
		switch_set_put(state->setup_parts, packet->part);
		switch_sparse_take_rows(table, memory, packet, at);
		for (uint32_t part = 0; part < packet->parts; part++)
			if (!switch_set_has(state->setup_parts, part))
				return SWITCH_SPARSE_TAKEN;
		state->generation = packet->generation;
		state->epoch = packet->number;
		state->map = packet->map;
	}
	packet->worker = SPARSE_SERVER;
	packet->number = state->instance;
	switch_sparse_answer(SPARSE_READY, packet);
	return SWITCH_SPARSE_READY;
}

/*
 * switch_sparse_step does what a packet that sparse_check has passed asks for; `at` is its datagram, and its
 * sender's address has been checked. If the verdict has an answer, *packet has become its header: an ACK or a
 * READY, which have no body.
 */
CORE_INLINE enum switch_sparse_verdict switch_sparse_step(const struct sparse_table *table,
							  struct switch_sparse *state,
							  const struct switch_sparse_memory *memory,
							  struct sparse *packet, const uint8_t *at)
{
	switch (packet->kind) {
	case SPARSE_PUSH:
		return switch_sparse_push(table, state, memory, packet, at);
	case SPARSE_ASK:
	case SPARSE_FLIP:
		return switch_sparse_want(table, state, packet);
	case SPARSE_COMMITTED:
		return switch_sparse_committed(state, packet);
	case SPARSE_BCAST:
		if (!state->generation || packet->generation != state->generation)
			return SWITCH_SPARSE_DROP_GENERATION;
		return SWITCH_SPARSE_FORWARD;
	case SPARSE_HAVE:
		return switch_sparse_have(table, state, packet);
	case SPARSE_SETUP:
		return switch_sparse_setup(table, state, memory, packet, at);
	default:
		return SWITCH_SPARSE_DROP_KIND;
	}
}

#endif
