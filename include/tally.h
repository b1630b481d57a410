/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally.h - sum vectors across workers, in the network. tally.h and tally_kv.h are the whole public API of libtally.
 *
 *     struct tally_comm *comm;
 *     if (tally_comm_init_env(&comm, NULL))
 *             die(tally_get_last_error(NULL));
 *     tally_allreduce(in, out, count, TALLY_FLOAT32, TALLY_SUM, comm);
 *     tally_comm_finalize(comm);
 *     tally_comm_destroy(comm);
 *
 * Every function that returns int returns one of enum tally_result. Outputs are written on success only,
 * unless said otherwise. All functions may be called from any thread. Several threads may call at once, on
 * the same communicator too. The exception is tally_comm_destroy, which must be the last call. Operations
 * are numbered in the order in which the calls enter. All ranks must start the same operations in the same
 * order.
 *
 * These results leave the communicator intact: TALLY_IN_PROGRESS, TALLY_INTERRUPTED, TALLY_ERR_ARGUMENT,
 * TALLY_ERR_UNSUPPORTED, TALLY_ERR_USAGE and TALLY_ERR_RANGE. After any other error it is broken on all
 * ranks. Outstanding operations then complete with the same error, and their receive buffers are undefined.
 * Only abort, destroy and the functions that query something still work. A peer that dies, calls another
 * operation or does not come at the start causes an error that names it. One that lives and does not call is
 * waited for until the deadline, if there is one. None of these gives wrong data.
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

/* 0 to 8 have the meanings of nccl.h. */
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
		107, /* latency mode: an element was too large for the sum; on all ranks, and
	                           the communicator continues */
	TALLY_INTERRUPTED = 108 /* tally_options.interrupted has ended the wait: no error */
};

/* The numbers of nccl.h. */
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
	TALLY_BFLOAT16 = 9,
	/* 10 and 11 are nccl.h's floats of 8 bits, which this version does not have. These are not nccl.h's: */
	TALLY_BOOL = 12,      /* a byte: 0 is false, all else is true; results are 0 and 1 */
	TALLY_COMPLEX64 = 13, /* two float32: the real and the imaginary part */
	TALLY_COMPLEX128 = 14 /* two float64 */
};

/* The first five have the numbers of nccl.h. BAND, BOR and BXOR work on bits. LAND, LOR and LXOR ask whether an element is
 * not 0, and give 0 or 1. All six are for integers and TALLY_BOOL. TALLY_BOOL also has MIN and MAX. Complex numbers have
 * SUM, PROD and AVG. All have USER.
 *
 * MINLOC and MAXLOC: elements come in pairs, a value and its index, of one type, which is no complex number and no truth
 * value. A count is of elements, so it is even. The pair with the least (largest) value is the result, bit for bit; of
 * equal values that with the least index. A pair whose value is NaN is the result of both.
 *
 * USER: tally_op_options.reduce. */
enum tally_op {
	TALLY_SUM = 0,
	TALLY_PROD = 1,
	TALLY_MAX = 2,
	TALLY_MIN = 3,
	TALLY_AVG = 4,
	TALLY_BAND = 5,
	TALLY_BOR = 6,
	TALLY_BXOR = 7,
	TALLY_LAND = 8,
	TALLY_LOR = 9,
	TALLY_LXOR = 10,
	TALLY_MINLOC = 11,
	TALLY_MAXLOC = 12,
	TALLY_USER = 13
};

struct tally_comm; /* a communicator: one rank's membership of one job */
struct tally_work; /* an operation in flight */

/* ---- version and errors ---- */

/* 10000 * major + 100 * minor + patch, of the library that runs. */
TALLY_API int tally_get_version(void);
/* "0.1.0"; static. */
TALLY_API const char *tally_get_version_text(void);

/* What a result means, in a few words; static, never NULL. */
TALLY_API const char *tally_strerror(int result);

/* The last error as one line, with rank, host, operation and its number. If comm is broken: the first cause,
 * which stays valid and unchanged until tally_comm_destroy. Otherwise, and for NULL: the last error that a call
 * of this thread returned, valid until its next call. Never NULL; "" if there was none. */
TALLY_API const char *tally_get_last_error(const struct tally_comm *comm);

/* ---- communicators ---- */

/* Returns whether a wait should end; 0: no. The waiting thread calls it about every 50 ms, with no lock held.
 * It must not wait in tally, and must not destroy. tally_comm_abort is allowed. */
typedef int (*tally_interrupted_fn)(void *ctx);

