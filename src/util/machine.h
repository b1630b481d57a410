/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - how much the processors of this machine have worked, all together, and for some processes. By the kernel's idle time:
 * what it samples as user and system time misses whoever sleeps and wakes with the tick.
 */
#ifndef UTIL_MACHINE_H
#define UTIL_MACHINE_H

#include <stdint.h>
#include <sys/types.h>

enum { MACHINE_WATCHED_MAX = 64 };

/* Since the machine, and the processes, began. */
struct machine {
	uint64_t at_ns;              /* clock_ns */
	uint64_t processors;         /* in use */
	uint64_t idle_ns, stolen_ns; /* of all processors; stolen: by the hypervisor, for others */
	uint64_t watched_ns;         /* of the processes that are watched, all threads */
};

/* count of them, at most MACHINE_WATCHED_MAX. One that has ended counts no more. -1: /proc/stat is not as expected. */
int machine_read(struct machine *machine, const pid_t *watched, uint32_t count);

/* What the processors have worked between the two; not what was stolen. */
uint64_t machine_busy_ns(const struct machine *from, const struct machine *to);

/* Of the first line of /proc/stat: in ticks. -1: it is not one. */
int machine_parse(const char *line, uint64_t *idle, uint64_t *stolen);

#endif
