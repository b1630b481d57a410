/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks.h - several ranks of one job as processes of this machine, for tests: each is forked from a
 * process that has never used tally, runs one function and leaves a report in shared memory. The
 * aggregator is a process of its own, or in rank 0 (local mode).
 */
#ifndef TESTS_E2E_RANKS_H
#define TESTS_E2E_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "tally.h"

enum { RANKS_MAX = 16, RANKS_TEXT_MAX = 1024 };

/* In a rank: says what is wrong and ends it. */
#define CHECK(claim)                                                                    \
	do {                                                                            \
		if (!(claim)) {                                                         \
			fprintf(stderr, "%s:%d: rank %u: %s: %s\n", __FILE__, __LINE__, \
				ranks_self(), #claim, tally_get_last_error(NULL));      \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)

/* What a rank tells the test. */
struct ranks_report {
	int result;
	char text[RANKS_TEXT_MAX];
	double at_s; /* when, on the monotonic clock */
	uint64_t value;
};

/* Shared by all. */
struct ranks_shared {
	struct ranks_report report[RANKS_MAX];
	double event_s; /* when the test did something to them */
	uint32_t arrived;
};

struct ranks {
	uint32_t size;
	bool is_local;
	uint32_t shards, lanes_max, run; /* of the aggregator's process; 0: its choice */
	bool is_v6;
	void (*body)(struct ranks *ranks, uint32_t rank);
	const void *arg;
	bool is_killed[RANKS_MAX]; /* expected to end by a signal */

	struct ranks_shared *shared;
	pid_t pid[RANKS_MAX];
	pid_t aggregator_pid;
	char aggregator[64];
	char job[64];
};

/* Starts the aggregator if it is not local, runs body on every rank, ends the aggregator. True if all
 * ranks exited with 0 (or were killed, where expected). */
bool ranks_run(struct ranks *ranks);

/* In a rank: joins the job; CHECKs that it works. */
struct tally_comm *ranks_join(struct ranks *ranks, uint32_t rank);
/* In a rank: finalize and destroy, CHECKed. */
void ranks_leave(struct tally_comm *comm);
/* In a rank: what a call returned, with the communicator's text and the time. */
void ranks_report(struct ranks *ranks, uint32_t rank, struct tally_comm *comm, int result);
/* In a rank: waits until all ranks have come here (no tally in it). */
void ranks_meet(struct ranks *ranks);
uint32_t ranks_self(void);
double ranks_now_s(void);
/* This host's name, as errors tell it. */
const char *ranks_host(void);

#endif
