/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - TALLY_TIMELINE: what happened to every operation, as a file that chrome://tracing and
 * Perfetto load: an array of JSON objects, complete whenever somebody looks, whatever becomes of the process.
 * One file for all communicators of a process that name it. Memory is bounded: what the background thread
 * does not come round to write is dropped, and counted in the file.
 */
#ifndef LIB_TIMELINE_H
#define LIB_TIMELINE_H

#include "core/job/control.h"
#include "lib/report.h"

struct timeline;

/* One operation; times on CLOCK_MONOTONIC. */
struct timeline_op {
	struct control_op op;
	uint64_t submitted_ns;
	uint64_t first_ns; /* its first packet was built; 0: not known */
	uint64_t complete_ns;
	int result;
	uint32_t comm; /* of timeline_open */
};

/* NULL: path is "", or the file cannot be made, which is said once. *comm is the communicator's number. */
struct timeline *timeline_open(const struct report_who *who, const char *path, uint32_t *comm);
/* Writes what is left; the last one closes the file. NULL is fine. */
void timeline_close(struct timeline *timeline);

/* From any thread. Never waits for the disk. */
void timeline_add(struct timeline *timeline, const struct timeline_op *op);
/* The background thread's: writes what is due. */
void timeline_service(uint64_t now_ns);

/* Around a fork. */
void timeline_fork_prepare(void);
void timeline_fork_parent(void);
void timeline_fork_child(void);

#endif
