/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_check.c - what must hold in every state of data.h's model. What is on its way plays no part in it: so
 * the parts of a state that are not on their way are looked at once, however many states they are in.
 */
#include <assert.h>

#include "search/data_values.h"
#include "search/data_world.h"

enum { TURNS = 1000 }; /* no drain of a sound protocol takes nearly as many */

/* Workers and slots that were found right; and such that the drain was seen to finish from. */
static struct intern right, finishing;

void data_check_forget(void)
{
	intern_forget(&right);
	intern_forget(&finishing);
}

/* ---- sums ---- */

/* The UPDATE of a round, if the worker still has it. */
static enum made update_of(const struct state *state, uint32_t worker,
			   const struct made_round *round, const struct packet **update)
{
	const struct worker_state *of = worker_at(state, worker);
	const struct slot_state *slot = &of->slot[round->cell];
	uint32_t life = round->generation - GENERATION, built = slot->built[round->seq & 1];

	if (of->life != life)
		return of->life > life ? MADE_PAST : MADE_EARLY;
	if ((int32_t)(round->seq - slot->seq) > 0)
		return MADE_EARLY;
	if (!built)
		return MADE_PAST;
	*update = packet_at(built - 1);
	return (*update)->wire.seq == round->seq ? MADE_EXACTLY : MADE_PAST;
}

/* R-SW-8: the larger number, or of a GUESS the larger byte. */
static void larger(uint32_t exponent[2], const struct wire *wire)
{
	uint32_t own = wire->exponent / 256u, next = wire->exponent % 256u;

	if (wire_round_of(wire->flags) == WIRE_GUESS) {
		exponent[0] = own > exponent[0] ? own : exponent[0];
		exponent[1] = next > exponent[1] ? next : exponent[1];
	} else if (wire->exponent > exponent[0] * 256 + exponent[1]) {
		exponent[0] = own;
		exponent[1] = next;
	}
}

enum made made_of(const struct state *state, const struct made_round *round,
		  const struct switch_copy *copy, const int32_t *sum)
{
	uint32_t exponent[2] = { 0 }, sticky = 0, expected[DATA_LANES] = { 0 };
	bool is_wrong = false, is_take = wire_op_of(copy->flags) == WIRE_TAKE;
	bool is_short = wire_op_of(copy->flags) == WIRE_ADD_SHORT;
	uint32_t lanes = 0; /* the most that anybody has sent */

	for (uint32_t w = 0; w < world.config->workers; w++) {
		const struct packet *update;
		enum made made;

		if (!(round->workers >> w & 1))
			continue;
		made = update_of(state, w, round, &update);
		if (made != MADE_EXACTLY)
			return made;
		is_wrong |= update->wire.tag != copy->tag;
		is_wrong |= lanes && update->wire.lanes &&
			    (is_take || (lanes != update->wire.lanes && !is_short));
		lanes = update->wire.lanes > lanes ? update->wire.lanes : lanes;
		is_wrong |= (update->wire.flags ^ copy->flags) & WIRE_KIND_MASK;
		for (uint32_t i = 0; i < update->wire.lanes; i++)
			expected[i] += (uint32_t)update->lane[i];
		larger(exponent, &update->wire);
		sticky |= update->wire.flags & WIRE_STICKY_MASK;
	}
	is_wrong |= !round->is_bare && lanes != copy->lanes;
	for (uint32_t i = 0; i < copy->lanes; i++)
		is_wrong |= expected[i] != (uint32_t)sum[i];
	is_wrong |= (exponent[0] << 8 | exponent[1]) != copy->exponent ||
		    sticky != (copy->flags & WIRE_STICKY_MASK);
	return is_wrong ? MADE_WRONG : MADE_EXACTLY;
}

/* ---- what holds in every state ---- */

static bool is_full(uint32_t node, const struct node_state *at)
{
	return at->slot.bitmap[0] == (1ull << world.children[node]) - 1;
}

static bool has_child(const struct node_state *at, uint32_t edge)
{
	return at->slot.bitmap[0] >> world.child[edge] & 1;
}

/* Is there a round in the slot? */
static bool has_round(const struct node_state *at)
{
	return at->slot.generation && (int32_t)(at->slot.phase - world.config->first_seq) > 0;
}

static uint32_t workers_in(uint32_t node, const struct node_state *at)
{
	uint32_t workers = 0;

	for (uint32_t w = 0; w < world.config->workers; w++)
		if (world.parent[w] == node && has_child(at, w))
			workers |= 1u << w;
	for (uint32_t i = 1; i < world.nodes; i++)
		if (world.parent[DATA_WORKERS + i] == node && has_child(at, DATA_WORKERS + i))
			workers |= world.below[i];
	return workers;
}

