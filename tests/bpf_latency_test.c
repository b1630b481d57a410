/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency mode's switch program in the kernel (src/dataplane/xdp/switch_latency.bpf.c): it passes the
 * verifier, and does the same as the user-space build of core/latency/switch_latency.h, byte by byte. Arguments:
 * the object file, how many random packets, the seed. Exit status 77: what is needed is not there.
 */
#include <linux/bpf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SWITCH_LANES_MAX 64 /* as in switch_latency.bpf.c */
#include "bpf_frame.h"
#include "core/latency/switch_latency.h"
#include "dataplane/xdp/switch_maps.h"

enum {
	PACKETS = 20000,
	JOBS = 4,
	SLOTS = 3,                 /* of each job */
	INSTRUCTIONS_MAX = 100000, /* a tenth of what the verifier allows */
};

/* What the maps should hold. */
static struct xdp_job jobs[JOBS];
static struct xdp_latency_slot slots[JOBS * SLOTS];
static uint64_t counters[XDP_COUNTERS];

static int world_open(void **state)
{
	static const uint16_t children[JOBS] = { 3, 2, 256, 1 }, lanes[JOBS] = { 64, 8, 16, 64 };

	(void)state;
	for (uint32_t i = 0; i < JOBS; i++) {
		struct switch_job *job = &jobs[i].job;

		switch_job_fill(job, children[i]);
		job->generation = 0xfffffffc + i;
		job->index = (uint16_t)i;
		job->lanes = lanes[i];
		job->slots = SLOTS;
		job->enabled = 1;
		job->mode = i % 2 ? SWITCH_LATENCY_ACKNOWLEDGED : SWITCH_LATENCY;
		jobs[i].slot_base = i * SLOTS;
		map_set(bpf.jobs, &i, &jobs[i]);
		children_set(i, children[i]);
		for (uint32_t k = i * SLOTS; k < (i + 1) * SLOTS; k++) {
			switch_latency_slot_reset(job, &slots[k].slot, job->generation);
			slots[k].slot.round = 0u - rng_below(&bpf.rng, 6);
			map_set(bpf.slots, &k, &slots[k]);
		}
	}
	return 0;
}

/* What the kernel should make of a sound frame from a bound address: the same in user space. */
static uint32_t here_run(struct frame *frame)
{
	static const struct xdp_job none;
	int32_t lane[SWITCH_LANES_MAX] = { 0 };
	struct xdp_latency_slot *slot;
	const struct xdp_job *job;
	uint32_t lanes, verdict;
	struct wire packet;

	wire_get(frame->at + AT_HEADER, &packet);
	lanes = packet.lanes;
	memcpy(lane, frame->at + AT_LANES, lanes * sizeof(*lane));
	job = packet.job < JOBS ? &jobs[packet.job] : &none;
	slot = &slots[job->slot_base + packet.slot % SLOTS];
	verdict = switch_latency_admit(&job->job, &packet);
	if (!verdict)
		verdict = switch_latency_step(&job->job, &slot->slot, slot->sum, &packet, lane,
					      lane + lanes);
	counters[verdict]++;
	if (verdict == SWITCH_ABSORB || verdict >= SWITCH_DROP)
		return XDP_DROP;
	if (verdict == SWITCH_MISMATCH || packet.lanes != lanes)
		return XDP_PASS;
	wire_put(frame->at + AT_HEADER, &packet);
	memcpy(frame->at + AT_LANES, slot->sum, 4 * lanes);
	wire_put16(frame->at + AT_UDP_CHECKSUM, 0);
	if (verdict != SWITCH_REPLY)
		return XDP_PASS;
	frame_turn(frame);
	return XDP_TX;
}

