/* SPDX-License-Identifier: Apache-2.0 */
/* engine_events.c - what an engine has to tell, until somebody fetches it. */
#include "dataplane/engine_state.h"

bool engine_event_put(struct engine_soft *engine, const struct engine_event *event)
{
	if (engine->events_count == ENGINE_EVENTS_MAX) {
		engine->stats.events_lost++;
		return false;
	}
	engine->events[(engine->events_first + engine->events_count++) % ENGINE_EVENTS_MAX] =
		*event;
	return true;
}

void engine_events_forget(struct engine_soft *engine, struct job *job, bool with_hello)
{
	uint32_t count = engine->events_count;

	engine->events_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct engine_event event =
			engine->events[(engine->events_first + i) % ENGINE_EVENTS_MAX];

		bool is_of_binding = event.type == ENGINE_HELLO || event.type == ENGINE_UNWRITTEN;
		bool is_tables = event.type == ENGINE_REFUSED &&
				 event.refusal >= ENGINE_REFUSED_TABLE_ADDRESS;

		if (event.job != job->program.index || is_tables || (is_of_binding && !with_hello))
			engine_event_put(engine, &event);
	}
	job->is_mismatch_told = false;
	job->is_alarm_told = false;
	job->is_too_large_told = false;
}

uint32_t engine_events(struct engine_soft *engine, struct engine_event *events, uint32_t max)
{
	uint32_t count = max < engine->events_count ? max : engine->events_count;

	for (uint32_t i = 0; i < count; i++) {
		struct job *job;

		events[i] = engine->events[engine->events_first];
		engine->events_first = (engine->events_first + 1) % ENGINE_EVENTS_MAX;
		job = engine_job_find(engine, events[i].job);
		if (job && events[i].type == ENGINE_MISMATCH)
			job->is_mismatch_told = false;
		if (job && events[i].type == ENGINE_ALARM)
			job->is_alarm_told = false;
		if (job && events[i].type == ENGINE_TOO_LARGE)
			job->is_too_large_told = false;
	}
	engine->events_count -= count;
	return count;
}
