/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_fuzz.c - datagrams of any kind to a worker whose operations are on their way. A result is taken
 * if and only if it is the answer to what was sent last in its slot; nothing else changes a byte of a
 * destination; and what was sent once is what is sent again.
 */
#include "core/shared/hash.h"
#include "dataplane/endpoint.h"
#include "dataplane/link_fuzz.h"
#include "simd/simd.h"

enum {
	SHARDS_MAX = 2,
	SLOTS = 12,
	LANES = 8,
	OPS = 4,
	COUNT_MAX = 40,
	BYTES_MAX = 8 * COUNT_MAX,
	OPS_MAX = 8,
	GENERATION = 0xfffffff0,
	JOB = 5,
	CHILD = 1,
	DATAGRAM_BYTES = WIRE_HEADER_BYTES + (LANES + 8) * WIRE_LANE_BYTES,
	STEPS_MAX = 64,
};

struct sent {
	uint32_t seq;
	uint64_t hash;
};

static struct {
	struct fuzz_link link;
	struct endpoint *endpoint;
	uint32_t shards, workers;
	struct sent sent[SHARDS_MAX][SLOTS];
	uint8_t *source[OPS], *destination[OPS]; /* of just their size */
	uint64_t count[OPS], bytes[OPS], hash[OPS], ends[OPS][2];
	struct lanes lanes[OPS];
	struct endpoint_segment halves[OPS][2];
	uint32_t ops, done;
} test;

static struct link_address address_of(uint32_t shard)
{
	return (struct link_address){ .ip = { [15] = 9 }, .port = (uint16_t)(7171 + shard) };
}

/* ---- the link ---- */

/* M3: an UPDATE (slot, seq) never changes, but for RESENT; the next seq follows the last. */
static void update_check(uint32_t shard, const uint8_t *at, uint32_t bytes,
			 const struct wire *packet)
{
	struct sent *sent = &test.sent[shard][packet->slot];
	uint64_t hash = HASH_BEGIN;

	for (uint32_t i = 0; i < bytes; i++) {
		uint8_t byte = i == 1 ? at[i] & (uint8_t)~WIRE_RESENT : at[i];

		hash = hash_byte(hash, byte);
	}
	if (packet->seq == sent->seq) {
		FUZZ_CHECK(packet->flags & WIRE_RESENT);
		FUZZ_CHECK(hash == sent->hash);
		return;
	}
	FUZZ_CHECK(packet->seq == sent->seq + 1);
	FUZZ_CHECK(!(packet->flags & WIRE_RESENT));
	*sent = (struct sent){ packet->seq, hash };
}

static int fake_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	(void)link;
	for (uint32_t i = 0; i < count; i++) {
		const struct link_frame *frame = &frames[i];
		uint32_t shard = frame->peer.port - 7171u;

		FUZZ_CHECK(shard < test.shards);
		FUZZ_CHECK(frame->count >= 1);
		FUZZ_CHECK(frame->count <= LINK_FRAME_PACKETS_MAX);
		FUZZ_CHECK(frame->bytes <= frame->count * frame->packet_bytes);
		FUZZ_CHECK(frame->bytes > (frame->count - 1) * frame->packet_bytes);
		for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes) {
			uint32_t bytes = link_packet_bytes(frame, at);
			struct wire packet;

			FUZZ_CHECK(!wire_check(frame->data + at, bytes, &packet));
			FUZZ_CHECK(packet.generation == (uint32_t)GENERATION + shard);
			FUZZ_CHECK(packet.job == JOB);
			FUZZ_CHECK(packet.child == CHILD);
			FUZZ_CHECK(packet.slot < SLOTS);
			if (packet.type == WIRE_UPDATE)
				update_check(shard, frame->data + at, bytes, &packet);
			else
				FUZZ_CHECK(packet.type == WIRE_PROBE || packet.type == WIRE_HELLO);
		}
	}
	return 0;
}

static const struct link_ops fake_ops = { .recv = fuzz_link_recv,
					  .send = fake_send,
					  .now_ns = fuzz_link_now };

/* ---- operations ---- */

