/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draw.c - random datagrams for the differential test: mostly what the first build's slots wait for, seen
 * from one of a job's children or from its parent; often nearly that; some of any bytes at all.
 */
#include <string.h>

#include "tests/differ/differ.h"

/* Of each job; the widest sets, and one child alone. */
static const struct {
	uint16_t children, lanes;
	uint8_t mode, has_parent;
} kinds[DIFFER_JOBS] = {
	{ 1, 64, SWITCH_DENSE, 0 },
	{ 2, 64, SWITCH_DENSE, 0 },
	{ 5, 28, SWITCH_DENSE, 0 },
	{ 256, 8, SWITCH_DENSE, 0 },
	{ 3, 64, SWITCH_DENSE, 1 },
	{ 1, 12, SWITCH_DENSE, 1 },
	{ 65, 16, SWITCH_DENSE, 1 },
	{ 3, 64, SWITCH_LATENCY, 0 },
	{ 1, 4, SWITCH_LATENCY, 0 },
	{ 2, 64, SWITCH_LATENCY_ACKNOWLEDGED, 0 },
	{ 4, 20, SWITCH_LATENCY_ACKNOWLEDGED, 0 },
	{ 65, 8, SWITCH_LATENCY_ACKNOWLEDGED, 0 },
};

static uint32_t below(struct differ *differ, uint32_t end)
{
	return rng_below(&differ->rng, end);
}

static bool one_in(struct differ *differ, uint32_t parts)
{
	return below(differ, parts) == 0;
}

/* The numbers where one more, or one bit more, changes most. */
static int32_t lane_draw(struct differ *differ)
{
	static const int32_t edges[] = { 0, 1, -1, INT32_MAX, INT32_MIN, INT32_MAX - 1 };

	if (one_in(differ, 4))
		return edges[below(differ, sizeof(edges) / sizeof(edges[0]))];
	return (int32_t)rng_u32(&differ->rng);
}

void differ_draw_world(struct differ *differ)
{
	struct differ_world *first = &differ->builds[0].world;

	for (uint32_t i = 0; i < DIFFER_JOBS; i++) {
		struct switch_job *job = &first->jobs[i];

		switch_job_fill(job, kinds[i].children);
		job->generation = i % 2 ? UINT32_MAX - i : 1 + below(differ, 100);
		job->index = (uint16_t)i;
		job->lanes = kinds[i].lanes;
		job->slots = DIFFER_SLOTS;
		job->enabled = 1;
		job->mode = kinds[i].mode;
		job->has_parent = kinds[i].has_parent;
		job->parent_job = (uint16_t)(17 + i);
		job->parent_child = (uint16_t)(3 + i);
	}
	for (uint32_t i = 1; i < differ->builds_count; i++)
		memcpy(differ->builds[i].world.jobs, first->jobs,
		       DIFFER_JOBS * sizeof(*first->jobs));
}

/* As after many rounds: seq wraps soon. The copies keep their places. */
static void slot_jump(struct differ_world *world, uint32_t index, uint32_t ahead)
{
	struct differ_slot *slot = &world->slots[index];

	slot->dense.phase = 0u - ahead + ((slot->dense.phase ^ ahead) & 1);
	slot->latency.round = 0u - ahead;
}

void differ_draw_event(struct differ *differ)
{
	uint32_t job = below(differ, DIFFER_JOBS), event = below(differ, 3000);
	uint32_t slot = below(differ, DIFFER_SLOTS_ALL), ahead = 1 + below(differ, 6);

	for (uint32_t i = 0; i < differ->builds_count; i++) {
		struct differ_world *world = &differ->builds[i].world;
		struct switch_job *its = &world->jobs[job];

		if (event < 2) { /* a restart; not every one is enabled at once */
			its->generation += its->generation == UINT32_MAX ? 2 : 1;
			its->enabled = (uint8_t)event;
		} else if (event < 200) {
			its->enabled = 1;
		} else if (event < 205) {
			slot_jump(world, slot, ahead);
		}
	}
	differ->lives += event < 2;
}

static uint16_t missing_from(struct differ *differ, const struct switch_job *job,
			     const uint64_t *set)
{
	uint32_t child = below(differ, job->children);

	for (uint32_t i = 0; i < job->children && switch_set_has(set, child); i++)
		child = (child + 1) % job->children;
	return (uint16_t)child;
}

static uint16_t lanes_draw(struct differ *differ, const struct switch_job *job)
{
	return one_in(differ, 3) ? job->lanes : (uint16_t)(4 * below(differ, job->lanes / 4 + 1u));
}