static const char *check_copies(const struct state *state, uint32_t node, uint32_t cell)
{
	struct node_state settled = *slot_at(state, node, cell);
	const struct node_state *at = &settled;
	struct made_round round = { world.below[0], at->slot.generation, at->slot.phase, cell,
				    false };
	uint32_t copy = switch_copy_of(at->slot.phase);
	enum made made;

	if (!has_round(at))
		return NULL;
	if (world.config->chip) {
		if (at->slot.generation != GENERATION + state->node_life[node])
			return NULL; /* second halves of an older life are dropped */
		chip_settle_node(node, &settled);
	}
	if (at->slot.final && !is_full(node, at))
		return "S1: final without a full bitmap";
	if (!at->slot.final)
		round.workers = workers_in(node, at);
	round.is_bare = at->slot.final && !at->slot.copy[copy].lanes && node &&
			nobody_wants(world.config, world.below[node], at->slot.copy[copy].tag);
	made = made_of(state, &round, &at->slot.copy[copy], at->sum[copy]);
	if (made == MADE_WRONG || made == MADE_EARLY)
		return at->slot.final ? "S2: a final copy is not the sum over all workers"
				      : "S3: a copy is not the sum over exactly those who are in";
	round.workers = world.below[0];
	round.seq--;
	if ((int32_t)(round.seq - world.config->first_seq) <= 0)
		return NULL;
	round.is_bare = !at->slot.copy[!copy].lanes && node &&
			nobody_wants(world.config, world.below[node], at->slot.copy[!copy].tag);
	made = made_of(state, &round, &at->slot.copy[!copy], at->sum[!copy]);
	if (made == MADE_WRONG || made == MADE_EARLY)
		return "S5: the shadow is not the result of the last phase";
	return NULL;
}

static const char *check_worker(const struct state *state, uint32_t worker, uint32_t cell)
{
	uint32_t node = world.parent[worker];
	const struct node_state *at = slot_at(state, node, cell);
	const struct worker_state *of = worker_at(state, worker);
	const struct slot_state *slot = &of->slot[cell];
	int32_t ahead = (int32_t)(slot->seq - at->slot.phase);

	if (at->slot.generation != GENERATION + of->life)
		return NULL;
	if (ahead < -1 || ahead > 1)
		return "L1: a worker is more than one phase away from its switch";
	if (ahead == 1 && (!at->slot.final || slot->state != WORKER_OUTSTANDING))
		return "L2: a worker is ahead of a phase that is not complete";
	if (ahead < 0 && has_child(at, worker))
		return "L3: a worker is in a phase that it has not sent";
	if (ahead == 0 && slot->state != WORKER_OUTSTANDING && !at->slot.final)
		return "L2: a worker has the result of a phase that is not complete";
	return NULL;
}

static const char *check_node(const struct state *state, uint32_t node, uint32_t cell)
{
	uint32_t up = world.parent[DATA_WORKERS + node];
	const struct node_state *at = slot_at(state, node, cell), *above = slot_at(state, up, cell);
	int32_t ahead = (int32_t)(at->slot.phase - above->slot.phase);
	bool is_in = has_child(above, DATA_WORKERS + node);

	if (!at->slot.generation || at->slot.generation != above->slot.generation)
		return NULL;
	if (ahead < -1 || ahead > 1)
		return "L4: a node is more than one phase away from its parent";
	if (ahead == 1 && (!above->slot.final || at->slot.final))
		return "L4: a node is ahead of a phase that is not complete above";
	if (ahead == 0 && at->slot.final && !above->slot.final)
		return "L4: a node is final and its parent is not";
	if (is_in && (ahead < 0 || (ahead == 0 && !is_full(node, at))))
		return "L3: a node is in a phase that it has not completed";
	return NULL;
}

static const char *check_state(const struct state *state)
{
	const char *wrong = NULL;

	for (uint32_t cell = 0; cell < world.cells && !wrong; cell++) {
		for (uint32_t w = 0; w < world.config->workers && !wrong; w++)
			wrong = check_worker(state, w, cell);
		for (uint32_t i = 0; i < world.nodes && !wrong; i++)
			wrong = check_copies(state, i, cell);
		for (uint32_t i = 1; i < world.nodes && !wrong; i++)
			wrong = check_node(state, i, cell);
	}
	return wrong;
}

/* ---- liveness: lose all that is in flight; PROBE and NEED alone must finish ---- */

static bool is_all_stored(const struct state *state)
{
	for (uint32_t w = 0; w < world.config->workers; w++)
		for (uint32_t c = 0; c < op_first_chunk(world.config, world.config->ops_count); c++)
			if (worker_at(state, w)->stored[c] != 2)
				return false;
	return true;
}

