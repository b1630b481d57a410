/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_model.h - for tests only: the switch once more, slowly, as docs/protocol.md says it, with
 * arrays for sets and a list of what is sent. It shares with switch.h the names of fields and
 * verdicts, and nothing else.
 */
#ifndef CORE_SWITCH_MODEL_H
#define CORE_SWITCH_MODEL_H

#include <stdbool.h>
#include <string.h>

#include "core/dense/switch.h"

enum { MODEL_LANES = 16 };

struct model_copy {
	uint32_t tag, lanes, flags, exponent, last;
	uint32_t sum[MODEL_LANES];
};

struct model_slot {
	uint32_t generation, phase;
	bool final;
	bool in[SWITCH_CHILDREN_MAX], bare[SWITCH_CHILDREN_MAX];
	struct model_copy copy[2];
};

enum to { TO_SENDER, TO_CHILDREN, TO_PARENT };

struct model_out {
	uint32_t count; /* packets that are sent */
	struct {
		enum to to;
		struct wire wire;
		uint32_t lane[MODEL_LANES];
	} sent[2];
	bool is_mismatch;
	enum switch_verdict dropped; /* 0: it was not */
};

static inline bool model_everybody(const struct switch_job *job, const struct model_slot *slot)
{
	for (uint32_t i = 0; i < job->children; i++)
		if (!slot->in[i])
			return false;
	return true;
}

static inline bool model_nobody_wants(const struct switch_job *job, const struct model_slot *slot)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < job->children; i++)
		count += slot->bare[i];
	return count == job->children;
}

static inline void model_slot_new(const struct switch_job *job, struct model_slot *slot,
				  uint32_t generation)
{
	slot->generation = generation;
	slot->phase = 0;
	slot->final = true;
	memset(slot->bare, 0, sizeof(slot->bare));
	for (uint32_t i = 0; i < SWITCH_CHILDREN_MAX; i++)
		slot->in[i] = i < job->children;
	for (uint32_t v = 0; v < 2; v++) { /* what the sums hold does not matter: no lanes */
		struct model_copy *copy = &slot->copy[v];

		copy->tag = copy->lanes = copy->flags = copy->exponent = copy->last = 0;
	}
}

/* A header without more: HELD, NEED, PROBE. */
static inline struct wire *model_say(struct model_out *out, enum to to, const struct wire *packet,
				     enum wire_type type)
{
	struct wire *wire = &out->sent[out->count].wire;

	out->sent[out->count++].to = to;
	*wire = (struct wire){ .type = (uint8_t)type,
			       .job = packet->job,
			       .generation = packet->generation,
			       .seq = packet->seq,
			       .slot = packet->slot,
			       .child = packet->child };
	return wire;
}

static inline void model_need(struct model_out *out, const struct wire *probe)
{
	model_say(out, TO_SENDER, probe, WIRE_NEED)->tag = probe->tag;
}

/* What copy v holds, as a RESULT or as an UPDATE for the parent. */
static inline struct wire *model_tell(struct model_out *out, enum to to,
				      const struct switch_job *job, const struct model_slot *slot,
				      const struct wire *packet)
{
	const struct model_copy *copy = &slot->copy[packet->seq % 2];
	struct wire *wire = model_say(out, to, packet, to == TO_PARENT ? WIRE_UPDATE : WIRE_RESULT);

	wire->tag = copy->tag;
	wire->flags = (uint8_t)copy->flags;
	wire->exponent = (uint16_t)copy->exponent;
	wire->lanes = (uint16_t)copy->lanes;
	if (to == TO_SENDER && packet->flags / 16 % 2)
		wire->lanes = 0;
	if (to == TO_PARENT &&
	    (model_nobody_wants(job, slot) || (copy->flags / 4 % 4 == 3 && copy->lanes)))
		wire->flags += 16;
	wire->job = to == TO_PARENT ? job->parent_job : job->index;
	wire->child = to == TO_PARENT ? job->parent_child : (uint16_t)copy->last;
	memcpy(out->sent[out->count - 1].lane, copy->sum, sizeof(copy->sum));
	return wire;
}

static inline bool model_same_round(const struct model_copy *copy, const struct wire *packet)
{
	uint32_t operation = packet->flags >> 2 & 3;
	bool is_silent = copy->lanes == 0 || packet->lanes == 0;

	if (copy->tag != packet->tag || copy->flags % 16 != packet->flags % 16u)
		return false;
	return is_silent || operation == 1 || (operation != 3 && copy->lanes == packet->lanes);
}

