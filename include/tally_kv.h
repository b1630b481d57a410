/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally_kv.h - tables of keys. A part of libtally; results, deadlines and tally_get_last_error are tally.h's.
 *
 * A table of keys is for training in which each step touches few of many parameters. It has a row of dim
 * float32 for each key. Parameter servers (tally-ps) own the rows, the optimiser and the log. Workers' pushes
 * are summed; an aggregator sums those for hot keys on the way. Each push counts exactly once, even if workers,
 * servers or aggregators die and come back. Several threads may use a table. Keys are any 64 bits; in each call
 * they are ascending, each once.
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
	                          workers: a key's hash selects its server; NULL: TALLY_SERVERS */
	const char *job;  /* NULL: TALLY_JOB, else the name of the launch of exactly these workers,
	                          else the Slurm job's, else "default"; with the launch's name all
	                          workers need the same command line */
	const char *key;  /* the key in the servers' key file; NULL: TALLY_KEY_FILE or TALLY_KEY */
	uint32_t workers; /* all that use the table; 0: workers and worker as for
	                          tally_comm_init_env */
	uint32_t worker;  /* which of them this is: 0 to workers - 1 */
	uint32_t deadline_ms; /* if a server cannot be reached for so long, or an operation makes no
	                          progress for so long, the table breaks; 0: 60 s */
	uint32_t kept_packets; /* per server, until they are committed; 0: 4096, 6 MiB */
	size_t queue_bytes; /* keys and values that wait for room; beyond it pushes block; 0: 64 MiB */
	uint32_t flags;     /* TALLY_KV_COPIES, or 0 */
	/* Ignored. Before `mode` existed, the struct ended here with padding, which old programs have not set. This field
	 * keeps `mode` out of that padding. */
	uint32_t reserved;
	uint32_t mode;      /* TALLY_KV_ASYNC, _BOUNDED or _SYNC: the same on all workers */
	uint32_t staleness; /* of TALLY_KV_BOUNDED, at most 2^20; else 0 */
};

/* How workers wait for each other: see tally_kv_step. */
#define TALLY_KV_ASYNC 0u   /* not at all */
#define TALLY_KV_BOUNDED 1u /* no worker is more than `staleness` steps ahead of another */
#define TALLY_KV_SYNC 2u    /* all make a step together; the table has mode=sync (tally-ps) */

/* Keeps hot rows in a cache, if the servers send their new values (tally-ps: copies=1). Pulls are answered from
 * the cache while it is as new as the newest epoch that this worker has heard of. So a pull returns all pushes
 * that were complete here, or before a barrier. Pushes that other workers have completed since then may be
 * missing, usually for milliseconds. Rows that are not in the cache, or not new enough, come from the server.
 * Costs 16 bytes and a row of memory for each hot key. */
#define TALLY_KV_COPIES 1u

