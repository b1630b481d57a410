/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_sizes.c - from which size on MPI_Allreduce over tally is faster than MPI's own: batches of both in turn, of float32, and
 * their medians. Under mpirun, with the shim preloaded and TALLY_MPI_MIN_BYTES=0: bench/mpi_sizes.sh.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCHES = 9, BYTES_MAX = 1 << 20 };

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Microseconds of a call: the slowest rank's mean over a batch. */
static double batch_us(int is_mpi, int count, int calls, float *in, float *out)
{
	double from_s, mine, all;

	PMPI_Barrier(MPI_COMM_WORLD);
	from_s = PMPI_Wtime();
	for (int i = 0; i < calls; i++)
		if (is_mpi ? PMPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)
			   : MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))
			abort();
	mine = (PMPI_Wtime() - from_s) * 1e6 / calls;
	PMPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static void check(int rank, int ranks, int count, const float *out)
{
	for (int i = 0; i < count; i++) {
		double want = (i % 17) * (ranks * (ranks - 1) / 2.0 - ranks);

		if (fabs((double)out[i] - want) > 1e-5 * ranks * ranks * 17) {
			fprintf(stderr, "rank %d: element %d is %g, not %g\n", rank, i,
				(double)out[i], want);
			abort();
		}
	}
}

int main(int argc, char **argv)
{
	static float in[BYTES_MAX / 4], out[BYTES_MAX / 4];
	double us[2][BATCHES];
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < BYTES_MAX / 4; i++)
		in[i] = (float)((rank - 1) * (i % 17));
	for (int bytes = 8; bytes <= BYTES_MAX; bytes *= bytes < 1024 ? 8 : 2) {
		int count = bytes / 4, calls = bytes < 65536 ? 40 : 10;

		batch_us(0, count, calls, in, out);
		check(rank, ranks, count, out);
		for (int i = 0; i < BATCHES; i++)
			for (int is_mpi = 0; is_mpi < 2; is_mpi++)
				us[is_mpi][i] = batch_us(is_mpi, count, calls, in, out);
		for (int is_mpi = 0; is_mpi < 2; is_mpi++)
			qsort(us[is_mpi], BATCHES, sizeof(double), by_size);
		if (!rank)
			printf("%d ranks, %7d bytes, us a call: over tally %8.1f, MPI %8.1f, ratio "
			       "%.2f\n",
			       ranks, bytes, us[0][BATCHES / 2], us[1][BATCHES / 2],
			       us[0][BATCHES / 2] / us[1][BATCHES / 2]);
	}
	MPI_Finalize();
	return 0;
}
