/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults_test.c - one rank has no memory for a call: all ranks' calls end with an error, which goes to the communicator's
 * handler, and other communicators live on. faults_test required: with TALLY_MPI_REQUIRE and no aggregator, each call that
 * tally would do is an error. faults_test hosts: and those alone, if rank 2's host is another. Needs the library preloaded, with TALLY_MPI_PERSISTENT=1 and TALLY_MPI_MIN_BYTES=8.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#endif

enum { ELEMENTS = 6 << 20, SLACK = 16 << 20 };

static int failures, rank, ranks;

static void expect(int is_so, const char *what)
{
	if (is_so)
		return;
	failures++;
	fprintf(stderr, "FAILED: rank %d: %s\n", rank, what);
}

/* From here on this process gets no memory of ELEMENTS doubles. */
static void memory_limit(struct rlimit *before)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;
	struct rlimit limit;

	if (!file || fscanf(file, "%lu", &pages) != 1 || fclose(file))
		abort();
	getrlimit(RLIMIT_AS, before);
	limit = *before;
	limit.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + SLACK;
	setrlimit(RLIMIT_AS, &limit);
}

/* Of doubles, one in two: the library packs it. */
static int broadcast_gaps(double *at, MPI_Comm comm)
{
	MPI_Datatype gaps;
	int code;

	MPI_Type_vector(ELEMENTS, 1, 2, MPI_DOUBLE, &gaps);
	MPI_Type_commit(&gaps);
	code = MPI_Bcast(at, 1, gaps, 0, comm);
	MPI_Type_free(&gaps);
	return code;
}

static MPI_Comm world_copy(void)
{
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN); /* the world's stays fatal */
	return comm;
}

static void one_has_no_memory(void)
{
	double *room = calloc(2 * (size_t)ELEMENTS, sizeof(*room)), one[2] = { 1, -2 }, sum[2];
	MPI_Comm comm = world_copy(), other;
	struct rlimit before;
	MPI_Request request;
	int code;

	MPI_Barrier(comm);
	MPI_Allreduce_init(one, sum, 2, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request);
	MPI_Start(&request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	expect(sum[0] == ranks && sum[1] == -2 * ranks, "a sum before");
	MPI_Barrier(MPI_COMM_WORLD); /* MPI's, for its size: all have their sum */
	if (rank == 1)
		memory_limit(&before);
	code = broadcast_gaps(room, comm);
	if (rank == 1)
		setrlimit(RLIMIT_AS, &before);
	MPI_Barrier(MPI_COMM_WORLD); /* nobody waits for the next call to hear of it */
	/* The root has sent its part, and may have left: its next call says it. */
	if (rank)
		expect(code != MPI_SUCCESS, "a broadcast that one rank has no memory for is well");
	expect(MPI_Allreduce(one, sum, 2, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS,
	       "the communicator lives on");
	expect(MPI_Start(&request) != MPI_SUCCESS, "a persistent request starts after that");
	MPI_Request_free(&request);
	MPI_Comm_free(&comm);
	other = world_copy();
	expect(MPI_Allreduce(one, sum, 2, MPI_DOUBLE, MPI_SUM, other) == MPI_SUCCESS &&
		       sum[1] == -2 * ranks,
	       "another communicator's sum");
	MPI_Comm_free(&other);
	free(room);
}

static void each_call_is_refused(void)
{
	double one[2] = { rank, 1 }, sum[2];
	MPI_Request request;
	int small = 1, all;

	for (int i = 0; i < 2; i++) {
		MPI_Comm comm = world_copy();

		for (int call = 0; call < 3; call++)
			expect(MPI_Allreduce(one, sum, 2, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS,
			       "a sum without an aggregator");
		expect(MPI_Iallreduce(one, sum, 2, MPI_DOUBLE, MPI_SUM, comm, &request) !=
			       MPI_SUCCESS,
		       "one in flight without an aggregator");
		MPI_Allreduce(&small, &all, 1, MPI_INT, MPI_SUM, comm);
		expect(all == ranks, "a small sum, which is MPI's");
		MPI_Comm_free(&comm);
	}
}

/* With nothing set a communicator of one host is MPI's, with an aggregator and without. */
static void one_host_goes_on(void)
{
	enum { NUMBER = 1024 };
	static double in[NUMBER], out[NUMBER];
	MPI_Comm comm = world_copy(), half;

	for (int i = 0; i < NUMBER; i++)
		in[i] = rank ? -i : 3 * i;
	expect(MPI_Allreduce(in, out, NUMBER, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS,
	       "a sum of two hosts without an aggregator");
	MPI_Comm_split(comm, rank / 2, rank, &half);
	expect(MPI_Allreduce(in, out, NUMBER, MPI_DOUBLE, MPI_SUM, half) == MPI_SUCCESS &&
		       out[1] == (rank < 2 ? 2 : -1) && out[NUMBER - 1] == out[1] * (NUMBER - 1),
	       "a sum of one host without an aggregator");
	MPI_Comm_free(&half);
	MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc > 1 && !strcmp(argv[1], "required"))
		each_call_is_refused();
	else if (argc > 1 && !strcmp(argv[1], "hosts"))
		one_host_goes_on();
	else
		one_has_no_memory();
	if (!rank)
		puts("the end");
	MPI_Finalize();
	return failures != 0;
}
