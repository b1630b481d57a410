/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * latency_tc.bpf.c - latency mode's switch program at the ingress of a network device (tc, clsact), for tallyd's
 * `--engine kernel`: the slots live here, and a round that goes well never wakes the daemon. What it does not take it
 * leaves as it was, for the daemon, which steps the same slots with tally_step: what is not sound, not of a bound
 * address or of no job here; what came as several packets in one (GSO) or with a VLAN's tag; what the switch drops or calls
 * a mismatch; answers that do not fit the frame they would leave in; and all of a job as long as not all of its children
 * have sent something by one of our devices. Linux 5.15 or later.
 *
 * A RESULT goes to each child as a copy of the frame that completed it, to where the child's last packet came from
 * (R-LAT-10). It passes the queueing discipline of the device it leaves by, as a packet of the daemon's would.
 */
#define SWITCH_LANES_MAX 360 /* IPv4 in 1,500 bytes */
#define FRAME_CONTEXT struct __sk_buff
#include "core/latency/switch_latency.h"
#include "dataplane/xdp/switch_frame.h"

#include <linux/pkt_cls.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HOOK_SLOTS_MAX);
	__type(key, __u32);
	__type(value, struct xdp_latency_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XDP_CHILDREN_MAX);
	__type(key, struct xdp_child);
	__type(value, struct hook_child);
} children SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SWITCH_VERDICT_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(__u32 verdict)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &verdict);

	if (counter)
		++*counter;
}

static __always_inline struct hook_child *child_find(__u32 job, __u32 child)
{
	struct xdp_child key = { .job = job, .child = child };

	return bpf_map_lookup_elem(&children, &key);
}

/* Where its packets come from is where its answers go. Two processors may write the same at the same time. */
static __always_inline void path_learn(struct hook_child *child, const struct __sk_buff *skb,
				       const struct frame *frame)
{
	child->ifindex = skb->ifindex;
	child->local = frame->ip.daddr;
	__builtin_memcpy(child->mac, frame->eth.h_source, ETH_ALEN);
	__builtin_memcpy(child->local_mac, frame->eth.h_dest, ETH_ALEN);
	child->has_path = 1;
}

static __always_inline int is_at(const struct hook_child *child, const struct frame *frame)
{
	return child->address == frame->ip.saddr && child->port == frame->udp.source;
}

/* ---- checksums ---- */

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)sum;
}

