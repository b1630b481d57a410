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

enum { RANKS_MAX = 16, RANKS_TEXT_MAX = 1024, RANKS_AGGREGATORS_MAX = 4, RANKS_WORDS_MAX = 6 };

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
	volatile bool has_come;
};

/* Shared by all. */
struct ranks_shared {
	struct ranks_report report[RANKS_MAX];
	double event_s; /* when the test did something to them */
	uint32_t arrived;
	volatile double still_s; /* that this machine has stood still: still.h */
	uint32_t warnings;       /* of the aggregators' processes; and the last one */
	char warning[RANKS_TEXT_MAX];
};

struct ranks {
	uint32_t size;
	bool is_local;
	uint32_t limit_s; /* a rank that takes longer is ended; 0: 40 s */
	/* of the aggregators' processes; 0: their choice */
	uint32_t shards, lanes_max, slots, run, jobs_max, heartbeat_ms;
	uint64_t memory_total;
	const char *key;
	uint16_t port;        /* of the first one: then shards follow it */
	uint32_t aggregators; /* 0: one; or as many, each with one address in the list */
	bool is_v6;           /* also if the whole test is (RANKS_FAMILY) */
	bool is_behind_proxy; /* the aggregator, over IPv4 whatever the test's family */
	void (*body)(struct ranks *ranks, uint32_t rank);
	const void *arg;
	bool is_killed[RANKS_MAX]; /* expected to end by a signal */

	struct ranks_shared *shared;
	pid_t pid[RANKS_MAX], still_pid;
	pid_t aggregator_pid; /* the first one's */
	pid_t aggregator_pids[RANKS_AGGREGATORS_MAX];
	char aggregator[RANKS_AGGREGATORS_MAX * 32]; /* given by the test: it has one of its own */
	char job[64];
};

/* Starts the aggregator if it is not local, runs body on every rank, ends the aggregator. True if all
 * ranks exited with 0 (or were killed, where expected). */
bool ranks_run(struct ranks *ranks);
/* Its two halves, for tests that do something between them. */
bool ranks_start(struct ranks *ranks);
bool ranks_end(struct ranks *ranks);
/* An aggregator with these options on `port` (0: the kernel chooses): *pid, and the port; 0: it failed. */
uint16_t ranks_aggregator(const struct ranks *ranks, uint16_t port, pid_t *pid);

/* In the test: until all but the killed ones have reported, at most so long. */
void ranks_wait_reports(const struct ranks *ranks, double patience_s);
/* All but the killed ones have this result within the limit after event_s, and what the machine stood still, with
 * these words (up to a NULL) in the text; says what is wrong. */
bool ranks_have_reported(const struct ranks *ranks, int result, double within_s,
			 const char *const words[RANKS_WORDS_MAX]);

/* In a rank: joins the job; CHECKs that it works. */
struct tally_comm *ranks_join(struct ranks *ranks, uint32_t rank);
/* In a rank: one verified sum, different on every rank and at every place; what the call returned. */
int ranks_sum(struct tally_comm *comm, uint32_t seed);
/* In a rank: finalize and destroy, CHECKed. */
void ranks_leave(struct tally_comm *comm);
/* In a rank: what a call returned, with the communicator's text and the time. */
void ranks_report(struct ranks *ranks, uint32_t rank, struct tally_comm *comm, int result);
/* In a rank: waits until all ranks have come here (no tally in it). */
void ranks_meet(struct ranks *ranks);
/* In the test: waits until they all have, so many times; false: not in 20 s. */
bool ranks_have_met(const struct ranks *ranks, uint32_t times);
/* How many warnings and errors the aggregators' processes have logged; the last is in shared->warning. */
uint32_t ranks_warnings(const struct ranks *ranks);
uint32_t ranks_self(void);
double ranks_now_s(void);
/* 4, or with RANKS_FAMILY=6 in the environment 6: how all ranks reach an aggregator that is not local. */
int ranks_family(void);
/* That family's loopback address, as it stands before ":port". */
const char *ranks_loopback(void);
/* For main: true, having said so, if this host has no such address: exit status 77 is "skipped". */
bool ranks_lack_family(void);
/* This host's name, as errors tell it. */
const char *ranks_host(void);

#endif
