/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work.h - the work that tally bench gives to tally (tools/bench.c), for programs that it is compared with: the same
 * sizes, batches and times; each result verified; a line of JSON of each rank and size, with the names that tally bench uses.
 * bench/compare takes the largest of the ranks' times, and adds up the rest.
 *
 * Elements are integers of 18 bits, both signs, other ones on each rank and in each operation; as float32 they are these by 2^-10.
 * So every sum of up to WORK_RANKS_MAX is exact in float32, in whatever order, and must come out to the bit.
 */
#ifndef BENCH_PEERS_WORK_H
#define BENCH_PEERS_WORK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WORK_RANKS_MAX = 64, WORK_BATCH_MAX = 1024 };

/* Of the library that is measured. Those that can fail end the program with a message. */
struct work_peer {
	const char *name; /* "command" of the JSON */
	uint32_t rank, ranks;
	int is_in_place;    /* the result is where the data were: recv is send */
	uint32_t batch_max; /* operations in a batch; 0: WORK_BATCH_MAX */
	void *own;
	/* NULL, or: operations of another size begin with slot 0, then the other slots; each has data of its own. */
	void (*prepare)(struct work_peer *peer, uint32_t slot, void *data, size_t elements,
			int is_float);
	void (*barrier)(struct work_peer *peer);
	/* Adds up `elements` at `send` into `recv`; slot: which of those above. */
	void (*allreduce)(struct work_peer *peer, uint32_t slot, void *send, void *recv,
			  size_t elements, int is_float);
};

/* The options, after what the peer itself has taken: --elements A,B --dtype int32|float32 --iters N --warmup N
 * --watch PID,PID; or --trace FILE --gpu-speed F --iters N: steps of a training (util/trace.h), as tally bench replay has
 * them; sums are made one after the other, as soon as each is computed. 0; 1: a sum was wrong; 2: the options are. Prints. */
int work_run(struct work_peer *peer, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
