/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_engine.c - the aggregators of a simulated run of sparse mode. */
#include "sim/sparse_world.h"

#include <stdlib.h>

void sparse_engine_polls(struct sparse_world *world, uint32_t number)
{
	uint32_t node = sparse_engine_node(world, number);
	struct engine_sparse *engine = world->engine[number].engine;
	struct link *link = net_link(world->net, node);
	struct link_frame frames[16];
	int count;

	while ((count = link->ops->recv(link, frames, 16)) > 0) {
		for (int i = 0; i < count && engine; i++)
			for (uint32_t at = 0; at < frames[i].bytes; at += frames[i].packet_bytes)
				engine_sparse_serve(engine, &frames[i].peer, frames[i].data + at,
						    link_packet_bytes(&frames[i], at));
	}
	if (engine)
		net_poll_at(world->net, node, engine_sparse_turn(engine));
}

static void engine_count(struct sparse_world *world, uint32_t number)
{
	const struct engine_sparse_stats *stats = engine_sparse_stats(world->engine[number].engine);

	world->report->parts += stats->parts_first;
	world->report->parts_again += stats->parts_again;
}

void sparse_engine_dies(struct sparse_world *world, uint32_t number)
{
	struct sparse_engine *its = &world->engine[number];

	if (!its->engine)
		return;
	engine_count(world, number);
	engine_sparse_close(its->engine);
	*its = (struct sparse_engine){ .engine = NULL };
	net_reborn(world->net, sparse_engine_node(world, number));
}

static void engine_begins(struct sparse_world *world, uint32_t number)
{
	struct engine_sparse_options options = {
		.link = net_link(world->net, sparse_engine_node(world, number)),
		.tables_max = SPARSE_TABLES,
	};

	world->engine[number].engine = sparse_need(engine_sparse_open(&options));
}

/* An index that is free there; if none is, that of a table which nobody uses any more. */
static uint16_t index_free(struct sparse_world *world, struct sparse_engine *its)
{
	for (uint16_t i = 0; i < SPARSE_TABLES; i++)
		if (!its->has_table[i])
			return i;
	uint16_t index = (uint16_t)rng_below(&world->rng, SPARSE_TABLES);

	engine_sparse_remove(its->engine, index);
	return index;
}

/* Maybe at the aggregator that has the old one. */
void sparse_switch_new(struct sparse_world *world)
{
	uint32_t number = rng_below(&world->rng, SPARSE_ENGINES);
	struct sparse_engine *its = &world->engine[number];
	struct link_address at_server = net_address(world->net, sparse_server_node(world));
	struct link_address at_switch;
	struct engine_sparse_table table = { .shape = world->scenario->table,
					     .instance = ++world->instances,
					     .pairs_max = world->scenario->pairs_max,
					     .age_ns = world->scenario->age_ns };

	if (!its->engine)
		engine_begins(world, number);
	at_switch = net_address(world->net, sparse_engine_node(world, number));
	table.shape.index = index_free(world, its);
	its->has_table[table.shape.index] = true;
	if (engine_sparse_add(its->engine, &table))
		abort();
	engine_sparse_bind(its->engine, table.shape.index, SPARSE_SERVER, &at_server);
	engine_sparse_name(its->engine, table.shape.index,
			   home_sparse_server(world->home)->generation);
	for (uint16_t i = 0; i < table.shape.workers; i++) {
		struct link_address address = net_address(world->net, i);

		engine_sparse_bind(its->engine, table.shape.index, i, &address);
		sparse_event_in(world, 1 + rng_below(&world->rng, 20 * MS), SPARSE_TOLD, i, 0);
	}
	world->engine_now = number;
	world->index_now = table.shape.index;
	home_sparse_instance(world->home, table.instance, table.shape.index, &at_switch);
	world->report->generations++;
}
