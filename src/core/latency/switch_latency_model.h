/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_latency_model.h - for tests only: latency mode's switch once more, slowly, as docs/protocol.md
 * says it. It shares with switch_latency.h the names of verdicts, and with the other slow model what is sent,
 * how rounds are counted and whom a packet is for.
 */
#ifndef CORE_SWITCH_LATENCY_MODEL_H
#define CORE_SWITCH_LATENCY_MODEL_H

#include "core/dense/switch_model.h"
#include "core/latency/switch_latency.h"

struct latency_model {
	uint32_t generation, round, tag, lanes, flags, last;
	bool in[SWITCH_CHILDREN_MAX], has_acked[SWITCH_CHILDREN_MAX];
	uint32_t sum[MODEL_LANES];
};

static inline bool latency_model_all(const struct switch_job *job, const bool *set)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < job->children; i++)
		count += set[i];
	return count == job->children;
}

static inline void latency_model_new(const struct switch_job *job, struct latency_model *slot,
				     uint32_t generation)
{
	slot->generation = generation;
	slot->round = slot->tag = slot->lanes = slot->flags = slot->last = 0;
	for (uint32_t i = 0; i < SWITCH_CHILDREN_MAX; i++)
		slot->in[i] = slot->has_acked[i] = i < job->children;
}

static inline void latency_model_result(struct model_out *out, enum to to,
					const struct latency_model *slot, const struct wire *packet)
{
	struct wire *wire = model_say(out, to, packet, WIRE_RESULT);

	wire->tag = slot->tag;
	wire->lanes = (uint16_t)slot->lanes;
	wire->flags = (uint8_t)slot->flags;
	wire->child = (uint16_t)slot->last;
	memcpy(out->sent[out->count - 1].lane, slot->sum, sizeof(slot->sum));
}

static inline void latency_model_update(const struct switch_job *job, struct latency_model *slot,
					const struct wire *packet, const uint32_t *lane, int64_t d,
					struct model_out *out)
{
	bool is_acknowledged = job->mode == SWITCH_LATENCY_ACKNOWLEDGED;

	if (d < 0 || d > 1)
		return model_drop(out, d < 0 ? SWITCH_DROP_STALE : SWITCH_DROP_ALARM);
	if (d == 0 && slot->in[packet->child]) {
		if (latency_model_all(job, slot->in))
			latency_model_result(out, TO_SENDER, slot, packet);
		else
			model_say(out, TO_SENDER, packet, WIRE_HELD);
		return;
	}
	if (d == 1) {
		if (!latency_model_all(job, is_acknowledged ? slot->has_acked : slot->in))
			return model_drop(out, SWITCH_DROP_ALARM);
		slot->round = packet->seq;
		slot->tag = packet->tag;
		slot->lanes = packet->lanes;
		slot->flags = packet->flags % 32u;
		memset(slot->in, 0, sizeof(slot->in));
		memset(slot->has_acked, 0, sizeof(slot->has_acked));
		for (uint32_t i = 0; i < packet->lanes; i++)
			slot->sum[i] = 0;
	} else if (slot->tag != packet->tag || slot->lanes != packet->lanes) {
		out->is_mismatch = true;
		return;
	}
	slot->in[packet->child] = true;
	slot->last = packet->child;
	slot->flags |= packet->flags & 0x60;
	for (uint32_t i = 0; i < packet->lanes; i++)
		slot->sum[i] += lane[i];
	if (latency_model_all(job, slot->in))
		latency_model_result(out, TO_CHILDREN, slot, packet);
}

static inline void latency_model_ack(const struct switch_job *job, struct latency_model *slot,
				     const struct wire *packet, int64_t d, struct model_out *out)
{
	bool is_known = slot->has_acked[packet->child];

	if (d > 0 || (d == 0 && !latency_model_all(job, slot->in)))
		return model_drop(out, SWITCH_DROP_ALARM);
	if (d == 0) {
		slot->has_acked[packet->child] = true;
		if (!latency_model_all(job, slot->has_acked)) {
			if (is_known)
				model_say(out, TO_SENDER, packet, WIRE_HELD)->tag = packet->tag;
			return;
		}
	}
	model_say(out, d < 0 || is_known ? TO_SENDER : TO_CHILDREN, packet, WIRE_CONFIRM)->tag =
		packet->tag;
}

static inline bool latency_model_is_mine(const struct switch_job *job, const struct wire *packet)
{
	return packet->type == WIRE_UPDATE
		       ? packet->flags % 32 == 0
		       : packet->type == WIRE_ACK && job->mode == SWITCH_LATENCY_ACKNOWLEDGED;
}

static inline void latency_model_take(const struct switch_job *job, struct latency_model *slot,
				      const struct wire *packet, const uint32_t *lane,
				      struct model_out *out)
{
	int64_t d;

	model_drop(out, model_refusal(job, packet, latency_model_is_mine(job, packet)));
	if (out->dropped)
		return;
	if (slot->generation != packet->generation) {
		if (packet->type == WIRE_ACK || packet->seq != 1)
			return model_drop(out, SWITCH_DROP_STALE);
		latency_model_new(job, slot, packet->generation);
	}
	d = model_ahead(packet, slot->round);
	if (packet->type == WIRE_ACK)
		latency_model_ack(job, slot, packet, d, out);
	else
		latency_model_update(job, slot, packet, lane, d, out);
}

#endif
