/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_fuzz.c - datagrams of several children and a parent into the switch program, with the slow
 * model of switch_model.h as the oracle. An input is a job and then packets: mostly ones that are nearly
 * right, seen from the slot they are for, some of any bytes at all.
 */
#include "core/dense/switch_fuzz.h"

enum {
	LANES = MODEL_LANES,
	LANES_SENT = LANES + 8, /* a packet may carry more than START's lanes */
	DATAGRAM_BYTES = WIRE_HEADER_BYTES + LANES_SENT * WIRE_LANE_BYTES,
};

static struct {
	struct switch_job job;
	struct switch_slot slot[SLOTS];
	struct model_slot model[SLOTS];
	int32_t *sum;             /* two copies of each slot: one of */
	int32_t *sums[LANES / 4]; /* these */
	uint8_t *end;
} scene;

static void scene_open(struct fuzz_input *input)
{
	static const uint16_t children[] = { 1, 2, 3, 2, 3, 5, 65, 256 };
	struct switch_job *job = &scene.job;
	uint8_t how = fuzz_u8(input), lanes = fuzz_u8(input), phases = fuzz_u8(input);

	fuzz_job(job, children[how & 7], how);
	job->has_parent = how >> 3 & 1;
	job->lanes = (uint16_t)(4 + lanes % (LANES / 4) * 4);
	job->parent_job = 9;
	job->parent_child = 1;
	scene.end = fuzz_block_end(DATAGRAM_BYTES);
	scene.sum = fuzz_sums(&scene.sums[job->lanes / 4 - 1], (size_t)SLOTS * 2 * job->lanes);
	memset(scene.slot, 0, sizeof(scene.slot));
	memset(scene.model, 0, sizeof(scene.model));
	for (uint32_t i = 0; i < SLOTS; i++, phases >>= 4) {
		if (!(phases & 15))
			continue; /* as new: no packet has touched it */
		model_slot_new(job, &scene.model[i], job->generation);
		switch_slot_reset(job, &scene.slot[i], job->generation);
		scene.model[i].phase = scene.slot[i].phase = (phases & 15u) - 10u;
	}
}

/* A packet that is nearly right for its slot. */
static bool packet_near(struct fuzz_input *input, struct wire *packet)
{
	static const uint8_t types[] = { WIRE_UPDATE, WIRE_UPDATE, WIRE_UPDATE, WIRE_PROBE,
					 WIRE_RESULT, WIRE_NEED,   WIRE_HELD,   WIRE_ACK };
	struct fuzz_aim aim = fuzz_aim(input);
	const struct model_slot *model = &scene.model[fuzz_aim_slot(&aim) % SLOTS];
	const struct model_copy *copy;
	uint8_t how = aim.how;

	packet->type = types[aim.what & 7];
	fuzz_aim_at(input, &aim, &scene.job, model->generation, model->phase, packet);
	copy = &model->copy[packet->seq % 2];
	packet->tag = how & 1 ? fuzz_u8(input) % 3u : copy->tag;
	packet->flags = how & 2 ? fuzz_u8(input) : (uint8_t)(copy->flags % 32u);
	packet->flags |= (uint8_t)((how >> 3 & 3u) << 5);
	packet->lanes = how & 4 ? (uint16_t)(fuzz_u8(input) % (LANES_SENT / 4 + 1) * 4)
				: (uint16_t)copy->lanes;
	packet->exponent = how & 0x20 ? fuzz_u16(input) : how & 0x40 ? 130 : 0;
	return packet->type >= WIRE_RESULT && packet->type != WIRE_ACK && !(how & 0x80);
}

/* The packet as a datagram that ends where the heap's block ends; *bytes may be anything. */
static uint8_t *datagram(struct fuzz_input *input, uint32_t *bytes, bool *is_parents)
{
	uint8_t how = fuzz_u8(input);
	struct wire packet = { 0 };

	if (how % 16 == 15) {
		*is_parents = how & 0x10;
		return fuzz_datagram_any(input, scene.end, DATAGRAM_BYTES, how, bytes);
	}
	*is_parents = packet_near(input, &packet);
	return fuzz_datagram(scene.end, &packet, how, bytes);
}

static void states_agree(uint32_t index)
{
	const struct switch_slot *slot = &scene.slot[index];
	const struct model_slot *model = &scene.model[index];

	FUZZ_CHECK(slot->generation == model->generation);
	FUZZ_CHECK(slot->phase == model->phase);
	FUZZ_CHECK(slot->final == model->final);
	for (uint32_t i = 0; i < scene.job.children; i++)
		FUZZ_CHECK(switch_bitmap_has(slot, i) == model->in[i]);
	for (uint32_t word = 0; word < SWITCH_BITMAP_WORDS; word++)
		FUZZ_CHECK(!(slot->bitmap[word] & ~scene.job.full[word]));
	for (uint32_t v = 0; v < 2; v++) {
		const struct switch_copy *copy = &slot->copy[v];
		const struct model_copy *want = &model->copy[v];

		FUZZ_CHECK(copy->tag == want->tag);
		FUZZ_CHECK(copy->lanes == want->lanes);
		FUZZ_CHECK(copy->lanes <= scene.job.lanes);
		FUZZ_CHECK(copy->flags == want->flags);
		FUZZ_CHECK(copy->exponent == want->exponent);
		FUZZ_CHECK(copy->last == want->last);
		FUZZ_CHECK(!memcmp(scene.sum + (index * 2 + v) * scene.job.lanes, want->sum,
				   scene.job.lanes * sizeof(int32_t)));
	}
}

static void packet_agrees(struct wire *packet, uint8_t *body, bool is_parents)
{
	uint32_t index = packet->slot % SLOTS, lanes = scene.job.lanes;
	struct switch_slot *slot = &scene.slot[index];
	int32_t *sum = scene.sum + index * 2 * lanes;
	const int32_t *lane = (const int32_t *)(const void *)body;
	static struct model_out out;
	enum switch_verdict verdict;

	out.count = 0;
	out.is_mismatch = false;
	out.dropped = 0;
	if (is_parents) {
		model_from_parent(&scene.job, &scene.model[index], packet,
				  (const uint32_t *)(const void *)body, &out);
		verdict = switch_admit_from_parent(&scene.job, packet);
		if (!verdict)
			verdict = switch_from_parent(&scene.job, slot, sum, lanes, packet, lane,
						     NULL);
	} else {
		model_from_child(&scene.job, &scene.model[index], packet,
				 (const uint32_t *)(const void *)body, &out);
		verdict = switch_admit(&scene.job, packet);
		if (!verdict)
			verdict = switch_step(&scene.job, slot, sum, lanes, packet, lane, NULL);
	}
	FUZZ_CHECK(verdict == model_verdict(&out));
	states_agree(index);
	sum += packet->seq % 2 * lanes;
	if (out.count)
		fuzz_sent_agrees(packet, sum, &out, 0);
	if (out.count == 2) {
		switch_probe_up(&scene.job, packet);
		fuzz_sent_agrees(packet, sum, &out, 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	scene_open(&input);
	for (uint32_t i = 0; i < PACKETS_MAX && input.left; i++) {
		struct wire packet, again;
		bool is_parents;
		uint32_t datagram_bytes;
		uint8_t *at = datagram(&input, &datagram_bytes, &is_parents);
		uint8_t header[WIRE_HEADER_BYTES];

		if (wire_check(at, datagram_bytes, &packet) != WIRE_OK)
			continue;
		wire_put(header, &packet);
		FUZZ_CHECK(!memcmp(header, at, sizeof(header)));
		wire_get(header, &again);
		FUZZ_CHECK(!memcmp(&again, &packet, sizeof(packet)));
		packet_agrees(&packet, at + WIRE_HEADER_BYTES, is_parents);
	}
	return 0;
}
