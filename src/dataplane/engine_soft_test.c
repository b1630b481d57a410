/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/engine_soft.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataplane/link_udp.h"
#include "util/rng.h"

/* ---- a link that tells what was sent ---- */

enum {
	IN_MAX = 32,         /* frames */
	ANSWERS_MAX = 70000, /* packets of one poll */
	GENERATION = 77,
	LANES = 16,
	SLOTS = 64,
	JOB = 3,
};

struct answer {
	struct link_address peer;
	struct wire wire;
	uint32_t frame; /* in which it came, counted over the poll */
	int32_t lane[LANES];
};

struct fake {
	struct link link;
	struct link_frame in[IN_MAX];
	uint32_t in_count;
	struct answer answers[ANSWERS_MAX];
	uint32_t answers_count;
	uint32_t frames, calls; /* of send */
	bool is_narrow;         /* the path to child 1: refuses what has lanes */
	int broken;             /* recv's result, if not 0 */
};

static struct fake fake;
static struct engine_soft *engine;
static const uint8_t nonces[SWITCH_CHILDREN_MAX][WIRE_NONCE_BYTES] = {
	"nonce of child 0", "nonce of child 1", "nonce of child 2", "nonce of child 3"
};

static int fake_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	uint32_t count = fake.in_count;

	(void)link;
	if (fake.broken)
		return fake.broken;
	assert_true(count <= max);
	memcpy(frames, fake.in, count * sizeof(*frames));
	fake.in_count = 0;
	return (int)count;
}

static int fake_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct link_frame *frame = &frames[i];

		assert_true(frame->count >= 1);
		assert_true(frame->count <= LINK_FRAME_PACKETS_MAX);
		assert_int_equal(frame->bytes, frame->count * frame->packet_bytes);
		assert_true(frame->bytes <= LINK_FRAME_BYTES_MAX);
		for (uint32_t k = 0; k < frame->count; k++) {
			struct answer *answer = &fake.answers[fake.answers_count++];
			const uint8_t *at = frame->data + k * frame->packet_bytes;

			assert_true(fake.answers_count < ANSWERS_MAX);
			assert_int_equal(wire_check(at, frame->packet_bytes, &answer->wire),
					 WIRE_OK);
			answer->peer = frame->peer;
			answer->frame = fake.frames;
			memcpy(answer->lane, at + WIRE_HEADER_BYTES,
			       4u * (answer->wire.lanes < LANES ? answer->wire.lanes : LANES));
		}
		fake.frames++;
	}
	fake.calls++;
	for (uint32_t i = 0; i < count && fake.is_narrow; i++) {
		if (frames[i].packet_bytes <= WIRE_HEADER_BYTES || frames[i].peer.ip[15] != 1)
			continue;
		link->too_large = frames[i].peer;
		return -EMSGSIZE;
	}
	return 0;
}

static const struct link_ops fake_ops = { .recv = fake_recv, .send = fake_send };

static struct link_address address_of(uint32_t host)
{
	struct link_address address = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10 },
					.port = 9000 };

	address.ip[14] = (uint8_t)(host >> 8);
	address.ip[15] = (uint8_t)host;
	return address;
}

enum { PARENT_HOST = 5000, STRANGER_HOST = 6000 }; /* a child's host is its index */

static void job_open(uint16_t idx, uint16_t children, uint16_t lanes, bool has_parent)
{
	struct engine_job config = { .generation = GENERATION,
				     .children = children,
				     .slots = SLOTS,
				     .lanes_max = lanes,
				     .has_parent = has_parent,
				     .parent_job = 9,
				     .parent_child = 2,
				     .parent = address_of(PARENT_HOST),
				     .nonces = nonces };

	assert_int_equal(engine_job_add(engine, idx, &config), 0);
	assert_int_equal(engine_job_set(engine, idx, GENERATION, lanes, true), 0);
	for (uint16_t child = 0; child < children; child++) {
		struct link_address address = address_of(child);

		assert_int_equal(engine_child_bind(engine, idx, child, &address), 0);
	}
}

static int setup_engine(void **state)
{
	struct engine_options options = { .link = &fake.link };

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.link.ops = &fake_ops;
	engine = engine_open(&options);
	return !engine;
}

static int setup(void **state)
{
	int result = setup_engine(state);

	if (!result)
		job_open(JOB, 2, LANES, false);
	return result;
}

static int setup_node(void **state)
{
	int result = setup_engine(state);

	if (!result)
		job_open(JOB, 2, LANES, true);
	return result;
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < IN_MAX; i++) {
		free(fake.in[i].data);
		fake.in[i].data = NULL;
	}
	engine_close(engine);
	return 0;
}

/* The next frame from `peer`, for the next poll; a copy, so that a sanitizer sees every byte beyond. */
static void give_bytes(const struct link_address *peer, const void *bytes, uint32_t count,
		       uint32_t packet_bytes, uint32_t all)
{
	struct link_frame *frame = &fake.in[fake.in_count++];

	assert_true(fake.in_count <= IN_MAX);
	free(frame->data);
	*frame = (struct link_frame){ .peer = *peer,
				      .packet_bytes = packet_bytes,
				      .count = count,
				      .bytes = all,
				      .data = malloc(all ? all : 1) };
	memcpy(frame->data, bytes, all);
}

/* Lane j of child c's packet for a slot: known, and of both signs. */
static int32_t lane_of(uint32_t child, uint32_t slot, uint32_t j)
{
	return (int32_t)(child * 1000 + slot * 10 + j) * (child % 2 ? -1 : 1);
}

static uint32_t packet_write(uint8_t *at, const struct wire *wire, uint32_t sender)
{
	wire_put(at, wire);
	for (uint32_t j = 0; j < wire->lanes; j++) {
		int32_t lane = lane_of(sender, wire->slot, j);

		memcpy(at + WIRE_HEADER_BYTES + 4 * j, &lane, 4);
	}
	return wire_bytes(wire->lanes);
}

static void give(uint32_t host, const struct wire *wire)
{
	struct link_address peer = address_of(host);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * 1024];
	uint32_t length = packet_write(bytes, wire, wire->child);

	give_bytes(&peer, bytes, 1, length, length);
}

/* A run of `count` packets for consecutive slots, as one frame. */
static void give_run(uint32_t host, struct wire wire, uint32_t count)
{
	static uint8_t bytes[LINK_FRAME_BYTES_MAX];
	struct link_address peer = address_of(host);
	uint32_t length = wire_bytes(wire.lanes);

	assert_true(count * length <= sizeof(bytes));
	for (uint32_t i = 0; i < count; i++, wire.slot++)
		packet_write(bytes + i * length, &wire, wire.child);
	give_bytes(&peer, bytes, count, length, count * length);
}

static void poll_once(void)
{
	fake.answers_count = 0;
	fake.frames = 0;
	fake.calls = 0;
	assert_true(engine_poll(engine));
	assert_int_equal(fake.in_count, 0);
}

static struct wire update_of(uint16_t child, uint16_t slot, uint32_t seq)
{
	return (struct wire){ .type = WIRE_UPDATE,
			      .job = JOB,
			      .generation = GENERATION,
			      .seq = seq,
			      .slot = slot,
			      .child = child,
			      .lanes = LANES,
			      .tag = 4711 };
}

