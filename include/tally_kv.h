/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally_kv.h - tables of keys. A part of libtally; results, deadlines and tally_get_last_error are tally.h's.
 *
 * A table of keys is for training in which each step touches few of many parameters: a row of dim float32 for
 * each key, on parameter servers (tally-ps), which own optimiser and log. What workers push is summed, of hot
 * keys on its way through an aggregator, and counts exactly once, whoever dies meanwhile and comes back. Several
 * threads may use a table. Keys are any 64 bits; in each call ascending, each once.
 */
#ifndef TALLY_KV_H
#define TALLY_KV_H

#include <tally.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tally_kv;

struct tally_kv_options {
	size_t size;         /* sizeof(struct tally_kv_options): TALLY_KV_OPTIONS_INIT sets it */
	const char *servers; /* "host:port", "host" (port 7272), "[v6]:port", or up to 64 of these
	                          with commas between; the same list, in the same order, on all
	                          workers: a key's hash says which is its; NULL: TALLY_SERVERS */
	const char *job; /* NULL: TALLY_JOB, else the name of the launch that has just these workers
	                          as its ranks, else the Slurm job's, else "default"; with the
	                          launch's name all workers need the same command line */
	const char *key; /* what the servers' key file says; NULL: TALLY_KEY_FILE or TALLY_KEY */
	uint32_t workers;      /* all that use the table; 0: workers and worker as for
	                          tally_comm_init_env */
	uint32_t worker;       /* which of them this is: 0 to workers - 1 */
	uint32_t deadline_ms;  /* a server that cannot be reached for so long, or an operation that
	                          nothing comes of, breaks the table; 0: 60 s */
	uint32_t kept_packets; /* per server, until they are committed; 0: 4096, 6 MiB */
	size_t queue_bytes; /* keys and values that wait for room; beyond it pushes block; 0: 64 MiB */
	uint32_t flags;     /* TALLY_KV_COPIES, or 0 */
	/* Never looked at: where the struct ended before `mode` was, with padding that its size counts and nobody has set. So the
	 * end of an old program's struct is no mode. */
	uint32_t reserved;
	uint32_t mode;      /* TALLY_KV_ASYNC, _BOUNDED or _SYNC: the same on all workers */
	uint32_t staleness; /* of TALLY_KV_BOUNDED, at most 2^20; else 0 */
};

/* How workers wait for each other: see tally_kv_step. */
#define TALLY_KV_ASYNC 0u   /* not at all */
#define TALLY_KV_BOUNDED 1u /* nobody is more than `staleness` steps ahead of anybody */
#define TALLY_KV_SYNC 2u    /* all make a step together; the table has mode=sync (tally-ps) */

/* Keeps a copy of hot rows, if the servers tell of their new values (tally-ps: copies=1), and answers pulls from it
 * while it is as new as all that this worker has heard of. So what was complete here, or before a barrier, is in what a
 * pull brings, but what other workers have completed since may be missing, as a rule for milliseconds. What is not in the
 * copy, or not new enough, comes from the server as ever. Costs 16 bytes and a row of memory for each hot key. */
#define TALLY_KV_COPIES 1u

