/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - see machine.h. */
#include "util/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

int machine_parse(const char *line, uint64_t *idle, uint64_t *stolen)
{
	uint64_t asleep, waiting, gone;

	/* user nice system idle iowait irq softirq steal */
	if (strncmp(line, "cpu ", 4) != 0 ||
	    sscanf(line, "cpu %*u %*u %*u %" SCNu64 " %" SCNu64 " %*u %*u %" SCNu64, &asleep,
		   &waiting, &gone) != 3)
		return -1;
	*idle = asleep + waiting;
	*stolen = gone;
	return 0;
}

static uint64_t watched_read(const pid_t *watched, uint32_t count)
{
	uint64_t sum_ns = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct timespec time;
		clockid_t clock;

		if (!clock_getcpuclockid(watched[i], &clock) && !clock_gettime(clock, &time))
			sum_ns += (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
	}
	return sum_ns;
}

int machine_read(struct machine *machine, const pid_t *watched, uint32_t count)
{
	uint64_t tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK), idle, stolen;
	FILE *file = fopen("/proc/stat", "r");
	char line[256];
	int result = -1;

	if (!file)
		return -1;
	if (fgets(line, sizeof(line), file) && !machine_parse(line, &idle, &stolen)) {
		*machine = (struct machine){
			.at_ns = clock_ns(),
			.processors = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN),
			.idle_ns = idle * tick_ns,
			.stolen_ns = stolen * tick_ns,
			.watched_ns = watched_read(watched, count),
		};
		result = 0;
	}
	fclose(file);
	return result;
}

uint64_t machine_busy_ns(const struct machine *from, const struct machine *to)
{
	uint64_t all = (to->at_ns - from->at_ns) * to->processors;
	uint64_t other = to->idle_ns - from->idle_ns + to->stolen_ns - from->stolen_ns;

	return all > other ? all - other : 0; /* ticks are coarse: idle may be ahead by one */
}