static struct wire probe_of(uint16_t child, uint16_t slot, uint32_t seq)
{
	struct wire probe = update_of(child, slot, seq);

	probe.type = WIRE_PROBE;
	probe.lanes = 0;
	return probe;
}

static void assert_answer(uint32_t idx, uint32_t host, enum wire_type type, uint32_t slot,
			  uint32_t seq)
{
	struct link_address peer = address_of(host);

	assert_true(idx < fake.answers_count);
	assert_true(link_address_equal(&fake.answers[idx].peer, &peer));
	assert_int_equal(fake.answers[idx].wire.type, type);
	assert_int_equal(fake.answers[idx].wire.slot, slot);
	assert_int_equal(fake.answers[idx].wire.seq, seq);
}

static void assert_sum_of_children(uint32_t idx, uint32_t children)
{
	const struct answer *answer = &fake.answers[idx];

	assert_int_equal(answer->wire.lanes, LANES);
	for (uint32_t j = 0; j < LANES; j++) {
		int32_t sum = 0;

		for (uint32_t child = 0; child < children; child++)
			sum += lane_of(child, answer->wire.slot, j);
		assert_int_equal(answer->lane[j], sum);
	}
}

/* Gives the packet from child 0's host, and nothing comes of it but `counter`. */
static void assert_dropped(uint32_t host, const struct wire *wire, const uint64_t *counter)
{
	uint64_t before = *counter;
	struct switch_slot slot, after;

	assert_int_equal(engine_slot_read(engine, JOB, 0, &slot), 0);
	give(host, wire);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(*counter, before + 1);
	assert_int_equal(engine_slot_read(engine, JOB, 0, &after), 0);
	assert_memory_equal(&slot, &after, sizeof(slot));
}

/* After anything that was dropped, a sound pair of packets still gets its sum. */
static void assert_sound_packets_still_served(void)
{
	struct wire packet = update_of(0, 1, 1);

	give(0, &packet);
	packet.child = 1;
	give(1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	assert_answer(0, 0, WIRE_RESULT, 1, 1);
	assert_answer(1, 1, WIRE_RESULT, 1, 1);
	assert_sum_of_children(0, 2);
}

/* ---- bad input ---- */

static void engine__packet_shorter_than_a_header_is_dropped(void **state)
{
	struct link_address peer = address_of(0);
	uint8_t bytes[WIRE_HEADER_BYTES];
	struct wire probe = probe_of(0, 0, 1);

	(void)state;
	packet_write(bytes, &probe, 0);
	for (uint32_t length = 0; length < WIRE_HEADER_BYTES; length++) {
		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_SHORT], length + 1);
	}
	assert_sound_packets_still_served();
}

static void engine__packet_of_another_version_is_dropped(void **state)
{
	struct link_address peer = address_of(0);
	struct wire probe = probe_of(0, 0, 1);
	uint8_t bytes[WIRE_HEADER_BYTES];
	uint64_t dropped = 0;

	(void)state;
	packet_write(bytes, &probe, 0);
	for (uint32_t version = 0; version < 16; version++) {
		if (version == WIRE_VERSION)
			continue;
		bytes[0] = (uint8_t)(version << 4 | WIRE_PROBE);
		give_bytes(&peer, bytes, 1, sizeof(bytes), sizeof(bytes));
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_VERSION], ++dropped);
	}
	assert_sound_packets_still_served();
}

static void engine__packet_of_an_unknown_type_is_dropped(void **state)
{
	(void)state;
	for (uint8_t type = 0; type < 16; type++) {
		struct wire packet = probe_of(0, 0, 1);

		packet.type = type;
		if (type == 0 || type >= WIRE_TYPE_END)
			assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_TYPE]);
	}
	assert_sound_packets_still_served();
}

static void engine__packet_that_a_child_does_not_send_is_dropped(void **state)
{
	static const uint8_t types[] = { WIRE_RESULT, WIRE_HELD,    WIRE_NEED,
					 WIRE_ACK,    WIRE_CONFIRM, WIRE_WELCOME };

	(void)state;
	for (size_t i = 0; i < sizeof(types); i++) {
		struct wire packet = probe_of(0, 0, 1);

		packet.type = types[i];
		packet.lanes = packet.type == WIRE_WELCOME ? WIRE_HELLO_LANES : 0;
		assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_TYPE]);
	}
	assert_sound_packets_still_served();
}

static void engine__packet_with_impossible_lanes_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	packet.lanes = 6; /* not a multiple of 4 */
	assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_LANES]);
	packet = probe_of(0, 0, 1); /* has none */
	packet.lanes = 4;
	assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_LANES]);
	packet = update_of(0, 0, 1);
	packet.flags = WIRE_EXPONENT; /* has none */
	assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_LANES]);
	assert_sound_packets_still_served();
}

static void engine__packet_whose_length_and_lanes_disagree_is_dropped(void **state)
{
	struct link_address peer = address_of(0);
	struct wire packet = update_of(0, 0, 1);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * LANES + 4] = { 0 };
	uint32_t length = packet_write(bytes, &packet, 0);
	uint64_t dropped = 0;

	(void)state;
	for (uint32_t other = WIRE_HEADER_BYTES; other <= sizeof(bytes); other++) {
		if (other == length)
			continue;
		give_bytes(&peer, bytes, 1, other, other);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_LENGTH], ++dropped);
	}
	assert_sound_packets_still_served();
}

static void engine__packet_of_an_unknown_round_or_operation_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	packet.flags = 3; /* no such round */
	assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_FLAGS]);
	packet.flags = WIRE_OP_END << WIRE_OP_SHIFT;
	assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_FLAGS]);
	assert_sound_packets_still_served();
}

static void engine__packet_of_an_unknown_or_disabled_job_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);
	const uint64_t *counter = &engine_stats(engine)->verdict[SWITCH_DROP_JOB];

	(void)state;
	packet.job = JOB + 1;
	assert_dropped(0, &packet, counter);
	packet.job = SWITCH_JOBS_MAX;
	assert_dropped(0, &packet, counter);
	packet.job = UINT16_MAX;
	assert_dropped(0, &packet, counter);
	packet.generation = 0;
	assert_dropped(0, &packet, counter);

	packet = update_of(0, 0, 1);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, false), 0);
	assert_dropped(0, &packet, counter);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), 0);
	assert_sound_packets_still_served();
}

static void engine__packet_of_another_generation_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	packet.generation = GENERATION - 1;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_GENERATION]);
	packet.generation = 0;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_GENERATION]);
	assert_sound_packets_still_served();
}

static void engine__packet_of_a_child_out_of_range_is_dropped(void **state)
{
	struct wire packet = update_of(2, 0, 1);

	(void)state;
	assert_dropped(2, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_CHILD]);
	packet.child = UINT16_MAX;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_CHILD]);
	assert_sound_packets_still_served();
}

static void engine__packet_of_a_slot_out_of_range_is_dropped(void **state)
{
	struct wire packet = update_of(0, SLOTS, 1);

	(void)state;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_SLOT]);
	packet.slot = UINT16_MAX;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_SLOT]);
	assert_sound_packets_still_served();
}

static void engine__packet_with_more_lanes_than_started_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES - 4, true), 0);
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_LANES]);
	packet.lanes = 1000;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_LANES]);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), 0);
	assert_sound_packets_still_served();
}

