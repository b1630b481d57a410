/* SPDX-License-Identifier: Apache-2.0 */
/*
 * still.h - how long this machine has stood still, for tests which say that something comes within a time: a process
 * that only sleeps adds up by how much it was late. What all processes have lost, no program of ours could have used.
 */
#ifndef TESTS_E2E_STILL_H
#define TESTS_E2E_STILL_H

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static inline double still_now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Forks it; *sum_s is shared memory, borrowed while it lives. It ends with its parent, or by SIGKILL. */
static inline pid_t still_watch(volatile double *sum_s)
{
	const double step_s = 0.01, usual_s = 0.1; /* late by less: the scheduler */
	pid_t parent = getpid(), pid = fork();
	double was_s;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	was_s = still_now_s();
	while (getppid() == parent) {
		double late_s;

		usleep((useconds_t)(step_s * 1e6));
		late_s = still_now_s() - was_s - step_s;
		was_s = still_now_s();
		if (late_s > usual_s)
			*sum_s += late_s;
	}
	_exit(0);
}

#endif