/* Of the packet behind UDP's header. As put_lanes it takes the frame and the number of its lanes anew. */
static __always_inline __u32 packet_sum(struct __sk_buff *skb)
{
	const void *end = (const void *)(long)*(volatile __u32 *)&skb->data_end;
	struct frame *frame = (void *)(long)*(volatile __u32 *)&skb->data;
	__s32 *lane = (void *)(frame + 1);
	__u64 sum = 0;
	__u32 lanes;

	if ((void *)lane > end)
		return 0;
#pragma unroll
	for (int i = 0; i < WIRE_HEADER_BYTES; i += 2)
		sum += *(const __u16 *)(const void *)(frame->header + i);
	lanes = wire_get16(frame->header + WIRE_LANES_AT);
	for (__u32 i = 0; i < SWITCH_LANES_MAX; i++) {
		if (i >= lanes || !CORE_IN_REACH(lane + i, end))
			break;
		sum += (__u32)lane[i];
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	return fold((__u32)sum & 0xffff) + fold((__u32)sum >> 16);
}

static __always_inline __u16 pseudo_sum(const struct frame *frame)
{
	return fold((frame->ip.saddr & 0xffff) + (frame->ip.saddr >> 16) +
		    (frame->ip.daddr & 0xffff) + (frame->ip.daddr >> 16) + bpf_htons(IPPROTO_UDP) +
		    frame->udp.len);
}

static __always_inline void ip_check(struct frame *frame)
{
	const __u16 *word = (const void *)((__u8 *)frame + sizeof(frame->eth));
	__u32 sum = 0;

	frame->ip.check = 0;
#pragma unroll
	for (int i = 0; i < (int)(sizeof(frame->ip) / sizeof(*word)); i++)
		sum += word[i];
	frame->ip.check = (__u16)~fold(sum);
}

/* ---- answers ---- */

/* Of a whole datagram, its own field in it or 0. */
static __always_inline __u16 udp_sum(const struct frame *frame, __u32 packet)
{
	return fold(pseudo_sum(frame) + fold(frame->udp.source + frame->udp.dest) +
		    fold(frame->udp.len + frame->udp.check) + fold(packet));
}

/* The device has looked, or the packet has not left this machine and the pseudo header's sum is in its checksum's
 * place, or it has none; else it is added up here. */
static __always_inline int is_undamaged(struct __sk_buff *skb, const struct frame *frame)
{
	__u16 check = frame->udp.check;
	__u16 rest = udp_sum(frame, 0);

	if (!check || check == pseudo_sum(frame) || bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0)
		return 1;
	return fold((__u32)rest + fold(packet_sum(skb))) == 0xffff;
}

/* What an answer's checksum is made of. is_partial: it is left to the device that it leaves by, if any. */
struct check {
	int is_partial;
	__u32 packet; /* packet_sum */
};

static __always_inline void address_write(struct frame *frame, const struct hook_child *child,
					  const struct check *check)
{
	__builtin_memcpy(frame->eth.h_dest, child->mac, ETH_ALEN);
	__builtin_memcpy(frame->eth.h_source, child->local_mac, ETH_ALEN);
	frame->ip.saddr = child->local;
	frame->ip.daddr = child->address;
	frame->udp.source = bpf_htons(xdp_port);
	frame->udp.dest = child->port;
	ip_check(frame);
	frame->udp.check = 0;
	if (check->is_partial)
		frame->udp.check = pseudo_sum(frame);
	else
		frame->udp.check = (__u16)~udp_sum(frame, check->packet);
	if (!frame->udp.check)
		frame->udp.check = 0xffff;
}

/* False: the frame is too short for a frame, which it was not. */
static __always_inline int address_to(struct __sk_buff *skb, const struct hook_child *child,
				      const struct check *check)
{
	void *end = (void *)(long)*(volatile __u32 *)&skb->data_end;
	struct frame *frame = (void *)(long)*(volatile __u32 *)&skb->data;

	if ((void *)(frame + 1) > end)
		return 0;
	address_write(frame, child, check);
	return 1;
}

/* Can all be told? Asked until they can: the daemon forgets it when a child is bound anew. */
static __always_inline int have_paths(struct xdp_job *job)
{
	if (job->has_paths)
		return 1;
	for (__u32 i = 0; i < HOOK_CHILDREN_MAX && i < job->job.children; i++) {
		const struct hook_child *child = child_find(job->job.index, i);

		if (!child || !child->has_path)
			return 0;
	}
	job->has_paths = 1;
	return 1;
}

static __always_inline void to_all(struct __sk_buff *skb, const struct switch_job *job,
				   const struct check *check)
{
	for (__u32 i = 0; i < HOOK_CHILDREN_MAX && i < job->children; i++) {
		const struct hook_child *child = child_find(job->index, i);

		if (child && child->has_path && address_to(skb, child, check))
			bpf_clone_redirect(skb, child->ifindex, 0); /* what is lost is asked for */
	}
}

/* REPLY or MULTICAST, the lanes are in place. */
static __always_inline int answer(struct __sk_buff *skb, const struct switch_job *job,
				  const struct hook_child *child, enum switch_verdict verdict,
				  const struct wire *packet)
{
	void *end = (void *)(long)*(volatile __u32 *)&skb->data_end;
	struct frame *frame = (void *)(long)*(volatile __u32 *)&skb->data;
	struct check check = { 0 };

	if ((void *)(frame + 1) > end)
		return TC_ACT_UNSPEC;
	count(verdict);
	check.is_partial = frame->udp.check == pseudo_sum(frame);
	wire_put(frame->header, packet);
	if (!check.is_partial)
		check.packet = packet_sum(skb);
	if (verdict == SWITCH_MULTICAST) {
		to_all(skb, job, &check);
		return TC_ACT_STOLEN;
	}
	if (!address_to(skb, child, &check))
		return TC_ACT_UNSPEC;
	return (int)bpf_redirect(child->ifindex, 0);
}

/* ---- programs ---- */

static __always_inline struct xdp_job *job_find(const struct wire *packet)
{
	__u32 index = packet->job;

	return bpf_map_lookup_elem(&jobs, &index);
}

static __always_inline struct xdp_latency_slot *slot_find(const struct xdp_job *job,
							  const struct wire *packet)
{
	__u32 index = job->slot_base + packet->slot;

	return bpf_map_lookup_elem(&slots, &index);
}

/* Several packets in one frame, of one child's. */
static __always_inline int many(const struct __sk_buff *skb)
{
	void *end = (void *)(long)skb->data_end;
	struct frame *frame = (void *)(long)skb->data;
	struct hook_child *child;
	struct xdp_job *job;
	struct wire packet;

	if ((void *)(frame + 1) > end || !is_ours(frame))
		return TC_ACT_UNSPEC;
	wire_get(frame->header, &packet);
	job = job_find(&packet);
	if (!job || switch_latency_admit(&job->job, &packet))
		return TC_ACT_UNSPEC;
	child = child_find(packet.job, packet.child);
	if (child && is_at(child, frame))
		path_learn(child, skb, frame);
	return TC_ACT_UNSPEC;
}

/* All that a packet may have is where programs can read it. */
static __always_inline void pull(struct __sk_buff *skb)
{
	if (skb->len <= HOOK_FRAME_BYTES && skb->data_end - skb->data < skb->len)
		bpf_skb_pull_data(skb, 0);
}

/* The job is still what it was when it was looked up. */
static __always_inline int is_current(const struct xdp_job *job, const struct wire *packet,
				      __u32 slot)
{
	return job->job.generation == packet->generation && job->job.enabled &&
	       job->slot_base + packet->slot == slot;
}

static __always_inline void served_count(struct xdp_served *served, __u8 type, __u8 flags,
					 enum switch_verdict verdict)
{
	if (type == WIRE_UPDATE) {
		served->updates++;
		served->again += flags / WIRE_RESENT;
	}
	served->results += verdict == SWITCH_MULTICAST;
}

static __always_inline int serve(struct __sk_buff *skb)
{
	void *end = (void *)(long)skb->data_end;
	struct frame *frame = (void *)(long)skb->data;
	__s32 *lane = (void *)(frame + 1);
	struct xdp_latency_slot *slot;
	enum switch_verdict verdict;
	struct hook_child *child;
	struct xdp_job *job;
	struct wire packet;
	__u8 type, flags;
	int fits = 1;
	__u32 index;

	if (frame_read(skb, &packet) != FRAME_IS_READ)
		return TC_ACT_UNSPEC;
	type = packet.type;
	flags = packet.flags;
	job = job_find(&packet);
	if (!job || switch_latency_admit(&job->job, &packet))
		return TC_ACT_UNSPEC;
	child = child_find(packet.job, packet.child);
	if (!child || !is_at(child, frame))
		return TC_ACT_UNSPEC;
	if (!is_undamaged(skb, frame))
		return TC_ACT_UNSPEC;
	path_learn(child, skb, frame);
	if (!have_paths(job))
		return TC_ACT_UNSPEC;
	index = job->slot_base + packet.slot;
	slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return TC_ACT_UNSPEC;

	bpf_spin_lock(&slot->lock);
	verdict = SWITCH_DROP_JOB;
	if (is_current(job, &packet, index))
		verdict =
			switch_latency_step(&job->job, &slot->slot, slot->sum, &packet, lane, end);
	if (verdict == SWITCH_REPLY || verdict == SWITCH_MULTICAST)
		fits = put_lanes(skb, &packet, slot->sum);
	if (verdict <= SWITCH_MULTICAST && fits)
		served_count(&slot->served, type, flags, verdict);
	bpf_spin_unlock(&slot->lock);

	if (verdict == SWITCH_ABSORB) {
		count(verdict);
		return TC_ACT_STOLEN;
	}
	if (verdict > SWITCH_MULTICAST || !fits)
		return TC_ACT_UNSPEC;
	return answer(skb, &job->job, child, verdict, &packet);
}

SEC("tc")
int tally_hook(struct __sk_buff *skb)
{
	if (skb->vlan_present)
		return TC_ACT_UNSPEC;
	if (skb->gso_segs > 1)
		return many(skb);
	pull(skb);
	return serve(skb);
}

/* What the daemon has admitted, in a frame of its making (BPF_PROG_TEST_RUN). The verdict, with the answer in the
 * frame; HOOK_UNFIT: the answer does not fit; HOOK_REFUSED: it is none of ours. */
SEC("tc")
int tally_step(struct __sk_buff *skb)
{
	void *end = (void *)(long)skb->data_end;
	struct frame *frame = (void *)(long)skb->data;
	__s32 *lane = (void *)(frame + 1);
	struct xdp_latency_slot *slot;
	enum switch_verdict verdict;
	struct xdp_job *job;
	struct wire packet;
	int fits = 1;

	if (frame_read(skb, &packet) != FRAME_IS_READ)
		return HOOK_REFUSED;
	job = job_find(&packet);
	if (!job || switch_latency_admit(&job->job, &packet))
		return HOOK_REFUSED;
	slot = slot_find(job, &packet);
	if (!slot)
		return HOOK_REFUSED;

	bpf_spin_lock(&slot->lock);
	verdict = switch_latency_step(&job->job, &slot->slot, slot->sum, &packet, lane, end);
	if ((verdict == SWITCH_REPLY || verdict == SWITCH_MULTICAST) && packet.lanes)
		fits = put_lanes(skb, &packet, slot->sum);
	bpf_spin_unlock(&slot->lock);

	end = (void *)(long)*(volatile __u32 *)&skb->data_end;
	frame = (void *)(long)*(volatile __u32 *)&skb->data;
	if (!fits || (void *)(frame + 1) > end)
		return HOOK_UNFIT;
	wire_put(frame->header, &packet);
	return (int)verdict;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