/* Of the first half nobody here wants anything; of the second, nobody elsewhere if `is_for_one`. */
static void half_wanted(struct endpoint_op *op, uint32_t i, bool is_for_one)
{
	uint64_t half = op->count / 2, bytes = half * lanes_bytes(op->type);

	test.halves[i][0] = (struct endpoint_segment){ 0, half, test.source[i], NULL };
	test.halves[i][1] = (struct endpoint_segment){ half, op->count - half,
						       test.source[i] + bytes,
						       test.destination[i] + bytes };
	op->segments = test.halves[i];
	op->segments_count = 2;
	op->is_for_one = is_for_one;
	op->parts = 2; /* also of a sum */
}

static void op_submit(struct fuzz_input *input)
{
	uint8_t how = fuzz_u8(input), values = fuzz_u8(input);
	static const enum lanes_type types[] = { LANES_INT32, LANES_FLOAT32 };
	uint32_t i = test.ops, state = values;
	struct endpoint_op op = { .descriptor = { .number = i, .name = "" },
				  .stream = how & 4 ? (int)MAP_BULK : -1,
				  .type = types[how & 1],
				  .op = how >> 1 & 1 ? LANES_AVG : LANES_SUM,
				  .cookie = i };

	if (i == OPS)
		return;
	if (how >= 0xe0) { /* another type, and with MAX or MIN: some of that lanes cannot do */
		uint8_t other = fuzz_u8(input);

		op.type = (enum lanes_type)(other % LANES_TYPES);
		op.op = (enum lanes_op)(other / LANES_TYPES % LANES_OPS);
		op.form = (enum lanes_form)(other / LANES_TYPES / LANES_OPS % LANES_FORMS);
		op.exponent = values;
	}
	op.count = how & 0xf0 ? 1 + fuzz_u8(input) % COUNT_MAX : 0;
	op.descriptor.count = op.count;
	if (op.op == LANES_COPY) { /* parts of two ranks, and of which one is here, or none */
		test.ends[i][0] = op.count / 3;
		test.ends[i][1] = op.count;
		op.ends = test.ends[i];
		op.parts = 2;
		op.mine = values % 3;
	}
	if (!endpoint_lanes(test.endpoint, &op, &test.lanes[i])) {
		FUZZ_CHECK(endpoint_submit(test.endpoint, &op) < 0);
		return;
	}
	test.bytes[i] = op.count * lanes_bytes(op.type);
	test.count[i] = op.count;
	test.destination[i] = fuzz_just(test.bytes[i]);
	test.source[i] = how & 8 ? test.destination[i] : fuzz_just(test.bytes[i]);
	memset(test.destination[i], 0xff, test.bytes[i]);
	for (uint64_t k = 0; k < test.bytes[i]; k++)
		test.source[i][k] = (uint8_t)fuzz_next(&state);
	op.source = test.source[i];
	op.destination = test.destination[i];
	if (how & 0x10 && op.count > 1)
		half_wanted(&op, i, values & 1);
	op.descriptor.type = op.type;
	test.hash[i] = map_descriptor_hash(&op.descriptor);
	FUZZ_CHECK(!endpoint_submit(test.endpoint, &op));
	test.ops++;
}

static void done_check(void)
{
	uint64_t cookies[OPS];
	uint32_t count = endpoint_done(test.endpoint, cookies, OPS);

	for (uint32_t i = 0; i < count; i++) {
		FUZZ_CHECK(cookies[i] < test.ops);
		FUZZ_CHECK(!(test.done >> cookies[i] & 1));
		test.done |= 1u << cookies[i];
	}
}

/* ---- what comes in ---- */

static const struct worker_slot *slot_of(uint32_t shard, uint32_t slot)
{
	return &endpoint_worker(test.endpoint)->slot[shard * SLOTS + slot];
}

