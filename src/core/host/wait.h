/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.h - how ranks that share memory tell one another how far they are, and sleep until somebody is. Each step is
 * one access to the memory: the library makes them one after the other, the search (src/search/host.c) in every order.
 *
 * A rank passes phases 0, 1, 2, ... It publishes phase k in its line k % 2: the line's word grows by 2, after all that
 * the rank has written for this phase. Bit 0 says that somebody has given up. Who waits looks at the words of the
 * others. Who sleeps says for whom, counts itself asleep, looks again, and then waits for its bell. Who publishes looks
 * who is asleep afterwards, and rings for those who wait for it. So one of the two sees the other. All accesses are
 * sequentially consistent.
 */
#ifndef CORE_HOST_WAIT_H
#define CORE_HOST_WAIT_H

#include "core/shared/env.h"

enum {
	WAIT_RANKS_MAX = 64, /* a bit of `asleep` for each */
	WAIT_LINES = 2,
	WAIT_LINE_BYTES = 64,
	WAIT_VALUE_BYTES = WAIT_LINE_BYTES - 8,
	WAIT_ABORT = 1,
	WAIT_PHASE = 2,
	WAIT_NOBODY = WAIT_RANKS_MAX,
};

/* A line of the cache: what fits beside the word needs no other. */
struct wait_line {
	_Alignas(WAIT_LINE_BYTES) uint32_t word;
	uint32_t tag; /* which operation its publisher is in */
	uint8_t value[WAIT_VALUE_BYTES];
};
_Static_assert(sizeof(struct wait_line) == WAIT_LINE_BYTES, "no padding");

struct wait_bell {
	_Alignas(WAIT_LINE_BYTES) uint32_t rings;
	uint32_t awaited; /* for whom its rank sleeps */
};

/* What all ranks share; zeros at first. */
struct wait_words {
	_Alignas(WAIT_LINE_BYTES) uint64_t asleep;
	struct wait_bell bell[WAIT_RANKS_MAX];
	struct wait_line line[WAIT_RANKS_MAX][WAIT_LINES];
};

CORE_INLINE struct wait_line *wait_line(struct wait_words *words, uint32_t rank, uint32_t phase)
{
	return &words->line[rank][phase % WAIT_LINES];
}

enum wait_seen { WAIT_NOT_YET, WAIT_THERE, WAIT_ABORTED };

/* Has its publisher passed the phase? What was there before somebody gave up counts. */
CORE_INLINE enum wait_seen wait_look(const struct wait_line *line, uint32_t phase)
{
	uint32_t word = __atomic_load_n(&line->word, __ATOMIC_SEQ_CST);
	uint32_t target = (phase & ~1u) + WAIT_PHASE;

	if ((int32_t)((word & ~(uint32_t)WAIT_ABORT) - target) >= 0)
		return WAIT_THERE;
	return word & WAIT_ABORT ? WAIT_ABORTED : WAIT_NOT_YET;
}

/* What a step asks for: the next step, a call of the kernel and then the next step, or nothing more. */
enum wait_next { WAIT_STEP, WAIT_WAKE, WAIT_SLEEP, WAIT_OVER };

/* ---- publishing ---- */

struct wait_publish {
	uint32_t step;
	uint64_t left; /* who was asleep, and has not been looked at */
	uint32_t wake; /* WAIT_WAKE: whose bell */
};

CORE_INLINE enum wait_next wait_ring(struct wait_words *words, uint32_t rank)
{
	__atomic_fetch_add(&words->bell[rank].rings, 1, __ATOMIC_SEQ_CST);
	return WAIT_WAKE;
}

