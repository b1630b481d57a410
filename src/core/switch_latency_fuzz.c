/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch_latency_fuzz.c - datagrams of several children into latency mode's switch, both forms, with the
 * slow model of switch_latency_model.h as the oracle.
 */
#include "core/switch_latency_model.h"
#include "tests/fuzz/input.h"

enum {
	SLOTS = 2,
	LANES = 8,
	LANES_SENT = LANES + 4, /* a packet may carry more than START's lanes */
	DATAGRAM_BYTES = WIRE_HEADER_BYTES + LANES_SENT * WIRE_LANE_BYTES,
	PACKETS_MAX = 48,
};

static struct {
	struct switch_job job;
	struct switch_latency_slot slot[SLOTS];
	struct latency_model model[SLOTS];
	int32_t *sums[LANES / 4]; /* of just their size: asan sees a lane too far */
	int32_t *sum;
	uint8_t *block, *end; /* of the heap: a datagram ends where it ends */
} scene;

static void memory_open(void)
{
	for (uint32_t i = 0; !scene.block && i < LANES / 4; i++) {
		scene.sums[i] = malloc(SLOTS * (i + 1) * 4 * sizeof(int32_t));
		FUZZ_CHECK(scene.sums[i]);
	}
	if (!scene.block)
		scene.block = malloc(DATAGRAM_BYTES);
	FUZZ_CHECK(scene.block);
	scene.end = scene.block + DATAGRAM_BYTES;
	scene.sum = scene.sums[scene.job.lanes / 4 - 1];
	memset(scene.sum, 0, SLOTS * scene.job.lanes * sizeof(*scene.sum));
}

static void scene_open(struct fuzz_input *input)
{
	static const uint16_t children[] = { 1, 2, 3, 4, 3, 2, 65, 256 };
	struct switch_job *job = &scene.job;
	uint8_t how = fuzz_u8(input), rounds = fuzz_u8(input);

	memset(job, 0, sizeof(*job));
	switch_job_fill(job, children[how & 7]);
	job->mode = how & 8 ? SWITCH_LATENCY : SWITCH_LATENCY_ACKNOWLEDGED;
	job->enabled = (how >> 4 & 7) != 7;
	job->generation = how & 0x80 ? UINT32_MAX : 7;
	job->index = 3;
	job->lanes = how & 0x10 ? 4 : LANES;
	job->slots = SLOTS;
	memory_open();
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
	uint8_t what = fuzz_u8(input), which = fuzz_u8(input), how = fuzz_u8(input);
	const struct latency_model *model;

	packet->type = types[what & 7];
	packet->slot = which == 0xfd ? SLOTS : what >> 3 & 1;
	model = &scene.model[packet->slot % SLOTS];
	packet->seq = (what & 0xc0) == 0xc0 ? fuzz_u32(input)
		      : model->generation   ? model->round + (what >> 6)
					    : 1;
	if (what & 0x20)
		packet->seq -= 2;
	packet->generation = scene.job.generation + (which == 0xff) - (which == 0xfe);
	packet->child = (uint16_t)(which % (scene.job.children + 1u));
	packet->job = scene.job.index;
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
	uint8_t how = fuzz_u8(input), *at;
	struct wire packet = { 0 };
	uint32_t lanes_from = how;

	if (how % 16 == 15) {
		*bytes = fuzz_u8(input) % (DATAGRAM_BYTES + 1);
		at = scene.end - *bytes;
		memset(at, how, *bytes);
		(void)fuzz_bytes(input, at, *bytes);
		return at;
	}
	packet_near(input, &packet);
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
	uint8_t got[WIRE_HEADER_BYTES], want[WIRE_HEADER_BYTES];
	static struct model_out out;
	enum switch_verdict verdict;
	struct wire again;

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
	if (!out.count)
		return;
	wire_put(got, packet);
	wire_put(want, &out.sent[0].wire);
	FUZZ_CHECK(!memcmp(got, want, sizeof(want)));
	FUZZ_CHECK(wire_check(got, wire_bytes(packet->lanes), &again) == WIRE_OK);
	FUZZ_CHECK(!memcmp(sum, out.sent[0].lane, packet->lanes * sizeof(*sum)));
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