/* Sticky bits, and RESENT. */
static uint8_t sticky_draw(struct differ *differ)
{
	return one_in(differ, 5) ? (uint8_t)(below(differ, 8) << 5) : 0;
}

static void dense_draw(struct differ *differ, const struct switch_job *job,
		       const struct switch_slot *slot, struct wire *packet)
{
	bool is_full = switch_bitmap_full(job, slot), is_next = false;
	const struct switch_copy *copy;

	packet->type = one_in(differ, 5) ? WIRE_PROBE : WIRE_UPDATE;
	packet->seq = slot->phase;
	packet->child = missing_from(differ, job, slot->bitmap);
	packet->exponent = one_in(differ, 8) ? WIRE_EXPONENT_UNKNOWN
					     : (uint16_t)below(differ, 65536);
	if (slot->generation != packet->generation)
		packet->seq = 1, is_next = true;
	else if (is_full && !slot->final && !one_in(differ, 4))
		packet->child = slot->copy[packet->seq & 1].last;
	else if (is_full && !one_in(differ, 4))
		packet->seq++, is_next = true;
	copy = &slot->copy[packet->seq & 1];
	packet->tag = copy->tag;
	packet->flags = copy->flags;
	packet->lanes = copy->lanes;
	if (is_next || one_in(differ, 40)) {
		packet->tag = one_in(differ, 2) ? rng_u32(&differ->rng) : below(differ, 3);
		packet->flags =
			(uint8_t)(below(differ, 4) | below(differ, WIRE_OP_END) << WIRE_OP_SHIFT);
		packet->lanes = lanes_draw(differ, job);
	} else if (wire_op_of(packet->flags) == WIRE_ADD_SHORT && !one_in(differ, 5)) {
		packet->lanes = lanes_draw(differ, job);
	} else if (wire_op_of(packet->flags) == WIRE_TAKE && !one_in(differ, 5)) {
		packet->lanes = packet->lanes ? 0 : lanes_draw(differ, job);
	}
	packet->flags |= sticky_draw(differ) | (one_in(differ, 3) ? WIRE_BARE : 0);
	if (packet->type == WIRE_PROBE || wire_round_of(packet->flags) == WIRE_EXPONENT)
		packet->lanes = 0;
}

static void parent_draw(struct differ *differ, const struct switch_job *job,
			const struct switch_slot *slot, struct wire *packet)
{
	const struct switch_copy *copy = &slot->copy[slot->phase & 1];
	static const uint8_t types[] = { WIRE_RESULT, WIRE_RESULT, WIRE_NEED, WIRE_HELD };

	packet->type = types[below(differ, sizeof(types))];
	packet->job = job->parent_job;
	packet->seq = slot->phase;
	packet->child = one_in(differ, 2) ? job->parent_child : (uint16_t)below(differ, 300);
	packet->exponent = (uint16_t)below(differ, 255);
	packet->tag = one_in(differ, 20) ? rng_u32(&differ->rng) : copy->tag;
	packet->flags = copy->flags | sticky_draw(differ);
	if (one_in(differ, 10)) /* of a round of another kind */
		packet->flags ^= (uint8_t)(1 + below(differ, 15));
	packet->lanes = one_in(differ, 4)   ? lanes_draw(differ, job)
			: one_in(differ, 4) ? 0
					    : copy->lanes;
	if (packet->type != WIRE_RESULT || wire_round_of(packet->flags) == WIRE_EXPONENT)
		packet->lanes = 0;
}

static void latency_draw(struct differ *differ, const struct switch_job *job,
			 const struct switch_latency_slot *slot, struct wire *packet)
{
	bool is_acknowledged = job->mode == SWITCH_LATENCY_ACKNOWLEDGED;

	packet->type = WIRE_UPDATE;
	packet->seq = slot->round;
	packet->tag = slot->tag;
	packet->lanes = slot->lanes;
	packet->child = missing_from(differ, job, slot->sum_bitmap);
	if (slot->generation != packet->generation) {
		packet->seq = 1;
	} else if (switch_set_is_full(job, slot->sum_bitmap)) {
		if (is_acknowledged && !switch_set_is_full(job, slot->ack_bitmap) &&
		    !one_in(differ, 12)) { /* else the next round, too early */
			packet->type = WIRE_ACK;
			packet->lanes = 0;
			packet->child = missing_from(differ, job, slot->ack_bitmap);
		} else {
			packet->seq++;
			packet->lanes = lanes_draw(differ, job);
			packet->tag = rng_u32(&differ->rng);
		}
	}
	if (one_in(differ, is_acknowledged ? 12 : 60)) {
		packet->type = WIRE_ACK;
		packet->lanes = 0;
	}
	packet->flags = sticky_draw(differ);
	if (one_in(differ, 60))
		packet->flags |= WIRE_MAX << WIRE_OP_SHIFT;
}

