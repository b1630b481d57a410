/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_latency_fuzz.c - datagrams of any kind to a worker in latency mode, over a link that has room or
 * not. A result is taken if and only if it is the answer to what was sent last in its slot; nothing else
 * changes a byte of a destination; operations complete once, in their order.
 */
#include "dataplane/endpoint.h"
#include "dataplane/link_fuzz.h"
#include "simd/simd.h"

enum {
	SLOTS_MAX = 6,
	LANES = 8,
	OPS = 12,
	OPS_MAX = 8,
	GENERATION = 7,
	JOB = 5,
	CHILD = 1,
	DATAGRAM_BYTES = WIRE_HEADER_BYTES + (LANES + 4) * WIRE_LANE_BYTES,
	STEPS_MAX = 48,
};

static struct {
	struct fuzz_link link;
	struct endpoint *endpoint;
	uint32_t slots, workers;
	bool is_full, was_full;
	int32_t *source[OPS], *destination[OPS]; /* of just their size */
	uint32_t count[OPS];
	bool is_avg[OPS], is_range[OPS];
	uint32_t ops;
	uint64_t done;
} test;

static const struct link_address tallyd = { .ip = { [15] = 9 }, .port = 7171 };

/* ---- the link ---- */

static int fake_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	(void)link;
	for (uint32_t i = 0; i < count; i++) {
		const struct link_frame *frame = &frames[i];

		FUZZ_CHECK(link_address_equal(&frame->peer, &tallyd));
		FUZZ_CHECK(frame->count >= 1);
		FUZZ_CHECK(frame->count <= LINK_FRAME_PACKETS_MAX);
		FUZZ_CHECK(frame->bytes <= frame->count * frame->packet_bytes);
		for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes) {
			uint32_t bytes = link_packet_bytes(frame, at);
			struct wire packet;
			enum wire_fault fault = wire_check(frame->data + at, bytes, &packet);

			FUZZ_CHECK(!fault || (fault == WIRE_FAULT_LENGTH && test.was_full));
			if (fault)
				continue; /* its slot has gone on while it waited for room */
			FUZZ_CHECK(packet.generation == GENERATION);
			FUZZ_CHECK(packet.job == JOB);
			FUZZ_CHECK(packet.child == CHILD);
			FUZZ_CHECK(packet.type == WIRE_HELLO || packet.slot < test.slots);
			FUZZ_CHECK(packet.type == WIRE_UPDATE || packet.type == WIRE_ACK ||
				   packet.type == WIRE_HELLO);
		}
	}
	return 0;
}

static int fake_offer(struct link *link, const struct link_frame *frames, uint32_t count,
		      uint32_t *taken)
{
	*taken = test.is_full ? 0 : count;
	test.was_full |= test.is_full;
	return fake_send(link, frames, *taken);
}

static const struct link_ops fake_ops = { .recv = fuzz_link_recv,
					  .send = fake_send,
					  .offer = fake_offer,
					  .now_ns = fuzz_link_now };

/* ---- operations ---- */

static void op_submit(struct fuzz_input *input)
{
	uint8_t how = fuzz_u8(input), values = fuzz_u8(input);
	uint32_t i = test.ops, state = values;
	struct endpoint_op op = { .descriptor = { .number = i, .name = "" },
				  .stream = -1,
				  .type = LANES_INT32,
				  .op = how >> 4 & 1 ? LANES_AVG : LANES_SUM,
				  .cookie = i,
				  .is_out_of_range = &test.is_range[i % OPS] };

	if (i == OPS)
		return;
	op.count = how & 15u;
	if (op.count > LANES)
		op.count = LANES;
	op.descriptor.count = op.count;
	test.count[i] = (uint32_t)op.count;
	test.is_avg[i] = op.op == LANES_AVG;
	test.is_range[i] = false;
	test.destination[i] = fuzz_just(test.count[i] * sizeof(int32_t));
	test.source[i] = how & 0x20 ? test.destination[i]
				    : fuzz_just(test.count[i] * sizeof(int32_t));
	for (uint32_t k = 0; k < test.count[i]; k++) {
		test.destination[i][k] = -1;
		test.source[i][k] = (int32_t)fuzz_next(&state);
	}
	op.source = test.source[i];
	op.destination = test.destination[i];
	if (endpoint_submit(test.endpoint, &op)) { /* no room */
		if (test.source[i] != test.destination[i])
			free(test.source[i]);
		free(test.destination[i]);
		return;
	}
	test.ops++;
}

static void done_check(void)
{
	uint64_t cookies[OPS];
	uint32_t count = endpoint_done(test.endpoint, cookies, OPS);

	for (uint32_t i = 0; i < count; i++, test.done++) {
		FUZZ_CHECK(cookies[i] == test.done);
		FUZZ_CHECK(cookies[i] < test.ops);
	}
}

/* ---- what comes in ---- */