static void maps_are_same(const char *what)
{
	static struct xdp_latency_slot is[JOBS * SLOTS];

	map_get_first(bpf.slots, is, JOBS * SLOTS);
	for (uint32_t i = 0; i < JOBS * SLOTS; i++) {
		if (memcmp(&is[i], &slots[i], sizeof(is[i])))
			fail_msg("%s: slot %u differs (seed %#llx)", what, i,
				 (unsigned long long)bpf.seed);
	}
	counters_are(counters, XDP_COUNTERS, what);
}

static void the_program_passes_the_verifier_at_64_lanes(void **state)
{
	(void)state;
	program_is_verified(INSTRUCTIONS_MAX);
}

static uint16_t missing_of(const struct switch_job *job, const uint64_t *set)
{
	uint32_t child = rng_below(&bpf.rng, job->children);

	for (uint32_t i = 0; i < job->children && switch_set_has(set, child); i++)
		child = (child + 1) % job->children;
	return (uint16_t)child;
}

/* A packet near what its slot waits for. */
static struct wire packet_draw(void)
{
	uint32_t index = rng_below(&bpf.rng, JOBS * SLOTS);
	const struct switch_job *job = &jobs[index / SLOTS].job;
	const struct switch_latency_slot *slot = &slots[index].slot;
	struct wire packet = { .type = WIRE_UPDATE,
			       .job = (uint16_t)(index / SLOTS),
			       .generation = job->generation,
			       .seq = slot->round,
			       .slot = (uint16_t)(index % SLOTS),
			       .lanes = slot->lanes,
			       .tag = rng_below(&bpf.rng, 50) ? slot->tag : 99 };

	packet.child = missing_of(job, slot->sum_bitmap);
	if (slot->generation != job->generation) {
		packet.seq = 1;
	} else if (switch_set_is_full(job, slot->sum_bitmap)) {
		if (job->mode == SWITCH_LATENCY_ACKNOWLEDGED &&
		    !switch_set_is_full(job, slot->ack_bitmap)) {
			packet.type = WIRE_ACK;
			packet.lanes = 0;
			packet.child = missing_of(job, slot->ack_bitmap);
		} else {
			packet.seq++;
			packet.lanes = (uint16_t)(4 * rng_below(&bpf.rng, job->lanes / 4 + 2u));
			packet.tag = rng_below(&bpf.rng, 3);
		}
	}
	if (!rng_below(&bpf.rng, 8))
		packet.child = (uint16_t)rng_below(&bpf.rng, job->children);
	if (!rng_below(&bpf.rng, 8))
		packet.seq += rng_below(&bpf.rng, 5) - 2;
	if (!rng_below(&bpf.rng, 6))
		packet.flags = (uint8_t)(rng_below(&bpf.rng, 8) << 5);
	if (!rng_below(&bpf.rng, 60))
		packet.flags |= WIRE_MAX << WIRE_OP_SHIFT;
	if (!rng_below(&bpf.rng, 60))
		packet.generation--;
	if (!rng_below(&bpf.rng, 60))
		packet.child = (uint16_t)(job->children + rng_below(&bpf.rng, 9));
	if (!rng_below(&bpf.rng, 60))
		packet.slot += SLOTS;
	if (!rng_below(&bpf.rng, 60))
		packet.job += JOBS;
	if (packet.lanes > SWITCH_LANES_MAX)
		packet.lanes = SWITCH_LANES_MAX;
	return packet;
}

