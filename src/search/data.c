/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - see data.h. */
#include "search/data.h"

#include <assert.h>
#include <string.h>

#include "core/switch.h"
#include "core/worker.h"

enum {
	PACKETS = 1024, /* different ones that can exist */
	TABLE = 4096,
	QUEUE = 2,
	SLOTS_ALL = MAP_EXPRESS_SLOTS_MIN + DATA_POOL,
	GENERATION = 40, /* of the first life */
	ANSWERS = 2 * DATA_WORKERS + 2,
	ATTEMPT = 1,
};

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

/* Who takes it: 0..DATA_WORKERS-1 is a worker. */
enum { TO_SWITCH = 255 };

struct packet {
	struct wire wire;
	int32_t lane[DATA_LANES];
	uint32_t to;
};

/* A worker's slot, field by field: no padding, no counters that only grow. */
struct slot_state {
	uint32_t seq, tag;
	uint16_t lanes, governing, scale;
	uint8_t k, op, state, flags, is_probed, is_resent;
};

struct worker_state {
	uint32_t generation;
	uint8_t submitted, head, next, reserved;
	uint8_t done[DATA_OPS];
	uint8_t stored[DATA_CHUNKS]; /* 0 no, 1 DATA with a DETAIL to come, 2 final */
	struct slot_state slot[DATA_POOL];
};

struct state {
	struct worker_state worker[DATA_WORKERS];
	uint32_t life, switch_life; /* the controller's newest, the switch's */
	struct switch_slot slot[DATA_POOL];
	int32_t sum[DATA_POOL][2][DATA_LANES];
	uint64_t sent[PACKETS / 64]; /* `set`: may arrive. FIFO: UPDATEs that were built */
	uint16_t queue[2 * DATA_WORKERS][QUEUE]; /* FIFO: packet + 1; first up, then down */
};
_Static_assert(sizeof(struct packet) == 60, "no padding: packets are compared as bytes");
_Static_assert(sizeof(struct slot_state) == 20, "no padding: states are compared as bytes");
_Static_assert(sizeof(struct switch_slot) == 72, "no padding: states are compared as bytes");
_Static_assert(sizeof(struct state) % 8 == 0, "no padding: states are compared as bytes");

/* Every packet that ever existed has a number. */
static struct packet packets[PACKETS];
static uint32_t packets_count;
static uint16_t packets_table[TABLE];

/* What one step makes. */
struct outcome {
	uint32_t packets[ANSWERS];
	uint32_t count;
	const char *violation;
};

/* ---- what is to be summed, known without any protocol ---- */

static int32_t value_of(uint32_t worker, uint32_t chunk, enum wire_round round, uint32_t lane)
{
	static const int32_t scale[DATA_WORKERS] = { 1, -1000, 1000000 };

	return (int32_t)(chunk * 8 + lane + 1 + (round == WIRE_DETAIL ? 400 : 0)) * scale[worker];
}

static uint32_t exponent_of(uint32_t worker, uint32_t chunk)
{
	return 100 + (worker * 5 + chunk * 3) % 7;
}

static uint32_t exponent_max(const struct data_config *config, uint32_t chunk)
{
	uint32_t max = 0;

	for (uint32_t w = 0; w < config->workers; w++)
		max = exponent_of(w, chunk) > max ? exponent_of(w, chunk) : max;
	return max;
}

static uint32_t op_first_chunk(const struct data_config *config, uint32_t op)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < op; i++)
		first += (uint32_t)map_chunks(config->ops[i].elements, DATA_LANES);
	return first;
}

static uint32_t chunk_number(const struct data_config *config, const struct worker_chunk *chunk)
{
	return op_first_chunk(config, (uint32_t)chunk->cookie) +
	       (uint32_t)(chunk->first / DATA_LANES);
}

static uint64_t op_hash(uint32_t op)
{
	return 0x1234567ull * (op + 1);
}

static struct worker_op op_make(const struct data_config *config, uint32_t op)
{
	return (struct worker_op){ .hash = op_hash(op),
				   .count = config->ops[op].elements,
				   .cookie = op,
				   .stream = MAP_BULK,
				   .is_scaled = config->ops[op].is_scaled };
}

static const char *round_name(uint8_t flags)
{
	static const char *const names[] = { "DATA", "EXPONENT", "DETAIL", "?" };

	return names[wire_round_of(flags)];
}

/* The chunk that a tag stands for, for people. */
static int tag_chunk(const struct data_config *config, uint32_t tag)
{
	for (uint32_t op = 0, chunk = 0; op < config->ops_count; op++)
		for (uint32_t i = 0; i < map_chunks(config->ops[op].elements, DATA_LANES);
		     i++, chunk++)
			if (map_tag(op_hash(op), i) == tag)
				return (int)chunk;
	return -1;
}

