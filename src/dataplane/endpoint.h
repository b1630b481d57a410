/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.h - a worker's end of the data plane: core/worker and core/pace run over a link. libtally
 * drives one per communicator, the simulator one per worker; whoever drives it holds it alone. It never
 * waits: poll, then wait on the link until endpoint_next.
 */
#ifndef DATAPLANE_ENDPOINT_H
#define DATAPLANE_ENDPOINT_H

#include <stdatomic.h>

#include "core/dense/pace.h"
#include "core/dense/worker.h"
#include "core/latency/worker_latency.h"
#include "core/shared/lanes.h"
#include "dataplane/link.h"
#include "dataplane/segments.h"

struct endpoint;

#define ENDPOINT_PATH_NS \
	5000000000ull /* full HELLOs without an answer: the path does not carry us */

struct endpoint_shard {
	struct link_address address;
	uint32_t generation;
	uint16_t job;
	uint16_t child;
	bool is_big_endian; /* its lanes, R-WIRE-6 */
	uint8_t nonce[WIRE_NONCE_BYTES];
};

struct endpoint_options {
	struct link *link; /* borrowed */
	const struct quant_ops *quant;
	const struct endpoint_shard *shards; /* copied */
	uint32_t shards_count;
	uint32_t workers; /* N: all workers of the communicator, 1..65535 */
	uint32_t slots;   /* per shard */
	uint32_t run;
	uint32_t window;      /* of each bulk pair, 1..slots */
	bool is_window_fixed; /* else a bulk pair's follows the queue, up to `window` (R-WIN) */
	uint32_t ops_max;     /* per stream; 0: 1024; a power of two */
	/* Not 0: latency mode, P; `slots` is S, 1..65536. One shard; of P operations `window` may be on their way
	 * at once. Operations are int32, of at most `lanes` elements. */
	uint32_t latency_window;
	/* NULL, or lent: how many threads wait for their turn with the endpoint. A poll goes on to begin bulk
	 * messages only while there are none. */
	const atomic_uint *contenders;
};

struct endpoint_op {
	struct map_descriptor descriptor; /* hashed here */
	const void *source; /* lent until the operation is done; may equal destination */
	void *destination;
	/* Instead of these two: the vector lies in several buffers; in its order, without gaps. Lent. */
	const struct endpoint_segment *segments;
	uint32_t segments_count; /* 0: source and destination */
	uint64_t count;
	/* R-WK-13, R-MAP-8: as in worker_op, lent. `ends` is of LANES_COPY alone. */
	const uint64_t *ends;
	uint32_t parts, mine;
	/* R-WK-15: of each element, one rank alone has a destination, and there are several ranks. */
	bool is_for_one;
	enum lanes_type type;
	enum lanes_op op;
	enum lanes_form form;
	uint32_t exponent; /* of LANES_FIXED */
	int stream;        /* enum map_stream, or -1: by its size */
	uint64_t cookie;   /* handed back */
	/* Latency mode: becomes true if some rank's element was too large for the sum. Then nothing is stored, on
	 * any rank. May be NULL. */
	bool *is_out_of_range;
	uint64_t *first_ns; /* NULL, or lent: when its first packet was built */
	/* NULL, or lent, of sums of float32: becomes what the lanes do not say of each element; of Inf and NaN 0. */
	float *rest;
	const struct past_place *place; /* what endpoint_place found; NULL: it is called now */
};

enum endpoint_fault {
	ENDPOINT_OK,
	ENDPOINT_PROTOCOL_ERROR,
	ENDPOINT_LINK_ERROR,
	ENDPOINT_TOO_LARGE, /* the kernel knows that the path takes no packets of this size any more */
};

/* A path that stands still is watched: full HELLOs and short ones go out, beside all else. */
struct endpoint_path {
	uint32_t shard;
	uint64_t since_ns;   /* the first full HELLO of those that got no answer */
	bool is_short_heard; /* short ones did: not the path, but its MTU */
};

/* Why a packet that has come is not ours. */
enum endpoint_stray {
	ENDPOINT_STRAY_ADDRESS,    /* of our job and generation, but not from its shard's address */
	ENDPOINT_STRAY_GENERATION, /* of another job, or of another life of this one */
	ENDPOINT_STRAY_SHAPE,      /* no packet of tally's, or none that workers get */
	ENDPOINT_STRAYS,
};