static void engine__packet_from_a_strangers_address_is_dropped(void **state)
{
	struct link_address other_port = address_of(0);
	struct wire packet = update_of(0, 0, 1), probe = probe_of(0, 0, 1);
	uint8_t bytes[WIRE_HEADER_BYTES];
	const uint64_t *counter = &engine_stats(engine)->verdict[SWITCH_DROP_ADDRESS];

	(void)state;
	assert_dropped(STRANGER_HOST, &packet, counter);
	assert_dropped(STRANGER_HOST, &probe, counter);
	assert_dropped(1, &packet, counter); /* another child's */
	other_port.port++;
	packet_write(bytes, &probe, 0);
	give_bytes(&other_port, bytes, 1, sizeof(bytes), sizeof(bytes));
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(*counter, 4);
	assert_sound_packets_still_served();
}

static void engine__packet_of_a_child_that_is_not_bound_is_dropped(void **state)
{
	struct engine_job config = {
		.generation = GENERATION, .children = 1, .slots = 1, .lanes_max = LANES
	};
	struct link_address nobody = { .port = 0 };
	uint8_t bytes[WIRE_HEADER_BYTES];
	struct wire probe = probe_of(0, 0, 1);

	(void)state;
	assert_int_equal(engine_job_add(engine, 0, &config), 0);
	assert_int_equal(engine_job_set(engine, 0, GENERATION, LANES, true), 0);
	probe.job = 0;
	packet_write(bytes, &probe, 0);
	give_bytes(&nobody, bytes, 1, sizeof(bytes),
		   sizeof(bytes)); /* what an unbound child holds */
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_DROP_ADDRESS], 1);
}

static void engine__bad_packets_in_a_frame_do_not_hurt_their_neighbours(void **state)
{
	uint8_t bytes[5 * (WIRE_HEADER_BYTES + 4 * LANES)];
	uint32_t length = wire_bytes(LANES);
	struct link_address peer = address_of(0);
	struct wire packet;

	(void)state;
	for (uint16_t i = 0; i < 5; i++) {
		packet = update_of(0, i, 1);
		packet_write(bytes + i * length, &packet, 0);
	}
	bytes[1 * length] = 0xff;      /* version and type */
	bytes[3 * length + 12] = 0xff; /* slot */
	give_bytes(&peer, bytes, 5, length, sizeof(bytes));
	give_run(1, update_of(1, 0, 1), 5);
	poll_once();
	assert_int_equal(fake.answers_count, 2 * 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_answer(i, 0, WIRE_RESULT, 2 * i, 1);
	assert_sum_of_children(0, 2);
}

static void engine__packet_that_lies_askew_behind_odd_ones_is_served(void **state)
{
	struct link_address peer = address_of(0);
	struct wire packet = update_of(0, 0, 1);
	uint32_t length = wire_bytes(LANES);

	(void)state;
	for (uint32_t more = 1; more < 8; more++) {
		uint32_t all = 3 * (length + more) + length;
		uint8_t *bytes = calloc(1, all);

		packet.slot = (uint16_t)more;
		packet_write(bytes + 3 * (length + more), &packet, 0);
		give_bytes(&peer, bytes, 4, length + more, all);
		free(bytes);
		packet.child = 1;
		give(1, &packet);
		packet.child = 0;
		poll_once();
		assert_int_equal(fake.answers_count, 2);
		assert_sum_of_children(0, 2);
	}
	assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_VERSION], 7 * 3);
}

/* ---- sums and answers ---- */

static void engine__last_childs_packet_sends_the_sum_to_all(void **state)
{
	struct wire packet = update_of(0, 5, 1);

	(void)state;
	give(0, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	packet.child = 1;
	give(1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	for (uint32_t child = 0; child < 2; child++) {
		assert_answer(child, child, WIRE_RESULT, 5, 1);
		assert_sum_of_children(child, 2);
		assert_int_equal(fake.answers[child].wire.job, JOB);
		assert_int_equal(fake.answers[child].wire.generation, GENERATION);
		assert_int_equal(fake.answers[child].wire.tag, 4711);
		assert_int_equal(fake.answers[child].wire.child, 1); /* the last contributor */
	}
	assert_int_equal(engine_stats(engine)->packets_in, 2);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_ABSORB], 1);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_MULTICAST], 1);
}

static void engine__run_of_packets_is_answered_by_one_frame_per_child(void **state)
{
	(void)state;
	give_run(0, update_of(0, 0, 1), 40);
	give_run(1, update_of(1, 0, 1), 40);
	poll_once();
	assert_int_equal(fake.answers_count, 80);
	assert_int_equal(fake.frames, 2);
	assert_int_equal(fake.calls, 1);
	for (uint32_t i = 0; i < 80; i++) {
		assert_answer(i, i / 40, WIRE_RESULT, i % 40, 1);
		assert_sum_of_children(i, 2);
	}
}

static void engine__answers_to_one_child_share_a_frame(void **state)
{
	uint32_t i = 0;

	(void)state;
	give_run(0, update_of(0, 0, 1), 40);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	give_run(0, probe_of(0, 0, 1), 50); /* 40 are held, 10 are needed */
	give_run(1, probe_of(1, 0, 1), 50); /* needed */
	poll_once();
	assert_int_equal(fake.answers_count, 100);
	assert_int_equal(fake.frames, 2);
	assert_int_equal(fake.calls, 1);
	for (; i < 40; i++)
		assert_answer(i, 0, WIRE_HELD, i, 1);
	for (; i < 50; i++)
		assert_answer(i, 0, WIRE_NEED, i, 1);
	for (; i < 100; i++)
		assert_answer(i, 1, WIRE_NEED, i - 50, 1);
}

static void engine__copies_of_finished_rounds_are_answered_to_their_sender_alone(void **state)
{
	(void)state;
	give_run(0, update_of(0, 0, 1), 40);
	give_run(1, update_of(1, 0, 1), 40);
	poll_once();
	give_run(1, update_of(1, 0, 1), 40);
	give_run(1, probe_of(1, 0, 1), 40);
	poll_once();
	assert_int_equal(fake.answers_count, 80);
	assert_int_equal(fake.frames, 2); /* at most 64 packets each */
	for (uint32_t i = 0; i < 80; i++) {
		assert_answer(i, 1, WIRE_RESULT, i % 40, 1);
		assert_sum_of_children(i, 2);
	}
}

static void engine__more_answers_than_fit_are_all_sent(void **state)
{
	static bool seen[SLOTS];
	uint16_t lanes = 16000; /* one RESULT fills a frame */
	uint32_t length = wire_bytes(lanes);
	uint8_t *bytes = calloc(1, length);
	struct link_address peer;

	(void)state;
	job_open(8, 2, lanes, false);
	for (uint16_t slot = 0; slot < 10; slot++) {
		for (uint16_t child = 0; child < 2; child++) {
			struct wire packet = update_of(child, slot, 1);

			packet.job = 8;
			packet.lanes = lanes;
			packet_write(bytes, &packet, child);
			peer = address_of(child);
			give_bytes(&peer, bytes, 1, length, length);
		}
		poll_once();
		assert_int_equal(fake.answers_count, 2);
	}
	for (uint32_t frame = 0; frame < IN_MAX; frame++) {
		struct wire probe = probe_of(0, 0, 1);

		probe.job = 8;
		give_run(0, probe, 10); /* 240 bytes ask for 640,240 */
	}
	poll_once();
	assert_int_equal(fake.answers_count, IN_MAX * 10);
	for (uint32_t i = 0; i < fake.answers_count; i++) {
		assert_int_equal(fake.answers[i].wire.lanes, lanes);
		assert_int_equal(fake.answers[i].lane[3],
				 lane_of(0, fake.answers[i].wire.slot, 3) +
					 lane_of(1, fake.answers[i].wire.slot, 3));
		seen[fake.answers[i].wire.slot] = true;
	}
	for (uint32_t slot = 0; slot < 10; slot++)
		assert_true(seen[slot]);
	free(bytes);
}

