/* SPDX-License-Identifier: Apache-2.0 */
/* data_world.c - what is where in data.h's model, and the steps of its switches; see data_world.h. */
#include "search/data_world.h"

#include <assert.h>
#include <stdlib.h>

#include "search/data_values.h"
#include "search/slow.h"

struct world world;

/* ---- what is where ---- */

/* The (shard, slot) pairs that the operations' chunks take. */
static void cells_find(const struct data_config *config)
{
	uint64_t chunks[MAP_STREAMS] = { 0 };

	for (uint32_t op = 0; op < config->ops_count; op++)
		chunks[op_make(config, op).stream] += op_chunks(config, op);
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
	static const char *const rounds[] = { "DATA", "EXPONENT", "DETAIL", "?" };
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

/* ---- the switch ---- */

static struct switch_job job_of(uint32_t node, uint32_t life)
{
	struct switch_job job = { .slots = (uint16_t)world.slots_all,
				  .index = (uint16_t)node,
				  .lanes = DATA_LANES,
				  .has_parent = node != 0 };

	switch_job_fill(&job, world.children[node]);
	if (node) {
		job.parent_job = (uint16_t)world.parent[DATA_WORKERS + node];
		job.parent_child = (uint16_t)world.child[DATA_WORKERS + node];
	}
	if (life >= LOST)
		return job;
	job.generation = GENERATION + life;
	job.enabled = 1;
	return job;
}

uint32_t slot_new(uint32_t node, bool is_rebooted)
{
	struct node_state state = { 0 };
	struct switch_job job = job_of(node, 0);

	if (world.config->first_seq && !is_rebooted) {
		switch_slot_reset(&job, &state.slot, GENERATION);
		state.slot.phase = world.config->first_seq;
	} /* else of another generation: the first UPDATE re-initialises it */
	return intern_put(&world.slots, &state, sizeof(state));
}

/* One packet of what the verdict sends: `wire` up or down the edge. */
static void slot_send(struct step *step, const struct node_state *state, const struct wire *wire,
		      const struct packet *about, uint32_t edge, bool is_up)
{
	struct packet packet = {
		.wire = *wire, .edge = (uint8_t)edge, .is_up = is_up, .cell = about->cell
	};

	memcpy(packet.lane, state->sum[switch_copy_of(wire->seq)],
	       wire->lanes * sizeof(*packet.lane));
	if (!world.config->is_fifo) /* a set has every copy of a packet already */
		packet.wire.flags &= (uint8_t)~WIRE_RESENT;
	step_make(step, &packet);
}

static void slot_send_all(struct step *step, const struct node_state *state,
			  const struct switch_job *job, enum switch_verdict verdict,
			  const struct packet *packet, struct wire *answer)
{
	uint32_t up = DATA_WORKERS + job->index;

	if (verdict == SWITCH_UP) {
		slot_send(step, state, answer, packet, up, true);
	} else if (verdict == SWITCH_REPLY || verdict == SWITCH_HELD_UP) {
		slot_send(step, state, answer, packet, packet->edge, false);
		if (verdict == SWITCH_REPLY)
			return;
		switch_probe_up(job, answer);
		slot_send(step, state, answer, packet, up, true);
	} else if (verdict == SWITCH_MULTICAST) {
		for (uint32_t edge = 0; edge < DATA_WORKERS + world.nodes; edge++)
			if (edge != DATA_WORKERS && world.parent[edge] == job->index &&
			    (is_node(edge) || edge < world.config->workers))
				slot_send(step, state, answer, packet, edge, false);
	}
}

/* R-SW-8, R-SW-11: who of this switch's own children came last. The pace of a worker measures by it, and its
 * parent numbers its children in its own way. */
static bool is_last_right(const struct switch_job *job, const struct switch_slot *before,
			  const struct packet *packet, const struct switch_slot *after)
{
	const struct wire *wire = &packet->wire;
	uint32_t copy = switch_copy_of(after->phase), last = before->copy[copy].last;

	if (packet->is_up)
		last = wire->child;
	else if (wire->child != job->parent_child)
		last = WIRE_CHILD_OTHER;
	return after->copy[copy].last == last;
}

static void slot_step(uint32_t node, uint32_t node_life, const struct packet *packet,
		      struct node_state *state, struct step *step)
{
	struct switch_job job = job_of(node, node_life);
	const struct switch_slot before = state->slot;
	struct wire answer = packet->wire;
	enum switch_verdict verdict;
	struct packet seen;
	const char *wrong;

	if (packet->wire.job != world.parent[packet->edge])
		step_broken(step, "a packet names another job than its switch's");
	if (packet->wire.generation == state->slot.generation)
		answer.seq = seq_seen(answer.seq, state->slot.phase);
	else if (world.config->seq_bits)
		answer.seq &= (1u << world.config->seq_bits) - 1;
	seen = *packet;
	seen.wire = answer;
	wrong = slow_switch(&job, state, &seen);
	if (wrong)
		step_broken(step, wrong);
	if (packet->is_up) {
		verdict = switch_admit(&job, &answer);
		if (verdict == SWITCH_ABSORB)
			verdict = switch_step(&job, &state->slot, state->sum[0], DATA_LANES,
					      &answer, packet->lane, NULL);
	} else {
		verdict = switch_from_parent(&job, &state->slot, state->sum[0], DATA_LANES, &answer,
					     packet->lane, NULL);
	}
	if (verdict == SWITCH_MISMATCH)
		step_broken(step, "MISMATCH without any disagreement");
	if (verdict == SWITCH_DROP_ALARM &&
	    (!world.config->seq_bits || answer.seq == state->slot.phase + 1))
		step_broken(step, "I2: a phase opens before the last one is complete");
	if (memcmp(&before, &state->slot, sizeof(before)) != 0 &&
	    packet->wire.generation != job.generation)
		step_broken(step, "G1: a packet of another life changes a slot");
	if (before.generation == state->slot.generation && before.phase == state->slot.phase &&
	    answer.seq == before.phase && !before.final &&
	    (verdict == SWITCH_MULTICAST ||
	     (packet->is_up && (verdict == SWITCH_ABSORB || verdict == SWITCH_UP))) &&
	    !is_last_right(&job, &before, packet, &state->slot))
		step_broken(step, "R-SW-11: the last contributor is not the child that came last");
	for (uint32_t copy = 0; copy < 2; copy++)
		for (uint32_t i = state->slot.copy[copy].lanes; i < DATA_LANES; i++)
			state->sum[copy][i] = 0;
	slot_send_all(step, state, &job, verdict, packet, &answer);
}

struct step slot_do(uint32_t node, uint32_t node_life, uint32_t part, uint32_t packet)
{
	struct step_key key = { .kind = STEP_SLOT,
				.who = (uint8_t)node,
				.life = (uint8_t)node_life,
				.part = part,
				.about = packet };
	uint32_t number;

	if (!step_find(&key, &number)) {
		struct step step = { 0 };
		struct packet taken = *packet_at(packet);
		struct node_state state;

		memcpy(&state, intern_get(&world.slots, part, NULL), sizeof(state));
		slot_step(node, node_life, &taken, &state, &step);
		step.next = intern_put(&world.slots, &state, sizeof(state));
		world.steps[number] = step;
	}
	return world.steps[number];
}

/* ---- moves ---- */

static void outcome_add(struct outcome *outcome, const struct step *step)
{
	for (uint32_t i = 0; i < step->made_count && outcome->count < OUTCOME; i++)
		outcome->packets[outcome->count++] = step->made[i];
	if (!outcome->violation)
		outcome->violation = step->violation;
	if (!outcome->violation && outcome->count == OUTCOME)
		outcome->violation = "LIVENESS: answers upon answers without end";
}

void worker_event(struct state *state, uint32_t worker, enum worker_move move, uint32_t about,
		  struct outcome *outcome)
{
	struct step step = worker_do(worker, state->part[worker], move, about);

	state->part[worker] = step.next;
	outcome_add(outcome, &step);
}

void take(struct state *state, uint32_t number, struct outcome *outcome)
{
	const struct packet *packet = packet_at(number);
	uint32_t cell = packet->cell, node;
	struct step step;
	uint32_t *part;

	if (!packet->is_up && !is_node(packet->edge)) {
		worker_event(state, packet->edge, DO_PACKET, number, outcome);
		return;
	}
	node = packet->is_up ? world.parent[packet->edge] : packet->edge - (uint32_t)DATA_WORKERS;
	part = part_slot(state, node, cell);
	step = slot_do(node, state->node_life[node], *part, number);
	*part = step.next;
	outcome_add(outcome, &step);
}
