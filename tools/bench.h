/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - tally bench, inside: what was asked for, what was measured, how it is shown. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tally.h"
#include "tools/bench_data.h"
#include "util/machine.h"

enum { BENCH_SIZES_MAX = 256, BENCH_DTYPES_MAX = 10 };

enum bench_kind {
	BENCH_ALLREDUCE,
	BENCH_REDUCE,
	BENCH_BROADCAST,
	BENCH_ALLGATHER,
	BENCH_REDUCE_SCATTER,
	BENCH_GATHER,
	BENCH_SCATTER,
	BENCH_ALLTOALL,
	BENCH_SEND, /* each rank to the next one */
};
extern const char *const bench_kinds[]; /* their names, then NULL */
extern const char *const bench_wires[]; /* the same, of enum data_wire */

struct bench_options {
	enum bench_kind kind;
	uint64_t elements[BENCH_SIZES_MAX];
	uint32_t sizes;
	uint64_t random_count, random_min, random_max; /* instead, if random_count */
	int dtypes[BENCH_DTYPES_MAX];
	uint32_t dtypes_count;
	bool is_avg;
	uint64_t iters, warmup; /* UINT64_MAX: by size */
	uint64_t inflight;
	uint64_t window;
	uint64_t latency_slots, latency_window; /* latency mode, unless latency_slots is 0 */
	double scale;                           /* 0: none */
	uint32_t wire;                          /* enum data_wire */
	bool is_checked;
	bool is_json;
	bool is_in_place;
	bool has_seed;
	uint64_t seed;
	pid_t watched[MACHINE_WATCHED_MAX];
	uint32_t watched_count;
};

/* Exit status, or -1: go on. */
int bench_parse(struct bench_options *options, int argc, char **argv);
/* --watch. NULL, or what is wrong. */
const char *bench_watch(struct bench_options *options, const char *text);

/* bench_profile.c: tally bench profile. Exit status. */
int profile_main(int argc, char **argv);
/* bench_replay.c: tally bench replay, the same. */
int replay_main(int argc, char **argv);

/* What one rank counts while one row is measured; every field travels to rank 0 as a number. */
struct bench_count {
	uint64_t median_ns, p99_ns, p1_ns, min_ns; /* of one operation, from call to result */
	uint64_t timed_ns;                         /* all that was timed */
	uint64_t operations, elements;             /* timed */
	uint64_t cpu_us;
	uint64_t busy_ns, stolen_ns, watched_ns; /* rank 0's machine, while timed */
	uint64_t packets_resent, probes, exponent_rounds, guess_rounds, guesses_again;
	uint64_t detail_rounds, bytes_out;
	uint64_t operations_checked, elements_wrong;
	uint64_t digest;
};
enum {
	BENCH_COUNT_FIELDS = sizeof(struct bench_count) / sizeof(uint64_t),
	BENCH_COUNT_TIMES =
		offsetof(struct bench_count, operations) / sizeof(uint64_t), /* come first */
};

/* A row of the table: counts over all ranks, times of the slowest. */
struct bench_row {
	uint64_t count; /* elements of one operation */
	int dtype;
	bool is_random;               /* of many sizes */
	uint64_t operations_expected; /* to be checked, on each rank */
	struct bench_count all;
	bool is_same; /* bits, on all ranks */
	bool is_verified;
	uint64_t wall_ns; /* random: with making and checking the data */
};

struct bench_report {
	const struct bench_options *options;
	uint32_t ranks;
	struct tally_stats stats;
	bool has_progress;
	int64_t progress_ms; /* when it was last drawn */
};

/* These print on rank 0 alone. */
void report_open(struct bench_report *report);
void report_row(struct bench_report *report, const struct bench_row *row);
void report_progress(struct bench_report *report, const char *what, uint64_t count, double done);
void report_progress_end(struct bench_report *report);

const char *bench_dtype_name(int dtype);

/* bench_collective.c: the operation, waited for or not (works: those that are not NULL are to be waited for, whatever the
 * result); and whether what came is right, which all ranks ask alike. False: no memory, or its own operation failed. */
enum { COLLECTIVE_WORKS = 2 };
int collective_run(enum bench_kind kind, const struct data_op *op, const void *send, void *recv,
		   struct tally_comm *comm);
int collective_start(enum bench_kind kind, const struct data_op *op, const void *send, void *recv,
		     struct tally_comm *comm, struct tally_work *works[COLLECTIVE_WORKS]);
bool collective_verify(enum bench_kind kind, const struct data_op *op, uint32_t lanes,
		       const void *result, struct tally_comm *comm, struct data_verdict *verdict);

#endif
