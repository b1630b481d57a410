/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fortran.c - the collectives as Fortran calls them: mpif.h and the module mpi by one name, mpi_f08 by another. Open MPI's
 * own go to PMPI without asking anybody; MPICH's call MPI_Allreduce and its kin, which entries.c has already. Handles are
 * integers, and in mpi_f08 structs of one integer: the same to a callee. Persistent collectives stay with MPI here, and
 * the requests of non-blocking ones are MPI's own, so there is nothing else to be done for Fortran.
 */
#include <mpi.h>

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION <= 5
#include "bindings/mpi/shim.h"

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "arrays of counts are passed on as they are");

/* Open MPI's: their addresses are what Fortran passes. The compiler's names have an underscore at the end. */
extern int mpi_fortran_in_place_, mpi_fortran_bottom_;

static void *buffer(void *at)
{
	if (at == (void *)&mpi_fortran_in_place_)
		return MPI_IN_PLACE;
	return at == (void *)&mpi_fortran_bottom_ ? MPI_BOTTOM : at;
}

#define TYPE(type) PMPI_Type_f2c(*(type))
#define OP(op) PMPI_Op_f2c(*(op))
#define COMM(comm) PMPI_Comm_f2c(*(comm))
#define LIST(...) __VA_ARGS__

/* mpi_f08 may leave the error out. */
#define FORTRAN(name, NAME, parameters, arguments)                                       \
	SHIM_API void mpi_##name##_(parameters, MPI_Fint *error);                        \
	SHIM_API void mpi_i##name##_(parameters, MPI_Fint *request, MPI_Fint *error);    \
	SHIM_API void mpi_##name##_f08_(parameters, MPI_Fint *error)                     \
		__attribute__((alias("mpi_" #name "_")));                                \
	SHIM_API void mpi_i##name##_f08_(parameters, MPI_Fint *request, MPI_Fint *error) \
		__attribute__((alias("mpi_i" #name "_")));                               \
	SHIM_API void mpi_##name##_(parameters, MPI_Fint *error)                         \
	{                                                                                \
		int code = MPI_##NAME(arguments);                                        \
                                                                                         \
		if (error)                                                               \
			*error = code;                                                   \
	}                                                                                \
	SHIM_API void mpi_i##name##_(parameters, MPI_Fint *request, MPI_Fint *error)     \
	{                                                                                \
		MPI_Request made;                                                        \
		int code = MPI_I##name(arguments, &made);                                \
                                                                                         \
		if (!code)                                                               \
			*request = PMPI_Request_c2f(made);                               \
		if (error)                                                               \
			*error = code;                                                   \
	}

/* clang-format off */
FORTRAN(allreduce, Allreduce,
	LIST(void *send, void *recv, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *op, const MPI_Fint *comm),
	LIST(buffer(send), buffer(recv), *count, TYPE(type), OP(op), COMM(comm)))
FORTRAN(reduce, Reduce,
	LIST(void *send, void *recv, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *op, const MPI_Fint *root,
	     const MPI_Fint *comm),
	LIST(buffer(send), buffer(recv), *count, TYPE(type), OP(op), *root, COMM(comm)))
FORTRAN(reduce_scatter, Reduce_scatter,
	LIST(void *send, void *recv, const MPI_Fint *counts, const MPI_Fint *type, const MPI_Fint *op, const MPI_Fint *comm),
	LIST(buffer(send), buffer(recv), counts, TYPE(type), OP(op), COMM(comm)))
FORTRAN(reduce_scatter_block, Reduce_scatter_block,
	LIST(void *send, void *recv, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *op, const MPI_Fint *comm),
	LIST(buffer(send), buffer(recv), *count, TYPE(type), OP(op), COMM(comm)))
FORTRAN(bcast, Bcast,
	LIST(void *data, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *root, const MPI_Fint *comm),
	LIST(buffer(data), *count, TYPE(type), *root, COMM(comm)))
FORTRAN(allgather, Allgather,
	LIST(void *send, const MPI_Fint *send_count, const MPI_Fint *send_type, void *recv, const MPI_Fint *count,
	     const MPI_Fint *type, const MPI_Fint *comm),
	LIST(buffer(send), *send_count, TYPE(send_type), buffer(recv), *count, TYPE(type), COMM(comm)))
FORTRAN(allgatherv, Allgatherv,
	LIST(void *send, const MPI_Fint *send_count, const MPI_Fint *send_type, void *recv, const MPI_Fint *counts,
	     const MPI_Fint *displs, const MPI_Fint *type, const MPI_Fint *comm),
	LIST(buffer(send), *send_count, TYPE(send_type), buffer(recv), counts, displs, TYPE(type), COMM(comm)))
FORTRAN(barrier, Barrier, LIST(const MPI_Fint *comm), LIST(COMM(comm)))
/* clang-format on */
#else
typedef int fortran_needs_nothing_here; /* a file that is not empty */
#endif
