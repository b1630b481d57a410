/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The switch program in the kernel (src/dataplane/xdp/switch.bpf.c): it passes the verifier, and
 * does the same as the user-space build of core/dense/switch.h, byte by byte. Nothing is attached to a
 * network card: the kernel runs the program on frames that are handed to it (BPF_PROG_TEST_RUN).
 * Arguments: the object file, how many random packets, the seed. Exit status 77: what is needed is not there.
 */
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SWITCH_LANES_MAX 360 /* as in switch.bpf.c */
#include "bpf_frame.h"
#include "core/dense/switch.h"
#include "dataplane/xdp/switch_maps.h"

enum {
	PACKETS = 30000,
	JOBS = 5,
	SLOTS = 3,                 /* of each job */
	INSTRUCTIONS_MAX = 500000, /* half of what the verifier allows */
};

/* What the maps should hold. */
static struct xdp_job jobs[JOBS];
static struct xdp_slot slots[JOBS * SLOTS];
static uint64_t counters[XDP_COUNTERS];

/* Job 4 is a tree node; job 0 has one child; seqs start just before their wrap. */
static int world_open(void **state)
{
	static const uint16_t children[JOBS] = { 1, 2, 5, 256, 3 },
			      lanes[JOBS] = { 360, 360, 64, 8, 360 };

	(void)state;
	for (uint32_t i = 0; i < JOBS; i++) {
		struct switch_job *job = &jobs[i].job;

		switch_job_fill(job, children[i]);
		job->generation = 0xfffffffd + i;
		job->generation += !job->generation;
		job->index = (uint16_t)i;
		job->lanes = lanes[i];
		job->slots = SLOTS;
		job->enabled = 1;
		job->has_parent = i == 4;
		job->parent_job = 17;
		job->parent_child = 6;
		jobs[i].slot_base = i * SLOTS;
		map_set(bpf.jobs, &i, &jobs[i]);
		children_set(i, children[i]);
		for (uint32_t k = i * SLOTS; k < (i + 1) * SLOTS; k++) {
			switch_slot_reset(job, &slots[k].slot, job->generation);
			slots[k].slot.phase = 0u - rng_below(&bpf.rng, 6);
			map_set(bpf.slots, &k, &slots[k]);
		}
	}
	return 0;
}

static bool is_ours(const struct frame *frame)
{
	const uint8_t *at = frame->at;

	return frame->bytes >= AT_HEADER && wire_get16(at + AT_ETHERTYPE) == 0x0800 &&
	       at[AT_IP] == 0x45 && at[AT_IP_PROTOCOL] == 17 &&
	       !(wire_get16(at + AT_IP_FRAGMENT) & 0xbfff) &&
	       wire_get16(at + AT_UDP + 2) == XDP_PORT_DEFAULT &&
	       wire_get16(at + AT_IP_BYTES) == 20 + wire_get16(at + AT_UDP_BYTES);
}

/* A verdict, or XDP_COUNT_FAULT + a fault; *packet and the slot are what they become. */
static uint32_t here_judge(const struct frame *frame, struct wire *packet)
{
	uint32_t datagram = wire_get16(frame->at + AT_UDP_BYTES) - 8u, refused, source;
	int32_t lane[SWITCH_LANES_MAX] = { 0 };
	struct xdp_slot *slot;

	if (frame->bytes < AT_LANES)
		return XDP_COUNT_FAULT + WIRE_FAULT_SHORT;
	refused = wire_check(frame->at + AT_HEADER, datagram, packet);
	if (!refused && AT_HEADER + datagram > frame->bytes)
		refused = WIRE_FAULT_LENGTH;
	if (refused)
		return XDP_COUNT_FAULT + refused;
	if (packet->type != WIRE_UPDATE && packet->type != WIRE_PROBE)
		return SWITCH_DROP_TYPE;
	if (packet->job >= JOBS)
		return SWITCH_DROP_JOB;
	refused = switch_admit(&jobs[packet->job].job, packet);
	if (refused)
		return refused;
	source = address_of(packet->job, packet->child);
	if (memcmp(frame->at + AT_SOURCE, &source, 4) ||
	    wire_get16(frame->at + AT_UDP) != ntohs(port_of(packet->child)))
		return SWITCH_DROP_ADDRESS;
	memcpy(lane, frame->at + AT_LANES, packet->lanes * sizeof(*lane));
	slot = &slots[jobs[packet->job].slot_base + packet->slot];
	return switch_step(&jobs[packet->job].job, &slot->slot, slot->sum, SWITCH_LANES_MAX, packet,
			   lane, lane + packet->lanes);
}