static void engine__many_destinations_and_sizes_all_get_their_answers(void **state)
{
	(void)state;
	job_open(8, 32, LANES, false);
	for (uint16_t child = 0; child < 32; child++) { /* RESULTs of many sizes, HELD, NEED */
		struct wire packet = update_of(child, 0, 1);

		packet.job = 8;
		packet.type = child % 2 ? WIRE_PROBE : WIRE_UPDATE;
		packet.lanes = child % 2 ? 0 : LANES;
		give_run(child, packet, 4);
	}
	poll_once();
	assert_int_equal(fake.answers_count, 16 * 4);
	for (uint32_t i = 0; i < fake.answers_count; i++)
		assert_answer(i, 1 + i / 4 * 2, WIRE_NEED, i % 4, 1);
	assert_int_equal(fake.frames, 16);
	assert_int_equal(fake.calls, 1);
}

static void engine__only_child_gets_its_own_lanes(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	job_open(8, 1, LANES, false);
	packet.job = 8;
	for (uint32_t seq = 1; seq < 10; seq++) {
		packet.seq = seq;
		give(0, &packet);
		poll_once();
		assert_int_equal(fake.answers_count, 1);
		assert_answer(0, 0, WIRE_RESULT, 0, seq);
		assert_sum_of_children(0, 1);
	}
}

static void engine__256_children_get_one_sum_in_one_call(void **state)
{
	(void)state;
	job_open(8, SWITCH_CHILDREN_MAX, LANES, false);
	for (uint16_t child = 0; child < SWITCH_CHILDREN_MAX; child++) {
		struct wire packet = update_of(child, 7, 1);

		packet.job = 8;
		give(child, &packet);
		poll_once();
		assert_int_equal(fake.answers_count,
				 child == SWITCH_CHILDREN_MAX - 1 ? SWITCH_CHILDREN_MAX : 0);
	}
	assert_int_equal(fake.calls, 1);
	for (uint32_t child = 0; child < SWITCH_CHILDREN_MAX; child++) {
		assert_answer(child, child, WIRE_RESULT, 7, 1);
		assert_sum_of_children(child, SWITCH_CHILDREN_MAX);
	}
}

static void engine__result_of_the_round_before_keeps_its_own_lanes(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	packet.lanes = 8;
	give(0, &packet);
	packet.child = 1;
	give(1, &packet);
	packet.seq = 2;
	packet.lanes = LANES;
	give(1, &packet); /* child 1 has its result and goes on; child 0's was lost */
	poll_once();
	packet = probe_of(0, 0, 1);
	give(0, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 1);
	assert_answer(0, 0, WIRE_RESULT, 0, 1);
	assert_int_equal(fake.answers[0].wire.lanes, 8);
	assert_int_equal(fake.answers[0].lane[7], lane_of(0, 0, 7) + lane_of(1, 0, 7));
}

/* ---- HELLO ---- */

static uint32_t hello_write(uint8_t *at, uint16_t child, uint32_t serial, uint16_t lanes)
{
	struct wire packet = { .type = WIRE_HELLO,
			       .job = JOB,
			       .generation = GENERATION,
			       .seq = serial,
			       .child = child,
			       .lanes = lanes };

	memset(at, 0x55, wire_bytes(lanes));
	wire_put(at, &packet);
	if (lanes >= 4)
		memcpy(at + WIRE_HEADER_BYTES, nonces[child], WIRE_NONCE_BYTES);
	return wire_bytes(lanes);
}

/* How many answers child 0's HELLO from `host` gets. */
static uint32_t hello_from(uint32_t host, uint32_t serial)
{
	struct link_address peer = address_of(host);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * WIRE_HELLO_LANES];
	uint32_t length = hello_write(bytes, 0, serial, WIRE_HELLO_LANES);

	give_bytes(&peer, bytes, 1, length, length);
	poll_once();
	return fake.answers_count;
}

static bool is_bound_to_host(uint32_t host)
{
	struct wire probe = probe_of(0, 0, 1);

	give(host, &probe);
	poll_once();
	return fake.answers_count == 1;
}

static void engine__hello_is_answered_with_the_address_seen(void **state)
{
	struct link_address peer = address_of(STRANGER_HOST);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * LANES * 4];
	const struct answer *answer = &fake.answers[0];
	uint32_t length;

	(void)state;
	for (uint16_t lanes = WIRE_HELLO_LANES; lanes <= 4 * LANES; lanes += 4) {
		length = hello_write(bytes, 1, 0x12345678u + lanes, lanes);
		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(fake.answers_count, 1);
		assert_answer(0, STRANGER_HOST, WIRE_WELCOME, 0, 0x12345678u + lanes);
		assert_int_equal(answer->wire.job, JOB);
		assert_int_equal(answer->wire.child, 1);
		assert_int_equal(answer->wire.generation, GENERATION);
		assert_int_equal(answer->wire.lanes, lanes);
		assert_memory_equal(answer->lane, peer.ip, 16);
		assert_memory_equal(&answer->lane[4], "\x23\x28\0\0", 4); /* port 9000 */
		for (uint32_t j = 5; j < (lanes < LANES ? lanes : LANES); j++)
			assert_int_equal(answer->lane[j], 0);
	}
	assert_true(is_bound_to_host(0));
}

static void engine__hello_is_answered_while_the_job_is_disabled(void **state)
{
	(void)state;
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, false), 0);
	assert_int_equal(hello_from(0, 1), 1);
}

static void engine__hello_without_the_right_nonce_job_or_child_is_dropped(void **state)
{
	struct link_address peer = address_of(STRANGER_HOST);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * WIRE_HELLO_LANES];
	struct engine_job config = {
		.generation = GENERATION, .children = 4, .slots = 1, .lanes_max = LANES
	};
	uint32_t length = hello_write(bytes, 0, 1, WIRE_HELLO_LANES);
	uint64_t dropped = 0;

	(void)state;
	assert_int_equal(engine_job_add(engine, 7, &config), 0); /* without nonces */
	for (uint32_t bit = 0; bit < 8 * WIRE_NONCE_BYTES; bit++) {
		bytes[WIRE_HEADER_BYTES + bit / 8] ^= (uint8_t)(1u << bit % 8);
		give_bytes(&peer, bytes, 1, length, length);
		bytes[WIRE_HEADER_BYTES + bit / 8] ^= (uint8_t)(1u << bit % 8);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->hello_unknown, ++dropped);
	}
	for (uint16_t child = 1; child < 4;
	     child++) { /* child 0's nonce; children 2 and 3 are none */
		wire_put16(bytes + 14, child);
		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(engine_stats(engine)->hello_unknown, ++dropped);
	}
	wire_put16(bytes + 14, 0);
	for (uint32_t job = 0; job < 10; job++) {
		wire_put16(bytes + 2, job == 9 ? UINT16_MAX : (uint16_t)job);
		if (job == JOB)
			continue;
		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->hello_unknown, ++dropped);
	}
	assert_true(is_bound_to_host(0));
}

