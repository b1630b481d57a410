/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_latency.h - the switch program of latency mode: one small packet per operation, one copy per
 * slot. Restricted C, as switch.h, whose jobs, sets, loops and verdicts it uses. docs/protocol.md,
 * R-LAT-1 to R-LAT-9.
 *
 * Operation k uses slot k mod S in round k div S + 1; a worker has at most P operations without a
 * result. A slot may be used again only when every worker has the result of its last round:
 *
 *   self-acknowledging (S >= 2P): a worker sends operation k only after it has accepted all results up to
 *     k - P. So the first UPDATE of a slot's next round, k + S, says that some worker has all results up
 *     to k + S - P; all workers have sent these, hence have all results up to k + S - 2P >= k.
 *   acknowledged (S < 2P): the slot counts ACKs, and CONFIRM tells the workers that all are in.
 *
 * What the engine does: looks up the job; for the modes of latency calls switch_latency_admit, checks
 * the sender's address (SWITCH_DROP_ADDRESS) and then calls switch_latency_step under the slot's lock.
 * It owns the slots and sums: of each slot `struct switch_latency_slot` and job->lanes lanes (one copy),
 * zeroed when they are new. Verdicts: ABSORB, REPLY (RESULT, CONFIRM or HELD), MULTICAST (RESULT or
 * CONFIRM), MISMATCH, DROP_*. There are no trees: job->has_parent is 0. A WIRE_PROBE is DROP_TYPE.
 */
#ifndef CORE_SWITCH_LATENCY_H
#define CORE_SWITCH_LATENCY_H

#include "core/dense/switch.h"

enum {
	SWITCH_LATENCY_SLOTS_MAX = 65536, /* what the header's slot can say */
	/* Bits 0-4 of every UPDATE and RESULT. */
	SWITCH_LATENCY_KIND = WIRE_DATA | WIRE_ADD << WIRE_OP_SHIFT,
};

struct switch_latency_slot {
	uint32_t generation; /* 0 in a new slot: fits no packet */
	uint32_t round;      /* the one that collects, or is complete */
	uint32_t tag;
	uint16_t lanes;
	uint16_t last; /* the child whose UPDATE came last */
	uint8_t flags; /* SWITCH_LATENCY_KIND, sticky bits OR-ed */
	uint8_t reserved[7];
	uint64_t sum_bitmap[SWITCH_BITMAP_WORDS]; /* children whose UPDATE is in the sum */
	uint64_t ack_bitmap[SWITCH_BITMAP_WORDS]; /* whose ACK is in; acknowledged form only */
};

/* R-LAT-2: the form follows from S and P, 1 <= P <= S <= SWITCH_LATENCY_SLOTS_MAX; all sides ask here.
 * (With fewer slots and no ACKs a result is gone too early: docs/ablations.md, LATENCY_FORM.) */
CORE_INLINE enum switch_mode switch_latency_mode(uint32_t slots, uint32_t window)
{
	if (slots < 2 * window)
		return SWITCH_LATENCY_ACKNOWLEDGED;
	return SWITCH_LATENCY;
}

/* R-LAT-4: as R-SW-1, but for the types: UPDATEs that add DATA; ACK in the acknowledged form. 0, or a
 * SWITCH_DROP_*. The address is the engine's to check. */
CORE_INLINE enum switch_verdict switch_latency_admit(const struct switch_job *job,
						     const struct wire *packet)
{
	int is_ack = packet->type == WIRE_ACK && job->mode == SWITCH_LATENCY_ACKNOWLEDGED;
	int is_update = packet->type == WIRE_UPDATE &&
			(packet->flags & (WIRE_KIND_MASK | WIRE_BARE)) == SWITCH_LATENCY_KIND;

	if (!is_ack && !is_update)
		return SWITCH_DROP_TYPE;
	return switch_admit_edge(job, packet);
}

/* R-LAT-3: HELD and CONFIRM are headers. */
CORE_INLINE enum switch_verdict switch_latency_say(enum wire_type type, uint32_t tag,
						   struct wire *packet)
{
	packet->type = (uint8_t)type;
	packet->flags = 0;
	packet->exponent = 0;
	packet->lanes = 0;
	packet->tag = tag;
	return SWITCH_REPLY;
}

CORE_INLINE void switch_latency_answer(const struct switch_latency_slot *slot, struct wire *packet)
{
	packet->type = WIRE_RESULT;
	packet->flags = slot->flags;
	packet->child = slot->last;
	packet->exponent = 0;
	packet->lanes = slot->lanes;
	packet->tag = slot->tag;
}

CORE_INLINE enum switch_verdict switch_latency_complete(const struct switch_job *job,
							const struct switch_latency_slot *slot,
							struct wire *packet)
{
	if (!switch_set_is_full(job, slot->sum_bitmap))
		return SWITCH_ABSORB;
	switch_latency_answer(slot, packet);
	return SWITCH_MULTICAST;
}

