/* SPDX-License-Identifier: Apache-2.0 */
/* data_worker.c - the steps of data.h's workers; see data_world.h. */
#include <assert.h>

#include "search/data_values.h"
#include "search/data_world.h"
#include "search/slow.h"

/* Everything is in reach. */
enum { REACH = DATA_OPS, ROWS = 2 * DATA_OPS * DATA_SHARDS * MAP_EXPRESS_SLOTS_MIN };
_Static_assert(DATA_POOL <= MAP_EXPRESS_SLOTS_MIN + 0, "rows of all streams have room");

/* A worker in full, for a step. */
struct scratch {
	struct worker worker;
	struct worker_shard shards[DATA_SHARDS];
	struct worker_slot slots[DATA_SHARDS * (MAP_EXPRESS_SLOTS_MIN + DATA_POOL)];
	struct worker_op_state ops[MAP_STREAMS][DATA_OPS];
	struct past_op past[REACH];
	uint8_t exponents[MAP_STREAMS][ROWS];
};

static struct worker_slot *scratch_slot(struct scratch *scratch, uint32_t cell)
{
	return &scratch->slots[world.cell[cell].shard * world.slots_all + world.cell[cell].slot];
}

static uint32_t ring_of(void)
{
	return world.config->ring ? world.config->ring : DATA_OPS;
}

static void scratch_init(struct scratch *scratch, uint32_t worker, uint32_t life)
{
	struct worker_memory memory = {
		.shards = scratch->shards,
		.slot = scratch->slots,
		.ops = { scratch->ops[0], scratch->ops[1] },
		.past = { .ops = scratch->past, .reach = REACH, .rows = DATA_OPS }
	};

	for (uint32_t i = 0; i < MAP_STREAMS; i++)
		memory.rows[i] = (struct past_rows){ scratch->exponents[i], ROWS };
	memset(scratch->ops, 0, sizeof(scratch->ops));
	worker_init(&scratch->worker, &world.map, world.slots_all, DATA_LANES, ring_of(), &memory);
	for (uint32_t i = 0; i < world.map.shards; i++) {
		scratch->shards[i].generation = GENERATION + life;
		scratch->shards[i].job = (uint16_t)world.parent[worker];
		scratch->shards[i].child = (uint16_t)world.child[worker];
	}
	for (uint32_t i = 0; i < world.map.shards * world.slots_all; i++)
		scratch->slots[i].seq = world.config->first_seq;
}

/* What was agreed of the chunks that are stored. */
static void past_load(const struct worker_state *from, struct scratch *scratch,
		      struct worker_op *op)
{
	struct past_rows *rows = &scratch->worker.stream[op->stream].rows;
	uint32_t index = (uint32_t)op->cookie, first = op_first_chunk(world.config, index);

	worker_place(&scratch->worker, op);
	past_open(rows, &op->place);
	for (uint32_t i = 0; i < op_chunks(world.config, index); i++)
		if (from->stored[first + i])
			past_note(rows, &op->place, i, exponent_max(world.config, first + i));
}

/* R-WK-18: that, and nothing else, is known after a step. */
static void past_judge(const struct worker_state *to, const struct scratch *scratch,
		       struct step *step)
{
	const uint8_t *known[MAP_STREAMS] = { scratch->exponents[0], scratch->exponents[1] };

	for (uint32_t i = 0; i < to->submitted; i++) {
		struct worker_op op = op_make(world.config, 0, i);
		uint32_t longest = world.map.shards * world.map.pool[op.stream];

		for (uint32_t c = 0; op.is_guessed && c < op_chunks(world.config, i) && c < longest;
		     c++) {
			uint32_t chunk = op_first_chunk(world.config, i) + c;
			uint32_t agreed = exponent_max(world.config, chunk);

			if (*known[op.stream]++ != (to->stored[chunk] ? agreed : PAST_OPEN))
				step_broken(step, "R-WK-18: what is known of a chunk is not its "
						  "agreed exponent");
		}
	}
}

