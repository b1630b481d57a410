/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - see data.h. */
#include "search/data.h"

#include <assert.h>
#include <string.h>

#include "search/data_world.h"

enum move {
	MOVE_SUBMIT = 1,
	MOVE_START,
	MOVE_TAKE,
	MOVE_PROBE,
	MOVE_LOSE,
	MOVE_DOUBLE,
	MOVE_LIFE,
	MOVE_SWITCH,
	MOVE_RESTART
};

/* ---- moves ---- */

static void take(const struct data_config *config, struct state *state, uint32_t number,
		 struct outcome *outcome)
{
	const struct packet packet = packets[number];
	struct worker_event event = { .type = WORKER_PACKET, .packet = &packet.wire };

	if (packet.to == TO_SWITCH)
		switch_take(config, state, &packet, outcome);
	else
		worker_event(config, state, packet.to, &event, &packet, outcome);
}

/* Deletes what can never act again. */
static void canon(const struct data_config *config, struct state *state)
{
	for (uint32_t i = 0; i < packets_count; i++) {
		const struct wire *wire = &packets[i].wire;
		uint32_t index = wire->slot - MAP_EXPRESS_SLOTS_MIN;
		const struct switch_slot *slot = &state->slot[index];
		bool is_dead;

		if (!set_has(state, i))
			continue;
		if (packets[i].to == TO_SWITCH) {
			is_dead = wire->generation < GENERATION + state->switch_life ||
				  (wire->generation == slot->generation &&
				   (int32_t)(wire->seq - slot->phase) < -1);
		} else {
			const struct worker_state *to = &state->worker[packets[i].to];

			is_dead = (!TAKEN_OUT(WORKER_GENERATION) &&
				   wire->generation < to->generation) ||
				  (!TAKEN_OUT(WORKER_SEQ) && wire->generation == to->generation &&
				   (int32_t)(wire->seq - to->slot[index].seq) < 0);
		}
		if (is_dead)
			set_take(state, i);
	}
	(void)config;
}

/* A queue that is full loses what is sent into it. */
static void queue_put(struct state *state, uint32_t queue, uint32_t number)
{
	for (uint32_t i = 0; i < QUEUE; i++) {
		if (!state->queue[queue][i]) {
			state->queue[queue][i] = (uint16_t)(number + 1);
			return;
		}
	}
}

static void queue_drop_head(struct state *state, uint32_t queue)
{
	for (uint32_t i = 0; i + 1 < QUEUE; i++)
		state->queue[queue][i] = state->queue[queue][i + 1];
	state->queue[queue][QUEUE - 1] = 0;
}

static void finish(const struct data_config *config, struct bfs *bfs, struct state *next,
		   uint32_t move, const struct outcome *outcome)
{
	for (uint32_t i = 0; i < outcome->count; i++) {
		const struct packet *packet = &packets[outcome->packets[i]];
		bool is_up = packet->to == TO_SWITCH;

		if (config->is_fifo)
			queue_put(next, is_up ? packet->wire.child : DATA_WORKERS + packet->to,
				  outcome->packets[i]);
		else if (packet->wire.type == WIRE_UPDATE || packet->wire.type == WIRE_RESULT)
			set_put(next, outcome->packets[i]);
		if (bfs_is_telling(bfs)) {
			if (is_up)
				bfs_say(bfs, "; rank %u sends ", packet->wire.child);
			else
				bfs_say(bfs, "; to rank %u: ", packet->to);
			say_packet(bfs, config, outcome->packets[i]);
		}
	}
	canon(config, next);
	bfs_emit(bfs, next, move, outcome->violation);
}

static uint32_t move_of(enum move move, uint32_t a, uint32_t b)
{
	return (uint32_t)move << 24 | a << 12 | b;
}

static bool may_start(const struct data_config *config, const struct worker_state *worker)
{
	struct scratch scratch;
	uint32_t slot;

	worker_load(config, worker, &scratch);
	return worker_may_start(&scratch.worker, 0, MAP_BULK, &slot);
}

static void expand_worker(const struct data_config *config, const struct state *state, uint32_t w,
			  struct bfs *bfs)
{
	const struct worker_state *worker = &state->worker[w];
	struct worker_op op;
	struct worker_event event;
	struct outcome outcome;
	struct state next;

