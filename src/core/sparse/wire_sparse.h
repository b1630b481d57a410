/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_sparse.h - what a packet of sparse mode looks like: 40 bytes of header in network byte order,
 * then items, little-endian. docs/protocol.md, R-SP-1 to R-SP-4. `struct sparse` is the header in host
 * order; sparse_get and sparse_put are the only code that knows the byte layout, sparse_check the only
 * code that judges a datagram's shape.
 *
 * A datagram is one of sparse mode's if its first byte is SPARSE_FIRST_BYTE: to wire_check that is a
 * packet of a type that there is not.
 */
#ifndef CORE_WIRE_SPARSE_H
#define CORE_WIRE_SPARSE_H

#include "core/shared/wire.h"

enum {
	SPARSE_TYPE = 10, /* of enum wire_type's 16; free there */
	SPARSE_FIRST_BYTE = WIRE_VERSION << 4 | SPARSE_TYPE,
	SPARSE_HEADER_BYTES = 40,
	SPARSE_BYTES_MAX = 8192, /* of a datagram: fits a jumbo frame */
	SPARSE_BODY_MAX = SPARSE_BYTES_MAX - SPARSE_HEADER_BYTES,
	SPARSE_RANK_BYTES = 4,
	SPARSE_VALUE_BYTES = 4,
	SPARSE_SUM_BYTES = 8,
	SPARSE_NUMBER_BYTES = 8,
	SPARSE_DIM_MAX = 64,    /* values of a rank */
	SPARSE_WINDOW_MAX = 64, /* numbers of a row */
	SPARSE_WIDTH_MAX = 64,
	SPARSE_SERVER = 0xffff, /* in `worker` */
};
_Static_assert((int)SPARSE_TYPE >= (int)WIRE_TYPE_END, "a dense program drops it as TYPE");
_Static_assert((int)SPARSE_DIM_MAX <= (int)SPARSE_WIDTH_MAX &&
		       (int)SPARSE_WINDOW_MAX <= (int)SPARSE_WIDTH_MAX,
	       "a width is one or the other");

enum sparse_kind {
	SPARSE_PUSH = 1,
	SPARSE_ACK = 2,
	SPARSE_ASK = 3,   /* commit soon */
	SPARSE_FLIP = 4,  /* end just this epoch */
	SPARSE_CUT = 5,   /* the first parts of a flush: what it covers */
	SPARSE_FLUSH = 6, /* the others: what it adds */
	SPARSE_COMMITTED = 7,
	SPARSE_BCAST = 8, /* new values of hot ranks */
	SPARSE_SETUP = 9,
	SPARSE_READY = 10,
	SPARSE_RESUME = 11,
	SPARSE_RESUMED = 12,
	SPARSE_END = 13,         /* of a step */
	SPARSE_HAVE = 14,        /* these parts of a flush have come */
	SPARSE_FLUSH_SHORT = 15, /* FLUSH whose sums have 32 bits each */
	SPARSE_KIND_END
};

enum {
	SPARSE_SATURATED = 1, /* a value was too large, and is the largest instead */
	SPARSE_NONFINITE = 2, /* a value was an infinity or NaN, and is 0 instead */
	SPARSE_FLAGS = 3,
};

/* The header in host byte order. */
struct sparse {
	uint8_t kind;
	uint16_t table;
	uint16_t worker;
	uint16_t count; /* items in the body */
	uint64_t generation;
	uint64_t number; /* seq, epoch, instance or step */
	uint32_t map;
	uint32_t part;
	uint32_t parts;
	uint16_t width; /* of an item */
	uint16_t flags;
};

CORE_INLINE uint64_t sparse_get64(const uint8_t *at)
{
	return (uint64_t)wire_get32(at) << 32 | wire_get32(at + 4);
}

CORE_INLINE void sparse_put64(uint8_t *at, uint64_t value)
{
	wire_put32(at, (uint32_t)(value >> 32));
	wire_put32(at + 4, (uint32_t)value);
}

/* sparse_get reads SPARSE_HEADER_BYTES at `at`; the first byte is sparse_check's business. */
CORE_INLINE void sparse_get(const uint8_t *at, struct sparse *packet)
{
	packet->kind = at[1];
	packet->table = wire_get16(at + 2);
	packet->worker = wire_get16(at + 4);
	packet->count = wire_get16(at + 6);
	packet->generation = sparse_get64(at + 8);
	packet->number = sparse_get64(at + 16);
	packet->map = wire_get32(at + 24);
	packet->part = wire_get32(at + 28);
	packet->parts = wire_get32(at + 32);
	packet->width = wire_get16(at + 36);
	packet->flags = wire_get16(at + 38);
}

/* sparse_put writes SPARSE_HEADER_BYTES at `at`. */
CORE_INLINE void sparse_put(uint8_t *at, const struct sparse *packet)
{
	at[0] = SPARSE_FIRST_BYTE;
	at[1] = packet->kind;
	wire_put16(at + 2, packet->table);
	wire_put16(at + 4, packet->worker);
	wire_put16(at + 6, packet->count);
	sparse_put64(at + 8, packet->generation);
	sparse_put64(at + 16, packet->number);
	wire_put32(at + 24, packet->map);
	wire_put32(at + 28, packet->part);
	wire_put32(at + 32, packet->parts);
	wire_put16(at + 36, packet->width);
	wire_put16(at + 38, packet->flags);
}

/* ---- the body: any alignment, so byte by byte, which compilers know to be one load or store ---- */

