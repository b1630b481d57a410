/* SPDX-License-Identifier: Apache-2.0 */
/* splitmix.h - a number for a number, each bit of it of all bits of x: splitmix64's (Steele, Lea, Flood 2014). */
#ifndef CORE_SPLITMIX_H
#define CORE_SPLITMIX_H

#include "core/shared/env.h"

/* The first output of the generator of that name when x is its state. */
static inline uint64_t splitmix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

#endif
