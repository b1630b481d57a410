/* SPDX-License-Identifier: Apache-2.0 */
/* diagram.h - remembers the last packets of a run and draws them as a sequence diagram, a column per
 * node. */
#ifndef SIM_DIAGRAM_H
#define SIM_DIAGRAM_H

#include "sim/wiring.h"
#include <stdio.h>

enum { DIAGRAM_EVENTS = 1 << 15, DIAGRAM_LINES = 70, DIAGRAM_AFTER = 12 };

struct diagram_event {
	uint64_t now_ns;
	struct wire packet;
	uint8_t fate, from, to;
};

struct diagram {
	enum sim_rules rules; /* packets of published.h have other names */
	uint64_t stuck_ns;    /* not 0: since then nothing gets on */
	uint64_t count;
	struct diagram_event event[DIAGRAM_EVENTS];
};

static inline void diagram_add(struct diagram *diagram, const struct net_sight *sight,
			       const struct wire *packet)
{
	struct diagram_event *event = &diagram->event[diagram->count++ % DIAGRAM_EVENTS];

	event->now_ns = sight->now_ns;
	event->packet = *packet;
	event->fate = (uint8_t)sight->fate;
	event->from = (uint8_t)sight->from;
	event->to = (uint8_t)(sight->to < WIRING_NODES_MAX ? sight->to : WIRING_NODES_MAX);
}

/* The last DIAGRAM_LINES events of this shard's slot; of all, if shard is UINT32_MAX. Of a run that gets on no more
 * DIAGRAM_AFTER events after its last progress, and what came before. */
void diagram_draw(const struct diagram *diagram, const struct wiring *wiring, uint32_t shard,
		  uint32_t slot, FILE *file);

#endif
