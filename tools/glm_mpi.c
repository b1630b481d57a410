/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glm_mpi.c - tally-glm-mpi: tally glm train, command line and all, with MPI's allreduce in place of libtally's. To
 * compare them, under mpirun:
 *
 *   mpirun -n 4 --mca mpi_yield_when_idle 1 tally-glm-mpi a9a --json
 *
 * --comm mpi is MPI_Iallreduce; auto, the default, that or MPI_Allreduce, whichever is faster.
 */
#include <stdio.h>

#include "glm/exchange_mpi.h"
#include "tools/glm.h"

static int join(struct exchange **exchange, struct glm_request *request, char error[GLM_ERROR_MAX])
{
	const struct exchange_mpi_options options = {
		.threads = (uint32_t)request->threads,
		.is_nonblocking = request->comm == EXCHANGE_MPI,
	};

	if (request->comm != EXCHANGE_AUTO && request->comm != EXCHANGE_MPI) {
		snprintf(error, GLM_ERROR_MAX, "--comm: this is the program for mpi alone");
		return -1;
	}
	if (exchange_mpi(exchange, &options, error))
		return -1;
	if (!glm_request_agree(request, *exchange, error))
		return 0;
	(*exchange)->ops->close(*exchange);
	return -1;
}

int main(int argc, char **argv)
{
	return glm_train_run(argc, argv, join);
}
