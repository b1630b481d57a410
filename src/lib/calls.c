/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c - the calls that start an operation, as tally.h has them. */
#include "lib/operation.h"

int tally_allreduce(const void *send, void *recv, size_t count, int dtype, int op,
		    struct tally_comm *comm)
{
	const struct tally_buffer buffer = { send, recv, count };
	const struct request request = { .call = "tally_allreduce",
					 .kind = CONTROL_OP_ALLREDUCE,
					 .buffers = &buffer,
					 .n = 1,
					 .dtype = dtype,
					 .op = op,
					 .may_interrupt = true };

	return operation_run(comm, &request, NULL);
}

int tally_iallreduce(const void *send, void *recv, size_t count, int dtype, int op,
		     struct tally_comm *comm, const struct tally_op_options *options,
		     struct tally_work **work)
{
	const struct tally_buffer buffer = { send, recv, count };
	const struct request request = { .call = "tally_iallreduce",
					 .kind = CONTROL_OP_ALLREDUCE,
					 .buffers = &buffer,
					 .n = 1,
					 .dtype = dtype,
					 .op = op,
					 .options = options };

	return operation_start(comm, &request, work);
}

int tally_iallreduce_multi(const struct tally_buffer *buffers, size_t n, int dtype, int op,
			   struct tally_comm *comm, const struct tally_op_options *options,
			   struct tally_work **work)
{
	const struct request request = { .call = "tally_iallreduce_multi",
					 .kind = CONTROL_OP_ALLREDUCE,
					 .buffers = buffers,
					 .n = n,
					 .is_multi = true,
					 .dtype = dtype,
					 .op = op,
					 .options = options };

	return operation_start(comm, &request, work);
}

/* A barrier's type and op are no choice: the numbers are the same on all ranks. */
int tally_barrier(struct tally_comm *comm)
{
	const struct request request = { .call = "tally_barrier",
					 .kind = CONTROL_OP_BARRIER,
					 .dtype = TALLY_INT32,
					 .may_interrupt = true };

	return operation_run(comm, &request, NULL);
}

int tally_ibarrier(struct tally_comm *comm, const struct tally_op_options *options,
		   struct tally_work **work)
{
	const struct request request = { .call = "tally_ibarrier",
					 .kind = CONTROL_OP_BARRIER,
					 .dtype = TALLY_INT32,
					 .options = options };

	return operation_start(comm, &request, work);
}

/* ---- reduce, broadcast, gather and their kin; collective.c knows what they mean ---- */

/* What all of them say. */
struct collective {
	const char *call;
	enum control_op_kind kind;
	int dtype, op;
	uint32_t root;
};

static int run(struct tally_comm *comm, const struct collective *what, const void *send, void *recv,
	       size_t count)
{
	const struct tally_buffer buffer = { send, recv, count };
	const struct request request = { .call = what->call,
					 .kind = what->kind,
					 .buffers = &buffer,
					 .n = 1,
					 .dtype = what->dtype,
					 .op = what->op,
					 .root = what->root,
					 .may_interrupt = true };

	return operation_run(comm, &request, NULL);
}

static int start(struct tally_comm *comm, const struct collective *what,
		 const struct tally_buffer *buffer, const struct tally_op_options *options,
		 struct tally_work **work)
{
	const struct request request = { .call = what->call,
					 .kind = what->kind,
					 .buffers = buffer,
					 .n = 1,
					 .dtype = what->dtype,
					 .op = what->op,
					 .root = what->root,
					 .options = options };

	return operation_start(comm, &request, work);
}

int tally_reduce(const void *send, void *recv, size_t count, int dtype, int op, uint32_t root,
		 struct tally_comm *comm)
{
	const struct collective what = { "tally_reduce", CONTROL_OP_REDUCE, dtype, op, root };

	return run(comm, &what, send, recv, count);
}

int tally_ireduce(const void *send, void *recv, size_t count, int dtype, int op, uint32_t root,
		  struct tally_comm *comm, const struct tally_op_options *options,
		  struct tally_work **work)
{
	const struct collective what = { "tally_ireduce", CONTROL_OP_REDUCE, dtype, op, root };
	const struct tally_buffer buffer = { send, recv, count };

	return start(comm, &what, &buffer, options, work);
}

