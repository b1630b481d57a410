/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - how large a job's packets, slots, messages and first window are. Pure arithmetic on what
 * the members, the options and the socket say.
 */
#ifndef SERVER_PLAN_H
#define SERVER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	PLAN_SLOTS = 704,
	PLAN_SLOTS_MIN = 128, /* of large packets: 16 of them express */
	PLAN_RUN = 44,
	PLAN_WINDOW_BYTES = 1 << 20,
	PLAN_LANES_STOCK =
		360, /* MTU 1500 over IPv4: never fewer than MTU allows below this; nor more of a
				   * dense job that nobody has asked it for: R-MAP-7 */
	PLAN_PACKET_STOCK = 1500, /* up to here a packet in a receive buffer costs ... */
	PLAN_COST_STOCK = 2304,   /* ... so much of it, whatever its size: 2 KiB and the sk_buff */
	PLAN_DEPTH_MIN = 4,       /* packets of every member that a receive buffer should hold */
	PLAN_MEMORY_MAX = 64 << 20,
	PLAN_MTU_MIN = 1280 - 40, /* below it nobody's path is: such a JOIN is nonsense */
};

struct plan_input {
	uint32_t members; /* children of this switch, at least 1 */
	uint32_t mtu;     /* the smallest of the members' */
	bool is_v6;
	uint32_t
		lanes_max; /* wanted; 0: PLAN_LANES_STOCK, in latency mode as many as fit (R-MAP-7) */
	uint32_t slots;    /* wanted; 0: PLAN_SLOTS, fewer of large packets */
	uint32_t window;   /* wanted; 0: a quarter of the bulk slots, at most PLAN_WINDOW_BYTES */
	uint32_t run;      /* wanted; 0: PLAN_RUN */
	uint64_t receive_bytes; /* SO_RCVBUF as the kernel tells it: overhead counted */
	uint64_t memory_max;    /* of slots, per shard; 0: PLAN_MEMORY_MAX */
};

struct plan {
	uint32_t lanes; /* the most that START may say */
	uint32_t slots; /* of each shard: 4 express and one bulk run at least */
	uint32_t window;
	uint32_t run;
	bool is_cramped; /* the window is what the receive buffer holds, not what was wanted */
};

/* The window, of several senders to one receive buffer, that it holds: at most `window`, at least 1. */
uint32_t plan_window_fit(uint32_t window, uint64_t receive_bytes, uint32_t senders,
			 uint32_t packet_bytes);

/* What a packet of so many UDP payload bytes costs in a receive buffer. */
uint32_t plan_packet_cost(uint32_t bytes);

/* Of a job in latency mode: its members have chosen slots and window (P); the first window is how many of P may be on
 * their way at once. Lanes are what the path carries and what slots leave of the memory. False as plan_job. */
bool plan_latency(const struct plan_input *input, uint32_t slots, uint32_t window,
		  struct plan *plan);

/* False if the MTU or the memory is too small for any job. */
bool plan_job(const struct plan_input *input, struct plan *plan);

#endif
