/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_fuzz.h - for fuzz targets: a link that hands over one frame at a time, whose bytes end where a block of
 * the heap ends, so that a sanitizer sees every byte beyond.
 */
#ifndef DATAPLANE_LINK_FUZZ_H
#define DATAPLANE_LINK_FUZZ_H

#include "core/shared/wire_fuzz.h"
#include "dataplane/link.h"

struct fuzz_link {
	struct link link;
	struct link_frame frame;
	bool has_frame;
	uint64_t now_ns;
	uint8_t *block;
	uint32_t block_bytes;
};

static inline void fuzz_link_open(struct fuzz_link *at, const struct link_ops *ops, uint32_t bytes)
{
	at->link.ops = ops;
	at->has_frame = false;
	at->block_bytes = bytes;
	if (!at->block)
		at->block = malloc(bytes);
	FUZZ_CHECK(at->block);
}

static inline int fuzz_link_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	struct fuzz_link *at = (struct fuzz_link *)(void *)link;

	FUZZ_CHECK(max >= 1);
	if (!at->has_frame)
		return 0;
	frames[0] = at->frame;
	at->has_frame = false;
	return 1;
}

static inline uint64_t fuzz_link_now(struct link *link)
{
	return ((struct fuzz_link *)(void *)link)->now_ns;
}

/* Where so many bytes lie, 4-byte aligned: up to 3 bytes before the block's end. */
static inline uint8_t *fuzz_link_room(const struct fuzz_link *at, uint32_t bytes)
{
	FUZZ_CHECK(bytes <= at->block_bytes);
	return at->block + (at->block_bytes - bytes) / WIRE_LANE_BYTES * WIRE_LANE_BYTES;
}

/* One datagram comes next. */
static inline void fuzz_link_give(struct fuzz_link *at, struct link_address from, uint8_t *data,
				  uint32_t bytes)
{
	at->frame = (struct link_frame){ .peer = from,
					 .packet_bytes = bytes ? bytes : 1,
					 .count = 1,
					 .bytes = bytes,
					 .data = data };
	at->has_frame = true;
}

/* Any bytes. */
static inline uint32_t fuzz_datagram_raw(struct fuzz_link *link, struct fuzz_input *input,
					 uint8_t **at)
{
	uint32_t bytes = fuzz_u8(input) % (link->block_bytes + 1);

	*at = fuzz_link_room(link, bytes);
	memset(*at, 0, bytes);
	(void)fuzz_bytes(input, *at, bytes);
	return bytes;
}

/* A vector of just its size. */
static inline void *fuzz_just(uint64_t bytes)
{
	void *block = malloc(bytes ? bytes : 1);

	FUZZ_CHECK(block);
	return block;
}

#endif
