/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snr.c - how exact float32 sums are: signal to noise, in dB, of tally's and of a ring's that adds in float32, both
 * against float64. A rank of a job: each has a vector of its own.
 *
 *     tally run -n 4 -- snr FILE FILE FILE FILE    rank r has the raw, little-endian float32 of the r-th
 *     tally run -n 4 -- snr ELEMENTS               made up: small numbers, and in each 16,384 of them a large one
 *
 * 1: tally's is more than 1 dB below the ring's, or ranks have other bits than rank 0; of one rank: the sum is not what
 * went in, bit for bit. 2: a file cannot be read. bench/snr.sh runs it with the MTUs that are not everywhere.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/shared/hash.h"
#include "tally.h"

enum { SPIKE_EVERY = 16384, RANKS_MAX = 256 };
static const double allowed_db = 1;

struct job {
	int rank, size;
	size_t count;
	float *own[RANKS_MAX]; /* of all ranks: what each puts in */
	float *sum, *ring;
};

static void *memory_get(size_t count)
{
	void *memory = calloc(count ? count : 1, sizeof(float));

	if (memory)
		return memory;
	fprintf(stderr, "snr: no memory for %zu numbers\n", count);
	exit(2);
}

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "snr: %s: %s\n", what, tally_get_last_error(NULL));
	exit(1);
}

/* --- what is summed --- */

static void file_read(struct job *job, int rank, const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat is;
	size_t count;

	if (!file || fstat(fileno(file), &is) || !S_ISREG(is.st_mode) || is.st_size % 4) {
		fprintf(stderr, "snr: %s: not a file of float32\n", path);
		exit(2);
	}
	count = (size_t)is.st_size / sizeof(float);
	if (rank && count != job->count) {
		fprintf(stderr, "snr: %s: %zu numbers, the first file has %zu\n", path, count,
			job->count);
		exit(2);
	}
	job->count = count;
	job->own[rank] = memory_get(count);
	if (fread(job->own[rank], sizeof(float), count, file) != count) {
		fprintf(stderr, "snr: %s: cannot be read\n", path);
		exit(2);
	}
	fclose(file);
}

static float made_up(int rank, size_t i)
{
	uint64_t some = hash_number(hash_number(HASH_BEGIN, (uint64_t)rank, 4), i, 8);
	double small = ((double)(some >> 11) * 0x1p-53 - 0.5) * 1e-3;

	return (float)(i % SPIKE_EVERY == 7 ? 100 * (1 + small) : small);
}

static void make_up(struct job *job, size_t count)
{
	job->count = count;
	for (int rank = 0; rank < job->size; rank++) {
		job->own[rank] = memory_get(count);
		for (size_t i = 0; i < count; i++)
			job->own[rank][i] = made_up(rank, i);
	}
}

/* Without tally: each part of the vector begins at another rank, and goes round. */
static void ring_sum(struct job *job)
{
	size_t size = (size_t)job->size;

	for (size_t part = 0; part < size; part++) {
		for (size_t i = job->count * part / size; i < job->count * (part + 1) / size; i++) {
			float sum = job->own[part][i];

			for (size_t step = 1; step < size; step++)
				sum += job->own[(part + step) % size][i];
			job->ring[i] = sum;
		}
	}
}

/* --- what came of it --- */

static double true_sum(const struct job *job, size_t i)
{
	double sum = 0;

	for (int rank = 0; rank < job->size; rank++)
		sum += (double)job->own[rank][i];
	return sum;
}

/* Infinite if there is no error. */
static double snr_db(const struct job *job, const float *sum, size_t *lost)
{
	double signal = 0, noise = 0;

	*lost = 0;
	for (size_t i = 0; i < job->count; i++) {
		double is = true_sum(job, i), error = (double)sum[i] - is;

		signal += is * is;
		noise += error * error;
		*lost += sum[i] == 0 && is != 0;
	}
	return noise > 0 ? 10 * log10(signal / noise) : (double)INFINITY;
}

static int judge(struct job *job, const struct tally_stats *stats)
{
	size_t lost, ring_lost;
	double tally, ring;

	if (job->size == 1) {
		bool is_same = !memcmp(job->sum, job->own[0], job->count * sizeof(float));

		printf("%zu float32 of one rank: %s\n", job->count,
		       is_same ? "the same bits" : "OTHER BITS");
		return is_same ? 0 : 1;
	}
	ring_sum(job);
	tally = snr_db(job, job->sum, &lost);
	ring = snr_db(job, job->ring, &ring_lost);
	printf("%zu float32 of %d ranks, %u in a packet: tally %.1f dB, a ring %.1f dB; sums that "
	       "became 0: %zu, a "
	       "ring's %zu\n",
	       job->count, job->size, stats->lanes, tally, ring, lost, ring_lost);
	return tally < ring - allowed_db ? 1 : 0;
}

/* int32 sums are exact. */
static bool bits_agree(const struct job *job, struct tally_comm *comm)
{
	uint64_t hash = hash_bytes(HASH_BEGIN, job->sum, job->count * sizeof(float));
	int32_t mine = (int32_t)(hash >> 42), all, others; /* 22 bits, of 256 ranks */

	check(tally_allreduce(&mine, &all, 1, TALLY_INT32, TALLY_SUM, comm), "allreduce");
	mine = all != mine * job->size;
	check(tally_allreduce(&mine, &others, 1, TALLY_INT32, TALLY_SUM, comm), "allreduce");
	return !others;
}

static void job_fill(struct job *job, int argc, char **argv)
{
	char *end = NULL;
	unsigned long long count = argc == 2 ? strtoull(argv[1], &end, 10) : 0;

	if (count && !*end) {
		make_up(job, (size_t)count);
		return;
	}
	if (argc - 1 != job->size || job->size > RANKS_MAX) {
		fprintf(stderr, "usage: tally run -n N -- snr FILE ... (N of them) | ELEMENTS\n");
		exit(2);
	}
	for (int rank = 0; rank < job->size; rank++)
		file_read(job, rank, argv[1 + rank]);
}

int main(int argc, char **argv)
{
	struct tally_stats stats = { .size = sizeof(stats) };
	struct tally_comm *comm;
	struct job job = { 0 };
	int result = 0;

	check(tally_comm_init_env(&comm, NULL), "init");
	job.rank = (int)tally_comm_rank(comm);
	job.size = (int)tally_comm_size(comm);
	job_fill(&job, argc, argv);
	job.sum = memory_get(job.count);
	job.ring = memory_get(job.count);
	check(tally_allreduce(job.own[job.rank], job.sum, job.count, TALLY_FLOAT32, TALLY_SUM,
			      comm),
	      "allreduce");
	if (!bits_agree(&job, comm)) {
		fprintf(stderr, "snr: ranks have other bits\n");
		result = 1;
	}
	check(tally_comm_get_stats(comm, &stats), "stats");
	if (job.rank == 0)
		result |= judge(&job, &stats);
	check(tally_comm_finalize(comm), "finalize");
	tally_comm_destroy(comm);
	for (int rank = 0; rank < job.size; rank++)
		free(job.own[rank]);
	free(job.sum);
	free(job.ring);
	return result;
}
