/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what a data packet looks like: 24 bytes of header in network byte order, then int32
 * lanes, little-endian. docs/protocol.md, R-WIRE-1 to R-WIRE-10. `struct wire` is the header in
 * host order; wire_get and wire_put are the only code that knows the byte layout, wire_check the
 * only code that judges a datagram's shape.
 */
#ifndef CORE_WIRE_H
#define CORE_WIRE_H

#include "core/shared/env.h"

enum {
	WIRE_VERSION = 1,
	WIRE_HEADER_BYTES = 24,
	WIRE_LANES_AT = 18, /* where the header says how many lanes follow */
	WIRE_LANE_BYTES = 4,
	WIRE_LANES_STEP = 4,    /* lanes are a multiple of this, the rest is padding of zeros */
	WIRE_LANES_MAX = 16368, /* the largest UDP datagram holds 65,507 bytes */
	WIRE_HELLO_LANES = 8,   /* the shortest HELLO: nonce[16], and room for WELCOME's answer */
	WIRE_NONCE_BYTES = 16,
	WIRE_IPV4_BYTES = 20, /* without options */
	WIRE_IPV6_BYTES = 40, /* without extensions */
	WIRE_UDP_BYTES = 8,
};
_Static_assert(WIRE_HEADER_BYTES + WIRE_LANES_MAX * WIRE_LANE_BYTES <= 65507, "one datagram");
_Static_assert(WIRE_LANES_MAX % WIRE_LANES_STEP == 0, "a multiple of the step");

/* R-WIRE-3 */
enum wire_type {
	WIRE_UPDATE = 1, /* a child's lanes for (slot, seq) */
	WIRE_PROBE = 2,  /* "what has become of my UPDATE?"; tag is the attempt number */
	WIRE_RESULT = 3, /* the combination over all children */
	WIRE_HELD = 4,   /* "I hold yours, others are missing"; echoes the attempt number */
	WIRE_ACK = 5,    /* latency mode */
	WIRE_CONFIRM = 6,
	WIRE_NEED = 7,  /* "I do not have it: send it again"; echoes the attempt number */
	WIRE_HELLO = 8, /* binds a child to its address; seq is the serial, lanes 0..3 the nonce */
	WIRE_WELCOME = 9, /* the same size; seq echoes the serial; address and port seen */
	WIRE_TYPE_END
};

/* R-WIRE-5: in bits 0-1 of the flags, and in bits 2-3. */
enum wire_round { WIRE_DATA = 0, WIRE_EXPONENT = 1, WIRE_DETAIL = 2, WIRE_GUESS = 3 };
enum wire_op { WIRE_ADD = 0, WIRE_ADD_SHORT = 1, WIRE_MAX = 2, WIRE_TAKE = 3, WIRE_OP_END };

enum {
	WIRE_ROUND_MASK = 0x03,
	WIRE_OP_SHIFT = 2,
	WIRE_OP_MASK = 0x0c,
	WIRE_KIND_MASK = 0x0f, /* bits 0-3: must be equal in all UPDATEs of a round */
	WIRE_BARE = 0x10,      /* UPDATE, PROBE: a RESULT without lanes is enough for this child */
	WIRE_NONFINITE = 0x20, /* sticky: a lane stands for an Inf or NaN */
	WIRE_RANGE = 0x40,     /* sticky: the int32 sum may have wrapped */
	WIRE_STICKY_MASK = 0x60,
	WIRE_RESENT = 0x80, /* on every copy but the first; in a NEED: HINT (nobody asked) */
	WIRE_HINT = 0x80,
};

/* R-WIRE-10, R-WIRE-2 */
enum {
	WIRE_EXPONENT_UNKNOWN = 0xffff, /* the slot's next chunk has not been submitted */
	WIRE_NEXT_UNKNOWN = 0xff,       /* the same in a GUESS round, whose field has two bytes */
	WIRE_CHILD_OTHER = 0xffff,      /* RESULT: the last contributor was in another subtree */
};

/* The header in host byte order. */
struct wire {
	uint8_t type;
	uint8_t flags;
	uint16_t job;
	uint32_t generation;
	uint32_t seq;
	uint16_t slot;
	uint16_t child;
	uint16_t exponent;
	uint16_t lanes;
	uint32_t tag;
};

CORE_INLINE uint8_t wire_round_of(uint8_t flags)
{
	return flags & WIRE_ROUND_MASK;
}

CORE_INLINE uint8_t wire_op_of(uint8_t flags)
{
	return (uint8_t)((flags & WIRE_OP_MASK) >> WIRE_OP_SHIFT);
}

/* R-WIRE-10: of a GUESS round, this chunk's exponent and that of the slot's next one. */
CORE_INLINE uint16_t wire_guess_field(uint32_t own, uint32_t next)
{
	return (uint16_t)(own << 8 | next);
}

CORE_INLINE uint16_t wire_guess_own(uint16_t field)
{
	return (uint16_t)(field >> 8);
}

CORE_INLINE uint16_t wire_guess_next(uint16_t field)
{
	return field & 0xff;
}

