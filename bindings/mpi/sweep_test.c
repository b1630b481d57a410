/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep_test.c [long] - every collective over types, operations, sizes, in place, sub-communicators, blocking, several
 * non-blocking at once and persistent: what MPI_X brings is what PMPI_X brings, for integers to the bit. Run it with the
 * library preloaded; without it, it compares MPI with itself.
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Barrier_init MPIX_Barrier_init
#endif

enum { NUMBER_MAX = 64, FLIGHTS = 6 };

static int failures, checks, world_rank, op_number;

struct type {
	const char *name;
	MPI_Datatype type;
	size_t bytes;
	int nature; /* 0: integer, 1: float, 2: double, 3: bits alone, 4: pairs of int */
};

static uint32_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* Numbers of both signs, small enough that no sum leaves its type; other ones on each rank. */
static void fill(void *at, const struct type *type, size_t count, uint64_t seed)
{
	uint64_t state = seed * 977 + 5;
	size_t pieces = type->nature == 4 ? 2 * count : count;

	for (size_t i = 0; i < pieces; i++) {
		int32_t number = (int32_t)(draw(&state) % 15) - 7;

		if (type->nature == 1)
			((float *)at)[i] = (float)number * 0.37f + 0.001f * (float)(i % 11);
		else if (type->nature == 2)
			((double *)at)[i] = (double)number * 0.37 + 1e-7 * (double)(i % 11);
		else if (type->nature == 4)
			((int32_t *)at)[i] = i % 2 ? (int32_t)seed : number;
		else if (type->bytes == 1)
			((int8_t *)at)[i] = (int8_t)number;
		else if (type->bytes == 4)
			((int32_t *)at)[i] = number;
		else
			((int64_t *)at)[i] = number * 1000000007ll;
	}
}