static void say_packet(struct bfs *bfs, const struct data_config *config, uint32_t number)
{
	static const char *const names[] = { "?",    "UPDATE", "PROBE",   "RESULT",
					     "HELD", "ACK",    "CONFIRM", "NEED" };
	const struct packet *packet = &packets[number];

	bfs_say(bfs, "%s[life %u slot %u seq %u", names[packet->wire.type],
		packet->wire.generation - GENERATION, packet->wire.slot, packet->wire.seq);
	if (packet->wire.type == WIRE_UPDATE || packet->wire.type == WIRE_RESULT)
		bfs_say(bfs, " %s chunk %d, %u lanes", round_name(packet->wire.flags),
			tag_chunk(config, packet->wire.tag), packet->wire.lanes);
	bfs_say(bfs, "]");
}

/* ---- packets and sets of them ---- */

static uint32_t packet_number(const struct packet *packet)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	const uint8_t *bytes = (const uint8_t *)packet;

	for (size_t i = 0; i < sizeof(*packet); i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3ull;
	for (uint32_t at = (uint32_t)(hash % TABLE);; at = (at + 1) % TABLE) {
		if (!packets_table[at]) {
			assert(packets_count < PACKETS);
			packets[packets_count] = *packet;
			packets_table[at] = (uint16_t)++packets_count;
		}
		if (!memcmp(&packets[packets_table[at] - 1], packet, sizeof(*packet)))
			return packets_table[at] - 1u;
	}
}

static bool set_has(const struct state *state, uint32_t number)
{
	return state->sent[number / 64] >> number % 64 & 1;
}

static void set_put(struct state *state, uint32_t number)
{
	state->sent[number / 64] |= 1ull << number % 64;
}

static void set_take(struct state *state, uint32_t number)
{
	state->sent[number / 64] &= ~(1ull << number % 64);
}

static void make(struct outcome *outcome, const struct packet *packet)
{
	assert(outcome->count < ANSWERS);
	outcome->packets[outcome->count++] = packet_number(packet);
}

static void broken(struct outcome *outcome, const char *violation)
{
	if (!outcome->violation)
		outcome->violation = violation;
}

/* The UPDATE that a worker has built for a round, if any. */
static const struct packet *update_of(const struct state *state, uint32_t worker,
				      const struct wire *round)
{
	for (uint32_t i = 0; i < packets_count; i++)
		if (set_has(state, i) && packets[i].to == TO_SWITCH &&
		    packets[i].wire.type == WIRE_UPDATE && packets[i].wire.child == worker &&
		    packets[i].wire.generation == round->generation &&
		    packets[i].wire.slot == round->slot && packets[i].wire.seq == round->seq)
			return &packets[i];
	return NULL;
}

/* ---- the worker ---- */

struct scratch {
	struct worker worker;
	struct worker_shard shard;
	struct worker_slot slots[SLOTS_ALL];
	struct worker_op_state ops[MAP_STREAMS][DATA_OPS];
};

static uint32_t slots_all(const struct data_config *config)
{
	return MAP_EXPRESS_SLOTS_MIN + config->pool;
}

static void scratch_init(const struct data_config *config, struct scratch *scratch)
{
	struct worker_memory memory = { &scratch->shard,
					scratch->slots,
					{ scratch->ops[0], scratch->ops[1] } };
	struct map map;

	if (!map_init(&map, 1, slots_all(config), 1))
		assert(0);
	worker_init(&scratch->worker, &map, slots_all(config), DATA_LANES, DATA_OPS, &memory);
	for (uint32_t i = 0; i < slots_all(config); i++)
		scratch->slots[i].seq = config->first_seq;
}

static void worker_load(const struct data_config *config, const struct worker_state *from,
			struct scratch *scratch)
{
	struct worker_stream *stream;

	scratch_init(config, scratch);
	stream = &scratch->worker.stream[MAP_BULK];
	scratch->shard.generation = from->generation;
	scratch->shard.next[MAP_BULK] = from->next;
	for (uint32_t op = 0; op < from->submitted; op++) {
		stream->ops[op] = (struct worker_op_state){
			.op = op_make(config, op),
			.first = op_first_chunk(config, op),
			.chunks = map_chunks(config->ops[op].elements, DATA_LANES),
			.done = from->done[op],
		};
	}
	stream->head = from->head;
	stream->tail = from->submitted;
	stream->chunks = op_first_chunk(config, from->submitted);
	for (uint32_t i = 0; i < config->pool; i++) {
		const struct slot_state *slot = &from->slot[i];

		scratch->slots[MAP_EXPRESS_SLOTS_MIN + i] =
			(struct worker_slot){ .k = slot->k,
					      .op = slot->op,
					      .seq = slot->seq,
					      .tag = slot->tag,
					      .lanes = slot->lanes,
					      .governing = slot->governing,
					      .scale = slot->scale,
					      .state = slot->state,
					      .flags = slot->flags,
					      .is_probed = slot->is_probed,
					      .is_resent = slot->is_resent };
	}
}