/* R-WIRE-1: of version 1, whose trailer has none. */
CORE_INLINE uint32_t wire_bytes(uint32_t lanes)
{
	return WIRE_HEADER_BYTES + lanes * WIRE_LANE_BYTES;
}

/* What IP and UDP put before a packet: with these bytes, its header and its lanes fill the MTU. */
CORE_INLINE uint32_t wire_overhead(bool is_v6)
{
	return (is_v6 ? WIRE_IPV6_BYTES : WIRE_IPV4_BYTES) + WIRE_UDP_BYTES;
}

CORE_INLINE uint16_t wire_get16(const uint8_t *at)
{
	return (uint16_t)((uint32_t)at[0] << 8 | at[1]);
}

CORE_INLINE uint32_t wire_get32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

CORE_INLINE void wire_put16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

CORE_INLINE void wire_put32(uint8_t *at, uint32_t value)
{
	wire_put16(at, (uint16_t)(value >> 16));
	wire_put16(at + 2, (uint16_t)value);
}

/* R-WIRE-2. wire_get reads WIRE_HEADER_BYTES at `at`; the version is wire_check's business. */
CORE_INLINE void wire_get(const uint8_t *at, struct wire *packet)
{
	packet->type = at[0] & 0x0f;
	packet->flags = at[1];
	packet->job = wire_get16(at + 2);
	packet->generation = wire_get32(at + 4);
	packet->seq = wire_get32(at + 8);
	packet->slot = wire_get16(at + 12);
	packet->child = wire_get16(at + 14);
	packet->exponent = wire_get16(at + 16);
	packet->lanes = wire_get16(at + WIRE_LANES_AT);
	packet->tag = wire_get32(at + 20);
}

/* wire_put writes WIRE_HEADER_BYTES at `at`. */
CORE_INLINE void wire_put(uint8_t *at, const struct wire *packet)
{
	at[0] = (uint8_t)(WIRE_VERSION << 4 | packet->type);
	at[1] = packet->flags;
	wire_put16(at + 2, packet->job);
	wire_put32(at + 4, packet->generation);
	wire_put32(at + 8, packet->seq);
	wire_put16(at + 12, packet->slot);
	wire_put16(at + 14, packet->child);
	wire_put16(at + 16, packet->exponent);
	wire_put16(at + WIRE_LANES_AT, packet->lanes);
	wire_put32(at + 20, packet->tag);
}

/* Why a datagram is not a packet, in the order of the checks; also the counters' index. */
enum wire_fault {
	WIRE_OK,
	WIRE_FAULT_SHORT,   /* fewer bytes than a header */
	WIRE_FAULT_VERSION, /* another protocol version */
	WIRE_FAULT_TYPE,    /* no such type, or not one that this side takes */
	WIRE_FAULT_LANES,   /* not a multiple of 4, or more or fewer than this type may carry */
	WIRE_FAULT_LENGTH,  /* bytes and lanes disagree */
	WIRE_FAULT_FLAGS,   /* BARE where it means nothing */
	WIRE_FAULT_COUNT
};

/* How many lanes a packet of this type may carry (R-WIRE-4). */
CORE_INLINE uint32_t wire_lanes_allowed(const struct wire *packet)
{
	switch (packet->type) {
	case WIRE_UPDATE:
	case WIRE_RESULT:
		return wire_round_of(packet->flags) == WIRE_EXPONENT ? 0 : WIRE_LANES_MAX;
	case WIRE_HELLO:
	case WIRE_WELCOME:
		return WIRE_LANES_MAX;
	default:
		return 0;
	}
}

/* A HELLO without room for its nonce would be read beyond its end. */
CORE_INLINE uint32_t wire_lanes_needed(const struct wire *packet)
{
	return packet->type == WIRE_HELLO || packet->type == WIRE_WELCOME ? WIRE_HELLO_LANES : 0;
}

/* R-WIRE-7. wire_check judges the shape of a datagram of `bytes` bytes, of which at least
 * WIRE_HEADER_BYTES can be read if there are as many, and fills in *packet. Whom it is for is
 * the switch's business. */
CORE_INLINE enum wire_fault wire_check(const uint8_t *at, uint32_t bytes, struct wire *packet)
{
	if (bytes < WIRE_HEADER_BYTES)
		return WIRE_FAULT_SHORT;
	if (at[0] >> 4 != WIRE_VERSION)
		return WIRE_FAULT_VERSION;
	wire_get(at, packet);
	if (packet->type == 0 || packet->type >= WIRE_TYPE_END)
		return WIRE_FAULT_TYPE;
	if (packet->lanes % WIRE_LANES_STEP || packet->lanes > wire_lanes_allowed(packet) ||
	    packet->lanes < wire_lanes_needed(packet))
		return WIRE_FAULT_LANES;
	if (bytes != wire_bytes(packet->lanes))
		return WIRE_FAULT_LENGTH;
	if (packet->type == WIRE_RESULT && packet->flags & WIRE_BARE)
		return WIRE_FAULT_FLAGS;
	return WIRE_OK;
}

#endif
