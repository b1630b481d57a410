/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outage_rank.c - a rank of two that adds up for so long, or adds up once, computes for so long and adds up again:
 * what paths.sh takes the link away from. Exit status 0: all sums were right.
 *
 *     outage_rank busy|idle SECONDS
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tally.h"

enum { VALUES = 100000 };

static int32_t values[VALUES], sums[VALUES];

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int32_t value_of(uint32_t rank, uint32_t round, uint32_t i)
{
	int32_t value = (int32_t)(1 + i % 1000 + 7 * round + 100000 * rank);

	return (i + rank) % 2 ? value : -value;
}

/* The first element says who wants to stop: all must in the same round. */
static int one_sum(struct tally_comm *comm, uint32_t round, bool wants_end, bool *is_over)
{
	uint32_t rank = tally_comm_rank(comm), size = tally_comm_size(comm);
	int result;

	for (uint32_t i = 1; i < VALUES; i++)
		values[i] = value_of(rank, round, i);
	values[0] = wants_end;
	result = tally_allreduce(values, sums, VALUES, TALLY_INT32, TALLY_SUM, comm);
	if (result) {
		fprintf(stderr, "rank %u, round %u: %d, %s\n", rank, round, result,
			tally_get_last_error(comm));
		return 1;
	}
	for (uint32_t i = 1; i < VALUES; i++) {
		int32_t wanted = 0;

		for (uint32_t r = 0; r < size; r++)
			wanted += value_of(r, round, i);
		if (sums[i] == wanted)
			continue;
		fprintf(stderr, "rank %u, round %u, element %u: %" PRId32 " and not %" PRId32 "\n",
			rank, round, i, sums[i], wanted);
		return 1;
	}
	*is_over = sums[0] > 0;
	return 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? strtod(argv[2], NULL) : 1, end_s;
	bool is_idle = argc > 1 && !strcmp(argv[1], "idle"), is_over = false;
	struct tally_comm *comm;
	uint32_t round = 0;

	if (tally_comm_init_env(&comm, NULL)) {
		fprintf(stderr, "%s\n", tally_get_last_error(NULL));
		return 1;
	}
	end_s = now_s() + seconds;
	while (!is_over) {
		if (one_sum(comm, round++, now_s() >= end_s, &is_over))
			return 1;
		if (round == 1)
			fprintf(stderr, "it has begun\n");
		if (is_idle && !is_over)
			usleep((useconds_t)(seconds * 1e6));
	}
	if (tally_comm_finalize(comm)) {
		fprintf(stderr, "finalize: %s\n", tally_get_last_error(comm));
		return 1;
	}
	tally_comm_destroy(comm);
	printf("%u rounds\n", round);
	return 0;
}
