/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_state.h - what endpoint.c (its life, its operations), endpoint_flow.c (its packets), endpoint_out.c (what it
 * sends), endpoint_path.c (its HELLOs) and endpoint_latency.c share; nobody else includes it. */
#ifndef DATAPLANE_ENDPOINT_STATE_H
#define DATAPLANE_ENDPOINT_STATE_H

#include "dataplane/endpoint.h"

enum {
	ENDPOINT_SEND_FRAMES = 32, /* frames handed to the link in one call */
	ENDPOINT_HEADERS = ENDPOINT_SEND_FRAMES * LINK_FRAME_PACKETS_MAX,
	ENDPOINT_SHORT_BYTES = ENDPOINT_HEADERS * WIRE_HEADER_BYTES + LINK_FRAME_BYTES_MAX,
	ENDPOINT_WELCOMES = 64,
	ENDPOINT_ELEMENTS_MAX =
		2 * WIRE_LANES_MAX, /* of 32 bits, in a packet: as halves (R-NUM-15) */
};

/* A queue of slots that are to be sent; holds each slot at most once. */
struct slot_queue {
	uint32_t *slots;
	uint32_t head, count;
};

/* R-WIRE-6: lanes of a shard that has them big-endian, from or for the wire. */
static inline int32_t *endpoint_lanes_swap(int32_t *to, const int32_t *from, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		to[i] = (int32_t)__builtin_bswap32((uint32_t)from[i]);
	return to;
}

struct shard_state {
	struct endpoint_shard grant;
	uint8_t *buffers;         /* slots packets, back to back: a run of slots is one message */
	uint8_t *queued;          /* per slot: in one of the queues */
	uint8_t *fresh;           /* per slot: built, not sent yet */
	struct slot_queue needs;  /* copies that were asked for */
	struct slot_queue rounds; /* continuations */
	uint32_t serial;          /* of the last HELLO */
	uint64_t hello_ns;
	/* The watch over the path (R-PACE-10). */
	uint64_t moved_ns;    /* the last packet of full size; or nothing was waiting */
	uint64_t watch_ns;    /* the last full HELLO */
	uint64_t full_ns;     /* the first of those without an answer; 0: none */
	uint64_t answered_ns; /* the first short WELCOME since then; 0: none */
	uint64_t short_ns;    /* the last WELCOME of any size */
	uint32_t watches;     /* full HELLOs without an answer */
};

struct endpoint {
	struct link *link;
	const struct quant_ops *quant;
	struct map map;
	struct worker worker;
	struct pace pace;
	struct pace *pace_used;           /* pace, or latency's */
	struct endpoint_latency *latency; /* NULL: dense mode */
	uint32_t latency_window;          /* P */
	const atomic_uint *contenders;
	struct shard_state *shards;
	struct endpoint_op *ops; /* worker's cookie is the index */
	struct lanes *numbers;   /* of each, how it travels */
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
	uint8_t *
		short_bytes; /* ENDPOINT_SHORT_BYTES of packets that do not fill a slot's buffer, side by side */
	uint32_t short_used;
	uint8_t *hello_bytes;
	int32_t *scratch; /* a chunk that straddles buffers: ENDPOINT_ELEMENTS_MAX */
	struct worker_op_state *op_states[MAP_STREAMS];
	struct past past;
	struct past_rows rows[MAP_STREAMS];
};

static inline uint8_t *endpoint_buffer(const struct endpoint *endpoint, uint32_t shard,
				       uint32_t slot)
{
	return endpoint->shards[shard].buffers + (size_t)slot * endpoint->packet_bytes;
}

/* Dense mode: how the operation travels whose cookie this is. */
static inline const struct lanes *endpoint_numbers(const struct endpoint *endpoint, uint64_t cookie)
{
	return &endpoint->numbers[cookie];
}

/* endpoint.c: what is waited for, if nothing is left to do. */
enum link_load endpoint_load(const struct endpoint *endpoint);

/* endpoint_out.c: what goes out. What is emitted stays as it is until it has been sent. */
/* False: the link has no room for all of it. Then nothing more is made until it has. */
bool endpoint_flush(struct endpoint *endpoint);

/* For one more packet, with or without lanes; if there is none, what waits is sent. Asked for each packet: inline. */
static inline bool endpoint_has_room(struct endpoint *endpoint)
{
	return (endpoint->out_count < ENDPOINT_SEND_FRAMES &&
		endpoint->short_used <= ENDPOINT_SHORT_BYTES - WIRE_HEADER_BYTES) ||
	       endpoint_flush(endpoint);
}

void endpoint_emit(struct endpoint *endpoint, uint32_t shard, uint8_t *data, uint32_t bytes);
void endpoint_emit_slot(struct endpoint *endpoint, uint32_t shard, uint32_t slot);
uint32_t endpoint_header_rooms(struct endpoint *endpoint);
uint8_t *endpoint_header_room(struct endpoint *endpoint);
/* A packet of the operation has been built: the first is told of. */
void endpoint_op_begun(const struct endpoint *endpoint, const struct endpoint_op *op);
/* endpoint_done will tell of the operation. */
void endpoint_op_finish(struct endpoint *endpoint, uint64_t index);

/* endpoint_path.c, beside what endpoint.h names. A packet of full size has come, or nothing waits for one: */
void endpoint_path_moved(struct endpoint *endpoint, uint32_t shard);
void endpoint_path_welcome(struct endpoint *endpoint, uint32_t shard, const struct wire *packet,
			   const uint8_t *body);
/* Those that are due. */
void endpoint_path_hellos(struct endpoint *endpoint);

/* endpoint_latency.c */
bool endpoint_latency_open(struct endpoint *endpoint);
void endpoint_latency_start(struct endpoint *endpoint);
void endpoint_latency_close(struct endpoint *endpoint);
bool endpoint_latency_has_room(const struct endpoint *endpoint);
void endpoint_latency_submit(struct endpoint *endpoint, uint32_t index);
void endpoint_latency_rounds_begin(struct endpoint *endpoint, uint32_t seq);
void endpoint_latency_take(struct endpoint *endpoint, const struct wire *packet,
			   const int32_t *lane);
bool endpoint_latency_send(struct endpoint *endpoint);
bool endpoint_latency_begin(struct endpoint *endpoint); /* what may begin, and no more */
uint64_t endpoint_latency_next(const struct endpoint *endpoint);

#endif
