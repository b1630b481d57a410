/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair.c - send and receive, R-CT-58. What rank i sends to rank j has a communicator of the two, in which each send is
 * an operation that both call. So it has an order, a name and a deadline, and calls that differ are found. Each
 * direction has its own, in which both call in the same order, whatever they do in the other. The first call of either
 * rank opens it and does not wait for the other: operations are held until both are there.
 */
#include <stdio.h>

#include "lib/operation.h"

enum {
	SUFFIX_BYTES = 32,
	PATIENCE_S = 3600, /* for the other rank */
};

/* A direction: what this rank sends to another, or receives from it. */
struct way {
	const char *call;
	bool is_out;
	uint32_t peer;
};

/* Lock held. NULL: none yet. */
static struct tally_comm *find(const struct tally_comm *comm, const struct way *way)
{
	struct tally_comm *pair = comm->pairs;

	while (pair && (pair->peer != way->peer || (pair->who.rank == 0) != way->is_out))
		pair = pair->next_pair;
	return pair;
}

static int open_one(struct tally_comm *comm, const struct way *way, struct tally_comm **out)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	uint32_t self = comm->who.rank;
	char suffix[SUFFIX_BYTES];
	struct bootstrap boot;
	int result;

	snprintf(suffix, sizeof(suffix), "/%u-%u", way->is_out ? self : way->peer,
		 way->is_out ? way->peer : self);
	part_boot(&boot, comm, way->call, way->is_out ? 0 : 1, 2, suffix);
	if (boot.init_timeout_s < PATIENCE_S) /* a rank may send at any time */
		boot.init_timeout_s = PATIENCE_S;
	options.poll_count = comm->poll_count;
	options.interrupted = comm->interrupted;
	options.interrupted_ctx = comm->interrupted_ctx;
	result = comm_open_pair(out, &boot, &options, comm);
	if (!result)
		(*out)->peer = way->peer;
	return result;
}

/* What broke the communicator before this has not broken the pair. */
static void link_one(struct tally_comm *comm, struct tally_comm *pair)
{
	int error;

	comm_lock(comm);
	pair->next_pair = comm->pairs;
	comm->pairs = pair;
	error = atomic_load(&comm->error);
	if (error)
		comm_break_pair(pair, error, comm->error_text);
	comm_unlock(comm);
}

/* Finds it, or opens it; TALLY_OK, or said. */
static int pair_get(struct tally_comm *comm, const struct way *way, struct tally_comm **out)
{
	int result;

	pthread_mutex_lock(&comm->pairs_lock);
	comm_lock(comm);
	result = operation_may_start(comm, way->call);
	if (!result && comm->is_closing)
		result = report_error(&comm->who, TALLY_ERR_USAGE, "%s after tally_comm_finalize",
				      way->call);
	*out = find(comm, way);
	comm_unlock(comm);
	if (!result && !*out) {
		result = open_one(comm, way, out);
		if (!result)
			link_one(comm, *out);
	}
	pthread_mutex_unlock(&comm->pairs_lock);
	return result;
}

/* What is wrong with a call opens nothing. */
static int pair_of(struct tally_comm *comm, const struct way *way, const struct request *request,
		   struct tally_comm **out)
{
	int result = comm_check(comm, way->call);
	struct request mine = *request; /* whose root is a rank of the pair */
	const char *side = way->is_out ? "to" : "from";

	if (result)
		return result;
	if (way->peer >= comm->who.size || way->peer == comm->who.rank)
		return report_error(&comm->who, TALLY_ERR_ARGUMENT, "%s: %s %u is %s", way->call,
				    side, way->peer,
				    way->peer == comm->who.rank
					    ? "this rank itself"
					    : "not a rank of this communicator");
	if (comm->latency_slots)
		return report_error(&comm->who, TALLY_ERR_UNSUPPORTED,
				    "%s: latency mode has allreduce and barrier", way->call);
	mine.root = way->is_out ? comm->who.rank : way->peer;
	result = operation_check(comm, &mine);
	return result ? result : pair_get(comm, way, out);
}

static int run(struct tally_comm *comm, const struct way *way, const struct tally_buffer *buffer,
	       int dtype)
{
	const struct request request = { .call = way->call,
					 .kind = CONTROL_OP_SEND,
					 .buffers = buffer,
					 .n = 1,
					 .dtype = dtype,
					 .may_interrupt = true };
	struct tally_comm *pair;
	int result = operation_may_wait(comm, way->call);

	if (!result)
		result = pair_of(comm, way, &request, &pair);
	return result ? result : operation_run(pair, &request, NULL);
}

static int start(struct tally_comm *comm, const struct way *way, const struct tally_buffer *buffer,
		 int dtype, const struct tally_op_options *options, struct tally_work **work)
{
	const struct request request = { .call = way->call,
					 .kind = CONTROL_OP_SEND,
					 .buffers = buffer,
					 .n = 1,
					 .dtype = dtype,
					 .options = options };
	struct tally_comm *pair;
	int result = TALLY_OK;

	if (!work)
		result = report_error(comm ? &comm->who : NULL, TALLY_ERR_ARGUMENT,
				      "%s: work is NULL", way->call);
	if (!result)
		result = pair_of(comm, way, &request, &pair);
	return result ? result : operation_start(pair, &request, work);
}

int tally_send(const void *send, size_t count, int dtype, uint32_t to, struct tally_comm *comm)
{
	const struct way way = { "tally_send", true, to };
	const struct tally_buffer buffer = { send, NULL, count };

	return run(comm, &way, &buffer, dtype);
}

int tally_isend(const void *send, size_t count, int dtype, uint32_t to, struct tally_comm *comm,
		const struct tally_op_options *options, struct tally_work **work)
{
	const struct way way = { "tally_isend", true, to };
	const struct tally_buffer buffer = { send, NULL, count };

	return start(comm, &way, &buffer, dtype, options, work);
}

int tally_recv(void *recv, size_t count, int dtype, uint32_t from, struct tally_comm *comm)
{
	const struct way way = { "tally_recv", false, from };
	const struct tally_buffer buffer = { NULL, recv, count };

	return run(comm, &way, &buffer, dtype);
}

int tally_irecv(void *recv, size_t count, int dtype, uint32_t from, struct tally_comm *comm,
		const struct tally_op_options *options, struct tally_work **work)
{
	const struct way way = { "tally_irecv", false, from };
	const struct tally_buffer buffer = { NULL, recv, count };

	return start(comm, &way, &buffer, dtype, options, work);
}