static void worker_save(const struct data_config *config, const struct scratch *scratch,
			struct worker_state *to)
{
	const struct worker_stream *stream = &scratch->worker.stream[MAP_BULK];

	to->generation = scratch->shard.generation;
	to->next = (uint8_t)scratch->shard.next[MAP_BULK];
	to->head = (uint8_t)stream->head;
	to->submitted = (uint8_t)stream->tail;
	for (uint32_t op = 0; op < to->submitted; op++)
		to->done[op] = (uint8_t)stream->ops[op].done;
	for (uint32_t i = 0; i < config->pool; i++) {
		const struct worker_slot *slot = &scratch->slots[MAP_EXPRESS_SLOTS_MIN + i];
		struct slot_state *at = &to->slot[i];

		at->seq = slot->seq;
		at->tag = slot->tag;
		at->lanes = slot->lanes;
		at->governing = slot->governing;
		at->scale = slot->scale;
		at->k = (uint8_t)slot->k;
		at->op = (uint8_t)slot->op;
		at->state = slot->state;
		at->flags = slot->flags;
		at->is_probed = config->is_fifo ? slot->is_probed : 0; /* decides only what is sent
									  again: the set has it */
		at->is_resent = 0;                                     /* matters to hints only */
	}
}

/* build: the packet is composed as endpoint.c would, of values that are known beforehand. */
static void worker_build(const struct data_config *config, struct state *state, uint32_t worker,
			 const struct worker_actions *actions, struct outcome *outcome)
{
	struct packet packet = { .wire = actions->header, .to = TO_SWITCH };
	enum wire_round round = (enum wire_round)wire_round_of(actions->header.flags);
	uint32_t chunk = chunk_number(config, &actions->chunk);
	const struct packet *other;

	packet.wire.exponent = WIRE_EXPONENT_UNKNOWN;
	if (actions->look == WORKER_AHEAD_ZERO)
		packet.wire.exponent = 0;
	if (actions->look == WORKER_AHEAD_SCAN)
		packet.wire.exponent =
			(uint16_t)exponent_of(worker, chunk_number(config, &actions->ahead));
	if (round != WIRE_EXPONENT)
		for (uint32_t i = 0; i < actions->chunk.elements; i++)
			packet.lane[i] = value_of(worker, chunk, round, i);
	if (round == WIRE_DATA && config->sticky[worker] >> chunk & 1)
		packet.wire.flags |= WIRE_NONFINITE;
	if (round == WIRE_DATA && config->ops[actions->chunk.cookie].is_scaled &&
	    actions->build_scale != exponent_max(config, chunk))
		broken(outcome,
		       "EXP: a chunk is scaled by an exponent that is not the largest of all");
	other = update_of(state, worker, &packet.wire);
	if (other && memcmp(other, &packet, sizeof(packet)) != 0)
		broken(outcome, "M3: one round of one worker has two contents");
	set_put(state, packet_number(&packet));
	make(outcome, &packet);
}

static void worker_store(const struct data_config *config, struct worker_state *to,
			 const struct worker_actions *actions, const struct packet *packet,
			 struct outcome *outcome)
{
	uint32_t chunk = chunk_number(config, &actions->stored);
	uint8_t before = actions->stored_round == WIRE_DETAIL ? 1 : 0;

	for (uint32_t i = 0; i < actions->stored.elements; i++) {
		int32_t sum = 0;

		for (uint32_t w = 0; w < config->workers; w++)
			sum += value_of(w, chunk, actions->stored_round, i);
		if (packet->lane[i] != sum)
			broken(outcome, "SUM: what is stored is not the sum over all workers");
	}
	if (to->stored[chunk] != before)
		broken(outcome, "W1: a chunk is stored twice, or out of turn");
	to->stored[chunk] = actions->is_amended_later ? 1 : 2;
	if (!actions->is_op_done)
		return;
	for (uint32_t op = (uint32_t)actions->stored.cookie, i = op_first_chunk(config, op);
	     i < op_first_chunk(config, op + 1); i++)
		if (to->stored[i] != 2)
			broken(outcome, "an operation ends before all its chunks are stored");
}

