/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally.h - add vectors up across workers, in the network. With tally_kv.h the whole public API of libtally.
 *
 *     struct tally_comm *comm;
 *     if (tally_comm_init_env(&comm, NULL))
 *             die(tally_get_last_error(NULL));
 *     tally_allreduce(in, out, count, TALLY_FLOAT32, TALLY_SUM, comm);
 *     tally_comm_finalize(comm);
 *     tally_comm_destroy(comm);
 *
 * Every function that returns int returns one of enum tally_result; outputs are written on success only,
 * unless said otherwise. All functions may be called from any thread, several at once, on the same
 * communicator too, but for tally_comm_destroy, which must be the last one. Operations are numbered in
 * the order in which the calls enter: all ranks must start the same operations in the same order.
 *
 * After any error but TALLY_IN_PROGRESS, TALLY_INTERRUPTED, TALLY_ERR_ARGUMENT, TALLY_ERR_UNSUPPORTED, TALLY_ERR_USAGE and
 * TALLY_ERR_RANGE the communicator is broken on all ranks: what is outstanding completes with the same error, its receive
 * buffers are undefined, and only abort, destroy and the functions that ask something still work. An
 * error is never half an answer: a peer that dies, calls another operation or stays away ends in a named
 * error, not in a hang or in wrong data.
 *
 * Nothing is ever written to stdout. After fork() the child's handles return TALLY_ERR_USAGE.
 */
#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TALLY_API __attribute__((visibility("default")))
#else
#define TALLY_API
#endif

#define TALLY_VERSION_MAJOR 0
#define TALLY_VERSION_MINOR 1
#define TALLY_VERSION_PATCH 0

/* 0 to 8 mean what they mean in nccl.h. */
enum tally_result {
	TALLY_OK = 0,
	TALLY_ERR_SYSTEM = 2,   /* the kernel refused something, the aggregator cannot be reached */
	TALLY_ERR_INTERNAL = 3, /* a bug in tally */
	TALLY_ERR_ARGUMENT = 4, /* this call's argument; nothing was started */
	TALLY_ERR_USAGE = 5, /* a call that is not allowed now: after finalize, in a forked child */
	TALLY_ERR_REMOTE = 6,  /* a peer or the aggregator died, left or aborted */
	TALLY_IN_PROGRESS = 7, /* not complete yet: no error */
	TALLY_ERR_TIMEOUT = 8,
	TALLY_ERR_MISMATCH = 100,    /* the ranks called different operations */
	TALLY_ERR_UNSUPPORTED = 101, /* not in this version; nothing was started */
	TALLY_ERR_VERSION = 102,     /* the aggregator speaks another version of the protocol */
	TALLY_ERR_ABORTED = 103,     /* tally_comm_abort was called here */
	TALLY_ERR_NO_RESOURCE = 104, /* the aggregator has no room for this job */
	TALLY_ERR_NO_MEMORY = 105,
	TALLY_ERR_DENIED = 106, /* the aggregator refused this rank; the text says why */
	TALLY_ERR_RANGE =
		107, /* latency mode: an element was too large for the sum; on all ranks alike,
	                           and the communicator goes on */
	TALLY_INTERRUPTED = 108 /* tally_options.interrupted has ended the wait: no error */
};

/* The numbers of nccl.h. This version adds up int32 and float32. */
enum tally_dtype {
	TALLY_INT8 = 0,
	TALLY_UINT8 = 1,
	TALLY_INT32 = 2,
	TALLY_UINT32 = 3,
	TALLY_INT64 = 4,
	TALLY_UINT64 = 5,
	TALLY_FLOAT16 = 6,
	TALLY_FLOAT32 = 7,
	TALLY_FLOAT64 = 8,
	TALLY_BFLOAT16 = 9
};

/* The numbers of nccl.h. This version has sum and avg. */
enum tally_op { TALLY_SUM = 0, TALLY_PROD = 1, TALLY_MAX = 2, TALLY_MIN = 3, TALLY_AVG = 4 };