static void submit(struct state *state, uint32_t w, struct outcome *outcome)
{
	bool may;

	while (!worker_may_submit(w, state->part[w], &may) && may && !outcome->violation)
		worker_event(state, w, DO_SUBMIT, 0, outcome);
	outcome->count = 0;
}

/* What goes round in a chip is not lost (R-CHIP-5), unless it is the last pass (R-CHIP-3). */
static void drain_seconds(struct state *state, struct outcome *outcome)
{
	for (uint32_t cell = 0; cell < world.cells && world.config->chip; cell++)
		for (uint32_t child = 0; child < world.config->workers; child++)
			if (slot_at(state, 0, cell)->going[child])
				take_second(state, 0, cell, child, outcome);
	outcome->count = 0;
}

static void drain_setup(struct state *state, struct outcome *outcome)
{
	for (uint32_t i = 0; i < world.nodes; i++)
		if (state->node_life[i] == LOST + state->life)
			state->life++;
	for (uint32_t i = 0; i < world.nodes; i++)
		state->node_life[i] = state->life;
	drain_seconds(state, outcome);
	for (uint32_t w = 0; w < world.config->workers; w++) {
		if (worker_at(state, w)->life < state->life)
			state->part[w] = worker_new(w, state->life);
		submit(state, w, outcome);
	}
}

static void drain_packets(struct state *state, struct outcome *outcome)
{
	for (uint32_t steps = 0; outcome->count && !outcome->violation && steps < 1000; steps++)
		take(state, outcome->packets[--outcome->count], outcome);
}

/* Chunks of a pair that are on their way. */
static uint32_t pair_outstanding(const struct worker_state *worker, uint32_t pair)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < world.cells; i++)
		if (world.cell[i].shard == pair / MAP_STREAMS &&
		    (world.cell[i].slot >= world.map.base[MAP_BULK]) ==
			    (pair % MAP_STREAMS == MAP_BULK))
			count += worker->slot[i].state == WORKER_OUTSTANDING;
	return count;
}

static void drain_worker(struct state *state, uint32_t w, uint32_t window, struct outcome *outcome)
{
	submit(state, w, outcome);
	for (uint32_t i = 0; i < world.cells; i++) {
		if (worker_at(state, w)->slot[i].state != WORKER_OUTSTANDING)
			continue;
		worker_event(state, w, DO_PROBE, i, outcome);
		drain_packets(state, outcome);
	}
	for (uint32_t pair = 0; pair < world.map.shards * MAP_STREAMS; pair++) {
		while (worker_may_begin(w, state->part[w], pair) && !outcome->violation &&
		       pair_outstanding(worker_at(state, w), pair) < window) {
			worker_event(state, w, DO_START, pair, outcome);
			outcome->count = 0; /* lost as well */
		}
	}
}

/* narrow: the workers whose window is 1 from now on. What breaks on the way is no matter of liveness: its
 * moves are everybody's, so the search comes upon it with a whole trace. Each turn follows from the state before it alone: from a
 * state that some drain went through it ends as that one did, and a search is over with the first that does
 * not. */
static const char *drain(const struct state *from, uint32_t narrow)
{
	uint32_t known = finishing.count;
	struct outcome outcome = { 0 };
	struct state state;

	state_copy(&state, from);
	drain_setup(&state, &outcome);
	state.narrow = (uint8_t)narrow;
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		uint32_t count = finishing.count;
		uint32_t number = intern_put(&finishing, &state, world.state_bytes);

		if (number < known || is_all_stored(&state) || outcome.violation)
			return NULL;
		if (number < count)
			break; /* round in a circle */
		drain_seconds(&state, &outcome);
		for (uint32_t w = 0; w < world.config->workers; w++)
			drain_worker(&state, w, narrow >> w & 1 ? 1 : UINT32_MAX, &outcome);
	}
	return "LIVENESS: asking and sending again does not finish";
}

const char *data_check(const void *config, const void *state_at)
{
	uint32_t known = right.count, narrow_count = 1;
	struct state state;
	const char *wrong;

	(void)config;
	state_copy(&state, state_at);
	memset(&state.part[world.nets_at], 0, world.nets_count * sizeof(*state.part));
	if (intern_put(&right, &state, world.state_bytes) < known)
		return NULL;
	wrong = check_state(&state);
	if (world.config->has_windows)
		narrow_count = 1u << world.config->workers;
	for (uint32_t narrow = 0; narrow < narrow_count && !wrong; narrow++)
		wrong = drain(&state, narrow);
	return wrong;
}