	if (worker->submitted < config->ops_count) {
		next = *state;
		outcome = (struct outcome){ 0 };
		op = op_make(config, worker->submitted);
		event = (struct worker_event){ .type = WORKER_SUBMIT, .op = &op };
		bfs_say(bfs, "rank %u submits operation %u", w, worker->submitted);
		worker_event(config, &next, w, &event, NULL, &outcome);
		finish(config, bfs, &next, move_of(MOVE_SUBMIT, w, 0), &outcome);
	}
	if (may_start(config, worker)) {
		next = *state;
		outcome = (struct outcome){ 0 };
		event = (struct worker_event){ .type = WORKER_START, .stream = MAP_BULK };
		bfs_say(bfs, "rank %u starts its next chunk", w);
		worker_event(config, &next, w, &event, NULL, &outcome);
		finish(config, bfs, &next, move_of(MOVE_START, w, 0), &outcome);
	}
	for (uint32_t i = 0; i < config->pool; i++) {
		/* In a FIFO a worker asks when nothing of its own is on its way up. */
		if (worker->slot[i].state != WORKER_OUTSTANDING || state->queue[w][0])
			continue;
		next = *state;
		outcome = (struct outcome){ 0 };
		event = (struct worker_event){ .type = WORKER_PROBE,
					       .slot = MAP_EXPRESS_SLOTS_MIN + i,
					       .attempt = ATTEMPT };
		bfs_say(bfs, "rank %u asks about slot %u", w, event.slot);
		worker_event(config, &next, w, &event, NULL, &outcome);
		if (!config->is_fifo) /* in a set the question can arrive at once, or never */
			take(config, &next, outcome.packets[0], &outcome);
		finish(config, bfs, &next, move_of(MOVE_PROBE, w, i), &outcome);
	}
	if (worker->generation < GENERATION + state->life) {
		struct scratch scratch;

		next = *state;
		outcome = (struct outcome){ 0 };
		scratch_init(config, &scratch);
		scratch.shard.generation = GENERATION + state->life;
		memset(&next.worker[w], 0, sizeof(next.worker[w]));
		worker_save(config, &scratch, &next.worker[w]);
		bfs_say(bfs, "rank %u starts life %u", w, state->life);
		finish(config, bfs, &next, move_of(MOVE_RESTART, w, 0), &outcome);
	}
}

static void expand_arrival(const struct data_config *config, const struct state *state,
			   uint32_t number, struct bfs *bfs)
{
	struct outcome outcome = { 0 };
	struct state next = *state;

	if (packets[number].to == TO_SWITCH)
		bfs_say(bfs, "the switch takes rank %u's ", packets[number].wire.child);
	else
		bfs_say(bfs, "rank %u takes ", packets[number].to);
	say_packet(bfs, config, number);
	take(config, &next, number, &outcome);
	finish(config, bfs, &next, move_of(MOVE_TAKE, number, 0), &outcome);
}

static void expand_queue(const struct data_config *config, const struct state *state,
			 uint32_t queue, struct bfs *bfs)
{
	uint32_t head = state->queue[queue][0];
	struct outcome outcome = { 0 };
	struct state next = *state;

	if (!head)
		return;
	bfs_say(bfs, "lost: ");
	say_packet(bfs, config, head - 1);
	queue_drop_head(&next, queue);
	finish(config, bfs, &next, move_of(MOVE_LOSE, queue, 0), &outcome);
	for (uint32_t keep = 0; keep < 2; keep++) {
		next = *state;
		outcome = (struct outcome){ 0 };
		if (!keep)
			queue_drop_head(&next, queue);
		bfs_say(bfs, "%s%s takes ", keep ? "(a copy) " : "",
			queue < DATA_WORKERS ? "the switch" : "a rank");
		say_packet(bfs, config, head - 1);
		take(config, &next, head - 1, &outcome);
		finish(config, bfs, &next, move_of(keep ? MOVE_DOUBLE : MOVE_TAKE, queue, 0),
		       &outcome);
	}
}

static void data_expand(const void *config_at, const void *state_at, struct bfs *bfs)
{
	const struct data_config *config = config_at;
	const struct state *state = state_at;
	struct outcome none = { 0 };
	struct state next;

	for (uint32_t w = 0; w < config->workers; w++)
		expand_worker(config, state, w, bfs);
	for (uint32_t queue = 0; config->is_fifo && queue < 2 * DATA_WORKERS; queue++)
		expand_queue(config, state, queue, bfs);
	for (uint32_t i = 0, count = packets_count; !config->is_fifo && i < count; i++)
		if (set_has(state, i))
			expand_arrival(config, state, i, bfs);
	if (state->life + 1 < config->generations) {
		next = *state;
		next.life++;
		bfs_say(bfs, "the controller starts life %u", next.life);
		finish(config, bfs, &next, move_of(MOVE_LIFE, 0, 0), &none);
	}
	if (state->switch_life < state->life) {
		next = *state;
		next.switch_life = state->life;
		bfs_say(bfs, "the switch is set to life %u", next.life);
		finish(config, bfs, &next, move_of(MOVE_SWITCH, 0, 0), &none);
	}
}