int tally_broadcast(const void *send, void *recv, size_t count, int dtype, uint32_t root,
		    struct tally_comm *comm)
{
	const struct collective what = { "tally_broadcast", CONTROL_OP_BROADCAST, dtype, 0, root };

	return run(comm, &what, send, recv, count);
}

int tally_ibroadcast(const void *send, void *recv, size_t count, int dtype, uint32_t root,
		     struct tally_comm *comm, const struct tally_op_options *options,
		     struct tally_work **work)
{
	const struct collective what = { "tally_ibroadcast", CONTROL_OP_BROADCAST, dtype, 0, root };
	const struct tally_buffer buffer = { send, recv, count };

	return start(comm, &what, &buffer, options, work);
}

int tally_allgather(const void *send, void *recv, size_t count, int dtype, struct tally_comm *comm)
{
	const struct collective what = { "tally_allgather", CONTROL_OP_ALLGATHER, dtype, 0, 0 };

	return run(comm, &what, send, recv, count);
}

int tally_iallgather(const void *send, void *recv, size_t count, int dtype, struct tally_comm *comm,
		     const struct tally_op_options *options, struct tally_work **work)
{
	const struct collective what = { "tally_iallgather", CONTROL_OP_ALLGATHER, dtype, 0, 0 };
	const struct tally_buffer buffer = { send, recv, count };

	return start(comm, &what, &buffer, options, work);
}

int tally_reduce_scatter(const void *send, void *recv, size_t count, int dtype, int op,
			 struct tally_comm *comm)
{
	const struct collective what = { "tally_reduce_scatter", CONTROL_OP_REDUCE_SCATTER, dtype,
					 op, 0 };

	return run(comm, &what, send, recv, count);
}

int tally_ireduce_scatter(const void *send, void *recv, size_t count, int dtype, int op,
			  struct tally_comm *comm, const struct tally_op_options *options,
			  struct tally_work **work)
{
	const struct collective what = { "tally_ireduce_scatter", CONTROL_OP_REDUCE_SCATTER, dtype,
					 op, 0 };
	const struct tally_buffer buffer = { send, recv, count };

	return start(comm, &what, &buffer, options, work);
}

int tally_gather(const void *send, void *recv, size_t count, int dtype, uint32_t root,
		 struct tally_comm *comm)
{
	const struct collective what = { "tally_gather", CONTROL_OP_GATHER, dtype, 0, root };

	return run(comm, &what, send, recv, count);
}

int tally_igather(const void *send, void *recv, size_t count, int dtype, uint32_t root,
		  struct tally_comm *comm, const struct tally_op_options *options,
		  struct tally_work **work)
{
	const struct collective what = { "tally_igather", CONTROL_OP_GATHER, dtype, 0, root };
	const struct tally_buffer buffer = { send, recv, count };

	return start(comm, &what, &buffer, options, work);
}

int tally_scatter(const void *send, void *recv, size_t count, int dtype, uint32_t root,
		  struct tally_comm *comm)
{
	const struct collective what = { "tally_scatter", CONTROL_OP_SCATTER, dtype, 0, root };

	return run(comm, &what, send, recv, count);
}

int tally_iscatter(const void *send, void *recv, size_t count, int dtype, uint32_t root,
		   struct tally_comm *comm, const struct tally_op_options *options,
		   struct tally_work **work)
{
	const struct collective what = { "tally_iscatter", CONTROL_OP_SCATTER, dtype, 0, root };
	const struct tally_buffer buffer = { send, recv, count };

	return start(comm, &what, &buffer, options, work);
}

int tally_alltoall(const void *send, void *recv, size_t count, int dtype, struct tally_comm *comm)
{
	const struct collective what = { "tally_alltoall", CONTROL_OP_ALLTOALL, dtype, 0, 0 };

	return run(comm, &what, send, recv, count);
}

int tally_ialltoall(const void *send, void *recv, size_t count, int dtype, struct tally_comm *comm,
		    const struct tally_op_options *options, struct tally_work **work)
{
	const struct collective what = { "tally_ialltoall", CONTROL_OP_ALLTOALL, dtype, 0, 0 };
	const struct tally_buffer buffer = { send, recv, count };

	return start(comm, &what, &buffer, options, work);
}
