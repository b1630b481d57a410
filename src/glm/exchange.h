/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - sums of int32 over the ranks: how activations travel. Small ones are begun and ended, several on
 * their way at once; they end in the order in which they began. Large ones wait.
 *
 * All ranks begin the same small sums in the same order, and call sum() in the same places. One thread at a time
 * begins and flushes, one at a time ends, and these two may be busy at the same moment; abort() may come from any
 * thread at any time; all else is for one thread while no sum is on its way.
 */
#ifndef GLM_EXCHANGE_H
#define GLM_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "glm/sizes.h"

struct exchange;

enum exchange_state { EXCHANGE_DONE, EXCHANGE_BUSY, EXCHANGE_FAILED };

struct exchange_ops {
	/* A mini-batch will be sums of `total` lanes together, of `each` in one; each 0: as many as lanes_max. An
	 * exchange that has several ways may measure them, and lanes_max and name become what they then are: once,
	 * before the first begin(). Waits. 0 or -1. */
	int (*tune)(struct exchange *exchange, uint32_t total, uint32_t each);
	/* Starts the sum of lanes[0..count) in place, count <= lanes_max; slot < depth is free. The lanes are
	 * lent until end() says that it is over. It may stay here until flush(). 0 or -1. */
	int (*begin)(struct exchange *exchange, uint32_t slot, int32_t *lanes, uint32_t count);
	/* What has been begun leaves, together if it can. 0 or -1. */
	int (*flush)(struct exchange *exchange);
	/* Of the oldest that has been flushed. EXCHANGE_BUSY only if is_wait is false. */
	enum exchange_state (*end)(struct exchange *exchange, uint32_t slot, bool is_wait);
	/* Any count; waits. 0 or -1. A sum beyond int32 is not defined. */
	int (*sum)(struct exchange *exchange, int32_t *values, size_t count);
	/* The same of numbers, rounded; all ranks get the same bits. 0 or -1. */
	int (*sum_float)(struct exchange *exchange, float *values, size_t count);
	/* This rank gives up: whatever another one waits for fails, and names this one. */
	void (*abort)(struct exchange *exchange);
	/* Leaves in good order, and frees the exchange. */
	void (*close)(struct exchange *exchange);
};

struct exchange {
	const struct exchange_ops *ops;
	uint32_t rank, ranks;
	uint32_t depth;            /* sums on their way at most */
	uint32_t lanes_max;        /* of one of them */
	const char *name;          /* "latency", "dense", "none", "mpi", "mpi-blocking" */
	char error[GLM_ERROR_MAX]; /* the sentence of whatever has failed here first */
};

/* One rank: every sum is what is there. 0 and *exchange, the caller's until close; -1: no memory. */
int exchange_none(struct exchange **exchange);

/* Sums of `total` lanes, `each` in one, begun one after another as many as the exchange takes, then ended. 0 or -1. */
int exchange_sums(struct exchange *exchange, int32_t *lanes, uint32_t total, uint32_t each);

/* For tune(): both ways (0, 1) are measured in turn with such sums, and the one in use at the end is the faster one,
 * on all ranks alike. 0 or -1. */
typedef void (*exchange_use_fn)(struct exchange *exchange, int way);
int exchange_choose(struct exchange *exchange, exchange_use_fn use, uint32_t total,
		    const uint32_t each[2]);

/* Every rank's `count` values, in the order of the ranks: all[rank * count] are this rank's when it is called,
 * the others are written. 0 or -1. */
int exchange_gather(struct exchange *exchange, int32_t *all, size_t count);

#endif