static double value(const void *at, const struct type *type, size_t i)
{
	return type->nature == 1 ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

/* Floats: within what tally.h promises for elements up to 3 of these many ranks, and what MPI's own sum may lose. */
static void check(const char *what, const struct type *type, const void *is, const void *want,
		  size_t count, int ranks)
{
	double bound = type->nature == 1 ? 1e-6 * ranks * ranks : 1e-14 * ranks * ranks;
	size_t i = 0;

	checks++;
	if (type->nature == 1 || type->nature == 2)
		while (i < count && fabs(value(is, type, i) - value(want, type, i)) <= bound)
			i++;
	else
		i = memcmp(is, want, count * type->bytes) ? 0 : count;
	if (i == count)
		return;
	failures++;
	if (failures < 10)
		fprintf(stderr,
			"FAILED: rank %d: %s of %zu %s, operation %d: element %zu differs\n",
			world_rank, what, count, type->name, op_number, i);
}

struct memory {
	char *send, *recv, *want;
};

static struct memory memory_get(size_t bytes)
{
	struct memory memory = { calloc(1, bytes + 64), calloc(1, bytes + 64),
				 calloc(1, bytes + 64) };

	if (!memory.send || !memory.recv || !memory.want)
		abort();
	return memory;
}

static void memory_put(struct memory *memory)
{
	free(memory->send);
	free(memory->recv);
	free(memory->want);
}

static void allreduces(const struct type *type, MPI_Op op, int count, MPI_Comm comm)
{
	struct memory m = memory_get((size_t)count * type->bytes);
	size_t bytes = (size_t)count * type->bytes;
	int rank, ranks, root;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	root = ranks - 1;
	fill(m.send, type, (size_t)count, (uint64_t)rank + 1);
	PMPI_Allreduce(m.send, m.want, count, type->type, op, comm);
	MPI_Allreduce(m.send, m.recv, count, type->type, op, comm);
	check("allreduce", type, m.recv, m.want, (size_t)count, ranks);
	memcpy(m.recv, m.send, bytes);
	MPI_Allreduce(MPI_IN_PLACE, m.recv, count, type->type, op, comm);
	check("allreduce in place", type, m.recv, m.want, (size_t)count, ranks);
	memset(m.recv, 0x55, bytes);
	MPI_Reduce(m.send, rank == root ? m.recv : NULL, count, type->type, op, root, comm);
	if (rank == root)
		check("reduce", type, m.recv, m.want, (size_t)count, ranks);
	memcpy(m.recv, m.send, bytes);
	MPI_Reduce(rank == 0 ? MPI_IN_PLACE : m.recv, m.recv, count, type->type, op, 0, comm);
	if (rank == 0)
		check("reduce in place", type, m.recv, m.want, (size_t)count, ranks);
	else
		check("reduce leaves what it sends", type, m.recv, m.send, (size_t)count, ranks);
	memory_put(&m);
}

static void scatters(const struct type *type, MPI_Op op, int count, MPI_Comm comm)
{
	int rank, ranks, counts[NUMBER_MAX];
	struct memory m;
	size_t all = 0;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	for (int i = 0; i < ranks; i++) {
		counts[i] = count / ranks + (i == 1 ? count % 7 : 0);
		all += (size_t)counts[i];
	}
	m = memory_get(all * type->bytes);
	fill(m.send, type, all, (uint64_t)rank + 77);
	PMPI_Reduce_scatter(m.send, m.want, counts, type->type, op, comm);
	MPI_Reduce_scatter(m.send, m.recv, counts, type->type, op, comm);
	check("reduce_scatter", type, m.recv, m.want, (size_t)counts[rank], ranks);
	memcpy(m.recv, m.send, all * type->bytes);
	MPI_Reduce_scatter(MPI_IN_PLACE, m.recv, counts, type->type, op, comm);
	check("reduce_scatter in place", type, m.recv, m.want, (size_t)counts[rank], ranks);
	check("what reduce_scatter leaves", type, m.recv + (size_t)counts[rank] * type->bytes,
	      m.send + (size_t)counts[rank] * type->bytes, all - (size_t)counts[rank], ranks);
	PMPI_Reduce_scatter_block(m.send, m.want, count / ranks, type->type, op, comm);
	MPI_Reduce_scatter_block(m.send, m.recv, count / ranks, type->type, op, comm);
	check("reduce_scatter_block", type, m.recv, m.want, (size_t)(count / ranks), ranks);
	memcpy(m.recv, m.send, all * type->bytes);
	MPI_Reduce_scatter_block(MPI_IN_PLACE, m.recv, count / ranks, type->type, op, comm);
	check("reduce_scatter_block in place", type, m.recv, m.want, (size_t)(count / ranks),
	      ranks);
	memory_put(&m);
}

static const struct type bytes_type = { "bytes", MPI_BYTE, 1, 0 };

/* A rank's own types: bytes to one are a strided vector to another, of the same signature. */
static void moves(const struct type *type, int count, MPI_Comm comm)
{
	int rank, ranks, counts[NUMBER_MAX], displs[NUMBER_MAX], end = 0;
	MPI_Datatype gappy, plain;
	struct memory m;
	size_t room;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	for (int i = ranks - 1; i >= 0; i--) { /* backwards, with gaps */
		counts[i] = count / ranks + i;
		displs[i] = end + 3;
		end = displs[i] + counts[i];
	}
	room = ((size_t)2 * (size_t)count * (size_t)ranks + (size_t)end + 16) * type->bytes;
	m = memory_get(room);
	fill(m.send, type, (size_t)(count > end ? count : end), (uint64_t)rank + 3);
	MPI_Type_vector(count, 1, 2, type->type, &gappy);
	MPI_Type_commit(&gappy);
	MPI_Type_contiguous(count, type->type, &plain);
	MPI_Type_commit(&plain);

	PMPI_Allgather(m.send, count, type->type, m.want, count, type->type, comm);
	MPI_Allgather(m.send, count ? 1 : 0, plain, m.recv, count, type->type, comm);
	check("allgather", &bytes_type, m.recv, m.want, room, ranks);
	memset(m.recv, 0, room);
	memcpy(m.recv + (size_t)rank * (size_t)count * type->bytes, m.send,
	       (size_t)count * type->bytes);
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, m.recv, count, type->type, comm);
	check("allgather in place", &bytes_type, m.recv, m.want, room, ranks);

	memset(m.recv, 0, room);
	memset(m.want, 0, room);
	PMPI_Allgatherv(m.send, counts[rank], type->type, m.want, counts, displs, type->type, comm);
	MPI_Allgatherv(m.send, counts[rank], type->type, m.recv, counts, displs, type->type, comm);
	check("allgatherv", &bytes_type, m.recv, m.want, room, ranks);
	MPI_Allgatherv(MPI_IN_PLACE, 0, type->type, m.recv, counts, displs, type->type, comm);
	check("allgatherv in place", &bytes_type, m.recv, m.want, room, ranks);

	for (int root = 0; root < ranks && root < 2; root++) {
		memset(m.recv, 0, room);
		memset(m.want, 0, room);
		memcpy(m.recv, m.send, (size_t)count * type->bytes);
		memcpy(m.want, m.send, (size_t)count * type->bytes);
		if (rank % 2 && count) { /* MPI's ranks may disagree about one element of nothing */
			PMPI_Bcast(m.want, 1, gappy, root, comm);
			MPI_Bcast(m.recv, 1, gappy, root, comm);
		} else {
			PMPI_Bcast(m.want, count, type->type, root, comm);
			MPI_Bcast(m.recv, count, type->type, root, comm);
		}
		check("broadcast", &bytes_type, m.recv, m.want, room, ranks);
	}
	MPI_Type_free(&gappy);
	MPI_Type_free(&plain);
	memory_put(&m);
}

