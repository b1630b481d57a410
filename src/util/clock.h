/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - CLOCK_MONOTONIC: since some day, and nobody sets it. */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

uint64_t clock_ns(void);

static inline double clock_s(void)
{
	return (double)clock_ns() * 1e-9;
}

static inline int64_t clock_ms(void)
{
	return (int64_t)(clock_ns() / 1000000);
}

static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000),
				  .tv_nsec = (long)(ns % 1000000000) };
}

/* pthread_cond_timedwait goes by this clock then: a wall clock may be set back by hours. */
void clock_cond_init(pthread_cond_t *cond);

#endif
