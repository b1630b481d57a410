/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - the engine from inside. Included by its files alone. */
#ifndef HOST_STATE_H
#define HOST_STATE_H

#include <stdatomic.h>

#include "core/host/poll.h"
#include "host/host.h"
#include "simd/plain.h"

struct host;

enum {
	HOST_OPS = 256,           /* on their way; a power of two */
	HOST_SMALL_BYTES = 2048,  /* up to here every rank adds all up, whatever their number */
	HOST_PAIR_BYTES = 131072, /* a window of two ranks, which both add all up */
	HOST_WINDOW_BYTES = 262144,
	HOST_ALIGN = 64,
	HOST_TURNS = 2, /* of each buffer: one is written while the other is read */
};

/* How an operation's elements are combined. */
struct sum {
	enum { SUM_COPY, SUM_F32, SUM_F64, SUM_I32, SUM_LANES } kind;
	struct lanes lanes;
	uint32_t packet; /* SUM_LANES: elements of one, which have an exponent in common */
	uint32_t bytes;  /* of an element */
	bool is_avg;
};

/* Lanes are what can do it if elements as they are cannot. False: there is no way. */
bool sum_choose(struct sum *sum, const struct host *host, const struct endpoint_op *op);
/* Adds up `count` elements of all ranks. Returns how many are saturated. A first element of SUM_LANES begins a packet. */
uint64_t sum_run(const struct sum *sum, void *to, const void *const *from, uint32_t ranks,
		 size_t count);
/* The same past the caches (simd/stream.h). */
uint64_t sum_stream(const struct sum *sum, void *to, const void *const *from, uint32_t ranks,
		    size_t count);
/* tally_op_options.residual of these elements. */
void sum_rest(const struct sum *sum, float *rest, const float *from, size_t count);

/* Each window has, by shape:
 *   LINE   all of it beside the word; every rank combines what all have there
 *   ALL    a buffer of each rank's; every rank adds them all up
 *   PARTS  the same; each rank adds up its part for all, in one more phase
 *   COPY   one buffer, into which each rank puts what it alone has */
enum shape { SHAPE_LINE, SHAPE_ALL, SHAPE_PARTS, SHAPE_COPY };

/* The oldest operation. */
struct run {
	struct sum sum;
	enum shape shape;
	uint32_t tag;
	uint32_t window;     /* elements */
	uint64_t windows, w; /* and which it is at */
	bool is_large;       /* more than the caches hold */
	uint32_t base;       /* the phase that it began with */
	enum { RUN_WRITE, RUN_READ, RUN_COLLECT } step;
};

/* Where memory has what. */
struct areas {
	size_t all, parts, results, copies; /* offsets */
	size_t all_bytes, window_bytes;     /* of one buffer */
	size_t bytes;                       /* of all */
};
struct areas areas_of(uint32_t ranks);

struct host {
	struct wait_words *words;
	uint8_t *memory;
	struct areas areas;
	uint32_t ranks, rank, lanes;
	bool is_same_bits;
	const struct quant_ops *quant;
	uint8_t *scratch,
		*own; /* of a window: what is not in one piece where it goes, or comes from */
	size_t cache_bytes;
	uint32_t phase;  /* the next one to be published */
	uint32_t seen;   /* ranks below have passed the phase that is waited for */
	bool is_running; /* `run` is the oldest's */
	bool is_odd, is_given_up;
	struct run run;
	struct endpoint_op ops[HOST_OPS];
	uint32_t head, tail; /* of ops */
	uint64_t done[HOST_OPS];
	uint32_t done_head, done_tail;
	uint64_t progress, saturated;

	/* host_wait's. Written by poll, read without the lock: who is missing. */
	atomic_uint awaited, awaited_phase;
	uint32_t is_called;
	struct poll poll;
};

/* ---- window.c: the oldest operation's ---- */

void shape_choose(struct host *host, const struct endpoint_op *op);
/* This rank's share of window w, and that it is there. */
void window_write(struct host *host, const struct endpoint_op *op, uint64_t w);
/* After the only phase of a window. */
void window_read(struct host *host, const struct endpoint_op *op);
/* PARTS: the phases of a window that its ranks have written, and those of one that they have added up. The next
 * window is written before the last one is added up. */
uint32_t written_phase(const struct run *run);
uint32_t summed_phase(const struct run *run);
/* This rank's part of a window, for all. */
void part_sum(struct host *host, const struct endpoint_op *op);
/* After all parts. */
void parts_read(struct host *host, const struct endpoint_op *op);

/* ---- sleep.c ---- */

/* Says that this rank has passed host->phase, in its line. */
void host_publish(struct host *host);
void host_wait_init(struct host *host);

#endif