/* R-LAT-6: the first UPDATE of the slot's next round. Everything is assigned, nothing is left. */
CORE_INLINE enum switch_verdict switch_latency_open(const struct switch_job *job,
						    struct switch_latency_slot *slot, int32_t *sum,
						    struct wire *packet, const int32_t *lane,
						    const void *end)
{
	const uint64_t *done = job->mode == SWITCH_LATENCY_ACKNOWLEDGED ? slot->ack_bitmap
									: slot->sum_bitmap;

	if (!switch_set_is_full(job, done))
		return SWITCH_DROP_ALARM;
	slot->round = packet->seq;
	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++) {
		slot->sum_bitmap[word] = 0;
		slot->ack_bitmap[word] = 0;
	}
	switch_set_put(slot->sum_bitmap, packet->child);
	slot->tag = packet->tag;
	slot->lanes = packet->lanes;
	slot->last = packet->child;
	slot->flags = packet->flags & (uint8_t)~WIRE_RESENT;
	switch_assign(sum, lane, packet->lanes, end);
	return switch_latency_complete(job, slot, packet);
}

/* R-LAT-7: an UPDATE of the round that collects, or is complete. Bits 0-4 of the flags are the same in
 * all that switch_latency_admit lets in. */
CORE_INLINE enum switch_verdict switch_latency_combine(const struct switch_job *job,
						       struct switch_latency_slot *slot,
						       int32_t *sum, struct wire *packet,
						       const int32_t *lane, const void *end)
{
	if (switch_set_has(slot->sum_bitmap, packet->child)) {
		if (!switch_set_is_full(job, slot->sum_bitmap))
			return switch_latency_say(WIRE_HELD, 0, packet);
		switch_latency_answer(slot, packet);
		return SWITCH_REPLY;
	}
	if (packet->tag != slot->tag || packet->lanes != slot->lanes)
		return SWITCH_MISMATCH;
	switch_set_put(slot->sum_bitmap, packet->child);
	slot->flags |= packet->flags & WIRE_STICKY_MASK;
	slot->last = packet->child;
	switch_add(sum, lane, packet->lanes, end);
	return switch_latency_complete(job, slot, packet);
}

/* R-LAT-8: ACK, `ahead` rounds before or behind the slot. The tag of an ACK is its round's; HELD and
 * CONFIRM repeat it. A worker whose CONFIRM was lost may ask when the slot has long gone on. */
CORE_INLINE enum switch_verdict switch_latency_ack(const struct switch_job *job,
						   struct switch_latency_slot *slot, int32_t ahead,
						   struct wire *packet)
{
	if (ahead < 0)
		return switch_latency_say(WIRE_CONFIRM, packet->tag, packet);
	if (ahead)
		return ahead > 0 ? SWITCH_DROP_ALARM : SWITCH_DROP_STALE;
	if (!switch_set_is_full(job, slot->sum_bitmap))
		return SWITCH_DROP_ALARM;
	if (switch_set_has(slot->ack_bitmap, packet->child)) {
		if (!switch_set_is_full(job, slot->ack_bitmap))
			return switch_latency_say(WIRE_HELD, packet->tag, packet);
		return switch_latency_say(WIRE_CONFIRM, packet->tag, packet);
	}
	switch_set_put(slot->ack_bitmap, packet->child);
	if (!switch_set_is_full(job, slot->ack_bitmap))
		return SWITCH_ABSORB;
	switch_latency_say(WIRE_CONFIRM, packet->tag, packet);
	return SWITCH_MULTICAST;
}

/* R-LAT-5, as R-SW-2: a slot meets the first packet of a new life of its job. */
CORE_INLINE void switch_latency_slot_reset(const struct switch_job *job,
					   struct switch_latency_slot *slot, uint32_t generation)
{
	slot->generation = generation;
	slot->round = 0;
	slot->tag = 0;
	slot->lanes = 0;
	slot->last = 0;
	slot->flags = 0;
	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++) {
		slot->sum_bitmap[word] = job->full[word];
		slot->ack_bitmap[word] = job->full[word];
	}
}

/*
 * switch_latency_step advances one slot by one UPDATE or ACK that switch_latency_admit has let in. `sum`
 * has room for job->lanes lanes; `lane` are the packet's, `end` is its end (read in eBPF only). For
 * REPLY and MULTICAST *packet has become the header of the answer; if packet->lanes is not 0, its lanes
 * are `sum`. The caller holds the slot's lock (R-LAT-9).
 */
CORE_INLINE enum switch_verdict switch_latency_step(const struct switch_job *job,
						    struct switch_latency_slot *slot, int32_t *sum,
						    struct wire *packet, const int32_t *lane,
						    const void *end)
{
	int32_t ahead;

	if (slot->generation != packet->generation) {
		if (packet->seq != 1 || packet->type != WIRE_UPDATE)
			return SWITCH_DROP_STALE;
		switch_latency_slot_reset(job, slot, packet->generation);
	}
	ahead = (int32_t)(packet->seq - slot->round);
	if (packet->type == WIRE_ACK)
		return switch_latency_ack(job, slot, ahead, packet);
	if (ahead == 1)
		return switch_latency_open(job, slot, sum, packet, lane, end);
	if (ahead == 0)
		return switch_latency_combine(job, slot, sum, packet, lane, end);
	return ahead > 0 ? SWITCH_DROP_ALARM : SWITCH_DROP_STALE;
}

#endif