static void data_init(const void *config_at, void *state_at)
{
	const struct data_config *config = config_at;
	struct state *state = state_at;
	struct scratch scratch;

	scratch_init(config, &scratch);
	scratch.shard.generation = GENERATION;
	for (uint32_t w = 0; w < config->workers; w++)
		worker_save(config, &scratch, &state->worker[w]);
	if (!config->first_seq)
		return; /* slots of another generation: the first UPDATE re-initialises them */
	for (uint32_t i = 0; i < config->pool; i++) {
		struct switch_job job = { 0 };

		switch_job_fill(&job, config->workers);
		switch_slot_reset(&job, &state->slot[i], GENERATION);
		state->slot[i].phase = config->first_seq;
	}
}

/* ---- liveness: from every state, lose all that is in flight; PROBE and NEED alone must finish ---- */

static void drain_packets(const struct data_config *config, struct state *state,
			  struct outcome *outcome)
{
	for (uint32_t steps = 0; outcome->count && !outcome->violation && steps < 1000; steps++) {
		uint32_t number = outcome->packets[--outcome->count];

		take(config, state, number, outcome);
	}
}

static void drain_worker(const struct data_config *config, struct state *state, uint32_t w,
			 struct outcome *outcome)
{
	struct worker_state *worker = &state->worker[w];

	for (uint32_t i = 0; i < config->pool; i++) {
		struct worker_event event = { .type = WORKER_PROBE,
					      .slot = MAP_EXPRESS_SLOTS_MIN + i,
					      .attempt = ATTEMPT };

		if (worker->slot[i].state != WORKER_OUTSTANDING)
			continue;
		worker_event(config, state, w, &event, NULL, outcome);
		worker->slot[i].is_probed = 1; /* a set's states do not keep it */
		drain_packets(config, state, outcome);
	}
	while (may_start(config, worker) && !outcome->violation) {
		struct worker_event event = { .type = WORKER_START, .stream = MAP_BULK };

		worker_event(config, state, w, &event, NULL, outcome);
		outcome->count = 0; /* lost as well */
	}
}

static bool is_all_stored(const struct data_config *config, const struct state *state)
{
	for (uint32_t w = 0; w < config->workers; w++)
		for (uint32_t c = 0; c < op_first_chunk(config, config->ops_count); c++)
			if (state->worker[w].stored[c] != 2)
				return false;
	return true;
}

static void drain_setup(const struct data_config *config, struct state *state,
			struct outcome *outcome)
{
	memset(state->queue, 0, sizeof(state->queue));
	state->switch_life = state->life;
	for (uint32_t w = 0; w < config->workers; w++) {
		struct worker_state *worker = &state->worker[w];

		if (worker->generation < GENERATION + state->life) {
			struct scratch scratch;

			scratch_init(config, &scratch);
			scratch.shard.generation = GENERATION + state->life;
			memset(worker, 0, sizeof(*worker));
			worker_save(config, &scratch, worker);
		}
		while (worker->submitted < config->ops_count) {
			struct worker_op op = op_make(config, worker->submitted);
			struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };

			worker_event(config, state, w, &event, NULL, outcome);
		}
	}
}

static const char *data_check(const void *config_at, const void *state_at)
{
	struct data_config config = *(const struct data_config *)config_at;
	struct state state = *(const struct state *)state_at;
	struct outcome outcome = { 0 };

	for (uint32_t i = 0; i < config.pool; i++) {
		uint64_t full = (1ull << config.workers) - 1;

		if (state.slot[i].final && (state.slot[i].bitmap[0] & full) != full)
			return "S1: final without a full bitmap";
	}
	config.is_fifo = true; /* keeps is_probed: NEED must be answered here */
	drain_setup(&config, &state, &outcome);
	for (uint32_t turn = 0; turn < 100 && !outcome.violation; turn++) {
		if (is_all_stored(&config, &state))
			return NULL;
		for (uint32_t w = 0; w < config.workers; w++)
			drain_worker(&config, &state, w, &outcome);
	}
	return outcome.violation ? outcome.violation
				 : "LIVENESS: asking and sending again does not finish";
}

void data_model(struct bfs_model *model, const void *config)
{
	packets_forget();
	*model = (struct bfs_model){ .state_bytes = sizeof(struct state),
				     .config = config,
				     .init = data_init,
				     .expand = data_expand,
				     .check = data_check };
}