CORE_INLINE uint32_t sparse_body_get32(const uint8_t *at)
{
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

CORE_INLINE uint64_t sparse_body_get64(const uint8_t *at)
{
	return (uint64_t)sparse_body_get32(at + 4) << 32 | sparse_body_get32(at);
}

CORE_INLINE void sparse_body_put32(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
	at[2] = (uint8_t)(value >> 16);
	at[3] = (uint8_t)(value >> 24);
}

CORE_INLINE void sparse_body_put64(uint8_t *at, uint64_t value)
{
	sparse_body_put32(at, (uint32_t)value);
	sparse_body_put32(at + 4, (uint32_t)(value >> 32));
}

CORE_INLINE uint32_t sparse_pair_bytes(uint32_t dim)
{
	return SPARSE_RANK_BYTES + dim * SPARSE_VALUE_BYTES;
}

CORE_INLINE uint32_t sparse_sum_bytes(uint32_t dim)
{
	return SPARSE_RANK_BYTES + dim * SPARSE_SUM_BYTES;
}

CORE_INLINE uint32_t sparse_row_bytes(uint32_t window)
{
	return window * SPARSE_NUMBER_BYTES;
}

/* Where the rows of a SETUP begin: behind the instance. */
CORE_INLINE uint32_t sparse_items_at(uint8_t kind)
{
	return SPARSE_HEADER_BYTES + (kind == SPARSE_SETUP ? SPARSE_NUMBER_BYTES : 0);
}

CORE_INLINE uint32_t sparse_item_bytes(uint8_t kind, uint32_t width)
{
	if (kind == SPARSE_PUSH || kind == SPARSE_BCAST || kind == SPARSE_FLUSH_SHORT)
		return sparse_pair_bytes(width);
	if (kind == SPARSE_FLUSH)
		return sparse_sum_bytes(width);
	return sparse_row_bytes(width);
}

CORE_INLINE uint32_t sparse_bytes(const struct sparse *packet)
{
	return sparse_items_at(packet->kind) +
	       packet->count * sparse_item_bytes(packet->kind, packet->width);
}

/* How many items of `item` bytes a datagram of `bytes` has room for. */
CORE_INLINE uint32_t sparse_items_of(uint8_t kind, uint32_t bytes, uint32_t item)
{
	return (bytes - sparse_items_at(kind)) / item;
}

/* Does it have sums, of either size? */
CORE_INLINE bool sparse_is_flush(uint8_t kind)
{
	return kind == SPARSE_FLUSH || kind == SPARSE_FLUSH_SHORT;
}

/* Does the kind come in parts? */
CORE_INLINE bool sparse_has_parts(uint8_t kind)
{
	return kind == SPARSE_CUT || sparse_is_flush(kind) || kind == SPARSE_BCAST ||
	       kind == SPARSE_SETUP || kind == SPARSE_HAVE;
}

/* R-SP-3: as many items of this width as the kind may have. */
CORE_INLINE bool sparse_is_shaped(const struct sparse *packet)
{
	bool has_width = packet->width > 0 && packet->width <= SPARSE_WIDTH_MAX;
	bool is_bare = !packet->count && !packet->width;

	if (sparse_has_parts(packet->kind) && packet->part >= packet->parts)
		return false;
	switch (packet->kind) {
	case SPARSE_PUSH:
	case SPARSE_FLUSH:
	case SPARSE_FLUSH_SHORT:
	case SPARSE_BCAST:
		return has_width;
	case SPARSE_CUT:
	case SPARSE_SETUP:
		return has_width && packet->count;
	case SPARSE_COMMITTED:
		return packet->worker == SPARSE_SERVER ? is_bare : has_width && packet->count == 1;
	case SPARSE_RESUME:
	case SPARSE_HAVE:
		return has_width && packet->count == 1;
	case SPARSE_END:
		return packet->width == 1 && packet->count == 1;
	default:
		return is_bare;
	}
}

/* Flags mean something in these kinds; elsewhere they are not looked at. */
CORE_INLINE bool sparse_has_flags(uint8_t kind)
{
	return kind == SPARSE_PUSH || kind == SPARSE_CUT || sparse_is_flush(kind);
}

/* R-SP-4. sparse_check judges the shape of a datagram of `bytes` bytes, of which at least
 * SPARSE_HEADER_BYTES can be read if there are as many, and fills in *packet. */
CORE_INLINE enum wire_fault sparse_check(const uint8_t *at, uint32_t bytes, struct sparse *packet)
{
	if (bytes < SPARSE_HEADER_BYTES)
		return WIRE_FAULT_SHORT;
	if (at[0] >> 4 != WIRE_VERSION)
		return WIRE_FAULT_VERSION;
	if ((at[0] & 0x0f) != SPARSE_TYPE)
		return WIRE_FAULT_TYPE;
	sparse_get(at, packet);
	if (packet->kind == 0 || packet->kind >= SPARSE_KIND_END)
		return WIRE_FAULT_TYPE;
	if (!sparse_is_shaped(packet))
		return WIRE_FAULT_LANES;
	if (bytes != sparse_bytes(packet) || bytes > SPARSE_BYTES_MAX)
		return WIRE_FAULT_LENGTH;
	if (sparse_has_flags(packet->kind) && (packet->flags & ~SPARSE_FLAGS))
		return WIRE_FAULT_FLAGS;
	return WIRE_OK;
}

/* Item i of a packet that sparse_check has passed. */
CORE_INLINE const uint8_t *sparse_item(const struct sparse *packet, const uint8_t *at, uint32_t i)
{
	return at + sparse_items_at(packet->kind) +
	       i * sparse_item_bytes(packet->kind, packet->width);
}

#endif