static uint32_t datagram(struct fuzz_input *input, uint8_t **at, uint32_t shard)
{
	static const uint8_t types[] = { WIRE_RESULT, WIRE_RESULT, WIRE_RESULT,  WIRE_HELD,
					 WIRE_NEED,   WIRE_NEED,   WIRE_WELCOME, WIRE_UPDATE };
	uint8_t what = fuzz_u8(input), how = fuzz_u8(input);
	uint32_t slot = (what >> 3) % SLOTS;
	const struct worker_slot *state = slot_of(shard, slot);
	struct wire packet = { .type = types[what & 7],
			       .flags = state->flags,
			       .job = JOB,
			       .generation = (uint32_t)GENERATION + shard,
			       .seq = state->seq,
			       .slot = (uint16_t)slot,
			       .child = CHILD,
			       .exponent = how & 8 ? fuzz_u16(input) : 130,
			       .lanes = state->lanes,
			       .tag = state->tag };

	if (how & 0x80) { /* something is wrong with it */
		uint8_t wrong = fuzz_u8(input);

		packet.generation += wrong & 1;
		packet.job += wrong >> 1 & 1;
		packet.seq += (wrong >> 2 & 3) - 2u;
		if (wrong & 0x10)
			packet.slot = (uint16_t)(packet.slot + SLOTS);
		packet.tag ^= wrong >> 5 & 1;
		packet.lanes = wrong & 0x40 ? fuzz_u8(input) % 5 * 4 : packet.lanes;
		packet.flags ^= wrong & 0x80 ? fuzz_u8(input) : 0;
	}
	packet.flags |= (uint8_t)((how & 7u) << 5);
	if (packet.type == WIRE_HELD || packet.type == WIRE_NEED)
		packet.lanes = 0, packet.tag = how & 0x10 ? fuzz_u32(input) : how & 3;
	if (packet.type == WIRE_WELCOME)
		packet.lanes = WIRE_HELLO_LANES;
	*at = fuzz_link_room(&test.link, wire_bytes(packet.lanes));
	return fuzz_packet_put(*at, &packet, how);
}

/* R-WK-3, once more: is this the answer to what was sent last in its slot? */
static bool is_answer(const uint8_t *at, uint32_t bytes, uint32_t shard, struct wire *packet)
{
	const struct worker_slot *slot;
	bool is_own;

	if (wire_check(at, bytes, packet) || packet->type != WIRE_RESULT || packet->job != JOB ||
	    shard >= test.shards || packet->generation != (uint32_t)GENERATION + shard ||
	    packet->slot >= SLOTS)
		return false;
	slot = slot_of(shard, packet->slot);
	is_own = slot->is_bare && slot->is_kept;
	return slot->state == WORKER_OUTSTANDING && slot->seq == packet->seq &&
	       (packet->lanes == (is_own ? 0 : slot->lanes) || (slot->is_bare && !packet->lanes)) &&
	       slot->tag == packet->tag && slot->flags == packet->flags % 16 &&
	       !(packet->flags % 4 == WIRE_EXPONENT && packet->exponent == WIRE_EXPONENT_UNKNOWN);
}

/* Which elements a RESULT of this slot may write. */
struct place {
	uint32_t op;
	uint32_t elements;
	uint64_t first;
};

static struct place place_of(uint32_t shard, uint32_t slot)
{
	const struct worker *worker = endpoint_worker(test.endpoint);
	const struct worker_slot *state = slot_of(shard, slot);
	enum map_stream stream = slot < worker->map.base[MAP_BULK] ? MAP_EXPRESS : MAP_BULK;
	const struct worker_op_state *is = &worker->stream[stream].ops[state->op % OPS_MAX];
	uint64_t index = map_chunk(&worker->map, stream, shard, state->k) - is->first;
	struct place place = { 0 };
	uint32_t full;

	while (place.op < test.ops && test.hash[place.op] != is->op.hash)
		place.op++;
	FUZZ_CHECK(place.op < test.ops);
	if (is->op.parts > 1)
		index = map_turn(index, is->chunks, is->op.parts, worker->map.run[stream]);
	full = map_full(test.lanes[place.op].shape, LANES);
	place.first = index * full;
	place.elements = map_chunk_elements(test.count[place.op], full, index);
	FUZZ_CHECK(place.first + place.elements <= test.count[place.op]);
	return place;
}

static void destinations_copy(uint8_t to[OPS][BYTES_MAX])
{
	for (uint32_t i = 0; i < test.ops; i++)
		memcpy(to[i], test.destination[i], test.bytes[i]);
}

/* Nothing but this place may differ from `before`; place NULL: nothing at all. */
static void destinations_check(uint8_t before[OPS][BYTES_MAX], const struct place *place)
{
	for (uint32_t i = 0; i < test.ops; i++) {
		size_t bytes = test.lanes[i].bytes;

		if (place && place->op == i)
			memcpy(before[i] + place->first * bytes,
			       test.destination[i] + place->first * bytes, place->elements * bytes);
		FUZZ_CHECK(!memcmp(before[i], test.destination[i], test.bytes[i]));
	}
}

