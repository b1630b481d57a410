/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - what may happen in data.h's model; see data_world.h. */
#include "search/data.h"

#include <assert.h>

#include "search/data_values.h"
#include "search/data_world.h"

enum { NET = 256, ALL_CELLS = UINT32_MAX };

enum move {
	MOVE_SUBMIT = 1,
	MOVE_START,
	MOVE_TAKE,
	MOVE_PROBE,
	MOVE_LOSE,
	MOVE_DOUBLE,
	MOVE_LIFE,
	MOVE_SWITCH,
	MOVE_REBOOT,
	MOVE_RESTART,
	MOVE_SECOND
};

static uint32_t move_of(enum move move, uint32_t about)
{
	return (uint32_t)move << 24 | about;
}

/* ---- what is on its way ---- */

/* `set`: the packets of a cell, in the order of their numbers; FIFO: a queue. */
struct net {
	uint32_t packet[NET];
	uint32_t count;
};

static void net_get(const struct state *state, uint32_t i, struct net *net)
{
	size_t bytes;
	const void *from = intern_get(&world.nets, state->part[world.nets_at + i], &bytes);

	memcpy(net->packet, from, bytes);
	net->count = (uint32_t)(bytes / sizeof(*net->packet));
}

static void net_put(struct state *state, uint32_t i, const struct net *net)
{
	*part_net(state, i) =
		intern_put(&world.nets, net->packet, net->count * sizeof(*net->packet));
}

/* False if it was there. */
static bool set_add(struct net *net, uint32_t packet)
{
	uint32_t at = net->count;

	while (at && net->packet[at - 1] > packet)
		at--;
	if (at && net->packet[at - 1] == packet)
		return false;
	assert(net->count < NET);
	memmove(&net->packet[at + 1], &net->packet[at], (net->count - at) * sizeof(*net->packet));
	net->packet[at] = packet;
	net->count++;
	return true;
}

/* The round that an edge's lower end is in, and whether it wants no more of it. */
static bool edge_round(const struct state *state, uint32_t edge, uint32_t cell, uint32_t generation,
		       uint32_t *seq)
{
	if (is_node(edge)) {
		const struct node_state *node = slot_at(state, edge - DATA_WORKERS, cell);

		*seq = node->slot.phase;
		return node->slot.generation == generation;
	}
	*seq = worker_at(state, edge)->slot[cell].seq;
	return worker_at(state, edge)->life + GENERATION == generation;
}

static bool edge_is_done(const struct state *state, uint32_t edge, uint32_t cell)
{
	if (is_node(edge))
		return slot_at(state, edge - DATA_WORKERS, cell)->slot.final;
	return worker_at(state, edge)->slot[cell].state != WORKER_OUTSTANDING;
}

/* Is the packet too old to arrive, where seq has few bits? */
static bool is_too_old(const struct state *state, const struct packet *packet)
{
	uint32_t seq;

	return edge_round(state, packet->edge, packet->cell, packet->wire.generation, &seq) &&
	       (int32_t)(seq - packet->wire.seq) > (int32_t)world.config->packet_life;
}

/* Below this a switch takes nothing any more. */
static uint32_t generation_min(uint32_t node_life)
{
	return GENERATION + (node_life < LOST ? node_life : node_life - LOST + 1);
}

static bool is_dead_up(const struct state *state, const struct packet *packet)
{
	uint32_t node = world.parent[packet->edge], seq;
	const struct node_state *at = slot_at(state, node, packet->cell);
	int32_t ahead = (int32_t)(packet->wire.seq - at->slot.phase);

	if (packet->wire.generation < generation_min(state->node_life[node]))
		return true;
	if (packet->wire.generation != at->slot.generation)
		return false;
	if (world.config->seq_bits)
		return is_too_old(state, packet);
	if (ahead < -1)
		return true;
	/* It would be answered with a result that the child has. */
	return world.config->is_lean && ahead <= 0 &&
	       (ahead < 0 || at->slot.bitmap[0] >> world.child[packet->edge] & 1) &&
	       edge_round(state, packet->edge, packet->cell, packet->wire.generation, &seq) &&
	       (seq != packet->wire.seq || edge_is_done(state, packet->edge, packet->cell));
}

static bool is_dead_down(const struct state *state, const struct packet *packet)
{
	uint32_t seq, generation;

	if (is_node(packet->edge))
		generation = generation_min(state->node_life[packet->edge - DATA_WORKERS]);
	else
		generation = GENERATION + worker_at(state, packet->edge)->life;
	if (packet->wire.generation < generation)
		return true;
	if (world.config->seq_bits)
		return is_too_old(state, packet);
	if (!edge_round(state, packet->edge, packet->cell, packet->wire.generation, &seq))
		return false;
	if ((int32_t)(packet->wire.seq - seq) < 0)
		return true;
	return world.config->is_lean && packet->wire.seq == seq &&
	       edge_is_done(state, packet->edge, packet->cell);
}

