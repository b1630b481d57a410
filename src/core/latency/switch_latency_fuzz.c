/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_latency_fuzz.c - datagrams of several children into latency mode's switch, both forms, with the
 * slow model of switch_latency_model.h as the oracle.
 */
#include "core/dense/switch_fuzz.h"
#include "core/latency/switch_latency_model.h"

enum {
	LANES = 8,
	LANES_SENT = LANES + 4, /* a packet may carry more than START's lanes */
	DATAGRAM_BYTES = WIRE_HEADER_BYTES + LANES_SENT * WIRE_LANE_BYTES,
};

static struct {
	struct switch_job job;
	struct switch_latency_slot slot[SLOTS];
	struct latency_model model[SLOTS];
	int32_t *sum;             /* one copy of each slot: one of */
	int32_t *sums[LANES / 4]; /* these */
	uint8_t *end;
} scene;

static void scene_open(struct fuzz_input *input)
{
	static const uint16_t children[] = { 1, 2, 3, 4, 3, 2, 65, 256 };
	struct switch_job *job = &scene.job;
	uint8_t how = fuzz_u8(input), rounds = fuzz_u8(input);

	fuzz_job(job, children[how & 7], how);
	job->mode = how & 8 ? SWITCH_LATENCY : SWITCH_LATENCY_ACKNOWLEDGED;
	job->lanes = how & 0x10 ? 4 : LANES;
	scene.end = fuzz_block_end(DATAGRAM_BYTES);
	scene.sum = fuzz_sums(&scene.sums[job->lanes / 4 - 1], (size_t)SLOTS * job->lanes);
	memset(scene.slot, 0, sizeof(scene.slot));
	memset(scene.model, 0, sizeof(scene.model));
	for (uint32_t i = 0; i < SLOTS; i++, rounds >>= 4) {
		if (!(rounds & 15))
			continue; /* as new: no packet has touched it */
		latency_model_new(job, &scene.model[i], job->generation);
		switch_latency_slot_reset(job, &scene.slot[i], job->generation);
		scene.model[i].round = scene.slot[i].round = (rounds & 15u) - 10u;
	}
}

static void packet_near(struct fuzz_input *input, struct wire *packet)
{
	static const uint8_t types[] = { WIRE_UPDATE, WIRE_UPDATE, WIRE_UPDATE, WIRE_ACK,
					 WIRE_ACK,    WIRE_ACK,    WIRE_PROBE,  WIRE_RESULT };
	struct fuzz_aim aim = fuzz_aim(input);
	const struct latency_model *model = &scene.model[fuzz_aim_slot(&aim) % SLOTS];
	uint8_t how = aim.how;

	packet->type = types[aim.what & 7];
	fuzz_aim_at(input, &aim, &scene.job, model->generation, model->round, packet);
	packet->tag = how & 1 ? fuzz_u8(input) % 3u : model->tag;
	packet->flags = how & 2 ? fuzz_u8(input) : 0;
	packet->flags |= (uint8_t)((how >> 3 & 3u) << 5);
	if (packet->type == WIRE_UPDATE || packet->type == WIRE_RESULT)
		packet->lanes = how & 4 ? (uint16_t)(fuzz_u8(input) % (LANES_SENT / 4 + 1) * 4)
					: (uint16_t)model->lanes;
	packet->exponent = how & 0x20 ? fuzz_u16(input) : 0;
}

static uint8_t *datagram(struct fuzz_input *input, uint32_t *bytes)
{
	uint8_t how = fuzz_u8(input);
	struct wire packet = { 0 };

	if (how % 16 == 15)
		return fuzz_datagram_any(input, scene.end, DATAGRAM_BYTES, how, bytes);
	packet_near(input, &packet);
	return fuzz_datagram(scene.end, &packet, how, bytes);
}

static void states_agree(uint32_t index)
{
	const struct switch_latency_slot *slot = &scene.slot[index];
	const struct latency_model *model = &scene.model[index];

	FUZZ_CHECK(slot->generation == model->generation);
	FUZZ_CHECK(slot->round == model->round);
	FUZZ_CHECK(slot->tag == model->tag);
	FUZZ_CHECK(slot->lanes == model->lanes);
	FUZZ_CHECK(slot->lanes <= scene.job.lanes);
	FUZZ_CHECK(slot->flags == model->flags);
	FUZZ_CHECK(slot->last == model->last);
	for (uint32_t i = 0; i < scene.job.children; i++) {
		FUZZ_CHECK(switch_set_has(slot->sum_bitmap, i) == model->in[i]);
		FUZZ_CHECK(switch_set_has(slot->ack_bitmap, i) == model->has_acked[i]);
	}
	FUZZ_CHECK(!memcmp(scene.sum + index * scene.job.lanes, model->sum,
			   scene.job.lanes * sizeof(int32_t)));
}

static void packet_agrees(struct wire *packet, const uint8_t *body)
{
	uint32_t index = packet->slot % SLOTS;
	int32_t *sum = scene.sum + index * scene.job.lanes;
	static struct model_out out;
	enum switch_verdict verdict;

	out.count = 0;
	out.is_mismatch = false;
	out.dropped = 0;
	latency_model_take(&scene.job, &scene.model[index], packet,
			   (const uint32_t *)(const void *)body, &out);
	verdict = switch_latency_admit(&scene.job, packet);
	if (!verdict)
		verdict = switch_latency_step(&scene.job, &scene.slot[index], sum, packet,
					      (const int32_t *)(const void *)body, NULL);
	FUZZ_CHECK(verdict == model_verdict(&out));
	states_agree(index);
	FUZZ_CHECK(out.count <= 1);
	if (out.count)
		fuzz_sent_agrees(packet, sum, &out, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	scene_open(&input);
	for (uint32_t i = 0; i < PACKETS_MAX && input.left; i++) {
		struct wire packet;
		uint32_t datagram_bytes;
		uint8_t *at = datagram(&input, &datagram_bytes);

		if (wire_check(at, datagram_bytes, &packet) == WIRE_OK)
			packet_agrees(&packet, at + WIRE_HEADER_BYTES);
	}
	return 0;
}
