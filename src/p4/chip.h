/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chip.h - core/dense/switch.h as a chip runs it: R-CHIP-1 to R-CHIP-5. No pass of a packet touches a register twice,
 * so what one pass cannot know is done in a pass more. dense.p4 is this in P4, but that it keeps who is missing: the
 * pass that opens a round assigns it, so it needs no name. The search has this serve workers beside switch.h. It is
 * written for what it says, not for speed: no product has it.
 */
#ifndef P4_CHIP_H
#define P4_CHIP_H

#include <stdbool.h>

#include "core/dense/switch.h"

/* R-CHIP-1: a word that is empty for every other round than the one it names. */
struct chip_word {
	uint32_t generation, seq, value;
};

/* Of a slot, beside its struct switch_slot, whose bitmap is `set`'s value. */
struct chip_words {
	struct chip_word set, count; /* who is in; how many second halves are */
};

/* A packet that passes; its lanes from `from` on, up to `to`, which is less than all if an UPDATE takes two passes. */
struct chip_packet {
	struct wire *wire;
	const int32_t *lane;
	uint32_t from, to;
};

CORE_INLINE bool chip_word_is(const struct chip_word *word, const struct wire *wire)
{
	return word->generation == wire->generation && word->seq == wire->seq;
}

/* One access: the word names this round from now on; what it holds then. */
CORE_INLINE uint32_t chip_word_put(struct chip_word *word, const struct wire *wire, uint32_t more)
{
	if (!chip_word_is(word, wire))
		*word = (struct chip_word){ wire->generation, wire->seq, 0 };
	word->value |= more;
	return word->value;
}

/* R-CHIP-2: what a packet has no lane for is the least that a lane can be, so the sum is R-SW-8's whoever sends how
 * many. */
CORE_INLINE void chip_sums_put(int32_t *sum, const struct chip_packet *packet, bool is_first)
{
	bool is_max = wire_op_of(packet->wire->flags) == WIRE_MAX;
	int32_t none = is_max ? INT32_MIN : 0;

	for (uint32_t i = packet->from; i < packet->to; i++) {
		int32_t lane = i < packet->wire->lanes ? packet->lane[i] : none;

		if (is_first)
			sum[i] = lane;
		else if (!is_max)
			sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)lane);
		else if (lane > sum[i])
			sum[i] = lane;
	}
}

/* Tag, lanes, flags, exponent, last: assigned by the first, combined by the others. */
CORE_INLINE void chip_fields_put(struct switch_copy *fields, const struct wire *wire, bool is_first)
{
	if (is_first) {
		*fields = (struct switch_copy){ .tag = wire->tag };
		fields->flags = wire->flags & WIRE_KIND_MASK;
	}
	fields->flags |= wire->flags & WIRE_STICKY_MASK;
	fields->last = wire->child;
	fields->exponent = switch_exponent(fields->exponent, wire->exponent, fields->flags);
	if (wire->lanes > fields->lanes)
		fields->lanes = wire->lanes;
}

/* The word of generation, phase and final: does this packet open a round? ABSORB: it is of one that is open. */
CORE_INLINE enum switch_verdict chip_phase(struct switch_slot *slot, struct wire *wire, bool *opens)
{
	int32_t ahead = (int32_t)(wire->seq - slot->phase);
	bool is_new = slot->generation != wire->generation;

	*opens = false;
	if (is_new && wire->seq != 1)
		return SWITCH_DROP_STALE;
	if (!is_new && ahead == -1)
		return switch_reply(slot, switch_copy_of(wire->seq), wire);
	if (!is_new && ahead == 0)
		return SWITCH_ABSORB;
	if (!is_new && ahead != 1)
		return ahead > 0 ? SWITCH_DROP_ALARM : SWITCH_DROP_STALE;
	if (wire->type == WIRE_PROBE)
		return switch_say(WIRE_NEED, wire);
	if (!is_new && !slot->final)
		return SWITCH_DROP_ALARM;
	if (is_new) /* R-SW-2. A chip knows by the life in a copy's word that there is nothing in it. */
		slot->copy[0] = slot->copy[1] = (struct switch_copy){ 0 };
	slot->generation = wire->generation;
	slot->phase = wire->seq;
	slot->final = 0;
	*opens = true;
	return SWITCH_ABSORB;
}

/* The first pass. *goes_round: the packet has completed the round, or finds it complete and not final (R-CHIP-3).
 * `sum`: those of the packet's copy. */
CORE_INLINE enum switch_verdict chip_first(const struct switch_job *job, struct switch_slot *slot,
					   struct chip_words *words, int32_t *sum,
					   const struct chip_packet *packet, bool *goes_round)
{
	struct wire *wire = packet->wire;
	uint32_t copy = switch_copy_of(wire->seq), bit = 1u << wire->child;
	enum switch_verdict verdict;
	bool opens;

	*goes_round = false;
	verdict = chip_phase(slot, wire, &opens);
	if (verdict != SWITCH_ABSORB)
		return verdict;
	if (!opens && chip_word_put(&words->set, wire, 0) & bit) {
		if (slot->final)
			return switch_reply(slot, copy, wire);
		*goes_round = words->set.value == job->full[0];
		return switch_say(WIRE_HELD, wire);
	}
	if (wire->type == WIRE_PROBE)
		return switch_say(WIRE_NEED, wire);
	if (!opens && !switch_fits(&slot->copy[copy], wire))
		return SWITCH_MISMATCH;
	slot->bitmap[0] = chip_word_put(&words->set, wire, bit);
	if (opens)
		slot->bare[0] = 0;
	if (wire->flags & WIRE_BARE)
		slot->bare[0] |= bit;
	chip_fields_put(&slot->copy[copy], wire, opens);
	chip_sums_put(sum, packet, opens);
	*goes_round = slot->bitmap[0] == job->full[0];
	return SWITCH_ABSORB;
}

/* R-CHIP-5: the second half, and how many have brought theirs. True: all have. Like the first and the last pass, only
 * of a packet that switch_admit lets in now (R-CHIP-4). */
CORE_INLINE bool chip_second(const struct switch_job *job, struct chip_words *words, int32_t *sum,
			     const struct chip_packet *packet)
{
	chip_sums_put(sum, packet, !chip_word_is(&words->count, packet->wire));
	chip_word_put(&words->count, packet->wire, 0);
	words->count.value++;
	return words->count.value == job->children;
}

/* R-CHIP-5: may the round be final, as far as second halves go? */
CORE_INLINE bool chip_is_counted(const struct switch_job *job, const struct chip_words *words,
				 const struct wire *wire)
{
	return chip_word_is(&words->count, wire) && words->count.value == job->children;
}

/* R-CHIP-3: the pass that makes the phase final; who finds it so gets its own answer. */
CORE_INLINE enum switch_verdict chip_last(struct switch_slot *slot, struct wire *wire)
{
	uint32_t copy = switch_copy_of(wire->seq);

	if (slot->generation != wire->generation || slot->phase != wire->seq)
		return SWITCH_DROP_STALE;
	if (slot->final)
		return switch_reply(slot, copy, wire);
	slot->final = 1;
	switch_answer(slot, copy, wire);
	return SWITCH_MULTICAST;
}

#endif