/* For those operations of a communicator that set none of TALLY_OP_HALF, _EXACT and _STRICT. One at most. All ranks must
 * set the same. */
enum tally_flags {
	TALLY_HALF = 2,  /* sums and averages of float32 as TALLY_OP_HALF */
	TALLY_EXACT = 4, /* sums and averages of floats as TALLY_OP_EXACT */
	TALLY_STRICT = 8 /* sums and averages of float32 as TALLY_OP_STRICT */
};

/* Zero chooses the default of a field, which its comment states. */
struct tally_options {
	size_t size;             /* sizeof(struct tally_options): TALLY_OPTIONS_INIT sets it */
	const char *aggregator;  /* "host:port", "host" (port 7171), "[v6]:port", or up to 16 of
	                           these with commas between, or "local"; NULL: TALLY_AGGREGATOR,
	                           else local if all ranks share a host */
	uint32_t local_size;     /* ranks of this job on this host; 0: as the environment says */
	uint32_t init_timeout_s; /* for all ranks to come; 0: TALLY_INIT_TIMEOUT_S, else 300 */
	uint32_t window_packets; /* in flight, per shard, for large operations, whatever the network
	                            does; 0: TALLY_WINDOW, else less where a queue stands, and the
	                            aggregator's choice at most */
	uint32_t poll_count;     /* polls that yield before a wait blocks; 0: 50 */
	uint32_t flags;          /* enum tally_flags; 0: none */

	/* A caller built with an older header, whose struct ends here, keeps working. */
	uint32_t latency_slots;  /* latency mode: slots of the switch, up to 65536; 0: dense mode */
	uint32_t latency_window; /* latency mode: operations in flight at most; 0: as many as go
	                            without acknowledgements, latency_slots / 2 */
	uint32_t deadline_ms; /* of every operation without its own deadline; 0: TALLY_DEADLINE_S,
	                            else none */
	const char *key;      /* the key in the aggregator's key file; NULL: TALLY_KEY_FILE or
	                            TALLY_KEY, else none */

