/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4_packets.c MODE COUNT SEED LANES - random packets, drawn as the differential test draws them, and what the C switch
 * program makes of them: for tests/p4_play.py, which has a P4 program take them in step.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/differ/differ.h"
#include "tests/p4_say.h"

/* Jobs of a chip (R-CHIP-6): lanes, children. In latency mode every second one is acknowledged. */
static const struct {
	uint16_t children, lanes;
} chip_jobs[DIFFER_JOBS] = { { 1, 32 }, { 2, 32 }, { 5, 28 }, { 32, 8 }, { 3, 32 }, { 1, 12 },
			     { 8, 16 }, { 2, 4 },  { 4, 32 }, { 3, 8 },  { 6, 20 }, { 2, 32 } };

static struct switch_job jobs[DIFFER_JOBS];
static struct differ_slot slots[DIFFER_SLOTS_ALL];
static const struct switch_job no_job;
static bool is_stranger; /* the packet that is stepped comes from where no child is bound */

static enum switch_verdict admit(const struct switch_job *job, const struct wire *packet)
{
	if (jobs[0].mode != SWITCH_DENSE)
		return switch_latency_admit(job, packet);
	return switch_admit(job, packet);
}

static uint32_t step(struct differ_world *world, struct differ_frame *frame, uint32_t bytes)
{
	uint32_t header = (uint32_t)offsetof(struct differ_frame, header);
	struct wire packet = { 0 };
	const struct switch_job *job;
	enum switch_verdict verdict;
	enum wire_fault fault;
	struct differ_slot *slot;

	fault = wire_check(frame->header, bytes - header, &packet);
	if (fault)
		return DIFFER_FAULT + fault;
	job = packet.job < DIFFER_JOBS ? &world->jobs[packet.job] : &no_job;
	verdict = admit(job, &packet);
	if (!verdict && is_stranger)
		verdict = SWITCH_DROP_ADDRESS;
	if (verdict)
		return verdict;
	slot = &world->slots[packet.job * DIFFER_SLOTS + packet.slot];
	if (job->mode != SWITCH_DENSE)
		verdict = switch_latency_step(job, &slot->latency, slot->sum, &packet,
					      (void *)(frame + 1), NULL);
	else
		verdict = switch_step(job, &slot->dense, slot->sum, DIFFER_LANES, &packet,
				      (void *)(frame + 1), NULL);
	wire_put(frame->made, &packet);
	return verdict;
}

static void say_step(const struct differ *differ, const struct wire *sent,
		     const struct differ_slot *before)
{
	const struct switch_job *job = sent->job < DIFFER_JOBS ? &jobs[sent->job] : &no_job;
	uint32_t at = (uint32_t)sent->job * DIFFER_SLOTS + sent->slot, result = differ->results[0];
	uint32_t bytes = differ->bytes - (uint32_t)offsetof(struct differ_frame, header);
	uint32_t head = bytes < WIRE_HEADER_BYTES ? bytes : WIRE_HEADER_BYTES;
	const struct differ_slot *after = &slots[at % DIFFER_SLOTS_ALL];
	struct wire answer;

	printf("{\"name\":\"%u\",\"result\":%u,\"from\":%u", differ->packets, result,
	       sent->child % 32 ^ (is_stranger ? 1u : 0u));
	say_job(job);
	say_datagram("packet", differ->sent.frame.header, head, differ->sent.lane, bytes - head);
	if (result == SWITCH_REPLY || result == SWITCH_MULTICAST) {
		wire_get(differ->made[0].frame.made, &answer);
		say_packet("answer", &answer,
			   after->sum +
				   (job->mode == SWITCH_DENSE) * (answer.seq & 1) * DIFFER_LANES);
	}
	if (job != &no_job && sent->slot < DIFFER_SLOTS) {
		printf(",\"at\":%u", at);
		say_slot("before", job,
			 &(struct p4_slot){ &before->dense, &before->latency, before->sum,
					    DIFFER_LANES });
		say_slot("after", job,
			 &(struct p4_slot){ &after->dense, &after->latency, after->sum,
					    DIFFER_LANES });
	}
	printf("}\n");
}

/* Not the chip's: what a parent sends, and HELLOs, which are control's. */
static bool is_played(const struct differ *differ)
{
	uint8_t first = differ->sent.frame.header[0];

	return differ->sent.frame.from == DIFFER_CHILD && (first & 0x0f) != WIRE_HELLO;
}

static void packets(struct differ *differ, uint32_t count)
{
	static struct differ_slot before[DIFFER_SLOTS_ALL];
	struct differ_build *build = &differ->builds[0];

	for (uint32_t played = 0; played < count;) {
		struct wire sent = { 0 };

		is_stranger = rng_below(&differ->rng, 60) == 0;
		differ_draw_event(differ);
		differ->bytes = differ_draw_datagram(differ, &differ->sent);
		if (!is_played(differ))
			continue;
		differ->made[0] = differ->sent;
		memcpy(before, slots, sizeof(before));
		differ->results[0] =
			build->run(&build->world, &differ->made[0].frame, differ->bytes);
		differ->packets = ++played;
		wire_get(differ->sent.frame.header, &sent);
		say_step(differ, &sent,
			 &before[((uint32_t)sent.job * DIFFER_SLOTS + sent.slot) %
				 DIFFER_SLOTS_ALL]);
	}
}

int main(int argc, char **argv)
{
	static struct differ_build build = { .name = "C", .run = step, .world = { jobs, slots } };
	static struct differ differ;
	uint16_t lanes_max = argc == 5 ? (uint16_t)strtoul(argv[4], NULL, 0) : 0;
	bool is_dense = argc == 5 && !strcmp(argv[1], "dense");

	if (argc != 5)
		return 1;
	differ_init(&differ, strtoull(argv[3], NULL, 0), &build, 1);
	for (uint32_t i = 0; i < DIFFER_JOBS; i++) {
		switch_job_fill(&jobs[i], chip_jobs[i].children);
		jobs[i].lanes = chip_jobs[i].lanes < lanes_max ? chip_jobs[i].lanes : lanes_max;
		jobs[i].has_parent = 0;
		jobs[i].mode = is_dense ? SWITCH_DENSE
			       : i % 2  ? SWITCH_LATENCY
					: SWITCH_LATENCY_ACKNOWLEDGED;
	}
	packets(&differ, (uint32_t)strtoul(argv[2], NULL, 0));
	return 0;
}
