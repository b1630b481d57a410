/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h - where a chunk lives, and what it is called. Pure functions of the grants and of the history
 * of operations: equal on all ranks without a word between them. docs/protocol.md, R-MAP-1 to R-MAP-8.
 *
 * A communicator has two streams, so that nothing small waits for something large. The chunk counter c
 * of a stream (64 bit) runs on over operations. A *pair* is one (shard, stream); inside it chunks are
 * numbered k = 0, 1, 2, ... and use slot base + k mod pool.
 */
#ifndef CORE_MAP_H
#define CORE_MAP_H

#include "core/shared/env.h"

enum map_stream { MAP_EXPRESS, MAP_BULK, MAP_STREAMS };

enum {
	MAP_EXPRESS_CHUNKS = 64,   /* an operation of at most so many chunks is express */
	MAP_EXPRESS_SLOTS_MIN = 4, /* express has 1/8 of the slots, at least these */
	MAP_SHARDS_MAX = 64,
	MAP_RUN_MAX = 64, /* chunks in one message: what UDP_SEGMENT takes */
	MAP_SLOTS_MAX = 32768,
};

struct map {
	uint32_t shards;
	uint32_t base[MAP_STREAMS]; /* first slot */
	uint32_t pool[MAP_STREAMS]; /* slots, a multiple of run */
	uint32_t run[MAP_STREAMS];  /* consecutive chunks that stay together; express 1 */
};

struct map_place {
	uint32_t shard;
	uint32_t slot;
	uint64_t k; /* the chunk's number inside its pair */
};

/* map_init divides `slots` (of each shard) between the streams. False if they cannot be: shards not in
 * 1..MAP_SHARDS_MAX, run not in 1..MAP_RUN_MAX, fewer slots than 4 express and one bulk run, or more
 * than MAP_SLOTS_MAX. Express gets slots / 8, at least 4, but leaves bulk one run; bulk gets the
 * largest multiple of run that is left. */
bool map_init(struct map *map, uint32_t shards, uint32_t slots, uint32_t run);

/* g = c / run; shard = g mod S; k = (g / S) * run + c mod run; slot = base + k mod pool (R-MAP-3). */
void map_place(const struct map *map, enum map_stream stream, uint64_t chunk,
	       struct map_place *place);

/* The inverse: the stream's chunk counter of pair (shard, stream)'s chunk k. */
uint64_t map_chunk(const struct map *map, enum map_stream stream, uint32_t shard, uint64_t k);

/* So many elements lie in so many lanes: 1 in 1 for 32 bits, 2 in 1 for two halves, 1 in 3 for what is wide. */
struct map_shape {
	uint8_t elements, lanes; /* one of them is 1; neither is 0 */
};

/* The elements of a full chunk, in a packet of `lanes` lanes; 0 if not even one fits (R-MAP-5). */
uint32_t map_full(struct map_shape shape, uint32_t lanes);

/* The lanes that so many elements fill. */
uint32_t map_lanes(struct map_shape shape, uint32_t elements);

/* The chunks of an operation of `count` elements, `full` in each; one (of none) if count is 0 (R-MAP-5). */
uint64_t map_chunks(uint64_t count, uint32_t full);

/* The elements of chunk `index` of such an operation: full, or what is left for the last. */
uint32_t map_chunk_elements(uint64_t count, uint32_t full, uint64_t index);

/* An operation of several parts takes them in turn, `run` chunks of each, so that all who have one send at the same
 * time. The place of the elements of chunk `index` among its `chunks` full ones (R-MAP-8). */
uint64_t map_turn(uint64_t index, uint64_t chunks, uint32_t parts, uint32_t run);

/* What an operation is: hashed into every packet's tag, so that ranks that call differently meet as a
 * MISMATCH. Numbers are libtally's public ones. */
struct map_descriptor {
	uint64_t number; /* 0, 1, 2, ... inside the communicator, in the order of the calls */
	uint32_t kind;   /* allreduce, barrier, ... */
	uint32_t type;   /* with its form and exponent (R-NUM-15, R-NUM-16) */
	uint32_t op;     /* as the caller said it: avg is not sum */
	uint32_t root;   /* an allreduce of several buffers: a hash of their counts, never 0 */
	uint64_t count;
	const char *name; /* not NULL; "" if it has none */
};

/* FNV-1a-64 over {number, kind, type, op, count, root: little-endian, 8 4 4 4 8 4 bytes; the name's
 * bytes} (R-MAP-6). */
uint64_t map_descriptor_hash(const struct map_descriptor *descriptor);

/* The tag of the operation's chunk `index`: the high half of splitmix64(hash + index). */
uint32_t map_tag(uint64_t hash, uint64_t index);

#endif