static void ops_load(const struct worker_state *from, uint32_t worker, struct scratch *scratch)
{
	for (uint32_t i = 0; i < from->submitted; i++) {
		struct worker_op op = op_make(world.config, worker, i);
		struct worker_stream *stream = &scratch->worker.stream[op.stream];

		past_load(from, scratch, &op);
		stream->ops[stream->tail++ % ring_of()] =
			(struct worker_op_state){ .op = op,
						  .first = stream->chunks,
						  .chunks = op_chunks(world.config, i),
						  .done = from->done[i],
						  .full = map_full(op.shape, DATA_LANES) };
		stream->chunks += op_chunks(world.config, i);
	}
	for (uint32_t i = 0; i < MAP_STREAMS; i++)
		scratch->worker.stream[i].head = from->head[i];
}

static void worker_load(const struct worker_state *from, uint32_t worker, struct scratch *scratch)
{
	scratch_init(scratch, worker, from->life);
	ops_load(from, worker, scratch);
	for (uint32_t i = 0; i < world.map.shards; i++)
		for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
			scratch->shards[i].next[stream] = from->next[i][stream];
	for (uint32_t i = 0; i < world.cells; i++) {
		const struct slot_state *slot = &from->slot[i];

		*scratch_slot(scratch, i) = (struct worker_slot){ .k = slot->k,
								  .op = slot->op,
								  .seq = slot->seq,
								  .tag = slot->tag,
								  .lanes = slot->lanes,
								  .sent = slot->sent,
								  .governing = slot->governing,
								  .scale = slot->scale,
								  .state = slot->state,
								  .flags = slot->flags,
								  .is_probed = slot->is_probed,
								  .is_bare = slot->is_bare,
								  .is_kept = slot->is_kept };
	}
}

static void worker_save(struct scratch *scratch, struct worker_state *to)
{
	uint32_t at[MAP_STREAMS] = { 0 };

	to->submitted = 0;
	for (uint32_t i = 0; i < MAP_STREAMS; i++) {
		to->head[i] = (uint8_t)scratch->worker.stream[i].head;
		to->submitted += (uint8_t)scratch->worker.stream[i].tail;
	}
	for (uint32_t i = 0; i < to->submitted; i++) {
		uint32_t stream = op_make(world.config, 0, i).stream, number = at[stream]++;

		if (number + ring_of() >=
		    scratch->worker.stream[stream].tail) /* it is still there */
			to->done[i] = (uint8_t)scratch->ops[stream][number % ring_of()].done;
	}
	for (uint32_t i = 0; i < world.map.shards; i++)
		for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
			to->next[i][stream] = (uint8_t)scratch->shards[i].next[stream];
	for (uint32_t i = 0; i < world.cells; i++) {
		const struct worker_slot *slot = scratch_slot(scratch, i);
		struct slot_state *save = &to->slot[i];

		save->seq = slot->seq;
		save->tag = slot->tag;
		save->lanes = slot->lanes;
		save->sent = slot->sent;
		save->governing = slot->governing;
		save->scale = slot->scale;
		save->k = (uint8_t)slot->k;
		save->op = (uint8_t)slot->op;
		save->state = slot->state;
		save->flags = slot->flags;
		save->is_probed = slot->is_probed; /* is_resent matters to hints only */
		save->is_bare = slot->is_bare & 1;
		save->is_kept = slot->is_kept & 1;
	}
}

static uint32_t cell_find(uint32_t shard, uint32_t slot)
{
	uint32_t i = 0;

	while (world.cell[i].shard != shard || world.cell[i].slot != slot)
		i++;
	return i;
}

/* R-WK-16: what is left out is 0, and no more could be. */
static void worker_short(struct worker *worker, uint32_t shard,
			 const struct worker_actions *actions, struct packet *packet,
			 struct step *step)
{
	uint32_t lanes = actions->header.lanes;
	bool is_short = wire_op_of(actions->header.flags) == WIRE_ADD_SHORT;

	for (uint32_t i = lanes; i > 4 && is_short && !packet->lane[i - 1]; i--)
		lanes = (i - 1 + 3) / 4 * 4;
	packet->wire.lanes = worker_trim(worker, shard, actions, packet->lane);
	if (packet->wire.lanes != lanes)
		step_broken(step, "R-WK-16: a worker leaves out other lanes than zeros at the end");
}