static void engine__hello_too_short_for_its_answer_is_dropped(void **state)
{
	struct link_address peer = address_of(0);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * WIRE_HELLO_LANES];
	uint64_t dropped = 0;

	(void)state;
	for (uint16_t lanes = 0; lanes < WIRE_HELLO_LANES; lanes += 4) {
		uint32_t length = hello_write(bytes, 0, 1, lanes);

		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_LANES], ++dropped);
	}
}

static void engine__only_a_higher_serial_binds_anew(void **state)
{
	uint32_t serial = UINT32_MAX - 1; /* wraps below */

	(void)state;
	assert_int_equal(hello_from(100, serial), 1); /* the first binds, whatever its serial */
	assert_true(is_bound_to_host(100));
	assert_int_equal(hello_from(100, serial), 1); /* a copy is answered again */
	assert_int_equal(hello_from(101, serial), 0); /* the same HELLO from elsewhere is not */
	assert_int_equal(hello_from(101, serial - 1), 0);
	assert_true(is_bound_to_host(100));
	assert_int_equal(hello_from(101, serial + 1), 1);
	assert_true(is_bound_to_host(101));
	assert_int_equal(hello_from(102, serial + 3), 1); /* 1 */
	assert_true(is_bound_to_host(102));
	assert_int_equal(hello_from(101, serial + 1), 0); /* an old copy */
	assert_int_equal(hello_from(102, serial + 1), 0);
	assert_true(is_bound_to_host(102));
	assert_false(is_bound_to_host(101));
	assert_int_equal(engine_stats(engine)->hello_unknown, 4);
}

static void engine__binding_is_told_once(void **state)
{
	struct engine_event events[8];
	struct link_address peer = address_of(100);

	(void)state;
	assert_int_equal(engine_events(engine, events, 8), 0);
	for (uint32_t serial = 1; serial < 10; serial++)
		assert_int_equal(hello_from(serial < 9 ? 100 : 101, serial), 1);
	assert_int_equal(engine_events(engine, events, 8), 2);
	assert_int_equal(events[0].type, ENGINE_HELLO);
	assert_int_equal(events[0].job, JOB);
	assert_int_equal(events[0].child, 0);
	assert_int_equal(events[0].seq, 1);
	assert_true(link_address_equal(&events[0].address, &peer));
	assert_int_equal(events[1].seq, 9);
}

/* ---- events ---- */

static void give_mismatch(void)
{
	struct wire packet = update_of(0, 0, 1);

	give(0, &packet);
	packet.child = 1;
	packet.tag++;
	for (uint32_t i = 0; i < 20; i++)
		give(1, &packet);
	poll_once();
}

static void engine__mismatch_is_told_once_until_fetched_and_never_answered(void **state)
{
	struct engine_event events[8];

	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		give_mismatch();
		assert_int_equal(fake.answers_count, turn); /* child 0's second copy is HELD */
		assert_int_equal(engine_events(engine, events, 8), 1);
		assert_int_equal(events[0].type, ENGINE_MISMATCH);
		assert_int_equal(events[0].job, JOB);
		assert_int_equal(events[0].child, 1);
		assert_int_equal(events[0].slot, 0);
		assert_int_equal(events[0].seq, 1);
		assert_int_equal(engine_events(engine, events, 8), 0);
	}
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_MISMATCH], 40);
	assert_int_equal(engine_stats(engine)->events_lost, 0);
}

static void engine__alarm_is_told_once_until_fetched_and_never_answered(void **state)
{
	struct engine_event events[8];
	struct wire packet = update_of(1, 4, 1);

	(void)state;
	give(1, &packet);
	poll_once();
	packet.seq = 2; /* child 1 cannot have a result yet */
	for (uint32_t i = 0; i < 20; i++)
		give(1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_DROP_ALARM], 20);
	assert_int_equal(engine_events(engine, events, 8), 1);
	assert_int_equal(events[0].type, ENGINE_ALARM);
	assert_int_equal(events[0].child, 1);
	assert_int_equal(events[0].slot, 4);
	assert_int_equal(events[0].seq, 2);
}

static void round_finish(uint16_t slot)
{
	for (uint16_t child = 0; child < 2; child++) {
		struct wire packet = update_of(child, slot, 1);

		give(child, &packet);
	}
	poll_once();
}

static void engine__path_that_has_become_too_narrow_is_told_once_until_fetched(void **state)
{
	struct engine_event events[8];

	(void)state;
	fake.is_narrow = true;
	for (uint16_t slot = 0; slot < 5; slot++)
		round_finish(slot);
	assert_int_equal(engine_events(engine, events, 8), 1);
	assert_int_equal(events[0].type, ENGINE_TOO_LARGE);
	assert_int_equal(events[0].job, JOB);
	assert_int_equal(events[0].child, 1);
	round_finish(6);
	assert_int_equal(engine_events(engine, events, 8), 1);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, false), 0);
	round_finish(7);
	assert_int_equal(engine_events(engine, events, 8), 0);
}

static void engine__broken_link_is_told_and_not_asked_again(void **state)
{
	(void)state;
	assert_int_equal(engine_fault(engine), 0);
	fake.broken = -EBADF;
	assert_false(engine_poll(engine));
	assert_int_equal(engine_fault(engine), -EBADF);
	fake.broken = 0;
	assert_false(engine_poll(engine));
	assert_int_equal(engine_fault(engine), -EBADF);
}

static void engine__events_of_an_older_life_are_forgotten(void **state)
{
	struct engine_event events[8];

	(void)state;
	assert_int_equal(hello_from(0, 1), 1);
	give_mismatch();
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 1, LANES, true), 0);
	assert_int_equal(engine_events(engine, events, 8), 0);

	assert_int_equal(hello_from(50, 2), 1);
	assert_int_equal(engine_job_remove(engine, JOB), 0);
	assert_int_equal(engine_events(engine, events, 8), 0);
	job_open(JOB, 2, LANES, false);
	give_mismatch(); /* the new life's own is told */
	assert_int_equal(engine_events(engine, events, 8), 1);
}

static void engine__events_that_nobody_fetches_are_counted(void **state)
{
	struct engine_event *events = calloc(4096, sizeof(*events));
	uint32_t fetched;

	(void)state;
	for (uint32_t serial = 1; serial <= 2000; serial++)
		assert_int_equal(hello_from(100 + serial % 2, serial), 1);
	fetched = engine_events(engine, events, 4096);
	assert_true(fetched >= 256);
	assert_int_equal(fetched + engine_stats(engine)->events_lost, 2000);
	assert_int_equal(events[0].seq, 1); /* the oldest are kept, in order */
	assert_int_equal(events[fetched - 1].seq, fetched);
	free(events);
}

/* ---- trees ---- */

static struct wire from_parent_of(enum wire_type type, uint16_t slot, uint32_t seq)
{
	struct wire packet = update_of(2, slot, seq); /* child 2 of the parent */

