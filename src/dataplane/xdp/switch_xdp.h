/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * switch_xdp.h - what the XDP programs have in common beside frames: addresses, counters, answers. Included after the
 * switch program.
 */
#ifndef DATAPLANE_XDP_SWITCH_XDP_H
#define DATAPLANE_XDP_SWITCH_XDP_H

#include "dataplane/xdp/switch_frame.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XDP_CHILDREN_MAX);
	__type(key, struct xdp_child);
	__type(value, struct xdp_address);
} children SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XDP_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(__u32 index)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &index);

	if (counter)
		__sync_fetch_and_add(counter, 1);
}

static __always_inline int drop(__u32 index)
{
	count(index);
	return XDP_DROP;
}

static __always_inline int is_bound(const struct wire *packet, const struct frame *frame)
{
	struct xdp_child child = { .job = packet->job, .child = packet->child };
	struct xdp_address *bound = bpf_map_lookup_elem(&children, &child);

	return bound && bound->address == frame->ip.saddr && bound->port == frame->udp.source;
}

/* The frame goes back to where it came from. Swapped addresses leave IP's checksum as it is. */
static __always_inline void turn_around(struct frame *frame)
{
	__u8 mac[ETH_ALEN];
	__be32 address = frame->ip.saddr;
	__be16 port = frame->udp.source;

	__builtin_memcpy(mac, frame->eth.h_source, ETH_ALEN);
	__builtin_memcpy(frame->eth.h_source, frame->eth.h_dest, ETH_ALEN);
	__builtin_memcpy(frame->eth.h_dest, mac, ETH_ALEN);
	frame->ip.saddr = frame->ip.daddr;
	frame->ip.daddr = address;
	frame->udp.source = frame->udp.dest;
	frame->udp.dest = port;
}

/*
 * What a verdict comes to. In place: REPLY goes back (XDP_TX); the RESULT for all
 * children and the UPDATE for the parent go to the daemon, which has the other addresses
 * (XDP_PASS). A frame that the answer does not fit into, because a PROBE has no lanes and a RESULT
 * has, or the reverse, or an UPDATE has fewer than the sum, or because there are two answers, is
 * passed to the daemon as it came.
 */
static __always_inline int answer(struct xdp_md *ctx, enum switch_verdict verdict,
				  const struct wire *packet, int fits)
{
	void *end = (void *)(long)*(volatile __u32 *)&ctx->data_end;
	struct frame *frame = (void *)(long)*(volatile __u32 *)&ctx->data;

	count(verdict);
	if (verdict == SWITCH_ABSORB || verdict >= SWITCH_DROP)
		return XDP_DROP;
	if (!fits || (void *)(frame + 1) > end)
		return XDP_PASS;
	wire_put(frame->header, packet);
	frame->udp.check = 0;
	if (verdict != SWITCH_REPLY)
		return XDP_PASS;
	turn_around(frame);
	return XDP_TX;
}

#endif
