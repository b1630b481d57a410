/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits_test.c - what a program may rely on around collectives: MPI's messages get on while a rank is in one, non-blocking
 * ones and messages wait together, requests keep MPI's promises, threads, freed communicators and types, packed memory.
 * Needs the library preloaded, with TALLY_MPI_MIN_BYTES=0. waits_test threads: with threads. waits_test mpi: where MPI may do
 * some of it, without what Open MPI 4.1 and MPICH 4.0 cannot do (communicators freed in use, inactive requests).
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#endif

enum { MESSAGE = 1 << 22, THREADS = 3, ROUNDS = 50 };

static int failures, rank, ranks;

static void expect(int is_so, const char *what)
{
	if (is_so)
		return;
	failures++;
	fprintf(stderr, "FAILED: rank %d: %s\n", rank, what);
}

/* Rank 0 is in the collective with a large message half sent; rank 1 comes only when it has all of it. */
static void messages_get_on(int is_blocking)
{
	char *message = malloc(MESSAGE);
	int sum, one = rank + 1, want = ranks * (ranks + 1) / 2;
	MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };

	memset(message, rank ? 0 : 7, MESSAGE);
	if (rank == 0)
		MPI_Isend(message, MESSAGE, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &requests[1]);
	if (rank == 1)
		MPI_Recv(message, MESSAGE, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (is_blocking)
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	else
		MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
	if (is_blocking || rank % 2)
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	else
		while (requests[0] != MPI_REQUEST_NULL || requests[1] != MPI_REQUEST_NULL) {
			int idx;

			MPI_Waitany(2, requests, &idx, MPI_STATUS_IGNORE);
		}
	expect(sum == want, "the sum beside a message");
	expect(rank != 1 || (message[0] == 7 && message[MESSAGE - 1] == 7), "the message");
	free(message);
}

/* Legal: it does not wait, though no other rank has called it yet. */
static void starts_at_once(void)
{
	int token = 3, sum, one = 1;
	MPI_Request request;
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	if (rank == 1)
		MPI_Recv(&token, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);
	MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
	if (rank == 0)
		MPI_Send(&token, 1, MPI_INT, 1, 9, comm);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Comm_free(&comm);
	expect(sum == ranks, "the first call on a communicator is not blocking");
}

/* A communicator and a type are freed while they are in use. */
static void freed_in_use(void)
{
	double from[20], to[20];
	MPI_Datatype every_other;
	MPI_Request requests[2];
	MPI_Comm comm;
	int sum, one = 1;

	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm); /* the other way round */
	MPI_Barrier(comm);
	for (int i = 0; i < 20; i++)
		from[i] = to[i] = rank == ranks - 1 ? i : -1;
	MPI_Type_vector(10, 1, 2, MPI_DOUBLE, &every_other);
	MPI_Type_commit(&every_other);
	MPI_Ibcast(to, 1, every_other, 0, comm, &requests[0]);
	MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[1]);
	MPI_Type_free(&every_other);
	MPI_Comm_free(&comm);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 20; i++)
		expect(to[i] == (i % 2 ? from[i] : i), "a broadcast of every other element");
	expect(sum == ranks, "a sum on a communicator that is freed");
}

/* What operations only read they may share: a broadcast's root has one buffer in several. */
static void shared_reads(void)
{
	int from[4] = { 1, rank, -3, rank + 4 }, to[3][4], sums[2][4];
	MPI_Request requests[5];

	for (int i = 0; i < 3; i++)
		MPI_Ibcast(rank == 1 ? from : to[i], 4, MPI_INT, 1, MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < 2; i++)
		MPI_Iallreduce(from, sums[i], 4, MPI_INT, MPI_MAX, MPI_COMM_WORLD,
			       &requests[3 + i]);
	MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 3 && rank != 1; i++)
		expect(to[i][0] == 1 && to[i][1] == 1 && to[i][2] == -3 && to[i][3] == 5,
		       "a broadcast whose root shares its buffer");
	for (int i = 0; i < 2; i++)
		expect(sums[i][1] == ranks - 1 && sums[i][3] == ranks + 3,
		       "a maximum of what is broadcast");
}

