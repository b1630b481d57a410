/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * switch_maps.h - what a switch program in the kernel shares with the process that loads it: keys and
 * values of its maps. Addresses and ports are in network byte order. Needs core/dense/switch.h with the
 * same SWITCH_LANES_MAX on both sides.
 */
#ifndef DATAPLANE_XDP_SWITCH_MAPS_H
#define DATAPLANE_XDP_SWITCH_MAPS_H

enum {
	XDP_PORT_DEFAULT = 7171,
	XDP_SLOTS_MAX = 4096,
	XDP_CHILDREN_MAX = 4096, /* of all jobs together */
	/* The counters: verdicts first, then the faults of wire_check. */
	XDP_COUNT_FAULT = SWITCH_VERDICT_COUNT,
	XDP_COUNTERS = XDP_COUNT_FAULT + WIRE_FAULT_COUNT,
};

struct xdp_job {
	struct switch_job job;
	uint32_t slot_base;
	uint32_t has_paths; /* latency_tc.bpf.c: of all children */
};

struct xdp_child {
	uint32_t job;
	uint32_t child;
};

struct xdp_address {
	uint32_t address;
	uint16_t port;
	uint16_t reserved;
};

struct xdp_slot {
	struct switch_slot slot;
	int32_t sum[2 * SWITCH_LANES_MAX];
#ifdef __bpf__
	struct bpf_spin_lock lock;
#else
	uint32_t lock;
#endif
	uint32_t reserved;
};

/* Needs core/latency/switch_latency.h. */
#ifdef CORE_SWITCH_LATENCY_H
/* Of the packets at a slot that the daemon has not seen: its own count is dataplane/engine_soft.h's. */
struct xdp_served {
	uint64_t updates, again, results;
};

struct xdp_latency_slot {
	struct switch_latency_slot slot;
	struct xdp_served served;
	int32_t sum[SWITCH_LANES_MAX];
#ifdef __bpf__
	struct bpf_spin_lock lock;
#else
	uint32_t lock;
#endif
	uint32_t reserved;
};

/* Of latency_tc.bpf.c: as xdp_address, and where the child's packets come from. */
struct hook_child {
	uint32_t address;
	uint16_t port;
	uint16_t has_path;
	uint32_t ifindex;
	uint32_t local; /* which of our addresses it has reached */
	uint8_t mac[6], local_mac[6];
};

enum {
	HOOK_FRAME_BYTES = 2048, /* larger ones are none of ours */
	HOOK_SLOTS_MAX = 4096,
	HOOK_CHILDREN_MAX = 64, /* of one job */
	/* tally_step's results beside verdicts. */
	HOOK_UNFIT = 254,
	HOOK_REFUSED = 255,
};
#endif

#endif