static inline void model_add(struct model_copy *copy, const struct wire *packet,
			     const uint32_t *lane)
{
	uint32_t operation = packet->flags >> 2 & 3;

	copy->flags |= packet->flags & 0x60;
	copy->last = packet->child;
	for (uint32_t high = 0xff00, low = 0xff; high;
	     high = low, low = 0) { /* of GUESS, byte by byte */
		uint32_t all = packet->flags % 4 == 3 ? high : 0xffff;

		if ((copy->exponent & all) < (packet->exponent & all))
			copy->exponent = (copy->exponent & ~all) | (packet->exponent & all);
	}
	for (uint32_t i = 0; i < packet->lanes; i++) {
		int64_t old = (int32_t)copy->sum[i], new = (int32_t)lane[i];

		if (i >= copy->lanes) /* of whatever operation: nobody has said anything yet */
			copy->sum[i] = lane[i];
		else if (operation <= 1)
			copy->sum[i] = (uint32_t)((uint64_t)(old + new) % 0x100000000);
		else
			copy->sum[i] = (uint32_t)(old > new ? old : new);
	}
	if (copy->lanes < packet->lanes)
		copy->lanes = packet->lanes;
}

static inline void model_first(struct model_slot *slot, const struct wire *packet,
			       const uint32_t *lane)
{
	struct model_copy *copy = &slot->copy[packet->seq % 2];

	slot->phase = packet->seq;
	slot->final = false;
	memset(slot->in, 0, sizeof(slot->in));
	memset(slot->bare, 0, sizeof(slot->bare));
	slot->in[packet->child] = true;
	slot->bare[packet->child] = packet->flags & 0x10;
	copy->tag = packet->tag;
	copy->lanes = packet->lanes;
	copy->flags = packet->flags & 0x6f;
	copy->exponent = packet->exponent;
	copy->last = packet->child;
	memcpy(copy->sum, lane, packet->lanes * sizeof(*lane));
}

/* How many rounds the packet is before the slot; negative: behind. */
static inline int64_t model_ahead(const struct wire *packet, uint32_t round)
{
	int64_t d = (int64_t)packet->seq - (int64_t)round;

	if (d >= 0x80000000)
		d -= 0x100000000;
	if (d < -(int64_t)0x80000000)
		d += 0x100000000;
	return d;
}

static inline void model_drop(struct model_out *out, enum switch_verdict reason)
{
	out->dropped = reason;
}

static inline void model_known(const struct switch_job *job, const struct model_slot *slot,
			       const struct wire *packet, struct model_out *out)
{
	struct wire *held;

	if (slot->final) {
		model_tell(out, TO_SENDER, job, slot, packet);
		return;
	}
	held = model_say(out, TO_SENDER, packet, WIRE_HELD);
	held->tag = packet->type == WIRE_PROBE ? packet->tag : 0;
	if (job->has_parent && model_everybody(job, slot) &&
	    slot->copy[packet->seq % 2].last == packet->child) {
		struct wire *probe = model_say(out, TO_PARENT, packet, WIRE_PROBE);

		probe->job = job->parent_job;
		probe->child = job->parent_child;
	}
}

/* UPDATE or PROBE of a child; false if nothing was added. */
static inline bool model_take(const struct switch_job *job, struct model_slot *slot,
			      const struct wire *packet, const uint32_t *lane,
			      struct model_out *out)
{
	bool is_probe = packet->type == WIRE_PROBE;
	int64_t d;

	if (slot->generation != packet->generation) {
		if (packet->seq != 1)
			return model_drop(out, SWITCH_DROP_STALE), false;
		if (is_probe)
			return model_need(out, packet), false;
		model_slot_new(job, slot, packet->generation);
	}
	d = model_ahead(packet, slot->phase);
	if (d == -1)
		return model_tell(out, TO_SENDER, job, slot, packet), false;
	if (d != 0 && d != 1)
		return model_drop(out, d < 0 ? SWITCH_DROP_STALE : SWITCH_DROP_ALARM), false;
	if (d == 0 && slot->in[packet->child])
		return model_known(job, slot, packet, out), false;
	if (is_probe)
		return model_need(out, packet), false;
	if (d == 1) {
		if (!model_everybody(job, slot) || !slot->final)
			return model_drop(out, SWITCH_DROP_ALARM), false;
		model_first(slot, packet, lane);
		return true;
	}
	if (!model_same_round(&slot->copy[packet->seq % 2], packet)) {
		out->is_mismatch = true;
		return false;
	}
	slot->in[packet->child] = true;
	slot->bare[packet->child] = packet->flags & 0x10;
	model_add(&slot->copy[packet->seq % 2], packet, lane);
	return true;
}