/* build: the packet is composed as endpoint.c would, of values that are known beforehand. */
static void worker_build(uint32_t worker, uint32_t cell, const struct worker_actions *actions,
			 struct scratch *scratch, struct worker_state *to, struct step *step)
{
	struct packet packet = { .wire = actions->header,
				 .edge = (uint8_t)worker,
				 .is_up = true,
				 .cell = (uint8_t)cell };
	enum wire_round round = (enum wire_round)wire_round_of(actions->header.flags);
	uint32_t chunk = chunk_number(world.config, &actions->chunk);
	struct slot_state *slot = &to->slot[cell];

	packet.wire.exponent = WIRE_EXPONENT_UNKNOWN;
	if (actions->look == WORKER_AHEAD_ZERO)
		packet.wire.exponent = 0;
	if (actions->look == WORKER_AHEAD_SCAN)
		packet.wire.exponent = (uint16_t)exponent_of(
			world.config, worker, chunk_number(world.config, &actions->ahead));
	if (round == WIRE_GUESS)
		packet.wire.exponent = (uint16_t)(exponent_of(world.config, worker, chunk) * 256 +
						  packet.wire.exponent % 256);
	for (uint32_t i = 0; actions->lanes && i < chunk_lanes(world.config, &actions->chunk); i++)
		if (value_is_had(world.config, worker, chunk, i))
			packet.lane[i] = value_of(worker, chunk, round, i);
	worker_short(&scratch->worker, world.cell[cell].shard, actions, &packet, step);
	slot->sent = scratch_slot(scratch, cell)->sent;
	if ((round == WIRE_DATA || round == WIRE_GUESS) &&
	    world.config->sticky[worker] >> chunk & 1)
		packet.wire.flags |= WIRE_NONFINITE;
	if (round == WIRE_DATA && world.config->ops[actions->chunk.cookie].is_scaled &&
	    actions->build_scale != exponent_max(world.config, chunk))
		step_broken(step,
			    "EXP: a chunk is scaled by an exponent that is not the largest of all");
	step_make(step, &packet);
	slot->built[slot->seq & 1] = step->made[step->made_count - 1] + 1;
}

/* Those of the RESULT; of one without lanes, those in the slot's buffer, or none; or those of both (R-WK-15). */
static const int32_t *lanes_stored(uint32_t worker, const struct worker_actions *actions,
				   const struct packet *packet, const struct slot_state *was)
{
	const int32_t *own = packet_at(was->built[was->seq & 1] - 1)->lane;
	static int32_t both[DATA_LANES];

	uint32_t op = (uint32_t)actions->stored.cookie;
	uint32_t place =
		chunk_number(world.config, &actions->stored) - op_first_chunk(world.config, op);

	if (actions->is_bare && unwanted_of(world.config, op, place) >> worker & 1)
		return NULL;
	if (actions->is_bare)
		return own;
	for (uint32_t i = 0; i < DATA_LANES; i++)
		both[i] = (int32_t)((uint32_t)packet->lane[i] + (uint32_t)own[i]);
	return actions->is_joined ? both : packet->lane;
}

static void worker_store(const struct worker_actions *actions, const int32_t *lane,
			 struct worker_state *to, struct step *step)
{
	uint32_t chunk = chunk_number(world.config, &actions->stored);
	uint8_t before = actions->stored_round == WIRE_DETAIL ? 1 : 0;
	uint32_t op = (uint32_t)actions->stored.cookie;

	for (uint32_t i = 0; lane && i < chunk_lanes(world.config, &actions->stored); i++)
		if (lane[i] != value_sum(world.config, chunk, actions->stored_round, i))
			step_broken(step, "SUM: what is stored is not the sum over all workers");
	if (actions->stored_round == WIRE_GUESS && exponent_max(world.config, chunk) &&
	    (exponent_max(world.config, chunk) > actions->stored_scale ||
	     exponent_max(world.config, chunk) + 3 < actions->stored_scale))
		step_broken(step, "EXP: a guess is taken that is too low, or too high");
	if (to->stored[chunk] != before)
		step_broken(step, "W1: a chunk is stored twice, or out of turn");
	to->stored[chunk] = actions->is_amended_later ? 1 : 2;
	if (!actions->is_op_done)
		return;
	for (uint32_t i = 0; i < op_chunks(world.config, op); i++)
		if (to->stored[op_first_chunk(world.config, op) + i] != 2)
			step_broken(step, "an operation ends before all its chunks are stored");
}