static void random_packets_do_the_same_in_the_kernel_as_here(void **state)
{
	uint32_t actions[5] = { 0 };
	struct frame frame;
	char what[32];

	(void)state;
	for (uint32_t i = 0; i < bpf.packets; i++) {
		struct wire packet = packet_draw();
		int32_t lane[SWITCH_LANES_MAX];

		if (!rng_below(&bpf.rng, 500)) { /* a restart */
			uint32_t job = rng_below(&bpf.rng, JOBS);

			jobs[job].job.generation += jobs[job].job.generation == UINT32_MAX ? 2 : 1;
			map_set(bpf.jobs, &job, &jobs[job]);
		}
		for (uint32_t k = 0; k < SWITCH_LANES_MAX; k++)
			lane[k] = (int32_t)rng_u32(&bpf.rng);
		frame_init(&frame, &packet, lane);
		snprintf(what, sizeof(what), "packet %u", i);
		actions[frame_agrees(&frame, here_run, what)]++;
		maps_are_same(what);
	}
	printf("%u packets: %u dropped or absorbed, %u passed on, %u sent back\nverdicts:",
	       bpf.packets, actions[XDP_DROP], actions[XDP_PASS], actions[XDP_TX]);
	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++) {
		printf(" %llu", (unsigned long long)counters[i]);
		assert_true(counters[i] > 10 || i == SWITCH_UP || i == SWITCH_HELD_UP ||
			    i == SWITCH_DROP_ADDRESS);
	}
	printf("\n");
}

static void a_child_is_known_by_its_address_and_a_hello_is_the_daemons(void **state)
{
	struct wire packet = { .type = WIRE_UPDATE,
			       .generation = jobs[0].job.generation,
			       .seq = slots[0].slot.round };
	struct frame frame;

	(void)state;
	frame_init(&frame, &packet, NULL);
	frame.at[AT_SOURCE + 3] ^= 1; /* child 1's */
	assert_int_equal(frame_run(&frame), XDP_DROP);
	counters[SWITCH_DROP_ADDRESS]++;
	packet.type = WIRE_HELLO;
	packet.lanes = WIRE_HELLO_LANES;
	frame_init(&frame, &packet, (const int32_t[WIRE_HELLO_LANES]){ 0 });
	assert_int_equal(frame_run(&frame), XDP_PASS);
	maps_are_same("after these");
}

/* What becomes of a frame that is so many bytes shorter; it is counted as this fault, if it is one. */
static void frame_is(uint32_t action, uint16_t port, uint32_t less, enum wire_fault fault)
{
	struct wire packet = { .type = WIRE_UPDATE,
			       .generation = jobs[0].job.generation,
			       .seq = slots[0].slot.round,
			       .lanes = 4 };
	struct frame frame;

	frame_init(&frame, &packet, (const int32_t[4]){ 0 });
	wire_put16(frame.at + AT_UDP + 2, port);
	frame.bytes -= less;
	assert_int_equal(frame_run(&frame), action);
	if (fault)
		counters[XDP_COUNT_FAULT + fault]++;
	maps_are_same("a frame that is none");
}

static void jobs__that_cannot_be_are_dropped_and_counted(void **state)
{
	struct wire packet = { .type = WIRE_UPDATE, .job = SWITCH_JOBS_MAX };
	struct frame frame;

	(void)state;
	frame_init(&frame, &packet, NULL);
	assert_int_equal(frame_run(&frame), XDP_DROP);
	counters[SWITCH_DROP_JOB]++;
	maps_are_same("a job behind the last");
}

static void frames__that_are_cut_off_are_dropped_and_counted(void **state)
{
	(void)state;
	frame_is(XDP_PASS, FRAME_PORT + 1, 0, WIRE_OK);
	frame_is(XDP_DROP, FRAME_PORT, 1, WIRE_FAULT_LENGTH);
	frame_is(XDP_DROP, FRAME_PORT, 4 * WIRE_LANE_BYTES + 1, WIRE_FAULT_SHORT);
}

static int group(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_passes_the_verifier_at_64_lanes),
		cmocka_unit_test(a_child_is_known_by_its_address_and_a_hello_is_the_daemons),
		cmocka_unit_test(jobs__that_cannot_be_are_dropped_and_counted),
		cmocka_unit_test(frames__that_are_cut_off_are_dropped_and_counted),
		cmocka_unit_test(random_packets_do_the_same_in_the_kernel_as_here),
	};

	return cmocka_run_group_tests(tests, world_open, NULL);
}

int main(int argc, char **argv)
{
	return bpf_main(argc, argv, "tally_latency", PACKETS, group);
}
