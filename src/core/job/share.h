/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h - how much of what there is for all one address may have (R-CT-34): so much in a hundred of what all others
 * leave, so that there is always some left for the next; but never less than a few, as long as these are there.
 */
#ifndef CORE_SHARE_H
#define CORE_SHARE_H

#include "core/shared/rto.h"

enum { SHARE_ALL = 100 }; /* percent: no limit */

/* The most that one may have of `all`, when the others have `others`. */
static inline uint64_t share_most(uint64_t all, uint64_t others, uint32_t percent, uint64_t few)
{
	uint64_t left = all > others ? all - others : 0;
	uint64_t most = left / 100 * percent + (left % 100 * percent + 99) / 100;

	return rto_least(rto_most(most, few), left);
}

/* May one that has `own` have `more`? */
static inline bool share_allows(uint64_t all, uint64_t others, uint64_t own, uint64_t more,
				uint32_t percent, uint64_t few)
{
	if (percent >= SHARE_ALL)
		return true;
	return own + more <= share_most(all, others, percent, few);
}

#endif