/* Deletes from the set what can never act again. */
static void canon(struct state *state, uint32_t cell)
{
	struct net net;
	uint32_t kept = 0;

	net_get(state, cell, &net);
	for (uint32_t i = 0; i < net.count; i++) {
		const struct packet *packet = packet_at(net.packet[i]);

		if (packet->is_up ? !is_dead_up(state, packet) : !is_dead_down(state, packet))
			net.packet[kept++] = net.packet[i];
	}
	if (kept == net.count)
		return;
	net.count = kept;
	net_put(state, cell, &net);
}

/* R-SW-15: may the RESULT of this chunk that goes to these workers have no lanes? */
static bool may_be_bare(uint32_t workers, const struct wire *wire)
{
	if (wire->lanes)
		return false;
	return nobody_wants(world.config, workers, wire->tag) ||
	       (wire_op_of(wire->flags) == WIRE_TAKE &&
		somebody_gives(world.config, workers, wire->tag));
}

/* M1, M2: what a switch sends is the exact combination over all workers, or over those below it. */
static const char *made_check(const struct state *state, const struct packet *packet)
{
	struct switch_copy copy = { .tag = packet->wire.tag,
				    .lanes = packet->wire.lanes,
				    .exponent = packet->wire.exponent,
				    .flags = packet->wire.flags };
	struct made_round round = { world.below[0], packet->wire.generation, packet->wire.seq,
				    packet->cell, false };
	enum made made;

	if (packet->is_up && !is_node(packet->edge))
		return NULL; /* a worker's own */
	if (packet->is_up)
		round.workers = world.below[packet->edge - DATA_WORKERS];
	else
		round.is_bare = may_be_bare(is_node(packet->edge)
						    ? world.below[packet->edge - DATA_WORKERS]
						    : 1u << packet->edge,
					    &packet->wire);
	made = made_of(state, &round, &copy, packet->lane);
	if (made == MADE_EXACTLY || made == MADE_PAST)
		return NULL;
	if (packet->is_up)
		return made == MADE_EARLY ? "M2: a partial of a round that some worker has not sent"
					  : "M2: a partial is not the sum over its subtree";
	return made == MADE_EARLY ? "M1: RESULT of a round that some worker has not sent"
				  : "M1: RESULT is not the sum over all workers";
}

static void check_made(const struct state *state, const struct packet *packet,
		       struct outcome *outcome)
{
	if (!outcome->violation &&
	    (packet->wire.type == WIRE_RESULT || packet->wire.type == WIRE_UPDATE))
		outcome->violation = made_check(state, packet);
}

/* Up of edge e is queue e, down is EDGES + e. A queue that is full loses what is sent into it. */
static void queue_send(struct state *state, struct outcome *outcome)
{
	for (uint32_t i = 0; i < outcome->count; i++) {
		const struct packet packet = *packet_at(outcome->packets[i]);
		uint32_t queue = packet.edge + (packet.is_up ? 0u : EDGES);
		struct net net;

		check_made(state, &packet, outcome);
		net_get(state, queue, &net);
		if (net.count == QUEUE)
			continue;
		net.packet[net.count++] = outcome->packets[i];
		net_put(state, queue, &net);
	}
}

/* UPDATE and RESULT go into the set. A PROBE, and what answers it, would do nothing later that a copy of the
 * UPDATE cannot do as well: it arrives at once, if at all. */
static void set_send(struct state *state, struct outcome *outcome)
{
	for (uint32_t i = 0; i < outcome->count; i++) {
		const struct packet packet = *packet_at(outcome->packets[i]);
		struct net net;

		if (packet.wire.type != WIRE_RESULT && packet.wire.type != WIRE_UPDATE) {
			if (packet.is_up || is_node(packet.edge))
				take(state, outcome->packets[i], outcome);
			continue;
		}
		net_get(state, packet.cell, &net);
		if (!set_add(&net, outcome->packets[i]))
			continue;
		check_made(state, &packet, outcome);
		net_put(state, packet.cell, &net);
	}
}

static void finish(struct bfs *bfs, struct state *next, uint32_t move, uint32_t cell,
		   struct outcome *outcome)
{
	if (world.config->is_fifo)
		queue_send(next, outcome);
	else
		set_send(next, outcome);
	for (uint32_t i = 0; i < outcome->count && bfs_is_telling(bfs); i++) {
		const struct packet *packet = packet_at(outcome->packets[i]);

		if (packet->is_up)
			bfs_say(bfs, "; %s sends ", edge_name(packet->edge));
		else
			bfs_say(bfs, "; to %s: ", edge_name(packet->edge));
		say_packet(bfs, outcome->packets[i]);
	}
	for (uint32_t i = 0; i < world.cells && !world.config->is_fifo; i++)
		if (cell == ALL_CELLS || cell == i)
			canon(next, i);
	bfs_emit(bfs, next, move, outcome->violation);
}

