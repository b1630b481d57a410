/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entries.h - the collectives that programs call, each in its three forms. Included once by entries.c with LARGE 0 (counts
 * are int), and once by entries_large.c with LARGE 1 (MPI-4: names end in _c, counts are MPI_Count).
 */
#include "bindings/mpi/shim.h"

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#endif

#if LARGE
#define COUNT MPI_Count
#define DISPL MPI_Aint
#define NAME(name) name##_c
#define INIT_NAME(name) name##_init_c
#define COUNTS(counts) .counts_c = counts
#define DISPLS(displs) .displs_c = displs
#else
#define COUNT int
#define DISPL int
#define NAME(name) name
#define INIT_NAME(name) name##_init
#define COUNTS(counts) .counts = counts
#define DISPLS(displs) .displs = displs
#endif

/* Persistent collectives came with MPI-4. Open MPI 4 has them as an extension, by another name. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define PERSISTENT(name) INIT_NAME(MPI_##name)
#define PERSISTENT_OF_MPI(name) INIT_NAME(PMPI_##name)
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ) && !LARGE
#define PERSISTENT(name) INIT_NAME(MPIX_##name)
#define PERSISTENT_OF_MPI(name) INIT_NAME(PMPIX_##name)
#endif

#ifdef PERSISTENT
#define PERSISTENT_ENTRY(name, parameters, arguments, ...)                              \
	SHIM_API int PERSISTENT(name)(parameters, MPI_Info info, MPI_Request * request) \
	{                                                                               \
		const struct call call = { __VA_ARGS__ };                               \
		int code;                                                               \
                                                                                        \
		return call_init(&call, request, &code)                                 \
			       ? code                                                   \
			       : PERSISTENT_OF_MPI(name)(arguments, info, request);     \
	}
#else
#define PERSISTENT_ENTRY(name, parameters, arguments, ...)
#endif

#define LIST(...) __VA_ARGS__
#define ENTRIES(name, iname, parameters, arguments, ...)                                           \
	SHIM_API int NAME(MPI_##name)(parameters)                                                  \
	{                                                                                          \
		const struct call call = { __VA_ARGS__ };                                          \
		int code;                                                                          \
                                                                                                   \
		return call_now(&call, &code) ? code : NAME(PMPI_##name)(arguments);               \
	}                                                                                          \
	SHIM_API int NAME(MPI_##iname)(parameters, MPI_Request * request)                          \
	{                                                                                          \
		const struct call call = { __VA_ARGS__ };                                          \
		int code;                                                                          \
                                                                                                   \
		return call_start(&call, request, &code) ? code                                    \
							 : NAME(PMPI_##iname)(arguments, request); \
	}                                                                                          \
	PERSISTENT_ENTRY(name, LIST(parameters), LIST(arguments), __VA_ARGS__)

/* clang-format off */
ENTRIES(Allreduce, Iallreduce,
	LIST(const void *send, void *recv, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
	LIST(send, recv, count, type, op, comm),
	.kind = KIND_ALLREDUCE, .send = send, .recv = recv, .count = count, .type = type, .op = op, .comm = comm)

ENTRIES(Reduce, Ireduce,
	LIST(const void *send, void *recv, COUNT count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
	LIST(send, recv, count, type, op, root, comm),
	.kind = KIND_REDUCE, .send = send, .recv = recv, .count = count, .type = type, .op = op, .root = root, .comm = comm)

ENTRIES(Reduce_scatter, Ireduce_scatter,
	LIST(const void *send, void *recv, const COUNT counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
	LIST(send, recv, counts, type, op, comm),
	.kind = KIND_REDUCE_SCATTER, .send = send, .recv = recv, COUNTS(counts), .type = type, .op = op, .comm = comm)

ENTRIES(Reduce_scatter_block, Ireduce_scatter_block,
	LIST(const void *send, void *recv, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
	LIST(send, recv, count, type, op, comm),
	.kind = KIND_REDUCE_SCATTER_BLOCK, .send = send, .recv = recv, .count = count, .type = type, .op = op, .comm = comm)

ENTRIES(Bcast, Ibcast,
	LIST(void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm),
	LIST(buffer, count, type, root, comm),
	.kind = KIND_BCAST, .recv = buffer, .count = count, .type = type, .root = root, .comm = comm)

ENTRIES(Allgather, Iallgather,
	LIST(const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, COUNT count, MPI_Datatype type,
	     MPI_Comm comm),
	LIST(send, send_count, send_type, recv, count, type, comm),
	.kind = KIND_ALLGATHER, .send = send, .send_count = send_count, .send_type = send_type, .recv = recv,
	.count = count, .type = type, .comm = comm)

ENTRIES(Allgatherv, Iallgatherv,
	LIST(const void *send, COUNT send_count, MPI_Datatype send_type, void *recv, const COUNT counts[],
	     const DISPL displs[], MPI_Datatype type, MPI_Comm comm),
	LIST(send, send_count, send_type, recv, counts, displs, type, comm),
	.kind = KIND_ALLGATHERV, .send = send, .send_count = send_count, .send_type = send_type, .recv = recv,
	COUNTS(counts), DISPLS(displs), .type = type, .comm = comm)

#if !LARGE
ENTRIES(Barrier, Ibarrier, LIST(MPI_Comm comm), LIST(comm), .kind = KIND_BARRIER, .comm = comm)
#endif
/* clang-format on */
