/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rto.h - how long to wait for an answer before asking again: RFC 6298's estimate with the bounds of a local
 * network (docs/protocol.md, R-PACE-1, R-PACE-2). rto_estimate and rto_alone are the estimate, of which pace.h has
 * one per shard; struct rto is one with its back-off. Pure; times in nanoseconds.
 */
#ifndef CORE_RTO_H
#define CORE_RTO_H

#include "core/shared/env.h"

enum {
	RTO_MS = 1000 * 1000,
	RTO_FIRST_NS = 100 * RTO_MS, /* before the first sample */
	RTO_MIN_NS = 1 * RTO_MS,
	RTO_MAX_NS = 2000 * RTO_MS,    /* without back-off */
	RTO_BACKOFF_NS = 250 * RTO_MS, /* back-off doubles up to this */
	RTO_BACKOFF_MAX = 16,          /* doublings */
};

CORE_INLINE uint64_t rto_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

CORE_INLINE uint64_t rto_most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* R-PACE-1. *srtt_ns is 0 before the first sample. */
CORE_INLINE void rto_estimate(uint64_t *srtt_ns, uint64_t *rttvar_ns, uint64_t took_ns)
{
	if (!*srtt_ns) {
		*srtt_ns = rto_most(took_ns, 1);
		*rttvar_ns = took_ns / 2;
	} else {
		uint64_t off = took_ns > *srtt_ns ? took_ns - *srtt_ns : *srtt_ns - took_ns;

		*rttvar_ns = (3 * *rttvar_ns + off) / 4;
		*srtt_ns = rto_most((7 * *srtt_ns + took_ns) / 8, 1);
	}
}

/* R-PACE-2, without back-off. */
CORE_INLINE uint64_t rto_alone(uint64_t srtt_ns, uint64_t rttvar_ns)
{
	if (!srtt_ns)
		return RTO_FIRST_NS;
	return rto_least(rto_most(rto_most(srtt_ns + 4 * rttvar_ns, 2 * srtt_ns), RTO_MIN_NS),
			 RTO_MAX_NS);
}

/* All zeros at first. */
struct rto {
	uint64_t srtt_ns, rttvar_ns;
	uint64_t doubled_ns; /* when it was last doubled */
	uint32_t backoff;    /* doublings since a sample */
};

/* How long to wait now. */
CORE_INLINE uint64_t rto_ns(const struct rto *rto)
{
	uint64_t alone = rto_alone(rto->srtt_ns, rto->rttvar_ns);

	return rto_least(alone << rto->backoff, rto_most(alone, RTO_BACKOFF_NS));
}

/* An answer to what was sent once took so long (Karn: to what was sent twice it says nothing). */
CORE_INLINE void rto_sample(struct rto *rto, uint64_t took_ns)
{
	rto_estimate(&rto->srtt_ns, &rto->rttvar_ns, took_ns);
	rto->backoff = 0;
}

/* Something ran out: it goes again, and what else has run out goes when the doubled time is over. */
CORE_INLINE void rto_ran_out(struct rto *rto, uint64_t now_ns)
{
	if (rto->backoff == RTO_BACKOFF_MAX || now_ns - rto->doubled_ns < rto_ns(rto))
		return;
	rto->doubled_ns = now_ns;
	rto->backoff++;
}

#endif
