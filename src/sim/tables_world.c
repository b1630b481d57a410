/* SPDX-License-Identifier: Apache-2.0 */
/* tables_world.c - of simulated tables of keys what all parts need: events, a verdict, and streams of messages. */
#include "sim/tables_world.h"

#include <stdarg.h>
#include <stdlib.h>

void *tables_need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

void tables_fail(struct tables_world *world, const char *format, ...)
{
	va_list args;

	if (world->report->is_failed)
		return;
	world->report->is_failed = true;
	va_start(args, format);
	vsnprintf(world->report->failure, sizeof(world->report->failure), format, args);
	va_end(args);
}

void tables_trace(struct tables_world *world, const char *format, ...)
{
	va_list args;

	if (!world->trace)
		return;
	fprintf(world->trace, "%12.3f ms  ", (double)world->now_ns / 1e6);
	va_start(args, format);
	vfprintf(world->trace, format, args);
	va_end(args);
	fputc('\n', world->trace);
}

void tables_progress(struct tables_world *world)
{
	world->progress_ns = world->now_ns;
}

void tables_event_in(struct tables_world *world, uint64_t delay_ns, struct tables_event event)
{
	uint32_t at = world->event_free;

	if (at) {
		world->event_free = world->event[at].whom;
	} else {
		if (world->events == world->events_max) {
			world->events_max = world->events_max ? 2 * world->events_max : 1024;
			world->event = tables_need(
				realloc(world->event, world->events_max * sizeof(world->event[0])));
			world->events += !world->events; /* 0: none */
		}
		at = world->events++;
	}
	world->event[at] = event;
	agenda_push(&world->agenda, world->now_ns + delay_ns, at);
}

struct tables_event tables_event_next(struct tables_world *world)
{
	struct agenda_entry entry = agenda_pop(&world->agenda);
	struct tables_event event = world->event[entry.what];

	world->now_ns = entry.at;
	world->event[entry.what].whom = world->event_free;
	world->event_free = entry.what;
	return event;
}

bool tables_process_has_left(const struct tables_world *world, uint32_t p)
{
	const struct tables_process *process = &world->process[p];

	for (uint32_t s = 0; s < world->scenario->servers; s++)
		if (process->kv->server[s].state != WORKER_KV_LEFT)
			return false;
	return true;
}

/* ---- streams ---- */

/* TCP sends again what was lost, and what comes behind it waits. */
static uint64_t delay(struct tables_world *world)
{
	uint64_t ns = rng_log(&world->rng, 1000, world->scenario->delay_ns);

	if (rng_chance(&world->rng, world->scenario->slow))
		ns += rng_log(&world->rng, 200 * MS, 3000 * MS);
	return ns;
}

static void say(struct tables_world *world, uint32_t number, enum tables_what what,
		struct tables_message message, uint64_t *last_ns)
{
	uint64_t at_ns = world->now_ns + delay(world);

	if (world->conn[number].is_silent)
		return;
	if (at_ns <= *last_ns)
		at_ns = *last_ns + 1;
	*last_ns = at_ns;
	tables_event_in(world, at_ns - world->now_ns,
			(struct tables_event){ .what = what, .whom = number, .message = message });
}

void tables_up(struct tables_world *world, uint32_t conn, struct tables_message message)
{
	struct tables_conn *its = &world->conn[conn];

	/* R-KV-12 */
	if (its->is_told && its->near &&
	    world->now_ns > its->near_said_ns + world->scenario->heartbeat_ns)
		tables_fail(world, "R-KV-12: process %u says nothing for %.3f s", its->process,
			    (double)(world->now_ns - its->near_said_ns) / 1e9);
	its->near_said_ns = world->now_ns;
	say(world, conn, TABLES_ARRIVES_UP, message, &world->conn[conn].up_ns);
}

void tables_down(struct tables_world *world, uint32_t conn, struct tables_message message)
{
	world->conn[conn].said_ns = world->now_ns;
	say(world, conn, TABLES_ARRIVES_DOWN, message, &world->conn[conn].down_ns);
}
