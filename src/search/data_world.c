/* SPDX-License-Identifier: Apache-2.0 */
/* data_world.c - what is where in data.h's model, and the steps that are known; see data_world.h. */
#include "search/data_world.h"

#include <assert.h>
#include <stdlib.h>

#include "search/data_values.h"

struct world world;

/* ---- what is where ---- */

/* The (shard, slot) pairs that the operations' chunks take. */
static void cells_find(const struct data_config *config)
{
	uint64_t chunks[MAP_STREAMS] = { 0 };

	for (uint32_t op = 0; op < config->ops_count; op++)
		chunks[op_make(config, 0, op).stream] += op_chunks(config, op);
	for (uint32_t stream = 0; stream < MAP_STREAMS; stream++) {
		for (uint64_t chunk = 0; chunk < chunks[stream]; chunk++) {
			struct map_place place;
			uint32_t i = 0;

			map_place(&world.map, (enum map_stream)stream, chunk, &place);
			while (i < world.cells && (world.cell[i].shard != place.shard ||
						   world.cell[i].slot != place.slot))
				i++;
			assert(i < CELLS);
			if (i < world.cells)
				continue;
			world.cell[i].shard = place.shard;
			world.cell[i].slot = place.slot;
			world.cells++;
		}
	}
}

static void tree_find(const struct data_config *config)
{
	for (uint32_t node = 0; node < world.nodes; node++) {
		for (uint32_t i = node + 1; i < world.nodes; i++) {
			if (config->tree.parent[i] != node)
				continue;
			world.parent[DATA_WORKERS + i] = node;
			world.child[DATA_WORKERS + i] = world.children[node]++;
		}
		for (uint32_t w = 0; w < config->workers; w++) {
			if (config->tree.worker[w] != node)
				continue;
			world.parent[w] = node;
			world.child[w] = world.children[node]++;
			world.below[node] |= 1u << w;
		}
		assert(world.children[node]);
	}
	for (uint32_t node = world.nodes - 1; node; node--)
		world.below[config->tree.parent[node]] |= world.below[node];
	assert(world.below[0] == (1u << config->workers) - 1);
}

void world_open(const struct data_config *config)
{
	uint32_t shards = config->shards ? config->shards : 1;

	intern_forget(&world.packets);
	intern_forget(&world.workers);
	intern_forget(&world.slots);
	intern_forget(&world.nets);
	intern_forget(&world.done);
	free(world.steps);
	world = (struct world){ .config = config,
				.nodes = config->tree.nodes ? config->tree.nodes : 1,
				.slots_all = MAP_EXPRESS_SLOTS_MIN + config->pool };
	assert(shards <= DATA_SHARDS);
	assert(config->pool <= DATA_POOL);
	assert(config->workers <= DATA_WORKERS);
	assert(world.nodes <= DATA_NODES);
	if (!map_init(&world.map, shards, world.slots_all, config->run ? config->run : 1))
		assert(0);
	cells_find(config);
	tree_find(config);
	world.nets_count = config->is_fifo ? 2 * EDGES : world.cells;
	world.nets_at = config->workers;
	world.slots_at = world.nets_at + world.nets_count;
	world.parts = world.slots_at + world.cells * world.nodes;
	assert(world.parts <= PARTS);
	world.state_bytes = offsetof(struct state, part) +
			    (world.parts + 1u) / 2 * 2 * sizeof(((struct state *)0)->part[0]);
}

const char *node_name(uint32_t node)
{
	static const char *const names[DATA_NODES] = { "the root", "node 1", "node 2", "node 3" };

	return world.nodes == 1 ? "the switch" : names[node];
}

const char *edge_name(uint32_t edge)
{
	static const char *const ranks[DATA_WORKERS] = { "rank 0", "rank 1", "rank 2", "rank 3" };

	return is_node(edge) ? node_name(edge - DATA_WORKERS) : ranks[edge];
}

void say_packet(struct bfs *bfs, uint32_t number)
{
	static const char *const names[] = { "?",    "UPDATE", "PROBE",   "RESULT",
					     "HELD", "ACK",    "CONFIRM", "NEED" };
	static const char *const rounds[] = { "DATA", "EXPONENT", "DETAIL", "GUESS" };
	const struct packet *packet = packet_at(number);

	bfs_say(bfs, "%s[life %u", names[packet->wire.type], packet->wire.generation - GENERATION);
	if (world.map.shards > 1)
		bfs_say(bfs, " shard %u", world.cell[packet->cell].shard);
	bfs_say(bfs, " slot %u seq %u", packet->wire.slot, packet->wire.seq);
	if (packet->wire.type == WIRE_UPDATE || packet->wire.type == WIRE_RESULT)
		bfs_say(bfs, " %s chunk %d, %u lanes", rounds[wire_round_of(packet->wire.flags)],
			tag_chunk(world.config, packet->wire.tag), packet->wire.lanes);
	bfs_say(bfs, "]");
}

/* ---- steps that were worked out before ---- */

bool step_find(const struct step_key *key, uint32_t *number)
{
	uint32_t count = world.done.count;

	*number = intern_put(&world.done, key, sizeof(*key));
	if (*number < count)
		return true;
	if (*number == world.steps_room) {
		world.steps_room = world.steps_room ? 2 * world.steps_room : 1024;
		world.steps = realloc(world.steps, world.steps_room * sizeof(*world.steps));
		assert(world.steps);
	}
	world.steps[*number] = (struct step){ 0 };
	return false;
}

void step_make(struct step *step, const struct packet *packet)
{
	if (step->made_count < MADE)
		step->made[step->made_count++] =
			intern_put(&world.packets, packet, sizeof(*packet));
	else
		step_broken(step, "MODEL: one step makes more packets than there is room for");
}

void step_broken(struct step *step, const char *violation)
{
	if (!step->violation)
		step->violation = violation;
}

uint32_t seq_seen(uint32_t seq, uint32_t mine)
{
	uint32_t shift = world.config->seq_bits ? 32 - world.config->seq_bits : 0;

	return mine + (uint32_t)((int32_t)((seq - mine) << shift) >> shift);
}
