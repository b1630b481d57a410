/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_world.c - of a simulated run of sparse mode what all its parts need: memory, events, a verdict, and pushes. */
#include "sim/sparse_world.h"

#include <stdarg.h>
#include <stdlib.h>

void *sparse_need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

void sparse_fail(struct sparse_world *world, const char *format, ...)
{
	va_list args;

	if (world->report->is_failed)
		return;
	world->report->is_failed = true;
	va_start(args, format);
	vsnprintf(world->report->failure, sizeof(world->report->failure), format, args);
	va_end(args);
}

void sparse_progress(struct sparse_world *world)
{
	uint64_t now_ns = net_now(world->net);

	if (now_ns - world->progress_ns > world->report->stall_ns)
		world->report->stall_ns = now_ns - world->progress_ns;
	world->progress_ns = now_ns;
}

void sparse_event_in(struct sparse_world *world, uint64_t delay_ns, enum sparse_what what,
		     uint32_t whom, uint64_t number)
{
	if (world->events_count == world->events_max) {
		world->events_max = world->events_max ? 2 * world->events_max : 1024;
		world->event = sparse_need(
			realloc(world->event, world->events_max * sizeof(world->event[0])));
	}
	world->event[world->events_count] = (struct sparse_event){
		.what = what, .whom = whom, .life = world->life, .number = number
	};
	net_timer(world->net, net_now(world->net) + delay_ns, world->events_count++);
}

uint16_t sparse_pairs(const struct sparse_scenario *scenario, uint32_t worker, uint64_t incarnation,
		      uint64_t seq, uint8_t *at)
{
	const struct sparse_table *table = &scenario->table;
	uint32_t most = sparse_items_of(SPARSE_PUSH, table->bytes, sparse_pair_bytes(table->dim));
	struct rng rng;
	uint32_t count;

	rng_init(&rng, scenario->seed, 1000 + incarnation * SPARSE_WORKERS_MAX + worker);
	rng_init(&rng, rng_next(&rng), seq);
	count = rng_below(&rng, most + 1);
	for (uint32_t i = 0; i < count; i++) {
		/* Some ranks much more often than others. */
		uint32_t rank = rng_below(&rng, 1 + rng_below(&rng, table->ranks));

		sparse_body_put32(at, rank);
		at += SPARSE_RANK_BYTES;
		for (uint32_t k = 0; k < table->dim; k++, at += SPARSE_VALUE_BYTES)
			sparse_body_put32(at, rng_u32(&rng));
	}
	return (uint16_t)count;
}