#define TALLY_KV_OPTIONS_INIT                                                                \
	{                                                                                    \
		sizeof(struct tally_kv_options), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/* Opens `table` (1 to 63 letters, digits, '_', '-' and '.'). Its rows have dim values, 1 to 64, as the servers
 * know it. Waits until all servers have opened it, at most deadline_ms; it does not wait for other workers. On
 * success *kv is the caller's until tally_kv_close. options may be NULL.
 *
 * TALLY_ERR_ARGUMENT  an argument is wrong, or there is no such table
 * TALLY_ERR_MISMATCH  the table has another dim, number of workers, mode or staleness; or a worker that is there has
 *                     another mode or staleness, or is of another job or program
 * TALLY_ERR_DENIED    the key is wrong, or a later incarnation of this worker is there
 * TALLY_ERR_SYSTEM    a server cannot be reached
 * TALLY_ERR_NO_RESOURCE, _NO_MEMORY, _TIMEOUT, _UNSUPPORTED, _VERSION, _REMOTE
 *
 * The text names the server.
 *
 * A broken table stays broken: all outstanding operations, and all calls but tally_kv_close, return the same
 * error. A restart of a server breaks nothing, if the server still has its data and is back within deadline_ms. */
TALLY_API int tally_kv_open(struct tally_kv **kv, const char *table, uint32_t dim,
			    const struct tally_kv_options *options);

/* Waits for all operations. Then waits until all servers have recorded on their disks that this worker has
 * left, at most deadline_ms. Frees the table in any case. If the table is broken, no server is told. NULL is
 * fine. From then on no other call may use it.
 *
 * TALLY_OK: all pushes are committed, and no worker waits for this one. Any other result is the error that
 * prevents this. TALLY_ERR_REMOTE may mean that a server, which the text names, has not answered in time. Then
 * others may wait for this worker until it has opened the table and closed it again. With TALLY_KV_SYNC, pushes
 * after the last tally_kv_step belong to no step, and are dropped when all have left. */
TALLY_API int tally_kv_close(struct tally_kv *kv);

/* Adds values[i * dim] to values[i * dim + dim - 1] to the gradient of keys[i]; the server makes the
 * optimiser's steps. Both arrays are copied. The call does not wait for an answer, but for room (queue_bytes).
 * *timestamp names the operation; timestamp may be NULL. Values of hot keys are rounded to the table's scale,
 * and saturate. TALLY_ERR_ARGUMENT: the text names the index of a key out of order, or of a value that is not
 * finite; nothing was pushed. */
TALLY_API int tally_kv_push(struct tally_kv *kv, const uint64_t *keys, const float *values,
			    size_t count, uint64_t *timestamp);

/* Writes the rows of keys to values, dim each. values is lent until the operation is complete. The rows contain
 * all pushes that were complete when it was called, of this worker and of others. They may contain later ones.
 * TALLY_KV_COPIES makes an exception. */
TALLY_API int tally_kv_pull(struct tally_kv *kv, const uint64_t *keys, float *values, size_t count,
			    uint64_t *timestamp);

/* A push, and a pull of the same keys when the push is committed: one operation. push is copied, pull is lent;
 * both may be the same array. */
TALLY_API int tally_kv_pushpull(struct tally_kv *kv, const uint64_t *keys, const float *push,
				float *pull, size_t count, uint64_t *timestamp);

/* Waits at most timeout_ms milliseconds; 0 only tests. Negative waits for ever, or until the table breaks.
 * timestamp 0: all operations so far. TALLY_OK: a push is committed for ever, on the server's disk if the table
 * has a log; the rows of a pull are there. TALLY_IN_PROGRESS: the time ran out, nothing has changed. An
 * operation's own error is returned once. */
TALLY_API int tally_kv_wait(struct tally_kv *kv, uint64_t timestamp, int timeout_ms);

/* Does not wait. *done becomes 1 if the operation is complete, and its result is returned; else 0. */
TALLY_API int tally_kv_test(struct tally_kv *kv, uint64_t timestamp, int *done);

/* Returns when all workers of the table have made the same number of calls, and all their operations before
 * these calls are complete. So a pull after it returns them. Calls are counted from the state of the table when
 * the worker opened it. So a second run of workers has its own barriers, and a worker in a dead one's place
 * comes to the next barrier. If a worker closes the table, workers that opened it earlier do not wait for that
 * worker. If a worker dies, they wait until another takes its place. */
TALLY_API int tally_kv_barrier(struct tally_kv *kv);

/* Ends this worker's step: its pushes and pulls since the last step. Does not wait. tally_kv_wait for
 * *timestamp returns when the next step may begin; timestamp may be NULL. Operations that begin after this call
 * wait for that by themselves, in their order. The next step may begin:
 *
 *   TALLY_KV_SYNC     when all workers have ended the same number of steps. The pushes of a step are applied at its end, in
 *                     one optimiser step for each key, with the sum of all pushes of this key, hot or cold. Sums are sums of
 *                     integers (multiples of 2^-64, or of the unit of hot keys). So they have the same bits in any order of
 *                     arrival. A pull of a step returns all earlier steps, and nothing of this one. (A pull belongs to the
 *                     step in which it was begun.)
 *   TALLY_KV_BOUNDED  when all workers have ended as many steps, less the last `staleness`. A pull of step t (from 0)
 *                     returns all steps of others before t - staleness, and maybe more. Pushes are applied as they come.
 *   TALLY_KV_ASYNC    when all operations of this worker are complete. It does not wait for other workers.
 *
 * In all modes tally_kv_barrier is a step of its own, so all workers must make the same number of steps before each barrier.
 * If a worker closes the table, the others do not wait for it. If a worker dies, they wait for 4 heartbeats of the servers
 * (tally-ps --heartbeat) and 2 seconds. Then they get TALLY_ERR_REMOTE, with its name. With TALLY_KV_SYNC, when another
 * worker takes the dead one's place, the step that was not over is undone: all workers must then open the table again. (Of
 * several servers one may have made the step and another not; tally_kv_open warns of that.) */
TALLY_API int tally_kv_step(struct tally_kv *kv, uint64_t *timestamp);

/* Runs once, when operation `timestamp` is complete or has failed. `result` is that of tally_kv_wait; the error
 * of a failed operation is then not returned again. It runs on the table's own thread, never within a call of
 * the program, and no lock is held. While it runs the table does nothing else, so keep it short. It may begin
 * operations (pushes do not wait for room there) and test them. Calls that wait are TALLY_ERR_USAGE:
 * tally_kv_wait except with timeout_ms 0, tally_kv_barrier and tally_kv_close. */
typedef void (*tally_kv_done_fn)(struct tally_kv *kv, uint64_t timestamp, int result, void *arg);

/* Sets fn as a callback of an operation, also of one that is complete already. Each call of this function
 * causes one call of fn. Those of one operation run in the order in which they were set. All have run when
 * tally_kv_close returns, also if the table is broken. TALLY_ERR_ARGUMENT: no such operation. */
TALLY_API int tally_kv_on_done(struct tally_kv *kv, uint64_t timestamp, tally_kv_done_fn fn,
			       void *arg);

struct tally_kv_stats {
	size_t size;             /* set by the caller: sizeof(struct tally_kv_stats) */
	uint64_t pairs;          /* of a key and its values, sent by pushes, */
	uint64_t pairs_hot;      /* of these, sent to the summing of hot keys */
	uint64_t keys_pulled;    /* whose rows have come */
	uint64_t packets_out;    /* of hot pairs, first copies, */
	uint64_t packets_resent; /* and further ones */
	uint64_t bytes_out;      /* UDP and TCP payload */
	uint64_t bytes_in;
	/* Complete before, but lost: a server without a log went back to its checkpoint. */
	uint64_t batches_lost; /* of cold pairs */
	uint64_t packets_lost; /* of hot pairs */
	/* Of hot keys: not 0, but smaller than the table's unit. They are summed with later values. */
	uint64_t values_small;
	/* Dropped because of another address, generation or nonce: late packets, or a stranger's. */
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