	packet.type = (uint8_t)type;
	packet.job = 9;
	packet.lanes = type == WIRE_RESULT ? LANES : 0;
	return packet;
}

static void fill_node(uint16_t slot, uint32_t seq)
{
	struct wire packet = update_of(0, slot, seq);

	give(0, &packet);
	packet.child = 1;
	give(1, &packet);
	poll_once();
}

static void engine__node_sends_its_partial_up_and_the_result_down(void **state)
{
	struct wire packet;

	(void)state;
	fill_node(6, 1);
	assert_int_equal(fake.answers_count, 1);
	assert_answer(0, PARENT_HOST, WIRE_UPDATE, 6, 1);
	assert_int_equal(fake.answers[0].wire.job, 9);
	assert_int_equal(fake.answers[0].wire.child, 2);
	assert_sum_of_children(0, 2);

	packet = from_parent_of(WIRE_NEED, 6, 1); /* lost on its way: once more */
	give(PARENT_HOST, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 1);
	assert_answer(0, PARENT_HOST, WIRE_UPDATE, 6, 1);
	assert_sum_of_children(0, 2);

	packet = from_parent_of(WIRE_HELD, 6, 1);
	give(PARENT_HOST, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 0);

	packet = from_parent_of(WIRE_RESULT, 6, 1);
	give(PARENT_HOST, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	for (uint32_t child = 0; child < 2; child++) {
		assert_answer(child, child, WIRE_RESULT, 6, 1);
		assert_int_equal(fake.answers[child].wire.job, JOB);
		assert_int_equal(fake.answers[child].wire.child, 1);
		assert_int_equal(fake.answers[child].lane[5], lane_of(2, 6, 5));
	}
}

static void engine__last_contributors_copy_asks_the_parent(void **state)
{
	struct wire packet = update_of(1, 6, 1);

	(void)state;
	fill_node(6, 1);
	give(1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	assert_answer(0, 1, WIRE_HELD, 6, 1);
	assert_answer(1, PARENT_HOST, WIRE_PROBE, 6, 1);
	assert_int_equal(fake.answers[1].wire.job, 9);
	assert_int_equal(fake.answers[1].wire.child, 2);
}

static void engine__result_from_anyone_but_the_parent_is_dropped(void **state)
{
	struct wire packet = from_parent_of(WIRE_RESULT, 0, 1);
	const uint64_t *verdict = engine_stats(engine)->verdict;

	(void)state;
	fill_node(0, 1);
	assert_dropped(STRANGER_HOST, &packet, &verdict[SWITCH_DROP_TYPE]);
	assert_dropped(0, &packet, &verdict[SWITCH_DROP_TYPE]);
	packet.job = 8; /* not ours at the parent */
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_TYPE]);
	packet = from_parent_of(WIRE_RESULT, SLOTS, 1);
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_SLOT]);
	packet = from_parent_of(WIRE_RESULT, 0, 1);
	packet.generation++;
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_GENERATION]);
	packet = from_parent_of(WIRE_RESULT, 0, 2);
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_STALE]);
	packet = from_parent_of(WIRE_RESULT, 0, 1);
	packet.lanes = LANES + 4;
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_LANES]);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, false), 0);
	packet = from_parent_of(WIRE_RESULT, 0, 1);
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_JOB]);
}

static void engine__each_parent_reaches_its_own_job_alone(void **state)
{
	struct engine_job config = { .generation = GENERATION,
				     .children = 1,
				     .slots = 1,
				     .lanes_max = LANES,
				     .has_parent = true,
				     .parent_job = 9 };
	struct link_address child = address_of(0);
	struct wire packet;

	(void)state;
	for (uint16_t idx = 10; idx < 14; idx++) { /* the same index at different parents */
		config.parent = address_of(7000u + idx);
		assert_int_equal(engine_job_add(engine, idx, &config), 0);
		assert_int_equal(engine_job_set(engine, idx, GENERATION, LANES, true), 0);
		assert_int_equal(engine_child_bind(engine, idx, 0, &child), 0);
		packet = update_of(0, 0, 1);
		packet.job = idx;
		give(0, &packet);
	}
	poll_once();
	assert_int_equal(fake.answers_count, 4);
	assert_int_equal(engine_job_remove(engine, 11), 0);
	packet = from_parent_of(WIRE_RESULT, 0, 1);
	for (uint16_t idx = 13; idx >= 10; idx--) {
		give(7000u + idx, &packet);
		poll_once();
		assert_int_equal(fake.answers_count, idx == 11 ? 0 : 1);
		if (idx != 11)
			assert_int_equal(fake.answers[0].wire.job, idx);
	}
}

/* ---- jobs ---- */

static void engine__job_add_refuses_what_it_cannot_hold(void **state)
{
	struct engine_options options = { .link = &fake.link,
					  .memory_max = 1 << 20,
					  .jobs_max = 4 };
	struct engine_job config = { .children = 1, .slots = 100, .lanes_max = 1024 };
	struct engine_job bad = config;

	(void)state;
	engine_close(engine);
	engine = engine_open(&options);
	assert_int_equal(engine_job_add(engine, 0, &config), 0); /* 800 KiB and some */
	assert_int_equal(engine_job_add(engine, 0, &config), -EEXIST);
	assert_int_equal(engine_job_add(engine, 1, &config), -ENOSPC);
	assert_int_equal(engine_job_add(engine, 4, &config), -ENOSPC);
	bad.children = 0;
	assert_int_equal(engine_job_add(engine, 1, &bad), -EINVAL);
	bad.children = SWITCH_CHILDREN_MAX + 1;
	assert_int_equal(engine_job_add(engine, 1, &bad), -EINVAL);
	bad = config;
	bad.slots = 0;
	assert_int_equal(engine_job_add(engine, 1, &bad), -EINVAL);
	bad = config;
	bad.lanes_max = WIRE_LANES_MAX + 1;
	assert_int_equal(engine_job_add(engine, 1, &bad), -EINVAL);

	assert_int_equal(engine_job_remove(engine, 0), 0); /* gives its memory back */
	assert_int_equal(engine_job_remove(engine, 0), -ENOENT);
	assert_int_equal(engine_job_add(engine, 1, &config), 0);
	assert_int_equal(engine_job_set(engine, 0, 1, 4, true), -ENOENT);
	assert_int_equal(engine_job_set(engine, UINT16_MAX, 1, 4, true), -ENOENT);
	assert_int_equal(engine_job_set(engine, 1, 0, 4, true), -EINVAL);
	assert_int_equal(engine_job_set(engine, 1, 1, 1028, true), -EINVAL);
	assert_int_equal(engine_job_set(engine, 1, 1, 6, true), -EINVAL);
	assert_int_equal(engine_child_bind(engine, 0, 0, &fake.link.local), -ENOENT);
	assert_int_equal(engine_child_bind(engine, 1, 1, &fake.link.local), -EINVAL);
}