/* M3, W1 and G1, by true numbers, however many bits of them are on the wire. */
static void worker_judge(const struct worker_state *before, const struct worker_state *to,
			 uint32_t cell, const struct worker_actions *actions,
			 const struct packet *packet, struct step *step)
{
	const struct slot_state *was = &before->slot[cell];
	uint32_t rounds = to->slot[cell].seq - was->seq;

	if (actions->is_protocol_error)
		step_broken(step, "R-WK-6: an accepted RESULT is of another round");
	if (actions->is_accepted && packet->wire.generation != GENERATION + before->life)
		step_broken(step, "G1: a RESULT of another life is accepted");
	if (actions->is_accepted &&
	    (was->state != WORKER_OUTSTANDING || packet->wire.seq != was->seq))
		step_broken(step, "W1: a RESULT is accepted that nobody waits for");
	if (rounds != actions->build ||
	    (rounds && was->state == WORKER_OUTSTANDING && !actions->is_accepted))
		step_broken(step, "M3: a round is built before the last one was accepted");
}

/* What the step says, and what it would say to what nearly is this packet, or to a HINT. */
static void worker_slow(uint32_t worker, const struct worker_state *before,
			const struct worker_event *event, const struct slow_event *asked,
			const struct worker_actions *actions, struct step *step)
{
	struct switch_job job = { .slots = world.slots_all, .children = 9, .lanes = DATA_LANES };
	const char *wrong = slow_worker(before, asked, actions);

	for (uint32_t i = 0; event->type == WORKER_PACKET && !wrong; i++) {
		struct slow_event near = *asked;
		struct worker_event changed = *event;
		struct worker_actions other;
		struct scratch scratch;
		struct wire wire = *event->packet;

		if (!slow_nearly(i / 4, &job, &wire))
			break;
		if (i / 2 % 2)
			wire.flags |= WIRE_HINT;
		if (wire.slot != event->packet->slot)
			continue; /* another's, or nobody's */
		near.wire = changed.packet = &wire;
		near.is_resent = i % 2;
		worker_load(before, worker, &scratch);
		scratch_slot(&scratch, asked->cell)->is_resent = near.is_resent;
		worker_step(&scratch.worker, &changed, &other);
		wrong = slow_worker(before, &near, &other);
		if (other.resend && (scratch_slot(&scratch, asked->cell)->is_probed ||
				     !scratch_slot(&scratch, asked->cell)->is_resent))
			wrong = "R-WK-5: a NEED is answered more than once";
	}
	if (wrong)
		step_broken(step, wrong);
}

static void worker_act(uint32_t worker, const struct worker_event *event,
		       const struct packet *packet, struct slow_event *asked,
		       struct worker_state *state, struct step *step)
{
	const struct worker_state before = *state;
	struct worker_event now = *event;
	struct worker_actions actions;
	struct worker_op called;
	struct scratch scratch;
	uint32_t cell = packet ? packet->cell : 0;

	worker_load(state, worker, &scratch);
	if (event->op) {
		called = *event->op;
		worker_place(&scratch.worker, &called);
		now.op = &called;
	}
	worker_step(&scratch.worker, &now, &actions);
	worker_save(&scratch, state);
	if (actions.build || actions.probe || actions.resend)
		cell = cell_find(event->shard, actions.slot);
	worker_judge(&before, state, cell, &actions, packet, step);
	if (slow_is_asked()) {
		asked->worker = worker;
		asked->cell = cell;
		asked->shard = world.cell[cell].shard;
		asked->slot = world.cell[cell].slot;
		asked->stream = asked->slot < world.map.base[MAP_BULK] ? MAP_EXPRESS : MAP_BULK;
		worker_slow(worker, &before, event, asked, &actions, step);
	}
	if (actions.build)
		worker_build(worker, cell, &actions, &scratch, state, step);
	if (actions.store)
		worker_store(&actions, lanes_stored(worker, &actions, packet, &before.slot[cell]),
			     state, step);
	past_judge(state, &scratch, step);
	if (actions.probe) {
		struct packet probe = { .wire = actions.header,
					.edge = (uint8_t)worker,
					.is_up = true,
					.cell = (uint8_t)cell };

		step_make(step, &probe);
	}
	if (actions.resend) {
		const struct slot_state *slot = &state->slot[cell];
		struct packet again = *packet_at(slot->built[slot->seq & 1] - 1);

		if (world.config->is_fifo)
			again.wire.flags |= WIRE_RESENT;
		step_make(step, &again);
	}
}

