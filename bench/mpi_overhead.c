/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_overhead.c - what MPI_Allreduce over tally costs beside tally_allreduce itself: batches of both in turn, of 8 float32,
 * and the median of the batches' differences. Under mpirun, with the shim preloaded and TALLY_MPI_MIN_BYTES=0.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tally.h>

enum { ELEMENTS = 8, BATCHES = 200, CALLS = 100 };

static int gather(const void *send, void *recv, size_t bytes, void *ctx)
{
	(void)ctx;
	return PMPI_Allgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE,
			      MPI_COMM_WORLD);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, BATCHES, sizeof(*values), by_size);
	return values[BATCHES / 2];
}

/* Microseconds of a call, of a batch of them. */
static double batch_us(struct tally_comm *tally)
{
	float in[ELEMENTS], out[ELEMENTS];
	double from_s;

	for (int i = 0; i < ELEMENTS; i++)
		in[i] = (float)(i - 3);
	PMPI_Barrier(MPI_COMM_WORLD);
	from_s = PMPI_Wtime();
	for (int i = 0; i < CALLS; i++)
		if (tally ? tally_allreduce(in, out, ELEMENTS, TALLY_FLOAT32, TALLY_SUM, tally)
			  : MPI_Allreduce(in, out, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))
			abort();
	return (PMPI_Wtime() - from_s) * 1e6 / CALLS;
}

int main(int argc, char **argv)
{
	static double direct[BATCHES], shim[BATCHES], difference[BATCHES];
	struct tally_comm *tally;
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (tally_comm_init_oob(&tally, (uint32_t)ranks, (uint32_t)rank, gather, NULL, NULL))
		abort();
	batch_us(tally);
	batch_us(NULL);
	for (int i = 0; i < BATCHES; i++) {
		direct[i] = batch_us(tally);
		shim[i] = batch_us(NULL);
		difference[i] = shim[i] - direct[i];
	}
	if (!rank)
		printf("%d ranks, %d float32, us a call: tally_allreduce %.2f, MPI_Allreduce %.2f, "
		       "difference %.2f\n",
		       ranks, ELEMENTS, median(direct), median(shim), median(difference));
	tally_comm_finalize(tally);
	tally_comm_destroy(tally);
	MPI_Finalize();
	return 0;
}