static void engine__slots_cost_no_memory_until_they_are_used(void **state)
{
	struct engine_options options = { .link = &fake.link, .memory_max = 1ull << 40 };
	struct engine_job config = { .generation = GENERATION,
				     .children = 1,
				     .slots = UINT16_MAX,
				     .lanes_max = WIRE_LANES_MAX };
	unsigned long before, after, size;
	FILE *statm;

	(void)state;
	engine_close(engine);
	engine = engine_open(&options);
	statm = fopen("/proc/self/statm", "r");
	assert_int_equal(fscanf(statm, "%lu %lu", &size, &before), 2);
	fclose(statm);
	for (uint16_t idx = 0; idx < 16; idx++) /* 8 GiB each */
		assert_int_equal(engine_job_add(engine, idx, &config), 0);
	statm = fopen("/proc/self/statm", "r");
	assert_int_equal(fscanf(statm, "%lu %lu", &size, &after), 2);
	fclose(statm);
	assert_true((after - before) * (unsigned long)sysconf(_SC_PAGESIZE) < 4ul << 20);
}

static void engine__fresh_generation_starts_from_clean_slots(void **state)
{
	struct wire packet = update_of(0, 0, 1);
	struct switch_slot slot;

	(void)state;
	give(0, &packet); /* half a round of the old life */
	poll_once();
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 1, LANES, true), 0);
	packet.child = 1;
	assert_dropped(1, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_GENERATION]);
	packet.generation++;
	give(1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	packet.child = 0;
	give(0, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	assert_sum_of_children(0, 2);
	assert_int_equal(engine_slot_read(engine, JOB, 0, &slot), 0);
	assert_int_equal(slot.generation, GENERATION + 1);
}

static void engine__generation_that_slots_still_hold_is_refused(void **state)
{
	(void)state;
	fill_node(0, 1); /* a flat job here: it completes */
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 1, LANES, true), 0);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), -EINVAL);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 2, LANES, true), 0);
}

static void engine__slot_read_tells_who_is_missing(void **state)
{
	struct wire packet = update_of(1, 2, 1);
	struct switch_slot slot;

	(void)state;
	give(1, &packet);
	poll_once();
	assert_int_equal(engine_slot_read(engine, JOB, 2, &slot), 0);
	assert_int_equal(slot.phase, 1);
	assert_int_equal(slot.bitmap[0], 1 << 1);
	assert_int_equal(slot.copy[1].tag, 4711);
	assert_int_equal(engine_slot_read(engine, JOB, SLOTS, &slot), -EINVAL);
	assert_int_equal(engine_slot_read(engine, JOB + 1, 0, &slot), -ENOENT);
}

/* ---- any bytes ---- */

static uint64_t seed;

/* A packet that is nearly right, or not at all. A child knows its own nonce. */
static uint32_t packet_draw(struct rng *rng, uint8_t *at, uint32_t host, uint16_t lanes)
{
	struct wire packet = update_of((uint16_t)rng_below(rng, 2), (uint16_t)rng_below(rng, 4),
				       1 + rng_below(rng, 4));
	uint32_t bytes;

	packet.job = (uint16_t)(JOB + rng_below(rng, 2));
	packet.child = host < 2 ? (uint16_t)host : packet.child;
	packet.lanes = lanes;
	if (host == PARENT_HOST) {
		packet.type = rng_below(rng, 4) ? WIRE_RESULT : WIRE_NEED;
		packet.job = 9;
		packet.child = (uint16_t)(2 + rng_below(rng, 2));
	}
	if (!rng_below(rng, 4))
		packet.type = (uint8_t)rng_below(rng, 16);
	if (!rng_below(rng, 16))
		packet.flags = (uint8_t)rng_u32(rng);
	if (!rng_below(rng, 16))
		packet.job = (uint16_t)rng_u32(rng);
	if (!rng_below(rng, 16))
		packet.generation++;
	if (!rng_below(rng, 16))
		packet.seq = rng_u32(rng);
	if (!rng_below(rng, 16))
		packet.slot = (uint16_t)rng_below(rng, 2 * SLOTS);
	if (!rng_below(rng, 16))
		packet.child = (uint16_t)rng_below(rng, 4);
	if (!rng_below(rng, 16))
		packet.lanes = (uint16_t)rng_below(rng, 200);
	if (!rng_below(rng, 16))
		packet.tag++;
	if (packet.type != WIRE_UPDATE && packet.type != WIRE_RESULT && packet.type != WIRE_HELLO &&
	    rng_below(rng, 16))
		packet.lanes = 0;
	bytes = rng_below(rng, 16) ? wire_bytes(packet.lanes) : rng_below(rng, 900);

	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)rng_u32(rng);
	if (bytes >= WIRE_HEADER_BYTES)
		wire_put(at, &packet);
	if (packet.type == WIRE_HELLO && host < 2 && bytes >= WIRE_HEADER_BYTES + WIRE_NONCE_BYTES)
		memcpy(at + WIRE_HEADER_BYTES, nonces[host], WIRE_NONCE_BYTES);
	for (uint32_t flips = rng_below(rng, 4) ? 0 : rng_below(rng, 4); flips && bytes; flips--)
		at[rng_below(rng, bytes)] ^= (uint8_t)(1u << rng_below(rng, 8));
	return bytes;
}

static void frame_draw(struct rng *rng)
{
	static const uint32_t hosts[] = { 0, 1, 0, 1, PARENT_HOST, STRANGER_HOST };
	static uint8_t bytes[LINK_FRAME_BYTES_MAX];
	uint32_t host = hosts[rng_below(rng, 6)];
	uint16_t lanes = rng_below(rng, 8) ? LANES : (uint16_t)(4 * rng_below(rng, 8));
	struct link_address peer = address_of(host);
	uint32_t first = packet_draw(rng, bytes, host, lanes), count = 1, all = first;

	while (first && rng_below(rng, 8) && count < LINK_FRAME_PACKETS_MAX &&
	       all + 1000 < sizeof(bytes)) {
		uint32_t next = packet_draw(rng, bytes + all, host, lanes);

		all += next < first ? next : first;
		count += next > 0;
		if (next < first)
			break;
	}
	give_bytes(&peer, bytes, count, first, all);
}

static void engine__any_bytes_are_survived_and_answered_to_members_alone(void **state)
{
	const struct engine_stats *stats = engine_stats(engine);
	struct link_address stranger = address_of(STRANGER_HOST);
	struct engine_event events[4];
	uint64_t judged = 0, answered = 0;
	struct rng rng;

	(void)state;
	rng_init(&rng, seed, 0);
	job_open(JOB + 1, 2, LANES, true);
	for (uint32_t turn = 0; turn < 20000; turn++) {
		if (turn % 200 == 0) { /* fresh slots, or all that comes is soon stale */
			assert_int_equal(engine_job_remove(engine, JOB), 0);
			assert_int_equal(engine_job_remove(engine, JOB + 1), 0);
			job_open(JOB, 2, LANES, false);
			job_open(JOB + 1, 2, LANES, true);
		}
		for (uint32_t frames = 1 + rng_below(&rng, 4); frames; frames--)
			frame_draw(&rng);
		poll_once();
		answered += fake.answers_count;
		for (uint32_t i = 0; i < fake.answers_count; i++)
			assert_false(link_address_equal(&fake.answers[i].peer, &stranger));
		if (!rng_below(&rng, 100))
			engine_events(engine, events, 4);
	}
	for (uint32_t i = 0; i < WIRE_FAULT_COUNT; i++)
		judged += stats->fault[i];
	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++)
		judged += stats->verdict[i];
	assert_true(judged <= stats->packets_in);            /* the others are HELLOs */
	assert_true(stats->verdict[SWITCH_MULTICAST] > 100); /* and it was no idle talk */
	assert_true(stats->verdict[SWITCH_UP] > 10);
	assert_true(stats->verdict[SWITCH_MISMATCH] > 100);
	print_message("%llu packets, %llu answers\n", (unsigned long long)stats->packets_in,
		      (unsigned long long)answered);
}

