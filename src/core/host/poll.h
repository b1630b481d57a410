/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll.h - how often a rank looks for what it waits for before it lets others have its processor: as often as has paid.
 * A look that fails teaches nothing when the other rank was just late. It has cost time when the other one needed this very
 * processor, and was there as soon as it had it.
 */
#ifndef CORE_HOST_POLL_H
#define CORE_HOST_POLL_H

#include "core/shared/env.h"

enum {
	POLL_MOST = 2000, /* about 50 us of looks */
	POLL_FIRST = 256,
	POLL_LEAST = 64, /* below, it does not pay; */
	POLL_RETRY = 16, /* but one wait of so many tries again */
	POLL_NEEDED = 2, /* yields after which it is there, if it needed this processor */
};

struct poll {
	uint32_t looks, most; /* most 0: never */
	uint32_t skipped;
};

CORE_INLINE struct poll poll_new(bool may_poll)
{
	return (struct poll){ may_poll ? POLL_FIRST : 0, may_poll ? POLL_MOST : 0, 0 };
}

/* How many looks this wait begins with. */
CORE_INLINE uint32_t poll_looks(struct poll *poll)
{
	if (poll->looks < POLL_LEAST && poll->most && ++poll->skipped % POLL_RETRY == 0)
		return POLL_FIRST;
	return poll->looks < POLL_LEAST ? 0 : poll->looks;
}

/* It was there after `look` looks. */
CORE_INLINE void poll_paid(struct poll *poll, uint32_t look)
{
	uint32_t enough = 4 * look + POLL_LEAST;

	if (poll->looks < enough)
		poll->looks = enough < poll->most ? enough : poll->most;
}

/* It was not there after all of them, but after so many yields. */
CORE_INLINE void poll_failed(struct poll *poll, uint32_t yields)
{
	if (yields <= POLL_NEEDED)
		poll->looks /= 2;
}

#endif