	/* Added later in 0.1.0. */
	tally_interrupted_fn interrupted; /* NULL: no wait is interrupted. See below */
	void *interrupted_ctx;
};
#define TALLY_OPTIONS_INIT                                                                   \
	{                                                                                    \
		sizeof(struct tally_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL \
	}

/* With `interrupted` a program's signal handlers can end a wait: the handler sets a flag, and the function checks it. (In
 * a Python extension it calls PyErr_CheckSignals, which runs Python's handlers. With ctypes, calling any function runs
 * them: a handler appends to a list, and the function returns its length.) A call that returns TALLY_INTERRUPTED has not
 * failed:
 *   tally_wait, tally_waitall      nothing has changed: wait again at any time. (waitall: earlier ones are complete)
 *   allreduce, barrier, reduce ... the operation is in flight, its buffers stay lent. The same call with the same
 *                                  arguments, by the same thread, waits for it again and returns its result. Until then
 *                                  another blocking operation of this thread there is TALLY_ERR_USAGE
 *   tally_comm_finalize            has not ended: call it again
 *   tally_comm_init, _env, _oob    this rank's attempt is over, as if it had died; *comm is untouched
 * To end the job instead, call tally_comm_abort and tally_comm_destroy; then the buffers are yours. tally_comm_split,
 * tally_comm_destroy and tables of keys are not interrupted. */

/* Latency mode is for allreduces of a few int32 in a training loop. Each fits one packet, they complete in
 * order, and latency_window of them may be in flight. All ranks must set the same options for it. It has sums
 * and averages of int32, and barriers. Anything else, and an operation that does not fit, is
 * TALLY_ERR_UNSUPPORTED. A group becomes as many operations as it needs packets. tally_comm_split takes 4
 * elements per rank, over several operations if necessary. If some |element| is above (2^31 - 1) / ranks, the
 * operation completes on all ranks with TALLY_ERR_RANGE, and its receive buffer is not written. */

/* tally_comm_init joins `job` as `rank` of `size` and waits until all ranks are there. It is collective. On
 * success *comm is the caller's until tally_comm_destroy. job: 1 to 200 bytes, the same on all ranks. While a
 * job of that name runs on the aggregator, others are denied; they wait for a job that is ending. options may
 * be NULL.
 *
 * TALLY_ERR_ARGUMENT
 * TALLY_ERR_UNSUPPORTED  this version cannot do it
 * TALLY_ERR_SYSTEM       the aggregator cannot be reached; the text names address and port
 * TALLY_ERR_TIMEOUT      the text names the missing ranks
 * TALLY_ERR_REMOTE       a rank died meanwhile
 * TALLY_ERR_DENIED, _NO_RESOURCE, _VERSION, _NO_MEMORY
 *
 * The job may break just after this call has succeeded, for example at another rank's first call. Then this
 * rank's first call on *comm returns the error. */
TALLY_API int tally_comm_init(struct tally_comm **comm, const char *job, uint32_t size,
			      uint32_t rank, const struct tally_options *options);

/* The same, with job, size and rank from the launcher's variables. The first complete set counts: TALLY_RANK
 * TALLY_SIZE TALLY_JOB [TALLY_LOCAL_RANK TALLY_LOCAL_SIZE]; torchrun's RANK WORLD_SIZE; Open MPI's
 * OMPI_COMM_WORLD_RANK and _SIZE; Hydra's PMI_RANK PMI_SIZE; srun's SLURM_PROCID SLURM_NTASKS. An incomplete or
 * contradictory set is TALLY_ERR_ARGUMENT, with the names and values that were read. Without TALLY_JOB the job
 * begins 1 s after the last rank has come: another program may have the launcher's name too, which is
 * TALLY_ERR_DENIED. Otherwise as tally_comm_init. tally(7) lists all variables. */
TALLY_API int tally_comm_init_env(struct tally_comm **comm, const struct tally_options *options);

/* Gathers `bytes` bytes from send of each rank, in the order of the ranks, into recv of every rank. Blocks
 * until they are there. Returns 0, or any other number if it failed. As MPI_Allgather. */
typedef int (*tally_allgather_fn)(const void *send, void *recv, size_t bytes, void *ctx);

/* The same, for a program that can already communicate (MPI, a store). Rank 0's job name (TALLY_JOB, else a new
 * one) and aggregator (options, TALLY_AGGREGATOR) count for all. Each such call is a job of its own, also
 * beside others of the same name. If rank 0 has no aggregator: local mode when all ranks are on one host, else
 * TALLY_ERR_ARGUMENT.
 *
 * This call calls allgather twice on all ranks, whatever it returns. If allgather does not return for 5 s, a
 * line at WARN says so. TALLY_ERR_SYSTEM: allgather has failed; the text has its result. If one rank finds an
 * error before the second call, in its arguments or in the first result, all ranks return it, and the text
 * names the rank. The exception: a rank, size or allgather with which it cannot be called at all. If the second
 * call fails on one rank, or returns data that are not the ranks' own, the others return TALLY_ERR_REMOTE: at
 * once if all ranks live, else after 5 s. Otherwise as tally_comm_init. */
TALLY_API int tally_comm_init_oob(struct tally_comm **comm, uint32_t size, uint32_t rank,
				  tally_allgather_fn allgather, void *ctx,
				  const struct tally_options *options);

/* Splits comm. The ranks with the same color >= 0 get a communicator of their own. They are numbered by key,
 * and by their rank in comm if keys are equal. With color < 0, *new_comm becomes NULL, and the result is
 * TALLY_OK. Collective over comm, which does not change, and may be destroyed before its parts. The parts use
 * the same aggregator. In local mode this is the one in rank 0's process. It serves them to their end, but
 * takes no new ones once rank 0 has left all communicators that it is in. options as in tally_comm_init, but
 * `aggregator` and `key` are NULL, and deadline_ms, init_timeout_s and interrupted of 0 are the parent's. */
TALLY_API int tally_comm_split(struct tally_comm *comm, int color, int key,
			       const struct tally_options *options, struct tally_comm **new_comm);

/* 0 for NULL. */
TALLY_API uint32_t tally_comm_rank(const struct tally_comm *comm);
TALLY_API uint32_t tally_comm_size(const struct tally_comm *comm);

/* TALLY_OK, or the error that has broken the communicator. Never waits. */
TALLY_API int tally_comm_get_async_error(struct tally_comm *comm);

/* Waits for this rank's outstanding operations, then leaves the job in an orderly way. The others continue
 * until they need this rank. A rank 0 that hosts the aggregator (local mode) also waits until all others have
 * left. Afterwards only destroy and the functions that query something work. TALLY_ERR_USAGE: it was called
 * twice. */
TALLY_API int tally_comm_finalize(struct tally_comm *comm);

/* Ends the job on all ranks, from any thread, without waiting. Calls that block here return TALLY_ERR_ABORTED;
 * on the other ranks they return TALLY_ERR_REMOTE. It is async-signal-safe: a signal handler may call it, also
 * one that has interrupted a tally function. It returns before the job has ended (the background thread ends
 * it), but the next call of this thread finds it ended. A handler must not use the handle once
 * tally_comm_destroy has been called, nor before init has returned. A second call changes nothing.
 * TALLY_ERR_ARGUMENT (NULL), TALLY_ERR_USAGE (in a forked child), both without a text. */
TALLY_API int tally_comm_abort(struct tally_comm *comm);

/* Frees the communicator, after finalize if that was not called. From then on no other call may use it or its
 * work handles; remaining work handles are freed with it. NULL is fine. If an open group has gathered an
 * operation of it, nothing is freed, and the log says so. */
TALLY_API void tally_comm_destroy(struct tally_comm *comm);

/* ---- operations ---- */

/* The stream decides behind which operations an operation may have to wait. All ranks must choose the same. */
enum tally_stream {
	TALLY_STREAM_AUTO = 0,    /* by size: up to 64 packets express, else bulk */
	TALLY_STREAM_EXPRESS = 1, /* never waits behind a large operation */
	TALLY_STREAM_BULK = 2
};

enum tally_op_flags {
	/* Another operation of this communicator follows at once: their packets leave together. This is a hint:
	 * ranks need not agree. If no operation follows, the packets leave with the next call that tests or
	 * waits, or by themselves after 100 us. */
	TALLY_OP_MORE = 1,
	/* Ranks must agree on the following, of which an operation has one at most. A sum or average of float32 in 16 bits: two elements travel in the room of
	 * one, with the bound of float16. Up to 16 ranks; more ranks, and all else, are TALLY_ERR_UNSUPPORTED. */
	TALLY_OP_HALF = 2,
	/* A sum or average of floats is exact at any size, rounded once. An element of float32 takes 10 lanes with up
	 * to 8 ranks: ten times the bytes. Products are as they are; all else is exact anyway. */
	TALLY_OP_EXACT = 4,
	/* The exponents of a sum of float32 are agreed upon, and never guessed from what the job has summed before:
	 * the same inputs give the same bits at any time. It costs a second round trip where calls wait for each
	 * other. All other sums are as without it. */
	TALLY_OP_STRICT = 8
};

/* An operation of the program's own: inout[i] = in[i] op inout[i] for `count` elements; of pairs or the like of the
 * program's, for all that they hold. `in` is rank r's vector, and inout the result of the ranks behind r: it is called for
 * r = size - 2, ..., 0 (MPI_User_function's order). It runs on each rank, in any thread, with no lock of tally's held. It
 * must do the same on all ranks. It must not wait in tally, and must not destroy. While it runs, the thread that waits
 * and calls it does nothing else; if none waits, all other such functions wait for it. No deadline ends it. */
typedef void (*tally_reduce_fn)(const void *in, void *inout, size_t count, int dtype, void *ctx);

struct tally_op_options {
	size_t size;          /* sizeof(struct tally_op_options): TALLY_OP_OPTIONS_INIT sets it */
	const char *name;     /* must agree on all ranks, shown in errors; up to 63 bytes; copied */
	int stream;           /* enum tally_stream */
	uint32_t deadline_ms; /* from this call on; 0: the communicator's (tally_options) */
	uint32_t flags;       /* enum tally_op_flags; 0: none */

	/* A caller built with an older header, whose struct ends here, keeps working. */

	/* gather, allgather, scatter, reduce_scatter: elements of each rank's part, equal on all ranks; read in the
	 * call only. NULL: all parts are of the call's count, else that is counts[this rank].
	 * alltoall: size * size of them: counts[i * size + j] go from rank i to rank j. The call's count is the sum of
	 * this rank's row. (Ranks that know their own rows alone call tally_allgather first.) */
	const size_t *counts;
	/* And where they begin in the memory that has all parts, for this rank alone; NULL: in order, without gaps.
	 * alltoall: 2 * size of them: first where parts for each rank begin in send, then those from each in recv. */
	const size_t *displs;

	/* A caller whose struct ends here keeps working, too. */
	tally_reduce_fn reduce; /* with TALLY_USER alone */
	void *reduce_ctx;
	/* Error feedback, for sums and averages of float32 by an allreduce; NULL: none. residual[i] becomes the part of this
	 * rank's element i that rounding has kept out of the sum; 0 if the element is not finite. Add it to element i of the
	 * next sum, and nothing is lost. residual has as many elements as all buffers together, is aligned as they are, and
	 * overlaps none of them. It is lent until the operation is complete. Ranks need not agree. Not in a group. */
	float *residual;

	/* A caller whose struct ends here keeps working, too. */

	/* A fixed scale, for sums and averages of float32; 0: none. All ranks must give the same. It is rounded down to a power
	 * of two. Elements are sent as multiples of 1/scale. No exponent is agreed first, so small calls take one round trip.
	 * With N ranks, elements must be below 2^31 / N' / scale; N' is N, rounded up to a power of two. `tally bench profile`
	 * suggests a scale. A larger element counts as infinite, and all elements of the result that are not finite are
	 * counted (tally_stats.saturated). A sum that fits one packet is exact, whatever the scale. */
	double scale;
};
#define TALLY_OP_OPTIONS_INIT                                                                     \
	{                                                                                         \
		sizeof(struct tally_op_options), NULL, TALLY_STREAM_AUTO, 0, 0, NULL, NULL, NULL, \
			NULL, NULL, 0                                                             \
	}

/* A deadline that passes ends the operation, and the communicator, on ALL ranks with TALLY_ERR_TIMEOUT. The
 * text names the ranks that have not called it, their hosts, and since when it waits. The timeout of tally_wait
 * is different: it ends nothing. */

/* tally_allreduce sums (or averages) count elements over all ranks: recv[i] becomes the sum of every rank's
 * send[i], with the same bits on all ranks. Blocks until recv is final. send == recv is in place; any other
 * overlap is an error. Both are aligned to an element's size. count 0 is allowed, with any pointers; it is an
 * operation like any other. Source buffers of one operation must not overlap receive buffers of another that is
 * still in flight.
 *
 * Integers are exact. Sums that do not fit the type saturate and are counted (tally_stats; in latency mode an
 * element that is too large is TALLY_ERR_RANGE); avg truncates toward zero. min and max of floats: a NaN of any
 * rank is the result, and -0 is less than +0.
 *
 * prod, min and max of 64 bits, and the operations on bits and truth values are not summed on the way: each rank gathers
 * what all ranks bring, and works the result out. So they take N times the bytes, and as much memory until they are
 * complete. A line at INFO says so once; tally_stats.gathered counts them. A product of integers is modulo 2^bits. One of
 * floats is worked out as float64, in the order of the ranks, and rounded to its type once.
 *
 * Sums of floats that fit one packet are exact, rounded once: with 360 lanes and 2 to 8 ranks up to 36 elements of
 * float32 or bfloat16, 180 of float16, 4 of float64. Others, with E the largest exponent (as float32 or
 * float64 has it) in the packet over all ranks, N ranks and c = ceil(log2 N):
 *
 *   float32            |error| <= N * 2^(E-126) / 2^(31 - c) + half an ulp with TALLY_OP_STRICT, or above 64 ranks;
 *                      else E counts as up to 3 more, where a guess was taken
 *   float16, bfloat16  |error| <= N * 2^(E-126) / 2^(15 - c) + half an ulp while two fit a lane (float16: N <= 16,
 *                      bfloat16: N <= 128), else as float32
 *   float64            |error| <= N * 2^-55 of the packet's largest element + half an ulp
 *
 * Inf and NaN come back as Inf and NaN. A sum that is too large for its type is Inf, and a sum of zeros is +0. What
 * counts is the operation: several buffers, or all calls of a group that become one, have to fit the packet
 * together. The bits of a sum depend on N and on the elements, of all ranks, in its packet. A packet has at most
 * 360 lanes by default (tally_stats.lanes; the aggregators and the MTU decide), and is
 * cut from the vector's beginning. A lane has an element of 8 or 32 bits, or two of 16; an element of 64 bits
 * takes 2 to 5 lanes. The bits do not depend on order, time, losses, window, slots or shards; but those of float32 depend on guesses: on what
 * the communicator has summed before, and when it was called. TALLY_OP_STRICT excludes that. With one rank
 * (N = 1) the result is the element itself, bit for bit, but for truth values.
 *
 * In local mode ranks share memory, unless TALLY_LOCAL (tally(7)) says otherwise. There sums and averages of float32 and
 * float64 are worked out in float64, in the order of the ranks, and rounded once, whatever their size; with TALLY_OP_EXACT
 * or a scale they are as above, as all other types are. TALLY_SAME_BITS=1 makes all of them as above.
 *
 * TALLY_ERR_ARGUMENT names the argument; TALLY_ERR_UNSUPPORTED names the type or op. TALLY_ERR_MISMATCH:
 * another rank called another operation; the text names it and both calls. TALLY_ERR_REMOTE. */
TALLY_API int tally_allreduce(const void *send, void *recv, size_t count, int dtype, int op,
			      struct tally_comm *comm);

/* The same, without waiting. send and recv are lent until the operation is complete. options may be NULL. On
 * success *work is the caller's until test or wait finds it complete, or tally_work_free. TALLY_ERR_NO_MEMORY,
 * and the errors of tally_allreduce. */
TALLY_API int tally_iallreduce(const void *send, void *recv, size_t count, int dtype, int op,
			       struct tally_comm *comm, const struct tally_op_options *options,
			       struct tally_work **work);

/* Several buffers as one operation: one number, one name, one result, and full packets even if the buffers are
 * small. The sums are those of one vector in which the buffers follow one another, bit for bit (of float32 with
 * TALLY_OP_STRICT). n, the counts
 * and their order must agree on all ranks (else TALLY_ERR_MISMATCH); the addresses need not. send == recv per
 * buffer is in place. count 0 is allowed, and so is n == 0. `buffers` is read in this call only. */
struct tally_buffer {
	const void *send;
	void *recv;
	size_t count;
};
TALLY_API int tally_iallreduce_multi(const struct tally_buffer *buffers, size_t n, int dtype,
				     int op, struct tally_comm *comm,
				     const struct tally_op_options *options,
				     struct tally_work **work);

/* Between start and end, this thread's i-calls are only gathered; end starts them. Calls of one communicator,
 * dtype, op and stream become one operation, as tally_iallreduce_multi. It is named after the first call that
 * has a name, and has the earliest deadline. Operations start in the order of their first calls. All ranks must
 * group in the same way. Every call still has its own work handle, whose operation is in flight from end on.
 * Groups may be nested: the outermost end counts. TALLY_ERR_USAGE: calls that would wait inside a group; an end
 * without a start. end returns the first error of the operations that it starts; their handles complete with
 * it. */
TALLY_API int tally_group_start(void);
TALLY_API int tally_group_end(void);

/* ---- other collectives ----
 *
 * As tally_allreduce and tally_iallreduce: blocking and not, in groups (each call is its own operation there), with
 * names, deadlines and streams, and with the same errors. All ranks give the same count, dtype, op and root (else
 * TALLY_ERR_MISMATCH). count is the elements of one rank's part. Sums are those of tally_allreduce, with its bounds. The
 * others bring every type's bytes as they are. What a rank does not need may be NULL: send of a broadcast or scatter
 * but at the root, recv of a reduce or gather but at the root. In latency mode they are TALLY_ERR_UNSUPPORTED. */

/* recv[i] of the root becomes the sum (average, maximum, minimum) of all ranks' send[i], count of them. In place:
 * send == recv at the root. */
TALLY_API int tally_reduce(const void *send, void *recv, size_t count, int dtype, int op,
			   uint32_t root, struct tally_comm *comm);
TALLY_API int tally_ireduce(const void *send, void *recv, size_t count, int dtype, int op,
			    uint32_t root, struct tally_comm *comm,
			    const struct tally_op_options *options, struct tally_work **work);

/* recv[i] of all ranks becomes the root's send[i]. In place: send == recv at the root, which is then read alone: other
 * operations may read it meanwhile. */
TALLY_API int tally_broadcast(const void *send, void *recv, size_t count, int dtype, uint32_t root,
			      struct tally_comm *comm);
TALLY_API int tally_ibroadcast(const void *send, void *recv, size_t count, int dtype, uint32_t root,
			       struct tally_comm *comm, const struct tally_op_options *options,
			       struct tally_work **work);

/* recv of all ranks becomes rank 0's send, then rank 1's, and so on: count elements of each. In place:
 * send == recv + rank * count elements. */
TALLY_API int tally_allgather(const void *send, void *recv, size_t count, int dtype,
			      struct tally_comm *comm);
TALLY_API int tally_iallgather(const void *send, void *recv, size_t count, int dtype,
			       struct tally_comm *comm, const struct tally_op_options *options,
			       struct tally_work **work);

/* send has a part of count elements for each rank. recv becomes the sum of all ranks' parts for this rank. In place:
 * recv == send + rank * count elements; the rest of send stays as it is. */
TALLY_API int tally_reduce_scatter(const void *send, void *recv, size_t count, int dtype, int op,
				   struct tally_comm *comm);
TALLY_API int tally_ireduce_scatter(const void *send, void *recv, size_t count, int dtype, int op,
				    struct tally_comm *comm, const struct tally_op_options *options,
				    struct tally_work **work);

/* As tally_allgather, for the root alone. In place at the root as there. */
TALLY_API int tally_gather(const void *send, void *recv, size_t count, int dtype, uint32_t root,
			   struct tally_comm *comm);
TALLY_API int tally_igather(const void *send, void *recv, size_t count, int dtype, uint32_t root,
			    struct tally_comm *comm, const struct tally_op_options *options,
			    struct tally_work **work);

/* The root's send has a part of count elements for each rank; recv becomes this rank's. In place at the root:
 * recv == send + rank * count elements. */
TALLY_API int tally_scatter(const void *send, void *recv, size_t count, int dtype, uint32_t root,
			    struct tally_comm *comm);
TALLY_API int tally_iscatter(const void *send, void *recv, size_t count, int dtype, uint32_t root,
			     struct tally_comm *comm, const struct tally_op_options *options,
			     struct tally_work **work);

/* send has a part of count elements for each rank. recv becomes rank 0's part for this rank, then rank 1's, and so on.
 * Not in place. */
TALLY_API int tally_alltoall(const void *send, void *recv, size_t count, int dtype,
			     struct tally_comm *comm);
TALLY_API int tally_ialltoall(const void *send, void *recv, size_t count, int dtype,
			      struct tally_comm *comm, const struct tally_op_options *options,
			      struct tally_work **work);

/* ---- from one rank to another ----
 *
 * What a rank sends to another is received in the order in which it was sent, with the same count and dtype (else
 * TALLY_ERR_MISMATCH for both). A send is complete when the other rank has received it: two ranks that first send and
 * then receive wait for each other, and use the i-calls. Each direction between two ranks is a job of its own at the
 * aggregator, PARENT/FROM-TO, whose rank 0 sends. The first call opens it. So this is for ranks with few partners: an
 * aggregator has room for so many jobs (tallyd --jobs-max and --share; 64 in local mode), and tally_alltoall needs
 * none. A pair that breaks breaks nothing else; a communicator that breaks breaks its pairs.
 * A rank whose partner has not called its side waits for it: after 30 s it says so at WARN, and after an hour (or
 * init_timeout_s, if that is more) the pair ends with TALLY_ERR_TIMEOUT, as it does after deadline_ms, and
 * init_timeout_s after tally_comm_finalize has begun. If the partner has finalized the communicator without calling
 * its side, the pair ends with TALLY_ERR_REMOTE, at once or within a second. tally_comm_finalize waits for all sends
 * and receives, leaves even if a pair has broken, and then returns that pair's error. tally_comm_get_stats counts them
 * too. options: name, deadline_ms, stream. In latency mode they are TALLY_ERR_UNSUPPORTED. */
TALLY_API int tally_send(const void *send, size_t count, int dtype, uint32_t to,
			 struct tally_comm *comm);
TALLY_API int tally_recv(void *recv, size_t count, int dtype, uint32_t from,
			 struct tally_comm *comm);
TALLY_API int tally_isend(const void *send, size_t count, int dtype, uint32_t to,
			  struct tally_comm *comm, const struct tally_op_options *options,
			  struct tally_work **work);
TALLY_API int tally_irecv(void *recv, size_t count, int dtype, uint32_t from,
			  struct tally_comm *comm, const struct tally_op_options *options,
			  struct tally_work **work);

/* Returns when all ranks have called it. */
TALLY_API int tally_barrier(struct tally_comm *comm);
TALLY_API int tally_ibarrier(struct tally_comm *comm, const struct tally_op_options *options,
			     struct tally_work **work);

/* ---- work handles ---- */

/* tally_test does not wait. *done becomes 1 if the operation is complete, else 0. If it is complete, its handle
 * is freed, *work becomes NULL, and the operation's own result is returned. A NULL *work is complete. */
TALLY_API int tally_test(struct tally_work **work, int *done);

/* tally_wait waits at most timeout_ms milliseconds; 0 only tests, negative waits for ever. TALLY_IN_PROGRESS:
 * the time ran out, nothing has changed, the buffers stay lent. Otherwise as tally_test. */
TALLY_API int tally_wait(struct tally_work **work, int timeout_ms);

/* Waits for all; those that are complete are freed and set to NULL. Returns the first error in the order of the
 * array, or else TALLY_IN_PROGRESS if one is not complete when the time is up. */
TALLY_API int tally_waitall(size_t count, struct tally_work **works, int timeout_ms);

/* Runs once, when the operation is complete, its buffers are final and no lock is held. It runs on the thread
 * that drives at that moment, so keep it short; or, where nobody waits, on a thread that calls all such functions, one
 * after the other. It may start operations and free `work`. It must not wait, finalize or destroy (TALLY_ERR_USAGE). */
typedef void (*tally_done_fn)(struct tally_work *work, int result, void *arg);

/* Sets the callback; a work has at most one. If the operation is complete already, fn runs at once, in this
 * call. TALLY_ERR_USAGE: there is one already. Until fn has run, or the handle is freed, the handle stays the
 * caller's. */
TALLY_API int tally_work_on_done(struct tally_work *work, tally_done_fn fn, void *arg);

/* Gives the handle back without waiting. The operation continues by itself, and its buffers stay lent until it
 * is complete (on_done still runs). *work becomes NULL. */
TALLY_API void tally_work_free(struct tally_work **work);

/* ---- state and statistics ---- */

struct tally_stats {
	size_t size;              /* set by the caller: sizeof(struct tally_stats) */
	uint64_t operations;      /* complete */
	uint64_t elements;        /* of complete operations */
	uint64_t packets_out;     /* data, first copies */
	uint64_t packets_in;      /* accepted results */
	uint64_t packets_resent;  /* data packets sent again */
	uint64_t results_ignored; /* duplicates of results, mostly: what nobody waits for */
	uint64_t probes;          /* "what has become of my packet?" */
	uint64_t exponent_rounds; /* packets without data that agreed on an exponent */
	uint64_t detail_rounds;   /* second packets: Inf, NaN, a large int32 or uint32 */
	uint64_t chunks_express;  /* chunks (packets of data) per stream */
	uint64_t chunks_bulk;
	/* Elements of results that did not fit: integers that have left their type, and what is not finite with a fixed
	 * scale. Of a packet of which this rank stores any element, all count. */
	uint64_t saturated;
	uint64_t bytes_out; /* UDP payload */
	uint64_t bytes_in;
	uint64_t packets_bad; /* received, but not from this job */
	uint32_t
		window; /* packets of a large operation in flight at most, of the first shard, now */
	uint32_t srtt_us; /* smoothed round-trip time */
	uint32_t lanes;   /* of a packet: 32 bits each */
	uint32_t shards;  /* aggregator threads that share the work */
	uint32_t slots;   /* of each shard */
	uint32_t run;     /* consecutive packets that travel together */
	uint64_t
		gathered; /* complete operations that each rank has worked out by itself: prod, bits, ... */
	uint64_t guess_rounds; /* packets of float32 whose exponent was guessed */
	uint64_t
		guesses_again; /* of them, those that had to be sent again: the guess was not good enough */
	uint64_t window_yields; /* times that a window became smaller for a queue, */
	uint64_t window_losses; /* for packets that a full queue had no room for, */
	uint64_t
		window_presses; /* and that it no longer yielded, because others filled the queue */
	uint64_t shared;        /* complete operations in memory that the ranks of a host share */
};
#define TALLY_STATS_INIT                                                                          \
	{                                                                                         \
		sizeof(struct tally_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
			0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                              \
	}

/* Fills in at most stats->size bytes: a caller built with an older header keeps working. Counted since
 * init. TALLY_ERR_ARGUMENT. */
TALLY_API int tally_comm_get_stats(struct tally_comm *comm, struct tally_stats *stats);

/* Writes the state of comm on this rank to fd, as one JSON object and a newline: job, rank, aggregator, members
 * with host and process, state and error, outstanding operations, ranks that the aggregator waits for, stats; and
 * the same of its pairs (tally_send).
 * It never waits for a peer, so another thread can call it when the first one hangs. TALLY_ERR_ARGUMENT;
 * TALLY_ERR_SYSTEM: writing failed, for example because nobody reads (without a SIGPIPE);
 * TALLY_ERR_NO_MEMORY. */
TALLY_API int tally_comm_dump(struct tally_comm *comm, int fd);

enum tally_log_level {
	TALLY_LOG_ERROR = 1,
	TALLY_LOG_WARN = 2, /* the default: problems that a user should know of */
	TALLY_LOG_INFO = 3,
	TALLY_LOG_DEBUG = 4
};

/* Gets one line without its newline. It may be called from any thread, also while that thread holds a lock of
 * tally: so it must not call tally functions, nor wait for a thread that does. */
typedef void (*tally_log_fn)(int level, const char *line, void *arg);

/* Sets the log for the whole process, instead of TALLY_LOG (error, warn, info, debug) and stderr. level 0:
 * unchanged; fn NULL: stderr. TALLY_ERR_ARGUMENT: no such level. */
TALLY_API int tally_set_log(int level, tally_log_fn fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif
