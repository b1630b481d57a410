/* SPDX-License-Identifier: Apache-2.0 */
/* net_state.h - the net inside: for net.c (a packet's way, the links) and net_setup.c. */
#ifndef SIM_NET_STATE_H
#define SIM_NET_STATE_H

#include "sim/agenda.h"
#include "sim/net.h"

#include <stdlib.h>

enum {
	SLAB_PACKETS = 1024,
	NOTHING = UINT32_MAX,
	INBOX_FRAMES_BYTES = 256 * 1024, /* what one recv lends; more waits for the next */
	FATE_BITS = 20,
	/* What an event is: its two top bits; the others are a packet, a node or a cookie. */
	WHAT_PACKET = 0,
	WHAT_POLL = 1,
	WHAT_TIMER = 2,
	WHAT_SHIFT = 30,
};

struct packet {
	uint32_t next; /* in a list of free packets, or in an inbox */
	uint32_t from, to;
	uint16_t bytes;
	uint16_t from_port;
	bool has_waited; /* in the line in */
	uint8_t life;    /* of the node that it is for */
	uint8_t reserved[2];
	uint8_t data[];
};
_Static_assert(sizeof(struct packet) % 4 == 0, "data are 4-byte aligned");
_Static_assert(NET_NODES_MAX <= 1 << 24, "a node is three bytes of an address");

struct line {
	struct net_line line;
	uint64_t free_ns;  /* when the last packet that entered has left */
	uint64_t queue_ns; /* how long that may be from now */
	uint64_t pause_ns; /* nothing leaves before */
	bool is_down;      /* and nothing enters before */
	uint32_t loss;     /* in 2^-FATE_BITS, the weather's included */
};

struct node {
	struct link link;
	struct net *net;
	uint32_t number, up, side;
	struct line out, in, hub_out, hub_in;
	uint32_t poll_ns, gro;
	uint32_t inbox_bytes, inbox_used;
	uint32_t inbox_head, inbox_tail;
	uint64_t due_ns;                  /* the poll that is in the heap and counts; NET_NEVER */
	uint64_t pause_ns;                /* it is not polled before */
	uint64_t clock_from_ns, clock_ns; /* its clock showed clock_ns when it was clock_from_ns */
	int32_t clock_ppm;                /* and has run so much faster since */
	uint8_t life; /* of what runs there: one that came later gets nothing of one before */
	bool is_woken;
};

struct net {
	uint64_t now_ns;
	struct rng fate, host;
	uint32_t packet_bytes_max;
	uint32_t lane_weight;
	uint64_t fault_first, fault_last, sent; /* packets by number of sending */
	enum net_cut cut;
	struct net_weather weather;
	uint32_t loss, duplicate, reorder; /* in 2^-FATE_BITS */
	struct net_stats stats;
	void (*watch)(void *context, const struct net_sight *sight);
	void *context;

	struct agenda agenda;

	uint8_t **slabs;
	uint32_t slabs_count;
	size_t stride;
	uint32_t unused; /* list of free packets */

	uint8_t *frames; /* what recv lends */
	uint32_t nodes_count, nodes_max;
	struct node **node;
};

/* Out of memory ends a simulation: nothing in it could go on as the seed says. */
static inline void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

extern const struct link_ops net_link_ops;

#endif
