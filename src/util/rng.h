/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rng.h - random numbers that are the same on every machine: splitmix64 (Steele, Lea, Flood 2014), 64
 * bits of state, integers only. For simulations, tests and jitter; never for secrets.
 */
#ifndef UTIL_RNG_H
#define UTIL_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t x = rng->state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* rng_init starts sequence number `stream` of `seed`: streams of one seed have nothing in common, so
 * that a draw more in one does not change the others. */
static inline void rng_init(struct rng *rng, uint64_t seed, uint64_t stream)
{
	rng->state = seed;
	rng->state = rng_next(rng) ^ stream * 0xd1342543de82ef95;
	rng->state = rng_next(rng);
}

static inline uint32_t rng_u32(struct rng *rng)
{
	return (uint32_t)(rng_next(rng) >> 32);
}

/* 0..below-1; below >= 1. */
static inline uint32_t rng_below(struct rng *rng, uint32_t below)
{
	return (uint32_t)((uint64_t)rng_u32(rng) * below >> 32);
}

/* first..last, both included. */
static inline uint64_t rng_between(struct rng *rng, uint64_t first, uint64_t last)
{
	uint64_t span = last - first + 1;

	return span ? first + rng_next(rng) % span : rng_next(rng);
}

/* True `parts` times in a million. */
static inline bool rng_chance(struct rng *rng, uint32_t parts)
{
	return rng_below(rng, 1000000) < parts;
}

/* first..last, each octave as likely as another (near enough); first >= 1. */
static inline uint64_t rng_log(struct rng *rng, uint64_t first, uint64_t last)
{
	uint32_t low = 63 - (uint32_t)__builtin_clzll(first);
	uint32_t high = 63 - (uint32_t)__builtin_clzll(last);
	uint64_t octave = 1ull << (low + rng_below(rng, high - low + 1));
	uint64_t from = octave < first ? first : octave;
	uint64_t to = 2 * octave - 1 > last ? last : 2 * octave - 1;

	return rng_between(rng, from, to);
}

#endif