/* What the kernel should make of a frame: the same in user space, and the frame as it should be. */
static uint32_t here_run(struct frame *frame)
{
	uint32_t lanes, verdict, index;
	struct wire packet = { 0 };

	if (!is_ours(frame))
		return XDP_PASS;
	verdict = here_judge(frame, &packet);
	if (verdict == SWITCH_DROP_TYPE)
		return XDP_PASS; /* the daemon's */
	counters[verdict]++;
	if (verdict == SWITCH_ABSORB || verdict >= SWITCH_DROP)
		return XDP_DROP;
	lanes = wire_get16(frame->at + AT_HEADER + WIRE_LANES_AT);
	if (verdict == SWITCH_HELD_UP || verdict == SWITCH_MISMATCH || packet.lanes != lanes)
		return XDP_PASS;
	index = (uint32_t)wire_get16(frame->at + AT_HEADER + 2) * SLOTS + packet.slot;
	wire_put(frame->at + AT_HEADER, &packet);
	memcpy(frame->at + AT_LANES, slots[index].sum + (packet.seq & 1 ? SWITCH_LANES_MAX : 0),
	       4 * lanes);
	wire_put16(frame->at + AT_UDP_CHECKSUM, 0);
	if (verdict != SWITCH_REPLY)
		return XDP_PASS;
	frame_turn(frame);
	return XDP_TX;
}

static void slots_are_same(const char *what)
{
	static struct xdp_slot is[JOBS * SLOTS];

	map_get_first(bpf.slots, is, JOBS * SLOTS);
	for (uint32_t i = 0; i < JOBS * SLOTS; i++) {
		if (memcmp(&is[i], &slots[i], sizeof(is[i])))
			fail_msg("%s: slot %u differs (seed %#llx)", what, i,
				 (unsigned long long)bpf.seed);
	}
}

static void the_program_passes_the_verifier_at_360_lanes(void **state)
{
	(void)state;
	program_is_verified(INSTRUCTIONS_MAX);
	assert_int_equal(bpf_map__value_size(bpf_object__find_map_by_name(bpf.object, "slots")),
			 sizeof(struct xdp_slot));
	assert_int_equal(bpf_map__value_size(bpf_object__find_map_by_name(bpf.object, "jobs")),
			 sizeof(struct xdp_job));
}

static void update_draw(struct frame *frame, struct wire *packet)
{
	int32_t lane[SWITCH_LANES_MAX];

	for (uint32_t i = 0; i < SWITCH_LANES_MAX; i++)
		lane[i] = (int32_t)rng_u32(&bpf.rng);
	frame_init(frame, packet, lane);
}

static void what_is_not_for_us_is_passed_on_as_it_came(void **state)
{
	/* where, and what stands there instead */
	static const struct {
		uint32_t at;
		uint16_t value;
	} changes[] = {
		{ AT_ETHERTYPE, 0x86dd },   /* IPv6 */
		{ AT_IP, 0x4600 },          /* IP options */
		{ AT_IP, 0x6500 },          /* IP version 6 */
		{ AT_IP_FRAGMENT, 0x2000 }, /* the first of several fragments */
		{ AT_IP_FRAGMENT, 0x0010 }, /* the last one */
		{ AT_IP_PROTOCOL - 1, 6 },  /* TCP */
		{ AT_UDP + 2, 7172 },       /* another port */
		{ AT_IP_BYTES, 60 },        /* IP and UDP disagree on the length */
	};
	struct wire packet = { .type = WIRE_PROBE, .generation = jobs[1].job.generation, .job = 1 };
	struct frame frame;

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		update_draw(&frame, &packet);
		wire_put16(frame.at + changes[i].at, changes[i].value);
		assert_int_equal(frame_agrees(&frame, here_run, "not ours"), XDP_PASS);
	}
	packet.type = WIRE_HELLO; /* the daemon answers it */
	packet.lanes = WIRE_HELLO_LANES;
	update_draw(&frame, &packet);
	assert_int_equal(frame_agrees(&frame, here_run, "a HELLO"), XDP_PASS);
	frame.bytes = AT_HEADER - 1;
	assert_int_equal(frame_agrees(&frame, here_run, "not even UDP"), XDP_PASS);
	counters_are(counters, XDP_COUNTERS, "after these");
}

