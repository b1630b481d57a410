/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_collective.c - what tally bench times: allreduce, and its kin with rank 0 as root. The vector of an operation is
 * cut into a part for each rank where there are parts; what is left over is left out. In a send each rank sends all to
 * the next one.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"

const char *const bench_kinds[] = { "allreduce",      "reduce", "broadcast", "allgather",
				    "reduce_scatter", "gather", "scatter",   "alltoall",
				    "send",           NULL };

static size_t part_of(enum bench_kind kind, const struct data_op *op)
{
	return kind <= BENCH_BROADCAST || kind == BENCH_SEND ? op->count : op->count / op->ranks;
}

int collective_run(enum bench_kind kind, const struct data_op *op, const void *send, void *recv,
		   struct tally_comm *comm)
{
	int sum = op->is_avg ? TALLY_AVG : TALLY_SUM;
	size_t part = part_of(kind, op);

	if (op->scale > 0 ||
	    kind == BENCH_SEND) { /* only the calls that do not wait have options */
		struct tally_work *works[COLLECTIVE_WORKS];
		int result = collective_start(kind, op, send, recv, comm, works);
		int end = tally_waitall(COLLECTIVE_WORKS, works, -1);

		return result ? result : end;
	}
	switch (kind) {
	case BENCH_REDUCE:
		return tally_reduce(send, recv, part, op->dtype, sum, 0, comm);
	case BENCH_BROADCAST:
		return tally_broadcast(send, recv, part, op->dtype, 0, comm);
	case BENCH_ALLGATHER:
		return tally_allgather(send, recv, part, op->dtype, comm);
	case BENCH_REDUCE_SCATTER:
		return tally_reduce_scatter(send, recv, part, op->dtype, sum, comm);
	case BENCH_GATHER:
		return tally_gather(send, recv, part, op->dtype, 0, comm);
	case BENCH_SCATTER:
		return tally_scatter(send, recv, part, op->dtype, 0, comm);
	case BENCH_ALLTOALL:
		return tally_alltoall(send, recv, part, op->dtype, comm);
	case BENCH_SEND: /* started, see above */
	case BENCH_ALLREDUCE:
		break;
	}
	return tally_allreduce(send, recv, part, op->dtype, sum, comm);
}

static int send_start(const struct data_op *op, const void *send, void *recv,
		      struct tally_comm *comm, struct tally_work **works)
{
	uint32_t rank = tally_comm_rank(comm), next = (rank + 1) % op->ranks;
	int result = tally_isend(send, op->count, op->dtype, next, comm, NULL, works);

	return result ? result
		      : tally_irecv(recv, op->count, op->dtype, (rank + op->ranks - 1) % op->ranks,
				    comm, NULL, &works[1]);
}

int collective_start(enum bench_kind kind, const struct data_op *op, const void *send, void *recv,
		     struct tally_comm *comm, struct tally_work *works[COLLECTIVE_WORKS])
{
	int sum = op->is_avg ? TALLY_AVG : TALLY_SUM;
	size_t part = part_of(kind, op);
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	const struct tally_op_options *asked = op->scale != 0 ? &options : NULL;

	options.scale = op->scale;
	memset(works, 0, COLLECTIVE_WORKS * sizeof(works[0]));
	switch (kind) {
	case BENCH_REDUCE:
		return tally_ireduce(send, recv, part, op->dtype, sum, 0, comm, asked, works);
	case BENCH_BROADCAST:
		return tally_ibroadcast(send, recv, part, op->dtype, 0, comm, NULL, works);
	case BENCH_ALLGATHER:
		return tally_iallgather(send, recv, part, op->dtype, comm, NULL, works);
	case BENCH_REDUCE_SCATTER:
		return tally_ireduce_scatter(send, recv, part, op->dtype, sum, comm, asked, works);
	case BENCH_GATHER:
		return tally_igather(send, recv, part, op->dtype, 0, comm, NULL, works);
	case BENCH_SCATTER:
		return tally_iscatter(send, recv, part, op->dtype, 0, comm, NULL, works);
	case BENCH_ALLTOALL:
		return tally_ialltoall(send, recv, part, op->dtype, comm, NULL, works);
	case BENCH_SEND:
		return send_start(op, send, recv, comm, works);
	case BENCH_ALLREDUCE:
		break;
	}
	return tally_iallreduce(send, recv, part, op->dtype, sum, comm, asked, works);
}

/* ---- verification ---- */

/* Elements of `result`, which are those from `first` on, that are not those of `wanted`. */
static void compare(const struct data_op *op, const uint8_t *result, const uint8_t *wanted,
		    size_t first, size_t count, struct data_verdict *verdict)
{
	size_t bytes = data_bytes(op->dtype);

	for (size_t i = 0; i < count; i++) {
		if (!memcmp(result + i * bytes, wanted + i * bytes, bytes))
			continue;
		if (verdict->wrong++)
			continue;
		size_t b = i * bytes; /* the first byte that differs */

		while (result[b] == wanted[b])
			b++;
		verdict->index = first + i;
		verdict->got = result[b];
		verdict->want = wanted[b];
	}
}

/* What was brought as it was: the data of the ranks that had it are made again. */
static bool brought_verify(enum bench_kind kind, const struct data_op *op, uint32_t rank,
			   const uint8_t *result, struct data_verdict *verdict)
{
	size_t part = part_of(kind, op), bytes = data_bytes(op->dtype);
	bool has_one = kind == BENCH_BROADCAST || kind == BENCH_SCATTER || kind == BENCH_SEND;
	size_t from = kind == BENCH_SCATTER || kind == BENCH_ALLTOALL ? rank * part : 0;
	uint8_t *data;

	if (kind == BENCH_GATHER && rank)
		return true;
	data = malloc(op->count * bytes + 1);
	for (uint32_t r = 0; data && r < (has_one ? 1 : op->ranks); r++) {
		data_fill(op, kind == BENCH_SEND ? (rank + op->ranks - 1) % op->ranks : r, data);
		compare(op, result + r * part * bytes, data + from * bytes, r * part, part,
			verdict);
	}
	free(data);
	return data;
}

/* The parts of a sum are put together, for a packet's largest element may be in another part. */
static bool parts_verify(const struct data_op *op, uint32_t lanes, const void *result,
			 struct tally_comm *comm, struct data_verdict *verdict)
{
	size_t part = part_of(BENCH_REDUCE_SCATTER, op);
	struct data_op whole = *op;
	void *all = malloc(op->count * data_bytes(op->dtype) + 1);
	bool is_good;

	whole.count = part * op->ranks;
	is_good = all && !tally_allgather(result, all, part, op->dtype, comm) &&
		  data_verify(&whole, lanes, all, verdict);
	free(all);
	return is_good;
}

bool collective_verify(enum bench_kind kind, const struct data_op *op, uint32_t lanes,
		       const void *result, struct tally_comm *comm, struct data_verdict *verdict)
{
	uint32_t rank = tally_comm_rank(comm);

	*verdict = (struct data_verdict){ 0 };
	if (kind == BENCH_REDUCE_SCATTER)
		return parts_verify(op, lanes, result, comm, verdict);
	if (kind == BENCH_ALLREDUCE || (kind == BENCH_REDUCE && !rank)) {
		bool is_good = data_verify(op, lanes, result, verdict);

		if (kind == BENCH_REDUCE)
			verdict->digest = 0; /* nobody else has it */
		return is_good;
	}
	return kind == BENCH_REDUCE || brought_verify(kind, op, rank, result, verdict);
}
