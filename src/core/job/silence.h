/* SPDX-License-Identifier: Apache-2.0 */
/* silence.h - how often one speaks, and which silence is death, of a heartbeat time: the same on all sides. R-CT-9. */
#ifndef CORE_SILENCE_H
#define CORE_SILENCE_H

#include "core/shared/rto.h"

enum {
	SILENCE_BEATS = 5,     /* HEARTBEATs in a heartbeat time: four may be late */
	SILENCE_UDP_ALONE = 3, /* silences that TCP may have while UDP is heard */
	SILENCE_OVERSLEPT =
		4, /* no tick for such a part of the heartbeat time: our own clock cannot be trusted */
};

/* Between two HEARTBEATs. Who has no GRANT yet expects the default heartbeat time: never more than its fifth. */
static inline uint64_t silence_beat_ns(uint64_t heartbeat_ns)
{
	return rto_least(heartbeat_ns / SILENCE_BEATS, 2000000000);
}

/* The last word may have come a beat before the link was lost, and a link that is back takes a moment. */
static inline uint64_t silence_ns(uint64_t heartbeat_ns)
{
	return heartbeat_ns + 2 * silence_beat_ns(heartbeat_ns);
}

/* Of whom anything was heard at heard_ns last, and over TCP at spoke_ns. */
static inline bool silence_is(uint64_t now_ns, uint64_t heard_ns, uint64_t spoke_ns,
			      uint64_t limit_ns)
{
	return now_ns - heard_ns >= limit_ns || now_ns - spoke_ns >= SILENCE_UDP_ALONE * limit_ns;
}

#endif