#define TALLY_KV_OPTIONS_INIT                                                                \
	{                                                                                    \
		sizeof(struct tally_kv_options), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/* Opens `table` (1 to 63 letters, digits, '_', '-' and '.'), whose rows have dim values, 1 to 64, as the servers
 * know it. Waits until all servers have opened it, at most deadline_ms; not for other workers. On success *kv is the
 * caller's until tally_kv_close. options may be NULL.
 * TALLY_ERR_ARGUMENT: also no such table; TALLY_ERR_MISMATCH: of another dim or number of workers, or
 * the mode or staleness is not the table's, or not that of another worker that is there, or that one is of another job
 * or program;
 * TALLY_ERR_DENIED: a wrong key, or a later incarnation of this worker is there; TALLY_ERR_SYSTEM: a server cannot be
 * reached; TALLY_ERR_NO_RESOURCE, _NO_MEMORY, _TIMEOUT, _UNSUPPORTED, _VERSION, _REMOTE. The text names the server.
 *
 * What breaks a table stays: all that is outstanding, and all calls but tally_kv_close, return the same error.
 * A server that is restarted breaks nothing, if it still has what it had, and is back in deadline_ms. */
TALLY_API int tally_kv_open(struct tally_kv **kv, const char *table, uint32_t dim,
			    const struct tally_kv_options *options);

/* Waits for all operations, then until all servers know, on their disks, that this worker has left, at most deadline_ms;
 * and frees, in any case. Of a table that is broken nobody is told. NULL is fine. No other call may use it then. TALLY_OK:
 * all that was pushed is committed, and nobody waits for this worker; else the error that keeps one from saying so.
 * With TALLY_KV_SYNC what was pushed after the last tally_kv_step is no step, and is dropped when all have left.
 * TALLY_ERR_REMOTE may also be that a server, which the text names, has not said in time that it knows: then others
 * may wait for this worker until it has opened the table and closed it again. */
TALLY_API int tally_kv_close(struct tally_kv *kv);

/* Adds values[i * dim] to values[i * dim + dim - 1] to the gradient of keys[i]: the optimiser's steps are the server's.
 * Both are copied. Does not wait for an answer, but for room (queue_bytes). *timestamp, which may be NULL, names the
 * operation. Values of hot keys are rounded to the table's scale, and saturate. TALLY_ERR_ARGUMENT: the text names
 * the index of a key out of order or of a value that is not finite; nothing was pushed. */
TALLY_API int tally_kv_push(struct tally_kv *kv, const uint64_t *keys, const float *values,
			    size_t count, uint64_t *timestamp);

/* Writes the rows of keys to values, dim each. values is lent until the operation is complete. What was complete when
 * it was called is in what it brings, be it other workers' or this one's; what is not may be. TALLY_KV_COPIES makes an exception. */
TALLY_API int tally_kv_pull(struct tally_kv *kv, const uint64_t *keys, float *values, size_t count,
			    uint64_t *timestamp);

/* A push, and when it is committed a pull of the same keys: one operation. push is copied, pull is lent; both may be
 * the same. */
TALLY_API int tally_kv_pushpull(struct tally_kv *kv, const uint64_t *keys, const float *push,
				float *pull, size_t count, uint64_t *timestamp);

/* Waits at most timeout_ms milliseconds; 0 looks, negative waits for ever, but not beyond what breaks a table.
 * timestamp 0: all operations so far. TALLY_OK: a push is committed, on the server's disk if the table has a log, for
 * ever; what was pulled is there. TALLY_IN_PROGRESS: the time ran out, nothing has changed. An operation's own error
 * is returned once. */
TALLY_API int tally_kv_wait(struct tally_kv *kv, uint64_t timestamp, int timeout_ms);

/* Looks without waiting: *done becomes 1 if the operation is complete, and its result is returned; else 0. */
TALLY_API int tally_kv_test(struct tally_kv *kv, uint64_t timestamp, int *done);

/* Returns when all workers of the table have called it as often, and all operations of each before its call are
 * complete: a pull after it brings them. Counted from where the table stood when the worker opened it: so a second run
 * of workers has its own barriers, and who takes a dead one's place comes to the next. A worker that closes the table
 * is not waited for by those who had opened it before; one that dies is, until another comes in its place. */
TALLY_API int tally_kv_barrier(struct tally_kv *kv);

/* Ends this worker's step: what it has pushed and pulled since the last one. Does not wait; tally_kv_wait for *timestamp,
 * which may be NULL, returns when the next step may begin, and what is begun after this call, be it waited for or
 * not, waits for that by itself, in its place. With
 *
 *   TALLY_KV_SYNC     when all workers have ended as many steps. What they have pushed in one is applied at its end: one step
 *                     of the optimiser for each key, with the sum of all that was pushed of it, be it hot or cold. Sums are
 *                     of whole numbers (of 2^-64, or of the unit of hot keys), so they are the same to the bit
 *                     whoever came first. A pull of a step brings all of the steps before and nothing of this one. (A
 *                     pull is of the step in which it was begun.)
 *   TALLY_KV_BOUNDED  when all workers have ended all but the last `staleness` of as many steps: a pull of step t (from 0)
 *                     brings all of others' steps before t - staleness, and maybe more. Pushes are applied as they come.
 *   TALLY_KV_ASYNC    when all of this worker's operations are complete: nobody is waited for.
 *
 * tally_kv_barrier is a step of its own, in all of these: all workers make as many steps before each. A worker that closes the table is not waited for. One that dies is:
 * when it has been gone for 4 heartbeats of the servers (tally-ps --heartbeat) and 2 seconds, whoever waits for it gets TALLY_ERR_REMOTE,
 * with its name. With TALLY_KV_SYNC a step that was not over then is as if it had not begun, once another one comes in the place
 * of the dead: all workers open the table again, then. (Of several servers one may have made the step that another has
 * not; tally_kv_open warns of that.) */
TALLY_API int tally_kv_step(struct tally_kv *kv, uint64_t *timestamp);

/* Runs once, when operation `timestamp` is complete, or has failed with `result`, as tally_kv_wait would return it: a
 * failed one's error is forgotten then. No lock is held. On the table's own thread, never within a call of the
 * program's: while it runs nothing of the table goes on, so keep it short. It may begin operations (pushes do not wait for
 * room there) and look at them; what waits, tally_kv_wait but with timeout_ms 0, tally_kv_barrier and tally_kv_close, is
 * TALLY_ERR_USAGE. */
typedef void (*tally_kv_done_fn)(struct tally_kv *kv, uint64_t timestamp, int result, void *arg);

/* Has fn called for an operation, also for one that is complete already: as many times as this was. Those of one
 * operation in the order in which they were asked for. All have run when tally_kv_close returns, also of a table that
 * is broken. TALLY_ERR_ARGUMENT: no such operation. */
TALLY_API int tally_kv_on_done(struct tally_kv *kv, uint64_t timestamp, tally_kv_done_fn fn,
			       void *arg);

struct tally_kv_stats {
	size_t size;             /* set by the caller: sizeof(struct tally_kv_stats) */
	uint64_t pairs;          /* of a key and its values that pushes have sent, */
	uint64_t pairs_hot;      /* of these, by way of who sums hot keys */
	uint64_t keys_pulled;    /* whose rows have come */
	uint64_t packets_out;    /* of hot pairs, first copies, */
	uint64_t packets_resent; /* and further ones */
	uint64_t bytes_out;      /* payload of UDP and TCP */
	uint64_t bytes_in;
	/* That were complete and are not in the table any more, for a server without a log went back to its checkpoint: */
	uint64_t batches_lost; /* of cold pairs, */
	uint64_t packets_lost; /* and of hot ones */
	/* Of hot keys, not 0, and less than the table's unit makes 1 of: what they are comes with later ones. */
	uint64_t values_small;
	/* That nobody took, for they were from another address, of another generation or with another nonce: late, or a
	 * stranger's. */
	uint64_t packets_dropped;
};
#define TALLY_KV_STATS_INIT                                                    \
	{                                                                      \
		sizeof(struct tally_kv_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/* Fills in at most stats->size bytes: a caller built with an older header keeps working. Counted since open.
 * TALLY_ERR_ARGUMENT. */
TALLY_API int tally_kv_get_stats(struct tally_kv *kv, struct tally_kv_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
