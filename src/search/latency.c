/* SPDX-License-Identifier: Apache-2.0 */
/* latency.c - see latency.h. */
#include "search/latency.h"

#include <assert.h>
#include <string.h>

#include "search/latency_world.h"

enum move { MOVE_START = 1, MOVE_TAKE, MOVE_LIFE, MOVE_SWITCH, MOVE_RESTART };

enum { QUEUE = 256, TURNS = 100 };

static bool is_up(enum latency_type type)
{
	return type != LATENCY_RESULT && type != LATENCY_CONFIRM;
}

static bool set_has(const struct latency_state *state, uint32_t number)
{
	return state->sent[number / 64] >> number % 64 & 1;
}

static void set_put(struct latency_state *state, uint32_t number)
{
	state->sent[number / 64] |= 1ull << number % 64;
}

static void set_take(struct latency_state *state, uint32_t number)
{
	state->sent[number / 64] &= ~(1ull << number % 64);
}

static void say_packet(struct bfs *bfs, uint32_t number)
{
	static const char *const names[LATENCY_TYPES] = { "UPDATE",
							  "ACK",
							  "RESULT",
							  "CONFIRM",
							  "UPDATE that goes round",
							  "ACK that goes round" };
	struct latency_packet packet = latency_packet_of(number);

	bfs_say(bfs, "%s[life %u, operation %u]", names[packet.type], packet.life, packet.op);
}

/* ---- moves ---- */

static void take(const struct latency_config *config, struct latency_state *state, uint32_t number,
		 struct latency_outcome *outcome)
{
	struct latency_packet packet = latency_packet_of(number);
	struct wire wire = latency_wire(config, &packet);
	struct worker_latency_event event = { .type = WORKER_LATENCY_PACKET, .packet = &wire };

	if (is_up(packet.type))
		latency_switch_step(config, state, number, outcome);
	else
		latency_worker_step(config, state, packet.worker, &event, number, outcome);
}

/* Would this worker look at a RESULT or CONFIRM of the operation, now or ever? */
static bool is_waited_for(const struct latency_config *config, const struct latency_worker *worker,
			  const struct latency_packet *packet, enum worker_latency_state due)
{
	uint32_t slot = packet->op % config->slots;

	if (packet->life != worker->life)
		return packet->life > worker->life;
	if (packet->op >= worker->next)
		return true;
	return worker->slot[slot].k == packet->op && worker->slot[slot].state == due;
}

/* Can the packet act again? UPDATEs of a round that is over cannot; the ACK of one draws a CONFIRM, which
 * somebody must be waiting for. */
static bool is_alive(const struct latency_config *config, const struct latency_state *state,
		     const struct latency_packet *packet)
{
	const struct latency_worker *worker = &state->worker[packet->worker];
	struct wire wire = latency_wire(config, packet);
	const struct switch_latency_slot *slot = &state->slot[wire.slot];
	bool is_past = wire.generation == slot->generation && (int32_t)(wire.seq - slot->round) < 0;

	if (packet->type == LATENCY_RESULT)
		return is_waited_for(config, worker, packet, WORKER_LATENCY_RESULT_DUE);
	if (packet->type == LATENCY_CONFIRM)
		return is_waited_for(config, worker, packet, WORKER_LATENCY_CONFIRM_DUE);
	if (packet->life < state->switch_life)
		return false;
	if (packet->type == LATENCY_UPDATE_ROUND || packet->type == LATENCY_ACK_ROUND)
		return !is_past;
	if (!is_past)
		return true;
	return packet->type == LATENCY_ACK &&
	       is_waited_for(config, worker, packet, WORKER_LATENCY_CONFIRM_DUE);
}

static void finish(const struct latency_config *config, struct bfs *bfs, struct latency_state *next,
		   uint32_t move, const struct latency_outcome *outcome)
{
	for (uint32_t i = 0; i < outcome->count; i++) {
		struct latency_packet packet = latency_packet_of(outcome->packets[i]);

		set_put(next, outcome->packets[i]);
		if (!bfs_is_telling(bfs))
			continue;
		bfs_say(bfs,
			is_up(packet.type) ? "; rank %u sends " : "; to rank %u: ", packet.worker);
		say_packet(bfs, outcome->packets[i]);
	}
	for (uint32_t i = 0; i < LATENCY_PACKETS; i++) {
		struct latency_packet packet = latency_packet_of(i);

		if (set_has(next, i) && !is_alive(config, next, &packet))
			set_take(next, i);
	}
	bfs_emit(bfs, next, move, outcome->violation);
}

static uint32_t move_of(enum move move, uint32_t a)
{
	return (uint32_t)move << 24 | a;
}

static void expand_worker(const struct latency_config *config, const struct latency_state *state,
			  uint32_t w, struct bfs *bfs)
{
	struct worker_latency_event start = { .type = WORKER_LATENCY_START };
	struct latency_outcome outcome = { 0 };
	struct latency_state next = *state;

	if (latency_may_start(config, &state->worker[w])) {
		bfs_say(bfs, "rank %u begins operation %u", w, state->worker[w].next);
		latency_worker_step(config, &next, w, &start, 0, &outcome);
		finish(config, bfs, &next, move_of(MOVE_START, w), &outcome);
	}
	if (state->worker[w].life < state->life) {
		next = *state;
		outcome = (struct latency_outcome){ 0 };
		latency_worker_new(&next.worker[w], state->life);
		bfs_say(bfs, "rank %u starts life %u", w, state->life);
		finish(config, bfs, &next, move_of(MOVE_RESTART, w), &outcome);
	}
}