/* Several at once, of several kinds, waited for in several ways. */
static void flights(const struct type *type, int count, MPI_Comm comm)
{
	size_t bytes = (size_t)count * type->bytes;
	struct memory m[FLIGHTS];
	MPI_Request requests[FLIGHTS];
	int rank, ranks, idx, done;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	for (int i = 0; i < FLIGHTS; i++) {
		m[i] = memory_get(bytes);
		fill(m[i].send, type, (size_t)count, (uint64_t)(rank + 10 * i));
		if (i % 2)
			memcpy(m[i].want, m[i].send, bytes);
		if (i % 2)
			PMPI_Bcast(m[i].want, count, type->type, i % ranks, comm);
		else
			PMPI_Allreduce(m[i].send, m[i].want, count, type->type, MPI_SUM, comm);
	}
	for (int way = 0; way < 5; way++) {
		for (int i = 0; i < FLIGHTS; i++) {
			memcpy(m[i].recv, m[i].send, bytes);
			if (i % 2)
				MPI_Ibcast(m[i].recv, count, type->type, i % ranks, comm,
					   &requests[i]);
			else
				MPI_Iallreduce(m[i].send, m[i].recv, count, type->type, MPI_SUM,
					       comm, &requests[i]);
		}
		done = 0;
		if (way == 0)
			MPI_Waitall(FLIGHTS, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; way == 1 && i < FLIGHTS; i++)
			MPI_Waitany(FLIGHTS, requests, &idx, MPI_STATUS_IGNORE);
		while (way == 2 && !done)
			MPI_Testall(FLIGHTS, requests, &done, MPI_STATUSES_IGNORE);
		for (int i = FLIGHTS - 1; way == 3 && i >= 0; i--)
			MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
		for (int left = FLIGHTS, some[FLIGHTS]; way == 4 && left; left -= done)
			MPI_Waitsome(FLIGHTS, requests, &done, some, MPI_STATUSES_IGNORE);
		for (int i = 0; i < FLIGHTS; i++) {
			if (requests[i] != MPI_REQUEST_NULL)
				failures++;
			check("in flight", type, m[i].recv, m[i].want, (size_t)count, ranks);
		}
	}
	for (int i = 0; i < FLIGHTS; i++)
		memory_put(&m[i]);
}

static void lasting(const struct type *type, int count, MPI_Comm comm)
{
	struct memory m;
	MPI_Request requests[3];
	int rank, ranks, flag;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
#ifndef OPEN_MPI /* MPICH 4.0.2 now and then waits for ever for persistent collectives of its own */
	if (ranks == 1 || !count || type->type == MPI_UNSIGNED || type->type == MPI_UINT64_T)
		return;
#endif
	m = memory_get((size_t)count * type->bytes);
	MPI_Allreduce_init(m.send, m.recv, count, type->type, MPI_SUM, comm, MPI_INFO_NULL,
			   &requests[0]);
	MPI_Bcast_init(m.want, count, type->type, 0, comm, MPI_INFO_NULL, &requests[1]);
	MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[2]);
	MPI_Wait(&requests[0], MPI_STATUS_IGNORE); /* inactive: at once */
	for (int round = 0; round < 3; round++) {
		fill(m.send, type, (size_t)count, (uint64_t)(rank + 7 * round));
		memset(m.recv, 0, (size_t)count * type->bytes);
		MPI_Startall(2, requests);
		MPI_Start(&requests[2]);
		if (round == 1)
			for (flag = 0; !flag;)
				MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
		else
			MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
		if (requests[0] == MPI_REQUEST_NULL || requests[1] == MPI_REQUEST_NULL)
			failures++;
		PMPI_Allreduce(m.send, m.want, count, type->type, MPI_SUM, comm);
		check("persistent", type, m.recv, m.want, (size_t)count, ranks);
	}
	for (int i = 0; i < 3; i++) {
		MPI_Request_free(&requests[i]);
		failures += requests[i] != MPI_REQUEST_NULL;
	}
	memory_put(&m);
}

