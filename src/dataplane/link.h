/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - what moves packets: sockets, the simulator, later AF_XDP and DPDK. A link moves bursts of
 * frames and owns the clock. One thread uses a link at a time; only `wake` may come from any thread.
 */
#ifndef DATAPLANE_LINK_H
#define DATAPLANE_LINK_H

#include <stdbool.h>
#include <stdint.h>

/* An IPv6 address (IPv4 as ::ffff:a.b.c.d) in network byte order, and a port in host byte order. `via` is
 * no part of who the peer is: of what was received, it is that one of our addresses which the peer has
 * reached, and what is sent leaves from it; all zero where that is no question. */
struct link_address {
	uint8_t ip[16];
	uint16_t port;
	uint8_t via[16];
};

enum {
	LINK_FRAME_PACKETS_MAX = 64,  /* what UDP_SEGMENT takes */
	LINK_FRAME_BYTES_MAX = 65507, /* one UDP datagram, before it is cut into packets */
	LINK_RECV_FRAMES = 32, /* a recv with this room leaves nothing of what a wait has taken */
};

/* `count` packets back to back at `data`, each of packet_bytes bytes; the last may be shorter:
 * bytes <= count * packet_bytes, bytes > (count - 1) * packet_bytes. `data` is 4-byte aligned. What is
 * received may be of any size, one packet of 0 bytes included. */
struct link_frame {
	struct link_address peer; /* where it came from, or goes to */
	uint32_t packet_bytes;
	uint32_t count;
	uint32_t bytes;
	uint8_t *data;
};

/* The bytes of the packet that begins `at` bytes behind `data`. */
static inline uint32_t link_packet_bytes(const struct link_frame *frame, uint32_t at)
{
	uint32_t left = frame->bytes - at;

	return left < frame->packet_bytes ? left : frame->packet_bytes;
}

enum link_wait { LINK_TIME, LINK_READABLE, LINK_WOKEN };

struct link_stats {
	uint64_t packets_in, packets_out, bytes_in, bytes_out, calls_in, calls_out;
	uint64_t send_errors; /* packets that the kernel refused: as good as lost on the way */
	uint64_t fallbacks;   /* offloads given up because the device cannot do them */
};

struct link;

struct link_ops {
	/* Up to `max` frames that have arrived, without waiting; 0 if none, a negative errno if the link
	 * is broken. The frames are lent, writable, until the next recv, wait or close. */
	int (*recv)(struct link *link, struct link_frame *frames, uint32_t max);
	/* Takes all frames (it may wait for room, at most a second without progress, and after that drops,
	 * as a network may). The data are the caller's again on return. Frames longer than
	 * LINK_FRAME_BYTES_MAX are a bug of the caller. 0 or a negative errno if the link is broken
	 * (-EMSGSIZE: a packet is larger than the path takes). */
	int (*send)(struct link *link, const struct link_frame *frames, uint32_t count);
	/* The same for a caller that must not wait: takes what there is room for, the first *taken frames.
	 * When the others are offered again, the first of them must be unchanged: part of it may have gone.
	 * What has found no room for a second is taken and dropped. NULL: send never waits. */
	int (*offer)(struct link *link, const struct link_frame *frames, uint32_t count,
		     uint32_t *taken);
	/* Waits until something can be received, or sent after an offer that was not taken, wake was called, or
	 * the clock shows until_ns (0: returns at once). A bounded poll that yields, then blocks. A recv that has
	 * just found nothing is its first look. */
	enum link_wait (*wait)(struct link *link, uint64_t until_ns);
	/* Makes the current or the next wait return LINK_WOKEN. From any thread. */
	void (*wake)(struct link *link);
	uint64_t (*now_ns)(struct link *link); /* monotonic */
	void (*close)(struct link *link);
};

/* What its user waits for. LITTLE: to be seen as soon as it comes. MUCH: others may have the processor until it comes.
 * GUESS: as what has come lately. */
enum link_load { LINK_GUESS, LINK_LITTLE, LINK_MUCH, LINK_LOADS };

/* Every link begins with this. */
struct link {
	const struct link_ops *ops;
	enum link_load load; /* its user's, for the next wait; LINK_GUESS at first */
	struct link_address local;
	struct link_address too_large; /* whom the packet was for, after an -EMSGSIZE */
	struct link_stats stats;
};

static inline bool link_address_equal(const struct link_address *a, const struct link_address *b)
{
	return a->port == b->port && !__builtin_memcmp(a->ip, b->ip, sizeof(a->ip));
}

#endif
