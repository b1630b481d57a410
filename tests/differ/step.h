/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * step.h - what every build of the switch programs is asked to do with a datagram: judge its shape, admit
 * it, step its slot, and write down the whole answer. The same text for gcc, clang and eBPF; what differs
 * is where the jobs and slots lie: differ_job and differ_slot, which the including file defines.
 *
 * Not the XDP programs themselves: these show an answer only if it fits the frame, and take nothing from a
 * parent. What they do with random packets is for tests/bpf_test.c and tests/bpf_latency_test.c.
 */
#ifndef TESTS_DIFFER_STEP_H
#define TESTS_DIFFER_STEP_H

#include "tests/differ/frame.h"

struct differ_world;
CORE_INLINE const struct switch_job *differ_job(const struct differ_world *world, uint32_t index);
CORE_INLINE struct differ_slot *differ_slot(const struct differ_world *world, uint32_t index);

CORE_INLINE enum switch_verdict differ_admit(const struct switch_job *job,
					     const struct differ_frame *frame,
					     const struct wire *packet)
{
	if (frame->from == DIFFER_PARENT)
		return switch_admit_from_parent(job, packet);
	if (job->mode != SWITCH_DENSE)
		return switch_latency_admit(job, packet);
	return switch_admit(job, packet);
}

CORE_INLINE enum switch_verdict differ_slot_step(const struct switch_job *job,
						 struct differ_slot *slot,
						 struct differ_frame *frame, struct wire *packet,
						 const void *end)
{
	const int32_t *lane = (const void *)(frame + 1);
	enum switch_verdict verdict;

	if (frame->from == DIFFER_PARENT)
		return switch_from_parent(job, &slot->dense, slot->sum, DIFFER_LANES, packet, lane,
					  end);
	if (job->mode != SWITCH_DENSE)
		return switch_latency_step(job, &slot->latency, slot->sum, packet, lane, end);
	verdict = switch_step(job, &slot->dense, slot->sum, DIFFER_LANES, packet, lane, end);
	if (verdict == SWITCH_HELD_UP) {
		struct wire probe = *packet;

		switch_probe_up(job, &probe);
		wire_put(frame->probe, &probe);
	}
	return verdict;
}

CORE_INLINE uint32_t differ_packet(const struct differ_world *world, struct differ_frame *frame,
				   struct wire *packet, const void *end)
{
	uint32_t index = frame->from == DIFFER_PARENT ? frame->job : packet->job;
	const struct switch_job *job = differ_job(world, index);
	enum switch_verdict verdict;
	struct differ_slot *slot;

	if (!job)
		return SWITCH_DROP_JOB;
	verdict = differ_admit(job, frame, packet);
	if (verdict)
		return verdict;
	slot = differ_slot(world, index * DIFFER_SLOTS + packet->slot);
	if (!slot)
		return SWITCH_DROP_SLOT;
	return differ_slot_step(job, slot, frame, packet, end);
}

/* `end` is the frame's. */
CORE_INLINE uint32_t differ_step(const struct differ_world *world, struct differ_frame *frame,
				 const void *end)
{
	struct wire packet = { 0 };
	enum wire_fault fault;
	uint32_t result;

	if ((const void *)(frame + 1) > end)
		return DIFFER_FAULT + WIRE_FAULT_SHORT;
	fault = wire_check(frame->header,
			   (uint32_t)((const uint8_t *)end - (const uint8_t *)frame->header),
			   &packet);
	if (fault)
		return DIFFER_FAULT + fault;
	result = differ_packet(world, frame, &packet, end);
	wire_put(frame->made, &packet);
	return result;
}

#endif
