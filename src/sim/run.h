/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - one simulated run: the shipped endpoints and engines of a scenario over a simulated network,
 * everything checked as it happens. Nothing in it depends on anything but the scenario.
 */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "sim/scenario.h"
#include <stdio.h>

/* What a run did. */
struct run_report {
	bool is_failed;
	char failure[240];
	uint64_t chunks_express, chunks_bulk; /* as the workers started them */
	uint64_t packets;                     /* sent by any node */
	uint64_t lost;                        /* on the way, by any cause */
	uint64_t updates, resent;             /* of workers: first copies, further ones */
	uint64_t probes;
	uint64_t exponent_rounds, detail_rounds;
	uint64_t elements; /* verified, at one rank: the others are bit-identical */
	uint64_t saturated;
	uint64_t operations;
	uint64_t mismatches; /* verdicts, in runs that want one */
	uint64_t lives;      /* of the job: one, and one after each restart */
	uint64_t errors;     /* jobs that ended with a named error, as they were meant to */
	uint64_t virtual_ns;
	uint64_t stall_ns; /* the longest time without a result or a submission */
	uint64_t digest;   /* of every packet: equal runs have equal digests */
};

/* Adds what `other` did. */
void run_report_add(struct run_report *sum, const struct run_report *other);

/* Runs the scenario. Failures are written to `diagram`, as a sequence diagram of the last packets, unless
 * it is NULL. */
void run_scenario(const struct scenario *scenario, struct run_report *report, FILE *diagram);

#endif
