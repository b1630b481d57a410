/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * switch_frame.h - what the programs in the kernel have in common: jobs and frames, of an XDP program's context
 * (switch_xdp.h) or a tc program's (latency_tc.bpf.c). Included after the switch program, whose SWITCH_LANES_MAX it
 * shares.
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

/* A whole IPv4 datagram for our port? All else is the kernel's. */
static __always_inline int is_ours(const struct frame *frame)
{
	return frame->eth.h_proto == bpf_htons(ETH_P_IP) && frame->ip.version == 4 &&
	       frame->ip.ihl == 5 && frame->ip.protocol == IPPROTO_UDP &&
	       !(frame->ip.frag_off & bpf_htons((__u16)~IP_DONT_FRAGMENT)) &&
	       frame->udp.dest == bpf_htons(xdp_port) &&
	       bpf_ntohs(frame->ip.tot_len) == sizeof(frame->ip) + bpf_ntohs(frame->udp.len);
}

#ifndef FRAME_CONTEXT
#define FRAME_CONTEXT struct xdp_md
#endif

enum { FRAME_IS_READ = -1, FRAME_FOREIGN = 0 };

/* FRAME_IS_READ, with *packet: a packet with all its lanes; FRAME_FOREIGN: not for us; else its wire_fault. */
static __always_inline int frame_read(FRAME_CONTEXT *ctx, struct wire *packet)
{
	void *end = (void *)(long)ctx->data_end;
	struct frame *frame = (void *)(long)ctx->data;
	__s32 *lane = (void *)(frame + 1);
	enum wire_fault fault;

	if ((void *)frame->header > end || !is_ours(frame))
		return FRAME_FOREIGN;
	if ((void *)lane > end)
		return WIRE_FAULT_SHORT;
	fault = wire_check(frame->header, bpf_ntohs(frame->udp.len) - (__u32)sizeof(frame->udp),
			   packet);
	if (fault)
		return (int)fault;
	if ((void *)(lane + packet->lanes) > end)
		return WIRE_FAULT_LENGTH;
	return FRAME_IS_READ;
}

/* Writes the answer's lanes over those of the question if there are equally many, and says so.
 * Takes the frame and the number of its lanes anew: the verifier has followed each number of
 * lanes that the switch program may have seen, and would follow all of them again, once per number of
 * lanes here. */
static __always_inline int put_lanes(FRAME_CONTEXT *ctx, const struct wire *packet,
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

#endif
