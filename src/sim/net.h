/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - a network and a clock made of a seed. Every node hangs on a fabric by one line out and one
 * line in, each with a rate, a delay and a finite queue; packets are lost, doubled and held up one by
 * one; lines and nodes can stand still. Corruption is loss: UDP's checksum sees to it.
 *
 * Time is virtual: net_step jumps to the next event. The same seed and the same calls give the same run,
 * bit for bit, on every machine. A node's link is a `struct link`, so what runs over sockets runs here.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "dataplane/link.h"
#include "util/rng.h"

#define NET_NEVER UINT64_MAX

enum {
	NET_NODES_MAX = 1 << 16,
	NET_PORT = 7171,
	NET_OVERHEAD_BYTES = 46, /* Ethernet, IPv4 and UDP headers around a packet */
};

/* One direction of a node's cable. */
struct net_line {
	uint32_t ps_per_byte; /* 8,000 at 1 Gbit/s */
	uint32_t queue_bytes; /* what waits beyond this is dropped */
	uint32_t delay_ns;    /* propagation */
	uint32_t loss;        /* parts per million, on top of the weather's */
};

/* What happens to any packet, in parts per million. */
struct net_weather {
	uint32_t loss, duplicate, reorder;
	uint32_t jitter_ns;  /* every packet is late by 0..jitter_ns */
	uint32_t reorder_ns; /* a reordered one, or a second copy, by 0..reorder_ns more */
	uint64_t in_order;   /* nodes whose packets are never reordered: a bit each */
};

struct net_options {
	uint64_t seed;
	uint32_t packet_bytes_max; /* what the paths carry */
	uint32_t lane_weight;      /* on the wire a byte behind the header is so many; 0: one */
	/* Only packets of these numbers (0, 1, ... in order of sending) are lost by chance, doubled or
	 * reordered. 0: to the last. */
	uint64_t fault_first, fault_last;
	struct net_weather weather;
};

/* How a node takes what has arrived. */
struct net_host {
	struct net_line out, in;
	/* Of a switch that others hang on (net_node_up): what all its cables carry together. Zeros: no limit. */
	struct net_line hub_out, hub_in;
	uint32_t poll_ns;     /* from the first arrival to the poll, at random up to this */
	uint32_t inbox_bytes; /* its receive buffer */
	uint32_t gro;         /* parts per million: a packet joins the frame of the one before it */
};

enum net_fate {
	NET_SENT,    /* on its way */
	NET_DOUBLED, /* on its way twice */
	NET_LOST,
	NET_FULL,   /* the line out was down, or its queue full */
	NET_NOBODY, /* no node has this address */
	/* Of one that was sent: */
	NET_DROPPED, /* the line in was down, or its queue full */
	NET_REFUSED, /* arrived, but the receive buffer was full */
	NET_TAKEN,   /* handed to its node by recv */
	NET_FATES,
};

/* One packet at one moment, for whoever watches. */
struct net_sight {
	uint64_t now_ns;
	enum net_fate fate;
	uint32_t from, to; /* nodes; `to` is NET_NODES_MAX for NET_NOBODY */
	uint32_t bytes;
	const uint8_t *data;
};

struct net_stats {
	uint64_t fate[NET_FATES]; /* packets */
	uint64_t events;
};

static inline bool net_is_sending(enum net_fate fate)
{
	return fate < NET_DROPPED;
}

struct net;

struct net *net_open(const struct net_options *options); /* NULL: out of memory */
void net_close(struct net *net);

/* Adds a node; its number, 0, 1, 2, ... NET_NODES_MAX at most. */
uint32_t net_node_add(struct net *net, const struct net_host *host);
/* The node hangs on switch `up`: what goes between them passes the node's lines, and of the switch's only the
 * hub's. */
void net_node_up(struct net *net, uint32_t node, uint32_t up);
/* The node's link. It belongs to the net; its close does nothing. */
struct link *net_link(struct net *net, uint32_t node);
struct link_address net_address(const struct net *net, uint32_t node);
/* Moves the node behind another port, as a NAT does that forgot it. */
void net_readdress(struct net *net, uint32_t node, uint16_t port);
/* Another process runs there, with another port: what was on its way to the last one is lost. */
void net_reborn(struct net *net, uint32_t node);
/* Every packet is shown to `watch` as it is sent (with its fate) and as it is taken. */
void net_watch(struct net *net, void (*watch)(void *context, const struct net_sight *sight),
	       void *context);

uint64_t net_now(const struct net *net);
void net_weather(struct net *net, const struct net_weather *weather);
/* The node is to be polled at `when_ns`, unless something arrives earlier. NET_NEVER: only then. */
void net_poll_at(struct net *net, uint32_t node, uint64_t when_ns);
/* The node's clock goes `ahead_ns` forward, and from now on `ppm` parts per million faster than time does. */
void net_clock(struct net *net, uint32_t node, int32_t ppm, uint64_t ahead_ns);
/* As net_poll_at, when the node's clock shows `clock_ns`; if it does already, in a nanosecond. */
void net_poll_at_clock(struct net *net, uint32_t node, uint64_t clock_ns);
/* net_step returns NET_TIMER with `cookie` at `when_ns`. */
void net_timer(struct net *net, uint64_t when_ns, uint32_t cookie);
/* The node does nothing until then: its polls are late, its inbox may run over. */
void net_pause_node(struct net *net, uint32_t node, uint64_t until_ns);
/* The node's lines carry nothing until then: what enters them is late, or lost if is_down. */
void net_pause_lines(struct net *net, uint32_t node, uint64_t until_ns, bool is_down);

/* The network falls apart: what is sent from one side to another is lost, or only from a higher side to a
 * lower. All nodes are on side 0 at first. */
enum net_cut { NET_WHOLE, NET_CUT, NET_CUT_ONE_WAY };
void net_side(struct net *net, uint32_t node, uint32_t side);
void net_cut(struct net *net, enum net_cut cut);

enum net_event_type { NET_IDLE, NET_POLL, NET_TIMER };
struct net_event {
	enum net_event_type type;
	uint32_t node;   /* NET_POLL: something has arrived there, or its time has come */
	uint32_t cookie; /* NET_TIMER */
};

/* Moves the clock to the next event that its caller has to handle. NET_IDLE: there is none. */
struct net_event net_step(struct net *net);
/* Bytes that wait for the hub's line of a switch, on their way out of it or in. */
uint64_t net_hub_bytes(const struct net *net, uint32_t node, bool is_out);
const struct net_stats *net_stats(const struct net *net);

#endif