struct step worker_do(uint32_t worker, uint32_t part, enum worker_move move, uint32_t about)
{
	struct step_key key = {
		.kind = (uint8_t)move, .who = (uint8_t)worker, .part = part, .about = about
	};
	struct worker_state state;
	struct worker_event event = { .attempt = ATTEMPT };
	struct worker_op op;
	struct packet taken, seen; /* as it is, and with as much of its seq as is on the wire */
	struct slow_event asked = { 0 };
	struct step step = { 0 };
	uint32_t number;

	if (step_find(&key, &number))
		return world.steps[number];
	memcpy(&state, intern_get(&world.workers, part, NULL), sizeof(state));
	switch (move) {
	case DO_SUBMIT:
		op = op_make(world.config, worker, state.submitted);
		event.type = WORKER_SUBMIT;
		event.op = &op;
		break;
	case DO_START:
		event.type = WORKER_START;
		event.shard = about / MAP_STREAMS;
		event.stream = (enum map_stream)(about % MAP_STREAMS);
		break;
	case DO_PACKET:
		taken = *packet_at(about);
		seen = taken;
		seen.wire.seq = seq_seen(taken.wire.seq, state.slot[taken.cell].seq);
		event.type = WORKER_PACKET;
		event.shard = world.cell[taken.cell].shard;
		event.packet = &seen.wire;
		break;
	case DO_PROBE:
		event.type = WORKER_PROBE;
		event.shard = world.cell[about].shard;
		event.slot = world.cell[about].slot;
		break;
	}
	asked.move = move;
	asked.wire = event.packet;
	worker_act(worker, &event, move == DO_PACKET ? &taken : NULL, &asked, &state, &step);
	step.next = intern_put(&world.workers, &state, sizeof(state));
	world.steps[number] = step;
	return step;
}

/* Of its stream, from the first that is not complete on. */
static uint32_t ops_kept(const struct worker_state *state, enum map_stream stream)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < state->submitted; i++)
		if (op_make(world.config, 0, i).stream == stream &&
		    (count || state->done[i] < op_chunks(world.config, i)))
			count++;
	return count;
}

const char *worker_may_submit(uint32_t worker, uint32_t part, bool *may)
{
	struct step_key key = { .kind = STEP_MAY_SUBMIT, .who = (uint8_t)worker, .part = part };
	struct worker_state state;
	struct scratch scratch;
	uint32_t number;

	if (!step_find(&key, &number)) {
		memcpy(&state, intern_get(&world.workers, part, NULL), sizeof(state));
		if (state.submitted < world.config->ops_count) {
			enum map_stream stream = op_make(world.config, 0, state.submitted).stream;

			worker_load(&state, worker, &scratch);
			world.steps[number].next = worker_has_room(&scratch.worker, stream);
			if (world.steps[number].next != (ops_kept(&state, stream) < ring_of()))
				step_broken(&world.steps[number],
					    "an operation is refused and there is room, or is not");
		}
	}
	*may = world.steps[number].next;
	return world.steps[number].violation;
}

bool worker_may_begin(uint32_t worker, uint32_t part, uint32_t pair)
{
	struct step_key key = {
		.kind = STEP_MAY_BEGIN, .who = (uint8_t)worker, .part = part, .about = pair
	};
	struct worker_state state;
	struct scratch scratch;
	uint32_t number, slot;

	if (!step_find(&key, &number)) {
		memcpy(&state, intern_get(&world.workers, part, NULL), sizeof(state));
		worker_load(&state, worker, &scratch);
		world.steps[number].next = worker_may_start(&scratch.worker, pair / MAP_STREAMS,
							    (enum map_stream)(pair % MAP_STREAMS),
							    &slot);
	}
	return world.steps[number].next;
}

uint32_t worker_new(uint32_t worker, uint32_t life)
{
	struct worker_state state = { .life = (uint8_t)life };
	struct scratch scratch;

	scratch_init(&scratch, worker, life);
	worker_save(&scratch, &state);
	return intern_put(&world.workers, &state, sizeof(state));
}