/* ---- moves ---- */

static void expand_starts(const struct state *state, uint32_t w, struct bfs *bfs)
{
	for (uint32_t pair = 0; pair < world.map.shards * MAP_STREAMS; pair++) {
		struct outcome outcome = { 0 };
		struct state next;

		if (!worker_may_begin(w, state->part[w], pair))
			continue;
		state_copy(&next, state);
		bfs_say(bfs, "%s starts its next chunk", edge_name(w));
		worker_event(&next, w, DO_START, pair, &outcome);
		finish(bfs, &next, move_of(MOVE_START, w << 12 | pair),
		       packet_at(outcome.packets[0])->cell, &outcome);
	}
}

static void expand_probes(const struct state *state, uint32_t w, struct bfs *bfs)
{
	const bool is_fifo = world.config->is_fifo;

	for (uint32_t i = 0; i < world.cells; i++) {
		struct outcome outcome = { 0 };
		struct state next;
		struct net net;

		if (worker_at(state, w)->slot[i].state != WORKER_OUTSTANDING)
			continue;
		/* In a FIFO a worker asks when nothing of its own is on its way up. */
		if (is_fifo) {
			net_get(state, w, &net);
			if (net.count)
				continue;
		}
		state_copy(&next, state);
		bfs_say(bfs, "%s asks about slot %u", edge_name(w), world.cell[i].slot);
		worker_event(&next, w, DO_PROBE, i, &outcome);
		if (!is_fifo) /* that it has asked decides only what is sent again */
			next.part[w] = state->part[w];
		finish(bfs, &next, move_of(MOVE_PROBE, w << 12 | i), i, &outcome);
	}
}

static void expand_worker(const struct state *state, uint32_t w, struct bfs *bfs)
{
	uint32_t submitted = worker_at(state, w)->submitted;
	struct outcome outcome = { 0 };
	struct state next;
	bool may_submit;

	outcome.violation = worker_may_submit(w, state->part[w], &may_submit);
	if (outcome.violation) {
		state_copy(&next, state);
		bfs_say(bfs, "%s looks for room", edge_name(w));
		finish(bfs, &next, move_of(MOVE_SUBMIT, w), ALL_CELLS, &outcome);
		return;
	}
	if (may_submit) {
		state_copy(&next, state);
		bfs_say(bfs, "%s submits operation %u", edge_name(w), submitted);
		worker_event(&next, w, DO_SUBMIT, 0, &outcome);
		finish(bfs, &next, move_of(MOVE_SUBMIT, w), ALL_CELLS, &outcome);
	}
	expand_starts(state, w, bfs);
	expand_probes(state, w, bfs);
	if (worker_at(state, w)->life < state->life) {
		outcome = (struct outcome){ 0 };
		state_copy(&next, state);
		next.part[w] = worker_new(w, state->life);
		bfs_say(bfs, "%s starts life %u", edge_name(w), state->life);
		finish(bfs, &next, move_of(MOVE_RESTART, w), ALL_CELLS, &outcome);
	}
}

static void say_arrival(struct bfs *bfs, uint32_t number)
{
	const struct packet *packet = packet_at(number);

	if (!bfs_is_telling(bfs))
		return;
	if (packet->is_up)
		bfs_say(bfs, "%s takes %s's ", node_name(world.parent[packet->edge]),
			edge_name(packet->edge));
	else
		bfs_say(bfs, "%s takes ", edge_name(packet->edge));
	say_packet(bfs, number);
}

static void expand_set(const struct state *state, uint32_t cell, struct bfs *bfs)
{
	struct net net;

	net_get(state, cell, &net);
	for (uint32_t i = 0; i < net.count; i++) {
		struct outcome outcome = { 0 };
		struct state next;

		state_copy(&next, state);
		take(&next, net.packet[i], &outcome);
		if (!outcome.count && !outcome.violation &&
		    !memcmp(&next, state, world.state_bytes))
			continue;
		say_arrival(bfs, net.packet[i]);
		finish(bfs, &next, move_of(MOVE_TAKE, net.packet[i]), cell, &outcome);
	}
}

