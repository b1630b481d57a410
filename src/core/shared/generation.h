/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation.h - generations of dense and latency jobs (R-CT-14): a counter, encrypted by a secret that is drawn at each
 * start of the aggregator. Whoever knows its own, and any number of others, cannot tell the next one, nor another's; and
 * none comes twice before all have come, so none that a slot still holds (R-SW-14).
 */
#ifndef CORE_GENERATION_H
#define CORE_GENERATION_H

#include "core/shared/sip.h"

struct generation {
	uint8_t key[SIP_KEY_BYTES]; /* random; nobody else's */
	uint32_t count;             /* begins anywhere */
};

/* The next; never 0. */
uint32_t generation_draw(struct generation *generation);

#endif
