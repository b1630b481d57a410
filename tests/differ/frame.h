/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * frame.h - what goes into every build of the switch programs, what comes out, and the memory that they
 * work on. Also compiled for eBPF.
 */
#ifndef TESTS_DIFFER_FRAME_H
#define TESTS_DIFFER_FRAME_H

enum {
	DIFFER_LANES = 64,                    /* of a job, at most */
	DIFFER_LANES_SENT = DIFFER_LANES + 8, /* a packet may have more than START's */
	DIFFER_JOBS = 12,
	DIFFER_SLOTS = 2, /* of each job */
	DIFFER_SLOTS_ALL = DIFFER_JOBS * DIFFER_SLOTS,
};

#ifdef __bpf__
#define SWITCH_LANES_MAX 64 /* DIFFER_LANES; user space has the daemon's */
#endif
#include "core/latency/switch_latency.h"

/* Both machines' slots; a job uses one of them. Room for a lane too many where a check is taken out. */
struct differ_slot {
	struct switch_slot dense;
	struct switch_latency_slot latency;
	int32_t sum[DIFFER_LANES + DIFFER_LANES_SENT];
};

enum differ_from { DIFFER_CHILD, DIFFER_PARENT };

/* What goes in, `header` and then the lanes, and what comes out: `made`, what the program has made of the
 * header, whether it is to be sent or not; `probe`, the second packet of SWITCH_HELD_UP. */
struct differ_frame {
	uint32_t from;
	uint32_t job; /* whose parent: an engine knows it by the address */
	uint8_t made[WIRE_HEADER_BYTES];
	uint8_t probe[WIRE_HEADER_BYTES];
	uint8_t header[WIRE_HEADER_BYTES];
};

/* What comes of a datagram: a verdict, or this and an enum wire_fault. */
enum {
	DIFFER_FAULT = SWITCH_VERDICT_COUNT,
	DIFFER_RESULTS = DIFFER_FAULT + WIRE_FAULT_COUNT,
};

#endif