/* ---- over sockets ---- */

static struct link *socket_open(void)
{
	struct link_udp_options options = { .is_v6 = false };
	struct link *link;
	bool is_v6;

	assert_int_equal(link_address_parse("127.0.0.1", 0, &options.local, &is_v6), 0);
	assert_int_equal(link_udp_open(&link, &options), 0);
	return link;
}

static void engine__serves_runs_of_packets_over_sockets(void **state)
{
	struct link *at = socket_open(), *child[2] = { socket_open(), socket_open() };
	struct engine_options options = { .link = at };
	static uint8_t bytes[40 * (WIRE_HEADER_BYTES + 4 * LANES)];
	uint32_t length = wire_bytes(LANES);

	(void)state;
	engine_close(engine);
	engine = engine_open(&options);
	job_open(JOB, 2, LANES, false);
	for (uint16_t i = 0; i < 2; i++)
		assert_int_equal(engine_child_bind(engine, JOB, i, &child[i]->local), 0);
	for (uint32_t seq = 1; seq <= 5; seq++) {
		uint32_t got[2] = { 0, 0 };

		for (uint16_t i = 0; i < 2; i++) {
			struct link_frame frame = { .peer = at->local,
						    .packet_bytes = length,
						    .count = 40,
						    .bytes = sizeof(bytes),
						    .data = bytes };
			for (uint16_t slot = 0; slot < 40; slot++) {
				struct wire packet = update_of(i, slot, seq);

				packet_write(bytes + slot * length, &packet, i);
			}
			assert_int_equal(child[i]->ops->send(child[i], &frame, 1), 0);
		}
		for (uint32_t turn = 0; got[0] + got[1] < 80; turn++) {
			struct link_frame in[8];

			assert_true(turn < 1000);
			(void)at->ops->wait(at, at->ops->now_ns(at) + 1000000);
			(void)engine_poll(engine);
			for (uint32_t i = 0; i < 2; i++) {
				int count = child[i]->ops->recv(child[i], in, 8);

				for (int k = 0; k < count; k++) {
					assert_int_equal(in[k].packet_bytes, length);
					got[i] += in[k].count;
				}
			}
		}
		assert_int_equal(got[0], 40);
		assert_int_equal(got[1], 40);
	}
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_MULTICAST], 200);
	engine_close(engine);
	engine = NULL;
	at->ops->close(at);
	child[0]->ops->close(child[0]);
	child[1]->ops->close(child[1]);
}

#define ENGINE_TEST(claim, start) cmocka_unit_test_setup_teardown(claim, start, teardown)

int main(void)
{
	const char *given = getenv("TALLY_TEST_SEED");
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(engine__packet_shorter_than_a_header_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_another_version_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_an_unknown_type_is_dropped, setup),
		ENGINE_TEST(engine__packet_that_a_child_does_not_send_is_dropped, setup),
		ENGINE_TEST(engine__packet_with_impossible_lanes_is_dropped, setup),
		ENGINE_TEST(engine__packet_whose_length_and_lanes_disagree_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_an_unknown_round_or_operation_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_an_unknown_or_disabled_job_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_another_generation_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_a_child_out_of_range_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_a_slot_out_of_range_is_dropped, setup),
		ENGINE_TEST(engine__packet_with_more_lanes_than_started_is_dropped, setup),
		ENGINE_TEST(engine__packet_from_a_strangers_address_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_a_child_that_is_not_bound_is_dropped, setup),
		ENGINE_TEST(engine__bad_packets_in_a_frame_do_not_hurt_their_neighbours, setup),
		ENGINE_TEST(engine__packet_that_lies_askew_behind_odd_ones_is_served, setup),
		ENGINE_TEST(engine__last_childs_packet_sends_the_sum_to_all, setup),
		ENGINE_TEST(engine__run_of_packets_is_answered_by_one_frame_per_child, setup),
		ENGINE_TEST(engine__answers_to_one_child_share_a_frame, setup),
		ENGINE_TEST(engine__copies_of_finished_rounds_are_answered_to_their_sender_alone,
			    setup),
		ENGINE_TEST(engine__more_answers_than_fit_are_all_sent, setup),
		ENGINE_TEST(engine__many_destinations_and_sizes_all_get_their_answers, setup),
		ENGINE_TEST(engine__only_child_gets_its_own_lanes, setup),
		ENGINE_TEST(engine__256_children_get_one_sum_in_one_call, setup),
		ENGINE_TEST(engine__result_of_the_round_before_keeps_its_own_lanes, setup),
		ENGINE_TEST(engine__hello_is_answered_with_the_address_seen, setup),
		ENGINE_TEST(engine__hello_is_answered_while_the_job_is_disabled, setup),
		ENGINE_TEST(engine__hello_without_the_right_nonce_job_or_child_is_dropped, setup),
		ENGINE_TEST(engine__hello_too_short_for_its_answer_is_dropped, setup),
		ENGINE_TEST(engine__only_a_higher_serial_binds_anew, setup),
		ENGINE_TEST(engine__binding_is_told_once, setup),
		ENGINE_TEST(engine__mismatch_is_told_once_until_fetched_and_never_answered, setup),
		ENGINE_TEST(engine__alarm_is_told_once_until_fetched_and_never_answered, setup),
		ENGINE_TEST(engine__path_that_has_become_too_narrow_is_told_once_until_fetched,
			    setup),
		ENGINE_TEST(engine__broken_link_is_told_and_not_asked_again, setup),
		ENGINE_TEST(engine__events_of_an_older_life_are_forgotten, setup),
		ENGINE_TEST(engine__events_that_nobody_fetches_are_counted, setup),
		ENGINE_TEST(engine__node_sends_its_partial_up_and_the_result_down, setup_node),
		ENGINE_TEST(engine__last_contributors_copy_asks_the_parent, setup_node),
		ENGINE_TEST(engine__result_from_anyone_but_the_parent_is_dropped, setup_node),
		ENGINE_TEST(engine__each_parent_reaches_its_own_job_alone, setup_node),
		ENGINE_TEST(engine__job_add_refuses_what_it_cannot_hold, setup_engine),
		ENGINE_TEST(engine__slots_cost_no_memory_until_they_are_used, setup_engine),
		ENGINE_TEST(engine__fresh_generation_starts_from_clean_slots, setup),
		ENGINE_TEST(engine__generation_that_slots_still_hold_is_refused, setup),
		ENGINE_TEST(engine__slot_read_tells_who_is_missing, setup),
		ENGINE_TEST(engine__any_bytes_are_survived_and_answered_to_members_alone, setup),
		ENGINE_TEST(engine__serves_runs_of_packets_over_sockets, setup_engine),
	};

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	printf("seed %llu (TALLY_TEST_SEED)\n", (unsigned long long)seed);
	return cmocka_run_group_tests_name("engine_soft", tests, NULL, NULL);
}
