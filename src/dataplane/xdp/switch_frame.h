/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * switch_frame.h - what the XDP programs have in common: frames, jobs, addresses, counters, answers. Included
 * after the switch program, whose SWITCH_LANES_MAX it shares.
 */
#ifndef DATAPLANE_XDP_SWITCH_FRAME_H
#define DATAPLANE_XDP_SWITCH_FRAME_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "dataplane/xdp/switch_maps.h"

#define IP_DONT_FRAGMENT 0x4000 /* the only bit of frag_off that a whole datagram may have */

struct frame {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	__u8 header[WIRE_HEADER_BYTES]; /* the lanes follow */
} __attribute__((packed, aligned(2)));

/* The loader sets it: datagrams to other ports are none of ours. */
const volatile __u16 xdp_port = XDP_PORT_DEFAULT;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SWITCH_JOBS_MAX);
	__type(key, __u32);
	__type(value, struct xdp_job);
} jobs SEC(".maps");

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

/* A whole IPv4 datagram for our port? All else is the kernel's. */
static __always_inline int is_ours(const struct frame *frame)
{
	return frame->eth.h_proto == bpf_htons(ETH_P_IP) && frame->ip.version == 4 &&
	       frame->ip.ihl == 5 && frame->ip.protocol == IPPROTO_UDP &&
	       !(frame->ip.frag_off & bpf_htons((__u16)~IP_DONT_FRAGMENT)) &&
	       frame->udp.dest == bpf_htons(xdp_port) &&
	       bpf_ntohs(frame->ip.tot_len) == sizeof(frame->ip) + bpf_ntohs(frame->udp.len);
}

static __always_inline int is_bound(const struct wire *packet, const struct frame *frame)
{
	struct xdp_child child = { .job = packet->job, .child = packet->child };
	struct xdp_address *bound = bpf_map_lookup_elem(&children, &child);

	return bound && bound->address == frame->ip.saddr && bound->port == frame->udp.source;
}

enum { FRAME_IS_READ = -1 };

/* FRAME_IS_READ, with *packet: a packet with all its lanes; else the action for what is none, or not for us. */
static __always_inline int frame_read(struct xdp_md *ctx, struct wire *packet)
{
	void *end = (void *)(long)ctx->data_end;
	struct frame *frame = (void *)(long)ctx->data;
	__s32 *lane = (void *)(frame + 1);
	enum wire_fault fault;

	if ((void *)frame->header > end || !is_ours(frame))
		return XDP_PASS;
	if ((void *)lane > end)
		return drop(XDP_COUNT_FAULT + WIRE_FAULT_SHORT);
	fault = wire_check(frame->header, bpf_ntohs(frame->udp.len) - (__u32)sizeof(frame->udp),
			   packet);
	if (fault)
		return drop(XDP_COUNT_FAULT + fault);
	if ((void *)(lane + packet->lanes) > end)
		return drop(XDP_COUNT_FAULT + WIRE_FAULT_LENGTH);
	return FRAME_IS_READ;
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

/* Writes the answer's lanes over those of the question if there are equally many, and says so.
 * Takes the frame and the number of its lanes anew: the verifier has followed each number of
 * lanes that the switch program may have seen, and would follow all of them again, once per number of
 * lanes here. */
static __always_inline int put_lanes(struct xdp_md *ctx, const struct wire *packet,
				     const __s32 *sum)
{
	const void *end = (const void *)(long)*(volatile __u32 *)&ctx->data_end;
	struct frame *frame = (void *)(long)*(volatile __u32 *)&ctx->data;
	__s32 *lane = (void *)(frame + 1);
	__u32 lanes;

	if ((void *)lane > end)
		return 0;
	lanes = wire_get16(frame->header + WIRE_LANES_AT);
	if (lanes != packet->lanes)
		return 0;
	for (__u32 i = 0; i < SWITCH_LANES_MAX; i++) {
		if (i >= lanes || !CORE_IN_REACH(lane + i, end))
			break;
		lane[i] = sum[i];
	}
	return 1;
}

/*
 * What a verdict comes to. In place: REPLY goes back (XDP_TX); the RESULT for all
 * children and the UPDATE for the parent go to the daemon, which has the other addresses
 * (XDP_PASS). A frame that the answer does not fit into, because a PROBE has no lanes and a RESULT
 * has, or the reverse, or because there are two answers, is passed to the daemon as it came.
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