static void a_child_is_known_by_its_address_and_port(void **state)
{
	struct wire packet = { .type = WIRE_PROBE,
			       .generation = jobs[1].job.generation,
			       .job = 1,
			       .child = 1,
			       .seq = slots[SLOTS].slot.phase };
	uint64_t before = counters[SWITCH_DROP_ADDRESS];
	struct frame frame;

	(void)state;
	update_draw(&frame, &packet);
	frame.at[AT_SOURCE + 3] ^= 1; /* child 0's address */
	assert_int_equal(frame_agrees(&frame, here_run, "address"), XDP_DROP);
	update_draw(&frame, &packet);
	frame.at[AT_UDP + 1] ^= 1;
	assert_int_equal(frame_agrees(&frame, here_run, "port"), XDP_DROP);
	assert_int_equal(counters[SWITCH_DROP_ADDRESS], before + 2);
	counters_are(counters, XDP_COUNTERS, "after these");
}

/* A packet near what its slot waits for. */
static struct wire packet_draw(void)
{
	uint32_t job = rng_below(&bpf.rng, JOBS), index = rng_below(&bpf.rng, SLOTS);
	const struct switch_slot *slot = &slots[job * SLOTS + index].slot;
	struct wire packet = { .type = rng_below(&bpf.rng, 4) ? WIRE_UPDATE : WIRE_PROBE,
			       .job = (uint16_t)job,
			       .generation = jobs[job].job.generation,
			       .slot = (uint16_t)index,
			       .exponent = (uint16_t)rng_below(&bpf.rng, 65536),
			       .seq = slot->phase };
	uint32_t children = jobs[job].job.children;
	const struct switch_copy *copy;

	packet.child = (uint16_t)rng_below(&bpf.rng, children);
	if (slot->generation != packet.generation)
		packet.seq = 1;
	else if (switch_bitmap_full(&jobs[job].job, slot) && !slot->final && rng_below(&bpf.rng, 3))
		packet.child = slot->copy[packet.seq & 1].last;
	else if (switch_bitmap_full(&jobs[job].job, slot))
		packet.seq += rng_below(&bpf.rng, 4) ? 1 : rng_below(&bpf.rng, 4) - 2;
	else if (rng_below(&bpf.rng, 10))
		while (switch_bitmap_has(slot, packet.child))
			packet.child = (uint16_t)((packet.child + 1) % children);
	copy = &slot->copy[packet.seq & 1];
	packet.flags = copy->flags;
	packet.tag = rng_below(&bpf.rng, 50) ? copy->tag : 99;
	packet.lanes = copy->lanes;
	if (packet.seq == slot->phase + 1 || slot->generation != packet.generation ||
	    !rng_below(&bpf.rng, 30)) {
		packet.flags =
			(uint8_t)(rng_below(&bpf.rng, 4) | rng_below(&bpf.rng, 4) << WIRE_OP_SHIFT);
		packet.lanes =
			rng_below(&bpf.rng, 2)
				? jobs[job].job.lanes
				: (uint16_t)(4 * rng_below(&bpf.rng, jobs[job].job.lanes / 4 + 2));
	} else if (wire_op_of(packet.flags) == WIRE_TAKE && rng_below(&bpf.rng, 5)) {
		packet.lanes = 0;
	}
	packet.flags |= (uint8_t)(rng_below(&bpf.rng, 6) ? 0 : rng_below(&bpf.rng, 8) << 5);
	packet.flags |= rng_below(&bpf.rng, 3) ? 0 : WIRE_BARE;
	if (packet.lanes > SWITCH_LANES_MAX)
		packet.lanes = SWITCH_LANES_MAX;
	if (packet.type == WIRE_PROBE || wire_round_of(packet.flags) == WIRE_EXPONENT)
		packet.lanes = 0;
	return packet;
}

/* One of many ways to be wrong. */
static void packet_spoil(struct wire *packet)
{
	switch (rng_below(&bpf.rng, 8)) {
	case 0:
		packet->type = (uint8_t)rng_below(&bpf.rng, 16);
		break;
	case 1:
		packet->job = (uint16_t)rng_below(&bpf.rng, 1100);
		break;
	case 2:
		packet->generation++;
		break;
	case 3:
		packet->seq = rng_below(&bpf.rng, 3) ? 1 : rng_u32(&bpf.rng);
		break;
	case 4:
		packet->slot = (uint16_t)rng_below(&bpf.rng, 6);
		break;
	case 5:
		packet->child = (uint16_t)rng_below(&bpf.rng, 300);
		break;
	case 6:
		packet->lanes = (uint16_t)rng_below(&bpf.rng, SWITCH_LANES_MAX);
		break;
	case 7:
		packet->flags = (uint8_t)rng_u32(&bpf.rng);
		break;
	}
}

