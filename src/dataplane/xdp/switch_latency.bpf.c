/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * switch_latency.bpf.c - latency mode's switch program (core/latency/switch_latency.h) inside the kernel, beside
 * switch.bpf.c and with the same limits. Only a test loads it.
 */
#define SWITCH_LANES_MAX 64
#include "core/latency/switch_latency.h"
#include "dataplane/xdp/switch_xdp.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XDP_SLOTS_MAX);
	__type(key, __u32);
	__type(value, struct xdp_latency_slot);
} slots SEC(".maps");

SEC("xdp")
int tally_latency(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct frame *frame = (void *)(long)ctx->data;
	__s32 *lane = (void *)(frame + 1);
	struct xdp_latency_slot *slot;
	enum switch_verdict verdict;
	struct xdp_job *job;
	struct wire packet;
	__u32 index;
	int fault, fits = 0;

	fault = frame_read(ctx, &packet);
	if (fault != FRAME_IS_READ)
		return fault == FRAME_FOREIGN ? XDP_PASS : drop(XDP_COUNT_FAULT + (__u32)fault);
	if (packet.type != WIRE_UPDATE && packet.type != WIRE_ACK)
		return XDP_PASS; /* HELLO: the daemon's */

	index = packet.job;
	job = bpf_map_lookup_elem(&jobs, &index);
	if (!job)
		return drop(SWITCH_DROP_JOB);
	verdict = switch_latency_admit(&job->job, &packet);
	if (verdict)
		return drop(verdict);
	if (!is_bound(&packet, frame))
		return drop(SWITCH_DROP_ADDRESS);
	index = job->slot_base + packet.slot;
	slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return drop(SWITCH_DROP_SLOT);

	bpf_spin_lock(&slot->lock);
	verdict = switch_latency_step(&job->job, &slot->slot, slot->sum, &packet, lane, end);
	if (verdict == SWITCH_REPLY || verdict == SWITCH_MULTICAST)
		fits = put_lanes(ctx, &packet, slot->sum);
	bpf_spin_unlock(&slot->lock);

	return answer(ctx, verdict, &packet, fits);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