static void expand_arrival(const struct latency_config *config, const struct latency_state *state,
			   uint32_t number, struct bfs *bfs)
{
	struct latency_packet packet = latency_packet_of(number);
	struct latency_outcome outcome = { 0 };
	struct latency_state next = *state;

	bfs_say(bfs, is_up(packet.type) ? "the switch takes rank %u's " : "rank %u takes ",
		packet.worker);
	say_packet(bfs, number);
	take(config, &next, number, &outcome);
	finish(config, bfs, &next, move_of(MOVE_TAKE, number), &outcome);
}

static void latency_expand(const void *config_at, const void *state_at, struct bfs *bfs)
{
	const struct latency_config *config = config_at;
	const struct latency_state *state = state_at;
	struct latency_outcome none = { 0 };
	struct latency_state next;

	for (uint32_t w = 0; w < config->workers; w++)
		expand_worker(config, state, w, bfs);
	for (uint32_t i = 0; i < LATENCY_PACKETS; i++)
		if (set_has(state, i))
			expand_arrival(config, state, i, bfs);
	if (state->life + 1 < config->generations) {
		next = *state;
		next.life++;
		bfs_say(bfs, "the controller starts life %u", next.life);
		finish(config, bfs, &next, move_of(MOVE_LIFE, 0), &none);
	}
	if (state->switch_life < state->life) {
		next = *state;
		next.switch_life = state->life;
		bfs_say(bfs, "the switch is set to life %u", next.life);
		finish(config, bfs, &next, move_of(MOVE_SWITCH, 0), &none);
	}
}

static void latency_init(const void *config_at, void *state_at)
{
	const struct latency_config *config = config_at;
	struct latency_state *state = state_at;

	if (!config->first)
		return; /* slots of another generation: the first UPDATE re-initialises them */
	for (uint32_t i = 0; i < config->slots; i++) {
		struct switch_job job = { 0 };

		state->words[i].state = config->is_chip ? CHIP_FREE : 0;
		switch_job_fill(&job, config->workers);
		switch_latency_slot_reset(&job, &state->slot[i], LATENCY_GENERATION);
		state->slot[i].round = (uint32_t)(config->first / config->slots);
	}
}

/* ---- liveness: from every state, lose all that is in flight; sending again alone must finish ---- */

static void drain_packets(const struct latency_config *config, struct latency_state *state,
			  struct latency_outcome *outcome)
{
	uint32_t queue[QUEUE], count = 0;

	for (uint32_t steps = 0; steps < 1000 && !outcome->violation; steps++) {
		for (uint32_t i = 0; i < outcome->count; i++) {
			if (count == QUEUE) {
				outcome->violation = "LIVENESS: answers upon answers without end";
				return;
			}
			queue[count++] = outcome->packets[i];
		}
		outcome->count = 0;
		if (!count)
			return;
		take(config, state, queue[--count], outcome);
	}
}

static void drain_worker(const struct latency_config *config, struct latency_state *state,
			 uint32_t w, struct latency_outcome *outcome)
{
	struct worker_latency_event start = { .type = WORKER_LATENCY_START };

	for (uint32_t i = 0; i < config->slots; i++) {
		struct worker_latency_event again = { .type = WORKER_LATENCY_RESEND, .slot = i };

		if (state->worker[w].slot[i].state == WORKER_LATENCY_IDLE)
			continue;
		latency_worker_step(config, state, w, &again, 0, outcome);
		drain_packets(config, state, outcome);
	}
	while (!outcome->violation && latency_may_start(config, &state->worker[w])) {
		latency_worker_step(config, state, w, &start, 0, outcome);
		outcome->count = 0; /* lost as well */
	}
}

static bool is_done(const struct latency_config *config, const struct latency_state *state)
{
	for (uint32_t w = 0; w < config->workers; w++) {
		if (state->worker[w].head != config->ops)
			return false;
		for (uint32_t i = 0; i < config->slots; i++)
			if (state->worker[w].slot[i].state != WORKER_LATENCY_IDLE)
				return false;
	}
	return true;
}

static const char *latency_check(const void *config_at, const void *state_at)
{
	const struct latency_config *config = config_at;
	struct latency_state state = *(const struct latency_state *)state_at;
	struct latency_outcome outcome = { 0 };

	memset(state.sent, 0, sizeof(state.sent));
	state.switch_life = state.life;
	for (uint32_t w = 0; w < config->workers; w++)
		if (state.worker[w].life < state.life)
			latency_worker_new(&state.worker[w], state.life);
	for (uint32_t turn = 0; turn < TURNS && !outcome.violation; turn++) {
		if (is_done(config, &state))
			return NULL;
		for (uint32_t w = 0; w < config->workers; w++)
			drain_worker(config, &state, w, &outcome);
	}
	return outcome.violation ? outcome.violation
				 : "LIVENESS: sending again and again does not finish";
}

void latency_model(struct bfs_model *model, const void *config)
{
	latency_world_forget();
	*model = (struct bfs_model){ .state_bytes = sizeof(struct latency_state),
				     .config = config,
				     .init = latency_init,
				     .expand = latency_expand,
				     .check = latency_check };
}
