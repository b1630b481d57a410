/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_latency.c - what `tally bench allreduce --elements 8 --dtype int32 --json` measures, of MPI_Allreduce, to compare:
 *
 *   mpirun -n 4 --mca mpi_yield_when_idle 1 build/release/bench/mpi_latency [OPERATIONS]
 *
 * Operations one by one, in batches with a barrier before and the check after; the slowest rank's numbers count.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ELEMENTS = 8, BATCH = 1024, OPERATIONS = 5000, OPERATIONS_MAX = 1000000 };

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Rank r brings r + what(operation, element). */
static int what(int operation, int element)
{
	return operation * ELEMENTS + element;
}

/* Their times in us, and how many elements are wrong. */
static int batch_run(int first, int count, int rank, int ranks, double *us)
{
	static int send[BATCH][ELEMENTS], recv[BATCH][ELEMENTS];
	int wrong = 0;

	for (int i = 0; i < count; i++)
		for (int j = 0; j < ELEMENTS; j++) {
			send[i][j] = rank + what(first + i, j);
			recv[i][j] = -1;
		}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < count; i++) {
		double begin_us = now_us();

		MPI_Allreduce(send[i], recv[i], ELEMENTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		us[i] = now_us() - begin_us;
	}
	for (int i = 0; i < count; i++)
		for (int j = 0; j < ELEMENTS; j++)
			wrong += recv[i][j] != ranks * (ranks - 1) / 2 + ranks * what(first + i, j);
	return wrong;
}

static int run(int operations, int warmup, int rank, int ranks, double *us)
{
	int wrong = 0;

	for (int done = 0; done < warmup + operations;) {
		int end = done < warmup ? warmup : warmup + operations;
		int count = end - done < BATCH ? end - done : BATCH;

		wrong += batch_run(done, count, rank, ranks,
				   done < warmup ? us : us + done - warmup);
		done += count;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	int operations = argc > 1 ? atoi(argv[1]) : OPERATIONS;
	int rank, ranks, wrong, wrong_all;
	double mine[4], all[4], *us;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	/* Sums stay in int32: ranks * ELEMENTS * operations and a little. */
	if (operations < 1 || operations > OPERATIONS_MAX || ranks > 128) {
		fprintf(stderr, "mpi_latency: 1 to %d operations, 128 ranks at most\n",
			OPERATIONS_MAX);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	us = calloc((size_t)operations + BATCH, sizeof(*us));
	if (!us)
		MPI_Abort(MPI_COMM_WORLD, 1);
	wrong = run(operations, operations / 10, rank, ranks, us);
	qsort(us, (size_t)operations, sizeof(*us), compare);
	mine[0] = us[operations / 2];
	mine[1] = us[(operations * 99 + 99) / 100 - 1];
	mine[2] = us[operations / 100];
	mine[3] = us[0];
	MPI_Reduce(mine, all, 4, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Allreduce(&wrong, &wrong_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("{\"command\":\"mpi_latency\",\"ranks\":%d,\"dtype\":\"int32\",\"elements\":"
		       "%d,"
		       "\"operations\":%d,\"tat_us_median\":%.3f,\"tat_us_p99\":%.3f,"
		       "\"tat_us_p1\":%.3f,\"tat_us_min\":%.3f,\"verified\":%s}\n",
		       ranks, ELEMENTS, operations, all[0], all[1], all[2], all[3],
		       wrong_all ? "false" : "true");
	free(us);
	MPI_Finalize();
	return wrong_all != 0;
}
