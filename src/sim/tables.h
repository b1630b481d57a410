/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.h - a table of keys over simulated TCP: the shipped core/kv/worker_kv.h, one for each process of a worker, against
 * core/kv/server_kv.h, as src/kvlib and src/ps drive them, and time. Connections are cut, fall silent or stall; processes
 * die and others come in their place; servers die and have what their disks have; disks are slow, or full for a while.
 * Nothing is hot here (that is sparse.h), and there is no server without a log (R-KV-20).
 *
 * What is checked of docs/protocol.md, by what processes have said and the disks have, without core:
 *   R-KV-9   each batch is in once, and in order; what a process was told is in, the disk has
 *   R-KV-10  a pull brings what was pushed before it, and what R-KV-15 promises of others
 *   R-KV-11  no barrier is passed before all have come, and none is answered that the disk does not have
 *   R-KV-12  who is there speaks every heartbeat; 8 without a word end a connection, and fewer do not
 *   R-KV-13  who believes that it has left has, on the disk; in the end nobody is a member
 *   R-KV-16  a step is of whole steps of all, or dropped
 *   R-KV-17  who waits for one that has gone is told so when it must be, and not before
 *   and that nobody waits for ever, and no table ends without a reason
 */
#ifndef SIM_TABLES_H
#define SIM_TABLES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tables_report {
	bool is_failed;
	char failure[240];
	uint64_t batches, barriers, pulls; /* as processes were told */
	uint64_t connections, processes, server_deaths, refused, silences, runs_over;
	uint64_t virtual_ns, digest;
};

/* A seed chooses everything. trace: a line for each message and event; NULL: none. */
void tables_run(uint64_t seed, struct tables_report *report, FILE *trace);
void tables_describe(uint64_t seed, char text[256]);

#endif