struct tally_comm; /* a communicator: one rank's membership of one job */
struct tally_work; /* an operation on its way */

/* ---- version and errors ---- */

/* 10000 * major + 100 * minor + patch, of the library that runs. */
TALLY_API int tally_get_version(void);
/* "0.1.0"; static. */
TALLY_API const char *tally_get_version_text(void);

/* What a result means, in a few words; static, never NULL. */
TALLY_API const char *tally_strerror(int result);

/* What went wrong, in one line, with rank, host, operation and its number. If comm is broken: the first
 * cause, which stays valid and the same until tally_comm_destroy. Else, and for NULL: the last error that
 * a call of this thread returned, valid until its next. Never NULL, "" if there was none. */
TALLY_API const char *tally_get_last_error(const struct tally_comm *comm);

/* ---- communicators ---- */

/* Whether a wait is to end: called by the thread that waits, about every 50 ms, with no lock held. 0: no. It must not
 * wait in tally, nor destroy; tally_comm_abort is fine. */
typedef int (*tally_interrupted_fn)(void *ctx);

/* Zero means "choose for me" everywhere. */
struct tally_options {
	size_t size;             /* sizeof(struct tally_options): TALLY_OPTIONS_INIT sets it */
	const char *aggregator;  /* "host:port", "host" (port 7171), "[v6]:port", or up to 16 of
	                           these with commas between, or "local"; NULL: TALLY_AGGREGATOR,
	                           else local if all ranks share a host */
	uint32_t local_size;     /* ranks of this job on this host; 0: as the environment says */
	uint32_t init_timeout_s; /* for all ranks to come; 0: TALLY_INIT_TIMEOUT_S, else 300 */
	uint32_t window_packets; /* on their way at most, per shard, for large operations; 0: the
	                            aggregator's choice */
	uint32_t poll_count;     /* polls that yield before a wait blocks; 0: a few dozen */
	uint32_t flags;          /* none yet: 0 */

	/* A caller built with an older header, whose struct ends here, keeps working. */
	uint32_t latency_slots; /* latency mode: slots of the switch, up to 65536; 0: dense mode */
	uint32_t
		latency_window; /* latency mode: how far a rank may be ahead; 0: as far as goes without
	                            acknowledgements, latency_slots / 2 */
	uint32_t deadline_ms; /* of every operation that has none of its own; 0: TALLY_DEADLINE_S,
	                            else none */
	const char *key;      /* what the aggregator's key file says; NULL: TALLY_KEY_FILE or
	                            TALLY_KEY, else none */

