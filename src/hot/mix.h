/* SPDX-License-Identifier: Apache-2.0 */
/* mix.h - a permutation of 64-bit numbers that leaves no pattern of keys: splitmix64's end (util/rng.h). */
#ifndef HOT_MIX_H
#define HOT_MIX_H

#include <stdint.h>

static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

#endif
