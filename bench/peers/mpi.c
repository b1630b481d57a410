/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi.c - MPI_Allreduce, to compare tally with: the options, the work and what is printed are those of work.h.
 *
 *   mpirun -n 4 --mca mpi_yield_when_idle 1 build/release/bench/mpi --elements 8 --dtype int32
 */
#include <mpi.h>

#include "bench/peers/work.h"

/* MPI ends the program where a call fails. */
static void barrier(struct work_peer *peer)
{
	(void)peer;
	MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(struct work_peer *peer, uint32_t slot, void *send, void *recv,
		      size_t elements, int is_float)
{
	(void)peer;
	(void)slot;
	MPI_Allreduce(send, recv, (int)elements, is_float ? MPI_FLOAT : MPI_INT, MPI_SUM,
		      MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	struct work_peer peer = { .name = "mpi", .barrier = barrier, .allreduce = allreduce };
	int rank, ranks, result;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	peer.rank = (uint32_t)rank;
	peer.ranks = (uint32_t)ranks;
	result = work_run(&peer, argc - 1, argv + 1);
	MPI_Finalize();
	return result;
}