static void requests_keep_promises(void)
{
	int sum = 0, one = 1, flag = 0, idx = 0, number;
	MPI_Request mix[3];
	MPI_Status status, statuses[3];

	MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &mix[0]);
	while (!flag)
		MPI_Request_get_status(mix[0], &flag, &status);
	expect(mix[0] != MPI_REQUEST_NULL && sum == ranks, "get_status frees nothing");
	MPI_Wait(&mix[0], &status);
	expect(mix[0] == MPI_REQUEST_NULL, "wait frees it");

	MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &mix[1]);
	mix[0] = mix[2] = MPI_REQUEST_NULL;
	MPI_Wait(&mix[1], &status);
	MPI_Waitany(3, mix, &idx, &status);
	expect(idx == MPI_UNDEFINED, "an inactive request is none");
	MPI_Testany(3, mix, &idx, &flag, &status);
	expect(flag && idx == MPI_UNDEFINED, "nor for testany");
	for (int way = 0; way < 4; way++) {
		sum = 0;
		MPI_Startall(1, &mix[1]);
		MPI_Irecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &mix[2]);
		for (int left = 2; left; left -= number) {
			int some[3];

			number = 1;
			if (way == 0)
				MPI_Waitany(3, mix, &idx, &status);
			else if (way == 1)
				MPI_Waitsome(3, mix, &number, some, statuses);
			else if (way == 2)
				MPI_Testsome(3, mix, &number, some, statuses);
			else
				MPI_Testany(3, mix, &idx, &number, &status);
		}
		expect(sum == ranks && mix[1] != MPI_REQUEST_NULL, "a persistent sum");
		expect(mix[2] == MPI_REQUEST_NULL, "a message beside it");
	}
	MPI_Request_free(&mix[1]);
	expect(mix[1] == MPI_REQUEST_NULL, "a persistent request is freed");
}

/* Not aligned, as in a packed struct. */
static void packed(void)
{
	char room[2][8 * 100 + 1];

	for (int i = 0; i < 100; i++)
		memcpy(room[0] + 1 + 8 * i, &(double){ rank - 1.0 }, 8);
	MPI_Allreduce(room[0] + 1, room[1] + 1, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < 100; i++) {
		double sum;

		memcpy(&sum, room[1] + 1 + 8 * i, 8);
		expect(sum == ranks * (ranks - 1) / 2.0 - ranks, "a sum of what is not aligned");
	}
}

/* The fault, or NULL. */
static void *thread_main(void *arg)
{
	MPI_Comm comm = *(MPI_Comm *)arg;
	MPI_Request requests[2];

	for (int round = 0; round < ROUNDS; round++) {
		int32_t one[500], sum[500], max = rank, mine = rank;

		for (int i = 0; i < 500; i++)
			one[i] = (rank + 1) * (i - round);
		MPI_Allreduce(one, sum, 500, MPI_INT, MPI_SUM, comm);
		for (int i = 0; i < 500; i++)
			if (sum[i] != ranks * (ranks + 1) / 2 * (i - round))
				return (void *)(uintptr_t) "a thread's sum";
		MPI_Iallreduce(one, sum, 500, MPI_INT, MPI_SUM, comm, &requests[0]);
		MPI_Iallreduce(&mine, &max, 1, MPI_INT, MPI_MAX, comm, &requests[1]);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		if (max != ranks - 1 || sum[499] != ranks * (ranks + 1) / 2 * (499 - round))
			return (void *)(uintptr_t) "a thread's sum in flight";
	}
	return NULL;
}

static void threads(void)
{
	MPI_Comm comms[THREADS];
	pthread_t thread[THREADS];
	void *fault;

	for (int i = 0; i < THREADS; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
		pthread_create(&thread[i], NULL, thread_main, &comms[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &fault);
		expect(!fault, fault);
		MPI_Comm_free(&comms[i]);
	}
}

int main(int argc, char **argv)
{
	int provided, is_threaded = argc > 1 && !strcmp(argv[1], "threads");

	MPI_Init_thread(&argc, &argv, is_threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
			&provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (is_threaded && provided == MPI_THREAD_MULTIPLE)
		threads();
	MPI_Barrier(MPI_COMM_WORLD);
	messages_get_on(1);
	messages_get_on(0);
	starts_at_once();
	shared_reads();
	if (argc < 2 || strcmp(argv[1], "mpi")) {
		freed_in_use();
		requests_keep_promises();
	}
	packed();
	MPI_Finalize();
	return failures != 0;
}
