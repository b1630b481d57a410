/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - an engine for ranks that share memory: it takes the operations that dataplane/endpoint.h takes, and does them
 * without a packet, one after the other, in windows. All ranks give it the same operations in the same order. Whoever
 * drives it holds it alone, but for host_wait, host_wake and host_abort. It never waits but in host_wait: poll, then
 * wait.
 *
 * What an operation is all ranks compare (R-MAP-6's tag) before anything is read. If they differ, it stays where it is:
 * host_is_odd.
 */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include "core/host/wait.h"
#include "dataplane/endpoint.h"

struct host; /* one rank's end */

enum { HOST_RANKS_MAX = WAIT_RANKS_MAX };

struct host_options {
	void *memory; /* host_bytes of it, zeros before the first rank opens; lent */
	uint32_t ranks, rank;
	uint32_t lanes; /* of a packet of the job's: sums that go by lanes are cut as there */
	const struct quant_ops *quant;
	bool is_same_bits; /* all sums go by lanes: what they are on the network */
};

/* How much memory so many ranks share. */
size_t host_bytes(uint32_t ranks);

/* NULL: out of memory. */
struct host *host_open(const struct host_options *options);
void host_close(struct host *host);

/* 0; -EAGAIN: more than enough are on their way. Latency mode's operations are not for it. What may be written at once
 * is. */
int host_submit(struct host *host, const struct endpoint_op *op);
/* Moves on by a window at most; true if there was anything to do: call again before waiting. */
bool host_poll(struct host *host);
/* Cookies of operations that have become complete, oldest first. */
uint32_t host_done(struct host *host, uint64_t *cookies, uint32_t max);

/* Until what the last poll has found missing is there, host_wake, host_abort of any rank, or until_ns (clock_ns). Polls
 * if that has paid lately, yields for a millisecond, then sleeps. By one thread at a time; others may submit meanwhile. */
void host_wait(struct host *host, uint64_t until_ns);
/* The current wait, or the next one, ends. From any thread. */
void host_wake(struct host *host);
/* For a rank that has failed: nobody waits for it here any more. From any thread. */
void host_abort(struct host *host);

/* The oldest operation is another one on another rank. */
bool host_is_odd(const struct host *host);
/* Grows with all that gets on. */
uint64_t host_progress(const struct host *host);
/* Elements that have left their type. */
uint64_t host_saturated(const struct host *host);
/* As it was opened. */
bool host_has_same_bits(const struct host *host);

/* ---- memory.c ---- */

/* A sealed memfd for so many ranks; or a negative errno. */
int host_memory_make(uint32_t ranks);
/* Maps it, if it is one: whole, and such that nobody can make it shorter. NULL: errno. A forked child has it not. */
void *host_memory_map(int fd, uint32_t ranks);
void host_memory_unmap(void *memory, uint32_t ranks);

#endif