static uint32_t datagram(struct fuzz_input *input, uint8_t **at)
{
	static const uint8_t types[] = { WIRE_RESULT,  WIRE_RESULT, WIRE_CONFIRM, WIRE_HELD,
					 WIRE_CONFIRM, WIRE_RESULT, WIRE_WELCOME, WIRE_NEED };
	uint8_t what = fuzz_u8(input), wrong = fuzz_u8(input);
	uint32_t slot = (what >> 3) % test.slots;
	const struct worker_latency_slot *state =
		&endpoint_worker_latency(test.endpoint)->slot[slot];
	struct wire packet = { .type = types[what & 7],
			       .job = JOB,
			       .generation = GENERATION,
			       .seq = state->seq,
			       .slot = (uint16_t)slot,
			       .child = wrong & 3,
			       .tag = state->tag };

	if (packet.type == WIRE_RESULT)
		packet.lanes = state->lanes;
	if (packet.type == WIRE_WELCOME)
		packet.lanes = WIRE_HELLO_LANES;
	packet.flags = wrong & 4 ? WIRE_RANGE : 0;
	if (wrong >= 0x80) {
		packet.generation += wrong & 1;
		packet.seq += (wrong >> 2 & 3) - 1u;
		packet.tag ^= wrong >> 4 & 1;
		if (wrong & 0x20)
			packet.slot = (uint16_t)(fuzz_u8(input) % (SLOTS_MAX + 2));
		if (wrong & 0x40) {
			packet.flags = fuzz_u8(input);
			packet.lanes = fuzz_u8(input) % 4 * 4;
		}
	}
	*at = fuzz_link_room(&test.link, wire_bytes(packet.lanes));
	return fuzz_packet_put(*at, &packet, wrong);
}

/* The operation that this datagram answers; OPS: none. */
static uint64_t answered(const uint8_t *at, uint32_t bytes, struct wire *packet)
{
	const struct worker_latency *worker = endpoint_worker_latency(test.endpoint);
	const struct worker_latency_slot *slot;

	if (wire_check(at, bytes, packet) || packet->type != WIRE_RESULT || packet->job != JOB ||
	    packet->generation != GENERATION || packet->slot >= test.slots)
		return OPS;
	slot = &worker->slot[packet->slot];
	if (slot->state != WORKER_LATENCY_RESULT_DUE || slot->seq != packet->seq ||
	    slot->tag != packet->tag || slot->lanes != packet->lanes ||
	    packet->flags % 32 != SWITCH_LATENCY_KIND)
		return OPS;
	FUZZ_CHECK(slot->k < test.ops);
	return slot->k;
}

static void packet_give(struct fuzz_input *input, uint8_t how)
{
	static int32_t before[OPS][LANES];
	struct endpoint_stats stats, after;
	struct wire packet;
	uint64_t op;
	uint8_t *at;
	uint32_t bytes = how & 1 ? fuzz_datagram_raw(&test.link, input, &at) : datagram(input, &at);

	op = answered(at, bytes, &packet);
	fuzz_link_give(&test.link, tallyd, at, bytes);
	if ((how & 0x0e) == 0x0e) {
		test.link.frame.peer.port++; /* a stranger */
		op = OPS;
	}
	for (uint32_t i = 0; i < test.ops; i++)
		memcpy(before[i], test.destination[i], test.count[i] * sizeof(int32_t));
	endpoint_stats(test.endpoint, &stats);
	endpoint_poll(test.endpoint);
	/* It takes nothing while the link has no room for what it has to say. */
	if (test.link.has_frame) {
		test.link.has_frame = false;
		op = OPS;
	}
	endpoint_stats(test.endpoint, &after);
	FUZZ_CHECK(after.results_in - stats.results_in == (op < OPS));
	if (op < OPS && packet.flags & WIRE_RANGE)
		FUZZ_CHECK(test.is_range[op]);
	for (uint32_t k = 0; op < OPS && !(packet.flags & WIRE_RANGE) && k < test.count[op]; k++) {
		memcpy(&before[op][k], at + WIRE_HEADER_BYTES + k * sizeof(int32_t),
		       sizeof(int32_t));
		if (test.is_avg[op])
			before[op][k] /= (int32_t)test.workers;
	}
	for (uint32_t i = 0; i < test.ops; i++)
		FUZZ_CHECK(
			!memcmp(before[i], test.destination[i], test.count[i] * sizeof(int32_t)));
}

/* ---- a run ---- */

static void test_open(uint8_t how)
{
	struct endpoint_shard shard = {
		.address = tallyd, .generation = GENERATION, .job = JOB, .child = CHILD
	};
	struct endpoint_options options = { .link = &test.link.link,
					    .quant = simd_best(),
					    .shards = &shard,
					    .shards_count = 1,
					    .run = how & 1 ? 4 : 1,
					    .window = 1,
					    .ops_max = OPS_MAX };

	fuzz_link_open(&test.link, &fake_ops, DATAGRAM_BYTES);
	test.slots = options.slots = 1 + (how >> 1) % SLOTS_MAX;
	options.latency_window = 1 + (how >> 4) % options.slots;
	test.workers = options.workers = how & 8 ? 3 : 2;
	test.link.now_ns = 1000000000;
	test.ops = 0;
	test.done = 0;
	test.is_full = test.was_full = false;
	test.endpoint = endpoint_open(&options);
	FUZZ_CHECK(test.endpoint);
	FUZZ_CHECK(!endpoint_start(test.endpoint, LANES));
}

static void test_close(void)
{
	endpoint_close(test.endpoint);
	for (uint32_t i = 0; i < test.ops; i++) {
		if (test.source[i] != test.destination[i])
			free(test.source[i]);
		free(test.destination[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	test_open(fuzz_u8(&input));
	op_submit(&input);
	endpoint_poll(test.endpoint);
	for (uint32_t i = 0; i < STEPS_MAX && input.left; i++) {
		uint8_t how = fuzz_u8(&input);

		if (how & 0xc0)
			packet_give(&input, how);
		else if (how & 1)
			op_submit(&input);
		else if (how & 2)
			test.is_full = how >> 2 & 1;
		else
			test.link.now_ns += (uint64_t)fuzz_u8(&input) << (how >> 2 & 15) << 8;
		endpoint_poll(test.endpoint);
		done_check();
		if (endpoint_fault(test.endpoint) != ENDPOINT_OK)
			break;
	}
	test_close();
	return 0;
}