struct endpoint_stats {
	uint64_t updates_out; /* first copies */
	uint64_t updates_resent;
	uint64_t results_in;      /* accepted */
	uint64_t results_ignored; /* further copies, other rounds */
	uint64_t probes_out, held_in, need_in;
	uint64_t exponent_rounds, guess_rounds, guesses_again, detail_rounds;
	uint64_t chunks_express, chunks_bulk;
	uint64_t saturated;           /* int32 elements */
	uint64_t bytes_out, bytes_in; /* UDP payload */
	uint64_t bad_in;              /* not a packet, or from a stranger: all of these */
	uint64_t stray_in[ENDPOINT_STRAYS];
	struct link_address stray_from[ENDPOINT_STRAYS]; /* the last of each */
	uint64_t srtt_ns;                                /* of shard 0 */
	uint32_t window;                                 /* of shard 0's bulk pair */
	uint64_t window_yields, window_losses,
		window_presses; /* of all shards: why windows changed */
};

/* A WELCOME has come. */
struct endpoint_welcome {
	uint32_t shard;
	uint32_t serial;
	uint32_t lanes;           /* of the HELLO: how much the path carries */
	struct link_address seen; /* this worker's address as the shard sees it */
};

/* NULL: out of memory or bad options. After open only HELLOs can be sent. */
struct endpoint *endpoint_open(const struct endpoint_options *options);
void endpoint_close(struct endpoint *endpoint); /* the link stays open */

/* HELLO to one shard, padded to `lanes` lanes (at least WIRE_HELLO_LANES); serials grow. */
void endpoint_hello(struct endpoint *endpoint, uint32_t shard, uint32_t serial, uint32_t lanes);
/* A short one with the next serial: is anybody there? When the last answer to any came; 0: never. */
void endpoint_knock(struct endpoint *endpoint, uint32_t shard);
uint64_t endpoint_welcomed_ns(const struct endpoint *endpoint, uint32_t shard);
uint32_t endpoint_welcomes(struct endpoint *endpoint, struct endpoint_welcome *welcomes,
			   uint32_t max);

/* START has said how many lanes a packet has: allocates the slots' buffers. 0 or -ENOMEM, -EINVAL. */
int endpoint_start(struct endpoint *endpoint, uint32_t lanes);

/* How such an operation would travel. False: lanes cannot do it; in latency mode, which has sums of int32: always. */
bool endpoint_lanes(const struct endpoint *endpoint, const struct endpoint_op *op,
		    struct lanes *lanes);

/* R-WK-17: the operation is called, which may be submitted behind later ones of the other stream. In the order of the
 * calls, after endpoint_start. */
void endpoint_place(struct endpoint *endpoint, const struct endpoint_op *op,
		    struct past_place *place);

/* 0; -EAGAIN while the stream's ring of operations is full; -EINVAL before endpoint_start, and for what
 * lanes or latency mode cannot do. */
int endpoint_submit(struct endpoint *endpoint, const struct endpoint_op *op);

/* Takes what has arrived, at most one burst, and sends what may be sent. True if there was anything to
 * do: call again before waiting. */
bool endpoint_poll(struct endpoint *endpoint);
/* For a thread that has something else to do: begins express chunks, a message of them at most (in latency
 * mode, what the window lets), and leaves the rest to the next poll: endpoint_next is now, while there is some. */
void endpoint_begin(struct endpoint *endpoint);
/* Until when to wait if nothing arrives, or room appears: PACE_NEVER if nothing is on its way. */
uint64_t endpoint_next(const struct endpoint *endpoint);
/* Cookies of operations that have become complete, oldest first. */
uint32_t endpoint_done(struct endpoint *endpoint, uint64_t *cookies, uint32_t max);

enum endpoint_fault endpoint_fault(const struct endpoint *endpoint);
/* Which path that is that takes no full packet: after ENDPOINT_TOO_LARGE. */
uint32_t endpoint_fault_shard(const struct endpoint *endpoint);
const struct link_address *endpoint_address(const struct endpoint *endpoint, uint32_t shard);
/* True, with *path, if this shard has answered no full HELLO for ENDPOINT_PATH_NS, there were enough of them, and the
 * last is young (R-PACE-10). */
bool endpoint_path_lost(const struct endpoint *endpoint, uint32_t shard, uint64_t now_ns,
			struct endpoint_path *path);
/* When the last RESULT was accepted, on the link's clock. */
uint64_t endpoint_progress_ns(const struct endpoint *endpoint);
void endpoint_stats(const struct endpoint *endpoint, struct endpoint_stats *stats);
/* R-PACE-5. For the simulator: it stays so. */
void endpoint_window(struct endpoint *endpoint, uint32_t shard, enum map_stream stream,
		     uint32_t window);
/* For tests whose rounds are to begin near the wrap of their numbers: every slot is as if it had done
 * `seq` rounds, without a result. After endpoint_start, before the first operation. */
void endpoint_rounds_begin(struct endpoint *endpoint, uint32_t seq);
/* For the simulator's invariants: read-only. */
const struct worker *endpoint_worker(const struct endpoint *endpoint);
const struct pace *endpoint_pace(const struct endpoint *endpoint);
const struct worker_latency *endpoint_worker_latency(const struct endpoint *endpoint); /* or NULL */

#endif