static void worker_event(const struct data_config *config, struct state *state, uint32_t worker,
			 const struct worker_event *event, const struct packet *packet,
			 struct outcome *outcome)
{
	struct worker_state *to = &state->worker[worker];
	struct worker_actions actions;
	struct scratch scratch;

	worker_load(config, to, &scratch);
	scratch.shard.child = (uint16_t)worker;
	worker_step(&scratch.worker, event, &actions);
	worker_save(config, &scratch, to);
	if (actions.is_protocol_error)
		broken(outcome, "R-WK-6: an accepted RESULT is of another round");
	if (actions.build)
		worker_build(config, state, worker, &actions, outcome);
	if (actions.store)
		worker_store(config, to, &actions, packet, outcome);
	if (actions.probe) {
		struct packet probe = { .wire = actions.header, .to = TO_SWITCH };

		make(outcome, &probe);
	}
	if (actions.resend) {
		struct wire round = { .generation = to->generation,
				      .slot = (uint16_t)actions.slot,
				      .seq = to->slot[actions.slot - MAP_EXPRESS_SLOTS_MIN].seq };
		const struct packet *again = update_of(state, worker, &round);

		assert(again);
		make(outcome, again);
	}
}

/* ---- the switch ---- */

/* M1: a RESULT is the exact combination over all workers of one round. */
static void result_check(const struct data_config *config, const struct state *state,
			 const struct packet *result, struct outcome *outcome)
{
	int32_t sum[DATA_LANES] = { 0 };
	uint32_t exponent = 0, sticky = 0;

	for (uint32_t w = 0; w < config->workers; w++) {
		const struct packet *update = update_of(state, w, &result->wire);

		if (!update) {
			broken(outcome, "M1: RESULT of a round that some worker has not sent");
			return;
		}
		if (update->wire.tag != result->wire.tag ||
		    update->wire.lanes != result->wire.lanes ||
		    (update->wire.flags ^ result->wire.flags) & WIRE_KIND_MASK) {
			broken(outcome, "M1: RESULT with the tag, lanes or kind of another round");
			return;
		}
		for (uint32_t i = 0; i < update->wire.lanes; i++)
			sum[i] += update->lane[i];
		exponent = update->wire.exponent > exponent ? update->wire.exponent : exponent;
		sticky |= update->wire.flags & WIRE_STICKY_MASK;
	}
	if (memcmp(sum, result->lane, result->wire.lanes * sizeof(*sum)) != 0)
		broken(outcome, "M1: RESULT is not the exact sum");
	if (exponent != result->wire.exponent || sticky != (result->wire.flags & WIRE_STICKY_MASK))
		broken(outcome, "M1: RESULT has another exponent or other flags");
}

static enum switch_verdict switch_take(const struct data_config *config, struct state *state,
				       const struct packet *packet, struct outcome *outcome)
{
	struct switch_job job = { .generation = GENERATION + state->switch_life,
				  .lanes = DATA_LANES,
				  .slots = (uint16_t)slots_all(config),
				  .enabled = 1 };
	struct packet answer = { .wire = packet->wire };
	uint32_t index = packet->wire.slot - MAP_EXPRESS_SLOTS_MIN;
	enum switch_verdict verdict;

	switch_job_fill(&job, config->workers);
	verdict = switch_admit(&job, &packet->wire);
	if (verdict != SWITCH_ABSORB)
		return verdict;
	verdict = switch_step(&job, &state->slot[index], state->sum[index][0], DATA_LANES,
			      &answer.wire, packet->lane, NULL);
	if (verdict == SWITCH_MISMATCH)
		broken(outcome, "MISMATCH without any disagreement");
	if (verdict == SWITCH_DROP_ALARM)
		broken(outcome, "I2: a phase opens before the last one is complete");
	if (verdict != SWITCH_REPLY && verdict != SWITCH_MULTICAST)
		return verdict;
	if (answer.wire.type == WIRE_RESULT) {
		memcpy(answer.lane, state->sum[index][switch_copy_of(answer.wire.seq)],
		       answer.wire.lanes * sizeof(*answer.lane));
		result_check(config, state, &answer, outcome);
	}
	for (uint32_t w = 0; w < config->workers; w++) {
		answer.to = w;
		if (verdict == SWITCH_MULTICAST || w == packet->wire.child)
			make(outcome, &answer);
	}
	return verdict;
}

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
	packets_count = 0;
	memset(packets_table, 0, sizeof(packets_table));
	*model = (struct bfs_model){ .state_bytes = sizeof(struct state),
				     .config = config,
				     .init = data_init,
				     .expand = data_expand,
				     .check = data_check };
}