/* is_mine: it is of a type that this switch takes from its children. */
static inline enum switch_verdict model_refusal(const struct switch_job *job,
						const struct wire *packet, bool is_mine)
{
	return !is_mine                                ? SWITCH_DROP_TYPE
	       : !job->enabled || !job->generation     ? SWITCH_DROP_JOB
	       : packet->generation != job->generation ? SWITCH_DROP_GENERATION
	       : packet->child >= job->children        ? SWITCH_DROP_CHILD
	       : packet->slot >= job->slots            ? SWITCH_DROP_SLOT
	       : packet->lanes > job->lanes            ? SWITCH_DROP_LANES
						       : 0;
}

static inline void model_from_child(const struct switch_job *job, struct model_slot *slot,
				    const struct wire *packet, const uint32_t *lane,
				    struct model_out *out)
{
	bool is_mine = packet->type == WIRE_UPDATE || packet->type == WIRE_PROBE;

	model_drop(out, model_refusal(job, packet, is_mine));
	if (out->dropped || !model_take(job, slot, packet, lane, out))
		return;
	if (!model_everybody(job, slot))
		return;
	slot->final = !job->has_parent;
	model_tell(out, job->has_parent ? TO_PARENT : TO_CHILDREN, job, slot, packet);
}

static inline enum switch_verdict model_parent_refusal(const struct switch_job *job,
						       const struct model_slot *slot,
						       const struct wire *packet)
{
	bool is_mine = packet->type == WIRE_RESULT || packet->type == WIRE_NEED ||
		       packet->type == WIRE_HELD;

	if (!is_mine)
		return SWITCH_DROP_TYPE;
	if (!job->enabled || !job->generation || !job->has_parent)
		return SWITCH_DROP_JOB;
	if (packet->generation != job->generation)
		return SWITCH_DROP_GENERATION;
	if (packet->slot >= job->slots)
		return SWITCH_DROP_SLOT;
	if (packet->lanes > job->lanes)
		return SWITCH_DROP_LANES;
	if (packet->type == WIRE_HELD)
		return 0;
	if (packet->generation != slot->generation)
		return SWITCH_DROP_GENERATION;
	if (packet->seq != slot->phase || !model_everybody(job, slot) || slot->final)
		return SWITCH_DROP_STALE;
	return 0;
}

static inline void model_from_parent(const struct switch_job *job, struct model_slot *slot,
				     const struct wire *packet, const uint32_t *lane,
				     struct model_out *out)
{
	struct model_copy *copy = &slot->copy[packet->seq % 2];

	model_drop(out, model_parent_refusal(job, slot, packet));
	if (out->dropped || packet->type == WIRE_HELD)
		return;
	if (packet->type == WIRE_NEED) {
		model_tell(out, TO_PARENT, job, slot, packet)->flags |= 0x80;
		return;
	}
	copy->tag = packet->tag;
	if (packet->lanes || packet->flags / 4 % 4 != 3 || packet->flags % 16 != copy->flags % 16)
		copy->lanes = packet->lanes;
	copy->flags = packet->flags & 0x6f;
	copy->exponent = packet->exponent;
	if (packet->child != job->parent_child)
		copy->last = 0xffff;
	memcpy(copy->sum, lane, packet->lanes * sizeof(*lane));
	slot->final = true;
	model_tell(out, TO_CHILDREN, job, slot, packet);
}

/* Is sent[index] this header, and are its lanes the sum? */
static inline bool model_sent_is(const struct model_out *out, uint32_t index,
				 const struct wire *packet, const int32_t *sum)
{
	const struct wire *want = &out->sent[index].wire;
	uint8_t got_bytes[WIRE_HEADER_BYTES], want_bytes[WIRE_HEADER_BYTES];

	wire_put(got_bytes, packet);
	wire_put(want_bytes, want);
	return !memcmp(got_bytes, want_bytes, sizeof(want_bytes)) &&
	       !memcmp(sum, out->sent[index].lane, want->lanes * sizeof(*sum));
}

static inline enum switch_verdict model_verdict(const struct model_out *out)
{
	static const enum switch_verdict one[] = { SWITCH_REPLY, SWITCH_MULTICAST, SWITCH_UP };

	if (out->dropped)
		return out->dropped;
	if (out->is_mismatch)
		return SWITCH_MISMATCH;
	return out->count == 0   ? SWITCH_ABSORB
	       : out->count == 2 ? SWITCH_HELD_UP
				 : one[out->sent[0].to];
}

#endif