/* Near to what is right. */
static void packet_turn(struct differ *differ, struct wire *packet, const struct switch_job *job)
{
	if (one_in(differ, 8))
		packet->child = (uint16_t)below(differ, job->children);
	if (one_in(differ, 12))
		packet->seq += below(differ, 5) - 2;
	if (one_in(differ, 50))
		packet->tag ^= 1u << below(differ, 32);
	if (one_in(differ, 50) && packet->lanes)
		packet->lanes = lanes_draw(differ, job);
}

/* One of many ways to be wrong. */
static void packet_spoil(struct differ *differ, struct wire *packet, const struct switch_job *job)
{
	switch (below(differ, 8)) {
	case 0:
		packet->type = (uint8_t)below(differ, 16);
		break;
	case 1:
		packet->job = (uint16_t)below(differ, 2 * DIFFER_JOBS);
		break;
	case 2:
		packet->generation += below(differ, 3) - 1;
		break;
	case 3:
		packet->seq = one_in(differ, 3) ? rng_u32(&differ->rng) : 1;
		break;
	case 4:
		packet->slot = (uint16_t)below(differ, 2 * DIFFER_SLOTS);
		break;
	case 5:
		packet->child = one_in(differ, 2) ? (uint16_t)below(differ, 300) : job->children;
		break;
	case 6:
		packet->lanes = one_in(differ, 2) ? (uint16_t)below(differ, DIFFER_LANES_SENT + 1)
						  : job->lanes + WIRE_LANES_STEP;
		break;
	case 7:
		packet->flags = (uint8_t)rng_u32(&differ->rng);
		break;
	}
}

static uint32_t bytes_spoil(struct differ *differ, struct differ_datagram *datagram, uint32_t bytes)
{
	const uint32_t head = offsetof(struct differ_frame, header);
	uint8_t *header = datagram->frame.header;

	switch (below(differ, 4)) {
	case 0:
		header[below(differ, WIRE_HEADER_BYTES)] ^= (uint8_t)(1u << below(differ, 8));
		break;
	case 1:
		return head + below(differ, sizeof(*datagram) - head + 1);
	case 2:
		return head + below(differ, WIRE_HEADER_BYTES);
	case 3:
		for (uint32_t i = one_in(differ, 2); i < WIRE_HEADER_BYTES; i++)
			header[i] = (uint8_t)rng_u32(&differ->rng);
		break;
	}
	return bytes;
}

/* A node that waits for its parent gets what it waits for, soon. */
static bool is_from_parent(struct differ *differ, const struct switch_job *job,
			   const struct switch_slot *slot)
{
	if (job->has_parent && !slot->final && switch_bitmap_full(job, slot))
		return one_in(differ, 3);
	return one_in(differ, job->has_parent ? 16 : 200);
}

uint32_t differ_draw_datagram(struct differ *differ, struct differ_datagram *datagram)
{
	const struct differ_world *world = &differ->builds[0].world;
	uint32_t index = below(differ, DIFFER_JOBS), its = below(differ, DIFFER_SLOTS), bytes;
	const struct differ_slot *slot = &world->slots[index * DIFFER_SLOTS + its];
	const struct switch_job *job = &world->jobs[index];
	struct wire packet = { .job = (uint16_t)index,
			       .generation = job->generation,
			       .slot = (uint16_t)its };

	memset(datagram, 0, sizeof(*datagram));
	datagram->frame.job = index;
	if (is_from_parent(differ, job, &slot->dense)) {
		datagram->frame.from = DIFFER_PARENT;
		parent_draw(differ, job, &slot->dense, &packet);
	} else if (job->mode != SWITCH_DENSE) {
		latency_draw(differ, job, &slot->latency, &packet);
	} else {
		dense_draw(differ, job, &slot->dense, &packet);
	}
	packet_turn(differ, &packet, job);
	if (one_in(differ,
		   datagram->frame.from == DIFFER_PARENT ? 4 : 12)) /* there are few of these */
		packet_spoil(differ, &packet, job);
	wire_put(datagram->frame.header, &packet);
	for (uint32_t i = 0; i < packet.lanes; i++)
		datagram->lane[i] = lane_draw(differ);
	bytes = (uint32_t)(sizeof(datagram->frame) + packet.lanes * sizeof(datagram->lane[0]));
	return one_in(differ, 25) ? bytes_spoil(differ, datagram, bytes) : bytes;
}