	/* So far 0.1.0's later ones. */
	tally_interrupted_fn interrupted; /* NULL: no wait ends before its time. See below */
	void *interrupted_ctx;
};
#define TALLY_OPTIONS_INIT                                                                   \
	{                                                                                    \
		sizeof(struct tally_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL \
	}

/* With `interrupted` a program's signal handlers can end a wait: the handler leaves a note, the function looks for it. (A
 * Python extension's calls PyErr_CheckSignals, which runs Python's handlers; with ctypes, calling any function runs them: a
 * handler that appends to a list, a function that returns its length.) What then returns TALLY_INTERRUPTED has not failed:
 *   tally_wait, tally_waitall      nothing has changed; wait again when you like. (waitall: those before are complete)
 *   tally_allreduce, tally_barrier the operation is on its way, its buffers stay lent: the same call with the same arguments, by
 *                                  the same thread, waits for it again, and returns its result. Another blocking
 *                                  operation of this thread there is TALLY_ERR_USAGE meanwhile
 *   tally_comm_finalize            has not ended: call it again
 *   tally_comm_init, _env, _oob    this rank's attempt is over, as if it had died; *comm is untouched
 * Or end the job: tally_comm_abort, tally_comm_destroy; then the buffers are yours. tally_comm_split and
 * tally_comm_destroy themselves, and tables of keys, are not interrupted. */

/* Latency mode is for allreduces of a handful of int32 in a training loop: each fits one packet, they
 * complete in order, and latency_window of them may be on their way. All ranks must ask for the same. It
 * has sums and averages of int32, and barriers; anything else, and what does not fit, is
 * TALLY_ERR_UNSUPPORTED; a group becomes as many operations as it needs packets, and tally_comm_split takes
 * 4 elements per rank, over several operations if need be. If some |element| is above (2^31 - 1) / ranks, the
 * operation completes on all ranks with TALLY_ERR_RANGE, its receive buffer undefined. */

/* tally_comm_init joins `job` as `rank` of `size` and waits until all are there. It is collective. On
 * success *comm is the caller's until tally_comm_destroy. job: 1 to 200 bytes, the same on all ranks; while
 * a job of that name runs on the aggregator, others are denied (they wait for one that is ending). options
 * may be NULL.
 * TALLY_ERR_ARGUMENT; TALLY_ERR_UNSUPPORTED (what this version cannot do); TALLY_ERR_SYSTEM: the aggregator
 * cannot be reached, the text names address and port; TALLY_ERR_DENIED, _NO_RESOURCE, _VERSION,
 * _TIMEOUT (the text names the missing ranks), _REMOTE (a rank died meanwhile), _NO_MEMORY. What breaks the
 * job once it has begun, be it another rank's first call, is the result of this rank's first call. */
TALLY_API int tally_comm_init(struct tally_comm **comm, const char *job, uint32_t size,
			      uint32_t rank, const struct tally_options *options);

/* The same, with job, size and rank from what a launcher has set. The first complete set wins:
 * TALLY_RANK TALLY_SIZE [TALLY_JOB TALLY_LOCAL_RANK TALLY_LOCAL_SIZE]; torchrun's RANK WORLD_SIZE; Open
 * MPI's OMPI_COMM_WORLD_RANK and _SIZE; Hydra's PMI_RANK PMI_SIZE; srun's SLURM_PROCID SLURM_NTASKS. A
 * half-set or contradictory set is TALLY_ERR_ARGUMENT with the names and values that were read. Then as
 * tally_comm_init; without TALLY_JOB the job begins 1 s after the last rank has come, for another program may have
 * the launcher's name too: TALLY_ERR_DENIED. tally(7) lists all variables. */
TALLY_API int tally_comm_init_env(struct tally_comm **comm, const struct tally_options *options);

/* Gives every rank what all ranks have: `bytes` bytes from send of each, in the order of the ranks, to
 * recv; blocks until they are there. 0, or anything else if it could not. As MPI_Allgather. */
typedef int (*tally_allgather_fn)(const void *send, void *recv, size_t bytes, void *ctx);

/* The same, with the words of a program that has a way to talk already (MPI, a store): rank 0's job name
 * (TALLY_JOB, else one that it makes up) and aggregator (options, TALLY_AGGREGATOR) count for all. Each such call is
 * a job of its own, also beside others of the same name. If
 * rank 0 has no aggregator: local mode when all ranks are on one host, else TALLY_ERR_ARGUMENT. allgather is
 * called from inside this call, on all ranks twice, whatever it returns; if it stays away for long, a line at
 * WARN says so. TALLY_ERR_SYSTEM: it has failed, the text has its result; an error that one rank finds before,
 * be it in its arguments or in what allgather gave it first, is every rank's, and the text names the rank: but
 * for a rank, size or allgather with which it cannot be called at all. A second call that fails on one rank, or
 * gives it what is not the ranks' own, is TALLY_ERR_REMOTE on the others, at once if all ranks live, else after
 * 5 s. Then as tally_comm_init. */
TALLY_API int tally_comm_init_oob(struct tally_comm **comm, uint32_t size, uint32_t rank,
				  tally_allgather_fn allgather, void *ctx,
				  const struct tally_options *options);

/* Parts comm: the ranks with the same color >= 0 get a communicator of their own, numbered by key, and by
 * their rank in comm where keys are equal; color < 0: *new_comm becomes NULL, TALLY_OK. Collective over
 * comm, which stays as it is and may go before its parts: they use the same aggregator, and in local mode
 * the one in rank 0's process, which serves them to their end, but takes no new ones once rank 0 has left all
 * that it is in. options as in tally_comm_init, but `aggregator` is NULL. */
TALLY_API int tally_comm_split(struct tally_comm *comm, int color, int key,
			       const struct tally_options *options, struct tally_comm **new_comm);

/* 0 for NULL. */
TALLY_API uint32_t tally_comm_rank(const struct tally_comm *comm);
TALLY_API uint32_t tally_comm_size(const struct tally_comm *comm);

/* TALLY_OK, or the error that has broken the communicator. Never waits. */
TALLY_API int tally_comm_get_async_error(struct tally_comm *comm);

/* Waits for this rank's outstanding operations, then leaves the job in good order. The others may go on
 * until they miss this rank. A rank 0 that hosts the aggregator (local mode) also waits until all others
 * have left. Afterwards only destroy and the functions that ask something work. TALLY_ERR_USAGE: twice. */
TALLY_API int tally_comm_finalize(struct tally_comm *comm);

/* Ends the job on all ranks, from any thread, without waiting for anybody: calls that block here return
 * TALLY_ERR_ABORTED, on the other ranks TALLY_ERR_REMOTE. It is async-signal-safe: a signal handler may call it, also one
 * that has interrupted a tally function; it returns before the job has ended (the background thread sees to
 * that), but what this thread calls next finds it ended. A handler must not have the handle once tally_comm_destroy
 * has been called, nor before init has returned. Twice is as once. TALLY_ERR_ARGUMENT (NULL), TALLY_ERR_USAGE (in a
 * forked child), both without a text. */
TALLY_API int tally_comm_abort(struct tally_comm *comm);

/* Frees the communicator, after finalize if that was not called. No other call may use it or its work
 * handles then; works that are left are freed with it. NULL is fine. While a group that is not ended yet has
 * gathered an operation of it, it stays as it is, and the log says so. */
TALLY_API void tally_comm_destroy(struct tally_comm *comm);

/* ---- operations ---- */

/* The stream decides what an operation may have to wait behind. All ranks must choose alike. */
enum tally_stream {
	TALLY_STREAM_AUTO = 0,    /* by size: up to 64 packets express, else bulk */
	TALLY_STREAM_EXPRESS = 1, /* never behind a large one */
	TALLY_STREAM_BULK = 2
};

enum tally_op_flags {
	/* Another operation of this communicator follows at once: their packets leave together. A hint: ranks need
	 * not agree, and what nothing follows leaves with the next call that looks or waits, or by itself soon. */
	TALLY_OP_MORE = 1
};

struct tally_op_options {
	size_t size;          /* sizeof(struct tally_op_options): TALLY_OP_OPTIONS_INIT sets it */
	const char *name;     /* must agree on all ranks, shown in errors; up to 63 bytes; copied */
	int stream;           /* enum tally_stream */
	uint32_t deadline_ms; /* from this call on; 0: the communicator's (tally_options) */
	uint32_t flags;       /* enum tally_op_flags; 0: none */
};
#define TALLY_OP_OPTIONS_INIT                                                  \
	{                                                                      \
		sizeof(struct tally_op_options), NULL, TALLY_STREAM_AUTO, 0, 0 \
	}

/* A deadline that passes ends the operation, and with it the communicator, on ALL ranks with
 * TALLY_ERR_TIMEOUT; the text names the ranks that have not called it, their hosts, and since when it
 * waits. That is another thing than the timeout of tally_wait, which ends nothing. */

/* tally_allreduce adds up (or averages) count elements over all ranks: recv[i] becomes the sum of every
 * rank's send[i], the same bits on all ranks. Blocks until recv is final. send == recv is in place; any
 * other overlap is an error. Both are aligned to 4 bytes; count 0 is allowed, with any pointers, and is
 * an operation like another. Source buffers of one operation must not overlap receive buffers of another
 * that is still on its way.
 * int32 sums beyond the type saturate and are counted (tally_stats); avg truncates toward zero.
 * float32: |error| <= N * 2^(E-126) / 2^(31 - ceil(log2 N)) + half an ulp, E the largest exponent in
 * the packet over all ranks; Inf and NaN come back as Inf and NaN. So a sum's bits depend on N and on the
 * elements, of all ranks, that share its packet: by default at most 360 (tally_stats.lanes, which aggregators
 * and MTU make), cut from the vector's begin. They do not depend on order, time, losses, window, slots or shards. Of
 * one rank (N = 1) sum and average are the element itself, bit for bit.
 * TALLY_ERR_ARGUMENT names the argument; TALLY_ERR_UNSUPPORTED names the type or op; TALLY_ERR_MISMATCH:
 * another rank called another operation, the text names it and both calls; TALLY_ERR_REMOTE. */
TALLY_API int tally_allreduce(const void *send, void *recv, size_t count, int dtype, int op,
			      struct tally_comm *comm);

/* The same, without waiting. send and recv are lent until the operation is complete. options may be
 * NULL. On success *work is the caller's until test or wait finds it complete, or tally_work_free.
 * TALLY_ERR_NO_MEMORY, and what tally_allreduce returns. */
TALLY_API int tally_iallreduce(const void *send, void *recv, size_t count, int dtype, int op,
			       struct tally_comm *comm, const struct tally_op_options *options,
			       struct tally_work **work);

/* Several buffers as one operation: one number, one name, one result, and packets that are full although
 * the buffers are small. The sums are those of one vector in which the buffers follow one another, bit for
 * bit. n, the counts and their order must agree on all ranks (else TALLY_ERR_MISMATCH), the places need
 * not; send == recv per buffer is in place, count 0 is allowed, and n == 0. `buffers` is read in this
 * call only. */
struct tally_buffer {
	const void *send;
	void *recv;
	size_t count;
};
TALLY_API int tally_iallreduce_multi(const struct tally_buffer *buffers, size_t n, int dtype,
				     int op, struct tally_comm *comm,
				     const struct tally_op_options *options,
				     struct tally_work **work);

/* Between start and end, this thread's i-calls only gather; end starts them, those of one communicator,
 * dtype, op and stream as one operation (as tally_iallreduce_multi, named after the first that has a name,
 * with the earliest deadline), in the order of their first calls. All ranks must group alike. Every call
 * has its own work handle all the same, whose operation is on its way from end on. May be nested: the
 * outermost end counts. TALLY_ERR_USAGE: calls that would wait inside a group; an end without a start.
 * end returns the first error of those that it starts; their handles complete with it. */
TALLY_API int tally_group_start(void);
TALLY_API int tally_group_end(void);

/* Returns when all ranks have called it. */
TALLY_API int tally_barrier(struct tally_comm *comm);
TALLY_API int tally_ibarrier(struct tally_comm *comm, const struct tally_op_options *options,
			     struct tally_work **work);

/* ---- work handles ---- */

/* tally_test looks without waiting. *done becomes 1 if the operation is complete, else 0. What is found
 * complete is freed and *work set to NULL; the operation's own result is returned. A NULL *work is
 * complete. */
TALLY_API int tally_test(struct tally_work **work, int *done);

/* tally_wait waits at most timeout_ms milliseconds; 0 looks, negative waits for ever. TALLY_IN_PROGRESS:
 * the time ran out, nothing has changed, the buffers stay lent. Else as tally_test. */
TALLY_API int tally_wait(struct tally_work **work, int timeout_ms);

/* Waits for all; those that are complete are freed and set to NULL. The first error in the order of the
 * array, else TALLY_IN_PROGRESS if one is not complete when the time is up. */
TALLY_API int tally_waitall(size_t count, struct tally_work **works, int timeout_ms);

/* Runs once, when the operation is complete, its buffers final and no lock held, on whichever thread
 * happens to drive; keep it short. It may start operations and free `work`; it must not wait, finalize
 * or destroy (TALLY_ERR_USAGE). */
typedef void (*tally_done_fn)(struct tally_work *work, int result, void *arg);

/* One per work. If the operation is complete already, fn runs at once, in this call. TALLY_ERR_USAGE:
 * there is one. Until fn has run, or the handle is freed, the handle stays the caller's. */
TALLY_API int tally_work_on_done(struct tally_work *work, tally_done_fn fn, void *arg);

/* Gives the handle back without waiting: the operation goes on by itself, its buffers stay lent until it
 * is complete (on_done still runs). *work becomes NULL. */
TALLY_API void tally_work_free(struct tally_work **work);

/* ---- what is going on ---- */

struct tally_stats {
	size_t size;              /* set by the caller: sizeof(struct tally_stats) */
	uint64_t operations;      /* complete */
	uint64_t elements;        /* of complete operations */
	uint64_t packets_out;     /* data, first copies */
	uint64_t packets_in;      /* results that were accepted */
	uint64_t packets_resent;  /* data packets sent once more */
	uint64_t results_ignored; /* further copies of results */
	uint64_t probes;          /* "what has become of my packet?" */
	uint64_t exponent_rounds; /* packets without data that agreed on an exponent */
	uint64_t detail_rounds;   /* second packets: Inf, NaN, a large int32; -0.0 of one rank */
	uint64_t chunks_express;  /* packets' worth of data in each stream */
	uint64_t chunks_bulk;
	uint64_t saturated; /* int32 elements of results */
	uint64_t bytes_out; /* UDP payload */
	uint64_t bytes_in;
	uint64_t packets_bad; /* received, but not from this job */
	uint32_t window;      /* packets on their way at most, per shard */
	uint32_t srtt_us;     /* smoothed round-trip time */
	uint32_t lanes;       /* elements per packet */
	uint32_t shards;      /* aggregator threads that share the work */
	uint32_t slots;       /* of each shard */
	uint32_t run;         /* consecutive packets that travel together */
};
#define TALLY_STATS_INIT                                                                          \
	{                                                                                         \
		sizeof(struct tally_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
			0, 0, 0                                                                   \
	}

/* Fills in at most stats->size bytes: a caller built with an older header keeps working. Counted since
 * init. TALLY_ERR_ARGUMENT. */
TALLY_API int tally_comm_get_stats(struct tally_comm *comm, struct tally_stats *stats);

/* Writes what comm looks like from here to fd, as one JSON object and a newline: job, rank, aggregator,
 * members with host and process, state and error, outstanding operations, whom the aggregator waits for,
 * stats. Never waits for a peer; made to be called from another thread when the first one hangs.
 * TALLY_ERR_ARGUMENT; TALLY_ERR_SYSTEM: writing failed, be it that nobody reads (no SIGPIPE is left);
 * TALLY_ERR_NO_MEMORY. */
TALLY_API int tally_comm_dump(struct tally_comm *comm, int fd);

enum tally_log_level {
	TALLY_LOG_ERROR = 1,
	TALLY_LOG_WARN = 2, /* the default: what a user should know */
	TALLY_LOG_INFO = 3,
	TALLY_LOG_DEBUG = 4
};

/* One line without its newline; may come from any thread, and while that thread holds a lock of tally:
 * it must not call tally functions, nor wait for a thread that does. */
typedef void (*tally_log_fn)(int level, const char *line, void *arg);

/* For the whole process, instead of TALLY_LOG (error, warn, info, debug) and stderr. level 0: as it is;
 * fn NULL: stderr. TALLY_ERR_ARGUMENT: no such level. */
TALLY_API int tally_set_log(int level, tally_log_fn fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif
