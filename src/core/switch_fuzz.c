/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_fuzz.c - datagrams of several children and a parent into the switch program, with the slow
 * model of switch_model.h as the oracle. An input is a job and then packets: mostly ones that are nearly
 * right, seen from the slot they are for, some of any bytes at all.
 */
#include "core/switch.h"
#include "core/switch_model.h"
#include "tests/fuzz/input.h"

enum {
	SLOTS = 2,
	LANES = MODEL_LANES,
	LANES_SENT = LANES + 8, /* a packet may carry more than START's lanes */
	DATAGRAM_BYTES = WIRE_HEADER_BYTES + LANES_SENT * WIRE_LANE_BYTES,
	PACKETS_MAX = 48,
};

struct scene {
	struct switch_job job;
	struct switch_slot slot[SLOTS];
	struct model_slot model[SLOTS];
	int32_t *sum;             /* two copies of each slot: one of */
	int32_t *sums[LANES / 4]; /* these, of just its size: asan sees a lane too far */
	uint8_t *block, *end;     /* of the heap: a datagram ends where it ends */
};

static struct scene scene;

static void sums_open(void)
{
	int32_t **sum = &scene.sums[scene.job.lanes / 4 - 1];
	size_t bytes = (size_t)SLOTS * 2 * scene.job.lanes * sizeof(**sum);

	if (!*sum)
		*sum = malloc(bytes);
	FUZZ_CHECK(*sum);
	scene.sum = *sum;
	memset(scene.sum, 0, bytes);
}

static void scene_open(struct fuzz_input *input)
{
	static const uint16_t children[] = { 1, 2, 3, 2, 3, 5, 65, 256 };
	struct switch_job *job = &scene.job;
	uint8_t how = fuzz_u8(input), lanes = fuzz_u8(input), phases = fuzz_u8(input);

	if (!scene.end) {
		scene.block = malloc(DATAGRAM_BYTES);
		FUZZ_CHECK(scene.block);
		scene.end = scene.block + DATAGRAM_BYTES;
	}
	memset(job, 0, sizeof(*job));
	switch_job_fill(job, children[how & 7]);
	job->has_parent = how >> 3 & 1;
	job->enabled = (how >> 4 & 7) != 7;
	job->generation = how & 0x80 ? UINT32_MAX : 7;
	job->index = 3;
	job->lanes = (uint16_t)(4 + lanes % (LANES / 4) * 4);
	job->slots = SLOTS;
	job->parent_job = 9;
	job->parent_child = 1;
	sums_open();
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
	uint8_t what = fuzz_u8(input), which = fuzz_u8(input), how = fuzz_u8(input);
	const struct model_slot *model;
	const struct model_copy *copy;

	packet->type = types[what & 7];
	packet->slot = which == 0xfd ? SLOTS : what >> 3 & 1;
	model = &scene.model[packet->slot % SLOTS];
	packet->seq = (what & 0xc0) == 0xc0 ? fuzz_u32(input)
		      : model->generation   ? model->phase + (what >> 6)
					    : 1;
	if (what & 0x20)
		packet->seq -= 2;
	packet->generation = scene.job.generation + (which == 0xff) - (which == 0xfe);
	packet->child = (uint16_t)(which % (scene.job.children + 1u));
	packet->job = scene.job.index;
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
	uint32_t lanes_from;
	uint8_t *at;

	if (how % 16 == 15) {
		*bytes = fuzz_u8(input) % (DATAGRAM_BYTES + 1);
		at = scene.end - *bytes;
		memset(at, how, *bytes);
		(void)fuzz_bytes(input, at, *bytes);
		*is_parents = how & 0x10;
		return at;
	}
	*is_parents = packet_near(input, &packet);
	lanes_from = how;
	*bytes = wire_bytes(packet.lanes);
	at = scene.end - *bytes;
	wire_put(at, &packet);
	for (uint32_t i = 0; i < packet.lanes; i++) {
		uint32_t lane = fuzz_next(&lanes_from);

		memcpy(at + WIRE_HEADER_BYTES + i * sizeof(lane), &lane, sizeof(lane));
	}
	return at;
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

static void sent_agrees(const struct wire *packet, const int32_t *sum, const struct model_out *out,
			uint32_t index)
{
	uint8_t got[WIRE_HEADER_BYTES], want[WIRE_HEADER_BYTES];
	struct wire again;

	wire_put(got, packet);
	wire_put(want, &out->sent[index].wire);
	FUZZ_CHECK(!memcmp(got, want, sizeof(want)));
	FUZZ_CHECK(wire_check(got, wire_bytes(packet->lanes), &again) == WIRE_OK);
	FUZZ_CHECK(!memcmp(sum, out->sent[index].lane, packet->lanes * sizeof(*sum)));
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
		sent_agrees(packet, sum, &out, 0);
	if (out.count == 2) {
		switch_probe_up(&scene.job, packet);
		sent_agrees(packet, sum, &out, 1);
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
