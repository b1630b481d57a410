/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - CLOCK_MONOTONIC: since some day, and nobody sets it. */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);

static inline double clock_s(void)
{
	return (double)clock_ns() * 1e-9;
}

static inline int64_t clock_ms(void)
{
	return (int64_t)(clock_ns() / 1000000);
}

#endif