/* What an accepted int32 DATA result leaves, unless a DETAIL round is to amend it. */
static void values_check(const struct place *place, const struct wire *packet, const uint8_t *at)
{
	const struct lanes *lanes = &test.lanes[place->op];

	if (test.halves[place->op][0].count || lanes->type != LANES_INT32 ||
	    lanes->lane_op != WIRE_ADD || packet->flags & WIRE_STICKY_MASK ||
	    packet->flags % 4 != WIRE_DATA || !packet->lanes)
		return;
	for (uint32_t i = 0; i < place->elements; i++) {
		int32_t lane, is;

		memcpy(&lane, at + WIRE_HEADER_BYTES + i * sizeof(lane), sizeof(lane));
		memcpy(&is, test.destination[place->op] + (place->first + i) * sizeof(is),
		       sizeof(is));
		FUZZ_CHECK(is == (lanes->is_avg ? lane / (int32_t)test.workers : lane));
	}
}

/* R-WK-18: of a guess that does not fit nothing is. */
static bool is_stored_of(uint32_t shard, const struct wire *packet)
{
	uint32_t own = packet->exponent / 256u, guess = slot_of(shard, packet->slot)->scale;

	if (packet->flags % 4 == WIRE_GUESS)
		return !own || (own <= guess && own + 3 >= guess);
	return packet->flags % 4 != WIRE_EXPONENT;
}

static void packet_give(struct fuzz_input *input, uint8_t how)
{
	static uint8_t before[OPS][BYTES_MAX];
	uint32_t shard = how >> 2 & 1, bytes;
	struct endpoint_stats stats, after;
	struct place place = { 0 };
	struct wire packet = { 0 };
	bool is_mine, is_stored;
	uint8_t *at;

	shard %= test.shards;
	bytes = how & 8 ? fuzz_datagram_raw(&test.link, input, &at) : datagram(input, &at, shard);
	if (how & 0x10)
		shard = SHARDS_MAX - 1 - shard; /* a stranger, or the other shard */
	is_mine = is_answer(at, bytes, shard, &packet);
	if (is_mine)
		place = place_of(shard, packet.slot);
	is_stored = is_mine && is_stored_of(shard, &packet);
	fuzz_link_give(&test.link, address_of(shard), at, bytes);
	destinations_copy(before);
	endpoint_stats(test.endpoint, &stats);
	endpoint_poll(test.endpoint);
	endpoint_stats(test.endpoint, &after);
	FUZZ_CHECK(after.results_in - stats.results_in == is_mine);
	destinations_check(before, is_stored ? &place : NULL);
	if (is_mine)
		values_check(&place, &packet, at);
}

static void test_open(uint8_t how)
{
	struct endpoint_shard shards[SHARDS_MAX];
	struct endpoint_options options = { .link = &test.link.link,
					    .quant = simd_best(),
					    .shards = shards,
					    .slots = SLOTS,
					    .run = how & 1 ? 4 : 1,
					    .window = how & 2 ? 2 : SLOTS,
					    .ops_max = OPS_MAX };

	fuzz_link_open(&test.link, &fake_ops, DATAGRAM_BYTES);
	test.shards = options.shards_count = how & 4 ? 2 : 1;
	test.workers = options.workers = how & 8 ? 3 : 2;
	test.link.now_ns = 1000000000;
	test.ops = 0;
	test.done = 0;
	memset(test.halves, 0, sizeof(test.halves));
	for (uint32_t i = 0; i < SHARDS_MAX; i++) {
		shards[i] = (struct endpoint_shard){ .address = address_of(i),
						     .generation = (uint32_t)GENERATION + i,
						     .job = JOB,
						     .child = CHILD };
		for (uint32_t slot = 0; slot < SLOTS; slot++)
			test.sent[i][slot] = (struct sent){ how & 16 ? UINT32_MAX - 1 : 0, 0 };
	}
	test.endpoint = endpoint_open(&options);
	FUZZ_CHECK(test.endpoint);
	FUZZ_CHECK(!endpoint_start(test.endpoint, LANES));
	if (how & 16)
		endpoint_rounds_begin(test.endpoint, UINT32_MAX - 1);
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
		else
			test.link.now_ns += (uint64_t)fuzz_u8(&input) << (how >> 1 & 31);
		endpoint_poll(test.endpoint);
		FUZZ_CHECK(endpoint_next(test.endpoint) > test.link.now_ns ||
			   endpoint_fault(test.endpoint) != ENDPOINT_OK);
		done_check();
		if (endpoint_fault(test.endpoint) != ENDPOINT_OK)
			break;
	}
	test_close();
	return 0;
}
