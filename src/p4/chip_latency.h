/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chip_latency.h - core/latency/switch_latency.h as a chip runs it: R-CHIP-11. latency.p4 is this in P4; the search has it
 * serve workers in the place of switch_latency.h. As chip.h, it is written for what it says.
 */
#ifndef P4_CHIP_LATENCY_H
#define P4_CHIP_LATENCY_H

#include "core/latency/switch_latency.h"
#include "p4/chip.h"

/* What has become of a slot's round. */
enum chip_latency_state {
	CHIP_COLLECTS,
	CHIP_FINAL, /* all have been sent the RESULT */
	CHIP_FREE,  /* all have acknowledged it */
};

/* Of a slot, beside its struct switch_latency_slot, whose sets are these. */
struct chip_latency_words {
	struct chip_word set, acks;
	uint32_t state; /* enum chip_latency_state: one word with generation and round */
};

/* The word of generation, round and state: does this packet open a round? ABSORB: it is of the one that the slot has. */
CORE_INLINE enum switch_verdict chip_latency_round(const struct switch_job *job,
						   struct switch_latency_slot *slot,
						   struct chip_latency_words *words,
						   struct wire *wire, bool *opens)
{
	int32_t ahead = (int32_t)(wire->seq - slot->round);
	bool is_new = slot->generation != wire->generation, is_ack = wire->type == WIRE_ACK;
	uint32_t least = job->mode == SWITCH_LATENCY_ACKNOWLEDGED ? CHIP_FREE : CHIP_FINAL;

	*opens = false;
	if (is_new && (is_ack || wire->seq != 1))
		return SWITCH_DROP_STALE;
	if (!is_new && ahead < 0)
		return is_ack ? switch_latency_say(WIRE_CONFIRM, wire->tag, wire)
			      : SWITCH_DROP_STALE;
	if (!is_new && !ahead)
		return is_ack && words->state == CHIP_COLLECTS ? SWITCH_DROP_ALARM : SWITCH_ABSORB;
	if (!is_new && (is_ack || ahead > 1 || words->state < least))
		return SWITCH_DROP_ALARM;
	slot->generation = wire->generation;
	slot->round = wire->seq;
	words->state = CHIP_COLLECTS;
	*opens = true;
	return SWITCH_ABSORB;
}

/* An ACK in its first pass. */
CORE_INLINE enum switch_verdict chip_latency_ack(const struct switch_job *job,
						 struct chip_latency_words *words,
						 struct wire *wire, bool *goes_round)
{
	uint32_t bit = 1u << wire->child;
	bool was_in = chip_word_put(&words->acks, wire, 0) & bit;

	*goes_round = words->state != CHIP_FREE &&
		      chip_word_put(&words->acks, wire, bit) == job->full[0];
	if (!was_in)
		return SWITCH_ABSORB;
	return switch_latency_say(words->state == CHIP_FREE ? WIRE_CONFIRM : WIRE_HELD, wire->tag,
				  wire);
}

/* The first pass. *goes_round: the packet has completed the round, or finds it complete and not final; or an ACK the
 * same of the acknowledgements. */
CORE_INLINE enum switch_verdict chip_latency_first(const struct switch_job *job,
						   struct switch_latency_slot *slot,
						   struct chip_latency_words *words, int32_t *sum,
						   const struct chip_packet *packet,
						   bool *goes_round)
{
	struct wire *wire = packet->wire;
	bool opens;
	enum switch_verdict verdict = chip_latency_round(job, slot, words, wire, &opens);

	*goes_round = false;
	if (verdict != SWITCH_ABSORB)
		return verdict;
	if (wire->type == WIRE_ACK)
		return chip_latency_ack(job, words, wire, goes_round);
	if (!opens && chip_word_put(&words->set, wire, 0) & 1u << wire->child) {
		if (words->state != CHIP_COLLECTS) {
			switch_latency_answer(slot, wire);
			return SWITCH_REPLY;
		}
		*goes_round = words->set.value == job->full[0];
		return switch_latency_say(WIRE_HELD, 0, wire);
	}
	if (!opens && (wire->tag != slot->tag || wire->lanes != slot->lanes))
		return SWITCH_MISMATCH;
	*goes_round = chip_word_put(&words->set, wire, 1u << wire->child) == job->full[0];
	slot->tag = wire->tag;
	slot->lanes = wire->lanes;
	slot->last = wire->child;
	slot->flags = (opens ? SWITCH_LATENCY_KIND : slot->flags) |
		      (wire->flags & WIRE_STICKY_MASK);
	chip_sums_put(sum, packet, opens);
	return SWITCH_ABSORB;
}

/* The pass that makes the round final, or an ACK's that makes it free; who finds it so gets its own answer. */
CORE_INLINE enum switch_verdict chip_latency_last(struct switch_latency_slot *slot,
						  struct chip_latency_words *words,
						  struct wire *wire)
{
	bool is_ack = wire->type == WIRE_ACK;
	bool completes = words->state == (is_ack ? CHIP_FINAL : CHIP_COLLECTS);

	if (slot->generation != wire->generation || slot->round != wire->seq)
		return SWITCH_DROP_STALE;
	if (is_ack)
		switch_latency_say(WIRE_CONFIRM, wire->tag, wire);
	else
		switch_latency_answer(slot, wire);
	if (completes)
		words->state = is_ack ? CHIP_FREE : CHIP_FINAL;
	return completes ? SWITCH_MULTICAST : SWITCH_REPLY;
}

#endif
