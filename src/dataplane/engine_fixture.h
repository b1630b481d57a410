/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_fixture.h - for tests: an engine over a link that keeps what was sent, and the packets that a
 * job's children send it. Included once in a program.
 */
#ifndef DATAPLANE_ENGINE_FIXTURE_H
#define DATAPLANE_ENGINE_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/engine_soft.h"

/* A test may leave some of this unused, but nothing of its own: that would be a test that does not run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

/* ---- the link ---- */

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
	uint64_t now_ns;
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

static uint64_t fake_now(struct link *link)
{
	(void)link;
	return fake.now_ns;
}

static const struct link_ops fake_ops = { .recv = fake_recv,
					  .send = fake_send,
					  .now_ns = fake_now };

static struct link_address address_of(uint32_t host)
{
	struct link_address address = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10 },
					.port = 9000 };

	address.ip[14] = (uint8_t)(host >> 8);
	address.ip[15] = (uint8_t)host;
	return address;
}

enum { PARENT_HOST = 5000, STRANGER_HOST = 6000 }; /* a child's host is its index */

/* Added, enabled, and its children bound. */
static void job_start(uint16_t idx, const struct engine_job *config)
{
	assert_int_equal(engine_job_add(engine, idx, config), 0);
	assert_int_equal(engine_job_set(engine, idx, GENERATION, config->lanes_max, true), 0);
	for (uint16_t child = 0; child < config->children; child++) {
		struct link_address address = address_of(child);

		assert_int_equal(engine_child_bind(engine, idx, child, &address), 0);
	}
}

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

	job_start(idx, &config);
}

/* ---- a hook or chip that is played ---- */

static char told_words[512]; /* in words: what it was told since that was looked at */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	size_t used = strlen(told_words);
	va_list list;

	va_start(list, format);
	vsnprintf(told_words + used, sizeof(told_words) - used, format, list);
	va_end(list);
}

static void said(const char *words)
{
	assert_string_equal(told_words, words);
	told_words[0] = '\0';
}

static int setup_beside(struct hook *hook, struct chip *chip)
{
	struct engine_options options = { .link = &fake.link, .hook = hook, .chip = chip };

	memset(&fake, 0, sizeof(fake));
	fake.link.ops = &fake_ops;
	told_words[0] = '\0';
	engine = engine_open(&options);
	return !engine;
}

static int setup_engine(void **state)
{
	(void)state;
	return setup_beside(NULL, NULL);
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

/* A packet that does not say how long it is. */
static void give_cut(uint32_t host, const struct wire *wire, uint32_t length)
{
	struct link_address peer = address_of(host);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * 1024];

	packet_write(bytes, wire, wire->child);
	give_bytes(&peer, bytes, 1, length, length);
}

/* What the engine has seen, but for packets that do not fit or are a stranger's, of which it counts every one. */
static uint32_t events_but_misfits(struct engine_event *events, uint32_t max)
{
	uint32_t count = 0;

	while (count < max && engine_events(engine, &events[count], 1))
		count += events[count].type != ENGINE_MISFIT &&
			 events[count].type != ENGINE_REFUSED;
	return count;
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

/* Each of two children has sent a run of 40 packets: each gets one frame of 40 sums, in one call. */
static void assert_two_runs_answered(void)
{
	poll_once();
	assert_int_equal(fake.answers_count, 80);
	assert_int_equal(fake.frames, 2);
	assert_int_equal(fake.calls, 1);
	for (uint32_t i = 0; i < 80; i++) {
		assert_answer(i, i / 40, WIRE_RESULT, i % 40, 1);
		assert_sum_of_children(i, 2);
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

/* Both children of a flat job or a node send theirs for a slot. */
static void round_give(uint16_t slot, uint32_t seq)
{
	struct wire packet = update_of(0, slot, seq);

	give(0, &packet);
	packet.child = 1;
	give(1, &packet);
	poll_once();
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

/* ---- a run ---- */

#define ENGINE_TEST(claim, start) cmocka_unit_test_setup_teardown(claim, start, teardown)

#pragma GCC diagnostic pop

#endif
