/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse_strange.c - a stranger in a simulated run of sparse mode, who can send from any address, and knows all numbers
 * but the random bits of a generation and the switch's instance. What he sends may move nobody: the run is judged as
 * any other, and each packet when it comes.
 */
#include <string.h>

#include "sim/sparse_world.h"

/* Nearly the generation, the next, the last, what one would count, and what is above all. */
static uint64_t generation_guess(struct sparse_world *world, uint64_t generation)
{
	uint64_t bits = rng_next(&world->rng) >> (64 - SPARSE_RANDOM_BITS), fences;

	switch (rng_below(&world->rng, 6)) {
	case 0:
		return UINT64_MAX;
	case 1:
		return generation ^ 1ull << rng_below(&world->rng, SPARSE_RANDOM_BITS);
	case 2:
		return 1 + rng_below(&world->rng, 20);
	default:
		fences = sparse_fences(generation) + rng_below(&world->rng, 3) - 1;
		return fences << SPARSE_RANDOM_BITS | bits;
	}
}

/* Header and body of a packet that says as much as it can; its bytes. */
static uint32_t packet_forge(struct sparse_world *world, enum sparse_kind kind,
			     struct sparse *packet, uint8_t *at)
{
	const struct sparse_table *table = &world->scenario->table;
	uint64_t row = rng_below(&world->rng, 3) ? 0 : rng_below(&world->rng, 300);
	uint32_t bytes;

	*packet = (struct sparse){ .kind = (uint8_t)kind,
				   .worker = packet->worker,
				   .table = world->index_now,
				   .generation = packet->generation,
				   .number = packet->number,
				   .map = SPARSE_MAP,
				   .parts = 1 };
	memset(at, 0, SPARSE_BYTES + SPARSE_NUMBER_BYTES);
	if (kind == SPARSE_RESUME || kind == SPARSE_COMMITTED || kind == SPARSE_CUT ||
	    kind == SPARSE_SETUP) {
		packet->count = kind != SPARSE_COMMITTED || packet->worker != SPARSE_SERVER;
		packet->width = packet->count ? table->window : 0;
	} else if (kind == SPARSE_PUSH || kind == SPARSE_FLUSH_SHORT || kind == SPARSE_BCAST) {
		packet->width = table->dim;
		packet->count = 1;
	} else if (kind == SPARSE_END) {
		packet->count = packet->width = 1;
	}
	if (kind == SPARSE_CUT || kind == SPARSE_FLUSH_SHORT || kind == SPARSE_SETUP ||
	    kind == SPARSE_BCAST)
		packet->worker = 0;
	bytes = sparse_bytes(packet);
	for (uint32_t i = SPARSE_HEADER_BYTES; packet->width == table->window && i + 8 <= bytes;
	     i += 8)
		sparse_body_put64(at + i, row);
	sparse_put(at, packet);
	return bytes;
}

static void to_worker(struct sparse_world *world, uint16_t number)
{
	static const enum sparse_kind kinds[] = { SPARSE_RESUME, SPARSE_COMMITTED, SPARSE_ACK,
						  SPARSE_BCAST };
	struct endpoint_sparse *endpoint = world->worker[number].endpoint;
	const struct worker_sparse *worker = endpoint ? endpoint_sparse_worker(endpoint) : NULL;
	uint8_t at[SPARSE_BYTES + SPARSE_NUMBER_BYTES];
	struct worker_sparse before;
	struct sparse packet = { .worker = number };

	if (!endpoint)
		return;
	before = *worker;
	packet.generation = generation_guess(world, worker->generation);
	packet.number = worker->low;
	if (packet.generation == worker->generation || packet.generation == worker->named)
		return; /* 2^-40 */
	endpoint_sparse_serve(endpoint, at,
			      packet_forge(world, kinds[rng_below(&world->rng, 4)], &packet, at));
	world->report->forged++;
	if (memcmp(&before, worker, sizeof(before)) != 0 || endpoint_sparse_is_broken(endpoint))
		sparse_fail(world, "worker %u takes kind %u of generation %llx from a stranger",
			    number, packet.kind, (unsigned long long)packet.generation);
}

static void to_server(struct sparse_world *world, uint16_t number)
{
	static const enum sparse_kind kinds[] = { SPARSE_CUT, SPARSE_FLUSH_SHORT, SPARSE_READY,
						  SPARSE_RESUMED, SPARSE_END };
	uint8_t at[SPARSE_BYTES + SPARSE_NUMBER_BYTES];
	const struct server_sparse *server;
	enum sparse_kind kind = kinds[rng_below(&world->rng, 5)];
	bool is_workers = kind == SPARSE_RESUMED || kind == SPARSE_END;
	struct link_address from = net_address(
		world->net, is_workers ? number : sparse_engine_node(world, world->engine_now));
	struct sparse packet = { .worker = number };
	struct server_sparse before;
	uint32_t bytes;

	if (!world->home)
		return;
	server = home_sparse_server(world->home);
	before = *server;
	packet.generation = generation_guess(world, server->generation);
	packet.number = kind == SPARSE_READY ? world->instances : server->expected;
	if (packet.generation == server->generation)
		return;
	bytes = packet_forge(world, kind, &packet, at);
	home_sparse_serve(world->home, &from, at, bytes);
	world->report->forged++;
	if (memcmp(&before, server, sizeof(before)) != 0)
		sparse_fail(world, "the server takes kind %u of generation %llx from a stranger",
			    kind, (unsigned long long)packet.generation);
}

static void to_switch(struct sparse_world *world, uint16_t number)
{
	static const enum sparse_kind kinds[] = { SPARSE_PUSH, SPARSE_FLIP, SPARSE_COMMITTED,
						  SPARSE_SETUP, SPARSE_BCAST };
	struct engine_sparse *engine = world->engine[world->engine_now].engine;
	enum sparse_kind kind = kinds[rng_below(&world->rng, 5)];
	uint8_t at[SPARSE_BYTES + SPARSE_NUMBER_BYTES];
	const struct switch_sparse *state;
	struct link_address from =
		net_address(world->net, kind == SPARSE_PUSH ? number : sparse_server_node(world));
	struct sparse packet = { .worker = kind == SPARSE_PUSH ? number : SPARSE_SERVER };
	struct switch_sparse before;
	uint32_t bytes;

	state = engine ? engine_sparse_state(engine, world->index_now) : NULL;
	if (!state)
		return;
	before = *state;
	packet.generation = generation_guess(world, state->named);
	packet.number = state->epoch - (kind == SPARSE_COMMITTED);
	if (packet.generation == state->named)
		return;
	bytes = packet_forge(world, kind, &packet, at);
	if (kind == SPARSE_SETUP)
		sparse_body_put64(at + SPARSE_HEADER_BYTES, state->instance);
	engine_sparse_serve(engine, &from, at, bytes);
	world->report->forged++;
	if (memcmp(&before, state, sizeof(before)) != 0)
		sparse_fail(world, "a switch takes kind %u of generation %llx from a stranger",
			    kind, (unsigned long long)packet.generation);
}

void sparse_forge(struct sparse_world *world)
{
	uint16_t number = (uint16_t)rng_below(&world->rng, world->scenario->table.workers);

	to_worker(world, number);
	to_server(world, number);
	to_switch(world, number);
	sparse_event_in(world, rng_log(&world->rng, 10000, 20 * MS), SPARSE_FORGES, 0, 0);
}