static const struct type types[] = {
	{ "float", MPI_FLOAT, 4, 1 },     { "int", MPI_INT, 4, 0 },
	{ "double", MPI_DOUBLE, 8, 2 },   { "long", MPI_LONG, 8, 0 },
	{ "int8", MPI_INT8_T, 1, 0 },     { "unsigned", MPI_UNSIGNED, 4, 0 },
	{ "uint64", MPI_UINT64_T, 8, 0 }, { "short", MPI_SHORT, 2, 5 },
	{ "byte", MPI_BYTE, 1, 3 },       { "2int", MPI_2INT, 8, 4 },
};

static void sweep(const struct type *type, int count, MPI_Comm comm)
{
	static const MPI_Op sums[] = { MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD };
	static const MPI_Op bits[] = { MPI_BAND, MPI_BOR, MPI_BXOR };
	static const MPI_Op logic[] = { MPI_LAND, MPI_LOR, MPI_LXOR };
	MPI_Op ops[10];
	int number = 0;

	if (type->nature <= 2)
		for (int i = 0; i < (type->nature ? 3 : 4); i++)
			ops[number++] = sums[i];
	for (int i = 0; (type->nature == 0 || type->nature == 3) && i < 3; i++)
		ops[number++] = bits[i];
	for (int i = 0; type->nature == 0 && i < 3; i++)
		ops[number++] = logic[i];
	if (type->nature == 4) {
		ops[number++] = MPI_MINLOC;
		ops[number++] = MPI_MAXLOC;
	}
	if (type->nature == 5) /* MPI does its sums */
		moves(type, count, comm);
	for (int i = 0; i < number; i++) {
		/* MPICH 4.0 compares these as if they were signed, and some of Open MPI's loops do: see unsigned_test. */
		if ((ops[i] == MPI_MAX || ops[i] == MPI_MIN) &&
		    (type->type == MPI_UNSIGNED || type->type == MPI_UINT64_T))
			continue;
		op_number = i;
		allreduces(type, ops[i], count, comm);
		scatters(type, ops[i], count, comm);
	}
	if (type->nature <= 2) {
		moves(type, count, comm);
		flights(type, count, comm);
		lasting(type, count, comm);
	}
}

/* What is right, whatever MPI says: rank 0 has 0, the others have the largest number. */
static void unsigned_test(void)
{
	uint64_t mine = world_rank ? UINT64_MAX : 0, most = 1, least = 1;
	unsigned mine_32 = world_rank ? UINT32_MAX : 0, most_32 = 1, least_32 = 1;

	MPI_Allreduce(&mine, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&mine, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&mine_32, &most_32, 1, MPI_UNSIGNED, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&mine_32, &least_32, 1, MPI_UNSIGNED, MPI_MIN, MPI_COMM_WORLD);
	checks++;
	if (most == UINT64_MAX && !least && most_32 == UINT32_MAX && !least_32)
		return;
	printf("FAILED: rank %d: the most and the least of unsigned numbers\n", world_rank);
	failures++;
}

static void all_of(int count, size_t number, MPI_Comm comm)
{
	for (size_t i = 0; i < number; i++)
		sweep(&types[i], count, comm);
	MPI_Barrier(comm);
}

int main(int argc, char **argv)
{
	static const int few[] = { 0, 1, 5, 360, 1000, 20011 };
	static const int big[] = { 100003, 1 << 20, 1 << 24 };
	const size_t every = sizeof(types) / sizeof(*types);
	int ranks, all[2], mine[2];
	MPI_Comm dup, odd;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &odd);
	for (size_t i = 0; i < sizeof(few) / sizeof(*few); i++)
		all_of(few[i], every, MPI_COMM_WORLD);
	unsigned_test();
	all_of(1000, 3, dup);
	all_of(1001, 3, odd); /* one of its ranks alone, with three */
	all_of(17, 3, MPI_COMM_SELF);
	MPI_Comm_free(&odd);
	if (argc > 1 && !strcmp(argv[1], "long"))
		for (size_t i = 0; i < sizeof(big) / sizeof(*big); i++)
			all_of(big[i], i == 2 ? 2 : 5, MPI_COMM_WORLD);
	MPI_Comm_free(&dup);
	mine[0] = failures;
	mine[1] = checks;
	PMPI_Reduce(mine, all, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!world_rank)
		printf("%d failures in %d checks of %d ranks\n", all[0], all[1], ranks);
	MPI_Finalize();
	return failures != 0;
}