static void frame_spoil(struct frame *frame)
{
	switch (rng_below(&bpf.rng, 6)) {
	case 0:
		frame->at[AT_HEADER + rng_below(&bpf.rng, 24) * rng_below(&bpf.rng, 2)] ^=
			(uint8_t)(1 << rng_below(&bpf.rng, 8));
		break;
	case 1: /* bytes after the datagram, as of a card that pads */
		frame->bytes += 1 + rng_below(&bpf.rng, 60);
		break;
	case 2: /* cut off */
		frame->bytes -= rng_below(&bpf.rng, frame->bytes - AT_UDP);
		break;
	case 3: /* the lengths of UDP and IP say less or more than there is */
		wire_put16(frame->at + AT_UDP_BYTES, (uint16_t)rng_below(&bpf.rng, 1500));
		wire_put16(frame->at + AT_IP_BYTES,
			   (uint16_t)(20 + wire_get16(frame->at + AT_UDP_BYTES)));
		break;
	case 4: /* cut off inside the header */
		frame->bytes = AT_HEADER + rng_below(&bpf.rng, WIRE_HEADER_BYTES);
		break;
	case 5:
		frame->at[rng_below(&bpf.rng, AT_HEADER)] ^= (uint8_t)(1 << rng_below(&bpf.rng, 8));
		break;
	}
}

/* The daemon's part: what a tree node waits for comes from its parent. */
static void parent_answers(uint32_t job)
{
	for (uint32_t i = job * SLOTS; i < (job + 1) * SLOTS; i++) {
		struct switch_slot *slot = &slots[i].slot;
		struct wire result = { .type = WIRE_RESULT,
				       .generation = slot->generation,
				       .seq = slot->phase,
				       .child = (uint16_t)rng_below(&bpf.rng, 8),
				       .tag = slot->copy[slot->phase & 1].tag,
				       .flags = slot->copy[slot->phase & 1].flags,
				       .lanes = slot->copy[slot->phase & 1].lanes };
		int32_t lane[SWITCH_LANES_MAX];

		if (slot->generation != jobs[job].job.generation)
			continue; /* it waits in vain: a restart */
		if (slot->final || !switch_bitmap_full(&jobs[job].job, slot) ||
		    rng_below(&bpf.rng, 3))
			continue;
		for (uint32_t k = 0; k < SWITCH_LANES_MAX; k++)
			lane[k] = (int32_t)rng_u32(&bpf.rng);
		assert_int_equal(switch_from_parent(&jobs[job].job, slot, slots[i].sum,
						    SWITCH_LANES_MAX, &result, lane,
						    lane + SWITCH_LANES_MAX),
				 SWITCH_MULTICAST);
		map_set(bpf.slots, &i, &slots[i]);
	}
}

static void restart_draw(void)
{
	uint32_t job = rng_below(&bpf.rng, JOBS);

	jobs[job].job.generation += jobs[job].job.generation == 0xffffffff ? 2 : 1;
	map_set(bpf.jobs, &job, &jobs[job]);
}

static void random_packets_do_the_same_in_the_kernel_as_here(void **state)
{
	uint32_t actions[5] = { 0 };
	struct frame frame;
	char what[32];

	(void)state;
	for (uint32_t i = 0; i < bpf.packets; i++) {
		struct wire packet = packet_draw();

		if (!rng_below(&bpf.rng, 500))
			restart_draw();
		if (!rng_below(&bpf.rng, 12))
			packet_spoil(&packet);
		update_draw(&frame, &packet);
		if (!rng_below(&bpf.rng, 12))
			frame_spoil(&frame);
		snprintf(what, sizeof(what), "packet %u", i);
		actions[frame_agrees(&frame, here_run, what)]++;
		if (i % 8 == 0)
			parent_answers(4);
		slots_are_same(what);
		counters_are(counters, XDP_COUNTERS, what);
	}
	printf("%u packets: %u dropped or absorbed, %u passed on, %u sent back\nverdicts and "
	       "faults:",
	       bpf.packets, actions[XDP_DROP], actions[XDP_PASS], actions[XDP_TX]);
	for (uint32_t i = 0; i < XDP_COUNTERS; i++) {
		printf(" %llu", (unsigned long long)counters[i]);
		assert_true(counters[i] > 0 || i == SWITCH_DROP_TYPE ||
			    i == XDP_COUNT_FAULT + WIRE_OK);
	}
	printf("\n");
}

static int group(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_passes_the_verifier_at_360_lanes),
		cmocka_unit_test(what_is_not_for_us_is_passed_on_as_it_came),
		cmocka_unit_test(a_child_is_known_by_its_address_and_port),
		cmocka_unit_test(random_packets_do_the_same_in_the_kernel_as_here),
	};

	return cmocka_run_group_tests(tests, world_open, NULL);
}

int main(int argc, char **argv)
{
	return bpf_main(argc, argv, "tally_switch", PACKETS, group);
}
