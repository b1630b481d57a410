/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * switch.bpf.c - the switch program inside the kernel, at a network card's first hook (XDP). Parsing
 * and the answer in place are switch_xdp.h; what a packet means is core/dense/switch.h, the same text as
 * in the daemon. Linux 5.15 or later.
 *
 * So far only tests load it. It neither verifies UDP's checksum nor makes one, and it passes on to
 * the daemon what a single frame of unchanged length cannot say: see answer().
 */
#define SWITCH_LANES_MAX 360 /* IPv4 in 1,500 bytes */
#include "core/dense/switch.h"
#include "dataplane/xdp/switch_xdp.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XDP_SLOTS_MAX);
	__type(key, __u32);
	__type(value, struct xdp_slot);
} slots SEC(".maps");

SEC("xdp")
int tally_switch(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct frame *frame = (void *)(long)ctx->data;
	__s32 *lane = (void *)(frame + 1);
	enum switch_verdict verdict;
	struct xdp_slot *slot;
	struct xdp_job *job;
	struct wire packet;
	__u32 index;
	int fault, fits = 0;

	fault = frame_read(ctx, &packet);
	if (fault != FRAME_IS_READ)
		return fault == FRAME_FOREIGN ? XDP_PASS : drop(XDP_COUNT_FAULT + (__u32)fault);
	if (packet.type != WIRE_UPDATE && packet.type != WIRE_PROBE)
		return XDP_PASS; /* HELLO, and what a parent says: the daemon's */

	index = packet.job;
	job = bpf_map_lookup_elem(&jobs, &index);
	if (!job)
		return drop(SWITCH_DROP_JOB);
	verdict = switch_admit(&job->job, &packet);
	if (verdict)
		return drop(verdict);
	if (!is_bound(&packet, frame))
		return drop(SWITCH_DROP_ADDRESS);
	index = job->slot_base + packet.slot;
	slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return drop(SWITCH_DROP_SLOT);

	bpf_spin_lock(&slot->lock);
	verdict = switch_step(&job->job, &slot->slot, slot->sum, SWITCH_LANES_MAX, &packet, lane,
			      end);
	if (verdict == SWITCH_REPLY || verdict == SWITCH_MULTICAST || verdict == SWITCH_UP)
		fits = put_lanes(ctx, &packet,
				 slot->sum + (switch_copy_of(packet.seq) ? SWITCH_LANES_MAX : 0));
	bpf_spin_unlock(&slot->lock);

	return answer(ctx, verdict, &packet, fits);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
