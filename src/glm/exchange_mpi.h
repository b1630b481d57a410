/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange_mpi.h - the exchange over MPI's allreduce, to compare with: for programs of its own, built where Open MPI
 * is. Ranks that share a processor should run with `--mca mpi_yield_when_idle 1`: MPI waits by polling.
 */
#ifndef GLM_EXCHANGE_MPI_H
#define GLM_EXCHANGE_MPI_H

#include "glm/exchange.h"

struct exchange_mpi_options {
	uint32_t threads;    /* of this rank: with one, sums may block */
	bool is_nonblocking; /* MPI_Iallreduce, whatever the other one takes */
};

/* Collective, and once in a process. With one thread MPI_Allreduce and MPI_Iallreduce are measured for a moment, and
 * all ranks choose alike: the first ("mpi-blocking") costs less, the second ("mpi") goes on while a rank computes.
 * abort() takes effect in close(), which then ends all ranks, so that this one's sentence is heard. 0 and *exchange,
 * the caller's until close; -1 and MPI's sentence. */
int exchange_mpi(struct exchange **exchange, const struct exchange_mpi_options *options,
		 char error[GLM_ERROR_MAX]);

#endif
