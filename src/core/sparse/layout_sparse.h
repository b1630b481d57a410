/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout_sparse.h - where a chip keeps hot ranks, and which packets the pairs of a push go into
 * (docs/layout.md). A chip's memory is `registers` arrays; while a packet passes, each can be touched once. So
 * of two pairs of one register in a packet the second has to wait until the packet comes by again: it is
 * recirculated. A worker that knows the registers can see to it that no packet is.
 *
 * Pure; the caller lends all memory. `reg` has the register of each pair, below `registers`; `room` is how
 * many pairs a packet takes, 1 or more.
 */
#ifndef CORE_LAYOUT_SPARSE_H
#define CORE_LAYOUT_SPARSE_H

#include "core/sparse/wire_sparse.h"

enum {
	LAYOUT_BYTES = 192, /* of a datagram: the paper's chip parses no more */
	LAYOUT_REGISTERS_MAX = 1024,
};

/* A rank's place: the hottest ranks, which a packet has most often, are in different registers. */
CORE_INLINE uint32_t layout_sparse_register(uint32_t rank, uint32_t registers)
{
	return rank % registers;
}

/* How many pairs of `width` values a datagram of so many bytes takes. */
CORE_INLINE uint32_t layout_sparse_room(uint32_t bytes, uint32_t width)
{
	uint32_t pair = SPARSE_RANK_BYTES + 4 * width;

	return bytes < SPARSE_HEADER_BYTES ? 0 : (bytes - SPARSE_HEADER_BYTES) / pair;
}

/* Which pair goes where. */
struct layout_sparse_packing {
	uint32_t *order;  /* indices of pairs, those of packet 0 first; memory for all */
	uint32_t *first;  /* where each packet begins in order; memory for one more than pairs */
	uint32_t packets; /* first[packets] is the number of pairs */
};

/* How many uint32_t of scratch memory packing `count` pairs takes, in whichever way. */
size_t layout_sparse_scratch(uint32_t count, uint32_t registers, uint32_t room);

/* In the order in which they come, as many as fit. */
void layout_sparse_fill(struct layout_sparse_packing *packing, uint32_t count, uint32_t room);

/* Libra's Algorithm 1: as few packets as hold them all; each pair goes into the first that has room and no
 * pair of its register. Those for which there is none fill further packets, in the order in which they come,
 * whatever their registers. */
void layout_sparse_orchestrate(struct layout_sparse_packing *packing, const uint32_t *reg,
			       uint32_t count, uint32_t registers, uint32_t room,
			       uint32_t *scratch);

/* Dealing: sorted by register, then dealt out, one to each packet in turn, to max(ceil(count / room), pairs of
 * the register that has most) packets. No packet has two of a register, and with fewer packets one had. */
void layout_sparse_deal(struct layout_sparse_packing *packing, const uint32_t *reg, uint32_t count,
			uint32_t registers, uint32_t room, uint32_t *scratch);

/* What a packet costs a chip. */
struct layout_sparse_cost {
	uint32_t
		further; /* pairs of a register that an earlier pair has touched: a recirculation each, as
			   * the paper counts, if a recirculation makes up for one pair */
	uint32_t
		passes; /* how often it passes if each time every register takes a pair; 1 or more */
};

/* Packet number `packet`; scratch: a uint32_t per register. */
struct layout_sparse_cost layout_sparse_cost(const struct layout_sparse_packing *packing,
					     uint32_t packet, const uint32_t *reg,
					     uint32_t registers, uint32_t *scratch);

/* The same of a PUSH that sparse_check has passed, by its header and its datagram. */
struct layout_sparse_cost layout_sparse_push_cost(const struct sparse *push, const uint8_t *at,
						  uint32_t registers, uint32_t *scratch);

#endif
