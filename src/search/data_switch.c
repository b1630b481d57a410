/* SPDX-License-Identifier: Apache-2.0 */
/* data_switch.c - the steps of data.h's switches, and whom a packet arrives at; see data_world.h. */
#include "search/data_world.h"
#include "search/slow.h"

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

/* R-SW-15: a header for those who want no lanes. */
static void slot_send_down(struct step *step, const struct node_state *state,
			   const struct wire *answer, const struct packet *about, uint32_t edge)
{
	struct wire wire = *answer;

	if (switch_set_has(state->slot.bare, world.child[edge]))
		wire.lanes = 0;
	slot_send(step, state, &wire, about, edge, false);
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
				slot_send_down(step, state, answer, packet, edge);
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
	wrong = world.config->chip ? NULL : slow_switch(&job, state, &seen);
	if (wrong)
		step_broken(step, wrong);
	if (world.config->chip) {
		verdict = chip_take(&job, state, packet, &answer, step);
	} else if (packet->is_up) {
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
	    answer.seq == before.phase && !before.final && !packet->goes_round &&
	    (verdict == SWITCH_MULTICAST ||
	     (packet->is_up && (verdict == SWITCH_ABSORB || verdict == SWITCH_UP))) &&
	    !is_last_right(&job, &before, packet, &state->slot))
		step_broken(step, "R-SW-11: the last contributor is not the child that came last");
	for (uint32_t copy = 0; copy < 2 && !world.config->chip; copy++) /* R-CHIP-2 */
		for (uint32_t i = state->slot.copy[copy].lanes; i < DATA_LANES; i++)
			state->sum[copy][i] = 0;
	slot_send_all(step, state, &job, verdict, packet, &answer);
}

/* node_life: the life that the node's job is set to. */
static struct step slot_do(uint32_t node, uint32_t node_life, uint32_t part, uint32_t packet)
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

/* The same for a second half: `part` and what is sent. */
static struct step second_do(uint32_t node, uint32_t node_life, uint32_t part, uint32_t child)
{
	struct step_key key = { .kind = STEP_SECOND,
				.who = (uint8_t)node,
				.life = (uint8_t)node_life,
				.part = part,
				.about = child };
	uint32_t number;

	if (!step_find(&key, &number)) {
		struct switch_job job = job_of(node, node_life);
		struct step step = { 0 };
		struct node_state state;

		memcpy(&state, intern_get(&world.slots, part, NULL), sizeof(state));
		chip_comes_round(&job, &state, child, &step);
		step.next = intern_put(&world.slots, &state, sizeof(state));
		world.steps[number] = step;
	}
	return world.steps[number];
}

void chip_settle_node(uint32_t node, struct node_state *at)
{
	struct switch_job job = job_of(node, 0);

	job.generation = at->slot.generation;
	chip_settle(&job, at);
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

void take_second(struct state *state, uint32_t node, uint32_t cell, uint32_t child,
		 struct outcome *outcome)
{
	uint32_t *part = part_slot(state, node, cell);
	struct step step = second_do(node, state->node_life[node], *part, child);

	*part = step.next;
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
