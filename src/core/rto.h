/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rto.h - how long to wait for an answer before asking again: RFC 6298's estimate with the bounds of a local
 * network, as R-PACE-1 and R-PACE-2. Pure; times in nanoseconds.
 */
#ifndef CORE_RTO_H
#define CORE_RTO_H

#include "core/env.h"

#define RTO_MS 1000000ull

enum { RTO_BACKOFF_MAX = 16 };

#define RTO_FIRST_NS (100 * RTO_MS) /* before the first sample */
#define RTO_MIN_NS (1 * RTO_MS)
#define RTO_MAX_NS (2000 * RTO_MS)    /* without back-off */
#define RTO_BACKOFF_NS (250 * RTO_MS) /* what back-off makes of a shorter one at most */

/* All zeros at first. */
struct rto {
	uint64_t srtt_ns, rttvar_ns; /* 0: no sample yet */
	uint64_t doubled_ns;         /* when it was last doubled */
	uint8_t backoff;             /* doublings */
};

CORE_INLINE uint64_t rto_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

CORE_INLINE uint64_t rto_most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

CORE_INLINE uint64_t rto_base(const struct rto *rto)
{
	if (!rto->srtt_ns)
		return RTO_FIRST_NS;
	return rto_least(rto_most(rto_most(rto->srtt_ns + 4 * rto->rttvar_ns, 2 * rto->srtt_ns),
				  RTO_MIN_NS),
			 RTO_MAX_NS);
}

/* How long to wait now. */
CORE_INLINE uint64_t rto_ns(const struct rto *rto)
{
	uint64_t base = rto_base(rto);

	return rto_least(base << rto->backoff, rto_most(base, RTO_BACKOFF_NS));
}

/* An answer to what was sent once took so long (Karn: to what was sent twice it says nothing). */
CORE_INLINE void rto_sample(struct rto *rto, uint64_t took_ns)
{
	rto->backoff = 0;
	if (!rto->srtt_ns) {
		rto->srtt_ns = rto_most(took_ns, 1);
		rto->rttvar_ns = took_ns / 2;
	} else {
		uint64_t off = took_ns > rto->srtt_ns ? took_ns - rto->srtt_ns
						      : rto->srtt_ns - took_ns;

		rto->rttvar_ns = (3 * rto->rttvar_ns + off) / 4;
		rto->srtt_ns = rto_most((7 * rto->srtt_ns + took_ns) / 8, 1);
	}
}

/* Something ran out. Many that run out together double it once. */
CORE_INLINE void rto_ran_out(struct rto *rto, uint64_t now_ns)
{
	if (rto->backoff == RTO_BACKOFF_MAX || now_ns - rto->doubled_ns < rto_ns(rto))
		return;
	rto->doubled_ns = now_ns;
	rto->backoff++;
}

#endif
