/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse.h - sparse mode over the simulated network: the shipped endpoints of workers, engines of aggregators and
 * home of a parameter server, with a disk, cold batches and deaths of each of them. Control is not built yet, so
 * the world stands in for it: it notices what is dead, has the server fence it, and tells who is where.
 *
 * What is checked of docs/protocol.md:
 *   X1, X2, X4  at the end the server's sums are those computed from what was pushed, over all generations, and
 *               epochs were recorded in order
 *   X5          what a worker holds for committed is covered by a cut that is on the disk
 *   R-SP-31     a value that a worker may use of its copy is the server's, as of all epochs that it says
 *   and that it ends: something gets on within the bound
 */
#ifndef SIM_SPARSE_H
#define SIM_SPARSE_H

#include <stdio.h>

#include "core/sparse/table_sparse.h"
#include "sim/net.h"

enum { SPARSE_WORKERS_MAX = 8, SPARSE_ENGINES = 3, SPARSE_LIVES_MAX = 8 };

struct sparse_scenario {
	uint64_t seed;
	struct sparse_table table;
	struct net_weather weather;
	struct net_host host;
	uint64_t pairs_max, age_ns, patience_ns; /* see engine_sparse.h, endpoint_sparse.h */
	uint64_t disk_ns;                        /* a record is on the disk within so long */
	uint64_t bound_ns;                       /* no longer without progress */
	uint32_t pushes, batches;                /* of each worker */
	uint32_t kept_max, strikes;
	bool has_copies; /* workers have copies of what is hot */
	bool has_stranger; /* somebody sends packets from everybody's address, and does not know the generation */
};

struct sparse_report {
	bool is_failed;
	char failure[240];
	uint64_t packets, lost, pushes, pushes_again, parts, parts_again, epochs, generations;
	uint64_t switch_deaths, zombies, server_deaths, joins, batches;
	uint64_t forged;
	uint64_t zombie_acks; /* of PUSHes, by switches that are fenced */
	uint64_t bcasts, copied,
		pulled; /* parts in copies; values that were used there, and pulled */
	uint64_t virtual_ns, stall_ns, digest;
};

/* A seed chooses everything. */
void sparse_scenario_draw(struct sparse_scenario *scenario, uint64_t seed);
void sparse_scenario_describe(const struct sparse_scenario *scenario, char text[256]);
/* trace: a line for each packet and event; NULL: none. */
void sparse_scenario_run(const struct sparse_scenario *scenario, struct sparse_report *report,
			 FILE *trace);

/* `tally sim --sparse ...`; the exit status as sim_main's. */
int sparse_main(int argc, char **argv);

#endif
