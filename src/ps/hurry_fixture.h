/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hurry_fixture.h - for tests: clocks that differ from the kernel's. The monotonic one is 950 ms behind, so that a log
 * which is to try again in a second does so after 50 ms. The wall clock is an hour ahead, as if it had been set back
 * since: who waits for a time of it waits an hour. Needs -Wl,--wrap=clock_gettime; included once in a program.
 */
#ifndef PS_HURRY_FIXTURE_H
#define PS_HURRY_FIXTURE_H

#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	static const long behind_ns = 950000000, ns_per_s = 1000000000, ahead_s = 3600;
	int result = __real_clock_gettime(clock, now);

	if (clock == CLOCK_REALTIME)
		now->tv_sec += ahead_s;
	if (clock != CLOCK_MONOTONIC)
		return result;
	now->tv_nsec -= behind_ns;
	if (now->tv_nsec < 0) {
		now->tv_nsec += ns_per_s;
		now->tv_sec--;
	}
	return result;
}

#endif
