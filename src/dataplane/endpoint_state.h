/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_state.h - what endpoint.c (its life, its operations) and endpoint_flow.c (its packets) share;
 * nobody else includes it. */
#ifndef DATAPLANE_ENDPOINT_STATE_H
#define DATAPLANE_ENDPOINT_STATE_H

#include "dataplane/endpoint.h"

enum {
	ENDPOINT_SEND_FRAMES = 32, /* frames handed to the link in one call */
	ENDPOINT_HEADERS = ENDPOINT_SEND_FRAMES * LINK_FRAME_PACKETS_MAX,
	ENDPOINT_WELCOMES = 64,
};

/* A queue of slots that are to be sent; holds each slot at most once. */
struct slot_queue {
	uint32_t *slots;
	uint32_t head, count;
};

struct shard_state {
	struct endpoint_shard grant;
	uint8_t *buffers;         /* slots packets, back to back: a run of slots is one message */
	uint8_t *queued;          /* per slot: in one of the queues */
	uint8_t *fresh;           /* per slot: built, not sent yet */
	struct slot_queue needs;  /* copies that were asked for */
	struct slot_queue rounds; /* continuations */
	uint32_t serial;          /* of the last HELLO */
	uint64_t hello_ns;
};

struct endpoint {
	struct link *link;
	const struct quant_ops *quant;
	struct map map;
	struct worker worker;
	struct pace pace;
	struct shard_state *shards;
	struct endpoint_op *ops; /* worker's cookie is the index */
	uint32_t ops_count, ops_max;
	uint32_t *ops_free;
	uint32_t ops_free_count;
	uint32_t workers, slots, run, window, lanes, packet_bytes;
	uint32_t *done; /* ring of operations that nobody has fetched yet; ops_count of them fit */
	uint32_t done_head, done_count;
	struct endpoint_welcome welcomes[ENDPOINT_WELCOMES];
	uint32_t welcomes_count;
	enum endpoint_fault fault;
	uint64_t progress_ns, now_ns;
	struct endpoint_stats stats;
	struct link_frame out[ENDPOINT_SEND_FRAMES];
	uint32_t out_count;
	uint8_t *header_bytes; /* packets without lanes: ENDPOINT_SEND_FRAMES * 64 headers */
	uint32_t header_used;
	uint8_t *hello_bytes;
	int32_t *scratch; /* a chunk that straddles buffers: WIRE_LANES_MAX elements */
	struct worker_op_state *op_states[MAP_STREAMS];
};

#endif
