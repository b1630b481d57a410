/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hurry_fixture.h - for tests: a log that is to try again in a second tries again after 50 ms, for its wall clock is
 * behind the kernel's. Needs -Wl,--wrap=clock_gettime; included once in a program.
 */
#ifndef PS_HURRY_FIXTURE_H
#define PS_HURRY_FIXTURE_H

#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	static const long behind_ns = 950000000, ns_per_s = 1000000000;
	int result = __real_clock_gettime(clock, now);

	if (clock != CLOCK_REALTIME)
		return result;
	now->tv_nsec -= behind_ns;
	if (now->tv_nsec < 0) {
		now->tv_nsec += ns_per_s;
		now->tv_sec--;
	}
	return result;
}

#endif