CORE_INLINE enum wait_next wait_publish_step(struct wait_publish *publish, struct wait_words *words,
					     uint32_t rank, uint32_t phase)
{
	uint32_t sleeper;

	switch (publish->step) {
	case 0:
		__atomic_fetch_add(&wait_line(words, rank, phase)->word, WAIT_PHASE,
				   __ATOMIC_SEQ_CST);
		publish->step = 1;
		return WAIT_STEP;
	case 1: /* after the word: else both could miss each other */
		publish->left = __atomic_load_n(&words->asleep, __ATOMIC_SEQ_CST);
		publish->step = 2;
		return publish->left ? WAIT_STEP : WAIT_OVER;
	case 2:
		sleeper = (uint32_t)__builtin_ctzll(publish->left);
		publish->left &= publish->left - 1;
		publish->step = publish->left ? 2 : 4;
		if (__atomic_load_n(&words->bell[sleeper].awaited, __ATOMIC_SEQ_CST) == rank) {
			publish->wake = sleeper;
			publish->step = 3;
		}
		return publish->step == 4 ? WAIT_OVER : WAIT_STEP;
	case 3:
		publish->step = publish->left ? 2 : 4;
		return wait_ring(words, publish->wake);
	default:
		return WAIT_OVER;
	}
}

/* ---- sleeping ---- */

struct wait_sleep {
	uint32_t step;
	uint32_t rings; /* WAIT_SLEEP: until the bell has other than these, or a time-out */
};

/* Until `awaited` has passed the phase, somebody gives up, or *is_called, which another thread of the process sets
 * (wait_call_step). awaited: WAIT_NOBODY for the latter alone. Over after one sleep, whatever has ended it. */
CORE_INLINE enum wait_next wait_sleep_step(struct wait_sleep *sleep, struct wait_words *words,
					   uint32_t rank, uint32_t awaited, uint32_t phase,
					   const uint32_t *is_called)
{
	struct wait_bell *bell = &words->bell[rank];
	const uint64_t bit = 1ull << rank;

	switch (sleep->step++) {
	case 0:
		__atomic_store_n(&bell->awaited, awaited, __ATOMIC_SEQ_CST);
		return WAIT_STEP;
	case 1: /* before all looks: what rings after one of them must end the sleep */
		sleep->rings = __atomic_load_n(&bell->rings, __ATOMIC_SEQ_CST);
		return WAIT_STEP;
	case 2:
		__atomic_fetch_or(&words->asleep, bit, __ATOMIC_SEQ_CST);
		return WAIT_STEP;
	case 3:
		if (__atomic_load_n(is_called, __ATOMIC_SEQ_CST))
			sleep->step = 5;
		return WAIT_STEP;
	case 4:
		if (awaited != WAIT_NOBODY &&
		    wait_look(wait_line(words, awaited, phase), phase) != WAIT_NOT_YET)
			return WAIT_STEP;
		return WAIT_SLEEP;
	case 5:
		__atomic_fetch_and(&words->asleep, ~bit, __ATOMIC_SEQ_CST);
		return WAIT_OVER;
	default:
		return WAIT_OVER;
	}
}

/* ---- ending what others wait for ---- */

struct wait_call {
	uint32_t step;
};

/* Another thread of rank's process: the sleep that is on, or the next one, ends. */
CORE_INLINE enum wait_next wait_call_step(struct wait_call *call, struct wait_words *words,
					  uint32_t rank, uint32_t *is_called)
{
	switch (call->step++) {
	case 0:
		__atomic_store_n(is_called, 1, __ATOMIC_SEQ_CST);
		return WAIT_STEP;
	case 1:
		return wait_ring(words, rank);
	default:
		return WAIT_OVER;
	}
}

struct wait_abort {
	uint32_t step;
	uint32_t wake; /* WAIT_WAKE: whose bell */
};

/* Gives up for all: no word that is waited for stays as it is, and all bells ring. */
CORE_INLINE enum wait_next wait_abort_step(struct wait_abort *abort, struct wait_words *words,
					   uint32_t ranks)
{
	uint32_t step = abort->step++, lines = ranks * WAIT_LINES;

	if (step < lines) {
		__atomic_fetch_or(&words->line[step / WAIT_LINES][step % WAIT_LINES].word,
				  WAIT_ABORT, __ATOMIC_SEQ_CST);
		return WAIT_STEP;
	}
	abort->wake = step - lines;
	return abort->wake < ranks ? wait_ring(words, abort->wake) : WAIT_OVER;
}

#endif