static void expand_queue(const struct state *state, uint32_t queue, struct bfs *bfs)
{
	struct net net, rest = { 0 };
	struct outcome outcome = { 0 };
	struct state next;

	net_get(state, queue, &net);
	if (!net.count)
		return;
	rest.count = net.count - 1;
	memcpy(rest.packet, net.packet + 1, rest.count * sizeof(*rest.packet));
	state_copy(&next, state);
	net_put(&next, queue, &rest);
	bfs_say(bfs, "lost: ");
	say_packet(bfs, net.packet[0]);
	finish(bfs, &next, move_of(MOVE_LOSE, queue), ALL_CELLS, &outcome);
	for (uint32_t keep = 0; keep < 2; keep++) {
		outcome = (struct outcome){ 0 };
		state_copy(&next, state);
		if (!keep)
			net_put(&next, queue, &rest);
		if (keep)
			bfs_say(bfs, "(a copy) ");
		say_arrival(bfs, net.packet[0]);
		take(&next, net.packet[0], &outcome);
		finish(bfs, &next, move_of(keep ? MOVE_DOUBLE : MOVE_TAKE, queue), ALL_CELLS,
		       &outcome);
	}
}

/* A switch is set to the newest life, or loses its memory and knows no job until a newer one. */
static void expand_node(const struct state *state, uint32_t node, struct bfs *bfs)
{
	bool is_lost = state->node_life[node] >= LOST;
	uint32_t life = state->node_life[node] % LOST;
	struct outcome none = { 0 };
	struct state next;

	if (life < state->life) {
		state_copy(&next, state);
		next.node_life[node] = state->life;
		bfs_say(bfs, "%s is set to life %u", node_name(node), state->life);
		finish(bfs, &next, move_of(MOVE_SWITCH, node), ALL_CELLS, &none);
	}
	if (!world.config->has_reboots || is_lost || life + 1 >= world.config->generations)
		return;
	state_copy(&next, state);
	next.node_life[node] = (uint8_t)(LOST + life);
	for (uint32_t cell = 0; cell < world.cells; cell++)
		*part_slot(&next, node, cell) = slot_new(node, true);
	bfs_say(bfs, "%s loses its memory", node_name(node));
	finish(bfs, &next, move_of(MOVE_REBOOT, node), ALL_CELLS, &none);
}

/* R-CHIP-5: a packet of which only one half is in the sum comes round. */
static void expand_second(const struct state *state, uint32_t cell, uint32_t child, struct bfs *bfs)
{
	struct outcome outcome = { 0 };
	struct state next;

	if (!slot_at(state, 0, cell)->going[child])
		return;
	state_copy(&next, state);
	bfs_say(bfs, "%s adds the second half of ", node_name(0));
	say_packet(bfs, slot_at(state, 0, cell)->going[child] - 1);
	take_second(&next, 0, cell, child, &outcome);
	finish(bfs, &next, move_of(MOVE_SECOND, cell << 12 | child), cell, &outcome);
}

static void data_expand(const void *config_at, const void *state_at, struct bfs *bfs)
{
	const struct data_config *config = config_at;
	const struct state *state = state_at;
	struct outcome none = { 0 };
	struct state next;

	for (uint32_t w = 0; w < config->workers; w++)
		expand_worker(state, w, bfs);
	for (uint32_t i = 0; i < world.nets_count; i++) {
		if (config->is_fifo)
			expand_queue(state, i, bfs);
		else
			expand_set(state, i, bfs);
	}
	for (uint32_t cell = 0; cell < world.cells && config->chip; cell++)
		for (uint32_t child = 0; child < config->workers; child++)
			expand_second(state, cell, child, bfs);
	if (state->life + 1u < config->generations) {
		state_copy(&next, state);
		next.life++;
		bfs_say(bfs, "the controller starts life %u", next.life);
		finish(bfs, &next, move_of(MOVE_LIFE, 0), ALL_CELLS, &none);
	}
	for (uint32_t i = 0; i < world.nodes && config->generations > 1; i++)
		expand_node(state, i, bfs);
}

static void data_init(const void *config_at, void *state_at)
{
	const struct data_config *config = config_at;
	struct state *state = state_at;
	struct net none = { 0 };

	for (uint32_t w = 0; w < config->workers; w++)
		state->part[w] = worker_new(w, 0);
	for (uint32_t i = 0; i < world.nets_count; i++)
		net_put(state, i, &none);
	for (uint32_t cell = 0; cell < world.cells; cell++)
		for (uint32_t i = 0; i < world.nodes; i++)
			*part_slot(state, i, cell) = slot_new(i, false);
}

void data_model(struct bfs_model *model, const void *config)
{
	world_open(config);
	data_check_forget();
	*model = (struct bfs_model){ .state_bytes = world.state_bytes,
				     .config = config,
				     .init = data_init,
				     .expand = data_expand,
				     .check = data_check };
}
