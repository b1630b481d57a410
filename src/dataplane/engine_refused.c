/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_refused.c - packets that were dropped because of who sent them: a wrong address, generation or nonce. An
 * attack, a rank whose address has changed, or copies from an earlier life: the operator is to hear of all of them, but
 * not of each.
 */
#include "dataplane/engine_state.h"

static const uint64_t SAY_NS = 1000000000;

void engine_refuse(struct engine_soft *engine, enum engine_refusal why,
		   const struct link_address *peer, const struct wire *packet)
{
	struct refused *refused = &engine->refused[why];

	refused->count++;
	refused->last = (struct engine_event){ .type = ENGINE_REFUSED,
					       .job = packet->job,
					       .child = packet->child,
					       .slot = packet->slot,
					       .seq = packet->seq,
					       .refusal = why,
					       .address = *peer };
	engine->has_refused = true;
}

void engine_refused_say(struct engine_soft *engine)
{
	uint64_t now_ns;

	if (!engine->has_refused)
		return;
	now_ns = engine->link->ops->now_ns(engine->link);
	engine->has_refused = false;
	for (uint32_t why = 0; why < ENGINE_REFUSALS; why++) {
		struct refused *refused = &engine->refused[why];

		if (!refused->count)
			continue;
		if (refused->has_said && now_ns - refused->said_ns < SAY_NS) {
			engine->has_refused = true; /* in its time, though nothing more may come */
			continue;
		}
		refused->last.count = refused->count;
		if (!engine_event_put(engine, &refused->last)) {
			engine->has_refused = true; /* no room: they are told with the next ones */
			continue;
		}
		refused->said_ns = now_ns;
		refused->has_said = true;
		refused->count = 0;
	}
}
